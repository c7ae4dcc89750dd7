/* Which parts are computed as conv_winograd.h says, and how they are cut. */
#include "device/cpu/conv_winograd.h"

#include "device/cpu/isa/winograd.h"

enum {
  CHANNELS_LEAST = 16, /* and results */
  COLUMNS_MOST =
      MATMUL_TABLE / WINOGRAD_TILE, /* a line's results go through the epilogue at once */
  TILES_MOST = 224,                 /* of a unit, if a line has not more */
  PATCH_FLOATS = 448 * 1024,        /* of a unit, but TILES_FEW tiles at least */
  TILES_FEW = 64,
  SUMS_FLOATS = 192 * 1024,
  STORED_FLOATS = 24 * 1024, /* stay in the first caches from the transform to the epilogue */
  APART = 16                 /* floats between planes, so that they do not push each other out */
};

/* --- finding --- */

bool winograd_open(const matmul_part *t, sn_dim base, const term *terms, int n,
                   winograd_access *out) {
  *out = (winograd_access){.base = base};
  bool fits = true;
  for (int i = 0; i < n && fits; i++) {
    const term *x = &terms[i];
    int axis = x->axis + winograd_left_out(t);
    fits = axis < WINO_AXES && x->div == 1 && x->mod == 0 && out->by[axis] == 0;
    if (fits)
      out->by[axis] = x->stride;
  }
  return fits;
}

winograd_numbers winograd_number(const cpu_run *r, const matmul_part *t, sn_dim base,
                                 const term *terms, int n) {
  winograd_access v;
  winograd_numbers out = {0};
  (void)winograd_open(t, base, terms, n, &v);
  out.base = cpu_size(r, v.base);
  for (int a = 0; a < WINO_AXES; a++)
    out.by[a] = cpu_size(r, v.by[a]);
  for (int a = WINO_KY; a <= WINO_KX && winograd_is_turned(t); a++) {
    out.base += (WINOGRAD_TAPS - 1) * out.by[a];
    out.by[a] = -out.by[a];
  }
  return out;
}

/* Of a part whose images are such an access. */
bool winograd_is_turned(const matmul_part *t) {
  const access *at = &t->accs[0].products[0].a.code[0].at;
  winograd_access v;
  return winograd_open(t, at->base, at->terms, at->n_terms, &v) && v.by[WINO_KX] == -1;
}

/* A check of rows or columns of an image; y: the axis of its results. */
static bool is_check_of(const matmul_part *t, const check *k, int y) {
  winograd_access v;
  sn_dim along = winograd_is_turned(t) ? -1 : 1;
  bool fits = k->divisor == 1 && winograd_open(t, k->offset, k->terms, k->n_terms, &v);
  for (int a = 0; a < WINO_AXES && fits; a++)
    fits = v.by[a] == (a == y ? 1 : a == y - WINO_Y + WINO_KY ? along : 0);
  return fits;
}

/* One load of pixels that stand in order, rows and columns moving by one with results and kernel. */
static bool are_images(const program *p, const matmul_part *t, const region *code) {
  const instr *i = &code->code[0];
  winograd_access v;
  if (code->n != 1 || i->op != REGION_LOAD || i->dtype != SN_F32 || i->at.n_checks > 2 ||
      p->values[i->at.value].type.dtype != SN_F32 ||
      !winograd_open(t, i->at.base, i->at.terms, i->at.n_terms, &v))
    return false;
  const check *k = i->at.checks;
  bool turned = v.by[WINO_KX] == -1;
  bool fits = v.by[WINO_X] == 1 && v.by[WINO_RESULT] == 0 &&
              (turned ? dim_is_number(v.by[WINO_Y]) && v.by[WINO_KY] == -v.by[WINO_Y]
                      : v.by[WINO_KX] == 1 && v.by[WINO_KY] == v.by[WINO_Y]);
  if (i->at.n_checks == 1)
    return fits && (is_check_of(t, k, WINO_Y) || is_check_of(t, k, WINO_X));
  return fits &&
         (i->at.n_checks == 0 || (is_check_of(t, k, WINO_Y) && is_check_of(t, k + 1, WINO_X)) ||
          (is_check_of(t, k, WINO_X) && is_check_of(t, k + 1, WINO_Y)));
}

static bool are_weights(const program *p, const matmul_part *t, const region *code) {
  const instr *i = &code->code[0];
  winograd_access v;
  return code->n == 1 && i->op == REGION_LOAD && i->dtype == SN_F32 && i->at.n_checks == 0 &&
         p->values[i->at.value].type.dtype == SN_F32 &&
         winograd_open(t, i->at.base, i->at.terms, i->at.n_terms, &v) && v.by[WINO_N] == 0 &&
         v.by[WINO_Y] == 0 && v.by[WINO_X] == 0;
}

