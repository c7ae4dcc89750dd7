/* Arithmetic of regions. See emit.h. What SPIR-V leaves open is said in full here: NaN in max and min, integer division by 0,
 * conversions out of range. */
#include "device/vulkan/emit.h"

#include <math.h>

spirv_id emit_lane_type(emitter *e, sn_dtype dtype) {
  const spirv *s = &e->k->s;
  return dtype_is_float(dtype) ? s->f32 : dtype == SN_BOOL ? s->boolean : s->i32;
}

val emit_number(emitter *e, sn_dtype dtype, double x) {
  if (dtype_is_float(dtype))
    return k_f32(e->k, (float)x);
  return dtype == SN_BOOL ? k_bool(e->k, x != 0) : k_i32(e->k, (int32_t)x);
}

static val is(emitter *e, int op, val a, val b) {
  return spirv_op(&e->k->s, op, e->k->s.boolean, SPV_ARGS(a, b));
}
static val both(emitter *e, val a, val b) { return k_and(e->k, a, b); }
static val number(emitter *e, float x) { return k_f32(e->k, x); }
static val pick(emitter *e, val condition, val yes, val no) {
  return k_select(e->k, condition, yes, no);
}

/* --- casts --- */

/* Truncated and saturated; NaN gives 0. 2^31 as a float is above INT32_MAX, so the upper end is chosen, not clamped. */
static val float_to_int(emitter *e, val a, float lo, float hi, int32_t highest) {
  spirv *s = &e->k->s;
  val above = is(e, SPV_FOrdGreaterThanEqual, a, number(e, hi));
  val below = is(e, SPV_FOrdLessThan, a, number(e, lo));
  val nan = spirv_op(s, SPV_IsNan, s->boolean, SPV_ARGS(a));
  val out = is(e, SPV_LogicalOr, above, nan);
  val safe = pick(e, out, number(e, 0), pick(e, below, number(e, lo), a));
  val i = spirv_op(s, SPV_ConvertFToS, s->i32, SPV_ARGS(safe));
  return pick(e, above, spirv_i32(s, highest), i);
}

val emit_cast(emitter *e, val a, sn_dtype from, sn_dtype to) {
  spirv *s = &e->k->s;
  bool from_float = dtype_is_float(from), to_float = dtype_is_float(to);
  if (from == to || (from_float && to_float))
    return a;
  if (from == SN_BOOL)
    return pick(e, a, emit_number(e, to, 1), emit_number(e, to, 0));
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
static val round_bf16(emitter *e, val a) {
  spirv *s = &e->k->s;
  val bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(a)), k16 = spirv_u32(s, 16);
  val odd = spirv_op(s, SPV_ShiftRightLogical, s->u32, SPV_ARGS(bits, k16));
  odd = spirv_op(s, SPV_BitwiseAnd, s->u32, SPV_ARGS(odd, spirv_u32(s, 1)));
  val up = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(odd, spirv_u32(s, 0x7fff)));
  up = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(bits, up));
  val quiet = spirv_op(s, SPV_BitwiseOr, s->u32, SPV_ARGS(bits, spirv_u32(s, 0x400000)));
  val nan = spirv_op(s, SPV_IsNan, s->boolean, SPV_ARGS(a));
  up = pick(e, nan, quiet, up);
  up = spirv_op(s, SPV_BitwiseAnd, s->u32, SPV_ARGS(up, spirv_u32(s, 0xffff0000)));
  return spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(up));
}

val emit_rounded(emitter *e, val a, sn_dtype dtype) {
  if (dtype == SN_BF16)
    return round_bf16(e, a);
  if (dtype == SN_F16)
    return emit_f16_widen(e, emit_f16_narrow(e, a));
  if (dtype == SN_U8)
    return spirv_op(&e->k->s, SPV_BitwiseAnd, e->k->s.i32, SPV_ARGS(a, spirv_i32(&e->k->s, 255)));
  return a;
}

/* --- integers --- */

/* Division by 0 gives 0 and INT32_MIN / -1 wraps: neither may reach the instruction. */
static val int_division(emitter *e, alu code, val a, val b) {
  spirv *s = &e->k->s;
  val zero = spirv_i32(s, 0), one = spirv_i32(s, 1);
  val by_zero = is(e, SPV_IEqual, b, zero);
  val wraps = both(e, is(e, SPV_IEqual, b, spirv_i32(s, -1)),
                   is(e, SPV_IEqual, a, spirv_i32(s, INT32_MIN)));
  val by = pick(e, is(e, SPV_LogicalOr, by_zero, wraps), one, b);
  val q = spirv_op(s, SPV_SDiv, s->i32, SPV_ARGS(a, by));
  val r =
      spirv_op(s, SPV_ISub, s->i32, SPV_ARGS(a, spirv_op(s, SPV_IMul, s->i32, SPV_ARGS(q, by))));
  if (code == ALU_floor_div || code == ALU_rem) {
    val mixed = is(e, SPV_SLessThan, spirv_op(s, SPV_BitwiseXor, s->i32, SPV_ARGS(r, by)), zero);
    mixed = both(e, mixed, is(e, SPV_INotEqual, r, zero));
    q = pick(e, mixed, spirv_op(s, SPV_ISub, s->i32, SPV_ARGS(q, one)), q);
    r = pick(e, mixed, spirv_op(s, SPV_IAdd, s->i32, SPV_ARGS(r, by)), r);
  }
  return pick(e, by_zero, zero, code == ALU_rem || code == ALU_fmod ? r : q);
}

