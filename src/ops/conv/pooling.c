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

/* --- graph --- */

int64_t pool_elements(const pool_rule *rule) {
  int64_t n = 1;
  for (int d = 0; d < rule->win.kernel.n; d++)
    n *= rule->win.kernel.v[d];
  return n;
}

/* v grown by paddings along its spatial axes. */
static sn_value grow(build_ctx *c, sn_value v, const int64_t *before, const int64_t *after,
                     double fill) {
  sn_ints b = {.n = build_shape(c, v).rank}, a = b;
  bool any = false;
  for (int d = 0; d < b.n - 2; d++) {
    b.v[2 + d] = before[d];
    a.v[2 + d] = after[d];
    any = any || before[d] || after[d];
  }
  return any ? sn_pad(c->graph, v, b, a, SN_PAD_CONSTANT, fill) : v;
}

/* Of each window of the grown v, the element at kernel position k: every stride-th along each axis.
 */
static sn_value element(build_ctx *c, const window *win, sn_value v, const int64_t *k) {
  sn_graph *g = c->graph;
  window inner = *win; /* the padding is in v already */
  for (int d = 0; d < win->kernel.n; d++) {
    inner.before.v[d] = inner.after.v[d] = 0;
    sn_dim windows = window_count(g, &inner, d, build_shape(c, v).dim[2 + d]);
    int64_t start = k[d] * win->dilation.v[d];
    sn_dim length = sn_dim_mul(g, sn_dim_sub(g, windows, 1), win->stride.v[d]);
    sn_dim stop = windows == 0 ? start : sn_dim_add(g, length, start + 1);
    v = sn_slice(g, v, 2 + d, start, stop, win->stride.v[d]);
  }
  return v;
}

/* As build_windows, of a value that is grown already. */
static sn_value stack_elements(build_ctx *c, const pool_rule *rule, sn_value grown) {
  int64_t n = pool_elements(rule), k[MAX_SPATIAL] = {0};
  size_t bytes = (size_t)n * sizeof(sn_value);
  sn_value *elements = mem_alloc(c->graph->ctx, bytes);
  if (!elements)
    return graph_fail(c->graph, SN_ERR_NO_MEMORY, "out of memory for a window of %lld elements",
                      (long long)n);
  for (int64_t i = 0; i < n; i++) {
    elements[i] = element(c, &rule->win, grown, k);
    ref_next(k, rule->win.kernel.v, rule->win.kernel.n);
  }
  sn_value stack = sn_stack(c->graph, elements, (int)n, 0);
  mem_free(c->graph->ctx, elements, bytes);
  return stack;
}

sn_value build_windows(build_ctx *c, const pool_rule *rule, sn_value v, double fill) {
  return stack_elements(c, rule, grow(c, v, rule->win.before.v, rule->win.after.v, fill));
}

static sn_value ones(build_ctx *c, sn_value x) {
  sn_type t = sn_value_type(c->graph, x);
  t.shape.dim[0] = t.shape.dim[1] = 1;
  return sn_full(c->graph, t.dtype, t.shape, 1);
}

sn_value build_inside(build_ctx *c, const pool_rule *rule, sn_value x) {
  return build_windows(c, rule, ones(c, x), 0);
}

/* Counts what counts: with count_include_pad the attributes' padding is 1 too, but nothing past it.
 */
sn_value build_divisors(build_ctx *c, const pool_rule *rule, sn_value x) {
  int64_t none[MAX_SPATIAL] = {0}, past[MAX_SPATIAL] = {0};
  for (int d = 0; d < rule->win.kernel.n; d++)
    past[d] = rule->win.after.v[d] - rule->padding_after.v[d];
  sn_value v = grow(c, ones(c, x), rule->win.before.v, rule->padding_after.v,
                    rule->count_include_pad ? 1 : 0);
  v = stack_elements(c, rule, grow(c, v, none, past, 0));
  return sn_sum(c->graph, v, SN_INTS(0), false);
}
