/* See emit_attention_solo.h. */
#include "device/vulkan/emit_attention_solo.h"
#include "device/vulkan/emit_matmul.h"

enum {
  MOST_POWER = 126,
  TOP = 127 + 11,
  ALONG = 16,
  ACROSS = 32,        /* columns of a step */
  NUMBERS = 16,       /* of a step, that a thread has: four of each row */
  NON_PRIVATE = 0x20, /* an access that other threads can see */
  NOT_FINITE = 0x7f800000
};

static int padded(const emitter *e, sn_dim width) {
  return (int)((size_most(&e->env, width) + ACROSS - 1) / ACROSS * ACROSS);
}

bool solo_fits(const emitter *e, const attending *a) {
  enum { WIDEST = 128, THREADS = 32, LEAST_SHARED = 32 << 10 };
  const gpu_target *t = e->env.target;
  int64_t d = size_most(&e->env, a->d), dv = size_most(&e->env, a->dv);
  return t->places && t->f16 && t->keeps_nan && t->subgroup == THREADS && t->matrix[0] == 16 &&
         t->matrix[1] == 16 && t->matrix[2] == 16 && t->shared_bytes >= LEAST_SHARED &&
         e->env.precision != SN_PRECISION_EXACT && d > 0 && dv > 0 && d <= WIDEST && dv <= WIDEST;
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
  k_use_matrices(k, e->env.target->matrix, SN_F16, s->type);
  s->number = k_subgroup_number(k);
  val lane = k_subgroup_lane(k);
  s->t = low_part(k, lane, 4);
  s->g = high_part(k, lane, 4);
  s->odd = k_var(k, k_u32(k, 0));
  s->check = k_var(k, k_f32(k, 0));
  s->columns = padded(e, width);
  s->pitch = s->columns / 4 + 1; /* neighbours are in different banks */
  s->planes = k_shared(k, spirv_vector(&k->s, k->s.f32, 4), share * SOLO_ROWS * s->pitch);
  s->words = k_shared(k, k->s.u32, share + n_words);
}

val solo_column(const solo *s, int i) {
  kernel *k = s->e->k;
  return plus(k, k_shl(k, s->t, 1), (i & 1) + (i >> 1) * 8);
}

/* --- operands --- */

