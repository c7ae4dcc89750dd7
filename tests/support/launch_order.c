/* See launch_order.h. */
#include "support/launch_order.h"

#include "device/vulkan/plan.h"

static int step_of(const device_plan *dp, int number) {
  int s = 0;
  while (number >= dp->steps[s].first + dp->steps[s].n)
    s++;
  return s;
}

static sn_status take_section(const device_plan *dp, int number, arena *memory, launch_order *out) {
  const plan_section *from = &dp->sections[number];
  ordered_launch *to = arena_array(memory, (size_t)from->n, sizeof *to);
  if (!to)
    return SN_ERR_NO_MEMORY;
  for (int i = 0, phase = -1; i < from->n; i++) {
    const lowered_launch *l = &dp->launches[dp->order[from->first + i]];
    int s = step_of(dp, dp->order[from->first + i]);
    to[i] = (ordered_launch){s, l->of, l->phase != phase, dp->steps[s].scratch_at};
    phase = l->phase;
  }
  out->n[number] = from->n;
  out->at[number] = to;
  return SN_OK;
}

sn_status launch_order_find(arena *memory, const program *p, const step_launches *made,
                            launch_order *out) {
  device_plan dp = {.ctx = memory->ctx, .program = p};
  arena_init(&dp.memory, memory->ctx);
  *out = (launch_order){0};
  sn_status status = plan_take_launches(&dp, made);
  if (status == SN_OK)
    status = plan_phases(&dp);
  for (int i = 0; i < ORDER_SECTIONS && status == SN_OK; i++)
    status = take_section(&dp, i, memory, out);
  out->scratch_bytes = dp.scratch.bytes;
  arena_clear(&dp.memory);
  return status;
}
