/* recip, sqrt, rsqrt, powf, pow: floats only. */
#include "ops/pointwise/pointwise.h"

/* --- recip --- */
static double recip_of(double x) { return 1 / x; }
static sn_status ref_recip(ref_ctx *c) { return ref_unary(c, recip_of); }

/* dx = -dy * y^2 */
static void grad_recip(build_ctx *c) {
  build_din_scaled(c, 0, sn_neg(c->graph, sn_sqr(c->graph, c->out[0])));
}

static reg element_recip(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_recip); }

static const op_case recip_cases[] = {
    {"recip(f32[2, 5](0.5, 3))", NULL},
    {"recip(f32[3](-3, -0.5))", NULL},
    {"recip(f32[0])", NULL},
    {"recip(f32[6]{4, -0.5, 0, -0.0, -inf, nan}) => f32[6]{0.25, -2, inf, -inf, 0, nan}", NULL},
    {"recip(f16[2]{2, -8}) => f16[2]{0.5, -0.125}", NULL},
    {"recip(bf16[1](1, 2))", NULL},
    {"recip(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_recip = {.infer = infer_unary_float,
                               .ref = ref_recip,
                               .grad = grad_recip,
                               .element = element_recip,
                               CASES(recip_cases)};

/* --- sqrt --- */
static sn_status ref_sqrt(ref_ctx *c) { return ref_unary(c, sqrt); }
static void grad_sqrt(build_ctx *c) {
  build_din(c, 0, sn_div(c->graph, build_scale(c, c->dout[0], 0.5), c->out[0]));
}

static reg element_sqrt(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_sqrt); }

static const op_case sqrt_cases[] = {
    {"sqrt(f32[2, 5](0.5, 3))", NULL},
    {"sqrt(f32[0])", NULL},
    {"sqrt(f32[6]{4, 2, 0, inf, -1, nan}) => f32[6]{2, 1.41421356, 0, inf, nan, nan} @kink", NULL},
    {"sqrt(f16[2]{2.25, 64}) => f16[2]{1.5, 8}", NULL},
    {"sqrt(bf16[1](1, 2))", NULL},
    {"sqrt(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_sqrt = {.infer = infer_unary_float,
                              .ref = ref_sqrt,
                              .grad = grad_sqrt,
                              .element = element_sqrt,
                              CASES(sqrt_cases)};

/* --- rsqrt --- */
static double rsqrt_of(double x) { return 1 / sqrt(x); }
static sn_status ref_rsqrt(ref_ctx *c) { return ref_unary(c, rsqrt_of); }

/* dx = -dy/2 * y^3 */
static void grad_rsqrt(build_ctx *c) {
  sn_graph *g = c->graph;
  build_din_scaled(c, 0, sn_mul(g, build_scale(c, c->out[0], -0.5), sn_sqr(g, c->out[0])));
}

static reg element_rsqrt(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_rsqrt); }