solo_rows solo_rows_of(solo *s, row_list l, bool along) {
  kernel *k = s->e->k;
  solo_rows r = {.l = l, .along = along, .rows = along ? 2 : 4};
  r.whole = tile_is_whole(&l, along ? ALONG : ACROSS);
  spirv_id four = spirv_vector(&k->s, k->s.f32, 4);
  for (int i = 0; i < r.rows; i++)
    r.raw[i] = spirv_local(&k->s, r.whole ? tile_raw_type(s->e, &r.l) : four);
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

/* Vectors of a step, which begins at `column`: on their way, and as numbers. */
static void step_load(solo *s, const solo_rows *r, val column) {
  kernel *k = s->e->k;
  val mine = k_add(k, column, k_shl(k, r->along ? s->t : s->g, 2)), at = k_shr(k, column, 2);
  for (int i = 0; i < r->rows; i++) {
    val raw = r->whole ? k_load(k, tile_raw_type(s->e, &r->l), r->address[i], at)
                       : tile_load_vector(s->e, s->a, &r->l, r->number[i], mine);
    k_set(k, r->raw[i], raw);
  }
}

void solo_fetch(solo *s, const solo_rows *r) { step_load(s, r, k_index(s->e->k, 0)); }

static void step_numbers(solo *s, const solo_rows *r, val out[NUMBERS]) {
  kernel *k = s->e->k;
  for (int i = 0; i < r->rows; i++) {
    val raw = k_get(k, r->raw[i]), four = r->whole ? tile_numbers(s->e, &r->l, raw) : raw;
    for (int j = 0; j < 4; j++)
      out[4 * i + j] = k_part(k, four, j);
  }
}

/* The step behind `column`, or the last one. */
static val next_column(kernel *k, val column, val end, int by) {
  val last = k_and(k, plus(k, end, -1), k_index(k, -by));
  return k_min(k, plus(k, column, by), last);
}

/* Numbers times 2^power, which brings the largest of the subgroup's below 2^12. */
static val scale_numbers(solo *s, val *x, int n) {
  kernel *k = s->e->k;
  val most = k_abs(k, x[0]);
  for (int i = 1; i < n; i++)
    most = k_max(k, most, k_abs(k, x[i]));
  val bits = k_subgroup_max(k, k_bits(k, most, k->s.u32));
  k_set(k, s->odd, k_max(k, k_get(k, s->odd), bits));
  val wanted = k_sub(k, k_i32(k, TOP), k_bits(k, k_shr(k, bits, 23), k->s.i32));
  val power = k_min(k, wanted, k_i32(k, MOST_POWER)), by = crew_power(k, power);
  for (int i = 0; i < n; i++)
    x[i] = k_mul(k, x[i], by);
  return power;
}

/* --- matrices --- */

/* Two numbers as halves, and what those leave. The first are cut, not rounded, which costs one operation. */
static void two_halves(solo *s, const val x[2], val *half, val *rest) {
  kernel *k = s->e->k;
  val mask = k_u32(k, 0xffffe000), first[2], left[2];
  if (!s->rest) {
    k_two_halves(k, x, half, NULL);
    return;
  }
  for (int i = 0; i < 2; i++) {
    first[i] = k_bits(k, k_and(k, k_bits(k, x[i], k->s.u32), mask), k->s.f32);
    left[i] = k_sub(k, x[i], first[i]);
  }
  k_two_halves(k, first, half, NULL);
  k_two_halves(k, left, rest, NULL);
}

void solo_make(solo *s, int use, const val x[MATRIX_ELEMENTS], val out[2]) {
  kernel *k = s->e->k;
  val half[4], rest[4];
  for (int i = 0; i < 4; i++)
    two_halves(s, x + 2 * i, &half[i], &rest[i]);
  out[0] = k_matrix_make(k, s->type[use], half);
  out[1] = s->rest ? k_matrix_make(k, s->type[use], rest) : 0;
}

void solo_weights(solo *s, const val x[MATRIX_ELEMENTS], val out[2], val *out_by) {
  kernel *k = s->e->k;
  val scaled[MATRIX_ELEMENTS];
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    scaled[i] = x[i];
  *out_by = crew_power(k, k_neg(k, scale_numbers(s, scaled, MATRIX_ELEMENTS)));
  solo_make(s, MATRIX_A, scaled, out);
}

static val multiply(solo *s, val a, val b, val sum) {
  return k_matrix_multiply_add(s->e->k, s->type[MATRIX_SUM], a, b, sum);
}

static void multiply_all(solo *s, const val a[2], const val b[2], val out[MATRIX_ELEMENTS]) {
  val sum = k_matrix_of(s->e->k, s->type[MATRIX_SUM], 0);
  if (s->rest) {
    sum = multiply(s, a[1], b[0], sum);
    sum = multiply(s, a[0], b[1], sum);
  }
  k_matrix_sums(s->e->k, multiply(s, a[0], b[0], sum), out);
}

/* --- products --- */

/* What a step adds: sums under both powers, brought back. out and dot: variables. */
static void add_step(solo *s, const solo_product *p, val next) {
  kernel *k = s->e->k;
  val x[NUMBERS], y[NUMBERS], z[NUMBERS], more[MATRIX_ELEMENTS], a[2], b[2];
  step_numbers(s, p->a, x);
  step_numbers(s, p->b, y);
  step_load(s, p->a, next);
  step_load(s, p->b, next);
  if (p->also) {
    step_numbers(s, p->also, z);
    step_load(s, p->also, next);
  }
  for (int i = 0; i < MATRIX_ELEMENTS && p->also; i++) {
    val n = p->with == p->a ? x[i] : y[i];
    k_set(k, p->dot[i / 4], k_fma(k, n, z[i], k_get(k, p->dot[i / 4])));
  }
  val power = scale_numbers(s, x, MATRIX_ELEMENTS);
  power = k_add(k, power, scale_numbers(s, y, MATRIX_ELEMENTS));
  solo_make(s, MATRIX_A, x, a);
  solo_make(s, MATRIX_B, y, b);
  multiply_all(s, a, b, more);
  crew_factors f = crew_factors_of(k, k_neg(k, power));
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    k_set(k, p->out[i], k_fma(k, k_mul(k, more[i], f.by[0]), f.by[1], k_get(k, p->out[i])));
}

void solo_products(solo *s, int n, solo_product *const *p) {
  kernel *k = s->e->k;
  val zero = k_index(k, 0), end = k_size(k, p[0]->a->l.width), none = k_f32(k, 0);
  for (int i = 0; i < n * MATRIX_ELEMENTS; i++)
    p[i / MATRIX_ELEMENTS]->out[i % MATRIX_ELEMENTS] = k_var(k, none);
  for (int i = 0; i < 2 * n; i++)
    p[i / 2]->dot[i % 2] = k_var(k, none);
  k_loop l = k_loop_rolled(k, zero, end, k_index(k, ALONG));
  val next = next_column(k, l.i, end, ALONG);
  for (int i = 0; i < n; i++)
    add_step(s, p[i], next);
  k_loop_end(k, &l);
  for (int i = 0; i < n * MATRIX_ELEMENTS; i++) {
    val *x = &p[i / MATRIX_ELEMENTS]->out[i % MATRIX_ELEMENTS];
    *x = k_get(k, *x);
  }
  for (int i = 0; i < 2 * n; i++) {
    val sum = k_get(k, p[i / 2]->dot[i % 2]);
    if (!p[i / 2]->also)
      continue;
    sum = k_add(k, sum, k_shuffle_xor(k, sum, 1));
    p[i / 2]->dot[i % 2] = k_add(k, sum, k_shuffle_xor(k, sum, 2));
  }
}

/* --- results --- */

/* The thread's first vector of row g + 8 r of the columns from `column` on. */
static val place_of(const solo *s, int r, val column) {
  kernel *k = s->e->k;
  val row = k_add(k, k_shl(k, s->number, 4), plus(k, s->g, 8 * r));
  val at = k_add(k, k_mul(k, row, k_index(k, s->pitch)), k_shl(k, s->t, 1));
  return k_add(k, at, k_shr(k, column, 2));
}

static val vector_at(const solo *s, val at) {
  spirv *v = &s->e->k->s;
  spirv_id type = spirv_pointer(v, SPV_Workgroup, spirv_vector(v, v->f32, 4));
  return spirv_op(v, SPV_AccessChain, type, SPV_ARGS(s->planes, at));
}

static val vector_get(const solo *s, val at) {
  spirv *v = &s->e->k->s;
  val there = vector_at(s, at);
  return spirv_op(v, SPV_Load, spirv_vector(v, v->f32, 4), SPV_ARGS(there, NON_PRIVATE));
}

static void vector_set(const solo *s, val at, val x) {
  val there = vector_at(s, at);
  spirv_do(&s->e->k->s, SPV_Store, SPV_ARGS(there, x, NON_PRIVATE));
}

void solo_clear(solo *s) {
  kernel *k = s->e->k;
  val zero = k_f32(k, 0), none = k_vector(k, 4, (val[]){zero, zero, zero, zero});
  k_loop l = k_loop_rolled(k, k_index(k, 0), k_index(k, s->columns), k_index(k, ACROSS));
  for (int i = 0; i < 4; i++)
    vector_set(s, plus(k, place_of(s, i / 2, l.i), i & 1), none);
  k_loop_end(k, &l);
}

/* Of 32 columns, made by two matrices, the thread has the eight neighbours from 8 t on, of rows g and g + 8: two vectors a row. Number n
 * of vector i is element i + 2 (n & 1) of that row of matrix n / 2. */
static void add_vector(solo *s, val at, int r, int i, val (*sum)[MATRIX_ELEMENTS], const val *keep,
                       val by) {
  kernel *k = s->e->k;
  val old = vector_get(s, at), x[4];
  for (int n = 0; n < 4; n++) {
    val so_far = k_part(k, old, n), more = sum[n / 2][4 * r + i + 2 * (n & 1)];
    if (keep)
      so_far = k_mul(k, so_far, keep[r]);
    x[n] = k_fma(k, more, by, so_far);
    k_set(k, s->check, k_add(k, k_get(k, s->check), x[n]));
  }
  vector_set(s, at, k_vector(k, 4, x));
}

/* Across: a matrix has two numbers of each row's vector, as its columns g and g + 8. */
void solo_add(solo *s, const val weights[2], const solo_rows *r, const val *keep, val by) {
  kernel *k = s->e->k;
  val zero = k_index(k, 0), end = k_size(k, r->l.width), x[NUMBERS], sum[2][MATRIX_ELEMENTS];
  k_loop l = k_loop_rolled(k, zero, end, k_index(k, ACROSS));
  step_numbers(s, r, x);
  step_load(s, r, next_column(k, l.i, end, ACROSS));
  val power = scale_numbers(s, x, NUMBERS), factor = k_mul(k, crew_power(k, k_neg(k, power)), by);
  for (int m = 0; m < 2; m++) {
    val y[MATRIX_ELEMENTS], b[2];
    for (int n = 0; n < MATRIX_ELEMENTS; n++)
      y[n] = x[4 * (n % 4) + m * 2 + n / 4];
    solo_make(s, MATRIX_B, y, b);
    multiply_all(s, weights, b, sum[m]);
  }
  for (int i = 0; i < 4; i++)
    add_vector(s, plus(k, place_of(s, i / 2, l.i), i & 1), i / 2, i & 1, sum, keep, factor);
  k_loop_end(k, &l);
}

val solo_all_odd(solo *s) {
  kernel *k = s->e->k;
  val size = k_bits(k, k_abs(k, k_get(k, s->check)), k->s.u32), zero = k_index(k, 0);
  size = k_subgroup_max(k, k_max(k, size, k_get(k, s->odd)));
  val first = k_and(k, k_eq(k, s->t, zero), k_eq(k, s->g, zero)), most = 0;
  k_if one = k_if_begin(k, first);
  k_word_set(k, s->words, s->number, size);
  k_if_end(k, &one);
  k_words_barrier(k);
  for (int i = 0; i < s->share; i++) {
    val more = k_word_get(k, s->words, k_index(k, i));
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
    val more = vector_get(s, plus(k, at, p * SOLO_ROWS * s->pitch));
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
