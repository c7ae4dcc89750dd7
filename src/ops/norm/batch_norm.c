/* batch_norm: each channel of x [N, C, …] normalised with given statistics, then scaled and
 * shifted. */
#include "ops/norm/norm.h"

enum { MEAN = 3, VAR = 4 };

static sn_status infer_batch_norm(infer_ctx *c) {
  SN_TRY(infer_eps(c, ATTRS(batch_norm)->eps));
  return infer_channels(c, VAR);
}

static sn_status ref_batch_norm(ref_ctx *c) {
  axis_view v = ref_axis(&c->in[0], 1);
  for (int64_t k = 0; k < c->out[0].count; k++) {
    int64_t at = k / v.inner % v.n;
    c->out[0].data[k] = (c->in[0].data[k] - c->in[MEAN].data[at]) /
                        sqrt(c->in[VAR].data[at] + ATTRS(batch_norm)->eps);
  }
  ref_scale(c, v.n, v.inner);
  return SN_OK;
}

/* 1 / sqrt(var + eps), [C, 1, …] */
static sn_value inverse(build_ctx *c, sn_shape view) {
  sn_value var = sn_reshape(c->graph, build_wide(c, c->in[VAR]), view);
  return sn_rsqrt(c->graph, sn_affine(c->graph, var, 1, ATTRS(batch_norm)->eps));
}

static sn_value normalised(build_ctx *c, sn_value by, sn_shape view) {
  sn_value mean = sn_reshape(c->graph, build_wide(c, c->in[MEAN]), view);
  return sn_mul(c->graph, sn_sub(c->graph, build_wide(c, c->in[0]), mean), by);
}

/* hat = (x - mean) * inverse, so d_x = d_y * (inverse * weight), d_mean = -sum(d_x) and d_var = -1/2 inverse^2 sum(d_hat * hat). */
static void grad_batch_norm(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_shape view = channel_view(build_shape(c, c->in[0]));
  sn_value by = inverse(c, view), hat = normalised(c, by, view);
  sn_value d_hat = build_scaled_grad(c, hat, view);
  sn_value dx = sn_mul(g, build_wide(c, c->dout[0]), build_weighted(c, by, view));
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, c->in[0])));
  if (c->need[MEAN])
    build_din_view(c, MEAN, sn_neg(g, build_sum_to(c, dx, view)), view);
  if (c->need[VAR]) {
    sn_value along = build_sum_to(c, sn_mul(g, d_hat, hat), view);
    build_din_view(c, VAR, sn_mul(g, along, build_scale(c, sn_sqr(g, by), -0.5)), view);
  }
}

/* A channel's factor is made before x is touched: once for as long as parameters stay as they are. */
static void decompose_batch_norm(build_ctx *c) {
  sn_shape view = channel_view(build_shape(c, c->in[0]));
  sn_value by = build_weighted(c, inverse(c, view), view);
  c->out[0] = build_shifted(c, normalised(c, by, view), view);
}

static const op_case cases[] = {
    {"batch_norm(f32[2, 3, 5], f32[3], f32[3], f32[3], f32[3](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(f32[2, 3, 5], f32[3], none, f32[3], f32[3](0.5, 2)) eps=0.1", NULL},
    {"batch_norm(f32[2, 3, 5], none, f32[3], f32[3], f32[3](0.5, 2)) eps=0.1", NULL},
    {"batch_norm(f32[2, 3], none, none, f32[3], f32[3](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(f32[1, 3, 2, 2], f32[3], f32[3], f32[3], f32[3](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(f32[2, 1, 5], f32[1], f32[1], f32[1], f32[1](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(bf16[2, 3, 5], bf16[3], none, bf16[3], bf16[3](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(f32[0, 3, 5], f32[3], f32[3], f32[3], f32[3](0.5, 2)) eps=1e-5", NULL},
    {"batch_norm(f32[2, 0], none, f32[0], f32[0], f32[0]) eps=1e-5", NULL},
    {"batch_norm(f32[1, 2, 2]{1, 3, 5, 9}, f32[2]{10, 100}, f32[2]{1, 2}, f32[2]{3, 5}, "
     "f32[2]{1, 13}) eps=3 => f32[1, 2, 2]{-9, 1, 2, 102}",
     NULL},
    {"batch_norm(f32[1, 2, 2]{1, 3, 5, 9}, f32[2]{10, 100}, none, f32[2]{3, 5}, f32[2]{1, 13}) "
     "eps=3 => f32[1, 2, 2]{-10, 0, 0, 100}",
     NULL},
    {"batch_norm(f32[1, 2, 2]{1, 3, 5, 9}, none, f32[2]{10, 100}, f32[2]{3, 5}, f32[2]{1, 13}) "
     "eps=3 => f32[1, 2, 2]{9, 10, 100, 101}",
     NULL},
    {"batch_norm(f32[2, 3], none, none, f32[2], f32[3]) eps=0", "mean must be [3]"},
    {"batch_norm(f32[2, 3], none, none, f32[3], f32[3, 1]) eps=0", "var must be [3]"},
    {"batch_norm(f32[2, 3], f32[2], none, f32[3], f32[3]) eps=0", "weight must be [3]"},
    {"batch_norm(f32[2, 3], none, f32[2], f32[3], f32[3]) eps=0", "bias must be [3]"},
    {"batch_norm(f32[2, 3], none, none, none, f32[3]) eps=0", "mean is missing"},
    {"batch_norm(f32[3], none, none, f32[3], f32[3]) eps=0", "must be [N, C"},
    {"batch_norm(f16[2, 3], none, none, f32[3], f32[3]) eps=0", "dtypes differ"},
    {"batch_norm(f32[2, 3], none, none, f32[3], f32[3]) eps=-1", "eps must be"},
    {"batch_norm(i32[2, 3], none, none, i32[3], i32[3]) eps=0", "must be f32"},
};

const op_impl op_impl_batch_norm = {.infer = infer_batch_norm,
                                    .ref = ref_batch_norm,
                                    .grad = grad_batch_norm,
                                    .decompose = decompose_batch_norm,
                                    CASES(cases)};
