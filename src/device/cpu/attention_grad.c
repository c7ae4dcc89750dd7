/* The gradients of attention, from the log-sum-exp and the result of the forward pass:
 *
 *   p  = exp(score - lse)                         0 where masked and in rows whose lse is -inf
 *   ds = p * (d_out·v - d_out·out + d_lse)        the gradient of a score
 *   dq += ds * slope * k,  dk += ds * slope * q,  dv += p * d_out,  dbias += ds
 *   dsinks += exp(sink - lse) * (d_lse - d_out·out)
 *
 * For one kv head of one entry: blocks of query rows of the heads that read it pass over blocks of keys. dk and dv of the head are
 * summed in scratch, dq of the block too. Blocks in which k, q or d_out hold an infinity or NaN go key by key, so that what
 * is masked counts nothing. */
#include "device/cpu/attention.h"

enum { DQ, DK, DV, DBIAS, DSINKS };

typedef struct work {
  const attention *a;
  view lse, out, d_out, d_lse, to[CORE_OUTS];
  attention_block at;
  int64_t d_cols, dv_cols; /* widths of rows of sums */
  /* rows of the block, f32 [ATTENTION_ROWS][d or dv], zeros beyond n_rows; and as panels */
  float *q, *go, *q_panels, *go_panels;
  float *keys, *values; /* rows of the keys, f32 [ATTENTION_KEYS][d or dv] */
  float *panels;        /* of keys or values, whichever is multiplied */
  float *p, *ds;        /* [ATTENTION_ROWS][ATTENTION_KEYS] */
  float *slopes;        /* [ATTENTION_KEYS] */
  float *dq;            /* [ATTENTION_ROWS][d_cols] */
  float *dk, *dv;       /* [skv to a multiple of ATTENTION_KEYS][cols] */
  float *common;        /* by row: d_lse - d_out·out */
  float *dbias;         /* f32, by element number of the result */
  double *dsinks;       /* by head */
  int64_t n_dbias;
  bool finite; /* q and d_out */
} work;

/* --- scratch --- */

static int64_t whole_keys(int64_t n) {
  return (n + ATTENTION_KEYS - 1) / ATTENTION_KEYS * ATTENTION_KEYS;
}

/* Floats of each buffer, in the order of `buffers_of`. */
enum { N_BUFFERS = 15 };
typedef struct sizes {
  int64_t hq, skv, d, dv, n_dbias;
} sizes;
static void buffer_floats(const sizes *z, int64_t *n) {
  int64_t d = kernel_cols(z->d), dv = kernel_cols(z->dv), widest = max_i64(d, dv);
  int64_t all[N_BUFFERS] = {ATTENTION_ROWS * z->d,
                            ATTENTION_ROWS * z->dv,
                            ATTENTION_ROWS * d,
                            ATTENTION_ROWS * dv,
                            ATTENTION_KEYS * z->d,
                            ATTENTION_KEYS * z->dv,
                            ATTENTION_KEYS * widest,
                            ATTENTION_ROWS * ATTENTION_KEYS,
                            ATTENTION_ROWS * ATTENTION_KEYS,
                            ATTENTION_KEYS,
                            ATTENTION_ROWS * d,
                            whole_keys(z->skv) * d,
                            whole_keys(z->skv) * dv,
                            ATTENTION_ROWS,
                            z->n_dbias};
  memcpy(n, all, sizeof all);
}

/* Elements from the start of a value to the end of a view. */
static int64_t view_span_max(const program *p, const strided *s) {
  if (!s->value)
    return 0;
  int64_t span = cpu_size_max(p, s->base) + 1;
  for (int d = 0; d < s->rank; d++)
    span += max_i64(0, cpu_size_max(p, s->dim[d]) - 1) * cpu_size_max(p, s->stride[d]);
  return span;
}
static int64_t view_span(const view *v) {
  int64_t span = v->base + 1;
  for (int d = 0; d < 4; d++)
    span += max_i64(0, v->dim[d] - 1) * v->stride[d];
  return v->data ? span : 0;
}

