/* The gradients of attention, from the log-sum-exp and the result of the forward pass:
 *
 *   p  = exp(score - lse)                         0 where masked and in rows whose lse is -inf
 *   ds = p * (d_out·v - d_out·out + d_lse)        the gradient of a score
 *   dq += ds * slope * k,  dk += ds * slope * q,  dv += p * d_out,  dbias += ds
 *   dsinks += exp(sink - lse) * (d_lse - d_out·out)
 *
 * A piece of work is a part of the keys of one kv head: blocks of the query rows that read it pass over blocks of these
 * keys; dk and dv are summed in scratch. Where heads are few, the keys of each are cut, and what the parts give for dq is
 * added in their order by a second loop. dbias and dsinks, which are rarely wanted, have loops of their own
 * (attention_grad_rows.c). */
#include "device/cpu/attention_grad.h"

enum { ENOUGH = 16, CHUNK_LEAST = 192 };

/* --- cuts and scratch --- */

/* Parts of the keys of each of so many kv heads (of all entries), and keys of a part. */
typedef struct cut {
  int64_t chunks, chunk;
} cut;
static cut cut_of(int64_t heads, int64_t skv) {
  cut c = {.chunks = 1, .chunk = attention_whole(skv, ATTENTION_KEYS)};
  if (heads > 0 && heads < ENOUGH && skv > CHUNK_LEAST) {
    int64_t chunks = (ENOUGH + heads - 1) / heads;
    c.chunk = max_i64(CHUNK_LEAST, attention_whole((skv + chunks - 1) / chunks, ATTENTION_KEYS));
    c.chunks = (skv + c.chunk - 1) / c.chunk;
  }
  return c;
}

enum { N_BUFFERS = 13 };
static void buffer_floats(int64_t d, int64_t dv, int64_t chunk, bool added, bool capped,
                          int64_t *n) {
  int64_t wide = attention_wide(d), wide_v = attention_wide(dv),
          scores = ATTENTION_ROWS * ATTENTION_KEYS;
  int64_t all[N_BUFFERS] = {ATTENTION_ROWS * wide,
                            ATTENTION_ROWS * wide_v,
                            ATTENTION_ROWS * d,
                            ATTENTION_ROWS * dv,
                            ATTENTION_KEYS * wide,
                            ATTENTION_KEYS * wide_v,
                            scores,
                            scores,
                            capped ? scores : ATTENTION_KEYS,
                            added ? ATTENTION_SCORE_ROOM : 0,
                            ATTENTION_ROWS * d,
                            chunk * wide,
                            chunk * wide_v};
  memcpy(n, all, sizeof all);
}

static size_t need_part(const program *p, const core_part *c) {
  int64_t n[N_BUFFERS];
  size_t bytes = 0;
  buffer_floats(cpu_size_max(p, c->in[0].dim[3]), cpu_size_max(p, c->in[2].dim[3]),
                attention_whole(cpu_size_max(p, c->in[1].dim[2]), ATTENTION_KEYS),
                c->in[3].value || c->in[4].value, c->reals[1] > 0, n);
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

/* Parts of dq: the most for any number of heads up to all. */
static int64_t parts_floats_max(const program *p, const core_part *c) {
  const sn_dim *q = c->in[0].dim, *k = c->in[1].dim;
  int64_t heads = cpu_size_max(p, q[0]) * cpu_size_max(p, k[1]), most = 0;
  int64_t hk = max_i64(1, cpu_size_max(p, k[1])), skv = cpu_size_max(p, k[2]);
  for (int64_t h = 1; h <= min_i64(heads, ENOUGH - 1); h++) {
    int64_t chunks = min_i64((ENOUGH + h - 1) / h, (skv + CHUNK_LEAST - 1) / CHUNK_LEAST);
    most = max_i64(most, chunks > 1 ? h * chunks : 0);
  }
  return most * (cpu_size_max(p, q[1]) / hk) * cpu_size_max(p, q[2]) *
         attention_wide(cpu_size_max(p, q[3]));
}

size_t cpu_need_shared_attention_grad(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    int64_t n_dbias = c->in[4].value ? view_span_max(p, &c->out[DBIAS]) : 0;
    size_t bytes = cpu_take_bytes((size_t)parts_floats_max(p, c) * sizeof(float)) +
                   cpu_take_bytes((size_t)n_dbias * sizeof(float)) + attention_shared_keys(p, c);
    most = bytes > most ? bytes : most;
  }
  return most;
}

