/* l2_norm over axes: the root of the sum of squares; 0 over nothing. Its gradient at 0 is 0. */
#include "ops/reduce/reduce.h"

static sn_status infer_l2_norm(infer_ctx *c) {
  SN_TRY(infer_float(c, 0));
  return infer_reduced(c, &ATTRS(l2_norm)->axes, ATTRS(l2_norm)->keepdims, c->in[0].dtype);
}

static double add_square(double acc, double x) { return acc + x * x; }
static const fold squares = {0, add_square, NULL};

static sn_status ref_l2_norm(ref_ctx *c) {
  ref_fold(c, &ATTRS(l2_norm)->axes, &squares);
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = sqrt(c->out[0].data[i]);
  return SN_OK;
}

/* dx = x * dy / y; where y is 0, so is all of x, and 1 stands for y. */
static void grad_l2_norm(build_ctx *c) {
  const attrs_l2_norm *a = ATTRS(l2_norm);
  sn_graph *g = c->graph;
  sn_value x = c->in[0], y = build_wide(c, c->out[0]);
  sn_shape shape = build_shape(c, x);
  sn_value zero = sn_scalar(g, SN_F32, 0), one = sn_scalar(g, SN_F32, 1);
  sn_value safe = sn_where(g, sn_eq(g, y, zero), one, y);
  sn_value share = sn_div(g, build_wide(c, c->dout[0]), safe);
  sn_value kept = build_keepdims(c, share, shape, a->axes, a->keepdims);
  sn_value dx = sn_mul(g, build_wide(c, x), kept);
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, x)));
}

/* Over the largest |x| first, where that is a number above 0, so that no square overflows or vanishes. */
static void decompose_l2_norm(build_ctx *c) {
  const attrs_l2_norm *a = ATTRS(l2_norm);
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[0]), zero = sn_scalar(g, SN_F32, 0);
  sn_value m = build_max_or_lowest(c, sn_abs(g, x), a->axes);
  sn_value none = sn_logical_or(g, sn_eq(g, m, zero), sn_isinf(g, m));
  m = sn_where(g, none, sn_scalar(g, SN_F32, 1), m);
  sn_value sum = sn_sum(g, sn_sqr(g, sn_div(g, x, m)), a->axes, true);
  sn_value y = build_dropdims(c, sn_mul(g, m, sn_sqrt(g, sum)), a->axes, a->keepdims);
  c->out[0] = build_narrow(c, y, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"l2_norm(f32[2, 3])", NULL},
    {"l2_norm(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"l2_norm(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"l2_norm(f32[1, 7]) axes=[1]", NULL},
    {"l2_norm(f32[])", NULL},
    {"l2_norm(f16[7])", NULL},
    {"l2_norm(f32[2, 2]{3, -4, 5, 12}) axes=[1] => f32[2]{5, 13}", NULL},
    {"l2_norm(f32[2, 2]{3, 5, -4, 12}) axes=[0] keepdims=true => f32[1, 2]{5, 13}", NULL},
    {"l2_norm(f32[2]{3e30, 4e30}) => f32[]{5e30} @kink", NULL},
    {"l2_norm(f16[4]{300, 300, 300, 300}) => f16[]{600}", NULL},
    {"l2_norm(f32[3]{0}) => f32[]{0} @kink", NULL},
    {"l2_norm(f32[2, 2]{nan, 1, -inf, 1}) axes=[1] => f32[2]{nan, inf}", NULL},
    {"l2_norm(f32[0, 3]) axes=[0] => f32[3]{0}", NULL},
    {"l2_norm(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"l2_norm(f32[2, 3]) axes=[-3]", "outside of rank"},
    {"l2_norm(i32[3])", "must be f32"},
};

const op_impl op_impl_l2_norm = {.infer = infer_l2_norm,
                                 .ref = ref_l2_norm,
                                 .grad = grad_l2_norm,
                                 .decompose = decompose_l2_norm,
                                 CASES(cases)};
