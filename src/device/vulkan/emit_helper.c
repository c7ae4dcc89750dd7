/* Functions beside main, emitted when first called: halves, and random words. See emit.h. */
#include "base/philox.h"
#include "device/vulkan/emit.h"

typedef enum helper {
  HELPER_F16_WIDEN,  /* f32 of the bits of an f16 (u32) */
  HELPER_F16_NARROW, /* and back, to nearest even */
  HELPER_PHILOX,     /* a word of a random stream */
  HELPERS
} helper;

static val op(kernel *k, int code, val a, val b) {
  return spirv_op(&k->s, code, k->s.u32, SPV_ARGS(a, b));
}
static val is(kernel *k, int code, val a, val b) {
  return spirv_op(&k->s, code, k->s.boolean, SPV_ARGS(a, b));
}
static val pick(kernel *k, val condition, val yes, val no) {
  return spirv_op(&k->s, SPV_Select, k->s.u32, SPV_ARGS(condition, yes, no));
}
static val u(kernel *k, uint32_t n) { return spirv_u32(&k->s, n); }

/* The fraction of a subnormal is a number times 2^-24; all else is moved bits. */
static val f16_widen(kernel *k, const val *arg) {
  spirv *s = &k->s;
  val sign = op(k, SPV_ShiftLeftLogical, op(k, SPV_BitwiseAnd, arg[0], u(k, 0x8000)), u(k, 16));
  val rest = op(k, SPV_BitwiseAnd, arg[0], u(k, 0x7fff));
  val moved = op(k, SPV_ShiftLeftLogical, rest, u(k, 13));
  val normal = op(k, SPV_IAdd, moved, u(k, 112u << 23));
  val infinite = op(k, SPV_BitwiseOr, moved, u(k, 0x7f800000));
  val quiet = op(k, SPV_BitwiseOr, infinite, u(k, 0x400000));
  infinite = pick(k, is(k, SPV_UGreaterThan, rest, u(k, 0x7c00)), quiet, infinite);
  val small = spirv_op(s, SPV_ConvertUToF, s->f32, SPV_ARGS(rest));
  small = k_mul(k, small, spirv_f32(s, 0x1p-24f));
  small = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(small));
  val bits = pick(k, is(k, SPV_UGreaterThanEqual, rest, u(k, 0x7c00)), infinite, normal);
  bits = pick(k, is(k, SPV_ULessThan, rest, u(k, 0x400)), small, bits);
  return spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(op(k, SPV_BitwiseOr, bits, sign)));
}

/* x / 2^shift to nearest even. */
static val shift_round(kernel *k, val x, val shift) {
  val odd = op(k, SPV_BitwiseAnd, op(k, SPV_ShiftRightLogical, x, shift), u(k, 1));
  val half = op(k, SPV_ShiftLeftLogical, u(k, 1), op(k, SPV_ISub, shift, u(k, 1)));
  val up = op(k, SPV_IAdd, op(k, SPV_ISub, half, u(k, 1)), odd);
  return op(k, SPV_ShiftRightLogical, op(k, SPV_IAdd, x, up), shift);
}

static val f16_narrow(kernel *k, const val *arg) {
  spirv *s = &k->s;
  val bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(arg[0]));
  val sign = op(k, SPV_BitwiseAnd, op(k, SPV_ShiftRightLogical, bits, u(k, 16)), u(k, 0x8000));
  val x = op(k, SPV_BitwiseAnd, bits, u(k, 0x7fffffff));
  val normal = shift_round(k, op(k, SPV_ISub, x, u(k, 112u << 23)), u(k, 13));
  val exponent = op(k, SPV_ShiftRightLogical, x, u(k, 23));
  val shift = op(k, SPV_ISub, u(k, 126), exponent); /* 14 … 24 where it matters */
  shift = spirv_glsl(s, GLSL_UMin, s->u32, SPV_ARGS(shift, u(k, 25)));
  shift = spirv_glsl(s, GLSL_UMax, s->u32, SPV_ARGS(shift, u(k, 1)));
  val significand = op(k, SPV_BitwiseOr, op(k, SPV_BitwiseAnd, x, u(k, 0x7fffff)), u(k, 0x800000));
  val small = shift_round(k, significand, shift);
  val nan = op(k, SPV_BitwiseAnd, op(k, SPV_ShiftRightLogical, x, u(k, 13)), u(k, 0x3ff));
  nan = op(k, SPV_BitwiseOr, nan, u(k, 0x7e00));
  val r = pick(k, is(k, SPV_ULessThan, x, u(k, 0x38800000)), small, normal);
  r = pick(k, is(k, SPV_ULessThan, exponent, u(k, 102)), u(k, 0), r);
  r = pick(k, is(k, SPV_UGreaterThanEqual, x, u(k, 0x477ff000)), u(k, 0x7c00), r);
  r = pick(k, is(k, SPV_UGreaterThan, x, u(k, 0x7f800000)), nan, r);
  return op(k, SPV_BitwiseOr, r, sign);
}

