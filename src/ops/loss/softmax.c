/* softmax along an axis. A slice that is all -inf gives NaN, as the definition does. */
#include "ops/reduce/reduce.h"

static sn_status infer_softmax(infer_ctx *c) {
  int axis;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_axis(c, ATTRS(softmax)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  return SN_OK;
}

static void softmax_slice(const double *x, double *y, int64_t n, int64_t stride) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++)
    max = fmax(max, x[i * stride]);
  for (int64_t i = 0; i < n; i++)
    sum += y[i * stride] = exp(x[i * stride] - max);
  for (int64_t i = 0; i < n; i++)
    y[i * stride] /= sum;
}

static sn_status ref_softmax(ref_ctx *c) {
  axis_view v = ref_axis(&c->in[0], ATTRS(softmax)->axis);
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t i = 0; i < v.inner; i++) {
      int64_t at = o * v.n * v.inner + i;
      softmax_slice(c->in[0].data + at, c->out[0].data + at, v.n, v.inner);
    }
  return SN_OK;
}

/* dx = y * (dy - sum(dy * y)) */
static void grad_softmax(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value y = build_wide(c, c->out[0]), dy = build_wide(c, c->dout[0]);
  sn_value dot = sn_sum(g, sn_mul(g, dy, y), SN_INTS(ATTRS(softmax)->axis), true);
  sn_value dx = sn_mul(g, y, sn_sub(g, dy, dot));
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, c->in[0])));
}

static void decompose_softmax(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_ints axis = SN_INTS(ATTRS(softmax)->axis);
  sn_value x = build_wide(c, c->in[0]);
  sn_value e = sn_exp(g, sn_sub(g, x, build_max_or_lowest(c, x, axis)));
  sn_value y = sn_div(g, e, sn_sum(g, e, axis, true));
  c->out[0] = build_narrow(c, y, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"softmax(f32[2, 5]) axis=-1", NULL},
    {"softmax(f32[3, 5]) axis=0", NULL},
    {"softmax(f32[2, 3, 7]) axis=1", NULL},
    {"softmax(f32[0, 3]) axis=1", NULL},
    {"softmax(f32[3, 0]) axis=1", NULL},
    {"softmax(f32[1]) axis=0 => f32[1]{1}", NULL},
    {"softmax(f32[2, 2]{0, 0, 0, 1.09861228866811}) axis=-1 => f32[2, 2]{0.5, 0.5, 0.25, 0.75}",
     NULL},
    {"softmax(f32[3]{1000, -1000, 999}) axis=0 => f32[3]{0.731058578630005, 0, 0.268941421369995}",
     NULL},
    {"softmax(f32[3]{-inf, 2, 2}) axis=0 => f32[3]{0, 0.5, 0.5}", NULL},
    {"softmax(f32[2, 2]{-inf, -inf, nan, 1}) axis=1 => f32[2, 2]{nan}", NULL},
    {"softmax(bf16[5]) axis=0", NULL},
    {"softmax(f32[2, 3]) axis=2", "outside of rank"},
    {"softmax(i32[2]) axis=0", "must be f32"},
};

const op_impl op_impl_softmax = {.infer = infer_softmax,
                                 .ref = ref_softmax,
                                 .grad = grad_softmax,
                                 .decompose = decompose_softmax,
                                 CASES(cases)};
