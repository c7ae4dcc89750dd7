/* ATTENTION by subgroups that work alone: see emit_attention_solo.h. Queries are rows, keys are columns; a running maximum and sum a
 * row, in units of log 2. */
#include "device/vulkan/emit_attention_solo.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum { FACTS = 2 /* of a row and a subgroup: maximum, sum */ };
#define LN2 0x1.62e43p-1f

typedef struct solo_forward {
  solo s;
  const forward *f;
  crew c; /* of the plain block */
  plain_block at;
  query q[2]; /* of the thread's rows */
  solo_rows queries, keys, values;
  val max[2], sum[2]; /* variables: of the rows; the sum is of this thread's columns */
} solo_forward;

static int share_of(const emitter *e, const forward *f) {
  const sn_dim heads[2] = {f->a.b, f->a.hk};
  int64_t rows = sizes_most(&e->env, 2, f->a.rows), keys = size_most(&e->env, f->a.skv);
  int64_t blocks = sizes_most(&e->env, 2, heads) * ((rows + SOLO_ROWS - 1) / SOLO_ROWS);
  return solo_share(e, blocks, keys, f->a.dv);
}

bool forward_solo_fits(const emitter *e, const forward *f) {
  enum { TILES = 2 /* of a subgroup */ };
  return solo_fits(e, &f->a) &&
         size_most(&e->env, f->a.skv) <= (int64_t)TILES * SOLO_ROWS * share_of(e, f);
}

/* --- where --- */

static void open_rows(solo_forward *w) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  const attending *a = s->a;
  const plain_block *b = &w->at;
  row_list queries = {.of = a->q, .width = a->d, .b = b->b, .head = b->kv, .packed = true};
  queries.low = k_index(k, 0);
  queries.high = b->rows;
  row_list keys = {.of = a->k, .width = a->d, .b = b->b, .head = b->kv};
  keys.low = b->low;
  keys.high = b->high;
  row_list values = keys;
  values.of = a->v;
  values.width = a->dv;
  w->queries = solo_rows_of(s, queries, true);
  w->keys = solo_rows_of(s, keys, true);
  w->values = solo_rows_of(s, values, false);
  for (int r = 0; r < 2; r++) {
    val row = k_add(k, b->first, plus(k, s->g, 8 * r));
    w->q[r] = query_at(s->e, a, b->b, b->kv, row);
    w->max[r] = k_var(k, k_f32(k, -INFINITY));
    w->sum[r] = k_var(k, k_f32(k, 0));
  }
}

/* --- one tile --- */

/* Scores in units of log 2; -inf where nothing is seen. */
static void find_scores(solo_forward *w, val first, val x[MATRIX_ELEMENTS]) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  bool simple = crew_is_simple(s->a);
  val none = k_f32(k, -INFINITY), unit = k_f32(k, CREW_LOG2E);
  val scale = k_f32(k, s->a->scale * CREW_LOG2E), mine = k_add(k, first, solo_column(s, 0));
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    const query *q = &w->q[i / 4];
    val key = plus(k, mine, (i & 1) + (i & 2) * 4), seen = k_lt(k, key, q->high);
    if (!simple) {
      x[i] = k_mul(k, score_of(s->e, s->a, q, key, x[i], NULL), unit);
      continue;
    }
    if (s->a->window > 0)
      seen = k_and(k, seen, k_le(k, q->low, key));
    x[i] = k_select(k, seen, k_mul(k, x[i], scale), none);
  }
}

static val row_max(kernel *k, const val x[4]) {
  val both[2] = {k_max(k, x[0], x[1]), k_max(k, x[2], x[3])}, most = k_max(k, both[0], both[1]);
  most = k_max(k, most, k_shuffle_xor(k, most, 1));
  return k_max(k, most, k_shuffle_xor(k, most, 2));
}

/* Scores become weights under the new maxima. keep: what the sums so far are multiplied with. */
static void weigh(solo_forward *w, val x[MATRIX_ELEMENTS], val keep[2]) {
  kernel *k = w->s.e->k;
  for (int r = 0; r < 2; r++) {
    val old = k_get(k, w->max[r]), max = k_max(k, old, row_max(k, x + 4 * r));
    val base = forward_base(w->s.e, max);
    keep[r] = crew_exp2(k, k_sub(k, old, base));
    val sum = k_mul(k, k_get(k, w->sum[r]), keep[r]);
    for (int i = 4 * r; i < 4 * r + 4; i++) {
      x[i] = crew_exp2(k, k_sub(k, x[i], base));
      sum = k_add(k, sum, x[i]);
    }
    k_set(k, w->max[r], max);
    k_set(k, w->sum[r], sum);
  }
}

static void use_tile(solo_forward *w, val first) {
  solo *s = &w->s;
  val keep[2], weights[2];
  solo_rows_at(s, &w->keys, first);
  solo_rows_at(s, &w->values, first);
  solo_fetch(s, &w->values);
  solo_product p = {.a = &w->queries, .b = &w->keys};
  solo_products(s, 1, &(solo_product *){&p});
  find_scores(w, first, p.out);
  weigh(w, p.out, keep);
  solo_make(s, MATRIX_A, p.out, weights);
  solo_add(s, weights, &w->values, keep);
}

