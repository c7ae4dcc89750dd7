/* pool_grad: the gradient of pool for x. y is pool(x) with the same attributes; it is there for
 * those who can save work by it, the definition does not read it. max and min: the elements that
 * equal the extremum share dy evenly (in a window whose result is NaN, its NaNs). prod: dy times
 * the product of the others, so zeros need no care. */
#include "ops/conv/pooling.h"
#include "ops/conv/walk.h"

static sn_status infer_pool_grad(infer_ctx *c) {
  const attrs_pool_grad *a = ATTRS(pool_grad);
  sn_type y;
  SN_TRY(infer_pool(c, WINDOW(a->kernel, a), a->ceil_mode, &y));
  for (int i = 1; i <= 2; i++) {
    SN_TRY(infer_same_dtype(c, 0, i));
    SN_TRY(infer_shape(c, i, y.shape, "what pool gives"));
  }
  c->out[0] = c->in[0];
  return SN_OK;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void share_among_ties(const pool_walk *w, double dy, double *dx) {
  double extremum = pool_fold(w, -1), ties = 0;
  for (int64_t j = 0; j < w->n; j++)
    ties += same(w->x->data[w->at[j]], extremum);
  for (int64_t j = 0; j < w->n; j++)
    if (same(w->x->data[w->at[j]], extremum))
      dx[w->at[j]] += dy / ties;
}

static void multiply_by_others(const pool_walk *w, double dy, double *dx) {
  for (int64_t j = 0; j < w->n; j++)
    dx[w->at[j]] += dy * pool_fold(w, j);
}

static void spread_evenly(const pool_walk *w, double dy, double *dx) {
  for (int64_t j = 0; j < w->n; j++)
    dx[w->at[j]] += dy / pool_divisor(w);
}

static void (*const spread[])(const pool_walk *w, double dy,
                              double *dx) = {[SN_POOL_MAX] = share_among_ties,
                                             [SN_POOL_MIN] = share_among_ties,
                                             [SN_POOL_PROD] = multiply_by_others,
                                             [SN_POOL_SUM] = spread_evenly,
                                             [SN_POOL_AVG] = spread_evenly};

static sn_status ref_pool_grad(ref_ctx *c) {
  pool_rule rule = POOL_RULE(ATTRS(pool_grad));
  pool_walk w;
  SN_TRY(pool_walk_start(&w, c, &rule, &c->in[2]));
  while (pool_walk_next(&w))
    spread[rule.kind](&w, c->in[2].data[w.i], c->out[0].data);
  return SN_OK;
}

/* --- as a graph. Where no two windows share an element x is a grid of windows. Else each window's share is brought to the
 * elements of x: as one of a few neighbours where windows are not dilated, or by a second set of windows, over the first ones
 * laid out with the stride. --- */

static bool has_ties(const pool_rule *rule) {
  return rule->kind == SN_POOL_MAX || rule->kind == SN_POOL_MIN;
}

/* a and b are the same number, or both NaN */
static sn_value build_is_same(build_ctx *c, sn_value a, sn_value b) {
  sn_graph *g = c->graph;
  sn_value nans = sn_logical_and(g, sn_isnan(g, a), sn_isnan(g, b));
  return sn_logical_or(g, sn_eq(g, a, b), nans);
}
/* The same as f32, 1 or 0. */
static sn_value build_same(build_ctx *c, sn_value a, sn_value b) {
  return sn_cast(c->graph, build_is_same(c, a, b), SN_F32);
}

/* dy over the number of ties, which are summed over axes. */
static sn_value shared(build_ctx *c, sn_value dy, sn_value ties, sn_ints axes, bool keepdims) {
  sn_graph *g = c->graph;
  sn_value n = sn_sum(g, ties, axes, keepdims);
  return sn_div(g, dy, sn_maximum(g, n, sn_scalar(g, SN_F32, 1)));
}

/* Windows that lie side by side and cover x: every axis is [windows, elements]. */
static bool is_grid(build_ctx *c, const pool_rule *rule) {
  const window *w = &rule->win;
  sn_shape x = build_shape(c, c->in[0]), y = build_shape(c, c->in[2]);
  if (rule->kind == SN_POOL_PROD)
    return false;
  for (int d = 0; d < w->kernel.n; d++)
    if (w->kernel.v[d] != w->stride.v[d] || w->dilation.v[d] != 1 || w->before.v[d] != 0 ||
        sn_dim_mul(c->graph, y.dim[2 + d], w->stride.v[d]) != x.dim[2 + d])
      return false;
  return true;
}

static sn_value build_grid(build_ctx *c, const pool_rule *rule, sn_value x, sn_value y,
                           sn_value dy) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x), cells = {.rank = 2}, windows;
  sn_ints axes = {0};
  cells.dim[0] = shape.dim[0];
  cells.dim[1] = shape.dim[1];
  windows = cells;
  for (int d = 0; d < rule->win.kernel.n; d++) {
    cells.dim[cells.rank++] = windows.dim[windows.rank++] = build_shape(c, y).dim[2 + d];
    axes.v[axes.n++] = cells.rank;
    cells.dim[cells.rank++] = rule->win.kernel.v[d];
    windows.dim[windows.rank++] = 1;
  }
  dy = sn_reshape(g, dy, windows);
  if (!has_ties(rule)) /* count_include_pad and padding_after cannot matter: there is no padding */
    return sn_reshape(
        g,
        sn_expand(
            g, rule->kind == SN_POOL_AVG ? build_scale(c, dy, 1 / (double)pool_elements(rule)) : dy,
            cells),
        shape);
  sn_value ties = build_same(c, sn_reshape(g, x, cells), sn_reshape(g, y, windows));
  return sn_reshape(g, sn_mul(g, ties, shared(c, dy, ties, axes, true)), shape);
}

