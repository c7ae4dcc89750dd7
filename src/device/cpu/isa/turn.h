/* Squares of VEC x VEC floats in registers, rows to columns. */
#ifndef SINEW_DEVICE_CPU_ISA_TURN_H
#define SINEW_DEVICE_CPU_ISA_TURN_H

#include "device/cpu/isa/vec.h"

#if defined(ISA_avx512)
/* In pairs, in fours, then whole quarters of the registers. */
VEC_INLINE void vec_turn(vec x[VEC]) {
  __m512 t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps((__m512)x[i], (__m512)x[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps((__m512)x[i], (__m512)x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; j++) {
      __m512d lo = (__m512d)t[i + j], hi = (__m512d)t[i + j + 2];
      u[i + 2 * j] = (__m512)_mm512_unpacklo_pd(lo, hi);
      u[i + 2 * j + 1] = (__m512)_mm512_unpackhi_pd(lo, hi);
    }
  /* u[4g + c]: columns c, c+4, c+8, c+12 of rows 4g … 4g+3 */
  for (int c = 0; c < 4; c++) {
    __m512 even = _mm512_shuffle_f32x4(u[c], u[c + 4], 0x88);
    __m512 odd = _mm512_shuffle_f32x4(u[c], u[c + 4], 0xdd);
    __m512 even_high = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0x88);
    __m512 odd_high = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0xdd);
    x[c] = (vec)_mm512_shuffle_f32x4(even, even_high, 0x88);
    x[c + 8] = (vec)_mm512_shuffle_f32x4(even, even_high, 0xdd);
    x[c + 4] = (vec)_mm512_shuffle_f32x4(odd, odd_high, 0x88);
    x[c + 12] = (vec)_mm512_shuffle_f32x4(odd, odd_high, 0xdd);
  }
}
#elif defined(ISA_avx2)
VEC_INLINE void vec_turn(vec x[VEC]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps((__m256)x[i], (__m256)x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps((__m256)x[i], (__m256)x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      __m256d lo = (__m256d)t[i + j], hi = (__m256d)t[i + j + 2];
      u[i + 2 * j] = (__m256)_mm256_unpacklo_pd(lo, hi);
      u[i + 2 * j + 1] = (__m256)_mm256_unpackhi_pd(lo, hi);
    }
  for (int c = 0; c < 4; c++) {
    x[c] = (vec)_mm256_permute2f128_ps(u[c], u[c + 4], 0x20);
    x[c + 4] = (vec)_mm256_permute2f128_ps(u[c], u[c + 4], 0x31);
  }
}
#else
VEC_INLINE void vec_turn(vec x[VEC]) {
  vec t[VEC];
  for (int i = 0; i < VEC; i++)
    for (int j = 0; j < VEC; j++)
      t[i][j] = x[j][i];
  memcpy(x, t, sizeof t);
}
#endif

#endif
