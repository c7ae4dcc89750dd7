/* See pointwise.h. */
#include "ops/pointwise/pointwise.h"

sn_status infer_binary_number(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  c->out[0].dtype = c->in[0].dtype;
  return infer_broadcast(c, c->in[0].shape, c->in[1].shape, &c->out[0].shape);
}

sn_status infer_unary_float(infer_ctx *c) {
  SN_TRY(infer_float(c, 0));
  c->out[0] = c->in[0];
  return SN_OK;
}

sn_status infer_unary_number(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  c->out[0] = c->in[0];
  return SN_OK;
}

sn_status infer_binary_float(infer_ctx *c) {
  SN_TRY(infer_float(c, 0));
  return infer_binary_number(c);
}

static double wrap_u8(double x) { return (double)((uint32_t)(int32_t)x & 0xff); }

sn_status ref_unary(ref_ctx *c, double (*f)(double)) {
  for (int64_t k = 0; k < c->out[0].count; k++)
    c->out[0].data[k] = f(c->in[0].data[k]);
  return SN_OK;
}

sn_status ref_unary_number(ref_ctx *c, double (*f)(double), double (*i)(double)) {
  SN_TRY(ref_unary(c, dtype_is_int(c->in[0].dtype) && i ? i : f));
  for (int64_t k = 0; c->out[0].dtype == SN_U8 && k < c->out[0].count; k++)
    c->out[0].data[k] = wrap_u8(c->out[0].data[k]);
  return SN_OK;
}

/* Strides of t along the axes of a result of this rank; 0 where it is broadcast. */
static void broadcast_strides(const ref_tensor *t, int rank, int64_t *strides) {
  int64_t s = 1;
  for (int d = rank - 1; d >= 0; d--) {
    int at = d - (rank - t->rank);
    int64_t n = at >= 0 ? t->dim[at] : 1;
    strides[d] = n == 1 ? 0 : s;
    s *= n;
  }
}

sn_status ref_binary(ref_ctx *c, double (*f)(double, double), double (*i)(double, double)) {
  const ref_tensor *a = &c->in[0], *b = &c->in[1];
  ref_tensor *y = &c->out[0];
  int64_t sa[SN_MAX_RANK] = {0}, sb[SN_MAX_RANK] = {0}, index[SN_MAX_RANK] = {0};
  int outer = y->rank ? y->rank - 1 : 0; /* the last axis is the inner loop */
  int64_t row = y->rank ? y->dim[outer] : 1;
  broadcast_strides(a, y->rank, sa);
  broadcast_strides(b, y->rank, sb);
  if (dtype_is_int(a->dtype) && i)
    f = i;
  for (int64_t k = 0; k < y->count; k += row) {
    const double *p = a->data, *q = b->data;
    for (int d = 0; d < outer; d++) {
      p += index[d] * sa[d];
      q += index[d] * sb[d];
    }
    for (int64_t j = 0; j < row; j++)
      y->data[k + j] = f(p[j * sa[outer]], q[j * sb[outer]]);
    ref_next(index, y->dim, outer);
  }
  for (int64_t k = 0; y->dtype == SN_U8 && k < y->count; k++)
    y->data[k] = wrap_u8(y->data[k]);
  return SN_OK;
}

reg element_unary(elem_ctx *c, const place *at, alu code) {
  return elem_alu1(c, code, elem_input(c, 0, at));
}

reg element_binary(elem_ctx *c, const place *at, alu code) {
  reg a = elem_broadcast(c, 0, at);
  return elem_alu2(c, code, a, elem_broadcast(c, 1, at));
}

void grad_zero(build_ctx *c) { (void)c; }

void build_din_scaled(build_ctx *c, int i, sn_value factor) {
  build_din(c, i, sn_mul(c->graph, c->dout[0], factor));
}

sn_value build_scalar_like(build_ctx *c, sn_value v, double value) {
  return sn_scalar(c->graph, build_dtype(c, v), value);
}

sn_value build_where_or_zero(build_ctx *c, sn_value cond, sn_value value) {
  return sn_where(c->graph, cond, value, build_scalar_like(c, value, 0));
}
