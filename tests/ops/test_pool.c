/* Pooling: the table of sizes, gradients at ties, second-order gradients of every kind. */
#include "support/graph_run.h"
#include "support/test.h"

#include <math.h>

/* By PyTorch's rule: floor, or ceil less one where the last window would not begin inside the input
 * or the padding before it. -1: no window fits. Paddings on both sides. */
static const struct {
  int64_t length, kernel, stride, pad, dilation;
  int64_t floor, ceil;
} sizes[] = {
    {1, 1, 1, 0, 1, 1, 1},  {2, 3, 2, 0, 1, -1, 1},  {3, 2, 2, 0, 1, 1, 2}, {4, 2, 2, 0, 1, 2, 2},
    {5, 2, 2, 0, 1, 2, 3},  {5, 2, 2, 1, 1, 3, 3},   {4, 2, 3, 0, 1, 1, 2}, {5, 2, 3, 0, 1, 2, 2},
    {6, 2, 3, 1, 1, 3, 3},  {7, 3, 2, 0, 1, 3, 3},   {7, 3, 2, 1, 1, 4, 4}, {8, 3, 2, 1, 1, 4, 5},
    {6, 2, 4, 0, 1, 2, 2},  {7, 2, 4, 0, 1, 2, 2},   {8, 2, 5, 1, 1, 2, 2}, {10, 3, 4, 1, 1, 3, 3},
    {9, 3, 5, 1, 1, 2, 2},  {7, 3, 3, 1, 2, 2, 3},   {8, 3, 3, 2, 2, 3, 4}, {9, 2, 4, 1, 3, 2, 3},
    {3, 3, 3, 1, 1, 1, 2},  {1, 2, 2, 1, 1, 1, 1},   {4, 3, 3, 1, 1, 2, 2}, {5, 3, 3, 1, 1, 2, 2},
    {1, 3, 3, 0, 1, -1, 1}, {1, 3, 1, 0, 1, -1, -1}, {0, 2, 2, 0, 1, 0, 0},
};

static void check_size(int64_t length, const sn_ints *list, bool ceil_mode, int64_t expected) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, 1, length));
  sn_value y =
      sn_pool(r.g, x, SN_POOL_MAX, list[0], list[1], list[2], list[2], list[3], ceil_mode, false);
  int64_t got = sn_value_valid(r.g, y) ? sn_value_type(r.g, y).shape.dim[2] : -1;
  if (got != expected)
    FAIL(
        "length %lld, kernel %lld, stride %lld, pad %lld, dilation %lld%s: expected %lld, got %lld",
        (long long)length, (long long)list[0].v[0], (long long)list[1].v[0],
        (long long)list[2].v[0], (long long)list[3].v[0], ceil_mode ? ", ceil" : "",
        (long long)expected, (long long)got);
  graph_run_end(&r);
}

TEST(sizes_are_as_pytorch_has_them) {
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    const sn_ints list[] = {SN_INTS(sizes[i].kernel), SN_INTS(sizes[i].stride),
                            SN_INTS(sizes[i].pad), SN_INTS(sizes[i].dilation)};
    check_size(sizes[i].length, list, false, sizes[i].floor);
    check_size(sizes[i].length, list, true, sizes[i].ceil);
  }
}

/* x = 2 everywhere: each window's gradient is shared by all its elements, padding has none. */
TEST(ties_share_through_the_sweep) {
  static const double expected[] = {1.0 / 2 + 0, 1.0 / 2 + 1.0 / 3, 1.0 / 3, 1.0 / 3};
  for (int kind = SN_POOL_MAX; kind <= SN_POOL_MIN; kind += SN_POOL_MIN - SN_POOL_MAX) {
    graph_run r;
    if (!graph_run_start(&r))
      return;
    sn_value x = sn_full(r.g, SN_F32, SN_SHAPE(1, 1, 4), 2), dx;
    sn_value y = sn_pool(r.g, x, (sn_pool_kind)kind, SN_INTS(3), SN_INTS(2), SN_INTS(1), SN_INTS(0),
                         SN_INTS(1), false, false);
    if (CHECK(sn_grad(r.g, sn_sum(r.g, y, SN_ALL_AXES, false), &x, 1, &dx) == SN_OK)) {
      sn_output(r.g, "dx", dx);
      if (graph_run_execute(&r, NULL))
        for (int i = 0; i < 4; i++)
          CHECK_NEAR(r.out[0].data[i], expected[i], 1e-12);
    }
    graph_run_end(&r);
  }
}

/* out[0] = sum(u * gradient of sum(pool(x)^2)); its gradient against differences. */
static void check_second_order(sn_pool_kind kind) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_graph *g = r.g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(1, 2, 4, 3)), dx, second;
  sn_value u = sn_input(g, "u", SN_F32, SN_SHAPE(1, 2, 4, 3));
  sn_value y = sn_pool(g, x, kind, SN_INTS(2, 2), SN_INTS(1, 2), SN_INTS(1, 0), SN_INTS(0, 1),
                       SN_INTS(2, 1), true, true);
  CHECK(sn_grad(g, sn_sum(g, sn_sqr(g, y), SN_ALL_AXES, false), &x, 1, &dx) == SN_OK);
  sn_value first = sn_sum(g, sn_mul(g, dx, u), SN_ALL_AXES, false);
  sn_output(g, "first", first);
  if (!CHECK(sn_grad(g, first, &x, 1, &second) == SN_OK))
    FAIL("%s", sn_graph_message(g));
  sn_output(g, "second", second);
  if (graph_run_execute(&r, NULL)) {
    ref_tensor analytic = r.out[1];
    double size = 0;
    for (int64_t i = 0; i < analytic.count; i++) {
      CHECK_NEAR(analytic.data[i], graph_run_difference(&r, "x", i), 1e-7);
      size = fmax(size, fabs(analytic.data[i]));
    }
    CHECK(size > 0.01);
  }
  graph_run_end(&r);
}

TEST_WALK(second_gradients) {
  static const char *const names[] = {"max", "avg", "sum", "min", "prod"};
  for (int kind = SN_POOL_MAX; kind <= SN_POOL_PROD; kind++) {
    if (!test_begin("%s", names[kind]))
      continue;
    check_second_order((sn_pool_kind)kind);
    test_end();
  }
}

TEST(huge_attributes_are_refused) {
  static const int64_t big = INT32_MAX;
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, 1, 4));
  (void)sn_pool(r.g, x, SN_POOL_SUM, SN_INTS(big), SN_INTS(1), SN_INTS(0), SN_INTS(0), SN_INTS(big),
                false, false);
  CHECK(sn_graph_status(r.g) == SN_ERR_INVALID);
  graph_run_end(&r);
  if (!graph_run_start(&r))
    return;
  x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, 1, 4));
  (void)sn_pool(r.g, x, SN_POOL_SUM, SN_INTS(big + 1), SN_INTS(1), SN_INTS(0), SN_INTS(0),
                SN_INTS(1), false, false);
  CHECK_STR_HAS(sn_graph_message(r.g), "below 2^31");
  graph_run_end(&r);
}
