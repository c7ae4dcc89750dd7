/* Attention of a few queries: a kernel that is short from start to end, for models that write. A workgroup has one query. Teams of threads
 * have a key each, a thread some columns of it: products meet by shuffles, a running maximum and sum a team, in registers. What
 * the teams came to meets in shared memory. See emit_attention.h. */
#include "device/vulkan/emit_attention_matrix.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum {
  VECTORS = 4 /* of a row that a thread has, at most */,
  TOGETHER = 4 /* keys of a team, at most */
};

typedef struct few {
  const forward *f;
  int lanes, teams;     /* threads of a team; teams */
  int together;         /* keys of a team whose loads are under way at once */
  int n[2];             /* vectors that a thread has of keys, of values */
  val b, kv, row, part; /* row: of the list of queries */
  val low, high;        /* keys */
  val lane, team;       /* of this thread */
  query q;
  val query[VECTORS];
  val max, sum, out[VECTORS]; /* variables, of the team; its thread's columns */
  val facts, sums;            /* shared: [teams][2]; vectors [teams][lanes * n[1]] */
} few;

/* --- sizes --- */

static int vectors_of(const emitter *e, sn_dim width) {
  return (int)((size_most(&e->env, width) + 3) / 4);
}

static few few_of(const emitter *e, const forward *f) {
  enum { LEAST = 32, MOST = 256 };
  const gpu_target *t = e->env.target;
  int keys = vectors_of(e, f->a.d), values = vectors_of(e, f->a.dv);
  int wide = keys > values ? keys : values;
  int64_t all = size_most(&e->env, f->a.skv), threads = LEAST;
  few w = {.f = f, .lanes = 1};
  while (w.lanes < wide && w.lanes < t->subgroup)
    w.lanes *= 2;
  while (threads < MOST && threads < t->max_threads && threads / w.lanes * TOGETHER < all)
    threads *= 2;
  threads = max_i64(threads, t->subgroup);
  w.teams = (int)threads / w.lanes;
  w.together = 1; /* less code where there are few keys */
  while (w.together < TOGETHER && (int64_t)w.together * w.teams < all)
    w.together *= 2;
  w.n[0] = (keys + w.lanes - 1) / w.lanes;
  w.n[1] = (values + w.lanes - 1) / w.lanes;
  return w;
}

bool forward_fits(const emitter *e, const forward *f) {
  enum { WIDEST = 4096 };
  if (size_most(&e->env, f->a.d) > WIDEST || size_most(&e->env, f->a.dv) > WIDEST)
    return false;
  few w = few_of(e, f);
  return w.n[0] <= VECTORS && w.n[1] <= VECTORS &&
         w.teams * (w.lanes * w.n[1] * 16 + 8) <= e->env.target->shared_bytes;
}

/* --- where --- */

static void find(emitter *e, few *w) {
  kernel *k = e->k;
  const forward *f = w->f;
  const attending *a = &f->a;
  amount rows = {2, 1, a->rows}, heads = amount_of(&a->hk), parts = amount_tiles(&a->skv, f->part);
  val rest = k->group;
  if (f->cut)
    rest = k_divide(k, rest, &parts, &w->part);
  rest = k_divide(k, rest, &rows, &w->row);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->q = query_at(e, a, w->b, w->kv, w->row);
  w->low = w->q.low;
  w->high = w->q.high;
  if (f->cut) {
    val from = k_mul(k, w->part, k_index(k, f->part));
    w->low = k_max(k, w->low, from);
    w->high = w->q.high = k_min(k, w->high, k_add(k, from, k_index(k, f->part)));
  }
  w->lane = low_part(k, k->local, w->lanes);
  w->team = high_part(k, k->local, w->lanes);
  kernel_grid(k, f->cut ? 3 : 2, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, rows, parts});
}

static val zeros(kernel *k) {
  val zero = k_f32(k, 0);
  return k_vector(k, 4, (val[]){zero, zero, zero, zero});
}

static void open_shared(emitter *e, few *w) {
  kernel *k = e->k;
  int wide = w->n[1] > 0 ? w->lanes * w->n[1] : 1;
  w->facts = k_shared(k, k->s.f32, 2 * w->teams);
  w->sums = k_shared(k, spirv_vector(&k->s, k->s.f32, 4), w->teams * wide);
  w->max = k_var(k, k_f32(k, -INFINITY));
  w->sum = k_var(k, k_f32(k, 0));
  for (int i = 0; i < w->n[1]; i++)
    w->out[i] = k_var(k, zeros(k));
}

