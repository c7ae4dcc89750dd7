/* For tests: what no launch has made yet holds no numbers that could be right by luck. See base/stale.h, plan.h. */
#include "device/vulkan/plan.h"

#include "base/stale.h"

enum { STALE_PIECE = 4096 }; /* bytes written at a time */

static sn_status poison_room(device_plan *dp, const plan_room *r) {
  unsigned char stale[STALE_PIECE];
  stale_fill(stale, sizeof stale);
  for (int64_t at = 0; r->block && at < r->bytes; at += STALE_PIECE)
    SN_TRY(gpu_write(dp->gpu, dp->ctx, r->block, r->at + at, stale,
                     min_i64(STALE_PIECE, r->bytes - at)));
  return SN_OK;
}

static sn_status poison_pieces(device_plan *dp, const arena_pieces *pieces) {
  for (int i = 0; i < pieces->n; i++)
    SN_TRY(poison_room(dp, &pieces->at[i].room));
  return SN_OK;
}

sn_status plan_poison(device_plan *dp, bool prepare) {
  if (!dp->poison)
    return SN_OK;
  SN_TRY(poison_pieces(dp, &dp->arena));
  SN_TRY(poison_room(dp, &dp->scratch));
  for (int i = 0; i < dp->program->n_outputs; i++)
    SN_TRY(poison_room(dp, &dp->outputs[dp->set][i]));
  if (!prepare)
    return SN_OK;
  SN_TRY(poison_pieces(dp, &dp->prepared));
  return poison_room(dp, &dp->kept);
}
