/* Offsets for blocks that are alive for a while each: no two that are alive at once may overlap, and the highest end should be
 * low. Knows nothing of programs. */
#ifndef SINEW_PLAN_PACK_H
#define SINEW_PLAN_PACK_H

#include "base/arena.h"

typedef struct pack_block {
  int64_t size;    /* above 0; all in one unit */
  int first, last; /* alive from first to last, both included */
  int64_t offset;  /* found */
} pack_block;

/* Times run from 0 to n_times - 1. `bound` is the largest sum alive at once, and the sum of all sizes does not overflow. Gives
 * the highest end. The same blocks get the same offsets, whatever the machine: work is counted, not timed. */
sn_status pack_blocks(pack_block *blocks, int n, int n_times, int64_t bound, arena *scratch,
                      int64_t *out_height) SN_MUST_USE;

#endif
