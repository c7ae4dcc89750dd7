/* ATTENTION of many rows: see emit_attention_flash.h. Queries are rows, keys are columns. A row's weights are e^(score - base), where base is
 * the largest score of the first step in which it sees a key. It stays: weights have f32's range and are as exact where they are large, so
 * sums are never scaled; scores that lie some 60 above the base make sums that are not finite, and a plain block.
 * Scores stay products until weights are made of them, where the scale is more than 0. */
#include "device/vulkan/emit_attention_flash.h"
#include "device/vulkan/emit_attention_solo.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum {
  TILES = 2, /* of keys, in a step */
  STEP = TILES * FLASH_SIDE,
  SCORES = TILES * MATRIX_ELEMENTS,
  KEYS = 0, /* lists */
  VALUES = 1
};
#define LN2 0x1.62e43p-1f

typedef struct flash_forward {
  flash f;
  const forward *o;
  flash_operand queries, keys, values;
  flash_course course;
  val own[FLASH_MATRICES][2];
  val low[2], high[2];     /* keys that the thread's rows see, where they differ */
  val base[2], sum[2];     /* variables: of the rows; the sum is of this thread's columns */
  val out[FLASH_MATRICES]; /* variables: matrices */
  crew c;                  /* of the plain block */
  plain_block at;
  val first; /* row of the subgroup */
  val words; /* shared */
} flash_forward;

bool forward_flash_fits(const emitter *e, const forward *f) {
  return flash_fits(e, &f->a) && sizes_most(&e->env, 2, f->a.rows) >= FLASH_LEAST;
}

/* --- where --- */

static void open_rows(flash_forward *w) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  for (int i = 0; i < 2; i++) {
    if (f->a->causal) {
      val row = k_add(k, w->first, plus(k, f->g, 8 * i));
      query q = query_at(f->e, f->a, w->at.b, w->at.kv, row);
      w->low[i] = q.low;
      w->high[i] = k_min(k, q.high, w->at.high); /* a step may reach into the next part */
    }
    w->base[i] = k_var(k, k_f32(k, -INFINITY));
    w->sum[i] = k_var(k, k_f32(k, 0));
  }
  for (int i = 0; i < w->values.n; i++)
    w->out[i] = k_var(k, k_matrix_of(k, f->type[MATRIX_SUM], 0));
  val list = flash_address(f, &w->queries, w->at.b, w->at.kv);
  val tile = flash_tile(f, &w->queries, list, w->first);
  for (int i = 0; i < w->queries.n; i++)
    flash_matrix(f, MATRIX_A, &w->queries, tile, i, w->own[i]);
}

static void open_course(flash_forward *w) {
  flash_course *c = &w->course;
  c->n_lists = 2;
  c->o[KEYS] = &w->keys;
  c->o[VALUES] = &w->values;
  for (int i = 0; i < 2; i++)
    c->at[i] = flash_address(&w->f, c->o[i], w->at.b, w->at.kv);
  for (int i = 0; i < w->keys.n; i++)
    flash_add_stage(c, 2, (struct flash_source[]){{KEYS, 0, i}, {KEYS, 1, i}});
  for (int i = 0; i < TILES; i++)
    for (int j = 0; j < w->values.n; j += 2)
      flash_add_stage(c, 2, (struct flash_source[]){{VALUES, i, j}, {VALUES, i, j + 1}});
}

/* --- scores --- */

static float unit_of(const attending *a) { return (a->scale > 0 ? a->scale : 1) * CREW_LOG2E; }

/* Scores in units of log 2 / unit. */
static void find_scores(flash_forward *w, val x[SCORES]) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  val sum[TILES], loaded[2][2], scale = k_f32(k, f->a->scale);
  for (int i = 0; i < TILES; i++)
    sum[i] = k_matrix_of(k, f->type[MATRIX_SUM], 0);
  for (int s = 0; s < w->keys.n; s++) {
    flash_course_use(f, &w->course, s, loaded);
    const val *a[TILES] = {w->own[s], w->own[s]}, *b[TILES] = {loaded[0], loaded[1]};
    flash_multiply(f, TILES, a, b, sum);
  }
  for (int i = 0; i < TILES; i++)
    k_matrix_sums(k, sum[i], x + i * MATRIX_ELEMENTS);
  for (int i = 0; i < SCORES && !(f->a->scale > 0); i++)
    x[i] = k_mul(k, x[i], scale);
}

