/* Results that are nothing but their sums, for emit_matmul_result.c: one accumulator, stored as it is. Kernels of registers
 * (emit_matmul_direct.h) store those of pieces of k by the same code, so that there is one shader with pieces and without. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_SUMS_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_SUMS_H

#include "device/vulkan/emit_matmul.h"

typedef enum sums_kind {
  SUMS_OTHER, /* the epilogue does more, or stores vectors that are not in the order of pieces */
  SUMS_FLAT,  /* in the order of pieces: batch, rows, columns, or columns and rows */
  SUMS_APART  /* neighbours along the last side are none in memory */
} sums_kind;
/* Gradients of windows' weights are such: rows are channels of one place of the window, whose weights are as far apart as the window is large. To store
 * each alone costs a sector of memory each; so where there are many, they go to a piece as they come, and a second launch, whose threads go through the
 * result as it stands in memory, finds them there. */
bool sums_want_order(const emitter *e, const matmul_part *p, int splits);
sn_status sums_join(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                    const amount *of, int64_t least, int64_t most) SN_MUST_USE;
/* *out_value: where they are stored; 0: OTHER. */
sums_kind matmul_sums(const emitter *e, const matmul_part *p, uint32_t *out_value);
/* Elements from point to point along each axis of a part of numbers, in its own result or in a piece. */
void sums_strides(const matmul_part *p, bool columns_last, bool pieces, sn_dim *out);

#endif
