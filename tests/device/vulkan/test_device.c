/* The Vulkan device as its callers see it: memory of every home, prepare, main and commit, sizes, failure, progress, spans, and
 * plans that leave everything on the GPU. The program:
 *
 *   prepare   p = sum of w²                  w: state [N], not assigned
 *   main      y = x p                        x: input [n], y: output [n]
 *             z = the rows i of w            i: input [2]; fails when they are out of range
 *             r = y + 1                      some: makes y an output that a step reads
 *   commit    s = s + 1                      s: state, a scalar
 */
#include "compile/compile.h"
#include "device/devices.h"
#include "device/vulkan/plan.h"
#include "support/fault.h"
#include "support/test.h"
#include "support/vulkan_case.h"

#include <sinew/ops.h>
#include <stdlib.h>

enum { N = 300 };

typedef struct world {
  sn_ctx *ctx;
  sn_graph *g;
  compiled c;
  const device *d;
  device_plan *dp;
  float x[N], y[N], z[2], r[N], w[N], s;
  int32_t i[2];
  int64_t sizes[16];
  const void *inputs[2];
  void *outputs[3], *states[2];
  int spans, reports, stop_at;
  double last_end;
} world;

static void build(sn_graph *g, bool reads) {
  sn_dim n = sn_symbol(g, "n", N);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n));
  sn_value i = sn_input(g, "i", SN_I32, SN_SHAPE(2));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(N), SN_INIT_ONES, 0);
  sn_value s = sn_state(g, "s", SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_value y = sn_mul(g, x, sn_sum(g, sn_sqr(g, w), SN_INTS(0), false));
  sn_output(g, "y", y);
  if (reads)
    sn_output(g, "r", sn_affine(g, y, 1, 1));
  sn_output(g, "z", sn_gather(g, w, i));
  sn_assign(g, s, sn_affine(g, s, 1, 1));
}

static int leaf(const program_leaf *list, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(list[i].name, name) == 0)
      return i;
  FAIL("the program has no \"%s\"", name);
  return 0;
}

static void bind(world *t, int64_t n) {
  CHECK(program_bind(t->c.program, t->ctx, &n, t->sizes) == SN_OK);
}

static void fill(world *t) {
  const program *p = t->c.program;
  for (int i = 0; i < N; i++)
    t->x[i] = (float)i, t->w[i] = i == 7 ? 2 : 0;
  t->i[0] = 7, t->i[1] = 8;
  t->inputs[leaf(p->inputs, p->n_inputs, "x")] = t->x;
  t->inputs[leaf(p->inputs, p->n_inputs, "i")] = t->i;
  t->outputs[leaf(p->outputs, p->n_outputs, "y")] = t->y;
  t->outputs[leaf(p->outputs, p->n_outputs, "z")] = t->z;
  if (p->n_outputs > 2)
    t->outputs[leaf(p->outputs, p->n_outputs, "r")] = t->r;
  t->states[leaf(p->states, p->n_states, "w")] = t->w;
  t->states[leaf(p->states, p->n_states, "s")] = &t->s;
  bind(t, N);
}

static bool start_reading(world *t, bool resident, bool reads) {
  *t = (world){.stop_at = -1};
  if (!vulkan_ready() || !CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK) ||
      !CHECK(sn_graph_create(t->ctx, &t->g) == SN_OK))
    return false;
  build(t->g, reads);
  if (compile_graph(t->g, &(compile_options){.no_fusion = reads}, &t->c) != SN_OK)
    return FAIL("%s", sn_ctx_message(t->ctx));
  CHECK(t->c.program->n_prepare > 0 && t->c.program->n_commit > 0);
  CHECK(program_sizes(t->c.program) <= (int)COUNT_OF(t->sizes));
  fill(t);
  t->d = vulkan_device();
  device_options o = {.resident = resident};
  return t->d->lower(t->d, t->ctx, t->c.program, &o, &t->dp) == SN_OK ||
         FAIL("%s", sn_ctx_message(t->ctx));
}

static bool start(world *t, bool resident) { return start_reading(t, resident, false); }

