/* The kernels of isa/matmul.h, of every instruction set: tiles with edges, panels from all layouts. Numbers are small
 * integers, so that sums are exact. */
#include "device/cpu/isa/matmul.h"

#include "base/half.h"
#include "device/cpu/isa.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 12345 };

static float small(int64_t i) { return (float)(i * 7 % 11 - 5); }

static float *floats(int64_t n) {
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  if (!x)
    abort();
  for (int64_t i = 0; i < n; i++)
    x[i] = small(i + n);
  return x;
}

static int64_t whole(int64_t n, int width) { return (n + width - 1) / width * width; }

/* Panels of n rows from a layout, with NaN where nothing may be read. */
static float *packed(const matmul_kernels *m, const float *from, int64_t row, int64_t k_step,
                     int64_t n, int64_t k, int width, int64_t panel) {
  int64_t size = whole(n, width) / width * panel;
  float *to = floats(size);
  for (int64_t i = 0; i < size; i++)
    to[i] = NAN;
  m->pack(from, row, k_step, n, k, width, to, panel);
  return to;
}

static void check_pack(const matmul_kernels *m, int64_t row, int64_t k_step, int64_t n, int64_t k,
                       int width) {
  float *from = floats(n * row + k * k_step + 1);
  int64_t panel = k * width + 3;
  float *to = packed(m, from, row, k_step, n, k, width, panel);
  for (int64_t i = 0; i < whole(n, width); i++)
    for (int64_t p = 0; p < k; p++) {
      float want = i < n ? from[i * row + p * k_step] : 0;
      float got = to[i / width * panel + p * width + i % width];
      if (got != want) {
        FAIL("pack of %lld x %lld, strides %lld, %lld, width %d: (%lld, %lld): expected %g, got %g",
             (long long)n, (long long)k, (long long)row, (long long)k_step, width, (long long)i,
             (long long)p, (double)want, (double)got);
        i = n;
        break;
      }
    }
  for (int64_t i = 0; i < whole(n, width) / width; i++)
    CHECK(isnan(to[i * panel + k * width]));
  free(from);
  free(to);
}

static void check_packs(const matmul_kernels *m) {
  static const int64_t sizes[] = {1, 3, 8, 15, 16, 17, 33, 70};
  int widths[] = {m->rows, m->cols, 5};
  for (int w = 0; w < 3; w++)
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8 && !test_failed(); j++) {
        int64_t n = sizes[i], k = sizes[j];
        check_pack(m, 1, n + 2, n, k, widths[w]);
        check_pack(m, k + 1, 1, n, k, widths[w]);
        check_pack(m, 2 * k, 2, n, k, widths[w]);
      }
}

/* c, with a guard around every row. */
static void check_multiply(const matmul_kernels *kernels, int64_t m, int64_t n, int64_t k,
                           bool add) {
  float *a = floats(m * k), *b = floats(n * k), *c = floats(m * (n + 2) + 1);
  float *pa = packed(kernels, a, k, 1, m, k, kernels->rows, kernels->rows * k + 16);
  float *pb = packed(kernels, b, 1, n, n, k, kernels->cols, kernels->cols * k);
  for (int64_t i = 0; i < m * (n + 2) + 1; i++)
    c[i] = i % (n + 2) == 0 || i % (n + 2) == n + 1 ? (float)GUARD : add ? 3 : NAN;
  kernels->multiply(&(panel_block){.m = m,
                                   .n = n,
                                   .k = k,
                                   .a = pa,
                                   .b = pb,
                                   .a_panel = kernels->rows * k + 16,
                                   .b_panel = kernels->cols * k,
                                   .c = c + 1,
                                   .c_row = n + 2,
                                   .add = add});
  for (int64_t i = 0; i < m && !test_failed(); i++) {
    const float *row = c + i * (n + 2);
    CHECK(row[0] == (float)GUARD && row[n + 1] == (float)GUARD);
    for (int64_t j = 0; j < n && !test_failed(); j++) {
      double want = add ? 3 : 0;
      for (int64_t p = 0; p < k; p++)
        want += (double)a[i * k + p] * (double)b[p * n + j];
      if ((double)row[j + 1] != want)
        FAIL("%lld x %lld x %lld: (%lld, %lld): expected %g, got %g", (long long)m, (long long)n,
             (long long)k, (long long)i, (long long)j, want, (double)row[j + 1]);
    }
  }
  free(a);
  free(b);
  free(c);
  free(pa);
  free(pb);
}

