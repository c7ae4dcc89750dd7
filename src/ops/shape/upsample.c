/* upsample_nearest, upsample_linear: [N, C, L] or [N, C, H, W] to other spatial sizes, as PyTorch's
 * interpolate does. Both work on one axis after the other and are linear in x.
 *
 * Along an axis of n with m results, position i of the result lies at
 *   nearest                    floor(i / s), at most n-1
 *   linear                     (i + 0.5) / s - 0.5, at least 0
 *   linear, align_corners      i * (n-1) / (m-1), 0 when m is 1
 * where s is the scale given or, when it is 0, m / n. The divisions are exact where the quotient is
 * whole (m / n is never rounded to a number first). Weights of linear are rounded to f32, so that a
 * graph with them as constants is the same op; what has weight 0 has no part. Spatial sizes are
 * numbers. */
#include "ops/shape/shape.h"

/* The scales of an op and its `size`, by spatial axis; 1d has only the width. */
typedef struct resize {
  const sn_shape *size;
  double scale[2];
} resize;

#define RESIZE(a) \
  ((resize){&(a)->size, {(a)->size.rank == 1 ? (a)->scale_w : (a)->scale_h, (a)->scale_w}})

static sn_status infer_resize(infer_ctx *c, const resize *r, double scale_h) {
  const sn_shape *x = &c->in[0].shape;
  if (x->rank != 3 && x->rank != 4)
    return infer_fail(c, "x must be [N, C, L] or [N, C, H, W], got %s", infer_text(c, 0));
  if (r->size->rank != x->rank - 2)
    return infer_fail(c, "size must have %d numbers, got %s", x->rank - 2,
                      graph_shape_text(c->graph, *r->size));
  c->out[0] = c->in[0];
  for (int d = 0; d < r->size->rank; d++) {
    sn_dim from = x->dim[2 + d], to = r->size->dim[d];
    if (!dim_is_number(from) || !dim_is_number(to) || to < 0)
      return infer_fail(c, "spatial sizes must be numbers: %s to %s", infer_text(c, 0),
                        graph_shape_text(c->graph, *r->size));
    if (from == 0 && to > 0)
      return infer_fail(c, "nothing to take %lld elements from: %s", (long long)to,
                        infer_text(c, 0));
    if (from > INT32_MAX || to > INT32_MAX)
      return infer_fail(c, "spatial sizes must lie below 2^31: %s", infer_text(c, 0));
    if (!isfinite(r->scale[d]) || r->scale[d] < 0)
      return infer_fail(c, "scales must be finite and not negative, got %g", r->scale[d]);
    c->out[0].shape.dim[2 + d] = to;
  }
  if (r->size->rank == 1 && scale_h != 0)
    return infer_fail(c, "scale_h must be 0 for [N, C, L]; its scale is scale_w");
  return SN_OK;
}

/* A result position along one axis: w0 * x[first] + w1 * x[second]. */
typedef struct tap {
  int64_t first, second;
  float w0, w1;
} tap;

static tap nearest_tap(int64_t i, int64_t n, int64_t m, double scale) {
  int64_t at = scale > 0 ? (int64_t)fmin(floor((double)i / scale), (double)n) : i * n / m;
  return (tap){min_i64(at, n - 1), min_i64(at, n - 1), 1, 0};
}

static tap linear_tap(int64_t i, int64_t n, int64_t m, double scale, bool align_corners) {
  double at;
  if (align_corners)
    at = m > 1 ? (double)(i * (n - 1)) / (double)(m - 1) : 0;
  else if (scale > 0)
    at = fmax(((double)i + 0.5) / scale - 0.5, 0);
  else
    at = fmax((double)((2 * i + 1) * n) / (double)(2 * m) - 0.5, 0);
  tap t = {.first = (int64_t)fmin(floor(at), (double)(n - 1))};
  t.second = min_i64(t.first + 1, n - 1);
  t.w1 = t.second == t.first ? 0 : (float)fmin(at - (double)t.first, 1);
  t.w0 = 1 - t.w1;
  return t;
}

