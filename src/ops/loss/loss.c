/* See loss.h. */
#include "ops/loss/loss.h"

/* --- infer --- */

void infer_loss(infer_ctx *c, sn_shape each, sn_reduction reduction) {
  c->out[0] = (sn_type){c->in[0].dtype, reduction == SN_REDUCTION_NONE ? each : SN_SCALAR};
}

sn_status infer_pair_loss(infer_ctx *c, sn_reduction reduction) {
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_shape(c, 1, c->in[0].shape, "losses do not broadcast"));
  infer_loss(c, c->in[0].shape, reduction);
  return SN_OK;
}

sn_status infer_smoothing(infer_ctx *c, double smoothing) {
  if (smoothing >= 0 && smoothing <= 1)
    return SN_OK;
  return infer_fail(c, "smoothing must lie in 0 … 1, got %g", smoothing);
}

/* --- ref --- */

void ref_add_loss(ref_ctx *c, sn_reduction reduction, int64_t k, double loss) {
  c->out[0].data[reduction == SN_REDUCTION_NONE ? k : 0] += loss;
}

void ref_end_loss(ref_ctx *c, sn_reduction reduction, double count) {
  if (reduction == SN_REDUCTION_MEAN)
    c->out[0].data[0] /= count;
}

sn_status ref_pair_loss(ref_ctx *c, sn_reduction reduction, double (*f)(double, double, double),
                        double p) {
  for (int64_t k = 0; k < c->in[0].count; k++)
    ref_add_loss(c, reduction, k, f(c->in[0].data[k], c->in[1].data[k], p));
  ref_end_loss(c, reduction, (double)c->in[0].count);
  return SN_OK;
}

double logsumexp_slice(const double *x, int64_t n, int64_t stride) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (isnan(x[i * stride]) || x[i * stride] > max)
      max = x[i * stride];
  if (!isfinite(max))
    return max;
  for (int64_t i = 0; i < n; i++)
    sum += exp(x[i * stride] - max);
  return max + log(sum);
}

/* --- grad and decompose --- */

void build_loss_result(build_ctx *c, sn_value each, sn_reduction reduction) {
  sn_value loss = each;
  if (reduction == SN_REDUCTION_MEAN)
    loss = sn_mean(c->graph, each, SN_ALL_AXES, false);
  else if (reduction == SN_REDUCTION_SUM)
    loss = sn_sum(c->graph, each, SN_ALL_AXES, false);
  c->out[0] = build_narrow(c, loss, build_dtype(c, c->in[0]));
}

sn_value build_loss_scale(build_ctx *c, sn_shape each, sn_reduction reduction) {
  sn_value scale = build_wide(c, c->dout[0]);
  if (reduction != SN_REDUCTION_MEAN)
    return scale;
  return build_over_count(c, scale, dim_count(c->graph, each));
}

void build_loss_din(build_ctx *c, int i, sn_value slope, sn_value scale) {
  if (c->need[i])
    build_din(c, i, build_narrow(c, sn_mul(c->graph, slope, scale), build_dtype(c, c->in[i])));
}