static size_t need_part(const program *p, const core_part *c) {
  sizes z = {.hq = cpu_size_max(p, c->in[0].dim[1]),
             .skv = cpu_size_max(p, c->in[1].dim[2]),
             .d = cpu_size_max(p, c->in[0].dim[3]),
             .dv = cpu_size_max(p, c->in[2].dim[3]),
             .n_dbias = c->in[4].value ? view_span_max(p, &c->out[DBIAS]) : 0};
  int64_t n[N_BUFFERS];
  buffer_floats(&z, n);
  size_t bytes = cpu_take_bytes((size_t)z.hq * sizeof(double));
  for (int i = 0; i < N_BUFFERS; i++)
    bytes += cpu_take_bytes((size_t)n[i] * sizeof(float));
  return bytes;
}

size_t cpu_need_attention_grad(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    size_t bytes = need_part(p, &s->parts[i].u.core);
    most = bytes > most ? bytes : most;
  }
  return most;
}

static sn_status work_start(work *w, cpu_run *r, const attention *a, const core_part *c) {
  *w = (work){.a = a,
              .lse = view_of(r, &c->in[7]),
              .out = view_of(r, &c->in[8]),
              .d_out = view_of(r, &c->in[9]),
              .d_lse = view_of(r, &c->in[10]),
              .d_cols = kernel_cols(a->d),
              .dv_cols = kernel_cols(a->dv)};
  for (int i = 0; i < c->n_out; i++)
    w->to[i] = view_of(r, &c->out[i]);
  if (!a->bias.data || cpu_size(r, r->program->values[c->out[DBIAS].value].count) == 0)
    w->to[DBIAS].data = NULL; /* without a bias the result is empty; so with sinks */
  if (!a->sinks.data)
    w->to[DSINKS].data = NULL;
  w->n_dbias = view_span(&w->to[DBIAS]);
  float **buffers[N_BUFFERS] = {&w->q,      &w->go,     &w->q_panels, &w->go_panels, &w->keys,
                                &w->values, &w->panels, &w->p,        &w->ds,        &w->slopes,
                                &w->dq,     &w->dk,     &w->dv,       &w->common,    &w->dbias};
  int64_t n[N_BUFFERS];
  buffer_floats(&(sizes){a->hq, a->skv, a->d, a->dv, w->n_dbias}, n);
  bool all = true;
  for (int i = 0; i < N_BUFFERS; i++) {
    *buffers[i] = cpu_take(r, (size_t)n[i] * sizeof(float));
    all = all && *buffers[i];
  }
  w->dsinks = cpu_take(r, (size_t)a->hq * sizeof(double));
  if (!all || !w->dsinks)
    return SN_ERR_INTERNAL;
  memset(w->dsinks, 0, (size_t)a->hq * sizeof(double));
  memset(w->dbias, 0, (size_t)w->n_dbias * sizeof(float));
  return SN_OK;
}

/* --- rows --- */

static void copy_rows(const view *v, const attention_block *at, int64_t h, int64_t s, int64_t n,
                      int64_t width, float *to) {
  int64_t from = view_at(v, 3, (int64_t[]){at->b, h, s});
  for (int64_t i = 0; i < n; i++)
    view_read(v, from + i * v->stride[2], v->stride[3], width, to + i * width);
}

/* lse of a row; its common term goes to w->common. */
static float start_row(work *w, int64_t i) {
  int64_t index[] = {w->at.b, w->at.h, w->at.i + i}, dv = w->a->dv;
  float lse = view_load(&w->lse, view_at(&w->lse, 3, index));
  int64_t at = view_at(&w->out, 3, index);
  double sum = w->d_lse.data ? (double)view_load(&w->d_lse, view_at(&w->d_lse, 3, index)) : 0;
  for (int64_t d = 0; d < dv; d++)
    sum -= (double)w->go[i * dv + d] * (double)view_load(&w->out, at + d * w->out.stride[3]);
  w->common[i] = (float)sum;
  return lse;
}

static void add_sink(work *w, int64_t i, float lse) {
  const view *sinks = &w->a->sinks;
  if (!sinks->data || lse == -INFINITY)
    return;
  double sink = (double)view_load(sinks, view_at(sinks, 1, &w->at.h));
  w->dsinks[w->at.h] += exp(sink - (double)lse) * (double)w->common[i];
}

