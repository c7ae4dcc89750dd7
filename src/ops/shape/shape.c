/* See shape.h. */
#include "ops/shape/shape.h"

sn_status infer_sizes(infer_ctx *c, const sn_shape *s) {
  for (int d = 0; d < s->rank; d++)
    if (dim_is_number(s->dim[d]) && s->dim[d] < 0)
      return infer_fail(c, "dim %d of %s is negative", d, graph_shape_text(c->graph, *s));
  return SN_OK;
}

sn_status infer_holds(infer_ctx *c, sn_dtype dtype, double value) {
  if (dtype_is_float(dtype) || dtype_round(dtype, value) == value)
    return SN_OK;
  return infer_fail(c, "%g is not a value of %s", value, sn_dtype_name(dtype));
}

sn_status infer_agree(infer_ctx *c, int i, int j, int axis) {
  const sn_shape *a = &c->in[i].shape, *b = &c->in[j].shape;
  bool agree = a->rank == b->rank;
  for (int d = 0; agree && d < a->rank; d++)
    agree = d == axis || a->dim[d] == b->dim[d];
  if (agree)
    return SN_OK;
  return infer_fail(c, "sizes must agree but for axis %d: %s and %s", axis, infer_text(c, i),
                    infer_text(c, j));
}

sn_status infer_rows(infer_ctx *c, sn_shape table, sn_shape index, sn_shape *out) {
  *out = index;
  if (table.rank < 1)
    return infer_fail(c, "needs rows to index: rank 1 or more, got %s", infer_text(c, 0));
  if (index.rank + table.rank - 1 > SN_MAX_RANK)
    return infer_fail(c, "its result would have more than %d axes: rows of %s at %s", SN_MAX_RANK,
                      infer_text(c, 0), infer_text(c, 1));
  for (int d = 1; d < table.rank; d++)
    out->dim[out->rank++] = table.dim[d];
  return SN_OK;
}

sn_status ref_index(const ref_ctx *c, int input, int64_t k, int64_t n, int64_t *out) {
  double at = c->in[input].data[k];
  *out = 0;
  if (!(at >= 0 && at < (double)n))
    return ref_fail(c, SN_ERR_INVALID, "index %.0f at position %lld is outside of 0 … %lld", at,
                    (long long)k, (long long)n - 1);
  *out = (int64_t)at;
  return SN_OK;
}

double ref_sum_of(sn_dtype dtype, double a, double b) {
  if (!dtype_is_int(dtype))
    return a + b;
  int64_t sum = (int64_t)a + (int64_t)b;
  return dtype == SN_U8 ? (double)(sum & 0xff) : wrap_i32(sum);
}

static sn_value zeros(build_ctx *c, sn_value like, int axis, sn_dim size) {
  sn_type t = sn_value_type(c->graph, like);
  t.shape.dim[axis] = size;
  return sn_full(c->graph, t.dtype, t.shape, 0);
}

sn_value build_zeros_around(build_ctx *c, sn_value x, int axis, sn_dim before, sn_dim after) {
  if (before == 0 && after == 0)
    return x;
  if (dim_is_number(before) && dim_is_number(after)) {
    int rank = build_shape(c, x).rank;
    sn_ints b = {.n = rank}, a = {.n = rank};
    b.v[axis] = before;
    a.v[axis] = after;
    return sn_pad(c->graph, x, b, a, SN_PAD_CONSTANT, 0);
  }
  sn_value parts[3];
  int n = 0;
  if (before != 0)
    parts[n++] = zeros(c, x, axis, before);
  parts[n++] = x;
  if (after != 0)
    parts[n++] = zeros(c, x, axis, after);
  return sn_concat(c->graph, parts, n, axis);
}

sn_value build_along(build_ctx *c, sn_value list, int axis, sn_shape shape) {
  sn_shape thin = {.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++)
    thin.dim[d] = d == axis ? shape.dim[axis] : 1;
  return sn_expand(c->graph, sn_reshape(c->graph, list, thin), shape);
}

sn_value build_positions(build_ctx *c, int axis, sn_shape shape) {
  return build_along(c, sn_arange(c->graph, SN_I32, shape.dim[axis], 0, 1), axis, shape);
}
