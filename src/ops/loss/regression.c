/* mse, l1, huber, smooth_l1: losses of the difference d = a - b. Each gradient is a slope of d for
 * a and its negative for b. */
#include "ops/loss/loss.h"

static sn_value difference(build_ctx *c) {
  return sn_sub(c->graph, build_wide(c, c->in[0]), build_wide(c, c->in[1]));
}

static void grad_difference(build_ctx *c, sn_value slope, sn_reduction reduction) {
  sn_value scale = build_loss_scale(c, build_shape(c, c->in[0]), reduction);
  build_loss_din(c, 0, slope, scale);
  if (c->need[1])
    build_loss_din(c, 1, slope, sn_neg(c->graph, scale));
}

/* --- mse --- */
static sn_status infer_mse(infer_ctx *c) { return infer_pair_loss(c, ATTRS(mse)->reduction); }

static double square(double a, double b, double unused) {
  (void)unused;
  return (a - b) * (a - b);
}

static sn_status ref_mse(ref_ctx *c) { return ref_pair_loss(c, ATTRS(mse)->reduction, square, 0); }

static void grad_mse(build_ctx *c) {
  grad_difference(c, build_scale(c, difference(c), 2), ATTRS(mse)->reduction);
}

static void decompose_mse(build_ctx *c) {
  build_loss_result(c, sn_sqr(c->graph, difference(c)), ATTRS(mse)->reduction);
}

static const op_case mse_cases[] = {
    {"mse(f32[2, 3], f32[2, 3]) reduction=none", NULL},
    {"mse(f32[2, 3], f32[2, 3]) reduction=mean", NULL},
    {"mse(f32[7], f32[7]) reduction=sum", NULL},
    {"mse(f32[], f32[]) reduction=mean", NULL},
    {"mse(f32[1], f32[1]) reduction=sum", NULL},
    {"mse(bf16[5], bf16[5]) reduction=mean", NULL},
    {"mse(f32[2]{1, 5}, f32[2]{4, 1}) reduction=none => f32[2]{9, 16}", NULL},
    {"mse(f32[2]{1, 5}, f32[2]{4, 1}) reduction=mean => f32[]{12.5}", NULL},
    {"mse(f32[2]{1, 5}, f32[2]{4, 1}) reduction=sum => f32[]{25}", NULL},
    {"mse(f16[4]{300, 0, 0, 0}, f16[4]{0}) reduction=mean => f16[]{22496} @kink", NULL},
    {"mse(f32[2]{nan, 5}, f32[2]{4, 1}) reduction=none => f32[2]{nan, 16}", NULL},
    {"mse(f32[0, 3], f32[0, 3]) reduction=mean => f32[]{nan}", NULL},
    {"mse(f32[0, 3], f32[0, 3]) reduction=sum => f32[]{0}", NULL},
    {"mse(f32[0, 3], f32[0, 3]) reduction=none => f32[0, 3]{}", NULL},
    {"mse(f32[2, 3], f32[3]) reduction=mean", "losses do not broadcast"},
    {"mse(f32[2, 3], f32[2, 1]) reduction=mean", "losses do not broadcast"},
    {"mse(f32[2], f16[2]) reduction=mean", "dtypes differ"},
    {"mse(i32[2], i32[2]) reduction=mean", "must be f32"},
};

const op_impl op_impl_mse = {.infer = infer_mse,
                             .ref = ref_mse,
                             .grad = grad_mse,
                             .decompose = decompose_mse,
                             CASES(mse_cases)};

/* --- l1 --- */
static sn_status infer_l1(infer_ctx *c) { return infer_pair_loss(c, ATTRS(l1)->reduction); }

static double distance(double a, double b, double unused) {
  (void)unused;
  return fabs(a - b);
}

static sn_status ref_l1(ref_ctx *c) { return ref_pair_loss(c, ATTRS(l1)->reduction, distance, 0); }

static void grad_l1(build_ctx *c) {
  grad_difference(c, sn_sign(c->graph, difference(c)), ATTRS(l1)->reduction);
}

static void decompose_l1(build_ctx *c) {
  build_loss_result(c, sn_abs(c->graph, difference(c)), ATTRS(l1)->reduction);
}

