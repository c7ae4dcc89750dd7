/* SCATTER: values written into, or added to, a base whose memory is the result's (or else is copied), in index order:
 * duplicates add up in that order, or the last of them stays. Indices outside are left out. Sums of f16 and bf16 run
 * in f32 and are rounded once at the end.
 *
 * Threads take pieces of the result, so no two write the same element, and each piece goes through all indices that
 * fall into it in their order: how the result is cut changes no bit. Pieces are columns where rows are long (every
 * index is looked at once a piece, and a row's part is still some cache lines), else ranges of rows. */
#include "device/cpu/isa/cores.h"
#include "device/cpu/order.h"
#include "device/cpu/view.h"

enum { COLUMNS = 256, ROWS_LEAST = 64, PIECES = 64, SLICES = 64, WORTH = 1 << 14 };

typedef struct scatter {
  const core_kernels *kernels;
  view base, index, value, to;
  bool add, copy;            /* copy: the base is not in the result's memory yet */
  bool halves;               /* adds f16 or bf16 */
  order_item *items, *spare; /* by index: halves only */
  float *sums;               /* of a row's part */
} scatter;

/* Rows and columns of the result: from … to-1. */
typedef struct piece {
  int64_t row0, row1, column0, column1;
} piece;

static size_t element_size(sn_dtype dtype) {
  return dtype == SN_F32 || dtype == SN_I32 ? 4 : dtype == SN_F16 || dtype == SN_BF16 ? 2 : 1;
}

/* --- runs of elements: n of them, at strides --- */

static void copy_run(const view *from_view, int64_t from, int64_t from_stride, const view *to_view,
                     int64_t to, int64_t to_stride, int64_t n) {
  size_t size = element_size(to_view->dtype);
  const char *a = from_view->data + (size_t)from * size;
  char *b = to_view->data + (size_t)to * size;
  if (from_stride == 1 && to_stride == 1)
    memcpy(b, a, (size_t)n * size);
  else
    for (int64_t j = 0; j < n; j++)
      memcpy(b + (size_t)(j * to_stride) * size, a + (size_t)(j * from_stride) * size, size);
}

static void add_floats(const scatter *s, const float *a, int64_t a_stride, float *b,
                       int64_t b_stride, int64_t n) {
  if (a_stride == 1 && b_stride == 1 && n > 1)
    s->kernels->add(b, a, n);
  else
    for (int64_t j = 0; j < n; j++)
      b[j * b_stride] += a[j * a_stride];
}

static void add_run(const scatter *s, int64_t from, int64_t from_stride, int64_t to,
                    int64_t to_stride, int64_t n) {
  if (s->to.dtype == SN_F32) {
    add_floats(s, (const float *)(const void *)s->value.data + from, from_stride,
               (float *)(void *)s->to.data + to, to_stride, n);
  } else if (s->to.dtype == SN_I32) {
    const uint32_t *a = (const uint32_t *)(const void *)s->value.data + from;
    uint32_t *b = (uint32_t *)(void *)s->to.data + to;
    for (int64_t j = 0; j < n; j++)
      b[j * to_stride] += a[j * from_stride];
  } else {
    const uint8_t *a = (const uint8_t *)s->value.data + from;
    uint8_t *b = (uint8_t *)s->to.data + to;
    for (int64_t j = 0; j < n; j++)
      b[j * to_stride] = (uint8_t)(b[j * to_stride] + a[j * from_stride]);
  }
}

static void put_run(const scatter *s, int64_t from, int64_t from_stride, int64_t to,
                    int64_t to_stride, int64_t n) {
  if (s->add)
    add_run(s, from, from_stride, to, to_stride, n);
  else
    copy_run(&s->value, from, from_stride, &s->to, to, to_stride, n);
}

/* --- rows: base [n, r], index [m], value [m, r] --- */

static int64_t row_of(const scatter *s, int64_t k) {
  return view_i32(&s->index, view_at(&s->index, 1, &k));
}

static int64_t at_2(const view *v, int64_t i, int64_t j) {
  return v->base + i * v->stride[0] + j * v->stride[1];
}

static void copy_piece(const scatter *s, const piece *p) {
  for (int64_t i = p->row0; i < p->row1; i++)
    copy_run(&s->base, at_2(&s->base, i, p->column0), s->base.stride[1], &s->to,
             at_2(&s->to, i, p->column0), s->to.stride[1], p->column1 - p->column0);
}

/* Rows of the piece in order, each with its values in the order of their indices. */
static void add_half_rows(const scatter *s, const piece *p) {
  int64_t n = 0, width = p->column1 - p->column0, m = s->index.dim[0];
  const view *to = &s->to;
  for (int64_t k = 0; k < m; k++) {
    int64_t row = row_of(s, k);
    if (row >= p->row0 && row < p->row1)
      s->items[n++] = (order_item){(uint32_t)row, (int32_t)k};
  }
  order_sort(s->items, s->spare, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = s->items[i].key, at = at_2(to, row, p->column0);
    if (i == 0 || s->items[i - 1].key != s->items[i].key)
      view_read(to, at, to->stride[1], width, s->sums);
    int64_t from = at_2(&s->value, s->items[i].at, p->column0);
    for (int64_t j = 0; j < width; j++)
      s->sums[j] += view_load(&s->value, from + j * s->value.stride[1]);
    if (i + 1 == n || s->items[i + 1].key != s->items[i].key)
      view_write(to, at, to->stride[1], width, s->sums);
  }
}

