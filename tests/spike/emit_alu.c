/* Arithmetic of regions. See emitter.h. What GLSL.std.450 leaves open is said in full here: NaN in max and min, integer
 * division by 0, conversions out of range, powers of negative numbers. Transcendentals are the driver's own, which is
 * good enough for a spike. */
#include "spike/emitter.h"

#include <math.h>

enum { NO_CONTRACTION = 42 };

spirv_id emit_lane_type(emitter *e, sn_dtype dtype) {
  return dtype_is_float(dtype) ? e->s.f32 : dtype == SN_BOOL ? e->s.boolean : e->s.i32;
}

spirv_id emit_number(emitter *e, sn_dtype dtype, double x) {
  if (dtype_is_float(dtype))
    return spirv_f32(&e->s, (float)x);
  return dtype == SN_BOOL ? spirv_bool(&e->s, x != 0) : spirv_i32(&e->s, (int32_t)x);
}

spirv_id emit_float(emitter *e, int op, spirv_id a, spirv_id b) {
  spirv_id r = spirv_op(&e->s, op, e->s.f32, SPV_ARGS(a, b));
  spirv_decorate(&e->s, r, SPV_ARGS(NO_CONTRACTION));
  return r;
}

static spirv_id glsl(emitter *e, int function, spirv_id a) {
  return spirv_glsl(&e->s, function, e->s.f32, SPV_ARGS(a));
}
static spirv_id is(emitter *e, int op, spirv_id a, spirv_id b) {
  return spirv_op(&e->s, op, e->s.boolean, SPV_ARGS(a, b));
}
static spirv_id both(emitter *e, spirv_id a, spirv_id b) { return is(e, SPV_LogicalAnd, a, b); }
static spirv_id number(emitter *e, float x) { return spirv_f32(&e->s, x); }
static spirv_id pick(emitter *e, spirv_id type, spirv_id condition, spirv_id yes, spirv_id no) {
  return spirv_op(&e->s, SPV_Select, type, SPV_ARGS(condition, yes, no));
}
static spirv_id pick_float(emitter *e, spirv_id condition, spirv_id yes, spirv_id no) {
  return pick(e, e->s.f32, condition, yes, no);
}

/* --- casts --- */

/* Truncated and saturated; NaN gives 0. 2^31 as a float is above INT32_MAX, so the upper end is chosen, not clamped. */
static spirv_id float_to_int(emitter *e, spirv_id a, float lo, float hi, int32_t highest) {
  spirv *s = &e->s;
  spirv_id above = is(e, SPV_FOrdGreaterThanEqual, a, number(e, hi));
  spirv_id below = is(e, SPV_FOrdLessThan, a, number(e, lo));
  spirv_id nan = spirv_op(s, SPV_IsNan, s->boolean, SPV_ARGS(a));
  spirv_id out = is(e, SPV_LogicalOr, above, nan);
  spirv_id safe = pick_float(e, out, number(e, 0), pick_float(e, below, number(e, lo), a));
  spirv_id i = spirv_op(s, SPV_ConvertFToS, s->i32, SPV_ARGS(safe));
  return pick(e, s->i32, above, spirv_i32(s, highest), i);
}

spirv_id emit_cast(emitter *e, spirv_id a, sn_dtype from, sn_dtype to) {
  spirv *s = &e->s;
  bool from_float = dtype_is_float(from), to_float = dtype_is_float(to);
  if (from == to || (from_float && to_float))
    return a;
  if (from == SN_BOOL)
    return pick(e, emit_lane_type(e, to), a, emit_number(e, to, 1), emit_number(e, to, 0));
  if (to == SN_BOOL)
    return from_float ? is(e, SPV_FUnordNotEqual, a, number(e, 0))
                      : is(e, SPV_INotEqual, a, spirv_i32(s, 0));
  if (to_float)
    return spirv_op(s, SPV_ConvertSToF, s->f32, SPV_ARGS(a));
  if (from_float)
    return to == SN_U8 ? float_to_int(e, a, 0, 255, 255)
                       : float_to_int(e, a, -0x1p31f, 0x1p31f, INT32_MAX);
  if (to == SN_I32)
    return a;
  a = spirv_glsl(s, GLSL_SMin, s->i32, SPV_ARGS(a, spirv_i32(s, 255)));
  return spirv_glsl(s, GLSL_SMax, s->i32, SPV_ARGS(a, spirv_i32(s, 0)));
}