static const op_case l1_cases[] = {
    {"l1(f32[2, 3], f32[2, 3]) reduction=none", NULL},
    {"l1(f32[2, 3], f32[2, 3]) reduction=mean", NULL},
    {"l1(f32[7], f32[7]) reduction=sum", NULL},
    {"l1(f32[1], f32[1]) reduction=mean", NULL},
    {"l1(f16[5], f16[5]) reduction=mean", NULL},
    {"l1(f32[3]{1, 5, 2}, f32[3]{4, 1, 2}) reduction=none => f32[3]{3, 4, 0} @kink", NULL},
    {"l1(f32[2]{1, 5}, f32[2]{4, 1}) reduction=mean => f32[]{3.5}", NULL},
    {"l1(f32[2]{1, 5}, f32[2]{4, 1}) reduction=sum => f32[]{7}", NULL},
    {"l1(f32[0], f32[0]) reduction=mean => f32[]{nan}", NULL},
    {"l1(f32[0], f32[0]) reduction=sum => f32[]{0}", NULL},
    {"l1(f32[2, 3], f32[3]) reduction=mean", "losses do not broadcast"},
    {"l1(f32[2], bf16[2]) reduction=mean", "dtypes differ"},
};

const op_impl op_impl_l1 = {
    .infer = infer_l1, .ref = ref_l1, .grad = grad_l1, .decompose = decompose_l1, CASES(l1_cases)};

/* --- huber --- */
static sn_status infer_huber(infer_ctx *c) {
  double delta = ATTRS(huber)->delta;
  if (!(delta > 0) || isinf(delta))
    return infer_fail(c, "delta must be a finite number above 0, got %g", delta);
  return infer_pair_loss(c, ATTRS(huber)->reduction);
}

static double bent(double a, double b, double delta) {
  double d = fabs(a - b);
  return d > delta ? delta * (d - delta / 2) : d * d / 2;
}

static sn_status ref_huber(ref_ctx *c) {
  return ref_pair_loss(c, ATTRS(huber)->reduction, bent, ATTRS(huber)->delta);
}

static void grad_huber(build_ctx *c) {
  double delta = ATTRS(huber)->delta;
  grad_difference(c, sn_clamp(c->graph, difference(c), -delta, delta), ATTRS(huber)->reduction);
}

/* With m = min(|d|, delta), both branches are m * (|d| - m / 2). */
static sn_value build_huber(build_ctx *c, double delta) {
  sn_graph *g = c->graph;
  sn_value size = sn_abs(g, difference(c)), m = sn_clamp(g, size, 0, delta);
  return sn_mul(g, m, sn_sub(g, size, build_scale(c, m, 0.5)));
}

static void decompose_huber(build_ctx *c) {
  build_loss_result(c, build_huber(c, ATTRS(huber)->delta), ATTRS(huber)->reduction);
}

static const op_case huber_cases[] = {
    {"huber(f32[2, 3], f32[2, 3]) delta=1 reduction=none", NULL},
    {"huber(f32[2, 5], f32[2, 5]) delta=0.5 reduction=mean", NULL},
    {"huber(f32[7], f32[7]) delta=1.5 reduction=sum", NULL},
    {"huber(f32[1], f32[1]) delta=1 reduction=mean", NULL},
    {"huber(bf16[5], bf16[5]) delta=1 reduction=mean", NULL},
    {"huber(f32[4]{1, 2, 3, -6}, f32[4]{0}) delta=2 reduction=none => f32[4]{0.5, 2, 4, 10} @kink",
     NULL},
    {"huber(f32[2]{1, 3}, f32[2]{0}) delta=2 reduction=mean => f32[]{2.25}", NULL},
    {"huber(f32[2]{1, 3}, f32[2]{0}) delta=2 reduction=sum => f32[]{4.5}", NULL},
    {"huber(f32[2]{nan, inf}, f32[2]{0}) delta=2 reduction=none => f32[2]{nan, inf}", NULL},
    {"huber(f32[0], f32[0]) delta=1 reduction=mean => f32[]{nan}", NULL},
    {"huber(f32[0], f32[0]) delta=1 reduction=sum => f32[]{0}", NULL},
    {"huber(f32[2], f32[2]) delta=0 reduction=mean", "delta must be"},
    {"huber(f32[2, 3], f32[3]) delta=1 reduction=mean", "losses do not broadcast"},
    {"huber(f32[2], f16[2]) delta=1 reduction=mean", "dtypes differ"},
};

