/* Numbers and arithmetic of kernels. See kernel.h. */
#include "device/vulkan/kernel.h"

enum { NO_CONTRACTION = 42 };

val k_f32(kernel *k, float x) { return spirv_f32(&k->s, x); }
val k_i32(kernel *k, int32_t x) { return spirv_i32(&k->s, x); }
val k_u32(kernel *k, uint32_t x) { return spirv_u32(&k->s, x); }
val k_bool(kernel *k, bool x) { return spirv_bool(&k->s, x); }
val k_index(kernel *k, int64_t x) {
  return k->env->wide ? spirv_i64(&k->s, x) : spirv_i32(&k->s, (int32_t)x);
}

static spirv_id type_of(const kernel *k, val a) { return spirv_type_of(&k->s, a); }
static bool is_signed(const kernel *k, spirv_id t) { return t == k->s.i32 || t == k->s.i64; }
static bool is_integer(const kernel *k, spirv_id t) {
  return is_signed(k, t) || t == k->s.u32 || t == k->s.u64 || t == k->s.u16 || t == k->s.u8;
}

/* Of the type of a; what is neither integer nor bool is a float or a vector of floats. */
static val binary(kernel *k, int of_ints, int of_floats, val a, val b) {
  spirv_id type = type_of(k, a);
  if (is_integer(k, type))
    return spirv_op(&k->s, of_ints, type, SPV_ARGS(a, b));
  val r = spirv_op(&k->s, of_floats, type, SPV_ARGS(a, b));
  spirv_decorate(&k->s, r, SPV_ARGS(NO_CONTRACTION));
  return r;
}

/* In the order in which they were made, so that a + b and b + a are no two shaders. */
static val commuted(kernel *k, int of_ints, int of_floats, val a, val b) {
  return a < b ? binary(k, of_ints, of_floats, a, b) : binary(k, of_ints, of_floats, b, a);
}

val k_add(kernel *k, val a, val b) { return commuted(k, SPV_IAdd, SPV_FAdd, a, b); }
val k_sub(kernel *k, val a, val b) { return binary(k, SPV_ISub, SPV_FSub, a, b); }
val k_mul(kernel *k, val a, val b) { return commuted(k, SPV_IMul, SPV_FMul, a, b); }
val k_div(kernel *k, val a, val b) {
  return binary(k, is_signed(k, type_of(k, a)) ? SPV_SDiv : SPV_UDiv, SPV_FDiv, a, b);
}
val k_rem(kernel *k, val a, val b) {
  return binary(k, is_signed(k, type_of(k, a)) ? SPV_SRem : SPV_UMod, SPV_FRem, a, b);
}

val k_fma(kernel *k, val a, val b, val c) {
  return spirv_glsl(&k->s, GLSL_Fma, type_of(k, a), SPV_ARGS(a, b, c));
}

val k_neg(kernel *k, val a) {
  spirv_id type = type_of(k, a);
  return spirv_op(&k->s, is_integer(k, type) ? SPV_SNegate : SPV_FNegate, type, SPV_ARGS(a));
}

val k_abs(kernel *k, val a) {
  return k_glsl(k, is_integer(k, type_of(k, a)) ? GLSL_SAbs : GLSL_FAbs, a);
}

/* By the class of a: signed, unsigned, float. */
static int pick3(const kernel *k, val a, int of_signed, int of_unsigned, int of_floats) {
  spirv_id type = type_of(k, a);
  return is_signed(k, type) ? of_signed : is_integer(k, type) ? of_unsigned : of_floats;
}

val k_min(kernel *k, val a, val b) {
  int f = pick3(k, a, GLSL_SMin, GLSL_UMin, GLSL_FMin);
  return spirv_glsl(&k->s, f, type_of(k, a), SPV_ARGS(a, b));
}
val k_max(kernel *k, val a, val b) {
  int f = pick3(k, a, GLSL_SMax, GLSL_UMax, GLSL_FMax);
  return spirv_glsl(&k->s, f, type_of(k, a), SPV_ARGS(a, b));
}

static val logic(kernel *k, int of_bools, int of_bits, val a, val b) {
  spirv_id type = type_of(k, a);
  return spirv_op(&k->s, type == k->s.boolean ? of_bools : of_bits, type, SPV_ARGS(a, b));
}

val k_and(kernel *k, val a, val b) { return logic(k, SPV_LogicalAnd, SPV_BitwiseAnd, a, b); }
val k_or(kernel *k, val a, val b) { return logic(k, SPV_LogicalOr, SPV_BitwiseOr, a, b); }
val k_xor(kernel *k, val a, val b) { return logic(k, SPV_LogicalNotEqual, SPV_BitwiseXor, a, b); }
val k_not(kernel *k, val a) {
  spirv_id type = type_of(k, a);
  return spirv_op(&k->s, type == k->s.boolean ? SPV_LogicalNot : SPV_Not, type, SPV_ARGS(a));
}

