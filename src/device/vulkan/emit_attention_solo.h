/* Attention of few rows by subgroups that work alone: operands of matrices are made straight from registers, sums are read from them
 * (kernel_matrix.h, elements of matrices by thread). No operand goes through shared memory, nobody waits for another before the end.
 *
 * A subgroup has 16 rows (queries, or keys for their gradients) and passes over columns (keys, or queries) 16 at a time. The scores' sums
 * become the operand of the next product as they stand. Several subgroups of a workgroup share the columns of a block of rows, each has
 * every n-th 16 of them; their results meet in shared memory, a plane a subgroup.
 *
 * Halves are bf16, of f32's range: a number is a half and the half of what it leaves, 16 bits together; products are sums of three
 * products of halves, in f32. With `half` only the first halves count. Nothing is scaled. With many rows and columns packed
 * operands are faster (emit_attention_flash.h), which are made halves of once.
 *
 * What is not finite makes results that are not finite: the workgroup sees that and does its block again, in plain f32. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_SOLO_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_SOLO_H

#include "device/vulkan/emit_attention_plain.h"

enum {
  SOLO_ROWS = 16,
  SOLO_SHARE = 8,    /* subgroups that have the same rows, at most */
  SOLO_MATRICES = 8, /* of a row of results */
  SOLO_ACROSS = 4    /* times 32 columns of a row */
};

typedef struct solo {
  emitter *e;
  const attending *a;
  bool rest; /* second halves too */
  spirv_id type[3];
  int share;   /* subgroups that have the same rows */
  val number;  /* of the subgroup in its workgroup */
  val g, t;    /* the thread is 4 g + t of the subgroup */
  val check;   /* variable: f32, a sum of results, which is not finite where one is not */
  val planes;  /* shared: results, vectors [share][16][pitch] */
  int columns; /* of results: a multiple of 32 */
  val out[SOLO_MATRICES]
         [MATRIX_ELEMENTS]; /* variables: the thread's elements of the results' matrices */
  int pitch;
  val words; /* shared, by subgroup: whether something is odd; then n_words more */
} solo;

/* Whether it can be done so at all, for such widths. */
bool solo_fits(const emitter *e, const attending *a);
/* Subgroups that share a block's columns, where there are so many blocks and columns, and results have `width` columns. */
int solo_share(const emitter *e, int64_t blocks, int64_t columns, sn_dim width);
/* In an open kernel, before anything else. width: of results. */
void solo_open(solo *s, emitter *e, const attending *a, int share, sn_dim width, int n_words);
/* The thread's columns of scores, as sums have them: 2 t + 0, 1, 8, 9. */
val solo_column(const solo *s, int i);

/* --- operands --- */

/* 16 rows of a list. Along: k is along the rows, the thread has four columns of each 16 of rows g and g + 8. Otherwise k is the
 * rows: it has four columns of each 32 of rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9. */
typedef struct solo_rows {
  row_list l;
  bool along, whole; /* whole: all of a row's vectors are there, and aligned */
  int rows, steps;
  val address[4], number[4];
  val raw[SOLO_ACROSS][4]; /* not along: vectors on their way */
} solo_rows;
solo_rows solo_rows_of(solo *s, row_list l, bool along);
/* Rows from `first` on; those outside of the list are any of it. The list must have a row. */
void solo_rows_at(const solo *s, solo_rows *r, val first);
/* Not along: all columns, to be on their way before solo_add. */
void solo_fetch(solo *s, solo_rows *r);

/* a, b: what to multiply. also (may be NULL): rows g and g + 8 of it times those of `with`, which is a or b, go to dot, summed over the
 * threads of a row. Products of n such pairs of equal width, the thread's elements of them. */
typedef struct solo_product {
  const solo_rows *a, *b, *also, *with;
  val out[MATRIX_ELEMENTS], dot[2];
} solo_product;
void solo_products(solo *s, int n, solo_product *const *p);

/* The thread's elements as a matrix: halves, and what those leave. */
void solo_make(solo *s, int use, const val x[MATRIX_ELEMENTS], val out[2]);

/* --- results --- */

/* Results = results * keep[row] + weights · rows; keep NULL: 1. */
void solo_add(solo *s, const val weights[2], const solo_rows *r, const val *keep);
/* To the subgroup's plane. */
void solo_put(solo *s);
/* Whether something was not finite, for all threads of the workgroup. A barrier stands before it: planes can be read. */
val solo_all_odd(solo *s);
/* A thread's row of the block, at the end, and its first vector: it has every solo_each-th. */
static inline int solo_each(const solo *s) { return s->e->k->threads / SOLO_ROWS; }
val solo_own_row(const solo *s);
val solo_own_vector(const solo *s);
/* Vector `column` of a row from all planes; weights of the planes may be NULL. */
void solo_join(const solo *s, val row, val column, const val *weights, val out[4]);
/* Four neighbours of a result's row, from `column` on, those that there are. at: entry, head, number. */
void solo_store(emitter *e, const strided *to, const val at[3], val column, const val x[4]);

/* --- kernels --- */
bool forward_solo_fits(const emitter *e, const forward *f);
/* e->k is left open, for the caller to add. */
sn_status forward_solo(emitter *e, const forward *f) SN_MUST_USE;

#endif
