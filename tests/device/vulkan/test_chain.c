/* Launches that wait for others by themselves (src/device/vulkan/chain.c): which ones do, that results are the same to the bit, and what happens
 * when one waits in vain. That each kernel waits and tells of its end is seen by all tests on the interpreter. */
#include "compile/compile.h"
#include "device/devices.h"
#include "device/vulkan/device.h"
#include "device/vulkan/plan.h"
#include "support/test.h"
#include "support/vulkan_case.h"

#include <sinew/ops.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, WIDTH = 40, LAYERS = 20, MANY = 400 };

typedef struct world {
  sn_ctx *ctx;
  sn_graph *g;
  compiled c;
  const device *d;
  device_plan *dp;
  float x[ROWS * WIDTH], w[LAYERS][WIDTH * WIDTH], y[ROWS * WIDTH];
  int64_t sizes[16];
  const void *inputs[1];
  void *outputs[1], *states[LAYERS];
  int spans, reports;
} world;

/* Each layer needs all of the one before: rows of softmax, then sums over them. */
static void build(sn_graph *g, sn_dim rows) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(rows, WIDTH));
  for (int i = 0; i < LAYERS; i++) {
    char name[8] = {'w', (char)('a' + i)};
    sn_value w = sn_state(g, name, SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 1);
    x = sn_softmax(g, sn_matmul(g, x, w, false, false), 0);
  }
  sn_output(g, "y", x);
}

/* On a GPU opened anew, since what it may do is found then. */
static bool start(world *t, const char *chain, bool symbol) {
  memset(t, 0, sizeof *t);
  if (!vulkan_ready())
    return false;
  gpu_close_unused();
  setenv("SINEW_VULKAN_CHAIN", chain, 1);
  if (!CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK) ||
      !CHECK(sn_graph_create(t->ctx, &t->g) == SN_OK))
    return false;
  build(t->g, symbol ? sn_symbol(t->g, "n", ROWS) : ROWS);
  if (compile_graph(t->g, NULL, &t->c) != SN_OK)
    return FAIL("%s", sn_ctx_message(t->ctx));
  const int64_t rows = ROWS;
  CHECK(program_bind(t->c.program, t->ctx, &rows, t->sizes) == SN_OK);
  for (int i = 0; i < ROWS * WIDTH; i++)
    t->x[i] = (float)(i * 7919 % 257) / 64 - 2;
  for (int i = 0; i < LAYERS * WIDTH * WIDTH; i++)
    t->w[i / (WIDTH * WIDTH)][i % (WIDTH * WIDTH)] = (float)(i * 7919 % 263) / 64 - 2;
  t->inputs[0] = t->x;
  t->outputs[0] = t->y;
  for (int i = 0; i < LAYERS; i++)
    t->states[i] = t->w[t->c.program->states[i].name[1] - 'a'];
  t->d = vulkan_device();
  return t->d->lower(t->d, t->ctx, t->c.program, &(device_options){0}, &t->dp) == SN_OK ||
         FAIL("%s", sn_ctx_message(t->ctx));
}

static void end(world *t) {
  if (t->dp)
    t->d->destroy(t->dp);
  compile_destroy(&t->c);
  sn_graph_destroy(t->g);
  sn_ctx_destroy(t->ctx);
  gpu_fault_plant(NULL, 0, 0);
  vulkan_check();
  gpu_close_unused();
  unsetenv("SINEW_VULKAN_CHAIN");
}

static device_run run_of(world *t) {
  return (device_run){.sizes = t->sizes,
                      .inputs = t->inputs,
                      .outputs = t->outputs,
                      .states = t->states,
                      .prepare = true};
}

/* Launches behind others, and those of them that wait by themselves. */
static int count_behind(const world *t, int *out_chained) {
  int n = *out_chained = 0;
  for (int i = 0; i < t->dp->n_launches; i++) {
    n += t->dp->launches[i].behind;
    *out_chained += t->dp->launches[i].behind && t->dp->launches[i].chained;
  }
  return n;
}

static void note_span(void *user, const device_span *span) {
  (void)span;
  ((world *)user)->spans++;
}

static bool note_progress(void *user, int64_t done, int64_t all, const char *unit) {
  (void)done, (void)all, (void)unit;
  ((world *)user)->reports++;
  return true;
}

static void check_run(world *t, const device_run *run, const float *want) {
  memset(t->y, 0, sizeof t->y);
  if (t->d->run(t->dp, run) != SN_OK)
    FAIL("%s", sn_ctx_message(t->ctx));
  CHECK(memcmp(t->y, want, sizeof t->y) == 0);
}

/* Again and again, with timestamps, and in parts. */
TEST(results_are_the_same) {
  static world at_barriers, t;
  int chained;
  if (!start(&at_barriers, "0", false))
    return;
  device_run run = run_of(&at_barriers);
  CHECK(at_barriers.d->run(at_barriers.dp, &run) == SN_OK);
  CHECK(count_behind(&at_barriers, &chained) >= 2 * LAYERS - 1);
  CHECK_EQ_INT(chained, 0);
  end(&at_barriers);
  if (!start(&t, "1", false))
    return;
  CHECK(count_behind(&t, &chained) >= 2 * LAYERS - 1);
  CHECK_EQ_INT(chained, count_behind(&t, &chained));
  run = run_of(&t);
  for (int i = 0; i < 3; i++)
    check_run(&t, &run, at_barriers.y);
  run.span = note_span;
  run.span_user = &t;
  check_run(&t, &run, at_barriers.y);
  CHECK_EQ_INT(t.spans, program_steps(t.c.program));
  run.span = NULL;
  sn_progress progress = {.report = note_progress, .user = &t};
  run.progress = &progress;
  check_run(&t, &run, at_barriers.y);
  CHECK(t.reports > 1 && t.dp->commands.n_parts > 1);
  end(&t);
}

