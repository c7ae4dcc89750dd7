/* Matmuls with few rows or columns: vectors against a big operand, which is read once, where it lies, at the speed
 * of memory. See matmul.h.
 *
 * The vectors are fetched whole. Where the big operand is dense along k, each result is a dot product; where it is dense
 * along its rows, rows of k are added up; anything else is fetched in blocks and then multiplied. Which of these depends on
 * strides and extents only. */
#include "device/cpu/matmul.h"

#include "device/cpu/vectors.h"

typedef struct vector_work {
  matmul_work *w;
  bool columns;  /* m is the small one; the big operand is b */
  int64_t n;     /* vectors */
  float *vector; /* of each product [n][whole k], one product after the other */
} vector_work;

/* One product at work: its vectors are `apart`, sums of vector v at sums + v * MATMUL_VECTOR. */
typedef struct vector_term {
  int64_t n;
  const float *vector;
  int64_t apart;
  float *sums;
} vector_term;

/* sums[j] += v[0] * x[0][j] + …, in that order. */
VECTORS static void add_rows(float *restrict sums, const float *restrict v, const float *restrict x,
                             const int64_t *at, int64_t n_rows, int64_t n) {
  int64_t p = 0;
  for (; p + 4 <= n_rows; p += 4) {
    const float *x0 = x + at[p], *x1 = x + at[p + 1], *x2 = x + at[p + 2], *x3 = x + at[p + 3];
    for (int64_t j = 0; j < n; j++)
      sums[j] =
          (((sums[j] + v[p] * x0[j]) + v[p + 1] * x1[j]) + v[p + 2] * x2[j]) + v[p + 3] * x3[j];
  }
  for (; p < n_rows; p++)
    for (int64_t j = 0; j < n; j++)
      sums[j] += v[p] * x[at[p] + j];
}

static bool is_plain(const matmul_operand *o) {
  return o->is_direct && o->direct.dtype == SN_F32 && o->direct.n_checks == 0;
}

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

static void by_dots(const matmul_work *w, const matmul_operand *o, const vector_term *t,
                    int64_t base, int64_t n) {
  const float *data = (const float *)(const void *)o->direct.data + base;
  for (int64_t i = 0; i < n; i++)
    for (int64_t v = 0; v < t->n; v++)
      t->sums[v * MATMUL_VECTOR + i] +=
          kernel_dot(data + w->inner.at[i], t->vector + v * t->apart, o->k.count);
}

/* A few rows of k for one vector after the other, so that they are still in the cache. */
static void by_rows(matmul_work *w, const matmul_operand *o, const vector_term *t, int64_t base,
                    int64_t n) {
  const float *data = (const float *)(const void *)o->direct.data + base + w->inner.at[0];
  int64_t together = t->n == 1 ? MATMUL_K : 4;
  for (int64_t k = 0; k < o->k.count; k += MATMUL_K) {
    int64_t n_k = min_i64(MATMUL_K, o->k.count - k);
    direct_fill(&o->direct, &o->k, o->extent, k, n_k, &w->outer);
    for (int64_t p = 0; p < n_k; p += together)
      for (int64_t v = 0; v < t->n; v++)
        add_rows(t->sums + v * MATMUL_VECTOR, t->vector + v * t->apart + k + p, data,
                 w->outer.at + p, min_i64(together, n_k - p), n);
  }
}

/* Fetched blocks: [DOT_ROWS][MATMUL_K] where k is dense, else [ADD_ROWS of k][MATMUL_VECTOR]; of the same size. */
enum { DOT_ROWS = 48, ADD_ROWS = DOT_ROWS * MATMUL_K / MATMUL_VECTOR };

static void add_block(const float *block, bool k_inner, int64_t rows, int64_t n_k,
                      const float *vector, float *sums) {
  int64_t at[ADD_ROWS];
  for (int64_t j = 0; k_inner && j < rows; j++)
    sums[j] += kernel_dot(block + j * MATMUL_K, vector, n_k);
  if (k_inner)
    return;
  for (int64_t p = 0; p < n_k; p++)
    at[p] = p * MATMUL_VECTOR;
  add_rows(sums, vector, block, at, n_k, rows);
}

