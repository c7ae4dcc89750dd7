/* See walk.h. */
#include "ops/conv/walk.h"

#include "ops/vectors.h"

sn_shape conv_spatial(sn_shape x) {
  sn_shape s = {.rank = x.rank - 2};
  for (int d = 0; d < s.rank; d++)
    s.dim[d] = x.dim[2 + d];
  return s;
}

sn_ints conv_kernel(const sn_shape *w) {
  sn_ints k = {.n = w->rank - 2};
  for (int d = 0; d < k.n; d++)
    k.v[d] = w->dim[2 + d];
  return k;
}

sn_ints ref_conv_kernel(const ref_tensor *w) {
  sn_ints k = {.n = w->rank - 2};
  for (int d = 0; d < k.n; d++)
    k.v[d] = w->dim[2 + d];
  return k;
}

sn_status infer_conv_weight(infer_ctx *c, int i, int n) {
  SN_TRY(infer_rank(c, i, 2 + n));
  for (int d = 0; d < 2 + n; d++)
    if (!dim_is_number(c->in[i].shape.dim[d]))
      return infer_fail(c, "the weight's sizes must be numbers, got %s", infer_text(c, i));
  return SN_OK;
}

static sn_status infer_groups(infer_ctx *c, sn_shape x, sn_shape w, int64_t groups) {
  sn_dim cin = x.dim[1], cout = w.dim[0];
  if (!dim_is_number(cin) || !dim_is_number(cout))
    return infer_fail(c, "the numbers of channels must be known, got x %s and w %s",
                      graph_shape_text(c->graph, x), graph_shape_text(c->graph, w));
  if (groups < 1 || cin % groups != 0 || cout % groups != 0)
    return infer_fail(c, "%lld groups do not divide %lld input and %lld output channels",
                      (long long)groups, (long long)cin, (long long)cout);
  if (w.dim[1] != cin / groups)
    return infer_fail(c, "x %s in %lld groups: w must be [Cout, %lld, kernel…], got %s",
                      graph_shape_text(c->graph, x), (long long)groups, (long long)(cin / groups),
                      graph_shape_text(c->graph, w));
  return SN_OK;
}

sn_status infer_conv(infer_ctx *c, sn_shape x, sn_shape w, const window *win, int64_t groups,
                     sn_shape *out_y) {
  SN_TRY(infer_window(c, win, x.rank - 2));
  SN_TRY(infer_groups(c, x, w, groups));
  *out_y = (sn_shape){.rank = x.rank, .dim = {x.dim[0], w.dim[0]}};
  for (int d = 0; d < x.rank - 2; d++) {
    out_y->dim[2 + d] = window_count(c->graph, win, d, x.dim[2 + d]);
    SN_TRY(infer_fits(c, win, d, x.dim[2 + d], out_y->dim[2 + d]));
  }
  return SN_OK;
}

/* --- ref --- */

/* to[i · to_step] += from[i · from_step] · factor */
VECTORS static void add_scaled(double *to, int64_t to_step, const double *from, int64_t from_step,
                               double factor, int64_t n) {
  if (to_step == 1 && from_step == 1)
    for (int64_t i = 0; i < n; i++)
      to[i] += from[i] * factor;
  else
    for (int64_t i = 0; i < n; i++)
      to[i * to_step] += from[i * from_step] * factor;
}

void conv_add_to_y(double *x, int64_t step, double *w, double *y, int64_t n) {
  add_scaled(y, 1, x, step, *w, n);
}

void conv_add_to_x(double *x, int64_t step, double *w, double *y, int64_t n) {
  add_scaled(x, step, y, 1, *w, n);
}

void conv_add_to_w(double *x, int64_t step, double *w, double *y, int64_t n) {
  double sum = *w;
  for (int64_t i = 0; i < n; i++)
    sum += x[i * step] * y[i];
  *w = sum;
}

typedef struct conv_axis {
  int64_t x, y; /* sizes */
  int64_t kernel, stride, before, dilation;
} conv_axis;

/* Positions first … end-1 of an axis of y: those whose window has element k inside x. */
typedef struct span {
  int64_t first, end;
} span;

/* Always three axes. In front of what there is stand idle ones: of one position, with a window of 1. */
typedef struct space {
  conv_axis axis[MAX_SPATIAL];
  span *spans; /* of the last axis, one for each k */
} space;

enum { LAST = MAX_SPATIAL - 1 };

static const conv_axis idle = {1, 1, 1, 1, 0, 1};

/* Its positions in y are those in x, one by one. */
static bool is_plain(const conv_axis *a) {
  return a->kernel == 1 && a->stride == 1 && a->before == 0 && a->x == a->y;
}

static void fill_axes(space *s, conv_tensors t, const window *win) {
  int n = win->kernel.n;
  for (int d = 0; d < MAX_SPATIAL; d++)
    s->axis[d] = idle;
  for (int d = 0; d < n; d++)
    s->axis[MAX_SPATIAL - n + d] =
        (conv_axis){t.x->dim[2 + d],  t.y->dim[2 + d],  win->kernel.v[d],
                    win->stride.v[d], win->before.v[d], win->dilation.v[d]};
  /* Plain neighbours are one axis, whose runs are longer. */
  for (int i = 0; i < LAST && is_plain(&s->axis[LAST]) && is_plain(&s->axis[LAST - 1]); i++) {
    s->axis[LAST].x *= s->axis[LAST - 1].x;
    s->axis[LAST].y = s->axis[LAST].x;
    s->axis[LAST - 1] = s->axis[0];
    s->axis[0] = idle;
  }
}

