/* Scores of attention: who sees whom, scale, cap, bias and mask. See emit_attention.h. */
#include "device/vulkan/emit_attention.h"

#include <math.h>
#include <sinew/ops.h>

attending attending_of(const core_part *c) {
  attending a = {.q = &c->in[0],
                 .k = &c->in[1],
                 .v = &c->in[2],
                 .mask = &c->in[3],
                 .bias = &c->in[4],
                 .kv_length = &c->in[5],
                 .sinks = &c->in[6],
                 .causal = c->ints[0] != SN_CAUSAL_NONE || c->ints[1] > 0,
                 .from_start = c->ints[0] == SN_CAUSAL_START,
                 .window = c->ints[1],
                 .scale = (float)c->reals[0],
                 .softcap = (float)c->reals[1],
                 .b = c->in[0].dim[0],
                 .hq = c->in[0].dim[1],
                 .sq = c->in[0].dim[2],
                 .d = c->in[0].dim[3],
                 .hk = c->in[1].dim[1],
                 .skv = c->in[1].dim[2],
                 .dv = c->in[2].dim[3]};
  a.rows[0] = a.hk > 0 ? a.hq / a.hk : 0;
  a.rows[1] = a.sq;
  return a;
}

/* Keys that there are for batch entry b. */
static val length_of(emitter *e, const attending *a, val b) {
  kernel *k = e->k;
  val all = k_size(k, a->skv);
  if (!a->kv_length->value)
    return all;
  val at[1] = {b}, length = k_to_index(k, core_load(e, a->kv_length, at));
  return k_max(k, k_min(k, length, all), k_index(k, 0));
}

/* The keys that query i sees, by length, causality and window. */
static void range_of(emitter *e, const attending *a, val length, val i, val *low, val *high) {
  kernel *k = e->k;
  val zero = k_index(k, 0), one = k_index(k, 1), at = i;
  if (!a->from_start)
    at = k_sub(k, k_add(k, i, length), k_size(k, a->sq));
  *high = a->causal ? k_max(k, k_min(k, length, k_add(k, at, one)), zero) : length;
  *low = zero;
  if (a->window > 0)
    *low = k_max(k, k_sub(k, k_add(k, at, one), k_size(k, a->window)), zero);
}

query query_of_head(emitter *e, const attending *a, val b, val head, val i) {
  query q = {.b = b, .head = head, .i = i};
  q.there = k_lt(e->k, i, k_size(e->k, a->sq));
  range_of(e, a, length_of(e, a, b), i, &q.low, &q.high);
  q.high = k_select(e->k, q.there, q.high, k_index(e->k, 0));
  return q;
}

query query_at(emitter *e, const attending *a, val b, val kv, val at) {
  kernel *k = e->k;
  amount sq = amount_of(&a->sq);
  query q = {.b = b};
  val within = k_divide(k, at, &sq, &q.i);
  q.head = k_add(k, k_mul(k, kv, k_size(k, a->rows[0])), within);
  q.there = k_lt(k, at, k_sizes(k, 2, a->rows));
  range_of(e, a, length_of(e, a, b), q.i, &q.low, &q.high);
  q.high = k_select(k, q.there, q.high, k_index(k, 0));
  return q;
}

/* Ranges rise with i. A list that reaches into another head has all of them. */
void queries_see(emitter *e, const attending *a, val b, val first, val last, val *low, val *high) {
  kernel *k = e->k;
  amount sq = amount_of(&a->sq);
  val i0, i1, head0 = k_divide(k, first, &sq, &i0), head1 = k_divide(k, last, &sq, &i1);
  val same = k_eq(k, head0, head1), length = length_of(e, a, b), rest;
  val final = k_sub(k, k_size(k, a->sq), k_index(k, 1));
  i0 = k_select(k, same, i0, k_index(k, 0));
  i1 = k_select(k, same, i1, final);
  range_of(e, a, length, i0, low, &rest);
  range_of(e, a, length, i1, &rest, high);
}

/* --- one score --- */

static val capped(emitter *e, const attending *a, val x, val *slope) {
  kernel *k = e->k;
  val cap = k_f32(k, a->softcap), t = emit_float1(e, ALU_tanh, k_div(k, x, cap));
  if (slope) {
    val one = k_f32(k, 1), less = k_sub(k, one, k_mul(k, t, t));
    *slope = k_mul(k, *slope, less);
  }
  return k_mul(k, cap, t);
}

static val none(emitter *e) { return k_f32(e->k, -INFINITY); }

/* With bias and mask, which are read only where the key is seen. */
static val with_operands(emitter *e, const attending *a, const query *q, val j, val score) {
  val at[4] = {q->b, q->head, q->i, j};
  if (a->bias->value)
    score = k_add(e->k, score, core_load(e, a->bias, at));
  if (a->mask->value) {
    val seen = core_load(e, a->mask, at);
    score = k_select(e->k, seen, score, none(e));
  }
  return score;
}

val score_of(emitter *e, const attending *a, const query *q, val j, val product, val *slope) {
  kernel *k = e->k;
  val score = k_mul(k, product, k_f32(k, a->scale));
  if (slope)
    *slope = k_f32(k, a->scale);
  if (a->softcap > 0)
    score = capped(e, a, score, slope);
  val above = k_le(k, q->low, j), seen = k_and(k, above, k_lt(k, j, q->high)), nothing = none(e);
  if (!a->bias->value && !a->mask->value)
    return k_select(k, seen, score, nothing);
  k_if inside = k_if_begin(k, seen);
  score = with_operands(e, a, q, j, score);
  return k_if_value(k, &inside, score, nothing);
}
