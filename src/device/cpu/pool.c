/* Pooling, image by image: see pool.h. */
#include "device/cpu/pool.h"

#include "device/cpu/isa/pool.h"

#include <math.h>

/* --- parts of the code as regions of their own --- */

typedef enum copy_of {
  OF_PIXELS, /* what windows see, in pixels */
  OF_ROWS,   /* a register of rows */
  OF_RESULTS /* all that is stored; the reduction is accumulator 0 */
} copy_of;

/* Memory for such a region, at most. */
static size_t copy_bytes(const region *code) {
  size_t terms = cpu_take_bytes((ACCESS_TERMS + PLANE) * sizeof(term));
  return cpu_take_bytes((size_t)code->n * sizeof(instr)) + (size_t)code->n * terms;
}

/* What register `root` (or every store) needs. */
static void find_needed(const region *code, copy_of what, reg root, bool *needed) {
  for (int i = 0; i < code->n; i++)
    needed[i] = what == OF_RESULTS ? code->code[i].op == REGION_STORE : i == root;
  for (int i = code->n - 1; i >= 0; i--) {
    const instr *c = &code->code[i];
    const reg args[] = {c->a, c->b, c->c};
    int n = needed[i] && c->op != REGION_REDUCE ? instr_arguments(c) : 0;
    for (int k = 0; k < n; k++)
      needed[args[k]] = true;
  }
}

static bool copy_instr(cpu_run *r, const pool_part *p, copy_of what, const instr *from,
                       const reg *map, instr *to) {
  *to = *from;
  to->phase = 0;
  to->row = false;
  to->a = map[from->a];
  to->b = map[from->b];
  to->c = map[from->c];
  if (from->op == REGION_REDUCE) {
    *to = (instr){.op = REGION_ACC, .dtype = SN_F32};
  } else if (what == OF_PIXELS && from->op == REGION_INSIDE) {
    *to = (instr){.op = REGION_NUMBER, .dtype = SN_BOOL, .x = 1};
  } else if (what == OF_PIXELS && from->op == REGION_LOAD) {
    term *terms = cpu_take(r, (ACCESS_TERMS + PLANE) * sizeof *terms);
    return terms && pool_by_pixels(p, &from->at, terms, &to->at);
  }
  return true;
}

static bool copy_code(cpu_run *r, const pool_part *p, copy_of what, reg root, region *out) {
  const region *code = &p->of->code;
  bool needed[POOL_CODE];
  reg map[POOL_CODE] = {0};
  int n = 0;
  instr *to = cpu_take(r, (size_t)code->n * sizeof *to);
  if (!to)
    return false;
  find_needed(code, what, root, needed);
  for (int i = 0; i < code->n; i++) {
    const instr *c = &code->code[i];
    if (!needed[i])
      continue;
    if (what != OF_RESULTS && c->op == REGION_STORE) { /* it passes on what it stores */
      map[i] = map[c->a];
      continue;
    }
    if (!copy_instr(r, p, what, c, map, &to[n]))
      return false;
    map[i] = (reg)n++;
  }
  *out = (region){n, to};
  return true;
}

/* --- images by the region machine --- */

typedef struct image {
  region_state *st;
  region code;
  int row_axis, axis;
  int64_t rows, columns;
} image;

/* Makes one axis of q and a, of both. */
static bool join_phases(const pool_part *p, region_state *st) {
  for (int d = 0; d < PLANE; d++)
    (void)walk_merge(st, p->first + 2 * d, p->first + 2 * d + 2);
  return (st->extent[p->first] == 1 || p->axis[0].stride == 1) &&
         (st->extent[p->first + PLANE] == 1 || p->axis[1].stride == 1);
}

