/* max and min over axes. NaN wins. Elements that tie share the gradient evenly: each gets dy over
 * their number. Over nothing there is no value: an error, when building where sizes are known, else
 * at run. */
#include "ops/reduce/reduce.h"

static sn_status infer_extreme(infer_ctx *c, const sn_ints *axes, bool keepdims) {
  SN_TRY(infer_number(c, 0));
  return infer_reduced_nonempty(c, axes, keepdims, c->in[0].dtype);
}

/* dx = dy / ties where x == y, else 0. A slice with NaN equals nothing and passes nothing, as with
 * maximum and minimum. */
static void grad_extreme(build_ctx *c, sn_ints axes, bool keepdims) {
  sn_graph *g = c->graph;
  sn_value x = c->in[0];
  sn_shape shape = build_shape(c, x);
  sn_dtype dtype = build_dtype(c, x);
  sn_value y = build_keepdims(c, c->out[0], shape, axes, keepdims);
  sn_value dy = build_keepdims(c, c->dout[0], shape, axes, keepdims);
  sn_value tied = sn_eq(g, x, y);
  sn_value ties = sn_sum(g, sn_cast(g, tied, SN_F32), axes, true);
  sn_value share = build_narrow(c, sn_div(g, build_wide(c, dy), ties), dtype);
  build_din(c, 0, sn_where(g, tied, share, sn_scalar(g, dtype, 0)));
}

/* --- max --- */
static sn_status infer_max(infer_ctx *c) {
  return infer_extreme(c, &ATTRS(max)->axes, ATTRS(max)->keepdims);
}

static sn_status ref_max(ref_ctx *c) {
  SN_TRY(ref_nonempty(c, &ATTRS(max)->axes));
  ref_fold(c, &ATTRS(max)->axes, &fold_larger);
  return SN_OK;
}

static void grad_max(build_ctx *c) { grad_extreme(c, ATTRS(max)->axes, ATTRS(max)->keepdims); }

static uint16_t element_max(elem_ctx *c, const place *at) {
  elem_require_nonempty(c, &ATTRS(max)->axes);
  return elem_fold(c, at, &ATTRS(max)->axes, ATTRS(max)->keepdims, REDUCE_MAX);
}

static const op_case max_cases[] = {
    {"max(f32[2, 3])", NULL},
    {"max(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"max(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"max(f32[2, 1, 7]) axes=[1]", NULL},
    {"max(f32[])", NULL},
    {"max(bf16[7])", NULL},
    {"max(f16[3, 2]) axes=[-2] keepdims=true", NULL},
    {"max(f32[2, 3]{1, 5, -2, -7, -9, -8}) axes=[1] => f32[2]{5, -7}", NULL},
    {"max(f32[2, 3]{1, 5, -2, -7, -9, -1}) axes=[0] keepdims=true => f32[1, 3]{1, 5, -1}", NULL},
    {"max(f32[2, 3]{nan, 1, inf, 2, nan, 3}) axes=[1] => f32[2]{nan, nan}", NULL},
    {"max(f32[2]{-inf, -inf}) => f32[]{-inf}", NULL},
    {"max(f32[4]{3, 1, 3, 2}) => f32[]{3} @kink", NULL},
    {"max(i32[3]{-2147483648, -5, -7}) => i32[]{-5}", NULL},
    {"max(u8[2]{0, 255}) => u8[]{255}", NULL},
    {"max(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"max(f32[0, 0]) axes=[1] keepdims=true => f32[0, 1]{}", NULL},
    {"max(f32[0, 3]) axes=[0]", "no value over nothing"},
    {"max(f32[0])", "no value over nothing"},
    {"max(f32[2, 3]) axes=[-3]", "outside of rank"},
    {"max(f32[2, 3]) axes=[0, -2]", "listed twice"},
    {"max(bool[2])", "must be a number"},
};

const op_impl op_impl_max = {
    .infer = infer_max, .ref = ref_max, .grad = grad_max, .element = element_max, CASES(max_cases)};

/* --- min --- */
static sn_status infer_min(infer_ctx *c) {
  return infer_extreme(c, &ATTRS(min)->axes, ATTRS(min)->keepdims);
}

static sn_status ref_min(ref_ctx *c) {
  SN_TRY(ref_nonempty(c, &ATTRS(min)->axes));
  ref_fold(c, &ATTRS(min)->axes, &fold_smaller);
  return SN_OK;
}

static void grad_min(build_ctx *c) { grad_extreme(c, ATTRS(min)->axes, ATTRS(min)->keepdims); }

static uint16_t element_min(elem_ctx *c, const place *at) {
  elem_require_nonempty(c, &ATTRS(min)->axes);
  return elem_fold(c, at, &ATTRS(min)->axes, ATTRS(min)->keepdims, REDUCE_MIN);
}

static const op_case min_cases[] = {
    {"min(f32[2, 3])", NULL},
    {"min(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"min(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"min(f32[2, 1, 7]) axes=[1]", NULL},
    {"min(f32[])", NULL},
    {"min(bf16[7])", NULL},
    {"min(f32[2, 3]{1, 5, -2, 7, 9, 8}) axes=[1] => f32[2]{-2, 7}", NULL},
    {"min(f32[2, 3]{1, 5, -2, -7, 9, -1}) axes=[0] keepdims=true => f32[1, 3]{-7, 5, -2}", NULL},
    {"min(f32[2, 3]{nan, 1, -inf, 2, nan, 3}) axes=[1] => f32[2]{nan, nan}", NULL},
    {"min(f32[2]{inf, inf}) => f32[]{inf}", NULL},
    {"min(f32[4]{3, 1, 3, 1}) => f32[]{1} @kink", NULL},
    {"min(i32[3]{2147483647, 5, 7}) => i32[]{5}", NULL},
    {"min(u8[2]{255, 254}) => u8[]{254}", NULL},
    {"min(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"min(f32[0, 3]) axes=[0]", "no value over nothing"},
    {"min(f32[2, 3]) axes=[2]", "outside of rank"},
    {"min(bool[2])", "must be a number"},
};

const op_impl op_impl_min = {
    .infer = infer_min, .ref = ref_min, .grad = grad_min, .element = element_min, CASES(min_cases)};
