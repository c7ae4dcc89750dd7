/* Kernels for few rows or columns: matmul_kernels.dots and add_rows. See matmul.h.
 *
 * A weight is read once, from memory, which is what bounds these: four rows are read side by side, and what comes next is asked
 * for well ahead, since processors do not look beyond a page on their own. */
#include "device/cpu/isa/matmul_set.h"

#include "base/half.h"

enum { AHEAD = 36 * 1024 }; /* bytes */

/* The same tree as vec_sum's. */
VEC_INLINE float sum_lanes(vec x) {
#if defined(ISA_avx512)
  __m256 y = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
#elif defined(ISA_avx2)
  __m256 y = (__m256)x;
#endif
#if defined(ISA_avx512) || defined(ISA_avx2)
  __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  z = _mm_add_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
#else
  return vec_sum(x);
#endif
}

/* --- halves --- */
#if defined(ISA_avx512)
VEC_INLINE vec from_f16(const uint16_t *x) {
  return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}
VEC_INLINE vec from_bf16(const uint16_t *x) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
  return (vec)_mm512_slli_epi32(wide, 16);
}
#elif defined(ISA_avx2)
VEC_INLINE vec from_f16(const uint16_t *x) {
  return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}
VEC_INLINE vec from_bf16(const uint16_t *x) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
  return (vec)_mm256_slli_epi32(wide, 16);
}
#else
VEC_INLINE vec from_f16(const uint16_t *x) {
  vec y;
  for (int i = 0; i < VEC; i++)
    y[i] = half_to_f32(x[i]);
  return y;
}
VEC_INLINE vec from_bf16(const uint16_t *x) {
  vec_u32 y;
  for (int i = 0; i < VEC; i++)
    y[i] = (uint32_t)x[i] << 16;
  return (vec)y;
}
#endif

VEC_INLINE vec load_as(const char *x, matmul_dtype dtype) {
  const uint16_t *half = (const uint16_t *)(const void *)x;
  return dtype == MATMUL_F32   ? vec_load((const float *)(const void *)x)
         : dtype == MATMUL_F16 ? from_f16(half)
                               : from_bf16(half);
}

VEC_INLINE vec load_some_as(const char *x, matmul_dtype dtype, int n) {
  uint16_t half[VEC] = {0};
  if (dtype == MATMUL_F32)
    return vec_load_some((const float *)(const void *)x, n);
  memcpy(half, x, (size_t)n * sizeof *half);
  return load_as((const char *)half, dtype);
}

/* --- dots --- */
#define EACH_VECTOR(do) \
  do                    \
  (0) do(1) do(2) do(3)
#define EACH_ROW_OF(v, do) \
  do                       \
  (v, 0) do(v, 1) do(v, 2) do(v, 3)
#define ROW_SUM(v, i) vec s##v##i = {0};
#define ROW_STEP(v, i) \
  if (i < rows)        \
    s##v##i = vec_fma(w##i, y, s##v##i);
