/* Rows and columns of every length that is dealt out to threads in its own way, and points whose places are cut, on the interpreter of
 * SPIR-V: results are the reference's, and the launches are as many as there should be. Which axes of a loop become one. */
#include "device/vulkan/emit.h"
#include "support/test.h"
#include "support/vm_program.h"

typedef struct row_case {
  const char *name;
  sn_shape shape;
  sn_value (*build)(sn_graph *g, sn_value x);
  int launches; /* of a run; 0: it depends on the target */
} row_case;

static sn_value state(sn_graph *g, const char *name, sn_shape shape) {
  return sn_state(g, name, SN_F32, shape, SN_INIT_ZEROS, 0);
}

static sn_value sum_last(sn_graph *g, sn_value x) { return sn_sum(g, x, SN_INTS(-1), false); }
static sn_value sum_first(sn_graph *g, sn_value x) { return sn_sum(g, x, SN_INTS(0), false); }
static sn_value max_first(sn_graph *g, sn_value x) { return sn_max(g, x, SN_INTS(0), false); }
static sn_value softmax(sn_graph *g, sn_value x) { return sn_softmax(g, x, -1); }
static sn_value softmax_first(sn_graph *g, sn_value x) { return sn_softmax(g, x, 0); }

/* Rows that are overwritten while they are read. */
static sn_value in_place(sn_graph *g, sn_value x) {
  sn_value y = sn_matmul(g, x, state(g, "w", SN_SHAPE(4, 2048)), false, false);
  return sn_matmul(g, sn_softmax(g, y, -1), state(g, "v", SN_SHAPE(2048, 40)), false, false);
}

/* What rows store, and what their points do, behind one reduction. */
static sn_value two_stores(sn_graph *g, sn_value x) {
  sn_value sum = sn_sum(g, x, SN_INTS(-1), true);
  sn_output(g, "sum", sum);
  return sn_mul(g, x, sum);
}

/* Where a point is decides what it is. */
static sn_value triangle(sn_graph *g, sn_value x) { return sn_tril(g, x, 1); }

/* Channels of 4 points and more, so that fours have one weight, and of 3, which they have not. */
static sn_value group_norm(sn_graph *g, sn_value x) {
  return sn_silu(
      g, sn_group_norm(g, x, state(g, "w", SN_SHAPE(8)), state(g, "b", SN_SHAPE(8)), 2, 1e-5));
}

/* Two sums of the same points, one beside the other. */
static sn_value two_sums(sn_graph *g, sn_value x) {
  sn_value w = state(g, "w", SN_SHAPE(200, 24));
  return sn_add(g, sn_sum(g, sn_mul(g, x, w), SN_INTS(0), false), sum_first(g, x));
}

/* Three: two launches of two. */
static sn_value three_sums(sn_graph *g, sn_value x) {
  sn_shape shape = sn_value_type(g, x).shape;
  sn_value w = state(g, "w", shape), v = state(g, "v", shape);
  sn_output(g, "of w", sum_first(g, sn_mul(g, x, w)));
  sn_output(g, "of x", sum_first(g, x));
  return sum_first(g, sn_mul(g, x, v));
}

static sn_value max_pool(sn_graph *g, sn_value x) {
  return sn_pool(g, x, SN_POOL_MAX, SN_INTS(3, 3), SN_INTS(2, 2), SN_INTS(1, 1), SN_INTS(1, 1),
                 SN_INTS(1, 1), false, false);
}

/* What is read at a window's points is the channel's, or behind the edge 0. */
static sn_value scaled_pool(sn_graph *g, sn_value x) {
  sn_value mean = state(g, "mean", SN_SHAPE(2)), var = state(g, "var", SN_SHAPE(2));
  return max_pool(g, sn_relu(g, sn_batch_norm(g, x, mean, var, mean, var, 1e-3)));
}

static sn_value joined(sn_graph *g, sn_value x) {
  sn_value y = state(g, "y", SN_SHAPE(2, 16, 32, 32));
  sn_value near =
      sn_upsample_nearest(g, state(g, "z", SN_SHAPE(2, 4, 16, 16)), SN_SHAPE(32, 32), 0, 0);
  return sn_concat(g, (sn_value[]){x, y, near}, 3, 1);
}

/* x[d] * w[d % 8] + x[d of the other half] * v[d], by fours. */
static sn_value turned(sn_graph *g, sn_value x) {
  sn_value low = sn_slice(g, x, 2, 0, 8, 1), high = sn_slice(g, x, 2, 8, 16, 1);
  sn_value other = sn_concat(g, (sn_value[]){sn_neg(g, high), low}, 2, 2);
  sn_value w = state(g, "w", SN_SHAPE(16, 8)), both = sn_concat(g, (sn_value[]){w, w}, 2, 1);
  return sn_add(g, sn_mul(g, x, both), sn_mul(g, other, state(g, "v", SN_SHAPE(16, 16))));
}

