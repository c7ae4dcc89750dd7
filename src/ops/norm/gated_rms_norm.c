/* gated_rms_norm: rms_norm(x) * weight * silu(gate), over the last axis. */
#include "ops/norm/norm.h"

enum { GATE = 1, WEIGHT = 2 };

static sn_status infer_gated_rms_norm(infer_ctx *c) {
  sn_shape x = c->in[0].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_eps(c, ATTRS(gated_rms_norm)->eps));
  if (x.rank < 1)
    return infer_fail(c, "x must have rank 1 or more, got %s", infer_text(c, 0));
  SN_TRY(infer_parameter(c, GATE, x, "like x"));
  SN_TRY(infer_parameter(c, WEIGHT, SN_SHAPE(x.dim[x.rank - 1]), "the last axis"));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_gated_rms_norm(ref_ctx *c) {
  const ref_tensor *x = &c->in[0];
  const double *gate = c->in[GATE].data, *weight = c->in[WEIGHT].data;
  int64_t n = x->dim[x->rank - 1];
  for (int64_t at = 0; at < x->count; at += n) {
    double *y = c->out[0].data + at;
    norm_row(x->data + at, y, n, ATTRS(gated_rms_norm)->eps, false);
    for (int64_t i = 0; i < n; i++)
      y[i] *= (weight ? weight[i] : 1) * gate[at + i] / (1 + exp(-gate[at + i]));
  }
  return SN_OK;
}

static void decompose_gated_rms_norm(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value weight = build_has(c, WEIGHT) ? build_wide(c, c->in[WEIGHT]) : SN_NONE;
  double eps = ATTRS(gated_rms_norm)->eps;
  sn_value y = sn_rms_norm(g, build_wide(c, c->in[0]), weight, SN_NONE, 1, eps);
  y = sn_mul(g, y, sn_silu(g, build_wide(c, c->in[GATE])));
  c->out[0] = build_narrow(c, y, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"gated_rms_norm(f32[2, 5], f32[2, 5], f32[5]) eps=1e-5", NULL},
    {"gated_rms_norm(f32[2, 5], f32[2, 5], none) eps=0.25", NULL},
    {"gated_rms_norm(f32[2, 3, 3], f32[2, 3, 3], f32[3]) eps=0.01", NULL},
    {"gated_rms_norm(f32[7], f32[7], f32[7]) eps=1e-5", NULL},
    {"gated_rms_norm(f32[3, 1], f32[3, 1], f32[1]) eps=0.5", NULL},
    {"gated_rms_norm(bf16[2, 5], bf16[2, 5], bf16[5]) eps=1e-5", NULL},
    {"gated_rms_norm(f32[0, 3], f32[0, 3], f32[3]) eps=1e-5", NULL},
    {"gated_rms_norm(f32[3, 0], f32[3, 0], f32[0]) eps=1e-5", NULL},
    /* x / 4, times weight, times silu: silu(1) = 0.731058578630005 = 1 + silu(-1) */
    {"gated_rms_norm(f32[4]{1, 5, -1, -5}, f32[4]{1, 0, -1, 100}, f32[4]{8, 4, 2, 1}) eps=3 "
     "=> f32[4]{1.46211715726001, 0, 0.134470710684998, -125}",
     NULL},
    {"gated_rms_norm(f32[1, 2]{3, -3}, f32[1, 2]{1, 1}, none) eps=0 "
     "=> f32[1, 2]{0.731058578630005, -0.731058578630005}",
     NULL},
    {"gated_rms_norm(f32[2, 5], f32[5], none) eps=0", "gate must be [2, 5]"},
    {"gated_rms_norm(f32[2, 5], f32[2, 5], f32[2, 5]) eps=0", "weight must be [5]"},
    {"gated_rms_norm(f32[2, 5], f16[2, 5], none) eps=0", "dtypes differ"},
    {"gated_rms_norm(f32[], f32[], none) eps=0", "rank 1 or more"},
    {"gated_rms_norm(f32[2, 5], f32[2, 5], none) eps=-1", "eps must be"},
    {"gated_rms_norm(i32[2, 5], i32[2, 5], none) eps=0", "must be f32"},
};

const op_impl op_impl_gated_rms_norm = {.infer = infer_gated_rms_norm,
                                        .ref = ref_gated_rms_norm,
                                        .grad_by_decompose = true,
                                        .decompose = decompose_gated_rms_norm,
                                        CASES(cases)};
