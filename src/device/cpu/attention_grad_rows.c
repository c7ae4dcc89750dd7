/* Gradients of attention row by row: where something is not finite, so that what is masked is left out; and the gradients
 * of a bias and of sinks, which may be sums over everything. */
#include "device/cpu/attention_grad.h"

/* Reads what belongs to a row; its lse. q is left multiplied with the scale in w->q_turned. */
static float start_row(grad_work *w, attention_place at, float *common) {
  const attention *a = w->a;
  attention_read_row(a, &a->q, at.b, at.h, at.i, a->d, w->q);
  attention_read_row(a, &w->d_out, at.b, at.h, at.i, a->dv, w->go);
  for (int64_t d = 0; d < a->d; d++)
    w->q_turned[d] = w->q[d] * a->scale;
  return attention_grad_row(w, at, w->go, w->values, common);
}

/* p, ds and slopes of a row against n keys from j on; 0 where masked. */
static void weigh_row(grad_work *w, attention_place at, float lse, float common, const float *keys,
                      int64_t row, const float *values, int64_t row_v, int64_t j, int64_t n) {
  const attention *a = w->a;
  attention_dots_row(a, w->q_turned, keys, row, n, a->d, w->p);
  attention_score_row(a, at, j, n, w->p, w->slopes);
  attention_dots_row(a, w->go, values, row_v, n, a->dv, w->ds);
  for (int64_t k = 0; k < n; k++)
    if (w->p[k] == -INFINITY || lse == -INFINITY) { /* also where v is NaN */
      w->p[k] = -INFINITY;
      w->ds[k] = w->slopes[k] = 0;
    } else {
      w->ds[k] += common;
    }
  a->kernels->exp_row(w->p, lse == -INFINITY ? 0 : lse, n);
  for (int64_t k = 0; k < n; k++)
    w->ds[k] *= w->p[k];
}

/* Keys of row `at` within lo … hi-1, block by block, each handed to `use`. */
typedef struct row_block {
  attention_place at;
  int64_t j, n;
  const float *keys;
  int64_t row;
} row_block;
typedef void (*row_use)(grad_work *w, const row_block *x, void *user);
static void run_row(grad_work *w, attention_place at, int64_t lo, int64_t hi, row_use use,
                    void *user) {
  const attention *a = w->a;
  int64_t from, to, kv = at.h / a->group;
  float common, lse = start_row(w, at, &common);
  attention_range(a, at.b, at.i, &from, &to);
  to = min_i64(to, hi);
  for (int64_t j = max_i64(from, lo); j < to; j += ATTENTION_KEYS) {
    row_block x = {.at = at, .j = j, .n = min_i64(ATTENTION_KEYS, to - j)};
    int64_t row_v;
    x.keys = attention_rows(a, &a->k, at.b, kv, j, x.n, a->d, 1, w->keys, &x.row);
    const float *values = attention_rows(a, &a->v, at.b, kv, j, x.n, a->dv, 1, w->values, &row_v);
    weigh_row(w, at, lse, common, x.keys, x.row, values, row_v, j, x.n);
    use(w, &x, user);
  }
}

/* --- carefully --- */

static void add_scaled(float *to, float by, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] += by * x[i];
}

/* dk takes what dq does, without the scale: that comes at the end. */
static void add_keys(grad_work *w, const row_block *x, void *user) {
  const attention *a = w->a;
  (void)user;
  for (int64_t k = 0; k < x->n; k++) {
    if (w->p[k] == 0)
      continue;
    int64_t at = x->j + k - w->first;
    float ds = a->scale == 0 ? 0 : w->ds[k] * (w->slopes[k] / a->scale);
    add_scaled(w->dq, w->ds[k] * w->slopes[k], x->keys + k * x->row, a->d);
    add_scaled(w->dk + at * w->wide, ds, w->q, a->d);
    add_scaled(w->dv + at * w->wide_v, w->p[k], w->go, a->dv);
  }
}

