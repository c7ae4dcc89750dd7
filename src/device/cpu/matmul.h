/* Matmul parts on the CPU, for one run: operands that fetch their elements into panels, the store of results.
 *
 * The lists of axes of a part (batch, m, n, k) are each counted as one index, row-major. An operand is read in one of two ways:
 *   direct   its region is one load (perhaps with a cast) whose index needs no register. Then element (row, k) stands at
 *            at[row] + at[k], two tables filled a block at a time; and each check is a sum of two tables as well. So
 *            transposes, broadcasts and convolutions with padding are copies, not programs.
 *   region   anything else: executed by the region machine on tiles of points.
 */
#ifndef SINEW_DEVICE_CPU_MATMUL_H
#define SINEW_DEVICE_CPU_MATMUL_H

#include "device/cpu/cpu.h"
#include "device/cpu/matmul_kernel.h"

/* Blocks: [MATMUL_M, MATMUL_K] of a against [MATMUL_K, MATMUL_N] of b. MATMUL_M is a multiple of KERNEL_ROWS and KERNEL_COLS. */
enum {
  MATMUL_M = 384,
  MATMUL_N = 512,
  MATMUL_K = 256,
  MATMUL_LINE = 16,
  MATMUL_FEW = 4,      /* rows or columns that count as vectors */
  MATMUL_VECTOR = 2048 /* results at a time, of each vector */
};

/* Accumulators of a part, at most. */
enum { MATMUL_ACCS = 16 };
/* k in whole blocks. */
static inline int64_t matmul_whole_k(int64_t k) { return (k + MATMUL_K - 1) / MATMUL_K * MATMUL_K; }

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
  region_state *state; /* otherwise */
  int run_axis;
} matmul_operand;

/* One part at work. */
typedef struct matmul_work {
  cpu_run *r;
  const matmul_part *part;
  int64_t extent[REGION_AXES]; /* batch, m, n */
  axis_group batch, m, n;
  int n_products; /* of all accumulators */
  struct matmul_term {
    int acc;
    int64_t extent[REGION_AXES]; /* with the product's k axes */
    axis_group k;
    matmul_operand a, b;
  } * products;
  int64_t coords[REGION_AXES]; /* of the batch entry at work */
  direct_table outer, inner;   /* tables of the block at work */
  /* the result */
  bool plain_store; /* the epilogue only stores one accumulator in f32 */
  int plain_acc;
  direct_access store;
  region_state *epilogue;
  float *staged; /* [n_accs][CPU_TILE] */
  float *a_block, *b_block, *sums;
  int64_t a_rows;              /* room for rows in a_block */
  int64_t sums_row, sums_size; /* distance of rows, of accumulators */
} matmul_work;

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
/* How a block of an operand is laid out: entry (o, i) at to + i / 16 * chunk + i % 16 + o * line. */
typedef struct block_layout {
  float *to;
  int64_t chunk, line;
} block_layout;
/* Rows row … row+n_rows-1 and k … k+n_k-1 of the batch entry of w->coords; with k_inner true k counts as i, otherwise rows do. i is padded with
 * zeros to a multiple of 16. */
void operand_fetch(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                   int64_t n_k, bool k_inner, block_layout to);
/* Whether k is the better inner index. */
bool operand_runs_along_k(const matmul_operand *o);

/* matmul_store.c */
sn_status store_open(matmul_work *w) SN_MUST_USE;
/* Results of rows m … and columns n …; accumulator c's element (i, j) at sums[c * sums_size + i * row + j * column]. */
void store_block(matmul_work *w, int64_t m, int64_t n_m, int64_t n, int64_t n_n, const float *sums,
                 int64_t row, int64_t column);

/* matmul_vector.c: m or n is at most MATMUL_FEW. The big operand is read where it lies. */
sn_status matmul_run_vector(matmul_work *w) SN_MUST_USE;

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
