/* What ops that move, place and pick elements share. */
#ifndef SINEW_OPS_SHAPE_H
#define SINEW_OPS_SHAPE_H

#include "ops/common.h"

/* --- infer --- */
/* Dims that an attribute states for a result: no negative numbers among them. */
sn_status infer_sizes(infer_ctx *c, const sn_shape *s) SN_MUST_USE;
/* A number in an attribute must be a value of the dtype: not 0.5 in i32. */
sn_status infer_holds(infer_ctx *c, sn_dtype dtype, double value) SN_MUST_USE;
/* All dims of inputs i and j agree but for those of `axis`; so do their ranks. */
sn_status infer_agree(infer_ctx *c, int i, int j, int axis) SN_MUST_USE;
/* index dims followed by the dims of `table` behind its first: the shape of table[index]. */
sn_status infer_rows(infer_ctx *c, sn_shape table, sn_shape index, sn_shape *out) SN_MUST_USE;

/* --- ref --- */
/* Element k of an index input, which must lie in [0, n). */
sn_status ref_index(const ref_ctx *c, int input, int64_t k, int64_t n, int64_t *out) SN_MUST_USE;
/* a + b as the dtype adds: integers wrap. */
double ref_sum_of(sn_dtype dtype, double a, double b);
/* Offset of [o, i, j] in an axis_view. */
static inline int64_t axis_at(axis_view v, int64_t o, int64_t i, int64_t j) {
  return (o * v.n + i) * v.inner + j;
}

/* --- grad and decompose --- */
/* x with zeros before and behind along an axis; sizes may be symbolic. */
sn_value build_zeros_around(build_ctx *c, sn_value x, int axis, sn_dim before, sn_dim after);
/* A list along `axis` (rank 1) as a value that broadcasts against `shape`, and expanded to it. */
sn_value build_along(build_ctx *c, sn_value list, int axis, sn_shape shape);
/* i32 numbers 0, 1, … along `axis`, everywhere in `shape`. */
sn_value build_positions(build_ctx *c, int axis, sn_shape shape);

#endif
