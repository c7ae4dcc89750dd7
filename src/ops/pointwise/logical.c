/* logical_not, logical_and, logical_or, logical_xor: bools, broadcast. */
#include "ops/pointwise/pointwise.h"

static const char NO_GRADIENT[] = "its result is a bool";

static sn_status infer_not(infer_ctx *c) {
  SN_TRY(infer_dtype(c, 0, SN_BOOL));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status infer_logical(infer_ctx *c) {
  SN_TRY(infer_dtype(c, 0, SN_BOOL));
  SN_TRY(infer_dtype(c, 1, SN_BOOL));
  c->out[0].dtype = SN_BOOL;
  return infer_broadcast(c, c->in[0].shape, c->in[1].shape, &c->out[0].shape);
}

static double not_of(double x) { return x == 0; }
static double and_of(double a, double b) { return a != 0 && b != 0; }
static double or_of(double a, double b) { return a != 0 || b != 0; }
static double xor_of(double a, double b) { return (a != 0) != (b != 0); }

static sn_status ref_not(ref_ctx *c) { return ref_unary(c, not_of); }
static sn_status ref_and(ref_ctx *c) { return ref_binary(c, and_of, NULL); }
static sn_status ref_or(ref_ctx *c) { return ref_binary(c, or_of, NULL); }
static sn_status ref_xor(ref_ctx *c) { return ref_binary(c, xor_of, NULL); }

static reg element_not(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_not); }
static reg element_and(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_and); }
static reg element_or(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_or); }
static reg element_xor(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_xor); }

static const op_case not_cases[] = {
    {"logical_not(bool[3]{0, 1, 1}) => bool[3]{1, 0, 0}", NULL},
    {"logical_not(bool[0, 3])", NULL},
    {"logical_not(bool[1]{0}) => bool[1]{1}", NULL},
    {"logical_not(u8[2])", "must be bool"},
};

/* The rows of one connective: its name and truth table. */
#define LOGICAL_CASES(op, ff, ft, tf, tt)                                                       \
  {#op "(bool[4]{0, 0, 1, 1}, bool[4]{0, 1, 0, 1}) => bool[4]{" #ff ", " #ft ", " #tf ", " #tt  \
       "}",                                                                                     \
   NULL},                                                                                       \
      {#op "(bool[2, 1]{0, 1}, bool[3]{0, 1, 1}) => bool[2, 3]{" #ff ", " #ft ", " #ft ", " #tf \
           ", " #tt ", " #tt "}",                                                               \
       NULL},                                                                                   \
      {#op "(bool[0, 3], bool[1])", NULL}, {#op "(bool[2], bool[3])", "do not broadcast"},      \
      {#op "(bool[2], u8[2])", "b must be bool"}, {                                             \
#op "(f32[2], bool[2])", "a must be bool"                                                   \
  }

static const op_case and_cases[] = {LOGICAL_CASES(logical_and, 0, 0, 0, 1)};
static const op_case or_cases[] = {LOGICAL_CASES(logical_or, 0, 1, 1, 1)};
static const op_case xor_cases[] = {LOGICAL_CASES(logical_xor, 0, 1, 1, 0)};

const op_impl op_impl_logical_not = {.infer = infer_not,
                                     .ref = ref_not,
                                     .no_grad = NO_GRADIENT,
                                     .element = element_not,
                                     CASES(not_cases)};
const op_impl op_impl_logical_and = {.infer = infer_logical,
                                     .ref = ref_and,
                                     .no_grad = NO_GRADIENT,
                                     .element = element_and,
                                     CASES(and_cases)};
const op_impl op_impl_logical_or = {.infer = infer_logical,
                                    .ref = ref_or,
                                    .no_grad = NO_GRADIENT,
                                    .element = element_or,
                                    CASES(or_cases)};
const op_impl op_impl_logical_xor = {.infer = infer_logical,
                                     .ref = ref_xor,
                                     .no_grad = NO_GRADIENT,
                                     .element = element_xor,
                                     CASES(xor_cases)};
