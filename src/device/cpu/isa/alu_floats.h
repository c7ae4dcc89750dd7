/* Arithmetic of float vectors that the region machine's kernels share: what step/alu.def says. */
#ifndef SINEW_DEVICE_CPU_ISA_ALU_FLOATS_H
#define SINEW_DEVICE_CPU_ISA_ALU_FLOATS_H

#include "device/cpu/isa/math.h"

/* --- roots and whole numbers --- */
VEC_INLINE vec root_of(vec x) {
#if defined(ISA_avx512)
  return _mm512_sqrt_ps(x);
#elif defined(ISA_avx2)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return (vec)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
  return (vec)vsqrtq_f32((float32x4_t)x);
#else
  for (int i = 0; i < VEC; i++)
    x[i] = sqrtf(x[i]);
  return x;
#endif
}

/* To the nearest, halves to even: from 2^23 on all are whole. */
VEC_INLINE vec round_of(vec x) {
  vec a = vec_abs(x), whole = (a + 0x1p23f) - 0x1p23f;
  return vec_pick(vec_less(a, vec_all(0x1p23f)), vec_sign_of(whole, x), x);
}
VEC_INLINE vec floor_of(vec x) {
  vec r = round_of(x);
  return vec_pick(vec_less(x, r), r - 1, r);
}
VEC_INLINE vec ceil_of(vec x) {
  vec r = round_of(x);
  return vec_pick(vec_less(r, x), vec_sign_of(r + 1, x), r);
}
VEC_INLINE vec neg_of(vec x) { return (vec)((vec_i32)x ^ vec_ints(INT32_MIN)); }
VEC_INLINE vec sign_of(vec x) {
  const vec zero = vec_all(0);
  vec s = vec_pick(vec_less(zero, x), vec_all(1), zero);
  s = vec_pick(vec_less(x, zero), vec_all(-1), s);
  return vec_pick(vec_same(x, x), s, x);
}

/* --- the larger and the smaller: NaN wins --- */
#if defined(ISA_avx512)
VEC_INLINE vec max_of(vec p, vec q) {
  return _mm512_mask_max_ps(p, _mm512_cmp_ps_mask(p, p, _CMP_ORD_Q), p, q);
}
VEC_INLINE vec min_of(vec p, vec q) {
  return _mm512_mask_min_ps(p, _mm512_cmp_ps_mask(p, p, _CMP_ORD_Q), p, q);
}
#else
VEC_INLINE vec max_of(vec p, vec q) {
  return vec_pick(vec_same(p, p), vec_pick(vec_less(q, p), p, q), p);
}
VEC_INLINE vec min_of(vec p, vec q) {
  return vec_pick(vec_same(p, p), vec_pick(vec_less(p, q), p, q), p);
}
#endif

/* --- quotients by one number --- */
/* Vectors divide slowly. Where multiply-adds round once, p * (1 / q) can be brought to the nearest, as long as nothing on the way
 * is too large or too small; zeros and what is not finite have no remainder. */
#if defined(ISA_avx512) || defined(ISA_avx2) || defined(__aarch64__)
VEC_INLINE bool divides_by(float q) {
  float size = q < 0 ? -q : q;
  return size > 0x1p-60f && size < 0x1p60f;
}
VEC_INLINE vec quotient_of(vec p, vec q, vec by) {
  vec r = p * by, rest = vec_fma(neg_of(r), q, p);
#if defined(ISA_avx512)
  __mmask16 none = _mm512_fpclass_ps_mask(rest, 0x9f); /* zeros, infinities, NaN */
  return _mm512_mask_mov_ps(vec_fma(rest, by, r), none, r);
#else
  vec_mask some =
      mask_both(vec_less(vec_all(0), vec_abs(rest)), vec_less(vec_abs(rest), vec_all(INFINITY)));
  return vec_pick(some, vec_fma(rest, by, r), r);
#endif
}
#else
VEC_INLINE bool divides_by(float q) {
  (void)q;
  return false;
}
VEC_INLINE vec quotient_of(vec p, vec q, vec by) {
  (void)by;
  return p / q;
}
#endif

#endif
