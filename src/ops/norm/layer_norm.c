/* layer_norm and rms_norm: each row (the last `axes` axes) normalised, then scaled by weight and
 * shifted by bias, element by element. rms_norm does not subtract the mean. */
#include "ops/norm/norm.h"

/* The shape of a row: that of weight and bias. */
static sn_shape row_shape(sn_shape x, int64_t axes) {
  sn_shape row = {.rank = (int)axes};
  for (int d = 0; d < row.rank; d++)
    row.dim[d] = x.dim[x.rank - row.rank + d];
  return row;
}

static sn_status infer_rows(infer_ctx *c, int64_t axes, double eps) {
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_eps(c, eps));
  if (axes < 1 || axes > c->in[0].shape.rank)
    return infer_fail(c, "axes must lie in 1 … the rank of x, got %lld for %s", (long long)axes,
                      infer_text(c, 0));
  for (int i = 1; i <= 2; i++)
    SN_TRY(infer_parameter(c, i, row_shape(c->in[0].shape, axes), "the normalised axes"));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_rows(ref_ctx *c, int64_t axes, double eps, bool centred) {
  const ref_tensor *x = &c->in[0];
  int64_t n = 1;
  for (int d = x->rank - (int)axes; d < x->rank; d++)
    n *= x->dim[d];
  for (int64_t at = 0; at < x->count; at += n)
    norm_row(x->data + at, c->out[0].data + at, n, eps, centred);
  ref_scale(c, n, 1);
  return SN_OK;
}

static sn_ints last_axes(int64_t n) {
  sn_ints axes = {.n = (int)n};
  for (int i = 0; i < axes.n; i++)
    axes.v[i] = i - n;
  return axes;
}

static void grad_rows(build_ctx *c, int64_t axes, double eps, bool centred) {
  sn_value x = c->in[0];
  normed n = build_normed(c, x, last_axes(axes), eps, centred);
  sn_value d_hat = build_scaled_grad(c, n.hat, row_shape(build_shape(c, x), axes));
  if (c->need[0])
    build_din(c, 0, build_narrow(c, build_normed_grad(c, &n, d_hat), build_dtype(c, x)));
}

static void decompose_rows(build_ctx *c, int64_t axes, double eps, bool centred) {
  normed n = build_normed(c, c->in[0], last_axes(axes), eps, centred);
  c->out[0] = build_scaled(c, n.hat, row_shape(build_shape(c, c->in[0]), axes));
}

/* --- layer_norm --- */
static sn_status infer_layer_norm(infer_ctx *c) {
  return infer_rows(c, ATTRS(layer_norm)->axes, ATTRS(layer_norm)->eps);
}

static sn_status ref_layer_norm(ref_ctx *c) {
  return ref_rows(c, ATTRS(layer_norm)->axes, ATTRS(layer_norm)->eps, true);
}

static void grad_layer_norm(build_ctx *c) {
  grad_rows(c, ATTRS(layer_norm)->axes, ATTRS(layer_norm)->eps, true);
}

static void decompose_layer_norm(build_ctx *c) {
  decompose_rows(c, ATTRS(layer_norm)->axes, ATTRS(layer_norm)->eps, true);
}

static const op_case layer_norm_cases[] = {
    {"layer_norm(f32[2, 5], f32[5], f32[5]) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[2, 5], f32[5], none) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[2, 5], none, f32[5]) axes=1 eps=0.25", NULL},
    {"layer_norm(f32[2, 5], none, none) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[2, 3, 5], f32[3, 5], f32[3, 5]) axes=2 eps=0.01", NULL},
    {"layer_norm(f32[2, 1, 3, 2], f32[1, 3, 2], none) axes=3 eps=0.01", NULL},
    {"layer_norm(f32[7], f32[7], f32[7]) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[3, 1], f32[1], f32[1]) axes=1 eps=0.1", NULL},
    {"layer_norm(bf16[2, 5], bf16[5], bf16[5]) axes=1 eps=1e-5", NULL},
    {"layer_norm(f16[2, 5], none, f16[5]) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[0, 3], f32[3], f32[3]) axes=1 eps=1e-5", NULL},
    {"layer_norm(f32[3, 0], f32[0], f32[0]) axes=1 eps=1e-5", NULL},
    /* mean 3, variance 4, eps 12: (x - 3) / 4 */
    {"layer_norm(f32[1, 4]{1, 5, 1, 5}, f32[4]{8, 4, 2, 1}, f32[4]{10, 20, 30, 40}) axes=1 eps=12 "
     "=> f32[1, 4]{6, 22, 29, 40.5}",
     NULL},
    {"layer_norm(f32[1, 4]{1, 5, 1, 5}, f32[4]{8, 4, 2, 1}, none) axes=1 eps=12 "
     "=> f32[1, 4]{-4, 2, -1, 0.5}",
     NULL},
    {"layer_norm(f32[1, 4]{1, 5, 1, 5}, none, f32[4]{8, 4, 2, 1}) axes=1 eps=12 "
     "=> f32[1, 4]{7.5, 4.5, 1.5, 1.5}",
     NULL},
    {"layer_norm(f32[2, 2]{1, 5, 7, 7}, none, none) axes=1 eps=0 => f32[2, 2]{-1, 1, nan, nan} "
     "@kink",
     NULL},
    {"layer_norm(f32[3]{100000, 100001, 100002}, none, none) axes=1 eps=0 "
     "=> f32[3]{-1.22474487139159, 0, 1.22474487139159}",
     NULL},
    {"layer_norm(f16[2]{-60000, 60000}, none, none) axes=1 eps=0 => f16[2]{-1, 1} @kink", NULL},
    {"layer_norm(f32[2, 5], f32[2, 5], none) axes=1 eps=0", "weight must be [5]"},
    {"layer_norm(f32[2, 5], none, f32[1]) axes=1 eps=0", "bias must be [5]"},
    {"layer_norm(f32[2, 5], f16[5], none) axes=1 eps=0", "dtypes differ"},
    {"layer_norm(f32[2, 5], none, none) axes=0 eps=0", "axes must lie in 1"},
    {"layer_norm(f32[2, 5], none, none) axes=3 eps=0", "axes must lie in 1"},
    {"layer_norm(f32[2, 5], none, none) axes=1 eps=-1", "eps must be"},
    {"layer_norm(i32[2, 5], none, none) axes=1 eps=0", "must be f32"},
};

