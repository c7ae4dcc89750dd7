/* Matmuls with few rows: vectors against a big operand, that of the columns, which is read once, where it lies, at the speed
 * of memory. See matmul.h.
 *
 * The vectors are fetched whole, by every thread. Where the big operand is dense along k, each result is a dot product; where it is
 * dense along its rows, rows of k are added up; anything else is fetched in blocks and then multiplied. Which of these depends
 * on strides and extents only, and so does the order of every sum. */
#include "device/cpu/matmul.h"

enum {
  RANGES_EACH = 3,          /* ranges of results that a thread gets, if they are not too small: */
  RANGE_FLOATS = 32 * 1024, /* weights */
  RANGE_LEAST = 256,        /* results, where rows are */
  DOT_ROWS = 48, /* a fetched block is [DOT_ROWS][MATMUL_K], or [ADD_ROWS of k][MATMUL_VECTOR] */
  ADD_ROWS = DOT_ROWS * MATMUL_K / MATMUL_VECTOR
};

typedef enum vector_way { BY_DOTS, BY_ROWS, BY_BLOCKS } vector_way;

/* One product at work on a range of results: its vectors, `apart`, and sums, MATMUL_VECTOR apart. */
typedef struct vector_term {
  matmul_operand *big;
  int64_t from, n; /* results */
  int count;       /* vectors */
  const float *vector;
  int64_t apart;
  float *sums;
} vector_term;

/* Whether the whole of k is one dense run: each axis steps over all within it. */
static bool k_is_dense(const matmul_operand *o) {
  int64_t inner = 1;
  bool dense = true;
  for (int d = o->k.n - 1; d >= 0 && dense; d--) {
    int64_t by;
    int axis = o->k.first + d;
    if (o->extent[axis] != 1)
      dense = direct_is_affine(&o->direct, axis, &by) && by == inner;
    inner *= o->extent[axis];
  }
  return dense;
}

static bool rows_are_dense(const matmul_operand *o) {
  int64_t by;
  int last = o->rows.first + o->rows.n - 1;
  return o->rows.n > 0 && o->extent[last] > 1 && direct_is_affine(&o->direct, last, &by) && by == 1;
}

static vector_way way_of(const matmul_operand *o) {
  if (!o->is_direct || o->direct.n_checks > 0)
    return BY_BLOCKS;
  return k_is_dense(o) ? BY_DOTS : rows_are_dense(o) ? BY_ROWS : BY_BLOCKS;
}

/* --- where it lies --- */

static matmul_rows rows_of(const direct_access *d, int64_t at) {
  matmul_rows w = {.dtype = d->dtype == SN_F32   ? MATMUL_F32
                            : d->dtype == SN_F16 ? MATMUL_F16
                                                 : MATMUL_BF16};
  w.data = d->data + at * (d->dtype == SN_F32 ? 4 : 2);
  return w;
}

/* How many of the first are evenly spaced, and how far. */
static int64_t even_run(const int64_t *at, int64_t n, int64_t *by) {
  int64_t run = 1;
  *by = n > 1 ? at[1] - at[0] : 0;
  while (run < n && at[run] - at[run - 1] == *by)
    run++;
  return run;
}

static void add_dots(matmul_work *w, const vector_term *t, int64_t base) {
  for (int64_t i = 0, run; i < t->n; i += run) {
    matmul_rows rows = rows_of(&t->big->direct, base + w->inner.at[i]);
    run = rows.n = even_run(w->inner.at + i, t->n - i, &rows.row);
    rows.k = t->big->k.count;
    w->r->isa->matmul->dots(&rows, t->vector, t->apart, t->count, t->sums + i, MATMUL_VECTOR);
  }
}

/* Steps k … k+n_k-1, whose places are in `outer`, for results that lie one after the other from i on. */
static void add_steps(matmul_work *w, const vector_term *t, int64_t base, int64_t k, int64_t n_k,
                      int64_t i, int64_t n) {
  for (int64_t p = 0, run; p < n_k; p += run) {
    matmul_rows rows = rows_of(&t->big->direct, base + w->outer.at[p] + w->inner.at[i]);
    run = rows.k = even_run(w->outer.at + p, n_k - p, &rows.row);
    rows.n = n;
    w->r->isa->matmul->add_rows(&rows, t->vector + k + p, t->apart, t->count, t->sums + i,
                                MATMUL_VECTOR);
  }
}

static void add_rows(matmul_work *w, const vector_term *t, int64_t base) {
  const matmul_operand *o = t->big;
  for (int64_t k = 0; k < o->k.count; k += MATMUL_TABLE) {
    int64_t n_k = min_i64(MATMUL_TABLE, o->k.count - k);
    direct_fill(&o->direct, &o->k, o->extent, k, n_k, &w->outer);
    for (int64_t i = 0, run; i < t->n; i += run) {
      for (run = 1; i + run < t->n && w->inner.at[i + run] == w->inner.at[i] + run;)
        run++;
      add_steps(w, t, base, k, n_k, i, run);
    }
  }
}

/* --- in blocks --- */

