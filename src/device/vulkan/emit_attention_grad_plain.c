/* Plain ends of the gradient by matrices. See emit_attention_grad_matrix.h, emit_attention_plain.h. */
#include "device/vulkan/emit_attention_grad_matrix.h"
#include "device/vulkan/emit_attention_plain.h"
#include "device/vulkan/emit_matmul.h"

static val score_at(const crew *c, val row, val column) {
  kernel *k = c->e->k;
  val line = k_mul(k, row, k_index(k, crew_columns(c) + 1));
  return plus(k, k_add(k, line, column), c->areas);
}

/* The query and the key of a row and a column. */
static query pair_of(matrix_grad *w, val row, val column, val *key) {
  kernel *k = w->c.e->k;
  *key = w->keys ? row : column;
  query q = query_at(w->c.e, w->c.a, w->b, w->kv, w->keys ? column : row);
  if (!w->keys)
    q.high = k_min(k, q.high, w->to);
  else
    q.high = k_select(k, k_lt(k, column, w->to), q.high, k_index(k, 0));
  return q;
}

static void find_weights(matrix_grad *w, int which, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  const attending *a = c->a;
  plain_elements x = plain_each(c, crew_rows(c), crew_columns(c));
  val key, zero = k_f32(k, 0), p, dx;
  query q = pair_of(w, k_add(k, w->first, x.row), k_add(k, first, x.column), &key);
  val above = k_le(k, q.low, key);
  k_if seen = k_if_begin(k, k_and(k, above, k_lt(k, key, q.high)));
  const val at_query[3] = {w->b, q.head, q.i}, at_key[3] = {w->b, w->kv, key};
  val product = plain_dot(c, a->q, a->k, a->d, at_query, at_key);
  val arrives = plain_dot(c, w->g->d_out, a->v, a->dv, at_query, at_key);
  grad_query row = grad_query_of(c->e, w->g, q);
  grad_weights(c->e, w->g, &row, key, product, arrives, &p, NULL, &dx);
  val weight = k_if_value(k, &seen, which ? p : dx, zero);
  plain_set(c, score_at(c, x.row, x.column), weight);
  k_loop_end(k, &x.l);
}

/* The columns' rows of a tile; what is weighted with 0 counts nothing, whatever it is. */
static void add_rows(matrix_grad *w, int which, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  const crew_tile *t = &w->other[which];
  plain_elements x = plain_each(c, crew_rows(c), t->width);
  val at = k_add(k, k_mul(k, x.row, k_index(k, t->width + 4)), x.column), key;
  val sum = k_var(k, plain_get(c, at)), inside = k_lt(k, x.column, k_size(k, t->l.width));
  k_loop l = k_loop_begin(k, k_index(k, 0), k_index(k, crew_columns(c)), k_index(k, 1));
  val weight = plain_get(c, score_at(c, x.row, l.i)), counts = k_ne(k, weight, k_f32(k, 0));
  k_if some = k_if_begin(k, k_and(k, counts, inside));
  query q = pair_of(w, k_add(k, w->first, x.row), k_add(k, first, l.i), &key);
  val place[4] = {w->b, w->keys ? q.head : w->kv, w->keys ? q.i : key, x.column};
  k_set(k, sum, k_fma(k, weight, core_load(c->e, t->l.of, place), k_get(k, sum)));
  k_if_end(k, &some);
  k_loop_end(k, &l);
  plain_set(c, at, k_get(k, sum));
  k_loop_end(k, &x.l);
}

static void clear(matrix_grad *w, int width) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val by = k_index(k, k->threads);
  k_loop l =
      k_loop_begin(k, k->local, k_index(k, c->shape.columns * crew_plane_words(c, width)), by);
  plain_set(c, l.i, k_f32(k, 0));
  k_loop_end(k, &l);
  l = k_loop_begin(k, k->local, k_index(k, c->shape.columns * crew_rows(c)), by);
  k_shared_set(k, c->words, plus(k, l.i, w->powers), k_u32(k, 0));
  k_loop_end(k, &l);
}

