/* See norm.h. */
#include "ops/norm/norm.h"

enum { WEIGHT = 1, BIAS = 2 };

/* --- infer --- */

sn_status infer_eps(infer_ctx *c, double eps) {
  if (!(eps >= 0) || isinf(eps))
    return infer_fail(c, "eps must be a finite number, 0 or more, got %g", eps);
  return SN_OK;
}

sn_status infer_parameter(infer_ctx *c, int i, sn_shape shape, const char *what) {
  if (!infer_has(c, i))
    return SN_OK;
  SN_TRY(infer_same_dtype(c, 0, i));
  return infer_shape(c, i, shape, what);
}

sn_status infer_channels(infer_ctx *c, int last) {
  SN_TRY(infer_float(c, 0));
  if (c->in[0].shape.rank < 2)
    return infer_fail(c, "x must be [N, C, …], got %s", infer_text(c, 0));
  for (int i = 1; i <= last; i++)
    SN_TRY(infer_parameter(c, i, SN_SHAPE(c->in[0].shape.dim[1]), "one number a channel"));
  c->out[0] = c->in[0];
  return SN_OK;
}

/* --- ref --- */

void norm_row(const double *x, double *y, int64_t n, double eps, bool centred) {
  double mean = 0, var = 0;
  for (int64_t i = 0; centred && i < n; i++)
    mean += x[i] / (double)n;
  for (int64_t i = 0; i < n; i++)
    var += (x[i] - mean) * (x[i] - mean) / (double)n;
  for (int64_t i = 0; i < n; i++)
    y[i] = (x[i] - mean) / sqrt(var + eps);
}

void ref_scale(ref_ctx *c, int64_t n, int64_t inner) {
  const double *weight = c->in[WEIGHT].data, *bias = c->in[BIAS].data;
  for (int64_t k = 0; k < c->out[0].count; k++) {
    int64_t at = k / inner % n;
    c->out[0].data[k] = c->out[0].data[k] * (weight ? weight[at] : 1) + (bias ? bias[at] : 0);
  }
}

/* --- grad and decompose --- */

normed build_normed(build_ctx *c, sn_value x, sn_ints axes, double eps, bool centred) {
  sn_graph *g = c->graph;
  normed n = {.distance = build_wide(c, x), .mean = SN_NONE, .axes = axes};
  if (centred) {
    n.mean = sn_mean(g, n.distance, axes, true);
    n.distance = sn_sub(g, n.distance, n.mean);
  }
  n.var = sn_mean(g, sn_sqr(g, n.distance), axes, true);
  n.inverse = sn_rsqrt(g, sn_affine(g, n.var, 1, eps));
  n.hat = sn_mul(g, n.distance, n.inverse);
  return n;
}

/* d_x = inverse * (d_hat - mean(d_hat) - hat * mean(d_hat * hat)), mean(d_hat) only if centred */
sn_value build_normed_grad(build_ctx *c, const normed *n, sn_value d_hat) {
  sn_graph *g = c->graph;
  sn_value along = sn_mean(g, sn_mul(g, d_hat, n->hat), n->axes, true);
  sn_value rest = sn_sub(g, d_hat, sn_mul(g, n->hat, along));
  if (n->mean.id)
    rest = sn_sub(g, rest, sn_mean(g, d_hat, n->axes, true));
  return sn_mul(g, rest, n->inverse);
}

sn_shape channel_view(sn_shape x) {
  sn_shape view = {.rank = x.rank - 1};
  for (int d = 0; d < view.rank; d++)
    view.dim[d] = d == 0 ? x.dim[1] : 1;
  return view;
}

static sn_value parameter(build_ctx *c, int i, sn_shape view) {
  sn_value wide = build_wide(c, c->in[i]);
  return shape_equal(build_shape(c, wide), view) ? wide : sn_reshape(c->graph, wide, view);
}

sn_value build_weighted(build_ctx *c, sn_value x, sn_shape view) {
  return build_has(c, WEIGHT) ? sn_mul(c->graph, x, parameter(c, WEIGHT, view)) : x;
}

sn_value build_shifted(build_ctx *c, sn_value x, sn_shape view) {
  if (build_has(c, BIAS))
    x = sn_add(c->graph, x, parameter(c, BIAS, view));
  return build_narrow(c, x, build_dtype(c, c->in[0]));
}

sn_value build_scaled(build_ctx *c, sn_value hat, sn_shape view) {
  return build_shifted(c, build_weighted(c, hat, view), view);
}

void build_din_view(build_ctx *c, int i, sn_value grad, sn_shape view) {
  sn_value sum = build_sum_to(c, grad, view);
  sn_shape shape = build_shape(c, c->in[i]);
  if (!shape_equal(view, shape))
    sum = sn_reshape(c->graph, sum, shape);
  build_din(c, i, build_narrow(c, sum, build_dtype(c, c->in[i])));
}

sn_value build_scaled_grad(build_ctx *c, sn_value hat, sn_shape view) {
  sn_value dy = build_wide(c, c->dout[0]);
  if (build_has(c, WEIGHT) && c->need[WEIGHT])
    build_din_view(c, WEIGHT, sn_mul(c->graph, dy, hat), view);
  if (build_has(c, BIAS) && c->need[BIAS])
    build_din_view(c, BIAS, dy, view);
  return build_weighted(c, dy, view);
}
