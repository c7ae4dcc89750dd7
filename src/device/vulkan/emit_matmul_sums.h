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
/* *out_value: where they are stored; 0: OTHER. */
sums_kind matmul_sums(const emitter *e, const matmul_part *p, uint32_t *out_value);
/* Elements from point to point along each axis of a part of numbers, in its own result or in a piece. */
void sums_strides(const matmul_part *p, bool columns_last, bool pieces, sn_dim *out);

#endif
