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

/* --- as a graph: each element's part of its window's dy, then all parts back to their places ---
 */

/* [elements, N, C, windows…]: 1 / n for each of a window's n ties. */
static sn_value tie_parts(build_ctx *c, const pool_rule *rule) {
  sn_graph *g = c->graph;
  sn_ints axis = SN_INTS(0);
  sn_value v = build_windows(c, rule, c->in[0], pool_neutral(rule->kind));
  sn_value best = rule->kind == SN_POOL_MAX ? sn_max(g, v, axis, true) : sn_min(g, v, axis, true);
  sn_value nans = sn_logical_and(g, sn_isnan(g, v), sn_isnan(g, best));
  sn_value tie = sn_logical_or(g, sn_eq(g, v, best), nans);
  sn_dtype dtype = build_dtype(c, v);
  tie = sn_mul(g, sn_cast(g, tie, dtype), build_inside(c, rule, c->in[0]));
  return sn_div(g, tie, sn_maximum(g, sn_sum(g, tie, axis, true), sn_scalar(g, dtype, 1)));
}

/* [elements, N, C, windows…]: the product of a window's other elements, by a table of each element
 * by each, with 1 on the diagonal. */
static sn_value other_products(build_ctx *c, const pool_rule *rule) {
  sn_graph *g = c->graph;
  int64_t n = pool_elements(rule);
  sn_value v = build_windows(c, rule, c->in[0], 1);
  sn_shape table = build_shape(c, v), diagonal = {.rank = table.rank + 1, .dim = {n, n}};
  for (int d = table.rank; d > 0; d--)
    table.dim[d] = table.dim[d - 1];
  table.rank++;
  table.dim[0] = 1;
  for (int d = 2; d < diagonal.rank; d++)
    diagonal.dim[d] = 1;
  sn_value own = sn_cast(g, sn_reshape(g, sn_eye(g, SN_F32, n, n), diagonal), SN_BOOL);
  sn_value others = sn_where(g, own, sn_scalar(g, build_dtype(c, v), 1), sn_reshape(g, v, table));
  return sn_prod(g, others, SN_INTS(1), false);
}

/* Sums parts [elements, N, C, windows…] into x's places: the gradient of a convolution whose output
 * channels are the elements of a window, each by a kernel of one 1. */
static sn_value collect(build_ctx *c, const pool_rule *rule, sn_value parts) {
  sn_graph *g = c->graph;
  const window *w = &rule->win;
  int64_t n = pool_elements(rule);
  sn_shape x = build_shape(c, c->in[0]), p = build_shape(c, parts), kernel = {x.rank, {n, 1}};
  sn_ints perm = {3, {1, 2, 0}};
  sn_shape images = {x.rank, {sn_dim_mul(g, x.dim[0], x.dim[1]), n}};
  for (int d = 2; d < x.rank; d++) {
    perm.v[perm.n++] = d + 1;
    images.dim[d] = p.dim[d + 1];
    kernel.dim[d] = w->kernel.v[d - 2];
  }
  parts = sn_reshape(g, sn_transpose(g, parts, perm), images);
  sn_value one = sn_reshape(g, sn_eye(g, build_dtype(c, parts), n, n), kernel);
  sn_value dx = sn_conv_grad_input(g, parts, one, conv_spatial(x), w->stride, w->before, w->after,
                                   w->dilation, 1);
  return sn_reshape(g, dx, x);
}

static void decompose_pool_grad(build_ctx *c) {
  sn_graph *g = c->graph;
  pool_rule rule = POOL_RULE(ATTRS(pool_grad));
  sn_value dy = c->in[2], parts = SN_NONE;
  if (rule.kind == SN_POOL_AVG)
    dy = sn_div(g, dy, build_divisors(c, &rule, c->in[0]));
  if (rule.kind == SN_POOL_MAX || rule.kind == SN_POOL_MIN)
    parts = sn_mul(g, dy, tie_parts(c, &rule));
  else if (rule.kind == SN_POOL_PROD)
    parts = sn_mul(g, dy, other_products(c, &rule));
  else
    parts = sn_mul(g, dy, build_inside(c, &rule, c->in[0]));
  c->out[0] = collect(c, &rule, parts);
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
