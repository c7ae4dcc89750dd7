/* div, floor_div, rem, fmod: floats and integers, broadcast.
 *
 * Integers: div truncates, floor_div rounds down, by 0 is an error; the one quotient that does
 * not fit (-2^31 / -1) wraps. Floats: by 0 gives an infinity or NaN. rem has the divisor's sign
 * and is a - b * floor_div(a, b); fmod has the dividend's sign and is a - b * trunc(a / b); both
 * are exact. */
#include "ops/pointwise/pointwise.h"

/* Every divisor is used as soon as there is a result at all. */
static sn_status ref_divide(ref_ctx *c, double (*f)(double, double), double (*i)(double, double)) {
  const ref_tensor *b = &c->in[1];
  for (int64_t k = 0; dtype_is_int(b->dtype) && c->out[0].count > 0 && k < b->count; k++)
    if (b->data[k] == 0)
      return ref_fail(c, SN_ERR_NUMERIC, "an integer is divided by 0 (element %lld of b)",
                      (long long)k);
  return ref_binary(c, f, i);
}

/* Integer functions give 0 for a divisor of 0, as devices do, which cannot stop. */

/* --- div --- */
static double div_f(double a, double b) { return a / b; }
static double div_i(double a, double b) {
  int64_t p = (int64_t)a, q = (int64_t)b;
  return q == 0 ? 0 : wrap_i32(p / q);
}
static sn_status ref_div(ref_ctx *c) { return ref_divide(c, div_f, div_i); }

/* da = dy / b;  db = -dy / b * y */
static void grad_div(build_ctx *c) {
  sn_value da = sn_div(c->graph, c->dout[0], c->in[1]);
  build_din(c, 0, da);
  if (c->need[1])
    build_din(c, 1, sn_neg(c->graph, sn_mul(c->graph, da, c->out[0])));
}

/* `code` of the two inputs. An integer divisor of 0 fails the run. */
static reg element_divide(elem_ctx *c, const place *at, alu code) {
  reg a = elem_broadcast(c, 0, at), b = elem_broadcast(c, 1, at);
  sn_dtype dtype = c->in[1].dtype;
  if (dtype_is_int(dtype)) {
    reg zero = elem_number_as(c, dtype, 0), shown = elem_alu_as(c, ALU_cast, SN_I32, a, 0, 0, 0, 0);
    reg holds = elem_alu_as(c, ALU_ne, SN_BOOL, b, zero, 0, 0, 0);
    c->services->require(c, holds, shown, "an integer is divided by 0 (%d / 0)");
  }
  return elem_alu2(c, code, a, b);
}

static reg element_div(elem_ctx *c, const place *at) { return element_divide(c, at, ALU_div); }

