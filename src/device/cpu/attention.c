/* Attention, forward: blocks of query rows pass over blocks of keys and keep, for each row, the largest score so far,
 * the sum of exp(score - largest) and the sum of these times v; so no matrix of scores beyond a block exists.
 *
 * A masked key must count nothing whatever v holds there, but the kernel would multiply 0 by it: so blocks of v with an
 * infinity or NaN go key by key. Few rows (generation) go so too, without packing anything. */
#include "device/cpu/attention.h"

/* Fewer rows than this read k and v where they lie. */
enum { PACKED_ROWS = 4 };

/* One block of rows at work. All of it is scratch. */
typedef struct work {
  const attention *a;
  attention_block at;
  const float *q; /* rows of this block */
  int64_t q_row;
  float *room_q, *room_kv; /* for operands that are not plain f32 rows */
  float *keys, *values;    /* panels */
  float *scores;           /* [rows][ATTENTION_KEYS]; then exp(score - largest) */
  float *sums;             /* [rows][dv to a multiple of KERNEL_COLS] */
  int64_t sums_row;
  float *largest; /* by row */
  double *total;  /* by row */
} work;

static size_t floats(int64_t n) { return cpu_take_bytes((size_t)n * sizeof(float)); }

static size_t need(int64_t d, int64_t dv) {
  int64_t widest = max_i64(d, dv);
  return floats(ATTENTION_ROWS * d) + floats(ATTENTION_KEYS * widest) + floats(ATTENTION_KEYS * d) +
         floats(ATTENTION_KEYS * kernel_cols(dv)) + floats(ATTENTION_ROWS * ATTENTION_KEYS) +
         floats(ATTENTION_ROWS * kernel_cols(dv)) + floats(ATTENTION_ROWS) +
         cpu_take_bytes(ATTENTION_ROWS * sizeof(double));
}

size_t cpu_need_attention(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    size_t bytes = need(cpu_size_max(p, c->in[0].dim[3]), cpu_size_max(p, c->in[2].dim[3]));
    most = bytes > most ? bytes : most;
  }
  return most;
}

static float *take_floats(cpu_run *r, int64_t n) { return cpu_take(r, (size_t)n * sizeof(float)); }

static sn_status work_start(work *w, cpu_run *r, const attention *a) {
  *w = (work){.a = a, .sums_row = kernel_cols(a->dv)};
  w->room_q = take_floats(r, ATTENTION_ROWS * a->d);
  w->room_kv = take_floats(r, ATTENTION_KEYS * max_i64(a->d, a->dv));
  w->keys = take_floats(r, ATTENTION_KEYS * a->d);
  w->values = take_floats(r, ATTENTION_KEYS * w->sums_row);
  w->scores = take_floats(r, ATTENTION_ROWS * ATTENTION_KEYS);
  w->sums = take_floats(r, ATTENTION_ROWS * w->sums_row);
  w->largest = take_floats(r, ATTENTION_ROWS);
  w->total = cpu_take(r, ATTENTION_ROWS * sizeof *w->total);
  bool all = w->room_q && w->room_kv && w->keys && w->values && w->scores && w->sums &&
             w->largest && w->total;
  return all ? SN_OK : SN_ERR_INTERNAL;
}

/* Rows of q in f32. The kernel reads rows up to a multiple of its tile, so the last block is copied. */
static void load_rows(work *w) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  w->q = attention_rows(&a->q, at->b, at->h, at->i, at->n_rows, a->d, w->room_q, &w->q_row);
  if (w->q != w->room_q && at->n_rows % KERNEL_ROWS != 0) {
    for (int64_t i = 0; i < at->n_rows; i++)
      memcpy(w->room_q + i * a->d, w->q + i * w->q_row, (size_t)a->d * sizeof(float));
    w->q = w->room_q;
    w->q_row = a->d;
  }
  if (w->q == w->room_q)
    memset(w->room_q + at->n_rows * a->d, 0,
           (size_t)((kernel_rows(at->n_rows) - at->n_rows) * a->d) * sizeof(float));
}

static void start_rows(work *w) {
  const attention *a = w->a;
  load_rows(w);
  float sink = a->sinks.data ? view_load(&a->sinks, view_at(&a->sinks, 1, &w->at.h)) : -INFINITY;
  for (int64_t i = 0; i < w->at.n_rows; i++) {
    w->largest[i] = sink;
    w->total[i] = sink == -INFINITY ? 0 : 1;
  }
  memset(w->sums, 0, (size_t)(ATTENTION_ROWS * w->sums_row) * sizeof(float));
}

/* --- one block of keys --- */

static void multiply_keys(work *w, bool packed) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  int64_t row, kv = attention_kv_head(a, at->h);
  const float *keys = attention_rows(&a->k, at->b, kv, at->j, at->n_keys, a->d, w->room_kv, &row);
  if (packed) {
    kernel_pack_transposed(keys, row, a->d, at->n_keys, w->keys);
    kernel_multiply(&(kernel_block){.m = at->n_rows,
                                    .n = at->n_keys,
                                    .k = a->d,
                                    .a = w->q,
                                    .a_row = w->q_row,
                                    .a_k = 1,
                                    .b = w->keys,
                                    .c = w->scores,
                                    .c_row = ATTENTION_KEYS});
    return;
  }
  for (int64_t i = 0; i < at->n_rows; i++)
    for (int64_t j = 0; j < at->n_keys; j++)
      w->scores[i * ATTENTION_KEYS + j] = kernel_dot(w->q + i * w->q_row, keys + j * row, a->d);
}

