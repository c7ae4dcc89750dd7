/* group_norm: of x [N, C, …] the channels of each group, with all that lies behind them, are
 * normalised together; then each channel is scaled and shifted. */
#include "ops/norm/norm.h"

static sn_status infer_group_norm(infer_ctx *c) {
  const attrs_group_norm *a = ATTRS(group_norm);
  sn_dim each;
  SN_TRY(infer_eps(c, a->eps));
  SN_TRY(infer_channels(c, 2));
  if (a->groups < 1 || !dim_divide(c->graph, c->in[0].shape.dim[1], a->groups, &each))
    return infer_fail(c, "groups must divide the channels: %lld groups of x %s",
                      (long long)a->groups, infer_text(c, 0));
  return SN_OK;
}

static sn_status ref_group_norm(ref_ctx *c) {
  const attrs_group_norm *a = ATTRS(group_norm);
  const ref_tensor *x = &c->in[0];
  axis_view v = ref_axis(x, 1);
  int64_t n = v.n / a->groups * v.inner;
  for (int64_t at = 0; at < x->count; at += n)
    norm_row(x->data + at, c->out[0].data + at, n, a->eps, true);
  ref_scale(c, v.n, v.inner);
  return SN_OK;
}

/* x as [N, groups, what a group has] */
static sn_value grouped(build_ctx *c, sn_value x) {
  sn_shape shape = build_shape(c, x), rest = shape;
  sn_dim each = 0;
  (void)dim_divide(c->graph, shape.dim[1], ATTRS(group_norm)->groups, &each);
  rest.dim[0] = 1;
  rest.dim[1] = each;
  return sn_reshape(c->graph, x,
                    SN_SHAPE(shape.dim[0], ATTRS(group_norm)->groups, dim_count(c->graph, rest)));
}

static void grad_group_norm(build_ctx *c) {
  sn_value x = c->in[0];
  sn_shape shape = build_shape(c, x);
  normed n = build_normed(c, grouped(c, x), SN_INTS(-1), ATTRS(group_norm)->eps, true);
  sn_value hat = sn_reshape(c->graph, n.hat, shape);
  sn_value d_hat = build_scaled_grad(c, hat, channel_view(shape));
  if (!c->need[0])
    return;
  sn_value dx = build_normed_grad(c, &n, grouped(c, d_hat));
  build_din(c, 0, build_narrow(c, sn_reshape(c->graph, dx, shape), build_dtype(c, x)));
}

static void decompose_group_norm(build_ctx *c) {
  sn_shape shape = build_shape(c, c->in[0]);
  normed n = build_normed(c, grouped(c, c->in[0]), SN_INTS(-1), ATTRS(group_norm)->eps, true);
  c->out[0] = build_scaled(c, sn_reshape(c->graph, n.hat, shape), channel_view(shape));
}

static const op_case cases[] = {
    {"group_norm(f32[2, 4, 3], f32[4], f32[4]) groups=2 eps=1e-5", NULL},
    {"group_norm(f32[2, 4, 3], f32[4], none) groups=4 eps=0.01", NULL},
    {"group_norm(f32[2, 4, 3], none, f32[4]) groups=1 eps=0.25", NULL},
    {"group_norm(f32[2, 3, 2, 2], none, none) groups=3 eps=1e-5", NULL},
    {"group_norm(f32[1, 6, 2, 1, 2], f32[6], f32[6]) groups=3 eps=0.01", NULL},
    {"group_norm(f32[3, 6], f32[6], f32[6]) groups=2 eps=0.1", NULL},
    {"group_norm(f32[2, 1, 5], f32[1], f32[1]) groups=1 eps=0.1", NULL},
    {"group_norm(f16[2, 4, 3], f16[4], none) groups=2 eps=1e-5", NULL},
    {"group_norm(bf16[2, 4], none, bf16[4]) groups=2 eps=0.1", NULL},
    {"group_norm(f32[0, 4, 3], f32[4], f32[4]) groups=2 eps=1e-5", NULL},
    {"group_norm(f32[2, 4, 0], f32[4], f32[4]) groups=2 eps=1e-5", NULL},
    {"group_norm(f32[2, 0, 3], f32[0], none) groups=2 eps=1e-5", NULL},
    /* groups {1, 5, 1, 5} and {2, 10, 2, 10}: means 3 and 6, variances 4 and 16, eps 0 */
    {"group_norm(f32[1, 4, 2]{1, 5, 1, 5, 2, 10, 2, 10}, f32[4]{1, 2, 3, 4}, "
     "f32[4]{10, 20, 30, 40}) groups=2 eps=0 => f32[1, 4, 2]{9, 11, 18, 22, 27, 33, 36, 44}",
     NULL},
    {"group_norm(f32[1, 2, 2]{1, 5, 1, 5}, none, f32[2]{7, 9}) groups=1 eps=12 "
     "=> f32[1, 2, 2]{6.5, 7.5, 8.5, 9.5}",
     NULL},
    {"group_norm(f32[2, 4, 3], none, none) groups=3 eps=0", "groups must divide"},
    {"group_norm(f32[2, 4, 3], none, none) groups=0 eps=0", "groups must divide"},
    {"group_norm(f32[2, 4, 3], none, none) groups=-2 eps=0", "groups must divide"},
    {"group_norm(f32[2, 4, 3], f32[3], none) groups=2 eps=0", "weight must be [4]"},
    {"group_norm(f32[2, 4, 3], none, f32[4, 1]) groups=2 eps=0", "bias must be [4]"},
    {"group_norm(f32[2, 4, 3], none, f16[4]) groups=2 eps=0", "dtypes differ"},
    {"group_norm(f32[4], none, none) groups=2 eps=0", "must be [N, C"},
    {"group_norm(f32[2, 4], none, none) groups=2 eps=-1", "eps must be"},
    {"group_norm(i32[2, 4], none, none) groups=2 eps=0", "must be f32"},
};

const op_impl op_impl_group_norm = {.infer = infer_group_norm,
                                    .ref = ref_group_norm,
                                    .grad = grad_group_norm,
                                    .decompose = decompose_group_norm,
                                    CASES(cases)};
