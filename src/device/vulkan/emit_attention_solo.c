/* See emit_attention_solo.h. */
#include "device/vulkan/emit_attention_solo.h"
#include "device/vulkan/emit_matmul.h"

enum {
  ALONG = 16,
  ACROSS = 32,  /* columns of a step */
  TOGETHER = 4, /* steps whose loads are under way together */
  PRODUCTS = 2, /* that are made together, at most */
  NOT_FINITE = 0x7f800000
};

static int padded(const emitter *e, sn_dim width) {
  return (int)((size_most(&e->env, width) + ACROSS - 1) / ACROSS * ACROSS);
}

bool solo_fits(const emitter *e, const attending *a) {
  enum { WIDEST = 128, THREADS = 32, LEAST_SHARED = 32 << 10 };
  const gpu_target *t = e->env.target;
  int64_t d = size_most(&e->env, a->d), dv = size_most(&e->env, a->dv);
  return t->bf16_places && t->bf16 && t->keeps_nan && t->subgroup == THREADS &&
         t->matrix[0] == 16 && t->matrix[1] == 16 && t->matrix[2] == 16 &&
         t->shared_bytes >= LEAST_SHARED && e->env.precision != SN_PRECISION_EXACT && d > 0 &&
         dv > 0 && d <= WIDEST && dv <= WIDEST;
}

int solo_share(const emitter *e, int64_t blocks, int64_t columns, sn_dim width) {
  enum { EACH = 8 /* subgroups a unit */, FACTS = 256, REST = 6 << 10 };
  const gpu_target *t = e->env.target;
  int n = 1, plane = SOLO_ROWS * (padded(e, width) + 4) * 4, room = t->shared_bytes - REST - plane;
  while (n < SOLO_SHARE && blocks * n < (int64_t)EACH * t->units &&
         columns > (int64_t)n * SOLO_ROWS && 2 * n * (plane + FACTS) <= room &&
         2 * n * t->subgroup <= t->max_threads)
    n *= 2;
  return n;
}

void solo_open(solo *s, emitter *e, const attending *a, int share, sn_dim width, int n_words) {
  kernel *k = e->k;
  *s = (solo){.e = e, .a = a, .share = share, .rest = e->env.precision == SN_PRECISION_FAST};
  k_use_matrices(k, e->env.target->matrix, SN_BF16, s->type);
  s->number = k_subgroup_number(k);
  val lane = k_subgroup_lane(k);
  s->t = low_part(k, lane, 4);
  s->g = high_part(k, lane, 4);
  s->check = k_var(k, k_f32(k, 0));
  s->columns = padded(e, width);
  s->pitch = s->columns / 4 + 1; /* neighbours are in different banks */
  s->planes = k_shared(k, spirv_vector(&k->s, k->s.f32, 4), share * SOLO_ROWS * s->pitch);
  s->words = k_shared(k, k->s.u32, share + n_words);
  for (int i = 0; i < s->columns / SOLO_ROWS * MATRIX_ELEMENTS; i++)
    s->out[i / MATRIX_ELEMENTS][i % MATRIX_ELEMENTS] = k_var(k, k_f32(k, 0));
}

val solo_column(const solo *s, int i) {
  kernel *k = s->e->k;
  return plus(k, k_shl(k, s->t, 1), (i & 1) + (i >> 1) * 8);
}

/* --- operands --- */

solo_rows solo_rows_of(solo *s, row_list l, bool along) {
  solo_rows r = {.l = l, .along = along, .rows = along ? 2 : 4};
  int size = along ? ALONG : ACROSS;
  r.whole = tile_is_whole(&l, size);
  r.steps = (int)((size_most(&s->e->env, l.width) + size - 1) / size);
  return r;
}

void solo_rows_at(const solo *s, solo_rows *r, val first) {
  kernel *k = s->e->k;
  val column = k_shl(k, r->along ? s->t : s->g, 2);
  for (int i = 0; i < r->rows; i++) {
    val row = r->along ? plus(k, s->g, 8 * i) : solo_column(s, i);
    r->number[i] = k_add(k, first, row);
    if (r->whole)
      r->address[i] = tile_row_address(s->e, s->a, &r->l, r->number[i], column);
  }
}

/* The thread's vector of step `n` of row i, as it lies in memory where rows are whole. */
static val load_step(const solo *s, const solo_rows *r, int i, int n) {
  kernel *k = s->e->k;
  int first = n * (r->along ? ALONG : ACROSS);
  if (r->whole)
    return tile_load_there(s->e, &r->l, r->address[i], first);
  val column = plus(k, k_shl(k, r->along ? s->t : s->g, 2), first);
  return tile_load_vector(s->e, s->a, &r->l, r->number[i], column);
}