/* The plane of an image, as few axes as can be. */
static sn_status open_image(cpu_run *r, const pool_part *p, copy_of what, reg root, image *out) {
  int64_t extent[REGION_AXES];
  int n_axes = p->of->n_outer, first = p->first;
  bool shares = p->kind == POOL_SHARES;
  if (!copy_code(r, p, what, root, &out->code))
    return SN_ERR_INTERNAL;
  for (int a = 0; a < n_axes; a++)
    extent[a] = p->of->extent[a];
  for (int d = 0; d < PLANE && what == OF_PIXELS; d++) {
    extent[first + d * (shares ? 2 : 1)] = 1;
    extent[pool_pixel_axis(p, d)] = shares ? p->axis[d].inner : p->axis[d].size;
  }
  SN_TRY(region_resolve(r, &out->code, n_axes, extent, loop_lanes_of(&out->code), &out->st));
  out->row_axis = pool_pixel_axis(p, 0);
  out->axis = n_axes - 1;
  if (shares && !join_phases(p, out->st))
    return cpu_fail(r, "pooling: pixels that do not run on");
  (void)walk_merge(out->st, out->row_axis, n_axes);
  out->rows = out->st->extent[out->row_axis];
  out->columns = out->st->extent[out->axis];
  return region_finish(r, out->st, false);
}

/* All points of the plane of one image: registers to `out`, or stores of what is done with the sums `acc`. */
static void run_image(cpu_run *r, image *x, const int64_t *at, float *out, const float *acc) {
  int64_t place = 0, coords[REGION_AXES];
  tile t;
  t.axis = x->axis;
  t.n_segments = 1;
  t.segments[0].lane = 0;
  memcpy(coords, at, sizeof coords);
  for (int64_t row = 0; row < x->rows; row++)
    for (int64_t i = 0, n; i < x->columns; i += n, place += n) {
      const float *sums = acc ? acc + place : NULL;
      n = min_i64(x->columns - i, x->st->lanes);
      coords[x->row_axis] = row;
      coords[x->axis] = i;
      t.n = t.segments[0].n = (int)n;
      memcpy(t.segments[0].at, coords, sizeof coords);
      region_run_range(r, x->st, &x->st->ranges[0], &t, &sums);
      if (out)
        memcpy(out + place, cpu_region_f32(x->st, x->code.n - 1), (size_t)n * sizeof *out);
    }
}

/* --- windows --- */

typedef struct pool_work {
  cpu_run *r;
  const pool_part *p;
  const pool_kernels *kernels;
  image x, y, rest;
  float *pixels, *split; /* an image; the same with every stride-th pixel of a line side by side */
  float *values;         /* of ties: the windows' results */
  float *sums;
  int64_t apart, line; /* in `split`: of what is side by side, of lines */
} pool_work;

/* Pixels of `split`, of lines of either kind of image. */
static int64_t split_apart(const pool_part *p) {
  return (p->axis[1].size + p->axis[1].stride - 1) / p->axis[1].stride;
}
static int64_t results(const pool_part *p) {
  bool shares = p->kind == POOL_SHARES;
  return shares ? p->axis[0].size * p->axis[1].size : p->axis[0].windows * p->axis[1].windows;
}

static int64_t pixels(const pool_part *p) {
  bool inner = p->kind == POOL_SHARES && p->by_pixels;
  return inner ? p->axis[0].inner * p->axis[1].inner : p->axis[0].size * p->axis[1].size;
}

/* A line of floats that kernels may read a little past. */
static size_t line_bytes(int64_t n) { return (size_t)(n + CPU_LANE_BLOCK) * sizeof(float); }

static sn_status take_lines(pool_work *w) {
  const pool_part *p = w->p;
  int64_t apart = split_apart(p), line = apart * p->axis[1].stride;
  w->apart = apart;
  w->line = line;
  w->pixels = cpu_take(w->r, line_bytes(pixels(p)));
  w->split = cpu_take(w->r, line_bytes(p->axis[0].size * line));
  w->values = cpu_take(w->r, line_bytes(max_i64(line, p->axis[0].windows * p->axis[1].windows)));
  w->sums = cpu_take(w->r, line_bytes(results(p)));
  return w->pixels && w->split && w->values && w->sums ? SN_OK : SN_ERR_INTERNAL;
}

