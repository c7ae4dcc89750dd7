/* Elementary functions of vectors. What they compute and how exactly: step/math.h. All take every f32 (subnormals,
 * infinities, NaN, both zeros) and treat lanes alone: the result of one does not depend on its neighbours. */
#ifndef SINEW_DEVICE_CPU_ISA_MATH_H
#define SINEW_DEVICE_CPU_ISA_MATH_H

#include "base/stale.h"
#include "device/cpu/isa/vec.h"
#include "step/math.h"

#include <math.h>
#include <stdbool.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* --- choices --- */
#if defined(ISA_avx512)
typedef __mmask16 vec_mask;
VEC_INLINE vec_mask vec_less(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
VEC_INLINE vec_mask vec_same(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
/* a where m, else b */
VEC_INLINE vec vec_pick(vec_mask m, vec a, vec b) { return _mm512_mask_blend_ps(m, b, a); }
VEC_INLINE bool mask_holds(vec_mask m) { return m != 0; }
VEC_INLINE vec_mask mask_not(vec_mask m) { return (vec_mask)~m; }
VEC_INLINE vec_mask mask_both(vec_mask a, vec_mask b) { return (vec_mask)(a & b); }
VEC_INLINE bool mask_lane(vec_mask m, int i) { return m >> i & 1; }
/* Bounds that NaN passes. */
VEC_INLINE vec vec_at_least(vec x, float least) { return _mm512_max_ps(vec_all(least), x); }
VEC_INLINE vec vec_at_most(vec x, float most) { return _mm512_min_ps(vec_all(most), x); }
#else
typedef vec_i32 vec_mask;
VEC_INLINE vec_mask vec_less(vec a, vec b) { return (vec_mask)(a < b); }
VEC_INLINE vec_mask vec_same(vec a, vec b) { return (vec_mask)(a == b); }
VEC_INLINE vec vec_pick(vec_mask m, vec a, vec b) {
  return (vec)(((vec_i32)a & m) | ((vec_i32)b & ~m));
}
VEC_INLINE bool mask_holds(vec_mask m) {
  int32_t any = 0;
  for (int i = 0; i < VEC; i++)
    any |= m[i];
  return any != 0;
}
VEC_INLINE vec_mask mask_not(vec_mask m) { return ~m; }
VEC_INLINE vec_mask mask_both(vec_mask a, vec_mask b) { return a & b; }
VEC_INLINE bool mask_lane(vec_mask m, int i) { return m[i] != 0; }
VEC_INLINE vec vec_at_least(vec x, float least) {
  return vec_pick(vec_less(x, vec_all(least)), vec_all(least), x);
}
VEC_INLINE vec vec_at_most(vec x, float most) {
  return vec_pick(vec_less(vec_all(most), x), vec_all(most), x);
}
#endif

/* Whether some lane is: also one that nobody wants, so no result may depend on the answer. */
VEC_INLINE bool mask_any(vec_mask m) {
  stale_pass(&m, sizeof m);
  return mask_holds(m);
}
VEC_INLINE vec_i32 vec_ints(int32_t x) { return x - (vec_i32){0}; }
VEC_INLINE vec vec_abs(vec x) { return (vec)((vec_i32)x & vec_ints(0x7fffffff)); }
/* |size| with the sign of x */
VEC_INLINE vec vec_sign_of(vec size, vec x) {
  const vec_i32 sign = vec_ints(INT32_MIN);
  return (vec)(((vec_i32)size & ~sign) | ((vec_i32)x & sign));
}
VEC_INLINE vec vec_of_ints(vec_i32 x) { return __builtin_convertvector(x, vec); }
/* 2^k, k from -126 to 127 */
VEC_INLINE vec vec_power(vec_i32 k) { return (vec)(((vec_u32)k + 127) << 23); }

/* A polynomial of n coefficients, lowest first; n is a constant. */
VEC_INLINE vec vec_poly(vec x, const float *c, int n) {
  vec sum = vec_all(c[n - 1]);
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; i--)
    sum = vec_fma(sum, x, vec_all(c[i]));
  return sum;
}
#define VEC_POLY(x, c) vec_poly(x, c, (int)(sizeof(c) / sizeof *(c)))

/* --- exp and its kin --- */
/* The whole number nearest to t, and its bits; |t| < 2^22. */
VEC_INLINE vec vec_whole(vec x, vec by, vec_i32 *bits) {
  vec shifted = vec_fma(x, by, vec_all(MATH_SHIFT));
  *bits = (vec_i32)((vec_u32)shifted - (vec_u32)vec_all(MATH_SHIFT));
  return shifted - vec_all(MATH_SHIFT);
}
/* e^r - 1 for |r| <= ln 2 / 2 */
VEC_INLINE vec vec_expm1_near(vec r) { return vec_fma(r * r, VEC_POLY(r, math_exp), r); }
/* x = n ln 2 + the result */
VEC_INLINE vec vec_exp_reduce(vec x, vec n) {
  return vec_fma(n, vec_all(-MATH_LN2_LO), vec_fma(n, vec_all(-MATH_LN2_HI), x));
}
/* x 2^n; n is k as a float. Two factors, so that neither end of the range is cut off early. */
VEC_INLINE vec vec_scale(vec x, vec n, vec_i32 k) {
#if defined(ISA_avx512)
  (void)k;
  return _mm512_scalef_ps(x, n);
#else
  (void)n;
  vec_i32 half = k >> 1;
  return x * vec_power(half) * vec_power(k - half);
#endif
}

VEC_INLINE vec vec_exp(vec x) {
  vec_i32 k;
  x = vec_at_most(vec_at_least(x, MATH_EXP_LEAST), MATH_EXP_MOST);
  vec n = vec_whole(x, vec_all(MATH_LOG2E), &k);
  return vec_scale(1 + vec_expm1_near(vec_exp_reduce(x, n)), n, k);
}

VEC_INLINE vec vec_exp2(vec x) {
  vec_i32 k;
  x = vec_at_most(vec_at_least(x, -151), 129);
  vec n = vec_whole(x, vec_all(1), &k);
  return vec_scale(1 + vec_expm1_near((x - n) * MATH_LN2), n, k);
}

/* 2^n (e^r) - 1 as s2 (s1 (e^r - 1) + (s1 - 1 / s2)), s1 s2 = 2^n. */
VEC_INLINE vec vec_expm1(vec x) {
  vec_i32 k;
  vec y = vec_at_most(vec_at_least(x, -20), MATH_EXP_MOST);
  vec n = vec_whole(y, vec_all(MATH_LOG2E), &k);
  vec_i32 half = k >> 1;
  vec s1 = vec_power(half), s2 = vec_power(k - half), below = vec_power(half - k);
  vec e = vec_fma(s1, vec_expm1_near(vec_exp_reduce(y, n)), s1 - below) * s2;
  return vec_pick(vec_same(x, vec_all(0)), x, e);
}

VEC_INLINE vec vec_tanh(vec x) {
  vec_i32 k;
  vec a = vec_at_most(2 * vec_abs(x), 20);
  vec n = vec_whole(a, vec_all(MATH_LOG2E), &k), s = vec_power(k);
  vec m = vec_fma(s, vec_expm1_near(vec_exp_reduce(a, n)), s - 1);
  return vec_sign_of(m / (m + 2), x);
}

VEC_INLINE vec vec_sigmoid(vec x) {
  vec e = vec_exp((vec)((vec_i32)x | vec_ints(INT32_MIN)));
  return vec_pick(vec_less(x, vec_all(0)), e, vec_all(1)) / (1 + e);
}

/* a / b to about 1.5 ulp, of b that is near 1. */
VEC_INLINE vec vec_about(vec a, vec b) {
#if defined(ISA_avx512)
  vec y = _mm512_rcp14_ps(b);
  return a * vec_fma(_mm512_fnmadd_ps(b, y, vec_all(1)), y, y);
#else
  return a / b;
#endif
}

/* Of n vectors, in lockstep: coefficients are picked beside the arithmetic of others. */
enum { VECS = 4 };
#define EACH_VEC(k) _Pragma("GCC unroll 4") for (int k = 0; k < n; k++)
VEC_INLINE void vecs_erf(vec *x, const int n) {
  vec_mask near[VECS];
  vec u[VECS], above[VECS], below[VECS];
  EACH_VEC(k) near[k] = vec_less(vec_abs(x[k]), vec_all(MATH_ERF_SPLIT));
  EACH_VEC(k)
  u[k] = vec_pick(near[k], x[k] * x[k], vec_at_most(vec_abs(x[k]), MATH_ERF_MOST));
#define COEFFICIENT(of, i) \
  vec_pick(near[k], vec_all(math_erf_near_##of[i]), vec_all(math_erf_far_##of[i]))
  EACH_VEC(k) above[k] = COEFFICIENT(above, 5);
  EACH_VEC(k) below[k] = COEFFICIENT(below, 4);
  EACH_VEC(k) above[k] = vec_fma(above[k], u[k], COEFFICIENT(above, 4));
  EACH_VEC(k) below[k] = vec_fma(below[k], u[k], COEFFICIENT(below, 3));
  EACH_VEC(k) above[k] = vec_fma(above[k], u[k], COEFFICIENT(above, 3));
  EACH_VEC(k) below[k] = vec_fma(below[k], u[k], COEFFICIENT(below, 2));
  EACH_VEC(k) above[k] = vec_fma(above[k], u[k], COEFFICIENT(above, 2));
  EACH_VEC(k) below[k] = vec_fma(below[k], u[k], COEFFICIENT(below, 1));
  EACH_VEC(k) above[k] = vec_fma(above[k], u[k], COEFFICIENT(above, 1));
  EACH_VEC(k) below[k] = vec_fma(below[k], u[k], vec_all(1));
  EACH_VEC(k) above[k] = vec_fma(above[k], u[k], COEFFICIENT(above, 0));
#undef COEFFICIENT
  EACH_VEC(k) above[k] = vec_about(above[k], below[k]);
  EACH_VEC(k)
  x[k] = vec_pick(near[k], vec_fma(x[k], above[k], x[k]), vec_sign_of(1 - above[k], x[k]));
}
VEC_INLINE vec vec_erf(vec x) {
  vecs_erf(&x, 1);
  return x;
}

/* --- logarithms --- */
/* x = 2^n m with sqrt(1/2) <= m < sqrt(2), for normal x > 0. */
VEC_INLINE vec vec_split(vec x, vec_i32 *n) {
  vec_i32 i = (vec_i32)((vec_u32)x - MATH_SQRT_HALF_BITS); /* wraps where x is none of these */
  *n = i >> 23;
  return (vec)((i & vec_ints(0x7fffff)) + MATH_SQRT_HALF_BITS);
}
/* Also for subnormal x. */
VEC_INLINE vec vec_split_any(vec x, vec *n) {
  vec_mask small = vec_less(x, vec_all(0x1p-126f));
  vec_i32 k;
  vec m = vec_split(vec_pick(small, x * 0x1p25f, x), &k);
  *n = vec_of_ints(k) - vec_pick(small, vec_all(25), vec_all(0));
  return m;
}
/* log(1 + f) - f + more */
VEC_INLINE vec vec_log_near(vec f, vec more) {
  vec h = f * f;
  return vec_fma(vec_all(-0.5f), h, vec_fma(f * h, VEC_POLY(f, math_log), more));
}
/* What logarithms are where x is not between 0 and infinity: -inf, NaN, x. */
VEC_INLINE vec vec_log_ends(vec x, vec r) {
  const vec zero = vec_all(0);
  vec below = vec_pick(vec_same(x, zero), vec_all(-INFINITY), vec_all(NAN));
  r = vec_pick(vec_less(x, vec_all(INFINITY)), r, x);
  return vec_pick(vec_less(zero, x), r, vec_pick(vec_same(x, x), below, x));
}

VEC_INLINE vec vec_log(vec x) {
  vec n, f = vec_split_any(x, &n) - 1;
  vec r = f + vec_log_near(f, n * MATH_LN2_LO);
  return vec_log_ends(x, vec_fma(n, vec_all(MATH_LN2_HI), r));
}

VEC_INLINE vec vec_log2(vec x) {
  vec n, f = vec_split_any(x, &n) - 1;
  return vec_log_ends(x, vec_fma(f + vec_log_near(f, vec_all(0)), vec_all(MATH_LOG2E), n));
}

/* For x > -1 and finite, or NaN. f is exact: what 1 + x loses is found and put back. */
VEC_INLINE vec vec_log1p_inside(vec x) {
  vec_i32 k;
  vec u = 1 + x, lost = vec_pick(vec_less(x, vec_all(1)), x - (u - 1), 1 - (u - x));
  vec m = vec_split(u, &k), n = vec_of_ints(k);
  vec_i32 small = k < vec_ints(100), by = k & small; /* beyond, nothing counts */
  vec f = (m - 1) + (vec)((vec_i32)lost & small) * vec_power(-by);
  return vec_fma(n, vec_all(MATH_LN2_HI), f + vec_log_near(f, n * MATH_LN2_LO));
}

VEC_INLINE vec vec_log1p(vec x) {
  return vec_pick(vec_same(x, vec_all(0)), x, vec_log_ends(1 + x, vec_log1p_inside(x)));
}

VEC_INLINE vec vec_softplus(vec x) {
  vec e = vec_exp((vec)((vec_i32)x | vec_ints(INT32_MIN)));
  return vec_at_least(x, 0) + vec_log1p_inside(e);
}

/* --- in f64: half a vector at a time --- */
enum { VEC_HALF = VEC / 2 };
typedef float vec_half __attribute__((vector_size(4 * VEC_HALF)));
typedef int32_t vec_half_i32 __attribute__((vector_size(4 * VEC_HALF)));
typedef double vec_f64 __attribute__((vector_size(8 * VEC_HALF)));
typedef int64_t vec_i64 __attribute__((vector_size(8 * VEC_HALF)));

VEC_INLINE vec_f64 vec_f64_all(double x) { return x - (vec_f64){0}; }
VEC_INLINE vec_f64 vec_f64_fma(vec_f64 a, vec_f64 b, vec_f64 c) {
#if defined(ISA_avx512)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(ISA_avx2)
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}
/* Lanes 0 … VEC_HALF-1, or those above. */
VEC_INLINE vec_f64 vec_widen(vec x, int upper) {
#if defined(ISA_avx512)
  return (vec_f64)_mm512_cvtps_pd(upper ? (__m256)_mm512_extractf64x4_pd((__m512d)x, 1)
                                        : _mm512_castps512_ps256(x));
#elif defined(ISA_avx2)
  return (vec_f64)_mm256_cvtps_pd(upper ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x));
#else
  vec_half h;
  memcpy(&h, (const char *)&x + upper * (int)sizeof h, sizeof h);
  return __builtin_convertvector(h, vec_f64);
#endif
}
VEC_INLINE vec vec_narrow(vec_f64 low, vec_f64 high) {
  vec_half h[2] = {__builtin_convertvector(low, vec_half), __builtin_convertvector(high, vec_half)};
  vec x;
  memcpy(&x, h, sizeof x);
  return x;
}
#define VEC_SHIFT_F64 0x1.8p52
VEC_INLINE vec_f64 vec_f64_poly(vec_f64 x, const double *c, int n) {
  vec_f64 sum = vec_f64_all(c[n - 1]);
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; i--)
    sum = vec_f64_fma(sum, x, vec_f64_all(c[i]));
  return sum;
}
#define VEC_F64_POLY(x, c) vec_f64_poly(x, c, (int)(sizeof(c) / sizeof *(c)))

/* --- angles: |x| <= MATH_ANGLE_MOST --- */
/* x = n pi/2 + r; gives r and adds n to *turns. */
VEC_INLINE vec_f64 vec_angle_half(vec_f64 x, vec_f64 *n) {
  *n = (x * MATH_TWO_OVER_PI + VEC_SHIFT_F64) - VEC_SHIFT_F64;
  return (x - *n * MATH_HALF_PI_HI) - *n * MATH_HALF_PI_LO;
}
VEC_INLINE vec vec_angle(vec x, vec_i32 *quarter) {
  vec_f64 n[2], low = vec_angle_half(vec_widen(x, 0), &n[0]);
  vec_f64 high = vec_angle_half(vec_widen(x, 1), &n[1]);
  vec_half_i32 q[2] = {__builtin_convertvector(n[0], vec_half_i32),
                       __builtin_convertvector(n[1], vec_half_i32)};
  memcpy(quarter, q, sizeof *quarter);
  return vec_narrow(low, high);
}
VEC_INLINE vec vec_sin_near(vec r) { return vec_fma(r * r * r, VEC_POLY(r * r, math_sin), r); }
VEC_INLINE vec vec_cos_near(vec r) {
  vec t = r * r;
  return vec_fma(t * t, VEC_POLY(t, math_cos), vec_fma(vec_all(-0.5f), t, vec_all(1)));
}
/* The sine of r, |r| <= pi/4, and q quarters of a turn. */
VEC_INLINE vec vec_sine(vec r, vec_i32 q) {
  vec_i32 odd = -(q & 1);
  vec_i32 v = ((vec_i32)vec_cos_near(r) & odd) | ((vec_i32)vec_sin_near(r) & ~odd);
  return (vec)(v ^ ((q & 2) << 30));
}
VEC_INLINE vec vec_sin(vec x) {
  vec_i32 q;
  vec r = vec_angle(x, &q);
  return vec_pick(vec_same(x, vec_all(0)), x, vec_sine(r, q));
}
VEC_INLINE vec vec_cos(vec x) {
  vec_i32 q;
  vec r = vec_angle(x, &q);
  return vec_sine(r, q + 1);
}
VEC_INLINE vec vec_tan(vec x) {
  vec_i32 q, odd;
  vec r = vec_angle(x, &q), s = vec_sin_near(r), c = vec_cos_near(r);
  odd = -(q & 1);
  vec above = (vec)(((vec_i32)c & odd) | ((vec_i32)s & ~odd));
  vec below = (vec)(((vec_i32)s & odd) | ((vec_i32)c & ~odd));
  vec t = (vec)((vec_i32)(above / below) ^ (odd & INT32_MIN));
  return vec_pick(vec_same(x, vec_all(0)), x, t);
}
/* Lanes for which these do. */
VEC_INLINE vec_mask vec_is_angle(vec x) { return vec_less(vec_abs(x), vec_all(MATH_ANGLE_MOST)); }

/* --- powers: x > 0, both finite --- */
VEC_INLINE vec_f64 vec_f64_pick(vec_i64 m, vec_f64 a, vec_f64 b) {
  return (vec_f64)(((vec_i64)a & m) | ((vec_i64)b & ~m));
}
VEC_INLINE vec_f64 vec_pow_half(vec_f64 m, vec_f64 n, vec_f64 y) {
  vec_f64 s = (m - 1) / (m + 1);
  vec_f64 z = y * vec_f64_fma(s, VEC_F64_POLY(s * s, math_log2), n);
  /* Beyond, the result is 0 or infinite all the same. */
  z = vec_f64_pick((vec_i64)(z > 160), vec_f64_all(160), z);
  z = vec_f64_pick((vec_i64)(z < -160), vec_f64_all(-160), z);
  vec_f64 shifted = z + VEC_SHIFT_F64, whole = shifted - VEC_SHIFT_F64;
  vec_i64 k = (vec_i64)shifted - (vec_i64)vec_f64_all(VEC_SHIFT_F64);
  return VEC_F64_POLY(z - whole, math_pow2) * (vec_f64)((k + 1023) << 52);
}
VEC_INLINE vec vec_pow(vec x, vec y) {
  vec n, m = vec_split_any(x, &n);
  vec_f64 low = vec_pow_half(vec_widen(m, 0), vec_widen(n, 0), vec_widen(y, 0));
  vec_f64 high = vec_pow_half(vec_widen(m, 1), vec_widen(n, 1), vec_widen(y, 1));
  return vec_narrow(low, high);
}

#endif
