/* See pool.h. */
#include "device/cpu/isa/pool.h"

#include "device/cpu/isa/vec.h"

/* The last lanes of a line go by vectors that hold fewer. */
#define EACH_VEC(body)                                       \
  for (int64_t i = 0; i < n; i += VEC) {                     \
    const int some = (int)(n - i < VEC ? n - i : VEC);       \
    const vec old = get(to + i, some), a = get(x + i, some); \
    vec now;                                                 \
    body;                                                    \
    if (some == VEC)                                         \
      vec_store(to + i, now);                                \
    else                                                     \
      vec_store_some(to + i, now, some);                     \
  }

VEC_INLINE vec get(const float *from, int some) {
  return some == VEC ? vec_load(from) : vec_load_some(from, some);
}

VEC_INLINE vec choose(vec_i32 which, vec yes, vec no) {
  return (vec)(((vec_i32)yes & which) | ((vec_i32)no & ~which));
}

VEC_INLINE vec_i32 same(vec a, vec b) { return (a == b) | ((a != a) & (b != b)); }

static void larger(const float *x, float *to, int64_t n) {
  EACH_VEC(now = choose((old > a) | (old != old), old, a))
}

static void smaller(const float *x, float *to, int64_t n) {
  EACH_VEC(now = choose((old < a) | (old != old), old, a))
}

static void count_same(const float *x, const float *y, float *to, int64_t n) {
  EACH_VEC(now = old + (vec)((vec_i32)vec_all(1) & same(a, get(y + i, some))))
}

static void add_same(const float *x, const float *y, const float *share, float *to, int64_t n) {
  EACH_VEC(now = old + (vec)((vec_i32)get(share + i, some) & same(a, get(y + i, some))))
}

static void split_plain(const float *from, int64_t first, int64_t n, int64_t stride, float *to,
                        int64_t apart) {
  for (int64_t a = 0; a < stride; a++)
    for (int64_t q = first; q * stride + a < n; q++)
      to[a * apart + q] = from[q * stride + a];
}

static void join_plain(const float *from, int64_t apart, int64_t first, int64_t n, int64_t stride,
                       float *to) {
  for (int64_t a = 0; a < stride; a++)
    for (int64_t q = first; q * stride + a < n; q++)
      to[q * stride + a] = from[a * apart + q];
}

static void split(const float *from, int64_t n, int64_t stride, float *to, int64_t apart) {
  int64_t q = 0;
#if defined(ISA_avx512)
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  for (; stride == 2 && 2 * (q + VEC) <= n; q += VEC) {
    vec low = vec_load(from + 2 * q), high = vec_load(from + 2 * q + VEC);
    vec_store(to + q, (vec)_mm512_permutex2var_ps((__m512)low, even, (__m512)high));
    vec_store(to + apart + q, (vec)_mm512_permutex2var_ps((__m512)low, odd, (__m512)high));
  }
#endif
  split_plain(from, q, n, stride, to, apart);
}

static void join(const float *from, int64_t apart, int64_t n, int64_t stride, float *to) {
  int64_t q = 0;
#if defined(ISA_avx512)
  const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i second =
      _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  for (; stride == 2 && 2 * (q + VEC) <= n; q += VEC) {
    vec even = vec_load(from + q), odd = vec_load(from + apart + q);
    vec_store(to + 2 * q, (vec)_mm512_permutex2var_ps((__m512)even, first, (__m512)odd));
    vec_store(to + 2 * q + VEC, (vec)_mm512_permutex2var_ps((__m512)even, second, (__m512)odd));
  }
#endif
  join_plain(from, apart, q, n, stride, to);
}

extern const pool_kernels ISA(pool_kernels);
const pool_kernels ISA(pool_kernels) = {.split = split,
                                        .join = join,
                                        .larger = larger,
                                        .smaller = smaller,
                                        .count_same = count_same,
                                        .add_same = add_same};