void solo_fetch(solo *s, solo_rows *r) {
  for (int i = 0; i < r->steps * r->rows; i++)
    r->raw[i / r->rows][i % r->rows] = load_step(s, r, i % r->rows, i / r->rows);
}

static void numbers_of(const solo *s, const solo_rows *r, val raw, val out[4]) {
  kernel *k = s->e->k;
  val four = r->whole ? tile_numbers(s->e, &r->l, raw) : raw;
  for (int i = 0; i < 4; i++)
    out[i] = k_part(k, four, i);
}

/* --- matrices --- */

void solo_make(solo *s, int use, const val x[MATRIX_ELEMENTS], val out[2]) {
  kernel *k = s->e->k;
  val half[4], rest[4];
  for (int i = 0; i < 4; i++)
    k_two_bf16(k, x + 2 * i, &half[i], s->rest ? &rest[i] : NULL);
  out[0] = k_matrix_make(k, s->type[use], half);
  out[1] = s->rest ? k_matrix_make(k, s->type[use], rest) : 0;
}

/* sum[i] += a[i] · b[i]; neighbouring instructions are for different sums. */
static void multiply(solo *s, int n, val (*a)[2], val (*b)[2], val *sum) {
  for (int product = s->rest ? 2 : 0; product >= 0; product--)
    for (int i = 0; i < n; i++)
      sum[i] = k_matrix_multiply_add(s->e->k, s->type[MATRIX_SUM], a[i][product == 1],
                                     b[i][product == 2], sum[i]);
}

/* --- products --- */

/* Vectors of a step of a product: of a, b and what is multiplied along with it. */
typedef struct solo_step {
  val raw[3][2];
} solo_step;

static solo_step load_product(solo *s, const solo_product *p, int n) {
  const solo_rows *of[3] = {p->a, p->b, p->also};
  solo_step x = {0};
  for (int i = 0; i < 6; i++)
    if (of[i / 2])
      x.raw[i / 2][i % 2] = load_step(s, of[i / 2], i % 2, n);
  return x;
}

static void make_product(solo *s, solo_product *p, const solo_step *x, val a[2], val b[2]) {
  kernel *k = s->e->k;
  const solo_rows *of[3] = {p->a, p->b, p->also};
  val number[3][MATRIX_ELEMENTS];
  for (int i = 0; i < 6; i++)
    if (of[i / 2])
      numbers_of(s, of[i / 2], x->raw[i / 2][i % 2], &number[i / 2][i % 2 * 4]);
  for (int i = 0; i < MATRIX_ELEMENTS && p->also; i++)
    p->dot[i / 4] = k_fma(k, number[p->with == p->a ? 0 : 1][i], number[2][i], p->dot[i / 4]);
  solo_make(s, MATRIX_A, number[0], a);
  solo_make(s, MATRIX_B, number[1], b);
}

void solo_products(solo *s, int n, solo_product *const *p) {
  kernel *k = s->e->k;
  val sum[PRODUCTS], a[PRODUCTS][2], b[PRODUCTS][2];
  int steps = p[0]->a->steps, each = TOGETHER / n;
  for (int i = 0; i < n; i++) {
    sum[i] = k_matrix_of(k, s->type[MATRIX_SUM], 0);
    p[i]->dot[0] = p[i]->dot[1] = k_f32(k, 0);
  }
  for (int first = 0; first < steps; first += each) {
    solo_step x[TOGETHER][PRODUCTS];
    int end = first + each < steps ? first + each : steps;
    for (int i = first * n; i < end * n; i++)
      x[i / n - first][i % n] = load_product(s, p[i % n], i / n);
    for (int j = first; j < end; j++) {
      for (int i = 0; i < n; i++)
        make_product(s, p[i], &x[j - first][i], a[i], b[i]);
      multiply(s, n, a, b, sum);
    }
  }
  for (int i = 0; i < n; i++)
    k_matrix_sums(k, sum[i], p[i]->out);
  for (int i = 0; i < 2 * n; i++) {
    val *dot = &p[i / 2]->dot[i % 2];
    if (!p[i / 2]->also)
      continue;
    *dot = k_add(k, *dot, k_shuffle_xor(k, *dot, 1));
    *dot = k_add(k, *dot, k_shuffle_xor(k, *dot, 2));
  }
}

/* --- results --- */

