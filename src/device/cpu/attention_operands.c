/* Operands of attention as f32. See attention.h. */
#include "device/cpu/attention.h"

void attention_read_row(const attention *a, const view *v, int64_t b, int64_t h, int64_t s,
                        int64_t width, float *to) {
  int64_t at = view_at(v, 3, (int64_t[]){b, h, s});
  if (v->dtype == SN_F32 || v->stride[3] != 1)
    view_read(v, at, v->stride[3], width, to);
  else if (v->dtype == SN_F16)
    a->kernels->widen_f16((const uint16_t *)(const void *)v->data + at, width, to);
  else
    a->kernels->widen_bf16((const uint16_t *)(const void *)v->data + at, width, to);
}

const float *attention_rows(const attention *a, const view *v, int64_t b, int64_t h, int64_t s,
                            int64_t n, int64_t width, int64_t unit, float *room, int64_t *out_row) {
  if (v->dtype == SN_F32 && v->stride[3] == 1 && width % unit == 0) {
    *out_row = v->stride[2];
    return (const float *)(const void *)v->data + view_at(v, 3, (int64_t[]){b, h, s});
  }
  int64_t row = *out_row = attention_whole(width, unit);
  for (int64_t i = 0; i < n; i++) {
    attention_read_row(a, v, b, h, s + i, width, room + i * row);
    memset(room + i * row + width, 0, (size_t)(row - width) * sizeof *room);
  }
  return room;
}

void attention_block_rows(const attention *a, const attention_block *w, const view *v,
                          int64_t width, int64_t wide, float *to) {
  for (int64_t l = 0; l < w->n; l++) {
    attention_read_row(a, v, w->b, attention_head(a, w, l), attention_row(a, w, l), width,
                       to + l * wide);
    memset(to + l * wide + width, 0, (size_t)(wide - width) * sizeof *to);
  }
  memset(to + w->n * wide, 0, (size_t)((w->lanes - w->n) * wide) * sizeof *to);
}

/* --- keys and values for all threads --- */

/* Of each of them, in bytes: a cache for a long context is read where it lies, so that memory does not grow with it. */
enum { COPY_MOST = 3 << 20 };

/* Rows far apart are no better than ones of another type: they fall onto the same lines of a cache. */
static bool is_dense(const view *v) {
  return v->dtype == SN_F32 && v->stride[3] == 1 && v->stride[2] == v->dim[3];
}
static size_t copy_bytes(const program *p, const strided *s) {
  bool dense = s->dtype == SN_F32 && s->stride[3] == 1 && s->stride[2] == s->dim[3];
  int64_t n = 1;
  for (int d = 0; d < 4; d++)
    n *= cpu_size_max(p, s->dim[d]);
  return dense ? 0 : cpu_take_bytes((size_t)min_i64(n * (int64_t)sizeof(float), COPY_MOST));
}
size_t attention_shared_keys(const program *p, const core_part *c) {
  int64_t hk = max_i64(1, cpu_size_max(p, c->in[1].dim[1]));
  int64_t group = cpu_size_max(p, c->in[0].dim[1]) / hk, sq = cpu_size_max(p, c->in[0].dim[2]);
  return attention_blocks(group, sq) < 2 ? 0 : copy_bytes(p, &c->in[1]) + copy_bytes(p, &c->in[2]);
}

static sn_status take_copy(cpu_run *r, const view *v, view *out) {
  int64_t n = v->dim[2] * v->dim[3], heads = v->dim[1];
  *out = (view){.dtype = SN_F32,
                .dim = {v->dim[0], heads, v->dim[2], v->dim[3]},
                .stride = {heads * n, n, v->dim[3], 1}};
  size_t bytes = (size_t)(v->dim[0] * heads * n) * sizeof(float);
  if (is_dense(v) || n == 0 || bytes > COPY_MOST) {
    *out = *v;
    return SN_OK;
  }
  out->data = cpu_take_shared(r, bytes);
  return out->data ? SN_OK : SN_ERR_INTERNAL;
}

static void copy_rows(const attention *a, const view *from, const view *to, int64_t head,
                      int64_t lo, int64_t hi) {
  int64_t b = head / a->hk, h = head % a->hk, width = from->dim[3];
  for (int64_t s = lo; from->data != to->data && s < hi; s++)
    attention_read_row(a, from, b, h, s, width,
                       (float *)(void *)to->data + view_at(to, 3, (int64_t[]){b, h, s}));
}

sn_status attention_share_keys(cpu_run *r, attention *a) {
  view k, v;
  int64_t blocks = (a->skv + ATTENTION_KEYS - 1) / ATTENTION_KEYS, n = a->b * a->hk * blocks;
  if (n == 0 || attention_blocks(a->group, a->sq) < 2 || (is_dense(&a->k) && is_dense(&a->v)))
    return SN_OK;
  SN_TRY(take_copy(r, &a->k, &k));
  SN_TRY(take_copy(r, &a->v, &v));
  cpu_begin(r);
  for (int64_t i; cpu_next(r, n, &i);) {
    int64_t head = i / blocks, lo = i % blocks * ATTENTION_KEYS;
    int64_t hi = min_i64(a->skv, lo + ATTENTION_KEYS);
    copy_rows(a, &a->k, &k, head, lo, hi);
    copy_rows(a, &a->v, &v, head, lo, hi);
  }
  cpu_sync(r);
  a->k = k;
  a->v = v;
  return SN_OK;
}
