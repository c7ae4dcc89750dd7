/* sum over axes. */
#include "ops/reduce/reduce.h"

static double add(double acc, double x) { return acc + x; }

static sn_status infer_sum(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  return infer_reduced(c, &ATTRS(sum)->axes, ATTRS(sum)->keepdims, c->in[0].dtype);
}

static sn_status ref_sum(ref_ctx *c) {
  ref_fold(c, &ATTRS(sum)->axes, 0, add);
  ref_tensor *y = &c->out[0];
  for (int64_t i = 0; dtype_is_int(y->dtype) && i < y->count; i++)
    y->data[i] = wrap_i32((int64_t)y->data[i]);
  return SN_OK;
}

/* The gradient is the same for each summand. */
static void grad_sum(build_ctx *c) {
  const attrs_sum *a = ATTRS(sum);
  sn_shape shape = build_shape(c, c->in[0]);
  sn_value kept = build_keepdims(c, c->dout[0], shape, a->axes, a->keepdims);
  build_din(c, 0, sn_expand(c->graph, kept, shape));
}

static const op_case cases[] = {
    {"sum(f32[2, 3])", NULL},
    {"sum(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"sum(f32[2, 3, 5]) axes=[-1, 0] keepdims=false", NULL},
    {"sum(f32[0, 3]) axes=[0]", NULL},
    {"sum(f32[3, 0]) axes=[0]", NULL},
    {"sum(f32[])", NULL},
    {"sum(f16[7])", NULL},
    {"sum(i32[3]{2147483647, 1, 5})", NULL},
    {"sum(f32[2, 3]) axes=[2]", "outside of rank"},
    {"sum(f32[2, 3]) axes=[1, -1]", "listed twice"},
    {"sum(bool[2])", "must be a number"},
};

const op_impl op_impl_sum = {.infer = infer_sum, .ref = ref_sum, .grad = grad_sum, CASES(cases)};
