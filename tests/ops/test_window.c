/* Symbolic sizes through convolution and pooling: what is inferred, and that a graph bound to sizes
 * gives what a graph of those numbers gives, gradients of both orders included. */
#include "support/graph_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

typedef sn_value (*sized_builder)(sn_graph *g, sn_value x);

static sn_value strided(sn_graph *g, sn_value x) {
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(4, 1, 3)),
           b = sn_input(g, "b", SN_F32, SN_SHAPE(4));
  return sn_conv(g, x, w, b, SN_INTS(2), SN_INTS(1), SN_INTS(2), SN_INTS(1), 2);
}

static sn_value causal(sn_graph *g, sn_value x) {
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(2, 1, 3));
  return sn_conv(g, x, w, SN_NONE, SN_INTS(1), SN_INTS(4), SN_INTS(0), SN_INTS(2), 2);
}

static sn_value transposed(sn_graph *g, sn_value x) {
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(2, 3, 4)),
           b = sn_input(g, "b", SN_F32, SN_SHAPE(3));
  return sn_conv_transpose(g, x, w, b, SN_INTS(2), SN_INTS(1), SN_INTS(1), SN_INTS(1), SN_INTS(0),
                           1);
}

static sn_value pooled(sn_graph *g, sn_value x, sn_pool_kind kind) {
  return sn_pool(g, x, kind, SN_INTS(3), SN_INTS(2), SN_INTS(1), SN_INTS(0), SN_INTS(1), true,
                 true);
}
static sn_value max_pooled(sn_graph *g, sn_value x) { return pooled(g, x, SN_POOL_MAX); }
static sn_value avg_pooled(sn_graph *g, sn_value x) { return pooled(g, x, SN_POOL_AVG); }
static sn_value prod_pooled(sn_graph *g, sn_value x) { return pooled(g, x, SN_POOL_PROD); }
static sn_value global_average(sn_graph *g, sn_value x) {
  return sn_adaptive_avg_pool(g, x, SN_SHAPE(1));
}

static const struct {
  const char *name, *type;
  sized_builder build;
  bool empty; /* a length of 0 is legal */
} sized[] = {
    {"strided", "f32[batch, 4, ((length)/2)+1]", strided, true},
    {"causal", "f32[batch, 2, length]", causal, true},
    {"transposed", "f32[batch, 3, 2*length]", transposed, true},
    {"max", "f32[batch, 2, ((length+1)/2)]", max_pooled, true},
    {"avg", "f32[batch, 2, ((length+1)/2)]", avg_pooled, true},
    {"prod", "f32[batch, 2, ((length+1)/2)]", prod_pooled, true},
    {"global", "f32[batch, 2, 1]", global_average, false},
};

/* Outputs: y, the gradient of sum(y^2) for x, and of the sum of that one's squares. */
static bool build_sized(graph_run *r, sized_builder build, sn_dim batch, sn_dim length) {
  sn_graph *g = r->g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(batch, 2, length)), y = build(g, x), d = y;
  sn_output(g, "y", y);
  for (int order = 1; order <= 2; order++) {
    sn_value loss = sn_sum(g, sn_sqr(g, d), SN_ALL_AXES, false);
    if (sn_grad(g, loss, &x, 1, &d) != SN_OK)
      return FAIL("order %d: %s", order, sn_graph_message(g));
    sn_output(g, order == 1 ? "first" : "second", d);
  }
  return true;
}

/* The symbolic graph, bound, gives what the graph of numbers gives. */
static void compare_sized(graph_run *symbolic, sized_builder build, int64_t batch, int64_t length) {
  graph_run r;
  char what[64];
  if (graph_run_start(&r) && build_sized(&r, build, batch, length) && graph_run_execute(&r, NULL) &&
      graph_run_execute(symbolic, (int64_t[]){batch, length}))
    for (int k = 0; k < 3; k++) {
      snprintf(what, sizeof what, "output %d at batch %d, length %d", k, (int)batch, (int)length);
      ref_tensor_near(what, &symbolic->out[k], &r.out[k], 1e-12);
    }
  graph_run_end(&r);
}

