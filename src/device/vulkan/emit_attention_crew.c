/* Workgroups of subgroups that make products by matrices: their sizes, tiles of halves, powers of two. See
 * emit_attention_matrix.h. */
#include "device/vulkan/emit_attention_matrix.h"

#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum {
  MOST_POWER = 126, /* of numbers that are 0, or nearly */
  TOP = 127 + 11,   /* a number 1.x * 2^(e - 127) times 2^(TOP - e) is below 2^12 */
  HEADROOM = 3,     /* so much more before the power falls */
  NOT_FINITE = 0x7f800000,
  SUBGROUP = 3
};

bool crew_fits(const emitter *e, const attending *a) {
  const gpu_target *t = e->env.target;
  const int *m = t->matrix;
  bool sizes = t->f16 && m[0] > 0 && m[1] > 0 && m[2] > 0 && t->subgroup % m[0] == 0 &&
               m[0] % 4 == 0 && 16 % m[1] == 0 && m[1] % 4 == 0 && 16 % m[2] == 0 &&
               m[2] % 8 == 0 && 8 % (t->subgroup / m[0]) == 0;
  return e->env.precision != SN_PRECISION_EXACT && sizes && size_most(&e->env, a->d) > 0 &&
         size_most(&e->env, a->dv) > 0 && size_most(&e->env, a->d) <= CREW_WIDEST &&
         size_most(&e->env, a->dv) <= CREW_WIDEST;
}

/* The last 4 KiB stay free: on an H200 a kernel of the gradient that used nearly all of it found numbers that are not finite where there
 * were none. Whether it is that is not known; the interpreter finds nothing in that kernel. */
bool crew_has_room(const emitter *e, int words) {
  enum { FREE = 4 << 10 };
  return words * 4 <= e->env.target->shared_bytes - FREE;
}

crew crew_of(emitter *e, const attending *a, crew_shape shape, int tile_words, int n_areas,
             int n_notes, int n_more, int *out_words) {
  const gpu_target *t = e->env.target;
  crew c = {.e = e, .a = a, .shape = shape, .n_areas = n_areas};
  for (int i = 0; i < 3; i++)
    c.size[i] = t->matrix[i];
  c.rows = t->matrix[0];
  c.lanes = t->subgroup / c.rows;
  c.rest = e->env.precision == SN_PRECISION_FAST;
  c.area = c.rows * (shape.each + 4); /* scores in f32, or weights in two halves */
  c.areas = tile_words;
  int subgroups = shape.rows * shape.columns;
  c.notes = c.areas + subgroups * n_areas * c.area;
  *out_words = c.notes + n_notes * subgroups + n_more;
  return c;
}

void crew_open(crew *c, int words) {
  kernel *k = c->e->k;
  k_use_matrices(k, c->size, SN_F16, c->type);
  c->number = k_subgroup_number(k);
  c->at_column = low_part(k, c->number, c->shape.columns);
  c->at_row = high_part(k, c->number, c->shape.columns);
  val lane = k_subgroup_lane(k);
  c->place = low_part(k, lane, c->lanes);
  c->row = high_part(k, lane, c->lanes);
  c->words = k_shared(k, k->s.u32, words);
  c->odd = k_var(k, k_u32(k, 0));
}

val crew_area(const crew *c, int which) {
  kernel *k = c->e->k;
  val mine = k_mul(k, c->number, k_index(k, c->n_areas * c->area));
  return k_add(k, mine, k_index(k, c->areas + which * c->area));
}

/* --- threads of a subgroup --- */

void crew_meet(const crew *c) { k_barrier_subgroup(c->e->k); }

val crew_any(const crew *c, val condition) {
  enum { ANY = 335, VOTE = 62, NON_UNIFORM = 61 };
  kernel *k = c->e->k;
  spirv_capability(&k->s, NON_UNIFORM);
  spirv_capability(&k->s, VOTE);
  val scope = k_u32(k, SUBGROUP);
  return spirv_op(&k->s, ANY, k->s.boolean, SPV_ARGS(scope, condition));
}

val crew_row_max(const crew *c, val x) {
  for (int by = 1; by < c->lanes; by *= 2)
    x = k_max(c->e->k, x, k_shuffle_xor(c->e->k, x, by));
  return x;
}

val crew_row_sum(const crew *c, val x) {
  for (int by = 1; by < c->lanes; by *= 2)
    x = k_add(c->e->k, x, k_shuffle_xor(c->e->k, x, by));
  return x;
}

