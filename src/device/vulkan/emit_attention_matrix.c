/* ATTENTION by matrices: queries are rows, keys are columns; each subgroup has a running maximum and sum of its rows over its columns. A
 * maximum that grows a little is left as it was, since weights may be above 1: only a larger step scales the sums so far. At
 * the end the subgroups' sums of a row meet in shared memory. See emit_attention_matrix.h. */
#include "device/vulkan/emit_attention_matrix.h"
#include "device/vulkan/emit_attention_plain.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum { NOTE_Q, NOTE_K, NOTE_V, NOTES, WEIGHT_POWER = 6 /* of weights, as halves */ };
#define SLACK 5.0f /* a maximum may grow so much: weights stay below e^5 2^6 < 2^14 */

typedef struct matrix_forward {
  crew c;
  const forward *f;
  plain_block at; /* where the block is */
  query q;        /* of the thread's row */
  crew_tile queries, keys, values;
  crew_rows_of rows;
  crew_sums out;
  val base, sum; /* variables: of the thread's row; the sum is of this thread's columns */
  val lost;      /* variable: i32, by which powers of sums are to fall */
} matrix_forward;

/* --- sizes --- */

static const crew_shape many_rows[] = {{4, 1, 32}, {2, 1, 32}, {2, 1, 16}, {1, 1, 16}};
static const crew_shape few_rows[] = {{1, 4, 16}, {1, 2, 16}, {1, 1, 16}};

static crew crew_for(const emitter *e, const forward *f, crew_shape s, int *out_words) {
  int d = crew_width(size_most(&e->env, f->a.d)), dv = crew_width(size_most(&e->env, f->a.dv));
  emitter *any = (emitter *)(uintptr_t)e;
  crew c = crew_of(any, &f->a, s, 0, 1, NOTES, 0, out_words);
  int columns = crew_columns(&c), rows = crew_rows(&c);
  int both = crew_tile_words(&c, columns, d) + crew_tile_words(&c, columns, dv);
  int queries = crew_tile_words(&c, rows, d), planes = s.columns * crew_plane_words(&c, dv);
  int words = both > queries ? both : queries;
  words = words > planes ? words : planes;
  return crew_of(any, &f->a, s, words, 1, NOTES, PLAIN_FACTS * s.columns * rows, out_words);
}

static bool shape_fits(const emitter *e, const forward *f, crew_shape s) {
  const gpu_target *t = e->env.target;
  int words;
  crew c = crew_for(e, f, s, &words);
  int wide = crew_width(max_i64(size_most(&e->env, f->a.d), size_most(&e->env, f->a.dv)));
  int most = crew_rows(&c) > crew_columns(&c) ? crew_rows(&c) : crew_columns(&c);
  return crew_has_room(e, words) && crew_threads(&s, t) <= t->max_threads &&
         most * wide / 4 <= CREW_VECTORS * crew_threads(&s, t);
}

/* The first that fits; rows 0: none. */
static crew_shape shape_for(const emitter *e, const forward *f) {
  const gpu_target *t = e->env.target;
  const sn_dim heads[2] = {f->a.b, f->a.hk};
  int64_t all = sizes_most(&e->env, 2, f->a.rows), groups = sizes_most(&e->env, 2, heads);
  bool many = groups * (all / (4 * t->matrix[0])) >= t->units / 2;
  int n = many ? (int)COUNT_OF(many_rows) : (int)COUNT_OF(few_rows);
  for (int i = 0; i < n; i++) {
    crew_shape s = many ? many_rows[i] : few_rows[i];
    if (shape_fits(e, f, s))
      return s;
  }
  return (crew_shape){0};
}

bool forward_matrix_fits(const emitter *e, const forward *f) {
  return crew_fits(e, &f->a) && shape_for(e, f).rows > 0;
}

int forward_matrix_rows(const emitter *e, const forward *f) {
  return shape_for(e, f).rows * e->env.target->matrix[0];
}

/* --- where --- */

