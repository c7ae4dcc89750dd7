/* Attention of a few queries: a kernel that is short from start to end, for models that write. A thread has a key for the products, reads
 * its row from memory; then 16 threads a row make weights of the scores; then each has four columns of every eighth value.
 * See emit_attention.h. */
#include "device/vulkan/emit_attention.h"

#include <math.h>

enum { KEYS = 128, LANES = 16, SLICES = KEYS / LANES, TOGETHER = 4, GROUPS = 2 };
enum {
  MOST_TOGETHER = KEYS / SLICES
}; /* loads that are under way at a time; of values, all of a thread's */

typedef struct few {
  const forward *f;
  int rows, groups,
      pitch; /* rows that the code is for; vectors of a row of results a thread has; vectors of a query */
  int together;           /* loads of a key */
  bool ahead;             /* values are loaded before their weights are known */
  val b, kv, part, start; /* start: the first column of results */
  val low, high;          /* keys */
  val row, lane;          /* of this thread; the row is its slice of the values, too */
  val active;             /* the code has this row */
  query q;                /* of the row */
  val queries, scores,
      sums; /* shared: vectors [rows][pitch]; f32 [rows][KEYS + 1]; vectors [SLICES][rows][LANES] */
  val fold, factors;            /* shared: f32 [KEYS], [rows] */
  val max, sum;                 /* variables: of the row; the sum is of this thread's keys */
  val out[FORWARD_FEW][GROUPS]; /* variables */
} few;

static few few_of(const emitter *e, const forward *f) {
  enum { MANY_UNITS = 32 };
  few w = {.f = f};
  w.rows = (int)min_i64(FORWARD_FEW, max_i64(1, sizes_most(&e->env, 2, f->a.rows)));
  w.groups = size_most(&e->env, f->a.dv) > 4 * LANES ? GROUPS : 1;
  w.pitch = (int)((size_most(&e->env, f->a.d) + 4 * TOGETHER - 1) / (4 * TOGETHER) * TOGETHER);
  /* Software has nothing to wait for, and compiles longer than it runs. */
  bool waits = e->env.target->units >= MANY_UNITS;
  w.ahead = waits && w.groups == 1;
  w.together = TOGETHER;
  while (waits && w.together < MOST_TOGETHER && w.pitch % (2 * w.together) == 0)
    w.together *= 2;
  return w;
}

bool forward_fits(const emitter *e, const forward *f) {
  enum { WIDEST = 1024 };
  if (size_most(&e->env, f->a.d) > WIDEST)
    return false;
  few w = few_of(e, f);
  int vectors = w.rows * (w.pitch + SLICES * LANES), floats = w.rows * (KEYS + 2) + KEYS;
  return vectors * 16 + floats * 4 <= e->env.target->shared_bytes;
}

static row_list list_of(emitter *e, const few *w, const strided *of, sn_dim width, bool keys) {
  val zero = k_index(e->k, 0), all = k_sizes(e->k, 2, w->f->a.rows);
  return (row_list){.of = of,
                    .width = width,
                    .b = w->b,
                    .head = w->kv,
                    .packed = !keys,
                    .first = zero,
                    .low = keys ? w->low : zero,
                    .high = keys ? w->high : all};
}

/* --- where --- */

static void find(emitter *e, few *w) {
  kernel *k = e->k;
  const forward *f = w->f;
  const attending *a = &f->a;
  amount columns = amount_tiles(&f->columns, 4 * LANES * w->groups), heads = amount_of(&a->hk);
  amount parts = amount_tiles(&a->skv, f->part);
  val number, rest = k_divide(k, k->group, &columns, &number), zero = k_index(k, 0);
  w->start = k_mul(k, number, k_index(k, 4 * LANES * w->groups));
  if (f->cut)
    rest = k_divide(k, rest, &parts, &w->part);
  w->b = k_divide(k, rest, &heads, &w->kv);
  val last = k_sub(k, k_sizes(k, 2, a->rows), k_index(k, 1));
  queries_see(e, a, w->b, zero, last, &w->low, &w->high);
  if (f->cut) {
    val from = k_mul(k, w->part, k_index(k, f->part));
    w->low = k_max(k, w->low, from);
    w->high = k_min(k, w->high, k_add(k, from, k_index(k, f->part)));
  }
  w->lane = k_and(k, k->local, k_index(k, LANES - 1));
  w->row = k_shr(k, k->local, __builtin_ctz(LANES));
  w->active = k_lt(k, w->row, k_index(k, w->rows));
  w->q = query_at(e, a, w->b, w->kv, w->row);
  w->q.high = k_min(k, w->q.high, w->high);
  kernel_grid(k, f->cut ? 3 : 2, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, columns, parts});
}

