/* Rows for attention: transposed, multiplied one by one, or made f32. See attention.h. */
#include "base/half.h"
#include "device/cpu/isa/attention_set.h"
#include "device/cpu/isa/turn.h"

/* --- transpose --- */

void ISA(attention_transpose)(const float *from, int64_t from_row, int64_t m, int64_t n, float by,
                              float *to, int64_t to_row) {
  vec factor = vec_all(by);
  for (int64_t i = 0; i < m; i += VEC)
    for (int64_t p = 0; p < n; p += VEC) {
      int rows = m - i < VEC ? (int)(m - i) : VEC, columns = n - p < VEC ? (int)(n - p) : VEC;
      vec x[VEC];
      for (int r = 0; r < VEC; r++) {
        const float *at = from + (i + r) * from_row + p;
        x[r] = r >= rows ? (vec){0} : columns == VEC ? vec_load(at) : vec_load_some(at, columns);
        x[r] *= factor;
      }
      vec_turn(x);
      for (int c = 0; c < VEC; c++)
        if (c < columns)
          vec_store(to + (p + c) * to_row + i, x[c]);
    }
}

/* --- dot products --- */

/* Sums of VEC vectors, as lanes of one. */
VEC_INLINE vec sums_of(vec x[VEC]) {
  vec_turn(x);
  for (int n = VEC / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++)
      x[i] += x[i + n];
  return x[0];
}

static float dot(const float *q, const float *row, int64_t d) {
  vec sum = {0};
  int64_t p = 0;
  for (; p + VEC <= d; p += VEC)
    sum = vec_fma(vec_load(q + p), vec_load(row + p), sum);
  if (p < d)
    sum = vec_fma(vec_load_some(q + p, (int)(d - p)), vec_load_some(row + p, (int)(d - p)), sum);
  return vec_sum(sum);
}

/* Products of m rows of q from i on with `keys` rows from j on: one vector of sums in all. d is a multiple of VEC. */
VEC_INLINE void square(const attention_dots *w, int64_t i, int64_t j, const int m, const int keys) {
  vec sum[VEC];
  const float *q = w->q + i * w->q_row, *rows = w->rows + j * w->row;
  for (int k = 0; k < VEC; k++)
    sum[k] = (vec){0};
  for (int64_t p = 0; p < w->d; p += VEC)
    for (int k = 0; k < keys; k++) {
      vec x = vec_load(rows + k * w->row + p);
      for (int r = 0; r < m; r++)
        sum[r * keys + k] = vec_fma(x, vec_load(q + r * w->q_row + p), sum[r * keys + k]);
    }
  float all[VEC];
  vec_store(all, sums_of(sum));
  for (int r = 0; r < m; r++)
    memcpy(w->to + (i + r) * w->to_row + j, all + r * keys, (size_t)keys * sizeof *all);
}

static void fetch(const attention_ahead *a, int64_t j, int n) {
  for (int k = 0; a->at && k < n; k++)
    for (int64_t at = 0; at < a->bytes; at += 64)
      __builtin_prefetch(a->at + (j + k) * a->row + at, 0, 2);
}

/* Rows i … i+m-1 of q; the first ones fetch what lies ahead. */
VEC_INLINE void some_rows(const attention_dots *w, int64_t i, const int m, const int keys) {
  int64_t j = 0;
  for (; w->d % VEC == 0 && j + keys <= w->n; j += keys) {
    for (int x = 0; i == 0 && x < 2; x++)
      fetch(&w->ahead[x], j, keys);
    square(w, i, j, m, keys);
  }
  for (; j < w->n; j++)
    for (int r = 0; r < m; r++)
      w->to[(i + r) * w->to_row + j] = dot(w->q + (i + r) * w->q_row, w->rows + j * w->row, w->d);
}

void ISA(attention_multiply_rows)(const attention_dots *w) {
  int64_t i = 0;
  for (; i + 4 <= w->m; i += 4)
    some_rows(w, i, 4, VEC / 4);
  if (w->m - i == 3)
    some_rows(w, i, 3, VEC / 4);
  else if (w->m - i == 2)
    some_rows(w, i, 2, VEC / 2);
  else if (w->m - i == 1)
    some_rows(w, i, 1, VEC);
}

/* --- widening --- */

void ISA(attention_widen_bf16)(const uint16_t *from, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = bf16_to_f32(from[i]);
}

void ISA(attention_widen_f16)(const uint16_t *from, int64_t n, float *to) {
  int64_t i = 0;
#if defined(ISA_avx512)
  for (; i + VEC <= n; i += VEC)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#elif defined(ISA_avx2)
  for (; i + VEC <= n; i += VEC)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#elif defined(__aarch64__)
  for (; i + VEC <= n; i += VEC)
    vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
#endif
  for (; i < n; i++)
    to[i] = half_to_f32(from[i]);
}