static void end(world *t) {
  if (t->dp)
    t->d->destroy(t->dp);
  compile_destroy(&t->c);
  sn_graph_destroy(t->g);
  sn_ctx_destroy(t->ctx);
  gpu_fault_plant(NULL, 0, 0);
  vulkan_check();
}

static device_run run_of(world *t) {
  return (device_run){.sizes = t->sizes,
                      .inputs = t->inputs,
                      .outputs = t->outputs,
                      .states = t->states,
                      .prepare = true};
}

static void check_run(world *t, const device_run *run) {
  if (t->d->run(t->dp, run) != SN_OK)
    FAIL("%s", sn_ctx_message(t->ctx));
}

static void runs_all_parts(void) {
  world t;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  check_run(&t, &run);
  for (int i = 0; i < N; i++)
    CHECK(t.y[i] == 4 * t.x[i]);
  CHECK(t.z[0] == 2 && t.z[1] == 0 && t.s == 1);
  /* What was prepared stays, whatever the state is now; and other sizes. */
  t.w[3] = 1;
  run.prepare = false;
  for (int n = 0; n < 12; n += 5) {
    bind(&t, n);
    memset(t.y, 0, sizeof t.y);
    check_run(&t, &run);
    for (int i = 0; i < N; i++)
      CHECK(t.y[i] == (i < n ? 4 * t.x[i] : 0));
  }
  CHECK(t.s == 4);
  run.prepare = true;
  check_run(&t, &run);
  CHECK(t.y[9] == 45);
  end(&t);
}

TEST(runs_all_parts) { runs_all_parts(); }

/* As on a GPU whose memory the host does not see. */
static void by_staging(void (*run)(void)) {
  if (!vulkan_ready())
    return;
  gpu_close_unused();
  setenv("SINEW_VULKAN_DISCRETE", "1", 1);
  run();
  unsetenv("SINEW_VULKAN_DISCRETE");
  gpu_close_unused();
}

TEST(runs_by_staging) { by_staging(runs_all_parts); }

TEST(require_fails_before_commit) {
  world t;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  t.i[1] = N;
  for (int k = 0; k < 2; k++) { /* again: the table of failures was cleared */
    CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), "gather");
    CHECK_STR_HAS(sn_ctx_message(t.ctx), "300");
    CHECK(t.s == 0);
  }
  t.i[1] = 0;
  check_run(&t, &run);
  CHECK(t.s == 1);
  end(&t);
}

static sn_status refuse(void *user) {
  world *t = user;
  CHECK(t->y[1] == 4 && t->s == 0);
  return SN_ERR_NUMERIC;
}
static bool report(void *user, int64_t done, int64_t total, const char *what) {
  world *t = user;
  (void)what;
  CHECK(total == t->c.program->n_main);
  CHECK(done >= 0 && done <= total);
  return t->reports++ != t->stop_at;
}
static void note_span(void *user, const device_span *s) {
  world *t = user;
  CHECK_EQ_INT(s->step, t->spans++);
  CHECK(s->begin_s >= t->last_end && s->end_s >= s->begin_s);
  t->last_end = s->end_s;
}

TEST(callbacks) {
  world t;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  run.before_commit = refuse, run.user = &t;
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_NUMERIC);
  CHECK(t.s == 0);
  run.before_commit = NULL;
  sn_progress progress = {report, &t};
  run.progress = &progress, run.span = note_span, run.span_user = &t;
  check_run(&t, &run);
  CHECK_EQ_INT(t.spans, program_steps(t.c.program));
  CHECK(t.reports >= 1 && t.s == 1);
  t.reports = t.stop_at = 0, run.span = NULL;
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_CANCELLED);
  CHECK(t.s == 1);
  run.progress = NULL;
  check_run(&t, &run); /* recorded without timestamps again */
  CHECK(t.s == 2 && t.y[2] == 8);
  end(&t);
}

/* --- memory --- */

TEST(too_much_memory) {
  world t;
  if (!start(&t, false))
    return;
  program huge = *t.c.program;
  device_plan *dp;
  huge.arena_bytes = INT64_C(1) << 50;
  CHECK_EQ_INT(t.d->lower(t.d, t.ctx, &huge, &(device_options){0}, &dp), SN_ERR_NO_MEMORY);
  CHECK(dp == NULL);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "the plan needs");
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "are available");
  end(&t);
}

