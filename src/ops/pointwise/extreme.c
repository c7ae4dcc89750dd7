/* maximum, minimum, clamp, relu: floats and integers. NaN wins over every number. */
#include "ops/pointwise/pointwise.h"

/* --- maximum and minimum --- */
static double max_of(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b); }
static double min_of(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b); }
static sn_status ref_maximum(ref_ctx *c) { return ref_binary(c, max_of, NULL); }
static sn_status ref_minimum(ref_ctx *c) { return ref_binary(c, min_of, NULL); }

typedef sn_value compare_op(sn_graph *g, sn_value a, sn_value b);

/* All to the one that wins, half to each at a tie, nothing where a NaN won. */
static void grad_extreme(build_ctx *c, compare_op *wins) {
  sn_graph *g = c->graph;
  sn_value tied = sn_eq(g, c->in[0], c->in[1]);
  sn_value half = build_where_or_zero(c, tied, build_scale(c, c->dout[0], 0.5));
  for (int i = 0; i < 2; i++)
    if (c->need[i])
      build_din(c, i, sn_where(g, wins(g, c->in[i], c->in[1 - i]), c->dout[0], half));
}
static void grad_maximum(build_ctx *c) { grad_extreme(c, sn_gt); }
static void grad_minimum(build_ctx *c) { grad_extreme(c, sn_lt); }

static reg element_maximum(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_max); }
static reg element_minimum(elem_ctx *c, const place *at) { return element_binary(c, at, ALU_min); }