static void by_blocks(matmul_work *w, matmul_operand *o, const vector_term *t, int64_t from,
                      int64_t n) {
  bool k_inner = operand_runs_along_k(o);
  block_layout to = {w->a_block, MATMUL_LINE, k_inner ? MATMUL_K : MATMUL_VECTOR};
  int64_t most_rows = k_inner ? DOT_ROWS : MATMUL_VECTOR, most_k = k_inner ? MATMUL_K : ADD_ROWS;
  for (int64_t i = 0; i < n; i += most_rows)
    for (int64_t k = 0; k < o->k.count; k += most_k) {
      int64_t rows = min_i64(most_rows, n - i), n_k = min_i64(most_k, o->k.count - k);
      operand_fetch(w, o, from + i, rows, k, n_k, k_inner, to);
      for (int64_t v = 0; v < t->n; v++)
        add_block(w->a_block, k_inner, rows, n_k, t->vector + v * t->apart + k,
                  t->sums + v * MATMUL_VECTOR + i);
    }
}

static void fetch_vectors(vector_work *v) {
  float *to = v->vector;
  for (int i = 0; i < v->w->n_products; i++) {
    struct matmul_term *t = &v->w->products[i];
    int64_t apart = matmul_whole_k(t->k.count);
    for (int64_t k = 0; k < t->k.count; k += MATMUL_VECTOR)
      operand_fetch(v->w, v->columns ? &t->a : &t->b, 0, v->n, k,
                    min_i64(MATMUL_VECTOR, t->k.count - k), true,
                    (block_layout){to + k, MATMUL_LINE, apart});
    to += v->n * apart;
  }
}

static void add_product(matmul_work *w, matmul_operand *big, const vector_term *t, int64_t from,
                        int64_t n) {
  int64_t base, checks[ACCESS_CHECKS];
  if (is_plain(big)) {
    direct_batch(&big->direct, w->part->n_batch, w->coords, &base, checks);
    direct_fill(&big->direct, &big->rows, big->extent, from, n, &w->inner);
    if (k_is_dense(big)) {
      by_dots(w, big, t, base, n);
      return;
    }
    if (n > 1 && direct_is_run(w->inner.at, n)) {
      by_rows(w, big, t, base, n);
      return;
    }
  }
  by_blocks(w, big, t, from, n);
}

static void run_batch(vector_work *v) {
  matmul_work *w = v->w;
  int64_t count = v->columns ? w->n.count : w->m.count;
  fetch_vectors(v);
  for (int64_t from = 0; from < count; from += MATMUL_VECTOR) {
    int64_t n = min_i64(MATMUL_VECTOR, count - from);
    memset(w->sums, 0, (size_t)(w->part->n_accs * w->sums_size) * sizeof *w->sums);
    const float *vector = v->vector;
    for (int i = 0; i < w->n_products; i++) {
      struct matmul_term *t = &w->products[i];
      int64_t apart = matmul_whole_k(t->k.count);
      add_product(w, v->columns ? &t->b : &t->a,
                  &(vector_term){v->n, vector, apart, w->sums + t->acc * w->sums_size}, from, n);
      vector += v->n * apart;
    }
    if (v->columns)
      store_block(w, 0, v->n, from, n, w->sums, MATMUL_VECTOR, 1);
    else
      store_block(w, from, n, 0, v->n, w->sums, 1, MATMUL_VECTOR);
  }
}

sn_status matmul_run_vector(matmul_work *w) {
  vector_work v = {.w = w, .columns = w->m.count <= w->n.count};
  v.n = v.columns ? w->m.count : w->n.count;
  int64_t all_k = 0;
  for (int i = 0; i < w->n_products; i++)
    all_k += matmul_whole_k(w->products[i].k.count);
  w->sums_size = v.n * MATMUL_VECTOR;
  w->sums = cpu_take(w->r, (size_t)(w->part->n_accs * w->sums_size) * sizeof(float));
  w->a_block = cpu_take(w->r, DOT_ROWS * MATMUL_K * sizeof(float));
  v.vector = cpu_take(w->r, (size_t)(v.n * all_k) * sizeof(float));
  if (!w->sums || !w->a_block || !v.vector)
    return SN_ERR_INTERNAL;
  for (int64_t b = 0; b < w->batch.count; b++) {
    group_coords(&w->batch, w->extent, b, w->coords);
    run_batch(&v);
  }
  return SN_OK;
}
