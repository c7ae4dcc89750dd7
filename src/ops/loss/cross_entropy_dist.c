/* cross_entropy_dist of logits [.., C] with target distributions [.., C]: the sum over classes of
 * ((1 - s) * target + s / C) * -log p, with s the smoothing; mean over the rows. Differentiable for
 * the target too, which need not sum to 1. */
#include "ops/loss/loss.h"

enum { LOGITS, TARGET };

static sn_status infer_cross_entropy_dist(infer_ctx *c) {
  sn_shape rows = c->in[LOGITS].shape;
  SN_TRY(infer_float(c, LOGITS));
  SN_TRY(infer_same_dtype(c, LOGITS, TARGET));
  SN_TRY(infer_smoothing(c, ATTRS(cross_entropy_dist)->smoothing));
  if (rows.rank < 1)
    return infer_fail(c, "logits must be [.., C], got %s", infer_text(c, LOGITS));
  SN_TRY(infer_shape(c, TARGET, rows, "losses do not broadcast"));
  rows.rank--;
  infer_loss(c, rows, ATTRS(cross_entropy_dist)->reduction);
  return SN_OK;
}

static sn_status ref_cross_entropy_dist(ref_ctx *c) {
  const attrs_cross_entropy_dist *a = ATTRS(cross_entropy_dist);
  int64_t classes = c->in[LOGITS].dim[c->in[LOGITS].rank - 1], rows = 1;
  for (int d = 0; d + 1 < c->in[LOGITS].rank; d++)
    rows *= c->in[LOGITS].dim[d];
  for (int64_t row = 0; row < rows; row++) {
    const double *x = c->in[LOGITS].data + row * classes;
    const double *t = c->in[TARGET].data + row * classes;
    double whole = logsumexp_slice(x, classes, 1), loss = 0;
    for (int64_t i = 0; i < classes; i++)
      loss += ((1 - a->smoothing) * t[i] + a->smoothing / (double)classes) * (whole - x[i]);
    ref_add_loss(c, a->reduction, row, loss);
  }
  ref_end_loss(c, a->reduction, (double)rows);
  return SN_OK;
}

static sn_value smoothed(build_ctx *c, sn_value t) {
  double s = ATTRS(cross_entropy_dist)->smoothing;
  sn_shape shape = build_shape(c, t);
  if (s == 0)
    return t;
  sn_value even = build_over_count(c, sn_scalar(c->graph, SN_F32, s), shape.dim[shape.rank - 1]);
  return sn_add(c->graph, build_scale(c, t, 1 - s), even);
}

static void decompose_cross_entropy_dist(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[LOGITS]), t = build_wide(c, c->in[TARGET]);
  sn_value surprise = sn_sub(g, sn_logsumexp(g, x, SN_INTS(-1), true), x);
  sn_value each = sn_sum(g, sn_mul(g, smoothed(c, t), surprise), SN_INTS(-1), false);
  build_loss_result(c, each, ATTRS(cross_entropy_dist)->reduction);
}

/* Logits {0, ln 3} are the probabilities 1/4 and 3/4. */
static const op_case cases[] = {
    {"cross_entropy_dist(f32[2, 5], f32[2, 5](0, 1)) reduction=none", NULL},
    {"cross_entropy_dist(f32[3, 5], f32[3, 5](0, 1)) smoothing=0.25 reduction=mean", NULL},
    {"cross_entropy_dist(f32[2, 3, 3], f32[2, 3, 3](0, 1)) smoothing=0.1 reduction=sum", NULL},
    {"cross_entropy_dist(f32[2, 5], f32[2, 5](0, 1)) smoothing=1 reduction=mean", NULL},
    {"cross_entropy_dist(f32[7], f32[7](0, 1)) reduction=mean", NULL},
    {"cross_entropy_dist(f32[3, 1], f32[3, 1](0, 1)) reduction=none => f32[3]{0}", NULL},
    {"cross_entropy_dist(bf16[2, 5], bf16[2, 5](0, 1)) reduction=mean", NULL},
    {"cross_entropy_dist(f32[0, 5], f32[0, 5]) reduction=mean => f32[]{nan}", NULL},
    {"cross_entropy_dist(f32[0, 5], f32[0, 5]) reduction=sum => f32[]{0}", NULL},
    {"cross_entropy_dist(f32[2, 2]{0, 1.09861228866811, 0, 1.09861228866811}, f32[2, 2]{1, 0, 0, "
     "2})"
     " reduction=none => f32[2]{1.38629436111989, 0.575364144903562}",
     NULL},
    {"cross_entropy_dist(f32[2, 2]{0, 1.09861228866811, 0, 1.09861228866811}, "
     "f32[2, 2]{0.5, 0.5, 1, 0}) reduction=mean => f32[]{1.11164128895286}",
     NULL},
    /* 0.75 * ln 4 + 0.25 * (ln 4 + ln 4/3) / 2 */
    {"cross_entropy_dist(f32[1, 2]{0, 1.09861228866811}, f32[1, 2]{1, 0}) smoothing=0.25 "
     "reduction=sum => f32[]{1.24896782503637}",
     NULL},
    {"cross_entropy_dist(f32[1, 2]{1000, -1000}, f32[1, 2]{0.5, 0.5}) reduction=none "
     "=> f32[1]{1000}",
     NULL},
    {"cross_entropy_dist(f32[2, 5], f32[5]) reduction=mean", "losses do not broadcast"},
    {"cross_entropy_dist(f32[2, 5], f32[2, 1]) reduction=mean", "losses do not broadcast"},
    {"cross_entropy_dist(f32[2, 5], f16[2, 5]) reduction=mean", "dtypes differ"},
    {"cross_entropy_dist(f32[], f32[]) reduction=mean", "must be [.., C]"},
    {"cross_entropy_dist(f32[2, 5], f32[2, 5]) smoothing=-1 reduction=mean",
     "smoothing must lie in"},
    {"cross_entropy_dist(i32[2, 5], i32[2, 5]) reduction=mean", "must be f32"},
};

const op_impl op_impl_cross_entropy_dist = {.infer = infer_cross_entropy_dist,
                                            .ref = ref_cross_entropy_dist,
                                            .grad_by_decompose = true,
                                            .decompose = decompose_cross_entropy_dist,
                                            CASES(cases)};
