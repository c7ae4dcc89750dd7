/* Matmul parts on the CPU, for one run: operands that fetch their elements into panels, the store of results.
 *
 * The lists of axes of a part (batch, m, n, k) are each counted as one index, row-major. An operand is read in one of two ways:
 *   direct   its region is one load (perhaps with a cast) whose index needs no register. Then the element number and each check are sums
 *            of what row and k add, and lines of rows or k are copied at a time (matmul_operand.h). So transposes, broadcasts and
 *            convolutions with padding are copies, not programs.
 *   region   anything else: executed by the region machine on tiles of points.
 */
#ifndef SINEW_DEVICE_CPU_MATMUL_H
#define SINEW_DEVICE_CPU_MATMUL_H

#include "base/caches.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa/matmul.h"
#include "device/cpu/matmul_operand.h"

enum {
  MATMUL_K = 256, /* of one block of panels: a multiple of MATMUL_CHUNK */
  MATMUL_LINE = 16,
  MATMUL_TABLE = 2048, /* entries of the longest range that a table is filled for */
  MATMUL_FEW = 4,      /* rows or columns that count as vectors */
  MATMUL_VECTOR = 2048 /* results at a time, of each vector */
};

/* Accumulators of a part, at most. */
enum { MATMUL_ACCS = 16 };
/* Bytes of shared scratch of a step, at most. */
enum { MATMUL_SHARED = 48 << 20 };
/* Pieces of at most `by` that n makes. */
static inline int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }
/* k in whole blocks. */
static inline int64_t matmul_whole_k(int64_t k) { return up(k, MATMUL_K) * MATMUL_K; }

/* A group of neighbouring axes, counted as one. */
typedef struct axis_group {
  int first, n;
  int64_t count;
} axis_group;

/* A term with numbers; one of a register is no direct one. */
typedef struct direct_term {
  int axis;
  int64_t stride, div, mod;
} direct_term;
typedef struct direct_sum {
  int64_t base;
  int n;
  direct_term terms[ACCESS_TERMS];
} direct_sum;
typedef struct direct_access {
  char *data;
  sn_dtype dtype;
  direct_sum at;
  int n_checks;
  struct direct_check {
    direct_sum at;
    int64_t size, divisor;
  } checks[ACCESS_CHECKS];
} direct_access;

/* Where a range of a group's indices stands: in the value and in each check. */
typedef struct direct_table {
  int64_t *at;                    /* element numbers; the base is in no table */
  int64_t *checks[ACCESS_CHECKS]; /* NULL without checks */
} direct_table;

typedef struct matmul_operand {
  const region *code;
  const int64_t *extent; /* of all axes */
  int n_axes;
  axis_group rows, k; /* rows: m or n */
  bool is_direct;
  direct_access direct;
  operand_plan plan;   /* of it */
  region_state *state; /* otherwise */
  int run_axis;
} matmul_operand;

/* Results stand in rows and columns, columns being those that lie densely in memory: m and n, or n and m. */
enum { ROWS, COLS, SIDES };

/* How results are cut into units, each the work of one thread, and which operands are packed for all of them beforehand
 * (`ready`); a unit packs the others for itself, a block of k at a time. The results do not depend on it. */
typedef struct matmul_cut {
  int64_t unit[SIDES]; /* whole panels */
  bool ready[SIDES];
  bool near[SIDES];    /* ready, but each thread has its own */
  int64_t slab[SIDES]; /* as much is made ready at a time; whole panels */
} matmul_cut;
/* What decides on it. */
typedef struct matmul_shape {
  int64_t batch, extent[SIDES], k; /* k: of all products */
  int width[SIDES];                /* of panels */
  int accs, threads;
  int64_t room;     /* of shared scratch, in floats */
  bool kept[SIDES]; /* the operands' panels are there already */
  cache_sizes caches;
} matmul_shape;