/* x [outer, n, inner] to y [outer, m, inner]. */
static void apply(const tap *taps, const double *x, double *y, axis_view from, int64_t m) {
  axis_view to = {from.outer, m, from.inner};
  for (int64_t o = 0; o < to.outer; o++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < to.inner; j++) {
        const tap *t = &taps[i];
        double value = 0;
        if (t->w0 != 0)
          value = (double)t->w0 * x[axis_at(from, o, t->first, j)];
        if (t->w1 != 0)
          value += (double)t->w1 * x[axis_at(from, o, t->second, j)];
        y[axis_at(to, o, i, j)] = value;
      }
}

typedef struct mapping {
  bool linear, align_corners;
} mapping;

static tap tap_of(mapping how, int64_t i, int64_t n, int64_t m, double scale) {
  return how.linear ? linear_tap(i, n, m, scale, how.align_corners) : nearest_tap(i, n, m, scale);
}

/* One axis after the other, the last first. */
static sn_status ref_resize(ref_ctx *c, const resize *r, mapping how) {
  ref_tensor x = c->in[0];
  for (int d = r->size->rank - 1; d >= 0; d--) {
    axis_view from = ref_axis(&x, 2 + d);
    int64_t m = c->out[0].dim[2 + d], count = from.outer * m * from.inner;
    tap *taps = arena_array(c->scratch, (size_t)m, sizeof *taps);
    double *y = d == 0 ? c->out[0].data : arena_array(c->scratch, (size_t)count, sizeof *y);
    if (!taps || !y)
      return SN_ERR_NO_MEMORY;
    for (int64_t i = 0; i < m; i++)
      taps[i] = tap_of(how, i, from.n, m, r->scale[d]);
    apply(taps, x.data, y, from, m);
    x.dim[2 + d] = m;
    x.data = y;
  }
  return SN_OK;
}

/* --- upsample_nearest --- */
static sn_status infer_upsample_nearest(infer_ctx *c) {
  const attrs_upsample_nearest *a = ATTRS(upsample_nearest);
  resize r = RESIZE(a);
  return infer_resize(c, &r, a->scale_h);
}

static sn_status ref_upsample_nearest(ref_ctx *c) {
  resize r = RESIZE(ATTRS(upsample_nearest));
  return ref_resize(c, &r, (mapping){false, false});
}

/* How often each of n elements stands in the result of m, when that is once or more for all and in order; else 0. */
static int64_t whole_factor(int64_t n, int64_t m, double scale) {
  if (n == 0 || m % n != 0 || (scale > 0 && scale * (double)n != (double)m))
    return 0;
  return m / n;
}

/* [.., n, ..] to [.., n, times, ..] to [.., n * times, ..] */
static sn_value repeat_each(build_ctx *c, sn_value x, int axis, int64_t times) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x), apart = {.rank = shape.rank + 1};
  for (int d = 0; d < apart.rank; d++)
    apart.dim[d] = d == axis + 1 ? 1 : shape.dim[d - (d > axis)];
  sn_value once = sn_reshape(g, x, apart);
  apart.dim[axis + 1] = times;
  shape.dim[axis] *= times;
  return sn_reshape(g, sn_expand(g, once, apart), shape);
}

/* index_select by a constant list. */
static sn_value select_nearest(build_ctx *c, sn_value x, int axis, int64_t m, double scale) {
  sn_graph *g = c->graph;
  int64_t n = build_shape(c, x).dim[axis];
  int32_t *list = mem_array(g->ctx, (size_t)m, sizeof *list);
  if (!list)
    return graph_fail(g, SN_ERR_NO_MEMORY, "upsample_nearest: out of memory");
  for (int64_t i = 0; i < m; i++)
    list[i] = (int32_t)nearest_tap(i, n, m, scale).first;
  sn_value index = sn_constant_bytes(g, SN_I32, SN_SHAPE(m), list);
  mem_free(g->ctx, list, (size_t)m * sizeof *list);
  return sn_index_select(g, x, index, axis);
}

static void decompose_upsample_nearest(build_ctx *c) {
  resize r = RESIZE(ATTRS(upsample_nearest));
  sn_shape x = build_shape(c, c->in[0]);
  c->out[0] = c->in[0];
  for (int d = 0; d < r.size->rank; d++) {
    int64_t n = x.dim[2 + d], m = r.size->dim[d], times = whole_factor(n, m, r.scale[d]);
    if (times > 0)
      c->out[0] = times == 1 ? c->out[0] : repeat_each(c, c->out[0], 2 + d, times);
    else
      c->out[0] = select_nearest(c, c->out[0], 2 + d, m, r.scale[d]);
  }
}