/* Rows that are asked for lie anywhere: memory is told some of them before. */
enum { AHEAD_NARROW = 16, AHEAD = 2, NARROW = 16, LINE = 64 };

static void fetch_ahead(const scatter *s, const piece *p, int64_t k, int64_t bytes) {
  if (k >= s->index.dim[0])
    return;
  int64_t row = row_of(s, k);
  if (row < p->row0 || row >= p->row1)
    return;
  const char *at = s->to.data + at_2(&s->to, row, p->column0) * (int64_t)element_size(s->to.dtype);
  for (int64_t i = 0; i < bytes; i += LINE)
    __builtin_prefetch(at + i, 1);
}

/* Which of n indices from k on fall into the piece: their numbers and rows, in order. Without branches, which nobody could
 * foresee. */
enum { LIST = 1024 };
static int64_t list_rows(const scatter *s, const piece *p, int64_t k, int64_t n, int32_t *number,
                         int32_t *row) {
  const int32_t *index = (const int32_t *)(const void *)s->index.data + s->index.base;
  uint64_t rows = (uint64_t)(p->row1 - p->row0);
  int64_t found = 0;
  for (int64_t i = k; i < k + n; i++) {
    int32_t at = index[i * s->index.stride[0]];
    number[found] = (int32_t)i;
    row[found] = at;
    found += (uint64_t)(at - p->row0) < rows;
  }
  return found;
}

/* Sums of f32 whose rows are too short for vectors. */
static void add_narrow_rows(const scatter *s, const piece *p) {
  const float *value = (const float *)(const void *)s->value.data;
  float *to = (float *)(void *)s->to.data;
  int64_t width = p->column1 - p->column0, m = s->index.dim[0];
  int32_t number[LIST], row[LIST];
  for (int64_t k = 0; k < m; k += LIST) {
    int64_t n = list_rows(s, p, k, min_i64(LIST, m - k), number, row);
    for (int64_t i = 0; i < n; i++) {
      int64_t from = at_2(&s->value, number[i], p->column0);
      int64_t at = at_2(&s->to, row[i], p->column0);
      if (i + AHEAD_NARROW < n)
        __builtin_prefetch(&to[at_2(&s->to, row[i + AHEAD_NARROW], p->column0)], 1);
      for (int64_t j = 0; j < width; j++)
        to[at + j * s->to.stride[1]] += value[from + j * s->value.stride[1]];
    }
  }
}

static void put_rows(const scatter *s, const piece *p) {
  int64_t width = p->column1 - p->column0, bytes = width * (int64_t)element_size(s->to.dtype);
  for (int64_t k = 0; k < s->index.dim[0]; k++) {
    int64_t row = row_of(s, k);
    fetch_ahead(s, p, k + AHEAD, bytes);
    if (row >= p->row0 && row < p->row1)
      put_run(s, at_2(&s->value, k, p->column0), s->value.stride[1], at_2(&s->to, row, p->column0),
              s->to.stride[1], width);
  }
}

static void scatter_rows(const scatter *s, const piece *p) {
  bool narrow = s->add && s->to.dtype == SN_F32 && p->column1 - p->column0 < NARROW;
  if (s->copy)
    copy_piece(s, p);
  (s->halves ? add_half_rows : narrow ? add_narrow_rows : put_rows)(s, p);
}

/* How many pieces of at least `least` a range is worth, by the work in all. */
static int64_t pieces_of(int64_t n, int64_t least, int64_t work) {
  return max_i64(1, min_i64(min_i64(PIECES, work / WORTH), n / least));
}

static void run_rows(cpu_run *r, scatter *s) {
  int64_t n = s->to.dim[0], width = s->to.dim[1], m = s->index.dim[0];
  bool columns = !s->copy && width >= 2 * COLUMNS / (int64_t)element_size(s->to.dtype);
  int64_t work = m * width + (s->copy ? n * width : 0);
  int64_t many = columns ? width : n, least = columns ? COLUMNS / 4 : ROWS_LEAST, i;
  int64_t pieces = min_i64(pieces_of(many, least, work), r->threads * (columns ? 2 : 1));
  cpu_begin(r);
  while (cpu_next(r, pieces, &i)) {
    int64_t from = many * i / pieces, to = many * (i + 1) / pieces;
    piece p = {columns ? 0 : from, columns ? n : to, columns ? from : 0, columns ? to : width};
    scatter_rows(s, &p);
  }
}

/* --- along an axis: base [outer, n, inner], index and value [outer, m, inner] --- */

static int64_t at_3(const view *v, int64_t o, int64_t k, int64_t i) {
  return v->base + o * v->stride[0] + k * v->stride[1] + i * v->stride[2];
}