/* bf16 in a few operations: to nearest even by adding, NaN made quiet. */
static spirv_id round_bf16(emitter *e, spirv_id a) {
  spirv *s = &e->s;
  spirv_id bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(a)), k16 = spirv_u32(s, 16);
  spirv_id odd = spirv_op(s, SPV_ShiftRightLogical, s->u32, SPV_ARGS(bits, k16));
  odd = spirv_op(s, SPV_BitwiseAnd, s->u32, SPV_ARGS(odd, spirv_u32(s, 1)));
  spirv_id up = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(odd, spirv_u32(s, 0x7fff)));
  up = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(bits, up));
  spirv_id quiet = spirv_op(s, SPV_BitwiseOr, s->u32, SPV_ARGS(bits, spirv_u32(s, 0x400000)));
  spirv_id nan = spirv_op(s, SPV_IsNan, s->boolean, SPV_ARGS(a));
  up = pick(e, s->u32, nan, quiet, up);
  up = spirv_op(s, SPV_BitwiseAnd, s->u32, SPV_ARGS(up, spirv_u32(s, 0xffff0000)));
  return spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(up));
}

spirv_id emit_rounded(emitter *e, spirv_id a, sn_dtype dtype) {
  if (dtype == SN_BF16)
    return round_bf16(e, a);
  if (dtype == SN_F16)
    return emit_call(e, HELPER_F16_WIDEN, SPV_ARGS(emit_call(e, HELPER_F16_NARROW, SPV_ARGS(a))));
  if (dtype == SN_U8)
    return spirv_op(&e->s, SPV_BitwiseAnd, e->s.i32, SPV_ARGS(a, spirv_i32(&e->s, 255)));
  return a;
}

/* --- floats --- */

static spirv_id expm1_of(emitter *e, spirv_id a) {
  spirv_id u = glsl(e, GLSL_Exp, a), less = emit_float(e, SPV_FSub, u, number(e, 1));
  spirv_id ratio = emit_float(e, SPV_FDiv, a, glsl(e, GLSL_Log, u));
  spirv_id r = emit_float(e, SPV_FMul, less, ratio);
  spirv_id far = is(e, SPV_FOrdGreaterThan, glsl(e, GLSL_FAbs, a), number(e, 10));
  r = pick_float(e, far, less, r);
  return pick_float(e, is(e, SPV_FOrdEqual, u, number(e, 1)), a, r);
}

static spirv_id log1p_of(emitter *e, spirv_id a) {
  spirv_id u = emit_float(e, SPV_FAdd, a, number(e, 1)), log = glsl(e, GLSL_Log, u);
  spirv_id ratio = emit_float(e, SPV_FDiv, a, emit_float(e, SPV_FSub, u, number(e, 1)));
  spirv_id far = is(e, SPV_FOrdGreaterThan, a, number(e, 10));
  spirv_id r = pick_float(e, far, log, emit_float(e, SPV_FMul, log, ratio));
  return pick_float(e, is(e, SPV_FOrdEqual, u, number(e, 1)), a, r);
}

/* The larger (or smaller); NaN wins. */
static spirv_id extreme(emitter *e, int better, spirv_id a, spirv_id b) {
  spirv_id nan = is(e, SPV_FUnordNotEqual, a, a);
  return pick_float(e, is(e, SPV_LogicalOr, is(e, better, a, b), nan), a, b);
}

static spirv_id softplus_of(emitter *e, spirv_id a) {
  spirv *s = &e->s;
  spirv_id minus = spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(glsl(e, GLSL_FAbs, a)));
  spirv_id rest = log1p_of(e, glsl(e, GLSL_Exp, minus));
  return emit_float(e, SPV_FAdd, extreme(e, SPV_FOrdGreaterThan, a, number(e, 0)), rest);
}