/* v [N, C, windows…] with each window's value at window * stride, zeros between, and at least one behind. */
static sn_value laid_out(build_ctx *c, const window *w, sn_value v) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, v), apart = {2, {shape.dim[0], shape.dim[1]}};
  sn_ints none = {.n = shape.rank}, gaps = {.n = 2}, tail = {.n = shape.rank};
  bool strided = false;
  for (int d = 0; d < w->kernel.n; d++) {
    apart.dim[apart.rank++] = shape.dim[2 + d];
    apart.dim[apart.rank++] = 1;
    gaps.v[gaps.n + 1] = w->stride.v[d] - 1;
    gaps.n += 2;
    strided = strided || w->stride.v[d] > 1;
    shape.dim[2 + d] = sn_dim_mul(g, shape.dim[2 + d], w->stride.v[d]);
    tail.v[2 + d] = max_i64(window_reach(w, d) - 1 - w->after.v[d], w->before.v[d] + 1);
  }
  if (strided) {
    sn_value spaced = sn_reshape(g, v, apart);
    spaced = sn_pad(g, spaced, (sn_ints){.n = gaps.n}, gaps, SN_PAD_CONSTANT, 0);
    v = sn_reshape(g, spaced, shape);
  }
  return sn_pad(g, v, none, tail, SN_PAD_CONSTANT, 0);
}

/* [N, C, elements, spatial…]: for each element of x, the value of every window that may hold it, and 0 for those that
 * there are not. The window with x's position p as its element k lies at p + before - k * dilation. The zeros behind
 * are as many as make at least a position for each of x. */
static sn_value windows_of_each(build_ctx *c, const pool_rule *rule, sn_value v) {
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]), to = {3, {x.dim[0], x.dim[1], pool_elements(rule)}};
  window back = rule->win;
  v = laid_out(c, &rule->win, v);
  for (int d = 0; d < back.kernel.n; d++) {
    back.stride.v[d] = 1;
    back.before.v[d] = window_reach(&back, d) - 1 - rule->win.before.v[d];
    back.after.v[d] = 0;
    to.dim[to.rank++] = window_count(g, &back, d, build_shape(c, v).dim[2 + d]);
  }
  v = sn_im2col(g, v, back.kernel, back.stride, back.before, back.after, back.dilation);
  v = sn_reshape(g, v, to);
  for (int d = 0; d < back.kernel.n; d++)
    if (to.dim[3 + d] != x.dim[2 + d])
      v = sn_slice(g, v, 3 + d, 0, x.dim[2 + d], 1);
  return v;
}

/* x as a window of one element: [N, C, 1, spatial…] */
static sn_value alone(build_ctx *c, sn_value x) {
  sn_shape shape = build_shape(c, x), to = {.rank = shape.rank + 1};
  for (int d = 0; d < to.rank; d++)
    to.dim[d] = d == 2 ? 1 : shape.dim[d - (d > 2)];
  return sn_reshape(c->graph, x, to);
}

