/* logsumexp over axes: m + log(sum(exp(x - m))) with m the largest, so that nothing overflows.
 * -inf over nothing and over nothing but -inf (gradient 0 there); +inf where there is a +inf; NaN
 * wins. */
#include "ops/reduce/reduce.h"

static sn_status infer_logsumexp(infer_ctx *c) {
  SN_TRY(infer_float(c, 0));
  return infer_reduced(c, &ATTRS(logsumexp)->axes, ATTRS(logsumexp)->keepdims, c->in[0].dtype);
}

static sn_status ref_logsumexp(ref_ctx *c) {
  const sn_ints *axes = &ATTRS(logsumexp)->axes;
  ref_tensor *y = &c->out[0];
  double *sum = arena_array(c->scratch, (size_t)y->count, sizeof *sum);
  if (!sum)
    return SN_ERR_NO_MEMORY;
  ref_fold(c, axes, &fold_larger);
  reduce_walk w;
  reduce_walk_start(&w, &c->in[0], axes);
  for (int64_t i = 0; i < c->in[0].count; i++) {
    int64_t at = reduce_walk_next(&w);
    sum[at] += exp(c->in[0].data[i] - y->data[at]);
  }
  for (int64_t i = 0; i < y->count; i++)
    if (isfinite(y->data[i]))
      y->data[i] += log(sum[i]);
  return SN_OK;
}

/* dx = exp(x - y) * dy; y = -inf would give NaN from -inf - -inf, so 0 stands for it there. */
static void grad_logsumexp(build_ctx *c) {
  const attrs_logsumexp *a = ATTRS(logsumexp);
  sn_graph *g = c->graph;
  sn_value x = c->in[0];
  sn_shape shape = build_shape(c, x);
  sn_value zero = sn_scalar(g, build_dtype(c, x), 0);
  sn_value lowest = sn_scalar(g, build_dtype(c, x), -INFINITY);
  sn_value y = sn_where(g, sn_eq(g, c->out[0], lowest), zero, c->out[0]);
  sn_value kept = build_keepdims(c, y, shape, a->axes, a->keepdims);
  sn_value dy = build_keepdims(c, c->dout[0], shape, a->axes, a->keepdims);
  build_din(c, 0, sn_mul(g, sn_exp(g, sn_sub(g, x, kept)), dy));
}

static void decompose_logsumexp(build_ctx *c) {
  const attrs_logsumexp *a = ATTRS(logsumexp);
  shifted_logs s = build_shifted_logs(c, build_wide(c, c->in[0]), a->axes);
  sn_value y = build_dropdims(c, sn_add(c->graph, s.log_sum, s.by), a->axes, a->keepdims);
  c->out[0] = build_narrow(c, y, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"logsumexp(f32[2, 3])", NULL},
    {"logsumexp(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"logsumexp(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"logsumexp(f32[3, 1]) axes=[1]", NULL},
    {"logsumexp(f32[])", NULL},
    {"logsumexp(bf16[7])", NULL},
    {"logsumexp(f16[2, 5]) axes=[1]", NULL},
    {"logsumexp(f32[2]{0, 0}) => f32[]{0.693147180559945}", NULL},
    {"logsumexp(f32[2, 2]{1000, 1000, -1000, -1000}) axes=[1] keepdims=true => "
     "f32[2, 1]{1000.693147180559945, -999.306852819440055}",
     NULL},
    {"logsumexp(f32[2]{-inf, -inf}) => f32[]{-inf}", NULL},
    {"logsumexp(f32[3]{-inf, 3, -inf}) => f32[]{3}", NULL},
    {"logsumexp(f32[2]{inf, 1}) => f32[]{inf}", NULL},
    {"logsumexp(f32[2]{inf, -inf}) => f32[]{inf}", NULL},
    {"logsumexp(f32[2, 2]{nan, 1, inf, nan}) axes=[1] => f32[2]{nan, nan}", NULL},
    {"logsumexp(f32[0, 3]) axes=[0] => f32[3]{-inf}", NULL},
    {"logsumexp(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"logsumexp(f32[0]) keepdims=true => f32[1]{-inf}", NULL},
    {"logsumexp(f32[2, 3]) axes=[2]", "outside of rank"},
    {"logsumexp(f32[2, 3]) axes=[0, 0]", "listed twice"},
    {"logsumexp(i32[3])", "must be f32"},
};

const op_impl op_impl_logsumexp = {.infer = infer_logsumexp,
                                   .ref = ref_logsumexp,
                                   .grad = grad_logsumexp,
                                   .decompose = decompose_logsumexp,
                                   CASES(cases)};