size_t pool_need(const pool_part *p) {
  const region *code = &p->of->code;
  /* Accesses in pixels have up to PLANE terms more. */
  size_t more = (size_t)code->n * cpu_take_bytes(PLANE * sizeof(odd_term));
  size_t images = copy_bytes(code) + region_bytes(code, REGION_LANES) + more;
  int64_t line = split_apart(p) * p->axis[1].stride;
  return 3 * images + cpu_take_bytes(line_bytes(pixels(p))) +
         cpu_take_bytes(line_bytes(p->axis[0].size * line)) +
         cpu_take_bytes(line_bytes(max_i64(line, p->axis[0].windows * p->axis[1].windows))) +
         cpu_take_bytes(line_bytes(results(p)));
}

static int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* A line of an image that is padded, to `values`. */
static const float *pad_line(const pool_work *w, int64_t line) {
  const pool_axis *x = w->p->axis;
  int64_t y = line + x[0].inner_shift, from = max_i64(0, -x[1].inner_shift);
  int64_t to = min_i64(x[1].size, x[1].inner - x[1].inner_shift);
  for (int64_t i = 0; i < x[1].size; i++)
    w->values[i] = w->p->outside;
  if (y >= 0 && y < x[0].inner && from < to)
    memcpy(w->values + from, w->pixels + y * x[1].inner + from + x[1].inner_shift,
           (size_t)(to - from) * sizeof(float));
  return w->values;
}

static void split_image(const pool_work *w) {
  const pool_axis *x = w->p->axis;
  bool padded = w->p->kind == POOL_SHARES && w->p->by_pixels;
  for (int64_t i = 0; i < x[0].size; i++)
    w->kernels->split(padded ? pad_line(w, i) : w->pixels + i * x[1].size, x[1].size, x[1].stride,
                      w->split + i * w->line, w->apart);
}

/* Element k of the windows of line `to`, from one line of pixels. */
static void fold_element(const pool_work *w, const float *line, int64_t k, const float *values,
                         float *to) {
  const pool_axis *x = &w->p->axis[1];
  int64_t at = x->shift + k, q = floor_of(at, x->stride), a = at - q * x->stride;
  int64_t lo = max_i64(0, -q), hi = min_i64(x->windows, floor_of(x->size - 1 - at, x->stride) + 1);
  const float *from = line + a * w->apart + q + lo;
  if (lo >= hi)
    return;
  if (w->p->kind == POOL_LARGEST)
    w->kernels->larger(from, to + lo, hi - lo);
  else if (w->p->kind == POOL_SMALLEST)
    w->kernels->smaller(from, to + lo, hi - lo);
  else
    w->kernels->count_same(from, values + lo, to + lo, hi - lo);
}

static void fold_windows(const pool_work *w) {
  const pool_axis *x = w->p->axis;
  float start = w->p->kind == POOL_LARGEST ? -INFINITY : w->p->kind == POOL_SMALLEST ? INFINITY : 0;
  for (int64_t o = 0; o < x[0].windows; o++) {
    float *to = w->sums + o * x[1].windows;
    for (int64_t i = 0; i < x[1].windows; i++)
      to[i] = start;
    for (int64_t k = 0; k < x[0].kernel; k++) {
      int64_t line = o * x[0].stride + x[0].shift + k;
      for (int64_t l = 0; l < x[1].kernel && line >= 0 && line < x[0].size; l++)
        fold_element(w, w->split + line * w->line, l, w->values + o * x[1].windows, to);
    }
  }
}

/* --- shares --- */

static bool holds(const pool_work *w, const int64_t *at) {
  const access *a = w->p->holds;
  int64_t i = a->base;
  for (int t = 0; t < a->n_terms; t++)
    i += a->terms[t].stride * at[a->terms[t].axis];
  return ((const uint8_t *)cpu_address(w->r, a->value))[i] != 0;
}

