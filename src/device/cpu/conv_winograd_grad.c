/* Gradients of 3 x 3 kernels for their weights, with fewer products: conv_winograd.h read backwards.
 *
 * With d a patch of 4 x 4 pixels and y the gradient of its 2 x 2 results, the gradient of a kernel is
 *   G' [sum over tiles of (B' d B) * (A y A')] G
 * which is 16 matmuls, one a plane: [results x tiles] by [tiles x channels], in place of sums over pixels for each of nine taps.
 *
 * All threads transform images and gradients to panels in shared scratch, a slab of lines at a time; then each takes whole
 * planes, so that no other needs what it reads; in the end sums of all planes are transformed back, some results at a time. */
#include "device/cpu/conv_winograd.h"

#include "device/cpu/isa/winograd.h"

enum {
  CHANNELS_LEAST = 16, /* and results */
  COLUMNS_MOST = 1024,
  SLAB_FLOATS = 2 << 20, /* of both operands, if a line has not more */
  GROUP_TILES = 128,     /* that a thread transforms at a time, of one panel */
  STORED_RESULTS = 8,    /* that go through the epilogue at a time, */
  STORED_CHANNELS = 224, /* and of so many channels */
  TAPS = WINOGRAD_TAPS * WINOGRAD_TAPS,
  APART = 16 /* floats between planes, so that they do not push each other out */
};

/* Axes of such a part; where there is one image, its axis is left out. */
enum { GRAD_CHANNEL, GRAD_KY, GRAD_KX, GRAD_RESULT, GRAD_N, GRAD_Y, GRAD_X };

/* --- finding --- */

static int left_out(const matmul_part *t) { return 3 - t->accs[0].products[0].n_k; }

static bool open_access(const matmul_part *t, sn_dim base, const term *terms, int n,
                        winograd_access *out) {
  *out = (winograd_access){.base = base};
  bool fits = true;
  for (int i = 0; i < n && fits; i++) {
    const term *x = &terms[i];
    int axis = x->axis < GRAD_N ? x->axis : x->axis + left_out(t);
    fits =
        x->axis != TERM_REG && axis < WINO_AXES && x->div == 1 && x->mod == 0 && out->by[axis] == 0;
    if (fits)
      out->by[axis] = x->stride;
  }
  return fits;
}

static bool is_load(const program *p, const region *code) {
  const instr *i = &code->code[0];
  return code->n == 1 && i->op == REGION_LOAD && i->dtype == SN_F32 &&
         p->values[i->at.value].type.dtype == SN_F32;
}

/* A check of rows or columns; y: their axis. */
static bool is_check_of(const matmul_part *t, const check *k, int y) {
  winograd_access v;
  bool fits = k->divisor == 1 && open_access(t, k->offset, k->terms, k->n_terms, &v);
  for (int a = 0; a < WINO_AXES && fits; a++)
    fits = v.by[a] == (a == y || a == y - GRAD_Y + GRAD_KY);
  return fits;
}

static bool are_images(const matmul_part *t, const access *at) {
  winograd_access v;
  bool seen[2] = {false, false};
  bool fits = open_access(t, at->base, at->terms, at->n_terms, &v) && v.by[GRAD_X] == 1 &&
              v.by[GRAD_KX] == 1 && v.by[GRAD_Y] == v.by[GRAD_KY] && v.by[GRAD_RESULT] == 0;
  for (int c = 0; c < at->n_checks && fits; c++) {
    int side = is_check_of(t, &at->checks[c], GRAD_X);
    fits = !seen[side] && (side || is_check_of(t, &at->checks[c], GRAD_Y));
    seen[side] = true;
  }
  return fits;
}

static bool are_gradients(const matmul_part *t, const access *at) {
  winograd_access v;
  return at->n_checks == 0 && open_access(t, at->base, at->terms, at->n_terms, &v) &&
         v.by[GRAD_X] == 1 && v.by[GRAD_CHANNEL] == 0 && v.by[GRAD_KY] == 0 && v.by[GRAD_KX] == 0;
}