static void find_operands(grad_work *w, cpu_run *r, const attention *a, const core_part *c) {
  *w = (grad_work){.a = a,
                   .lse = view_of(r, &c->in[7]),
                   .out = view_of(r, &c->in[8]),
                   .d_out = view_of(r, &c->in[9]),
                   .d_lse = view_of(r, &c->in[10]),
                   .wide = attention_wide(a->d),
                   .wide_v = attention_wide(a->dv)};
  for (int i = 0; i < c->n_out; i++)
    w->to[i] = view_of(r, &c->out[i]);
  if (!a->bias.data || cpu_size(r, r->program->values[c->out[DBIAS].value].count) == 0)
    w->to[DBIAS].data = NULL; /* without a bias the result is empty; so with sinks */
  if (!a->sinks.data)
    w->to[DSINKS].data = NULL;
}

static sn_status work_start(grad_work *w, cpu_run *r, const cut *c) {
  const attention *a = w->a;
  float **buffers[N_BUFFERS] = {&w->q,      &w->go, &w->q_turned, &w->go_turned, &w->keys,
                                &w->values, &w->p,  &w->ds,       &w->slopes,    &w->room,
                                &w->dq,     &w->dk, &w->dv};
  int64_t n[N_BUFFERS];
  bool all = true;
  buffer_floats(a->d, a->dv, c->chunk, a->mask.data || a->bias.data, a->softcap > 0, n);
  for (int i = 0; i < N_BUFFERS; i++) {
    *buffers[i] = cpu_take(r, (size_t)n[i] * sizeof(float));
    all = all && *buffers[i];
  }
  int64_t parts = c->chunks * a->b * a->hq * a->sq * w->wide;
  if (all && c->chunks > 1 && parts > 0) {
    w->parts = cpu_take_shared(r, (size_t)parts * sizeof(float));
    all = w->parts;
  }
  return all ? SN_OK : SN_ERR_INTERNAL;
}

/* --- a block of rows --- */

float attention_grad_row(const grad_work *w, attention_place at, const float *go, float *room,
                         float *common) {
  const attention *a = w->a;
  int64_t index[] = {at.b, at.h, at.i};
  attention_read_row(a, &w->out, at.b, at.h, at.i, a->dv, room);
  float dot;
  attention_dots_row(a, go, room, 0, 1, a->dv, &dot);
  *common = (w->d_lse.data ? view_load(&w->d_lse, view_at(&w->d_lse, 3, index)) : 0) - dot;
  return view_load(&w->lse, view_at(&w->lse, 3, index));
}

static attention_place place_of(const grad_work *w, int64_t row) {
  return (attention_place){w->at.b, attention_head(w->a, &w->at, row),
                           attention_row(w->a, &w->at, row)};
}

/* Lanes behind the last row have weights of 0, as have rows that see nothing. */
static void start_rows(grad_work *w) {
  const attention *a = w->a;
  attention_block *at = &w->at;
  attention_block_rows(a, at, &a->q, a->d, w->wide, w->q);
  attention_block_rows(a, at, &w->d_out, a->dv, w->wide_v, w->go);
  a->kernels->transpose(w->q, w->wide, at->lanes, a->d, attention_unit(a), w->q_turned, at->lanes);
  a->kernels->transpose(w->go, w->wide_v, at->lanes, a->dv, 1, w->go_turned, at->lanes);
  for (int64_t l = 0; l < at->lanes; l++) {
    float lse = -INFINITY;
    w->common[l] = 0;
    if (l < at->n)
      lse = attention_grad_row(w, place_of(w, l), w->go + l * w->wide_v, w->values, &w->common[l]);
    w->lse2[l] = lse == -INFINITY ? INFINITY : lse * (float)ATTENTION_LOG2_E;
  }
}

