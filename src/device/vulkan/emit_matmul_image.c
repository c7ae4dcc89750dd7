/* Which parts are convolutions of an image. See emit_matmul_image.h. */
#include "device/vulkan/emit_matmul_image.h"

/* The only term of an axis, of a plain stride; NULL: there is none, or it is not so. */
static const term *plain_term(int n, const term *terms, int axis) {
  const term *found = NULL;
  for (int i = 0; i < n; i++)
    if (terms[i].axis == axis) {
      if (found || terms[i].div != 1 || terms[i].mod != 0 || !dim_is_number(terms[i].stride))
        return NULL;
      found = &terms[i];
    }
  return found;
}

static int64_t stride_along(const access *at, int axis) {
  const term *t = plain_term(at->n_terms, at->terms, axis);
  return t ? t->stride : 0;
}

/* Every term is plain, and of an axis of a range or of k. */
static bool all_plain(const access *at, int from, int to, int first_k) {
  if (!dim_is_number(at->base))
    return false;
  for (int i = 0; i < at->n_terms; i++) {
    int axis = at->terms[i].axis;
    if (axis == TERM_REG || !((axis >= from && axis < to) || axis >= first_k) ||
        !plain_term(at->n_terms, at->terms, axis))
      return false;
  }
  return true;
}

/* A check of one row axis, and perhaps a place of the window. */
static bool read_axis(const matmul_part *p, const access *at, const check *c, image_axis *a) {
  int first_k = p->n_m + p->n_n;
  *a = (image_axis){.row = -1, .k = -1, .size = c->size, .offset = c->offset};
  if (c->divisor != 1 || !dim_is_number(c->size) || !dim_is_number(c->offset))
    return false;
  for (int i = 0; i < c->n_terms; i++) {
    const term *t = &c->terms[i];
    int *axis = t->axis < p->n_m ? &a->row : &a->k;
    if (t->axis == TERM_REG || (t->axis >= p->n_m && t->axis < first_k) || *axis >= 0 ||
        !plain_term(c->n_terms, c->terms, t->axis))
      return false;
    *axis = t->axis;
    *(axis == &a->row ? &a->by_row : &a->by_place) = t->stride;
  }
  if (a->row < 0 || a->by_row < 1)
    return false;
  a->stride = stride_along(at, a->row) / a->by_row;
  return a->stride > 0 && stride_along(at, a->row) == a->by_row * a->stride &&
         (a->k < 0 || stride_along(at, a->k) == a->by_place * a->stride);
}

/* Lines along an axis: the pixels, and what windows reach beside them. */
static void lay_lines(const matmul_part *p, const matmul_product *x, image_axis *a) {
  if (a->row < 0)
    return;
  int64_t places = a->k < 0 ? 1 : x->k[a->k - p->n_m - p->n_n];
  int64_t far = a->by_place * (places - 1), last = a->by_row * (p->extent[a->row] - 1);
  int64_t lo = a->offset + (far < 0 ? far : 0), hi = a->offset + last + (far > 0 ? far : 0);
  a->before = lo < 0 ? -lo : 0;
  a->grid = max_i64(a->size, hi + 1) + a->before;
}

/* The axis of channels: the only one of k that no window moves along. -1: there is none such. */
static int channel_axis(const matmul_part *p, const matmul_product *x, const packed_image *w) {
  int first_k = p->n_m + p->n_n, found = -1;
  for (int i = 0; i < x->n_k; i++) {
    if (w->axis[0].k == first_k + i || w->axis[1].k == first_k + i)
      continue;
    if (found >= 0)
      return -1;
    found = first_k + i;
  }
  return found >= 0 && x->k[found - first_k] % IMAGE_CHANNELS == 0 ? found : -1;
}

