/* See vm_graphs.h. */
#include "support/vm_graphs.h"

#include "support/random_graph.h"
#include "support/test.h"

enum { BINDINGS = 3 };

static bool has_symbols(const sn_graph *g) {
  for (uint32_t v = 1; v < g->n_values; v++)
    for (int d = 0; d < g->values[v].type.shape.rank; d++)
      if (!dim_is_number(g->values[v].type.shape.dim[d]))
        return true;
  return false;
}

static void check_graph(const random_graph *r, uint64_t seed, vm_tally *tally) {
  static const int64_t few[2][2] = {{5, 3}, {1, 1}}, none[2] = {0, 0};
  static const int64_t most[2] = {RANDOM_GRAPH_SYMBOL, RANDOM_GRAPH_SYMBOL_M};
  const int64_t *bindings[BINDINGS] = {few[seed / 2 % 2], none, most};
  vm_check_options o = {.wide = seed % 5 == 0,
                        .compile = {.no_fusion = seed % 4 == 1},
                        .precision = seed % 3 == 2 ? SN_PRECISION_FAST : SN_PRECISION_EXACT};
  plan_numbers n[BINDINGS];
  char why[1000];
  for (int i = 0; i < BINDINGS; i++)
    n[i] = (plan_numbers){
        .bindings = bindings[i], .fill = random_graph_fill, .user = (void *)(uintptr_t)r};
  if (vm_check(r->g, n, has_symbols(r->g) ? BINDINGS : 1, &o, tally, why, sizeof why) == PLAN_WRONG)
    FAIL("seed %llu: %s", (unsigned long long)seed, why);
}

void vm_random_graph(uint64_t seed, vm_tally *tally) {
  sn_ctx *ctx = NULL;
  random_graph r;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (random_graph_make_wide(&r, ctx, seed, 3 + (int)(seed % 30)) != SN_OK)
    FAIL("seed %llu: %s", (unsigned long long)seed, sn_graph_message(r.g));
  else
    check_graph(&r, seed, tally);
  random_graph_end(&r);
  sn_ctx_destroy(ctx);
}
