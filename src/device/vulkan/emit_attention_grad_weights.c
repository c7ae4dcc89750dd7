/* Weights of the gradient by matrices: p and ds from products of rows. See emit_attention_grad_matrix.h. */
#include "device/vulkan/emit_attention_grad_matrix.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

/* --- what is known of queries that are columns --- */

static val fact_at(const matrix_grad *w, val column, int which) {
  kernel *k = w->c.e->k;
  return plus(k, k_shl(k, column, 2), w->facts + which);
}

grad_query grad_simple_query(matrix_grad *w, grad_query q) {
  kernel *k = w->c.e->k;
  if (!crew_is_simple(w->c.a))
    return q;
  val none = k_eq(k, q.lse, k_f32(k, -INFINITY)), all = k_f32(k, INFINITY);
  q.lse = k_select(k, none, all, k_mul(k, q.lse, k_f32(k, CREW_LOG2E)));
  q.common = k_mul(k, q.common, k_f32(k, w->c.a->scale));
  return q;
}

void grad_put_facts(matrix_grad *w, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  k_loop l = k_loop_begin(k, k->local, k_index(k, crew_columns(c)), k_index(k, k->threads));
  query q = query_at(c->e, c->a, w->b, w->kv, k_add(k, first, l.i));
  grad_query x = grad_simple_query(w, grad_query_of(c->e, w->g, q));
  const val facts[GRAD_FACTS] = {k_bits(k, x.lse, k->s.u32), k_bits(k, x.common, k->s.u32),
                                 k_to_u32(k, q.low), k_to_u32(k, q.high)};
  for (int i = 0; i < GRAD_FACTS; i++)
    k_shared_set(k, c->words, fact_at(w, l.i, i), facts[i]);
  k_loop_end(k, &l);
}

static grad_query get_facts(matrix_grad *w, val column, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  grad_query x = {.q = {.b = w->b}};
  val word[GRAD_FACTS];
  for (int i = 0; i < GRAD_FACTS; i++)
    word[i] = k_shared_get(k, c->words, fact_at(w, column, i));
  if (c->a->bias->value || c->a->mask->value)
    x.q = query_at(c->e, c->a, w->b, w->kv, k_add(k, first, column));
  x.lse = k_bits(k, word[0], k->s.f32);
  x.common = k_bits(k, word[1], k->s.f32);
  x.q.low = k_to_index(k, word[2]);
  x.q.high = k_to_index(k, word[3]);
  return x;
}

/* --- weights --- */

/* p and ds * slope of one pair of query and key. */
static void weights_of(matrix_grad *w, const grad_query *q, val key, val product, val arrives,
                       val *p, val *dx) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val slope, score = score_of(c->e, c->a, &q->q, key, product, &slope), none = k_f32(k, -INFINITY);
  val zero = k_f32(k, 0), masked = k_eq(k, score, none);
  masked = k_or(k, masked, k_eq(k, q->lse, none));
  val weight = k_select(k, masked, zero, crew_exp(k, k_sub(k, score, q->lse)));
  val change = k_mul(k, k_mul(k, weight, k_add(k, arrives, q->common)), slope);
  *p = weight;
  *dx = k_select(k, masked, zero, change);
}

/* The same where scores are simple; what they are multiplied with. */
typedef struct simple_tile {
  val score, arrives;
  crew_bounds bounds;
} simple_tile;
static void simple_weights(matrix_grad *w, const simple_tile *t, const grad_query *q, int i, int j,
                           val x, val y, val *p, val *dx) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val score = k_fma(k, x, t->score, k_neg(k, q->lse)), none = k_f32(k, -INFINITY);
  if (w->keys) {
    val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
    val key = k_add(k, w->first, row), seen = k_lt(k, key, q->q.high);
    if (c->a->window > 0)
      seen = k_and(k, seen, k_le(k, q->q.low, key));
    score = k_select(k, seen, score, none);
  } else {
    score = crew_bounded(c, &t->bounds, i, j, score);
  }
  *p = crew_exp2(k, score);
  *dx = k_mul(k, *p, k_fma(k, y, t->arrives, q->common));
}

static void find_simple(matrix_grad *w, val first, val p[][2], val dx[][2]) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  simple_tile t = {.score = crew_scale_of(c, &w->own[0], &w->other[0], c->a->scale)};
  t.score = k_mul(k, t.score, k_f32(k, CREW_LOG2E));
  t.arrives = crew_scale_of(c, &w->own[1], &w->other[1], c->a->scale);
  if (!w->keys)
    t.bounds = crew_bounds_of(c, w->q.q.low, w->q.q.high, first);
  for (int i = 0; i < crew_pairs(c); i++) {
    val x[2], y[2];
    crew_get_pair(c, 0, i, x);
    crew_get_pair(c, 1, i, y);
    for (int j = 0; j < 2; j++) {
      grad_query q = w->keys ? get_facts(w, plus(k, crew_pair_column(c, i), j), first) : w->simple;
      simple_weights(w, &t, &q, i, j, x[j], y[j], &p[i][j], &dx[i][j]);
    }
  }
}

void grad_find_weights(matrix_grad *w, val first, val p[][2], val dx[][2]) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  if (crew_is_simple(c->a)) {
    find_simple(w, first, p, dx);
    return;
  }
  crew_factors by[2];
  for (int i = 0; i < 2; i++) {
    val power = k_add(k, k_get(k, w->own[i].power), k_get(k, w->other[i].power));
    by[i] = crew_factors_of(k, k_neg(k, power));
  }
  val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
  for (int i = 0; i < crew_pairs(c); i++) {
    val x[2], y[2];
    crew_get_pair(c, 0, i, x);
    crew_get_pair(c, 1, i, y);
    for (int j = 0; j < 2; j++) {
      val column = plus(k, crew_pair_column(c, i), j);
      grad_query q = w->keys ? get_facts(w, column, first) : w->q;
      val key = w->keys ? k_add(k, w->first, row) : k_add(k, first, column);
      weights_of(w, &q, key, crew_scaled(k, x[j], by[0]), crew_scaled(k, y[j], by[1]), &p[i][j],
                 &dx[i][j]);
    }
  }
}
