/* Fragments of a tile, the matrices of the result that a subgroup has. They lie apart by those of the other subgroups, so that
 * what all store at a time is a band of the result: some lines of neighbours in memory, as long as the tile. Slices are
 * subgroups with the same fragments and other k. See emit_matmul_matrix.h. */
#include "device/vulkan/emit_matmul_matrix.h"

static void place_subgroup(matrices *t) {
  kernel *k = t->m.e->k;
  const int *n = t->shape->subgroups;
  val id = k_subgroup_number(k), rest = high_part(k, id, n[1]);
  t->subgroup[1] = low_part(k, id, n[1]);
  t->subgroup[0] = low_part(k, rest, n[0]);
  t->slice = high_part(k, rest, n[0]);
}

void fragments_open(matrices *t) {
  kernel *k = t->m.e->k;
  place_subgroup(t);
  val zero = k_matrix_of(k, t->type[MATRIX_SUM], 0);
  for (int a = 0; a < t->m.part->n_accs; a++)
    for (int i = 0; i < t->fragments[0] * t->fragments[1]; i++) {
      t->sum[a][i] = k_var(k, zero);
      t->total[a][i] = t->blocks ? k_var(k, zero) : t->sum[a][i];
    }
  t->wild = t->scaled ? k_var(k, k_bool(k, false)) : 0;
}

/* --- products --- */

/* The first word of this subgroup's first matrix of a panel. */
static val first_word(matrices *t, const half_panel *p) {
  kernel *k = t->m.e->k;
  int side = p->o.side, rows = t->size[side], slice = t->shape->depth / t->shape->slices;
  int a_row = p->o.along_k ? p->stride * rows : rows / 2;
  int a_slice = p->o.along_k ? slice / 2 : slice * p->stride;
  val at = k_mul(k, t->subgroup[side], k_index(k, a_row));
  if (t->shape->slices > 1)
    at = k_add(k, at, k_mul(k, t->slice, k_index(k, a_slice)));
  return plus(k, at, p->first);
}

/* A matrix of an operand at a fragment and a step of k; `rest`: of the second halves. */
static val load_matrix(matrices *t, const half_panel *p, val first, int i, int at_k, bool rest) {
  kernel *k = t->m.e->k;
  int side = p->o.side, row = i * t->shape->subgroups[side] * t->size[side];
  int skip = p->o.along_k ? row * p->stride + at_k / 2 : row / 2 + at_k * p->stride;
  val at = plus(k, first, skip + (rest ? p->lines * p->stride : 0));
  /* a is [m][k], b is [k][n] */
  int order = p->o.along_k == (side == 0) ? MATRIX_ROWS : MATRIX_COLUMNS;
  return k_matrix_load(k, t->type[side ? MATRIX_B : MATRIX_A], p->array, at, order, p->stride);
}

/* One step of k: small products first, and neighbouring instructions for different sums. */
static void multiply_step(matrices *t, const half_panel *const p[2], const val first[2], int at_k,
                          val *sums) {
  kernel *k = t->m.e->k;
  int halves = t->products == 3 ? 2 : 1, n[2] = {t->fragments[0], t->fragments[1]};
  val x[2][MATRIX_FRAGMENTS][2], sum[MATRIX_FRAGMENTS];
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < n[side]; i++)
      for (int h = 0; h < halves; h++)
        x[side][i][h] = load_matrix(t, p[side], first[side], i, at_k, h);
  for (int i = 0; i < n[0] * n[1]; i++)
    sum[i] = k_get(k, sums[i]);
  for (int product = t->products - 1; product >= 0; product--)
    for (int i = 0; i < n[0] * n[1]; i++) {
      val a = x[0][i / n[1]][product == 1], b = x[1][i % n[1]][product == 2];
      sum[i] = k_matrix_multiply_add(k, t->type[MATRIX_SUM], a, b, sum[i]);
    }
  for (int i = 0; i < n[0] * n[1]; i++)
    k_set(k, sums[i], sum[i]);
}

