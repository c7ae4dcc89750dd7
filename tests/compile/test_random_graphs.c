/* Random graphs through the whole pipeline: optimised, fused, placed, proved and run on the cpu device they give
 * what the reference gives (plan_oracle.h), at several bindings of their symbols; and so does each unfused, or not
 * optimised. A failure is shrunk to a small text. PLAN_GRAPHS is how many, PLAN_SEED the first. */
#include "ir/dim.h"
#include "support/fault.h"
#include "support/plan_run.h"
#include "support/random_graph.h"
#include "support/test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 500, BINDINGS = 4 };

typedef struct trial {
  int modes;
  int first; /* binding: what a plan meets first is written from nothing */
  plan_tally tally;
  bool ran; /* the reference runs at every binding */
  char why[1000];
  char kind[80]; /* of the failure that is being shrunk: no other is followed. "": any */
} trial;

/* The letters of a message, without what stands in brackets and quotes. */
static void kind_of(const char *why, char *kind, size_t size) {
  size_t n = 0;
  int depth = 0;
  bool quoted = false;
  for (; *why && n + 1 < size; why++) {
    quoted ^= *why == '"';
    depth += (*why == '(') - (*why == ')');
    if (!quoted && depth == 0 && isalpha((unsigned char)*why))
      kind[n++] = *why;
  }
  kind[n] = '\0';
}

static bool has_symbols(const sn_graph *g) {
  for (uint32_t v = 1; v < g->n_values; v++)
    for (int d = 0; d < g->values[v].type.shape.rank; d++)
      if (!dim_is_number(g->values[v].type.shape.dim[d]))
        return true;
  return false;
}

static bool wrong(void *user, const random_graph *r) {
  trial *t = user;
  static const int64_t bindings[BINDINGS][2] = {
      {5, 3}, {0, 0}, {1, 1}, {RANDOM_GRAPH_SYMBOL, RANDOM_GRAPH_SYMBOL_M}};
  plan_numbers n[BINDINGS];
  for (int i = 0; i < BINDINGS; i++)
    n[i] = (plan_numbers){.bindings = bindings[(i + t->first) % BINDINGS],
                          .fill = random_graph_fill,
                          .user = (void *)(uintptr_t)r};
  plan_verdict v = plan_check(r->g, t->modes, n, has_symbols(r->g) ? BINDINGS : 1, &t->tally,
                              t->why, sizeof t->why);
  char kind[sizeof t->kind];
  kind_of(t->why, kind, sizeof kind);
  t->ran = v == PLAN_RIGHT;
  return v == PLAN_WRONG && (!*t->kind || strcmp(kind, t->kind) == 0);
}

/* Fused and optimised, and one of the other ways. */
static int modes_of(uint64_t seed) {
  static const int others[] = {PLAN_UNFUSED, PLAN_PLAIN_FUSED, PLAN_PLAIN_UNFUSED};
  return PLAN_FUSED | others[seed % COUNT_OF(others)];
}

static bool check_seed(uint64_t seed, trial *t) {
  sn_ctx *ctx = NULL;
  random_graph r;
  bool ok = true;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  if (random_graph_make_wide(&r, ctx, seed, 3 + (int)(seed % 30)) != SN_OK)
    ok = FAIL("seed %llu: %s", (unsigned long long)seed, sn_graph_message(r.g));
  else if (wrong(t, &r)) {
    char *small = NULL, whole[1000];
    snprintf(whole, sizeof whole, "%s", t->why);
    kind_of(t->why, t->kind, sizeof t->kind);
    random_graph_shrink(&r, wrong, t);
    random_graph_shrink(&r, wrong, t); /* what is small may get smaller */
    (void)!sn_graph_print(r.g, &small);
    ok = FAIL("seed %llu: %s; shrunk: %s", (unsigned long long)seed, whole, t->why);
    printf("%s", small ? small : ""); /* a check's message is cut where it is long */
    sn_text_free(ctx, small);
  }
  random_graph_end(&r);
  sn_ctx_destroy(ctx);
  return ok;
}

static uint64_t number_from(const char *variable, uint64_t usual) {
  const char *n = getenv(variable);
  return n ? strtoull(n, NULL, 10) : usual;
}

/* Of a failure, the first is shown; PLAN_FAILURES shows more. */
TEST(random_graphs_are_planned_right) {
  uint64_t graphs = number_from("PLAN_GRAPHS", GRAPHS), first = number_from("PLAN_SEED", 1);
  uint64_t most = number_from("PLAN_FAILURES", 1), wrong_ones = 0, ran = 0;
  plan_tally all = {0};
  for (uint64_t seed = first; seed < first + graphs && wrong_ones < most; seed++) {
    trial t = {.modes = modes_of(seed), .first = (int)(seed / 3 % BINDINGS)};
    wrong_ones += !check_seed(seed, &t);
    ran += t.ran;
    all.compared += t.tally.compared;
    all.passed_over += t.tally.passed_over;
  }
  if (!test_failed()) { /* it is about something */
    CHECK(ran >= graphs * 8 / 10);
    CHECK(all.passed_over * 10 <= all.compared);
  }
}

/* Every allocation of a compilation and of lowering to the device fails once: an error each time, and no leak. */
static void check_without_memory(uint64_t seed, int n_ops) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    random_graph r;
    plan_run run;
    if (ctx && random_graph_make_wide(&r, ctx, seed, n_ops) == SN_OK) {
      sn_status status = plan_run_start(&run, r.g, NULL);
      if (status != SN_OK && status != SN_ERR_NO_MEMORY)
        FAIL("seed %llu: %s", (unsigned long long)seed, sn_ctx_message(ctx));
      plan_run_end(&run);
    }
    if (ctx)
      random_graph_end(&r);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}

TEST(memory_that_runs_out) {
  for (uint64_t seed = 1; seed <= 6; seed++)
    check_without_memory(seed, 4);
}
