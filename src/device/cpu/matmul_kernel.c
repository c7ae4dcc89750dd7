/* See matmul_kernel.h. */
#include "device/cpu/matmul_kernel.h"

#include "device/cpu/vectors.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TILE_VEC(name) narrow_##name
#define TILE_NAME      multiply_narrow
#define TILE_LANES     4
#define TILE_TARGET
#include "device/cpu/matmul_tile.h"
#undef TILE_VEC

#if defined(__x86_64__) && defined(__GNUC__)
#define TILE_VEC(name) wide_##name
#define TILE_NAME      multiply_wide
#define TILE_LANES     8
#define TILE_TARGET    __attribute__((target("avx2")))
#include "device/cpu/matmul_tile.h"
#undef TILE_VEC

static bool has_wide(void) { return __builtin_cpu_supports("avx2"); }
#else
static bool has_wide(void) { return false; }
#define multiply_wide multiply_narrow
#endif

void kernel_multiply(const kernel_block *w) {
  if (has_wide())
    multiply_wide(w);
  else
    multiply_narrow(w);
}

/* --- panels --- */

static void pack_panel(const float *rows, int64_t row, int64_t k, int64_t n, float *to) {
  if (n == KERNEL_COLS) {
    for (int64_t p = 0; p < k; p++)
      memcpy(to + p * KERNEL_COLS, rows + p * row, KERNEL_COLS * sizeof *to);
    return;
  }
  for (int64_t p = 0; p < k; p++)
    for (int64_t j = 0; j < KERNEL_COLS; j++)
      to[p * KERNEL_COLS + j] = j < n ? rows[p * row + j] : 0;
}

void kernel_pack_rows(const float *rows, int64_t row, int64_t k, int64_t n, float *panels) {
  for (int64_t j = 0; j < n; j += KERNEL_COLS)
    pack_panel(rows + j, row, k, n - j < KERNEL_COLS ? n - j : KERNEL_COLS, panels + j * k);
}

/* Four columns at a time: each line of `rows` is then touched by few passes, and stores are whole quarters. */
VECTORS static void transpose_panel(const float *rows, int64_t row, int64_t k, int64_t n,
                                    float *to) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const float *x0 = rows + j * row, *x1 = x0 + row, *x2 = x1 + row, *x3 = x2 + row;
    for (int64_t p = 0; p < k; p++) {
      float *at = to + p * KERNEL_COLS + j;
      at[0] = x0[p];
      at[1] = x1[p];
      at[2] = x2[p];
      at[3] = x3[p];
    }
  }
  for (; j < KERNEL_COLS; j++)
    for (int64_t p = 0; p < k; p++)
      to[p * KERNEL_COLS + j] = j < n ? rows[j * row + p] : 0;
}

void kernel_pack_transposed(const float *rows, int64_t row, int64_t k, int64_t n, float *panels) {
  for (int64_t j = 0; j < n; j += KERNEL_COLS)
    transpose_panel(rows + j * row, row, k, n - j < KERNEL_COLS ? n - j : KERNEL_COLS,
                    panels + j * k);
}

/* --- single rows --- */

enum { SUMS = 32 };

VECTORS static float dot(const float *x, const float *y, int64_t n) {
  float sum[SUMS] = {0}, tail = 0;
  int64_t i = 0;
  for (; i + SUMS <= n; i += SUMS)
    for (int l = 0; l < SUMS; l++)
      sum[l] += x[i + l] * y[i + l];
  for (; i < n; i++)
    tail += x[i] * y[i];
  for (int half = SUMS / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++)
      sum[l] += sum[l + half];
  return sum[0] + tail;
}
float kernel_dot(const float *x, const float *y, int64_t n) { return dot(x, y, n); }

VECTORS static void axpy(float *restrict y, float a, const float *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    y[i] += a * x[i];
}
void kernel_axpy(float *y, float a, const float *x, int64_t n) { axpy(y, a, x, n); }

VECTORS static bool finite_all(const float *x, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++)
    bad |= !(fabsf(x[i]) <= FLT_MAX);
  return !bad;
}
bool kernel_finite(const float *x, int64_t n) { return finite_all(x, n); }
