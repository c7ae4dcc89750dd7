/* See pooling.h. */
#include "ops/conv/pooling.h"

pool_rule pool_rule_of(window win, sn_pool_kind kind, bool ceil_mode, bool count_include_pad) {
  pool_rule r = {win, win.after, kind, count_include_pad};
  for (int d = 0; ceil_mode && d < win.kernel.n; d++)
    r.win.after.v[d] = min_i64(window_reach(&win, d) - 1, win.after.v[d] + win.stride.v[d] - 1);
  return r;
}

/* A window that saw nothing but padding would have no value. */
static sn_status infer_padding(infer_ctx *c, const window *win) {
  for (int d = 0; d < win->kernel.n; d++)
    if (max_i64(win->before.v[d], win->after.v[d]) >= window_reach(win, d))
      return infer_fail(c,
                        "spatial axis %d: paddings %lld and %lld must be smaller than a window of "
                        "%lld",
                        d, (long long)win->before.v[d], (long long)win->after.v[d],
                        (long long)window_reach(win, d));
  return SN_OK;
}

static sn_status infer_elements(infer_ctx *c, const window *win) {
  int64_t n = 1;
  for (int d = 0; d < win->kernel.n; d++)
    if (!mul_fits(n, win->kernel.v[d], &n) || n > INT32_MAX)
      return infer_fail(c, "a window must have fewer than 2^31 elements");
  return SN_OK;
}

static bool empty_fits(int64_t size, int64_t windows) { return size != 0 || windows == 0; }

sn_status infer_pool(infer_ctx *c, window win, bool ceil_mode, sn_type *out) {
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_spatial(c, 0));
  *out = c->in[0];
  int n = out->shape.rank - 2;
  SN_TRY(infer_window(c, &win, n));
  SN_TRY(infer_padding(c, &win));
  SN_TRY(infer_elements(c, &win));
  pool_rule rule = pool_rule_of(win, SN_POOL_MAX, ceil_mode, false);
  for (int d = 0; d < n; d++) {
    sn_dim size = out->shape.dim[2 + d], windows = window_count(c->graph, &rule.win, d, size);
    SN_TRY(infer_fits(c, &win, d, size, windows));
    if (!empty_fits(size, windows))
      return infer_fail(c, "spatial axis %d: windows over an empty axis see nothing but padding",
                        d);
    out->shape.dim[2 + d] = windows;
  }
  return SN_OK;
}

/* --- ref --- */

sn_status pool_walk_start(pool_walk *w, const ref_ctx *c, const pool_rule *rule,
                          const ref_tensor *y) {
  *w = (pool_walk){.rule = rule, .x = &c->in[0], .y = y, .i = -1};
  SN_TRY(ref_fits(c, &rule->win, w->x, y));
  int64_t most = 1;
  for (int d = 0; d < rule->win.kernel.n; d++) {
    if (!empty_fits(w->x->dim[2 + d], y->dim[2 + d]))
      return ref_fail(c, SN_ERR_INVALID,
                      "spatial axis %d: windows over an empty axis see nothing but padding", d);
    most *= min_i64(rule->win.kernel.v[d], w->x->dim[2 + d]);
  }
  w->at = arena_array(c->scratch, (size_t)most, sizeof *w->at);
  return w->at ? SN_OK : SN_ERR_NO_MEMORY;
}

/* Sorts one element of the window: an input element, or padding, or past the padding. */
static void gather(pool_walk *w, int64_t channel, const int64_t *k) {
  int64_t at = channel;
  bool inside = true, padded = true;
  for (int d = 0; d < w->rule->win.kernel.n; d++) {
    int64_t size = w->x->dim[2 + d], p = window_position(&w->rule->win, d, w->o[d], k[d]);
    inside = inside && p >= 0 && p < size;
    padded = padded && p < size + w->rule->padding_after.v[d];
    at = at * size + p;
  }
  w->padded += padded;
  if (inside)
    w->at[w->n++] = at;
}