/* Across: a matrix has two numbers of each row's vector, as its columns g and g + 8. */
void solo_add(solo *s, const val weights[2], const solo_rows *r, const val *keep) {
  kernel *k = s->e->k;
  val a[2][2] = {{weights[0], weights[1]}, {weights[0], weights[1]}}, b[2][2], sum[2], x[4][4];
  for (int step_number = 0; step_number < r->steps; step_number++) {
    for (int i = 0; i < 4; i++)
      numbers_of(s, r, r->raw[step_number][i], x[i]);
    for (int m = 0; m < 2; m++) {
      val y[MATRIX_ELEMENTS];
      for (int n = 0; n < MATRIX_ELEMENTS; n++)
        y[n] = x[n % 4][m * 2 + n / 4];
      solo_make(s, MATRIX_B, y, b[m]);
      sum[m] = k_matrix_of(k, s->type[MATRIX_SUM], 0);
    }
    multiply(s, 2, a, b, sum);
    for (int m = 0; m < 2; m++) {
      val more[MATRIX_ELEMENTS], *out = s->out[2 * step_number + m];
      k_matrix_sums(k, sum[m], more);
      for (int n = 0; n < MATRIX_ELEMENTS; n++) {
        val old = k_get(k, out[n]);
        k_set(k, out[n], keep ? k_fma(k, old, keep[n / 4], more[n]) : k_add(k, old, more[n]));
      }
    }
  }
}

/* Of 32 columns, made by two matrices, the thread has the eight neighbours from 8 t on, of rows g and g + 8: two vectors a row. Number n
 * of vector i is element i + 2 (n & 1) of that row of matrix n / 2. */
static void put_vector(solo *s, int r, int matrix, int i) {
  kernel *k = s->e->k;
  val row = k_add(k, k_shl(k, s->number, 4), plus(k, s->g, 8 * r)), x[4];
  val at = k_add(k, k_mul(k, row, k_index(k, s->pitch)), k_shl(k, s->t, 1));
  for (int n = 0; n < 4; n++) {
    x[n] = k_get(k, s->out[matrix + n / 2][4 * r + i + 2 * (n & 1)]);
    k_set(k, s->check, k_add(k, k_get(k, s->check), x[n]));
  }
  k_shared_set(s->e->k, s->planes, plus(k, at, matrix / 2 * (ACROSS / 4) + i), k_vector(k, 4, x));
}

void solo_put(solo *s) {
  for (int matrix = 0; matrix < s->columns / SOLO_ROWS; matrix += 2)
    for (int i = 0; i < 4; i++)
      put_vector(s, i / 2, matrix, i & 1);
}

val solo_all_odd(solo *s) {
  kernel *k = s->e->k;
  val size = k_bits(k, k_abs(k, k_get(k, s->check)), k->s.u32), zero = k_index(k, 0);
  size = k_subgroup_max(k, size);
  val first = k_and(k, k_eq(k, s->t, zero), k_eq(k, s->g, zero)), most = 0;
  k_if one = k_if_begin(k, first);
  k_shared_set(k, s->words, s->number, size);
  k_if_end(k, &one);
  k_barrier_shared(k);
  for (int i = 0; i < s->share; i++) {
    val more = k_shared_get(k, s->words, k_index(k, i));
    most = most ? k_max(k, most, more) : more;
  }
  return k_le(k, k_u32(k, NOT_FINITE), most);
}

/* --- at the end --- */

val solo_own_row(const solo *s) { return high_part(s->e->k, s->e->k->local, solo_each(s)); }
val solo_own_vector(const solo *s) { return low_part(s->e->k, s->e->k->local, solo_each(s)); }

void solo_join(const solo *s, val row, val column, const val *weights, val out[4]) {
  kernel *k = s->e->k;
  val at = k_add(k, k_mul(k, row, k_index(k, s->pitch)), column);
  for (int p = 0; p < s->share; p++) {
    val more = k_shared_get(s->e->k, s->planes, plus(k, at, p * SOLO_ROWS * s->pitch));
    for (int i = 0; i < 4; i++) {
      val x = k_part(k, more, i);
      if (weights)
        x = k_mul(k, x, weights[p]);
      out[i] = p ? k_add(k, out[i], x) : x;
    }
  }
}

void solo_store(emitter *e, const strided *to, const val at[3], val column, const val x[4]) {
  kernel *k = e->k;
  if (!to->value)
    return;
  row_list l = {.of = to, .width = to->dim[3]};
  val width = k_size(k, to->dim[3]), all[4] = {at[0], at[1], at[2], column};
  if (tile_is_whole(&l, 4) && to->dtype == SN_F32) {
    k_if inside = k_if_begin(k, k_lt(k, column, width));
    val index = k_shr(k, emit_strided(e, to, all), 2);
    k_store(k, k_address(k, to->value), index, k_vector(k, 4, x));
    k_if_end(k, &inside);
    return;
  }
  for (int i = 0; i < 4; i++) {
    all[3] = plus(k, column, i);
    k_if inside = k_if_begin(k, k_lt(k, all[3], width));
    core_store(e, to, all, x[i]);
    k_if_end(k, &inside);
  }
}