static void check_multiplies(const matmul_kernels *kernels) {
  for (int64_t m = 1; m <= 2 * kernels->rows + 1; m++)
    for (int64_t n = 1; n <= 2 * kernels->cols + 1 && !test_failed(); n++)
      check_multiply(kernels, m, n, 1 + (m + n) % 5, (m + n) % 2);
  static const int64_t depths[] = {
      0, 1, 2, MATMUL_CHUNK - 1, MATMUL_CHUNK, MATMUL_CHUNK + 1, 2 * MATMUL_CHUNK + 5};
  for (int i = 0; i < 7 && !test_failed(); i++) {
    check_multiply(kernels, kernels->rows + 1, kernels->cols + 1, depths[i], false);
    check_multiply(kernels, kernels->rows + 1, kernels->cols + 1, depths[i], true);
  }
}

/* --- few vectors --- */

/* A matrix of small integers in a dtype; to be freed. */
static void *matrix_as(matmul_dtype dtype, const float *x, int64_t n) {
  uint16_t *half = malloc((size_t)n * sizeof(float) + 1);
  if (!half)
    abort();
  for (int64_t i = 0; i < n; i++)
    half[i] = dtype == MATMUL_F16 ? half_from_f32(x[i]) : bf16_from_f32(x[i]);
  if (dtype == MATMUL_F32)
    memcpy(half, x, (size_t)n * sizeof *x);
  return half;
}

static void check_few(const matmul_kernels *kernels, matmul_dtype dtype, int64_t n, int64_t k,
                      int count, bool dots) {
  int64_t row = (dots ? k : n) + 1, apart = k + 2, to_apart = n + 1;
  int64_t size = (dots ? n : k) * row;
  float *w = floats(size), *x = floats(count * apart), *to = floats(count * to_apart);
  void *data = matrix_as(dtype, w, size);
  for (int64_t i = 0; i < count * to_apart; i++)
    to[i] = (float)GUARD;
  (dots ? kernels->dots : kernels->add_rows)(
      &(matmul_rows){.data = data, .dtype = dtype, .row = row, .n = n, .k = k}, x, apart, count, to,
      to_apart);
  for (int v = 0; v < count && !test_failed(); v++) {
    CHECK(to[v * to_apart + n] == (float)GUARD);
    for (int64_t i = 0; i < n && !test_failed(); i++) {
      float want = GUARD;
      for (int64_t p = 0; p < k; p++)
        want += x[v * apart + p] * w[dots ? i * row + p : p * row + i];
      if (to[v * to_apart + i] != want)
        FAIL("%s of %lld x %lld, %d vectors, dtype %d: (%d, %lld): expected %g, got %g",
             dots ? "dots" : "add_rows", (long long)n, (long long)k, count, (int)dtype, v,
             (long long)i, (double)want, (double)to[v * to_apart + i]);
    }
  }
  free(w);
  free(x);
  free(to);
  free(data);
}

static void check_all_few(const matmul_kernels *kernels) {
  static const int64_t sizes[] = {1, 3, 4, 7, 16, 33, 70};
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++)
      for (int count = 1; count <= 4; count++)
        for (int dtype = MATMUL_F32; dtype <= MATMUL_BF16 && !test_failed(); dtype++) {
          check_few(kernels, (matmul_dtype)dtype, sizes[i], sizes[j], count, true);
          check_few(kernels, (matmul_dtype)dtype, sizes[i], sizes[j], count, false);
        }
}

TEST(every_set_packs_panels) {
  for (int i = 0; cpu_isa_at(i); i++)
    check_packs(cpu_isa_at(i)->matmul);
}

TEST(every_set_multiplies_panels) {
  for (int i = 0; cpu_isa_at(i); i++)
    check_multiplies(cpu_isa_at(i)->matmul);
}

TEST(every_set_multiplies_few_vectors) {
  for (int i = 0; cpu_isa_at(i); i++)
    check_all_few(cpu_isa_at(i)->matmul);
}
