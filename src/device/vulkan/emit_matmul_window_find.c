/* See emit_matmul_window.h. */
#include "device/vulkan/emit_matmul_window.h"

/* The stride of the only term of an axis, 0 without one; false: it is not one number. */
static bool stride_of(int n, const term *terms, int axis, sn_dim *out) {
  bool found = false;
  *out = 0;
  for (int i = 0; i < n; i++) {
    const term *t = &terms[i];
    if (t->axis != axis)
      continue;
    if (found || t->div != 1 || t->mod != 0 || !dim_is_number(t->stride))
      return false;
    found = true;
    *out = t->stride;
  }
  return true;
}

/* Every term is of an axis in [from, to). */
static bool only_within(const access *at, int from, int to, int and_from) {
  for (int i = 0; i < at->n_terms; i++) {
    int axis = at->terms[i].axis;
    if (axis == TERM_REG || !((axis >= from && axis < to) || axis >= and_from))
      return false;
  }
  return true;
}

/* One check: a pixel, and perhaps a place of the window: their axes. */
static bool read_check(const check *c, int pixel, int first_k, window_axis *a, int *out_k) {
  sn_dim one;
  *out_k = -1;
  if (c->divisor != 1 || !dim_is_number(c->offset) || !dim_is_number(c->size) ||
      !stride_of(c->n_terms, c->terms, pixel, &one) || one != 1)
    return false;
  for (int i = 0; i < c->n_terms; i++) {
    int axis = c->terms[i].axis;
    if (axis == pixel)
      continue;
    if (axis <= first_k || axis == TERM_REG || *out_k >= 0 ||
        !stride_of(c->n_terms, c->terms, axis, &a->step))
      return false;
    *out_k = axis;
  }
  a->in = c->size;
  a->offset = c->offset;
  return true;
}

static bool reads(const check *c, int axis) {
  for (int i = 0; i < c->n_terms; i++)
    if (c->terms[i].axis == axis)
      return true;
  return false;
}

/* An axis of pixels: without a check no window moves along it. */
static bool read_axis(const matmul_part *p, const matmul_product *x, const conv_window *w,
                      int pixel, window_axis *a, unsigned *taken) {
  int first_k = p->n_batch + p->n_m + p->n_n, k = -1;
  const access *at = w->image;
  *a = (window_axis){.out = p->extent[pixel], .in = p->extent[pixel], .places = 1};
  for (int c = 0; c < at->n_checks; c++)
    if (reads(&at->checks[c], pixel)) {
      if (*taken & 1u << c)
        return false;
      *taken |= 1u << c;
      if (k >= 0 || !read_check(&at->checks[c], pixel, first_k, a, &k))
        return false;
    }
  if (!stride_of(at->n_terms, at->terms, pixel, &a->image))
    return false;
  if (k < 0)
    return true;
  sn_dim by_place;
  a->places = x->k[k - first_k];
  *taken |= 1u << (16 + k - first_k);
  return stride_of(at->n_terms, at->terms, k, &by_place) && by_place == a->step * a->image &&
         stride_of(w->weight->n_terms, w->weight->terms, k, &a->weight);
}

/* Places of the grid along an axis, so that what the window reads beside the image is empty. */
static void lay_grid(window_axis *a) {
  int64_t last = a->offset + a->step * (a->places - 1);
  int64_t lo = a->offset < last ? a->offset : last, hi = a->offset < last ? last : a->offset;
  a->grid = max_i64(a->in - (lo < 0 ? lo : 0), a->out + (hi > 0 ? hi : 0));
  a->grid = max_i64(a->grid, a->in);
}

static int64_t place_at(const conv_window *w, int64_t y, int64_t x) {
  const window_axis *a = w->axis;
  return (a[0].offset + a[0].step * y) * a[1].grid + a[1].offset + a[1].step * x;
}

int64_t window_shift(const conv_window *w, int number) {
  return place_at(w, number / w->axis[1].places, number % w->axis[1].places) - w->lowest;
}

/* The loads of both operands, of f32. */
static bool read_operands(const emitter *e, const matmul_part *p, conv_window *w) {
  const matmul_product *x = &p->accs[0].products[0];
  const access *at[2];
  for (int side = 0; side < 2; side++) {
    const region *r = side ? &x->b : &x->a;
    at[side] = &r->code[0].at;
    if (r->n != 1 || r->code[0].op != REGION_LOAD || !dim_is_number(at[side]->base) ||
        e->env.program->values[at[side]->value].type.dtype != SN_F32)
      return false;
  }
  w->image = at[0];
  w->weight = at[1];
  int columns = p->n_m, k = columns + p->n_n;
  return w->weight->n_checks == 0 && only_within(w->image, 0, p->n_m, k) &&
         only_within(w->weight, columns, k, k);
}

static bool read_strides(const matmul_part *p, conv_window *w) {
  int k = p->n_m + p->n_n;
  const access *image = w->image, *weight = w->weight;
  w->images = p->n_m == 3 ? p->extent[0] : 1;
  w->columns = p->extent[p->n_m];
  w->channels = p->accs[0].products[0].k[0];
  w->base =
      image->base - w->axis[0].offset * w->axis[0].image - w->axis[1].offset * w->axis[1].image;
  bool ok = p->n_m == 2 || stride_of(image->n_terms, image->terms, 0, &w->image_stride);
  return ok && stride_of(image->n_terms, image->terms, k, &w->channel_stride) &&
         stride_of(weight->n_terms, weight->terms, k, &w->weight_channel) &&
         stride_of(weight->n_terms, weight->terms, p->n_m, &w->weight_column);
}

bool window_find(const emitter *e, const matmul_part *p, conv_window *w) {
  *w = (conv_window){0};
  if (p->n_batch != 0 || p->n_m < 2 || p->n_m > 3 || p->n_n != 1 || p->n_accs != 1 ||
      p->accs[0].n_products != 1)
    return false;
  const matmul_product *x = &p->accs[0].products[0];
  unsigned taken = 0;
  if (x->n_k < 2 || x->n_k > 3 || !dims_are_positive(p->n_m + p->n_n, p->extent) ||
      !dims_are_positive(x->n_k, x->k) || !read_operands(e, p, w))
    return false;
  for (int i = 0; i < 2; i++)
    if (!read_axis(p, x, w, p->n_m - 2 + i, &w->axis[i], &taken))
      return false;
  unsigned checks = (1u << w->image->n_checks) - 1, places = x->n_k == 3 ? 6 : 2;
  if (taken != (checks | places << 16) || !read_strides(p, w))
    return false;
  lay_grid(&w->axis[0]);
  lay_grid(&w->axis[1]);
  w->grid[0] = w->images;
  w->grid[1] = w->axis[0].grid;
  w->grid[2] = w->axis[1].grid;
  int64_t y = w->axis[0].places - 1, far = w->axis[1].places - 1, least = INT64_MAX, most = 0;
  for (int i = 0; i < 4; i++)
    least = min_i64(least, place_at(w, i / 2 * y, i % 2 * far));
  w->lowest = least;
  for (int i = 0; i < 4; i++)
    most = max_i64(most, place_at(w, i / 2 * y, i % 2 * far) - least);
  int64_t rows = WINDOW_ROWS + most;
  w->rows = rows <= 192 ? 192 : rows <= 256 ? 256 : WINDOW_MOST_ROWS;
  return rows <= WINDOW_MOST_ROWS && window_places(w) <= WINDOW_PLACES &&
         w->channels % WINDOW_CHANNELS == 0 && w->columns % 4 == 0;
}
