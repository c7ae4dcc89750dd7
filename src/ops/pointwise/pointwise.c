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

sn_status ref_unary(ref_ctx *c, double (*f)(double)) {
  for (int64_t k = 0; k < c->out[0].count; k++)
    c->out[0].data[k] = f(c->in[0].data[k]);
  return SN_OK;
}

sn_status ref_binary(ref_ctx *c, double (*f)(double, double), double (*i)(double, double)) {
  const ref_tensor *a = &c->in[0], *b = &c->in[1];
  ref_tensor *y = &c->out[0];
  if (dtype_is_int(a->dtype) && i)
    f = i;
  bool aligned = a->count == y->count && b->count == y->count;
  int64_t index[SN_MAX_RANK] = {0};
  for (int64_t k = 0; k < y->count; k++) {
    double p = a->data[aligned ? k : ref_broadcast_offset(a, index, y->rank)];
    double q = b->data[aligned ? k : ref_broadcast_offset(b, index, y->rank)];
    y->data[k] = f(p, q);
    if (y->dtype == SN_U8)
      y->data[k] = (double)((uint32_t)(int32_t)y->data[k] & 0xff);
    if (!aligned)
      ref_next(index, y->dim, y->rank);
  }
  return SN_OK;
}