/* A number of each subgroup to its note; behind a barrier, the largest. */
static void put_note(const crew *c, int note, val x) {
  kernel *k = c->e->k;
  val all = k_subgroup_max(k, x), zero = k_index(k, 0);
  val first = k_and(k, k_eq(k, c->row, zero), k_eq(k, c->place, zero));
  k_if one = k_if_begin(k, first);
  int subgroups = c->shape.rows * c->shape.columns;
  k_shared_set(k, c->words, plus(k, c->number, c->notes + note * subgroups), all);
  k_if_end(k, &one);
}

static val get_note(const crew *c, int note) {
  kernel *k = c->e->k;
  int subgroups = c->shape.rows * c->shape.columns, first = c->notes + note * subgroups;
  val all = k_shared_get(k, c->words, k_index(k, first));
  for (int i = 1; i < subgroups; i++) {
    val more = k_shared_get(k, c->words, k_index(k, first + i));
    all = k_max(k, all, more);
  }
  return all;
}

val crew_all_odd(crew *c, int note) {
  kernel *k = c->e->k;
  k_barrier_shared(k);
  put_note(c, note, k_get(k, c->odd));
  k_barrier_shared(k);
  return k_ne(k, get_note(c, note), k_u32(k, 0));
}

/* --- powers of two --- */

val crew_power(kernel *k, val n) {
  val bits = k_shl(k, k_add(k, n, k_i32(k, 127)), 23);
  return k_bits(k, bits, k->s.f32);
}

/* Two halves of n, of its sign: neither end of the range is cut off early. */
crew_factors crew_factors_of(kernel *k, val n) {
  val half = spirv_op(&k->s, SPV_ShiftRightArithmetic, k->s.i32, SPV_ARGS(n, k_u32(k, 1)));
  crew_factors f = {{crew_power(k, half), 0}};
  f.by[1] = crew_power(k, k_sub(k, n, half));
  return f;
}

val crew_scaled(kernel *k, val x, crew_factors f) {
  return k_mul(k, k_mul(k, x, f.by[0]), f.by[1]);
}

enum { EXP2 = 29 };

val crew_exp2(kernel *k, val x) {
  /* what -inf becomes is the driver's choice where it does not keep such numbers */
  val at_least = k->env->target->keeps_nan ? x : k_max(k, x, k_f32(k, -200.0f));
  return k_glsl(k, EXP2, at_least);
}

val crew_exp(kernel *k, val x) { return crew_exp2(k, k_mul(k, x, k_f32(k, CREW_LOG2E))); }

/* --- simple scores --- */

val crew_scale_of(const crew *c, const crew_tile *x, const crew_tile *y, float scale) {
  kernel *k = c->e->k;
  val power = k_add(k, k_get(k, x->power), k_get(k, y->power));
  crew_factors f = crew_factors_of(k, k_neg(k, power));
  return k_mul(k, k_mul(k, f.by[0], k_f32(k, scale)), f.by[1]);
}

crew_bounds crew_bounds_of(const crew *c, val low, val high, val first) {
  kernel *k = c->e->k;
  val mine = k_add(k, k_mul(k, c->at_column, k_index(k, c->shape.each)), k_shl(k, c->place, 1));
  mine = k_add(k, mine, first);
  crew_bounds b = {.high = k_sub(k, high, mine)};
  if (c->a->window > 0)
    b.low = k_sub(k, low, mine);
  return b;
}

val crew_bounded(const crew *c, const crew_bounds *b, int i, int j, val x) {
  kernel *k = c->e->k;
  val column = k_index(k, 2 * i * c->lanes + j), seen = k_lt(k, column, b->high);
  if (b->low)
    seen = k_and(k, seen, k_le(k, b->low, column));
  return k_select(k, seen, x, k_f32(k, -INFINITY));
}

/* --- tiles of halves --- */

void crew_tile_open(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  spirv_id type = tile_raw_type(c->e, &t->l);
  int all = t->rows * t->width / 4;
  t->n = (all + k->threads - 1) / k->threads;
  if (t->n > CREW_VECTORS) {
    k->why = "too large tiles";
    t->n = CREW_VECTORS;
  }
  t->power = k_var(k, k_i32(k, MOST_POWER));
  for (int i = 0; i < t->n; i++)
    t->kept[i] = spirv_local(&k->s, type);
}

/* Row and column of the thread's i-th vector. */
static val vector_at(crew *c, const crew_tile *t, int i, val *column) {
  kernel *k = c->e->k;
  sn_dim each = t->width / 4;
  val p = plus(k, k->local, (int64_t)i * k->threads), row;
  if ((each & (each - 1)) == 0) {
    *column = low_part(k, p, (int)each);
    row = high_part(k, p, (int)each);
  } else {
    amount by = amount_of(&each);
    row = k_divide(k, p, &by, column);
  }
  *column = k_shl(k, *column, 2);
  return row;
}

