/* Tiles whose products are made by cooperative matrices of halves. See emit_matmul.h.
 *
 *   emit_matmul_matrix.c    the kernel and its loop over k
 *   emit_matmul_halves.c    panels of halves
 *   emit_matmul_scale.c     the powers of two by which panels are multiplied
 *   emit_matmul_fragment.c  products, and what becomes of the sums
 *
 * `half`: one product of bf16. `fast`: an operand is multiplied by a power of two that brings its largest magnitudes between
 * 2^12 and 2^15, and cut into an f16 and the f16 of what that leaves; of the four products of those the last, lo * lo, is not made.
 * That is 21 bits of each factor. What lies far below the largest element of its panel (a tile's rows by some k) keeps fewer:
 * with A and B the largest magnitudes of the tile's rows and columns,
 *
 *   |error| <= 2^-19 sum |a b|  +  2^-36 k A B.
 *
 * The power is found panel by panel: subgroups leave their largest magnitude in shared memory before a barrier that is there
 * anyway. Where it must change, the sums so far are multiplied by the power of two that the scale has lost. Matrix units cut off
 * what does not fit in their sums instead of rounding it, so that long sums come out too small: every MATRIX_BLOCK elements of
 * k they are added to f32 sums without a scale (a flush). A workgroup that meets an infinity makes its results once more by
 * plain multiply-adds, since the halves of infinities are no numbers. (bf16 in two halves, where there is no f16, needs no
 * powers, and has 16 bits.)
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_MATRIX_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_MATRIX_H

#include "device/vulkan/emit_matmul.h"
#include "device/vulkan/emit_matmul_scale.h"
#include "device/vulkan/kernel_matrix.h"

enum {
  MATRIX_TOGETHER = 2,     /* accumulators made together */
  MATRIX_FRAGMENTS = 32,   /* of a subgroup, at most */
  MATRIX_POINTS = 8 * 256, /* of all of them */
  MATRIX_BLOCK = 256,      /* elements of k from flush to flush */
  MATRIX_LONG = 512,       /* that need a flush */
  MATRIX_TABLE = 8         /* words of a panel's two tables for each k */
};

/* An operand's elements of one tile in shared memory, two in a word: lines of rows, along k, where memory has it
 * so, or lines of k, along the rows. With three products a second such block has the second halves. */
typedef struct half_panel {
  operand o;
  int rows, depth;
  int threads;   /* of the workgroup */
  bool rest;     /* second halves too */
  bool scaled;   /* by a power of two */
  sn_dtype half; /* SN_BF16 or SN_F16 */
  val array;
  int first, stride, lines; /* in words: where it begins, from line to line; number of lines */
  int table; /* in words: two tables in turns, four words for each k, what it adds to places and checks; -1: none */
  int units; /* of four neighbours along a line, that a thread loads; plain operands */
  val line, inner; /* of this thread's first unit */
  operand_rows at;
  val kept[MATMUL_LOADS * 4]; /* the panel that is on its way */
  val there;                  /* variable, u32: which of those exist, where checks can fail */
  /* scaled panels */
  int most;     /* in words: the largest magnitudes that subgroups have seen */
  val largest;  /* variable: of this thread, of an operand that is a program */
  val exponent; /* variable, i32: of the number that is brought to 2^12, biased */
} half_panel;

/* Words from line to line, and of all. Four more than needed, so that lines lie in different banks. */
static inline int half_stride(int length) { return length / 2 + 4; }
int half_panel_words(const half_panel *p);
void half_panel_open(matmul *m, half_panel *p);
/* The table for the panel at k, by the first threads. */
void half_panel_fill_table(matmul *m, half_panel *p, val k, val size);
void half_panel_load(matmul *m, half_panel *p, val k, val size);
/* Waits for the numbers; those that do not exist become 0. */
void half_panel_settle(matmul *m, half_panel *p, val k, val size);
/* A scaled operand that is a program: its elements as they are, to where their halves will be. */
void half_panel_compute(matmul *m, half_panel *p, val k, val size);
void half_panel_store(matmul *m, half_panel *p, val k, val size);

/* The words of two neighbours, of a scale (scale_factor; 0: none); the second where there are second halves. */
void half_panel_words_of(kernel *k, const half_panel *p, val scale, const val x[2], val out[2]);

/* --- scales --- */
void scale_open(matmul *m, half_panel *p, int most);
/* This thread's numbers count for the panel's largest magnitude. */
void scale_publish(matmul *m, const half_panel *p);
/* The biased exponent of the largest magnitude that threads have published; 255: an infinity. */
val scale_largest(matmul *m, const half_panel *p);
/* The power of two that elements are multiplied by (f32). */
val scale_factor(kernel *k, const half_panel *p);
/* Two factors that undo the scales of both panels in a product. */
void scale_undo(kernel *k, const half_panel *a, const half_panel *b, val out[2]);
/* The scale for an exponent, and its change as a number >= 0 (i32). */
val scale_set(kernel *k, const half_panel *p, val exponent);

/* --- a kernel --- */
typedef struct matrices {
  matmul m;
  const matrix_shape *shape;
  int size[3];      /* of a matrix: m, n, k */
  int fragments[2]; /* of a subgroup along each side */
  int products;
  bool scaled;
  spirv_id type[3];
  val subgroup[2], slice; /* this subgroup's place */
  val shared;
  int tables, maxima; /* in words: where those of panels begin, behind all panels */
  bool blocks;        /* sums are flushed */
  /* Of accumulators: sums of matrix units, and what they are added to by a flush; the same where there is none. */
  val sum[EMIT_ACCS][MATRIX_FRAGMENTS], total[EMIT_ACCS][MATRIX_FRAGMENTS];
  val wild;     /* variable, bool: a panel had an infinity */
  int first, n; /* accumulators that are made together */
  int n_panels;
  half_panel panels[1 + MATRIX_TOGETHER];
  int of[MATRIX_TOGETHER][2];
} matrices;

static inline int matrix_side(const matrix_shape *s, int side) {
  return side ? s->columns : s->rows;
}
static inline int matrix_subgroups(const matrix_shape *s) {
  return s->subgroups[0] * s->subgroups[1] * s->slices;
}
void fragments_open(matrices *t);
/* The panels that are in shared memory. */
void fragments_multiply(matrices *t);
/* By the changes of their panels' scales, in the order of the panels. */
void fragments_rescale(matrices *t, const val *changes);
/* Sums without their scales: to the totals, where there are some. */
void fragments_flush(matrices *t);
void fragments_store(matrices *t);
int fragments_words(const matrices *t); /* of shared memory, for storing */

#endif