void plain_grad(matrix_grad *w, int which) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  clear(w, w->other[which].width);
  k_barrier_shared(k);
  k_loop l = k_loop_begin(k, w->from, w->to, k_index(k, crew_columns(c)));
  find_weights(w, which, l.i);
  k_barrier_shared(k);
  add_rows(w, which, l.i);
  k_barrier_shared(k);
  k_loop_end(k, &l);
}

void plain_grad_put(matrix_grad *w, int which, const strided *to, int64_t byte) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  int width = w->other[which].width;
  plain_elements x = plain_each(c, crew_rows(c), width);
  val row = k_add(k, w->first, x.row), inside = k_lt(k, row, w->rows), sum = 0;
  k_if there = k_if_begin(k, k_and(k, inside, k_lt(k, x.column, k_size(k, to->dim[3]))));
  val at = k_add(k, k_mul(k, x.row, k_index(k, width + 4)), x.column);
  for (int p = 0; p < c->shape.columns; p++) {
    val power = k_shared_get(k, c->words, plus(k, x.row, w->powers + p * crew_rows(c)));
    val more = plain_get(c, plus(k, at, p * crew_plane_words(c, width)));
    more = crew_scaled(k, more, crew_factors_of(k, k_neg(k, k_bits(k, power, k->s.i32))));
    sum = sum ? k_add(k, sum, more) : more;
  }
  val place[4] = {w->b, w->kv, row, x.column};
  if (!w->keys) {
    query q = query_at(c->e, c->a, w->b, w->kv, row);
    place[1] = q.head;
    place[2] = q.i;
  }
  grad_put(c->e, &w->cut, to, byte, w->part, place, sum);
  k_if_end(k, &there);
  k_loop_end(k, &x.l);
}

/* --- one element --- */

static void add_element(emitter *e, const backward *g, int which, const val at[4], val n, val sum) {
  kernel *k = e->k;
  const attending *a = &g->a;
  crew c = {.e = e};
  bool keys = which != DQ;
  val key = keys ? at[2] : n, p, dx;
  query q = query_at(e, a, at[0], at[1], keys ? n : at[2]);
  val above = k_le(k, q.low, key);
  k_if seen = k_if_begin(k, k_and(k, above, k_lt(k, key, q.high)));
  const val at_query[3] = {at[0], q.head, q.i}, at_key[3] = {at[0], at[1], key};
  val product = plain_dot(&c, a->q, a->k, a->d, at_query, at_key);
  val arrives = plain_dot(&c, g->d_out, a->v, a->dv, at_query, at_key);
  grad_query x = {.q = q, .lse = core_load(e, g->lse, at_query)};
  x.common = k_neg(k, plain_dot(&c, g->d_out, g->out, a->dv, at_query, at_query));
  if (g->d_lse->value)
    x.common = k_add(k, x.common, core_load(e, g->d_lse, at_query));
  grad_weights(e, g, &x, key, product, arrives, &p, NULL, &dx);
  val weight = which == DV ? p : dx;
  k_if some = k_if_begin(k, k_ne(k, weight, k_f32(k, 0)));
  val place[4] = {at[0], keys ? q.head : at[1], keys ? q.i : key, at[3]};
  const strided *of = which == DQ ? a->k : which == DK ? a->q : g->d_out;
  k_set(k, sum, k_fma(k, weight, core_load(e, of, place), k_get(k, sum)));
  k_if_end(k, &some);
  k_if_end(k, &seen);
}

val grad_plain_sum(emitter *e, const backward *g, int which, const val at[4], val from, val to) {
  kernel *k = e->k;
  val sum = k_var(k, k_f32(k, 0));
  k_loop l = k_loop_rolled(k, from, to, k_index(k, 1));
  add_element(e, g, which, at, l.i, sum);
  k_loop_end(k, &l);
  return k_get(k, sum);
}
