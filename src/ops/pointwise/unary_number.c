/* neg, abs, sign, sqr: floats and integers. i32 wraps (neg and abs of -2^31 are -2^31), u8 wraps
 * modulo 256. */
#include "ops/pointwise/pointwise.h"

/* --- neg --- */
static double neg_f(double x) { return -x; }
static double neg_i(double x) { return wrap_i32(-(int64_t)x); }
static sn_status ref_neg(ref_ctx *c) { return ref_unary_number(c, neg_f, neg_i); }
static void grad_neg(build_ctx *c) { build_din(c, 0, sn_neg(c->graph, c->dout[0])); }

static reg element_neg(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_neg); }

static const op_case neg_cases[] = {
    {"neg(f32[2, 3])", NULL},
    {"neg(f32[0, 3])", NULL},
    {"neg(f32[4]{1.5, -2, inf, nan}) => f32[4]{-1.5, 2, -inf, nan}", NULL},
    {"neg(f16[3]{0, 1, -65504}) => f16[3]{0, -1, 65504}", NULL},
    {"neg(bf16[1])", NULL},
    {"neg(i32[3]{5, -2147483648, 2147483647}) => i32[3]{-5, -2147483648, -2147483647}", NULL},
    {"neg(u8[3]{0, 1, 200}) => u8[3]{0, 255, 56}", NULL},
    {"neg(bool[2])", "must be a number"},
};

const op_impl op_impl_neg = {.infer = infer_unary_number,
                             .ref = ref_neg,
                             .grad = grad_neg,
                             .element = element_neg,
                             CASES(neg_cases)};

/* --- abs --- */
static double abs_i(double x) { return wrap_i32(x < 0 ? -(int64_t)x : (int64_t)x); }
static sn_status ref_abs(ref_ctx *c) { return ref_unary_number(c, fabs, abs_i); }
static void grad_abs(build_ctx *c) { build_din_scaled(c, 0, sn_sign(c->graph, c->in[0])); }

static reg element_abs(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_abs); }

static const op_case abs_cases[] = {
    {"abs(f32[2, 5])", NULL},
    {"abs(f32[0])", NULL},
    {"abs(f32[5]{-1.5, 2, -inf, nan, -0.0}) => f32[5]{1.5, 2, inf, nan, 0} @kink", NULL},
    {"abs(f16[3]{-1, 0.5, -65504}) => f16[3]{1, 0.5, 65504}", NULL},
    {"abs(bf16[1]{-3}) => bf16[1]{3}", NULL},
    {"abs(i32[3]{-5, -2147483648, 7}) => i32[3]{5, -2147483648, 7}", NULL},
    {"abs(u8[2]{0, 200}) => u8[2]{0, 200}", NULL},
    {"abs(bool[2])", "must be a number"},
};

const op_impl op_impl_abs = {.infer = infer_unary_number,
                             .ref = ref_abs,
                             .grad = grad_abs,
                             .element = element_abs,
                             CASES(abs_cases)};

/* --- sign --- */
static double sign_of(double x) { return isnan(x) ? x : (double)((x > 0) - (x < 0)); }
static sn_status ref_sign(ref_ctx *c) { return ref_unary(c, sign_of); }

static reg element_sign(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_sign); }

static const op_case sign_cases[] = {
    {"sign(f32[3, 5])", NULL},
    {"sign(f32[3, 0])", NULL},
    {"sign(f32[6]{-1.5, 2, -inf, nan, -0.0, 1e-30}) => f32[6]{-1, 1, -1, nan, 0, 1} @kink", NULL},
    {"sign(f16[3]{-0.25, 0, 3}) => f16[3]{-1, 0, 1} @kink", NULL},
    {"sign(bf16[1]{-3}) => bf16[1]{-1}", NULL},
    {"sign(i32[3]{-2147483648, 0, 7}) => i32[3]{-1, 0, 1}", NULL},
    {"sign(u8[2]{0, 200}) => u8[2]{0, 1}", NULL},
    {"sign(bool[2])", "must be a number"},
};

const op_impl op_impl_sign = {.infer = infer_unary_number,
                              .ref = ref_sign,
                              .grad = grad_zero,
                              .element = element_sign,
                              CASES(sign_cases)};

/* --- sqr --- */
static double sqr_f(double x) { return x * x; }
static double sqr_i(double x) { return wrap_i32((int64_t)x * (int64_t)x); }
static sn_status ref_sqr(ref_ctx *c) { return ref_unary_number(c, sqr_f, sqr_i); }
static void grad_sqr(build_ctx *c) { build_din_scaled(c, 0, build_scale(c, c->in[0], 2)); }

static reg element_sqr(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at);
  return elem_alu2(c, ALU_mul, x, x);
}

static const op_case sqr_cases[] = {
    {"sqr(f32[2, 5])", NULL},
    {"sqr(f32[0])", NULL},
    {"sqr(f32[4]{-1.5, 3, -inf, nan}) => f32[4]{2.25, 9, inf, nan}", NULL},
    {"sqr(f16[2]{-3, 300}) => f16[2]{9, inf}", NULL},
    {"sqr(bf16[1]{-3}) => bf16[1]{9}", NULL},
    {"sqr(i32[3]{-5, 65536, 65537}) => i32[3]{25, 0, 131073}", NULL},
    {"sqr(u8[2]{3, 20}) => u8[2]{9, 144}", NULL},
    {"sqr(bool[2])", "must be a number"},
};

const op_impl op_impl_sqr = {.infer = infer_unary_number,
                             .ref = ref_sqr,
                             .grad = grad_sqr,
                             .element = element_sqr,
                             CASES(sqr_cases)};
