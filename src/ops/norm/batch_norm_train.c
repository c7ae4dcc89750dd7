/* batch_norm_train: each channel of x [N, C, …] normalised by the batch's own mean and (biased)
 * variance, then scaled and shifted. Results 1 and 2 are the running statistics moved towards the
 * batch's mean and unbiased variance: (1 - momentum) * running + momentum * batch. A batch of one
 * element a channel has the unbiased variance 0 (not 0/0, which would spoil the running one for
 * good). */
#include "ops/norm/norm.h"

enum { MEAN = 3, VAR = 4 };

static sn_status infer_batch_norm_train(infer_ctx *c) {
  const attrs_batch_norm_train *a = ATTRS(batch_norm_train);
  SN_TRY(infer_eps(c, a->eps));
  if (!(a->momentum >= 0 && a->momentum <= 1))
    return infer_fail(c, "momentum must lie in 0 … 1, got %g", a->momentum);
  SN_TRY(infer_channels(c, VAR));
  c->out[1] = c->in[MEAN];
  c->out[2] = c->in[VAR];
  return SN_OK;
}

typedef struct moments {
  double mean, var, n;
} moments;

static moments channel_moments(const ref_tensor *x, axis_view v, int64_t channel) {
  moments m = {0, 0, (double)(v.outer * v.inner)};
  for (int pass = 0; pass < 2; pass++)
    for (int64_t o = 0; o < v.outer; o++)
      for (int64_t i = 0; i < v.inner; i++) {
        double at = x->data[(o * v.n + channel) * v.inner + i];
        *(pass ? &m.var : &m.mean) += pass ? (at - m.mean) * (at - m.mean) / m.n : at / m.n;
      }
  if (m.n == 0)
    m.mean = m.var = NAN;
  return m;
}

static sn_status ref_batch_norm_train(ref_ctx *c) {
  const attrs_batch_norm_train *a = ATTRS(batch_norm_train);
  axis_view v = ref_axis(&c->in[0], 1);
  for (int64_t ch = 0; ch < v.n; ch++) {
    moments m = channel_moments(&c->in[0], v, ch);
    for (int64_t o = 0; o < v.outer; o++)
      for (int64_t i = 0; i < v.inner; i++) {
        int64_t at = (o * v.n + ch) * v.inner + i;
        c->out[0].data[at] = (c->in[0].data[at] - m.mean) / sqrt(m.var + a->eps);
      }
    double unbiased = m.var * m.n / fmax(m.n - 1, 1);
    c->out[1].data[ch] = (1 - a->momentum) * c->in[MEAN].data[ch] + a->momentum * m.mean;
    c->out[2].data[ch] = (1 - a->momentum) * c->in[VAR].data[ch] + a->momentum * unbiased;
  }
  ref_scale(c, v.n, v.inner);
  return SN_OK;
}

/* All axes but that of the channels. */
static sn_ints batch_axes(sn_shape x) {
  sn_ints axes = {.n = x.rank - 1};
  for (int i = 1; i < axes.n; i++)
    axes.v[i] = i + 1;
  return axes;
}

/* Elements a channel has. */
static sn_dim batch_count(build_ctx *c, sn_shape x) {
  x.dim[1] = 1;
  return dim_count(c->graph, x);
}

/* v / max(n - 1, 1) */
static sn_value over_freedom(build_ctx *c, sn_value v, sn_dim n) {
  if (dim_is_number(n))
    return build_scale(c, v, 1 / (double)max_i64(n - 1, 1));
  sn_value rest = sn_affine(c->graph, build_count(c, n), 1, -1);
  return sn_div(c->graph, v, sn_maximum(c->graph, rest, sn_scalar(c->graph, SN_F32, 1)));
}

/* (1 - momentum) * input i + momentum * batch */
static sn_value moved(build_ctx *c, int i, sn_value batch) {
  double momentum = ATTRS(batch_norm_train)->momentum;
  sn_value running = build_scale(c, build_wide(c, c->in[i]), 1 - momentum);
  sn_value flat = sn_reshape(c->graph, batch, build_shape(c, running));
  sn_value sum = sn_add(c->graph, running, build_scale(c, flat, momentum));
  return build_narrow(c, sum, build_dtype(c, c->in[i]));
}

static normed batch_normed(build_ctx *c) {
  sn_value x = c->in[0];
  return build_normed(c, x, batch_axes(build_shape(c, x)), ATTRS(batch_norm_train)->eps, true);
}

/* Gradient of result k (1 or 2) that passes to its running statistic; and, as f32 [C, 1, …] and
 * times momentum, to the batch's. */
static sn_value to_batch(build_ctx *c, int k, sn_shape view) {
  double momentum = ATTRS(batch_norm_train)->momentum;
  build_din(c, MEAN + k - 1, build_scale(c, c->dout[k], 1 - momentum));
  return build_scale(c, sn_reshape(c->graph, build_wide(c, c->dout[k]), view), momentum);
}

static sn_value plus(build_ctx *c, sn_value a, sn_value b) {
  return a.id ? sn_add(c->graph, a, b) : b;
}

