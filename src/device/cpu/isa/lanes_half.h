/* Vectors of f16 and bf16 as f32 and back: what base/half.h says, bit for bit. By instructions where there are any, else
 * without branches, so that loops over lanes become vector code. (The small ones go through f32 addition: round to
 * nearest, nothing flushed to 0.) */
#ifndef SINEW_DEVICE_CPU_ISA_LANES_HALF_H
#define SINEW_DEVICE_CPU_ISA_LANES_HALF_H

#include "base/half.h"
#include "device/cpu/isa/vec.h"

#include <stdbool.h>

/* All bits or none. */
VEC_INLINE uint32_t half_mask(bool b) { return 0 - (uint32_t)b; }

#define HALF_EXPONENT (UINT32_C(1) << 23) /* one step of f32's exponent */

VEC_INLINE float half_widen(uint16_t h) {
  const uint32_t least = 113 * HALF_EXPONENT; /* 2^-14: below it f16 is subnormal */
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = (uint32_t)(h & 0x7fff) << 13;
  uint32_t normal = size + 112 * HALF_EXPONENT;
  uint32_t small = f32_bits(f32_from_bits(size + least) - f32_from_bits(least));
  uint32_t is_small = half_mask(size < HALF_EXPONENT);
  /* infinity and NaN: the largest exponent, quiet */
  normal += half_mask(size >= 31 * HALF_EXPONENT) & (112 * HALF_EXPONENT);
  uint32_t quiet = half_mask(size > 31 * HALF_EXPONENT) & 0x400000;
  return f32_from_bits(sign | (small & is_small) | (normal & ~is_small) | quiet);
}

VEC_INLINE uint16_t half_narrow(float f) {
  uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
  uint32_t normal = (x - 112 * HALF_EXPONENT + 0xfff + (x >> 13 & 1)) >> 13;
  /* The units of 0.5 … 1 are those of f16's subnormals: adding rounds to them. */
  uint32_t is_small = half_mask(x < 113 * HALF_EXPONENT);
  uint32_t small = f32_bits(f32_from_bits(x & is_small) + 0.5f) - f32_bits(0.5f);
  uint32_t is_large = half_mask(x >= 0x477ff000), is_nan = half_mask(x > 0x7f800000);
  uint32_t nan = 0x7e00 | (x >> 13 & 0x3ff);
  uint32_t finite = (small & is_small) | (normal & ~is_small);
  uint32_t number = (0x7c00 & is_large) | (finite & ~is_large);
  return (uint16_t)(sign | (nan & is_nan) | (number & ~is_nan));
}

VEC_INLINE uint16_t bf16_narrow(float f) {
  uint32_t x = f32_bits(f), is_nan = half_mask((x & 0x7fffffff) > 0x7f800000);
  uint32_t number = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  return (uint16_t)(((x >> 16 | 0x40) & is_nan) | (number & ~is_nan));
}

/* --- VEC at a time --- */
#if defined(ISA_avx512)
VEC_INLINE vec vec_load_f16(const uint16_t *from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)from));
}
VEC_INLINE void vec_store_f16(uint16_t *to, vec x) {
  _mm256_storeu_si256((__m256i_u *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
VEC_INLINE vec vec_load_bf16(const uint16_t *from) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
VEC_INLINE void vec_store_bf16(uint16_t *to, vec x) {
  __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
  __m512i half =
      _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
  __m512i number = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  __m512i nan = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  _mm256_storeu_si256((__m256i_u *)to,
                      _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, number, nan)));
}
#else
#if defined(ISA_avx2)
VEC_INLINE vec vec_load_f16(const uint16_t *from) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)from));
}
VEC_INLINE void vec_store_f16(uint16_t *to, vec x) {
  _mm_storeu_si128((__m128i_u *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#else
VEC_INLINE vec vec_load_f16(const uint16_t *from) {
  vec x;
  for (int i = 0; i < VEC; i++)
    x[i] = half_widen(from[i]);
  return x;
}
VEC_INLINE void vec_store_f16(uint16_t *to, vec x) {
  for (int i = 0; i < VEC; i++)
    to[i] = half_narrow(x[i]);
}
#endif
VEC_INLINE vec vec_load_bf16(const uint16_t *from) {
  vec_u32 x;
  for (int i = 0; i < VEC; i++)
    x[i] = (uint32_t)from[i] << 16;
  return (vec)x;
}
VEC_INLINE void vec_store_bf16(uint16_t *to, vec x) {
  for (int i = 0; i < VEC; i++)
    to[i] = bf16_narrow(x[i]);
}
#endif

#endif