static const row_case cases[] = {
    {"short rows", {2, {7, 5}}, sum_last, 1},
    {"rows of 576", {2, {3, 576}}, softmax, 1},
    {"rows of 2100", {2, {2, 2100}}, softmax, 1},
    {"rows of 4096", {2, {2, 4096}}, softmax, 1},
    {"rows of 4097", {2, {1, 4097}}, softmax, 0},
    {"rows of 9000", {2, {1, 9000}}, sum_last, 0},
    {"in place", {2, {20, 4}}, in_place, 0},
    {"two stores", {2, {3, 2048}}, two_stores, 1},
    {"triangle", {2, {64, 272}}, triangle, 1},
    {"long rows", {2, {2, 40000}}, sum_last, 0},
    {"groups of 4096", {3, {1, 8, 1024}}, group_norm, 1},
    {"groups of 12288", {3, {1, 8, 3072}}, group_norm, 1},
    {"groups of 12", {3, {2, 8, 3}}, group_norm, 1},
    {"columns", {2, {128, 40}}, sum_first, 1},
    {"one column", {2, {300, 1}}, sum_first, 1},
    {"three columns", {2, {300, 3}}, sum_first, 0},
    {"nine columns", {2, {1100, 9}}, max_first, 0},
    {"wide columns", {2, {50, 720}}, sum_first, 1},
    {"many columns", {2, {6, 9000}}, sum_first, 1},
    {"long columns", {2, {6000, 16}}, sum_first, 0},
    {"columns, twice", {2, {200, 24}}, two_sums, 1},
    {"columns, three times", {2, {200, 24}}, three_sums, 2},
    {"long columns, three times", {2, {12000, 16}}, three_sums, 0},
    {"softmax of columns", {2, {70, 33}}, softmax_first, 1},
    {"max pool", {4, {1, 2, 20, 18}}, max_pool, 1},
    {"max pool of many", {4, {2, 2, 96, 96}}, scaled_pool, 0},
    {"joined", {4, {2, 8, 32, 32}}, joined, 0},
    {"turned", {3, {96, 16, 16}}, turned, 0},
};

static void check_case(const row_case *c) {
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_output(g, "y", c->build(g, sn_input(g, "x", SN_F32, c->shape)));
  vm_check_launches(g, c->launches);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(rows) {
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    if (test_begin("%s", cases[i].name)) {
      check_case(&cases[i]);
      test_end();
    }
}

/* --- axes --- */

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

typedef struct fixture {
  sn_ctx *ctx;
  arena memory;
  emitter *e;
} fixture;

static void set_up(fixture *f) {
  REQUIRE(sn_ctx_create(NULL, &f->ctx) == SN_OK);
  arena_init(&f->memory, f->ctx);
  f->e = arena_alloc(&f->memory, sizeof *f->e);
  REQUIRE(f->e);
  f->e->env = (emit_env){.ctx = f->ctx, .memory = &f->memory};
}

static void tear_down(fixture *f) {
  arena_clear(&f->memory);
  sn_ctx_destroy(f->ctx);
}

/* A copy over axes [2, 6, 8, 4], the first `outer` of which are rows, as few axes. */
static const loop_part *few(fixture *f, int outer, int n, const term *from, const term *to) {
  static instr code[2];
  code[0] = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {1, 0, n, 0, from, NULL}};
  code[1] = (instr){.op = REGION_STORE, .dtype = SN_F32, .at = {2, 0, 4, 0, to, NULL}};
  loop_part p = {4, outer, 1, {2, 6, 8, 4}, {2, code}};
  const loop_part *made = emit_few_axes(f->e, arena_copy(&f->memory, &p, sizeof p));
  return made ? made : arena_copy(&f->memory, &p, sizeof p);
}

TEST(axes_that_are_one) {
  fixture f;
  set_up(&f);
  term dense[] = {along(0, 192), along(1, 32), along(2, 4), along(3, 1)};
  const loop_part *p = few(&f, 0, 4, dense, dense);
  CHECK_EQ_INT(p->n_axes, 1);
  CHECK_EQ_INT(p->extent[0], 384);
  CHECK_EQ_INT(p->code.code[0].at.n_terms, 1);
  CHECK_EQ_INT(p->code.code[0].at.terms[0].stride, 1);
  p = few(&f, 2, 4, dense, dense); /* rows stay rows */
  CHECK_EQ_INT(p->n_axes, 2);
  CHECK_EQ_INT(p->n_outer, 1);
  CHECK_EQ_INT(p->extent[0], 12);
  CHECK_EQ_INT(p->extent[1], 32);
  term apart[] = {along(0, 500), along(1, 32), along(2, 4), along(3, 1)};
  p = few(&f, 0, 4, dense, apart);
  CHECK_EQ_INT(p->n_axes, 2);
  CHECK_EQ_INT(p->code.code[1].at.terms[0].stride, 500);
  CHECK_EQ_INT(p->code.code[1].at.terms[1].axis, 1);
  term broadcast[] = {along(2, 4), along(3, 1)};
  p = few(&f, 0, 2, broadcast, dense); /* the first two, which the load does not read */
  CHECK_EQ_INT(p->n_axes, 2);
  CHECK_EQ_INT(p->extent[0], 12);
  CHECK_EQ_INT(p->extent[1], 32);
  tear_down(&f);
}

TEST(axes_that_are_cut_stay) {
  fixture f;
  set_up(&f);
  term dense[] = {along(0, 192), along(1, 32), along(2, 4), along(3, 1)};
  term halves[] = {along(0, 192), along(1, 32), {2, 0, 4, 2, 0}, along(3, 1)};
  term rest[] = {along(0, 192), along(1, 32), along(2, 4), {3, 0, 1, 1, 2}};
  CHECK_EQ_INT(few(&f, 0, 4, halves, dense)->n_axes, 3);
  CHECK_EQ_INT(few(&f, 0, 4, rest, dense)->n_axes, 2);
  tear_down(&f);
}