static void add_blocks(matmul_work *w, const vector_term *t) {
  matmul_operand *o = t->big;
  bool along = operand_runs_along_k(o);
  int64_t line = along ? MATMUL_K : MATMUL_VECTOR, most_k = along ? MATMUL_K : ADD_ROWS;
  int64_t most = along ? DOT_ROWS : MATMUL_VECTOR;
  const matmul_kernels *kernels = w->r->isa->matmul;
  for (int64_t i = 0; i < t->n; i += most)
    for (int64_t k = 0; k < o->k.count; k += most_k) {
      matmul_rows rows = {.data = w->own[COLS], .row = line};
      rows.n = min_i64(most, t->n - i);
      rows.k = min_i64(most_k, o->k.count - k);
      operand_read(w, o, t->from + i, rows.n, k, rows.k, along, w->own[COLS], line);
      (along ? kernels->dots : kernels->add_rows)(&rows, t->vector + k, t->apart, t->count,
                                                  t->sums + i, MATMUL_VECTOR);
    }
}

static void add_product(matmul_work *w, const vector_term *t) {
  int64_t base, checks[ACCESS_CHECKS];
  const matmul_operand *o = t->big;
  vector_way way = way_of(o);
  if (way == BY_BLOCKS) {
    add_blocks(w, t);
    return;
  }
  direct_batch(&o->direct, w->part->n_batch, w->coords, &base, checks);
  direct_fill(&o->direct, &o->rows, o->extent, t->from, t->n, &w->inner);
  if (way == BY_DOTS)
    add_dots(w, t, base);
  else
    add_rows(w, t, base);
}

/* --- ranges of results --- */

/* Of each product [vectors][whole k], one product after the other. */
static void fetch_vectors(matmul_work *w, float *to) {
  int64_t n = w->side[ROWS].count;
  for (int i = 0; i < w->n_products; i++) {
    struct matmul_term *t = &w->products[i];
    int64_t apart = matmul_whole_k(t->k.count);
    operand_read(w, t->of[ROWS], 0, n, 0, t->k.count, true, to, apart);
    to += n * apart;
  }
}

static void run_range(matmul_work *w, const float *vector, int64_t from, int64_t n) {
  int64_t count = w->side[ROWS].count;
  memset(w->sums, 0, (size_t)(w->part->n_accs * w->sums_size) * sizeof *w->sums);
  for (int i = 0; i < w->n_products; i++) {
    const struct matmul_term *t = &w->products[i];
    vector_term v = {.big = t->of[COLS],
                     .from = from,
                     .n = n,
                     .count = (int)count,
                     .vector = vector,
                     .apart = matmul_whole_k(t->k.count),
                     .sums = w->sums + t->acc * w->sums_size};
    add_product(w, &v);
    vector += count * v.apart;
  }
  store_block(w, (int64_t[]){0, from}, (int64_t[]){count, n});
}

/* Results that a thread takes at a time: few pieces, since each begins slowly, but not all at once. */
static int64_t range_of(const matmul_work *w) {
  int64_t share = w->side[COLS].count / ((int64_t)RANGES_EACH * w->r->threads), k = 1;
  for (int i = 0; i < w->n_products; i++)
    k = max_i64(k, w->products[i].k.count);
  int64_t least = max_i64(1, RANGE_FLOATS / k);
  if (way_of(w->products[0].of[COLS]) != BY_DOTS) /* long lines are better */
    least = max_i64(RANGE_LEAST, least);
  int64_t n = max_i64(share, min_i64(least, MATMUL_VECTOR));
  return min_i64(MATMUL_VECTOR, (n + MATMUL_LINE - 1) / MATMUL_LINE * MATMUL_LINE);
}

static int64_t k_of_all(const matmul_work *w) {
  int64_t k = 0;
  for (int i = 0; i < w->n_products; i++)
    k += matmul_whole_k(w->products[i].k.count);
  return k;
}

sn_status matmul_run_vector(matmul_work *w) {
  int64_t all_k = k_of_all(w), range = range_of(w), count = w->side[COLS].count;
  int64_t ranges = (count + range - 1) / range, entry = -1, n = w->side[ROWS].count;
  w->sums_row = MATMUL_VECTOR;
  w->sums_size = n * MATMUL_VECTOR;
  w->sums = cpu_take(w->r, (size_t)(w->part->n_accs * w->sums_size) * sizeof(float));
  w->own[COLS] = cpu_take(w->r, DOT_ROWS * MATMUL_K * sizeof(float));
  float *vector = cpu_take(w->r, (size_t)(n * all_k) * sizeof(float));
  if (!w->sums || !w->own[COLS] || !vector)
    return SN_ERR_INTERNAL;
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, w->batch.count * ranges, &i);) {
    int64_t from = i % ranges * range;
    if (i / ranges != entry) {
      entry = i / ranges;
      group_coords(&w->batch, w->extent, entry, w->coords);
      fetch_vectors(w, vector);
    }
    run_range(w, vector, from, min_i64(range, count - from));
  }
  return SN_OK;
}

size_t matmul_need_vector(int accs, int64_t all_k) {
  return cpu_take_bytes((size_t)(accs * MATMUL_FEW) * MATMUL_VECTOR * sizeof(float)) +
         cpu_take_bytes(DOT_ROWS * MATMUL_K * sizeof(float)) +
         cpu_take_bytes((size_t)(MATMUL_FEW * all_k) * sizeof(float));
}