/* --- overlapping windows without gaps. Let p be a position of x: p = stride * q + a. The windows that hold it are those o with
 * 0 <= p + before - stride * o < kernel: with t = q - o, those where 0 <= a + before + stride * t < kernel, which for all a
 * together are a few t. So x is seen as phases, [N, C, 1, q, a, …], and each window's value comes to it as one of a few neighbours,
 * [N, C, t…, q, 1, …]. --- */

/* The largest and the smallest t along an axis. */
static int64_t last_tap(const window *w, int d) {
  return (w->kernel.v[d] - 1 - w->before.v[d]) / w->stride.v[d]; /* padding is less than a window */
}
static int64_t first_tap(const window *w, int d) {
  return -((w->stride.v[d] - 1 + w->before.v[d]) / w->stride.v[d]);
}
/* How many neighbours that are. */
static int64_t taps(const window *w, int d) { return last_tap(w, d) - first_tap(w, d) + 1; }

static bool has_phases(build_ctx *c, const pool_rule *rule) {
  const window *w = &rule->win;
  for (int d = 0; d < w->kernel.n; d++)
    if (w->dilation.v[d] != 1)
      return false;
  return 3 + 2 * w->kernel.n <= SN_MAX_RANK && build_shape(c, c->in[0]).rank == 2 + w->kernel.n;
}

/* q's along an axis of x. */
static sn_dim phases_along(build_ctx *c, const window *w, int d) {
  sn_dim size = build_shape(c, c->in[0]).dim[2 + d];
  sn_dim whole = sn_dim_add(c->graph, size, w->stride.v[d] - 1);
  return sn_dim_div(c->graph, whole, w->stride.v[d]);
}

/* v [N, C, windows…] as [N, C, taps, q, 1, …]: the windows q - t of q, from the largest t on; 0 where there is none. */
static sn_value neighbours(build_ctx *c, const pool_rule *rule, sn_value v) {
  sn_graph *g = c->graph;
  const window *w = &rule->win;
  sn_shape shape = build_shape(c, v), grid = {3, {shape.dim[0], shape.dim[1], 1}}, to = grid;
  sn_ints kernel = {.n = w->kernel.n}, ones = kernel, before = kernel, after = kernel;
  for (int d = 0; d < w->kernel.n; d++) {
    int64_t n = taps(w, d);
    kernel.v[d] = n;
    ones.v[d] = 1;
    before.v[d] = last_tap(w, d);
    /* at least as many as there are q's behind the last window, and taps before it */
    after.v[d] = w->kernel.v[d] / w->stride.v[d] + 2 - first_tap(w, d);
    grid.dim[2] *= n;
    grid.dim[grid.rank++] = sn_dim_add(g, shape.dim[2 + d], before.v[d] + after.v[d] - n + 1);
  }
  v = sn_reshape(g, sn_im2col(g, v, kernel, ones, before, after, ones), grid);
  to.dim[2] = grid.dim[2];
  for (int d = 0; d < w->kernel.n; d++) {
    v = sn_slice(g, v, 3 + d, 0, phases_along(c, w, d), 1);
    to.dim[to.rank++] = phases_along(c, w, d);
    to.dim[to.rank++] = 1;
  }
  return sn_reshape(g, v, to);
}

/* x as [N, C, 1, q, a, …] */
static sn_value phases_of(build_ctx *c, const pool_rule *rule, sn_value x) {
  sn_graph *g = c->graph;
  const window *w = &rule->win;
  sn_shape shape = build_shape(c, x), to = {3, {shape.dim[0], shape.dim[1], 1}};
  sn_ints before = {.n = shape.rank}, after = before;
  bool whole = true;
  for (int d = 0; d < w->kernel.n; d++) {
    sn_dim size = sn_dim_mul(g, phases_along(c, w, d), w->stride.v[d]);
    whole = whole && size == shape.dim[2 + d];
    after.v[2 + d] = w->stride.v[d] - 1;
    to.dim[to.rank++] = phases_along(c, w, d);
    to.dim[to.rank++] = w->stride.v[d];
  }
  if (!whole)
    x = sn_pad(g, x, before, after, SN_PAD_CONSTANT, 0);
  for (int d = 0; d < w->kernel.n && !whole; d++)
    x = sn_slice(g, x, 2 + d, 0, sn_dim_mul(g, phases_along(c, w, d), w->stride.v[d]), 1);
  return sn_reshape(g, x, to);
}