static const op_case rsqrt_cases[] = {
    {"rsqrt(f32[2, 5](0.5, 3))", NULL},
    {"rsqrt(f32[0])", NULL},
    {"rsqrt(f32[6]{4, 2, 0, inf, -1, nan}) => f32[6]{0.5, 0.70710678, inf, 0, nan, nan} @kink",
     NULL},
    {"rsqrt(f16[2]{0.0625, 64}) => f16[2]{4, 0.125}", NULL},
    {"rsqrt(bf16[1](1, 2))", NULL},
    {"rsqrt(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_rsqrt = {.infer = infer_unary_float,
                               .ref = ref_rsqrt,
                               .grad = grad_rsqrt,
                               .element = element_rsqrt,
                               CASES(rsqrt_cases)};

/* --- powf: C's pow; x^0 is 1 for every x, NaN included --- */
static sn_status infer_powf(infer_ctx *c) {
  if (!isfinite(ATTRS(powf)->exponent))
    return infer_fail(c, "exponent must be finite, got %g", ATTRS(powf)->exponent);
  return infer_unary_float(c);
}

static sn_status ref_powf(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = pow(c->in[0].data[i], ATTRS(powf)->exponent);
  return SN_OK;
}

/* dx = dy * e * x^(e-1); a constant has no gradient, whatever x^-1 is. */
static void grad_powf(build_ctx *c) {
  double e = ATTRS(powf)->exponent;
  if (e != 0)
    build_din_scaled(c, 0, build_scale(c, sn_powf(c->graph, c->in[0], e - 1), e));
}

/* Exponents for which pow is that very function, at infinities too. */
static reg element_powf(elem_ctx *c, const place *at) {
  double e = ATTRS(powf)->exponent;
  reg x = elem_input(c, 0, at);
  if (e == 1)
    return x;
  if (e == 2)
    return elem_alu2(c, ALU_mul, x, x);
  if (e == 3)
    return elem_alu2(c, ALU_mul, x, elem_f32(c, ALU_mul, x, x));
  if (e == -1)
    return elem_alu1(c, ALU_recip, x);
  return elem_alu2(c, ALU_pow, x, elem_number_as(c, SN_F32, e));
}

static const op_case powf_cases[] = {
    {"powf(f32[2, 5](0.5, 3)) exponent=-1.5", NULL},
    {"powf(f32[7]) exponent=3", NULL},
    {"powf(f32[3]{0, 1, -2}) exponent=0 => f32[3]{1, 1, 1}", NULL},
    {"powf(f32[3]{0, 1, -2}) exponent=1 => f32[3]{0, 1, -2}", NULL},
    {"powf(f32[0]) exponent=2", NULL},
    {"powf(f32[4]{-2, 0, nan, -inf}) exponent=3 => f32[4]{-8, 0, nan, -inf}", NULL},
    {"powf(f32[4]{-2, 0, nan, 4}) exponent=0.5 => f32[4]{nan, 0, nan, 2} @kink", NULL},
    {"powf(f32[1]{nan}) exponent=0 => f32[1]{1}", NULL},
    {"powf(f16[2]{3, 300}) exponent=2 => f16[2]{9, inf}", NULL},
    {"powf(bf16[1]{3}) exponent=2 => bf16[1]{9}", NULL},
    {"powf(f32[2]) exponent=inf", "must be finite"},
    {"powf(i32[2]) exponent=2", "must be f32, f16 or bf16"},
};

const op_impl op_impl_powf = {.infer = infer_powf,
                              .ref = ref_powf,
                              .grad = grad_powf,
                              .element = element_powf,
                              CASES(powf_cases)};

/* --- pow --- */
static sn_status ref_pow(ref_ctx *c) { return ref_binary(c, pow, NULL); }

/* da = dy * b * a^(b-1), 0 where b is 0; db = dy * y * log(a), 0 where a is 0 and b is not
 * negative: the limits there, where the formulas give 0 * inf. */
static void grad_pow(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value a = c->in[0], b = c->in[1], zero = build_scalar_like(c, a, 0);
  if (c->need[0]) {
    sn_value slope = sn_mul(g, b, sn_pow(g, a, sn_affine(g, b, 1, -1)));
    build_din_scaled(c, 0, build_where_or_zero(c, sn_ne(g, b, zero), slope));
  }
  if (c->need[1]) {
    sn_value flat = sn_logical_and(g, sn_eq(g, a, zero), sn_ge(g, b, zero));
    sn_value slope = sn_mul(g, c->out[0], sn_log(g, a));
    build_din_scaled(c, 1, build_where_or_zero(c, sn_logical_not(g, flat), slope));
  }
}

static reg element_pow(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_pow); }

static const op_case pow_cases[] = {
    {"pow(f32[2, 3](0.5, 3), f32[2, 3])", NULL},
    {"pow(f32[5, 1, 3](0.5, 3), f32[2, 1])", NULL},
    {"pow(f32[7](0.5, 3), f32[])", NULL},
    {"pow(f32[0, 3], f32[1])", NULL},
    {"pow(f32[6]{2, -2, -2, 0, 4, 9}, f32[6]{-1, 3, 2, 0, 0.5, 1.5}) => "
     "f32[6]{0.5, -8, 4, 1, 2, 27} @kink",
     NULL},
    {"pow(f32[6]{-2, 0, nan, 1, inf, 0}, f32[6]{0.5, -1, 0, nan, -1, 2}) => "
     "f32[6]{nan, inf, 1, 1, 0, 0} @kink",
     NULL},
    {"pow(f16[2]{3, 300}, f16[1]{2}) => f16[2]{9, inf}", NULL},
    {"pow(bf16[1]{3}, bf16[1]{2}) => bf16[1]{9}", NULL},
    {"pow(f32[2], f16[2])", "dtypes differ"},
    {"pow(f32[2], f32[3])", "do not broadcast"},
    {"pow(i32[2], i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_pow = {.infer = infer_binary_float,
                             .ref = ref_pow,
                             .grad = grad_pow,
                             .element = element_pow,
                             CASES(pow_cases)};
