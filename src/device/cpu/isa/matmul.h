/* Multiply-add kernels, for matmuls and attention: one table an instruction set.
 *
 * Both operands come as panels: operand a in panels of `rows` rows, element (i, p) at i / rows * a_panel + p * rows + i % rows;
 * operand b in panels of `cols` columns, element (p, j) at j / cols * b_panel + p * cols + j % cols. Rows and columns up to
 * the next whole panel are there in memory; what stands in the padding reaches no result.
 *
 * Each element is summed in k order, in chunks of MATMUL_CHUNK products in f32; chunks are added up in f32, and their sum is
 * added to c. The rounding of sums decides which units of a deep net are on: with chunks of 128 a ResNet-50 has some on the wrong side, with
 * chunks of 16 none (gradients differ by 4e-7 from f64, not by 4e-4); that costs about 5 %. Bits depend neither on how the caller
 * cuts m and n nor on threads, as long as k is cut at fixed places.
 */
#ifndef SINEW_DEVICE_CPU_ISA_MATMUL_H
#define SINEW_DEVICE_CPU_ISA_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

enum { MATMUL_CHUNK = 16 };

typedef struct panel_block {
  int64_t m, n, k;
  const float *a, *b;
  int64_t a_panel, b_panel; /* distance of panels, in floats */
  float *c;                 /* row-major; only the m x n elements are read and written */
  int64_t c_row;
  bool add; /* to c; otherwise c is overwritten */
  bool
      more; /* b is one panel, and what is wanted of b next lies right behind: it is asked for meanwhile */
} panel_block;

/* A matrix in memory. Element (i, p) at data[i * row + p] for dots, at data[p * row + i] for add_rows. */
typedef enum matmul_dtype { MATMUL_F32, MATMUL_F16, MATMUL_BF16 } matmul_dtype;
typedef struct matmul_rows {
  const void *data;
  matmul_dtype dtype;
  int64_t row, n, k;
} matmul_rows;

struct lane_step;
typedef struct matmul_kernels {
  int rows, cols; /* of a tile */
  void (*multiply)(const panel_block *w);
  /* Panels of `width` rows from f32 in memory, element (i, p) of n rows at from[i * row + p * k_step]; one of the two
   * distances is usually 1. Rows beyond n, up to a whole panel, become 0. Panels lie `panel` floats apart. */
  void (*pack)(const float *from, int64_t row, int64_t k_step, int64_t n, int64_t k, int width,
               float *to, int64_t panel);
  /* The same of n rows that lie one after the other (row = 1), as rows lane … of the first panel and on: all else of panels stays. */
  void (*pack_rows)(const float *from, int64_t k_step, int64_t n, int64_t k, int width, int lane,
                    float *to, int64_t panel);
  /* Few vectors, 1 … 4 of them, `apart`, against all rows of a matrix: to[v * to_apart + i] += sum of (i, p) * x[v * apart + p]. The
   * matrix is read once. `dots` sums along rows in a fixed tree, add_rows one p after the other. */
  void (*dots)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
               int64_t to_apart);
  void (*add_rows)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
                   int64_t to_apart);
  /* Chains of cheap instructions (lanes.h), for n lanes exactly; whether a step's code is one of them. */
  bool (*in_chain)(int code);
  void (*chain)(const struct lane_step *steps, int n_steps, int n);
} matmul_kernels;

#endif
