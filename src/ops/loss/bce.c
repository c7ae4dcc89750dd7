/* bce and bce_logits: binary cross-entropy of probabilities and of logits, for targets in 0 … 1
 * (not checked), which may be differentiated for too. */
#include "ops/loss/loss.h"

/* --- bce: both logarithms are clamped at -100, so that the loss of a wrong certainty is 100. The
 * gradient for p is (p - t) / max(p * (1 - p), 1e-12): that of the unclamped loss, bounded, so that
 * a wrong certainty is still drawn back. --- */
static const double LOWEST_LOG = -100, LEAST_SPREAD = 1e-12;

static sn_status infer_bce(infer_ctx *c) { return infer_pair_loss(c, ATTRS(bce)->reduction); }

static double clamped(double log) { return log < LOWEST_LOG ? LOWEST_LOG : log; }

static double of_probability(double p, double t, double unused) {
  (void)unused;
  return -(t * clamped(log(p)) + (1 - t) * clamped(log1p(-p)));
}

static sn_status ref_bce(ref_ctx *c) {
  return ref_pair_loss(c, ATTRS(bce)->reduction, of_probability, 0);
}

typedef struct logs {
  sn_value p, t;          /* the arguments in f32 */
  sn_value of_p, of_rest; /* clamped logarithms of p and 1 - p */
} logs;

static logs build_logs(build_ctx *c) {
  sn_graph *g = c->graph;
  logs l = {.p = build_wide(c, c->in[0]), .t = build_wide(c, c->in[1])};
  l.of_p = sn_clamp(g, sn_log(g, l.p), LOWEST_LOG, INFINITY);
  l.of_rest = sn_clamp(g, sn_log1p(g, sn_neg(g, l.p)), LOWEST_LOG, INFINITY);
  return l;
}

static void grad_bce(build_ctx *c) {
  sn_graph *g = c->graph;
  logs l = build_logs(c);
  sn_value scale = build_loss_scale(c, build_shape(c, c->in[0]), ATTRS(bce)->reduction);
  sn_value spread = sn_mul(g, l.p, sn_affine(g, l.p, -1, 1));
  spread = sn_clamp(g, spread, LEAST_SPREAD, INFINITY);
  build_loss_din(c, 0, sn_div(g, sn_sub(g, l.p, l.t), spread), scale);
  build_loss_din(c, 1, sn_sub(g, l.of_rest, l.of_p), scale);
}

static void decompose_bce(build_ctx *c) {
  sn_graph *g = c->graph;
  logs l = build_logs(c);
  sn_value rest = sn_mul(g, sn_affine(g, l.t, -1, 1), l.of_rest);
  build_loss_result(c, sn_neg(g, sn_add(g, sn_mul(g, l.t, l.of_p), rest)), ATTRS(bce)->reduction);
}

static const op_case bce_cases[] = {
    {"bce(f32[2, 3](0.05, 0.95), f32[2, 3](0, 1)) reduction=none", NULL},
    {"bce(f32[2, 3](0.05, 0.95), f32[2, 3](0, 1)) reduction=mean", NULL},
    {"bce(f32[7](0.05, 0.95), f32[7](0, 1)) reduction=sum", NULL},
    {"bce(f32[1](0.05, 0.95), f32[1](0, 1)) reduction=mean", NULL},
    {"bce(bf16[5](0.05, 0.95), bf16[5](0, 1)) reduction=mean", NULL},
    {"bce(f32[3]{0.5, 0.25, 0.25}, f32[3]{1, 0, 0.5}) reduction=none "
     "=> f32[3]{0.693147180559945, 0.287682072451781, 0.836988216785836}",
     NULL},
    {"bce(f32[4]{0, 0, 1, 1}, f32[4]{0, 1, 0, 1}) reduction=none => f32[4]{0, 100, 100, 0} @kink",
     NULL},
    {"bce(f32[2]{0, 1}, f32[2]{1, 1}) reduction=mean => f32[]{50} @kink", NULL},
    {"bce(f32[2]{nan, 0.5}, f32[2]{1, nan}) reduction=none => f32[2]{nan, nan}", NULL},
    {"bce(f32[0], f32[0]) reduction=mean => f32[]{nan}", NULL},
    {"bce(f32[0], f32[0]) reduction=sum => f32[]{0}", NULL},
    {"bce(f32[2, 3], f32[3]) reduction=mean", "losses do not broadcast"},
    {"bce(f32[2], f16[2]) reduction=mean", "dtypes differ"},
    {"bce(i32[2], i32[2]) reduction=mean", "must be f32"},
};

