/* Kernels of scatter, scan and sort. Most are plain loops that the compiler turns into vectors. */
#ifndef SINEW_DEVICE_CPU_ISA_CORES_H
#define SINEW_DEVICE_CPU_ISA_CORES_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of n elements that lie next to each other, `step` (1 or -1) apart; x_row and y_row from row to row. */
enum { CORE_ROWS = 4 };
typedef struct core_rows {
  const float *x;
  float *y;
  int64_t x_row, y_row, x_step, y_step, n;
  int rows;
} core_rows;

typedef struct core_kernels {
  /* to[i] += from[i] */
  void (*add)(float *to, const float *from, int64_t n);
  /* One step of n scans side by side: totals[i] += x[i] (or *=), and y[i] the total behind or, exclusive, before it. y may be
   * x. */
  void (*scan)(double *totals, const float *x, float *y, int64_t n, bool product, bool exclusive);
  /* n steps of up to CORE_ROWS scans. */
  void (*scan_rows)(double *totals, const core_rows *r, bool product, bool exclusive);
  /* Keys of n floats (order.h), each xor flip. */
  void (*keys)(const float *x, int64_t n, uint32_t flip, uint32_t *keys);
  /* Where keys below a bound are, in order: their places to `at`, which has room for n. Returns how many. */
  int64_t (*below)(const uint32_t *keys, int64_t n, uint32_t bound, int32_t *at);
} core_kernels;

#endif
