/* A small program, built by hand, that a GPU must compute rightly before it is chosen for somebody who did not ask for it: sums of
 * rows, with numbers at the edges of workgroups, and the row's elements with the sum added.
 *
 *   for each row r of x [ROWS, N]:  s = sum of x[r, ·];  y[r, i] = 2 x[r, i] + s
 */
#include "device/vulkan/device.h"

enum { ROWS = 37, N = 301, X = 1, Y, VALUES, CODE = 6 };

typedef struct trial {
  program program;
  program_value values[VALUES];
  program_leaf input, output;
  step step;
  part part;
  instr code[CODE];
  term terms[2];
  float x[ROWS][N], y[ROWS][N];
} trial;

static instr moved(trial *t, region_op op, uint32_t value, reg a, int phase) {
  access at = {.value = value, .n_terms = 2, .terms = t->terms};
  return (instr){.op = (uint8_t)op, .dtype = SN_F32, .a = a, .at = at, .phase = (uint8_t)phase};
}

static void build_code(trial *t) {
  t->terms[0] = (term){.axis = 0, .stride = N, .div = 1};
  t->terms[1] = (term){.axis = 1, .stride = 1, .div = 1};
  t->code[0] = moved(t, REGION_LOAD, X, 0, 0);
  t->code[1] = (instr){.op = REGION_REDUCE, .code = REDUCE_SUM, .dtype = SN_F32, .a = 0};
  t->code[2] = moved(t, REGION_LOAD, X, 0, 1);
  t->code[3] =
      (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 2, .b = 2, .phase = 1};
  t->code[4] =
      (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 3, .b = 1, .phase = 1};
  t->code[5] = moved(t, REGION_STORE, Y, 4, 1);
}

static void build(trial *t) {
  const sn_type type = {SN_F32, {2, {ROWS, N}}};
  const program_value value = {.type = type, .count = ROWS * N, .bytes = sizeof t->x};
  t->values[X] = t->values[Y] = value;
  t->values[X].home = HOME_INPUT;
  t->values[Y].home = HOME_OUTPUT;
  t->input = (program_leaf){.name = "x", .value = X, .type = type};
  t->output = (program_leaf){.name = "y", .value = Y, .type = type};
  build_code(t);
  t->part.u.loop = (loop_part){
      .n_axes = 2, .n_outer = 1, .n_phases = 2, .extent = {ROWS, N}, .code = {CODE, t->code}};
  t->step = (step){.kind = STEP_ROW, .n_parts = 1, .parts = &t->part, .name = "self-test"};
  t->program = (program){.values = t->values,
                         .n_values = VALUES,
                         .steps = &t->step,
                         .n_main = 1,
                         .inputs = &t->input,
                         .n_inputs = 1,
                         .outputs = &t->output,
                         .n_outputs = 1};
  for (int i = 0; i < ROWS * N; i++) /* small integers: sums are exact in any order */
    t->x[i / N][i % N] = (float)((i * 7919) % 257 - 128);
}

static bool is_right(const trial *t) {
  for (int r = 0; r < ROWS; r++) {
    float sum = 0;
    for (int i = 0; i < N; i++)
      sum += t->x[r][i];
    for (int i = 0; i < N; i++)
      if (t->y[r][i] != 2 * t->x[r][i] + sum)
        return false;
  }
  return true;
}

static bool passes(const device *d, sn_ctx *ctx, trial *t) {
  device_plan *dp;
  const void *inputs[] = {t->x};
  void *outputs[] = {t->y};
  device_run run = {.inputs = inputs, .outputs = outputs};
  build(t);
  if (d->lower(d, ctx, &t->program, &(device_options){0}, &dp) != SN_OK)
    return false;
  bool ran = d->run(dp, &run) == SN_OK;
  d->destroy(dp);
  return ran && is_right(t);
}

bool vulkan_self_test(const device *d) {
  sn_ctx *ctx; /* of its own: whoever asked is told nothing of a GPU that is not taken */
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return false;
  trial *t = mem_alloc(ctx, sizeof *t);
  bool ok = t && passes(d, ctx, t);
  mem_free(ctx, t, sizeof *t);
  sn_ctx_destroy(ctx);
  return ok;
}