void fragments_multiply(matrices *t) {
  int depth = t->shape->depth / t->shape->slices;
  for (int a = 0; a < t->n; a++) {
    const half_panel *p[2] = {&t->panels[t->of[a][0]], &t->panels[t->of[a][1]]};
    val first[2];
    for (int side = 0; side < 2; side++)
      first[side] = first_word(t, p[side]);
    for (int at_k = 0; at_k < depth; at_k += t->size[2])
      multiply_step(t, p, first, at_k, t->sum[t->first + a]);
  }
}

static val times_both(matrices *t, val matrix, const val factors[2]) {
  enum { MATRIX_TIMES_SCALAR = 143 };
  for (int i = 0; i < 2; i++)
    matrix = spirv_op(&t->m.e->k->s, MATRIX_TIMES_SCALAR, t->type[MATRIX_SUM],
                      SPV_ARGS(matrix, factors[i]));
  return matrix;
}

void fragments_rescale(matrices *t, const val *changes) {
  kernel *k = t->m.e->k;
  val factors[2];
  for (int a = 0; a < t->n; a++) {
    scale_change(k, k_add(k, changes[t->of[a][0]], changes[t->of[a][1]]), factors);
    for (int i = 0; i < t->fragments[0] * t->fragments[1]; i++) {
      val sum = t->sum[t->first + a][i];
      k_set(k, sum, times_both(t, k_get(k, sum), factors));
    }
  }
}

void fragments_flush(matrices *t) {
  kernel *k = t->m.e->k;
  val zero = k_matrix_of(k, t->type[MATRIX_SUM], 0), undo[2];
  for (int a = 0; a < t->n; a++) {
    scale_undo(k, &t->panels[t->of[a][0]], &t->panels[t->of[a][1]], undo);
    for (int i = 0; i < t->fragments[0] * t->fragments[1]; i++) {
      val sum = t->sum[t->first + a][i], total = t->total[t->first + a][i];
      val x = times_both(t, k_get(k, sum), undo);
      if (t->blocks) {
        x = k_add(k, k_get(k, total), x);
        k_set(k, sum, zero);
      }
      k_set(k, total, x);
    }
  }
}

/* --- results --- */

/* The band that the subgroups store at a time: lines of neighbours, the side of the other fragments. */
static int band_lines(const matrices *t) {
  int slow = !t->m.columns_last;
  return t->shape->subgroups[slow] * t->size[slow];
}
static int band_stride(const matrices *t) { return matrix_side(t->shape, t->m.columns_last) + 4; }
static int band_words(const matrices *t) { return band_lines(t) * band_stride(t); }

int fragments_words(const matrices *t) {
  return t->m.part->n_accs * t->shape->slices * band_words(t);
}

/* Fragments `i` along the slow side. */
static void store_band(matrices *t, int i) {
  kernel *k = t->m.e->k;
  int fast = t->m.columns_last, slow = !fast, apart = t->shape->subgroups[fast] * t->size[fast];
  val at = k_mul(k, t->subgroup[slow], k_index(k, t->size[slow] * band_stride(t)));
  at = k_add(k, at, k_mul(k, t->subgroup[fast], k_index(k, t->size[fast])));
  if (t->shape->slices > 1)
    at = k_add(k, at, k_mul(k, t->slice, k_index(k, band_words(t))));
  for (int a = 0; a < t->m.part->n_accs; a++)
    for (int j = 0; j < t->fragments[fast]; j++) {
      int number = fast ? i * t->fragments[1] + j : j * t->fragments[1] + i;
      val there = plus(k, at, a * t->shape->slices * band_words(t) + j * apart);
      k_matrix_store(k, t->shared, there, k_get(k, t->total[a][number]),
                     fast ? MATRIX_ROWS : MATRIX_COLUMNS, band_stride(t));
    }
}

