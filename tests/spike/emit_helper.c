/* Functions beside main, emitted when first called, and random words. See emitter.h. */
#include "base/philox.h"
#include "spike/emitter.h"

static spirv_id op(emitter *e, int code, spirv_id a, spirv_id b) {
  return spirv_op(&e->s, code, e->s.u32, SPV_ARGS(a, b));
}
static spirv_id is(emitter *e, int code, spirv_id a, spirv_id b) {
  return spirv_op(&e->s, code, e->s.boolean, SPV_ARGS(a, b));
}
static spirv_id pick(emitter *e, spirv_id condition, spirv_id yes, spirv_id no) {
  return spirv_op(&e->s, SPV_Select, e->s.u32, SPV_ARGS(condition, yes, no));
}
static spirv_id u(emitter *e, uint32_t n) { return spirv_u32(&e->s, n); }

/* The fraction of a subnormal is a number times 2^-24; all else is moved bits. */
static spirv_id f16_widen(emitter *e, const spirv_id *arg) {
  spirv *s = &e->s;
  spirv_id sign =
      op(e, SPV_ShiftLeftLogical, op(e, SPV_BitwiseAnd, arg[0], u(e, 0x8000)), u(e, 16));
  spirv_id rest = op(e, SPV_BitwiseAnd, arg[0], u(e, 0x7fff));
  spirv_id moved = op(e, SPV_ShiftLeftLogical, rest, u(e, 13));
  spirv_id normal = op(e, SPV_IAdd, moved, u(e, 112u << 23));
  spirv_id infinite = op(e, SPV_BitwiseOr, moved, u(e, 0x7f800000));
  spirv_id quiet = op(e, SPV_BitwiseOr, infinite, u(e, 0x400000));
  infinite = pick(e, is(e, SPV_UGreaterThan, rest, u(e, 0x7c00)), quiet, infinite);
  spirv_id small = spirv_op(s, SPV_ConvertUToF, s->f32, SPV_ARGS(rest));
  small = emit_float(e, SPV_FMul, small, spirv_f32(s, 0x1p-24f));
  small = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(small));
  spirv_id bits = pick(e, is(e, SPV_UGreaterThanEqual, rest, u(e, 0x7c00)), infinite, normal);
  bits = pick(e, is(e, SPV_ULessThan, rest, u(e, 0x400)), small, bits);
  return spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(op(e, SPV_BitwiseOr, bits, sign)));
}

/* x / 2^shift to nearest even. */
static spirv_id shift_round(emitter *e, spirv_id x, spirv_id shift) {
  spirv_id odd = op(e, SPV_BitwiseAnd, op(e, SPV_ShiftRightLogical, x, shift), u(e, 1));
  spirv_id half = op(e, SPV_ShiftLeftLogical, u(e, 1), op(e, SPV_ISub, shift, u(e, 1)));
  spirv_id up = op(e, SPV_IAdd, op(e, SPV_ISub, half, u(e, 1)), odd);
  return op(e, SPV_ShiftRightLogical, op(e, SPV_IAdd, x, up), shift);
}

static spirv_id f16_narrow(emitter *e, const spirv_id *arg) {
  spirv *s = &e->s;
  spirv_id bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(arg[0]));
  spirv_id sign = op(e, SPV_BitwiseAnd, op(e, SPV_ShiftRightLogical, bits, u(e, 16)), u(e, 0x8000));
  spirv_id x = op(e, SPV_BitwiseAnd, bits, u(e, 0x7fffffff));
  spirv_id normal = shift_round(e, op(e, SPV_ISub, x, u(e, 112u << 23)), u(e, 13));
  spirv_id exponent = op(e, SPV_ShiftRightLogical, x, u(e, 23));
  spirv_id shift = op(e, SPV_ISub, u(e, 126), exponent); /* 14 … 24 where it matters */
  shift = spirv_glsl(s, GLSL_UMin, s->u32, SPV_ARGS(shift, u(e, 25)));
  shift = spirv_glsl(s, GLSL_UMax, s->u32, SPV_ARGS(shift, u(e, 1)));
  spirv_id significand =
      op(e, SPV_BitwiseOr, op(e, SPV_BitwiseAnd, x, u(e, 0x7fffff)), u(e, 0x800000));
  spirv_id small = shift_round(e, significand, shift);
  spirv_id nan = op(e, SPV_BitwiseAnd, op(e, SPV_ShiftRightLogical, x, u(e, 13)), u(e, 0x3ff));
  nan = op(e, SPV_BitwiseOr, nan, u(e, 0x7e00));
  spirv_id r = pick(e, is(e, SPV_ULessThan, x, u(e, 0x38800000)), small, normal);
  r = pick(e, is(e, SPV_ULessThan, exponent, u(e, 102)), u(e, 0), r);
  r = pick(e, is(e, SPV_UGreaterThanEqual, x, u(e, 0x477ff000)), u(e, 0x7c00), r);
  r = pick(e, is(e, SPV_UGreaterThan, x, u(e, 0x7f800000)), nan, r);
  return op(e, SPV_BitwiseOr, r, sign);
}

