/* Products of rows and weighted sums of rows by matrices. See emit_attention_matrix.h. */
#include "device/vulkan/emit_attention_matrix.h"
#include "device/vulkan/emit_matmul.h"

enum { GROUP = 4 /* sums that are made together */ };

/* The halves, and the rest where it counts. */
static int kinds(const crew *c) { return c->rest ? 2 : 1; }

/* Matrices of a tile: rows from `row` on, numbers from `column` on, of both kinds. order: how the matrix lies in the tile's lines. */
static void load_matrices(crew *c, const crew_tile *t, int use, val row, int column, int order,
                          val out[2]) {
  kernel *k = c->e->k;
  int stride = crew_stride(c, t->width);
  val at = plus(k, k_mul(k, row, k_index(k, stride)), t->at + column / 2);
  for (int h = 0; h < kinds(c); h++)
    out[h] = k_matrix_load(k, c->type[use], c->words, plus(k, at, h * t->width / 2), order, stride);
}

void crew_rows_open(crew *c, crew_rows_of *r, int width) {
  r->n = width / c->size[2];
  for (int i = 0; i < r->n; i++)
    for (int h = 0; h < kinds(c); h++)
      r->at[i][h] = spirv_local(&c->e->k->s, c->type[MATRIX_A]);
}

void crew_take_rows(crew *c, const crew_tile *t, const crew_rows_of *r) {
  kernel *k = c->e->k;
  val row = k_mul(k, c->at_row, k_index(k, c->rows)), x[2];
  for (int i = 0; i < r->n; i++) {
    load_matrices(c, t, MATRIX_A, row, i * c->size[2], MATRIX_ROWS, x);
    for (int h = 0; h < kinds(c); h++)
      k_set(k, r->at[i][h], x[h]);
  }
}

/* Products that follow each other are of different sums, so that none waits for the one before. */
static void multiply_all(crew *c, const val a[2], int n, val b[][2], val *sums) {
  kernel *k = c->e->k;
  static const int order[3][2] = {{0, 1}, {1, 0}, {0, 0}};
  for (int p = c->rest ? 0 : 2; p < 3; p++)
    for (int j = 0; j < n; j++)
      sums[j] =
          k_matrix_multiply_add(k, c->type[MATRIX_SUM], a[order[p][0]], b[j][order[p][1]], sums[j]);
}

void crew_products(crew *c, const crew_rows_of *a, const crew_tile *b, int which) {
  enum { MOST = 8 };
  kernel *k = c->e->k;
  int stride = c->shape.each + 4, n = c->shape.each / c->size[1];
  val first = k_mul(k, c->at_column, k_index(k, c->shape.each)), area = crew_area(c, which);
  val sums[MOST], x[MOST][2], y[2] = {0};
  for (int j = 0; j < n; j++)
    sums[j] = k_matrix_of(k, c->type[MATRIX_SUM], 0);
  for (int i = 0; i < a->n; i++) {
    for (int j = 0; j < n; j++)
      load_matrices(c, b, MATRIX_B, plus(k, first, j * c->size[1]), i * c->size[2], MATRIX_COLUMNS,
                    x[j]);
    for (int h = 0; h < kinds(c); h++)
      y[h] = k_get(k, a->at[i][h]);
    multiply_all(c, y, n, x, sums);
  }
  for (int j = 0; j < n; j++)
    k_matrix_store(k, c->words, plus(k, area, j * c->size[1]), sums[j], MATRIX_ROWS, stride);
}

void crew_sums_open(crew *c, crew_sums *s, int width) {
  kernel *k = c->e->k;
  s->n = width / c->size[1];
  val zero = k_matrix_of(k, c->type[MATRIX_SUM], 0);
  for (int i = 0; i < s->n; i++)
    s->at[i] = k_var(k, zero);
}

/* Some columns of the sums: the weights' matrices times those of the rows. */
static void add_columns(crew *c, val area, const crew_tile *b, crew_sums *s, int from, int n) {
  kernel *k = c->e->k;
  int each = c->shape.each, stride = each + 4;
  spirv_id type = c->type[MATRIX_SUM];
  val first = k_mul(k, c->at_column, k_index(k, each)), sums[GROUP], x[2] = {0}, y[GROUP][2];
  for (int g = 0; g < n; g++)
    sums[g] = k_matrix_of(k, type, 0);
  for (int i = 0; i < each; i += c->size[2]) {
    for (int h = 0; h < kinds(c); h++)
      x[h] = k_matrix_load(k, c->type[MATRIX_A], c->words, plus(k, area, (i + h * each) / 2),
                           MATRIX_ROWS, stride);
    for (int g = 0; g < n; g++)
      load_matrices(c, b, MATRIX_B, plus(k, first, i), (from + g) * c->size[1], MATRIX_ROWS, y[g]);
    multiply_all(c, x, n, y, sums);
  }
  for (int g = 0; g < n; g++) {
    val so_far = k_get(k, s->at[from + g]);
    k_set(k, s->at[from + g], spirv_op(&k->s, SPV_FAdd, type, SPV_ARGS(so_far, sums[g])));
  }
}

/* Matrix units cut off what does not fit in their sums instead of rounding it: a long sum would come out too small. So each tile has
 * sums of its own, which are added as f32. */
void crew_add(crew *c, int which, const crew_tile *b, crew_sums *s) {
  val area = crew_area(c, which);
  for (int j = 0; j < s->n; j += GROUP)
    add_columns(c, area, b, s, j, s->n - j < GROUP ? s->n - j : GROUP);
}

void crew_put_factor(crew *c, int which, val factor) {
  kernel *k = c->e->k;
  int stride = c->size[1] + 4, each = c->size[1] / c->lanes;
  val bits = k_bits(k, factor, k->s.u32);
  val at = k_add(k, crew_area(c, which), k_mul(k, c->row, k_index(k, stride)));
  at = k_add(k, at, k_mul(k, c->place, k_index(k, each)));
  for (int i = 0; i < each; i++)
    k_shared_set(k, c->words, plus(k, at, i), bits);
}

void crew_scale_rows(crew *c, int which, const crew_sums *sums) {
  kernel *k = c->e->k;
  spirv_id type = c->type[MATRIX_SUM];
  val by = k_matrix_load(k, type, c->words, crew_area(c, which), MATRIX_ROWS, c->size[1] + 4);
  for (int i = 0; i < sums->n; i++) {
    val x = k_get(k, sums->at[i]);
    k_set(k, sums->at[i], spirv_op(&k->s, SPV_FMul, type, SPV_ARGS(x, by)));
  }
}

void crew_sums_put(crew *c, const crew_sums *s, int at, int width) {
  kernel *k = c->e->k;
  int stride = width + 4;
  val plane = k_mul(k, c->at_column, k_index(k, crew_plane_words(c, width)));
  val row = k_mul(k, c->at_row, k_index(k, c->rows * stride));
  val first = plus(k, k_add(k, plane, row), at);
  for (int i = 0; i < s->n; i++)
    k_matrix_store(k, c->words, plus(k, first, i * c->size[1]), k_get(k, s->at[i]), MATRIX_ROWS,
                   stride);
}