static int64_t axis_position(const conv_axis *a, int64_t o, int64_t k) {
  return o * a->stride - a->before + k * a->dilation;
}

static span axis_span(const conv_axis *a, int64_t k) {
  int64_t at = axis_position(a, 0, k), room = a->x - 1 - at; /* to the last position of x */
  int64_t first = at < 0 ? (-at - 1) / a->stride + 1 : 0;
  int64_t end = room < 0 ? 0 : min_i64(room / a->stride + 1, a->y);
  return (span){first, max_i64(first, end)};
}

static sn_status space_start(space *s, ref_ctx *c, conv_tensors t, const window *win) {
  fill_axes(s, t, win);
  const conv_axis *last = &s->axis[LAST];
  s->spans = arena_array(c->scratch, (size_t)last->kernel, sizeof *s->spans);
  if (!s->spans)
    return SN_ERR_NO_MEMORY;
  for (int64_t k = 0; k < last->kernel; k++)
    s->spans[k] = axis_span(last, k);
  return SN_OK;
}

/* One row of x with one row of the kernel into one row of y. */
static void visit_row(const space *s, double *x, double *w, double *y, conv_visit visit) {
  const conv_axis *a = &s->axis[LAST];
  for (int64_t k = 0; k < a->kernel; k++) {
    span run = s->spans[k];
    if (run.first < run.end)
      visit(x + axis_position(a, run.first, k), a->stride, w + k, y + run.first,
            run.end - run.first);
  }
}

/* One channel of x with its kernel into one channel of y; `depth` is the axis that is walked here. */
static void visit_channel(const space *s, int depth, double *x, double *w, double *y,
                          conv_visit visit) {
  if (depth == LAST) {
    visit_row(s, x, w, y, visit);
    return;
  }
  const conv_axis *a = &s->axis[depth];
  int64_t x_size = 1, w_size = 1, y_size = 1; /* of one position */
  for (int d = depth + 1; d < MAX_SPATIAL; d++) {
    x_size *= s->axis[d].x;
    w_size *= s->axis[d].kernel;
    y_size *= s->axis[d].y;
  }
  for (int64_t o = 0; o < a->y; o++)
    for (int64_t k = 0; k < a->kernel; k++) {
      int64_t at = axis_position(a, o, k);
      if (at >= 0 && at < a->x)
        visit_channel(s, depth + 1, x + at * x_size, w + k * w_size, y + o * y_size, visit);
    }
}

static int64_t channel_size(const ref_tensor *t) {
  int64_t n = 1;
  for (int d = 2; d < t->rank; d++)
    n *= t->dim[d];
  return n;
}

sn_status ref_conv_walk(ref_ctx *c, conv_tensors t, const window *win, int64_t groups,
                        conv_visit visit) {
  space s;
  SN_TRY(ref_fits(c, win, t.x, t.y));
  SN_TRY(space_start(&s, c, t, win));
  int64_t in_channels = t.w->dim[1], out_channels = t.w->dim[0] / groups;
  int64_t x_size = channel_size(t.x), w_size = channel_size(t.w), y_size = channel_size(t.y);
  for (int64_t n = 0; n < t.x->dim[0]; n++)
    for (int64_t out = 0; out < t.w->dim[0]; out++)
      for (int64_t i = 0; i < in_channels; i++) {
        int64_t in = out / out_channels * in_channels + i;
        visit_channel(&s, 0, t.x->data + (n * t.x->dim[1] + in) * x_size,
                      t.w->data + (out * in_channels + i) * w_size,
                      t.y->data + (n * t.y->dim[1] + out) * y_size, visit);
      }
  return SN_OK;
}

void ref_conv_bias(ref_tensor *y, const ref_tensor *bias) {
  axis_view v = ref_axis(y, 1);
  for (int64_t i = 0; bias->data && i < y->count; i++)
    y->data[i] = bias->data[i / v.inner % v.n];
}

/* --- element --- */

reg elem_sum_products(elem_ctx *c, const place *a, const place *b) {
  reg left = elem_wide(c, elem_input(c, 0, a), c->in[0].dtype);
  reg right = elem_wide(c, elem_input(c, 1, b), c->in[1].dtype);
  return elem_reduce(c, REDUCE_SUM, SN_F32, elem_alu_as(c, ALU_mul, SN_F32, left, right, 0, 0, 0));
}

void elem_group(elem_ctx *c, const coord *channel, int64_t groups, int64_t each, coord *out_group,
                coord *out_within) {
  *out_group = coord_number(0);
  *out_within = *channel;
  if (groups > 1)
    locate_divide(c, channel, each, groups * each, out_group, out_within);
}

coord elem_channel(elem_ctx *c, const coord *group, int64_t each, const coord *within) {
  coord first = coord_scale(c->graph, group, each);
  return locate_sum(c, &first, within);
}