const op_impl op_impl_huber = {.infer = infer_huber,
                               .ref = ref_huber,
                               .grad = grad_huber,
                               .decompose = decompose_huber,
                               CASES(huber_cases)};

/* --- smooth_l1: huber over its parameter; beta 0 is l1 --- */
static sn_status infer_smooth_l1(infer_ctx *c) {
  double beta = ATTRS(smooth_l1)->beta;
  if (!(beta >= 0) || isinf(beta))
    return infer_fail(c, "beta must be a finite number, 0 or more, got %g", beta);
  return infer_pair_loss(c, ATTRS(smooth_l1)->reduction);
}

static double smooth(double a, double b, double beta) {
  double d = fabs(a - b);
  return d < beta ? d * d / (2 * beta) : d - beta / 2;
}

static sn_status ref_smooth_l1(ref_ctx *c) {
  return ref_pair_loss(c, ATTRS(smooth_l1)->reduction, smooth, ATTRS(smooth_l1)->beta);
}

static void grad_smooth_l1(build_ctx *c) {
  double beta = ATTRS(smooth_l1)->beta;
  sn_value d = difference(c);
  sn_value slope =
      beta == 0 ? sn_sign(c->graph, d) : sn_clamp(c->graph, build_scale(c, d, 1 / beta), -1, 1);
  grad_difference(c, slope, ATTRS(smooth_l1)->reduction);
}

static void decompose_smooth_l1(build_ctx *c) {
  double beta = ATTRS(smooth_l1)->beta;
  sn_value each =
      beta == 0 ? sn_abs(c->graph, difference(c)) : build_scale(c, build_huber(c, beta), 1 / beta);
  build_loss_result(c, each, ATTRS(smooth_l1)->reduction);
}

static const op_case smooth_l1_cases[] = {
    {"smooth_l1(f32[2, 3], f32[2, 3]) beta=1 reduction=none", NULL},
    {"smooth_l1(f32[2, 5], f32[2, 5]) beta=0.5 reduction=mean", NULL},
    {"smooth_l1(f32[7], f32[7]) beta=1.5 reduction=sum", NULL},
    {"smooth_l1(f32[2, 3], f32[2, 3]) beta=0 reduction=mean", NULL},
    {"smooth_l1(f32[1], f32[1]) beta=1 reduction=mean", NULL},
    {"smooth_l1(f16[5], f16[5]) beta=1 reduction=mean", NULL},
    {"smooth_l1(f32[4]{1, 2, 3, -6}, f32[4]{0}) beta=2 reduction=none "
     "=> f32[4]{0.25, 1, 2, 5} @kink",
     NULL},
    {"smooth_l1(f32[3]{1, -2, 0}, f32[3]{0}) beta=0 reduction=none => f32[3]{1, 2, 0} @kink", NULL},
    {"smooth_l1(f32[2]{1, 3}, f32[2]{0}) beta=2 reduction=mean => f32[]{1.125}", NULL},
    {"smooth_l1(f32[2]{1, 3}, f32[2]{0}) beta=2 reduction=sum => f32[]{2.25}", NULL},
    {"smooth_l1(f32[0], f32[0]) beta=1 reduction=mean => f32[]{nan}", NULL},
    {"smooth_l1(f32[0], f32[0]) beta=1 reduction=sum => f32[]{0}", NULL},
    {"smooth_l1(f32[2], f32[2]) beta=-1 reduction=mean", "beta must be"},
    {"smooth_l1(f32[2, 3], f32[3]) beta=1 reduction=mean", "losses do not broadcast"},
    {"smooth_l1(f32[2], f16[2]) beta=1 reduction=mean", "dtypes differ"},
};

const op_impl op_impl_smooth_l1 = {.infer = infer_smooth_l1,
                                   .ref = ref_smooth_l1,
                                   .grad = grad_smooth_l1,
                                   .decompose = decompose_smooth_l1,
                                   CASES(smooth_l1_cases)};