static val shift(kernel *k, int op, val a, int by) {
  return by == 0 ? a : spirv_op(&k->s, op, type_of(k, a), SPV_ARGS(a, k_u32(k, (uint32_t)by)));
}
val k_shl(kernel *k, val a, int by) { return shift(k, SPV_ShiftLeftLogical, a, by); }
val k_shr(kernel *k, val a, int by) { return shift(k, SPV_ShiftRightLogical, a, by); }

static val compare(kernel *k, int op, val a, val b) {
  return spirv_op(&k->s, op, k->s.boolean, SPV_ARGS(a, b));
}

val k_eq(kernel *k, val a, val b) {
  spirv_id type = type_of(k, a);
  return compare(k,
                 type == k->s.boolean  ? SPV_LogicalEqual
                 : is_integer(k, type) ? SPV_IEqual
                                       : SPV_FOrdEqual,
                 a, b);
}
val k_ne(kernel *k, val a, val b) {
  spirv_id type = type_of(k, a);
  return compare(k,
                 type == k->s.boolean  ? SPV_LogicalNotEqual
                 : is_integer(k, type) ? SPV_INotEqual
                                       : SPV_FUnordNotEqual,
                 a, b);
}
val k_lt(kernel *k, val a, val b) {
  return compare(k, pick3(k, a, SPV_SLessThan, SPV_ULessThan, SPV_FOrdLessThan), a, b);
}
val k_le(kernel *k, val a, val b) {
  return compare(k, pick3(k, a, SPV_SLessThanEqual, SPV_ULessThanEqual, SPV_FOrdLessThanEqual), a,
                 b);
}
val k_gt(kernel *k, val a, val b) { return k_lt(k, b, a); }
val k_ge(kernel *k, val a, val b) { return k_le(k, b, a); }

val k_select(kernel *k, val condition, val yes, val no) {
  return spirv_op(&k->s, SPV_Select, type_of(k, yes), SPV_ARGS(condition, yes, no));
}

val k_glsl(kernel *k, int function, val a) {
  return spirv_glsl(&k->s, function, type_of(k, a), SPV_ARGS(a));
}

val k_bits(kernel *k, val a, spirv_id type) {
  return type_of(k, a) == type ? a : spirv_op(&k->s, SPV_Bitcast, type, SPV_ARGS(a));
}

val k_to_f32(kernel *k, val a) {
  spirv_id type = type_of(k, a);
  if (type == k->s.f32)
    return a;
  return spirv_op(&k->s, is_signed(k, type) ? SPV_ConvertSToF : SPV_ConvertUToF, k->s.f32,
                  SPV_ARGS(a));
}

/* An integer in another width; signed ones keep their sign. */
static val resize(kernel *k, val a, spirv_id type) {
  spirv_id from = type_of(k, a);
  const spirv *s = &k->s;
  if (from == type)
    return a;
  bool wide = from == s->i64 || from == s->u64, to_wide = type == s->i64 || type == s->u64;
  if (wide == to_wide && from != s->u8 && from != s->u16)
    return k_bits(k, a, type);
  spirv_id same =
      to_wide ? (is_signed(k, from) ? s->i64 : s->u64) : (is_signed(k, from) ? s->i32 : s->u32);
  a = spirv_op(&k->s, is_signed(k, from) ? SPV_SConvert : SPV_UConvert, same, SPV_ARGS(a));
  return k_bits(k, a, type);
}

val k_to_i32(kernel *k, val a) {
  if (type_of(k, a) == k->s.f32)
    return spirv_op(&k->s, SPV_ConvertFToS, k->s.i32, SPV_ARGS(a));
  return resize(k, a, k->s.i32);
}
val k_to_u32(kernel *k, val a) {
  if (type_of(k, a) == k->s.f32)
    return spirv_op(&k->s, SPV_ConvertFToU, k->s.u32, SPV_ARGS(a));
  return resize(k, a, k->s.u32);
}
val k_to_index(kernel *k, val a) { return resize(k, a, k->index); }

val k_part(kernel *k, val vector, int component) {
  spirv_id type = k_component_type(k, type_of(k, vector));
  return spirv_op(&k->s, SPV_CompositeExtract, type, SPV_ARGS(vector, (uint32_t)component));
}

val k_vector(kernel *k, int n, const val *components) {
  spirv_id type = spirv_vector(&k->s, type_of(k, components[0]), n);
  return spirv_op(&k->s, SPV_CompositeConstruct, type, n, components);
}

spirv_id k_component_type(kernel *k, spirv_id vector) {
  return spirv_components(&k->s, vector) > 1 ? spirv_held(&k->s, vector) : vector;
}

/* --- subgroups --- */

enum { SCOPE_SUBGROUP = 3, CAPABILITY_SUBGROUP = 61, CAPABILITY_SHUFFLE = 65 };

val k_shuffle_xor(kernel *k, val x, int mask) {
  k->subgroups = true;
  spirv_capability(&k->s, CAPABILITY_SUBGROUP);
  spirv_capability(&k->s, CAPABILITY_SHUFFLE);
  val scope = k_u32(k, SCOPE_SUBGROUP), by = k_u32(k, (uint32_t)mask);
  return spirv_op(&k->s, SPV_GroupNonUniformShuffleXor, type_of(k, x), SPV_ARGS(scope, x, by));
}