const op_impl op_impl_bce = {.infer = infer_bce,
                             .ref = ref_bce,
                             .grad = grad_bce,
                             .decompose = decompose_bce,
                             CASES(bce_cases)};

/* --- bce_logits: softplus(x) - x * t --- */
static sn_status infer_bce_logits(infer_ctx *c) {
  return infer_pair_loss(c, ATTRS(bce_logits)->reduction);
}

static double of_logit(double x, double t, double unused) {
  (void)unused;
  return fmax(x, 0) - x * t + log1p(exp(-fabs(x)));
}

static sn_status ref_bce_logits(ref_ctx *c) {
  return ref_pair_loss(c, ATTRS(bce_logits)->reduction, of_logit, 0);
}

static void grad_bce_logits(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[0]), t = build_wide(c, c->in[1]);
  sn_value scale = build_loss_scale(c, build_shape(c, x), ATTRS(bce_logits)->reduction);
  build_loss_din(c, 0, sn_sub(g, sn_sigmoid(g, x), t), scale);
  if (c->need[1])
    build_loss_din(c, 1, x, sn_neg(g, scale));
}

static void decompose_bce_logits(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[0]), t = build_wide(c, c->in[1]);
  sn_value each = sn_sub(g, sn_softplus(g, x), sn_mul(g, x, t));
  build_loss_result(c, each, ATTRS(bce_logits)->reduction);
}

static const op_case bce_logits_cases[] = {
    {"bce_logits(f32[2, 3], f32[2, 3](0, 1)) reduction=none", NULL},
    {"bce_logits(f32[2, 3], f32[2, 3](0, 1)) reduction=mean", NULL},
    {"bce_logits(f32[7], f32[7](0, 1)) reduction=sum", NULL},
    {"bce_logits(f32[1], f32[1](0, 1)) reduction=mean", NULL},
    {"bce_logits(f16[5], f16[5](0, 1)) reduction=mean", NULL},
    {"bce_logits(f32[4]{0, 0, 1000, -1000}, f32[4]{1, 0, 0, 1}) reduction=none "
     "=> f32[4]{0.693147180559945, 0.693147180559945, 1000, 1000}",
     NULL},
    {"bce_logits(f32[3]{1000, -1000, 2}, f32[3]{1, 0, 0.25}) reduction=none "
     "=> f32[3]{0, 0, 1.62692801104297}",
     NULL},
    {"bce_logits(f32[2]{0, 1000}, f32[2]{1, 0}) reduction=mean => f32[]{500.346573590280}", NULL},
    {"bce_logits(f32[2]{nan, 1}, f32[2]{1, nan}) reduction=none => f32[2]{nan, nan}", NULL},
    {"bce_logits(f32[0], f32[0]) reduction=mean => f32[]{nan}", NULL},
    {"bce_logits(f32[0], f32[0]) reduction=sum => f32[]{0}", NULL},
    {"bce_logits(f32[2, 3], f32[2, 1]) reduction=mean", "losses do not broadcast"},
    {"bce_logits(f32[2], bf16[2]) reduction=mean", "dtypes differ"},
    {"bce_logits(i32[2], i32[2]) reduction=mean", "must be f32"},
};

const op_impl op_impl_bce_logits = {.infer = infer_bce_logits,
                                    .ref = ref_bce_logits,
                                    .grad = grad_bce_logits,
                                    .decompose = decompose_bce_logits,
                                    CASES(bce_logits_cases)};
