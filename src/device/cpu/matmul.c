/* Matmul steps: contractions and convolutions, several accumulators of several products each.
 *
 * A block of results [MATMUL_M, MATMUL_N] is summed over blocks of k: panels of both operands are fetched, the kernel adds
 * their product to the block's sums, and when all products are in, the epilogue runs on them. Where all of k fits, a
 * block of rows of a is fetched once for all columns. The order of every sum is that of k, in blocks of MATMUL_K from
 * its start; so it depends on no other size. With few rows or columns see matmul_vector.c. */
#include "device/cpu/matmul.h"

/* a is kept for all columns when its k, over all products, is at most this. */
enum { KEPT_K = 4096 };
/* Entries of the longest range that a table is filled for. */
enum { TABLE = MATMUL_VECTOR };

/* --- sizes of buffers, in floats --- */

/* Rows of a block: a multiple of lines and of tiles. */
static int64_t block_rows(int64_t m) { return min_i64(MATMUL_M, (m + 47) / 48 * 48); }
static int64_t block_cols(int64_t n) { return min_i64(MATMUL_N, kernel_cols(n)); }
static int64_t kept_k(int64_t all_k) { return max_i64(MATMUL_K, min_i64(all_k, KEPT_K)); }
static int64_t sums_floats(int64_t m, int64_t n) {
  return block_rows(m) * block_cols(n) + CPU_LANE_BLOCK;
}

static size_t bytes_of(int64_t n, size_t each) { return cpu_take_bytes((size_t)n * each); }

/* --- need --- */

static int64_t count_max(const program *p, const sn_dim *dims, int n) {
  int64_t count = 1;
  for (int d = 0; d < n; d++)
    count *= cpu_size_max(p, dims[d]);
  return count;
}

/* What one product's operands take; adds to k. */
static size_t need_product(const program *p, const matmul_product *t, int64_t *all_k) {
  *all_k += matmul_whole_k(count_max(p, t->k, t->n_k));
  return cpu_region_bytes(&t->a) + cpu_region_bytes(&t->b);
}

/* Whether a run may have so few rows or columns that they go as vectors. */
static bool may_be_few(const sn_dim *dims, int n) {
  int64_t count = 1;
  for (int d = 0; d < n; d++) {
    if (!dim_is_number(dims[d]))
      return true;
    count *= dims[d];
  }
  return count <= MATMUL_FEW;
}

static size_t need_part(const program *p, const matmul_part *t) {
  int64_t m = count_max(p, t->extent + t->n_batch, t->n_m);
  int64_t n = count_max(p, t->extent + t->n_batch + t->n_m, t->n_n), all_k = 0;
  size_t bytes = cpu_region_bytes(&t->epilogue);
  int n_products = 0;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++, n_products++)
      bytes += need_product(p, &t->accs[c].products[i], &all_k);
  bytes += bytes_of(n_products, sizeof(struct matmul_term));
  bytes += 2 * (ACCESS_CHECKS + 1) * bytes_of(TABLE, sizeof(int64_t));
  bytes += bytes_of((int64_t)t->n_accs * CPU_TILE, sizeof(float));
  bytes += bytes_of(kept_k(all_k) * block_rows(m), sizeof(float));
  bytes += bytes_of(MATMUL_K * block_cols(n), sizeof(float));
  bytes += bytes_of(t->n_accs * sums_floats(m, n), sizeof(float));
  if (may_be_few(t->extent + t->n_batch, t->n_m) ||
      may_be_few(t->extent + t->n_batch + t->n_m, t->n_n))
    bytes += bytes_of(MATMUL_FEW * all_k, sizeof(float)) +
             bytes_of(t->n_accs * MATMUL_FEW * MATMUL_VECTOR, sizeof(float));
  return bytes;
}

