/* The one multiply-add kernel of the CPU, for matmuls and attention: c[m, n] (+)= a[m, k] · b[k, n].
 *
 * Shapes in memory:
 *   a  element (i, p) at a[i * a_row + p * a_k]; rows up to a multiple of KERNEL_ROWS are read
 *   b  panels of KERNEL_COLS columns, each [k][KERNEL_COLS], one after the other; columns beyond n are there
 *   c  row-major, row i at c + i * c_row; written for rows and columns up to the multiples
 * What stands in the padding of a and b only reaches the padding of c.
 *
 * Each element is summed over KERNEL_CHUNK products one by one in f32, products and sums rounded apart, and over such chunks in
 * f64, whatever the width of the vectors; so the bits do not depend on the machine, nor on how the caller cuts m and n. Chunks
 * keep the rounding of long sums small: it decides which units of a deep net are on.
 */
#ifndef SINEW_DEVICE_CPU_MATMUL_KERNEL_H
#define SINEW_DEVICE_CPU_MATMUL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { KERNEL_ROWS = 6, KERNEL_COLS = 16, KERNEL_CHUNK = 32 };

static inline int64_t kernel_rows(int64_t m) {
  return (m + KERNEL_ROWS - 1) / KERNEL_ROWS * KERNEL_ROWS;
}
static inline int64_t kernel_cols(int64_t n) {
  return (n + KERNEL_COLS - 1) / KERNEL_COLS * KERNEL_COLS;
}

typedef struct kernel_block {
  int64_t m, n, k;
  const float *a;
  int64_t a_row, a_k;
  const float *b;
  float *c;
  int64_t c_row;
  bool add; /* to c; otherwise c is overwritten */
} kernel_block;

void kernel_multiply(const kernel_block *w);

/* Panels of b from rows: element (p, j) is rows[p * row + j], columns beyond n are 0. */
void kernel_pack_rows(const float *rows, int64_t row, int64_t k, int64_t n, float *panels);
/* The same where b is the transpose of `rows`: element (p, j) is rows[j * row + p]. */
void kernel_pack_transposed(const float *rows, int64_t row, int64_t k, int64_t n, float *panels);

/* Sum of x[i] * y[i], in 16 interleaved sums and a fixed tree. */
float kernel_dot(const float *x, const float *y, int64_t n);
/* y += a * x */
void kernel_axpy(float *y, float a, const float *x, int64_t n);
/* Whether none of n numbers is infinite or NaN. */
bool kernel_finite(const float *x, int64_t n);

#endif
