/* The CPU device as its callers see it: memory of every home, prepare, main and commit, failure, progress, spans. The program
 * is built by hand:
 *
 *   prepare   p = w + w                     w: state 0 [N], p: prepared
 *   main      a = x * p                     x: input [n], a: arena
 *             y = a, require a < k          k: constant, y: output [n]
 *   commit    s = s + 1                     s: state 1, a scalar, in place
 */
#include "base/stale.h"
#include "device/devices.h"
#include "support/fault.h"
#include "support/test.h"

#include <math.h>

enum { N = 300, X = 1, W, P, A, K, Y, S, S_NEW, VALUES };

typedef struct world {
  program program;
  program_value values[VALUES];
  step steps[4];
  part parts[4];
  instr code[4][6];
  term term;
  program_constant constant;
  program_site site;
  float x[N], y[N], w[N], s, k;
  int64_t sizes[1]; /* n */
  const void *inputs[1];
  void *outputs[1], *states[2];
  int spans, reports, stop_at;
  double last_end;
} world;

static instr moved(world *t, region_op op, uint32_t value, bool scalar, reg a) {
  access at = {.value = value, .n_terms = scalar ? 0 : 1, .terms = &t->term};
  return (instr){.op = (uint8_t)op, .dtype = SN_F32, .a = a, .at = at};
}
static instr alu2(alu code, sn_dtype dtype, reg a, reg b) {
  return (instr){.op = REGION_ALU, .code = (uint8_t)code, .dtype = (uint8_t)dtype, .a = a, .b = b};
}

static void add_step(world *t, int i, int n_axes, sn_dim extent, int n_code) {
  loop_part *p = &t->parts[i].u.loop;
  *p = (loop_part){.n_axes = n_axes, .n_phases = 1, .extent = {extent}};
  p->code = (region){n_code, t->code[i]};
  t->steps[i] = (step){
      .kind = STEP_POINTWISE, .barrier = true, .n_parts = 1, .parts = &t->parts[i], .name = "step"};
}

static void build_steps(world *t) {
  const sn_dim n = DIM_HANDLES;
  t->term = (term){.axis = 0, .stride = 1, .div = 1};
  instr *c = t->code[0];
  c[0] = moved(t, REGION_LOAD, W, false, 0);
  c[1] = alu2(ALU_add, SN_F32, 0, 0);
  c[2] = moved(t, REGION_STORE, P, false, 1);
  add_step(t, 0, 1, N, 3);
  c = t->code[1];
  c[0] = moved(t, REGION_LOAD, X, false, 0);
  c[1] = moved(t, REGION_LOAD, P, false, 0);
  c[2] = alu2(ALU_mul, SN_F32, 0, 1);
  c[3] = moved(t, REGION_STORE, A, false, 2);
  add_step(t, 1, 1, n, 4);
  c = t->code[2];
  c[0] = moved(t, REGION_LOAD, A, false, 0);
  c[1] = moved(t, REGION_LOAD, K, true, 0);
  c[2] = alu2(ALU_lt, SN_BOOL, 0, 1);
  c[3] = (instr){.op = REGION_ALU, .code = ALU_cast, .dtype = SN_I32, .a = 0};
  c[4] = (instr){.op = REGION_REQUIRE, .dtype = SN_BOOL, .a = 2, .b = 3, .index = 0};
  c[5] = moved(t, REGION_STORE, Y, false, 0);
  add_step(t, 2, 1, n, 6);
  c = t->code[3];
  c[0] = moved(t, REGION_LOAD, S, true, 0);
  c[1] = (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = 1};
  c[2] = alu2(ALU_add, SN_F32, 0, 1);
  c[3] = moved(t, REGION_STORE, S_NEW, true, 2);
  add_step(t, 3, 0, 0, 4);
}

static program_value value(value_home home, uint32_t index, int64_t offset, sn_dim count) {
  return (program_value){
      .type = {.dtype = SN_F32}, .count = count, .home = home, .index = index, .offset = offset};
}

static void build(world *t) {
  *t = (world){.sizes = {N}, .k = 1000, .stop_at = -1};
  const sn_dim n = DIM_HANDLES;
  t->values[X] = value(HOME_INPUT, 0, 0, n);
  t->values[W] = value(HOME_STATE, 0, 0, N);
  t->values[P] = value(HOME_PREPARED, 0, 64, N);
  t->values[A] = value(HOME_ARENA, 0, 128, n);
  t->values[K] = value(HOME_CONSTANT, 0, 0, 1);
  t->values[Y] = value(HOME_OUTPUT, 0, 0, n);
  t->values[S] = t->values[S_NEW] = value(HOME_STATE, 1, 0, 1);
  for (int v = 0; v < VALUES; v++)
    t->values[v].first = -1;
  t->values[P].first = 0, t->values[A].first = 1, t->values[Y].first = 2;
  t->values[S_NEW].first = 3;
  t->constant = (program_constant){&t->k, sizeof t->k};
  t->site = (program_site){"a must be below k, but is %d", SN_ERR_INVALID};
  build_steps(t);
  t->program = (program){.values = t->values, .n_values = VALUES, .steps = t->steps};
  t->program.n_prepare = 1, t->program.n_main = 2, t->program.n_commit = 1;
  t->program.constants = &t->constant, t->program.n_constants = 1;
  t->program.sites = &t->site, t->program.n_sites = 1;
  t->program.arena_bytes = 128 + N * 4, t->program.prepared_bytes = 64 + N * 4;
  for (int i = 0; i < N; i++)
    t->x[i] = (float)i, t->w[i] = 1;
  t->inputs[0] = t->x, t->outputs[0] = t->y;
  t->states[0] = t->w, t->states[1] = &t->s;
}

