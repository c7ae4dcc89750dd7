/* Matmul parts as SPIR-V: operand regions that load tiles, epilogue regions that store; against the same in C and
 * against the reference. See test_regions.c. */
#include "spike/code.h"
#include "spike/trial.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <string.h>

#define AXIS(a, stride) ((term){(a), 0, (stride), 1, 0})
#define TERMS(...) \
  (int)(sizeof((term[]){__VA_ARGS__}) / sizeof(term)), (const term[]) { __VA_ARGS__ }

enum { B, M, N, K, MK, KN, MN }; /* sizes by handle */

static reg accumulator(code *c, uint32_t index) {
  instr i = {.op = REGION_ACC, .dtype = SN_F32, .index = index};
  return code_add(c, &i);
}

static reg silu(code *c, reg x) {
  return code_alu2(c, ALU_mul, SN_F32, x, code_alu1(c, ALU_sigmoid, SN_F32, x));
}

/* --- the usual: y = silu(a·b + bias) + residual, batched, for all sizes with one shader --- */

static void check_sizes(int64_t b, int64_t m, int64_t n, int64_t k) {
  trial t = {.sizes = {b, m, n, k, m * k, k * n, m * n}};
  code left = {0}, right = {0}, e = {0};
  uint32_t x = trial_drawn(&t, SN_F32, b * m * k, 0), w = trial_drawn(&t, SN_BF16, k * n, 0);
  uint32_t bias = trial_drawn(&t, SN_F32, n, 0), residual = trial_drawn(&t, SN_F16, b * m * n, 0);
  uint32_t y = trial_value(&t, SN_F32, b * m * n), half = trial_value(&t, SN_BF16, b * m * n);
  sn_dim dn = trial_size(N), dk = trial_size(K);
  code_load(&left, SN_F32, x, TERMS(AXIS(0, trial_size(MK)), AXIS(1, dk), AXIS(3, 1)));
  code_load(&right, SN_BF16, w, TERMS(AXIS(3, dn), AXIS(2, 1)));
  reg sum = code_alu2(&e, ALU_add, SN_F32, accumulator(&e, 0),
                      code_load(&e, SN_F32, bias, TERMS(AXIS(2, 1))));
  reg r = code_load(&e, SN_F16, residual, TERMS(AXIS(0, trial_size(MN)), AXIS(1, dn), AXIS(2, 1)));
  reg out = code_alu2(&e, ALU_add, SN_F32, silu(&e, sum), r);
  code_store(&e, out, y, TERMS(AXIS(0, trial_size(MN)), AXIS(1, dn), AXIS(2, 1)));
  code_store(&e, out, half, TERMS(AXIS(0, trial_size(MN)), AXIS(1, dn), AXIS(2, 1)));
  matmul_product product = {1, {dk}, code_region(&left), code_region(&right)};
  matmul_acc acc = {1, &product};
  matmul_part p = {1, 1, 1, {trial_size(B), trial_size(M), dn}, 1, &acc, code_region(&e)};
  t.tolerance = 1e-2; /* bf16 may round to either side where sums differ by a bit */
  trial_matmul(&t, &p);
  trial_end(&t);
}

TEST(epilogue_at_every_size) {
  if (!trial_possible())
    return;
  check_sizes(1, 8, 8, 8);
  check_sizes(3, 5, 17, 11);
  check_sizes(2, 9, 1, 64);
  check_sizes(1, 1, 33, 7);
  check_sizes(2, 3, 4, 0); /* sums over nothing */
  check_sizes(0, 3, 4, 5);
  check_sizes(2, 0, 4, 5);
  check_sizes(2, 3, 0, 5);
}

/* --- two accumulators: silu(x·gate) * (x·up), with quantised weights u8 * scale[row of K / 4] - zero --- */

static region dequantise(code *c, uint32_t w, uint32_t scale) {
  reg q = code_alu1(c, ALU_cast, SN_F32, code_load(c, SN_U8, w, TERMS(AXIS(2, 13), AXIS(1, 1))));
  reg s = code_load(c, SN_F32, scale, TERMS({2, 0, 13, 4, 0}, AXIS(1, 1)));
  q = code_alu2(c, ALU_sub, SN_F32, q, code_number(c, SN_F32, 8));
  code_alu2(c, ALU_mul, SN_F32, q, s);
  return code_region(c);
}

