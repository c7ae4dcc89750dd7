/* SCAN: running sums and products along an axis. Floats run in double and are rounded when they are stored; integers
 * wrap.
 *
 * Slices run side by side in lanes, and threads share groups of lanes. Where slices are few and long they are cut
 * into blocks of a fixed length: first the totals of all blocks, then what comes before each, then the blocks from
 * there, as lanes. So the order of a sum depends on extents alone. */
#include "device/cpu/isa/cores.h"
#include "device/cpu/view.h"

/* BLOCK is no multiple of a page: blocks that run side by side are not all in one set of the cache. */
enum { LANES = 512, LANES_LEAST = 64, FEW = 8, BLOCK = 2064, WORTH = 1 << 14 };

typedef struct scan {
  const core_kernels *kernels;
  view x, y; /* [groups, length, lanes]; not reversed: strides are */
  bool product, exclusive, ints;
} scan;

static int64_t at_3(const view *v, int64_t o, int64_t k, int64_t i) {
  return v->base + o * v->stride[0] + k * v->stride[1] + i * v->stride[2];
}

/* --- lanes: n of them from lane i of group o on; totals go in and come out --- */

static const float *f32_at(const view *v, int64_t at) {
  return (const float *)(const void *)v->data + at;
}

static void scan_floats(const scan *s, int64_t o, int64_t i, int64_t n, double *totals,
                        bool store) {
  float v[LANES];
  const view *x = &s->x, *y = &s->y;
  bool dense = x->dtype == SN_F32 && x->stride[2] == 1 && y->stride[2] == 1;
  for (int64_t k = 0; k < x->dim[1]; k++) {
    int64_t from = at_3(x, o, k, i), to = at_3(y, o, k, i);
    if (dense) {
      float *into = store ? (float *)(void *)y->data + to : v;
      s->kernels->scan(totals, f32_at(x, from), into, n, s->product, s->exclusive);
      continue;
    }
    view_read(x, from, x->stride[2], n, v);
    s->kernels->scan(totals, v, v, n, s->product, s->exclusive);
    if (store)
      view_write(y, to, y->stride[2], n, v);
  }
}

static bool runs_along(const view *v) {
  return v->dtype == SN_F32 && (v->stride[1] == 1 || v->stride[1] == -1);
}

/* Lanes whose elements lie next to each other along the axis. Fewer at once where they would all be in the same set
 * of the cache. */
static void scan_rows(const scan *s, int64_t o, int64_t i, int64_t n, double *totals, bool store) {
  enum { PAGE = 1024 };
  float rest[BLOCK]; /* where what is not wanted goes */
  const view *x = &s->x, *y = &s->y;
  int64_t many = x->stride[2] % PAGE == 0 ? CORE_ROWS / 2 : CORE_ROWS;
  for (int64_t j = 0; j < n; j += many) {
    core_rows r = {.x = f32_at(x, at_3(x, o, 0, i + j)),
                   .y = store ? (float *)(void *)y->data + at_3(y, o, 0, i + j) : rest,
                   .x_row = x->stride[2],
                   .y_row = store ? y->stride[2] : 0,
                   .x_step = x->stride[1],
                   .y_step = store ? y->stride[1] : 1,
                   .n = x->dim[1],
                   .rows = (int)min_i64(many, n - j)};
    s->kernels->scan_rows(&totals[j], &r, s->product, s->exclusive);
  }
}

/* i32 and u8: what wraps at 32 bits is right in the low 8 too. */
static void scan_ints(const scan *s, int64_t o, int64_t i, int64_t n, double *totals, bool store) {
  const view *x = &s->x, *y = &s->y;
  bool wide = x->dtype == SN_I32;
  for (int64_t k = 0; k < x->dim[1]; k++)
    for (int64_t j = 0; j < n; j++) {
      int64_t at = at_3(x, o, k, i + j), into = at_3(y, o, k, i + j);
      uint32_t v = wide ? (uint32_t)view_i32(x, at) : (uint8_t)x->data[at];
      uint32_t before = (uint32_t)totals[j], next = s->product ? before * v : before + v;
      uint32_t result = s->exclusive ? before : next;
      totals[j] = (double)next;
      if (store && wide)
        ((uint32_t *)(void *)y->data)[into] = result;
      else if (store)
        y->data[into] = (char)(uint8_t)result;
    }
}

static void scan_lanes(const scan *s, int64_t o, int64_t i, int64_t n, double *totals, bool store) {
  if (s->ints)
    scan_ints(s, o, i, n, totals, store);
  else if (runs_along(&s->x) && runs_along(&s->y))
    scan_rows(s, o, i, n, totals, store);
  else
    scan_floats(s, o, i, n, totals, store);
}

static double nothing(const scan *s) { return s->product ? 1 : 0; }

static double joined(const scan *s, double a, double b) {
  if (s->ints)
    return s->product ? (uint32_t)a * (uint32_t)b : (uint32_t)a + (uint32_t)b;
  return s->product ? a * b : a + b;
}

/* --- many slices --- */

/* Lanes next to each other in memory fill cache lines, the more the fewer pages are gone through; others take one each. */
static int64_t lanes_of(const scan *s) {
  int64_t quarter = (s->x.dim[2] / 4 + LANES_LEAST - 1) / LANES_LEAST * LANES_LEAST;
  return s->x.stride[2] != 1 ? FEW : max_i64(LANES_LEAST, min_i64(LANES, quarter));
}