bool pool_walk_next(pool_walk *w) {
  const window *win = &w->rule->win;
  if (++w->i >= w->y->count)
    return false;
  if (w->i > 0)
    ref_next(w->o, &w->y->dim[2], win->kernel.n);
  int64_t k[MAX_SPATIAL] = {0}, positions = 1;
  for (int d = 0; d < win->kernel.n; d++)
    positions *= w->y->dim[2 + d];
  w->n = w->padded = 0;
  do
    gather(w, w->i / positions, k);
  while (ref_next(k, win->kernel.v, win->kernel.n));
  return true;
}

static double larger(double a, double x) { return isnan(a) || a > x ? a : x; }
static double smaller(double a, double x) { return isnan(a) || a < x ? a : x; }
static double plus(double a, double x) { return a + x; }
static double times(double a, double x) { return a * x; }

static const struct {
  double neutral;
  double (*fold)(double a, double x);
} kinds[] = {
    [SN_POOL_MAX] = {-INFINITY, larger}, [SN_POOL_AVG] = {0, plus},   [SN_POOL_SUM] = {0, plus},
    [SN_POOL_MIN] = {INFINITY, smaller}, [SN_POOL_PROD] = {1, times},
};

double pool_neutral(sn_pool_kind kind) { return kinds[kind].neutral; }

double pool_fold(const pool_walk *w, int64_t skip) {
  double a = kinds[w->rule->kind].neutral;
  for (int64_t j = 0; j < w->n; j++)
    if (j != skip)
      a = kinds[w->rule->kind].fold(a, w->x->data[w->at[j]]);
  return a;
}

double pool_divisor(const pool_walk *w) {
  if (w->rule->kind != SN_POOL_AVG)
    return 1;
  return (double)(w->rule->count_include_pad ? w->padded : w->n);
}

/* --- element --- */

void elem_require_pool(elem_ctx *c, const pool_rule *rule, const sn_shape *x, const sn_shape *y) {
  elem_require_fits(c, &rule->win, x, y);
  for (int d = 0; d < rule->win.kernel.n; d++) {
    sn_dim size = x->dim[2 + d], windows = y->dim[2 + d];
    if (dim_is_number(size))
      continue;
    /* Negative only where the size is 0 and there are windows. */
    sn_dim most = sn_dim_mul(c->graph, size, sn_dim_max(c->graph, windows));
    locate_require(c, sn_dim_sub(c->graph, most, windows), 1,
                   "windows over an empty axis see nothing but padding");
  }
}

/* How many k in 0 … kernel-1 have  start + k * dilation < end. */
static reg count_below(elem_ctx *c, const window *w, int d, reg start, reg end) {
  reg dilation = elem_number_as(c, SN_I32, (double)w->dilation.v[d]);
  reg way = elem_int2(c, ALU_sub, end, start); /* rounded up over the dilation */
  way = elem_int2(c, ALU_add, way, elem_number_as(c, SN_I32, (double)w->dilation.v[d] - 1));
  way = elem_int2(c, ALU_floor_div, way, dilation);
  way = elem_int2(c, ALU_max, way, elem_number_as(c, SN_I32, 0));
  return elem_int2(c, ALU_min, way, elem_number_as(c, SN_I32, (double)w->kernel.v[d]));
}

reg elem_pool_divisor(elem_ctx *c, const pool_rule *rule, const place *at) {
  const window *w = &rule->win;
  double sure = 1; /* elements along the axes without padding */
  reg divisor = 0;
  bool any = false;
  for (int d = 0; d < w->kernel.n; d++) {
    if (w->before.v[d] == 0 && w->after.v[d] == 0) {
      sure *= (double)w->kernel.v[d];
      continue;
    }
    sn_dim end = c->in[0].shape.dim[2 + d];
    coord first = coord_scale(c->graph, &at->c[2 + d], w->stride.v[d]);
    first = coord_shift(c->graph, &first, -w->before.v[d]);
    reg start = elem_coord(c, &first), count;
    if (rule->count_include_pad) {
      end = sn_dim_add(c->graph, end, rule->padding_after.v[d]);
      count = count_below(c, w, d, start, elem_size(c, SN_I32, end));
    } else {
      count = elem_int2(c, ALU_sub, count_below(c, w, d, start, elem_size(c, SN_I32, end)),
                        count_below(c, w, d, start, elem_number_as(c, SN_I32, 0)));
    }
    count = elem_alu_as(c, ALU_cast, SN_F32, count, 0, 0, 0, 0);
    divisor = any ? elem_alu_as(c, ALU_mul, SN_F32, divisor, count, 0, 0, 0) : count;
    any = true;
  }
  reg number = elem_number_as(c, SN_F32, sure);
  return !any        ? number
         : sure == 1 ? divisor
                     : elem_alu_as(c, ALU_mul, SN_F32, divisor, number, 0, 0, 0);
}