static void pass_keys(solo_forward *w) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  val first = k_add(k, w->at.low, k_shl(k, s->number, 4));
  solo_rows_at(s, &w->queries, w->at.first);
  k_loop l = k_loop_rolled(k, first, w->at.high, k_index(k, s->share * SOLO_ROWS));
  use_tile(w, l.i);
  k_loop_end(k, &l);
  solo_put(s);
}

/* --- results --- */

static val fact_at(const solo_forward *w, val plane, val row, int which) {
  kernel *k = w->s.e->k;
  val number = k_add(k, k_shl(k, plane, 4), row);
  return plus(k, k_shl(k, number, 1), w->s.share + which);
}

/* What is known of the subgroup's rows. */
static void put_facts(solo_forward *w) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  val sum[2];
  for (int r = 0; r < 2; r++) {
    sum[r] = k_get(k, w->sum[r]);
    sum[r] = k_add(k, sum[r], k_shuffle_xor(k, sum[r], 1));
    sum[r] = k_add(k, sum[r], k_shuffle_xor(k, sum[r], 2));
    k_set(k, s->check, k_add(k, k_get(k, s->check), sum[r]));
  }
  k_if one = k_if_begin(k, k_eq(k, s->t, k_index(k, 0)));
  for (int r = 0; r < 2; r++) {
    val row = plus(k, s->g, 8 * r), max = k_bits(k, k_get(k, w->max[r]), k->s.u32);
    k_shared_set(k, s->words, fact_at(w, s->number, row, 0), max);
    k_shared_set(k, s->words, fact_at(w, s->number, row, 1), k_bits(k, sum[r], k->s.u32));
  }
  k_if_end(k, &one);
}

static val fact(const solo_forward *w, int plane, val row, int which) {
  kernel *k = w->s.e->k;
  val at = fact_at(w, k_index(k, plane), row, which);
  return k_bits(k, k_shared_get(k, w->s.words, at), k->s.f32);
}

/* A row's subgroups under one maximum: their weights, the maximum in units of log 2, the sum. */
static void join_row(const solo_forward *w, val row, val *weight, val *max, val *sum) {
  kernel *k = w->s.e->k;
  val base[SOLO_SHARE];
  *max = *sum = 0;
  for (int p = 0; p < w->s.share; p++) {
    base[p] = fact(w, p, row, 0);
    *max = p ? k_max(k, *max, base[p]) : base[p];
  }
  val top = forward_base(w->s.e, *max);
  for (int p = 0; p < w->s.share; p++) {
    weight[p] = crew_exp2(k, k_sub(k, base[p], top));
    val more = k_mul(k, fact(w, p, row, 1), weight[p]);
    *sum = p ? k_add(k, *sum, more) : more;
  }
}

static void put_rows(const solo_forward *w) {
  const solo *s = &w->s;
  emitter *e = s->e;
  kernel *k = e->k;
  const forward *f = w->f;
  val weight[SOLO_SHARE], max, sum, row = solo_own_row(s), x[4];
  query q = query_at(e, &f->a, w->at.b, w->at.kv, k_add(k, w->at.first, row));
  join_row(w, row, weight, &max, &sum);
  row_end end = forward_end(e, f, &q, k_mul(k, max, k_f32(k, LN2)), sum);
  val at[3] = {w->at.b, q.head, q.i};
  for (int p = 0; p < s->share; p++)
    weight[p] = k_mul(k, weight[p], end.scale);
  k_if there = k_if_begin(k, q.there);
  val first = solo_own_vector(s);
  k_loop l = k_loop_rolled(k, first, k_index(k, s->columns / 4), k_index(k, solo_each(s)));
  solo_join(s, row, l.i, weight, x);
  solo_store(e, f->out, at, k_shl(k, l.i, 2), x);
  k_loop_end(k, &l);
  if (f->lse->value) {
    k_if one = k_if_begin(k, k_eq(k, first, k_index(k, 0)));
    core_store(e, f->lse, at, end.lse);
    k_if_end(k, &one);
  }
  k_if_end(k, &there);
}

/* --- the kernel --- */

static void emit_body(solo_forward *w) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  plain_find(s->e, w->f, SOLO_ROWS, &w->at);
  open_rows(w);
  w->c = plain_open(s->e, s->a, SOLO_ROWS, s->columns, &w->at);
  pass_keys(w);
  put_facts(w);
  k_if again = k_if_begin(k, solo_all_odd(s));
  plain_forward(&w->c, w->f, &w->at, s->columns);
  plain_put(&w->c, w->f, &w->at, s->columns);
  k_if_else(k, &again);
  put_rows(w);
  k_if_end(k, &again);
}

sn_status forward_solo(emitter *e, const forward *f) {
  int share = share_of(e, f);
  solo_forward *w = mem_alloc(e->env.ctx, sizeof *w);
  kernel *k = w ? emit_open(e, share * e->env.target->subgroup) : NULL;
  if (k) {
    *w = (solo_forward){.f = f};
    solo_open(&w->s, e, &f->a, share, f->a.dv, FACTS * SOLO_ROWS * share);
    emit_body(w);
  }
  mem_free(e->env.ctx, w, w ? sizeof *w : 0);
  return k ? SN_OK : SN_ERR_NO_MEMORY;
}
