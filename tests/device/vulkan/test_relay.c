/* Two products behind each other as one launch (src/device/vulkan/emit_matmul_relay.h), on the interpreter of SPIR-V: results are the reference's, and
 * those steps are computed by the next one that should be. */
#include "support/launches_same.h"
#include "support/test.h"
#include "support/vm_program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UNITS = 4, ROWS = 256 };

typedef struct relay_case {
  const char *name;
  sn_value (*build)(sn_graph *g, const struct relay_case *c);
  int64_t rows, k, n[2]; /* columns of the first result, of the second */
  int relayed;           /* steps without launches */
} relay_case;

static sn_value weights(sn_graph *g, const char *name, int64_t n, int64_t k) {
  return sn_state(g, name, SN_F32, SN_SHAPE(n, k), SN_INIT_ZEROS, 0);
}

static sn_value input(sn_graph *g, const relay_case *c) {
  return sn_input(g, "x", SN_F32, SN_SHAPE(c->rows, c->k));
}

static sn_value first_of(sn_graph *g, sn_value x, const relay_case *c) {
  return sn_relu(g, sn_matmul(g, x, weights(g, "a", c->n[0], c->k), false, true));
}

static sn_value second_of(sn_graph *g, sn_value y, const relay_case *c) {
  return sn_matmul(g, y, weights(g, "b", c->n[1], c->n[0]), false, true);
}

static sn_value two(sn_graph *g, const relay_case *c) {
  return sn_gelu(g, second_of(g, first_of(g, input(g, c), c), c));
}

/* Nothing stands between the products, or behind them. */
static sn_value bare(sn_graph *g, const relay_case *c) {
  return second_of(g, sn_matmul(g, input(g, c), weights(g, "a", c->n[0], c->k), false, true), c);
}

static sn_value plain_weights(sn_graph *g, const relay_case *c) {
  sn_value a = sn_state(g, "a", SN_F32, SN_SHAPE(c->k, c->n[0]), SN_INIT_ZEROS, 0);
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(c->n[0], c->n[1]), SN_INIT_ZEROS, 0);
  return sn_matmul(g, sn_tanh(g, sn_matmul(g, input(g, c), a, false, false)), b, false, false);
}

/* Of three only the first two. */
static sn_value three(sn_graph *g, const relay_case *c) {
  sn_value y = second_of(g, first_of(g, input(g, c), c), c);
  return sn_matmul(g, sn_relu(g, y), weights(g, "c", 256, c->n[1]), false, true);
}

static sn_value read_twice(sn_graph *g, const relay_case *c) {
  sn_value y = first_of(g, input(g, c), c);
  sn_output(g, "first", y);
  return second_of(g, y, c);
}

static sn_value read_by_epilogue(sn_graph *g, const relay_case *c) {
  sn_value y = first_of(g, input(g, c), c), z = second_of(g, y, c);
  return sn_add(g, z, sn_concat(g, (sn_value[]){y, y, y, y}, 4, 1));
}

static sn_value read_later(sn_graph *g, const relay_case *c) {
  sn_value y = first_of(g, input(g, c), c), z = sn_softmax(g, second_of(g, y, c), -1);
  return sn_add(g, sn_sum(g, z, SN_INTS(1), true), y);
}

/* Weights that a run makes are not packed. */
static sn_value weights_of_a_run(sn_graph *g, const relay_case *c) {
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(c->n[1], c->n[0]));
  return sn_matmul(g, first_of(g, input(g, c), c), w, false, true);
}

static sn_value conv(sn_graph *g, const char *name, sn_value x, int64_t n, int64_t k, int side,
                     int stride) {
  sn_value w = sn_state(g, name, SN_F32, SN_SHAPE(n, k, side, side), SN_INIT_ZEROS, 0);
  return sn_conv(g, x, w, SN_NONE, SN_INTS(stride, stride), SN_INTS(side / 2, side / 2),
                 SN_INTS(side / 2, side / 2), SN_INTS(1, 1), 1);
}

/* A block of a residual network: rows are 2 images of 8 by 16 pixels; the sum may lie where the image was. */
static sn_value block(sn_graph *g, const relay_case *c) {
  sn_value image = sn_input(g, "x", SN_F32, SN_SHAPE(2, 16, 8, 16));
  sn_value x = sn_relu(g, conv(g, "stem", image, c->n[1], 16, 1, 1));
  sn_value y = sn_relu(g, conv(g, "reduce", x, c->k, c->n[1], 1, 1));
  y = sn_relu(g, conv(g, "a", y, c->n[0], c->k, 3, 1));
  return sn_relu(g, sn_add(g, x, conv(g, "b", y, c->n[1], c->n[0], 1, 1)));
}

static sn_value strided_block(sn_graph *g, const relay_case *c) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(2, c->k, 16, 32));
  sn_value y = sn_relu(g, conv(g, "a", sn_relu(g, x), c->n[0], c->k, 3, 2));
  return sn_relu(g, conv(g, "b", y, c->n[1], c->n[0], 1, 1));
}

/* The rows of the first product are channels and images, and channels are stored last: they are counted in another order. */
static sn_value channels_as_rows(sn_graph *g, const relay_case *c) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(16, 16, 4, 4));
  sn_value image = sn_relu(g, conv(g, "stem", x, 16, 16, 3, 1));
  sn_value rows = sn_transpose(g, sn_reshape(g, image, SN_SHAPE(16, 16, 16)), SN_INTS(1, 0, 2));
  return second_of(g, first_of(g, rows, c), c);
}

/* The second result lies where the first product's operand does. */
static sn_value over_what_is_read(sn_graph *g, const relay_case *c) {
  sn_value y = first_of(g, sn_tanh(g, input(g, c)), c);
  return sn_softmax(g, second_of(g, y, c), -1);
}