/* The axis of images: the only one of rows that is no pixel's. -1: there is none; -2: several. */
static int batch_axis(const matmul_part *p, const packed_image *w) {
  int found = -1;
  for (int i = 0; i < p->n_m; i++) {
    if (w->axis[0].row == i || w->axis[1].row == i)
      continue;
    if (found >= 0)
      return -2;
    found = i;
  }
  return found;
}

static const access *only_load(const emitter *e, const region *r) {
  const access *at = &r->code[0].at;
  bool is = r->n == 1 && r->code[0].op == REGION_LOAD &&
            e->env.program->values[at->value].type.dtype == SN_F32;
  return is ? at : NULL;
}

/* Checks of an image as its axes. */
static bool read_axes(const matmul_part *p, const access *at, packed_image *w) {
  int n = at->n_checks;
  if (n < 1 || n > 2)
    return false;
  w->axis[0] = (image_axis){.row = -1, .k = -1, .size = 1, .grid = 1};
  for (int i = 0; i < n; i++)
    if (!read_axis(p, at, &at->checks[i], &w->axis[2 - n + i]))
      return false;
  const image_axis *a = w->axis;
  return a[0].row != a[1].row && (a[0].k != a[1].k || a[0].k < 0) && (a[0].k >= 0 || a[1].k >= 0);
}

typedef struct found {
  const access *image, *weight;
  int channel, batch; /* axes */
} found;

static bool find(const emitter *e, const matmul_part *p, packed_image *w, found *f) {
  const matmul_product *x = &p->accs[0].products[0];
  if (p->n_batch != 0 || p->n_accs != 1 || p->accs[0].n_products != 1 || p->n_m > 3 || x->n_k < 2 ||
      x->n_k > 3 || !dims_are_positive(p->n_m + p->n_n, p->extent) ||
      !dims_are_positive(x->n_k, x->k))
    return false;
  int columns = p->n_m, first_k = columns + p->n_n;
  *w = (packed_image){0};
  f->image = only_load(e, &x->a);
  f->weight = only_load(e, &x->b);
  if (!f->image || !f->weight || f->weight->n_checks > 0 ||
      !all_plain(f->image, 0, columns, first_k) ||
      !all_plain(f->weight, columns, first_k, first_k) || !read_axes(p, f->image, w))
    return false;
  f->channel = channel_axis(p, x, w);
  f->batch = batch_axis(p, w);
  if (f->channel < 0 || f->batch < -1)
    return false;
  for (int i = 0; i < 2; i++)
    lay_lines(p, x, &w->axis[i]);
  w->value = f->image->value;
  w->count = e->env.program->values[w->value].count;
  w->channel_stride = stride_along(f->image, f->channel);
  w->image_stride = f->batch < 0 ? 0 : stride_along(f->image, f->batch);
  int64_t images = f->batch < 0 ? 1 : p->extent[f->batch], channels = x->k[f->channel - first_k];
  const image_axis *a = w->axis;
  w->lines = images * a[0].grid * a[1].grid;
  w->blocks = channels / IMAGE_CHANNELS;
  w->maxima = max_i64(1, min_i64(IMAGE_MAXIMA, w->count / 4096));
  /* all of a value, each element of which counts for the largest magnitude */
  return dim_is_number(w->count) && images * channels * a[0].size * a[1].size == w->count &&
         f->image->base == a[0].offset * a[0].stride + a[1].offset * a[1].stride &&
         w->count % 4 == 0 && w->lines * w->blocks < INT32_MAX / 8;
}

int64_t image_elements(const emitter *e, const matmul_part *p) {
  packed_image w;
  found f;
  return find(e, p, &w, &f) ? w.count : 0;
}

bool image_fits(const emitter *e, const matmul_part *p) { return image_elements(e, p) > 0; }

/* --- k anew --- */

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

/* The axis that another one of k has become. */
static int moved(const matmul_part *p, const found *f, int axis) {
  int first_k = p->n_m + p->n_n;
  return axis < first_k ? axis : axis < f->channel ? axis + 1 : axis;
}

