/* Graphs through the whole compiler, their steps as shaders on the Vulkan device, against the reference: what the planner
 * really builds can be said in SPIR-V. tests/long/test_spike.c does it for every op. */
#include "spike/planned.h"
#include "spike/trial.h"
#include "support/test.h"

#include <sinew/sinew.h>

typedef void build_graph(sn_graph *g);

/* n runs, at these bindings (NULL: no symbols), with 32-bit and 64-bit indices in turn. */
static void check_graph(build_graph *build, const int64_t *bindings, int n) {
  sn_ctx *ctx;
  sn_graph *g;
  char why[1000];
  if (!trial_possible())
    return;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    build(g);
    for (int i = 0; i < n; i++) {
      plan_numbers numbers = {.bindings = bindings ? &bindings[i] : NULL, .tolerance = 1e-4};
      if (planned_check(g, &numbers, i % 2, why, sizeof why) != PLANNED_RIGHT)
        FAIL("run %d: %s; %s", i, why, sn_ctx_message(ctx));
    }
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}

static sn_value input(sn_graph *g, const char *name, sn_shape shape) {
  return sn_input(g, name, SN_F32, shape);
}

static void output_gradients(sn_graph *g, sn_value loss, const sn_value *of, int n) {
  static const char *const names[] = {"d0", "d1", "d2", "d3", "d4", "d5"};
  sn_value grads[6];
  CHECK(sn_grad(g, loss, of, n, grads) == SN_OK);
  sn_output(g, "loss", loss);
  for (int i = 0; i < n; i++)
    sn_output(g, names[i], grads[i]);
}

/* A gated MLP between norms and its cross-entropy, with all gradients. */
static void build_mlp(sn_graph *g) {
  sn_value x = input(g, "x", SN_SHAPE(5, 12)), gate = input(g, "gate", SN_SHAPE(20, 12));
  sn_value up = input(g, "up", SN_SHAPE(20, 12)), down = input(g, "down", SN_SHAPE(9, 20));
  sn_value w = input(g, "w", SN_SHAPE(12)), labels = sn_input(g, "labels", SN_I32, SN_SHAPE(5));
  sn_value y = sn_rms_norm(g, x, w, SN_NONE, 1, 1e-5);
  sn_value a = sn_silu(g, sn_matmul(g, y, gate, false, true));
  a = sn_mul(g, a, sn_matmul(g, y, up, false, true));
  sn_value loss =
      sn_cross_entropy(g, sn_matmul(g, a, down, false, true), labels, -100, 0, SN_REDUCTION_MEAN);
  output_gradients(g, loss, (sn_value[]){x, w, gate, up, down}, 5);
}

TEST(mlp_with_gradients) { check_graph(build_mlp, NULL, 1); }

/* Strided convolution, group norm, pooling, and the gradients of them. */
static void build_convolutions(sn_graph *g) {
  sn_value x = input(g, "x", SN_SHAPE(2, 3, 9, 7)), w = input(g, "w", SN_SHAPE(4, 3, 3, 3));
  sn_value v = input(g, "v", SN_SHAPE(4, 2, 3, 3)), s = input(g, "s", SN_SHAPE(4));
  sn_value y =
      sn_conv(g, x, w, SN_NONE, SN_INTS(2, 2), SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 1);
  y = sn_relu(g, sn_group_norm(g, y, s, SN_NONE, 2, 1e-5));
  y = sn_conv(g, y, v, SN_NONE, SN_INTS(1, 1), SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(2, 2), 2);
  sn_value loss = sn_mean(g, sn_sqr(g, y), SN_ALL_AXES, false);
  output_gradients(g, loss, (sn_value[]){x, w, v, s}, 4);
}

TEST(convolutions_with_gradients) { check_graph(build_convolutions, NULL, 1); }

/* Sizes that a run binds: softmax over them, a transpose, a product and a reversed concatenation. */
static void build_symbolic(sn_graph *g) {
  sn_dim n = sn_symbol(g, "n", 33);
  sn_value x = input(g, "x", SN_SHAPE(2, n, 6)), y = input(g, "y", SN_SHAPE(2, n, 6));
  sn_value p = sn_softmax(g, sn_matmul(g, x, y, false, true), -1);
  sn_value z = sn_matmul(g, sn_sqr(g, p), y, false, false); /* squared, or it is attention */
  sn_output(g, "z", sn_transpose(g, z, SN_INTS(2, 0, 1)));
  sn_output(g, "c", sn_flip(g, sn_concat(g, (sn_value[]){x, z}, 2, 1), SN_INTS(1)));
}

TEST(every_length_of_one_plan) {
  static const int64_t lengths[] = {0, 1, 2, 7, 33, 8};
  check_graph(build_symbolic, lengths, 6);
}

/* Embeddings in bf16, rotary positions, dropout. */
static void build_small_dtypes(sn_graph *g) {
  sn_value table = sn_input(g, "table", SN_BF16, SN_SHAPE(4, 8));
  sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(2, 5));
  sn_value key = sn_input(g, "key", SN_I32, SN_SHAPE(3));
  sn_value x = sn_cast(g, sn_gather(g, table, ids), SN_F32);
  x = sn_rope(g, x, sn_arange(g, SN_I32, 5, 0, 1), 1, 8, 10000, SN_ROPE_HALF, SN_ROPE_DEFAULT, 1, 0,
              0, 0, 0, false, SN_F32);
  sn_output(g, "y", sn_dropout(g, sn_tanh(g, x), key, 0.3, SN_AUTO));
  sn_output(g, "h", sn_cast(g, x, SN_F16));
}

TEST(small_dtypes_and_dropout) { check_graph(build_small_dtypes, NULL, 2); }