TEST(gate_and_up_of_quantised_weights) {
  enum { ROWS = 6, OUT = 13, IN = 24 };
  trial t = {.tolerance = 1e-4}; /* sums of terms of both signs, each up to 60 */
  code left = {0}, gate = {0}, up = {0}, e = {0};
  if (!trial_possible())
    return;
  uint32_t x = trial_drawn(&t, SN_F32, ROWS * IN, 0), y = trial_value(&t, SN_F32, ROWS * OUT);
  uint32_t g = trial_drawn(&t, SN_U8, IN * OUT, 16), u = trial_drawn(&t, SN_U8, IN * OUT, 16);
  uint32_t scale = trial_drawn(&t, SN_F32, IN / 4 * OUT, 0);
  code_load(&left, SN_F32, x, TERMS(AXIS(0, IN), AXIS(2, 1)));
  matmul_product products[2] = {{1, {IN}, code_region(&left), dequantise(&gate, g, scale)},
                                {1, {IN}, code_region(&left), dequantise(&up, u, scale)}};
  matmul_acc accs[2] = {{1, &products[0]}, {1, &products[1]}};
  reg out = code_alu2(&e, ALU_mul, SN_F32, silu(&e, accumulator(&e, 0)), accumulator(&e, 1));
  code_store(&e, out, y, TERMS(AXIS(0, OUT), AXIS(1, 1)));
  matmul_part p = {0, 1, 1, {ROWS, OUT}, 2, accs, code_region(&e)};
  trial_matmul(&t, &p);
  /* and as one accumulator of two products: x·gate + x·up */
  code sum = {0};
  matmul_acc one = {2, products};
  code_store(&sum, accumulator(&sum, 0), y, TERMS(AXIS(0, OUT), AXIS(1, 1)));
  p = (matmul_part){0, 1, 1, {ROWS, OUT}, 1, &one, code_region(&sum)};
  trial_matmul(&t, &p);
  trial_end(&t);
}

/* --- against the reference --- */

/* Runs a graph with inputs "x", "w" and "b" on the reference; out must have room. */
static bool reference(sn_ctx *ctx, sn_graph *g, const trial *t, const uint32_t values[3],
                      float *out, size_t size) {
  static const char *const names[] = {"x", "w", "b"};
  sn_session *s = NULL;
  sn_store *store = NULL;
  sn_session_options o = {.device = "ref"};
  bool ok = CHECK(sn_store_create(ctx, &store) == SN_OK) &&
            CHECK(sn_session_create(g, store, &o, &s) == SN_OK);
  for (int i = 0; i < 3 && ok; i++)
    ok = CHECK(sn_session_write(s, names[i], t->data[values[i]],
                                (size_t)t->count[values[i]] * sizeof(float)) == SN_OK);
  ok =
      ok && CHECK(sn_session_run(s) == SN_OK) && CHECK(sn_session_read(s, "y", out, size) == SN_OK);
  if (!ok)
    FAIL("%s", sn_ctx_message(ctx));
  sn_session_destroy(s);
  sn_store_destroy(store);
  return ok;
}

static void compare(const float *expected, const float *got, int n) {
  for (int i = 0; i < n; i++)
    if (!CHECK_NEAR(got[i], expected[i], 2e-5 * (1 + fabs((double)expected[i]))))
      return;
}

/* gelu_tanh(x·wᵀ + b), with the transpose in the operand's region. */
TEST(linear_layer_of_the_reference) {
  enum { ROWS = 10, IN = 19, OUT = 12 };
  trial t = {.tolerance = 2e-5};
  code left = {0}, right = {0}, e = {0};
  float expected[ROWS * OUT];
  sn_ctx *ctx;
  sn_graph *g = NULL;
  if (!trial_possible())
    return;
  uint32_t x = trial_drawn(&t, SN_F32, ROWS * IN, 0), w = trial_drawn(&t, SN_F32, OUT * IN, 0);
  uint32_t b = trial_drawn(&t, SN_F32, OUT, 0), y = trial_value(&t, SN_F32, ROWS * OUT);
  code_load(&left, SN_F32, x, TERMS(AXIS(0, IN), AXIS(2, 1)));
  code_load(&right, SN_F32, w, TERMS(AXIS(1, IN), AXIS(2, 1)));
  reg v = code_alu2(&e, ALU_add, SN_F32, accumulator(&e, 0),
                    code_load(&e, SN_F32, b, TERMS(AXIS(1, 1))));
  reg cube = code_alu2(&e, ALU_mul, SN_F32, code_alu2(&e, ALU_mul, SN_F32, v, v), v);
  cube = code_alu2(&e, ALU_mul, SN_F32, cube, code_number(&e, SN_F32, 0.044715));
  cube = code_alu2(&e, ALU_add, SN_F32, cube, v);
  cube = code_alu2(&e, ALU_mul, SN_F32, cube, code_number(&e, SN_F32, 0.7978845608028654));
  reg one = code_number(&e, SN_F32, 1);
  reg tanh = code_alu2(&e, ALU_add, SN_F32, code_alu1(&e, ALU_tanh, SN_F32, cube), one);
  reg half = code_alu2(&e, ALU_mul, SN_F32, v, code_number(&e, SN_F32, 0.5));
  code_store(&e, code_alu2(&e, ALU_mul, SN_F32, half, tanh), y, TERMS(AXIS(0, OUT), AXIS(1, 1)));
  matmul_product product = {1, {IN}, code_region(&left), code_region(&right)};
  matmul_acc acc = {1, &product};
  matmul_part p = {0, 1, 1, {ROWS, OUT}, 1, &acc, code_region(&e)};
  trial_matmul(&t, &p);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_value gx = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, IN));
  sn_value gw = sn_input(g, "w", SN_F32, SN_SHAPE(OUT, IN));
  sn_value sum =
      sn_add(g, sn_matmul(g, gx, gw, false, true), sn_input(g, "b", SN_F32, SN_SHAPE(OUT)));
  sn_output(g, "y", sn_gelu_tanh(g, sum));
  if (reference(ctx, g, &t, (uint32_t[]){x, w, b}, expected, sizeof expected))
    compare(expected, trial_floats(&t, y), ROWS * OUT);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  trial_end(&t);
}

