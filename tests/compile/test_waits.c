/* What a barrier waits for is computed in a step of its own, or where it is read: never is the barrier's value stored in its stead. */
#include "support/plan_run.h"
#include "support/test.h"

static const char *const graphs[] = {
    /* a product of which nothing is left */
    "%1 = input() name=\"a\" dtype=f32 shape=[5, 4]\n"
    "%2 = input() name=\"b\" dtype=f32 shape=[4, 4]\n"
    "%3 = matmul(%1, %2) trans_a=false trans_b=false\n"
    "%4 = barrier(%1, %3) id=0\n"
    "output \"y\" %4\n",
    /* and through a choice */
    "%1 = input() name=\"a\" dtype=f32 shape=[5, 4]\n"
    "%2 = input() name=\"b\" dtype=f32 shape=[4, 4]\n"
    "%3 = matmul(%1, %2) trans_a=false trans_b=false\n"
    "%4 = input() name=\"c\" dtype=bool shape=[5, 4]\n"
    "%5 = input() name=\"s\" dtype=f32 shape=[1, 1]\n"
    "%6 = where(%4, %3, %5)\n"
    "%7 = barrier(%1, %6) id=0\n"
    "output \"y\" %7\n",
    /* a row whose sum nobody wants */
    "symbol n 4\n"
    "%1 = input() name=\"x\" dtype=f32 shape=[4, 2*n]\n"
    "%2 = input() name=\"w\" dtype=f32 shape=[2*n]\n"
    "%3 = rms_norm(%1, %2, none) axes=1 eps=0.25\n"
    "%4 = barrier(%1, %3) id=0\n"
    "output \"y\" %4\n",
    "%1 = input() name=\"x\" dtype=f32 shape=[8, 4]\n"
    "%2 = softmax(%1) axis=0\n"
    "%3 = slice(%2) axis=0 start=4 stop=5 step=1\n"
    "%4 = barrier(%1, %3) id=0\n"
    "output \"y\" %4\n"};

TEST(barriers_that_only_wait) {
  static const int64_t bindings[] = {3};
  plan_numbers numbers = {.bindings = bindings};
  for (size_t i = 0; i < COUNT_OF(graphs) && !test_failed(); i++) {
    sn_ctx *ctx;
    sn_graph *g = NULL;
    char why[800] = "";
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    if (!CHECK(sn_graph_parse(ctx, graphs[i], &g) == SN_OK) ||
        plan_check(g, PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED, &numbers,
                   1, NULL, why, sizeof why) != PLAN_RIGHT)
      FAIL("graph %zu: %s", i, why);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}