static const op_case nearest_cases[] = {
    {"upsample_nearest(f32[2, 1, 3]) size=[5] scale_h=0 scale_w=0", NULL},
    {"upsample_nearest(f32[1, 2, 2, 3]) size=[4, 5] scale_h=0 scale_w=0", NULL},
    {"upsample_nearest(f32[1, 1, 3, 2]) size=[7, 4] scale_h=2.5 scale_w=2", NULL},
    {"upsample_nearest(f32[0, 3, 2]) size=[4] scale_h=0 scale_w=0", NULL},
    {"upsample_nearest(f32[1, 1, 0]) size=[0] scale_h=0 scale_w=0", NULL},
    {"upsample_nearest(bf16[1, 1, 3]) size=[1] scale_h=0 scale_w=0", NULL},
    {"upsample_nearest(i32[1, 1, 3]{1, 2, 3}) size=[6] scale_h=0 scale_w=0 => "
     "i32[1, 1, 6]{1, 1, 2, 2, 3, 3}",
     NULL},
    {"upsample_nearest(i32[1, 1, 3]{1, 2, 3}) size=[7] scale_h=0 scale_w=0 => "
     "i32[1, 1, 7]{1, 1, 1, 2, 2, 3, 3}",
     NULL},
    {"upsample_nearest(i32[1, 1, 5]{1, 2, 3, 4, 5}) size=[2] scale_h=0 scale_w=0 => i32[1, 1, "
     "2]{1, 3}",
     NULL},
    {"upsample_nearest(i32[1, 1, 3]{1, 2, 3}) size=[7] scale_h=0 scale_w=2.5 => "
     "i32[1, 1, 7]{1, 1, 1, 2, 2, 3, 3}",
     NULL},
    {"upsample_nearest(i32[1, 1, 3]{1, 2, 3}) size=[6] scale_h=0 scale_w=1.5 => "
     "i32[1, 1, 6]{1, 1, 2, 3, 3, 3}",
     NULL},
    {"upsample_nearest(u8[1, 1, 2, 2]{1, 2, 3, 4}) size=[3, 4] scale_h=0 scale_w=0 => "
     "u8[1, 1, 3, 4]{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4}",
     NULL},
    {"upsample_nearest(u8[1, 1, 2, 2]{1, 2, 3, 4}) size=[2, 3] scale_h=3 scale_w=0.5 => "
     "u8[1, 1, 2, 3]{1, 2, 2, 1, 2, 2}",
     NULL},
    {"upsample_nearest(bool[1, 1, 1]{1}) size=[3] scale_h=0 scale_w=0 => bool[1, 1, 3]{1, 1, 1}",
     NULL},
    {"upsample_nearest(f16[1, 1, 2]{nan, inf}) size=[3] scale_h=0 scale_w=0 => "
     "f16[1, 1, 3]{nan, nan, inf}",
     NULL},
    {"upsample_nearest(f32[2, 3]) size=[5] scale_h=0 scale_w=0", "x must be [N, C, L]"},
    {"upsample_nearest(f32[1, 2, 3]) size=[5, 5] scale_h=0 scale_w=0", "size must have 1 numbers"},
    {"upsample_nearest(f32[1, 2, 3]) size=[-1] scale_h=0 scale_w=0", "must be numbers"},
    {"upsample_nearest(f32[1, 2, 0]) size=[3] scale_h=0 scale_w=0",
     "nothing to take 3 elements from"},
    {"upsample_nearest(f32[1, 2, 2, 0]) size=[2, 3] scale_h=0 scale_w=0", "nothing to take 3"},
    {"upsample_nearest(f32[1, 1, 1]) size=[2147483648] scale_h=0 scale_w=0", "below 2^31"},
    {"upsample_nearest(f32[0, 1, 2147483648]) size=[1] scale_h=0 scale_w=0", "below 2^31"},
    {"upsample_nearest(f32[1, 2, 3]) size=[5] scale_h=2 scale_w=0", "scale_h must be 0"},
    {"upsample_nearest(f32[1, 2, 3]) size=[5] scale_h=0 scale_w=-1", "not negative"},
};