/* 1 - poly(t) exp(-x²), t = 1 / (1 + p x): within 2e-7. */
static spirv_id erf_of(emitter *e, spirv_id a) {
  static const float c[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
  spirv *s = &e->s;
  spirv_id x = glsl(e, GLSL_FAbs, a), p = emit_float(e, SPV_FMul, x, number(e, 0.3275911f));
  spirv_id t = emit_float(e, SPV_FDiv, number(e, 1), emit_float(e, SPV_FAdd, p, number(e, 1)));
  spirv_id sum = number(e, c[0]);
  for (int i = 1; i < 5; i++)
    sum = emit_float(e, SPV_FAdd, emit_float(e, SPV_FMul, sum, t), number(e, c[i]));
  spirv_id square = spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(emit_float(e, SPV_FMul, x, x)));
  sum = emit_float(e, SPV_FMul, emit_float(e, SPV_FMul, sum, t), glsl(e, GLSL_Exp, square));
  return emit_float(e, SPV_FMul, glsl(e, GLSL_FSign, a),
                    emit_float(e, SPV_FSub, number(e, 1), sum));
}

static spirv_id pow_of(emitter *e, spirv_id a, spirv_id b) {
  spirv *s = &e->s;
  spirv_id r = spirv_glsl(s, GLSL_Pow, s->f32, SPV_ARGS(glsl(e, GLSL_FAbs, a), b));
  spirv_id half = emit_float(e, SPV_FMul, b, number(e, 0.5f));
  spirv_id whole = is(e, SPV_FOrdEqual, glsl(e, GLSL_Floor, b), b);
  spirv_id odd = both(e, whole, is(e, SPV_FUnordNotEqual, glsl(e, GLSL_Floor, half), half));
  spirv_id minus = spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(r));
  spirv_id below = pick_float(e, odd, minus, pick_float(e, whole, r, number(e, NAN)));
  r = pick_float(e, is(e, SPV_FOrdLessThan, a, number(e, 0)), below, r);
  spirv_id pole =
      both(e, is(e, SPV_FOrdEqual, a, number(e, 0)), is(e, SPV_FOrdLessThan, b, number(e, 0)));
  r = pick_float(e, pole, number(e, INFINITY), r); /* that of -0 to an odd power too: rough */
  spirv_id nan =
      is(e, SPV_LogicalOr, is(e, SPV_FUnordNotEqual, a, a), is(e, SPV_FUnordNotEqual, b, b));
  r = pick_float(e, nan, number(e, NAN), r);
  spirv_id one = is(e, SPV_LogicalOr, is(e, SPV_FOrdEqual, b, number(e, 0)),
                    is(e, SPV_FOrdEqual, a, number(e, 1)));
  return pick_float(e, one, number(e, 1), r);
}

/* The driver's is undefined at the origin. */
static spirv_id atan2_of(emitter *e, spirv_id a, spirv_id b) {
  spirv_id r = spirv_glsl(&e->s, GLSL_Atan2, e->s.f32, SPV_ARGS(a, b));
  spirv_id origin =
      both(e, is(e, SPV_FOrdEqual, a, number(e, 0)), is(e, SPV_FOrdEqual, b, number(e, 0)));
  return pick_float(e, origin, number(e, 0), r);
}

/* fmod, and rem, which takes the divisor's sign. */
static spirv_id remainder_of(emitter *e, spirv_id a, spirv_id b, bool divisors_sign) {
  spirv *s = &e->s;
  spirv_id r = spirv_op(s, SPV_FRem, s->f32, SPV_ARGS(a, b)), zero = number(e, 0);
  spirv_id whole = spirv_op(s, SPV_IsInf, s->boolean, SPV_ARGS(b));
  spirv_id finite = is(e, SPV_FOrdLessThan, glsl(e, GLSL_FAbs, a), number(e, INFINITY));
  r = pick_float(e, both(e, whole, finite), a,
                 r); /* the quotient is 0, its product with b is not */
  if (!divisors_sign)
    return r;
  spirv_id differ = is(e, SPV_LogicalNotEqual, is(e, SPV_FOrdLessThan, r, zero),
                       is(e, SPV_FOrdLessThan, b, zero));
  differ = both(e, differ, is(e, SPV_FUnordNotEqual, r, zero));
  return pick_float(e, differ, emit_float(e, SPV_FAdd, r, b), r);
}