/* Scores become weights exp(score - largest); what was summed before is scaled to the new largest. */
static void weigh_row(work *w, int64_t i) {
  float *scores = w->scores + i * ATTENTION_KEYS;
  int64_t n = w->at.n_keys;
  attention_scores(w->a, &w->at, w->at.i + i, scores, NULL);
  float here = attention_max(scores, n), before = w->largest[i];
  float largest = here > before || isnan(here) ? here : before;
  if (largest == -INFINITY && here == before)
    largest = 0; /* nothing counts yet: all weights become 0 (or NaN) */
  float keep = before == -INFINITY ? 0 : attention_exp_one(before - largest);
  if (isnan(largest)) /* what is hidden counts nothing, whatever the others are */
    for (int64_t j = 0; j < n; j++)
      scores[j] = scores[j] == -INFINITY ? 0 : NAN;
  else
    attention_exp(scores, largest, n);
  w->total[i] = w->total[i] * (double)keep + (double)attention_sum(scores, n);
  if (keep != 1) /* 0 stays 0: no key was seen */
    for (int64_t d = 0; d < w->a->dv; d++)
      w->sums[i * w->sums_row + d] *= w->sums[i * w->sums_row + d] == 0 ? 1 : keep;
  w->largest[i] = w->total[i] == 0 ? -INFINITY : largest;
}

static void add_value(work *w, int64_t i, int64_t j, const float *value) {
  float p = w->scores[i * ATTENTION_KEYS + j];
  if (p != 0)
    kernel_axpy(w->sums + i * w->sums_row, p, value, w->a->dv);
}

static bool finite_rows(const float *rows, int64_t row, int64_t n, int64_t width) {
  bool finite = true;
  for (int64_t i = 0; i < n && finite; i++)
    finite = kernel_finite(rows + i * row, width);
  return finite;
}

static void multiply_values(work *w, bool packed) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  int64_t row, kv = attention_kv_head(a, at->h);
  const float *values =
      attention_rows(&a->v, at->b, kv, at->j, at->n_keys, a->dv, w->room_kv, &row);
  if (packed && finite_rows(values, row, at->n_keys, a->dv)) {
    kernel_pack_rows(values, row, at->n_keys, a->dv, w->values);
    kernel_multiply(&(kernel_block){.m = at->n_rows,
                                    .n = a->dv,
                                    .k = at->n_keys,
                                    .a = w->scores,
                                    .a_row = ATTENTION_KEYS,
                                    .a_k = 1,
                                    .b = w->values,
                                    .c = w->sums,
                                    .c_row = w->sums_row,
                                    .add = true});
    return;
  }
  for (int64_t j = 0; j < at->n_keys; j++)
    for (int64_t i = 0; i < at->n_rows; i++)
      add_value(w, i, j, values + j * row);
}

static void finish_rows(work *w, const view *out, const view *lse) {
  const attention *a = w->a;
  for (int64_t i = 0; i < w->at.n_rows; i++) {
    int64_t index[] = {w->at.b, w->at.h, w->at.i + i};
    float *sums = w->sums + i * w->sums_row;
    double total = w->total[i];
    for (int64_t d = 0; d < a->dv; d++)
      sums[d] =
          sums[d] == 0 ? 0 : (float)((double)sums[d] / total); /* 0 too where total is 0 or NaN */
    if (out->data)
      view_write(out, view_at(out, 3, index), out->stride[3], a->dv, sums);
    if (lse->data)
      view_store(lse, view_at(lse, 3, index),
                 total == 0 ? -INFINITY : (float)((double)w->largest[i] + log(total)));
  }
}

static void run_rows(work *w, const view *out, const view *lse) {
  int64_t lo, hi;
  bool packed = w->at.n_rows >= PACKED_ROWS;
  start_rows(w);
  attention_block_range(w->a, &w->at, &lo, &hi);
  for (int64_t j = lo; j < hi; j += ATTENTION_KEYS) {
    w->at.j = j;
    w->at.n_keys = min_i64(ATTENTION_KEYS, hi - j);
    multiply_keys(w, packed);
    for (int64_t i = 0; i < w->at.n_rows; i++)
      weigh_row(w, i);
    multiply_values(w, packed);
  }
  finish_rows(w, out, lse);
}

static sn_status run_part(cpu_run *r, const core_part *c) {
  attention a = attention_of(r, c);
  view out = view_of(r, &c->out[0]), lse = view_of(r, &c->out[1]);
  work w;
  SN_TRY(work_start(&w, r, &a));
  for (int64_t b = 0; b < a.b; b++)
    for (int64_t h = 0; h < a.hq; h++)
      for (int64_t i = 0; i < a.sq; i += ATTENTION_ROWS) {
        w.at =
            (attention_block){.b = b, .h = h, .i = i, .n_rows = min_i64(ATTENTION_ROWS, a.sq - i)};
        run_rows(&w, &out, &lse);
      }
  return SN_OK;
}

sn_status cpu_run_attention(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(run_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
  }
  return SN_OK;
}
