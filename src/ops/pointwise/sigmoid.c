/* tanh, sigmoid, softplus, erf, softcap: smooth curves that level off; floats only. None of them
 * overflows: they reach their limits at ±infinity. */
#include "ops/pointwise/pointwise.h"

/* --- tanh: dx = dy * (1 - y^2) --- */
static sn_status ref_tanh(ref_ctx *c) { return ref_unary(c, tanh); }
static void grad_tanh(build_ctx *c) {
  build_din_scaled(c, 0, sn_affine(c->graph, sn_sqr(c->graph, c->out[0]), -1, 1));
}

static reg element_tanh(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_tanh); }

static const op_case tanh_cases[] = {
    {"tanh(f32[2, 5])", NULL},
    {"tanh(f32[0])", NULL},
    {"tanh(f32[6]{0, 1, -1, 100, -inf, nan}) => f32[6]{0, 0.76159416, -0.76159416, 1, -1, nan}",
     NULL},
    {"tanh(f16[1]{0}) => f16[1]{0}", NULL},
    {"tanh(bf16[3])", NULL},
    {"tanh(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_tanh = {.infer = infer_unary_float,
                              .ref = ref_tanh,
                              .grad = grad_tanh,
                              .element = element_tanh,
                              CASES(tanh_cases)};

/* --- sigmoid: dx = dy * y * (1 - y) --- */
static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
static sn_status ref_sigmoid(ref_ctx *c) { return ref_unary(c, sigmoid); }
static void grad_sigmoid(build_ctx *c) {
  sn_value y = c->out[0];
  build_din_scaled(c, 0, sn_mul(c->graph, y, sn_affine(c->graph, y, -1, 1)));
}
static void decompose_sigmoid(build_ctx *c) {
  sn_graph *g = c->graph;
  c->out[0] = sn_affine(g, sn_tanh(g, build_scale(c, c->in[0], 0.5)), 0.5, 0.5);
}

static reg element_sigmoid(elem_ctx *c, const place *at) {
  return element_unary(c, at, ALU_sigmoid);
}

static const op_case sigmoid_cases[] = {
    {"sigmoid(f32[2, 5])", NULL},
    {"sigmoid(f32[0])", NULL},
    {"sigmoid(f32[7]{0, 1, -1, 1000, -1000, -inf, nan}) => "
     "f32[7]{0.5, 0.73105858, 0.26894142, 1, 0, 0, nan}",
     NULL},
    {"sigmoid(f16[1]{0}) => f16[1]{0.5}", NULL},
    {"sigmoid(bf16[3])", NULL},
    {"sigmoid(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_sigmoid = {.infer = infer_unary_float,
                                 .ref = ref_sigmoid,
                                 .grad = grad_sigmoid,
                                 .decompose = decompose_sigmoid,
                                 .element = element_sigmoid,
                                 CASES(sigmoid_cases)};

/* --- softplus: dx = dy * sigmoid(x) --- */
static double softplus(double x) { return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x))); }
static sn_status ref_softplus(ref_ctx *c) { return ref_unary(c, softplus); }
static void grad_softplus(build_ctx *c) { build_din_scaled(c, 0, sn_sigmoid(c->graph, c->in[0])); }
static void decompose_softplus(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value small = sn_log1p(g, sn_exp(g, sn_neg(g, sn_abs(g, c->in[0]))));
  c->out[0] = sn_add(g, sn_relu(g, c->in[0]), small);
}

static reg element_softplus(elem_ctx *c, const place *at) {
  return element_unary(c, at, ALU_softplus);
}

