/* elu, leaky_relu, hardswish (piecewise), silu, gelu, gelu_tanh, mish (smooth): floats only.
 * relu stands with maximum. The last five are x times a gate that goes to 0 at -infinity; there
 * they give NaN, as the product does. Gradients are closed forms, so that training needs no
 * intermediate values but these. */
#include "ops/pointwise/pointwise.h"

static const double ROOT_HALF = 0.707106781186547524401;      /* sqrt(1/2) */
static const double BELL = 0.398942280401432677940;           /* 1/sqrt(2 pi) */
static const double ROOT_2_OVER_PI = 0.797884560802865355880; /* sqrt(2/pi) */
static const double CUBIC = 0.044715;                         /* of the tanh form of GELU */

static sn_value above_zero(build_ctx *c) {
  return sn_gt(c->graph, c->in[0], build_scalar_like(c, c->in[0], 0));
}

/* --- elu: dx = dy above 0, else dy * (y + alpha) --- */
static sn_status infer_elu(infer_ctx *c) {
  if (!isfinite(ATTRS(elu)->alpha))
    return infer_fail(c, "alpha must be finite, got %g", ATTRS(elu)->alpha);
  return infer_unary_float(c);
}

static sn_status ref_elu(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++) {
    double x = c->in[0].data[i];
    c->out[0].data[i] = x > 0 ? x : ATTRS(elu)->alpha * expm1(x);
  }
  return SN_OK;
}

static void grad_elu(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value below = sn_mul(g, c->dout[0], sn_affine(g, c->out[0], 1, ATTRS(elu)->alpha));
  build_din(c, 0, sn_where(g, above_zero(c), c->dout[0], below));
}

/* x above 0, else `below`, which is f32; NaN is not above. */
static reg element_above_zero(elem_ctx *c, reg x, reg below) {
  reg zero = elem_number_as(c, SN_F32, 0);
  reg above = elem_alu_as(c, ALU_gt, SN_BOOL, x, zero, 0, 0, 0);
  return elem_alu3(c, ALU_select, above, x, below);
}

static reg element_elu(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at), alpha = elem_number_as(c, SN_F32, ATTRS(elu)->alpha);
  reg below = elem_f32(c, ALU_mul, alpha, elem_f32(c, ALU_expm1, x, 0));
  return element_above_zero(c, x, below);
}

static const op_case elu_cases[] = {
    {"elu(f32[2, 7]) alpha=1", NULL},
    {"elu(f32[5]) alpha=0.3", NULL},
    {"elu(f32[0]) alpha=1", NULL},
    {"elu(f32[6]{0, 2, -1, inf, -inf, nan}) alpha=1 => f32[6]{0, 2, -0.63212056, inf, -1, nan} "
     "@kink",
     NULL},
    {"elu(f32[2]{-2, 3}) alpha=0.5 => f32[2]{-0.43233236, 3}", NULL},
    {"elu(f16[1]{-20}) alpha=2 => f16[1]{-2}", NULL},
    {"elu(bf16[3]) alpha=-1", NULL},
    {"elu(f32[2]) alpha=inf", "must be finite"},
    {"elu(i32[2]) alpha=1", "must be f32, f16 or bf16"},
};

const op_impl op_impl_elu = {
    .infer = infer_elu, .ref = ref_elu, .grad = grad_elu, .element = element_elu, CASES(elu_cases)};

/* --- leaky_relu --- */
static sn_status infer_leaky_relu(infer_ctx *c) {
  if (!isfinite(ATTRS(leaky_relu)->slope))
    return infer_fail(c, "slope must be finite, got %g", ATTRS(leaky_relu)->slope);
  return infer_unary_float(c);
}

static sn_status ref_leaky_relu(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++) {
    double x = c->in[0].data[i];
    c->out[0].data[i] = x > 0 ? x : ATTRS(leaky_relu)->slope * x;
  }
  return SN_OK;
}

static void grad_leaky_relu(build_ctx *c) {
  sn_value below = build_scale(c, c->dout[0], ATTRS(leaky_relu)->slope);
  build_din(c, 0, sn_where(c->graph, above_zero(c), c->dout[0], below));
}