const op_impl op_impl_upsample_nearest = {.infer = infer_upsample_nearest,
                                          .ref = ref_upsample_nearest,
                                          .grad_by_decompose = true,
                                          .decompose = decompose_upsample_nearest,
                                          CASES(nearest_cases)};

/* --- upsample_linear --- */
static sn_status infer_upsample_linear(infer_ctx *c) {
  const attrs_upsample_linear *a = ATTRS(upsample_linear);
  resize r = RESIZE(a);
  SN_TRY(infer_float(c, 0));
  return infer_resize(c, &r, a->scale_h);
}

static sn_status ref_upsample_linear(ref_ctx *c) {
  resize r = RESIZE(ATTRS(upsample_linear));
  return ref_resize(c, &r, (mapping){true, ATTRS(upsample_linear)->align_corners});
}

/* For each result the element of x along `axis` that one of its taps names, times the weight; what has weight 0 has no part, be it
 * infinite. */
static sn_value weighted(build_ctx *c, sn_value x, int axis, sn_dim m, const int32_t *element,
                         const float *weight) {
  sn_graph *g = c->graph;
  sn_shape to = {.rank = build_shape(c, x).rank - axis, .dim = {m}};
  bool zero = false;
  for (int64_t i = 0; i < m; i++)
    zero = zero || weight[i] == 0;
  for (int d = 1; d < to.rank; d++)
    to.dim[d] = 1;
  sn_value by = sn_constant_bytes(g, SN_F32, to, weight);
  sn_value y = sn_index_select(g, x, sn_constant_bytes(g, SN_I32, SN_SHAPE(m), element), axis);
  y = sn_mul(g, y, by);
  return zero ? sn_where(g, sn_cast(g, by, SN_BOOL), y, sn_scalar(g, SN_F32, 0)) : y;
}

/* Along one axis: the sum of two taps. */
static sn_value interpolate(build_ctx *c, sn_value x, int axis, int64_t m, double scale) {
  sn_graph *g = c->graph;
  int64_t n = build_shape(c, x).dim[axis];
  bool second = false;
  arena memory;
  arena_init(&memory, g->ctx);
  int32_t *element[2];
  float *weight[2];
  for (int k = 0; k < 2; k++) {
    element[k] = arena_array(&memory, (size_t)m, sizeof(int32_t));
    weight[k] = arena_array(&memory, (size_t)m, sizeof(float));
  }
  bool room = element[0] && element[1] && weight[0] && weight[1];
  for (int64_t i = 0; i < m && room; i++) {
    tap t = linear_tap(i, n, m, scale, ATTRS(upsample_linear)->align_corners);
    element[0][i] = (int32_t)t.first;
    element[1][i] = (int32_t)t.second;
    weight[0][i] = t.w0;
    weight[1][i] = t.w1;
    second = second || t.w1 != 0;
  }
  sn_value y = room ? weighted(c, x, axis, m, element[0], weight[0])
                    : graph_fail(g, SN_ERR_NO_MEMORY, "upsample_linear: out of memory");
  if (room && second)
    y = sn_add(g, y, weighted(c, x, axis, m, element[1], weight[1]));
  arena_clear(&memory);
  return y;
}

/* In f32, the last axis first. */
static void decompose_upsample_linear(build_ctx *c) {
  sn_graph *g = c->graph;
  resize r = RESIZE(ATTRS(upsample_linear));
  sn_dtype dtype = build_dtype(c, c->in[0]);
  sn_value y = dtype == SN_F32 ? c->in[0] : sn_cast(g, c->in[0], SN_F32);
  for (int d = r.size->rank - 1; d >= 0; d--)
    y = interpolate(c, y, 2 + d, r.size->dim[d], r.scale[d]);
  c->out[0] = dtype == SN_F32 ? y : sn_cast(g, y, dtype);
}

#define FREE    " align_corners=false"
#define ALIGNED " align_corners=true"