/* The thread's vectors of a row; of one that is not there, any, where rows are whole. */
static void load_row(emitter *e, const few *w, const row_list *l, val number, int n, val *out) {
  kernel *k = e->k;
  int apart = 4 * w->lanes;
  val column = k_shl(k, w->lane, 2), address = 0;
  bool whole = n > 0 && l->width == n * apart && tile_is_whole(l, apart);
  if (whole)
    address = tile_row_address(e, &w->f->a, l, number, column);
  for (int i = 0; i < n; i++)
    out[i] = whole ? tile_numbers(e, l, tile_load_there(e, l, address, i * apart))
                   : tile_load_vector(e, &w->f->a, l, number, plus(k, column, i * apart));
}

static row_list list_of(const few *w, const strided *of, sn_dim width) {
  row_list l = {.of = of, .width = width, .b = w->b, .head = w->kv};
  l.low = w->low;
  l.high = w->high;
  return l;
}

static void load_query(emitter *e, few *w) {
  kernel *k = e->k;
  row_list l = list_of(w, w->f->a.q, w->f->a.d);
  l.packed = true;
  l.low = k_index(k, 0);
  l.high = k_sizes(k, 2, w->f->a.rows);
  load_row(e, w, &l, w->row, w->n[0], w->query);
}

/* --- keys --- */

static val product(emitter *e, const few *w, const val *key) {
  kernel *k = e->k;
  val sum = k_f32(k, 0);
  for (int i = 0; i < 4 * w->n[0]; i++) {
    val left = k_part(k, w->query[i / 4], i % 4), right = k_part(k, key[i / 4], i % 4);
    sum = k_fma(k, left, right, sum);
  }
  for (int by = 1; by < w->lanes; by *= 2)
    sum = k_add(k, sum, k_shuffle_xor(k, sum, by));
  return sum;
}

static val exponential(emitter *e, val x) {
  return e->env.precision == SN_PRECISION_EXACT ? emit_float1(e, ALU_exp, x) : crew_exp(e->k, x);
}

/* What is weighted with 0 counts nothing, whatever it is. */
static val weighted(kernel *k, val weight, val x, val sum) {
  val zero = k_f32(k, 0), counts = k_ne(k, weight, zero), kept[4];
  for (int i = 0; i < 4; i++)
    kept[i] = k_select(k, counts, k_part(k, x, i), zero);
  val by = k_vector(k, 4, (val[]){weight, weight, weight, weight});
  return k_fma(k, by, k_vector(k, 4, kept), sum);
}

/* Some keys of the team, from `first` on: their weights under a new maximum. */
static void use_keys(emitter *e, few *w, val first) {
  kernel *k = e->k;
  const attending *a = &w->f->a;
  row_list keys = list_of(w, a->k, a->d), values = list_of(w, a->v, a->dv);
  val key[TOGETHER][VECTORS], value[TOGETHER][VECTORS], x[TOGETHER], number[TOGETHER];
  for (int i = 0; i < w->together; i++) {
    number[i] = k_add(k, first, plus(k, w->team, (int64_t)i * w->teams));
    load_row(e, w, &keys, number[i], w->n[0], key[i]);
    load_row(e, w, &values, number[i], w->n[1], value[i]);
  }
  val old = k_get(k, w->max), max = old;
  for (int i = 0; i < w->together; i++)
    x[i] = product(e, w, key[i]);
  for (int i = 0; i < w->together; i++) {
    x[i] = score_of(e, a, &w->q, number[i], x[i], NULL);
    max = k_max(k, max, x[i]);
  }
  val base = forward_base(e, max), keep = exponential(e, k_sub(k, old, base));
  val all = k_vector(k, 4, (val[]){keep, keep, keep, keep}), sum = k_mul(k, k_get(k, w->sum), keep);
  for (int i = 0; i < w->together; i++) {
    x[i] = exponential(e, k_sub(k, x[i], base));
    sum = k_add(k, sum, x[i]);
  }
  for (int n = 0; n < w->n[1]; n++) {
    val out = k_mul(k, k_get(k, w->out[n]), all);
    for (int i = 0; i < w->together; i++)
      out = weighted(k, x[i], value[i][n], out);
    k_set(k, w->out[n], out);
  }
  k_set(k, w->max, max);
  k_set(k, w->sum, sum);
}

/* --- results --- */

