/* Runs convolutions as conv_winograd.h says. */
#include "device/cpu/conv_winograd.h"

#include "device/cpu/isa/winograd.h"

enum { CHANNELS_AT_ONCE = 16 };

typedef struct winograd_work {
  matmul_work *w;
  const winograd_kernels *kernels;
  winograd_shape shape;
  winograd_cut cut;
  winograd_images images;
  float *patches, *sums;
  int64_t held; /* the block whose patches are there; -1: none */
} winograd_work;

/* --- opening --- */

static void open_images(const cpu_run *r, const matmul_part *t, winograd_images *out) {
  const access *at = &t->accs[0].products[0].a.code[0].at;
  winograd_numbers v = winograd_number(r, t, at->base, at->terms, at->n_terms);
  *out = (winograd_images){
      .data =
          (const char *)((uintptr_t)cpu_address(r, at->value) + (uintptr_t)v.base * sizeof(float)),
      .by_image = v.by[WINO_N],
      .by_channel = v.by[WINO_CHANNEL],
      .by_row = v.by[WINO_Y],
      .size = {INT64_MAX, INT64_MAX},
  };
  for (int c = 0; c < at->n_checks; c++) {
    const check *k = &at->checks[c];
    v = winograd_number(r, t, k->offset, k->terms, k->n_terms);
    int side = v.by[WINO_Y] == 0;
    out->offset[side] = v.base;
    out->size[side] = cpu_size(r, k->size);
  }
}

static sn_status open_work(winograd_work *x, matmul_work *w) {
  const cpu_run *r = w->r;
  *x = (winograd_work){.w = w, .kernels = r->isa->winograd, .held = -1};
  x->shape = winograd_shape_of(w);
  x->cut = winograd_cut_for(&x->shape);
  open_images(r, w->part, &x->images);
  const winograd_cut *c = &x->cut;
  x->patches = cpu_take(w->r, (size_t)(WINOGRAD_PLANES * c->plane) * sizeof(float));
  x->sums = cpu_take(w->r, (size_t)(WINOGRAD_PLANES * c->sums_plane) * sizeof(float));
  w->sums = cpu_take(w->r, (size_t)c->stored_floats * sizeof(float));
  return x->patches && x->sums && w->sums ? SN_OK : SN_ERR_INTERNAL;
}

/* --- patches --- */

/* Some channels of a line, which is number i of its unit. */
static void transform_line(winograd_work *x, int64_t line, int64_t i, int64_t channel, int64_t n) {
  const winograd_cut *c = &x->cut;
  const winograd_images *m = &x->images;
  int64_t image = line / c->tiles[0], u = line % c->tiles[0] * WINOGRAD_TILE;
  int64_t columns = x->shape.size[1] + 2;
  winograd_line l = {.lo = max_i64(0, -m->offset[1]),
                     .hi = min_i64(columns, m->size[1] - m->offset[1]),
                     .n = c->tiles[1],
                     .channels = n,
                     .channel = m->by_channel,
                     .to = x->patches + channel * x->shape.cols,
                     .plane = c->plane,
                     .panel = c->panel,
                     .first = i * c->tiles[1]};
  for (int k = 0; k < WINOGRAD_PATCH; k++)
    l.rows[k] = winograd_row_at(m, image, channel, u + k, x->shape.size[0] + 2);
  x->kernels->patches(&l);
}

static void transform_block(winograd_work *x, int64_t block) {
  int64_t first = block * x->cut.block, lines = min_i64(x->cut.block, x->cut.lines - first);
  for (int64_t q = 0; q < x->shape.channels; q += CHANNELS_AT_ONCE)
    for (int64_t i = 0; i < lines; i++)
      transform_line(x, first + i, i, q, min_i64(CHANNELS_AT_ONCE, x->shape.channels - q));
  x->held = block;
}

/* --- sums and results --- */