static const op_case linear_cases[] = {
    {"upsample_linear(f32[2, 1, 3]) size=[5]" FREE " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[2, 1, 3]) size=[7]" ALIGNED " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[1, 2, 2, 3]) size=[3, 5]" FREE " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[1, 2, 2, 3]) size=[3, 5]" ALIGNED " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[1, 1, 3, 2]) size=[7, 3]" FREE " scale_h=2.5 scale_w=1.75", NULL},
    {"upsample_linear(f32[0, 3, 2]) size=[4]" FREE " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[1, 1, 0]) size=[0]" FREE " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(bf16[1, 1, 3]) size=[5]" FREE " scale_h=0 scale_w=0", NULL},
    {"upsample_linear(f32[1, 1, 2]{1, 2}) size=[4]" FREE " scale_h=0 scale_w=0 => "
     "f32[1, 1, 4]{1, 1.25, 1.75, 2}",
     NULL},
    {"upsample_linear(f32[1, 1, 2]{1, 2}) size=[5]" ALIGNED " scale_h=0 scale_w=0 => "
     "f32[1, 1, 5]{1, 1.25, 1.5, 1.75, 2}",
     NULL},
    {"upsample_linear(f32[1, 1, 4]{1, 2, 3, 4}) size=[2]" FREE " scale_h=0 scale_w=0 => "
     "f32[1, 1, 2]{1.5, 3.5}",
     NULL},
    {"upsample_linear(f32[1, 1, 4]{1, 2, 3, 4}) size=[1]" FREE " scale_h=0 scale_w=0 => "
     "f32[1, 1, 1]{2.5}",
     NULL},
    {"upsample_linear(f32[1, 1, 4]{1, 2, 3, 4}) size=[1]" ALIGNED " scale_h=0 scale_w=0 => "
     "f32[1, 1, 1]{1}",
     NULL},
    {"upsample_linear(f32[1, 1, 3]{4, 8, 16}) size=[3]" FREE " scale_h=0 scale_w=2 => "
     "f32[1, 1, 3]{4, 5, 7}",
     NULL},
    {"upsample_linear(f32[1, 1, 3]{4, 8, 16}) size=[2]" ALIGNED " scale_h=0 scale_w=7 => "
     "f32[1, 1, 2]{4, 16}",
     NULL},
    {"upsample_linear(f32[1, 1, 2, 2]{1, 2, 3, 4}) size=[4, 4]" FREE " scale_h=0 scale_w=0 => "
     "f32[1, 1, 4, 4]{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, "
     "4}",
     NULL},
    {"upsample_linear(f16[1, 1, 2, 2]{1, 2, 3, 4}) size=[3, 2]" ALIGNED " scale_h=0 scale_w=0 => "
     "f16[1, 1, 3, 2]{1, 2, 2, 3, 3, 4}",
     NULL},
    {"upsample_linear(f32[1, 1, 3]{inf, 3, nan}) size=[1]" FREE " scale_h=0 scale_w=0 => "
     "f32[1, 1, 1]{3}",
     NULL},
    {"upsample_linear(f32[1, 1, 4]{inf, 8, 16, nan}) size=[2]" FREE " scale_h=0 scale_w=0.25 => "
     "f32[1, 1, 2]{12, nan}",
     NULL},
    {"upsample_linear(f32[1, 1, 3]{4, 8, 16}) size=[3]" FREE " scale_h=0 scale_w=0.5 => "
     "f32[1, 1, 3]{6, 16, 16}",
     NULL},
    {"upsample_linear(f32[2, 3]) size=[5]" FREE " scale_h=0 scale_w=0", "x must be [N, C, L]"},
    {"upsample_linear(i32[1, 2, 3]) size=[5]" FREE " scale_h=0 scale_w=0", "must be f32"},
    {"upsample_linear(f32[1, 2, 2, 3]) size=[5]" FREE " scale_h=0 scale_w=0", "size must have 2"},
    {"upsample_linear(f32[1, 2, 3]) size=[5]" FREE " scale_h=0 scale_w=inf", "must be finite"},
};

const op_impl op_impl_upsample_linear = {.infer = infer_upsample_linear,
                                         .ref = ref_upsample_linear,
                                         .grad_by_decompose = true,
                                         .decompose = decompose_upsample_linear,
                                         CASES(linear_cases)};