/* The sum of an accumulator at a word of the band, over all slices. */
static val band_sum(matrices *t, int a, val at) {
  kernel *k = t->m.e->k;
  val sum = 0;
  for (int i = 0; i < t->shape->slices; i++) {
    val bits = k_shared_get(k, t->shared, plus(k, at, (a * t->shape->slices + i) * band_words(t)));
    val x = k_bits(k, bits, k->s.f32);
    sum = i == 0 ? x : k_add(k, sum, x);
  }
  return sum;
}

/* A walk over a band, `points` neighbours at a time. */
typedef struct band_walk {
  k_loop l;
  val at[2], word; /* of the result; of the band */
  k_if inside;
} band_walk;

static band_walk walk_begin(matrices *t, val pass, int points) {
  kernel *k = t->m.e->k;
  int fast = t->m.columns_last, slow = !fast, length = matrix_side(t->shape, fast) / points;
  val end = k_index(k, (int64_t)length * band_lines(t));
  band_walk w = {.l = k_loop_begin(k, k->local, end, k_index(k, k->threads))};
  val in = times(k, low_part(k, w.l.i, length), points), line = high_part(k, w.l.i, length);
  w.at[fast] = k_add(k, t->m.begin[fast], in);
  w.at[slow] = k_add(k, k_add(k, t->m.begin[slow], times(k, pass, band_lines(t))), line);
  val row = k_lt(k, w.at[0], t->m.size[0]), column = k_lt(k, w.at[1], t->m.size[1]);
  w.inside = k_if_begin(k, k_and(k, row, column));
  w.word = k_add(k, k_mul(k, line, k_index(k, band_stride(t))), in);
  return w;
}

static void walk_end(matrices *t, const band_walk *w) {
  k_if_end(t->m.e->k, &w->inside);
  k_loop_end(t->m.e->k, &w->l);
}

/* The band once more where a panel had an infinity: all of a sum in its first slice. */
static void remake_band(matrices *t, val pass) {
  kernel *k = t->m.e->k;
  k_if wild = k_if_begin(k, k_get(k, t->wild));
  band_walk w = walk_begin(t, pass, 1);
  for (int a = 0; a < t->m.part->n_accs; a++) {
    val sum = matmul_sum_plainly(&t->m, a, t->shape->depth, w.at);
    for (int i = 0; i < t->shape->slices; i++) {
      val there = plus(k, w.word, (a * t->shape->slices + i) * band_words(t));
      k_shared_set(k, t->shared, there, i == 0 ? k_bits(k, sum, k->s.u32) : k_u32(k, 0));
    }
  }
  walk_end(t, &w);
  k_barrier_shared(k);
  k_if_end(k, &wild);
}

/* The sums of a band, one by one or four of a line at a time. */
static void use_band(matrices *t, val pass) {
  kernel *k = t->m.e->k;
  int points = matmul_points(t->m.part);
  val four[EMIT_ACCS][4], sums[EMIT_ACCS];
  band_walk w = walk_begin(t, pass, points);
  for (int a = 0; a < t->m.part->n_accs; a++) {
    for (int u = 0; u < points; u++)
      four[a][u] = band_sum(t, a, plus(k, w.word, u));
    sums[a] = four[a][0];
  }
  if (points == 4)
    matmul_result_four(&t->m, w.at[0], w.at[1], four);
  else
    matmul_result(&t->m, w.at[0], w.at[1], sums);
  walk_end(t, &w);
}

void fragments_store(matrices *t) {
  kernel *k = t->m.e->k;
  int n = t->fragments[!t->m.columns_last];
  k_loop pass = k_loop_begin(k, k_index(k, 0), k_index(k, n), k_index(k, 1));
  for (int i = 0; i < n; i++) {
    k_if mine = k_if_begin(k, k_eq(k, pass.i, k_index(k, i)));
    store_band(t, i);
    k_if_end(k, &mine);
  }
  k_barrier_shared(k);
  if (t->scaled)
    remake_band(t, pass.i);
  use_band(t, pass.i);
  k_barrier_shared(k);
  k_loop_end(k, &pass);
}