static const op_case softplus_cases[] = {
    {"softplus(f32[2, 5])", NULL},
    {"softplus(f32[0])", NULL},
    {"softplus(f32[8]{0, 1, -1, 1000, -1000, inf, -inf, nan}) => "
     "f32[8]{0.69314718, 1.31326169, 0.31326169, 1000, 0, inf, 0, nan}",
     NULL},
    {"softplus(f16[1]{100}) => f16[1]{100}", NULL},
    {"softplus(bf16[3])", NULL},
    {"softplus(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_softplus = {.infer = infer_unary_float,
                                  .ref = ref_softplus,
                                  .grad = grad_softplus,
                                  .decompose = decompose_softplus,
                                  .element = element_softplus,
                                  CASES(softplus_cases)};

/* --- erf: dx = dy * 2/sqrt(pi) * exp(-x^2) --- */
static const double TWO_OVER_ROOT_PI = 1.12837916709551257390;

static sn_status ref_erf(ref_ctx *c) { return ref_unary(c, erf); }
static void grad_erf(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value bell = sn_exp(g, sn_neg(g, sn_sqr(g, c->in[0])));
  build_din_scaled(c, 0, build_scale(c, bell, TWO_OVER_ROOT_PI));
}

static reg element_erf(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_erf); }

static const op_case erf_cases[] = {
    {"erf(f32[2, 5])", NULL},
    {"erf(f32[0])", NULL},
    {"erf(f32[6]{0, 1, -0.5, inf, -inf, nan}) => f32[6]{0, 0.84270079, -0.52049988, 1, -1, nan}",
     NULL},
    {"erf(f16[1]{0}) => f16[1]{0}", NULL},
    {"erf(bf16[3])", NULL},
    {"erf(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_erf = {.infer = infer_unary_float,
                             .ref = ref_erf,
                             .grad = grad_erf,
                             .element = element_erf,
                             CASES(erf_cases)};

/* --- softcap: dx = dy * (1 - (y / cap)^2) --- */
static sn_status infer_softcap(infer_ctx *c) {
  double cap = ATTRS(softcap)->cap;
  if (!(cap > 0) || isinf(cap))
    return infer_fail(c, "cap must be a positive number, got %g", cap);
  return infer_unary_float(c);
}

static sn_status ref_softcap(ref_ctx *c) {
  double cap = ATTRS(softcap)->cap;
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = cap * tanh(c->in[0].data[i] / cap);
  return SN_OK;
}

static void grad_softcap(build_ctx *c) {
  sn_value t = build_scale(c, c->out[0], 1 / ATTRS(softcap)->cap);
  build_din_scaled(c, 0, sn_affine(c->graph, sn_sqr(c->graph, t), -1, 1));
}

static void decompose_softcap(build_ctx *c) {
  double cap = ATTRS(softcap)->cap;
  c->out[0] = build_scale(c, sn_tanh(c->graph, build_scale(c, c->in[0], 1 / cap)), cap);
}

static reg element_softcap(elem_ctx *c, const place *at) {
  reg cap = elem_number_as(c, SN_F32, ATTRS(softcap)->cap);
  reg t = elem_f32(c, ALU_div, elem_input(c, 0, at), cap);
  return elem_alu2(c, ALU_mul, cap, elem_f32(c, ALU_tanh, t, 0));
}

static const op_case softcap_cases[] = {
    {"softcap(f32[2, 5]) cap=1.5", NULL},
    {"softcap(f32[0]) cap=30", NULL},
    {"softcap(f32[5]{0, 2, -2, 1e6, nan}) cap=2 => f32[5]{0, 1.52318831, -1.52318831, 2, nan}",
     NULL},
    {"softcap(f16[1]{-inf}) cap=50 => f16[1]{-50}", NULL},
    {"softcap(bf16[3]) cap=0.5", NULL},
    {"softcap(f32[2]) cap=0", "must be a positive number"},
    {"softcap(f32[2]) cap=-1", "must be a positive number"},
    {"softcap(f32[2]) cap=inf", "must be a positive number"},
    {"softcap(i32[2]) cap=1", "must be f32, f16 or bf16"},
};

const op_impl op_impl_softcap = {.infer = infer_softcap,
                                 .ref = ref_softcap,
                                 .grad = grad_softcap,
                                 .decompose = decompose_softcap,
                                 .element = element_softcap,
                                 CASES(softcap_cases)};