static bool is_convolution(const program *p, const matmul_part *t) {
  if (t->n_batch != 0 || (t->n_m != 2 && t->n_m != 3) || t->n_n != 1 || t->n_accs != 1 ||
      t->accs[0].n_products != 1)
    return false;
  const matmul_product *q = &t->accs[0].products[0];
  return q->n_k == 3 && q->k[1] == 3 && q->k[2] == 3 && dim_is_number(q->k[0]) &&
         dim_is_number(winograd_extent(t, WINO_RESULT)) && are_images(p, t, &q->a) &&
         are_weights(p, t, &q->b) && store_is_along_m(t);
}

/* --- sizes --- */

/* About how many multiply-adds both ways take, on vectors of 16; a vector of a line costs about 80 to transform, of each channel and
 * result. Measured where this says 1.25 on AVX-512, it is 1.2 to 1.5 times as fast; up to 2.1 with many channels on large
 * images, below 1 on images of 5 x 5, whose lines are short and which are 36 % larger in whole tiles. It is the same for all
 * instruction sets; without AVX-512 it pays sooner. */
static bool shape_pays(const winograd_shape *s, bool made) {
  const double ahead = 1.25, line = 80, lanes = 16, kernel = 12;
  int64_t lines = s->images * up(s->size[0], WINOGRAD_TILE), tiles = up(s->size[1], WINOGRAD_TILE);
  double pixels = (double)(s->images * s->size[0] * s->size[1]);
  double products = (double)s->channels * (double)s->results;
  double plain = 9 * pixels / lanes * products;
  double here = (double)(WINOGRAD_PLANES * up(lines * tiles, 16)) * products +
                line * (double)(lines * up(tiles, 15) * (s->channels + s->results)) +
                (made ? kernel * products : 0);
  return s->channels >= CHANNELS_LEAST && s->results >= CHANNELS_LEAST &&
         s->size[1] <= COLUMNS_MOST && plain >= ahead * here;
}

/* The largest of any run that is computed so. */
static winograd_shape shape_most(const program *p, const matmul_part *t) {
  sn_dim x = winograd_extent(t, WINO_X);
  int64_t columns = dim_is_number(x) ? x : min_i64(COLUMNS_MOST, cpu_size_max(p, x));
  return (winograd_shape){.images = cpu_size_max(p, winograd_extent(t, WINO_N)),
                          .size = {cpu_size_max(p, winograd_extent(t, WINO_Y)), columns},
                          .channels = t->accs[0].products[0].k[0],
                          .results = winograd_extent(t, WINO_RESULT)};
}

/* Floats of transformed weights, of any instruction set; 0: it never pays. */
static int64_t weights_most(const program *p, const matmul_part *t, bool made) {
  int64_t rows = 0;
  winograd_shape most = shape_most(p, t);
  for (int i = 0; cpu_isa_at(i) && shape_pays(&most, made); i++)
    rows = max_i64(rows, whole_panels(most.results, cpu_isa_at(i)->matmul->rows));
  return WINOGRAD_PLANES * rows * most.channels;
}

int64_t winograd_kept(const program *p, const matmul_part *t) {
  if (!is_convolution(p, t) || !matmul_is_fixed(p, &t->accs[0].products[0].b))
    return 0;
  return weights_most(p, t, false);
}

size_t winograd_made(const program *p, const matmul_part *t) {
  if (!is_convolution(p, t) || matmul_is_fixed(p, &t->accs[0].products[0].b))
    return 0;
  size_t bytes = cpu_take_bytes((size_t)weights_most(p, t, true) * sizeof(float));
  return bytes <= MATMUL_SHARED ? bytes : 0;
}

winograd_shape winograd_shape_of(const matmul_work *w) {
  const matmul_part *t = w->part;
  return (winograd_shape){.images = cpu_size(w->r, winograd_extent(t, WINO_N)),
                          .size = {cpu_size(w->r, winograd_extent(t, WINO_Y)),
                                   cpu_size(w->r, winograd_extent(t, WINO_X))},
                          .channels = t->accs[0].products[0].k[0],
                          .results = winograd_extent(t, WINO_RESULT),
                          .rows = w->r->isa->matmul->rows,
                          .cols = w->r->isa->matmul->cols,
                          .threads = w->r->threads};
}

bool winograd_pays(const matmul_work *w) {
  winograd_shape s = winograd_shape_of(w);
  return shape_pays(&s, false);
}

