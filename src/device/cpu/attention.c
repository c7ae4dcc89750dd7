/* Attention, forward: blocks of query rows pass over blocks of keys and keep, for each row, the largest score so far,
 * the sum of exp(score - largest) and the sum of these times v; so no matrix of scores beyond a block exists.
 *
 * Where there are few blocks of rows (generation), the keys are cut too, and what comes of the parts is joined in their
 * order by a second loop. */
#include "device/cpu/attention.h"

enum {
  ENOUGH = 16,      /* pieces of work, so that keys need not be cut */
  CHUNK_LEAST = 480 /* keys of a part */
};

typedef struct cut {
  int64_t blocks, chunks, chunk,
      n; /* blocks of rows a kv head; parts of keys, and keys of each; pieces in all */
} cut;

static cut cut_of(int64_t b, int64_t hk, int64_t group, int64_t sq, int64_t skv) {
  cut c = {.blocks = attention_blocks(group, sq), .chunks = 1, .chunk = skv};
  if (b * hk * c.blocks < ENOUGH && skv > 0) {
    c.chunk = max_i64(CHUNK_LEAST, attention_whole((skv + ENOUGH - 1) / ENOUGH, ATTENTION_KEYS));
    c.chunks = (skv + c.chunk - 1) / c.chunk;
  }
  c.n = b * hk * c.blocks * c.chunks;
  return c;
}

/* --- scratch --- */

/* Floats of a part's result: rows of sums, the largest, the total. */
static int64_t result_floats(int64_t dv) { return ATTENTION_ROWS * (attention_wide(dv) + 2); }
static attention_result result_at(float *room, int64_t dv) {
  float *after = room + ATTENTION_ROWS * attention_wide(dv);
  return (attention_result){.largest = after, .total = after + ATTENTION_ROWS, .sums = room};
}

enum { N_BUFFERS = 10 };
static void buffer_floats(int64_t d, int64_t dv, bool added, int64_t *n) {
  int64_t all[N_BUFFERS] = {ATTENTION_ROWS * attention_wide(d),
                            d * ATTENTION_ROWS,
                            ATTENTION_KEYS * attention_wide(d),
                            ATTENTION_KEYS * attention_wide(dv),
                            ATTENTION_ROWS * ATTENTION_KEYS,
                            added ? ATTENTION_SCORE_ROOM : 0,
                            dv * ATTENTION_ROWS,
                            ATTENTION_ROWS,
                            result_floats(dv),
                            attention_wide(dv)};
  memcpy(n, all, sizeof all);
}