/* Arguments: key, key, block low, block high, counter, stream, which of the four words. A 32 by 32 bit product is
 * one instruction with two results, so no 64-bit integers are needed. */
static spirv_id philox_word(emitter *e, const spirv_id *arg) {
  spirv *s = &e->s;
  spirv_id pair = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u32, s->u32));
  spirv_id key[2] = {arg[0], arg[1]}, x[4] = {arg[2], arg[3], arg[4], arg[5]};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    spirv_id p = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(x[0], u(e, 0xD2511F53)));
    spirv_id q = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(x[2], u(e, 0xCD9E8D57)));
    spirv_id high = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(q, 1));
    x[0] = op(e, SPV_BitwiseXor, op(e, SPV_BitwiseXor, high, x[1]), key[0]);
    x[1] = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(q, 0));
    high = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(p, 1));
    x[2] = op(e, SPV_BitwiseXor, op(e, SPV_BitwiseXor, high, x[3]), key[1]);
    x[3] = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(p, 0));
    key[0] = op(e, SPV_IAdd, key[0], u(e, 0x9E3779B9));
    key[1] = op(e, SPV_IAdd, key[1], u(e, 0xBB67AE85));
  }
  spirv_id r = x[3];
  for (uint32_t w = 0; w < 3; w++)
    r = pick(e, is(e, SPV_IEqual, arg[6], u(e, w)), x[w], r);
  return r;
}

static const struct {
  int n;
  bool takes_float, gives_float;
  spirv_id (*body)(emitter *e, const spirv_id *arg);
} helpers[HELPERS] = {[HELPER_F16_WIDEN] = {1, false, true, f16_widen},
                      [HELPER_F16_NARROW] = {1, true, false, f16_narrow},
                      [HELPER_PHILOX] = {7, false, false, philox_word}};

static spirv_id define(emitter *e, helper which) {
  spirv *s = &e->s;
  spirv_section now = s->now;
  spirv_id block = s->block, arg[8], types[8];
  int n = helpers[which].n;
  types[0] = helpers[which].gives_float ? s->f32 : s->u32;
  for (int i = 0; i < n; i++)
    types[1 + i] = helpers[which].takes_float ? s->f32 : s->u32;
  spirv_id type = spirv_type(s, SPV_TypeFunction, n + 1, types);
  s->now = SPV_HELPERS;
  spirv_id id = spirv_op(s, SPV_Function, types[0], SPV_ARGS(0, type));
  for (int i = 0; i < n; i++)
    arg[i] = spirv_op(s, SPV_FunctionParameter, types[1 + i], 0, NULL);
  spirv_begin(s, spirv_label(s));
  spirv_do(s, SPV_ReturnValue, SPV_ARGS(helpers[which].body(e, arg)));
  spirv_do(s, SPV_FunctionEnd, 0, NULL);
  s->now = now;
  s->block = block;
  return id;
}

spirv_id emit_call(emitter *e, helper which, int n, const uint32_t *args) {
  uint32_t words[8];
  if (!e->helper[which])
    e->helper[which] = define(e, which);
  words[0] = e->helper[which];
  for (int i = 0; i < n; i++)
    words[1 + i] = args[i];
  return spirv_op(&e->s, SPV_FunctionCall, helpers[which].gives_float ? e->s.f32 : e->s.u32, n + 1,
                  words);
}

spirv_id emit_word(emitter *e, const instr *i) {
  spirv *s = &e->s;
  spirv_id index = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms), high = u(e, 0);
  spirv_id which = spirv_op(s, e->env->wide ? SPV_UConvert : SPV_Bitcast, s->u32, SPV_ARGS(index));
  spirv_id block = spirv_op(s, SPV_ShiftRightLogical, e->index, SPV_ARGS(index, u(e, 2)));
  which = op(e, SPV_BitwiseAnd, which, u(e, 3));
  if (e->env->wide) {
    high = spirv_op(s, SPV_ShiftRightLogical, s->i64, SPV_ARGS(block, u(e, 32)));
    high = spirv_op(s, SPV_UConvert, s->u32, SPV_ARGS(high));
    block = spirv_op(s, SPV_UConvert, s->u32, SPV_ARGS(block));
  } else {
    block = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(block));
  }
  spirv_id word[3];
  reg from[3] = {i->a, i->b, i->c};
  for (int k = 0; k < 3; k++)
    word[k] = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(e->reg[from[k]]));
  spirv_id stream = u(e, (uint32_t)(int64_t)i->x);
  spirv_id r =
      emit_call(e, HELPER_PHILOX, SPV_ARGS(word[0], word[1], block, high, word[2], stream, which));
  return spirv_op(s, SPV_Bitcast, s->i32, SPV_ARGS(r));
}