/* The other way round: [N, C, q, a, …] to x's shape. */
static sn_value from_phases(build_ctx *c, const pool_rule *rule, sn_value v) {
  sn_graph *g = c->graph;
  const window *w = &rule->win;
  sn_shape x = build_shape(c, c->in[0]), to = x;
  for (int d = 0; d < w->kernel.n; d++)
    to.dim[2 + d] = sn_dim_mul(g, phases_along(c, w, d), w->stride.v[d]);
  v = sn_reshape(g, v, to);
  for (int d = 0; d < w->kernel.n; d++)
    if (to.dim[2 + d] != x.dim[2 + d])
      v = sn_slice(g, v, 2 + d, 0, x.dim[2 + d], 1);
  return v;
}

/* Whether a tap's window holds phase a: bool [1, 1, taps, 1, a, …]. */
static sn_value tap_mask(build_ctx *c, const window *w) {
  sn_graph *g = c->graph;
  sn_shape to = {3, {1, 1, 1}};
  sn_value all = SN_NONE;
  for (int d = 0; d < w->kernel.n; d++) {
    int64_t n = taps(w, d), stride = w->stride.v[d];
    sn_shape tap = {.rank = 2 * w->kernel.n}, phase;
    for (int i = 0; i < tap.rank; i++)
      tap.dim[i] = 1;
    phase = tap;
    tap.dim[d] = n;
    phase.dim[w->kernel.n + d] = stride;
    double most = (double)(w->before.v[d] + last_tap(w, d) * stride);
    sn_value from = sn_arange(g, SN_F32, n, most, (double)-stride);
    sn_value at = sn_add(g, sn_reshape(g, from, tap),
                         sn_reshape(g, sn_arange(g, SN_F32, stride, 0, 1), phase));
    sn_value holds = sn_logical_and(g, sn_ge(g, at, sn_scalar(g, SN_F32, 0)),
                                    sn_lt(g, at, sn_scalar(g, SN_F32, (double)w->kernel.v[d])));
    all = d == 0 ? holds : sn_logical_and(g, all, holds);
    to.dim[2] *= n;
    to.dim[to.rank++] = 1;
    to.dim[to.rank++] = stride;
  }
  return sn_reshape(g, all, to);
}

/* The sum over taps of what `v` [N, C, windows…] brings to each element of x, where `mine` (SN_NONE: everywhere). */
static sn_value sum_taps(build_ctx *c, const pool_rule *rule, sn_value mine, sn_value v) {
  sn_graph *g = c->graph;
  sn_value holds = tap_mask(c, &rule->win);
  if (mine.id)
    holds = sn_logical_and(g, mine, holds);
  v = sn_where(g, holds, neighbours(c, rule, v), sn_scalar(g, SN_F32, 0));
  return from_phases(c, rule, sn_sum(g, v, SN_INTS(2), false));
}

static sn_value build_overlapping(build_ctx *c, const pool_rule *rule, sn_value x, sn_value y,
                                  sn_value dy) {
  sn_graph *g = c->graph;
  sn_ints axis = SN_INTS(2);
  if (!has_ties(rule)) {
    if (rule->kind == SN_POOL_AVG)
      dy = sn_div(g, dy, build_divisors(c, rule, x));
    if (has_phases(c, rule))
      return sum_taps(c, rule, SN_NONE, dy);
    return sn_sum(g, windows_of_each(c, rule, dy), axis, false);
  }
  sn_value ties = build_same(c, build_windows(c, rule, x, 0), alone(c, y));
  ties = sn_mul(g, ties, build_inside(c, rule, x));
  dy = shared(c, dy, ties, axis, false);
  if (has_phases(c, rule)) {
    sn_value mine = build_is_same(c, phases_of(c, rule, x), neighbours(c, rule, y));
    return sum_taps(c, rule, mine, dy);
  }
  sn_value share = windows_of_each(c, rule, dy);
  sn_value mine = build_same(c, alone(c, x), windows_of_each(c, rule, y));
  return sn_sum(g, sn_mul(g, mine, share), axis, false);
}

