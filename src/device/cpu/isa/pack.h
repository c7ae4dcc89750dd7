/* Packing for operands of matmuls that are no plain matrices (convolutions with padding and strides, halves): one table an
 * instruction set. What is copied, and why these shapes: src/device/cpu/matmul_operand.h.
 *
 * A line is up to PACK_LANES neighbouring entries of one index. Where its lanes stand is said by a recipe, relative to the
 * line's element number: a list of runs; lanes in no run are 0. Many lines share one recipe and differ in the element number
 * alone, so masks are made once for all of them.
 */
#ifndef SINEW_DEVICE_CPU_ISA_PACK_H
#define SINEW_DEVICE_CPU_ISA_PACK_H

#include <stdbool.h>
#include <stdint.h>

enum {
  PACK_LANES = 32,
  PACK_SQUARE = 16,
  PACK_CLASSES = 64 /* recipes of a call, at most */
};

/* Lane l of lane … lane+n-1 is element at + l * by. */
typedef struct pack_run {
  int64_t at;
  uint32_t mask; /* of these lanes */
  int16_t lane, n;
} pack_run;
typedef struct pack_recipe {
  int n;
  pack_run runs[PACK_LANES]; /* where n is 0, the first is there and has no lanes */
} pack_recipe;

typedef enum pack_dtype { PACK_F32, PACK_F16, PACK_BF16 } pack_dtype;
typedef struct pack_source {
  const void *data;
  pack_dtype dtype;
  int64_t by; /* elements from lane to lane */
} pack_source;

/* Lines one after the other: number q is at element at[q] by recipe recipes[class_of[q]] and goes to to + q * step, `lanes`
 * floats. */
typedef struct pack_lines {
  int64_t n;
  const int64_t *at;
  const uint8_t *class_of;
  const pack_recipe *recipes;
  int classes;
  float *to;
  int64_t step;
  int lanes;
} pack_lines;

/* Lines that become columns: n (at most PACK_SQUARE) of them, number i at element at[i] and of class class_of[i]. They are
 * cut into squares of PACK_SQUARE lanes, each with recipes of its own, `classes` a square: lane p of square s of line i goes to
 * to[(s * PACK_SQUARE + p) * step + i]. There are `steps` lanes in all. Columns n … lanes-1 become 0. */
typedef struct pack_columns {
  int n, lanes, steps;
  const int64_t *at;
  const uint8_t *class_of;
  const pack_recipe *recipes;
  int classes;
  float *to;
  int64_t step;
} pack_columns;

/* Sums of a few lines: c[r * c_row + j] (+)= the sum over t < n, in that order, of weights[r * weights_row + t] * x[at[t] + j * by], for up
 * to PACK_SUMS rows and all columns j. */
enum { PACK_SUMS = 4 };
typedef struct pack_sums {
  const float *x, *weights;
  const int64_t *at;
  int n, rows;
  int64_t by, weights_row, columns;
  float *c;
  int64_t c_row;
  bool add;
} pack_sums;

typedef struct pack_kernels {
  void (*lines)(const pack_source *from, const pack_lines *w);
  void (*columns)(const pack_source *from, const pack_columns *w);
  void (*sums)(const pack_sums *w);
} pack_kernels;

#endif