static void scan_slices(cpu_run *r, const scan *s) {
  int64_t lanes = lanes_of(s), width = (s->x.dim[2] + lanes - 1) / lanes, i;
  int64_t all = s->x.dim[0] * width;
  int64_t group = max_i64(1, WORTH / max_i64(1, s->x.dim[1] * min_i64(lanes, s->x.dim[2])));
  double totals[LANES];
  cpu_begin(r);
  while (cpu_next(r, (all + group - 1) / group, &i))
    for (int64_t k = i * group; k < min_i64(all, (i + 1) * group); k++) {
      int64_t lane = k % width * lanes, n = min_i64(lanes, s->x.dim[2] - lane);
      for (int64_t j = 0; j < n; j++)
        totals[j] = nothing(s);
      scan_lanes(s, k / width, lane, n, totals, true);
    }
}

/* --- few long slices --- */

/* A slice as a scan whose lanes are `n` of its blocks of `length`, from element `first` on. */
static scan blocks_of(const scan *s, int64_t first, int64_t length, int64_t n) {
  scan b = *s;
  for (int k = 0; k < 2; k++) {
    view *v = k ? &b.y : &b.x;
    v->base += first * v->stride[1];
    v->dim[0] = 1;
    v->dim[1] = length;
    v->dim[2] = n;
    v->stride[2] = length * v->stride[1];
  }
  return b;
}

/* All whole blocks, and what is left as one more. totals: one a block, what it comes to or what comes before it. */
static void scan_blocks(cpu_run *r, const scan *s, double *totals, bool store) {
  int64_t n = s->x.dim[1], blocks = n / BLOCK, groups = (blocks + FEW - 1) / FEW, i;
  cpu_begin(r);
  while (cpu_next(r, groups + (n % BLOCK > 0), &i)) {
    bool last = i == groups;
    int64_t first = last ? blocks : i * FEW, many = last ? 1 : min_i64(FEW, blocks - first);
    scan b = blocks_of(s, first * BLOCK, last ? n % BLOCK : BLOCK, many);
    for (int64_t j = 0; !store && j < many; j++)
      totals[first + j] = nothing(s);
    scan_lanes(&b, 0, 0, many, &totals[first], store);
  }
  cpu_sync(r);
}

static void scan_long(cpu_run *r, const scan *s, double *totals) {
  int64_t blocks = (s->x.dim[1] + BLOCK - 1) / BLOCK;
  double before = nothing(s);
  scan_blocks(r, s, totals, false);
  for (int64_t b = 0; r->thread == 0 && b < blocks; b++) {
    double here = totals[b];
    totals[b] = before;
    before = joined(s, before, here);
  }
  cpu_sync(r);
  scan_blocks(r, s, totals, true);
}

/* --- the step --- */

static bool may_be_long(int64_t slices, int64_t length) {
  return slices < FEW && length >= 4 * BLOCK;
}

static void reverse(view *v) {
  v->base += (v->dim[1] - 1) * v->stride[1];
  v->stride[1] = -v->stride[1];
}

static void swap_outer(view *v) {
  int64_t dim = v->dim[0], stride = v->stride[0];
  v->dim[0] = v->dim[2];
  v->stride[0] = v->stride[2];
  v->dim[2] = dim;
  v->stride[2] = stride;
}

static void orient(scan *s, bool backwards) {
  bool swap = s->x.dim[2] < FEW && s->x.dim[0] > s->x.dim[2];
  for (int k = 0; k < 2; k++) {
    view *v = k ? &s->y : &s->x;
    if (swap)
      swap_outer(v);
    if (backwards)
      reverse(v);
  }
}

/* One slice after the other. */
static sn_status scan_each(cpu_run *r, const scan *s) {
  int64_t blocks = (s->x.dim[1] + BLOCK - 1) / BLOCK;
  double *totals = cpu_take_shared(r, (size_t)blocks * sizeof *totals);
  if (!totals)
    return SN_ERR_INTERNAL;
  for (int64_t o = 0; o < s->x.dim[0]; o++)
    for (int64_t i = 0; i < s->x.dim[2]; i++) {
      scan one = *s;
      one.x.base = at_3(&s->x, o, 0, i);
      one.y.base = at_3(&s->y, o, 0, i);
      scan_long(r, &one, totals);
    }
  return SN_OK;
}

sn_status cpu_run_scan(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    const core_part *c = &s->parts[i].u.core;
    scan w = {.kernels = r->isa->cores,
              .x = view_of(r, &c->in[0]),
              .y = view_of(r, &c->out[0]),
              .product = c->ints[0] == 1,
              .exclusive = c->ints[1] != 0};
    w.ints = w.x.dtype == SN_I32 || w.x.dtype == SN_U8;
    orient(&w, c->ints[2] != 0);
    if (may_be_long(w.x.dim[0] * w.x.dim[2], w.x.dim[1]))
      SN_TRY(scan_each(r, &w));
    else
      scan_slices(r, &w);
  }
  return SN_OK;
}

size_t cpu_need_scan(const program *p, const step *s) {
  (void)p;
  (void)s;
  return 0;
}

size_t cpu_need_shared_scan(const program *p, const step *s) {
  size_t all = 0;
  for (int i = 0; i < s->n_parts; i++) {
    int64_t n = cpu_size_max(p, s->parts[i].u.core.in[0].dim[1]);
    if (may_be_long(1, n))
      all += cpu_take_bytes((size_t)((n + BLOCK - 1) / BLOCK) * sizeof(double));
  }
  return all;
}