size_t cpu_need_matmul(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    size_t bytes = need_part(p, &s->parts[i].u.matmul);
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* --- opening a part --- */

static axis_group group_of(int first, int n, const int64_t *extent) {
  axis_group g = {.first = first, .n = n, .count = 1};
  for (int d = 0; d < n; d++)
    g.count *= extent[first + d];
  return g;
}

static sn_status take_table(cpu_run *r, direct_table *t) {
  t->at = cpu_take(r, TABLE * sizeof *t->at);
  bool all = t->at;
  for (int c = 0; c < ACCESS_CHECKS; c++) {
    t->checks[c] = cpu_take(r, TABLE * sizeof *t->at);
    all = all && t->checks[c];
  }
  return all ? SN_OK : SN_ERR_INTERNAL;
}

static sn_status open_product(matmul_work *w, const matmul_product *from, int acc,
                              struct matmul_term *to) {
  int n_axes = w->n.first + w->n.n;
  memcpy(to->extent, w->extent, sizeof to->extent);
  for (int d = 0; d < from->n_k; d++)
    to->extent[n_axes + d] = cpu_size(w->r, from->k[d]);
  to->acc = acc;
  to->k = group_of(n_axes, from->n_k, to->extent);
  SN_TRY(operand_open(&to->a, w->r, &from->a, to->extent, n_axes + from->n_k, w->m, to->k));
  return operand_open(&to->b, w->r, &from->b, to->extent, n_axes + from->n_k, w->n, to->k);
}

static sn_status open_products(matmul_work *w) {
  const matmul_part *t = w->part;
  for (int c = 0; c < t->n_accs; c++)
    w->n_products += t->accs[c].n_products;
  w->products = cpu_take(w->r, (size_t)w->n_products * sizeof *w->products);
  if (!w->products)
    return SN_ERR_INTERNAL;
  struct matmul_term *to = w->products;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++)
      SN_TRY(open_product(w, &t->accs[c].products[i], c, to++));
  return SN_OK;
}

static sn_status open_part(matmul_work *w, cpu_run *r, const matmul_part *t) {
  *w = (matmul_work){.r = r, .part = t};
  for (int d = 0; d < t->n_batch + t->n_m + t->n_n; d++)
    w->extent[d] = cpu_size(r, t->extent[d]);
  w->batch = group_of(0, t->n_batch, w->extent);
  w->m = group_of(t->n_batch, t->n_m, w->extent);
  w->n = group_of(t->n_batch + t->n_m, t->n_n, w->extent);
  if (w->batch.count == 0 || w->m.count == 0 || w->n.count == 0)
    return SN_OK;
  SN_TRY(take_table(r, &w->outer));
  SN_TRY(take_table(r, &w->inner));
  SN_TRY(open_products(w));
  return store_open(w);
}

/* --- blocks --- */

typedef struct block_range {
  int64_t m, n_m, n, n_n;
} block_range;

/* Block k … k+n_k-1 of rows of a; rows beyond the last are zeros up to the kernel's tile. */
static void fetch_a(matmul_work *w, struct matmul_term *t, const block_range *at, int64_t k,
                    int64_t n_k, float *to) {
  bool k_inner = operand_runs_along_k(&t->a);
  int64_t line = k_inner ? MATMUL_K : w->a_rows, rows = kernel_rows(at->n_m);
  operand_fetch(w, &t->a, at->m, at->n_m, k, n_k, k_inner, (block_layout){to, MATMUL_LINE, line});
  if (k_inner)
    memset(to + at->n_m * line, 0, (size_t)((rows - at->n_m) * line) * sizeof *to);
  for (int64_t p = 0; !k_inner && p < n_k; p++)
    for (int64_t i = at->n_m; i < rows; i++)
      to[p * line + i] = 0;
}

