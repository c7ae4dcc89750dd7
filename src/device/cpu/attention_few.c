/* Attention of few rows, as in generation: rows stay rows, keys and values are read once for all of them and never packed.
 * And rows in which something is not finite, key by key. */
#include "device/cpu/attention.h"

static void start_rows(attention_work *w, const attention_result *to) {
  const attention *a = w->a;
  int64_t wide = attention_wide(a->d), n = w->at.n;
  attention_block_rows(a, &w->at, &a->q, a->d, wide, w->q);
  for (int64_t i = 0; i < n * wide; i++)
    w->q[i] *= a->scale;
  for (int64_t i = 0; i < n; i++) {
    to->largest[i] = -INFINITY;
    to->total[i] = 0;
  }
  memset(to->sums, 0, (size_t)(n * attention_wide(a->dv)) * sizeof *to->sums);
}

static attention_place place_of(const attention_work *w, int64_t row) {
  return (attention_place){w->at.b, attention_head(w->a, &w->at, row),
                           attention_row(w->a, &w->at, row)};
}

static void weigh_row(attention_work *w, int64_t i, int64_t j, int64_t n,
                      const attention_result *to) {
  const attention *a = w->a;
  float *scores = w->scores + i * ATTENTION_KEYS;
  int64_t wide = attention_wide(a->dv);
  attention_score_row(a, place_of(w, i), j, n, scores, NULL);
  w->keep[i] =
      a->kernels->soften_row(scores, n, (float)ATTENTION_LOG2_E, &to->largest[i], &to->total[i]);
  for (int64_t d = 0; w->keep[i] != 1 && d < wide; d++)
    to->sums[i * wide + d] *= w->keep[i];
}

/* Rows of k or v from j on, if all of a block is there. */
static attention_ahead ahead_of(const view *v, const attention_block *w, int64_t j) {
  if (j + ATTENTION_KEYS > v->dim[2] || v->stride[3] != 1)
    return (attention_ahead){0};
  int64_t size = v->dtype == SN_F32 ? 4 : 2;
  return (attention_ahead){v->data + view_at(v, 3, (int64_t[]){w->b, w->kv, j}) * size,
                           v->stride[2] * size, v->dim[3] * size};
}

static void run_keys(attention_work *w, int64_t j, int64_t n, const attention_result *to) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  int64_t row, wide = attention_wide(a->d), unit = a->kernels->vector;
  const float *keys = attention_rows(a, &a->k, at->b, at->kv, j, n, a->d, 1, w->keys, &row);
  a->kernels->dots(
      &(attention_dots){.m = at->n,
                        .n = n,
                        .d = a->d,
                        .q = w->q,
                        .q_row = wide,
                        .rows = keys,
                        .row = row,
                        .to = w->scores,
                        .to_row = ATTENTION_KEYS,
                        .ahead = {ahead_of(&a->v, at, j), ahead_of(&a->k, at, j + n)}});
  for (int64_t i = 0; i < at->n; i++)
    weigh_row(w, i, j, n, to);
  const float *values = attention_rows(a, &a->v, at->b, at->kv, j, n, a->dv, unit, w->values, &row);
  a->kernels->multiply(&(attention_product){.m = at->n,
                                            .n = attention_whole(a->dv, unit),
                                            .k = n,
                                            .a = w->scores,
                                            .a_row = ATTENTION_KEYS,
                                            .a_k = 1,
                                            .b = values,
                                            .b_row = row,
                                            .c = to->sums,
                                            .c_row = attention_wide(a->dv),
                                            .add = true});
}

void attention_run_few(attention_work *w, int64_t lo, int64_t hi, const attention_result *to) {
  start_rows(w, to);
  for (int64_t j = lo; j < hi; j += ATTENTION_KEYS)
    run_keys(w, j, min_i64(ATTENTION_KEYS, hi - j), to);
}

/* --- carefully --- */

/* Scores of a row from key j on, n of them. */
static void find_scores(attention_work *w, attention_place at, int64_t j, int64_t n) {
  const attention *a = w->a;
  int64_t row;
  const float *keys = attention_rows(a, &a->k, at.b, w->at.kv, j, n, a->d, 1, w->keys, &row);
  attention_dots_row(a, w->q, keys, row, n, a->d, w->scores);
  attention_score_row(a, at, j, n, w->scores, NULL);
}

/* The largest score, or the sink; NaN wins. */
static double find_largest(attention_work *w, attention_place at, double sink) {
  double largest = sink;
  for (int64_t j = w->at.lo; j < w->at.hi; j += ATTENTION_KEYS) {
    int64_t n = min_i64(ATTENTION_KEYS, w->at.hi - j);
    find_scores(w, at, j, n);
    for (int64_t k = 0; k < n; k++)
      if ((double)w->scores[k] > largest || isnan(w->scores[k]))
        largest = (double)w->scores[k];
  }
  return largest;
}

/* Adds what one block of keys gives to out; returns the sum of weights. *seen becomes true where there is any. */
static double add_block(attention_work *w, attention_place at, int64_t j, double largest,
                        float *out, bool *seen) {
  const attention *a = w->a;
  int64_t row, n = min_i64(ATTENTION_KEYS, w->at.hi - j);
  double sum = 0;
  find_scores(w, at, j, n);
  const float *values = attention_rows(a, &a->v, at.b, w->at.kv, j, n, a->dv, 1, w->values, &row);
  for (int64_t k = 0; k < n; k++) {
    if (w->scores[k] == -INFINITY)
      continue;
    double p = exp((double)w->scores[k] - largest);
    *seen = true;
    sum += p;
    for (int64_t d = 0; d < a->dv; d++)
      out[d] = (float)((double)out[d] + p * (double)values[k * row + d]);
  }
  return sum;
}

float attention_run_carefully(attention_work *w, int64_t row, float *out) {
  const attention *a = w->a;
  attention_place at = place_of(w, row);
  double sink = a->sinks.data ? (double)view_load(&a->sinks, view_at(&a->sinks, 1, &at.h))
                              : (double)-INFINITY;
  attention_read_row(a, &a->q, at.b, at.h, at.i, a->d, w->q);
  for (int64_t d = 0; d < a->d; d++)
    w->q[d] *= a->scale;
  memset(out, 0, (size_t)a->dv * sizeof *out);
  double largest = find_largest(w, at, sink), sum = 0;
  if (largest == (double)-INFINITY)
    return -INFINITY;
  bool seen = false;
  for (int64_t j = w->at.lo; j < w->at.hi; j += ATTENTION_KEYS)
    sum += add_block(w, at, j, largest, out, &seen);
  sum += exp(sink - largest);
  for (int64_t d = 0; seen && d < a->dv; d++)
    out[d] = (float)((double)out[d] / sum);
  return (float)(largest + log(sum));
}
