/* The CPU device: lowers a program to memory and runs its steps one after another on the calling thread.
 *
 * All memory of a plan (arena, what is prepared, scratch, addresses) comes at lowering; a run allocates nothing. The scratch is
 * as large as the neediest step says. Addresses of values that the host binds change from run to run, the others never. */
#include "device/devices.h"

#include "device/cpu/cpu.h"

#include <time.h>

/* --- archetypes --- */
typedef struct archetype_row {
  sn_status (*run)(cpu_run *r, const step *s);
  size_t (*need)(const program *p, const step *s);
} archetype_row;
static const archetype_row archetypes[STEP_ARCHETYPES] = {
    [STEP_POINTWISE] = {cpu_run_loop, cpu_need_loop},
    [STEP_ROW] = {cpu_run_loop, cpu_need_loop},
    [STEP_MATMUL] = {cpu_run_matmul, cpu_need_matmul},
    [STEP_ATTENTION] = {cpu_run_attention, cpu_need_attention},
    [STEP_ATTENTION_GRAD] = {cpu_run_attention_grad, cpu_need_attention_grad},
    [STEP_SCATTER] = {cpu_run_scatter, cpu_need_scatter},
    [STEP_SCAN] = {cpu_run_scan, cpu_need_scan},
    [STEP_SORT] = {cpu_run_sort, cpu_need_sort},
    [STEP_SAMPLE] = {cpu_run_sample, cpu_need_sample},
    [STEP_PERMUTE] = {cpu_run_permute, cpu_need_permute},
};

/* --- memory --- */
/* A block whose usable part starts at a multiple of PROGRAM_ALIGN. */
typedef struct block {
  void *raw;
  size_t size; /* of raw */
  char *data;
} block;

static sn_status block_create(sn_ctx *ctx, const char *what, size_t bytes, block *out) {
  size_t size;
  if (!size_add_fits(bytes, PROGRAM_ALIGN, &size))
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "%s: its size does not fit in memory", what);
  void *raw = mem_resize(ctx, NULL, 0, size); /* not zeroed: all is written before it is read */
  if (!raw)
    return diag_within(ctx, SN_ERR_NO_MEMORY, "%s", what);
  uintptr_t address = (uintptr_t)raw;
  size_t skip = (PROGRAM_ALIGN - address % PROGRAM_ALIGN) % PROGRAM_ALIGN;
  *out = (block){raw, size, (char *)raw + skip};
  return SN_OK;
}

static void block_destroy(sn_ctx *ctx, block *b) {
  if (b->raw)
    mem_free(ctx, b->raw, b->size);
}

struct device_plan {
  sn_ctx *ctx;
  const program *program;
  block arena, prepared, scratch;
  void **addresses; /* by value id */
};

/* --- lowering --- */
static size_t scratch_need(const program *p) {
  size_t most = 0;
  for (int i = 0; i < program_steps(p); i++) {
    size_t need = archetypes[p->steps[i].kind].need(p, &p->steps[i]);
    most = need > most ? need : most;
  }
  return most;
}

/* Where values live that no run binds anew. */
static void bind_own(device_plan *dp) {
  const program *p = dp->program;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    if (value->home == HOME_ARENA)
      dp->addresses[v] = dp->arena.data + value->offset;
    else if (value->home == HOME_PREPARED)
      dp->addresses[v] = dp->prepared.data + value->offset;
    else if (value->home == HOME_CONSTANT) /* never written: a program stores to no constant */
      memcpy(&dp->addresses[v], &p->constants[value->index].data, sizeof(void *));
  }
}

static void destroy(device_plan *dp) {
  if (!dp)
    return;
  sn_ctx *ctx = dp->ctx;
  block_destroy(ctx, &dp->arena);
  block_destroy(ctx, &dp->prepared);
  block_destroy(ctx, &dp->scratch);
  if (dp->addresses)
    mem_free(ctx, dp->addresses, dp->program->n_values * sizeof(void *));
  mem_free(ctx, dp, sizeof *dp);
}

static sn_status allocate(device_plan *dp) {
  const program *p = dp->program;
  dp->addresses = mem_array(dp->ctx, p->n_values, sizeof(void *));
  if (!dp->addresses)
    return SN_ERR_NO_MEMORY;
  SN_TRY(block_create(dp->ctx, "the arena", (size_t)p->arena_bytes, &dp->arena));
  SN_TRY(block_create(dp->ctx, "prepared values", (size_t)p->prepared_bytes, &dp->prepared));
  return block_create(dp->ctx, "scratch memory", scratch_need(p), &dp->scratch);
}

static sn_status lower(const device *d, sn_ctx *ctx, const program *p,
                       const device_options *options, device_plan **out) {
  (void)d, (void)options; /* one thread for now */
  *out = NULL;
  device_plan *dp = mem_alloc(ctx, sizeof *dp);
  if (!dp)
    return SN_ERR_NO_MEMORY;
  *dp = (device_plan){.ctx = ctx, .program = p};
  sn_status status = allocate(dp);
  if (status != SN_OK) {
    destroy(dp);
    return status;
  }
  bind_own(dp);
  *out = dp;
  return SN_OK;
}

/* --- running --- */
static void bind_host(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    if (value->home == HOME_INPUT) /* only read */
      memcpy(&dp->addresses[v], &run->inputs[value->index], sizeof(void *));
    else if (value->home == HOME_OUTPUT)
      dp->addresses[v] = run->outputs[value->index];
    else if (value->home == HOME_STATE)
      dp->addresses[v] = run->states[value->index];
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static sn_status fail_required(const cpu_run *r) {
  return diag_fail(r->ctx, r->program->sites[r->site].status, r->program->sites[r->site].format,
                   (int)r->shown);
}

static sn_status run_step(cpu_run *r, const device_run *run, int index) {
  const step *s = &r->program->steps[index];
  device_span span = {.step = index, .begin_s = run->span ? seconds() : 0};
  r->scratch_used = 0;
  SN_TRY(archetypes[s->kind].run(r, s));
  if (run->span) {
    span.end_s = seconds();
    run->span(run->span_user, &span);
  }
  return r->failed ? fail_required(r) : SN_OK;
}

/* Whether the host wants to go on, before step i of main. */
static sn_status poll(const cpu_run *r, const device_run *run, int i) {
  const sn_progress *progress = run->progress;
  if (!progress || !progress->report ||
      progress->report(progress->user, i, r->program->n_main, "steps"))
    return SN_OK;
  return diag_fail(r->ctx, SN_ERR_CANCELLED, "the run was cancelled before step %d of %d", i + 1,
                   r->program->n_main);
}

static sn_status run_plan(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  cpu_run r = {.ctx = dp->ctx,
               .program = p,
               .sizes = run->sizes,
               .addresses = dp->addresses,
               .scratch = dp->scratch.data,
               .scratch_bytes = dp->scratch.size - PROGRAM_ALIGN};
  bind_host(dp, run);
  for (int i = 0; run->prepare && i < p->n_prepare; i++)
    SN_TRY(run_step(&r, run, i));
  for (int i = 0; i < p->n_main; i++) {
    SN_TRY(poll(&r, run, i));
    SN_TRY(run_step(&r, run, p->n_prepare + i));
  }
  if (run->before_commit)
    SN_TRY(run->before_commit(run->user));
  for (int i = 0; i < p->n_commit; i++)
    SN_TRY(run_step(&r, run, p->n_prepare + p->n_main + i));
  return SN_OK;
}

const device cpu_device = {.name = "cpu",
                           .description = "portable C on one thread",
                           .lower = lower,
                           .run = run_plan,
                           .destroy = destroy};