/* c += a·b, or c = a·b, where a is [m][k], or [k][m] if turned. */
typedef struct matrix {
  const float *data;
  int64_t row;
  bool turned;
} matrix;
static void multiply(const grad_work *w, int64_t m, int64_t n, int64_t k, matrix a, const float *b,
                     int64_t b_row, float *c, int64_t c_row, bool add) {
  w->a->kernels->multiply(&(attention_product){.m = m,
                                               .n = n,
                                               .k = k,
                                               .a = a.data,
                                               .a_row = a.turned ? 1 : a.row,
                                               .a_k = a.turned ? a.row : 1,
                                               .b = b,
                                               .b_row = b_row,
                                               .c = c,
                                               .c_row = c_row,
                                               .add = add});
}

/* Rows of keys and values of a tile. */
typedef struct operands {
  const float *keys, *values;
  int64_t row, row_v;
} operands;

/* q·k to p, d_out·v to ds. */
static void multiply_rows(grad_work *w, const attention_tile *t, const operands *o) {
  const attention *a = w->a;
  for (attention_part x = {0}; attention_next(a, &w->at, t, &x);) {
    int64_t at = x.j * t->lanes + x.l;
    multiply(w, x.n, x.lanes, a->d, (matrix){o->keys + x.j * o->row, o->row, false},
             w->q_turned + x.l, t->lanes, w->p + at, t->lanes, false);
    multiply(w, x.n, x.lanes, a->dv, (matrix){o->values + x.j * o->row_v, o->row_v, false},
             w->go_turned + x.l, t->lanes, w->ds + at, t->lanes, false);
  }
}

static void add_products(grad_work *w, const attention_tile *t, const operands *o) {
  const attention *a = w->a;
  for (attention_part x = {0}; attention_next(a, &w->at, t, &x);) {
    int64_t key = t->j + x.j - w->first, at = x.j * t->lanes + x.l;
    multiply(w, x.n, w->wide_v, x.lanes, (matrix){w->p + at, t->lanes, false},
             w->go + x.l * w->wide_v, w->wide_v, w->dv + key * w->wide_v, w->wide_v, true);
    multiply(w, x.n, w->wide, x.lanes, (matrix){w->ds + at, t->lanes, false}, w->q + x.l * w->wide,
             w->wide, w->dk + key * w->wide, w->wide, true);
    multiply(w, a->d, x.lanes, x.n, (matrix){o->keys + x.j * o->row, o->row, true}, w->ds + at,
             t->lanes, w->dq + x.l, t->lanes, true);
  }
}

static void run_keys(grad_work *w, int64_t j, int64_t n) {
  const attention *a = w->a;
  operands o;
  o.keys = attention_rows(a, &a->k, w->at.b, w->at.kv, j, n, a->d, 1, w->keys, &o.row);
  o.values = attention_rows(a, &a->v, w->at.b, w->at.kv, j, n, a->dv, 1, w->values, &o.row_v);
  attention_tile t = {.lanes = w->at.lanes,
                      .keys = n,
                      .j = j,
                      .scores = w->p,
                      .from = w->at.from,
                      .to = w->at.to,
                      .slopes = a->softcap > 0 ? w->slopes : NULL,
                      .arrives = w->ds,
                      .lse = w->lse2,
                      .common = w->common};
  multiply_rows(w, &t, &o);
  attention_score_lanes(a, &w->at, &t, w->room);
  a->kernels->weigh(&t);
  add_products(w, &t, &o);
}

void attention_grad_put(const grad_work *w, int64_t chunk, attention_place at, const float *dq) {
  const attention *a = w->a;
  const view *to = &w->to[DQ];
  if (w->parts)
    memcpy(w->parts + (((chunk * a->b + at.b) * a->hq + at.h) * a->sq + at.i) * w->wide, dq,
           (size_t)a->d * sizeof *dq);
  else if (to->data)
    view_write(to, view_at(to, 3, (int64_t[]){at.b, at.h, at.i}), to->stride[3], a->d, dq);
}

/* True if all is finite. */
static bool run_rows(grad_work *w, int64_t chunk) {
  const attention *a = w->a;
  int64_t lo = max_i64(w->at.lo, w->first), hi = min_i64(w->at.hi, w->end);
  if (lo >= hi) {
    memset(w->q, 0, (size_t)(w->at.n * w->wide) * sizeof *w->q);
  } else {
    start_rows(w);
    memset(w->dq, 0, (size_t)(a->d * w->at.lanes) * sizeof *w->dq);
    for (int64_t j = lo; j < hi; j += ATTENTION_KEYS)
      run_keys(w, j, min_i64(ATTENTION_KEYS, hi - j));
    a->kernels->transpose(w->dq, w->at.lanes, a->d, w->at.n, a->scale, w->q, w->wide);
  }
  for (int64_t i = 0; i < w->at.n; i++)
    attention_grad_put(w, chunk, place_of(w, i), w->q + i * w->wide);
  return a->kernels->finite(w->q, w->at.n * w->wide);
}