static void multiply(matmul_work *w, struct matmul_term *t, const block_range *at, int64_t k,
                     int64_t n_k, const float *a, bool add) {
  bool k_inner = operand_runs_along_k(&t->a);
  operand_fetch(w, &t->b, at->n, at->n_n, k, n_k, false,
                (block_layout){w->b_block, n_k * KERNEL_COLS, KERNEL_COLS});
  kernel_multiply(&(kernel_block){.m = at->n_m,
                                  .n = at->n_n,
                                  .k = n_k,
                                  .a = a,
                                  .a_row = k_inner ? MATMUL_K : 1,
                                  .a_k = k_inner ? 1 : w->a_rows,
                                  .b = w->b_block,
                                  .c = w->sums + t->acc * w->sums_size,
                                  .c_row = w->sums_row,
                                  .add = add});
}

static void clear_sums(matmul_work *w, const block_range *at) {
  for (int c = 0; c < w->part->n_accs; c++)
    for (int64_t i = 0; i < at->n_m; i++)
      memset(w->sums + c * w->sums_size + i * w->sums_row, 0, (size_t)at->n_n * sizeof *w->sums);
}

/* All of k of all products, for the rows of a block, into a_block, one block of k after the other. */
static void keep_a(matmul_work *w, const block_range *at) {
  float *to = w->a_block;
  for (int i = 0; i < w->n_products; i++)
    for (int64_t k = 0; k < w->products[i].k.count; k += MATMUL_K, to += MATMUL_K * w->a_rows)
      fetch_a(w, &w->products[i], at, k, min_i64(MATMUL_K, w->products[i].k.count - k), to);
}

static void run_block(matmul_work *w, const block_range *at, bool kept) {
  float *a = w->a_block;
  clear_sums(w, at);
  for (int i = 0; i < w->n_products; i++) {
    struct matmul_term *t = &w->products[i];
    for (int64_t k = 0; k < t->k.count; k += MATMUL_K) {
      int64_t n_k = min_i64(MATMUL_K, t->k.count - k);
      if (!kept)
        fetch_a(w, t, at, k, n_k, a);
      multiply(w, t, at, k, n_k, a, true);
      a += kept ? MATMUL_K * w->a_rows : 0;
    }
  }
  store_block(w, at->m, at->n_m, at->n, at->n_n, w->sums, w->sums_row, 1);
}

static void run_batch(matmul_work *w, bool kept) {
  for (int64_t m = 0; m < w->m.count; m += MATMUL_M) {
    block_range at = {.m = m, .n_m = min_i64(MATMUL_M, w->m.count - m)};
    if (kept)
      keep_a(w, &at);
    for (at.n = 0; at.n < w->n.count; at.n += MATMUL_N) {
      at.n_n = min_i64(MATMUL_N, w->n.count - at.n);
      run_block(w, &at, kept);
    }
  }
}

static sn_status run_blocks(matmul_work *w) {
  int64_t all_k = 0;
  for (int i = 0; i < w->n_products; i++)
    all_k += matmul_whole_k(w->products[i].k.count);
  w->a_rows = block_rows(w->m.count);
  w->sums_row = block_cols(w->n.count);
  w->sums_size = sums_floats(w->m.count, w->n.count);
  w->a_block = cpu_take(w->r, (size_t)(kept_k(all_k) * w->a_rows) * sizeof(float));
  w->b_block = cpu_take(w->r, (size_t)(MATMUL_K * w->sums_row) * sizeof(float));
  w->sums = cpu_take(w->r, (size_t)(w->part->n_accs * w->sums_size) * sizeof(float));
  if (!w->a_block || !w->b_block || !w->sums)
    return SN_ERR_INTERNAL;
  for (int64_t b = 0; b < w->batch.count; b++) {
    group_coords(&w->batch, w->extent, b, w->coords);
    run_batch(w, all_k <= KEPT_K);
  }
  return SN_OK;
}

sn_status cpu_run_matmul(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    matmul_work w;
    SN_TRY(open_part(&w, r, &s->parts[i].u.matmul));
    if (w.batch.count > 0 && w.m.count > 0 && w.n.count > 0)
      SN_TRY(min_i64(w.m.count, w.n.count) <= MATMUL_FEW ? matmul_run_vector(&w) : run_blocks(&w));
    r->scratch_used = used;
  }
  return SN_OK;
}