TEST_WALK(symbolic) {
  static const int64_t bindings[][2] = {{1, 2}, {2, 5}, {3, 8}, {1, 9}, {0, 4}, {2, 0}};
  for (size_t i = 0; i < COUNT_OF(sized); i++) {
    graph_run r;
    if (!test_begin("%s", sized[i].name))
      continue;
    if (graph_run_start(&r)) {
      sn_dim batch = sn_symbol(r.g, "batch", 4), length = sn_symbol(r.g, "length", 9);
      if (build_sized(&r, sized[i].build, batch, length)) {
        CHECK_EQ_STR(graph_type_text(r.g, sn_value_type(r.g, r.g->outputs[0].value)),
                     sized[i].type);
        for (size_t k = 0; k < COUNT_OF(bindings); k++)
          if (bindings[k][1] > 0 || sized[i].empty)
            compare_sized(&r, sized[i].build, bindings[k][0], bindings[k][1]);
      }
    }
    graph_run_end(&r);
    test_end();
  }
}

/* A window that is larger than a symbolic input is an error of the run; of the build where even the
 * symbol's maximum is too small. */
TEST(windows_that_do_not_fit) {
  for (int64_t length = 0; length <= 4; length++) {
    graph_run r;
    if (!graph_run_start(&r))
      return;
    sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, 1, sn_symbol(r.g, "length", 4)));
    sn_value w = sn_input(r.g, "w", SN_F32, SN_SHAPE(1, 1, 3));
    sn_output(r.g, "y",
              sn_conv(r.g, x, w, SN_NONE, SN_INTS(1), SN_INTS(0), SN_INTS(0), SN_INTS(1), 1));
    sn_status status = graph_run_status(&r, &length);
    CHECK_EQ_INT(status, length < 3 ? SN_ERR_INVALID : SN_OK);
    if (length == 2)
      CHECK_STR_HAS(sn_ctx_message(r.ctx),
                    "conv: spatial axis 0: a window of 3 does not fit into 2");
    w = sn_input(r.g, "wide", SN_F32, SN_SHAPE(1, 1, 5));
    (void)sn_conv(r.g, x, w, SN_NONE, SN_INTS(1), SN_INTS(0), SN_INTS(0), SN_INTS(1), 1);
    CHECK(sn_graph_status(r.g) == SN_ERR_INVALID);
    CHECK_STR_HAS(sn_graph_message(r.g), "a window of 5 does not fit into [length]");
    graph_run_end(&r);
  }
}

TEST(channels_and_kernels_are_numbers) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_dim n = sn_symbol(r.g, "n", 4);
  sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, n, 5));
  sn_value w = sn_input(r.g, "w", SN_F32, SN_SHAPE(1, n, 3));
  (void)sn_conv(r.g, x, w, SN_NONE, SN_INTS(1), SN_INTS(0), SN_INTS(0), SN_INTS(1), 1);
  CHECK_STR_HAS(sn_graph_message(r.g), "the weight's sizes must be numbers");
  graph_run_end(&r);
}

/* Global pooling takes any length; the mean over nothing is NaN. */
TEST(global_pooling_of_nothing) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_dim length = sn_symbol(r.g, "length", 4);
  sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(1, 2, length));
  sn_output(r.g, "y", sn_adaptive_avg_pool(r.g, x, SN_SHAPE(1)));
  if (graph_run_execute(&r, (int64_t[]){0}) && CHECK_EQ_INT(r.out[0].count, 2))
    CHECK(isnan(r.out[0].data[0]) && isnan(r.out[0].data[1]));
  (void)sn_adaptive_avg_pool(r.g, x, SN_SHAPE(2));
  CHECK_STR_HAS(sn_graph_message(r.g), "must be a number to become 2");
  graph_run_end(&r);
}