static void grad_batch_norm_train(build_ctx *c) {
  sn_shape shape = build_shape(c, c->in[0]), view = channel_view(shape);
  sn_dim count = batch_count(c, shape);
  normed n = batch_normed(c);
  sn_value dx = SN_NONE;
  if (c->dout[0].id)
    dx = build_normed_grad(c, &n, build_scaled_grad(c, n.hat, view));
  if (c->dout[1].id) {
    sn_value share = build_over_count(c, to_batch(c, 1, view), count);
    dx = plus(c, dx, sn_expand(c->graph, share, shape));
  }
  if (c->dout[2].id) {
    sn_value share = over_freedom(c, build_scale(c, to_batch(c, 2, view), 2), count);
    dx = plus(c, dx, sn_mul(c->graph, n.distance, share));
  }
  if (dx.id)
    build_din(c, 0, build_narrow(c, dx, build_dtype(c, c->in[0])));
}

static void decompose_batch_norm_train(build_ctx *c) {
  sn_shape shape = build_shape(c, c->in[0]);
  sn_dim count = batch_count(c, shape);
  normed n = batch_normed(c);
  sn_value squares = sn_mul(c->graph, n.var, build_count(c, count));
  c->out[0] = build_scaled(c, n.hat, channel_view(shape));
  c->out[1] = moved(c, MEAN, n.mean);
  c->out[2] = moved(c, VAR, over_freedom(c, squares, count));
}

static const op_case cases[] = {
    {"batch_norm_train(f32[2, 3, 5], f32[3], f32[3], f32[3], f32[3]) momentum=0.1 eps=1e-5", NULL},
    {"batch_norm_train(f32[3, 2, 2], f32[2], none, f32[2], f32[2]) momentum=0.25 eps=0.1", NULL},
    {"batch_norm_train(f32[3, 2, 2], none, f32[2], f32[2], f32[2]) momentum=0.75 eps=0.1", NULL},
    {"batch_norm_train(f32[5, 2], none, none, f32[2], f32[2]) momentum=1 eps=1e-5", NULL},
    {"batch_norm_train(f32[2, 2, 2, 3], f32[2], f32[2], f32[2], f32[2]) momentum=0 eps=0.01", NULL},
    {"batch_norm_train(f32[4, 1, 3], f32[1], f32[1], f32[1], f32[1]) momentum=0.5 eps=0.01", NULL},
    {"batch_norm_train(f16[2, 3, 5], f16[3], none, f16[3], f16[3]) momentum=0.1 eps=1e-5", NULL},
    {"batch_norm_train(f32[3, 0, 2], f32[0], f32[0], f32[0], f32[0]) momentum=0.1 eps=1e-5", NULL},
    /* channel 0: 1, 5, 1, 5 (mean 3, variance 4, unbiased 16/3); channel 1: 2, 10, 2, 10 */
    {"batch_norm_train(f32[2, 2, 2]{1, 5, 2, 10, 1, 5, 2, 10}, f32[2]{1, 2}, f32[2]{10, 20}, "
     "f32[2]{7, 8}, f32[2]{4, 4}) momentum=0.75 eps=0 => "
     "f32[2, 2, 2]{9, 11, 18, 22, 9, 11, 18, 22}, f32[2]{4, 6.5}, f32[2]{5, 17}",
     NULL},
    {"batch_norm_train(f32[2, 1]{1, 5}, none, f32[1]{7}, f32[1]{0}, f32[1]{0}) momentum=1 eps=12 "
     "=> f32[2, 1]{6.5, 7.5}, f32[1]{3}, f32[1]{8}",
     NULL},
    {"batch_norm_train(f32[1, 2]{5, 7}, none, none, f32[2]{1, 1}, f32[2]{4, 8}) momentum=0.5 eps=1 "
     "=> f32[1, 2]{0, 0}, f32[2]{3, 4}, f32[2]{2, 4}",
     NULL},
    {"batch_norm_train(f32[0, 2], none, none, f32[2], f32[2]) momentum=0.5 eps=1 "
     "=> f32[0, 2]{}, f32[2]{nan}, f32[2]{nan} @kink",
     NULL},
    {"batch_norm_train(f32[2, 3], none, none, f32[2], f32[3]) momentum=0.1 eps=0",
     "mean must be [3]"},
    {"batch_norm_train(f32[2, 3], none, none, f32[3], f32[3, 1]) momentum=0.1 eps=0",
     "var must be [3]"},
    {"batch_norm_train(f32[2, 3], f32[2], none, f32[3], f32[3]) momentum=0.1 eps=0",
     "weight must be [3]"},
    {"batch_norm_train(f32[2, 3], none, none, f32[3], none) momentum=0.1 eps=0", "var is missing"},
    {"batch_norm_train(f32[3], none, none, f32[3], f32[3]) momentum=0.1 eps=0", "must be [N, C"},
    {"batch_norm_train(f32[2, 3], none, none, f32[3], f32[3]) momentum=1.5 eps=0",
     "momentum must lie in"},
    {"batch_norm_train(f32[2, 3], none, none, f32[3], f32[3]) momentum=0.1 eps=-1", "eps must be"},
    {"batch_norm_train(f32[2, 3], none, none, bf16[3], f32[3]) momentum=0.1 eps=0",
     "dtypes differ"},
};

const op_impl op_impl_batch_norm_train = {.infer = infer_batch_norm_train,
                                          .ref = ref_batch_norm_train,
                                          .grad = grad_batch_norm_train,
                                          .decompose = decompose_batch_norm_train,
                                          CASES(cases)};