static spirv_id float_unary(emitter *e, alu code, spirv_id a) {
  spirv *s = &e->s;
  spirv_id minus, one = number(e, 1);
  switch (code) {
  case ALU_neg: return spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(a));
  case ALU_abs: return glsl(e, GLSL_FAbs, a);
  case ALU_sign: return pick_float(e, is(e, SPV_FUnordNotEqual, a, a), a, glsl(e, GLSL_FSign, a));
  case ALU_recip: return emit_float(e, SPV_FDiv, one, a);
  case ALU_sqrt: return glsl(e, GLSL_Sqrt, a);
  case ALU_rsqrt: return glsl(e, GLSL_InverseSqrt, a);
  case ALU_exp: return glsl(e, GLSL_Exp, a);
  case ALU_exp2: return glsl(e, GLSL_Exp2, a);
  case ALU_expm1: return expm1_of(e, a);
  case ALU_log: return glsl(e, GLSL_Log, a);
  case ALU_log2: return glsl(e, GLSL_Log2, a);
  case ALU_log1p: return log1p_of(e, a);
  case ALU_sin: return glsl(e, GLSL_Sin, a);
  case ALU_cos: return glsl(e, GLSL_Cos, a);
  case ALU_tan: return glsl(e, GLSL_Tan, a);
  case ALU_atan: return glsl(e, GLSL_Atan, a);
  case ALU_tanh: return glsl(e, GLSL_Tanh, a);
  case ALU_softplus: return softplus_of(e, a);
  case ALU_erf: return erf_of(e, a);
  case ALU_floor: return glsl(e, GLSL_Floor, a);
  case ALU_ceil: return glsl(e, GLSL_Ceil, a);
  case ALU_round: return glsl(e, GLSL_RoundEven, a);
  case ALU_sigmoid:
    minus = glsl(e, GLSL_Exp, spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(a)));
    return emit_float(e, SPV_FDiv, one, emit_float(e, SPV_FAdd, minus, one));
  default: return 0;
  }
}

static spirv_id float_binary(emitter *e, alu code, spirv_id a, spirv_id b) {
  switch (code) {
  case ALU_add: return emit_float(e, SPV_FAdd, a, b);
  case ALU_sub: return emit_float(e, SPV_FSub, a, b);
  case ALU_mul: return emit_float(e, SPV_FMul, a, b);
  case ALU_div: return emit_float(e, SPV_FDiv, a, b);
  case ALU_floor_div: return glsl(e, GLSL_Floor, emit_float(e, SPV_FDiv, a, b));
  case ALU_rem: return remainder_of(e, a, b, true);
  case ALU_fmod: return remainder_of(e, a, b, false);
  case ALU_pow: return pow_of(e, a, b);
  case ALU_max: return extreme(e, SPV_FOrdGreaterThan, a, b);
  case ALU_min: return extreme(e, SPV_FOrdLessThan, a, b);
  case ALU_atan2: return atan2_of(e, a, b);
  default: return 0;
  }
}

/* --- integers --- */

/* Division by 0 gives 0 and INT32_MIN / -1 wraps: neither may reach the instruction. */
static spirv_id int_division(emitter *e, alu code, spirv_id a, spirv_id b) {
  spirv *s = &e->s;
  spirv_id zero = spirv_i32(s, 0), one = spirv_i32(s, 1);
  spirv_id by_zero = is(e, SPV_IEqual, b, zero);
  spirv_id wraps = both(e, is(e, SPV_IEqual, b, spirv_i32(s, -1)),
                        is(e, SPV_IEqual, a, spirv_i32(s, INT32_MIN)));
  spirv_id by = pick(e, s->i32, is(e, SPV_LogicalOr, by_zero, wraps), one, b);
  spirv_id q = spirv_op(s, SPV_SDiv, s->i32, SPV_ARGS(a, by));
  spirv_id r =
      spirv_op(s, SPV_ISub, s->i32, SPV_ARGS(a, spirv_op(s, SPV_IMul, s->i32, SPV_ARGS(q, by))));
  if (code == ALU_floor_div || code == ALU_rem) {
    spirv_id mixed =
        is(e, SPV_SLessThan, spirv_op(s, SPV_BitwiseXor, s->i32, SPV_ARGS(r, by)), zero);
    mixed = both(e, mixed, is(e, SPV_INotEqual, r, zero));
    q = pick(e, s->i32, mixed, spirv_op(s, SPV_ISub, s->i32, SPV_ARGS(q, one)), q);
    r = pick(e, s->i32, mixed, spirv_op(s, SPV_IAdd, s->i32, SPV_ARGS(r, by)), r);
  }
  return pick(e, s->i32, by_zero, zero, code == ALU_rem || code == ALU_fmod ? r : q);
}