/* There is memory only for parts as the step was lowered. */
bool winograd_made_pays(const matmul_work *w, const step *of) {
  bool own = false;
  for (int i = 0; i < of->n_parts; i++)
    own = own || of->parts[i].u.matmul.accs == w->part->accs;
  if (!own || winograd_made(w->r->program, w->part) == 0)
    return false;
  winograd_shape s = winograd_shape_of(w);
  return shape_pays(&s, true);
}

/* --- cutting --- */

/* Tiles of a unit, at most, where a line has not more. */
static int64_t tiles_most(const winograd_shape *s) {
  return min_i64(TILES_MOST,
                 max_i64(TILES_FEW, PATCH_FLOATS / (WINOGRAD_PLANES * max_i64(1, s->channels))));
}

/* What some lines cost, in vectors of tiles; a unit costs one more: the weights pass by. */
static double lines_cost(const winograd_shape *s, const winograd_cut *c, int64_t lines) {
  return (double)(up(lines * c->tiles[1], s->cols / 2) + 1);
}

/* The time of all, with `block` lines a unit: each thread has as many whole ones; what is left over is shared, but each
 * thread transforms all of its patches, which costs as much as some five results. */
static double time_of(const winograd_shape *s, const winograd_cut *c, int64_t block) {
  int64_t blocks = up(c->lines, block), left = blocks % s->threads;
  double each = lines_cost(s, c, block);
  double time = (double)(blocks / s->threads) * each;
  if (left == 0)
    return time;
  double rest = (double)(left - 1) * each + lines_cost(s, c, c->lines - (blocks - 1) * block);
  return time +
         rest * (1.0 / s->threads + 5.0 * (s->threads - 1) / s->threads / (double)s->results);
}

static int64_t choose_block(const winograd_shape *s, const winograd_cut *c) {
  int64_t best = 1;
  for (int64_t b = 2; b <= c->lines && b * c->tiles[1] <= tiles_most(s); b++)
    if (time_of(s, c, b) <= time_of(s, c, best))
      best = b;
  return best;
}

/* What follows from the width of a unit and its pixels. */
static void cut_floats(const winograd_shape *s, int64_t pixels, winograd_cut *c) {
  c->panel = s->channels * s->cols + APART;
  c->plane = c->width / s->cols * c->panel + APART;
  int64_t panels = max_i64(1, SUMS_FLOATS / (WINOGRAD_PLANES * c->width * s->rows));
  c->step = min_i64(panels, up(s->results, s->rows)) * s->rows;
  c->sums_plane = c->step * c->width + APART;
  c->stored = min_i64(c->step, max_i64(1, STORED_FLOATS / max_i64(1, pixels)));
  c->stored_floats = c->stored * winograd_row(pixels) + CPU_LANE_BLOCK;
}

winograd_cut winograd_cut_for(const winograd_shape *s) {
  winograd_cut c = {.tiles = {up(s->size[0], WINOGRAD_TILE), up(s->size[1], WINOGRAD_TILE)}};
  c.lines = s->images * c.tiles[0];
  c.block = choose_block(s, &c);
  c.width = up(c.block * c.tiles[1], s->cols) * s->cols;
  cut_floats(s, c.block * WINOGRAD_TILE * s->size[1], &c);
  return c;
}

/* Widths of units are bounded, not monotonous: the widest there can be. */
static size_t need_bytes(const winograd_shape *s) {
  int64_t line = up(s->size[1], WINOGRAD_TILE);
  winograd_cut c = {.width = up(max_i64(line, tiles_most(s)), s->cols) * s->cols};
  cut_floats(s, 1, &c);
  int64_t sums =
      max_i64(SUMS_FLOATS, WINOGRAD_PLANES * s->rows * c.width) + APART * WINOGRAD_PLANES;
  int64_t stored =
      STORED_FLOATS + STORED_FLOATS / 8 + CPU_LANE_BLOCK; /* rows are padded a little */
  return cpu_take_bytes((size_t)(WINOGRAD_PLANES * c.plane) * sizeof(float)) +
         cpu_take_bytes((size_t)sums * sizeof(float)) +
         cpu_take_bytes((size_t)stored * sizeof(float));
}

size_t winograd_need(const program *p, const matmul_part *t) {
  size_t most = 0;
  if (winograd_kept(p, t) == 0 && winograd_made(p, t) == 0)
    return 0;
  winograd_shape s = shape_most(p, t);
  for (int i = 0; cpu_isa_at(i); i++) {
    s.rows = cpu_isa_at(i)->matmul->rows;
    s.cols = cpu_isa_at(i)->matmul->cols;
    size_t bytes = need_bytes(&s);
    most = bytes > most ? bytes : most;
  }
  return most;
}