/* --- graph --- */

int64_t pool_elements(const pool_rule *rule) {
  int64_t n = 1;
  for (int d = 0; d < rule->win.kernel.n; d++)
    n *= rule->win.kernel.v[d];
  return n;
}

/* [N, C, elements, windows…], 0 outside of v. */
static sn_value columns_of(build_ctx *c, const window *w, int64_t elements, sn_value v) {
  sn_graph *g = c->graph;
  sn_shape from = build_shape(c, v), to = {3, {from.dim[0], from.dim[1], elements}};
  for (int d = 0; d < w->kernel.n; d++)
    to.dim[to.rank++] = window_count(g, w, d, from.dim[2 + d]);
  return sn_reshape(g, sn_im2col(g, v, w->kernel, w->stride, w->before, w->after, w->dilation), to);
}

sn_value build_inside(build_ctx *c, const pool_rule *rule, sn_value x) {
  sn_shape shape = build_shape(c, x);
  shape.dim[0] = shape.dim[1] = 1;
  return columns_of(c, &rule->win, pool_elements(rule), sn_full(c->graph, SN_F32, shape, 1));
}

sn_value build_windows(build_ctx *c, const pool_rule *rule, sn_value v, double fill) {
  sn_graph *g = c->graph;
  sn_value columns = columns_of(c, &rule->win, pool_elements(rule), v);
  if (fill == 0)
    return columns;
  sn_value inside = sn_cast(g, build_inside(c, rule, v), SN_BOOL);
  return sn_where(g, inside, columns, sn_scalar(g, build_dtype(c, v), fill));
}

/* How many k in 0 … kernel-1 have  start + k * dilation < end, in f32, for each start. */
static sn_value build_below(build_ctx *c, const window *w, int d, sn_value starts, sn_value end) {
  sn_graph *g = c->graph;
  double dilation = (double)w->dilation.v[d];
  sn_value way = sn_affine(g, sn_sub(g, end, starts), 1, dilation - 1);
  way = sn_floor(g, sn_div(g, way, sn_scalar(g, SN_F32, dilation)));
  return sn_clamp(g, way, 0, (double)w->kernel.v[d]);
}

sn_value build_divisors(build_ctx *c, const pool_rule *rule, sn_value x) {
  const window *w = &rule->win;
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x);
  sn_value all = sn_scalar(g, SN_F32, 1);
  for (int d = 0; d < w->kernel.n; d++) {
    sn_shape along = {.rank = shape.rank, .dim = {1, 1, 1, 1, 1}};
    along.dim[2 + d] = window_count(g, w, d, shape.dim[2 + d]);
    sn_value starts =
        sn_arange(g, SN_F32, along.dim[2 + d], -(double)w->before.v[d], (double)w->stride.v[d]);
    sn_value end = build_count(c, shape.dim[2 + d]), count;
    if (rule->count_include_pad)
      count = build_below(c, w, d, starts, sn_affine(g, end, 1, (double)rule->padding_after.v[d]));
    else
      count = sn_sub(g, build_below(c, w, d, starts, end),
                     build_below(c, w, d, starts, sn_scalar(g, SN_F32, 0)));
    all = sn_mul(g, all, sn_reshape(g, count, along));
  }
  return all;
}
