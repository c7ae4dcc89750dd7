/* The Vulkan device: lowers programs for a GPU. There is one device of the registry for each GPU of the machine. See plan.h.
 *
 * Lowering emits every step as shaders and launches (emit.h), makes pipelines of the shaders, takes memory, lays out the
 * parameter blocks and records the commands; a run then fills in what changed and submits (run.c). */
#include "device/vulkan/device.h"

#include "device/devices.h"
#include "device/vulkan/emit_alike.h"
#include "device/vulkan/emit_pairs.h"
#include "device/vulkan/plan.h"

#include <stdlib.h>

/* --- lowering --- */

/* Whether an index or a number of points may not fit into 31 bits. */
static bool needs_wide(const emit_env *env) {
  const program *p = env->program;
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].bytes / (int64_t)sn_dtype_size(p->values[v].type.dtype) > INT32_MAX)
      return true;
  for (int i = 0; i < program_steps(p); i++)
    for (int k = 0; k < p->steps[i].n_parts; k++) {
      const loop_part *l = &p->steps[i].parts[k].u.loop;
      bool loop = p->steps[i].kind == STEP_POINTWISE || p->steps[i].kind == STEP_ROW;
      if (loop && sizes_most(env, l->n_axes, l->extent) > INT32_MAX)
        return true;
    }
  return false;
}

static sn_status emit_steps(device_plan *dp, emit_env *env) {
  const program *p = dp->program;
  int n = program_steps(p);
  step_launches *made = arena_array(&dp->memory, (size_t)n, sizeof *made);
  struct kept_table *kept = env->kept;
  if (!made)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    env->kept = i < p->n_prepare ? NULL : kept; /* what is kept is made behind `prepare` */
    SN_TRY(emit_step(env, &p->steps[i], &made[i]));
  }
  env->kept = kept;
  return plan_take_launches(dp, made);
}

/* The states that kept memory is made from. */
static sn_status find_keeps(device_plan *dp, const emit_env *env) {
  const program *p = dp->program;
  dp->kept = (plan_room){.what = "packed weights", .bytes = env->kept->bytes};
  dp->keeps = arena_array(&dp->memory, (size_t)p->n_states, sizeof *dp->keeps);
  if (!dp->keeps)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < dp->n_launches; i++) {
    const launch *l = dp->launches[i].of;
    for (int k = 0; l->kept && k < l->n_parts; k++)
      for (int n = 0; n < l->parts[k].n_slots; n++) {
        const slot *s = &l->parts[k].slots[n];
        if (s->kind == SLOT_ADDRESS && p->values[s->value].home == HOME_STATE)
          dp->keeps[p->values[s->value].index] = true;
      }
  }
  return SN_OK;
}

static sn_status make_pipelines(device_plan *dp, const emit_env *env) {
  int n = env->shaders->n;
  dp->pipelines = arena_array(&dp->memory, (size_t)n, sizeof(gpu_pipeline *));
  if (!dp->pipelines)
    return SN_ERR_NO_MEMORY;
  SN_TRY(gpu_pipelines_get(dp->gpu, dp->ctx, n, env->shaders->at, dp->pipelines));
  dp->n_pipelines = n;
  for (int i = 0; i < dp->n_launches; i++)
    for (int k = 0; k < n; k++)
      if (env->shaders->at[k] == dp->launches[i].of->code)
        dp->launches[i].pipeline = gpu_pipeline_handle(dp->pipelines[k]);
  return SN_OK;
}

static sn_status lower_into(device_plan *dp, const hand_made *hand, bool keep) {
  struct shader_table shaders = {0};
  struct kept_table kept = {0};
  struct alike_table alike = {0};
  emit_env env = {.ctx = dp->ctx,
                  .memory = &dp->memory,
                  .program = dp->program,
                  .target = &dp->target,
                  .precision = dp->precision,
                  .by_hand = hand->make,
                  .hand = hand->of,
                  .kept = keep ? &kept : NULL,
                  .alike = &alike,
                  .shaders = &shaders};
  env.wide = needs_wide(&env);
  SN_TRY(pairs_choose(&env));
  SN_TRY(emit_steps(dp, &env));
  if (env.kept)
    SN_TRY(find_keeps(dp, &env));
  SN_TRY(make_pipelines(dp, &env));
  SN_TRY(vk_plan_place(dp));
  SN_TRY(plan_params_create(dp));
  return plan_commands_create(dp);
}

static void destroy(device_plan *dp) {
  if (!dp)
    return;
  sn_ctx *ctx = dp->ctx;
  if (dp->gpu) {
    if (atomic_load(&dp->gpu->lost)) /* something may still run */
      gpu_idle(dp->gpu);
    plan_commands_destroy(dp);
    plan_params_destroy(dp);
    plan_unplace(dp);
    gpu_pipelines_put(dp->gpu, dp->n_pipelines, dp->pipelines);
    gpu_put(dp->gpu);
  }
  arena_clear(&dp->memory);
  mem_free(ctx, dp, sizeof *dp);
}

