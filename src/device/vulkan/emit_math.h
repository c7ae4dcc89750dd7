/* What the files of functions share. Only for emit_math.c, emit_angle.c, emit_pow.c, emit_float.c. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATH_H
#define SINEW_DEVICE_VULKAN_EMIT_MATH_H

#include "device/vulkan/kernel.h"
#include "step/math.h"

#include <math.h>

val math_exp_of(kernel *k, val x);
val math_exp2_of(kernel *k, val x);
val math_expm1_of(kernel *k, val x);
val math_tanh_of(kernel *k, val x);
val math_sigmoid_of(kernel *k, val x);
val math_erf_of(kernel *k, val x);
val math_log_of(kernel *k, val x);
val math_log2_of(kernel *k, val x);
val math_log1p_of(kernel *k, val x);
val math_softplus_of(kernel *k, val x);
val math_sin_of(kernel *k, val x);
val math_cos_of(kernel *k, val x);
val math_tan_of(kernel *k, val x);
val math_atan_of(kernel *k, val x);
val math_atan2_of(kernel *k, val y, val x);
val math_pow_of(kernel *k, val a, val b);
/* Remainders with the dividend's sign; a / b rounded once; the largest whole number that is not above a / b. */
val math_fmod_of(kernel *k, val a, val b);
val math_quotient(kernel *k, val a, val b);
val math_floor_quotient(kernel *k, val a, val b);
val math_sqrt_of(kernel *k, val x);
/* e^r - 1 for |r| <= ln 2 / 2; x 2^n, n whole. */
val math_expm1_near(kernel *k, val r);
val math_scale(kernel *k, val x, val n);
/* x = 2^n m with sqrt(1/2) <= m < sqrt(2), for x > 0; what it gives for others is not used. */
val math_split(kernel *k, val x, val *n);
/* The sine of r + quarter pi/2, |r| <= pi/4; quarter is an i32. */
val math_sine(kernel *k, val r, val quarter);

enum { MATH_SIGN = 0x7fffffff };

static inline val math_bits(kernel *k, val x) { return k_bits(k, x, k->s.i32); }
static inline val math_float(kernel *k, val x) { return k_bits(k, x, k->s.f32); }
static inline val math_is_nan(kernel *k, val x) { return k_ne(k, x, x); }
static inline val math_shift(kernel *k, val x, int by) {
  return spirv_op(&k->s, SPV_ShiftRightArithmetic, k->s.i32, SPV_ARGS(x, k_u32(k, (uint32_t)by)));
}
/* Bounds that NaN passes. */
static inline val math_at_least(kernel *k, val x, float least) {
  return k_select(k, k_lt(k, x, k_f32(k, least)), k_f32(k, least), x);
}
static inline val math_at_most(kernel *k, val x, float most) {
  return k_select(k, k_lt(k, k_f32(k, most), x), k_f32(k, most), x);
}
/* |size| with the sign of x */
static inline val math_sign_of(kernel *k, val size, val x) {
  val mask = k_i32(k, MATH_SIGN), sign = k_and(k, math_bits(k, x), k_i32(k, INT32_MIN));
  return math_float(k, k_or(k, k_and(k, math_bits(k, size), mask), sign));
}
/* 2^n, n from -126 to 127 */
static inline val math_power(kernel *k, val n) {
  return math_float(k, k_shl(k, k_add(k, n, k_i32(k, 127)), 23));
}
static inline val math_minus_abs(kernel *k, val x) {
  return math_float(k, k_or(k, math_bits(k, x), k_i32(k, INT32_MIN)));
}

static inline val math_poly(kernel *k, val x, const float *c, int n) {
  val sum = k_f32(k, c[n - 1]);
  for (int i = n - 2; i >= 0; i--)
    sum = k_fma(k, sum, x, k_f32(k, c[i]));
  return sum;
}
#define MATH_POLY(k, x, c) math_poly(k, x, c, (int)COUNT_OF(c))

/* NaN must not reach a conversion to whole numbers. */
static inline val math_keep_nan(kernel *k, val x, val r) {
  return k_select(k, math_is_nan(k, x), x, r);
}
static inline val math_without_nan(kernel *k, val x) {
  return k_select(k, math_is_nan(k, x), k_f32(k, 0), x);
}

#endif
