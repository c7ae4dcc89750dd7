/* pool: max, avg, sum, min or product over windows of x [N, C, spatial…], each channel alone.
 *
 * Padding is no element: it never wins, adds nothing and multiplies by nothing, so that it must be
 * smaller than the window. With count_include_pad avg divides by all positions of the window that
 * lie in the padded input (never by those past it, where ceil_mode lets windows run); without, by
 * the elements of x in it. Sizes, ceil_mode and divisor are PyTorch's. max and min of a window with
 * a NaN are NaN. A dilated window may step over a small input: max is then -inf, min inf, sum and
 * avg with count_include_pad 0, avg without it NaN, prod 1. */
#include "ops/conv/pooling.h"

static sn_status infer_pool_op(infer_ctx *c) {
  const attrs_pool *a = ATTRS(pool);
  return infer_pool(c, WINDOW(a->kernel, a), a->ceil_mode, &c->out[0]);
}

static sn_status ref_pool(ref_ctx *c) {
  pool_rule rule = POOL_RULE(ATTRS(pool));
  pool_walk w;
  SN_TRY(pool_walk_start(&w, c, &rule, &c->out[0]));
  while (pool_walk_next(&w))
    c->out[0].data[w.i] = pool_fold(&w, -1) / pool_divisor(&w);
  return SN_OK;
}

static void grad_pool(build_ctx *c) {
  const attrs_pool *a = ATTRS(pool);
  build_din(c, 0,
            sn_pool_grad(c->graph, c->in[0], c->out[0], c->dout[0], a->kind, a->kernel, a->stride,
                         a->pad_before, a->pad_after, a->dilation, a->ceil_mode,
                         a->count_include_pad));
}

static void decompose_pool(build_ctx *c) {
  sn_graph *g = c->graph;
  pool_rule rule = POOL_RULE(ATTRS(pool));
  sn_value v = build_windows(c, &rule, build_wide(c, c->in[0]), pool_neutral(rule.kind)), y = v;
  sn_ints axis = SN_INTS(2);
  switch (rule.kind) {
  case SN_POOL_MAX: y = sn_max(g, v, axis, false); break;
  case SN_POOL_MIN: y = sn_min(g, v, axis, false); break;
  case SN_POOL_PROD: y = sn_prod(g, v, axis, false); break;
  case SN_POOL_SUM: y = sn_sum(g, v, axis, false); break;
  case SN_POOL_AVG:
    y = sn_div(g, sn_sum(g, v, axis, false), build_divisors(c, &rule, c->in[0]));
    break;
  }
  c->out[0] = build_narrow(c, y, build_dtype(c, c->in[0]));
}

static const reduce_kind reductions[] = {[SN_POOL_MAX] = REDUCE_MAX,
                                         [SN_POOL_AVG] = REDUCE_SUM,
                                         [SN_POOL_SUM] = REDUCE_SUM,
                                         [SN_POOL_MIN] = REDUCE_MIN,
                                         [SN_POOL_PROD] = REDUCE_PROD};

static uint16_t element_pool(elem_ctx *c, const place *at) {
  pool_rule rule = POOL_RULE(ATTRS(pool));
  sn_dtype dtype = c->in[0].dtype;
  coord k[MAX_SPATIAL];
  elem_require_pool(c, &rule, &c->in[0].shape, &c->out[0].shape);
  elem_axes(c, rule.win.kernel.n, rule.win.kernel.v, k);
  guard read = guard_start(at, at->rank);
  memcpy(read.at.c, at->c, 2 * sizeof read.at.c[0]);
  for (int d = 0; d < rule.win.kernel.n; d++)
    window_read(c, &rule.win, &read, 0, d, &at->c[2 + d], &k[d]);
  reg body = elem_wide(c, guard_read(c, &read, 0, pool_neutral(rule.kind)), dtype);
  reg y = elem_reduce(c, reductions[rule.kind], SN_F32, body);
  if (rule.kind == SN_POOL_AVG)
    y = elem_alu_as(c, ALU_div, SN_F32, y, elem_pool_divisor(c, &rule, at), 0, 0, 0);
  return elem_narrow(c, y);
}

#define HALVES " kernel=[2] stride=[2] pad_before=[0] pad_after=[0] dilation=[1]"
#define SAME3  " kernel=[3] stride=[2] pad_before=[1] pad_after=[1] dilation=[1]"
#define WIDE   " kernel=[4] stride=[3] pad_before=[2] pad_after=[2] dilation=[1]"
#define PLANE  " kernel=[3, 2] stride=[3, 3] pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1]"
#define SKEWED " kernel=[3, 2] stride=[2, 1] pad_before=[2, 0] pad_after=[0, 1] dilation=[1, 2]"
#define ROW6   "f32[1, 1, 6]{-2, 5, 1, -3, 4, 0}"
#define ROW8   "f32[1, 1, 8]{-2, 5, 1, -3, 4, 0, -4, 3}"
#define GRID                                               \
  "f32[1, 1, 4, 5]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, " \
  "-2, 5, 1, -3, 4, 0, -4, 3, -1}"