static reg element_leaky_relu(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at), slope = elem_number_as(c, SN_F32, ATTRS(leaky_relu)->slope);
  return element_above_zero(c, x, elem_f32(c, ALU_mul, slope, x));
}

static const op_case leaky_relu_cases[] = {
    {"leaky_relu(f32[2, 7]) slope=0.01", NULL},
    {"leaky_relu(f32[5]) slope=-0.5", NULL},
    {"leaky_relu(f32[0]) slope=0.1", NULL},
    {"leaky_relu(f32[6]{0, 2, -1, inf, -inf, nan}) slope=0.25 => "
     "f32[6]{0, 2, -0.25, inf, -inf, nan} @kink",
     NULL},
    {"leaky_relu(f16[1]{-20}) slope=2 => f16[1]{-40}", NULL},
    {"leaky_relu(bf16[3]) slope=0", NULL},
    {"leaky_relu(f32[2]) slope=nan", "must be finite"},
    {"leaky_relu(i32[2]) slope=1", "must be f32, f16 or bf16"},
};

const op_impl op_impl_leaky_relu = {.infer = infer_leaky_relu,
                                    .ref = ref_leaky_relu,
                                    .grad = grad_leaky_relu,
                                    .element = element_leaky_relu,
                                    CASES(leaky_relu_cases)};

/* --- hardswish: slope x/3 + 1/2 on the closed interval -3 … 3, 0 below, 1 above --- */
static double hardswish(double x) { return x * fmin(fmax(x + 3, 0), 6) / 6; }
static sn_status ref_hardswish(ref_ctx *c) { return ref_unary(c, hardswish); }

static void grad_hardswish(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = c->in[0];
  sn_value inside = sn_le(g, sn_abs(g, x), build_scalar_like(c, x, 3));
  sn_value outside = sn_cast(g, above_zero(c), build_dtype(c, x));
  build_din_scaled(c, 0, sn_where(g, inside, sn_affine(g, x, 1.0 / 3, 0.5), outside));
}

static void decompose_hardswish(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value gate = sn_clamp(g, sn_affine(g, c->in[0], 1, 3), 0, 6);
  c->out[0] = build_scale(c, sn_mul(g, c->in[0], gate), 1.0 / 6);
}

/* The gate is divided first: x * 6 could overflow. */
static reg element_hardswish(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at), six = elem_number_as(c, SN_F32, 6);
  reg gate = elem_f32(c, ALU_add, x, elem_number_as(c, SN_F32, 3));
  gate = elem_f32(c, ALU_max, gate, elem_number_as(c, SN_F32, 0));
  gate = elem_f32(c, ALU_div, elem_f32(c, ALU_min, gate, six), six);
  return elem_alu2(c, ALU_mul, x, gate);
}

static const op_case hardswish_cases[] = {
    {"hardswish(f32[3, 7](-5, 5))", NULL},
    {"hardswish(f32[0])", NULL},
    {"hardswish(f32[8]{-4, -3, -1.5, 0, 1, 3, 4, inf}) => "
     "f32[8]{0, 0, -0.375, 0, 0.66666667, 3, 4, inf} @kink",
     NULL},
    {"hardswish(f32[2]{nan, -inf}) => f32[2]{nan, nan}", NULL},
    {"hardswish(f16[1]{-2}) => f16[1]{-0.33325195}", NULL},
    {"hardswish(bf16[3])", NULL},
    {"hardswish(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_hardswish = {.infer = infer_unary_float,
                                   .ref = ref_hardswish,
                                   .grad = grad_hardswish,
                                   .decompose = decompose_hardswish,
                                   .element = element_hardswish,
                                   CASES(hardswish_cases)};

/* --- silu: with s = sigmoid(x), dx = dy * (s + y * (1 - s)) --- */
static double silu(double x) {
  double e = exp(-fabs(x));
  return x * ((x < 0 ? e : 1) / (1 + e));
}
static sn_status ref_silu(ref_ctx *c) { return ref_unary(c, silu); }

static void grad_silu(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value s = sn_sigmoid(g, c->in[0]);
  build_din_scaled(c, 0, sn_add(g, s, sn_mul(g, c->out[0], sn_affine(g, s, -1, 1))));
}

static void decompose_silu(build_ctx *c) {
  c->out[0] = sn_mul(c->graph, c->in[0], sn_sigmoid(c->graph, c->in[0]));
}

static reg element_silu(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at);
  return elem_alu2(c, ALU_mul, x, elem_f32(c, ALU_sigmoid, x, 0));
}

