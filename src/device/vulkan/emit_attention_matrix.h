/* Attention by cooperative matrices of halves (kernel_matrix.h), where precision allows it and the device has them.
 *
 * A workgroup has a block of rows (queries, or keys for their gradients) and passes over columns (keys, or queries), a tile of them
 * at a time. Its subgroups stand in a grid: each has some of the rows and some of the tile's columns. A subgroup's products
 * go through shared memory to its threads, `lanes` of which have a row of scores, and come back as weights.
 *
 * Numbers of a tile are multiplied with a power of two that brings the largest below 2^12, and cut into a half and the half of what it
 * leaves (21 bits together); products are sums of three products of halves, in f32. Powers only fall: where a later tile
 * has larger numbers, sums so far are multiplied with what the power lost. So the error of a sum of products a b is
 * at most 2^-19 of the sum of |a b|, and 2^-30 of the largest |a| times the largest |b| of the block for each product.
 * With `half` only the first halves count: 2^-10.
 *
 * What is not finite does not go through matrices: the workgroup notes it and does its block again, in plain f32. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_MATRIX_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_MATRIX_H

#include "device/vulkan/emit_attention.h"
#include "device/vulkan/kernel_matrix.h"

enum {
  CREW_WIDEST = 128, /* numbers of a row of operands */
  CREW_VECTORS = 32, /* of a tile, that a thread has */
  CREW_STEPS = 32    /* matrices of a row of operands or results */
};

/* Subgroups along the rows and along the columns; columns of a tile that one of them has. */
typedef struct crew_shape {
  int rows, columns, each;
} crew_shape;

typedef struct crew {
  emitter *e;
  const attending *a;
  crew_shape shape;
  int size[3];     /* of matrices: m, n, k */
  int rows, lanes; /* rows of a subgroup; threads that have a row of its scores */
  bool rest;       /* second halves too */
  spirv_id type[3];
  val words;                     /* shared: tiles, then areas of the subgroups, then notes */
  int areas, area, n_areas;      /* in words: where areas begin, size of one; areas of a subgroup */
  int notes;                     /* where notes begin: by tile, the largest number by subgroup */
  val number, at_row, at_column; /* of this subgroup; its place in the grid */
  val row, place; /* of this thread: the row of its subgroup, its place among the row's threads */
  val odd;        /* variable: u32, not 0 once something is not finite */
} crew;

/* Rows and columns of a tile; the shape's threads. */
static inline int crew_rows(const crew *c) { return c->shape.rows * c->rows; }
static inline int crew_columns(const crew *c) { return c->shape.columns * c->shape.each; }
static inline int crew_threads(const crew_shape *s, const gpu_target *t) {
  return s->rows * s->columns * t->subgroup;
}
/* Words from row to row of halves, first ones, then second ones; and of a tile of them. Four more than needed, so that neighbours
 * are in different banks. */
static inline int crew_stride(const crew *c, int width) {
  return (c->rest ? width : width / 2) + 4;
}
static inline int crew_tile_words(const crew *c, int rows, int width) {
  return rows * crew_stride(c, width);
}
/* Numbers of rows, made a multiple of what matrices want. */
static inline int crew_width(int64_t width) { return (int)((width + 15) / 16 * 16); }

/* Whether products of such widths can be made so at all. */
bool crew_fits(const emitter *e, const attending *a);
/* Sizes of everything but `words`. n_notes: tiles with notes; n_more: words behind those. *out_words: of shared memory. */
crew crew_of(emitter *e, const attending *a, crew_shape shape, int tile_words, int n_areas,
             int n_notes, int n_more, int *out_words);
bool crew_has_room(const emitter *e, int words);
/* In an open kernel, before anything else. */
void crew_open(crew *c, int words);
/* This subgroup's area. */
val crew_area(const crew *c, int which);
/* Threads of the subgroup: what they wrote to shared memory can be read behind it. Never where only some of the subgroups come: drivers
 * on a CPU take it for a barrier of the workgroup (decision 25). */
void crew_meet(const crew *c);
/* Whether any thread of the subgroup says so. */
val crew_any(const crew *c, val condition);
/* The largest of a row's threads. */
val crew_row_max(const crew *c, val x);
val crew_row_sum(const crew *c, val x);
/* Makes c->odd the same for the workgroup; a barrier stands before and behind. note: where its words begin. */
val crew_all_odd(crew *c, int note);
/* 2^n (i32), -126 <= n <= 127; x 2^n for any n from -252 to 252. */
val crew_power(kernel *k, val n);
typedef struct crew_factors {
  val by[2];
} crew_factors;
crew_factors crew_factors_of(kernel *k, val n);
val crew_scaled(kernel *k, val x, crew_factors f);

