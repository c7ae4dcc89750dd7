/* log_softmax along an axis: x - logsumexp(x). A slice that is all -inf gives NaN, as the
 * definition does. */
#include "ops/loss/loss.h"

static sn_status infer_log_softmax(infer_ctx *c) {
  int axis;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_axis(c, ATTRS(log_softmax)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_log_softmax(ref_ctx *c) {
  axis_view v = ref_axis(&c->in[0], ATTRS(log_softmax)->axis);
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    int64_t start = row / v.inner * v.n * v.inner + row % v.inner;
    double whole = logsumexp_slice(c->in[0].data + start, v.n, v.inner);
    for (int64_t at = start, k = 0; k < v.n; k++, at += v.inner)
      c->out[0].data[at] = c->in[0].data[at] - whole;
  }
  return SN_OK;
}

/* dx = dy - exp(y) * sum(dy) */
static void grad_log_softmax(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value y = build_wide(c, c->out[0]), dy = build_wide(c, c->dout[0]);
  sn_value total = sn_sum(g, dy, SN_INTS(ATTRS(log_softmax)->axis), true);
  sn_value dx = sn_sub(g, dy, sn_mul(g, sn_exp(g, y), total));
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, c->in[0])));
}

static void decompose_log_softmax(build_ctx *c) {
  sn_value x = build_wide(c, c->in[0]);
  sn_value whole = sn_logsumexp(c->graph, x, SN_INTS(ATTRS(log_softmax)->axis), true);
  c->out[0] = build_narrow(c, sn_sub(c->graph, x, whole), build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"log_softmax(f32[2, 5]) axis=-1", NULL},
    {"log_softmax(f32[3, 5]) axis=0", NULL},
    {"log_softmax(f32[2, 3, 7]) axis=1", NULL},
    {"log_softmax(f32[0, 3]) axis=1", NULL},
    {"log_softmax(f32[3, 0]) axis=1", NULL},
    {"log_softmax(f32[3, 1]) axis=1 => f32[3, 1]{0}", NULL},
    {"log_softmax(bf16[5]) axis=0", NULL},
    {"log_softmax(f16[5]) axis=0", NULL},
    {"log_softmax(f32[2]{0, 0}) axis=0 => f32[2]{-0.693147180559945, -0.693147180559945}", NULL},
    {"log_softmax(f32[2, 2]{0, 5, 0, 1005}) axis=0 "
     "=> f32[2, 2]{-0.693147180559945, -1000, -0.693147180559945, 0}",
     NULL},
    {"log_softmax(f32[3]{1000, -1000, -inf}) axis=0 => f32[3]{0, -2000, -inf}", NULL},
    {"log_softmax(f32[2, 2]{-inf, -inf, nan, 1}) axis=1 => f32[2, 2]{nan}", NULL},
    {"log_softmax(f32[2, 3]) axis=2", "outside of rank"},
    {"log_softmax(f32[]) axis=0", "outside of rank"},
    {"log_softmax(i32[2]) axis=0", "must be f32"},
};

const op_impl op_impl_log_softmax = {.infer = infer_log_softmax,
                                     .ref = ref_log_softmax,
                                     .grad = grad_log_softmax,
                                     .decompose = decompose_log_softmax,
                                     CASES(cases)};
