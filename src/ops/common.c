/* See common.h. */
#include "ops/common.h"

#include <stdio.h>

sn_status infer_fail(infer_ctx *c, const char *format, ...) {
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  (void)graph_fail(c->graph, SN_ERR_INVALID, "%s: %s", c->op->name, what);
  return SN_ERR_INVALID;
}

const char *infer_text(infer_ctx *c, int i) { return graph_type_text(c->graph, c->in[i]); }

static const char *input_name(const infer_ctx *c, int i) {
  return c->op->on_list ? "an argument" : c->op->inputs[i].name;
}

sn_status infer_axis(infer_ctx *c, int64_t axis, int rank, int *out_axis) {
  *out_axis = 0;
  if (axis < -rank || axis >= rank)
    return infer_fail(c, "axis %lld is outside of rank %d (%s)", (long long)axis, rank,
                      infer_text(c, 0));
  *out_axis = resolve_axis(axis, rank);
  return SN_OK;
}

sn_status infer_axes(infer_ctx *c, const sn_ints *axes, int rank, bool *chosen) {
  for (int d = 0; d < rank; d++)
    chosen[d] = axes->n == 0;
  for (int i = 0; i < axes->n; i++) {
    int axis;
    SN_TRY(infer_axis(c, axes->v[i], rank, &axis));
    if (chosen[axis])
      return infer_fail(c, "axis %lld is listed twice", (long long)axes->v[i]);
    chosen[axis] = true;
  }
  return SN_OK;
}

sn_status infer_float(infer_ctx *c, int i) {
  if (dtype_is_float(c->in[i].dtype))
    return SN_OK;
  return infer_fail(c, "%s must be f32, f16 or bf16, got %s", input_name(c, i), infer_text(c, i));
}

sn_status infer_number(infer_ctx *c, int i) {
  if (dtype_is_float(c->in[i].dtype) || dtype_is_int(c->in[i].dtype))
    return SN_OK;
  return infer_fail(c, "%s must be a number, got %s", input_name(c, i), infer_text(c, i));
}

sn_status infer_dtype(infer_ctx *c, int i, sn_dtype dtype) {
  if (c->in[i].dtype == dtype)
    return SN_OK;
  return infer_fail(c, "%s must be %s, got %s", input_name(c, i), sn_dtype_name(dtype),
                    infer_text(c, i));
}

sn_status infer_same_dtype(infer_ctx *c, int i, int j) {
  if (c->in[i].dtype == c->in[j].dtype)
    return SN_OK;
  return infer_fail(c, "dtypes differ: %s is %s, %s is %s; cast one of them (sn_cast)",
                    input_name(c, i), infer_text(c, i), input_name(c, j), infer_text(c, j));
}

sn_status infer_rank(infer_ctx *c, int i, int rank) {
  if (c->in[i].shape.rank == rank)
    return SN_OK;
  return infer_fail(c, "%s must have rank %d, got %s", input_name(c, i), rank, infer_text(c, i));
}

sn_status infer_shape(infer_ctx *c, int i, sn_shape shape, const char *what) {
  if (shape_equal(c->in[i].shape, shape))
    return SN_OK;
  return infer_fail(c, "%s must be %s (%s), got %s", input_name(c, i),
                    graph_shape_text(c->graph, shape), what, infer_text(c, i));
}

sn_status infer_broadcast(infer_ctx *c, sn_shape a, sn_shape b, sn_shape *out) {
  *out = (sn_shape){.rank = a.rank > b.rank ? a.rank : b.rank};
  for (int d = 1; d <= out->rank; d++) {
    sn_dim x = d <= a.rank ? a.dim[a.rank - d] : 1, y = d <= b.rank ? b.dim[b.rank - d] : 1;
    if (x != y && x != 1 && y != 1)
      return infer_fail(c, "shapes %s and %s do not broadcast", graph_shape_text(c->graph, a),
                        graph_shape_text(c->graph, b));
    out->dim[out->rank - d] = x == 1 ? y : x;
  }
  return SN_OK;
}

int64_t ref_dim(const ref_ctx *c, sn_dim d) {
  int64_t v = 0;
  return dim_eval(c->graph, d, c->bindings, &v) ? v : 0;
}

