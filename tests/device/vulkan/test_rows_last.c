/* Rows and points of values whose channels are last, on the interpreter of SPIR-V: norms, pools, sums of columns and what else stands
 * between convolutions, in sizes at which threads have fours of channels, and some at which they cannot. How such parts are
 * ordered, and what of them is dealt out in fours of rows. */
#include "device/vulkan/emit_rows.h"
#include "support/test.h"
#include "support/vm_program.h"

typedef struct last_case {
  const char *name;
  int64_t n, channels, side;
  sn_value (*build)(sn_graph *g, sn_value x, int64_t c);
  bool trains;
} last_case;

static sn_value state(sn_graph *g, const char *name, sn_shape shape) {
  return sn_state(g, name, SN_F32, shape, SN_INIT_ZEROS, 0);
}

static sn_value conv(sn_graph *g, sn_value x, const char *name, int64_t from, int64_t to) {
  return sn_conv(g, x, state(g, name, SN_SHAPE(to, from, 1, 1)), SN_NONE, SN_INTS(1, 1),
                 SN_INTS(0, 0), SN_INTS(0, 0), SN_INTS(1, 1), 1);
}

static sn_value max_pool(sn_graph *g, sn_value x, int64_t c) {
  (void)c;
  return sn_pool(g, sn_relu(g, x), SN_POOL_MAX, SN_INTS(3, 3), SN_INTS(2, 2), SN_INTS(1, 1),
                 SN_INTS(1, 1), SN_INTS(1, 1), false, false);
}

/* What leaves the graph has its channels where they were. */
static sn_value shown_pool(sn_graph *g, sn_value x, int64_t c) {
  sn_value y = max_pool(g, x, c);
  sn_output(g, "pool", y);
  return y;
}

static sn_value small_pool(sn_graph *g, sn_value x, int64_t c) {
  (void)c;
  return sn_pool(g, x, SN_POOL_AVG, SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(0, 0), SN_INTS(0, 0),
                 SN_INTS(1, 1), false, false);
}

static sn_value mean_pool(sn_graph *g, sn_value x, int64_t c) {
  (void)c;
  return sn_mean(g, x, SN_INTS(2, 3), true);
}

static sn_value group_norm(sn_graph *g, sn_value x, int64_t c) {
  return sn_silu(
      g, sn_group_norm(g, x, state(g, "w", SN_SHAPE(c)), state(g, "b", SN_SHAPE(c)), 2, 1e-5));
}

static sn_value batch_norm(sn_graph *g, sn_value x, int64_t c) {
  sn_value v[4];
  static const char *const names[4] = {"w", "b", "mean", "var"};
  for (int i = 0; i < 4; i++)
    v[i] = state(g, names[i], SN_SHAPE(c));
  return sn_relu(g, sn_batch_norm_train(g, x, v[0], v[1], v[2], v[3], 0.1, 1e-3));
}

static sn_value beside_itself(sn_graph *g, sn_value x) {
  sn_shape shape = sn_value_type(g, x).shape;
  sn_value y = sn_pool(g, x, SN_POOL_MAX, SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(0, 0),
                       SN_INTS(0, 0), SN_INTS(1, 1), false, false);
  y = sn_upsample_nearest(g, y, SN_SHAPE(shape.dim[2], shape.dim[3]), 0, 0);
  return sn_concat(g, (sn_value[]){x, y}, 2, 1);
}

static sn_value joined(sn_graph *g, sn_value x, int64_t c) {
  (void)c;
  return sn_tanh(g, beside_itself(g, x));
}

/* Channels, by their number, are of one or the other. */
static sn_value joined_norm(sn_graph *g, sn_value x, int64_t c) {
  sn_value y = beside_itself(g, x);
  sn_output(g, "joined", y);
  return group_norm(g, y, 2 * c);
}

static const last_case cases[] = {
    {"max pool", 2, 16, 40, max_pool, false},
    {"max pool that is shown", 2, 16, 40, shown_pool, false},
    {"max pool, trained", 2, 16, 40, max_pool, true},
    {"max pool of few", 1, 8, 6, max_pool, true},
    {"max pool of 6 channels", 2, 6, 20, max_pool, false},
    {"windows of 4", 2, 16, 24, small_pool, true},
    {"mean pool", 2, 32, 7, mean_pool, true},
    {"mean pool of 6 channels", 2, 6, 7, mean_pool, false},
    {"group norm", 2, 16, 16, group_norm, false},
    {"group norm, trained", 2, 16, 16, group_norm, true},
    {"group norm of 3 channels a group", 2, 6, 8, group_norm, true},
    {"group norm of 12 channels a group", 1, 24, 10, group_norm, true},
    {"batch norm", 3, 24, 6, batch_norm, true},
    {"batch norm of many pixels", 1, 16, 70, batch_norm, true},
    {"joined", 2, 12, 8, joined, true},
    {"group norm of joined", 1, 8, 16, joined_norm, false},
    {"group norm of joined, trained", 1, 4, 16, joined_norm, true},
    {"group norm of joined, 6144", 1, 24, 16, joined_norm, false},
};