static bool is_gradient(const program *p, const matmul_part *t) {
  if (t->n_batch != 0 || t->n_m != 3 || t->n_n != 1 || t->n_accs != 1 || t->accs[0].n_products != 1)
    return false;
  const matmul_product *q = &t->accs[0].products[0];
  return (q->n_k == 2 || q->n_k == 3) && t->extent[GRAD_KY] == WINOGRAD_TAPS &&
         t->extent[GRAD_KX] == WINOGRAD_TAPS && dim_is_number(t->extent[GRAD_CHANNEL]) &&
         dim_is_number(t->extent[GRAD_RESULT]) && is_load(p, &q->a) && is_load(p, &q->b) &&
         are_images(t, &q->a.code[0].at) && are_gradients(t, &q->b.code[0].at) &&
         store_is_along_m(t);
}

/* --- sizes --- */

/* As in conv_winograd_find.c: multiply-adds on vectors of 16. A tile costs about 12 to transform, for each channel and result,
 * and a kernel as much. */
static bool shape_pays(const winograd_shape *s) {
  const double ahead = 1.2, lanes = 16, each = 12;
  double tiles =
      (double)(s->images * up(s->size[0], WINOGRAD_TILE) * up(s->size[1], WINOGRAD_TILE));
  double pixels = (double)(s->images * s->size[0] * s->size[1]);
  double products = (double)s->channels * (double)s->results;
  double plain = TAPS * pixels / lanes * products;
  double here = (WINOGRAD_PLANES * tiles / lanes + each) * products +
                each * tiles * (double)(s->channels + s->results);
  return s->channels >= CHANNELS_LEAST && s->results >= CHANNELS_LEAST &&
         s->size[1] <= COLUMNS_MOST && plain >= ahead * here;
}

static sn_dim k_extent(const matmul_part *t, int axis) {
  int i = axis - GRAD_N - left_out(t);
  return i < 0 ? 1 : t->accs[0].products[0].k[i];
}

/* What it is cut into. Tiles are counted along lines, and lines (rows of tiles) through all images. In floats: */
typedef struct grad_cut {
  int64_t tiles[2], lines; /* of an image; of all */
  int64_t slab;            /* lines at a time */
  int64_t panel[SIDES],
      plane[SIDES]; /* of gradients and images: from panel to panel, from plane to plane */
  int64_t sums_row, sums_plane;
} grad_cut;

static grad_cut cut_for(const winograd_shape *s) {
  grad_cut c = {.tiles = {up(s->size[0], WINOGRAD_TILE), up(s->size[1], WINOGRAD_TILE)}};
  int64_t width[SIDES] = {whole_panels(s->results, s->rows), whole_panels(s->channels, s->cols)};
  int64_t line = WINOGRAD_PLANES * max_i64(1, c.tiles[1]) * (width[ROWS] + width[COLS]);
  c.lines = s->images * c.tiles[0];
  c.slab = min_i64(c.lines, max_i64(1, SLAB_FLOATS / line));
  c.panel[ROWS] = c.slab * c.tiles[1] * s->rows;
  c.panel[COLS] = c.slab * c.tiles[1] * s->cols;
  c.plane[ROWS] = width[ROWS] / s->rows * c.panel[ROWS] + APART;
  c.plane[COLS] = width[COLS] / s->cols * c.panel[COLS] + APART;
  c.sums_row = up(s->channels, MATMUL_LINE) * MATMUL_LINE;
  c.sums_plane = s->results * c.sums_row + APART;
  return c;
}

static size_t shared_bytes(const winograd_shape *s) {
  int64_t width = whole_panels(s->results, s->rows) + whole_panels(s->channels, s->cols);
  int64_t tiles[2] = {up(s->size[0], WINOGRAD_TILE), up(s->size[1], WINOGRAD_TILE)};
  int64_t line = WINOGRAD_PLANES * width * tiles[1], all = s->images * tiles[0] * line;
  int64_t slab = min_i64(all, max_i64(SLAB_FLOATS, line));
  int64_t sums = WINOGRAD_PLANES * (s->results * (s->channels + MATMUL_LINE) + APART);
  return cpu_take_bytes((size_t)(slab + 2 * WINOGRAD_PLANES * APART) * sizeof(float)) +
         cpu_take_bytes((size_t)sums * sizeof(float));
}