/* Commands that could not be recorded are not those of the next run. */
TEST(a_failed_recording_is_made_again) {
  enum { NO_HOST_MEMORY = -1 };
  static world t;
  float want[ROWS * WIDTH];
  if (!start(&t, "1", false))
    return;
  device_run run = run_of(&t);
  CHECK(t.d->run(t.dp, &run) == SN_OK);
  memcpy(want, t.y, sizeof want);
  for (int timed = 1; timed >= 0; timed--) {
    run.span = timed ? note_span : NULL;
    run.span_user = &t;
    gpu_fault_plant("BeginCommandBuffer", 2, NO_HOST_MEMORY);
    CHECK(t.d->run(t.dp, &run) != SN_OK);
    gpu_fault_plant(NULL, 0, 0);
    check_run(&t, &run, want);
  }
  end(&t);
}

/* What stands in the blocks of those who wait must not change with sizes. */
TEST(numbers_that_vary_have_barriers) {
  static world t;
  int chained;
  if (!start(&t, "1", true))
    return;
  CHECK(count_behind(&t, &chained) >= 2 * LAYERS - 1);
  int vary = 0;
  for (int i = 1; i < t.dp->n_launches; i++)
    if (t.dp->launches[i].behind && t.dp->launches[i - 1].varies) {
      vary++;
      CHECK(!t.dp->launches[i].chained);
    }
  CHECK(vary >= LAYERS - 1 && chained > 0);
  end(&t);
}

/* So many workgroups that to tell of each one's end would take longer than a barrier. */
TEST(many_workgroups_have_barriers) {
  static world t;
  if (!vulkan_ready() || !start(&t, "1", false))
    return;
  gpu_target *target = &t.dp->target;
  int few, none, behind = count_behind(&t, &few);
  for (int i = 0; i < t.dp->n_launches; i++)
    t.dp->launches[i].all = MANY;
  target->units = MANY / CHAIN_MOST; /* just as many as may be */
  CHECK(plan_chain(t.dp, false) == SN_OK && count_behind(&t, &few) == behind && few == behind);
  target->units--;
  CHECK(plan_chain(t.dp, false) == SN_OK && count_behind(&t, &none) == behind && none == 0);
  end(&t);
}

static uint64_t word_of(const world *t, int number, int word) {
  return t->dp->params.words[t->dp->launches[number].block / 8 + (uint32_t)word];
}

static bool find_order(world *t) {
  return plan_phases(t->dp) == SN_OK && plan_chain(t->dp, false) == SN_OK;
}

/* A launch of nothing is in no phase: those behind it wait for whom it would have waited for. */
TEST(launches_of_nothing_are_passed_over) {
  static world t;
  if (!vulkan_ready() || !start(&t, "1", false))
    return;
  int chain[3], n = 0;
  for (int i = 0; i < t.dp->n_launches && n < 3; i++)
    if (t.dp->launches[i].chained)
      chain[n++] = i;
  if (!CHECK_EQ_INT(n, 3)) {
    end(&t);
    return;
  }
  lowered_launch *before = &t.dp->launches[chain[0] - 1], *empty = &t.dp->launches[chain[0]];
  before->all = 5;
  empty->all = 0;
  CHECK(find_order(&t));
  uint64_t raised = word_of(&t, chain[0] - 1, BLOCK_RAISED);
  CHECK_EQ_INT(word_of(&t, chain[1], BLOCK_NUMBER) & 0xffffffff, 5);
  CHECK(raised != 0 && word_of(&t, chain[1], BLOCK_AWAITED) == raised);
  CHECK(t.dp->launches[chain[1]].behind && t.dp->launches[chain[1]].chained);
  empty->all = 7;
  t.dp->launches[chain[1]].all = 2;
  CHECK(find_order(&t));
  CHECK_EQ_INT(word_of(&t, chain[1], BLOCK_NUMBER) & 0xffffffff, 7);
  CHECK_EQ_INT(word_of(&t, chain[2], BLOCK_NUMBER) & 0xffffffff, 2);
  end(&t);
}

/* A launch that would wait for ever goes on after a while, and the run fails. What is made anew is as good as before. */
TEST(waiting_in_vain) {
  static world proved, t;
  if (!start(&proved, "1", false))
    return;
  gpu_fault_plant("chain", 3, 1);
  if (start(&t, "1", false)) {
    device_run run = run_of(&t);
    CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), "waited in vain");
    CHECK_EQ_INT(t.d->run(t.dp, &run), SN_ERR_STATE);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), "lost");
    t.d->destroy(t.dp);
    t.dp = NULL;
  }
  proved.d->destroy(proved.dp);
  proved.dp = NULL;
  end(&proved);
  end(&t);
  if (start(&t, "1", false)) {
    device_run run = run_of(&t);
    CHECK(t.d->run(t.dp, &run) == SN_OK);
    end(&t);
  }
}

/* A GPU that fails the test of it, as one on which a launch waits in vain does, has barriers, and it is told. */
TEST(a_gpu_that_fails_the_test) {
  static world t;
  int chained;
  if (!vulkan_ready())
    return;
  gpu_fault_plant("chain", 3, 1);
  if (!start(&t, "1", false))
    return;
  CHECK(t.dp->gpu->target.chains && !t.dp->target.chains);
  CHECK(count_behind(&t, &chained) > 0 && chained == 0);
  CHECK_STR_HAS(vulkan_note(t.d), "launches wait at barriers: they failed a test");
  device_run run = run_of(&t);
  CHECK(t.d->run(t.dp, &run) == SN_OK);
  end(&t);
}
