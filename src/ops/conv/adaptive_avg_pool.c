/* adaptive_avg_pool: x [N, C, spatial…] to [N, C, size…]: along each spatial axis, result i of n is
 * the mean over floor(i * L / n) … ceil((i + 1) * L / n) - 1; windows may overlap, and n may be
 * larger than L. Along an axis that goes to size 1 (global pooling) L may be symbolic; a symbol
 * bound to 0 then gives NaN, as mean does. */
#include "ops/conv/window.h"

static sn_status infer_adaptive_avg_pool(infer_ctx *c) {
  const sn_shape *size = &ATTRS(adaptive_avg_pool)->size;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_spatial(c, 0));
  c->out[0] = c->in[0];
  sn_shape *y = &c->out[0].shape;
  if (size->rank != y->rank - 2)
    return infer_fail(c, "size must have %d dims, one a spatial axis, got %s", y->rank - 2,
                      graph_shape_text(c->graph, *size));
  for (int d = 0; d < size->rank; d++) {
    sn_dim from = y->dim[2 + d], to = size->dim[d];
    if (!dim_is_number(to) || to < 0 || (to > 0 && from == 0))
      return infer_fail(c, "spatial axis %d: %s does not become %s", d, infer_text(c, 0),
                        graph_shape_text(c->graph, *size));
    if (!dim_is_number(from) && to != 1)
      return infer_fail(c, "spatial axis %d of %s must be a number to become %lld", d,
                        infer_text(c, 0), (long long)to);
    y->dim[2 + d] = to;
  }
  return SN_OK;
}

/* The window of result i of n along an axis of `length`. */
static int64_t first(int64_t i, int64_t n, int64_t length) { return i * length / n; }
static int64_t end(int64_t i, int64_t n, int64_t length) { return ((i + 1) * length + n - 1) / n; }

/* The mean of one channel's window. */
static double window_mean(const ref_tensor *x, const ref_tensor *y, const int64_t *index) {
  int n = x->rank - 2;
  int64_t k[MAX_SPATIAL] = {0}, from[MAX_SPATIAL], size[MAX_SPATIAL], count = 1;
  for (int d = 0; d < n; d++) {
    from[d] = first(index[2 + d], y->dim[2 + d], x->dim[2 + d]);
    size[d] = end(index[2 + d], y->dim[2 + d], x->dim[2 + d]) - from[d];
    count *= size[d];
  }
  double sum = 0;
  for (int64_t j = 0; j < count; j++) {
    int64_t at = index[0] * x->dim[1] + index[1];
    for (int d = 0; d < n; d++)
      at = at * x->dim[2 + d] + from[d] + k[d];
    sum += x->data[at];
    ref_next(k, size, n);
  }
  return sum / (double)count;
}

static sn_status ref_adaptive_avg_pool(ref_ctx *c) {
  int64_t index[SN_MAX_RANK] = {0};
  for (int64_t i = 0; i < c->out[0].count; i++) {
    c->out[0].data[i] = window_mean(&c->in[0], &c->out[0], index);
    ref_next(index, c->out[0].dim, c->out[0].rank);
  }
  return SN_OK;
}

/* The windows of an axis as tables [n, most elements of one]: which element, and whether there is such a one; and how many there are, [n]. */
typedef struct windows {
  int64_t n, most;
  sn_value element, there, count;
} windows;

static void fill_tables(const windows *w, int64_t length, int32_t *element, uint8_t *there,
                        float *count) {
  for (int64_t i = 0; i < w->n; i++) {
    int64_t from = first(i, w->n, length), size = end(i, w->n, length) - from;
    count[i] = (float)size;
    for (int64_t j = 0; j < w->most; j++) {
      element[i * w->most + j] = (int32_t)(from + min_i64(j, size - 1));
      there[i * w->most + j] = j < size;
    }
  }
}

static windows find_windows(build_ctx *c, int64_t n, int64_t length) {
  sn_graph *g = c->graph;
  arena memory;
  windows w = {.n = n};
  size_t all = 0;
  for (int64_t i = 0; i < n; i++)
    w.most = max_i64(w.most, end(i, n, length) - first(i, n, length));
  arena_init(&memory, g->ctx);
  bool fits = size_mul_fits((size_t)n, (size_t)w.most, &all);
  int32_t *element = fits ? arena_array(&memory, all, sizeof *element) : NULL;
  uint8_t *there = fits ? arena_array(&memory, all, sizeof *there) : NULL;
  float *count = arena_array(&memory, (size_t)n, sizeof *count);
  if (element && there && count) {
    fill_tables(&w, length, element, there, count);
    w.element = sn_constant_bytes(g, SN_I32, SN_SHAPE((int64_t)all), element);
    w.there = sn_constant_bytes(g, SN_BOOL, SN_SHAPE(n, w.most), there);
    w.count = sn_constant_bytes(g, SN_F32, SN_SHAPE(n), count);
  } else {
    w.element = w.there = w.count =
        graph_fail(g, SN_ERR_NO_MEMORY, "out of memory for tables of windows");
  }
  arena_clear(&memory);
  return w;
}

/* A table along `axis` and what follows it, beside values of rank `rank`. */
static sn_value along(build_ctx *c, sn_value table, int axis, int rank) {
  sn_shape is = build_shape(c, table), to = {.rank = rank - axis};
  for (int d = 0; d < to.rank; d++)
    to.dim[d] = d < is.rank ? is.dim[d] : 1;
  return sn_reshape(c->graph, table, to);
}