static void start_rows(work *w) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  memset(w->q, 0, (size_t)(ATTENTION_ROWS * a->d) * sizeof(float));
  memset(w->go, 0, (size_t)(ATTENTION_ROWS * a->dv) * sizeof(float));
  copy_rows(&a->q, at, at->h, at->i, at->n_rows, a->d, w->q);
  copy_rows(&w->d_out, at, at->h, at->i, at->n_rows, a->dv, w->go);
  for (int64_t i = 0; i < at->n_rows; i++)
    add_sink(w, i, start_row(w, i));
  kernel_pack_rows(w->q, a->d, at->n_rows, a->d, w->q_panels);
  kernel_pack_rows(w->go, a->dv, at->n_rows, a->dv, w->go_panels);
  w->finite = kernel_finite(w->q, at->n_rows * a->d) && kernel_finite(w->go, at->n_rows * a->dv);
  memset(w->dq, 0, (size_t)(ATTENTION_ROWS * w->d_cols) * sizeof(float));
}

/* --- one block of rows and keys --- */

/* c (+)= a·panels with plain rows of a; or with a transposed. */
static void multiply_rows(const float *a, int64_t a_row, const float *panels, int64_t m, int64_t n,
                          int64_t k, float *c, int64_t c_row, bool add) {
  kernel_multiply(&(kernel_block){.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a,
                                  .a_row = a_row,
                                  .a_k = 1,
                                  .b = panels,
                                  .c = c,
                                  .c_row = c_row,
                                  .add = add});
}
static void multiply_columns(const float *a, const float *panels, int64_t m, int64_t n, int64_t k,
                             float *c, int64_t c_row) {
  kernel_multiply(&(kernel_block){.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a,
                                  .a_row = 1,
                                  .a_k = ATTENTION_KEYS,
                                  .b = panels,
                                  .c = c,
                                  .c_row = c_row,
                                  .add = true});
}

static void add_bias(work *w, int64_t i, const float *ds) {
  const view *v = &w->to[DBIAS];
  int64_t at = view_at(v, 4, (int64_t[]){w->at.b, w->at.h, w->at.i + i, w->at.j});
  for (int64_t j = 0; j < w->at.n_keys; j++)
    w->dbias[at + j * v->stride[3]] += ds[j];
}

/* In row i: products q·k become p, products d_out·v become ds * slope; dbias takes ds. */
static void weigh_row(work *w, int64_t i) {
  const attention_block *at = &w->at;
  float *p = w->p + i * ATTENTION_KEYS, *ds = w->ds + i * ATTENTION_KEYS;
  float lse = view_load(&w->lse, view_at(&w->lse, 3, (int64_t[]){at->b, at->h, at->i + i}));
  attention_scores(w->a, at, at->i + i, p, w->slopes);
  if (lse == -INFINITY)
    for (int64_t j = 0; j < at->n_keys; j++)
      p[j] = -INFINITY;
  for (int64_t j = 0; j < at->n_keys; j++)
    if (p[j] == -INFINITY) /* also where v is NaN */
      ds[j] = 0, w->slopes[j] = 0;
    else
      ds[j] += w->common[i];
  attention_exp(p, lse == -INFINITY ? 0 : lse, at->n_keys);
  for (int64_t j = 0; j < at->n_keys; j++)
    ds[j] *= p[j];
  if (w->to[DBIAS].data)
    add_bias(w, i, ds);
  for (int64_t j = 0; j < at->n_keys; j++)
    ds[j] *= w->slopes[j];
}

/* Key by key, what is masked left out. */
static void add_one_by_one(work *w) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  for (int64_t i = 0; i < at->n_rows; i++)
    for (int64_t j = 0; j < at->n_keys; j++) {
      float p = w->p[i * ATTENTION_KEYS + j], ds = w->ds[i * ATTENTION_KEYS + j];
      if (p == 0)
        continue;
      kernel_axpy(w->dq + i * w->d_cols, ds, w->keys + j * a->d, a->d);
      kernel_axpy(w->dk + (at->j + j) * w->d_cols, ds, w->q + i * a->d, a->d);
      kernel_axpy(w->dv + (at->j + j) * w->dv_cols, p, w->go + i * a->dv, a->dv);
    }
}

static void add_products(work *w) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  kernel_pack_rows(w->keys, a->d, at->n_keys, a->d, w->panels);
  multiply_rows(w->ds, ATTENTION_KEYS, w->panels, at->n_rows, a->d, at->n_keys, w->dq, w->d_cols,
                true);
  multiply_columns(w->ds, w->q_panels, at->n_keys, a->d, at->n_rows, w->dk + at->j * w->d_cols,
                   w->d_cols);
  multiply_columns(w->p, w->go_panels, at->n_keys, a->dv, at->n_rows, w->dv + at->j * w->dv_cols,
                   w->dv_cols);
}