/* --- tiles of halves --- */

typedef struct crew_tile {
  row_list l;
  int rows, width;        /* width: a multiple of 16 */
  int at, note;           /* words: where it begins; the number of its notes */
  val power;              /* variable: i32 */
  int n;                  /* vectors that a thread has */
  val kept[CREW_VECTORS]; /* variables: as loaded */
  val now[CREW_VECTORS];  /* from crew_tile_note on: the numbers */
} crew_tile;
void crew_tile_open(crew *c, crew_tile *t);
/* Rows from t->l.first on, from memory to the threads; their largest numbers to the notes. */
void crew_tile_load(crew *c, crew_tile *t);
void crew_tile_note(crew *c, crew_tile *t);
/* Behind a barrier: the power for them, and what it lost (i32, 0 or less). Then to shared memory. */
val crew_tile_power(crew *c, crew_tile *t);
void crew_tile_store(crew *c, crew_tile *t);
/* All of that behind the load, with the barriers around, for rows that are loaded once. */
void crew_tile_fill(crew *c, crew_tile *t);

/* --- products --- */

/* The subgroup's rows of a tile as matrices. */
typedef struct crew_rows_of {
  int n;
  val at[CREW_STEPS][2];
} crew_rows_of;
void crew_rows_open(crew *c, crew_rows_of *r, int width);
void crew_take_rows(crew *c, const crew_tile *t, const crew_rows_of *r);
/* Products of them with the subgroup's rows of another tile (its columns), as f32 to area `which`, lines of rows. */
void crew_products(crew *c, const crew_rows_of *a, const crew_tile *b, int which);
/* Two neighbouring products of the thread's row: pair `i` of crew_pairs, and their column within the tile. */
static inline int crew_pairs(const crew *c) { return c->shape.each / 2 / c->lanes; }
void crew_get_pair(crew *c, int which, int i, val out[2]);
val crew_pair_column(crew *c, int i);
/* Two weights, as halves. */
void crew_put_pair(crew *c, int which, int i, const val x[2]);
/* Sums of a row: matrices, variables. */
typedef struct crew_sums {
  int n;
  val at[CREW_STEPS];
} crew_sums;
void crew_sums_open(crew *c, crew_sums *s, int width);
/* += weights of area `which` · rows of a tile, which are the subgroup's columns. */
void crew_add(crew *c, int which, const crew_tile *b, crew_sums *s);
/* Rows times a factor each: the thread's row's to area `which`, and behind crew_meet from there to the sums. */
void crew_put_factor(crew *c, int which, val factor);
void crew_scale_rows(crew *c, int which, const crew_sums *sums);
/* To shared words from `at` on: planes by column of the grid, of rows of `width` and 4 numbers. */
void crew_sums_put(crew *c, const crew_sums *s, int at, int width);
static inline int crew_plane_words(const crew *c, int width) { return crew_rows(c) * (width + 4); }

/* Exponentials by the device's own function: e^x for x <= 0 … 20, 0 below -100; 2^x for x <= 30, 0 below -200. */
val crew_exp(kernel *k, val x);
val crew_exp2(kernel *k, val x);
#define CREW_LOG2E 0x1.715476p+0f

/* --- scores that are products times the scale, but for who sees whom: no bias, mask, cap --- */
static inline bool crew_is_simple(const attending *a) {
  return !a->bias->value && !a->mask->value && !(a->softcap > 0);
}
/* scale 2^-(powers of both), as one factor. What is out of its range gives infinities, which are noted, or is next to nothing. */
val crew_scale_of(const crew *c, const crew_tile *x, const crew_tile *y, float scale);
/* Bounds low … high - 1 of columns, as numbers for the thread's pairs of a tile that begins at `first`: low and high of q. */
typedef struct crew_bounds {
  val low, high; /* low 0: there is none */
} crew_bounds;
crew_bounds crew_bounds_of(const crew *c, val low, val high, val first);
/* The number, or -inf where column j of pair i lies outside. */
val crew_bounded(const crew *c, const crew_bounds *b, int i, int j, val x);

/* --- kernels --- */

/* Forward, e->k left open for the caller to add. */
bool forward_matrix_fits(const emitter *e, const forward *f);
/* Rows that a workgroup has. */
int forward_matrix_rows(const emitter *e, const forward *f);
sn_status forward_matrix(emitter *e, const forward *f) SN_MUST_USE;

#endif