static val int_alu(emitter *e, alu code, val a, val b) {
  spirv *s = &e->k->s;
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

static val comparison(emitter *e, alu code, sn_dtype of, val a, val b) {
  static const int floats[] = {SPV_FOrdEqual,       SPV_FUnordNotEqual,
                               SPV_FOrdLessThan,    SPV_FOrdLessThanEqual,
                               SPV_FOrdGreaterThan, SPV_FOrdGreaterThanEqual};
  static const int ints[] = {SPV_IEqual,         SPV_INotEqual,    SPV_SLessThan,
                             SPV_SLessThanEqual, SPV_SGreaterThan, SPV_SGreaterThanEqual};
  a = of == SN_BOOL ? emit_cast(e, a, SN_BOOL, SN_I32) : a;
  b = of == SN_BOOL ? emit_cast(e, b, SN_BOOL, SN_I32) : b;
  return is(e, (dtype_is_float(of) ? floats : ints)[code - ALU_eq], a, b);
}

static val bits_of(emitter *e, val a) {
  return spirv_op(&e->k->s, SPV_Bitcast, e->k->s.u32, SPV_ARGS(a));
}

static val top24(emitter *e, val a) {
  return spirv_op(&e->k->s, SPV_ShiftRightLogical, e->k->s.u32,
                  SPV_ARGS(bits_of(e, a), spirv_u32(&e->k->s, 8)));
}

static val unit_of(emitter *e, val a) {
  val u = spirv_op(&e->k->s, SPV_ConvertUToF, e->k->s.f32, SPV_ARGS(top24(e, a)));
  return k_mul(e->k, u, number(e, 0x1p-24f));
}

/* x + ((a * 2^32 + b) * y >> 64), in 32-bit halves: no 64-bit multiply is needed. */
static val range_int(emitter *e, const instr *i, val a, val b) {
  spirv *s = &e->k->s;
  val pair = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u32, s->u32));
  val y = spirv_u32(s, (uint32_t)(int64_t)i->y);
  val from = spirv_u32(s, (uint32_t)(int64_t)i->x);
  if (i->y == 0x1p32) /* all there are: y has no room in 32 bits, and the result is a */
    return spirv_op(s, SPV_IAdd, s->i32, SPV_ARGS(a, from));
  val low = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(bits_of(e, b), y));
  val high = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(bits_of(e, a), y));
  val carry_in = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(low, 1));
  val middle = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(high, 0));
  val top = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(high, 1));
  val sum = spirv_op(s, SPV_IAddCarry, pair, SPV_ARGS(middle, carry_in));
  val carry = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(sum, 1));
  top = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(top, carry));
  top = spirv_op(s, SPV_IAdd, s->u32, SPV_ARGS(top, from));
  return spirv_op(s, SPV_Bitcast, s->i32, SPV_ARGS(top));
}

/* What is neither plain float nor plain integer arithmetic; 0: it is. */
static val special(emitter *e, const instr *i, val a, val b, val c) {
  spirv *s = &e->k->s;
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
  case ALU_select: return pick(e, a, b, c);
  case ALU_gauss: return emit_gauss(e, a, b, c);
  default: return 0;
  }
}

val emit_alu(emitter *e, const instr *i) {
  val a = e->reg[i->a], b = e->reg[i->b], c = e->reg[i->c], r = special(e, i, a, b, c);
  if (!r && instr_is_float(i)) {
    r = alu_table[i->code].arguments == 1 ? emit_float1(e, (alu)i->code, a)
                                          : emit_float2(e, (alu)i->code, a, b);
  } else if (!r) {
    r = int_alu(e, (alu)i->code, a, b);
  }
  if (!r) {
    e->k->why = "an instruction without a form in SPIR-V";
    return emit_number(e, (sn_dtype)i->dtype, 0);
  }
  return emit_rounded(e, r, (sn_dtype)i->dtype);
}

/* --- reductions --- */

val emit_combined(emitter *e, reduce_kind kind, sn_dtype dtype, val a, val b) {
  static const alu ops[] = {
      [REDUCE_SUM] = ALU_add, [REDUCE_PROD] = ALU_mul, [REDUCE_MAX] = ALU_max,
      [REDUCE_MIN] = ALU_min, [REDUCE_ANY] = ALU_or,   [REDUCE_ALL] = ALU_and};
  if (kind == REDUCE_ANY || kind == REDUCE_ALL)
    return is(e, kind == REDUCE_ANY ? SPV_LogicalOr : SPV_LogicalAnd, a, b);
  return dtype_is_float(dtype) ? emit_float2(e, ops[kind], a, b) : int_alu(e, ops[kind], a, b);
}

val emit_neutral(emitter *e, reduce_kind kind, sn_dtype dtype) {
  bool is_float = dtype_is_float(dtype);
  switch (kind) {
  case REDUCE_MAX: return emit_number(e, dtype, is_float ? (double)-INFINITY : INT32_MIN);
  case REDUCE_MIN: return emit_number(e, dtype, is_float ? (double)INFINITY : INT32_MAX);
  case REDUCE_PROD:
  case REDUCE_ALL: return emit_number(e, dtype, 1);
  default: return emit_number(e, dtype, 0);
  }
}