static void open_tiles(matrix_forward *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  const attending *a = c->a;
  const plain_block *b = &w->at;
  int d = crew_width(size_most(&c->e->env, a->d)), dv = crew_width(size_most(&c->e->env, a->dv));
  row_list keys = {.of = a->k, .width = a->d, .b = b->b, .head = b->kv};
  keys.low = b->low;
  keys.high = b->high;
  row_list queries = {.of = a->q, .width = a->d, .b = b->b, .head = b->kv, .packed = true};
  queries.first = b->first;
  queries.low = k_index(k, 0);
  queries.high = b->rows;
  int columns = crew_columns(c);
  w->queries = (crew_tile){.l = queries, .rows = crew_rows(c), .width = d, .note = NOTE_Q};
  w->keys = (crew_tile){.l = keys, .rows = columns, .width = d, .note = NOTE_K};
  w->values = (crew_tile){.l = keys, .rows = columns, .width = dv, .note = NOTE_V};
  w->values.l.of = a->v;
  w->values.l.width = a->dv;
  w->values.at = crew_tile_words(c, columns, d);
  crew_tile_open(c, &w->queries);
  crew_tile_open(c, &w->keys);
  crew_tile_open(c, &w->values);
  crew_sums_open(c, &w->out, dv);
  crew_rows_open(c, &w->rows, d);
  w->base = k_var(k, k_f32(k, -INFINITY));
  w->sum = k_var(k, k_f32(k, 0));
  w->lost = k_var(k, k_i32(k, 0));
}

/* --- one tile --- */

static void note_odd(matrix_forward *w, val is_odd) {
  kernel *k = w->c.e->k;
  k_set(k, w->c.odd, k_select(k, is_odd, k_u32(k, 1), k_get(k, w->c.odd)));
}

/* A score with all that there may be. */
static val full_score(matrix_forward *w, val first, int i, int j, crew_factors by, val x) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val key = k_add(k, first, plus(k, crew_pair_column(c, i), j));
  x = score_of(c->e, c->a, &w->q, key, crew_scaled(k, x, by), NULL);
  if (c->a->bias->value) /* a NaN would get lost in the maximum */
    note_odd(w, k_ne(k, x, x));
  return x;
}

/* Scores of the thread's row, and the largest of the row. */
static val find_scores(matrix_forward *w, val first, val x[][2]) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  bool simple = crew_is_simple(c->a);
  val power = k_add(k, k_get(k, w->queries.power), k_get(k, w->keys.power)), most = 0;
  val scale = crew_scale_of(c, &w->queries, &w->keys, c->a->scale);
  crew_factors by = crew_factors_of(k, k_neg(k, power));
  crew_bounds bounds = crew_bounds_of(c, w->q.low, w->q.high, first);
  for (int i = 0; i < crew_pairs(c); i++) {
    crew_get_pair(c, 0, i, x[i]);
    for (int j = 0; j < 2; j++) {
      x[i][j] = simple ? crew_bounded(c, &bounds, i, j, k_mul(k, x[i][j], scale))
                       : full_score(w, first, i, j, by, x[i][j]);
      most = most ? k_max(k, most, x[i][j]) : x[i][j];
    }
  }
  most = crew_row_max(c, most);
  note_odd(w, k_eq(k, most, k_f32(k, INFINITY)));
  return most;
}

/* e^(x - base) times 2^power. They are subtracted before anything is rounded: what equals the base weighs just that. */
static val weight_of(matrix_forward *w, val x, val base, int power) {
  kernel *k = w->c.e->k;
  val less = k_sub(k, x, forward_base(w->c.e, base));
  return crew_exp2(k, k_fma(k, less, k_f32(k, CREW_LOG2E), k_f32(k, (float)power)));
}

/* A larger maximum where it grew too much, or a power that fell: what was summed so far is brought to it. */
static void grow(matrix_forward *w, val most) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val old = k_get(k, w->base), lost = k_get(k, w->lost), none = k_i32(k, 0);
  val much = k_lt(k, k_add(k, old, k_f32(k, SLACK)), most);
  val wanted = k_or(k, much, k_ne(k, lost, none));
  val some = crew_any(c, wanted);
  crew_meet(c);
  k_if grows = k_if_begin(k, some);
  val base = k_max(k, old, most), zero = k_f32(k, 0), none_yet = k_eq(k, old, k_f32(k, -INFINITY));
  val keep = k_select(k, none_yet, zero, weight_of(w, old, base, 0));
  k_set(k, w->base, base);
  k_set(k, w->sum, k_mul(k, k_get(k, w->sum), keep));
  val least = k_max(k, lost, k_i32(k, -126));
  crew_put_factor(c, 0, k_mul(k, keep, crew_power(k, least)));
  k_set(k, w->lost, none);
  k_if_end(k, &grows);
  crew_meet(c);
  k_if scales = k_if_begin(k, some);
  crew_scale_rows(c, 0, &w->out);
  k_if_end(k, &scales);
}

static void weigh(matrix_forward *w, val x[][2]) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val base = k_get(k, w->base), sum = k_get(k, w->sum);
  crew_meet(c);
  for (int i = 0; i < crew_pairs(c); i++) {
    for (int j = 0; j < 2; j++) {
      x[i][j] = weight_of(w, x[i][j], base, WEIGHT_POWER);
      sum = k_add(k, sum, x[i][j]);
    }
    crew_put_pair(c, 0, i, x[i]);
  }
  k_set(k, w->sum, sum);
  crew_meet(c);
}