/* y = x₁ + 2 x₂ + … where x_i = x + i, none of them fused: many values are alive at once. */
static void build_wide(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(N)), all[8], y = x;
  for (int i = 0; i < 8; i++)
    all[i] = sn_exp(g, sn_affine(g, x, 0, i));
  for (int i = 0; i < 8; i++)
    y = sn_add(g, y, sn_mul(g, all[i], all[7 - i]));
  sn_output(g, "y", y);
}

/* Arenas larger than what the driver gives at once are cut between values. */
TEST(arenas_in_pieces) {
  sn_ctx *ctx;
  sn_graph *g;
  gpu *held;
  compiled c;
  compile_options o = {.no_fusion = true, .no_opt = true};
  static float x[N], y[2][N];
  if (!vulkan_ready())
    return;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  REQUIRE(gpu_get(ctx, 0, &held) == SN_OK);
  build_wide(g);
  REQUIRE(compile_graph(g, &o, &c) == SN_OK);
  int64_t all = held->limits.allocation_bytes;
  int pieces[2] = {0};
  for (int k = 0; k < 2; k++) {
    device_plan *dp = NULL;
    const void *inputs[] = {x};
    void *outputs[] = {y[k]};
    device_run run = {.inputs = inputs, .outputs = outputs};
    held->limits.allocation_bytes = k ? 4096 : all;
    if (CHECK(vulkan_device()->lower(vulkan_device(), ctx, c.program, &(device_options){0}, &dp) ==
              SN_OK)) {
      CHECK(vulkan_device()->run(dp, &run) == SN_OK);
      pieces[k] = dp->arena.n;
      vulkan_device()->destroy(dp);
    }
  }
  held->limits.allocation_bytes = all;
  CHECK_EQ_INT(pieces[0], 1);
  CHECK(pieces[1] > 2);
  CHECK(y[0][5] > 1 && memcmp(y[0], y[1], sizeof y[0]) == 0);
  compile_destroy(&c);
  sn_graph_destroy(g);
  gpu_put(held);
  sn_ctx_destroy(ctx);
  vulkan_check();
}

/* --- small outputs where the host does not see the GPU's memory --- */

enum { MOST_OUTPUTS = 3 };

typedef struct small_case {
  const char *what;
  int n;
  int64_t each;
  bool chained; /* each is made from the one before */
  bool straight;
} small_case;

/* Output i is x + i + 1, or x + (i + 1) (i + 2) / 2. */
static void run_small(const small_case *c, sn_ctx *ctx, sn_graph *g) {
  static const char *const names[MOST_OUTPUTS] = {"a", "b", "c"};
  static float x[10000], y[MOST_OUTPUTS][10000];
  compile_options o = {.no_fusion = true, .no_opt = true};
  const void *inputs[] = {x};
  void *outputs[] = {y[0], y[1], y[2]};
  device_run run = {.inputs = inputs, .outputs = outputs};
  device_plan *dp = NULL;
  compiled made;
  sn_value from = sn_input(g, "x", SN_F32, SN_SHAPE(c->each)), last = from;
  for (int i = 0; i < c->n; i++) {
    last = sn_affine(g, c->chained ? last : from, 1, i + 1);
    sn_output(g, names[i], last);
  }
  x[7] = 100;
  memset(y, 0, sizeof y);
  REQUIRE(compile_graph(g, &o, &made) == SN_OK);
  if (CHECK(vulkan_device()->lower(vulkan_device(), ctx, made.program, &(device_options){0}, &dp) ==
            SN_OK)) {
    if (dp->collects == c->straight || (dp->small[0].block == &dp->host.block[0]) != c->straight)
      FAIL("%s: they are %scollected", c->what, dp->collects ? "" : "not ");
    CHECK(vulkan_device()->run(dp, &run) == SN_OK);
    vulkan_device()->destroy(dp);
  }
  for (int i = 0; i < c->n; i++) {
    float more = (float)(c->chained ? (i + 1) * (i + 2) / 2 : i + 1);
    CHECK(y[i][6] == more && y[i][7] == 100 + more && y[i][c->each - 1] == more);
  }
  compile_destroy(&made);
}

