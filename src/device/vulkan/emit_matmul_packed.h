/* Operands of direct kernels (emit_matmul_direct.h) that stay as they are from run to run (weights) are made halves of once:
 * emit_matmul_pack.c.
 *
 * A block is 32 points of an operand by 64 elements of k: [k / 16][point][t][halves of k = 4 t ... 4 t + 3, then what those leave], 16 bytes
 * for each t, 8 KiB in all. Points are in the order 0, 4, 8 ... 28, 1, 5 ...: a thread's four neighbouring points are then four loads, each
 * of 512 bytes by the subgroup. Blocks are [point / 32][k / 64]. Beyond the end of k are zeros; points beyond the end are whatever there is.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_PACKED_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_PACKED_H

#include "device/vulkan/emit_matmul_direct.h"

enum {
  PACKED_POINTS = 32,
  PACKED_DEPTH = 64,
  PACKED_BLOCK = PACKED_POINTS * PACKED_DEPTH / 4, /* in fours: 16 bytes */
  PACKED_OPERANDS = 4
};

typedef struct packed_operand {
  operand o;
  int64_t at, exponents; /* kept memory: blocks; f16: an i32 for every 32 points */
} packed_operand;

typedef struct packed_operands {
  int n;
  packed_operand list[PACKED_OPERANDS];
} packed_operands;

/* Those operands of a part, each once, without memory yet: one load of a value that stays, the same for all batches, of sizes that are
 * numbers. */
void packed_collect(const emitter *e, const matmul_part *p, packed_operands *out);
/* The number of a product's operand among them; -1: it is not there. */
int packed_find(const packed_operands *all, const operand *o);
/* Takes memory, and emits the launch that packs an operand, if nobody has. */
sn_status emit_pack(emitter *e, const matmul_part *p, sn_dtype half,
                    packed_operand *of) SN_MUST_USE;
/* Blocks along the points and along k. */
amount packed_tiles(const matmul_part *p, int side);
amount packed_depths(const matmul_product *p);

#endif
