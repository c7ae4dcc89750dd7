/* Matmul parts as kernels. What a part becomes is a way (matmul_way): how large the tiles are that workgroups make,
 * or that a result has few rows; and into how many pieces k is cut. emit_matmul chooses it from the extents and the
 * target; tests give it.
 *
 *   emit_matmul_tiles.c    tiles of the result from panels of the operands in shared memory
 *   emit_matmul_matrix.c   the same by cooperative matrices of halves: see emit_matmul_matrix.h
 *   emit_matmul_window.c   convolutions from images in shared memory, where windows move over them
 *   emit_matmul_direct.c   the same from registers, without panels: see emit_matmul_direct.h
 *   emit_matmul_empty.c    parts without products: a loop
 *   emit_matmul_few.c      few rows (or few columns): the large operand is read once, by threads along k
 *   emit_matmul_operand.c  what an operand's region is: where its elements stand in memory
 *   emit_matmul_panel.c    operands into panels
 *   emit_matmul_result.c   sums into results: the epilogue, pieces of k
 *   emit_matmul_sums.c     results that are nothing but sums
 *
 * Sides: 0 is a with the rows m of the result, 1 is b with the columns n. Invariants: nothing is read but at points
 * that exist: coordinates past an end are moved to the last that there is, and what k has no element for counts as
 * 0. Sums: chunks of 16 products of neighbouring k in f32, then the chunks of a block of k, then blocks (two accumulators
 * at once: 64 products, then blocks), in an order that follows from extents and way.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_H

#include "device/vulkan/emit.h"

enum { MATMUL_CHUNK = 16, MATMUL_FEW = 8, MATMUL_LOADS = 16 };

/* Tiles of rows by columns from panels of `depth` elements of k. A thread has thread_rows by thread_columns (4 or
 * 8) of them, and there are at least 8 threads along each side. `slices` threads have the same ones, each with a
 * chunk of every panel: depth is slices * MATMUL_CHUNK. All are powers of two. */
typedef struct tile_shape {
  int rows, columns, depth, thread_rows, thread_columns, slices;
  int unroll; /* steps of k in the loop's body */
} tile_shape;
static inline int tile_threads(const tile_shape *t) {
  return t->rows / t->thread_rows * (t->columns / t->thread_columns) * t->slices;
}

/* A side with few points, at most `few` of them a workgroup; of the other side each thread has `many`. `lanes`
 * threads share those, each with its share of k; the workgroup's others have other points. */
typedef struct few_shape {
  int side; /* that is few */
  int few, many, lanes, threads;
  bool along_k; /* neighbouring threads have neighbouring k, not neighbouring points */
} few_shape;

/* Tiles made by cooperative matrices from panels of `depth` elements of k, by so many subgroups along the rows and the columns, each
 * as often as there are slices of k. All are powers of two. */
typedef struct matrix_shape {
  int rows, columns, subgroups[2], slices, depth;
} matrix_shape;

/* Tiles of fragments (2 or 4 a side) by subgroups, each with operands in its own registers: see emit_matmul_direct.h. */
typedef struct direct_shape {
  int fragments[2], subgroups[2], slices;
  bool together; /* two accumulators at once */
} direct_shape;

typedef struct matmul_way {
  const tile_shape *tiles; /* one of these, or neither: few */
  const matrix_shape *matrix;
  const direct_shape *direct;
  few_shape few;
  int splits;    /* pieces of k, added by a second launch; 1: none */
  bool sorted;   /* a second launch stores them in memory's order: sums_want_order */
  int products;  /* of halves, with matrices: 3, or 1 */
  sn_dtype half; /* SN_F16 or SN_BF16 */
} matmul_way;

/* All launches of a part, run only where least <= of <= most (of NULL: always). */
sn_status emit_matmul_as(emitter *e, const matmul_part *p, const matmul_way *way, const amount *of,
                         int64_t least, int64_t most) SN_MUST_USE;