static void check_case(const last_case *c) {
  sn_ctx *ctx;
  sn_graph *g;
  char why[1000];
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(c->n, 3, c->side, c->side));
  sn_value first = state(g, "first", SN_SHAPE(c->channels, 3, 1, 1)), grad;
  sn_value y =
      sn_conv(g, x, first, SN_NONE, SN_INTS(1, 1), SN_INTS(0, 0), SN_INTS(0, 0), SN_INTS(1, 1), 1);
  y = c->build(g, y, c->channels);
  y = conv(g, y, "last", sn_value_type(g, y).shape.dim[1], 4);
  sn_output(g, "y", y);
  if (c->trains) {
    sn_value loss = sn_sum(g, sn_sqr(g, y), SN_INTS(0, 1, 2, 3), false);
    CHECK(sn_grad(g, loss, &first, 1, &grad) == SN_OK);
    sn_output(g, "d", grad);
  }
  vm_check_options o = {.compile = {.channels_last = 2}};
  if (vm_check(g, &(plan_numbers){0}, 1, &o, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(last) {
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    if (test_begin("%s", cases[i].name)) {
      check_case(&cases[i]);
      test_end();
    }
}

/* --- axes and rows, by hand --- */

typedef struct fixture {
  sn_ctx *ctx;
  arena memory;
  program program;
  program_value values[4];
  gpu_target target;
  step step;
  emitter *e;
} fixture;

static void set_up(fixture *f) {
  *f = (fixture){.target = vm_target(32)};
  REQUIRE(sn_ctx_create(NULL, &f->ctx) == SN_OK);
  arena_init(&f->memory, f->ctx);
  for (int i = 1; i < 4; i++)
    f->values[i].type.dtype = SN_F32;
  f->program.values = f->values;
  f->program.n_values = 4;
  f->e = arena_alloc(&f->memory, sizeof *f->e);
  REQUIRE(f->e);
  f->e->step = &f->step;
  f->e->env =
      (emit_env){.ctx = f->ctx, .memory = &f->memory, .program = &f->program, .target = &f->target};
}

static void tear_down(fixture *f) {
  arena_clear(&f->memory);
  sn_ctx_destroy(f->ctx);
}

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

static instr load(int n, const term *terms, int checks, const check *of) {
  return (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {1, 0, n, checks, terms, of}};
}

static instr store(int n, const term *terms, bool of_row) {
  return (instr){.op = REGION_STORE,
                 .dtype = SN_F32,
                 .row = of_row,
                 .phase = of_row,
                 .at = {2, 0, n, 0, terms, NULL}};
}

static const loop_part *ordered(fixture *f, const loop_part *p) {
  const loop_part *own = arena_copy(&f->memory, p, sizeof *p), *made = emit_order_axes(f->e, own);
  made = made ? emit_few_axes(f->e, made) : NULL;
  return made ? made : own;
}

/* [2, 16, 30] points of [2, 30, 16] memory: channels become last. */
TEST(channels_come_last) {
  fixture f;
  set_up(&f);
  const term at[] = {along(0, 480), along(1, 1), along(2, 16)};
  const instr code[] = {load(3, at, 0, NULL), store(3, at, false)};
  const loop_part *p = ordered(&f, &(loop_part){3, 0, 1, {2, 16, 30}, {2, code}});
  CHECK_EQ_INT(p->n_axes, 1); /* all of it is one */
  const term to[] = {along(0, 600), along(1, 1), along(2, 20)};
  const instr apart[] = {load(3, at, 0, NULL), store(3, to, false)};
  p = ordered(&f, &(loop_part){3, 0, 1, {2, 16, 30}, {2, apart}});
  CHECK_EQ_INT(p->n_axes, 2);
  CHECK_EQ_INT(p->extent[1], 16);
  for (int t = 0; t < p->code.code[1].at.n_terms; t++)
    CHECK_EQ_INT(p->code.code[1].at.terms[t].stride,
                 p->code.code[1].at.terms[t].axis == 1 ? 1 : 20);
  const term across[] = {along(0, 480), along(1, 30), along(2, 1)};
  const instr turned[] = {load(3, at, 0, NULL), store(3, across, false)};
  p = ordered(&f, &(loop_part){3, 0, 1, {2, 16, 30}, {2, turned}});
  CHECK_EQ_INT(p->extent[p->n_axes - 1], 30); /* as many for as against: it stays */
  tear_down(&f);
}

/* Rows of groups: 32 points are 4 channels of 8 pixels, which memory has as pixels of channels. */
TEST(groups_are_taken_apart) {
  fixture f;
  set_up(&f);
  const term at[] = {along(0, 4), {1, 0, 1, 8, 0}, {1, 0, 12, 1, 8}}, weight[] = {{1, 0, 1, 8, 0}};
  const instr code[] = {load(3, at, 0, NULL), load(1, weight, 0, NULL), store(3, at, false)};
  const loop_part *p = ordered(&f, &(loop_part){2, 1, 1, {3, 32}, {3, code}});
  CHECK_EQ_INT(p->n_axes, 3);
  CHECK_EQ_INT(p->n_outer, 1);
  CHECK_EQ_INT(p->extent[1], 8);
  CHECK_EQ_INT(p->extent[2], 4);
  const four_axes inner = {1, 2, p->extent};
  for (int i = 0; i < 3; i++)
    CHECK_EQ_INT(emit_four_kind(f.e, &p->code, i, &inner), FOUR_NEXT);
  const term odd[] = {{1, 0, 1, 12, 0}};
  const instr cut[] = {load(3, at, 0, NULL), load(1, odd, 0, NULL), store(3, at, false)};
  CHECK_EQ_INT(ordered(&f, &(loop_part){2, 1, 1, {3, 32}, {3, cut}})->n_axes, 2);
  tear_down(&f);
}

/* Sums over windows of 3 of [points, 16]: rows of channels are next to each other; checks are the pixels' or the channels'. */
TEST(rows_are_wide) {
  fixture f;
  set_up(&f);
  const term at[] = {along(0, 16), along(1, 1), along(2, 16)}, to[] = {along(0, 16), along(1, 1)};
  const term pixel[] = {along(0, 1), along(2, 1)}, channel[] = {along(1, 1)};
  check edge = {2, pixel, -1, 4096, 1};
  const instr sum = {.op = REGION_REDUCE, .code = REDUCE_SUM, .dtype = SN_F32};
  instr code[] = {load(3, at, 1, &edge), sum, store(2, to, true)};
  loop_part p = {3, 2, 1, {4096, 16, 3}, {3, code}};
  CHECK(row_may_be_wide(f.e, &p));
  row_deal d = row_deal_of(f.e, &p);
  CHECK_EQ_INT(d.wide, 4);
  CHECK_EQ_INT(d.lanes, 1);
  check half = {1, channel, 0, 8, 1};
  code[0] = load(3, at, 1, &half);
  CHECK(row_may_be_wide(f.e, &p));
  half.size = 6; /* two of the four at 4 … 7 */
  CHECK(!row_may_be_wide(f.e, &p));
  code[0] = load(3, at, 0, NULL);
  p.extent[1] = 15;
  CHECK(!row_may_be_wide(f.e, &p));
  p.extent[1] = 16;
  code[2].at.value = 1; /* in place */
  CHECK(!row_may_be_wide(f.e, &p));
  tear_down(&f);
}

/* Sums, and sums of squares around the mean, of rows of 1024: one reduction where that is what they are. */
TEST(norms_wait_once) {
  fixture f;
  set_up(&f);
  const term at[] = {along(0, 1024), along(1, 1)};
  instr code[] = {
      {.op = REGION_NUMBER, .dtype = SN_F32, .row = true, .x = 1.0 / 1024},
      load(2, at, 0, NULL),
      {.op = REGION_REDUCE, .code = REDUCE_SUM, .dtype = SN_F32, .a = 1},
      {.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .row = true, .phase = 1, .a = 2},
      load(2, at, 0, NULL),
      {.op = REGION_ALU, .code = ALU_sub, .dtype = SN_F32, .phase = 1, .a = 4, .b = 3},
      {.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .phase = 1, .a = 5, .b = 5},
      {.op = REGION_REDUCE, .code = REDUCE_SUM, .dtype = SN_F32, .phase = 1, .a = 6},
  };
  code[4].phase = 1;
  loop_part p = {2, 1, 2, {3, 1024}, {COUNT_OF(code), code}};
  const row_shape all = {.rows = 1, .unroll = 4, .kept = true}, some = {.rows = 1, .unroll = 4};
  CHECK(row_has_moments(f.e, &p, &all, 256));
  CHECK(!row_has_moments(f.e, &p, &some, 256));
  CHECK(!row_has_moments(f.e, &p, &all, 512)); /* lanes without points */
  code[0].x = 1.0 / 1023;
  CHECK(!row_has_moments(f.e, &p, &all, 256));
  code[0].x = 1.0 / 1024;
  code[4].at.value = 3;
  CHECK(!row_has_moments(f.e, &p, &all, 256));
  code[4].at.value = 1;
  code[6].b = 4;
  CHECK(!row_has_moments(f.e, &p, &all, 256));
  code[6].b = 5;
  code[1].op = code[4].op = REGION_INDEX; /* where points are */
  CHECK(row_has_moments(f.e, &p, &all, 256));
  code[4].at.n_terms = 1;
  CHECK(!row_has_moments(f.e, &p, &all, 256));
  tear_down(&f);
}
