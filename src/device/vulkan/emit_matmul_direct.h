/* Tiles whose operands go straight from memory to the registers of cooperative matrices: no panels, nobody waits for anybody until the
 * sums meet. Where the target has `bf16_places` (kernel_matrix.h).
 *
 * A subgroup has a tile of fragments, of 16 points a side each. Point 4 g + c of every 32 is slot g (c even) or g + 8 (c odd) of fragment
 * c / 2, and k = 4 t + j of every 16 is one of the slots that thread 4 g + t has: so a thread's elements are four neighbours in memory,
 * whether those lie along k or along the points, and its sums are 4 rows by 8 columns. Subgroups of a workgroup have other tiles, or
 * other slices of k. A stage is 16 elements of k; the loads of the next one are on their way.
 *
 * `fast`: a number is the bf16 next to it, and what that leaves as a bf16 again (k_two_bf16): off by 2^-16 of it at most, by 2^-18 as a rule.
 * Of the four products of a and b the three larger ones are summed, in f32 by the matrices; the fourth is 2^-16 |a b| at most. So the error of a
 * sum of products is at most 2^-13 sum |a b|, and 2^-126 sum (|a| + |b|) where least numbers count as 0, and what f32 sums have; as a rule it is 4e-6
 * of the results (root of the mean square). bf16 have the range of f32, so there are no scales. An infinity, or what rounds to one, leaves no
 * number: sums that are none are made again by plain multiply-adds. `half`: one product.
 *
 * Where that is too little (is_deep in emit_matmul.c) halves are f16, 21 bits together, under a power of two for each operand and subgroup that
 * changes where a stage has larger numbers than all before; sums change with it. Errors as in emit_matmul_matrix.h. A subgroup that meets an infinity
 * makes all its sums again.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_DIRECT_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_DIRECT_H

#include "device/vulkan/emit_matmul.h"
#include "device/vulkan/emit_matmul_scale.h"
#include "device/vulkan/kernel_matrix.h"

enum {
  DIRECT_SIDE = 16, /* points of a fragment; elements of k of a stage */
  DIRECT_FRAGMENTS = 4,
  DIRECT_TILES = DIRECT_FRAGMENTS / 2,  /* of 32 points */
  DIRECT_POINTS = 2 * DIRECT_FRAGMENTS, /* of a thread */
  DIRECT_SUMS = DIRECT_POINTS * 8,      /* of a thread, by accumulator */
  DIRECT_TABLE = 1536                   /* elements of k */
};

/* One operand of the stages on their way: as it is, or packed (emit_matmul_packed.h). */
typedef struct direct_side {
  operand o;
  operand_rows at;
  int points;                          /* of this thread */
  val first;                           /* the first of them */
  const struct packed_operand *packed; /* NULL: as it is */
  val blocks[DIRECT_TILES];            /* where its tiles' blocks begin: addresses */
  bool paired;                         /* the value is stored as halves: kept are words, too */
  val kept[DIRECT_POINTS][4];          /* variables, by point, k (or word) */
  val there[DIRECT_POINTS][2];         /* variables, u32: bits of halves where checks pass */
  val half[DIRECT_FRAGMENTS][2];       /* matrices of a stage: halves, rests */
  val exponent[DIRECT_TILES], scale;   /* f16: variables (i32; f32), of all points or of 32 */
} direct_side;

typedef struct direct {
  matmul m;
  const direct_shape *shape;
  int products;
  sn_dtype half;
  spirv_id type[3];
  val g, t;                                                 /* of this thread */
  val number, place[2], slice;                              /* of its subgroup */
  val sums[EMIT_ACCS][DIRECT_FRAGMENTS * DIRECT_FRAGMENTS]; /* variables: matrices */
  val total[EMIT_ACCS][DIRECT_SUMS]; /* their elements, by row of the thread and column */
  val vectors;                       /* shared, of 4 words */
  int first, n, n_sides;             /* accumulators that are made together, and their operands */
  direct_side sides[3];
  const struct packed_operands *packed; /* operands that are */
  int of[2][2];
  /* Where k has several axes and is no operand's inner one, what each k adds to places and checks stands in shared memory. */
  bool table;
  val table_first; /* the first k of it */
} direct;

static inline int direct_subgroups(const direct_shape *s) {
  return s->subgroups[0] * s->subgroups[1] * s->slices;
}
/* Points of a workgroup. */
static inline int direct_points(const direct_shape *s, int side) {
  return s->fragments[side] * s->subgroups[side] * DIRECT_SIDE;
}

/* --- operands: emit_matmul_direct_load.c --- */
/* Two numbers times a scale (f16) as words of halves and of what those leave; rest NULL: only the first. */
void direct_halves(kernel *k, sn_dtype half, val scale, const val x[2], val *out, val *rest);
/* The exponent (i32) for a largest magnitude (u32). */
val direct_exponent(kernel *k, val most);
void direct_side_open(direct *d, direct_side *s);
void direct_load(direct *d, direct_side *s, val at_k, val size);
/* Waits for a stage. f16: whether its numbers are too large for the scale so far, and the scale that they need. */
val direct_grows(direct *d, const direct_side *s, val *out_exponent);
/* Waits for a stage: its matrices. */
void direct_convert(direct *d, direct_side *s, val at_k, val size);

/* --- the table of k: emit_matmul_direct_table.c --- */
/* Whether a part with pieces of k so long has one. */
bool direct_has_table(const emitter *e, const matmul_part *p, int64_t length);
/* For the products at hand, of k from ... to - 1, by all threads. */
void direct_fill_table(direct *d, val from, val to, val size);
operand_k direct_table_at(direct *d, const direct_side *s, val at_k, val size);

/* --- results: emit_matmul_direct_store.c --- */
int direct_vectors(const direct_shape *s, const matmul_part *p, const gpu_target *t);
void direct_store(direct *d);

#endif