/* Matrices, and launches that wait by themselves, are proved before they are first used, by programs made by hand. */
static void find_target(const device *d, device_plan *dp, const hand_made *hand) {
  dp->target = dp->gpu->target;
  if (!hand->make && dp->precision != SN_PRECISION_EXACT)
    vulkan_prove_matrices(d, dp->gpu, &dp->target);
  if (!hand->make)
    vulkan_prove_chain(d, dp->gpu, &dp->target);
  else
    dp->target.chains = dp->target.chains && hand->chains;
}

/* *keep: whether memory may be kept; then, whether some was. */
static sn_status lower_once(const device *d, sn_ctx *ctx, const program *p,
                            const device_options *options, const hand_made *hand, bool *keep,
                            device_plan **out) {
  *out = NULL;
  device_plan *dp = mem_alloc(ctx, sizeof *dp);
  if (!dp)
    return SN_ERR_NO_MEMORY;
  dp->ctx = ctx;
  dp->program = p;
  dp->resident = options->resident;
  dp->precision = options->precision;
  dp->trial = hand->make != NULL;
  arena_init(&dp->memory, ctx);
  sn_status status = gpu_get(ctx, vulkan_index(d), &dp->gpu);
  if (status == SN_OK) {
    find_target(d, dp, hand);
    status = lower_into(dp, hand, *keep);
  }
  *keep = dp->kept.bytes > 0;
  if (status != SN_OK) {
    destroy(dp);
    return status;
  }
  *out = dp;
  return SN_OK;
}

/* What is kept makes runs faster, but is not needed: where there is no room for it, the plan goes without. */
sn_status vulkan_lower(const device *d, sn_ctx *ctx, const program *p,
                       const device_options *options, const hand_made *hand, device_plan **out) {
  bool keep = !hand->make;
  sn_status status = lower_once(d, ctx, p, options, hand, &keep, out);
  if (status != SN_ERR_NO_MEMORY || !keep)
    return status;
  keep = false;
  return lower_once(d, ctx, p, options, hand, &keep, out);
}

static sn_status lower(const device *d, sn_ctx *ctx, const program *p,
                       const device_options *options, device_plan **out) {
  return vulkan_lower(d, ctx, p, options, &(hand_made){0}, out);
}

/* Kernels that build matrices in registers load 16 bytes along k: the channels of one place of a window. A GPU that cannot be opened
 * asks for nothing; lowering will say why. */
static int channels_last(const device *d, sn_ctx *ctx, sn_precision precision) {
  enum { MATRIX_SIDE = 16 };
  gpu *g;
  if (precision == SN_PRECISION_EXACT || gpu_get(ctx, vulkan_index(d), &g) != SN_OK)
    return 0;
  gpu_target target = g->target;
  vulkan_prove_matrices(d, g, &target);
  gpu_put(g);
  return target.bf16_places ? MATRIX_SIDE : 0;
}

/* --- what became of it --- */

static void count(const device_plan *dp, device_counts *out) {
  const program *p = dp->program;
  int end = program_steps(p);
  *out = (device_counts){.pipelines = dp->n_pipelines, .bytes = plan_bytes(dp)};
  for (int i = p->n_prepare; i < end; i++) {
    const lowered_step *s = &dp->steps[i];
    for (int k = 0; k < s->n; k++) {
      const lowered_launch *l = &dp->launches[s->first + k];
      if (l->of->kept)
        continue;
      out->launches += launch_runs(l);
      out->barriers += l->behind;
    }
  }
}

static bool keeps(const device_plan *dp, int state) { return dp->keeps && dp->keeps[state]; }
static void poison(device_plan *dp) { dp->poison = true; }
static int64_t kept_bytes(const device_plan *dp) { return dp->kept.bytes; }

/* --- the devices --- */

static struct {
  pthread_once_t once;
  device list[GPU_MOST];
  int n;
} devices = {.once = PTHREAD_ONCE_INIT};

static void fill_devices(void) {
  for (devices.n = 0; devices.n < gpu_count(); devices.n++)
    devices.list[devices.n] = (device){.name = gpu_at(devices.n)->name,
                                       .description = gpu_at(devices.n)->description,
                                       .channels_last = channels_last,
                                       .lower = lower,
                                       .run = plan_run,
                                       .destroy = destroy,
                                       .poison = poison,
                                       .note = vulkan_note,
                                       .count = count,
                                       .waited = gpu_waited,
                                       .measure = vulkan_measure,
                                       .mirrors = &vulkan_mirrors,
                                       .keeps = keeps,
                                       .kept_bytes = kept_bytes,
                                       .read_output = plan_read_output};
}

const device *vulkan_device_at(int index) {
  pthread_once(&devices.once, fill_devices);
  return index >= 0 && index < devices.n ? &devices.list[index] : NULL;
}

int vulkan_index(const device *d) { return (int)(d - devices.list); }

const device *vulkan_device_find(const char *name) {
  char *end = NULL;
  if (strncmp(name, "vulkan", 6) != 0)
    return NULL;
  if (!name[6])
    return vulkan_device_at(0);
  long index = name[6] == ':' && name[7] >= '0' && name[7] <= '9' ? strtol(name + 7, &end, 10) : -1;
  return end && !*end && index < GPU_MOST ? vulkan_device_at((int)index) : NULL;
}

const char *vulkan_why_none(void) { return gpu_why_none(); }