/* -inf where nothing is seen. */
static val bounded(flash_forward *w, int r, val key, val x) {
  kernel *k = w->f.e->k;
  val seen = k_lt(k, key, w->f.a->causal ? w->high[r] : w->at.high);
  if (w->f.a->window > 0)
    seen = k_and(k, seen, k_le(k, w->low[r], key));
  return k_select(k, seen, x, k_f32(k, -INFINITY));
}

/* Score i is of row g + 8 r, r = i / 4 % 2. Where all see the same keys, only the last step has such as are not seen. */
static void bound_scores(flash_forward *w, val first, val x[SCORES]) {
  kernel *k = w->f.e->k;
  val held[SCORES], mine = k_add(k, first, flash_column(&w->f, 0));
  k_if last = {0};
  bool always = w->f.a->causal;
  if (!always) {
    for (int i = 0; i < SCORES; i++)
      held[i] = k_var(k, x[i]);
    last = k_if_begin(k, k_lt(k, w->at.high, plus(k, first, STEP)));
  }
  for (int i = 0; i < SCORES; i++) {
    int column = (i & 1) + (i & 2) * 4 + i / MATRIX_ELEMENTS * FLASH_SIDE;
    x[i] = bounded(w, i / 4 % 2, plus(k, mine, column), x[i]);
    if (!always)
      k_set(k, held[i], x[i]);
  }
  if (always)
    return;
  k_if_end(k, &last);
  for (int i = 0; i < SCORES; i++)
    x[i] = k_get(k, held[i]);
}

/* --- weights --- */

static val row_max(kernel *k, int r, const val x[SCORES]) {
  val most = 0;
  for (int i = 0; i < SCORES; i++)
    if (i / 4 % 2 == r)
      most = most ? k_max(k, most, x[i]) : x[i];
  most = k_max(k, most, k_shuffle_xor(k, most, 1));
  return k_max(k, most, k_shuffle_xor(k, most, 2));
}

/* Rows that have seen nothing so far: the largest score is their base. */
static void find_bases(flash_forward *w, const val x[SCORES]) {
  kernel *k = w->f.e->k;
  val old[2], without[2], none = k_f32(k, -INFINITY);
  for (int r = 0; r < 2; r++) {
    old[r] = k_get(k, w->base[r]);
    without[r] = k_eq(k, old[r], none);
  }
  k_if some = k_if_begin(k, crew_any(&w->c, k_or(k, without[0], without[1])));
  for (int r = 0; r < 2; r++)
    k_set(k, w->base[r], k_select(k, without[r], row_max(k, r, x), old[r]));
  k_if_end(k, &some);
}

/* Scores become weights. */
static void weigh(flash_forward *w, val x[SCORES]) {
  kernel *k = w->f.e->k;
  val unit = k_f32(k, unit_of(w->f.a)), base[2], sum[2];
  for (int r = 0; r < 2; r++) {
    base[r] = k_neg(k, k_mul(k, forward_base(w->f.e, k_get(k, w->base[r])), unit));
    sum[r] = k_get(k, w->sum[r]);
  }
  for (int i = 0; i < SCORES; i++) {
    int r = i / 4 % 2;
    x[i] = crew_exp2(k, k_fma(k, x[i], unit, base[r]));
    sum[r] = k_add(k, sum[r], x[i]);
  }
  for (int r = 0; r < 2; r++)
    k_set(k, w->sum[r], sum[r]);
}

static void add_values(flash_forward *w, val weights[TILES][2]) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  val sum[2], loaded[2][2];
  for (int s = w->keys.n; s < w->course.n; s++) {
    const struct flash_source *of = w->course.stages[s].of;
    flash_course_use(f, &w->course, s, loaded);
    for (int i = 0; i < 2; i++)
      sum[i] = k_get(k, w->out[of->number + i]);
    const val *a[2] = {weights[of->further], weights[of->further]};
    const val *b[2] = {loaded[0], loaded[1]};
    flash_multiply(f, 2, a, b, sum);
    for (int i = 0; i < 2; i++)
      k_set(k, w->out[of->number + i], sum[i]);
  }
}

static void use_step(flash_forward *w, val first) {
  kernel *k = w->f.e->k;
  val x[SCORES], weights[TILES][2], last = k_and(k, plus(k, w->at.high, -1), k_index(k, -STEP));
  flash_course_begin(&w->f, &w->course, first, k_min(k, plus(k, first, STEP), last));
  find_scores(w, x);
  bound_scores(w, first, x);
  find_bases(w, x);
  weigh(w, x);
  for (int i = 0; i < TILES; i++)
    flash_weights(&w->f, x + i * MATRIX_ELEMENTS, weights[i]);
  add_values(w, weights);
  flash_course_end(&w->f, &w->course);
}