static const op_case cases[] = {
    {"pool(f32[2, 3, 5]) kind=max" SAME3, NULL},
    {"pool(f32[1, 2, 5]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5}) kind=max" SAME3
     " => f32[1, 2, 3]{5, 5, 4, 0, 3, -1}",
     NULL},
    {"pool(f32[1, 1, 7]{-2, 5, 1, -3, 4, 0, -4}) kind=max kernel=[2] stride=[2] pad_before=[1] "
     "pad_after=[1] dilation=[3] ceil_mode=true => f32[1, 1, 4]{1, 5, -3, 0}",
     NULL},
    {"pool(" GRID ") kind=min kernel=[2, 3] stride=[2, 2] pad_before=[1, 1] pad_after=[1, 1] "
     "dilation=[1, 1] ceil_mode=true => f32[1, 1, 3, 3]{-2, -3, -3, -4, -4, -5, 0, -4, -1} @kink",
     NULL},
    {"pool(f32[1, 1, 2, 3, 3]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, -4}) "
     "kind=max kernel=[2, 2, 2] stride=[1, 2, 1] pad_before=[1, 0, 1] pad_after=[1, 0, 1] "
     "dilation=[1, 1, 1] ceil_mode=true "
     "=> f32[1, 1, 3, 2, 4]{-2, 5, 5, 1, -4, 3, 3, -1, 5, 5, 5, 1, 4, 4, 3, -1, 5, 5, 2, -2, 4, 4, "
     "0, -4} @kink",
     NULL},
    /* Padding never wins. */
    {"pool(f32[1, 1, 3]{-1, -2, -3}) kind=max" SAME3 " => f32[1, 1, 2]{-1, -2}", NULL},
    {"pool(f32[1, 1, 3]{1, 2, 3}) kind=min" SAME3 " => f32[1, 1, 2]{1, 2}", NULL},
    {"pool(f32[1, 1, 3]{3, 2, 4}) kind=sum" SAME3 " => f32[1, 1, 2]{5, 6}", NULL},
    {"pool(f32[1, 1, 3]{3, 2, 4}) kind=prod" SAME3 " => f32[1, 1, 2]{6, 8}", NULL},
    /* NaN wins; infinities are numbers. */
    {"pool(f32[1, 1, 6]{nan, 1, 3, 2, 1, nan}) kind=max" HALVES " => f32[1, 1, 3]{nan, 3, nan}",
     NULL},
    {"pool(f32[1, 1, 6]{nan, 1, 3, 2, 5, nan}) kind=min" HALVES " => f32[1, 1, 3]{nan, 2, nan}",
     NULL},
    {"pool(f32[1, 1, 4]{-inf, -inf, inf, 0}) kind=max" HALVES " => f32[1, 1, 2]{-inf, inf}", NULL},
    {"pool(f32[1, 1, 4]{-inf, inf, inf, inf}) kind=min" HALVES " => f32[1, 1, 2]{-inf, inf}", NULL},
    /* The divisor of avg: 3, 3, 3, then a window of which 2 positions are in the padded input. */
    {"pool(" ROW6 ") kind=avg" SAME3 " ceil_mode=true count_include_pad=true "
     "=> f32[1, 1, 4]{1, 1, 0.33333333, 0}",
     NULL},
    {"pool(" ROW6 ") kind=avg" SAME3 " ceil_mode=true count_include_pad=false "
     "=> f32[1, 1, 4]{1.5, 1, 0.33333333, 0}",
     NULL},
    {"pool(" ROW6 ") kind=avg" SAME3 " count_include_pad=true => f32[1, 1, 3]{1, 1, 0.33333333}",
     NULL},
    {"pool(" ROW8 ") kind=avg" WIDE " ceil_mode=true count_include_pad=true "
     "=> f32[1, 1, 4]{0.75, 1.75, 0.75, 1}",
     NULL},
    {"pool(" ROW8 ") kind=avg" WIDE " ceil_mode=true count_include_pad=false "
     "=> f32[1, 1, 4]{1.5, 1.75, 0.75, 3}",
     NULL},
    {"pool(" GRID ") kind=avg" PLANE " ceil_mode=true count_include_pad=true "
     "=> f32[1, 1, 2, 2]{-0.33333333, 0, 1, 0.83333333}",
     NULL},
    {"pool(" GRID ") kind=avg" PLANE " ceil_mode=true count_include_pad=false "
     "=> f32[1, 1, 2, 2]{-1, 0, 3, 1.25}",
     NULL},
    {"pool(f32[1, 1, 2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}) kind=avg "
     "kernel=[2, 2, 2] stride=[2, 2, 1] pad_before=[1, 0, 1] pad_after=[1, 0, 1] "
     "dilation=[1, 1, 1] ceil_mode=true count_include_pad=true "
     "=> f32[1, 1, 2, 2, 3]{-0.125, 0.125, 0.25, 1, 1, 0, -0.625, -0.875, -0.25, 0.5, 0, -0.5}",
     NULL},
    /* Each kind, paddings that differ, dilation. */
    {"pool(f32[1, 2, 4, 3]) kind=max" SKEWED, NULL},
    {"pool(f32[1, 2, 4, 3]) kind=min" SKEWED " ceil_mode=true", NULL},
    {"pool(f32[1, 2, 4, 3]) kind=sum" SKEWED " ceil_mode=true", NULL},
    {"pool(f32[1, 2, 4, 3]) kind=prod" SKEWED, NULL},
    {"pool(f32[1, 2, 4, 3]) kind=avg" SKEWED " ceil_mode=true count_include_pad=true", NULL},
    {"pool(f32[1, 2, 4, 3]) kind=avg" SKEWED " count_include_pad=false", NULL},
    {"pool(f32[1, 1, 5]{0, 0, 3, 2, 0}) kind=prod kernel=[2] stride=[1] pad_before=[0] "
     "pad_after=[0] dilation=[1] => f32[1, 1, 4]{0, 0, 6, 0}",
     NULL},
    {"pool(f32[1, 1, 7]{1, 2, 3, 4, 5, 6, 7}) kind=sum kernel=[2] stride=[4] pad_before=[0] "
     "pad_after=[0] dilation=[1] => f32[1, 1, 2]{3, 11}", /* elements between windows */
     NULL},
    /* A dilated window that steps over the whole input. */
    {"pool(f32[1, 1, 1]{7}) kind=max kernel=[2] stride=[1] pad_before=[1] pad_after=[1] "
     "dilation=[2] => f32[1, 1, 1]{-inf} @kink",
     NULL},
    {"pool(f32[1, 1, 1]{7}) kind=prod kernel=[2] stride=[1] pad_before=[1] pad_after=[1] "
     "dilation=[2] => f32[1, 1, 1]{1}",
     NULL},
    {"pool(f32[1, 1, 1]{7}) kind=avg kernel=[2] stride=[1] pad_before=[1] pad_after=[1] "
     "dilation=[2] count_include_pad=true => f32[1, 1, 1]{0}",
     NULL},
    {"pool(f32[1, 1, 1]) kind=min kernel=[1] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
     NULL},
    {"pool(f32[0, 2, 4]) kind=max" HALVES, NULL},
    {"pool(f32[2, 0, 4]) kind=avg" HALVES, NULL},
    {"pool(f32[1, 1, 0]) kind=max" HALVES " => f32[1, 1, 0]{}", NULL},
    {"pool(f32[1, 1, 2]) kind=max kernel=[3] stride=[2] pad_before=[0] pad_after=[0] dilation=[1] "
     "ceil_mode=true", /* a window cut off by the end */
     NULL},
    {"pool(bf16[1, 1, 5]) kind=avg" SAME3, NULL},
    {"pool(f16[1, 1, 5]) kind=max" SAME3, NULL},
    {"pool(f32[1, 1, 1]) kind=max" HALVES, "a window of 2 does not fit into [1]"},
    {"pool(f32[1, 1, 1]) kind=max kernel=[3] stride=[2] pad_before=[0] pad_after=[0] dilation=[1] "
     "ceil_mode=true",
     "a window of 3 does not fit into [1]"},
    {"pool(f32[1, 1, 0]) kind=max" SAME3 " ceil_mode=true", "nothing but padding"},
    {"pool(f32[1, 1, 4]) kind=max kernel=[2] stride=[1] pad_before=[2] pad_after=[0] dilation=[1]",
     "paddings 2 and 0 must be smaller than a window of 2"},
    {"pool(f32[1, 1, 4]) kind=sum kernel=[2] stride=[1] pad_before=[0] pad_after=[3] dilation=[2]",
     "paddings 0 and 3 must be smaller than a window of 3"},
    {"pool(f32[1, 1, 4]) kind=max kernel=[0] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
     "kernel must be 1 or more"},
    {"pool(f32[1, 1, 4, 4]) kind=max" HALVES, "each of 2 spatial axes, got 1"},
    {"pool(f32[1, 1, 4, 4]) kind=max kernel=[70000, 70000] stride=[70000, 70000] "
     "pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1] ceil_mode=true",
     "fewer than 2^31 elements"},
    {"pool(f32[1, 4]) kind=max" HALVES, "1 to 3 spatial axes"},
    {"pool(i32[1, 1, 4]) kind=max" HALVES, "must be f32"},
};

const op_impl op_impl_pool = {.infer = infer_pool_op,
                              .ref = ref_pool,
                              .grad = grad_pool,
                              .decompose = decompose_pool,
                              .element = element_pool,
                              CASES(cases)};