static void run_all_small(void) {
  static const small_case cases[] = {{"one", 1, 100, false, true},
                                     {"several", 3, 5000, false, true},
                                     {"many bytes", 3, 10000, false, false},
                                     {"a step reads one", 2, 100, true, false}};
  for (int i = 0; i < (int)COUNT_OF(cases); i++) {
    sn_ctx *ctx;
    sn_graph *g;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
    run_small(&cases[i], ctx, g);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}

TEST(few_small_outputs_go_straight_to_the_host) {
  by_staging(run_all_small);
  vulkan_check();
}

/* --- resident plans --- */

typedef struct mirrored {
  device_memory *w, *s, *by_state[2];
} mirrored;

static void mirror(world *t, mirrored *m, device_run *run) {
  const device_mirrors *all = t->d->mirrors;
  const program *p = t->c.program;
  *m = (mirrored){0};
  REQUIRE(all->create(t->d, t->ctx, sizeof t->w, &m->w) == SN_OK);
  REQUIRE(all->create(t->d, t->ctx, sizeof t->s, &m->s) == SN_OK);
  CHECK(all->is_alive(m->w));
  CHECK(all->write(m->w, t->ctx, t->w) == SN_OK && all->write(m->s, t->ctx, &t->s) == SN_OK);
  m->by_state[leaf(p->states, p->n_states, "w")] = m->w;
  m->by_state[leaf(p->states, p->n_states, "s")] = m->s;
  run->mirrors = m->by_state;
  run->outputs = NULL, run->states = NULL;
}

static void unmirror(world *t, mirrored *m) {
  t->d->mirrors->destroy(m->w);
  t->d->mirrors->destroy(m->s);
}

static float read_y(world *t, int i) {
  const program *p = t->c.program;
  CHECK(t->d->read_output(t->dp, leaf(p->outputs, p->n_outputs, "y"), t->y, sizeof t->y) == SN_OK);
  return t->y[i];
}

static sn_status refuse_resident(void *user) {
  world *t = user;
  CHECK(read_y(t, 1) == 400); /* of the run under way */
  return SN_ERR_NUMERIC;
}

static void run_resident(bool reads, bool collects) {
  world t;
  mirrored m;
  float s;
  if (!start_reading(&t, true, reads))
    return;
  CHECK(t.dp->collects == collects);
  device_run run = run_of(&t);
  mirror(&t, &m, &run);
  check_run(&t, &run);
  CHECK(read_y(&t, 5) == 20);
  CHECK(t.d->mirrors->read(m.s, t.ctx, &s) == SN_OK && s == 1);
  /* Inputs that are not fresh are not looked at. */
  const bool none[2] = {false, false};
  t.x[5] = 100;
  run.fresh = none;
  check_run(&t, &run);
  CHECK(read_y(&t, 5) == 20);
  run.fresh = NULL;
  check_run(&t, &run);
  CHECK(read_y(&t, 5) == 400);
  /* A run that fails leaves outputs and states. */
  t.x[1] = 100;
  run.before_commit = refuse_resident, run.user = &t;
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_NUMERIC);
  CHECK(read_y(&t, 1) == 4);
  CHECK(t.d->mirrors->read(m.s, t.ctx, &s) == SN_OK && s == 3);
  unmirror(&t, &m);
  end(&t);
}

static void straight_to_the_host(void) { run_resident(false, false); }
static void by_a_copy(void) { run_resident(true, true); }

TEST(resident) { run_resident(false, false); }
TEST(resident_by_staging) {
  by_staging(straight_to_the_host);
  by_staging(by_a_copy);
}

/* --- failures of the driver --- */

/* Lowering with the n-th call of a kind failing, for every n. */
static void fail_lowering(world *t, const char *call) {
  for (int n = 1; n < 100; n++) {
    device_plan *dp;
    device_options o = {0};
    gpu_fault_plant(call, n, VK_NO_DEVICE_MEMORY);
    sn_status status = t->d->lower(t->d, t->ctx, t->c.program, &o, &dp);
    gpu_fault_plant(NULL, 0, 0);
    if (status == SN_OK) {
      CHECK(n > 1 || strcmp(call, "MapMemory") == 0);
      t->d->destroy(dp);
      return;
    }
    CHECK_EQ_INT(status, SN_ERR_NO_MEMORY);
    CHECK(dp == NULL);
  }
  FAIL("%s: too often", call);
}

