/* What the emitters of cores (step.h) share: elements of their operands, pairs of words, sums over a workgroup. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_CORE_H
#define SINEW_DEVICE_VULKAN_EMIT_CORE_H

#include "device/vulkan/emit.h"

/* The element at coordinates, one an axis of the operand, as a lane; stores round to the dtype. What is stored to a
 * result that nobody needs goes nowhere. */
val core_load(emitter *e, const strided *s, const val *at);
void core_store(emitter *e, const strided *s, const val *at, val lane);

/* A u64 of two u32, and these again. */
val core_pair(emitter *e, val high, val low);
val core_low(emitter *e, val pair);
val core_high(emitter *e, val pair);
/* a << by, a >> by (logical) where `by` is a value. */
val core_shl(emitter *e, val a, val by);
val core_shr(emitter *e, val a, val by);

/* Sums in place, up to each thread and with it: threads are `lanes` (a power of two) side by side, the sum runs over those of equal
 * number in their lanes. array: 2 * threads elements of the type of `mine`, which nobody reads or writes any more.
 * Behind it all is read and the array is free again. *out_all: over all. `combine`: NULL for +. */
typedef val (*core_combine)(emitter *e, const void *user, val a, val b);
val core_scan_threads(emitter *e, val mine, val array, int lanes, core_combine combine,
                      const void *user, val *out_all);

/* Threads of a workgroup that has no reason for another number: a power of two. */
static inline int core_threads(const emitter *e) {
  return e->env.target->max_threads >= 256 ? 256 : 128;
}
static inline amount amount_of(const sn_dim *d) { return (amount){1, 1, d}; }
static inline amount amount_tiles(const sn_dim *d, int tile) { return (amount){1, tile, d}; }

#endif