static spirv_id int_alu(emitter *e, alu code, spirv_id a, spirv_id b) {
  spirv *s = &e->s;
  switch (code) {
  case ALU_neg: return spirv_op(s, SPV_SNegate, s->i32, SPV_ARGS(a));
  case ALU_abs: return spirv_glsl(s, GLSL_SAbs, s->i32, SPV_ARGS(a));
  case ALU_sign: return spirv_glsl(s, GLSL_SSign, s->i32, SPV_ARGS(a));
  case ALU_add: return spirv_op(s, SPV_IAdd, s->i32, SPV_ARGS(a, b));
  case ALU_sub: return spirv_op(s, SPV_ISub, s->i32, SPV_ARGS(a, b));
  case ALU_mul: return spirv_op(s, SPV_IMul, s->i32, SPV_ARGS(a, b));
  case ALU_max: return spirv_glsl(s, GLSL_SMax, s->i32, SPV_ARGS(a, b));
  case ALU_min: return spirv_glsl(s, GLSL_SMin, s->i32, SPV_ARGS(a, b));
  case ALU_div:
  case ALU_floor_div:
  case ALU_rem:
  case ALU_fmod: return int_division(e, code, a, b);
  default: return 0;
  }
}

/* --- bools, comparisons, random words --- */

static spirv_id comparison(emitter *e, alu code, sn_dtype of, spirv_id a, spirv_id b) {
  static const int floats[] = {SPV_FOrdEqual,       SPV_FUnordNotEqual,
                               SPV_FOrdLessThan,    SPV_FOrdLessThanEqual,
                               SPV_FOrdGreaterThan, SPV_FOrdGreaterThanEqual};
  static const int ints[] = {SPV_IEqual,         SPV_INotEqual,    SPV_SLessThan,
                             SPV_SLessThanEqual, SPV_SGreaterThan, SPV_SGreaterThanEqual};
  a = of == SN_BOOL ? emit_cast(e, a, SN_BOOL, SN_I32) : a;
  b = of == SN_BOOL ? emit_cast(e, b, SN_BOOL, SN_I32) : b;
  return is(e, (dtype_is_float(of) ? floats : ints)[code - ALU_eq], a, b);
}

static spirv_id bits_of(emitter *e, spirv_id a) {
  return spirv_op(&e->s, SPV_Bitcast, e->s.u32, SPV_ARGS(a));
}

static spirv_id top24(emitter *e, spirv_id a) {
  return spirv_op(&e->s, SPV_ShiftRightLogical, e->s.u32,
                  SPV_ARGS(bits_of(e, a), spirv_u32(&e->s, 8)));
}

static spirv_id unit_of(emitter *e, spirv_id a) {
  spirv_id u = spirv_op(&e->s, SPV_ConvertUToF, e->s.f32, SPV_ARGS(top24(e, a)));
  return emit_float(e, SPV_FMul, u, number(e, 0x1p-24f));
}

/* x + ((a * 2^32 + b) * y >> 64), in 32-bit halves: no 64-bit multiply is needed. */
static spirv_id range_int(emitter *e, const instr *i, spirv_id a, spirv_id b) {
  spirv *s = &e->s;
  spirv_id pair = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u32, s->u32));
  spirv_id y = spirv_u32(s, (uint32_t)(int64_t)i->y);
  spirv_id from = spirv_u32(s, (uint32_t)(int64_t)i->x);
  if (i->y == 0x1p32) /* all there are: y has no room in 32 bits, and the result is a */
    return spirv_op(s, SPV_IAdd, s->i32, SPV_ARGS(a, from));
  spirv_id low = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(bits_of(e, b), y));
  spirv_id high = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(bits_of(e, a), y));
  spirv_id carry_in = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(low, 1));
  spirv_id middle = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(high, 0));
  spirv_id top = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(high, 1));
  spirv_id sum = spirv_op(s, SPV_IAddCarry, pair, SPV_ARGS(middle, carry_in));
  spirv_id carry = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(sum, 1));
  top = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(top, carry));
  top = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(top, from));
  return spirv_op(s, SPV_Bitcast, s->i32, SPV_ARGS(top));
}