/* Arguments: key, key, block low, block high, counter, stream, which of the four words. A 32 by 32 bit product is
 * one instruction with two results, so no 64-bit integers are needed. */
static val philox_word(kernel *k, const val *arg) {
  spirv *s = &k->s;
  val pair = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u32, s->u32));
  val key[2] = {arg[0], arg[1]}, x[4] = {arg[2], arg[3], arg[4], arg[5]};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    val p = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(x[0], u(k, 0xD2511F53)));
    val q = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(x[2], u(k, 0xCD9E8D57)));
    val high = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(q, 1));
    x[0] = op(k, SPV_BitwiseXor, op(k, SPV_BitwiseXor, high, x[1]), key[0]);
    x[1] = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(q, 0));
    high = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(p, 1));
    x[2] = op(k, SPV_BitwiseXor, op(k, SPV_BitwiseXor, high, x[3]), key[1]);
    x[3] = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(p, 0));
    key[0] = op(k, SPV_IAdd, key[0], u(k, 0x9E3779B9));
    key[1] = op(k, SPV_IAdd, key[1], u(k, 0xBB67AE85));
  }
  val r = x[3];
  for (uint32_t w = 0; w < 3; w++)
    r = pick(k, is(k, SPV_IEqual, arg[6], u(k, w)), x[w], r);
  return r;
}

static const struct {
  int n;
  bool takes_float, gives_float;
  val (*body)(kernel *k, const val *arg);
} helpers[HELPERS] = {[HELPER_F16_WIDEN] = {1, false, true, f16_widen},
                      [HELPER_F16_NARROW] = {1, true, false, f16_narrow},
                      [HELPER_PHILOX] = {7, false, false, philox_word}};

static spirv_id define(kernel *k, helper which) {
  spirv *s = &k->s;
  spirv_section now = s->now;
  val block = s->block, arg[8], types[8];
  int n = helpers[which].n;
  types[0] = helpers[which].gives_float ? s->f32 : s->u32;
  for (int i = 0; i < n; i++)
    types[1 + i] = helpers[which].takes_float ? s->f32 : s->u32;
  val type = spirv_type(s, SPV_TypeFunction, n + 1, types);
  s->now = SPV_HELPERS;
  val id = spirv_op(s, SPV_Function, types[0], SPV_ARGS(0, type));
  for (int i = 0; i < n; i++)
    arg[i] = spirv_op(s, SPV_FunctionParameter, types[1 + i], 0, NULL);
  spirv_begin(s, spirv_label(s));
  spirv_do(s, SPV_ReturnValue, SPV_ARGS(helpers[which].body(k, arg)));
  spirv_do(s, SPV_FunctionEnd, 0, NULL);
  s->now = now;
  s->block = block;
  return id;
}

static val call(kernel *k, helper which, int n, const val *args) {
  uint32_t words[8];
  if (!k->helper[which])
    k->helper[which] = define(k, which);
  words[0] = k->helper[which];
  for (int i = 0; i < n; i++)
    words[1 + i] = args[i];
  return spirv_op(&k->s, SPV_FunctionCall, helpers[which].gives_float ? k->s.f32 : k->s.u32, n + 1,
                  words);
}

val emit_f16_widen(emitter *e, val bits) { return call(e->k, HELPER_F16_WIDEN, 1, &bits); }
val emit_f16_narrow(emitter *e, val x) { return call(e->k, HELPER_F16_NARROW, 1, &x); }

val emit_random(emitter *e, const val key[3], uint32_t stream, val index) {
  kernel *k = e->k;
  spirv_id type = spirv_type_of(&k->s, index);
  bool wide = type == k->s.i64 || type == k->s.u64;
  val args[7];
  for (int i = 0; i < 2; i++)
    args[i] = k_to_u32(k, key[i]);
  args[2] = k_to_u32(k, k_shr(k, index, 2));
  args[3] = wide ? k_to_u32(k, k_shr(k, index, 34)) : k_u32(k, 0);
  args[4] = k_to_u32(k, key[2]);
  args[5] = k_u32(k, stream);
  val low = k_to_u32(k, index);
  args[6] = k_and(k, low, k_u32(k, 3));
  return call(k, HELPER_PHILOX, 7, args);
}
