/* The loops of bench_peak.c, once for each width of vectors: LOOPS(suffix, target) defines them for floats of 64 bytes a
 * step, which the compiler cuts as the target needs. */
#ifndef SINEW_CLI_BENCH_PEAK_LOOPS_H
#define SINEW_CLI_BENCH_PEAK_LOOPS_H

#include <stddef.h>

typedef float peak_line __attribute__((vector_size(64), aligned(4), may_alias));
enum { PEAK_LINE = 16 }; /* floats */

/* n is a multiple of 4 * PEAK_LINE. */
typedef struct peak_loops {
  const char *name;
  float (*read)(const float *a, size_t n);
  void (*copy)(float *a, const float *b, const float *c, size_t n);
  void (*triad)(float *a, const float *b, const float *c, size_t n);
  float (*multiply)(size_t n); /* n steps of PEAK_CHAINS lines */
} peak_loops;

enum { PEAK_CHAINS = 12 };

#define PEAK_MEMORY_LOOPS(suffix, target)                                                    \
  target static float read_##suffix(const float *a, size_t n) {                              \
    peak_line s = {0}, t = {0}, u = {0}, v = {0};                                            \
    for (size_t i = 0; i < n; i += 4 * PEAK_LINE) {                                          \
      s += *(const peak_line *)(a + i);                                                      \
      t += *(const peak_line *)(a + i + PEAK_LINE);                                          \
      u += *(const peak_line *)(a + i + 2 * PEAK_LINE);                                      \
      v += *(const peak_line *)(a + i + 3 * PEAK_LINE);                                      \
    }                                                                                        \
    s += t + u + v;                                                                          \
    return s[0] + s[PEAK_LINE - 1];                                                          \
  }                                                                                          \
  target static void copy_##suffix(float *a, const float *b, const float *c, size_t n) {     \
    (void)c;                                                                                 \
    for (size_t i = 0; i < n; i += PEAK_LINE)                                                \
      *(peak_line *)(a + i) = *(const peak_line *)(b + i);                                   \
  }                                                                                          \
  target static void triad_##suffix(float *a, const float *b, const float *c, size_t n) {    \
    for (size_t i = 0; i < n; i += PEAK_LINE)                                                \
      *(peak_line *)(a + i) = *(const peak_line *)(b + i) + 3 * *(const peak_line *)(c + i); \
  }

/* Chains of multiply-adds that do not wait for each other; `madd` rounds once where the target can. */
#define PEAK_MULTIPLY_LOOP(suffix, target, type, all, madd, lanes)                                \
  target static float multiply_##suffix(size_t n) {                                               \
    type x = all(0.9999f), y = all(1e-4f), acc[PEAK_CHAINS];                                      \
    float sum = 0, out[lanes];                                                                    \
    for (int k = 0; k < PEAK_CHAINS; k++)                                                         \
      acc[k] = all((float)k);                                                                     \
    for (size_t i = 0; i < n * (PEAK_LINE / (lanes)); i++) {                                      \
      _Pragma("GCC unroll 12") for (int k = 0; k < PEAK_CHAINS; k++) acc[k] = madd(acc[k], x, y); \
    }                                                                                             \
    for (int k = 0; k < PEAK_CHAINS; k++) {                                                       \
      memcpy(out, &acc[k], sizeof out);                                                           \
      sum += out[0];                                                                              \
    }                                                                                             \
    return sum;                                                                                   \
  }

#endif