static const op_case silu_cases[] = {
    {"silu(f32[2, 7](-4, 4))", NULL},
    {"silu(f32[0])", NULL},
    {"silu(f32[5]{0, 1, -1, 2, -3}) => f32[5]{0, 0.73105858, -0.26894142, 1.76159416, -0.14227762}",
     NULL},
    {"silu(f32[5]{1000, -1000, inf, -inf, nan}) => f32[5]{1000, 0, inf, nan, nan}", NULL},
    {"silu(f16[1]{100}) => f16[1]{100}", NULL},
    {"silu(bf16[3])", NULL},
    {"silu(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_silu = {.infer = infer_unary_float,
                              .ref = ref_silu,
                              .grad = grad_silu,
                              .decompose = decompose_silu,
                              .element = element_silu,
                              CASES(silu_cases)};

/* --- gelu: dx = dy * (Phi(x) + x * phi(x)) --- */
static double gelu(double x) { return x * 0.5 * erfc(-x * ROOT_HALF); }
static sn_status ref_gelu(ref_ctx *c) { return ref_unary(c, gelu); }

static sn_value normal_cdf(build_ctx *c) {
  sn_graph *g = c->graph;
  return sn_affine(g, sn_erf(g, build_scale(c, c->in[0], ROOT_HALF)), 0.5, 0.5);
}

static void grad_gelu(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value bell = build_scale(c, sn_exp(g, build_scale(c, sn_sqr(g, c->in[0]), -0.5)), BELL);
  build_din_scaled(c, 0, sn_add(g, normal_cdf(c), sn_mul(g, c->in[0], bell)));
}

static void decompose_gelu(build_ctx *c) { c->out[0] = sn_mul(c->graph, c->in[0], normal_cdf(c)); }

static reg element_gelu(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at), half = elem_number_as(c, SN_F32, 0.5);
  reg t = elem_f32(c, ALU_mul, x, elem_number_as(c, SN_F32, ROOT_HALF));
  reg gate = elem_f32(c, ALU_mul, elem_f32(c, ALU_erf, t, 0), half);
  return elem_alu2(c, ALU_mul, x, elem_f32(c, ALU_add, gate, half));
}

static const op_case gelu_cases[] = {
    {"gelu(f32[2, 7](-4, 4))", NULL},
    {"gelu(f32[0])", NULL},
    {"gelu(f32[5]{0, 1, -1, 2, -3}) => f32[5]{0, 0.84134475, -0.15865525, 1.95449974, -0.00404969}",
     NULL},
    {"gelu(f32[5]{100, -100, inf, -inf, nan}) => f32[5]{100, 0, inf, nan, nan}", NULL},
    {"gelu(f16[1]{100}) => f16[1]{100}", NULL},
    {"gelu(bf16[3])", NULL},
    {"gelu(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_gelu = {.infer = infer_unary_float,
                              .ref = ref_gelu,
                              .grad = grad_gelu,
                              .decompose = decompose_gelu,
                              .element = element_gelu,
                              CASES(gelu_cases)};

/* --- gelu_tanh: with u = sqrt(2/pi) * (x + k x^3) and t = tanh(u), y = x (1 + t) / 2 and
 * dx = dy * ((1 + t) / 2 + x (1 - t^2) / 2 * sqrt(2/pi) * (1 + 3 k x^2)) --- */
static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(ROOT_2_OVER_PI * (x + CUBIC * x * x * x)));
}
static sn_status ref_gelu_tanh(ref_ctx *c) { return ref_unary(c, gelu_tanh); }

static sn_value gelu_tanh_gate(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value slope = sn_affine(g, sn_sqr(g, c->in[0]), ROOT_2_OVER_PI * CUBIC, ROOT_2_OVER_PI);
  return sn_tanh(g, sn_mul(g, c->in[0], slope));
}