static void run_block(work *w) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  int64_t kv = attention_kv_head(a, at->h);
  copy_rows(&a->k, at, kv, at->j, at->n_keys, a->d, w->keys);
  copy_rows(&a->v, at, kv, at->j, at->n_keys, a->dv, w->values);
  kernel_pack_transposed(w->keys, a->d, a->d, at->n_keys, w->panels);
  multiply_rows(w->q, a->d, w->panels, at->n_rows, at->n_keys, a->d, w->p, ATTENTION_KEYS, false);
  kernel_pack_transposed(w->values, a->dv, a->dv, at->n_keys, w->panels);
  multiply_rows(w->go, a->dv, w->panels, at->n_rows, at->n_keys, a->dv, w->ds, ATTENTION_KEYS,
                false);
  for (int64_t i = 0; i < at->n_rows; i++)
    weigh_row(w, i);
  if (w->finite && kernel_finite(w->keys, at->n_keys * a->d))
    add_products(w);
  else
    add_one_by_one(w);
}

static void run_rows(work *w) {
  int64_t lo, hi;
  start_rows(w);
  attention_block_range(w->a, &w->at, &lo, &hi);
  for (int64_t j = lo / ATTENTION_KEYS * ATTENTION_KEYS; j < hi; j += ATTENTION_KEYS) {
    w->at.j = j;
    w->at.n_keys = min_i64(ATTENTION_KEYS, hi - j);
    run_block(w);
  }
  const view *to = &w->to[DQ];
  for (int64_t i = 0; to->data && i < w->at.n_rows; i++)
    view_write(to, view_at(to, 3, (int64_t[]){w->at.b, w->at.h, w->at.i + i}), to->stride[3],
               w->a->d, w->dq + i * w->d_cols);
}

/* --- one kv head --- */

static void write_rows(const view *to, int64_t b, int64_t h, int64_t n, int64_t width,
                       const float *from, int64_t row) {
  for (int64_t j = 0; to->data && j < n; j++)
    view_write(to, view_at(to, 3, (int64_t[]){b, h, j}), to->stride[3], width, from + j * row);
}

static void run_head(work *w, int64_t b, int64_t kv) {
  const attention *a = w->a;
  int64_t group = a->hq / a->hk, keys = whole_keys(a->skv);
  memset(w->dk, 0, (size_t)(keys * w->d_cols) * sizeof(float));
  memset(w->dv, 0, (size_t)(keys * w->dv_cols) * sizeof(float));
  for (int64_t h = kv * group; h < (kv + 1) * group; h++)
    for (int64_t i = 0; i < a->sq; i += ATTENTION_ROWS) {
      w->at =
          (attention_block){.b = b, .h = h, .i = i, .n_rows = min_i64(ATTENTION_ROWS, a->sq - i)};
      run_rows(w);
    }
  write_rows(&w->to[DK], b, kv, a->skv, a->d, w->dk, w->d_cols);
  write_rows(&w->to[DV], b, kv, a->skv, a->dv, w->dv, w->dv_cols);
}

/* The sums over all heads and entries. */
static void finish(work *w) {
  const view *bias = &w->to[DBIAS], *sinks = &w->to[DSINKS];
  int64_t i[4], n[4];
  for (int64_t h = 0; sinks->data && h < w->a->hq; h++)
    view_store(sinks, view_at(sinks, 1, &h), (float)w->dsinks[h]);
  if (!bias->data)
    return;
  for (int d = 0; d < 4;
       d++) /* each element once; where it is broadcast over nothing, it is there all the same */
    n[d] = bias->stride[d] ? bias->dim[d] : 1;
  for (i[0] = 0; i[0] < n[0]; i[0]++)
    for (i[1] = 0; i[1] < n[1]; i[1]++)
      for (i[2] = 0; i[2] < n[2]; i[2]++)
        for (i[3] = 0; i[3] < n[3]; i[3]++)
          view_store(bias, view_at(bias, 4, i), w->dbias[view_at(bias, 4, i)]);
}

static sn_status run_part(cpu_run *r, const core_part *c) {
  attention a = attention_of(r, c);
  work w;
  SN_TRY(work_start(&w, r, &a, c));
  for (int64_t b = 0; b < a.b; b++)
    for (int64_t kv = 0; kv < a.hk; kv++)
      run_head(&w, b, kv);
  finish(&w);
  return SN_OK;
}

sn_status cpu_run_attention_grad(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(run_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
  }
  return SN_OK;
}