static void put_team(emitter *e, const few *w) {
  kernel *k = e->k;
  val at = k_mul(k, w->team, k_index(k, (int64_t)w->lanes * w->n[1]));
  for (int i = 0; i < w->n[1]; i++) {
    val place = plus(k, k_add(k, at, w->lane), (int64_t)i * w->lanes);
    k_shared_set(k, w->sums, place, k_get(k, w->out[i]));
  }
  k_if one = k_if_begin(k, k_eq(k, w->lane, k_index(k, 0)));
  val fact = k_shl(k, w->team, 1);
  k_shared_set(k, w->facts, fact, k_get(k, w->max));
  k_shared_set(k, w->facts, plus(k, fact, 1), k_get(k, w->sum));
  k_if_end(k, &one);
}

/* The teams under one maximum, in their order: that, their sum, and vector `column` of the result. Many of them in a loop. */
static void join_teams(emitter *e, const few *w, val column, val *max, val *sum, val *x) {
  enum { UNROLLED = 8 };
  kernel *k = e->k;
  int each = w->teams < UNROLLED ? w->teams : UNROLLED, wide = w->lanes * w->n[1];
  val zero = k_index(k, 0), most = k_var(k, k_f32(k, -INFINITY)), total = k_var(k, k_f32(k, 0));
  val out = k_var(k, zeros(k)), n = k_index(k, w->teams), by = k_index(k, each);
  k_loop l = k_loop_begin(k, zero, n, by);
  for (int i = 0; i < each; i++) {
    val fact = k_shared_get(k, w->facts, k_shl(k, plus(k, l.i, i), 1));
    k_set(k, most, k_max(k, k_get(k, most), fact));
  }
  k_loop_end(k, &l);
  *max = k_get(k, most);
  val base = forward_base(e, *max);
  l = k_loop_begin(k, zero, n, by);
  for (int i = 0; i < each; i++) {
    val team = plus(k, l.i, i), at = k_shl(k, team, 1);
    val weight = exponential(e, k_sub(k, k_shared_get(k, w->facts, at), base));
    val more = k_shared_get(k, w->facts, plus(k, at, 1));
    k_set(k, total, k_fma(k, more, weight, k_get(k, total)));
    if (wide == 0)
      continue;
    val four = k_vector(k, 4, (val[]){weight, weight, weight, weight});
    val part_of = k_shared_get(k, w->sums, k_add(k, k_mul(k, team, k_index(k, wide)), column));
    k_set(k, out, k_fma(k, part_of, four, k_get(k, out)));
  }
  k_loop_end(k, &l);
  *sum = k_get(k, total);
  *x = k_get(k, out);
}

static void put_vector(emitter *e, const few *w, val number, val column, val scale, val x) {
  kernel *k = e->k;
  const forward *f = w->f;
  for (int i = 0; i < 4; i++) {
    val at = plus(k, column, i);
    k_if inside = k_if_begin(k, k_lt(k, at, k_size(k, f->a.dv)));
    if (f->cut)
      forward_put_part(e, f, number, at, k_part(k, x, i));
    else
      core_store(e, f->out, (val[]){w->b, w->q.head, w->q.i, at}, k_mul(k, k_part(k, x, i), scale));
    k_if_end(k, &inside);
  }
}

/* A thread a vector; the first one has what is known of the row, too. */
static void put_row(emitter *e, const few *w) {
  kernel *k = e->k;
  const forward *f = w->f;
  val zero = k_index(k, 0), max, sum, x;
  int wide = w->n[1] > 0 ? w->lanes * w->n[1] : 1;
  k_loop l = k_loop_rolled(k, k->local, k_index(k, wide), k_index(k, k->threads));
  join_teams(e, w, l.i, &max, &sum, &x);
  val number = f->cut ? forward_part_at(e, f, w->b, w->kv, w->row, w->part) : 0;
  row_end end = {0};
  if (!f->cut)
    end = forward_end(e, f, &w->q, max, sum);
  put_vector(e, w, number, k_shl(k, l.i, 2), end.scale, x);
  k_if one = k_if_begin(k, k_eq(k, l.i, zero));
  if (f->cut)
    forward_put_facts(e, f, number, max, sum);
  else if (f->lse->value)
    core_store(e, f->lse, (val[]){w->b, w->q.head, w->q.i}, end.lse);
  k_if_end(k, &one);
  k_loop_end(k, &l);
}

sn_status forward_few(emitter *e, const forward *f) {
  few w = few_of(e, f);
  kernel *k = emit_open(e, w.teams * w.lanes);
  if (!k)
    return SN_ERR_NO_MEMORY;
  open_shared(e, &w);
  find(e, &w);
  load_query(e, &w);
  k_loop j = k_loop_rolled(k, w.low, w.high, k_index(k, (int64_t)w.together * w.teams));
  use_keys(e, &w, j.i);
  k_loop_end(k, &j);
  put_team(e, &w);
  k_barrier(k);
  put_row(e, &w);
  return SN_OK;
}
