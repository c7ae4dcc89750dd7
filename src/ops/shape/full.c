/* full: one number everywhere. */
#include "ops/common.h"

static sn_status infer_full(infer_ctx *c) {
  const attrs_full *a = ATTRS(full);
  c->out[0] = (sn_type){a->dtype, a->shape};
  for (int d = 0; d < a->shape.rank; d++)
    if (dim_is_number(a->shape.dim[d]) && a->shape.dim[d] < 0)
      return infer_fail(c, "dim %d of %s is negative", d, graph_shape_text(c->graph, a->shape));
  if (dtype_round(a->dtype, a->value) != a->value && !dtype_is_float(a->dtype))
    return infer_fail(c, "%g is not a value of %s", a->value, sn_dtype_name(a->dtype));
  return SN_OK;
}

static sn_status ref_full(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = ATTRS(full)->value;
  return SN_OK;
}

static const op_case cases[] = {
    {"full() dtype=f32 shape=[2, 3] value=1.5", NULL},
    {"full() dtype=i32 shape=[1] value=-7 => i32[1]{-7}", NULL},
    {"full() dtype=bool shape=[] value=1", NULL},
    {"full() dtype=f16 shape=[0, 5] value=inf", NULL},
    {"full() dtype=f32 shape=[2, -3] value=0", "negative"},
    {"full() dtype=i32 shape=[2] value=0.5", "is not a value of i32"},
};

const op_impl op_impl_full = {
    .infer = infer_full, .ref = ref_full, .no_grad = "it has no arguments", CASES(cases)};
