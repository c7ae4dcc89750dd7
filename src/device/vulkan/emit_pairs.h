/* Values stored as pairs of halves. An f32 in memory that is nothing but an operand of direct kernels (emit_matmul_direct.h) would be made two
 * bf16 again and again, nine times by each tile of a 3 x 3 convolution: it is stored as those two by who makes it instead. Each four
 * neighbours, at a multiple of four elements, are four words: two of halves, two of what those leave, as packed operands have them. They need no
 * more memory than f32. Both halves are rounded to the nearest; what would become an infinity is cut off,
 * infinities and NaN have no rest.
 *
 * Which values are stored so is found by making the kernels once that may have such values, and seeing what these do: every store is one of four neighbours, every load is one
 * that a direct kernel converts. Those who make sums again that are no numbers read elements of pairs as numbers. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_PAIRS_H
#define SINEW_DEVICE_VULKAN_EMIT_PAIRS_H

#include "device/vulkan/emit.h"

/* Sets env->pairs, in env->memory; all else of env stays as it is. */
sn_status pairs_choose(emit_env *env) SN_MUST_USE;
static inline bool is_paired(const emit_env *env, uint32_t value) {
  return env->pairs && env->pairs[value];
}
/* Words of four numbers. */
void pairs_words(kernel *k, const val x[4], val out[4]);
/* The number that is element i (index) of a value stored so. */
val pairs_load(kernel *k, uint32_t value, val i);

#endif