size_t cpu_need_attention(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    int64_t n[N_BUFFERS];
    size_t bytes = 0;
    buffer_floats(cpu_size_max(p, c->in[0].dim[3]), cpu_size_max(p, c->in[2].dim[3]),
                  c->in[3].value || c->in[4].value, n);
    for (int k = 0; k < N_BUFFERS; k++)
      bytes += cpu_take_bytes((size_t)n[k] * sizeof(float));
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* Parts of all pieces. Sizes may be smaller in a run, and then there may be more parts: never more than ENOUGH blocks' in all. */
static int64_t shared_floats(const program *p, const core_part *c) {
  int64_t skv = cpu_size_max(p, c->in[1].dim[2]);
  int64_t chunks = min_i64(ENOUGH, (skv + CHUNK_LEAST - 1) / CHUNK_LEAST);
  return chunks > 1 ? ENOUGH * chunks * result_floats(cpu_size_max(p, c->in[2].dim[3])) : 0;
}

size_t cpu_need_shared_attention(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    size_t bytes =
        cpu_take_bytes((size_t)shared_floats(p, c) * sizeof(float)) + attention_shared_keys(p, c);
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* own: the result of one piece; row: one of its rows, at last. */
static sn_status work_start(attention_work *w, cpu_run *r, const attention *a, float **own,
                            float **row) {
  *w = (attention_work){.a = a};
  float **buffers[N_BUFFERS] = {&w->q,    &w->turned, &w->keys, &w->values, &w->scores,
                                &w->room, &w->sums,   &w->keep, own,        row};
  int64_t n[N_BUFFERS];
  bool all = true;
  buffer_floats(a->d, a->dv, a->mask.data || a->bias.data, n);
  for (int i = 0; i < N_BUFFERS; i++) {
    *buffers[i] = cpu_take(r, (size_t)n[i] * sizeof(float));
    all = all && *buffers[i];
  }
  return all ? SN_OK : SN_ERR_INTERNAL;
}

/* --- rows in lanes --- */

static void start_lanes(attention_work *w, const attention_result *to) {
  const attention *a = w->a;
  const attention_block *at = &w->at;
  int64_t row = attention_wide(a->d), head = attention_head(a, at, 0);
  const float *q = w->q;
  if (head == attention_head(a, at, at->n - 1))
    q = attention_rows(a, &a->q, at->b, head, attention_row(a, at, 0), at->n, a->d, 1, w->q, &row);
  else
    attention_block_rows(a, at, &a->q, a->d, row, w->q);
  a->kernels->transpose(q, row, at->n, a->d, attention_unit(a), w->turned, at->lanes);
  for (int64_t l = 0; l < w->at.lanes; l++) {
    to->largest[l] = -INFINITY;
    to->total[l] = 0;
  }
}

static void multiply_keys(attention_work *w, const attention_tile *t) {
  const attention *a = w->a;
  int64_t row;
  const float *keys =
      attention_rows(a, &a->k, w->at.b, w->at.kv, t->j, t->keys, a->d, 1, w->keys, &row);
  for (attention_part x = {0}; attention_next(a, &w->at, t, &x);)
    a->kernels->multiply(&(attention_product){.m = x.n,
                                              .n = x.lanes,
                                              .k = a->d,
                                              .a = keys + x.j * row,
                                              .a_row = row,
                                              .a_k = 1,
                                              .b = w->turned + x.l,
                                              .b_row = t->lanes,
                                              .c = t->scores + x.j * t->lanes + x.l,
                                              .c_row = t->lanes});
}

static void add_values(attention_work *w, const attention_tile *t) {
  const attention *a = w->a;
  int64_t row;
  const float *values =
      attention_rows(a, &a->v, w->at.b, w->at.kv, t->j, t->keys, a->dv, 1, w->values, &row);
  for (attention_part x = {0}; attention_next(a, &w->at, t, &x);)
    a->kernels->multiply(&(attention_product){.m = a->dv,
                                              .n = x.lanes,
                                              .k = x.n,
                                              .a = values + x.j * row,
                                              .a_row = 1,
                                              .a_k = row,
                                              .b = t->scores + x.j * t->lanes + x.l,
                                              .b_row = t->lanes,
                                              .c = w->sums + x.l,
                                              .c_row = t->lanes,
                                              .add = true});
}

static void run_keys(attention_work *w, const attention_tile *t, bool first) {
  const attention *a = w->a;
  multiply_keys(w, t);
  attention_score_lanes(a, &w->at, t, w->room);
  if (a->kernels->soften(t) && !first)
    a->kernels->scale(w->sums, a->dv, t->lanes, t->keep);
  add_values(w, t);
}

void attention_run_lanes(attention_work *w, int64_t lo, int64_t hi, const attention_result *to) {
  const attention *a = w->a;
  int64_t lanes = w->at.lanes;
  start_lanes(w, to);
  memset(w->sums, 0, (size_t)(a->dv * lanes) * sizeof *w->sums);
  for (int64_t j = lo; j < hi; j += ATTENTION_KEYS) {
    attention_tile t = {.lanes = lanes,
                        .keys = min_i64(ATTENTION_KEYS, hi - j),
                        .j = j,
                        .scores = w->scores,
                        .from = w->at.from,
                        .to = w->at.to,
                        .largest = to->largest,
                        .total = to->total,
                        .keep = w->keep};
    run_keys(w, &t, j == lo);
  }
  a->kernels->transpose(w->sums, lanes, a->dv, w->at.n, 1, to->sums, attention_wide(a->dv));
}

/* --- results --- */

typedef struct outputs {
  view out, lse;
  float *row; /* room for one */
} outputs;

/* A row sees keys and nothing counts: their scores may be numbers for which units of log 2 are too large. */
static bool may_be_least(const attention_work *w, int64_t row, float largest) {
  return largest == -INFINITY && w->at.from[row] < w->at.to[row];
}

static void finish_row(attention_work *w, int64_t row, attention_parts *p, const outputs *to) {
  const attention *a = w->a;
  int64_t index[] = {w->at.b, attention_head(a, &w->at, row), attention_row(a, &w->at, row)};
  float largest, total, lse = -INFINITY, *out = to->row;
  bool in_place = to->out.data && to->out.dtype == SN_F32 && to->out.stride[3] == 1;
  if (in_place)
    out = (float *)(void *)to->out.data + view_at(&to->out, 3, index);
  p->sink = a->sinks.data ? view_load(&a->sinks, view_at(&a->sinks, 1, &index[1])) : -INFINITY;
  if (!a->kernels->join(p, out, &largest, &total) || may_be_least(w, row, largest))
    lse = attention_run_carefully(w, row, out);
  else if (to->lse.data && total != 0)
    lse = (float)((double)largest / ATTENTION_LOG2_E + log((double)total));
  if (to->out.data && !in_place)
    view_write(&to->out, view_at(&to->out, 3, index), to->out.stride[3], a->dv, to->row);
  if (to->lse.data)
    view_store(&to->lse, view_at(&to->lse, 3, index), lse);
}

/* `parts` results, one behind the other. */
static void finish_block(attention_work *w, float *results, int64_t parts, const outputs *to) {
  int64_t dv = w->a->dv;
  attention_result first = result_at(results, dv);
  for (int64_t i = 0; i < w->at.n; i++)
    finish_row(w, i,
               &(attention_parts){.n = parts,
                                  .width = dv,
                                  .largest = first.largest + i,
                                  .total = first.total + i,
                                  .sums = first.sums + i * attention_wide(dv),
                                  .stride = result_floats(dv),
                                  .sums_stride = result_floats(dv)},
               to);
}

/* --- pieces --- */

/* The last rows see most where masks are causal: they come first. */
static void start_block(attention_work *w, const cut *c, int64_t number) {
  int64_t head = number / c->blocks, block = c->blocks - 1 - number % c->blocks;
  attention_block_start(w->a, head / w->a->hk, head % w->a->hk, block, &w->at);
}

static void run_piece(attention_work *w, const cut *c, int64_t chunk, float *result) {
  int64_t lo = max_i64(w->at.lo, chunk * c->chunk), hi = min_i64(w->at.hi, (chunk + 1) * c->chunk);
  attention_result to = result_at(result, w->a->dv);
  if (attention_is_few(w->a, &w->at))
    attention_run_few(w, lo, hi, &to);
  else
    attention_run_lanes(w, lo, hi, &to);
}

static sn_status run_part(cpu_run *r, const core_part *core) {
  attention a = attention_of(r, core);
  outputs to = {view_of(r, &core->out[0]), view_of(r, &core->out[1]), NULL};
  cut c = cut_of(a.b, a.hk, a.group, a.sq, a.skv);
  attention_work w;
  float *own, *shared = NULL;
  SN_TRY(work_start(&w, r, &a, &own, &to.row));
  int64_t each = result_floats(a.dv);
  if (c.n == 0)
    return SN_OK;
  SN_TRY(attention_share_keys(r, &a));
  if (c.chunks > 1 && !(shared = cpu_take_shared(r, (size_t)(c.n * each) * sizeof(float))))
    return SN_ERR_INTERNAL;
  cpu_begin(r);
  for (int64_t i; cpu_next(r, c.n, &i);) {
    start_block(&w, &c, i / c.chunks);
    run_piece(&w, &c, i % c.chunks, shared ? shared + i * each : own);
    if (!shared)
      finish_block(&w, own, 1, &to);
  }
  if (!shared)
    return SN_OK;
  cpu_sync(r);
  cpu_begin(r);
  for (int64_t i; cpu_next(r, c.n / c.chunks, &i);) {
    start_block(&w, &c, i);
    finish_block(&w, shared + i * c.chunks * each, c.chunks, &to);
  }
  return SN_OK;
}

sn_status cpu_run_attention(cpu_run *r, const step *s) {
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