/* The first window of an image. */
static const float *windows_of(const pool_work *w, const pool_window *v, const int64_t *at) {
  int64_t i = v->base;
  for (int t = 0; t < v->at->n_terms; t++) {
    const term *x = &v->at->terms[t];
    if (x->axis >= w->p->first)
      continue;
    int64_t c = at[x->axis] / max_i64(1, x->div);
    i += x->stride * (x->mod > 0 ? c % x->mod : c);
  }
  return (const float *)cpu_address(w->r, v->at->value) + i;
}

/* What the windows of line `window` and tap l of a line bring to phase a of a line of pixels. */
static void add_tap(const pool_work *w, const float *values, const float *shares,
                    const float *pixels, int64_t l, float *to) {
  const pool_axis *x = &w->p->axis[1];
  int64_t first = x->shift + l; /* the window of q = 0 */
  int64_t lo = max_i64(0, -first), hi = min_i64(w->apart, x->windows - first);
  if (lo < hi)
    w->kernels->add_same(pixels + lo, values + first + lo, shares + first + lo, to + lo, hi - lo);
}

/* A line of pixels, phases side by side. */
static void share_line(const pool_work *w, const float *values, const float *shares, int64_t line,
                       int64_t *at) {
  const pool_part *p = w->p;
  const pool_axis *x = p->axis;
  const float *pixels = w->split + line * w->line;
  memset(w->values, 0, (size_t)w->line * sizeof(float));
  at[p->first + 1] = line % x[0].stride;
  for (int64_t tap = 0; tap < x[0].kernel * x[1].kernel; tap++) {
    int64_t window = line / x[0].stride + x[0].shift + tap / x[1].kernel;
    at[p->of->n_outer] = tap;
    for (int64_t a = 0; a < x[1].stride && window >= 0 && window < x[0].windows; a++) {
      at[p->first + 3] = a;
      if (holds(w, at))
        add_tap(w, values + window * p->values.row, shares + window * p->shares.row,
                pixels + a * w->apart, tap % x[1].kernel, w->values + a * w->apart);
    }
  }
  w->kernels->join(w->values, w->apart, x[1].size, x[1].stride, w->sums + line * x[1].size);
}

static void share_windows(const pool_work *w, const int64_t *of) {
  int64_t at[REGION_AXES];
  const float *values = windows_of(w, &w->p->values, of);
  const float *shares = windows_of(w, &w->p->shares, of);
  memcpy(at, of, sizeof at);
  for (int64_t line = 0; line < w->p->axis[0].size; line++)
    share_line(w, values, shares, line, at);
}

/* --- all --- */

static sn_status open_work(cpu_run *r, const pool_part *p, pool_work *w) {
  *w = (pool_work){.r = r, .p = p, .kernels = r->isa->pool};
  SN_TRY(open_image(r, p, p->by_pixels ? OF_PIXELS : OF_ROWS, p->x, &w->x));
  if (p->kind == POOL_TIES)
    SN_TRY(open_image(r, p, OF_ROWS, p->y, &w->y));
  SN_TRY(open_image(r, p, OF_RESULTS, 0, &w->rest));
  return take_lines(w);
}

static void run_one(pool_work *w, const int64_t *at) {
  run_image(w->r, &w->x, at, w->pixels, NULL);
  split_image(w);
  if (w->p->kind == POOL_TIES)
    run_image(w->r, &w->y, at, w->values, NULL);
  if (w->p->kind == POOL_SHARES)
    share_windows(w, at);
  else
    fold_windows(w);
  run_image(w->r, &w->rest, at, NULL, w->sums);
}

sn_status pool_run(cpu_run *r, const pool_part *p) {
  pool_work w;
  int64_t images = 1;
  SN_TRY(open_work(r, p, &w));
  for (int a = 0; a < p->first; a++)
    images *= p->of->extent[a];
  cpu_begin(r);
  for (int64_t i; cpu_next(r, images, &i);) {
    int64_t at[REGION_AXES] = {0}, rest = i;
    for (int a = p->first - 1; a >= 0; a--) {
      at[a] = rest % p->of->extent[a];
      rest /= p->of->extent[a];
    }
    run_one(&w, at);
  }
  return SN_OK;
}