static void open_shared(emitter *e, few *w) {
  kernel *k = e->k;
  spirv_id four = spirv_vector(&k->s, k->s.f32, 4);
  val zero = k_f32(k, 0), nothing = k_vector(k, 4, (val[]){zero, zero, zero, zero});
  w->queries = k_shared(k, four, w->rows * (w->pitch > 0 ? w->pitch : 1));
  w->scores = k_shared(k, k->s.f32, w->rows * (KEYS + 1));
  w->sums = k_shared(k, four, SLICES * w->rows * LANES);
  w->fold = k_shared(k, k->s.f32, KEYS);
  w->factors = k_shared(k, k->s.f32, w->rows);
  w->max = k_var(k, k_f32(k, -INFINITY));
  w->sum = k_var(k, zero);
  for (int i = 0; i < w->rows * w->groups; i++)
    w->out[i / w->groups][i % w->groups] = k_var(k, nothing);
}

/* Rows of q, with zeros behind them. */
static void load_queries(emitter *e, const few *w) {
  kernel *k = e->k;
  sn_dim pitch = w->pitch;
  amount by = amount_of(&pitch);
  row_list l = list_of(e, w, w->f->a.q, w->f->a.d, false);
  k_loop p = k_loop_begin(k, k->local, k_index(k, w->rows * w->pitch), k_index(k, KEYS));
  val c, row = k_divide(k, p.i, &by, &c);
  k_shared_set(k, w->queries, p.i, tile_load_vector(e, &w->f->a, &l, row, k_shl(k, c, 2)));
  k_loop_end(k, &p);
}

/* --- scores --- */

static val score_at(emitter *e, val row, val key) {
  return k_add(e->k, k_mul(e->k, row, k_index(e->k, KEYS + 1)), key);
}

/* Products of all rows with the thread's key. */
static void multiply(emitter *e, const few *w, val first) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), number = k_add(k, first, k->local), x[MOST_TOGETHER], sum[FORWARD_FEW];
  int n = w->together;
  row_list l = list_of(e, w, w->f->a.k, w->f->a.d, true);
  for (int r = 0; r < w->rows; r++)
    sum[r] = k_var(k, zero);
  k_loop d = k_loop_begin(k, k_index(k, 0), k_index(k, w->pitch), k_index(k, n));
  for (int i = 0; i < n; i++) {
    val column = k_shl(k, k_add(k, d.i, k_index(k, i)), 2);
    x[i] = tile_load_vector(e, &w->f->a, &l, number, column);
  }
  for (int i = 0; i < n * w->rows; i++) {
    int r = i / n;
    val at = k_add(k, d.i, k_index(k, r * w->pitch + i % n)), s = k_get(k, sum[r]);
    val y = k_shared_get(k, w->queries, at);
    for (int c = 0; c < 4; c++) {
      val left = k_part(k, y, c), right = k_part(k, x[i % n], c);
      s = k_fma(k, left, right, s);
    }
    k_set(k, sum[r], s);
  }
  k_loop_end(k, &d);
  for (int r = 0; r < w->rows; r++)
    k_shared_set(k, w->scores, k_add(k, k->local, k_index(k, r * (KEYS + 1))), k_get(k, sum[r]));
}

/* Over the threads of a row. */
static val fold_lanes(emitter *e, const few *w, tile_fold fold, val mine) {
  kernel *k = e->k;
  val first = k_sub(k, k->local, w->lane), one = k_index(k, 1);
  k_shared_set(k, w->fold, k->local, mine);
  k_barrier(k);
  val all = k_var(k, k_shared_get(k, w->fold, first));
  k_loop i = k_loop_begin(k, one, k_index(k, LANES), one);
  val more = k_shared_get(k, w->fold, k_add(k, first, i.i));
  k_set(k, all, fold(k, k_get(k, all), more));
  k_loop_end(k, &i);
  k_barrier(k);
  return k_get(k, all);
}

/* Scores of the row; the largest of this thread's. */
static val score_keys(emitter *e, const few *w, val first) {
  kernel *k = e->k;
  val most = k_var(k, k_f32(k, -INFINITY));
  k_if active = k_if_begin(k, w->active);
  k_loop t = k_loop_begin(k, w->lane, k_index(k, KEYS), k_index(k, LANES));
  val at = score_at(e, w->row, t.i), product = k_shared_get(k, w->scores, at);
  val score = score_of(e, &w->f->a, &w->q, k_add(k, first, t.i), product, NULL);
  k_shared_set(k, w->scores, at, score);
  k_set(k, most, k_max(k, k_get(k, most), score));
  k_loop_end(k, &t);
  k_if_end(k, &active);
  return k_get(k, most);
}

