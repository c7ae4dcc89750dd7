/* Tiles whose operands go straight from memory to the registers of cooperative matrices: no panels, nobody waits for anybody until the
 * sums meet. Where the target has `places` (kernel_matrix.h); see emit_matmul_matrix.h for halves, scales and the bound of errors,
 * which are the same here.
 *
 * A subgroup has a tile of fragments, of 16 points a side each. Point 4 g + c of every 32 is slot g (c even) or g + 8 (c odd) of fragment
 * c / 2, and k = 4 t + j of every 16 is one of the slots that thread 4 g + t has: so a thread's elements are four neighbours in memory,
 * whether those lie along k or along the points, and its sums are 4 rows by 8 columns. Subgroups of a workgroup have other tiles, or
 * other slices of k.
 *
 * A stage is 16 elements of k. Loads of `ahead` stages are on their way; a stage's sums have scales of their own and are
 * added to f32 totals, so that there are no scales to keep.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_DIRECT_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_DIRECT_H

#include "device/vulkan/emit_matmul.h"
#include "device/vulkan/emit_matmul_scale.h"
#include "device/vulkan/kernel_matrix.h"

enum {
  DIRECT_SIDE = 16, /* points of a fragment; elements of k of a step */
  DIRECT_FRAGMENTS = 4,
  DIRECT_TILES = DIRECT_FRAGMENTS / 2,  /* of 32 points */
  DIRECT_POINTS = 2 * DIRECT_FRAGMENTS, /* of a thread */
  DIRECT_AHEAD = 2,
  DIRECT_SUMS = DIRECT_POINTS * 8 /* of a thread, by accumulator */
};

/* One operand of the stages on their way: as it is, or packed (emit_matmul_packed.h). */
typedef struct direct_side {
  operand o;
  operand_rows at;
  int points;                               /* of this thread */
  val first;                                /* the first of them */
  const struct packed_operand *packed;      /* NULL: as it is */
  val blocks[DIRECT_TILES];                 /* where its tiles' blocks begin: numbers */
  val seen[DIRECT_AHEAD][DIRECT_TILES];     /* variables: their exponents (i32) */
  val kept[DIRECT_AHEAD][DIRECT_POINTS][4]; /* variables, by set, point, k (or word) */
  val there[DIRECT_AHEAD];                  /* variables, u32: which exist, where checks can fail */
  val exponent[DIRECT_TILES];    /* of the stage that is used, by 32 points: biased (i32) */
  val half[DIRECT_FRAGMENTS][2]; /* matrices of it: halves, rests */
} direct_side;

typedef struct direct {
  matmul m;
  const direct_shape *shape;
  int products;
  int depth; /* multiples of k at which pieces of it begin */
  spirv_id type[3];
  val g, t;                          /* of this thread */
  val number, place[2], slice;       /* of its subgroup */
  val total[EMIT_ACCS][DIRECT_SUMS]; /* variables, by row of the thread and column */
  val wild;                          /* variable, u32: not 0 once there was an infinity */
  val words;                         /* shared */
  int first, n, n_sides;             /* accumulators that are made together, and their operands */
  direct_side sides[3];
  const struct packed_operands *packed; /* operands that are */
  int of[2][2];
} direct;

static inline int direct_subgroups(const direct_shape *s) {
  return s->subgroups[0] * s->subgroups[1] * s->slices;
}
/* Points of a workgroup. */
static inline int direct_points(const direct_shape *s, int side) {
  return s->fragments[side] * s->subgroups[side] * DIRECT_SIDE;
}

/* Everything before the first product; the kernel is open. */
void direct_begin(direct *d);
/* Sums of fragments i and j, times both factors, to the totals. */
void direct_add(direct *d, int acc, int i, int j, val sums, const val undo[2]);

/* --- operands: emit_matmul_direct_load.c --- */
void direct_side_open(direct *d, direct_side *s);
void direct_load(direct *d, direct_side *s, int set, val at_k, val size);
/* Waits for a set: its scale, its matrices. */
void direct_convert(direct *d, direct_side *s, int set, val at_k, val size);

/* --- results: emit_matmul_direct_store.c --- */
int direct_words(const direct_shape *s, const matmul_part *p, const gpu_target *t);
void direct_store(direct *d);

#endif
