/* sin, cos, tan, atan, atan2: floats only, angles in radians. */
#include "ops/pointwise/pointwise.h"

/* --- sin and cos --- */
static sn_status ref_sin(ref_ctx *c) { return ref_unary(c, sin); }
static sn_status ref_cos(ref_ctx *c) { return ref_unary(c, cos); }
static void grad_sin(build_ctx *c) { build_din_scaled(c, 0, sn_cos(c->graph, c->in[0])); }
static void grad_cos(build_ctx *c) {
  build_din_scaled(c, 0, sn_neg(c->graph, sn_sin(c->graph, c->in[0])));
}

static reg element_sin(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_sin); }
static reg element_cos(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_cos); }

static const op_case sin_cases[] = {
    {"sin(f32[2, 5](-4, 4))", NULL},
    {"sin(f32[0])", NULL},
    {"sin(f32[5]{0, 1, 1.57079633, inf, nan}) => f32[5]{0, 0.84147098, 1, nan, nan}", NULL},
    {"sin(f32[2]{100, -1000000}) => f32[2]{-0.50636564, 0.34999350}", NULL},
    {"sin(f16[1]{0}) => f16[1]{0}", NULL},
    {"sin(bf16[3])", NULL},
    {"sin(i32[2])", "must be f32, f16 or bf16"},
};
static const op_case cos_cases[] = {
    {"cos(f32[2, 5](-4, 4))", NULL},
    {"cos(f32[0])", NULL},
    {"cos(f32[5]{0, 1, 3.14159265, inf, nan}) => f32[5]{1, 0.54030231, -1, nan, nan}", NULL},
    {"cos(f32[2]{100, -1000000}) => f32[2]{0.86231887, 0.93675213}", NULL},
    {"cos(f16[1]{0}) => f16[1]{1}", NULL},
    {"cos(bf16[3])", NULL},
    {"cos(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_sin = {.infer = infer_unary_float,
                             .ref = ref_sin,
                             .grad = grad_sin,
                             .element = element_sin,
                             CASES(sin_cases)};
const op_impl op_impl_cos = {.infer = infer_unary_float,
                             .ref = ref_cos,
                             .grad = grad_cos,
                             .element = element_cos,
                             CASES(cos_cases)};

/* --- tan: dx = dy * (1 + y^2) --- */
static sn_status ref_tan(ref_ctx *c) { return ref_unary(c, tan); }
static void grad_tan(build_ctx *c) {
  build_din_scaled(c, 0, sn_affine(c->graph, sn_sqr(c->graph, c->out[0]), 1, 1));
}

static reg element_tan(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_tan); }

static const op_case tan_cases[] = {
    {"tan(f32[2, 5](-1.25, 1.25))", NULL},
    {"tan(f32[0])", NULL},
    {"tan(f32[5]{0, 1, 0.78539816, inf, nan}) => f32[5]{0, 1.55740772, 1, nan, nan}", NULL},
    {"tan(f16[1]{0}) => f16[1]{0}", NULL},
    {"tan(bf16[3](-1, 1))", NULL},
    {"tan(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_tan = {.infer = infer_unary_float,
                             .ref = ref_tan,
                             .grad = grad_tan,
                             .element = element_tan,
                             CASES(tan_cases)};

/* --- atan: dx = dy / (1 + x^2) --- */
static sn_status ref_atan(ref_ctx *c) { return ref_unary(c, atan); }
static void grad_atan(build_ctx *c) {
  sn_value d = sn_affine(c->graph, sn_sqr(c->graph, c->in[0]), 1, 1);
  build_din(c, 0, sn_div(c->graph, c->dout[0], d));
}

static reg element_atan(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_atan); }

static const op_case atan_cases[] = {
    {"atan(f32[2, 5](-3, 3))", NULL},
    {"atan(f32[0])", NULL},
    {"atan(f32[5]{0, 1, inf, -inf, nan}) => f32[5]{0, 0.78539816, 1.57079633, -1.57079633, nan}",
     NULL},
    {"atan(f16[1]{0}) => f16[1]{0}", NULL},
    {"atan(bf16[3])", NULL},
    {"atan(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_atan = {.infer = infer_unary_float,
                              .ref = ref_atan,
                              .grad = grad_atan,
                              .element = element_atan,
                              CASES(atan_cases)};

/* --- atan2: da = dy * b / (a^2 + b^2),  db = -dy * a / (a^2 + b^2) --- */
static sn_status ref_atan2(ref_ctx *c) { return ref_binary(c, atan2, NULL); }

static void grad_atan2(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value a = c->in[0], b = c->in[1];
  sn_value part = sn_div(g, c->dout[0], sn_add(g, sn_sqr(g, a), sn_sqr(g, b)));
  if (c->need[0])
    build_din(c, 0, sn_mul(g, part, b));
  if (c->need[1])
    build_din(c, 1, sn_neg(g, sn_mul(g, part, a)));
}

static reg element_atan2(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_atan2); }

static const op_case atan2_cases[] = {
    {"atan2(f32[2, 3](-2, -0.5), f32[2, 3])", NULL},
    {"atan2(f32[2, 1, 3], f32[5, 1](0.5, 2))", NULL},
    {"atan2(f32[0, 3], f32[1])", NULL},
    {"atan2(f32[6]{1, 1, -1, -1, 0, 0}, f32[6]{1, -1, 1, -1, -1, 0}) => f32[6]{0.78539816, "
     "2.35619449, -0.78539816, -2.35619449, 3.14159265, 0} @kink",
     NULL},
    {"atan2(f32[3]{inf, nan, 1}, f32[3]{1, 1, -inf}) => f32[3]{1.57079633, nan, 3.14159265}", NULL},
    {"atan2(f16[1]{0}, f16[1]{2}) => f16[1]{0}", NULL},
    {"atan2(bf16[3](1, 2), bf16[1])", NULL},
    {"atan2(f32[2], f32[3])", "do not broadcast"},
    {"atan2(f32[2], f16[2])", "dtypes differ"},
    {"atan2(i32[2], i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_atan2 = {.infer = infer_binary_float,
                               .ref = ref_atan2,
                               .grad = grad_atan2,
                               .element = element_atan2,
                               CASES(atan2_cases)};