static winograd_shape shape_most(const program *p, const matmul_part *t) {
  return (winograd_shape){
      .images = cpu_size_max(p, k_extent(t, GRAD_N)),
      .size = {cpu_size_max(p, k_extent(t, GRAD_Y)), cpu_size_max(p, k_extent(t, GRAD_X))},
      .channels = t->extent[GRAD_CHANNEL],
      .results = t->extent[GRAD_RESULT]};
}

static winograd_shape shape_of(const cpu_run *r, const matmul_part *t) {
  return (winograd_shape){
      .images = cpu_size(r, k_extent(t, GRAD_N)),
      .size = {cpu_size(r, k_extent(t, GRAD_Y)), cpu_size(r, k_extent(t, GRAD_X))},
      .channels = t->extent[GRAD_CHANNEL],
      .results = t->extent[GRAD_RESULT],
      .rows = r->isa->matmul->rows,
      .cols = r->isa->matmul->cols,
      .threads = r->threads};
}

size_t winograd_grad_shared(const program *p, const matmul_part *t) {
  size_t most = 0;
  if (!is_gradient(p, t))
    return 0;
  winograd_shape s = shape_most(p, t);
  s.size[1] = min_i64(s.size[1], COLUMNS_MOST);
  if (!shape_pays(&s))
    return 0;
  for (int i = 0; cpu_isa_at(i); i++) {
    s.rows = cpu_isa_at(i)->matmul->rows;
    s.cols = cpu_isa_at(i)->matmul->cols;
    size_t bytes = shared_bytes(&s);
    most = bytes > most ? bytes : most;
  }
  return most <= MATMUL_SHARED ? most : 0;
}

/* Floats of a thread: staged pixels; results on their way to the epilogue. */
static int64_t staged_floats(int64_t columns) {
  return WINOGRAD_PATCH * (columns + WINOGRAD_PATCH) * WINOGRAD_LANES_MOST;
}
static int64_t stored_floats(void) {
  return (int64_t)STORED_RESULTS * up(STORED_CHANNELS * TAPS, MATMUL_LINE) * MATMUL_LINE +
         CPU_LANE_BLOCK;
}

size_t winograd_grad_need(const program *p, const matmul_part *t) {
  if (winograd_grad_shared(p, t) == 0)
    return 0;
  return cpu_take_bytes((size_t)staged_floats(COLUMNS_MOST) * sizeof(float)) +
         cpu_take_bytes((size_t)stored_floats() * sizeof(float));
}

bool winograd_grad_pays(const matmul_work *w, const step *of) {
  bool own = false; /* there is memory only for parts as the step was lowered */
  for (int i = 0; i < of->n_parts; i++)
    own = own || of->parts[i].u.matmul.accs == w->part->accs;
  if (!own || winograd_grad_shared(w->r->program, w->part) == 0)
    return false;
  winograd_shape s = shape_of(w->r, w->part);
  return shape_pays(&s);
}

/* --- running --- */

typedef struct grad_work {
  matmul_work *w;
  const winograd_kernels *kernels;
  winograd_shape shape;
  grad_cut cut;
  winograd_images side[SIDES]; /* gradients of results, images */
  float *panels[SIDES], *sums; /* shared */
  float *staged;
} grad_work;

static winograd_images open_side(const cpu_run *r, const matmul_part *t, const access *at,
                                 int channel) {
  winograd_access v;
  (void)open_access(t, at->base, at->terms, at->n_terms, &v);
  winograd_images m = {.data = (const char *)((uintptr_t)cpu_address(r, at->value) +
                                              (uintptr_t)cpu_size(r, v.base) * sizeof(float)),
                       .by_image = cpu_size(r, v.by[GRAD_N]),
                       .by_channel = cpu_size(r, v.by[channel]),
                       .by_row = cpu_size(r, v.by[GRAD_Y]),
                       .size = {INT64_MAX, INT64_MAX}};
  for (int c = 0; c < at->n_checks; c++) {
    const check *k = &at->checks[c];
    (void)open_access(t, k->offset, k->terms, k->n_terms, &v);
    int side = v.by[GRAD_Y] == 0;
    m.offset[side] = cpu_size(r, v.base);
    m.size[side] = cpu_size(r, k->size);
  }
  return m;
}

