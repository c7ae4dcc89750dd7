/* Random graphs: optimised and not compute the same, never at a higher cost; a failure is shrunk to a small text.
 * And what must hold of any graph: budgets that run out, memory that runs out. */
#include "opt/opt.h"
#include "support/fault.h"
#include "support/graph_same.h"
#include "support/random_graph.h"
#include "support/test.h"
#include "support/train_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 500 };

typedef struct trial {
  opt_options o;
  bool ran; /* the input itself runs */
  char why[500];
} trial;

/* Whether the optimised graph is wrong. */
static bool wrong(void *user, const random_graph *r) {
  trial *t = user;
  sn_graph *after = NULL;
  opt_report report;
  if (opt_run(r->g, &t->o, &after, &report) != SN_OK || sn_graph_verify(after) != SN_OK) {
    snprintf(t->why, sizeof t->why, "%s", sn_ctx_message(r->ctx));
    sn_graph_destroy(after);
    return true;
  }
  static const int64_t bindings[] = {5};
  graph_same exact = {.mode = REF_F64,
                      .tolerance = 1e-5,
                      .bindings = bindings,
                      .fill = random_graph_fill,
                      .user = (void *)(uintptr_t)r};
  graph_same rounded = exact;
  rounded.mode = REF_F32;
  rounded.tolerance = 1e-3;
  /* Folded constants are rounded to f32, which the first run does not do; what both show is wrong. */
  graph_verdict verdict = graph_compare(&exact, r->g, after, t->why, sizeof t->why);
  t->ran = verdict != GRAPHS_FAIL;
  bool bad = verdict == GRAPHS_DIFFER &&
             graph_compare(&rounded, r->g, after, t->why, sizeof t->why) == GRAPHS_DIFFER;
  if (!bad && report.cost_after > report.cost_before) {
    snprintf(t->why, sizeof t->why, "the cost rises from %g to %g", report.cost_before,
             report.cost_after);
    bad = true;
  }
  sn_graph_destroy(after);
  return bad;
}

/* Whether the graph could be run at all. */
static bool check_seed(uint64_t seed, const opt_options *o) {
  sn_ctx *ctx = NULL;
  random_graph r;
  trial t = {.o = *o};
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  if (random_graph_make(&r, ctx, seed, 8 + (int)(seed % 40)) != SN_OK)
    FAIL("seed %llu: %s", (unsigned long long)seed, sn_ctx_message(ctx));
  else if (wrong(&t, &r)) {
    char *text = NULL, whole[500];
    snprintf(whole, sizeof whole, "%s", t.why);
    random_graph_shrink(&r, wrong, &t);
    (void)!sn_graph_print(r.g, &text);
    FAIL("seed %llu: %s; shrunk: %s\n%s", (unsigned long long)seed, whole, t.why, text ? text : "");
    sn_text_free(ctx, text);
  }
  random_graph_end(&r);
  sn_ctx_destroy(ctx);
  return t.ran;
}

static uint64_t graphs(void) {
  const char *n = getenv("OPT_GRAPHS");
  return n ? strtoull(n, NULL, 10) : GRAPHS;
}

TEST(random_graphs_keep_their_meaning) {
  uint64_t ran = 0;
  for (uint64_t seed = 1; seed <= graphs() && !test_failed(); seed++)
    ran += check_seed(seed, &OPT_OPTIONS_INIT);
  CHECK(test_failed() || ran >= graphs() * 9 / 10);
}

TEST(budgets_that_run_out) {
  for (uint64_t seed = 1; seed <= 60 && !test_failed(); seed++) {
    opt_options nodes = {.max_nodes = 1 + (int64_t)(seed % 7)},
                matches = {.max_matches = 1 + (int64_t)(seed % 11)};
    (void)check_seed(seed, &nodes);
    (void)check_seed(seed, &matches);
  }
}

TEST(the_report_says_which_budget) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *after = NULL;
  opt_report report;
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 1);
  opt_options few_nodes = {.max_nodes = 3}, few_matches = {.max_matches = 3};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(train_graph_build(ctx, &o, &g) == SN_OK)) {
    CHECK(opt_run(g, &few_nodes, &after, &report) == SN_OK);
    CHECK_EQ_STR(opt_stop_name(report.stop), "node budget");
    sn_graph_destroy(after);
    CHECK(opt_run(g, &few_matches, &after, &report) == SN_OK);
    CHECK_EQ_STR(opt_stop_name(report.stop), "match budget");
    sn_graph_destroy(after);
    CHECK(opt_run(g, &OPT_OPTIONS_INIT, &after, &report) == SN_OK);
    CHECK_EQ_STR(opt_stop_name(report.stop), "fixpoint");
    sn_graph_destroy(after);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* Nothing recurses as deep as a graph may be. */
TEST(very_deep_graphs) {
  enum { DEPTH = 60000 };
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *after = NULL;
  opt_report report;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(4)), y = x, z = x;
    for (int i = 0; i < DEPTH; i++) {
      y = i % 3 == 0 ? sn_neg(g, y) : i % 3 == 1 ? sn_affine(g, y, 1.5, 0.5) : sn_exp(g, y);
      z = i % 2 ? sn_add(g, z, x) : sn_mul(g, z, x);
    }
    sn_output(g, "y", y);
    sn_output(g, "z", z);
    CHECK(opt_run(g, &OPT_OPTIONS_INIT, &after, &report) == SN_OK);
    CHECK(report.cost_after <= report.cost_before);
  }
  sn_graph_destroy(g);
  sn_graph_destroy(after);
  sn_ctx_destroy(ctx);
}

/* Every allocation fails once: an error each time, no leak, and the input stays usable. */
TEST(memory_that_runs_out) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    random_graph r;
    sn_graph *after = NULL;
    if (ctx && random_graph_make(&r, ctx, 3, 12) == SN_OK) {
      sn_status status = opt_run(r.g, &OPT_OPTIONS_INIT, &after, NULL);
      CHECK(status == SN_OK || status == SN_ERR_NO_MEMORY);
      CHECK((status == SN_OK) == (after != NULL));
      CHECK(sn_graph_status(r.g) == SN_OK);
      sn_graph_destroy(after);
    }
    if (ctx)
      random_graph_end(&r);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}
