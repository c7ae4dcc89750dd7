/* The pipeline on training graphs of transformers that grow: what is planned grows with the layers, one by one; time with
 * the nodes; memory is what the largest live set takes. Prints a table; COMPILE_SCALE=all for all of its rows, up to 32,000
 * nodes. */
#include "compile/compile.h"
#include "support/test.h"
#include "support/train_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One row: the figures of a compilation that went well. */
typedef struct row {
  int64_t layers;
  compile_report report;
  int64_t arena, bound;
  double cpu_s; /* the machine may be busy */
} row;

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static sn_status compile(sn_ctx *ctx, const train_graph_options *o, row *out) {
  sn_graph *g;
  compiled c;
  SN_TRY(train_graph_build(ctx, o, &g));
  double before = cpu_now();
  sn_status status = compile_graph(g, NULL, &c);
  if (status == SN_OK)
    *out = (row){o->layers, c.report, c.program->arena_bytes, c.program->lower_bound,
                 cpu_now() - before};
  compile_destroy(&c);
  sn_graph_destroy(g);
  return status;
}

static void print_head(void) {
  printf(
      "layers  nodes  lowered  steps launches barriers    check    opt  lower   fuse  order  place "
      "verify  total s    cpu s   arena MB   bound MB  e-graph\n");
}

static void print(const row *r) {
  const compile_report *p = &r->report;
  printf(
      "%6lld %6lld %8lld %6lld %8lld %8lld   %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f   %6.3f   "
      "%6.3f %10.1f %10.1f  %s\n",
      (long long)r->layers, (long long)p->nodes_before, (long long)p->nodes_after,
      (long long)p->steps, (long long)p->launches, (long long)p->barriers, p->phase_s.check,
      p->phase_s.opt, p->phase_s.lower, p->phase_s.fuse, p->phase_s.order, p->phase_s.place,
      p->phase_s.verify, p->total_s, r->cpu_s, (double)r->arena / 1e6, (double)r->bound / 1e6,
      opt_stop_name(p->opt.stop));
}

static bool measure(const train_graph_options *o, row *out) {
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  sn_status status = compile(ctx, o, out);
  if (status == SN_OK)
    print(out);
  else
    FAIL("%lld layers: %s", (long long)o->layers, sn_ctx_message(ctx));
  sn_ctx_destroy(ctx);
  return status == SN_OK;
}

/* Whether a count keeps the slope that a and b give it, at c; within 2 % (a long list may take a part more). */
static void check_linear(const char *what, const row *a, int64_t at_a, const row *b, int64_t at_b,
                         const row *c, int64_t at_c) {
  double slope = (double)(at_b - at_a) / (double)(b->layers - a->layers);
  double want = (double)at_a + slope * (double)(c->layers - a->layers);
  if (!((double)at_c <= 1.02 * want && (double)at_c >= 0.98 * want))
    FAIL("%lld layers: %lld %s, expected %.1f", (long long)c->layers, (long long)at_c, what, want);
}

static void check_memory(const row *r) {
  CHECK(r->bound > 0 && r->arena >= r->bound);
  if (!((double)r->arena <= 1.05 * (double)r->bound))
    FAIL("%lld layers: arena of %lld bytes, at least %lld", (long long)r->layers,
         (long long)r->arena, (long long)r->bound);
}

static void check_row(const row *a, const row *b, const row *c) {
  const compile_report *x = &a->report, *y = &b->report, *z = &c->report;
  check_linear("steps", a, x->steps, b, y->steps, c, z->steps);
  check_linear("launches", a, x->launches, b, y->launches, c, z->launches);
  check_linear("barriers", a, x->barriers, b, y->barriers, c, z->barriers);
  check_linear("lowered nodes", a, x->nodes_after, b, y->nodes_after, c, z->nodes_after);
  check_linear("bytes", a, a->arena, b, b->arena, c, c->arena);
  /* Generous: the machine may be busy, and sanitizers are slow. The table is what to read. */
  double first = a->cpu_s / (double)x->nodes_before, here = c->cpu_s / (double)z->nodes_before;
  if (!(here < 6 * first))
    FAIL("%lld layers: %.3g s a node, %.3g at %lld", (long long)c->layers, here, first,
         (long long)a->layers);
}

/* SmolLM2's sizes, [4, 512] tokens. */
TEST(plans_grow_with_the_layers) {
  static const int64_t all[] = {3, 6, 12, 24, 30, 48, 64, 96, 104}, few[] = {3, 6, 24, 48};
  bool whole = getenv("COMPILE_SCALE") != NULL;
  const int64_t *sizes = whole ? all : few;
  row rows[9];
  int n = whole ? 9 : 4;
  print_head();
  for (int i = 0; i < n; i++) {
    train_graph_options o = train_graph_smollm2(sizes[i]);
    REQUIRE(measure(&o, &rows[i]));
    check_memory(&rows[i]);
    if (i > 1)
      check_row(&rows[0], &rows[1], &rows[i]);
  }
}

/* Only the layers' results are kept for the backward pass: a large part of the peak, for a few more steps. */
TEST(marked_recomputation_saves_memory) {
  train_graph_options o = train_graph_smollm2(30);
  row plain, marked;
  print_head();
  REQUIRE(measure(&o, &plain));
  o.recompute = true;
  REQUIRE(measure(&o, &marked));
  check_memory(&marked);
  CHECK((double)marked.arena <= 0.6 * (double)plain.arena);
  CHECK(marked.report.steps < 2 * plain.report.steps);
}