static void use_tile(matrix_forward *w, val first) {
  enum { MOST_PAIRS = 16 };
  crew *c = &w->c;
  val x[MOST_PAIRS][2];
  crew_products(c, &w->rows, &w->keys, 0);
  crew_meet(c);
  val most = find_scores(w, first, x);
  grow(w, most);
  weigh(w, x);
  crew_add(c, 0, &w->values, &w->out);
}

static void take_queries(matrix_forward *w) {
  crew_tile_load(&w->c, &w->queries);
  crew_tile_fill(&w->c, &w->queries);
  crew_take_rows(&w->c, &w->queries, &w->rows);
}

/* The tile that is on its way, to shared memory. */
static void settle(matrix_forward *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  crew_tile_note(c, &w->keys);
  crew_tile_note(c, &w->values);
  k_barrier_shared(k);
  crew_tile_power(c, &w->keys);
  val lost = crew_tile_power(c, &w->values);
  k_set(k, w->lost, k_add(k, k_get(k, w->lost), lost));
  crew_tile_store(c, &w->keys);
  crew_tile_store(c, &w->values);
  k_barrier_shared(k);
}

/* While one tile is used, the next is on its way. The queries come first: they use the memory of tiles. */
static void pass_keys(matrix_forward *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val size = k_index(k, crew_columns(c)), low = w->at.low, high = w->at.high;
  k_loop l = k_loop_begin(k, low, k_add(k, high, size), size);
  val more = k_lt(k, l.i, high);
  w->keys.l.first = w->values.l.first = l.i;
  k_if loads = k_if_begin(k, more);
  crew_tile_load(c, &w->keys);
  crew_tile_load(c, &w->values);
  k_if_end(k, &loads);
  k_if second = k_if_begin(k, k_lt(k, low, l.i));
  use_tile(w, k_sub(k, l.i, size));
  k_if_else(k, &second);
  take_queries(w);
  k_if_end(k, &second);
  k_if stores = k_if_begin(k, more);
  settle(w);
  k_if_end(k, &stores);
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

/* --- results --- */

/* Sums and what is known of rows to shared memory: planes by column of the grid. */
static void put_block(matrix_forward *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  crew_sums_put(c, &w->out, 0, w->values.width);
  val sum = crew_row_sum(c, k_get(k, w->sum));
  val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
  val plane = k_mul(k, c->at_column, k_index(k, crew_rows(c)));
  val at = plus(k, k_mul(k, k_add(k, plane, row), k_index(k, PLAIN_FACTS)), w->at.facts);
  k_if one = k_if_begin(k, k_eq(k, c->place, k_index(k, 0)));
  k_shared_set(k, c->words, at, k_bits(k, k_get(k, w->base), k->s.u32));
  val whole = k_mul(k, sum, k_f32(k, 1.0f / (1 << WEIGHT_POWER)));
  k_shared_set(k, c->words, plus(k, at, 1), k_bits(k, whole, k->s.u32));
  k_if_end(k, &one);
}

sn_status forward_matrix(emitter *e, const forward *f) {
  int words;
  matrix_forward *w = mem_alloc(e->env.ctx, sizeof *w);
  crew_shape shape = shape_for(e, f);
  kernel *k = w ? emit_open(e, crew_threads(&shape, e->env.target)) : NULL;
  if (!k) {
    mem_free(e->env.ctx, w, w ? sizeof *w : 0);
    return SN_ERR_NO_MEMORY;
  }
  w->c = crew_for(e, f, shape, &words);
  w->f = f;
  crew *c = &w->c;
  crew_open(c, words);
  plain_find(e, f, crew_rows(c), &w->at);
  int subgroups = shape.rows * shape.columns;
  w->at.facts = c->notes + NOTES * subgroups;
  open_tiles(w);
  val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
  w->q = query_at(e, &f->a, w->at.b, w->at.kv, k_add(k, w->at.first, row));
  w->q.high = k_min(k, w->q.high, w->at.high); /* a tile may reach into the next part */
  pass_keys(w);
  put_block(w);
  val power = k_add(k, k_get(k, w->values.power), k_i32(k, WEIGHT_POWER));
  w->at.power = k_var(k, power);
  k_if again = k_if_begin(k, crew_all_odd(c, NOTE_Q));
  plain_forward(c, f, &w->at, w->values.width);
  k_if_end(k, &again);
  plain_put(c, f, &w->at, w->values.width);
  mem_free(e->env.ctx, w, sizeof *w);
  return SN_OK;
}
