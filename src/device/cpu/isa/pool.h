/* Kernels of pooling with windows that overlap: one table an instruction set. Lines are n neighbours; no line overlaps another. */
#ifndef SINEW_DEVICE_CPU_ISA_POOL_H
#define SINEW_DEVICE_CPU_ISA_POOL_H

#include <stdint.h>

typedef struct pool_kernels {
  /* Every stride-th element: to[a * apart + q] = from[q * stride + a] for all of n; and back. */
  void (*split)(const float *from, int64_t n, int64_t stride, float *to, int64_t apart);
  void (*join)(const float *from, int64_t apart, int64_t n, int64_t stride, float *to);
  /* to[i] = the larger (smaller) of to[i] and x[i]; NaN wins. */
  void (*larger)(const float *x, float *to, int64_t n);
  void (*smaller)(const float *x, float *to, int64_t n);
  /* x and y are the same where they are equal or both NaN: to[i] += 1 there; to[i] += share[i] there. */
  void (*count_same)(const float *x, const float *y, float *to, int64_t n);
  void (*add_same)(const float *x, const float *y, const float *share, float *to, int64_t n);
} pool_kernels;

#endif