/* Along one axis: the mean over each window, whose elements are laid side by side. A product with a matrix of ones and zeros would
 * make NaN of an infinity in windows that do not hold it. */
static sn_value pool_axis(build_ctx *c, sn_value x, int axis, int64_t n) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x), split = {.rank = shape.rank + 1};
  if (shape.dim[axis] == n)
    return x;
  if (n == 1)
    return sn_mean(g, x, SN_INTS(axis), true);
  bool equal = n > 0 && shape.dim[axis] % n == 0;
  windows w = {.n = n, .most = equal ? shape.dim[axis] / n : 0};
  if (!equal) {
    w = find_windows(c, n, shape.dim[axis]);
    x = sn_index_select(g, x, w.element, axis);
  }
  for (int d = 0; d < split.rank; d++)
    split.dim[d] = d == axis ? n : d == axis + 1 ? w.most : shape.dim[d - (d > axis)];
  x = sn_reshape(g, x, split);
  if (equal)
    return sn_mean(g, x, SN_INTS(axis + 1), false);
  x = sn_where(g, along(c, w.there, axis, split.rank), x, sn_scalar(g, SN_F32, 0));
  x = sn_sum(g, x, SN_INTS(axis + 1), false);
  return sn_div(g, x, along(c, w.count, axis, shape.rank));
}

static void decompose_adaptive_avg_pool(build_ctx *c) {
  const sn_shape *size = &ATTRS(adaptive_avg_pool)->size;
  sn_value x = sn_cast(c->graph, c->in[0], SN_F32);
  for (int d = 0; d < size->rank; d++)
    x = pool_axis(c, x, 2 + d, size->dim[d]);
  c->out[0] = sn_cast(c->graph, x, build_dtype(c, c->in[0]));
}

static const op_case cases[] = {
    {"adaptive_avg_pool(f32[2, 3, 5]) size=[2]", NULL},
    {"adaptive_avg_pool(f32[1, 1, 5]{-2, 5, 1, -3, 4}) size=[3] => f32[1, 1, 3]{1.5, 1, 0.5}",
     NULL},
    {"adaptive_avg_pool(f32[1, 1, 3]{-2, 5, 1}) size=[5] => f32[1, 1, 5]{-2, 1.5, 5, 3, 1}", NULL},
    {"adaptive_avg_pool(f32[1, 1, 4, 3]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}) size=[3, 2] "
     "=> f32[1, 1, 3, 2]{1, 2.5, 0, 1.5, -1, 0.5}",
     NULL},
    {"adaptive_avg_pool(f32[1, 1, 2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}) "
     "size=[1, 2, 2] => f32[1, 1, 1, 2, 2]{-1.5, 0, 1.5, -2.5}",
     NULL},
    {"adaptive_avg_pool(f32[1, 2, 3, 2, 2]) size=[2, 1, 3]", NULL},
    {"adaptive_avg_pool(f32[2, 2, 3, 4]) size=[1, 1]", NULL},
    {"adaptive_avg_pool(f32[1, 2, 3, 4]) size=[3, 4]", NULL},
    {"adaptive_avg_pool(f32[1, 1, 1]{7}) size=[3] => f32[1, 1, 3]{7}", NULL},
    {"adaptive_avg_pool(f32[1, 1, 3]{1, inf, 5}) size=[3] => f32[1, 1, 3]{1, inf, 5}", NULL},
    {"adaptive_avg_pool(f32[1, 1, 2]{nan, 5}) size=[1] => f32[1, 1, 1]{nan}", NULL},
    {"adaptive_avg_pool(f32[1, 1, 5]{inf, 5, 1, -3, nan}) size=[3] => f32[1, 1, 3]{inf, 1, nan}",
     NULL},
    {"adaptive_avg_pool(f32[1, 1, 4]{inf, 5, 1, -3}) size=[2] => f32[1, 1, 2]{inf, -1}", NULL},
    {"adaptive_avg_pool(f32[0, 2, 3]) size=[2]", NULL},
    {"adaptive_avg_pool(f32[2, 0, 3]) size=[2]", NULL},
    {"adaptive_avg_pool(f32[1, 2, 3]) size=[0]", NULL},
    {"adaptive_avg_pool(bf16[1, 2, 7]) size=[3]", NULL},
    {"adaptive_avg_pool(f16[1, 1, 5]) size=[1]", NULL},
    {"adaptive_avg_pool(f32[1, 2, 0]) size=[2]", "does not become [2]"},
    {"adaptive_avg_pool(f32[1, 2, 3]) size=[-1]", "does not become [-1]"},
    {"adaptive_avg_pool(f32[1, 2, 3]) size=[2, 2]", "size must have 1 dims"},
    {"adaptive_avg_pool(f32[2, 3]) size=[]", "1 to 3 spatial axes"},
    {"adaptive_avg_pool(i32[1, 2, 3]) size=[2]", "must be f32"},
};

const op_impl op_impl_adaptive_avg_pool = {.infer = infer_adaptive_avg_pool,
                                           .ref = ref_adaptive_avg_pool,
                                           .grad_by_decompose = true,
                                           .decompose = decompose_adaptive_avg_pool,
                                           CASES(cases)};