/* Sums of results from …, n of them, of all planes. */
static void multiply(winograd_work *x, int64_t tiles, int64_t from, int64_t n) {
  const winograd_shape *s = &x->shape;
  const winograd_cut *c = &x->cut;
  int64_t kept_plane = whole_panels(s->results, s->rows) * s->channels;
  for (int p = 0; p < WINOGRAD_PLANES; p++)
    for (int64_t k = 0; k < s->channels; k += MATMUL_K) {
      panel_block b = {.m = n,
                       .n = tiles,
                       .k = min_i64(MATMUL_K, s->channels - k),
                       .a = x->w->kept + p * kept_plane + from * s->channels + k * s->rows,
                       .b = x->patches + p * c->plane + k * s->cols,
                       .a_panel = s->channels * s->rows,
                       .b_panel = c->panel,
                       .c = x->sums + p * c->sums_plane,
                       .c_row = c->width,
                       .add = k > 0};
      x->w->r->isa->matmul->multiply(&b);
    }
}

/* The first pixel of a line, counted through all images. */
static int64_t pixel_of(const winograd_work *x, int64_t line) {
  const int64_t *size = x->shape.size, lines = x->cut.tiles[0];
  return (line / lines * size[0] + line % lines * WINOGRAD_TILE) * size[1];
}

/* Some channels, of which the sums are those from `row` on. */
static void store_results(winograd_work *x, int64_t block, int64_t row, const int64_t at[SIDES],
                          const int64_t n[SIDES]) {
  const winograd_cut *c = &x->cut;
  matmul_work *w = x->w;
  int64_t first = block * c->block, lines = min_i64(c->block, c->lines - first), to_row;
  float *to;
  bool in_place = store_in_place(w, at, n, &to, &to_row);
  if (!in_place) {
    w->sums_row = to_row = winograd_row(n[COLS]);
    w->sums_size = c->stored_floats;
    to = w->sums;
  }
  for (int64_t i = 0; i < lines; i++) {
    int64_t y = (first + i) % c->tiles[0] * WINOGRAD_TILE;
    winograd_results l = {.from = x->sums + row * c->width + i * c->tiles[1],
                          .plane = c->sums_plane,
                          .row = c->width,
                          .n = c->tiles[1],
                          .columns = x->shape.size[1],
                          .channels = n[ROWS],
                          .channel = to_row};
    l.to[0] = to + pixel_of(x, first + i) - at[COLS];
    l.to[1] = y + 1 < x->shape.size[0] ? l.to[0] + x->shape.size[1] : NULL;
    x->kernels->results(&l);
  }
  if (!in_place)
    store_block(w, at, n);
}

/* Results from … to-1 of a block. */
static void run_unit(winograd_work *x, int64_t block, int64_t from, int64_t to) {
  const winograd_cut *c = &x->cut;
  int64_t first = block * c->block, last = min_i64(first + c->block, c->lines);
  int64_t pixel = pixel_of(x, first), pixels = pixel_of(x, last) - pixel;
  if (x->held != block)
    transform_block(x, block);
  for (int64_t i = from; i < to; i += c->step) {
    int64_t n = min_i64(c->step, to - i);
    multiply(x, (last - first) * c->tiles[1], i, n);
    for (int64_t j = 0; j < n; j += c->stored)
      store_results(x, block, j, (int64_t[SIDES]){i + j, pixel},
                    (int64_t[SIDES]){min_i64(c->stored, n - j), pixels});
  }
}

/* Blocks go whole to threads, as many to each; those that are left over are shared by all, who each take a part of the results. */
sn_status winograd_run(matmul_work *w) {
  winograd_work x;
  if (w->made)
    w->kept = cpu_take_shared(w->r, winograd_made(w->r->program, w->part));
  if (!w->kept)
    return SN_ERR_INTERNAL;
  SN_TRY(open_work(&x, w));
  int64_t blocks = up(x.cut.lines, x.cut.block), threads = w->r->threads;
  int64_t whole = blocks / threads * threads, panels = up(x.shape.results, x.shape.rows);
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, whole + (blocks - whole) * threads, &i);) {
    int64_t own = (i - whole) % threads, results = x.shape.results;
    if (i < whole)
      run_unit(&x, i, 0, results);
    else
      run_unit(&x, whole + (i - whole) / threads, panels * own / threads * x.shape.rows,
               min_i64(results, panels * (own + 1) / threads * x.shape.rows));
  }
  return SN_OK;
}
