/* Steps: what a plan is a list of and what a device runs. A step is one launch of one archetype on a list of parts that do
 * not depend on each other (q, k and v; all optimiser updates; one part is the usual case).
 *
 * Archetypes:
 *   POINTWISE, ROW   a loop part: a region over an index space, without or with reductions along rows
 *   MATMUL           a matmul part: contractions, convolutions among them, with regions that load their operands and
 *                    store their results
 *   the others       a core part: an algorithm of its own on whole operands, which are strided views of values
 */
#ifndef SINEW_STEP_STEP_H
#define SINEW_STEP_STEP_H

#include "step/region.h"

typedef enum archetype {
  STEP_POINTWISE,
  STEP_ROW,
  STEP_MATMUL,
  STEP_ATTENTION,
  STEP_ATTENTION_GRAD,
  STEP_SCATTER,
  STEP_SCAN,
  STEP_SORT,
  STEP_SAMPLE,
  STEP_PERMUTE,
  STEP_ARCHETYPES
} archetype;
const char *archetype_name(archetype a);

/* A region over axes 0 … n_axes-1, the outer n_outer of which count rows. For each row, in this order:
 *   row instructions of phase 0; for each point of the row, instructions of phase 0; row instructions of phase 1; …;
 *   row instructions of phase n_phases.
 * The code stands in that order. Registers of points live within their phase; row registers live to the end of the row, and are
 * the same for all its points. A REDUCE of phase p combines its argument over the points of the row; its result is a
 * row register from row phase p + 1 on, though it stands among (and counts as) the instructions of phase p with row = false.
 * Stores of points happen for each point, stores of rows once a row. A row over nothing (an inner extent 0) reduces to the
 * kind's neutral element. Without rows (POINTWISE) n_outer is 0 and n_phases is 1; row instructions are then done once, and
 * nothing at all is done where there are no points. */
typedef struct loop_part {
  int n_axes, n_outer, n_phases;
  sn_dim extent[REGION_AXES];
  region code;
} loop_part;

/* acc[b, m, n] = sum over products, over k, of a[b, m, k] * b[b, k, n].
 * Axes of all regions: n_batch batch axes, then n_m, then n_n, and for operands the k axes of the product. Each of these groups
 * may be empty (one point). An operand's region ends with the instruction whose register is the operand: f32. It reads
 * no coordinate of the axes that it does not have (a: n; b: m). The epilogue runs at each (b, m, n), over the first
 * n_batch + n_m + n_n axes, and stores. Accumulation is f32 or better. */
typedef struct matmul_product {
  int n_k;
  sn_dim k[SN_MAX_RANK];
  region a, b;
} matmul_product;
typedef struct matmul_acc {
  int n_products;
  const matmul_product *products;
} matmul_acc;
typedef struct matmul_part {
  int n_batch, n_m, n_n;
  sn_dim extent[REGION_AXES];
  int n_accs;
  const matmul_acc *accs;
  region epilogue;
  bool gradient; /* of a convolution: fewer bits do than for what it is the gradient of */
  /* Plans have 0. 1, 2, …: parts that a device has made of one, all with the same axes and checks, needed or not */
  int phase;
} matmul_part;

/* An operand or result of a core: a value seen through strides. Axis d of the operand has extent dim[d] and element
 * (i0, i1, …) is at base + sum of i_d * stride[d]. value 0: left out. */
typedef struct strided {
  uint32_t value;
  uint8_t dtype;
  int rank;
  sn_dim dim[SN_MAX_RANK], stride[SN_MAX_RANK], base;
} strided;

/* Cores, their operands, results, `ints` and `reals`:
 *   ATTENTION       in: q k v mask bias kv_length sinks; out: out lse (value 0: not wanted). q, k, v, out are [B,H,S,D]
 *                   whatever the layout was (strides say it), mask and bias [B,Hq,Sq,Skv] (stride 0 where broadcast),
 *                   kv_length [B], sinks [Hq], lse [B,Hq,Sq]. ints: causal (sn_causal), window. reals: scale, softcap.
 *                   The rules: src/ops/attention/scores.h.
 *   ATTENTION_GRAD  in: those seven, lse out d_out d_lse; out: dq dk dv dbias dsinks (value 0: not wanted). The same numbers.
 *   SCATTER         in: base index value; out: result, whose memory is base's where the plan could place it so. result[.., index, ..] = or += value in index
 *                   order. Rows (ints[1] = -1): base [n, r], index [m], value [m, r]. Along an axis: all of rank 3 [outer, n, inner]
 *                   ints: 1 to add, 0 to set; axis kind -1 rows, 1 along. Indices are in range (required elsewhere); others are ignored.
 *   SCAN            in: x [outer, n, inner]; out: the same. ints: 0 sum, 1 product; exclusive; reverse.
 *   SORT            in: x [outer, n, inner]; out: values, indices [outer, k, inner]. ints: 1 descending (k is the results' dim).
 *                   Stable; NaN is the largest.
 *   SAMPLE          in: logits [rows, V], key [3], history [rows, H]; out: [rows]. ints: top_k, stream. reals: temperature,
 *                   top_p, min_p, penalty.  src/ops/choose/sample.c
 *   PERMUTE         in: key [3]; out: [n]. ints: stream. src/ops/choose/draw_int.c */
enum { CORE_INS = 11, CORE_OUTS = 5, CORE_NUMBERS = 4 };
typedef struct core_part {
  int n_in, n_out;
  strided in[CORE_INS], out[CORE_OUTS];
  int64_t ints[CORE_NUMBERS];
  double reals[CORE_NUMBERS];
} core_part;

typedef struct part {
  union {
    loop_part loop;
    matmul_part matmul;
    core_part core;
  } u;
} part;

typedef struct step {
  archetype kind;
  bool barrier; /* what came before must be done and visible */
  int n_parts;
  const part *parts;
  int n_after; /* values that must be made before this step, though it reads none of them */
  const uint32_t *after;
  const char *name;    /* for people: where in the model and which ops */
  int launches;        /* that a device with many cores needs */
  double flops, bytes; /* at the symbols' maxima */
} step;

#endif