/* One slice: everything at (o, i). */
static void add_half_slice(const scatter *s, int64_t o, int64_t i) {
  int64_t n = 0;
  float sum = 0;
  for (int64_t k = 0; k < s->index.dim[1]; k++) {
    int64_t to = view_i32(&s->index, at_3(&s->index, o, k, i));
    if (to >= 0 && to < s->to.dim[1])
      s->items[n++] = (order_item){(uint32_t)to, (int32_t)k};
  }
  order_sort(s->items, s->spare, n);
  for (int64_t k = 0; k < n; k++) {
    int64_t at = at_3(&s->to, o, s->items[k].key, i);
    if (k == 0 || s->items[k - 1].key != s->items[k].key)
      sum = view_load(&s->to, at);
    sum += view_load(&s->value, at_3(&s->value, o, s->items[k].at, i));
    if (k + 1 == n || s->items[k + 1].key != s->items[k].key)
      view_store(&s->to, at, sum);
  }
}

/* Slices i0 … i1-1 of one outer index. */
static void scatter_slices(const scatter *s, int64_t o, int64_t i0, int64_t i1) {
  for (int64_t k = 0; s->copy && k < s->to.dim[1]; k++)
    copy_run(&s->base, at_3(&s->base, o, k, i0), s->base.stride[2], &s->to, at_3(&s->to, o, k, i0),
             s->to.stride[2], i1 - i0);
  for (int64_t i = i0; s->halves && i < i1; i++)
    add_half_slice(s, o, i);
  for (int64_t k = 0; !s->halves && k < s->index.dim[1]; k++)
    for (int64_t i = i0; i < i1; i++) {
      int64_t to = view_i32(&s->index, at_3(&s->index, o, k, i));
      if (to >= 0 && to < s->to.dim[1])
        put_run(s, at_3(&s->value, o, k, i), 1, at_3(&s->to, o, to, i), 1, 1);
    }
}

/* One slice is like rows of one column, which can be cut. */
static view as_rows(view v) {
  v.dim[0] = v.dim[1];
  v.stride[0] = v.stride[1];
  v.dim[1] = v.stride[1] = 1;
  return v;
}

/* A piece is some outer indices, or a part of the slices of one. */
static void run_along(cpu_run *r, scatter *s) {
  int64_t outer = s->to.dim[0], inner = s->to.dim[2], i;
  int64_t parts = (inner + SLICES - 1) / SLICES, slice = s->index.dim[1] + s->to.dim[1] * s->copy;
  int64_t group = max_i64(1, WORTH / max_i64(1, slice * min_i64(inner, SLICES)));
  int64_t all = outer * parts;
  cpu_begin(r);
  while (cpu_next(r, (all + group - 1) / group, &i))
    for (int64_t k = i * group; k < min_i64(all, (i + 1) * group); k++) {
      int64_t i0 = k % parts * SLICES;
      scatter_slices(s, k / parts, i0, min_i64(inner, i0 + SLICES));
    }
}

/* --- the step --- */

static bool sums_halves(const core_part *c) {
  return c->ints[0] && (c->out[0].dtype == SN_F16 || c->out[0].dtype == SN_BF16);
}

static sn_status take(cpu_run *r, scatter *s, bool along) {
  size_t m = (size_t)s->index.dim[along ? 1 : 0];
  if (!s->halves)
    return SN_OK;
  s->items = cpu_take(r, m * sizeof *s->items);
  s->spare = cpu_take(r, m * sizeof *s->spare);
  s->sums = cpu_take(r, (along ? 0 : (size_t)s->to.dim[1]) * sizeof *s->sums);
  return s->items && s->spare && s->sums ? SN_OK : SN_ERR_INTERNAL;
}

static size_t need_part(const program *p, const core_part *c) {
  bool along = c->ints[1] == 1;
  size_t m = (size_t)cpu_size_max(p, c->in[1].dim[along ? 1 : 0]);
  size_t width = along ? 1 : (size_t)cpu_size_max(p, c->out[0].dim[1]);
  if (!sums_halves(c))
    return 0;
  return 2 * cpu_take_bytes(m * sizeof(order_item)) + cpu_take_bytes(width * sizeof(float));
}

static sn_status scatter_part(cpu_run *r, const core_part *c) {
  bool along = c->ints[1] == 1;
  scatter s = {.kernels = r->isa->cores,
               .base = view_of(r, &c->in[0]),
               .index = view_of(r, &c->in[1]),
               .value = view_of(r, &c->in[2]),
               .to = view_of(r, &c->out[0]),
               .add = c->ints[0] != 0,
               .halves = sums_halves(c)};
  s.copy = s.base.data != s.to.data;
  if (along && s.to.dim[0] == 1 && s.to.dim[2] == 1) {
    along = false;
    s.base = as_rows(s.base);
    s.index = as_rows(s.index);
    s.value = as_rows(s.value);
    s.to = as_rows(s.to);
  }
  SN_TRY(take(r, &s, along));
  (along ? run_along : run_rows)(r, &s);
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
    size_t bytes = need_part(p, &s->parts[i].u.core);
    most = bytes > most ? bytes : most;
  }
  return most;
}
