/* Multiply-add kernels, for matmuls and attention: one table an instruction set.
 *
 * Both operands come as panels: operand a in panels of `rows` rows, element (i, p) at i / rows * a_panel + p * rows + i % rows;
 * operand b in panels of `cols` columns, element (p, j) at j / cols * b_panel + p * cols + j % cols. Rows and columns up to
 * the next whole panel are there; what stands in the padding only reaches the padding of c.
 *
 * Each element is summed in k order, in chunks of MATMUL_CHUNK products in f32, chunks added to c in order: the rounding
 * of long sums stays small (it decides which units of a deep net are on), and bits depend neither on how the caller cuts m
 * and n nor on threads, as long as k is cut at multiples of MATMUL_CHUNK.
 */
#ifndef SINEW_DEVICE_CPU_ISA_MATMUL_H
#define SINEW_DEVICE_CPU_ISA_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

enum { MATMUL_CHUNK = 128 };

typedef struct panel_block {
  int64_t m, n, k;
  const float *a, *b;
  int64_t a_panel, b_panel; /* distance of panels, in floats */
  float *c;                 /* row-major; whole tiles are written, so there must be room for the padding */
  int64_t c_row;
  bool add; /* to c; otherwise c is overwritten */
} panel_block;

typedef struct matmul_kernels {
  int rows, cols; /* of a tile */
  void (*multiply)(const panel_block *w);
  /* Panels of `width` rows from f32 in memory, element (i, p) of n rows at from[i * row + p * k_step]; one of the two
   * distances is usually 1. Rows beyond n, up to a whole panel, become 0. Panels lie `panel` floats apart. */
  void (*pack)(const float *from, int64_t row, int64_t k_step, int64_t n, int64_t k, int width,
               float *to, int64_t panel);
  /* Sum of x[i] * y[i], in a fixed tree. */
  float (*dot)(const float *x, const float *y, int64_t n);
  /* y += a * x */
  void (*axpy)(float *y, float a, const float *x, int64_t n);
} matmul_kernels;

#endif
