/* See attention.h. */
#include "device/cpu/attention.h"

#include <sinew/ops.h>

enum { PART_KEYS = 16 }; /* of a part of a tile at an edge */

attention attention_of(const cpu_run *r, const core_part *c) {
  attention a = {.kernels = r->isa->attention,
                 .q = view_of(r, &c->in[0]),
                 .k = view_of(r, &c->in[1]),
                 .v = view_of(r, &c->in[2]),
                 .mask = view_of(r, &c->in[3]),
                 .bias = view_of(r, &c->in[4]),
                 .kv_length = view_of(r, &c->in[5]),
                 .sinks = view_of(r, &c->in[6]),
                 .from_start = c->ints[0] == SN_CAUSAL_START,
                 .causal = c->ints[0] != SN_CAUSAL_NONE || c->ints[1] > 0,
                 .window = c->ints[1],
                 .scale = (float)c->reals[0],
                 .softcap = (float)c->reals[1]};
  a.b = a.q.dim[0];
  a.hq = a.q.dim[1];
  a.sq = a.q.dim[2];
  a.d = a.q.dim[3];
  a.hk = a.k.dim[1];
  a.skv = a.k.dim[2];
  a.dv = a.v.dim[3];
  a.group = a.hk ? a.hq / a.hk : 0;
  return a;
}

void attention_range(const attention *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
  int64_t length = a->skv;
  if (a->kv_length.data)
    length = view_i32(&a->kv_length, view_at(&a->kv_length, 1, &b));
  length = max_i64(0, min_i64(length, a->skv)); /* required elsewhere */
  int64_t at = a->from_start ? i : i + length - a->sq;
  *hi = max_i64(0, a->causal ? min_i64(length, at + 1) : length);
  *lo = a->window > 0 && at >= a->window ? at - a->window + 1 : 0;
  if (*lo >= *hi)
    *lo = *hi = 0;
}

/* --- blocks of rows --- */

int64_t attention_blocks(int64_t group, int64_t sq) {
  return sq < ATTENTION_ROWS ? (group * sq + ATTENTION_ROWS - 1) / ATTENTION_ROWS
                             : group * ((sq + ATTENTION_ROWS - 1) / ATTENTION_ROWS);
}

static void find_ranges(const attention *a, attention_block *w) {
  w->lo = w->all_hi = a->skv;
  w->hi = w->all_lo = 0;
  for (int64_t l = 0; l < w->lanes; l++) {
    int64_t lo, hi;
    attention_range(a, w->b, attention_row(a, w, min_i64(l, w->n - 1)), &lo, &hi);
    w->from[l] = (int32_t)lo;
    w->to[l] = (int32_t)hi;
    w->all_lo = max_i64(w->all_lo, lo);
    w->all_hi = min_i64(w->all_hi, hi);
    if (lo < hi) {
      w->lo = min_i64(w->lo, lo);
      w->hi = max_i64(w->hi, hi);
    }
  }
}

