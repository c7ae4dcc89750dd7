/* Plans with channels last on the interpreter of SPIR-V: results are the reference's, exact and fast. */
#include "support/image_graphs.h"
#include "support/test.h"
#include "support/vm_program.h"

#include <stdlib.h>

typedef struct world {
  sn_ctx *ctx;
  sn_graph *g;
} world;

static bool start(world *w) {
  *w = (world){0};
  return CHECK(sn_ctx_create(NULL, &w->ctx) == SN_OK) &&
         CHECK(sn_graph_create(w->ctx, &w->g) == SN_OK);
}

static void end(world *w) {
  sn_graph_destroy(w->g);
  sn_ctx_destroy(w->ctx);
}

/* `least`: of channels. */
static void check_graph(const world *w, int least, sn_precision precision) {
  int64_t n = 2;
  char why[1000];
  plan_numbers numbers = {.bindings = &n};
  vm_check_options o = {.compile = {.channels_last = least}, .precision = precision};
  if (vm_check(w->g, &numbers, 1, &o, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

static void check_model(const image_graph *of, int64_t channels, sn_precision precision) {
  world w;
  if (start(&w) && CHECK(image_graph_build(of, w.g, channels) == SN_OK))
    check_graph(&w, 4, precision);
  end(&w);
}

TEST_WALK(channels_last) {
  const image_graph *of;
  for (int k = 0; (of = image_graph_at(k)) != NULL; k++) {
    if (test_begin("%s, exact", of->name)) {
      check_model(of, 8, SN_PRECISION_EXACT);
      test_end();
    }
    if (test_begin("%s, fast", of->name)) {
      check_model(of, 16, SN_PRECISION_FAST);
      test_end();
    }
  }
}

TEST_WALK(random_images) {
  enum { GRAPHS = 16 };
  const char *graphs = getenv("PLAN_GRAPHS"), *first = getenv("PLAN_SEED");
  uint64_t n = graphs ? strtoull(graphs, NULL, 10) : GRAPHS,
           at = first ? strtoull(first, NULL, 10) : 1;
  for (uint64_t seed = at; seed < at + n; seed++)
    if (test_begin("%llu", (unsigned long long)seed)) {
      world w;
      if (start(&w) && CHECK(image_graph_random(w.g, seed, 3 + (int)(seed % 7)) == SN_OK))
        check_graph(&w, 1, seed % 3 ? SN_PRECISION_FAST : SN_PRECISION_EXACT);
      end(&w);
      test_end();
    }
}