/* Weights under the new maximum, and what the sums so far are multiplied with. */
static void weigh(emitter *e, const few *w, val first) {
  kernel *k = e->k;
  val old = k_get(k, w->max), most = fold_lanes(e, w, k_max, score_keys(e, w, first));
  val max = k_max(k, old, most), base = forward_base(e, max);
  val factor = emit_float1(e, ALU_exp, k_sub(k, old, base));
  k_set(k, w->max, max);
  k_set(k, w->sum, k_mul(k, k_get(k, w->sum), factor));
  k_if active = k_if_begin(k, w->active);
  k_loop t = k_loop_begin(k, w->lane, k_index(k, KEYS), k_index(k, LANES));
  val at = score_at(e, w->row, t.i), score = k_shared_get(k, w->scores, at);
  val weight = emit_float1(e, ALU_exp, k_sub(k, score, base));
  k_shared_set(k, w->scores, at, weight);
  k_set(k, w->sum, k_add(k, k_get(k, w->sum), weight));
  k_loop_end(k, &t);
  k_if one = k_if_begin(k, k_eq(k, w->lane, k_index(k, 0)));
  k_shared_set(k, w->factors, w->row, factor);
  k_if_end(k, &one);
  k_if_end(k, &active);
}

/* --- values --- */

static val splat(emitter *e, val x) { return k_vector(e->k, 4, (val[]){x, x, x, x}); }

/* sum += weight * x, but what is weighted with 0 counts nothing, whatever it is. */
static void add_weighted(emitter *e, val sum, val weight, val x) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), counts = k_ne(k, weight, zero), part_of[4];
  for (int i = 0; i < 4; i++)
    part_of[i] = k_select(k, counts, k_part(k, x, i), zero);
  val kept = k_vector(k, 4, part_of), by = splat(e, weight);
  k_set(k, sum, k_fma(k, by, kept, k_get(k, sum)));
}

static val column_of(emitter *e, const few *w, int g) {
  val place = k_add(e->k, w->lane, k_index(e->k, g * LANES));
  return k_add(e->k, w->start, k_shl(e->k, place, 2));
}

/* All values of the thread: under way while their weights are found. */
static void load_values(emitter *e, const few *w, val first, val raw[MOST_TOGETHER]) {
  kernel *k = e->k;
  row_list l = list_of(e, w, w->f->a.v, w->f->a.dv, true);
  val number = k_add(k, first, w->row), column = column_of(e, w, 0);
  for (int i = 0; i < MOST_TOGETHER; i++)
    raw[i] = tile_load_raw(e, &w->f->a, &l, k_add(k, number, k_index(k, i * SLICES)), column);
}

/* Value i of those at hand, of key `key` of the tile. */
static void add_value(emitter *e, const few *w, val key, const val x[GROUPS]) {
  kernel *k = e->k;
  for (int r = 0; r < w->rows; r++) {
    val weight = k_shared_get(k, w->scores, k_add(k, key, k_index(k, r * (KEYS + 1))));
    for (int g = 0; g < w->groups; g++)
      add_weighted(e, w->out[r][g], weight, x[g]);
  }
}

static void add_values_ahead(emitter *e, const few *w, val first, const val raw[MOST_TOGETHER]) {
  kernel *k = e->k;
  row_list l = list_of(e, w, w->f->a.v, w->f->a.dv, true);
  val column = column_of(e, w, 0), x[GROUPS] = {0};
  for (int i = 0; i < MOST_TOGETHER; i++) {
    val key = k_add(k, w->row, k_index(k, i * SLICES));
    x[0] = tile_load_end(e, &l, k_add(k, first, key), column, raw[i]);
    add_value(e, w, key, x);
  }
}

static void add_values(emitter *e, const few *w, val first) {
  kernel *k = e->k;
  row_list l = list_of(e, w, w->f->a.v, w->f->a.dv, true);
  val x[TOGETHER][GROUPS], key[TOGETHER];
  k_loop t = k_loop_begin(k, w->row, k_index(k, KEYS), k_index(k, SLICES * TOGETHER));
  for (int i = 0; i < TOGETHER; i++) {
    key[i] = k_add(k, t.i, k_index(k, i * SLICES));
    for (int g = 0; g < w->groups; g++) {
      val number = k_add(k, first, key[i]);
      x[i][g] = tile_load_vector(e, &w->f->a, &l, number, column_of(e, w, g));
    }
  }
  for (int i = 0; i < TOGETHER; i++)
    add_value(e, w, key[i], x[i]);
  k_loop_end(k, &t);
}