const op_impl op_impl_layer_norm = {.infer = infer_layer_norm,
                                    .ref = ref_layer_norm,
                                    .grad = grad_layer_norm,
                                    .decompose = decompose_layer_norm,
                                    CASES(layer_norm_cases)};

/* --- rms_norm --- */
static sn_status infer_rms_norm(infer_ctx *c) {
  return infer_rows(c, ATTRS(rms_norm)->axes, ATTRS(rms_norm)->eps);
}

static sn_status ref_rms_norm(ref_ctx *c) {
  return ref_rows(c, ATTRS(rms_norm)->axes, ATTRS(rms_norm)->eps, false);
}

static void grad_rms_norm(build_ctx *c) {
  grad_rows(c, ATTRS(rms_norm)->axes, ATTRS(rms_norm)->eps, false);
}

static void decompose_rms_norm(build_ctx *c) {
  decompose_rows(c, ATTRS(rms_norm)->axes, ATTRS(rms_norm)->eps, false);
}

static const op_case rms_norm_cases[] = {
    {"rms_norm(f32[2, 5], f32[5], f32[5]) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[2, 5], f32[5], none) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[2, 5], none, f32[5]) axes=1 eps=0.25", NULL},
    {"rms_norm(f32[2, 5], none, none) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[2, 3, 5], f32[3, 5], f32[3, 5]) axes=2 eps=0.01", NULL},
    {"rms_norm(f32[7], f32[7], none) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[3, 1], f32[1], f32[1]) axes=1 eps=0.5", NULL},
    {"rms_norm(bf16[2, 5], bf16[5], none) axes=1 eps=1e-5", NULL},
    {"rms_norm(f16[2, 5], none, f16[5]) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[0, 3], f32[3], none) axes=1 eps=1e-5", NULL},
    {"rms_norm(f32[3, 0], f32[0], f32[0]) axes=1 eps=1e-5", NULL},
    /* mean of squares 13, eps 3: x / 4 */
    {"rms_norm(f32[1, 4]{1, 5, -1, -5}, f32[4]{8, 4, 2, 1}, f32[4]{10, 20, 30, 40}) axes=1 eps=3 "
     "=> f32[1, 4]{12, 25, 29.5, 38.75}",
     NULL},
    {"rms_norm(f32[1, 4]{1, 5, -1, -5}, f32[4]{8, 4, 2, 1}, none) axes=1 eps=3 "
     "=> f32[1, 4]{2, 5, -0.5, -1.25}",
     NULL},
    {"rms_norm(f32[1, 4]{1, 5, -1, -5}, none, f32[4]{8, 4, 2, 1}) axes=1 eps=3 "
     "=> f32[1, 4]{8.25, 5.25, 1.75, -0.25}",
     NULL},
    {"rms_norm(f32[2, 2]{3, 3, 0, 0}, none, none) axes=1 eps=0 => f32[2, 2]{1, 1, nan, nan} @kink",
     NULL},
    {"rms_norm(f16[2]{60000, -60000}, none, none) axes=1 eps=0 => f16[2]{1, -1} @kink", NULL},
    {"rms_norm(f32[2, 5], f32[4], none) axes=1 eps=0", "weight must be [5]"},
    {"rms_norm(f32[2, 5], none, f32[2, 5]) axes=1 eps=0", "bias must be [5]"},
    {"rms_norm(f32[2, 5], none, bf16[5]) axes=1 eps=0", "dtypes differ"},
    {"rms_norm(f32[], none, none) axes=1 eps=0", "axes must lie in 1"},
    {"rms_norm(f32[2, 5], none, none) axes=-1 eps=0", "axes must lie in 1"},
    {"rms_norm(f32[2, 5], none, none) axes=1 eps=nan", "eps must be"},
    {"rms_norm(i32[2, 5], none, none) axes=1 eps=0", "must be f32"},
};

const op_impl op_impl_rms_norm = {.infer = infer_rms_norm,
                                  .ref = ref_rms_norm,
                                  .grad = grad_rms_norm,
                                  .decompose = decompose_rms_norm,
                                  CASES(rms_norm_cases)};
