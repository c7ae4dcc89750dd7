/* Memory of sessions on a GPU: what they say that they hold is what they hold, and nothing stays behind. tests/long goes on for
 * longer. */
#include "support/test.h"
#include "support/vulkan_case.h"
#include "support/vulkan_leaks.h"

#include <sinew/sinew.h>

enum { LAYERS = 4, SIDE = 512, ROWS = 100 };

/* Layers with gradients: an arena, states, outputs as large as they. */
static void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, SIDE)), y = x, w[LAYERS], d[LAYERS];
  for (int i = 0; i < LAYERS; i++) {
    char name[] = {'w', (char)('0' + i), '\0'};
    w[i] = sn_state(g, name, SN_F32, SN_SHAPE(SIDE, SIDE), SN_INIT_ONES, 0);
    y = sn_gelu(g, sn_matmul(g, y, w[i], false, false));
  }
  sn_value loss = sn_sum(g, y, SN_ALL_AXES, false);
  CHECK(sn_grad(g, loss, w, LAYERS, d) == SN_OK);
  sn_output(g, "y", y);
  for (int i = 0; i < LAYERS; i++) {
    char name[] = {'d', (char)('0' + i), '\0'};
    sn_output(g, name, d[i]);
  }
}

static void check_near(int64_t held, int64_t told) {
  if (held < told || 20 * held > 21 * told)
    FAIL("%lld bytes are held, %lld were told", (long long)held, (long long)told);
}

/* States are told apart: they belong to the store. */
TEST(memory_is_what_was_told) {
  sn_ctx *ctx;
  sn_graph *g;
  sn_store *store;
  sn_session *s;
  gpu *held;
  static float x[ROWS][SIDE];
  if (!vulkan_ready())
    return;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && gpu_get(ctx, 0, &held) == SN_OK);
  REQUIRE(sn_graph_create(ctx, &g) == SN_OK && sn_store_create(ctx, &store) == SN_OK);
  build(g);
  REQUIRE(sn_store_init(store, g, 1) == SN_OK);
  int64_t before = atomic_load(&held->used), states = (int64_t)LAYERS * SIDE * SIDE * 4;
  if (CHECK(sn_session_create(g, store, &(sn_session_options){.device = "vulkan"}, &s) == SN_OK)) {
    sn_session_stats stats = sn_session_get_stats(s);
    CHECK(stats.device_bytes > stats.arena_bytes && stats.arena_bytes > 1 << 19);
    CHECK(stats.pipelines > 0 && stats.launches >= stats.pipelines && stats.barriers > 0);
    check_near(atomic_load(&held->used) - before, stats.device_bytes);
    CHECK(sn_session_write(s, "x", x, sizeof x) == SN_OK);
    if (sn_session_run(s) != SN_OK)
      FAIL("%s", sn_ctx_message(ctx));
    check_near(atomic_load(&held->used) - before, stats.device_bytes + states);
  }
  sn_session_destroy(s);
  sn_store_destroy(store);
  CHECK_EQ_INT(atomic_load(&held->used), before);
  sn_graph_destroy(g);
  gpu_put(held);
  sn_ctx_destroy(ctx);
  vulkan_check();
}

TEST(sessions_leave_nothing) { vulkan_leaks_of_sessions(12); }
TEST(runs_leave_nothing) { vulkan_leaks_of_runs(2000); }