TEST(lowering_fails_well) {
  static const char *const calls[] = {
      "AllocateMemory",         "CreateBuffer",       "CreateDescriptorPool",
      "AllocateDescriptorSets", "CreateCommandPool",  "AllocateCommandBuffers",
      "CreateSemaphore",        "BeginCommandBuffer", "EndCommandBuffer"};
  world t;
  if (!start(&t, false))
    return;
  for (size_t i = 0; i < COUNT_OF(calls); i++)
    fail_lowering(&t, calls[i]);
  end(&t);
}

/* A call that fails without the GPU being lost: the run fails, the next is as good as ever. */
TEST(a_run_without_memory) {
  world t;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  for (int n = 1; n <= 2; n++) { /* main, commit */
    gpu_fault_plant("QueueSubmit", n, VK_NO_HOST_MEMORY);
    CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_NO_MEMORY);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), "submitting work");
    CHECK(t.s == 0);
  }
  gpu_fault_plant(NULL, 0, 0);
  check_run(&t, &run);
  CHECK(t.s == 1 && t.y[3] == 12);
  end(&t);
}

/* A GPU that does not come to an end is given up. */
TEST(a_run_without_end) {
  world t;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  gpu_fault_plant("WaitSemaphores", 1, VK_TIMEOUT);
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "too long");
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
  end(&t);
}

/* The session is done for, others go on. */
static void lose(const char *call, int n) {
  world t, other;
  if (!start(&t, false))
    return;
  device_run run = run_of(&t);
  gpu_fault_plant(call, n, VK_LOST);
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
  gpu_fault_plant(NULL, 0, 0);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "lost");
  CHECK(t.s == 0);
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "made anew");
  if (start(&other, false)) {
    device_run again = run_of(&other);
    check_run(&other, &again);
    CHECK(other.s == 1);
    end(&other);
  }
  end(&t);
}

TEST(a_lost_gpu) {
  lose("QueueSubmit", 1); /* main */
  lose("QueueSubmit", 2); /* commit */
  lose("WaitSemaphores", 1);
  lose("WaitSemaphores", 2);
}

/* Mirrors on a GPU that was lost say so. */
TEST(lost_mirrors) {
  world t;
  mirrored m;
  if (!start(&t, true))
    return;
  device_run run = run_of(&t);
  mirror(&t, &m, &run);
  gpu_fault_plant("QueueSubmit", 2, VK_LOST);
  CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
  gpu_fault_plant(NULL, 0, 0);
  CHECK(!t.d->mirrors->is_alive(m.w));
  CHECK_EQ_INT(t.d->mirrors->read(m.w, t.ctx, t.w), SN_ERR_STATE);
  unmirror(&t, &m);
  end(&t);
}

TEST(names) {
  if (!vulkan_ready())
    return;
  CHECK(device_find("vulkan") == vulkan_device());
  CHECK(device_find("vulkan:0") == vulkan_device());
  CHECK(device_find("vulkan:") == NULL && device_find("vulkan:99") == NULL);
  CHECK(device_find("vulkan:0x") == NULL && device_find("vulkan0") == NULL);
  CHECK(device_find("vulkan:-1") == NULL && device_find("vulkan:+0") == NULL);
}

/* Allocations of lowering may fail; a run makes none. */
TEST(memory_faults) {
  fault_heap heap = {.fail_at = 0};
  world t;
  if (!start(&t, false))
    return;
  do {
    heap.fail_at += heap.fail_at / 4; /* all would be thousands, most of them alike */
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    device_plan *dp = NULL;
    device_options o = {0};
    if (ctx && t.d->lower(t.d, ctx, t.c.program, &o, &dp) == SN_OK) {
      int64_t before = heap.count;
      device_run run = run_of(&t);
      CHECK(t.d->run(dp, &run) == SN_OK);
      CHECK_EQ_INT(heap.count, before);
    } else
      CHECK(dp == NULL);
    t.d->destroy(dp);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  end(&t);
}
