/* prod over axes; 1 over nothing. Integers wrap. */
#include "ops/reduce/reduce.h"

static sn_status infer_prod(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  return infer_reduced(c, &ATTRS(prod)->axes, ATTRS(prod)->keepdims, c->in[0].dtype);
}

static sn_status ref_prod(ref_ctx *c) {
  ref_fold(c, &ATTRS(prod)->axes, &fold_multiply);
  return SN_OK;
}

/* Along one axis: the product of all other elements, without a division, so that zeros are no
 * matter. */
static sn_value others(build_ctx *c, sn_value x, int64_t axis) {
  return sn_mul(c->graph, sn_cumprod(c->graph, x, axis, true, false),
                sn_cumprod(c->graph, x, axis, true, true));
}

/* The product over several axes is taken as products over one after the other. */
static void grad_prod(build_ctx *c) {
  const attrs_prod *a = ATTRS(prod);
  sn_shape shape = build_shape(c, c->in[0]);
  sn_ints axes = a->axes;
  sn_value part[SN_MAX_RANK + 1] = {c->in[0]};
  for (int d = 0; a->axes.n == 0 && d < shape.rank; d++)
    axes.v[axes.n++] = d;
  for (int i = 0; i + 1 < axes.n; i++)
    part[i + 1] = sn_prod(c->graph, part[i], SN_INTS(axes.v[i]), true);
  sn_value d = build_keepdims(c, c->dout[0], shape, a->axes, a->keepdims);
  for (int i = axes.n - 1; i >= 0; i--)
    d = sn_mul(c->graph, d, others(c, part[i], axes.v[i]));
  build_din(c, 0, d);
}

static uint16_t element_prod(elem_ctx *c, const place *at) {
  return elem_fold(c, at, &ATTRS(prod)->axes, ATTRS(prod)->keepdims, REDUCE_PROD);
}

static const op_case cases[] = {
    {"prod(f32[2, 3])", NULL},
    {"prod(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"prod(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"prod(f32[2, 1, 7]) axes=[1]", NULL},
    {"prod(f32[])", NULL},
    {"prod(f16[5])", NULL},
    {"prod(f32[2, 3]{1, 2, 3, 4, -5, 6}) axes=[1] => f32[2]{6, -120}", NULL},
    {"prod(f32[2, 3]{1, 2, 3, 4, -5, 6}) axes=[0] keepdims=true => f32[1, 3]{4, -10, 18}", NULL},
    {"prod(f32[4]{2, 0, 3, 5}) => f32[]{0}", NULL},
    {"prod(f32[2, 3]{2, 0, 3, 0, 4, 0}) axes=[1] => f32[2]{0, 0}", NULL},
    {"prod(f32[2, 3]{2, 0, 3, 0.5, 4, 0.25}) => f32[]{0}", NULL},
    {"prod(f32[2, 2]{0, inf, nan, 2}) axes=[1] => f32[2]{nan, nan}", NULL},
    {"prod(f32[0, 3]) axes=[0] => f32[3]{1}", NULL},
    {"prod(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"prod(i32[3]{65536, 65537, 3}) => i32[]{196608}", NULL},
    {"prod(i32[5]{2147483647, 2147483647, 2147483647, 2147483647, 7}) => i32[]{7}", NULL},
    {"prod(u8[3]{16, 17, 2}) => u8[]{32}", NULL},
    {"prod(f32[2, 3]) axes=[2]", "outside of rank"},
    {"prod(f32[2, 3]) axes=[1, -1]", "listed twice"},
    {"prod(bool[2])", "must be a number"},
};

const op_impl op_impl_prod = {
    .infer = infer_prod, .ref = ref_prod, .grad = grad_prod, .element = element_prod, CASES(cases)};