static void grad_gelu_tanh(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = c->in[0], t = gelu_tanh_gate(c);
  sn_value du = sn_affine(g, sn_sqr(g, x), 1.5 * ROOT_2_OVER_PI * CUBIC, 0.5 * ROOT_2_OVER_PI);
  sn_value dt = sn_mul(g, sn_affine(g, sn_sqr(g, t), -1, 1), du);
  build_din_scaled(c, 0, sn_add(g, sn_affine(g, t, 0.5, 0.5), sn_mul(g, x, dt)));
}

static void decompose_gelu_tanh(build_ctx *c) {
  sn_graph *g = c->graph;
  c->out[0] = sn_mul(g, c->in[0], sn_affine(g, gelu_tanh_gate(c), 0.5, 0.5));
}

/* (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits below 0. */
static reg element_gelu_tanh(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at), cubic = elem_number_as(c, SN_F32, 2 * ROOT_2_OVER_PI * CUBIC);
  reg slope = elem_f32(c, ALU_mul, elem_f32(c, ALU_mul, x, x), cubic);
  slope = elem_f32(c, ALU_add, slope, elem_number_as(c, SN_F32, 2 * ROOT_2_OVER_PI));
  reg gate = elem_f32(c, ALU_sigmoid, elem_f32(c, ALU_mul, x, slope), 0);
  return elem_alu2(c, ALU_mul, x, gate);
}

static const op_case gelu_tanh_cases[] = {
    {"gelu_tanh(f32[2, 7](-4, 4))", NULL},
    {"gelu_tanh(f32[0])", NULL},
    {"gelu_tanh(f32[5]{0, 1, -1, 2, -3}) => "
     "f32[5]{0, 0.84119199, -0.15880801, 1.95459769, -0.00363739}",
     NULL},
    {"gelu_tanh(f32[5]{100, -100, inf, -inf, nan}) => f32[5]{100, 0, inf, nan, nan}", NULL},
    {"gelu_tanh(f16[1]{100}) => f16[1]{100}", NULL},
    {"gelu_tanh(bf16[3])", NULL},
    {"gelu_tanh(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_gelu_tanh = {.infer = infer_unary_float,
                                   .ref = ref_gelu_tanh,
                                   .grad = grad_gelu_tanh,
                                   .decompose = decompose_gelu_tanh,
                                   .element = element_gelu_tanh,
                                   CASES(gelu_tanh_cases)};

/* --- mish: with t = tanh(softplus(x)), dx = dy * (t + x * (1 - t^2) * sigmoid(x)) --- */
static double mish(double x) { return isnan(x) ? x : x * tanh(fmax(x, 0) + log1p(exp(-fabs(x)))); }
static sn_status ref_mish(ref_ctx *c) { return ref_unary(c, mish); }

static void grad_mish(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = c->in[0], t = sn_tanh(g, sn_softplus(g, x));
  sn_value dt = sn_mul(g, sn_affine(g, sn_sqr(g, t), -1, 1), sn_sigmoid(g, x));
  build_din_scaled(c, 0, sn_add(g, t, sn_mul(g, x, dt)));
}

static void decompose_mish(build_ctx *c) {
  sn_graph *g = c->graph;
  c->out[0] = sn_mul(g, c->in[0], sn_tanh(g, sn_softplus(g, c->in[0])));
}

static reg element_mish(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at);
  reg gate = elem_f32(c, ALU_tanh, elem_f32(c, ALU_softplus, x, 0), 0);
  return elem_alu2(c, ALU_mul, x, gate);
}

static const op_case mish_cases[] = {
    {"mish(f32[2, 7](-4, 4))", NULL},
    {"mish(f32[0])", NULL},
    {"mish(f32[5]{0, 1, -1, 2, -3}) => f32[5]{0, 0.86509839, -0.30340146, 1.94395896, -0.14564746}",
     NULL},
    {"mish(f32[5]{100, -1000, inf, -inf, nan}) => f32[5]{100, 0, inf, nan, nan}", NULL},
    {"mish(f16[1]{100}) => f16[1]{100}", NULL},
    {"mish(bf16[3])", NULL},
    {"mish(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_mish = {.infer = infer_unary_float,
                              .ref = ref_mish,
                              .grad = grad_mish,
                              .decompose = decompose_mish,
                              .element = element_mish,
                              CASES(mish_cases)};