/* --- results --- */

static void put_four(flash_forward *w, const query *q, val number, val column, const val x[4]) {
  emitter *e = w->f.e;
  kernel *k = e->k;
  const forward *f = w->o;
  val width = k_size(k, f->a.dv);
  if (!f->cut) {
    solo_store(e, f->out, (val[]){w->at.b, q->head, q->i}, column, x);
    return;
  }
  if (dim_is_number(f->a.dv) && f->a.dv % 4 == 0) {
    k_if inside = k_if_begin(k, k_lt(k, column, width));
    val at = k_shr(k, k_add(k, k_mul(k, number, width), column), 2);
    k_store(k, k_scratch(k, f->sums), at, k_vector(k, 4, x));
    k_if_end(k, &inside);
    return;
  }
  for (int i = 0; i < 4; i++) {
    val c = plus(k, column, i);
    k_if inside = k_if_begin(k, k_lt(k, c, width));
    forward_put_part(e, f, number, c, x[i]);
    k_if_end(k, &inside);
  }
}

/* What is known of a row, for the thread that has its first columns. */
static void put_facts(flash_forward *w, const query *q, val number, val max, val sum, val lse) {
  emitter *e = w->f.e;
  kernel *k = e->k;
  if (!w->o->cut && !w->o->lse->value)
    return;
  k_if one = k_if_begin(k, k_eq(k, w->f.t, k_index(k, 0)));
  if (w->o->cut)
    forward_put_facts(e, w->o, number, max, sum);
  else
    core_store(e, w->o->lse, (val[]){w->at.b, q->head, q->i}, lse);
  k_if_end(k, &one);
}

static void put_row(flash_forward *w, int r, val (*out)[MATRIX_ELEMENTS], val sum) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  val row = k_add(k, w->first, plus(k, f->g, 8 * r));
  const query of = query_at(f->e, f->a, w->at.b, w->at.kv, row), *q = &of;
  val max = k_mul(k, k_get(k, w->base[r]), k_f32(k, unit_of(f->a) * LN2)), number = 0;
  row_end end = {.scale = k_f32(k, 1)};
  if (!w->o->cut)
    end = forward_end(f->e, w->o, q, max, sum);
  k_if there = k_if_begin(k, q->there);
  if (w->o->cut)
    number = forward_part_at(f->e, w->o, w->at.b, w->at.kv, row, w->at.part);
  for (int j = 0; j < w->values.n; j++) {
    val x[4], column = plus(k, k_shl(k, f->t, 3), (j / 2 * 2 * FLASH_SIDE) + j % 2 * 4);
    flash_neighbours(out + (j & ~1), r, j & 1, x);
    for (int i = 0; i < 4 && !w->o->cut; i++)
      x[i] = k_mul(k, x[i], end.scale);
    put_four(w, q, number, column, x);
  }
  put_facts(w, q, number, max, sum, end.lse);
  k_if_end(k, &there);
}

/* The block again, 16 rows at a time. */
static void put_plainly(flash_forward *w) {
  kernel *k = w->f.e->k;
  plain_block at = w->at;
  val rows = k_index(k, FLASH_ROWS), end = k_min(k, k_add(k, w->at.first, rows), at.rows);
  k_loop l = k_loop_rolled(k, w->at.first, end, k_index(k, FLASH_SIDE));
  at.first = l.i;
  plain_forward(&w->c, w->o, &at, flash_columns(&w->values));
  plain_put(&w->c, w->o, &at, flash_columns(&w->values));
  k_barrier_shared(k);
  k_loop_end(k, &l);
}

/* Infinite where the base is so large that a unit in its last place is more than 1: the weight of a score that equals it may then be
 * anything, because the two are rounded apart (weigh). */
static val base_is_odd(flash_forward *w, int r) {
  kernel *k = w->f.e->k;
  val base = forward_base(w->f.e, k_get(k, w->base[r])), unit = k_f32(k, unit_of(w->f.a));
  val large = k_lt(k, k_f32(k, 0x1p24f), k_abs(k, k_mul(k, base, unit)));
  return k_select(k, large, k_f32(k, INFINITY), k_f32(k, 0));
}

