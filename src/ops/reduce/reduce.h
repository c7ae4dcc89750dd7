/* What reductions over axes and scans along an axis share. */
#ifndef SINEW_OPS_REDUCE_H
#define SINEW_OPS_REDUCE_H

#include "ops/common.h"
#include "ops/shape/locate.h"

/* --- infer --- */
/* out[0]: input 0 without the chosen axes (size 1 with keepdims), of the dtype. */
sn_status infer_reduced(infer_ctx *c, const sn_ints *axes, bool keepdims,
                        sn_dtype dtype) SN_MUST_USE;
/* As infer_reduced, for reductions that have no value over nothing: refuses what is known to reduce
 * nothing to something. What symbols hide is left to ref_nonempty. */
sn_status infer_reduced_nonempty(infer_ctx *c, const sn_ints *axes, bool keepdims,
                                 sn_dtype dtype) SN_MUST_USE;
/* out[0] is like input 0, which must be a number; the axis must be one. */
sn_status infer_scan(infer_ctx *c, int64_t axis) SN_MUST_USE;

/* --- ref --- */
/* Integers wrap: i32 modulo 2^32, u8 modulo 2^8. */
static inline double wrap_int(sn_dtype dtype, int64_t x) {
  return dtype == SN_U8 ? (double)((uint64_t)x & 0xff) : wrap_i32(x);
}
/* A fold from `start`: f on floats, i on integers, whose result wraps (NULL: f serves both). */
typedef struct fold {
  double start;
  double (*f)(double acc, double x);
  int64_t (*i)(int64_t acc, int64_t x);
} fold;
extern const fold fold_add, fold_multiply, fold_larger, fold_smaller;
double fold_step(const fold *how, sn_dtype dtype, double acc, double x);

/* For each result element, folds its elements in row-major order. */
void ref_fold(ref_ctx *c, const sn_ints *axes, const fold *how);
/* y[k] = the fold over elements up to k (before k when exclusive; from the end when reverse). */
void ref_scan(ref_ctx *c, int64_t axis, bool exclusive, bool reverse, const fold *how);
/* Visits every input element with the index of the result element that it belongs to. */
typedef struct reduce_walk {
  const ref_tensor *x;
  int64_t stride[SN_MAX_RANK]; /* of the result along each input axis; 0 along reduced ones */
  int64_t index[SN_MAX_RANK];
  int64_t count; /* elements a result element has */
} reduce_walk;
void reduce_walk_start(reduce_walk *w, const ref_tensor *x, const sn_ints *axes);
/* The result element of the current input element; then steps on. */
int64_t reduce_walk_next(reduce_walk *w);
/* An error when a result element has no elements. */
sn_status ref_nonempty(ref_ctx *c, const sn_ints *axes) SN_MUST_USE;

/* --- grad and decompose --- */
/* How many elements of `shape` a reduction over axes takes together. */
sn_dim build_reduced_count(build_ctx *c, sn_shape shape, sn_ints axes);
/* A value reduced with keepdims, without those axes unless keepdims is true. */
sn_value build_dropdims(build_ctx *c, sn_value kept, sn_ints axes, bool keepdims);
/* max with keepdims, but -inf over nothing. */
sn_value build_max_or_lowest(build_ctx *c, sn_value x, sn_ints axes);

/* x moved by its largest (by 0 where that is infinite), and the log of the sum of exp of that, with keepdims: how
 * logarithms of softmax keep their digits whatever the size of x. In f32; x must be. */
typedef struct shifted_logs {
  sn_value by, moved, log_sum;
} shifted_logs;
shifted_logs build_shifted_logs(build_ctx *c, sn_value x, sn_ints axes);

/* --- element --- */
/* The reduction of input 0 over axes at a place of the result. Reductions are of f32, i32 and bool: halves are taken
 * as f32, u8 as i32 and brought back. */
uint16_t elem_fold(elem_ctx *c, const place *at, const sn_ints *axes, bool keepdims,
                   reduce_kind kind);
/* As ref_nonempty, of the run's symbols. */
void elem_require_nonempty(elem_ctx *c, const sn_ints *axes);

#endif
