/* eq, ne, lt, le, gt, ge (numbers of one dtype; eq and ne also bool), isnan, isinf (floats): the
 * result is bool. Every comparison with NaN is false but ne, which is true. */
#include "ops/pointwise/pointwise.h"

static const char NO_GRADIENT[] = "its result is a bool";

static sn_status infer_order(infer_ctx *c) {
  SN_TRY(infer_binary_number(c));
  c->out[0].dtype = SN_BOOL;
  return SN_OK;
}

static sn_status infer_equality(infer_ctx *c) {
  SN_TRY(infer_same_dtype(c, 0, 1));
  c->out[0].dtype = SN_BOOL;
  return infer_broadcast(c, c->in[0].shape, c->in[1].shape, &c->out[0].shape);
}

static double eq(double a, double b) { return a == b; }
static double ne(double a, double b) { return a != b; }
static double lt(double a, double b) { return a < b; }
static double le(double a, double b) { return a <= b; }
static double gt(double a, double b) { return a > b; }
static double ge(double a, double b) { return a >= b; }

static sn_status ref_eq(ref_ctx *c) { return ref_binary(c, eq, NULL); }
static sn_status ref_ne(ref_ctx *c) { return ref_binary(c, ne, NULL); }
static sn_status ref_lt(ref_ctx *c) { return ref_binary(c, lt, NULL); }
static sn_status ref_le(ref_ctx *c) { return ref_binary(c, le, NULL); }
static sn_status ref_gt(ref_ctx *c) { return ref_binary(c, gt, NULL); }
static sn_status ref_ge(ref_ctx *c) { return ref_binary(c, ge, NULL); }

static reg element_eq(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_eq); }
static reg element_ne(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_ne); }
static reg element_lt(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_lt); }
static reg element_le(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_le); }
static reg element_gt(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_gt); }
static reg element_ge(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_ge); }

/* The rows of one comparison: its name and what it says of 1?2, 2?2, 2?1, nan?1, nan?nan,
 * inf?inf. */
#define COMPARE_CASES(op, less, same, more, nans)                                                \
  {#op "(f32[6]{1, 2, 2, nan, nan, inf}, f32[6]{2, 2, 1, 1, nan, inf}) => bool[6]{" #less        \
       ", " #same ", " #more ", " #nans ", " #nans ", " #same "}",                               \
   NULL},                                                                                        \
      {#op "(f32[2]{0, -0.0}, f32[2, 1]{0, 1}) => bool[2, 2]{" #same ", " #same ", " #less       \
           ", " #less "}",                                                                       \
       NULL},                                                                                    \
      {#op "(f32[0, 3], f32[1])", NULL}, {#op "(f16[7], f16[7])", NULL},                         \
      {#op "(bf16[2]{1, 4}, bf16[1]{4}) => bool[2]{" #less ", " #same "}", NULL},                \
      {#op "(i32[3]{-2147483648, 5, 7}, i32[3]{2147483647, 5, -7}) => bool[3]{" #less ", " #same \
           ", " #more "}",                                                                       \
       NULL},                                                                                    \
      {#op "(u8[3]{0, 255, 7}, u8[]{7}) => bool[3]{" #less ", " #more ", " #same "}", NULL},     \
      {#op "(f32[2], f32[3])", "do not broadcast"}, {                                            \
#op "(f32[2], i32[2])", "dtypes differ"                                                      \
  }
#define ORDER_CASES(op, less, same, more) \
  COMPARE_CASES(op, less, same, more, 0), { #op "(bool[2], bool[2])", "must be a number" }

static const op_case eq_cases[] = {
    COMPARE_CASES(eq, 0, 1, 0, 0),
    {"eq(bool[4]{0, 0, 1, 1}, bool[4]{0, 1, 0, 1}) => bool[4]{1, 0, 0, 1}", NULL}};
static const op_case ne_cases[] = {
    COMPARE_CASES(ne, 1, 0, 1, 1),
    {"ne(bool[4]{0, 0, 1, 1}, bool[4]{0, 1, 0, 1}) => bool[4]{0, 1, 1, 0}", NULL}};
static const op_case lt_cases[] = {ORDER_CASES(lt, 1, 0, 0)};
static const op_case le_cases[] = {ORDER_CASES(le, 1, 1, 0)};
static const op_case gt_cases[] = {ORDER_CASES(gt, 0, 0, 1)};
static const op_case ge_cases[] = {ORDER_CASES(ge, 0, 1, 1)};

const op_impl op_impl_eq = {.infer = infer_equality,
                            .ref = ref_eq,
                            .no_grad = NO_GRADIENT,
                            .element = element_eq,
                            CASES(eq_cases)};
const op_impl op_impl_ne = {.infer = infer_equality,
                            .ref = ref_ne,
                            .no_grad = NO_GRADIENT,
                            .element = element_ne,
                            CASES(ne_cases)};
const op_impl op_impl_lt = {.infer = infer_order,
                            .ref = ref_lt,
                            .no_grad = NO_GRADIENT,
                            .element = element_lt,
                            CASES(lt_cases)};
const op_impl op_impl_le = {.infer = infer_order,
                            .ref = ref_le,
                            .no_grad = NO_GRADIENT,
                            .element = element_le,
                            CASES(le_cases)};
const op_impl op_impl_gt = {.infer = infer_order,
                            .ref = ref_gt,
                            .no_grad = NO_GRADIENT,
                            .element = element_gt,
                            CASES(gt_cases)};
const op_impl op_impl_ge = {.infer = infer_order,
                            .ref = ref_ge,
                            .no_grad = NO_GRADIENT,
                            .element = element_ge,
                            CASES(ge_cases)};

/* --- isnan, isinf --- */
static sn_status infer_classify(infer_ctx *c) {
  SN_TRY(infer_unary_float(c));
  c->out[0].dtype = SN_BOOL;
  return SN_OK;
}

static double is_nan(double x) { return isnan(x) != 0; }
static double is_inf(double x) { return isinf(x) != 0; }
static sn_status ref_isnan(ref_ctx *c) { return ref_unary(c, is_nan); }
static sn_status ref_isinf(ref_ctx *c) { return ref_unary(c, is_inf); }

static reg element_isnan(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_isnan); }
static reg element_isinf(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_isinf); }

static const op_case isnan_cases[] = {
    {"isnan(f32[5]{1, nan, inf, -inf, -nan}) => bool[5]{0, 1, 0, 0, 1}", NULL},
    {"isnan(f32[0, 3])", NULL},
    {"isnan(f16[1]{nan}) => bool[1]{1}", NULL},
    {"isnan(bf16[2, 1]{nan, 0}) => bool[2, 1]{1, 0}", NULL},
    {"isnan(i32[2])", "must be f32, f16 or bf16"},
};
static const op_case isinf_cases[] = {
    {"isinf(f32[5]{1, nan, inf, -inf, 3e38}) => bool[5]{0, 0, 1, 1, 0}", NULL},
    {"isinf(f32[0, 3])", NULL},
    {"isinf(f16[1]{70000}) => bool[1]{1}", NULL},
    {"isinf(bf16[2, 1]{-inf, 0}) => bool[2, 1]{1, 0}", NULL},
    {"isinf(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_isnan = {.infer = infer_classify,
                               .ref = ref_isnan,
                               .no_grad = NO_GRADIENT,
                               .element = element_isnan,
                               CASES(isnan_cases)};
const op_impl op_impl_isinf = {.infer = infer_classify,
                               .ref = ref_isinf,
                               .no_grad = NO_GRADIENT,
                               .element = element_isinf,
                               CASES(isinf_cases)};