/* What was summed so far, under the new maximum. */
static void scale_sums(emitter *e, const few *w) {
  kernel *k = e->k;
  for (int r = 0; r < w->rows; r++) {
    val factor = splat(e, k_shared_get(k, w->factors, k_index(k, r)));
    for (int g = 0; g < w->groups; g++)
      k_set(k, w->out[r][g], k_mul(k, k_get(k, w->out[r][g]), factor));
  }
}

/* --- results --- */

/* Four columns of the thread's row, over the slices. */
static val sum_slices(emitter *e, const few *w, int g) {
  kernel *k = e->k;
  val zero = splat(e, k_f32(k, 0)), sum = k_var(k, zero), row = k_index(k, w->rows * LANES);
  val mine = k_mul(k, w->row, row), none = k_index(k, 0), one = k_index(k, 1);
  for (int r = 0; r < w->rows; r++) {
    val at = k_add(k, k_add(k, mine, w->lane), k_index(k, r * LANES));
    k_shared_set(k, w->sums, at, k_get(k, w->out[r][g]));
  }
  k_barrier(k);
  k_if active = k_if_begin(k, w->active);
  val first = k_add(k, k_mul(k, w->row, k_index(k, LANES)), w->lane);
  k_loop s = k_loop_begin(k, none, k_index(k, SLICES), one);
  val more = k_shared_get(k, w->sums, k_add(k, first, k_mul(k, s.i, row)));
  k_set(k, sum, k_add(k, k_get(k, sum), more));
  k_loop_end(k, &s);
  k_if_end(k, &active);
  k_barrier(k);
  return k_get(k, sum);
}

static void put_row(emitter *e, const few *w) {
  kernel *k = e->k;
  const forward *f = w->f;
  val sum = fold_lanes(e, w, k_add, k_get(k, w->sum)), max = k_get(k, w->max), out[GROUPS];
  for (int g = 0; g < w->groups; g++)
    out[g] = sum_slices(e, w, g);
  val there = k_and(k, w->active, w->q.there), origin = k_index(k, 0);
  k_if inside = k_if_begin(k, there);
  val number = f->cut ? forward_part_at(e, f, w->b, w->kv, w->row, w->part) : 0;
  row_end end = {0};
  if (!f->cut)
    end = forward_end(e, f, &w->q, max, sum);
  for (int i = 0; i < 4 * w->groups; i++) {
    val place = k_shl(k, k_add(k, w->lane, k_index(k, i / 4 * LANES)), 2);
    val column = k_add(k, k_add(k, w->start, place), k_index(k, i % 4));
    k_if has = k_if_begin(k, k_lt(k, column, k_size(k, f->a.dv)));
    val x = k_part(k, out[i / 4], i % 4);
    if (f->cut)
      forward_put_part(e, f, number, column, x);
    else
      core_store(e, f->out, (val[]){w->b, w->q.head, w->q.i, column}, k_mul(k, x, end.scale));
    k_if_end(k, &has);
  }
  val left = k_eq(k, w->lane, origin);
  k_if one = k_if_begin(k, k_and(k, left, k_eq(k, w->start, origin)));
  if (f->cut)
    forward_put_facts(e, f, number, max, sum);
  else if (f->lse->value)
    core_store(e, f->lse, (val[]){w->b, w->q.head, w->q.i}, end.lse);
  k_if_end(k, &one);
  k_if_end(k, &inside);
}

sn_status forward_few(emitter *e, const forward *f) {
  few w = few_of(e, f);
  kernel *k = emit_open(e, KEYS);
  if (!k)
    return SN_ERR_NO_MEMORY;
  open_shared(e, &w);
  find(e, &w);
  load_queries(e, &w);
  k_barrier(k);
  val raw[MOST_TOGETHER];
  k_loop j = k_loop_begin(k, w.low, w.high, k_index(k, KEYS));
  if (w.ahead)
    load_values(e, &w, j.i, raw);
  multiply(e, &w, j.i);
  k_barrier(k);
  weigh(e, &w, j.i);
  k_barrier(k);
  scale_sums(e, &w);
  if (w.ahead)
    add_values_ahead(e, &w, j.i, raw);
  else
    add_values(e, &w, j.i);
  k_barrier(k);
  k_loop_end(k, &j);
  put_row(e, &w);
  return SN_OK;
}