/* One part at work. */
typedef struct matmul_work {
  cpu_run *r;
  const matmul_part *part;
  int64_t extent[REGION_AXES]; /* batch, m, n */
  axis_group batch, m, n;
  bool few;       /* m or n are vectors: matmul_vector.c */
  bool turned;    /* rows are n */
  int64_t slices; /* of k: matmul_slices.c; 0: not so */
  bool winograd;  /* a convolution with fewer products: conv_winograd.h */
  bool made;      /* with weights that this run transforms */
  bool grad;      /* the gradient of such a one's weights */
  axis_group side[SIDES];
  int n_products; /* of all accumulators */
  struct matmul_term {
    int acc;
    bool first;                  /* of its accumulator */
    int64_t extent[REGION_AXES]; /* with the product's k axes */
    axis_group k;
    matmul_operand a, b;
    matmul_operand *of[SIDES]; /* a and b, or b and a */
    int same[SIDES];           /* the first product whose operand is the same: perhaps this one */
    float *ready[SIDES];       /* panels of all of k, of the slab at hand */
    float *kept[SIDES];        /* panels of all, from run to run; NULL: none */
    const matmul_product *from;
  } * products;
  float *kept;                 /* of this part; NULL: none */
  int64_t coords[REGION_AXES]; /* of the batch entry at work */
  direct_table outer, inner;   /* tables of the block at work */
  struct pack_room *pack_room; /* what operands are packed in */
  matmul_shape shape;
  matmul_cut cut;
  /* the result */
  bool plain_store; /* the epilogue only stores one accumulator in f32 */
  int plain_acc;
  direct_access store;
  struct row_epilogue *rows; /* of an epilogue that goes by whole rows; else NULL */
  region_state *epilogue;
  float *staged; /* [n_accs][CPU_TILE] */
  float *own[SIDES], *sums;
  int64_t sums_row, sums_size; /* distance of rows, of accumulators */
} matmul_work;

static inline int64_t whole_panels(int64_t n, int width) { return up(n, width) * width; }

/* matmul.c */
int matmul_products(const matmul_part *t);

/* matmul_open.c */
/* Sizes alone: sides and how they are cut. False: there are no results. of: the step as it was lowered, for what is kept. */
bool matmul_size(matmul_work *w, cpu_run *r, const step *of, const matmul_part *t);
/* And all else. */
sn_status matmul_open(matmul_work *w) SN_MUST_USE;

/* matmul_cut.c */
matmul_cut matmul_cut_for(const matmul_shape *s);
/* Floats at most of: a unit's own panels of one side; panels that each thread has; a unit's sums, of all accumulators; shared scratch. For all shapes that are
 * in no extent larger. */
int64_t matmul_own_most(const matmul_shape *s, int side);
int64_t matmul_near_most(const matmul_shape *s);
int64_t matmul_sums_most(const matmul_shape *s);
int64_t matmul_shared_most(const matmul_shape *s);

/* matmul_units.c */
/* Packs what is to be ready of the slabs that begin at from, all threads together. */
sn_status matmul_make_ready(matmul_work *w, const int64_t from[SIDES]) SN_MUST_USE;
/* All units of these slabs. What is ready must be. */
sn_status matmul_run_units(matmul_work *w, const int64_t from[SIDES]) SN_MUST_USE;

/* matmul_slices.c */
/* Slices of k that a part is summed in; 0: it is not. slices_of: only of parts as the step was lowered, for which there is memory. */
int64_t matmul_slices(const matmul_part *t);
int64_t matmul_slices_of(const step *of, const matmul_part *t);
/* Bytes of shared scratch for them; of a thread's scratch, at most. */
size_t matmul_slices_bytes(const matmul_part *t);
size_t matmul_slices_need(const matmul_part *t);
/* The two phases. Between them all threads meet. */
sn_status matmul_sum_slices(matmul_work *w) SN_MUST_USE;
sn_status matmul_store_slices(matmul_work *w) SN_MUST_USE;

/* matmul_operand.c */
/* Whether an access needs no register; then as numbers. */
bool direct_open(const cpu_run *r, const access *at, sn_dtype dtype, direct_access *out);
/* Fills a table for indices from … from+n-1 of a group: what its axes add to the element number and to each check. */
void direct_fill(const direct_access *d, const axis_group *g, const int64_t *extent, int64_t from,
                 int64_t n, direct_table *out);