/* Terms with k made anew: that of the channels becomes two. */
static const term *renumber(emitter *e, const matmul_part *p, const found *f, int n,
                            const term *terms, int *out_n) {
  int first_k = p->n_m + p->n_n, last = first_k + p->accs[0].products[0].n_k;
  term *out = arena_array(e->env.memory, (size_t)n + 1, sizeof *out);
  *out_n = 0;
  for (int i = 0; out && i < n; i++) {
    int64_t stride = terms[i].stride;
    if (terms[i].axis != f->channel) {
      out[(*out_n)++] = along(moved(p, f, terms[i].axis), stride);
      continue;
    }
    out[(*out_n)++] = along(first_k, stride * IMAGE_CHANNELS);
    out[(*out_n)++] = along(last, stride);
  }
  return out;
}

static bool renumber_load(emitter *e, const matmul_part *p, const found *f, const region *from,
                          region *out) {
  instr *code = arena_copy(e->env.memory, from->code, sizeof *code);
  if (!code)
    return false;
  access *at = &code->at;
  check *checks = arena_array(e->env.memory, (size_t)at->n_checks + 1, sizeof *checks);
  at->terms = renumber(e, p, f, at->n_terms, at->terms, &at->n_terms);
  for (int i = 0; checks && i < at->n_checks; i++) {
    checks[i] = at->checks[i];
    checks[i].terms = renumber(e, p, f, checks[i].n_terms, checks[i].terms, &checks[i].n_terms);
    if (!checks[i].terms)
      return false;
  }
  at->checks = checks;
  *out = (region){1, code};
  return at->terms && checks;
}

/* Lines of rows and of places. */
static void add_terms(const matmul_part *p, const found *f, packed_image *w) {
  const image_axis *a = w->axis;
  int64_t apart[2] = {a[1].grid, 1};
  w->base = 0;
  if (f->batch >= 0)
    w->rows[w->n_rows++] = along(f->batch, a[0].grid * a[1].grid);
  w->places[w->n_places++] = along(p->n_m + p->n_n, w->lines);
  for (int i = 0; i < 2; i++) {
    w->base += (a[i].before + a[i].offset) * apart[i];
    if (a[i].row >= 0)
      w->rows[w->n_rows++] = along(a[i].row, a[i].by_row * apart[i]);
    if (a[i].k >= 0)
      w->places[w->n_places++] = along(moved(p, f, a[i].k), a[i].by_place * apart[i]);
  }
}

static matmul_part *make_part(emitter *e, const matmul_part *p, const found *f) {
  const matmul_product *x = &p->accs[0].products[0];
  matmul_part *part_of = arena_copy(e->env.memory, p, sizeof *p);
  matmul_product *product = arena_copy(e->env.memory, x, sizeof *x);
  matmul_acc *acc = arena_alloc(e->env.memory, sizeof *acc);
  if (!part_of || !product || !acc || !renumber_load(e, p, f, &x->a, &product->a) ||
      !renumber_load(e, p, f, &x->b, &product->b))
    return NULL;
  int channel = f->channel - p->n_m - p->n_n, n = 1;
  product->k[0] = x->k[channel] / IMAGE_CHANNELS;
  for (int i = 0; i < x->n_k; i++)
    if (i != channel)
      product->k[n++] = x->k[i];
  product->k[n++] = IMAGE_CHANNELS;
  product->n_k = n;
  *acc = (matmul_acc){1, product};
  part_of->accs = acc;
  return part_of;
}

sn_status image_find(emitter *e, const matmul_part *p, const matmul_part **out_part,
                     packed_image **out) {
  packed_image w;
  found f;
  *out_part = p;
  *out = NULL;
  if (!find(e, p, &w, &f))
    return SN_OK;
  add_terms(p, &f, &w);
  *out_part = make_part(e, p, &f);
  *out = arena_copy(e->env.memory, &w, sizeof w);
  return *out_part && *out ? SN_OK : SN_ERR_NO_MEMORY;
}
