/* Instructions on floats. See emit.h. */
#include "device/vulkan/emit.h"
#include "device/vulkan/emit_math.h"

/* The larger (or smaller); NaN wins. */
static val extreme(kernel *k, bool larger, val a, val b) {
  val better = larger ? k_lt(k, b, a) : k_lt(k, a, b);
  return k_select(k, k_or(k, better, math_is_nan(k, a)), a, b);
}

/* With the divisor's sign. */
static val rem_of(kernel *k, val a, val b) {
  val r = math_fmod_of(k, a, b), zero = k_f32(k, 0);
  val differ = k_xor(k, k_lt(k, r, zero), k_lt(k, b, zero));
  differ = k_and(k, differ, k_ne(k, r, zero));
  return k_select(k, differ, k_add(k, r, b), r);
}

static val (*const functions[ALU_COUNT])(kernel *k, val x) = {
    [ALU_neg] = k_neg,
    [ALU_abs] = k_abs,
    [ALU_sqrt] = math_sqrt_of,
    [ALU_exp] = math_exp_of,
    [ALU_exp2] = math_exp2_of,
    [ALU_expm1] = math_expm1_of,
    [ALU_log] = math_log_of,
    [ALU_log2] = math_log2_of,
    [ALU_log1p] = math_log1p_of,
    [ALU_sin] = math_sin_of,
    [ALU_cos] = math_cos_of,
    [ALU_tan] = math_tan_of,
    [ALU_atan] = math_atan_of,
    [ALU_tanh] = math_tanh_of,
    [ALU_sigmoid] = math_sigmoid_of,
    [ALU_softplus] = math_softplus_of,
    [ALU_erf] = math_erf_of,
};

val emit_float1(emitter *e, alu code, val a) {
  kernel *k = e->k;
  if (functions[code])
    return functions[code](k, a);
  switch (code) {
  case ALU_sign: return k_select(k, math_is_nan(k, a), a, k_glsl(k, GLSL_FSign, a));
  case ALU_recip: return math_quotient(k, k_f32(k, 1), a);
  case ALU_rsqrt: return math_quotient(k, k_f32(k, 1), math_sqrt_of(k, a));
  case ALU_floor: return k_glsl(k, GLSL_Floor, a);
  case ALU_ceil: return k_glsl(k, GLSL_Ceil, a);
  case ALU_round: return k_glsl(k, GLSL_RoundEven, a);
  default: return 0;
  }
}

val emit_float2(emitter *e, alu code, val a, val b) {
  kernel *k = e->k;
  switch (code) {
  case ALU_add: return k_add(k, a, b);
  case ALU_sub: return k_sub(k, a, b);
  case ALU_mul: return k_mul(k, a, b);
  case ALU_div: return math_quotient(k, a, b);
  case ALU_floor_div: return math_floor_quotient(k, a, b);
  case ALU_rem: return rem_of(k, a, b);
  case ALU_fmod: return math_fmod_of(k, a, b);
  case ALU_pow: return math_pow_of(k, a, b);
  case ALU_max: return extreme(k, true, a, b);
  case ALU_min: return extreme(k, false, a, b);
  case ALU_atan2: return math_atan2_of(k, a, b);
  default: return 0;
  }
}

/* The upper 24 bits of a random word as a float, a whole number. */
static val top24(kernel *k, val word) { return k_to_f32(k, k_shr(k, k_to_u32(k, word), 8)); }

/* One of the pair of normal numbers of two random words (ops/choose/choose.h): the angle is reduced to an eighth of a turn
 * exactly, before it meets pi. */
val emit_gauss(emitter *e, val a, val b, val second) {
  kernel *k = e->k;
  val u = k_mul(k, k_add(k, top24(k, a), k_f32(k, 1)), k_f32(k, 0x1p-24f));
  val r = math_sqrt_of(k, k_mul(k, math_log_of(k, u), k_f32(k, -2)));
  val quarters = k_mul(k, top24(k, b), k_f32(k, 0x1p-22f));
  val n = k_glsl(k, GLSL_RoundEven, quarters);
  val angle = k_mul(k, k_sub(k, quarters, n), k_f32(k, 0x1.921fb6p+0f)), q = k_to_i32(k, n);
  q = k_select(k, second, q, k_add(k, q, k_i32(k, 1)));
  return k_mul(k, r, math_sine(k, angle, q));
}
