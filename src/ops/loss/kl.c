/* kl: exp(target) * (target - input) of log-probabilities, 0 where target is -inf (p log p goes to
 * 0). mean is over all elements. */
#include "ops/loss/loss.h"

static sn_status infer_kl(infer_ctx *c) { return infer_pair_loss(c, ATTRS(kl)->reduction); }

static double divergence(double input, double target, double unused) {
  (void)unused;
  return target == -INFINITY ? 0 : exp(target) * (target - input);
}

static sn_status ref_kl(ref_ctx *c) {
  return ref_pair_loss(c, ATTRS(kl)->reduction, divergence, 0);
}

typedef struct parts {
  sn_value p;   /* exp(target) */
  sn_value gap; /* target - input, 0 where target is -inf */
} parts;

static parts build_parts(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value input = build_wide(c, c->in[0]), target = build_wide(c, c->in[1]);
  sn_value empty = sn_eq(g, target, sn_scalar(g, SN_F32, -INFINITY));
  sn_value gap = sn_where(g, empty, sn_scalar(g, SN_F32, 0), sn_sub(g, target, input));
  return (parts){sn_exp(g, target), gap};
}

/* d_input = -p, d_target = p * (gap + 1) */
static void grad_kl(build_ctx *c) {
  sn_graph *g = c->graph;
  parts k = build_parts(c);
  sn_value scale = build_loss_scale(c, build_shape(c, c->in[0]), ATTRS(kl)->reduction);
  if (c->need[0])
    build_loss_din(c, 0, k.p, sn_neg(g, scale));
  if (c->need[1])
    build_loss_din(c, 1, sn_mul(g, k.p, sn_affine(g, k.gap, 1, 1)), scale);
}

static void decompose_kl(build_ctx *c) {
  parts k = build_parts(c);
  build_loss_result(c, sn_mul(c->graph, k.p, k.gap), ATTRS(kl)->reduction);
}

static const op_case cases[] = {
    {"kl(f32[2, 3](-3, 0), f32[2, 3](-3, 0)) reduction=none", NULL},
    {"kl(f32[2, 3](-3, 0), f32[2, 3](-3, 0)) reduction=mean", NULL},
    {"kl(f32[7](-3, 0), f32[7](-3, 0)) reduction=sum", NULL},
    {"kl(f32[1](-3, 0), f32[1](-3, 0)) reduction=mean", NULL},
    {"kl(bf16[5](-3, 0), bf16[5](-3, 0)) reduction=mean", NULL},
    {"kl(f32[3]{-2, -1, 3}, f32[3]{0, -1, 0}) reduction=none => f32[3]{2, 0, -3}", NULL},
    {"kl(f32[2]{-2, 3}, f32[2]{0, 0}) reduction=mean => f32[]{-0.5}", NULL},
    {"kl(f32[2]{-2, 3}, f32[2]{0, 0}) reduction=sum => f32[]{-1}", NULL},
    {"kl(f32[1]{0}, f32[1]{-1}) reduction=sum => f32[]{-0.367879441171442}", NULL},
    {"kl(f32[4]{-2, -inf, -inf, nan}, f32[4]{-inf, -inf, 0, 0}) reduction=none "
     "=> f32[4]{0, 0, inf, nan}",
     NULL},
    {"kl(f32[0], f32[0]) reduction=mean => f32[]{nan}", NULL},
    {"kl(f32[0], f32[0]) reduction=sum => f32[]{0}", NULL},
    {"kl(f32[2, 3], f32[3]) reduction=mean", "losses do not broadcast"},
    {"kl(f32[2], f16[2]) reduction=mean", "dtypes differ"},
    {"kl(i32[2], i32[2]) reduction=mean", "must be f32"},
};

const op_impl op_impl_kl = {
    .infer = infer_kl, .ref = ref_kl, .grad = grad_kl, .decompose = decompose_kl, CASES(cases)};