/* [N, C, elements, windows…]: the product of a window's other elements, by a table of each element by each, with 1 on
 * the diagonal. */
static sn_value other_products(build_ctx *c, const pool_rule *rule, sn_value x) {
  sn_graph *g = c->graph;
  int64_t n = pool_elements(rule);
  sn_value v = build_windows(c, rule, x, 1);
  sn_shape windows = build_shape(c, v), table = {4, {windows.dim[0], windows.dim[1], 1, n}};
  sn_shape diagonal = {4, {1, 1, n, n}};
  for (int d = 3; d < windows.rank; d++) {
    table.dim[table.rank++] = windows.dim[d];
    diagonal.dim[diagonal.rank++] = 1;
  }
  sn_value own = sn_cast(g, sn_reshape(g, sn_eye(g, SN_F32, n, n), diagonal), SN_BOOL);
  sn_value others = sn_where(g, own, sn_scalar(g, SN_F32, 1), sn_reshape(g, v, table));
  return sn_prod(g, others, SN_INTS(3), false);
}

/* Sums parts [N, C, elements, windows…] into x's places: the gradient of a convolution whose output
 * channels are the elements of a window, each by a kernel of one 1. */
static sn_value collect(build_ctx *c, const pool_rule *rule, sn_value parts) {
  sn_graph *g = c->graph;
  const window *w = &rule->win;
  int64_t n = pool_elements(rule);
  sn_shape x = build_shape(c, c->in[0]), p = build_shape(c, parts), kernel = {x.rank, {n, 1}};
  sn_shape images = {x.rank, {sn_dim_mul(g, x.dim[0], x.dim[1]), n}};
  for (int d = 2; d < x.rank; d++) {
    images.dim[d] = p.dim[d + 1];
    kernel.dim[d] = w->kernel.v[d - 2];
  }
  sn_value one = sn_reshape(g, sn_eye(g, SN_F32, n, n), kernel);
  sn_value dx = sn_conv_grad_input(g, sn_reshape(g, parts, images), one, conv_spatial(x), w->stride,
                                   w->before, w->after, w->dilation, 1);
  return sn_reshape(g, dx, x);
}

static void decompose_pool_grad(build_ctx *c) {
  pool_rule rule = POOL_RULE(ATTRS(pool_grad));
  sn_value x = build_wide(c, c->in[0]), y = build_wide(c, c->in[1]), dy = build_wide(c, c->in[2]);
  sn_value dx;
  if (rule.kind == SN_POOL_PROD)
    dx = collect(c, &rule, sn_mul(c->graph, alone(c, dy), other_products(c, &rule, x)));
  else if (is_grid(c, &rule))
    dx = build_grid(c, &rule, x, y, dy);
  else
    dx = build_overlapping(c, &rule, x, y, dy);
  c->out[0] = build_narrow(c, dx, build_dtype(c, c->in[0]));
}

#define HALVES " kernel=[2] stride=[2] pad_before=[0] pad_after=[0] dilation=[1]"
#define SAME3  " kernel=[3] stride=[2] pad_before=[1] pad_after=[1] dilation=[1]"
#define WIDE   " kernel=[4] stride=[3] pad_before=[2] pad_after=[2] dilation=[1]"
#define PLANE  " kernel=[2, 2] stride=[2, 1] pad_before=[1, 0] pad_after=[0, 1] dilation=[1, 2]"
#define STEP1  " kernel=[2] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]"
#define ROW8   "f32[1, 1, 8]{-2, 5, 1, -3, 4, 0, -4, 3}"