static void put_results(flash_forward *w) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  val out[FLASH_MATRICES][MATRIX_ELEMENTS], sum[2], all = k_f32(k, 0);
  for (int r = 0; r < 2; r++) {
    val x = k_get(k, w->sum[r]);
    x = k_add(k, x, k_shuffle_xor(k, x, 1));
    sum[r] = k_add(k, x, k_shuffle_xor(k, x, 2));
    all = k_add(k, all, k_add(k, sum[r], base_is_odd(w, r)));
  }
  for (int j = 0; j < w->values.n; j++) {
    k_matrix_sums(k, k_get(k, w->out[j]), out[j]);
    for (int i = 0; i < MATRIX_ELEMENTS; i++)
      all = k_add(k, all, out[j][i]);
  }
  k_if again = k_if_begin(k, flash_any_odd(f, w->words, all));
  put_plainly(w);
  k_if_else(k, &again);
  for (int r = 0; r < 2; r++)
    put_row(w, r, out, sum[r]);
  k_if_end(k, &again);
}

/* --- the kernel --- */

static void emit_body(flash_forward *w) {
  flash *f = &w->f;
  kernel *k = f->e->k;
  flash_open(f, f->e, &w->o->a);
  w->words = k_shared(k, k->s.u32, FLASH_TEAM);
  plain_find(f->e, w->o, FLASH_ROWS, &w->at);
  w->c = plain_open(f->e, f->a, FLASH_SIDE, flash_columns(&w->values), &w->at);
  w->first = k_add(k, w->at.first, k_shl(k, f->number, 4));
  open_rows(w);
  open_course(w);
  val from = k_and(k, w->at.low, k_index(k, -STEP));
  flash_course_open(f, &w->course, from, k_lt(k, from, w->at.high));
  k_loop l = k_loop_rolled(k, from, w->at.high, k_index(k, STEP));
  use_step(w, l.i);
  k_loop_end(k, &l);
  put_results(w);
}

/* --- launches --- */

/* Cost of keys in so many parts, in keys: of the unit with most workgroups, which begin and end; of joining the parts. */
static int64_t cost_of(int64_t units, int64_t groups, int64_t keys, int64_t parts) {
  enum { BEGIN = 48, JOIN = 32, LAUNCH = 64 };
  int64_t most = (groups * parts + units - 1) / units, join = JOIN * parts * groups / units;
  return most * (keys / parts + BEGIN) + (parts > 1 ? join + LAUNCH : 0);
}

/* Keys in parts, where blocks of rows alone do not fit the units. */
static void cut(const emitter *e, forward *f, int64_t rows) {
  enum { MOST_PARTS = 16, LEAST = 128 };
  const sn_dim heads[2] = {f->a.b, f->a.hk};
  int64_t keys = size_most(&e->env, f->a.skv), units = e->env.target->units, parts = 1;
  int64_t groups = sizes_most(&e->env, 2, heads) * ((rows + FLASH_ROWS - 1) / FLASH_ROWS);
  for (int64_t n = 2; n <= MOST_PARTS && keys / n >= LEAST; n++)
    if (cost_of(units, groups, keys, n) < cost_of(units, groups, keys, parts))
      parts = n;
  f->part = (int)((keys + parts * FLASH_STEP - 1) / (parts * FLASH_STEP) * FLASH_STEP);
  f->cut = f->part > 0 && keys > f->part;
}

static sn_status attend(emitter *e, const forward *f) {
  const attending *a = &f->a;
  const flash_operand o[3] = {flash_operand_of(e, a, a->q, true, false),
                              flash_operand_of(e, a, a->k, false, false),
                              flash_operand_of(e, a, a->v, false, true)};
  int first = flash_same_lists(a) ? 3 : 1;
  SN_TRY(flash_pack(e, a, first, o, NULL, NULL));
  SN_TRY(forward_launch(e, f, false));
  if (first < 3) {
    SN_TRY(flash_pack(e, a, 3 - first, o + first, NULL, NULL));
    SN_TRY(forward_launch(e, f, false));
  }
  flash_forward *w = mem_alloc(e->env.ctx, sizeof *w);
  kernel *k = w ? emit_open(e, FLASH_TEAM * e->env.target->subgroup) : NULL;
  if (k) {
    *w = (flash_forward){.f = {.e = e}, .o = f};
    w->queries = o[0];
    w->keys = o[1];
    w->values = o[2];
    emit_body(w);
  }
  mem_free(e->env.ctx, w, w ? sizeof *w : 0);
  return k ? forward_launch(e, f, true) : SN_ERR_NO_MEMORY;
}

sn_status forward_flash(emitter *e, forward *f, int64_t rows) {
  cut(e, f, rows);
  return forward_all(e, f, rows, attend);
}
