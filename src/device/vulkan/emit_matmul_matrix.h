/* Tiles whose products are made by cooperative matrices of halves. f32 operands are cut into a half and the half of
 * what it leaves, and three of the four products of those are summed (about 16 bits); or only the first counts
 * (`half`). See emit_matmul.h.
 *
 * Matrices ask for the Vulkan memory model, in which what threads share is said at each access: so these kernels
 * have functions of their own for shared memory, which is an array of u32. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_MATRIX_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_MATRIX_H

#include "device/vulkan/emit_matmul.h"

/* An operand's elements of one tile in shared memory, two in a word: lines of rows, along k, where memory has it
 * so, or lines of k, along the rows. With three products a second such block has the second halves. */
typedef struct half_panel {
  operand o;
  int rows, depth, threads;
  bool rest;     /* second halves too */
  sn_dtype half; /* SN_BF16 or SN_F16 */
  val array;
  int first, stride, lines; /* in words: where it begins, from line to line; number of lines */
  int table;       /* in words: four for each k, what it adds to places and checks; -1: none */
  int units;       /* of four neighbours along a line, that a thread loads; plain operands */
  val line, inner; /* of this thread's first unit */
  operand_rows at;
  val kept[MATMUL_LOADS * 4];
} half_panel;

/* Words from line to line, and of all. Four more than needed, so that lines lie in different banks. */
static inline int half_stride(int length) { return length / 2 + 4; }
int half_panel_words(const half_panel *p);
void half_panel_open(matmul *m, half_panel *p);
/* The table for the panel at k, by the first threads. */
void half_panel_fill_table(matmul *m, half_panel *p, val k, val size);
void half_panel_load(matmul *m, half_panel *p, val k, val size);
void half_panel_store(matmul *m, half_panel *p, val k, val size);

/* A word of shared memory, for all threads. */
val matrix_shared_at(kernel *k, val array, val at);
void matrix_shared_set(kernel *k, val array, val at, val x);
val matrix_shared_get(kernel *k, val array, val at);
void matrix_barrier(kernel *k);

#endif