static spirv_id gauss(emitter *e, spirv_id a, spirv_id b, spirv_id second) {
  spirv_id u = emit_float(e, SPV_FAdd, unit_of(e, a), number(e, 0x1p-24f));
  spirv_id r = glsl(e, GLSL_Sqrt, emit_float(e, SPV_FMul, glsl(e, GLSL_Log, u), number(e, -2)));
  spirv_id t = emit_float(e, SPV_FMul, unit_of(e, b), number(e, 6.2831853f));
  spirv_id turn = pick_float(e, second, glsl(e, GLSL_Sin, t), glsl(e, GLSL_Cos, t));
  return emit_float(e, SPV_FMul, r, turn);
}

/* What is neither plain float nor plain integer arithmetic; 0: it is. */
static spirv_id special(emitter *e, const instr *i, spirv_id a, spirv_id b, spirv_id c) {
  spirv *s = &e->s;
  sn_dtype of = (sn_dtype)e->code[i->a].dtype;
  switch ((alu)i->code) {
  case ALU_isnan: return spirv_op(s, SPV_IsNan, s->boolean, SPV_ARGS(a));
  case ALU_isinf: return spirv_op(s, SPV_IsInf, s->boolean, SPV_ARGS(a));
  case ALU_not: return spirv_op(s, SPV_LogicalNot, s->boolean, SPV_ARGS(a));
  case ALU_cast: return emit_cast(e, a, of, (sn_dtype)i->dtype);
  case ALU_unit: return unit_of(e, a);
  case ALU_eq:
  case ALU_ne:
  case ALU_lt:
  case ALU_le:
  case ALU_gt:
  case ALU_ge: return comparison(e, (alu)i->code, of, a, b);
  case ALU_and: return both(e, a, b);
  case ALU_or: return is(e, SPV_LogicalOr, a, b);
  case ALU_xor: return is(e, SPV_LogicalNotEqual, a, b);
  case ALU_range_int: return range_int(e, i, a, b);
  case ALU_bits_below: return is(e, SPV_ULessThan, top24(e, a), spirv_u32(s, (uint32_t)i->x));
  case ALU_select: return pick(e, emit_lane_type(e, (sn_dtype)i->dtype), a, b, c);
  case ALU_gauss: return gauss(e, a, b, c);
  default: return 0;
  }
}

spirv_id emit_alu(emitter *e, const instr *i) {
  spirv_id a = e->reg[i->a], b = e->reg[i->b], c = e->reg[i->c], r = special(e, i, a, b, c);
  if (!r && instr_is_float(i)) {
    r = alu_table[i->code].arguments == 1 ? float_unary(e, (alu)i->code, a)
                                          : float_binary(e, (alu)i->code, a, b);
  } else if (!r) {
    r = int_alu(e, (alu)i->code, a, b);
  }
  if (!r) {
    e->why = "an instruction without a form in SPIR-V";
    return emit_number(e, (sn_dtype)i->dtype, 0);
  }
  return emit_rounded(e, r, (sn_dtype)i->dtype);
}

/* --- reductions --- */

spirv_id emit_combined(emitter *e, reduce_kind kind, sn_dtype dtype, spirv_id a, spirv_id b) {
  static const alu ops[] = {
      [REDUCE_SUM] = ALU_add, [REDUCE_PROD] = ALU_mul, [REDUCE_MAX] = ALU_max,
      [REDUCE_MIN] = ALU_min, [REDUCE_ANY] = ALU_or,   [REDUCE_ALL] = ALU_and};
  if (kind == REDUCE_ANY || kind == REDUCE_ALL)
    return is(e, kind == REDUCE_ANY ? SPV_LogicalOr : SPV_LogicalAnd, a, b);
  return dtype_is_float(dtype) ? float_binary(e, ops[kind], a, b) : int_alu(e, ops[kind], a, b);
}

spirv_id emit_neutral(emitter *e, reduce_kind kind, sn_dtype dtype) {
  bool is_float = dtype_is_float(dtype);
  switch (kind) {
  case REDUCE_MAX: return emit_number(e, dtype, is_float ? (double)-INFINITY : INT32_MIN);
  case REDUCE_MIN: return emit_number(e, dtype, is_float ? (double)INFINITY : INT32_MAX);
  case REDUCE_PROD:
  case REDUCE_ALL: return emit_number(e, dtype, 1);
  default: return emit_number(e, dtype, 0);
  }
}