static sn_status open_work(grad_work *x, matmul_work *w) {
  cpu_run *r = w->r;
  const matmul_product *q = &w->part->accs[0].products[0];
  *x = (grad_work){.w = w, .kernels = r->isa->winograd, .shape = shape_of(r, w->part)};
  x->cut = cut_for(&x->shape);
  x->side[ROWS] = open_side(r, w->part, &q->b.code[0].at, GRAD_RESULT);
  x->side[COLS] = open_side(r, w->part, &q->a.code[0].at, GRAD_CHANNEL);
  int64_t planes = WINOGRAD_PLANES * (x->cut.plane[ROWS] + x->cut.plane[COLS]);
  x->panels[ROWS] = cpu_take_shared(r, (size_t)planes * sizeof(float));
  x->sums = cpu_take_shared(r, (size_t)(WINOGRAD_PLANES * x->cut.sums_plane) * sizeof(float));
  x->staged = cpu_take(r, (size_t)staged_floats(x->shape.size[1]) * sizeof(float));
  w->sums = cpu_take(r, (size_t)stored_floats() * sizeof(float));
  if (!x->panels[ROWS] || !x->sums || !x->staged || !w->sums)
    return SN_ERR_INTERNAL;
  x->panels[COLS] = x->panels[ROWS] + WINOGRAD_PLANES * x->cut.plane[ROWS];
  return SN_OK;
}

/* One line, number i of its slab, of a panel of one side. */
static void transform_line(grad_work *x, int side, int64_t panel, int64_t line, int64_t i) {
  const grad_cut *c = &x->cut;
  const winograd_images *m = &x->side[side];
  int64_t image = line / c->tiles[0], u = line % c->tiles[0] * WINOGRAD_TILE;
  int64_t more = side == COLS ? WINOGRAD_PATCH - WINOGRAD_TILE : 0; /* pixels than results */
  int64_t rows = x->shape.size[0] + more, columns = x->shape.size[1] + more;
  int width = side == COLS ? x->shape.cols : x->shape.rows;
  int64_t all = side == COLS ? x->shape.channels : x->shape.results;
  for (int first = 0; first < width; first += x->kernels->lanes) {
    int64_t channel = panel * width + first;
    winograd_turned l = {.lo = max_i64(0, -m->offset[1]),
                         .hi = min_i64(columns, m->size[1] - m->offset[1]),
                         .n = c->tiles[1],
                         .channel = m->by_channel,
                         .lanes = (int)min_i64(x->kernels->lanes, width - first),
                         .to = x->panels[side] + panel * c->panel[side] + i * c->tiles[1] * width +
                               first,
                         .plane = c->plane[side],
                         .step = width,
                         .staged = x->staged};
    l.channels = (int)max_i64(0, min_i64(l.lanes, all - channel));
    for (int k = 0; k < WINOGRAD_TILE + more; k++)
      l.rows[k] = l.channels > 0 ? winograd_row_at(m, image, channel, u + k, rows) : NULL;
    (side == COLS ? x->kernels->turn_images : x->kernels->turn_results)(&l);
  }
}

static void transform_slab(grad_work *x, int64_t from, int64_t lines) {
  int64_t group = up(GROUP_TILES, max_i64(1, x->cut.tiles[1]));
  int64_t n[SIDES] = {up(x->shape.results, x->shape.rows), up(x->shape.channels, x->shape.cols)};
  int64_t panels = n[ROWS] + n[COLS];
  cpu_begin(x->w->r);
  for (int64_t i; cpu_next(x->w->r, up(lines, group) * panels, &i);) {
    int64_t first = i / panels * group, panel = i % panels;
    int side = panel >= n[ROWS] ? COLS : ROWS;
    for (int64_t l = first; l < min_i64(lines, first + group); l++)
      transform_line(x, side, side == COLS ? panel - n[ROWS] : panel, from + l, l);
  }
}

