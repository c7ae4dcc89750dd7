/* Chains of ops that write parts of values (random_graph_chains.c), through the whole pipeline: each gives what the reference
 * gives, or fails as that does, with symbols bound to 0, to 1, to their maxima and between, and its text means the same
 * graph. PLAN_GRAPHS is how many, PLAN_SEED the first. */
#include "ir/dim.h"
#include "support/plan_run.h"
#include "support/random_graph.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 80, BINDINGS = 4, MOST_OPS = 9 };

typedef struct trial {
  int modes;
  plan_tally tally;
  plan_verdict verdict;
  char why[1000];
} trial;

static bool wrong(void *user, const random_graph *r) {
  trial *t = user;
  static const int64_t bindings[BINDINGS][2] = {
      {0, 0}, {1, 1}, {RANDOM_GRAPH_SYMBOL, RANDOM_GRAPH_SYMBOL_M}, {5, 3}};
  plan_numbers n[BINDINGS];
  for (int i = 0; i < BINDINGS; i++)
    n[i] = (plan_numbers){
        .bindings = bindings[i], .fill = random_graph_fill, .user = (void *)(uintptr_t)r};
  t->verdict = plan_check(r->g, t->modes, n, BINDINGS, &t->tally, t->why, sizeof t->why);
  return t->verdict == PLAN_WRONG;
}

static void check_text(sn_ctx *ctx, const sn_graph *g, uint64_t seed) {
  sn_graph *again = NULL;
  char *was = NULL, *is = NULL;
  if (CHECK(sn_graph_print(g, &was) == SN_OK) && CHECK(sn_graph_parse(ctx, was, &again) == SN_OK) &&
      CHECK(sn_graph_print(again, &is) == SN_OK) && strcmp(was, is) != 0)
    FAIL("seed %llu: the text is of another graph", (unsigned long long)seed);
  sn_text_free(ctx, was);
  sn_text_free(ctx, is);
  sn_graph_destroy(again);
}

/* The text of what fails, as small as it gets. */
static void show(sn_ctx *ctx, random_graph *r, trial *t, uint64_t seed) {
  char *small = NULL;
  random_graph_shrink(r, wrong, t);
  FAIL("seed %llu: %s", (unsigned long long)seed, t->why);
  if (sn_graph_print(r->g, &small) == SN_OK)
    printf("%s", small);
  sn_text_free(ctx, small);
}

static plan_verdict check_seed(uint64_t seed, plan_tally *tally) {
  static const int others[] = {PLAN_UNFUSED, PLAN_PLAIN_FUSED, PLAN_PLAIN_UNFUSED};
  sn_ctx *ctx = NULL;
  random_graph r;
  trial t = {.modes = PLAN_FUSED | others[seed % 3], .verdict = PLAN_WRONG};
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return PLAN_WRONG;
  if (random_graph_make_chains(&r, ctx, seed, 2 + (int)(seed % MOST_OPS)) != SN_OK)
    FAIL("seed %llu: %s", (unsigned long long)seed, sn_graph_message(r.g));
  else {
    check_text(ctx, r.g, seed);
    if (wrong(&t, &r))
      show(ctx, &r, &t, seed);
  }
  tally->compared += t.tally.compared;
  tally->passed_over += t.tally.passed_over;
  random_graph_end(&r);
  sn_ctx_destroy(ctx);
  return t.verdict;
}

static uint64_t number_from(const char *variable, uint64_t usual) {
  const char *n = getenv(variable);
  return n ? strtoull(n, NULL, 10) : usual;
}

TEST(chains_of_updates_are_planned_right) {
  uint64_t graphs = number_from("PLAN_GRAPHS", GRAPHS), first = number_from("PLAN_SEED", 1);
  uint64_t right = 0;
  plan_tally tally = {0};
  for (uint64_t seed = first; seed < first + graphs && !test_failed(); seed++)
    right += check_seed(seed, &tally) == PLAN_RIGHT;
  if (!test_failed()) { /* it is about something */
    CHECK(right * 10 >= graphs * 8);
    CHECK(tally.passed_over * 20 <= tally.compared);
  }
}
