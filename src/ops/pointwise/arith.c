/* add, sub, mul: floats and integers, broadcast; i32 wraps. */
#include "ops/pointwise/pointwise.h"

/* --- add --- */
static double add_f(double a, double b) { return a + b; }
static double add_i(double a, double b) { return wrap_i32((int64_t)a + (int64_t)b); }
static sn_status ref_add(ref_ctx *c) { return ref_binary(c, add_f, add_i); }

static void grad_add(build_ctx *c) {
  build_din(c, 0, c->dout[0]);
  build_din(c, 1, c->dout[0]);
}

static reg element_add(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_add); }

static const op_case add_cases[] = {
    {"add(f32[2, 3], f32[2, 3])", NULL},
    {"add(f32[5, 1, 3], f32[7, 1])", NULL},
    {"add(f32[], f32[2])", NULL},
    {"add(f32[0, 3], f32[1])", NULL},
    {"add(bf16[7], bf16[7])", NULL},
    {"add(f16[7], f16[1])", NULL},
    {"add(i32[3]{2147483647, -5, 7}, i32[3]{1, 2, 3})", NULL},
    {"add(u8[2]{250, 3}, u8[2]{10, 4})", NULL},
    {"add(f32[2], f32[3])", "do not broadcast"},
    {"add(f32[2], i32[2])", "dtypes differ"},
    {"add(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_add = {.infer = infer_binary_number,
                             .ref = ref_add,
                             .grad = grad_add,
                             .element = element_add,
                             CASES(add_cases)};

/* --- sub --- */
static double sub_f(double a, double b) { return a - b; }
static double sub_i(double a, double b) { return wrap_i32((int64_t)a - (int64_t)b); }
static sn_status ref_sub(ref_ctx *c) { return ref_binary(c, sub_f, sub_i); }

static void grad_sub(build_ctx *c) {
  build_din(c, 0, c->dout[0]);
  build_din(c, 1, sn_neg(c->graph, c->dout[0]));
}

static reg element_sub(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_sub); }

static const op_case sub_cases[] = {
    {"sub(f32[2, 3], f32[2, 3])", NULL},
    {"sub(f32[5, 1, 3], f32[7, 1])", NULL},
    {"sub(f32[0, 3], f32[1])", NULL},
    {"sub(f16[7], f16[1])", NULL},
    {"sub(i32[3]{-2147483648, -5, 7}, i32[3]{1, 2, 3})", NULL},
    {"sub(u8[2]{3, 9}, u8[2]{10, 4})", NULL},
    {"sub(f32[2, 2], f32[3])", "do not broadcast"},
    {"sub(f32[2], f16[2])", "dtypes differ"},
};

const op_impl op_impl_sub = {.infer = infer_binary_number,
                             .ref = ref_sub,
                             .grad = grad_sub,
                             .element = element_sub,
                             CASES(sub_cases)};

/* --- mul --- */
static double mul_f(double a, double b) { return a * b; }
static double mul_i(double a, double b) { return wrap_i32((int64_t)a * (int64_t)b); }
static sn_status ref_mul(ref_ctx *c) { return ref_binary(c, mul_f, mul_i); }

static void grad_mul(build_ctx *c) {
  build_din(c, 0, sn_mul(c->graph, c->dout[0], c->in[1]));
  build_din(c, 1, sn_mul(c->graph, c->dout[0], c->in[0]));
}

static reg element_mul(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_mul); }

static const op_case mul_cases[] = {
    {"mul(f32[2, 3], f32[2, 3])", NULL},
    {"mul(f32[5, 1, 3], f32[7, 1])", NULL},
    {"mul(f32[2]{3, -0.5}, f32[2]{2, 4}) => f32[2]{6, -2}", NULL},
    {"mul(f32[0, 3], f32[1])", NULL},
    {"mul(bf16[7], bf16[1])", NULL},
    {"mul(i32[3]{65536, -5, 7}, i32[3]{65537, 2, 3})", NULL},
    {"mul(f32[2, 2], f32[3])", "do not broadcast"},
    {"mul(f32[2], f16[2])", "dtypes differ"},
};

const op_impl op_impl_mul = {.infer = infer_binary_number,
                             .ref = ref_mul,
                             .grad = grad_mul,
                             .element = element_mul,
                             CASES(mul_cases)};