void attention_grad_carefully(grad_work *w, int64_t chunk) {
  const attention *a = w->a;
  int64_t n = w->end - w->first;
  memset(w->dk, 0, (size_t)(n * w->wide) * sizeof *w->dk);
  memset(w->dv, 0, (size_t)(n * w->wide_v) * sizeof *w->dv);
  for (int64_t h = w->at.kv * a->group; h < (w->at.kv + 1) * a->group; h++)
    for (int64_t i = 0; i < a->sq; i++) {
      attention_place at = {w->at.b, h, i};
      memset(w->dq, 0, (size_t)a->d * sizeof *w->dq);
      run_row(w, at, w->first, w->end, add_keys, NULL);
      attention_grad_put(w, chunk, at, w->dq);
    }
}

/* --- sinks --- */

void attention_grad_sinks(cpu_run *r, grad_work *w) {
  const attention *a = w->a;
  const view *to = &w->to[DSINKS];
  cpu_begin(r);
  for (int64_t h; cpu_next(r, a->hq, &h);) {
    double sink = (double)view_load(&a->sinks, view_at(&a->sinks, 1, &h)), sum = 0;
    for (int64_t b = 0; b < a->b; b++)
      for (int64_t i = 0; i < a->sq; i++) {
        float common, lse = start_row(w, (attention_place){b, h, i}, &common);
        if (lse != -INFINITY)
          sum += exp(sink - (double)lse) * (double)common;
      }
    view_store(to, view_at(to, 1, &h), (float)sum);
  }
}

/* --- bias --- */

static void add_bias(grad_work *w, const row_block *x, void *user) {
  const view *to = &w->to[DBIAS];
  float *dbias = (float *)user + view_at(to, 4, (int64_t[]){x->at.b, x->at.h, x->at.i, x->j});
  for (int64_t k = 0; k < x->n; k++)
    dbias[k * to->stride[3]] += w->ds[k];
}

/* Indices from … to-1 along an axis of the bias; all where it is broadcast. */
typedef struct span {
  int64_t from, to;
} span;
static span span_of(const view *v, int axis, int64_t number, int64_t each) {
  if (v->stride[axis] == 0)
    return (span){0, v->dim[axis]};
  return (span){number * each, min_i64(v->dim[axis], (number + 1) * each)};
}
static int64_t spans(const view *v, int axis, int64_t each) {
  return v->stride[axis] == 0 ? 1 : (v->dim[axis] + each - 1) / each;
}

/* The elements of these indices, each once (also where the bias is broadcast over nothing): cleared in dbias, or written
 * from there. */
static void visit_bias(const view *to, const span at[3], float *dbias, bool write) {
  int64_t i[4], n[3], keys = to->stride[3] ? to->dim[3] : 1;
  for (int d = 0; d < 3; d++)
    n[d] = to->stride[d] ? at[d].to : 1;
  for (i[0] = at[0].from; i[0] < n[0]; i[0]++)
    for (i[1] = at[1].from; i[1] < n[1]; i[1]++)
      for (i[2] = at[2].from; i[2] < n[2]; i[2]++)
        for (i[3] = 0; i[3] < keys; i[3]++)
          if (write)
            view_store(to, view_at(to, 4, i), dbias[view_at(to, 4, i)]);
          else
            dbias[view_at(to, 4, i)] = 0;
}

/* A piece is what no other one's rows add to: an entry, head or block of rows, or all of them where the bias is broadcast. */
void attention_grad_bias(cpu_run *r, grad_work *w, float *dbias) {
  const view *to = &w->to[DBIAS];
  int64_t heads = spans(to, 1, 1), rows = spans(to, 2, ATTENTION_ROWS);
  cpu_begin(r);
  for (int64_t n; cpu_next(r, spans(to, 0, 1) * heads * rows, &n);) {
    span at[3] = {span_of(to, 0, n / rows / heads, 1), span_of(to, 1, n / rows % heads, 1),
                  span_of(to, 2, n % rows, ATTENTION_ROWS)};
    visit_bias(to, at, dbias, false);
    for (int64_t b = at[0].from; b < at[0].to; b++)
      for (int64_t h = at[1].from; h < at[1].to; h++)
        for (int64_t i = at[2].from; i < at[2].to; i++)
          run_row(w, (attention_place){b, h, i}, 0, w->a->skv, add_bias, dbias);
    visit_bias(to, at, dbias, true);
  }
}