void attention_block_start(const attention *a, int64_t b, int64_t kv, int64_t number,
                           attention_block *out) {
  int64_t each = (a->sq + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
  *out = (attention_block){.b = b, .kv = kv};
  if (a->sq < ATTENTION_ROWS) {
    out->first = number * ATTENTION_ROWS;
    out->n = min_i64(ATTENTION_ROWS, a->group * a->sq - out->first);
  } else {
    int64_t i = number % each * ATTENTION_ROWS;
    out->first = number / each * a->sq + i;
    out->n = min_i64(ATTENTION_ROWS, a->sq - i);
  }
  out->lanes = attention_whole(out->n, a->kernels->vector);
  find_ranges(a, out);
}

/* A vector of lanes sees any of keys j … j+n-1. */
static bool is_seen(const attention_block *w, int64_t l, int vector, int64_t j, int64_t n) {
  bool seen = false;
  for (int i = 0; i < vector; i++)
    seen |= w->from[l + i] < j + n && w->to[l + i] > j;
  return seen;
}

bool attention_next(const attention *a, const attention_block *w, const attention_tile *t,
                    attention_part *x) {
  int vector = a->kernels->vector;
  bool inside = t->j >= w->all_lo && t->j + t->keys <= w->all_hi;
  x->j += x->n;
  if (x->j >= t->keys)
    return false;
  *x = (attention_part){.j = x->j, .n = min_i64(inside ? t->keys : PART_KEYS, t->keys - x->j)};
  int64_t end = t->lanes;
  if (!inside) {
    while (x->l < end && !is_seen(w, x->l, vector, t->j + x->j, x->n))
      x->l += vector;
    while (end > x->l && !is_seen(w, end - vector, vector, t->j + x->j, x->n))
      end -= vector;
  }
  x->lanes = end - x->l;
  return true;
}

/* --- scores of rows in lanes --- */

/* What is added to the scores of a row from key j on: the bias, and -inf for the mask. */
static void read_added(const attention *a, attention_place at, int64_t j, int64_t n, float *to) {
  int64_t index[] = {at.b, at.h, at.i, j};
  memset(to, 0, (size_t)n * sizeof *to);
  if (a->bias.data) {
    view_read(&a->bias, view_at(&a->bias, 4, index), a->bias.stride[3], n, to);
    for (int64_t k = 0; k < n; k++)
      to[k] *= (float)ATTENTION_LOG2_E;
  }
  const char *seen = a->mask.data;
  int64_t first = seen ? view_at(&a->mask, 4, index) : 0;
  for (int64_t k = 0; seen && k < n; k++)
    to[k] = seen[first + k * a->mask.stride[3]] ? to[k] : -INFINITY;
}

/* All rows of the block have the same bias or mask. */
static bool is_common(const attention *a, const attention_block *w, const view *v) {
  bool one_head = attention_head(a, w, 0) == attention_head(a, w, w->n - 1);
  return !v->data || (v->stride[2] == 0 && (one_head || v->stride[1] == 0));
}

static void add_to_lanes(const attention *a, const attention_block *w, const attention_tile *t,
                         float *room) {
  bool common = is_common(a, w, &a->bias) && is_common(a, w, &a->mask);
  for (int64_t l = 0; l < (common ? 1 : w->n); l++) {
    attention_place at = {w->b, attention_head(a, w, l), attention_row(a, w, l)};
    read_added(a, at, t->j, t->keys, room + l * ATTENTION_KEYS);
  }
  float *turned = room + ATTENTION_ROWS * ATTENTION_KEYS;
  if (!common)
    a->kernels->transpose(room, ATTENTION_KEYS, w->n, t->keys, 1, turned, t->lanes);
  a->kernels->add(t->scores, t->keys, t->lanes, common ? room : turned, common);
}

void attention_score_lanes(const attention *a, const attention_block *w, const attention_tile *t,
                           float *room) {
  if (a->softcap > 0)
    a->kernels->cap(t->scores, t->keys * t->lanes, a->softcap * (float)ATTENTION_LOG2_E, t->slopes);
  if (a->bias.data || a->mask.data)
    add_to_lanes(a, w, t, room);
  if (t->j < w->all_lo || t->j + t->keys > w->all_hi)
    a->kernels->hide(t);
}

/* --- scores of one row --- */

static void cap_row(const attention *a, int64_t n, float *scores, float *slopes) {
  int64_t whole = attention_whole(n, a->kernels->vector);
  for (int64_t j = n; j < whole; j++)
    scores[j] = 0;
  for (int64_t j = 0; j < whole; j++)
    scores[j] /= a->softcap;
  a->kernels->cap(scores, whole, a->softcap, slopes);
}

void attention_score_row(const attention *a, attention_place at, int64_t j, int64_t n,
                         float *scores, float *slopes) {
  int64_t lo, hi, index[] = {at.b, at.h, at.i, j};
  if (a->softcap > 0)
    cap_row(a, n, scores, slopes);
  for (int64_t k = 0; slopes && k < n; k++)
    slopes[k] = a->softcap > 0 ? slopes[k] * a->scale : a->scale;
  if (a->bias.data) {
    int64_t first = view_at(&a->bias, 4, index);
    for (int64_t k = 0; k < n; k++)
      scores[k] += view_load(&a->bias, first + k * a->bias.stride[3]);
  }
  int64_t first = a->mask.data ? view_at(&a->mask, 4, index) : 0;
  for (int64_t k = 0; a->mask.data && k < n; k++)
    if (!a->mask.data[first + k * a->mask.stride[3]])
      scores[k] = -INFINITY;
  attention_range(a, at.b, at.i, &lo, &hi);
  for (int64_t k = 0; k < min_i64(n, lo - j); k++)
    scores[k] = -INFINITY;
  for (int64_t k = max_i64(0, hi - j); k < n; k++)
    scores[k] = -INFINITY;
}