#define ROW_ADD(v, i) \
  if (i < rows)       \
    to[v * to_apart + i] += sum_lanes(s##v##i);
#define VECTOR_SUMS(v) EACH_ROW_OF(v, ROW_SUM)
#define VECTOR_STEP(v)                                      \
  if (v < count) {                                          \
    const float *at = x + v * apart + p;                    \
    vec y = n == VEC ? vec_load(at) : vec_load_some(at, n); \
    EACH_ROW_OF(v, ROW_STEP)                                \
  }
#define VECTOR_ADD(v)       \
  if (v < count) {          \
    EACH_ROW_OF(v, ROW_ADD) \
  }
#define LOAD_ROW(i)                                                        \
  if (i < rows) {                                                          \
    const char *from = w + i * row + p * size;                             \
    w##i = n == VEC ? load_as(from, dtype) : load_some_as(from, dtype, n); \
    __builtin_prefetch(from + AHEAD, 0, 2);                                \
  }
#define DOT_STEP(lanes)                                                      \
  {                                                                          \
    int n = lanes;                                                           \
    vec w0 = {0}, w1 = w0, w2 = w0, w3 = w0;                                 \
    LOAD_ROW(0) LOAD_ROW(1) LOAD_ROW(2) LOAD_ROW(3) EACH_VECTOR(VECTOR_STEP) \
  }

/* Some rows, `row` bytes apart, against `count` vectors. Each result is summed alike, whatever its neighbours. */
VEC_INLINE void dot_rows(const char *w, int64_t row, int rows, matmul_dtype dtype, int64_t k,
                         const float *x, int64_t apart, int count, float *to, int64_t to_apart) {
  int64_t size = dtype == MATMUL_F32 ? 4 : 2, p = 0;
  EACH_VECTOR(VECTOR_SUMS)
  for (; p + VEC <= k; p += VEC)
    DOT_STEP(VEC)
  if (p < k)
    DOT_STEP((int)(k - p))
  EACH_VECTOR(VECTOR_ADD)
}

VEC_INLINE void dot_all(const matmul_rows *w, const float *x, int64_t apart, int count,
                        matmul_dtype dtype, float *to, int64_t to_apart) {
  int64_t row = w->row * (dtype == MATMUL_F32 ? 4 : 2), i = 0;
  const char *data = w->data;
  for (; i + 4 <= w->n; i += 4)
    dot_rows(data + i * row, row, 4, dtype, w->k, x, apart, count, to + i, to_apart);
  for (; i < w->n; i++)
    dot_rows(data + i * row, row, 1, dtype, w->k, x, apart, count, to + i, to_apart);
}

VEC_INLINE void dots_as(const matmul_rows *w, const float *x, int64_t apart, int count,
                        matmul_dtype dtype, float *to, int64_t to_apart) {
  switch (count) {
  case 1: dot_all(w, x, apart, 1, dtype, to, to_apart); break;
  case 2: dot_all(w, x, apart, 2, dtype, to, to_apart); break;
  case 3: dot_all(w, x, apart, 3, dtype, to, to_apart); break;
  default: dot_all(w, x, apart, 4, dtype, to, to_apart);
  }
}

void ISA(matmul_dots)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
                      int64_t to_apart) {
  if (w->dtype == MATMUL_F32)
    dots_as(w, x, apart, count, MATMUL_F32, to, to_apart);
  else if (w->dtype == MATMUL_F16)
    dots_as(w, x, apart, count, MATMUL_F16, to, to_apart);
  else
    dots_as(w, x, apart, count, MATMUL_BF16, to, to_apart);
}

/* --- rows of k --- */

/* n numbers from four rows, or from one. */
VEC_INLINE void add_four(float *to, const float *v, const char *const x[4], int rows,
                         matmul_dtype dtype, int64_t n) {
  int64_t size = dtype == MATMUL_F32 ? 4 : 2, j = 0;
  for (; j + VEC <= n; j += VEC) {
    vec sum = vec_load(to + j);
    for (int p = 0; p < rows; p++)
      sum = vec_fma(vec_all(v[p]), load_as(x[p] + j * size, dtype), sum);
    vec_store(to + j, sum);
  }
  int some = (int)(n - j);
  if (some > 0) {
    vec sum = vec_load_some(to + j, some);
    for (int p = 0; p < rows; p++)
      sum = vec_fma(vec_all(v[p]), load_some_as(x[p] + j * size, dtype, some), sum);
    vec_store_some(to + j, sum, some);
  }
}

VEC_INLINE void add_rows_as(const matmul_rows *w, const float *x, int64_t apart, int count,
                            matmul_dtype dtype, float *to, int64_t to_apart) {
  int64_t size = dtype == MATMUL_F32 ? 4 : 2, row = w->row * size;
  for (int64_t p = 0; p < w->k; p += 4) {
    int rows = (int)(w->k - p < 4 ? w->k - p : 4);
    const char *at = (const char *)w->data + p * row;
    const char *four[4] = {at, at + row, at + 2 * row, at + 3 * row};
    for (int v = 0; v < count; v++)
      if (rows == 4)
        add_four(to + v * to_apart, x + v * apart + p, four, 4, dtype, w->n);
      else
        add_four(to + v * to_apart, x + v * apart + p, four, rows, dtype, w->n);
  }
}

void ISA(matmul_add_rows)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
                          int64_t to_apart) {
  if (w->dtype == MATMUL_F32)
    add_rows_as(w, x, apart, count, MATMUL_F32, to, to_apart);
  else if (w->dtype == MATMUL_F16)
    add_rows_as(w, x, apart, count, MATMUL_F16, to, to_apart);
  else
    add_rows_as(w, x, apart, count, MATMUL_BF16, to, to_apart);
}