/* relu(conv(x, w) + b), [2,3,9,7] by [5,3,3,3], stride 2, padding 1: m is (image, row, column), n the channel, k (channel,
 * row, column of the window); the window's edges are checks of the operand's load. */
TEST(convolution_of_the_reference) {
  enum { IMAGES = 2, C = 3, H = 9, W = 7, OUT = 5, R = 3, OH = 5, OW = 4 };
  trial t = {.tolerance = 2e-5};
  code left = {0}, right = {0}, e = {0};
  float expected[IMAGES * OUT * OH * OW];
  sn_ctx *ctx;
  sn_graph *g = NULL;
  if (!trial_possible())
    return;
  uint32_t x = trial_drawn(&t, SN_F32, IMAGES * C * H * W, 0);
  uint32_t w = trial_drawn(&t, SN_F32, OUT * C * R * R, 0), b = trial_drawn(&t, SN_F32, OUT, 0);
  uint32_t y = trial_value(&t, SN_F32, IMAGES * OUT * OH * OW);
  /* axes: image 0, row 1, column 2; channel 3; k: channel 4, window row 5, window column 6 */
  code_load(&left, SN_F32, x,
            TERMS(AXIS(0, C * H * W), AXIS(4, H * W), AXIS(1, 2 * W), AXIS(5, W), AXIS(2, 2),
                  AXIS(6, 1)));
  code_base(&left, -W - 1);
  check edges[2] = {{2, (const term[]){AXIS(1, 2), AXIS(5, 1)}, -1, H, 1},
                    {2, (const term[]){AXIS(2, 2), AXIS(6, 1)}, -1, W, 1}};
  left.at[0].at.n_checks = 2;
  left.at[0].at.checks = edges;
  code_load(&right, SN_F32, w, TERMS(AXIS(3, C * R * R), AXIS(4, R * R), AXIS(5, R), AXIS(6, 1)));
  reg v = code_alu2(&e, ALU_add, SN_F32, accumulator(&e, 0),
                    code_load(&e, SN_F32, b, TERMS(AXIS(3, 1))));
  v = code_alu2(&e, ALU_max, SN_F32, v, code_number(&e, SN_F32, 0));
  code_store(&e, v, y, TERMS(AXIS(0, OUT * OH * OW), AXIS(3, OH * OW), AXIS(1, OW), AXIS(2, 1)));
  matmul_product product = {3, {C, R, R}, code_region(&left), code_region(&right)};
  matmul_acc acc = {1, &product};
  matmul_part p = {0, 3, 1, {IMAGES, OH, OW, OUT}, 1, &acc, code_region(&e)};
  trial_matmul(&t, &p);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_value gx = sn_input(g, "x", SN_F32, SN_SHAPE(IMAGES, C, H, W));
  sn_value gw = sn_input(g, "w", SN_F32, SN_SHAPE(OUT, C, R, R));
  sn_value conv =
      sn_conv(g, gx, gw, SN_NONE, SN_INTS(2, 2), SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 1);
  sn_value gb = sn_reshape(g, sn_input(g, "b", SN_F32, SN_SHAPE(OUT)), SN_SHAPE(OUT, 1, 1));
  sn_output(g, "y", sn_relu(g, sn_add(g, conv, gb)));
  if (CHECK(sn_graph_status(g) == SN_OK) &&
      reference(ctx, g, &t, (uint32_t[]){x, w, b}, expected, sizeof expected))
    compare(expected, trial_floats(&t, y), IMAGES * OUT * OH * OW);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  trial_end(&t);
}