static const op_case div_cases[] = {
    {"div(f32[2, 3], f32[2, 3](0.5, 3))", NULL},
    {"div(f32[5, 1, 3], f32[2, 1](-3, -0.5))", NULL},
    {"div(f32[], f32[7](0.5, 3))", NULL},
    {"div(f32[0, 3], f32[1]{0})", NULL},
    {"div(f32[5]{1, -1, 0, 1, inf}, f32[5]{4, 0, 0, inf, inf}) => f32[5]{0.25, -inf, nan, 0, nan} "
     "@kink",
     NULL},
    {"div(f16[2]{3, 60000}, f16[2]{2, 0.5}) => f16[2]{1.5, inf}", NULL},
    {"div(bf16[1]{1}, bf16[1]{4}) => bf16[1]{0.25}", NULL},
    {"div(i32[6]{7, -7, 7, -7, -2147483648, 1}, i32[6]{2, 2, -2, -2, -1, 3}) => "
     "i32[6]{3, -3, -3, 3, -2147483648, 0}",
     NULL},
    {"div(i32[0, 2], i32[1]{0})", NULL},
    {"div(u8[2]{255, 7}, u8[1]{2}) => u8[2]{127, 3}", NULL},
    {"div(f32[2], f32[3])", "do not broadcast"},
    {"div(f32[2], i32[2])", "dtypes differ"},
    {"div(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_div = {.infer = infer_binary_number,
                             .ref = ref_div,
                             .grad = grad_div,
                             .element = element_div,
                             CASES(div_cases)};

/* --- floor_div --- */
static double floor_div_f(double a, double b) { return floor(a / b); }
static double floor_div_i(double a, double b) {
  int64_t p = (int64_t)a, q = (int64_t)b;
  return q == 0 ? 0 : wrap_i32(p / q - (p % q != 0 && (p < 0) != (q < 0)));
}
static sn_status ref_floor_div(ref_ctx *c) { return ref_divide(c, floor_div_f, floor_div_i); }

static reg element_floor_div(elem_ctx *c, const place *at) {
  return element_divide(c, at, ALU_floor_div);
}

static const op_case floor_div_cases[] = {
    {"floor_div(f32[2, 3], f32[2, 3](0.5, 3))", NULL},
    {"floor_div(f32[0, 3], f32[1]{0})", NULL},
    {"floor_div(f32[5]{7, -7, 7, -7, 1}, f32[5]{2, 2, -2, -2, 3}) => f32[5]{3, -4, -4, 3, 0}",
     NULL},
    {"floor_div(f32[4]{1, -1, 0, nan}, f32[4]{0, 0, 0, 1}) => f32[4]{inf, -inf, nan, nan} @kink",
     NULL},
    {"floor_div(f16[3]{7, 6, -6}, f16[1]{4}) => f16[3]{1, 1, -2}", NULL},
    {"floor_div(bf16[2, 1]{7, -7}, bf16[2]{4, 1.5}) => bf16[2, 2]{1, 4, -2, -5}", NULL},
    {"floor_div(i32[6]{7, -7, 7, -7, -2147483648, -6}, i32[6]{2, 2, -2, -2, -1, 3}) => "
     "i32[6]{3, -4, -4, 3, -2147483648, -2}",
     NULL},
    {"floor_div(u8[2]{255, 7}, u8[1]{2}) => u8[2]{127, 3}", NULL},
    {"floor_div(f32[2], f32[3])", "do not broadcast"},
    {"floor_div(f32[2], i32[2])", "dtypes differ"},
    {"floor_div(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_floor_div = {.infer = infer_binary_number,
                                   .ref = ref_floor_div,
                                   .grad = grad_zero,
                                   .element = element_floor_div,
                                   CASES(floor_div_cases)};

/* --- rem and fmod --- */
static double rem_f(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static sn_status ref_rem(ref_ctx *c) { return ref_divide(c, rem_f, NULL); }
static sn_status ref_fmod(ref_ctx *c) { return ref_divide(c, fmod, NULL); }

/* y = a - b * n with n whole: da = dy, db = -dy * n. Rounding makes n whole again. */
static void grad_remainder(build_ctx *c) {
  sn_graph *g = c->graph;
  build_din(c, 0, c->dout[0]);
  if (!c->need[1])
    return;
  sn_value n = sn_round(g, sn_div(g, sn_sub(g, c->in[0], c->out[0]), c->in[1]));
  build_din_scaled(c, 1, sn_neg(g, n));
}

static reg element_rem(elem_ctx *c, const place *at) { return element_divide(c, at, ALU_rem); }
static reg element_fmod(elem_ctx *c, const place *at) { return element_divide(c, at, ALU_fmod); }

static const op_case rem_cases[] = {
    {"rem(f32[2, 3](-7, 7), f32[2, 3](1.5, 3))", NULL},
    {"rem(f32[5, 1, 3](-7, 7), f32[2, 1](-3, -1.5))", NULL},
    {"rem(f32[7](-7, 7), f32[])", NULL},
    {"rem(f32[0, 3], f32[1]{0})", NULL},
    {"rem(f32[6]{7, -7, 7, -7, 6, -6}, f32[6]{4, 4, -4, -4, 3, 3}) => f32[6]{3, 1, -1, -3, 0, 0} "
     "@kink",
     NULL},
    {"rem(f32[5]{1, inf, 5, -5, nan}, f32[5]{0, 2, inf, inf, 1}) => f32[5]{nan, nan, 5, inf, nan}",
     NULL},
    {"rem(f16[2]{-7.5, 7.5}, f16[1]{2}) => f16[2]{0.5, 1.5}", NULL},
    {"rem(bf16[1]{-1}, bf16[1]{4}) => bf16[1]{3}", NULL},
    {"rem(i32[6]{7, -7, 7, -7, -2147483648, -6}, i32[6]{4, 4, -4, -4, -1, 3}) => "
     "i32[6]{3, 1, -1, -3, 0, 0}",
     NULL},
    {"rem(u8[2]{255, 7}, u8[1]{16}) => u8[2]{15, 7}", NULL},
    {"rem(f32[2], f32[3])", "do not broadcast"},
    {"rem(f32[2], i32[2])", "dtypes differ"},
    {"rem(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_rem = {.infer = infer_binary_number,
                             .ref = ref_rem,
                             .grad = grad_remainder,
                             .element = element_rem,
                             CASES(rem_cases)};

static const op_case fmod_cases[] = {
    {"fmod(f32[2, 3](-7, 7), f32[2, 3](1.5, 3))", NULL},
    {"fmod(f32[5, 1, 3](-7, 7), f32[2, 1](-3, -1.5))", NULL},
    {"fmod(f32[7](-7, 7), f32[])", NULL},
    {"fmod(f32[0, 3], f32[1]{0})", NULL},
    {"fmod(f32[6]{7, -7, 7, -7, 6, -6}, f32[6]{4, 4, -4, -4, 3, 3}) => f32[6]{3, -3, 3, -3, 0, 0} "
     "@kink",
     NULL},
    {"fmod(f32[5]{1, inf, 5, -5, nan}, f32[5]{0, 2, inf, inf, 1}) => f32[5]{nan, nan, 5, -5, nan}",
     NULL},
    {"fmod(f16[2]{-7.5, 7.5}, f16[1]{2}) => f16[2]{-1.5, 1.5}", NULL},
    {"fmod(bf16[1]{-1}, bf16[1]{4}) => bf16[1]{-1}", NULL},
    {"fmod(i32[6]{7, -7, 7, -7, -2147483648, -6}, i32[6]{4, 4, -4, -4, -1, 3}) => "
     "i32[6]{3, -3, 3, -3, 0, 0}",
     NULL},
    {"fmod(u8[2]{255, 7}, u8[1]{16}) => u8[2]{15, 7}", NULL},
    {"fmod(f32[2], f32[3])", "do not broadcast"},
    {"fmod(f32[2], i32[2])", "dtypes differ"},
    {"fmod(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_fmod = {.infer = infer_binary_number,
                              .ref = ref_fmod,
                              .grad = grad_remainder,
                              .element = element_fmod,
                              CASES(fmod_cases)};
