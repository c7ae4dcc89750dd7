/* exp, exp2, expm1, log, log2, log1p: floats only. */
#include "ops/pointwise/pointwise.h"

static const double LN2 = 0.693147180559945309417;

/* --- exp --- */
static sn_status ref_exp(ref_ctx *c) { return ref_unary(c, exp); }
static void grad_exp(build_ctx *c) { build_din_scaled(c, 0, c->out[0]); }

static reg element_exp(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_exp); }

static const op_case exp_cases[] = {
    {"exp(f32[2, 5])", NULL},
    {"exp(f32[0])", NULL},
    {"exp(f32[7]{0, 1, -1, inf, -inf, nan, 89}) => f32[7]{1, 2.71828183, 0.36787944, inf, 0, nan, "
     "inf}",
     NULL},
    {"exp(f16[2]{0, 12}) => f16[2]{1, inf}", NULL},
    {"exp(bf16[1])", NULL},
    {"exp(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_exp = {.infer = infer_unary_float,
                             .ref = ref_exp,
                             .grad = grad_exp,
                             .element = element_exp,
                             CASES(exp_cases)};

/* --- exp2 --- */
static sn_status ref_exp2(ref_ctx *c) { return ref_unary(c, exp2); }
static void grad_exp2(build_ctx *c) { build_din_scaled(c, 0, build_scale(c, c->out[0], LN2)); }

static reg element_exp2(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_exp2); }

static const op_case exp2_cases[] = {
    {"exp2(f32[2, 5])", NULL},
    {"exp2(f32[0])", NULL},
    {"exp2(f32[7]{0, 3, -1, inf, -inf, nan, 0.5}) => f32[7]{1, 8, 0.5, inf, 0, nan, 1.41421356}",
     NULL},
    {"exp2(f16[2]{4, 16}) => f16[2]{16, inf}", NULL},
    {"exp2(bf16[1])", NULL},
    {"exp2(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_exp2 = {.infer = infer_unary_float,
                              .ref = ref_exp2,
                              .grad = grad_exp2,
                              .element = element_exp2,
                              CASES(exp2_cases)};

/* --- expm1 --- */
static sn_status ref_expm1(ref_ctx *c) { return ref_unary(c, expm1); }
static void grad_expm1(build_ctx *c) {
  build_din_scaled(c, 0, sn_affine(c->graph, c->out[0], 1, 1));
}

static reg element_expm1(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_expm1); }

static const op_case expm1_cases[] = {
    {"expm1(f32[2, 5])", NULL},
    {"expm1(f32[0])", NULL},
    {"expm1(f32[7]{1, 2, inf, 0, -inf, nan, -0.5}) => f32[7]{1.71828183, 6.38905610, inf, 0, -1, "
     "nan, -0.39346934}",
     NULL},
    {"expm1(f16[3]{0, 2, 3}) => f16[3]{0, 6.390625, 19.078125}", NULL},
    {"expm1(bf16[1])", NULL},
    {"expm1(u8[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_expm1 = {.infer = infer_unary_float,
                               .ref = ref_expm1,
                               .grad = grad_expm1,
                               .element = element_expm1,
                               CASES(expm1_cases)};

/* --- log --- */
static sn_status ref_log(ref_ctx *c) { return ref_unary(c, log); }
static void grad_log(build_ctx *c) { build_din(c, 0, sn_div(c->graph, c->dout[0], c->in[0])); }

static reg element_log(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_log); }

static const op_case log_cases[] = {
    {"log(f32[2, 5](0.25, 4))", NULL},
    {"log(f32[0])", NULL},
    {"log(f32[6]{1, 10, 0, inf, -1, nan}) => f32[6]{0, 2.30258509, -inf, inf, nan, nan} @kink",
     NULL},
    {"log(f16[2]{1, 0.5}) => f16[2]{0, -0.693359375}", NULL},
    {"log(bf16[1](1, 2))", NULL},
    {"log(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_log = {.infer = infer_unary_float,
                             .ref = ref_log,
                             .grad = grad_log,
                             .element = element_log,
                             CASES(log_cases)};

/* --- log2 --- */
static sn_status ref_log2(ref_ctx *c) { return ref_unary(c, log2); }
static void grad_log2(build_ctx *c) {
  build_din(c, 0, sn_div(c->graph, build_scale(c, c->dout[0], 1 / LN2), c->in[0]));
}

static reg element_log2(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_log2); }

static const op_case log2_cases[] = {
    {"log2(f32[2, 5](0.25, 4))", NULL},
    {"log2(f32[0])", NULL},
    {"log2(f32[6]{1, 10, 0, inf, -1, nan}) => f32[6]{0, 3.32192809, -inf, inf, nan, nan} @kink",
     NULL},
    {"log2(f16[2]{8, 0.5}) => f16[2]{3, -1}", NULL},
    {"log2(bf16[1](1, 2))", NULL},
    {"log2(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_log2 = {.infer = infer_unary_float,
                              .ref = ref_log2,
                              .grad = grad_log2,
                              .element = element_log2,
                              CASES(log2_cases)};

/* --- log1p --- */
static sn_status ref_log1p(ref_ctx *c) { return ref_unary(c, log1p); }
static void grad_log1p(build_ctx *c) {
  build_din(c, 0, sn_div(c->graph, c->dout[0], sn_affine(c->graph, c->in[0], 1, 1)));
}

static reg element_log1p(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_log1p); }

static const op_case log1p_cases[] = {
    {"log1p(f32[2, 5](-0.75, 4))", NULL},
    {"log1p(f32[0])", NULL},
    {"log1p(f32[6]{0, 9, -1, inf, -2, nan}) => f32[6]{0, 2.30258509, -inf, inf, nan, nan} @kink",
     NULL},
    {"log1p(f16[2]{0, -0.5}) => f16[2]{0, -0.693359375}", NULL},
    {"log1p(bf16[1](1, 2))", NULL},
    {"log1p(bool[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_log1p = {.infer = infer_unary_float,
                               .ref = ref_log1p,
                               .grad = grad_log1p,
                               .element = element_log1p,
                               CASES(log1p_cases)};
