/* Tiles by cooperative matrices of operands that an earlier launch of the step has made halves of, once for all tiles. Where the target has
 * `places` (kernel_matrix.h); halves, scales and the bound of errors are those of emit_matmul_matrix.h.
 *
 *   emit_matmul_pack.c     an operand to packed blocks
 *   emit_matmul_packed.c   the kernel of products; its results are those of emit_matmul_direct_store.c
 *
 * A block is 32 points of an operand by 64 elements of k: [k / 16][point][t][halves of k = 4 t ... 4 t + 3, then what those leave], 16 bytes
 * for each t, 8 KiB in all. Points are in the order 0, 4, 8 ... 28, 1, 5 ...: a thread's four neighbouring points (emit_matmul_direct.h) are then
 * four loads, each of 512 bytes by the subgroup. Blocks are [batch][point / 32][k / 64]. Beyond the end of k are zeros; points beyond the end
 * are whatever there is. A block has one power of two; its exponent is 255 where the block has an infinity or NaN.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_PACKED_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_PACKED_H

#include "device/vulkan/emit_matmul_direct.h"

enum {
  PACKED_POINTS = 32,
  PACKED_DEPTH = 64,
  PACKED_STEPS = PACKED_DEPTH / DIRECT_SIDE,
  PACKED_BLOCK = PACKED_POINTS * PACKED_DEPTH / 4, /* in fours: 16 bytes */
  PACKED_OPERANDS = 4,
  PACKED_OWN = 4 /* points of a block that a thread has */
};

/* Where blocks and exponents begin, in kept memory or in the step's scratch memory. */
typedef struct packed_place {
  bool kept;
  int64_t blocks, exponents;
} packed_place;

typedef struct packed_operand {
  operand o;
  bool batched; /* it differs from batch to batch */
  packed_place at;
} packed_operand;

typedef struct packed_operands {
  int n;
  packed_operand list[PACKED_OPERANDS];
} packed_operands;

/* The operands of a part, each once; false: too many. Without memory yet. */
bool packed_collect(const emitter *e, const matmul_part *p, packed_operands *out);
/* The number of a product's operand among them; -1: it is not there. */
int packed_find(const packed_operands *all, const operand *o);
/* Bytes of an operand's blocks, and of their exponents, at the symbols' maxima. */
void packed_bytes(const emitter *e, const matmul_part *p, const packed_operand *of, int64_t out[2]);
/* Whether an operand stays as it is from run to run: one load of a value that does, the same for all batches, of sizes that are numbers. */
bool packed_may_keep(const emitter *e, const matmul_part *p, const packed_operand *of);
/* Takes memory, and emits the launch that packs an operand, if nobody has: into kept memory where that may be. */
sn_status emit_pack(emitter *e, const matmul_part *p, packed_operand *of, const amount *when,
                    int64_t least, int64_t most) SN_MUST_USE;
/* For who packs: the largest number (u32) of a workgroup's threads, with a barrier; the same as an exponent (i32), LEAST or more. */
val packed_workgroup_max(emitter *e, val most);
val packed_exponent(emitter *e, val most);
/* Addresses (u64). */
val packed_blocks(kernel *k, const packed_place *at);
val packed_exponents(kernel *k, const packed_place *at);
/* Blocks along the points and along k. */
amount packed_tiles(const matmul_part *p, int side);
amount packed_depths(const matmul_product *p);

#endif
