/* What the files of attention's kernels share within one instruction set. */
#ifndef SINEW_DEVICE_CPU_ISA_ATTENTION_SET_H
#define SINEW_DEVICE_CPU_ISA_ATTENTION_SET_H

#include "device/cpu/isa/attention.h"
#include "device/cpu/isa/vec.h"

void ISA(attention_multiply)(const attention_product *w);
void ISA(attention_transpose)(const float *from, int64_t from_row, int64_t m, int64_t n, float by,
                              float *to, int64_t to_row);
void ISA(attention_multiply_rows)(const attention_dots *w);
void ISA(attention_widen_bf16)(const uint16_t *from, int64_t n, float *to);
void ISA(attention_widen_f16)(const uint16_t *from, int64_t n, float *to);

/* a where the mask has ones, b elsewhere. */
VEC_INLINE vec choose(vec_i32 mask, vec a, vec b) {
  return (vec)((mask & (vec_i32)a) | (~mask & (vec_i32)b));
}
/* Where one of them is NaN: b on some sets, NaN on others. */
VEC_INLINE vec larger(vec a, vec b) {
#if defined(ISA_avx512)
  return _mm512_max_ps(a, b);
#elif defined(ISA_avx2)
  return _mm256_max_ps(a, b);
#elif defined(__aarch64__)
  return (vec)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
  return choose(a > b, a, b);
#endif
}

#endif
