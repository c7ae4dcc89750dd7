/* What op files share: attribute access, inference helpers with uniform messages, index arithmetic for
 * references, graph-building helpers for gradients.
 *
 * An op file reads top down: infer, ref, grad or decompose, element, cases, and last the exported op_impl. */
#ifndef SINEW_OPS_COMMON_H
#define SINEW_OPS_COMMON_H

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ops/table.h"
#include "step/element.h"

#include <math.h>

/* ATTRS(softmax): the attribute struct of the context `c`. */
#define ATTRS(op) ((const attrs_##op *)c->attrs)
/* The last lines of an impl: `CASES(cases)`. */
#define CASES(list) .cases = list, .n_cases = (int)COUNT_OF(list)

/* --- infer --- */
/* "softmax: axis 3 …": the graph keeps it, labelled by scope. Always an error. */
sn_status infer_fail(infer_ctx *c, const char *format, ...) PRINTF_LIKE(2, 3) SN_MUST_USE;
/* "f32[2, 3]" of input i. */
const char *infer_text(infer_ctx *c, int i);
static inline bool infer_has(const infer_ctx *c, int i) { return c->in[i].dtype != SN_NO_DTYPE; }
/* -rank … rank-1 to 0 … rank-1. */
sn_status infer_axis(infer_ctx *c, int64_t axis, int rank, int *out_axis) SN_MUST_USE;
/* Marks the chosen axes (all when none are listed); refuses repeats. */
sn_status infer_axes(infer_ctx *c, const sn_ints *axes, int rank, bool *chosen) SN_MUST_USE;
/* Dtype demands; i is an input that is there. */
sn_status infer_float(infer_ctx *c, int i) SN_MUST_USE;
sn_status infer_number(infer_ctx *c, int i) SN_MUST_USE; /* float or integer, not bool */
sn_status infer_dtype(infer_ctx *c, int i, sn_dtype dtype) SN_MUST_USE;
sn_status infer_same_dtype(infer_ctx *c, int i, int j) SN_MUST_USE; /* says which cast is missing */
sn_status infer_rank(infer_ctx *c, int i, int rank) SN_MUST_USE;
/* Input i must have exactly this shape; `what` says of what: "one weight a channel". */
sn_status infer_shape(infer_ctx *c, int i, sn_shape shape, const char *what) SN_MUST_USE;
/* NumPy broadcasting of two shapes of inputs i and j. */
sn_status infer_broadcast(infer_ctx *c, sn_shape a, sn_shape b, sn_shape *out) SN_MUST_USE;

/* --- ref --- */
/* A dim attribute under the run's bindings. */
int64_t ref_dim(const ref_ctx *c, sn_dim d);
/* A dim can be evaluated at run time but its value may be wrong for the data: what, expected, got. */
sn_status ref_fail(const ref_ctx *c, sn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4) SN_MUST_USE;
/* Negative axes and the product of the dims before and behind an axis: x is [outer, n, inner]. */
typedef struct axis_view {
  int64_t outer, n, inner;
} axis_view;
axis_view ref_axis(const ref_tensor *t, int64_t axis);
/* A resolved axis: 0 … rank-1. */
static inline int resolve_axis(int64_t axis, int rank) {
  return (int)(axis < 0 ? axis + rank : axis);
}
/* Row-major strides. */
void ref_strides(const ref_tensor *t, int64_t *strides);
/* Counts an index vector up by one; false after the last. */
static inline bool ref_next(int64_t *index, const int64_t *dim, int rank) {
  for (int d = rank - 1; d >= 0; d--) {
    if (++index[d] < dim[d])
      return true;
    index[d] = 0;
  }
  return false;
}
/* Offset into t of an index vector of a result that t broadcasts to. */
int64_t ref_broadcast_offset(const ref_tensor *t, const int64_t *index, int rank);
/* i32 arithmetic wraps. x is a whole number of any size below 2^63. */
static inline double wrap_i32(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }

/* --- grad and decompose --- */
static inline bool build_has(const build_ctx *c, int i) { return c->in[i].id != 0; }
static inline sn_shape build_shape(const build_ctx *c, sn_value v) {
  return sn_value_type(c->graph, v).shape;
}
static inline sn_dtype build_dtype(const build_ctx *c, sn_value v) {
  return sn_value_type(c->graph, v).dtype;
}
/* Sums a gradient over the axes along which a value of `shape` was broadcast. */
sn_value build_sum_to(build_ctx *c, sn_value grad, sn_shape shape);
/* din[i] = grad summed to the shape of input i, when it is needed. */
void build_din(build_ctx *c, int i, sn_value grad);
/* A reduced value put back: inserts size-1 axes where the reduction over `axes` of `shape` dropped them
 * (keepdims false) and leaves it otherwise. */
sn_value build_keepdims(build_ctx *c, sn_value reduced, sn_shape shape, sn_ints axes,
                        bool keepdims);
/* x of any shape times a number, plus a number; a constant filled like v. */
static inline sn_value build_scale(build_ctx *c, sn_value x, double mul) {
  return sn_affine(c->graph, x, mul, 0);
}
sn_value build_full_like(build_ctx *c, sn_value v, double value);

/* Precision inside gradients and decompositions: half values are computed with as f32, from which
 * build_narrow returns. Both leave v alone where there is nothing to cast. */
sn_value build_wide(build_ctx *c, sn_value v);
sn_value build_narrow(build_ctx *c, sn_value v, sn_dtype dtype);
/* A size as an f32 scalar; x divided by a size (in f32 where the size is symbolic). */
sn_value build_count(build_ctx *c, sn_dim n);
sn_value build_over_count(build_ctx *c, sn_value x, sn_dim n);

/* --- element --- */
/* Inside an op arithmetic is f32, whatever the result's dtype: the definition rounds once, so only the last instruction has
 * that dtype. b is not read by instructions of one argument. */
static inline reg elem_f32(elem_ctx *c, alu code, reg a, reg b) {
  return elem_alu_as(c, code, SN_F32, a, b, 0, 0, 0);
}
/* x * mul + add in the dtype of result 0; on integers both are whole. */
reg element_scaled(elem_ctx *c, reg x, double mul, double add);

#endif
