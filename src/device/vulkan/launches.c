/* The launches of a plan, from those that its steps became, and where their scratch memory lies. Called when all steps are emitted
 * (device.c); needs no GPU. */
#include "device/vulkan/plan.h"

/* Steps between two barriers have scratch memory side by side, and those behind the barrier at the other end of it, so that launches of
 * both may run at once. */
static void place_scratch(device_plan *dp) {
  const program *p = dp->program;
  int n = program_steps(p);
  int64_t size = 0, before = 0, most = 0;
  bool high = false;
  for (int i = 0; i < n; i++) {
    lowered_step *s = &dp->steps[i];
    if (i == p->n_prepare || i == p->n_prepare + p->n_main || p->steps[i].barrier) {
      before = size;
      size = 0;
      high = !high;
    }
    s->scratch_at = high ? -size - s->scratch_bytes : size; /* below 0: from the high end */
    size += s->scratch_bytes;
    most = max_i64(most, before + size);
  }
  for (int i = 0; i < n; i++)
    dp->steps[i].scratch_at += dp->steps[i].scratch_at < 0 ? most : 0;
  dp->scratch = (plan_room){.what = "scratch memory", .bytes = most};
}

static void take_launch(lowered_launch *l, const launch *of) {
  *l = (lowered_launch){.of = of, .varies = launch_varies(of), .phase = -1};
  for (int i = 0; i < of->n_parts && !l->varies; i++)
    l->all += part_fixed_groups(&of->parts[i]);
}

sn_status plan_take_launches(device_plan *dp, const step_launches *made) {
  int n = program_steps(dp->program), room = 0;
  dp->steps = arena_array(&dp->memory, (size_t)n, sizeof *dp->steps);
  if (!dp->steps)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    int64_t scratch = (made[i].scratch_bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    dp->steps[i] = (lowered_step){.first = room, .n = made[i].n, .scratch_bytes = scratch};
    room += made[i].n;
  }
  place_scratch(dp);
  dp->launches = arena_array(&dp->memory, (size_t)room, sizeof *dp->launches);
  dp->order = arena_array(&dp->memory, (size_t)room, sizeof *dp->order);
  if (!dp->launches || !dp->order)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < made[i].n; k++)
      take_launch(&dp->launches[dp->n_launches++], &made[i].launches[k]);
  return SN_OK;
}
