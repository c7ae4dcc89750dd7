/* floor, ceil, round: floats only (integers are whole already); the result stays a float. The
 * gradient is 0, also at the steps. */
#include "ops/pointwise/pointwise.h"

/* Halves to even, whatever the floating-point environment says. What comes to zero keeps its sign, as IEEE 754 has it. */
static double round_even(double x) {
  double down = floor(x), rest = x - down;
  bool up = rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0);
  return isfinite(x) ? copysign(down + up, x) : x;
}

static sn_status ref_floor(ref_ctx *c) { return ref_unary(c, floor); }
static sn_status ref_ceil(ref_ctx *c) { return ref_unary(c, ceil); }
static sn_status ref_round(ref_ctx *c) { return ref_unary(c, round_even); }

static reg element_floor(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_floor); }
static reg element_ceil(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_ceil); }
static reg element_round(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_round); }

static const op_case floor_cases[] = {
    {"floor(f32[2, 5])", NULL},
    {"floor(f32[0])", NULL},
    {"floor(f32[8]{1.5, -1.5, 2, -0.25, 16777216, inf, -inf, nan}) => "
     "f32[8]{1, -2, 2, -1, 16777216, inf, -inf, nan} @kink",
     NULL},
    {"floor(f16[1]{-0.5}) => f16[1]{-1}", NULL},
    {"floor(bf16[3]{2.5, -2.5, 0.5}) => bf16[3]{2, -3, 0}", NULL},
    {"floor(i32[2])", "must be f32, f16 or bf16"},
};
static const op_case ceil_cases[] = {
    {"ceil(f32[2, 5])", NULL},
    {"ceil(f32[0])", NULL},
    {"ceil(f32[8]{1.5, -1.5, 2, -0.25, 16777216, inf, -inf, nan}) => "
     "f32[8]{2, -1, 2, 0, 16777216, inf, -inf, nan} @kink",
     NULL},
    {"ceil(f16[1]{-0.5}) => f16[1]{0}", NULL},
    {"ceil(bf16[3]{2.5, -2.5, 0.5}) => bf16[3]{3, -2, 1}", NULL},
    {"ceil(i32[2])", "must be f32, f16 or bf16"},
};
static const op_case round_cases[] = {
    {"round(f32[2, 5])", NULL},
    {"round(f32[0])", NULL},
    {"round(f32[9]{0.5, 1.5, 2.5, -0.5, -1.5, -2.5, inf, -inf, nan}) => "
     "f32[9]{0, 2, 2, 0, -2, -2, inf, -inf, nan} @kink",
     NULL},
    {"round(f32[6]{0.49999997, 0.75, -0.75, 1.25, 8388607.5, 16777216}) => "
     "f32[6]{0, 1, -1, 1, 8388608, 16777216} @kink",
     NULL},
    {"round(f16[1]{3.5}) => f16[1]{4} @kink", NULL},
    {"round(bf16[3]{2.75, -2.25, 0.25}) => bf16[3]{3, -2, 0}", NULL},
    {"round(i32[2])", "must be f32, f16 or bf16"},
};

const op_impl op_impl_floor = {.infer = infer_unary_float,
                               .ref = ref_floor,
                               .grad = grad_zero,
                               .element = element_floor,
                               CASES(floor_cases)};
const op_impl op_impl_ceil = {.infer = infer_unary_float,
                              .ref = ref_ceil,
                              .grad = grad_zero,
                              .element = element_ceil,
                              CASES(ceil_cases)};
const op_impl op_impl_round = {.infer = infer_unary_float,
                               .ref = ref_round,
                               .grad = grad_zero,
                               .element = element_round,
                               CASES(round_cases)};