/* --- pieces --- */

static void write_rows(const grad_work *w, const view *to, int64_t width, float *from, int64_t row,
                       float by) {
  for (int64_t j = w->first; to->data && j < w->end; j++, from += row) {
    for (int64_t d = 0; by != 1 && d < width; d++)
      from[d] *= by;
    view_write(to, view_at(to, 3, (int64_t[]){w->at.b, w->at.kv, j}), to->stride[3], width, from);
  }
}

static void run_piece(grad_work *w, const cut *c, int64_t head, int64_t chunk) {
  const attention *a = w->a;
  int64_t b = head / a->hk, kv = head % a->hk, blocks = attention_blocks(a->group, a->sq);
  w->first = chunk * c->chunk;
  w->end = min_i64(a->skv, w->first + c->chunk);
  int64_t n = w->end - w->first;
  bool finite = true;
  memset(w->dk, 0, (size_t)(n * w->wide) * sizeof *w->dk);
  memset(w->dv, 0, (size_t)(n * w->wide_v) * sizeof *w->dv);
  w->at = (attention_block){.b = b, .kv = kv};
  for (int64_t i = 0; i < blocks; i++) {
    attention_block_start(a, b, kv, i, &w->at);
    finite &= run_rows(w, chunk);
  }
  finite =
      finite && a->kernels->finite(w->dk, n * w->wide) && a->kernels->finite(w->dv, n * w->wide_v);
  if (!finite)
    attention_grad_carefully(w, chunk);
  write_rows(w, &w->to[DK], a->d, w->dk, w->wide, a->scale);
  write_rows(w, &w->to[DV], a->dv, w->dv, w->wide_v, 1);
}

/* Rows of dq from what the parts gave, in their order. */
static void add_parts(cpu_run *r, const grad_work *w, const cut *c) {
  const attention *a = w->a;
  const view *to = &w->to[DQ];
  int64_t rows = a->b * a->hq * a->sq, from, end;
  if (!w->parts || !to->data)
    return;
  cpu_sync(r);
  cpu_share(r, rows, ATTENTION_ROWS, &from, &end);
  for (int64_t i = from; i < end; i++) {
    float *sum = w->parts + i * w->wide;
    for (int64_t k = 1; k < c->chunks; k++)
      a->kernels->add(sum, 1, w->wide, w->parts + (k * rows + i) * w->wide, false);
    int64_t index[] = {i / a->sq / a->hq, i / a->sq % a->hq, i % a->sq};
    view_write(to, view_at(to, 3, index), to->stride[3], a->d, sum);
  }
}

static sn_status run_part(cpu_run *r, const core_part *core) {
  attention a = attention_of(r, core);
  grad_work w;
  float *dbias = NULL;
  cut c = cut_of(a.b * a.hk, a.skv);
  SN_TRY(attention_share_keys(r, &a));
  find_operands(&w, r, &a, core);
  SN_TRY(work_start(&w, r, &c));
  if (w.to[DBIAS].data &&
      !(dbias = cpu_take_shared(r, (size_t)view_span(&w.to[DBIAS]) * sizeof(float))))
    return SN_ERR_INTERNAL;
  cpu_begin(r);
  for (int64_t i; cpu_next(r, a.b * a.hk * c.chunks, &i);)
    run_piece(&w, &c, i / c.chunks, i % c.chunks);
  add_parts(r, &w, &c);
  if (w.to[DSINKS].data)
    attention_grad_sinks(r, &w);
  if (dbias)
    attention_grad_bias(r, &w, dbias);
  return SN_OK;
}

sn_status cpu_run_attention_grad(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used, shared = r->shared_used;
    SN_TRY(run_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
    r->shared_used = shared;
    if (i + 1 < s->n_parts)
      cpu_sync(r); /* shared memory is used again */
  }
  return SN_OK;
}