/* Results from … to-1 of a plane. */
static void multiply(grad_work *x, int plane, int64_t from, int64_t to, int64_t k_all, bool add) {
  const grad_cut *c = &x->cut;
  for (int64_t k = 0; k < k_all; k += MATMUL_K) {
    panel_block b = {.m = to - from,
                     .n = x->shape.channels,
                     .k = min_i64(MATMUL_K, k_all - k),
                     .a = x->panels[ROWS] + plane * c->plane[ROWS] +
                          from / x->shape.rows * c->panel[ROWS] + k * x->shape.rows,
                     .b = x->panels[COLS] + plane * c->plane[COLS] + k * x->shape.cols,
                     .a_panel = c->panel[ROWS],
                     .b_panel = c->panel[COLS],
                     .c = x->sums + plane * c->sums_plane + from * c->sums_row,
                     .c_row = c->sums_row,
                     .add = add || k > 0};
    x->w->r->isa->matmul->multiply(&b);
  }
}

static void multiply_slab(grad_work *x, int64_t from, int64_t lines) {
  int64_t panels = up(x->shape.results, x->shape.rows), rows = x->shape.rows;
  int64_t pieces = min_i64(panels, up((int64_t)2 * x->shape.threads, WINOGRAD_PLANES));
  cpu_begin(x->w->r);
  for (int64_t i; cpu_next(x->w->r, WINOGRAD_PLANES * pieces, &i);) {
    int64_t own = i % pieces;
    multiply(x, (int)(i / pieces), panels * own / pieces * rows,
             min_i64(x->shape.results, panels * (own + 1) / pieces * rows), lines * x->cut.tiles[1],
             from > 0);
  }
}

/* n results and their kernels, all of some channels. */
static void store_results(grad_work *x, int64_t result, int64_t n, int64_t channel,
                          int64_t channels) {
  matmul_work *w = x->w;
  const int64_t at[SIDES] = {result, channel * TAPS}, size[SIDES] = {n, channels * TAPS};
  float *to = w->sums;
  int64_t row = up(size[COLS], MATMUL_LINE) * MATMUL_LINE;
  bool in_place = store_in_place(w, at, size, &to, &row);
  if (!in_place) {
    to = w->sums;
    w->sums_row = row = up(size[COLS], MATMUL_LINE) * MATMUL_LINE;
    w->sums_size = stored_floats();
  }
  for (int64_t i = 0; i < n; i++)
    x->kernels->taps(&(winograd_sums){.from = x->sums + (result + i) * x->cut.sums_row + channel,
                                      .plane = x->cut.sums_plane,
                                      .n = channels,
                                      .to = to + i * row});
  if (!in_place)
    store_block(w, at, size);
}

sn_status winograd_grad_run(matmul_work *w) {
  grad_work x;
  int64_t channels = w->part->extent[GRAD_CHANNEL], results = w->part->extent[GRAD_RESULT];
  int64_t blocks = up(channels, STORED_CHANNELS);
  SN_TRY(matmul_open(w));
  SN_TRY(open_work(&x, w));
  for (int64_t from = 0; from < x.cut.lines; from += x.cut.slab) {
    int64_t lines = min_i64(x.cut.slab, x.cut.lines - from);
    transform_slab(&x, from, lines);
    cpu_sync(w->r);
    multiply_slab(&x, from, lines);
    cpu_sync(w->r);
  }
  memset(w->coords, 0, sizeof w->coords);
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, up(results, STORED_RESULTS) * blocks, &i);) {
    int64_t result = i / blocks * STORED_RESULTS, channel = i % blocks * STORED_CHANNELS;
    store_results(&x, result, min_i64(STORED_RESULTS, results - result), channel,
                  min_i64(STORED_CHANNELS, channels - channel));
  }
  return SN_OK;
}
