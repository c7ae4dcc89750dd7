/* Few results with long sums (gradients of the weights of a convolution): k is cut into slices, and each slice is summed for all
 * results by one thread. So every element of both operands is packed once, by the thread that uses it, and stays in its caches;
 * cutting the results instead, each thread packs all of one operand. Called by matmul.c.
 *
 * In the first phase the sums of slices go to shared scratch; in the second they are added up, in order, and stored. Extents
 * alone say how many slices there are: bits do not depend on threads. */
#include "device/cpu/matmul.h"

enum {
  SIDES_MOST = 768,  /* rows and columns together: a block of both stays in the second cache */
  SHORTER_MOST = 64, /* of these two: with more, results are better cut */
  RESULTS_MOST = 40 << 10,
  SLICES_MOST = 16,
  BLOCKS_LEAST = 16, /* of k, MATMUL_K each */
  LONGER =
      16, /* k, than rows or columns: so activations, on whose rounding units hang, are never summed so */
  BLOCKS_EACH = 2 /* of a slice, at least */
};

static bool are_numbers(const sn_dim *dims, int n) {
  bool all = true;
  for (int d = 0; d < n && all; d++)
    all = dim_is_number(dims[d]);
  return all;
}

static int64_t product_of(const sn_dim *dims, int n) {
  int64_t product = 1;
  for (int d = 0; d < n; d++)
    product *= dims[d];
  return product;
}

int64_t matmul_slices(const matmul_part *t) {
  const sn_dim *m = t->extent + t->n_batch, *n = m + t->n_m;
  if (t->n_batch > 0 || t->n_accs != 1 || t->accs[0].n_products != 1)
    return 0;
  const matmul_product *p = &t->accs[0].products[0];
  if (!are_numbers(m, t->n_m + t->n_n) || !are_numbers(p->k, p->n_k))
    return 0;
  int64_t rows = product_of(m, t->n_m), columns = product_of(n, t->n_n);
  int64_t k = product_of(p->k, p->n_k), blocks = (k + MATMUL_K - 1) / MATMUL_K;
  if (blocks < BLOCKS_LEAST || k < LONGER * max_i64(rows, columns) || rows + columns > SIDES_MOST ||
      rows * columns > RESULTS_MOST || min_i64(rows, columns) <= MATMUL_FEW ||
      min_i64(rows, columns) > SHORTER_MOST)
    return 0;
  return min_i64(SLICES_MOST, blocks / BLOCKS_EACH);
}

int64_t matmul_slices_of(const step *of, const matmul_part *t) {
  for (int i = 0; i < of->n_parts; i++)
    if (of->parts[i].u.matmul.accs == t->accs)
      return matmul_slices(t);
  return 0;
}

/* Floats from row to row. */
static int64_t row_floats(int64_t columns) {
  return (columns + MATMUL_LINE - 1) / MATMUL_LINE * MATMUL_LINE;
}

size_t matmul_slices_bytes(const matmul_part *t) {
  const sn_dim *m = t->extent + t->n_batch, *n = m + t->n_m;
  int64_t slices = matmul_slices(t);
  if (slices == 0)
    return 0;
  int64_t a = product_of(m, t->n_m), b = product_of(n, t->n_n);
  return cpu_take_bytes((size_t)(slices * max_i64(a * row_floats(b), b * row_floats(a))) *
                        sizeof(float));
}

static float *take_slices(matmul_work *w) {
  return cpu_take_shared(w->r, matmul_slices_bytes(w->part));
}

static void sum_slice(matmul_work *w, int64_t from, int64_t to, float *own[SIDES], float *c) {
  struct matmul_term *t = &w->products[0];
  for (int64_t k = from; k < to; k += MATMUL_K) {
    panel_block b = {.m = w->side[ROWS].count,
                     .n = w->side[COLS].count,
                     .k = min_i64(MATMUL_K, to - k),
                     .a = own[ROWS],
                     .b = own[COLS],
                     .c = c,
                     .c_row = row_floats(w->side[COLS].count),
                     .add = k > from};
    b.a_panel = b.k * w->shape.width[ROWS];
    b.b_panel = b.k * w->shape.width[COLS];
    operand_pack(w, t->of[ROWS], 0, b.m, k, b.k, w->shape.width[ROWS], own[ROWS], b.a_panel);
    operand_pack(w, t->of[COLS], 0, b.n, k, b.k, w->shape.width[COLS], own[COLS], b.b_panel);
    w->r->isa->matmul->multiply(&b);
  }
}

sn_status matmul_sum_slices(matmul_work *w) {
  int64_t k = w->products[0].k.count, blocks = (k + MATMUL_K - 1) / MATMUL_K;
  int64_t size = w->side[ROWS].count * row_floats(w->side[COLS].count);
  float *slices = take_slices(w), *own[SIDES];
  for (int side = 0; side < SIDES; side++)
    own[side] = cpu_take(w->r, (size_t)whole_panels(w->side[side].count, w->shape.width[side]) *
                                   MATMUL_K * sizeof(float));
  if (!slices || !own[ROWS] || !own[COLS])
    return SN_ERR_INTERNAL;
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, w->slices, &i);) {
    int64_t from = blocks * i / w->slices * MATMUL_K;
    sum_slice(w, from, min_i64(k, blocks * (i + 1) / w->slices * MATMUL_K), own, slices + i * size);
  }
  return SN_OK;
}

sn_status matmul_store_slices(matmul_work *w) {
  int64_t row = row_floats(w->side[COLS].count), size = w->side[ROWS].count * row, from, to;
  float *slices = take_slices(w);
  w->sums = cpu_take(w->r, (size_t)(size + CPU_LANE_BLOCK) * sizeof(float));
  if (!slices || !w->sums)
    return SN_ERR_INTERNAL;
  w->sums_row = row;
  w->sums_size = size + CPU_LANE_BLOCK;
  cpu_share(w->r, w->side[ROWS].count, 1, &from, &to);
  if (from == to)
    return SN_OK;
  const float *first = slices + from * row;
  for (int64_t i = 0; i < (to - from) * row; i++)
    w->sums[i] = first[i];
  for (int64_t s = 1; s < w->slices; s++)
    for (int64_t i = 0; i < (to - from) * row; i++)
      w->sums[i] += first[s * size + i];
  memset(w->coords, 0, sizeof w->coords);
  store_block(w, (int64_t[SIDES]){from, 0}, (int64_t[SIDES]){to - from, w->side[COLS].count});
  return SN_OK;
}

size_t matmul_slices_need(const matmul_part *t) {
  if (matmul_slices(t) == 0)
    return 0;
  size_t block = (size_t)(SIDES_MOST + 128) * MATMUL_K * sizeof(float);
  return block + matmul_slices_bytes(t) + 4 * PROGRAM_ALIGN;
}
