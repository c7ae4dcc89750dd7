/* Vectors of f32 for the files of isa/, which are compiled once for each instruction set with ISA_<set> defined:
 * VEC lanes, the operations below, and ISA(name), under which what a file exports is known outside.
 *
 * vec_fma rounds once where the set has such an instruction, twice where not. Reductions of lanes have a fixed tree.
 */
#ifndef SINEW_DEVICE_CPU_ISA_VEC_H
#define SINEW_DEVICE_CPU_ISA_VEC_H

#include <stdint.h>
#include <string.h>

#define VEC_JOIN_(a, b) a##_##b
#define VEC_JOIN(a, b)  VEC_JOIN_(a, b)
#define VEC_TEXT_(a)    #a
#define VEC_TEXT(a)     VEC_TEXT_(a)
/* CPU_ISA: the set's name, given by the build. */
#define ISA(name) VEC_JOIN(name, CPU_ISA)
#define ISA_NAME  VEC_TEXT(CPU_ISA)

#if defined(ISA_avx512)
#include <immintrin.h>
enum { VEC = 16 };
#elif defined(ISA_avx2)
#include <immintrin.h>
enum { VEC = 8 };
#else
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
enum { VEC = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * VEC)));
typedef int32_t vec_i32 __attribute__((vector_size(4 * VEC)));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * VEC)));
typedef float vec_any __attribute__((vector_size(4 * VEC), aligned(4), may_alias));

#define VEC_INLINE static inline __attribute__((always_inline, unused))

VEC_INLINE vec vec_load(const float *from) { return *(const vec_any *)from; }
VEC_INLINE void vec_store(float *to, vec x) { *(vec_any *)to = x; }
VEC_INLINE vec vec_all(float x) { return x - (vec){0}; }

VEC_INLINE vec vec_fma(vec a, vec b, vec c) {
#if defined(ISA_avx512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(ISA_avx2)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

/* Lanes 0 … n-1 from memory, the others 0; n is 0 … VEC. Reads nothing beyond. */
VEC_INLINE vec vec_load_some(const float *from, int n) {
#if defined(ISA_avx512)
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
#else
  vec x = {0};
  memcpy(&x, from, (size_t)n * sizeof *from);
  return x;
#endif
}
VEC_INLINE void vec_store_some(float *to, vec x, int n) {
#if defined(ISA_avx512)
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), x);
#else
  memcpy(to, &x, (size_t)n * sizeof *to);
#endif
}

/* The sum of all lanes: halves are added until one is left. */
VEC_INLINE float vec_sum(vec x) {
  for (int half = VEC / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      x[i] += x[i + half];
  return x[0];
}

#endif