void crew_tile_load(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  for (int i = 0; i < t->n; i++) {
    val column, row = vector_at(c, t, i, &column), number = k_add(k, t->l.first, row);
    k_set(k, t->kept[i], tile_load_raw(c->e, c->a, &t->l, number, column));
  }
}

void crew_tile_note(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  val most = k_u32(k, 0), size = k_u32(k, 0x7fffffff);
  for (int i = 0; i < t->n; i++) {
    val column, row = vector_at(c, t, i, &column), number = k_add(k, t->l.first, row);
    t->now[i] = tile_load_end(c->e, &t->l, number, column, k_get(k, t->kept[i]));
    for (int j = 0; j < 4; j++) {
      val bits = k_and(k, k_bits(k, k_part(k, t->now[i], j), k->s.u32), size);
      most = k_max(k, most, bits);
    }
  }
  put_note(c, t->note, most);
}

val crew_tile_power(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  val most = get_note(c, t->note), old = k_get(k, t->power);
  val is_odd = k_le(k, k_u32(k, NOT_FINITE), most);
  k_set(k, c->odd, k_select(k, is_odd, k_u32(k, 1), k_get(k, c->odd)));
  val wanted = k_sub(k, k_i32(k, TOP), k_bits(k, k_shr(k, most, 23), k->s.i32));
  val falls = k_lt(k, k_add(k, wanted, k_i32(k, HEADROOM)), old);
  val now = k_select(k, falls, wanted, old);
  k_set(k, t->power, now);
  return k_sub(k, now, old);
}

/* Two numbers as halves to word `at`, and what those leave `apart` words further. */
static void put_two(const crew *c, val at, int apart, const val x[2]) {
  kernel *k = c->e->k;
  val first, rest;
  k_two_halves(k, x, &first, c->rest ? &rest : NULL);
  k_shared_set(k, c->words, at, first);
  if (c->rest)
    k_shared_set(k, c->words, plus(k, at, apart), rest);
}

void crew_tile_store(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  int stride = crew_stride(c, t->width), all = t->rows * t->width / 4;
  val by = crew_power(k, k_get(k, t->power));
  for (int i = 0; i < t->n; i++) {
    val column, row = vector_at(c, t, i, &column), v = t->now[i], x[4];
    val at = k_add(k, k_mul(k, row, k_index(k, stride)), k_shr(k, column, 1));
    at = plus(k, at, t->at);
    for (int j = 0; j < 4; j++)
      x[j] = k_mul(k, k_part(k, v, j), by);
    bool whole = (i + 1) * k->threads <= all;
    k_if inside = {0};
    if (!whole)
      inside = k_if_begin(k, k_lt(k, row, k_index(k, t->rows)));
    for (int j = 0; j < 4; j += 2)
      put_two(c, plus(k, at, j / 2), t->width / 2, x + j);
    if (!whole)
      k_if_end(k, &inside);
  }
}

void crew_tile_fill(crew *c, crew_tile *t) {
  kernel *k = c->e->k;
  crew_tile_note(c, t);
  k_barrier_shared(k);
  crew_tile_power(c, t);
  crew_tile_store(c, t);
  k_barrier_shared(k);
}

/* --- pairs of scores and weights --- */

static val pair_at(crew *c, int which, int i, int stride, int words) {
  kernel *k = c->e->k;
  val line = k_mul(k, c->row, k_index(k, stride));
  val pair = plus(k, c->place, (int64_t)i * c->lanes);
  val in = words == 2 ? k_shl(k, pair, 1) : pair;
  return k_add(k, k_add(k, crew_area(c, which), line), in);
}

void crew_get_pair(crew *c, int which, int i, val out[2]) {
  kernel *k = c->e->k;
  val at = pair_at(c, which, i, c->shape.each + 4, 2);
  for (int j = 0; j < 2; j++)
    out[j] = k_bits(k, k_shared_get(k, c->words, plus(k, at, j)), k->s.f32);
}

val crew_pair_column(crew *c, int i) {
  kernel *k = c->e->k;
  val first = k_mul(k, c->at_column, k_index(k, c->shape.each));
  return k_add(k, first, k_shl(k, plus(k, c->place, (int64_t)i * c->lanes), 1));
}

void crew_put_pair(crew *c, int which, int i, const val x[2]) {
  put_two(c, pair_at(c, which, i, c->shape.each + 4, 1), c->shape.each / 2, x);
}