sn_status ref_fail(const ref_ctx *c, sn_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)!diag_failv(c->ctx, status, format, args);
  va_end(args);
  return diag_within(c->ctx, status, "%s", c->op->name);
}

axis_view ref_axis(const ref_tensor *t, int64_t axis) {
  int a = resolve_axis(axis, t->rank);
  axis_view v = {1, t->rank ? t->dim[a] : 1, 1};
  for (int d = 0; d < t->rank; d++) {
    if (d < a)
      v.outer *= t->dim[d];
    else if (d > a)
      v.inner *= t->dim[d];
  }
  return v;
}

void ref_strides(const ref_tensor *t, int64_t *strides) {
  int64_t s = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    strides[d] = s;
    s *= t->dim[d];
  }
}

int64_t ref_broadcast_offset(const ref_tensor *t, const int64_t *index, int rank) {
  int64_t offset = 0;
  for (int d = 0; d < t->rank; d++) {
    int64_t i = t->dim[d] == 1 ? 0 : index[rank - t->rank + d];
    offset = offset * t->dim[d] + i;
  }
  return offset;
}

sn_value build_sum_to(build_ctx *c, sn_value grad, sn_shape shape) {
  sn_shape from = build_shape(c, grad);
  if (shape_equal(from, shape))
    return grad;
  sn_ints axes = {0};
  int extra = from.rank - shape.rank;
  for (int d = 0; d < from.rank; d++)
    if (d < extra || shape.dim[d - extra] != from.dim[d])
      axes.v[axes.n++] = d;
  if (axes.n > 0)
    grad = sn_sum(c->graph, grad, axes, true);
  return sn_reshape(c->graph, grad, shape);
}

void build_din(build_ctx *c, int i, sn_value grad) {
  if (c->need[i] && build_has(c, i))
    c->din[i] = build_sum_to(c, grad, build_shape(c, c->in[i]));
}

sn_value build_keepdims(build_ctx *c, sn_value reduced, sn_shape shape, sn_ints axes,
                        bool keepdims) {
  if (keepdims)
    return reduced;
  sn_shape kept = shape;
  for (int d = 0; d < shape.rank; d++)
    if (axes.n == 0)
      kept.dim[d] = 1;
  for (int i = 0; i < axes.n; i++)
    kept.dim[resolve_axis(axes.v[i], shape.rank)] = 1;
  return sn_reshape(c->graph, reduced, kept);
}

sn_value build_full_like(build_ctx *c, sn_value v, double value) {
  sn_type t = sn_value_type(c->graph, v);
  return sn_full(c->graph, t.dtype, t.shape, value);
}

sn_value build_narrow(build_ctx *c, sn_value v, sn_dtype dtype) {
  return build_dtype(c, v) == dtype ? v : sn_cast(c->graph, v, dtype);
}

sn_value build_wide(build_ctx *c, sn_value v) { return build_narrow(c, v, SN_F32); }

sn_value build_count(build_ctx *c, sn_dim n) {
  if (dim_is_number(n))
    return sn_scalar(c->graph, SN_F32, (double)n);
  return sn_sum(c->graph, sn_full(c->graph, SN_F32, SN_SHAPE(n), 1), SN_ALL_AXES, false);
}

sn_value build_over_count(build_ctx *c, sn_value x, sn_dim n) {
  if (dim_is_number(n))
    return build_scale(c, x, 1 / (double)n);
  sn_value quotient = sn_div(c->graph, build_wide(c, x), build_count(c, n));
  return build_narrow(c, quotient, build_dtype(c, x));
}

/* --- element --- */

reg element_scaled(elem_ctx *c, reg x, double mul, double add) {
  sn_dtype inside = dtype_is_float(c->out[0].dtype) ? SN_F32 : SN_I32; /* u8 wraps at the end */
  reg factor = elem_number_as(c, inside, mul), shift = elem_number_as(c, inside, add);
  if (add == 0)
    return elem_alu2(c, ALU_mul, x, factor);
  if (mul == 1)
    return elem_alu2(c, ALU_add, x, shift);
  return elem_alu2(c, ALU_add, elem_alu_as(c, ALU_mul, inside, x, factor, 0, 0, 0), shift);
}