/* Batch axes that no b reads are rows: so one tile serves many of their points. */
void matmul_batch_to_rows(matmul_part *p);
/* The way for a part at the symbols' maxima. */
matmul_way matmul_choose(const emitter *e, const matmul_part *p);
extern const tile_shape matmul_tiles[]; /* for many tiles, fewer, few; for small devices */
/* For many tiles, fewer, few. */
enum { MATRIX_LARGE, MATRIX_64, MATRIX_DEEP, MATRIX_SHAPES };
extern const matrix_shape matmul_matrices[];
/* Threads of a workgroup; whether a shape can be made of the target's matrices. */
int matrix_threads(const matrix_shape *s, const gpu_target *t);
bool matrix_fits(const matrix_shape *s, const gpu_target *t, const matmul_part *p, int products);
/* 32 x 32 points by 8 and by 4 slices of k; 64 x 64 by 2; 32 x 64 by 8, 4, 2 and 1; of more subgroups with 32 x 32 points each 32 x 128 by 1, 64 x 64
 * by 2, 64 x 32 by 4. */
enum {
  DIRECT_SMALL,
  DIRECT_EVEN,
  DIRECT_WIDE,
  DIRECT_LONG,
  DIRECT_MIDDLE,
  DIRECT_SHORT,
  DIRECT_OWN,
  DIRECT_ROW,
  DIRECT_SQUARE,
  DIRECT_COLUMN,
  DIRECT_SHAPES
};
extern const direct_shape matmul_directs[];
int direct_threads(const direct_shape *s, const gpu_target *t);
bool direct_fits(const emitter *e, const direct_shape *s, const matmul_part *p);
/* Whether convolutions have products of f16, and their gradients of bf16. */
bool matmul_is_deep(const emit_env *env);
/* Whether an operand is packed once. */
bool direct_keeps(const emitter *e, const matmul_part *p);
enum { TILES_64, TILES_DEEP, TILES_32, TILES_PLAIN, TILE_SHAPES };

/* --- a kernel in the making --- */

/* An operand of a product. Where it is plain, it is one load: element base + (terms of batch and row) + (terms of
 * k), under checks that are sums of the same form. */
typedef struct operand {
  const region *code;
  const matmul_product *product;
  int side;
  bool plain;
  bool along_k; /* elements next to each other in memory lie along k; otherwise along the rows */
  int width;    /* elements that one load reads along that axis: 1 or 4 */
  sn_dtype dtype;
  const access *at;
  bool takes_pairs; /* of halves, where the value is stored so */
  bool zeros;       /* where a check fails, loads are zeros; otherwise anything */
  int n_checks;     /* that can fail */
  const check *checks[ACCESS_CHECKS];
} operand;
void vk_operand_read(const emitter *e, const matmul_part *p, const matmul_product *product,
                     int side, operand *out);
bool region_same(const region *a, const region *b);
/* The only term of an axis; NULL: it has none, or several. */
const term *access_only_term(const access *at, int axis);
bool dims_are_numbers(int n, const sn_dim *dims);
bool dims_are_positive(int n, const sn_dim *dims); /* numbers from 1 on */
/* Whether products of two accumulators go along the same k and have an operand in common. */
bool accs_share(const matmul_acc *a, const matmul_acc *b);

typedef struct matmul {
  emitter *e;
  const matmul_part *part;
  const matmul_way *way;
  int first[2], axes[2], first_k; /* of each side's axes; the first axis of k */
  val size[2];                    /* extents of the sides */
  val begin[2];                   /* the first point of each side that this workgroup has */
  val batch, split;               /* numbers; split: 0 without pieces */
  bool
      columns_last; /* neighbouring columns of the result are neighbours in memory; otherwise rows are */
  int64_t scratch;                   /* of pieces' sums */
  const matmul_part *result;         /* the part by the axes of its epilogue; NULL: not made yet */
  sn_dim strides[REGION_AXES], base; /* of its sums, where they are apart: see emit_matmul_sums.h */
} matmul;

/* Of a part and its way; the coordinates of the workgroup from its number, where each has so many points of the
 * sides. Its grid. */