/* What the batch's coordinates add to the element number and to each check, bases included. */
void direct_batch(const direct_access *d, int n_batch, const int64_t *coords, int64_t *at,
                  int64_t checks[ACCESS_CHECKS]);
/* Whether along an axis the element number grows by the same amount; and that. */
bool direct_is_affine(const direct_access *d, int axis, int64_t *out_by);
bool direct_is_run(const int64_t *at, int64_t n); /* one after the other */

sn_status operand_open(matmul_operand *o, cpu_run *r, const region *code, const int64_t *extent,
                       int n_axes, axis_group rows, axis_group k) SN_MUST_USE;
/* Rows row … row+n_rows-1, k … k+n_k-1 of the batch entry of w->coords as panels of `width` rows, laid out as
 * isa/matmul.h has it, panels `panel` floats apart; the last panel padded with zeros. Cheapest with many rows and k's at once. */
void operand_pack(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                  int64_t n_k, int width, float *to, int64_t panel);
/* The same elements as plain lines: (row, k) at to + row * line + k with k_inner, else at to + k * line + row. No padding. */
void operand_read(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                  int64_t n_k, bool k_inner, float *to, int64_t line);
/* Whether the operand is f32 in memory without checks, element (i, k) of rows row … and of all k at *out_at + i * *out_row +
 * k * *out_k: then it may be multiplied where it lies. */
bool operand_is_strided(matmul_work *w, const matmul_operand *o, int64_t row, int64_t n_rows,
                        const float **out_at, int64_t *out_row, int64_t *out_k);
/* Whether k is the better inner index. */
bool operand_runs_along_k(const matmul_operand *o);

void matmul_fill_kept(matmul_work *w);

/* matmul_kept.c */
/* Where a part's kept panels begin; NULL: it has none. */
float *matmul_find_kept(const cpu_run *r, const step *of, const matmul_part *t);
/* Floats of one operand of a product that are kept; 0: it is not. is_b: of b. */
int64_t matmul_kept_floats(const program *p, const matmul_part *t, const matmul_product *q,
                           bool is_b);

/* Whether an operand is one load of f32 of a value that no run changes, at places that are the same in every run. */
bool matmul_is_fixed(const program *p, const region *code);

/* matmul_store.c */
sn_status store_open(matmul_work *w) SN_MUST_USE;
/* Whether the results lie densely along m and not along n: then m are the columns. */
bool store_is_along_m(const matmul_part *t);
/* Results of `n` from `at` on, by side; accumulator c's element (i, j) at sums[c * sums_size + i * sums_row + j]. */
void store_block(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]);
/* Whether the results of such a block can be summed where they belong: row i at *out + i * *out_row. */
bool store_in_place(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES], float **out,
                    int64_t *out_row);

/* matmul_rows.c, matmul_rows_open.c */
/* Whether the epilogue can go by whole rows: then w->rows is open. */
sn_status rows_open(matmul_work *w, bool *out_fits) SN_MUST_USE;
/* Scratch that this takes, at most. */
size_t rows_bytes(const region *code);
/* Asks for memory that results of a block will be stored to, or with, soon. */
void rows_ask(const matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]);
/* As store_block. */
void rows_store(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]);

/* matmul_vector.c: m or n is at most MATMUL_FEW. The big operand is read where it lies. */
sn_status matmul_run_vector(matmul_work *w) SN_MUST_USE;
/* Scratch that this takes; all_k: of all products, each in whole blocks. */
size_t matmul_need_vector(int accs, int64_t all_k);

/* The coordinates of index i of a group. */
static inline void group_coords(const axis_group *g, const int64_t *extent, int64_t i,
                                int64_t *coords) {
  for (int d = g->n - 1; d >= 0; d--) {
    int64_t e = extent[g->first + d];
    coords[g->first + d] = i % e;
    i /= e;
  }
}

#endif