static device_run run_of(world *t) {
  return (device_run){.sizes = t->sizes,
                      .inputs = t->inputs,
                      .outputs = t->outputs,
                      .states = t->states,
                      .prepare = true};
}

static device_plan *lowered(world *t, sn_ctx *ctx) {
  const device *d = &cpu_device;
  device_plan *dp = NULL;
  build(t);
  CHECK(d->lower(d, ctx, &t->program, &(device_options){.spans = true}, &dp) == SN_OK);
  d->poison(dp);
  return dp;
}

TEST(registry) {
  const device *cpu = device_find("cpu");
  int listed = 0, n = 0;
  REQUIRE(cpu != NULL);
  CHECK_EQ_STR(cpu->name, "cpu");
  for (; device_at(n); n++) {
    listed += device_at(n) == cpu;
    CHECK(device_find(device_at(n)->name) == device_at(n));
  }
  CHECK_EQ_INT(listed, 1);
  CHECK(device_at(-1) == NULL && device_at(n + 1) == NULL && device_at(100) == NULL);
  CHECK(device_at(0) == cpu);
  CHECK(device_find(NULL) != NULL && device_find("auto") == device_find(NULL));
  CHECK((device_find(NULL) == cpu) == (*device_why_auto()->why != '\0'));
  CHECK(device_find("abacus") == NULL);
}

TEST(runs_all_parts) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  world t;
  device_plan *dp = lowered(&t, ctx);
  device_run run = run_of(&t);
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  for (int i = 0; i < N; i++)
    CHECK(t.y[i] == 2 * t.x[i]);
  CHECK(t.s == 1);
  /* What was prepared stays, whatever the state is now; and another size. */
  t.w[3] = 50;
  run.prepare = false;
  t.sizes[0] = 10;
  memset(t.y, 0, sizeof t.y);
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  CHECK(t.y[3] == 6 && t.y[9] == 18 && t.y[10] == 0 && t.s == 2);
  run.prepare = true;
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  CHECK(t.y[3] == 300);
  cpu_device.destroy(dp);
  sn_ctx_destroy(ctx);
}

/* What no step makes is NaN, in the arena and where results go, and only up to the bound size. */
TEST(poison) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  world t;
  device_plan *dp = lowered(&t, ctx);
  device_run run = run_of(&t);
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  step first = t.steps[1]; /* which makes A is left out */
  t.steps[1].n_parts = 0;
  t.sizes[0] = 10;
  t.k = INFINITY;
  run.prepare = false;
  if (STALE_CHECKED) {
    CHECK(cpu_device.run(dp, &run) == SN_ERR_INTERNAL);
    CHECK_STR_HAS(sn_ctx_message(ctx), "makes element 0 of value");
  } else {
    CHECK(cpu_device.run(dp, &run) == SN_ERR_INVALID); /* NaN is not below it */
    CHECK(isnan(t.y[9]) && t.y[10] == 2 * t.x[10]);
  }
  CHECK(t.w[3] == 1 && t.s == 1);
  t.steps[1] = first;
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  CHECK(t.y[9] == 18 && t.s == 2);
  cpu_device.destroy(dp);
  sn_ctx_destroy(ctx);
}

TEST(require_fails_before_commit) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  world t;
  device_plan *dp = lowered(&t, ctx);
  device_run run = run_of(&t);
  t.x[290] = 612;
  CHECK(cpu_device.run(dp, &run) == SN_ERR_INVALID);
  CHECK_EQ_STR(sn_ctx_message(ctx), "a must be below k, but is 1224");
  CHECK(t.s == 0);
  t.x[290] = 0;
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  CHECK(t.s == 1);
  cpu_device.destroy(dp);
  sn_ctx_destroy(ctx);
}

static sn_status refuse(void *user) {
  world *t = user;
  CHECK(t->y[1] == 2 && t->s == 0);
  return SN_ERR_NUMERIC;
}
static bool report(void *user, int64_t done, int64_t total, const char *what) {
  world *t = user;
  (void)what;
  CHECK(total == 2);
  CHECK(done == t->reports++);
  return done != t->stop_at;
}
static void note_span(void *user, const device_span *s) {
  world *t = user;
  CHECK_EQ_INT(s->step, t->spans++);
  CHECK(s->begin_s >= t->last_end && s->end_s >= s->begin_s);
  t->last_end = s->end_s;
}

TEST(callbacks) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  world t;
  device_plan *dp = lowered(&t, ctx);
  device_run run = run_of(&t);
  run.before_commit = refuse, run.user = &t;
  CHECK(cpu_device.run(dp, &run) == SN_ERR_NUMERIC);
  CHECK(t.s == 0);
  run.before_commit = NULL;
  sn_progress progress = {report, &t};
  run.progress = &progress, run.span = note_span, run.span_user = &t;
  CHECK(cpu_device.run(dp, &run) == SN_OK);
  CHECK(t.spans == 4 && t.reports == 2);
  t.reports = 0, t.stop_at = 1, run.span = NULL;
  CHECK(cpu_device.run(dp, &run) == SN_ERR_CANCELLED);
  CHECK(t.s == 1);
  cpu_device.destroy(dp);
  sn_ctx_destroy(ctx);
}

/* Every allocation of lowering may fail; a run makes none. */
TEST(memory_faults) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    const device *d = &cpu_device;
    device_plan *dp = NULL;
    world t;
    build(&t);
    if (ctx && d->lower(d, ctx, &t.program, &(device_options){0}, &dp) == SN_OK) {
      int64_t before = heap.count;
      device_run run = run_of(&t);
      CHECK(d->run(dp, &run) == SN_OK);
      CHECK_EQ_INT(heap.count, before);
    } else
      CHECK(dp == NULL);
    d->destroy(dp);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}
