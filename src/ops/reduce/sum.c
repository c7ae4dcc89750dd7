/* sum over axes; 0 over nothing. Integers wrap. */
#include "ops/reduce/reduce.h"

static sn_status infer_sum(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  return infer_reduced(c, &ATTRS(sum)->axes, ATTRS(sum)->keepdims, c->in[0].dtype);
}

static sn_status ref_sum(ref_ctx *c) {
  ref_fold(c, &ATTRS(sum)->axes, &fold_add);
  return SN_OK;
}

/* The gradient is the same for each summand. */
static void grad_sum(build_ctx *c) {
  const attrs_sum *a = ATTRS(sum);
  sn_shape shape = build_shape(c, c->in[0]);
  sn_value kept = build_keepdims(c, c->dout[0], shape, a->axes, a->keepdims);
  build_din(c, 0, sn_expand(c->graph, kept, shape));
}

static uint16_t element_sum(elem_ctx *c, const place *at) {
  return elem_fold(c, at, &ATTRS(sum)->axes, ATTRS(sum)->keepdims, REDUCE_SUM);
}

static const op_case cases[] = {
    {"sum(f32[2, 3])", NULL},
    {"sum(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"sum(f32[2, 3, 5]) axes=[-1, 0] keepdims=false", NULL},
    {"sum(f32[2, 3]{1, 2, 3, 10, 20, 30}) axes=[0] => f32[3]{11, 22, 33}", NULL},
    {"sum(f32[2, 3]{1, 2, 3, 10, 20, 30}) axes=[1] keepdims=true => f32[2, 1]{6, 60}", NULL},
    {"sum(f32[0, 3]) axes=[0] => f32[3]{0}", NULL},
    {"sum(f32[3, 0]) axes=[0] => f32[0]{}", NULL},
    {"sum(f32[]{7}) => f32[]{7}", NULL},
    {"sum(f32[3]{1, nan, 2}) => f32[]{nan}", NULL},
    {"sum(f32[2]{inf, 1}) => f32[]{inf}", NULL},
    {"sum(f16[7])", NULL},
    {"sum(i32[3]{2147483647, 1, 5}) => i32[]{-2147483643}", NULL},
    {"sum(u8[2]{250, 10}) => u8[]{4}", NULL},
    {"sum(f32[2, 3]) axes=[2]", "outside of rank"},
    {"sum(f32[2, 3]) axes=[1, -1]", "listed twice"},
    {"sum(bool[2])", "must be a number"},
};

const op_impl op_impl_sum = {
    .infer = infer_sum, .ref = ref_sum, .grad = grad_sum, .element = element_sum, CASES(cases)};
