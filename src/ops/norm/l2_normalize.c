/* l2_normalize: x * rsqrt(sum(x^2) + eps) along an axis. */
#include "ops/norm/norm.h"

static sn_status infer_l2_normalize(infer_ctx *c) {
  int axis;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_axis(c, ATTRS(l2_normalize)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  return infer_eps(c, ATTRS(l2_normalize)->eps);
}

static sn_status ref_l2_normalize(ref_ctx *c) {
  axis_view v = ref_axis(&c->in[0], ATTRS(l2_normalize)->axis);
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    int64_t start = row / v.inner * v.n * v.inner + row % v.inner;
    const double *x = c->in[0].data + start;
    double squares = 0;
    for (int64_t k = 0; k < v.n; k++)
      squares += x[k * v.inner] * x[k * v.inner];
    for (int64_t k = 0; k < v.n; k++)
      c->out[0].data[start + k * v.inner] =
          x[k * v.inner] * (1 / sqrt(squares + ATTRS(l2_normalize)->eps));
  }
  return SN_OK;
}

typedef struct normalised {
  sn_value y, inverse; /* in f32 */
} normalised;

static normalised normalise(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[0]);
  sn_value squares = sn_sum(g, sn_sqr(g, x), SN_INTS(ATTRS(l2_normalize)->axis), true);
  sn_value inverse = sn_rsqrt(g, sn_affine(g, squares, 1, ATTRS(l2_normalize)->eps));
  return (normalised){sn_mul(g, x, inverse), inverse};
}

/* dx = inverse * (dy - y * sum(dy * y)) */
static void grad_l2_normalize(build_ctx *c) {
  sn_graph *g = c->graph;
  normalised n = normalise(c);
  sn_value dy = build_wide(c, c->dout[0]);
  sn_value along = sn_sum(g, sn_mul(g, dy, n.y), SN_INTS(ATTRS(l2_normalize)->axis), true);
  sn_value dx = sn_mul(g, sn_sub(g, dy, sn_mul(g, n.y, along)), n.inverse);
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, c->in[0])));
}

static void decompose_l2_normalize(build_ctx *c) {
  c->out[0] = build_narrow(c, normalise(c).y, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"l2_normalize(f32[2, 5]) axis=-1 eps=1e-6", NULL},
    {"l2_normalize(f32[3, 5]) axis=0 eps=0.25", NULL},
    {"l2_normalize(f32[2, 3, 7]) axis=1 eps=1e-6", NULL},
    {"l2_normalize(f32[2, 1]) axis=1 eps=0.5", NULL},
    {"l2_normalize(f32[0, 3]) axis=0 eps=1e-6", NULL},
    {"l2_normalize(f32[0, 3]) axis=1 eps=1e-6", NULL},
    {"l2_normalize(bf16[5]) axis=0 eps=1e-6", NULL},
    {"l2_normalize(f32[2, 2]{3, 4, 0, 0}) axis=1 eps=1e-12 => f32[2, 2]{0.6, 0.8, 0, 0} @kink",
     NULL},
    {"l2_normalize(f32[2, 2]{3, 5, -4, 12}) axis=0 eps=0 "
     "=> f32[2, 2]{0.6, 0.384615384615385, -0.8, 0.923076923076923}",
     NULL},
    {"l2_normalize(f32[2]{2, 2}) axis=0 eps=8 => f32[2]{0.5, 0.5}", NULL},
    {"l2_normalize(f16[2]{300, -400}) axis=0 eps=0 => f16[2]{0.60009765625, -0.7998046875} @kink",
     NULL},
    {"l2_normalize(f32[2]{nan, 1}) axis=0 eps=0 => f32[2]{nan, nan}", NULL},
    {"l2_normalize(f32[2, 3]) axis=2 eps=0", "outside of rank"},
    {"l2_normalize(f32[2, 3]) axis=1 eps=-1", "eps must be"},
    {"l2_normalize(i32[2]) axis=0 eps=0", "must be f32"},
};

const op_impl op_impl_l2_normalize = {.infer = infer_l2_normalize,
                                      .ref = ref_l2_normalize,
                                      .grad = grad_l2_normalize,
                                      .decompose = decompose_l2_normalize,
                                      CASES(cases)};