static const relay_case cases[] = {
    {"64 and 256 columns", two, ROWS, 40, {64, 256}, 1},
    {"64 and 512", two, ROWS, 16, {64, 512}, 1},
    {"64 and 384", two, ROWS, 16, {64, 384}, 1},
    {"128 and 256", two, ROWS, 16, {128, 256}, 1},
    {"128 and 512", two, 320, 33, {128, 512}, 1},
    {"many rows", two, 512, 16, {64, 256}, 1},
    {"nothing between", bare, ROWS, 20, {64, 256}, 1},
    {"weights by columns", plain_weights, ROWS, 24, {64, 256}, 1},
    {"three", three, ROWS, 16, {64, 256}, 1},
    {"block", block, ROWS, 64, {64, 256}, 1},
    {"wide block", block, ROWS, 128, {128, 512}, 1},
    {"strided", strided_block, ROWS, 16, {64, 256}, 1},
    {"read twice", read_twice, ROWS, 16, {64, 256}, 0},
    {"read by the epilogue", read_by_epilogue, ROWS, 16, {64, 256}, 0},
    {"read later", read_later, ROWS, 16, {64, 256}, 0},
    {"channels as rows", channels_as_rows, ROWS, 16, {64, 256}, 0},
    {"over what is read", over_what_is_read, ROWS, 256, {64, 256}, 0},
    {"weights of a run", weights_of_a_run, ROWS, 16, {64, 256}, 0},
    {"rows that leave a rest", two, ROWS + 8, 16, {64, 256}, 0},
    {"columns that leave a rest", two, ROWS, 16, {96, 256}, 0},
    {"bands that leave a rest", two, ROWS, 16, {64, 320}, 0},
    {"few rows", two, ROWS - 32, 16, {64, 256}, 0},
    {"too many rows", two, 544, 16, {64, 256}, 0},
    {"few columns behind", two, ROWS, 16, {64, 128}, 0},
};

typedef struct world {
  sn_ctx *ctx;
  sn_graph *g;
} world;

static bool start(world *w, const relay_case *c) {
  *w = (world){0};
  if (!CHECK(sn_ctx_create(NULL, &w->ctx) == SN_OK) ||
      !CHECK(sn_graph_create(w->ctx, &w->g) == SN_OK))
    return false;
  sn_output(w->g, "y", c->build(w->g, c));
  return true;
}

static void end(world *w) {
  sn_graph_destroy(w->g);
  sn_ctx_destroy(w->ctx);
}

/* With channels last, as the device has them. */
static const vm_check_options options = {.compile = {.channels_last = 16},
                                         .precision = SN_PRECISION_FAST,
                                         .bf16 = true,
                                         .relays = UNITS};

/* Steps without a launch. */
static int count_relayed(const world *w, sn_precision precision) {
  gpu_target target = vm_target(32);
  emit_env env = {.target = &target, .precision = precision};
  compiled c;
  int n = 0;
  target.f16 = target.bf16 = target.places = target.bf16_places = target.relays = true;
  target.units = UNITS;
  target.matrix[0] = target.matrix[1] = target.matrix[2] = 16;
  if (!CHECK(compile_graph(w->g, &options.compile, &c) == SN_OK))
    return -1;
  arena memory;
  arena_init(&memory, w->ctx);
  step_launches *made = arena_array(&memory, (size_t)program_steps(c.program), sizeof *made);
  if (CHECK(made) &&
      CHECK(launches_emit(&env, w->ctx, &memory, c.program, true, made, NULL) == SN_OK))
    for (int i = 0; i < program_steps(c.program); i++)
      n += made[i].n == 0;
  arena_clear(&memory);
  compile_destroy(&c);
  return n;
}

static void check_results(const world *w, const plan_numbers *numbers, const vm_check_options *o) {
  char why[1000];
  if (vm_check(w->g, numbers, 1, o, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
}

TEST_WALK(relays) {
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    world w;
    if (!test_begin("%s", cases[i].name))
      continue;
    if (start(&w, &cases[i])) {
      CHECK_EQ_INT(count_relayed(&w, SN_PRECISION_FAST), cases[i].relayed);
      check_results(&w, &(plan_numbers){0}, &options);
    }
    end(&w);
    test_end();
  }
}

TEST(other_precisions) {
  world w;
  vm_check_options half = options;
  half.precision = SN_PRECISION_HALF;
  if (start(&w, &cases[0])) {
    CHECK_EQ_INT(count_relayed(&w, SN_PRECISION_HALF), 1);
    CHECK_EQ_INT(count_relayed(&w, SN_PRECISION_EXACT), 0);
    check_results(&w, &(plan_numbers){0}, &half);
  }
  end(&w);
}

TEST(step_by_step) {
  world w;
  vm_check_options o = options;
  o.by_step = true;
  if (start(&w, &cases[0]))
    check_results(&w, &(plan_numbers){0}, &o);
  end(&w);
}

/* Infinities where the first result has one, and in weights of the second: products of halves are no numbers, plain ones are right. */
static double wild(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const char *where = user;
  (void)dtype;
  if (strcmp(name, where) == 0 && i == 1234 % 700)
    return INFINITY;
  return strcmp(name, "x") == 0 ? 0.25 + (double)(i % 7) : 0.125 * (double)(i % 5 + 1);
}

TEST_WALK(infinities) {
  static const char *const where[] = {"x", "a", "b"};
  for (size_t i = 0; i < COUNT_OF(where); i++) {
    world w;
    if (!test_begin("%s", where[i]))
      continue;
    plan_numbers numbers = {.fill = wild, .user = (void *)(uintptr_t)where[i]};
    if (start(&w, &cases[0]))
      check_results(&w, &numbers, &options);
    end(&w);
    test_end();
  }
}
