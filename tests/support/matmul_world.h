/* Matmul parts drawn at random, with memory and a plain evaluation of their regions, point by point in doubles:
 * lists of axes, permuted and broadcast operands, windows with checks, half dtypes, operands and epilogues that are
 * programs, several accumulators and products. Numbers are small integers, so that sums are exact. */
#ifndef SINEW_TESTS_SUPPORT_MATMUL_WORLD_H
#define SINEW_TESTS_SUPPORT_MATMUL_WORLD_H

#include "plan/program.h"

enum { WORLD_VALUES = 24, WORLD_INSTRS = 8, WORLD_PRODUCTS = 4, WORLD_TERMS = 12 };

/* A part with its memory. Values are made as operands are. */
typedef struct matmul_world {
  uint32_t seed;
  program p;
  program_value values[WORLD_VALUES];
  void *address[WORLD_VALUES];
  double *numbers[WORLD_VALUES]; /* the same in doubles; of results: what is expected */
  int64_t counts[WORLD_VALUES];
  int64_t extent[REGION_AXES]; /* batch, m, n */
  matmul_part part;
  matmul_acc accs[2];
  matmul_product products[2][WORLD_PRODUCTS];
  instr code[2 * 2 * WORLD_PRODUCTS + 1][WORLD_INSTRS];
  term terms[64][WORLD_TERMS];
  check checks[16];
  int n_codes, n_terms, n_checks;
  bool too_large; /* for memory: nothing but its work may be asked */
} matmul_world;

/* Extents are drawn from `sizes`. */
matmul_world *matmul_world_draw(uint32_t seed, const int64_t *sizes, int n_sizes, int most_axes);
/* A convolution of `channels` by windows of 3 by 3, with padding: images of height * height in planes, m the
 * pixels, k channels and window; four images, and as many results as channels. */
matmul_world *matmul_world_convolve(uint32_t seed, int64_t height, int64_t channels);
void matmul_world_free(matmul_world *w);
/* Multiplications (infinitely many of what is too large) of the plain evaluation, which leaves what is expected in `numbers`. */
double matmul_world_work(const matmul_world *w);
void matmul_world_evaluate(matmul_world *w);
/* Whether the results in memory are those; fails the test if not. */
bool matmul_world_check(const matmul_world *w);

#endif