/* y stands as pool gives it wherever it could be of use. */
static const op_case cases[] = {
    {"pool_grad(f32[1, 2, 5]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5}, f32[1, 2, 3]{5, 5, 4, 0, 3, -1}, "
     "f32[1, 2, 3]{-1, -3, 2, 0, -2, 3}) kind=max" SAME3
     " => f32[1, 2, 5]{0, -4, 0, 0, 2, 0, 0, -2, 3, 0}",
     NULL},
    {"pool_grad(f32[1, 1, 7]{-2, 5, 1, -3, 4, 0, -4}, f32[1, 1, 4]{1, 5, -3, 0}, "
     "f32[1, 1, 4]{-1, -3, 2, 7}) kind=max kernel=[2] stride=[2] pad_before=[1] pad_after=[1] "
     "dilation=[3] ceil_mode=true => f32[1, 1, 7]{0, -3, -1, 2, 0, 7, 0}",
     NULL},
    {"pool_grad(f32[1, 1, 2, 3, 3]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, -4}, "
     "f32[1, 1, 3, 2, 4]{-2, 5, 5, 1, -4, 3, 3, -1, 5, 5, 5, 1, 4, 4, 3, -1, 5, 5, 2, -2, 4, 4, 0, "
     "-4}, f32[1, 1, 3, 2, 4]{1}) kind=max kernel=[2, 2, 2] stride=[1, 2, 1] pad_before=[1, 0, 1] "
     "pad_after=[1, 0, 1] dilation=[1, 1, 1] ceil_mode=true "
     "=> f32[1, 1, 2, 3, 3]{1, 3.5, 2, 0, 0, 0, 1, 3, 2, 0, 1, 1, 3.5, 0, 0, 4, 1, 1} @kink",
     NULL},
    /* Elements between windows. */
    {"pool_grad(f32[1, 1, 7]{-2, 5, 1, -3, 4, 0, -4}, f32[1, 1, 2]{5, 4}, f32[1, 1, 2]{2, 6}) "
     "kind=max kernel=[2] stride=[3] pad_before=[0] pad_after=[0] dilation=[1] "
     "=> f32[1, 1, 7]{0, 2, 0, 0, 6, 0, 0}",
     NULL},
    {"pool_grad(f32[2, 2, 7, 5], f32[2, 2, 2, 3], f32[2, 2, 2, 3]) kind=sum kernel=[2, 1] "
     "stride=[3, 2] pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1]",
     NULL},
    /* Ties share. */
    {"pool_grad(f32[1, 1, 6]{4, 4, 4, 4, 1, 4}, f32[1, 1, 2]{4, 4}, f32[1, 1, 2]{6, 10}) kind=max "
     "kernel=[3] stride=[3] pad_before=[0] pad_after=[0] dilation=[1] "
     "=> f32[1, 1, 6]{2, 2, 2, 5, 0, 5} @kink",
     NULL},
    {"pool_grad(f32[1, 1, 4]{3, 3, 3, 8}, f32[1, 1, 3]{3, 3, 3}, f32[1, 1, 3]{2, 4, 8}) "
     "kind=min" STEP1 " => f32[1, 1, 4]{1, 3, 10, 0} @kink",
     NULL},
    /* Padding has no part, also where -inf and 0 tie with what stands for it. */
    {"pool_grad(f32[1, 1, 2]{-inf, -inf}, f32[1, 1, 2]{-inf, -inf}, f32[1, 1, 2]{2, 6}) kind=max "
     "kernel=[3] stride=[1] pad_before=[1] pad_after=[1] dilation=[1] => f32[1, 1, 2]{4, 4}",
     NULL},
    {"pool_grad(f32[1, 1, 4]{nan, 3, nan, nan}, f32[1, 1, 2]{nan, nan}, f32[1, 1, 2]{2, 6}) "
     "kind=max" HALVES " => f32[1, 1, 4]{2, 0, 3, 3}",
     NULL},
    {"pool_grad(f32[1, 1, 4]{nan, 3, 1, 2}, f32[1, 1, 2]{nan, 1}, f32[1, 1, 2]{2, 6}) "
     "kind=min" HALVES " => f32[1, 1, 4]{2, 0, 6, 0}",
     NULL},
    {"pool_grad(" ROW8 ", f32[1, 1, 4]{0.75, 1.75, 0.75, 1}, f32[1, 1, 4]{-1, -3, 2, 0}) "
     "kind=avg" WIDE " ceil_mode=true count_include_pad=true "
     "=> f32[1, 1, 8]{-0.25, -1, -0.75, -0.75, -0.25, 0.5, 0.5, 0.5}",
     NULL},
    {"pool_grad(" ROW8 ", f32[1, 1, 4]{1.5, 1.75, 0.75, 3}, f32[1, 1, 4]{-1, -3, 2, 0}) "
     "kind=avg" WIDE " ceil_mode=true count_include_pad=false "
     "=> f32[1, 1, 8]{-0.5, -1.25, -0.75, -0.75, -0.25, 0.5, 0.5, 0.5}",
     NULL},
    {"pool_grad(f32[2, 1, 3, 3], f32[2, 1, 2, 2], f32[2, 1, 2, 2]) kind=avg" PLANE
     " count_include_pad=true",
     NULL},
    {"pool_grad(f32[1, 1, 3]{3, 2, 4}, f32[1, 1, 2]{5, 6}, f32[1, 1, 2]{10, 100}) kind=sum" SAME3
     " => f32[1, 1, 3]{10, 110, 100}",
     NULL},
    {"pool_grad(f32[1, 2, 3, 3], f32[1, 2, 2, 2], f32[1, 2, 2, 2]) kind=sum" PLANE, NULL},
    {"pool_grad(f32[1, 1, 3]{3, 2, 4}, f32[1, 1, 2]{6, 8}, f32[1, 1, 2]{10, 100}) kind=prod" SAME3
     " => f32[1, 1, 3]{20, 430, 200}",
     NULL},
    /* One zero, two zeros. */
    {"pool_grad(f32[1, 1, 6]{2, 0, 3, 0, 5, 0}, f32[1, 1, 2]{0, 0}, f32[1, 1, 2]{10, 100}) "
     "kind=prod kernel=[3] stride=[3] pad_before=[0] pad_after=[0] dilation=[1] "
     "=> f32[1, 1, 6]{0, 60, 0, 0, 0, 0}",
     NULL},
    {"pool_grad(f32[1, 1, 3, 3]{1, 2, 3, 5, 7, -1, -2, 4, 6}, f32[1, 1, 2, 2]{3, 2, 60, 28}, "
     "f32[1, 1, 2, 2]{1, -2, 3, 4}) kind=prod" PLANE
     " => f32[1, 1, 3, 3]{3, -2, 1, 36, 16, -180, -90, 28, 30}",
     NULL},
    {"pool_grad(f32[1, 1, 3, 3]{1, 2, 3, 5, 7, -1, -2, 4, 6}, f32[1, 1, 2, 2]{1, 2, -2, 4}, "
     "f32[1, 1, 2, 2]{1, -2, 3, 4}) kind=min" PLANE
     " => f32[1, 1, 3, 3]{1, -2, 0, 0, 0, 0, 3, 4, 0}",
     NULL},
    {"pool_grad(f32[1, 1, 1]{2}, f32[1, 1, 1]{2}, f32[1, 1, 1]{5}) kind=min kernel=[1] stride=[1] "
     "pad_before=[0] pad_after=[0] dilation=[1] => f32[1, 1, 1]{5}",
     NULL},
    {"pool_grad(f32[0, 2, 4], f32[0, 2, 2], f32[0, 2, 2]) kind=max" HALVES, NULL},
    {"pool_grad(f32[1, 1, 0], f32[1, 1, 0], f32[1, 1, 0]) kind=sum" HALVES, NULL},
    {"pool_grad(bf16[1, 1, 4]{1, 3, 5, 2}, bf16[1, 1, 2]{3, 5}, bf16[1, 1, 2]) kind=max" HALVES,
     NULL},
    {"pool_grad(f32[1, 1, 4], f32[1, 1, 3], f32[1, 1, 2]) kind=max" HALVES, "y must be [1, 1, 2]"},
    {"pool_grad(f32[1, 1, 4], f32[1, 1, 2], f32[1, 2, 2]) kind=max" HALVES, "dy must be [1, 1, 2]"},
    {"pool_grad(f32[1, 1, 4], f16[1, 1, 2], f32[1, 1, 2]) kind=max" HALVES, "dtypes differ"},
    {"pool_grad(f32[1, 1, 4], f32[1, 1, 2], f16[1, 1, 2]) kind=max" HALVES, "dtypes differ"},
    {"pool_grad(f32[1, 1, 1], f32[1, 1, 0], f32[1, 1, 0]) kind=max" HALVES, "does not fit"},
    {"pool_grad(i32[1, 1, 4], i32[1, 1, 2], i32[1, 1, 2]) kind=max" HALVES, "must be f32"},
};

const op_impl op_impl_pool_grad = {.infer = infer_pool_grad,
                                   .ref = ref_pool_grad,
                                   .grad_by_decompose = true,
                                   .decompose = decompose_pool_grad,
                                   CASES(cases)};