static const op_case maximum_cases[] = {
    {"maximum(f32[2, 3], f32[2, 3])", NULL},
    {"maximum(f32[5, 1, 3], f32[7, 1])", NULL},
    {"maximum(f32[], f32[5])", NULL},
    {"maximum(f32[0, 3], f32[1])", NULL},
    {"maximum(f32[5]{1, nan, 2, -inf, 3}, f32[5]{2, 1, nan, 5, 3}) => f32[5]{2, nan, nan, 5, 3}",
     NULL},
    {"maximum(f32[3]{2, 1, 0}, f32[3]{2, 1, 0}) => f32[3]{2, 1, 0} @kink", NULL},
    {"maximum(f16[3], f16[1])", NULL},
    {"maximum(bf16[1]{3}, bf16[1]{4}) => bf16[1]{4}", NULL},
    {"maximum(i32[2]{-2147483648, 7}, i32[2]{3, -1}) => i32[2]{3, 7}", NULL},
    {"maximum(u8[2]{255, 7}, u8[1]{16}) => u8[2]{255, 16}", NULL},
    {"maximum(f32[2], f32[3])", "do not broadcast"},
    {"maximum(f32[2], f16[2])", "dtypes differ"},
    {"maximum(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_maximum = {.infer = infer_binary_number,
                                 .ref = ref_maximum,
                                 .grad = grad_maximum,
                                 .element = element_maximum,
                                 CASES(maximum_cases)};

static const op_case minimum_cases[] = {
    {"minimum(f32[2, 3], f32[2, 3])", NULL},
    {"minimum(f32[5, 1, 3], f32[7, 1])", NULL},
    {"minimum(f32[], f32[5])", NULL},
    {"minimum(f32[0, 3], f32[1])", NULL},
    {"minimum(f32[5]{1, nan, 2, -inf, 3}, f32[5]{2, 1, nan, 5, 3}) => f32[5]{1, nan, nan, -inf, 3}",
     NULL},
    {"minimum(f32[3]{2, 1, 0}, f32[3]{2, 1, 0}) => f32[3]{2, 1, 0} @kink", NULL},
    {"minimum(f16[3], f16[1])", NULL},
    {"minimum(bf16[1]{3}, bf16[1]{4}) => bf16[1]{3}", NULL},
    {"minimum(i32[2]{-2147483648, 7}, i32[2]{3, -1}) => i32[2]{-2147483648, -1}", NULL},
    {"minimum(u8[2]{255, 7}, u8[1]{16}) => u8[2]{16, 7}", NULL},
    {"minimum(f32[2], f32[3])", "do not broadcast"},
    {"minimum(f32[2], f16[2])", "dtypes differ"},
    {"minimum(bool[2], bool[2])", "must be a number"},
};

const op_impl op_impl_minimum = {.infer = infer_binary_number,
                                 .ref = ref_minimum,
                                 .grad = grad_minimum,
                                 .element = element_minimum,
                                 CASES(minimum_cases)};

/* --- clamp: an end may be infinite; on integers a finite end must be a value of the dtype --- */
static sn_status infer_clamp(infer_ctx *c) {
  double lo = ATTRS(clamp)->lo, hi = ATTRS(clamp)->hi;
  SN_TRY(infer_unary_number(c));
  if (!(lo <= hi))
    return infer_fail(c, "lo must not be above hi, got %g and %g", lo, hi);
  sn_dtype t = c->in[0].dtype;
  bool fits = (isinf(lo) || dtype_round(t, lo) == lo) && (isinf(hi) || dtype_round(t, hi) == hi);
  if (dtype_is_int(t) && (!fits || lo == (double)INFINITY || hi == (double)-INFINITY))
    return infer_fail(c, "lo and hi must be values of %s, got %g and %g", sn_dtype_name(t), lo, hi);
  return SN_OK;
}

static sn_status ref_clamp(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = min_of(max_of(c->in[0].data[i], ATTRS(clamp)->lo), ATTRS(clamp)->hi);
  return SN_OK;
}

/* Inside the closed interval is where the value stayed as it was. */
static void grad_clamp(build_ctx *c) {
  sn_value kept = sn_eq(c->graph, c->in[0], c->out[0]);
  build_din(c, 0, build_where_or_zero(c, kept, c->dout[0]));
}

/* An infinite end leaves everything as it is, integers too. */
static reg element_clamp(elem_ctx *c, const place *at) {
  double lo = ATTRS(clamp)->lo, hi = ATTRS(clamp)->hi;
  reg y = elem_input(c, 0, at);
  if (lo != (double)-INFINITY)
    y = elem_alu2(c, ALU_max, y, elem_number(c, lo));
  return hi == (double)INFINITY ? y : elem_alu2(c, ALU_min, y, elem_number(c, hi));
}

static const op_case clamp_cases[] = {
    {"clamp(f32[2, 7]) lo=-1 hi=0.5", NULL},
    {"clamp(f32[5]) lo=-inf hi=0.25", NULL},
    {"clamp(f32[0]) lo=0 hi=1", NULL},
    {"clamp(f32[7]{-3, -1, 0, 2, 5, nan, inf}) lo=-1 hi=2 => f32[7]{-1, -1, 0, 2, 2, nan, 2} @kink",
     NULL},
    {"clamp(f32[3]{-3, 1, 4}) lo=1 hi=1 => f32[3]{1, 1, 1} @kink", NULL},
    {"clamp(f16[3]{-7, 0, 9}) lo=-1 hi=inf => f16[3]{-1, 0, 9}", NULL},
    {"clamp(bf16[1]{3}) lo=0 hi=1 => bf16[1]{1}", NULL},
    {"clamp(i32[3]{-7, 3, 9}) lo=-1 hi=5 => i32[3]{-1, 3, 5}", NULL},
    {"clamp(i32[2]{-2147483648, 9}) lo=-inf hi=5 => i32[2]{-2147483648, 5}", NULL},
    {"clamp(u8[2]{3, 200}) lo=10 hi=100 => u8[2]{10, 100}", NULL},
    {"clamp(f32[2]) lo=1 hi=0", "lo must not be above hi"},
    {"clamp(f32[2]) lo=nan hi=0", "lo must not be above hi"},
    {"clamp(i32[2]) lo=0.5 hi=3", "must be values of i32"},
    {"clamp(u8[2]) lo=0 hi=256", "must be values of u8"},
    {"clamp(bool[2]) lo=0 hi=1", "must be a number"},
};

const op_impl op_impl_clamp = {.infer = infer_clamp,
                               .ref = ref_clamp,
                               .grad = grad_clamp,
                               .element = element_clamp,
                               CASES(clamp_cases)};

/* --- relu --- */
static double relu(double x) { return max_of(x, 0); }
static sn_status ref_relu(ref_ctx *c) { return ref_unary(c, relu); }

/* By the result, which what follows keeps anyway: it is above 0 where x is, and NaN where x is. */
static void grad_relu(build_ctx *c) {
  sn_value above = sn_gt(c->graph, c->out[0], build_scalar_like(c, c->out[0], 0));
  build_din(c, 0, build_where_or_zero(c, above, c->dout[0]));
}

static reg element_relu(elem_ctx *c, const place *at) {
  reg x = elem_input(c, 0, at);
  return elem_alu2(c, ALU_max, x, elem_number(c, 0));
}

static const op_case relu_cases[] = {
    {"relu(f32[2, 7])", NULL},
    {"relu(f32[0])", NULL},
    {"relu(f32[6]{-3, -0.0, 2, nan, inf, -inf}) => f32[6]{0, 0, 2, nan, inf, 0} @kink", NULL},
    {"relu(f16[3]{-7, 1, 9}) => f16[3]{0, 1, 9}", NULL},
    {"relu(bf16[1]{-3}) => bf16[1]{0}", NULL},
    {"relu(i32[3]{-7, 3, -2147483648}) => i32[3]{0, 3, 0}", NULL},
    {"relu(bool[2])", "must be a number"},
};

const op_impl op_impl_relu = {.infer = infer_unary_number,
                              .ref = ref_relu,
                              .grad = grad_relu,
                              .element = element_relu,
                              CASES(relu_cases)};