void vk_matmul_open(matmul *m, const int each[2]);
/* The same where tiles are no tiles of the sides: so many by side. */
void matmul_open_tiles(matmul *m, const amount tiles[2], const int each[2]);
const sn_dim *matmul_extents(const matmul *m, int side);
/* The range of k of a product that this workgroup has; `depth`: ranges begin at multiples of it. */
void matmul_range(matmul *m, const matmul_product *p, int depth, val *out_from, val *out_to);
/* Sets coordinates of a side to its flat point. */
void matmul_point(matmul *m, int side, val flat);
void matmul_k_point(matmul *m, const matmul_product *p, val flat);
/* Sums at a point that exists: to where pieces meet, or through the epilogue. */
void matmul_result(matmul *m, val row, val column, const val *sums);
/* How many neighbours along the last side a thread should have results of: 4, which are stored together or have their coordinates
 * together, or 1. With 4 that side's size is a multiple of it, and this is for four, the first of which has a multiple of 4 as its
 * number; sums by accumulator. */
int matmul_points(const matmul_part *p);
void matmul_result_four(matmul *m, val row, val column, val sums[][4]);
/* The same for several fours, at most EMIT_FOURS, whose epilogues run in step. */
void matmul_result_fours(matmul *m, int n, val at[][2], val sums[][EMIT_ACCS][4]);
/* The same for four columns, whichever side is last; there is a multiple of 4 of them. */
void matmul_result_columns(matmul *m, val row, val column, val sums[][4]);
/* Whether there is a second launch. */
static inline bool has_join(const matmul_way *way) { return way->splits > 1 || way->sorted; }
/* The sums of `points` (1 or 4) neighbours over all pieces, from those of accumulator 0 in the first piece on. */
void matmul_join_sums(matmul *m, val first, int points, val sums[][4]);
/* The launch that adds the pieces and runs the epilogue. */
sn_status matmul_join(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) SN_MUST_USE;
bool matmul_columns_last(const matmul_part *p);

/* The rows that a thread reads of a plain operand: offsets, and sums of the checks, without what k adds. */
typedef struct operand_rows {
  int n;
  val at[MATMUL_LOADS], check[MATMUL_LOADS][ACCESS_CHECKS];
} operand_rows;
/* What k adds. */
typedef struct operand_k {
  val at, check[ACCESS_CHECKS];
  val inside; /* there is such a k */
} operand_k;
/* Row i is `flat` (index), or the last that there is. */
void operand_row(matmul *m, const operand *o, operand_rows *rows, int i, val flat);
operand_k operand_at_k(matmul *m, const operand *o, val k, val size);
/* `width` elements at row i and k. */
void operand_load(matmul *m, const operand *o, const operand_rows *rows, int i, const operand_k *k,
                  val *out);
/* The same, but where there is no element any number comes, and false: to be looked at when the number is used, so that nothing
 * waits for the load before that. */
val operand_load_any(matmul *m, const operand *o, const operand_rows *rows, int i,
                     const operand_k *k, val *out);
/* Whether what each k adds is better computed once for all rows: windows, whose k has several axes, read along the
 * rows. */
enum { TABLE_CHECKS = 3 };
bool operand_wants_table(const matmul *m, const operand *o);
/* Any operand at a row and a k: the region, or 0 where there is no such k. */
val operand_element(matmul *m, const operand *o, val row, val k, val size);

/* What an accumulator is at a point, by plain multiply-adds. depth: as in matmul_range. */
val matmul_sum_plainly(matmul *m, int acc, int depth, const val at[2]);

/* Indices and numbers that are powers of two. */
static inline val low_part(kernel *k, val x, int n) {
  return n == 1 ? k_index(k, 0) : k_and(k, x, k_index(k, n - 1));
}
static inline val high_part(kernel *k, val x, int n) {
  return k_shr(k, x, __builtin_ctz((unsigned)n));
}
static inline val times(kernel *k, val x, int n) { return k_shl(k, x, __builtin_ctz((unsigned)n)); }
static inline val plus(kernel *k, val x, int64_t n) {
  return n == 0 ? x : k_add(k, x, k_index(k, n));
}

/* Parts without any product: their epilogue as a loop. */
bool matmul_is_empty(const matmul_part *p);
sn_status emit_matmul_empty(emitter *e, const matmul_part *p) SN_MUST_USE;
sn_status emit_tiles(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                     const amount *of, int64_t least, int64_t most) SN_MUST_USE;
sn_status emit_matrices(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                        const amount *of, int64_t least, int64_t most) SN_MUST_USE;
sn_status emit_direct(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) SN_MUST_USE;
sn_status emit_few(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                   const amount *of, int64_t least, int64_t most) SN_MUST_USE;

#endif
