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

/* [n, length] with a 1 where an element is in a window, and the windows' sizes [n, 1]: small whole
 * numbers, exact in f32, where the averages would not be. */
static void window_tables(build_ctx *c, int64_t n, int64_t length, sn_value *member,
                          sn_value *count) {
  sn_graph *g = c->graph;
  arena memory;
  arena_init(&memory, g->ctx);
  float *sizes = arena_array(&memory, (size_t)n, sizeof *sizes);
  float *table = arena_array(&memory, (size_t)n, (size_t)length * sizeof *table);
  for (int64_t i = 0; table && sizes && i < n; i++)
    for (int64_t j = first(i, n, length); j < end(i, n, length); j++) {
      table[i * length + j] = 1;
      sizes[i]++;
    }
  if (table && sizes) {
    *member = sn_constant_bytes(g, SN_F32, SN_SHAPE(n, length), table);
    *count = sn_constant_bytes(g, SN_F32, SN_SHAPE(n, 1), sizes);
  } else {
    *member = *count = graph_fail(g, SN_ERR_NO_MEMORY, "out of memory for tables of windows");
  }
  arena_clear(&memory);
}

/* Along one axis: [before, L, after] to [before, n, after] by a product with the table. */
static sn_value pool_axis(build_ctx *c, sn_value x, int axis, int64_t n) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x), flat = {3, {1, shape.dim[axis], 1}};
  if (shape.dim[axis] == n)
    return x;
  if (n == 1)
    return sn_mean(g, x, SN_INTS(axis), true);
  for (int d = 0; d < shape.rank; d++)
    if (d != axis)
      flat.dim[d < axis ? 0 : 2] = sn_dim_mul(g, flat.dim[d < axis ? 0 : 2], shape.dim[d]);
  sn_value member, count;
  window_tables(c, n, shape.dim[axis], &member, &count);
  sn_value y = sn_matmul(g, member, sn_reshape(g, x, flat), false, false);
  shape.dim[axis] = n;
  return sn_reshape(g, sn_div(g, y, count), shape);
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
