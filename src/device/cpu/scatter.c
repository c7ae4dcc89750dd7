/* SCATTER: values written into, or added to, a base whose memory is the result's (or else is copied), in index order: duplicates add up in that
 * order, or the last of them stays. Indices outside are left out. Sums of f16 and bf16 run in f32, in scratch, and are
 * rounded once at the end. */
#include "device/cpu/view.h"

typedef struct scatter {
  view index, value, to;
  float *sums; /* f16 and bf16: the result in f32, by element number */
  bool add;
} scatter;

static void write_one(const scatter *s, int64_t from, int64_t to) {
  const view *v = &s->value;
  switch (s->to.dtype) {
  case SN_F32: {
    float *at = (float *)(void *)s->to.data + to;
    float x = ((const float *)(const void *)v->data)[from];
    *at = s->add ? *at + x : x;
    break;
  }
  case SN_I32: {
    uint32_t *at = (uint32_t *)(void *)s->to.data + to;
    uint32_t x = ((const uint32_t *)(const void *)v->data)[from];
    *at = s->add ? *at + x : x;
    break;
  }
  case SN_F16:
  case SN_BF16:
    if (s->add)
      s->sums[to] += view_load(v, from);
    else
      ((uint16_t *)(void *)s->to.data)[to] = ((const uint16_t *)(const void *)v->data)[from];
    break;
  default: {
    uint8_t *at = (uint8_t *)s->to.data + to;
    uint8_t x = (uint8_t)v->data[from];
    *at = (uint8_t)(s->add ? *at + x : x);
  }
  }
}

/* base [n, r], index [m], value [m, r] */
static void scatter_rows(const scatter *s) {
  for (int64_t k = 0; k < s->index.dim[0]; k++) {
    int64_t row = view_i32(&s->index, view_at(&s->index, 1, &k));
    if (row < 0 || row >= s->to.dim[0])
      continue;
    int64_t from = view_at(&s->value, 1, &k), to = view_at(&s->to, 1, &row);
    for (int64_t j = 0; j < s->to.dim[1]; j++)
      write_one(s, from + j * s->value.stride[1], to + j * s->to.stride[1]);
  }
}

/* base [outer, n, inner], index and value [outer, m, inner] */
static void scatter_along(const scatter *s) {
  int64_t i[3];
  for (i[0] = 0; i[0] < s->index.dim[0]; i[0]++)
    for (i[1] = 0; i[1] < s->index.dim[1]; i[1]++)
      for (i[2] = 0; i[2] < s->index.dim[2]; i[2]++) {
        int64_t at = view_i32(&s->index, view_at(&s->index, 3, i));
        if (at >= 0 && at < s->to.dim[1])
          write_one(s, view_at(&s->value, 3, i), view_at(&s->to, 3, (int64_t[]){i[0], at, i[2]}));
      }
}

/* The base into the result, where its memory is not the result's already. */
static void copy_base(const scatter *s, const view *base, int rank) {
  size_t size = s->to.dtype == SN_F32 || s->to.dtype == SN_I32    ? 4
                : s->to.dtype == SN_F16 || s->to.dtype == SN_BF16 ? 2
                                                                  : 1;
  int64_t last = rank == 3 ? s->to.dim[2] : 1, i[3];
  if (base->data == s->to.data)
    return;
  for (i[0] = 0; i[0] < s->to.dim[0]; i[0]++)
    for (i[1] = 0; i[1] < s->to.dim[1]; i[1]++)
      for (i[2] = 0; i[2] < last; i[2]++)
        memcpy(s->to.data + (size_t)view_at(&s->to, rank, i) * size,
               base->data + (size_t)view_at(base, rank, i) * size, size);
}

static bool sums_apart(const core_part *c) {
  return c->ints[0] && (c->out[0].dtype == SN_F16 || c->out[0].dtype == SN_BF16);
}

/* Every element of the result between memory and the sums. */
static void move_sums(const scatter *s, int rank, bool out) {
  int64_t last = rank == 3 ? s->to.dim[2] : 1, i[3];
  for (i[0] = 0; i[0] < s->to.dim[0]; i[0]++)
    for (i[1] = 0; i[1] < s->to.dim[1]; i[1]++)
      for (i[2] = 0; i[2] < last; i[2]++) {
        int64_t at = view_at(&s->to, rank, i);
        if (out)
          view_store(&s->to, at, s->sums[at]);
        else
          s->sums[at] = view_load(&s->to, at);
      }
}

static sn_status scatter_part(cpu_run *r, const core_part *c) {
  scatter s = {.index = view_of(r, &c->in[1]),
               .value = view_of(r, &c->in[2]),
               .to = view_of(r, &c->out[0]),
               .add = c->ints[0] != 0};
  view base = view_of(r, &c->in[0]);
  int rank = c->ints[1] == 1 ? 3 : 2;
  copy_base(&s, &base, rank);
  if (sums_apart(c)) {
    int64_t count = cpu_size(r, r->program->values[c->out[0].value].count);
    s.sums = cpu_take(r, (size_t)count * sizeof *s.sums);
    if (!s.sums)
      return SN_ERR_INTERNAL;
    move_sums(&s, rank, false);
  }
  (rank == 3 ? scatter_along : scatter_rows)(&s);
  if (s.sums)
    move_sums(&s, rank, true);
  return SN_OK;
}

sn_status cpu_run_scatter(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(scatter_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
  }
  return SN_OK;
}

size_t cpu_need_scatter(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    size_t bytes = 0;
    if (sums_apart(c))
      bytes =
          cpu_take_bytes((size_t)cpu_size_max(p, p->values[c->out[0].value].count) * sizeof(float));
    most = bytes > most ? bytes : most;
  }
  return most;
}
