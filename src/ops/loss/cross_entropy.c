/* cross_entropy of logits [.., C] with i32 labels [..]: (1 - s) * -log p[label] + s * mean over
 * classes of -log p, with s the smoothing. Rows labelled ignore_index give 0, whatever their
 * logits, and count nothing: mean divides by the number of the others, and is 0 if there are none.
 * Any other label outside of 0 … C-1 is an error. No softmax is stored: losses come from logsumexp,
 * the gradient from it too. */
#include "ops/loss/loss.h"
#include "ops/reduce/reduce.h"

enum { LOGITS, LABELS };

static sn_status infer_cross_entropy(infer_ctx *c) {
  const attrs_cross_entropy *a = ATTRS(cross_entropy);
  sn_shape rows = c->in[LOGITS].shape;
  SN_TRY(infer_float(c, LOGITS));
  SN_TRY(infer_dtype(c, LABELS, SN_I32));
  SN_TRY(infer_smoothing(c, a->smoothing));
  if (a->ignore_index < INT32_MIN || a->ignore_index > INT32_MAX)
    return infer_fail(c, "ignore_index must be a value of i32, got %lld",
                      (long long)a->ignore_index);
  if (rows.rank < 1)
    return infer_fail(c, "logits must be [.., C], got %s", infer_text(c, LOGITS));
  rows.rank--;
  SN_TRY(infer_shape(c, LABELS, rows, "one label a row of logits"));
  infer_loss(c, rows, a->reduction);
  return SN_OK;
}

static double row_loss(const double *x, int64_t classes, int64_t label, double smoothing) {
  double whole = logsumexp_slice(x, classes, 1), mean = 0;
  for (int64_t i = 0; i < classes; i++)
    mean += x[i] / (double)classes;
  /* A share of 0 must not make NaN of an infinite loss. */
  return (smoothing < 1 ? (1 - smoothing) * (whole - x[label]) : 0) +
         (smoothing > 0 ? smoothing * (whole - mean) : 0);
}

static sn_status ref_cross_entropy(ref_ctx *c) {
  const attrs_cross_entropy *a = ATTRS(cross_entropy);
  const ref_tensor *logits = &c->in[LOGITS], *labels = &c->in[LABELS];
  int64_t classes = logits->dim[logits->rank - 1], kept = 0;
  bool picks = a->smoothing < 1; /* else no loss depends on a label */
  for (int64_t row = 0; row < labels->count; row++) {
    int64_t label = (int64_t)labels->data[row];
    if (label == a->ignore_index && (classes > 0 || !picks))
      continue;
    if (picks && (label < 0 || label >= classes))
      return ref_fail(c, SN_ERR_INVALID,
                      "the label of row %lld is %lld, expected 0 … %lld or ignore_index %lld",
                      (long long)row, (long long)label, (long long)classes - 1,
                      (long long)a->ignore_index);
    ref_add_loss(c, a->reduction, row,
                 row_loss(logits->data + row * classes, classes, label, a->smoothing));
    kept++;
  }
  ref_end_loss(c, a->reduction, kept ? (double)kept : 1);
  return SN_OK;
}

/* A value of the rows as a column beside the logits; one for all rows stays. */
static sn_value column(build_ctx *c, sn_value v) {
  sn_shape shape = build_shape(c, c->in[LABELS]);
  if (!shape_equal(build_shape(c, v), shape))
    return v;
  shape.dim[shape.rank++] = 1;
  return sn_reshape(c->graph, v, shape);
}

/* bool, by row */
static sn_value kept_rows(build_ctx *c) {
  double ignore = (double)ATTRS(cross_entropy)->ignore_index;
  return sn_ne(c->graph, c->in[LABELS], sn_scalar(c->graph, SN_I32, ignore));
}

/* v over the number of kept rows */
static sn_value over_kept(build_ctx *c, sn_value v, sn_value kept) {
  sn_graph *g = c->graph;
  sn_value n = sn_sum(g, sn_cast(g, kept, SN_F32), SN_ALL_AXES, false);
  return sn_div(g, v, sn_maximum(g, n, sn_scalar(g, SN_F32, 1)));
}

/* The distribution that the labels stand for: s / C everywhere and 1 - s more at the label. */
static sn_value target(build_ctx *c, sn_dim classes) {
  sn_graph *g = c->graph;
  double s = ATTRS(cross_entropy)->smoothing;
  sn_value ids = sn_arange(g, SN_I32, classes, 0, 1);
  sn_value hot = sn_eq(g, ids, column(c, c->in[LABELS]));
  if (s == 0)
    return sn_cast(g, hot, SN_F32);
  sn_value low = build_over_count(c, sn_scalar(g, SN_F32, s), classes);
  return sn_where(g, hot, sn_affine(g, low, 1, 1 - s), low);
}

/* d_logits = (exp(logits - logsumexp) - target) * scale; exactly 0 in ignored rows. */
static void grad_cross_entropy(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value x = build_wide(c, c->in[LOGITS]), kept = kept_rows(c);
  sn_shape shape = build_shape(c, x);
  sn_value p = sn_exp(g, sn_sub(g, x, sn_logsumexp(g, x, SN_INTS(-1), true)));
  sn_value scale = build_wide(c, c->dout[0]);
  if (ATTRS(cross_entropy)->reduction == SN_REDUCTION_MEAN)
    scale = over_kept(c, scale, kept);
  sn_value rest = sn_sub(g, p, target(c, shape.dim[shape.rank - 1]));
  sn_value dx = sn_mul(g, rest, column(c, scale));
  dx = sn_where(g, column(c, kept), dx, sn_scalar(g, SN_F32, 0));
  build_din(c, LOGITS, build_narrow(c, dx, build_dtype(c, c->in[LOGITS])));
}

/* The loss of each row, were none ignored; `labels` are all in range. All is moved by the row's largest, lest a loss
 * near 0 drowns in the digits of large logits. */
static sn_value build_row_losses(build_ctx *c, sn_value x, sn_value labels) {
  sn_graph *g = c->graph;
  double s = ATTRS(cross_entropy)->smoothing;
  shifted_logs logs = build_shifted_logs(c, x, SN_INTS(-1));
  sn_value loss = SN_NONE;
  if (s < 1) {
    sn_value at_label = sn_gather_along(g, x, column(c, labels), -1);
    at_label = sn_sub(g, at_label, logs.by);
    loss = build_scale(c, sn_sub(g, logs.log_sum, at_label), 1 - s);
  }
  if (s > 0) {
    sn_value even = sn_sub(g, logs.log_sum, sn_mean(g, logs.moved, SN_INTS(-1), true));
    even = build_scale(c, even, s);
    loss = loss.id ? sn_add(g, loss, even) : even;
  }
  return sn_reshape(g, loss, build_shape(c, labels));
}

static void decompose_cross_entropy(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_reduction reduction = ATTRS(cross_entropy)->reduction;
  sn_value kept = kept_rows(c), any = sn_scalar(g, SN_I32, 0);
  sn_value labels = sn_where(g, kept, c->in[LABELS], any);
  sn_value each = build_row_losses(c, build_wide(c, c->in[LOGITS]), labels);
  each = sn_where(g, kept, each, sn_scalar(g, SN_F32, 0));
  if (reduction == SN_REDUCTION_MEAN)
    each = over_kept(c, sn_sum(g, each, SN_ALL_AXES, false), kept);
  build_loss_result(c, each, reduction == SN_REDUCTION_MEAN ? SN_REDUCTION_NONE : reduction);
}

/* Logits {0, ln 3} are the probabilities 1/4 and 3/4. */
static const op_case cases[] = {
    {"cross_entropy(f32[2, 5], i32[2]{4, 0}) ignore_index=-100 reduction=none", NULL},
    {"cross_entropy(f32[3, 5], i32[3]{1, -100, 3}) ignore_index=-100 reduction=mean", NULL},
    {"cross_entropy(f32[3, 5], i32[3]{1, 4, 3}) ignore_index=4 reduction=sum", NULL},
    {"cross_entropy(f32[3, 5], i32[3]{1, -100, 3}) ignore_index=-100 smoothing=0.25 reduction=none",
     NULL},
    {"cross_entropy(f32[2, 3, 3], i32[2, 3](0, 3)) ignore_index=-1 smoothing=0.1 reduction=mean",
     NULL},
    {"cross_entropy(f32[3, 5], i32[3]{1, 0, -7}) ignore_index=-7 smoothing=1 reduction=sum", NULL},
    {"cross_entropy(f32[2, 5], i32[2]{9, -3}) ignore_index=-3 smoothing=1 reduction=sum", NULL},
    {"cross_entropy(f32[7], i32[]{3}) ignore_index=-100 reduction=mean", NULL},
    {"cross_entropy(f32[3, 1], i32[3]{0}) ignore_index=-100 reduction=none => f32[3]{0}", NULL},
    {"cross_entropy(bf16[2, 5], i32[2]{4, 0}) ignore_index=-100 reduction=mean", NULL},
    {"cross_entropy(f16[2, 5], i32[2]{4, -100}) ignore_index=-100 reduction=mean", NULL},
    {"cross_entropy(f32[0, 5], i32[0]) ignore_index=-100 reduction=mean => f32[]{0}", NULL},
    {"cross_entropy(f32[0, 5], i32[0]) ignore_index=-100 reduction=sum => f32[]{0}", NULL},
    {"cross_entropy(f32[2, 2]{0, 1.09861228866811, 0, 1.09861228866811}, i32[2]{0, 1}) "
     "ignore_index=-100 reduction=none => f32[2]{1.38629436111989, 0.287682072451781}",
     NULL},
    {"cross_entropy(f32[2, 2]{0, 1.09861228866811, 7, 9}, i32[2]{0, -100}) ignore_index=-100 "
     "reduction=mean => f32[]{1.38629436111989}",
     NULL},
    {"cross_entropy(f32[2, 2]{0, 1.09861228866811, 0, 1.09861228866811}, i32[2]{0, 1}) "
     "ignore_index=-100 reduction=mean => f32[]{0.836988216785836}",
     NULL},
    {"cross_entropy(f32[2, 2]{0, 1.09861228866811, 0, 1.09861228866811}, i32[2]{0, 1}) "
     "ignore_index=1 reduction=sum => f32[]{1.38629436111989}",
     NULL},
    /* 0.75 * ln 4 + 0.25 * (ln 4 + ln 4/3) / 2 */
    {"cross_entropy(f32[1, 2]{0, 1.09861228866811}, i32[1]{0}) ignore_index=-100 smoothing=0.25 "
     "reduction=sum => f32[]{1.24896782503637}",
     NULL},
    {"cross_entropy(f32[2, 2]{1, 2, nan, inf}, i32[2]{-100, -100}) ignore_index=-100 "
     "reduction=mean "
     "=> f32[]{0}",
     NULL},
    {"cross_entropy(f32[2, 2]{1, 2, nan, inf}, i32[2]{-100, -100}) ignore_index=-100 "
     "reduction=none "
     "=> f32[2]{0, 0}",
     NULL},
    {"cross_entropy(f32[2, 3]{1000, -1000, -inf, 1000, -1000, -inf}, i32[2]{0, 1}) "
     "ignore_index=-100 reduction=none => f32[2]{0, 2000}",
     NULL},
    {"cross_entropy(f32[1, 2]{0, -inf}, i32[1]{1}) ignore_index=-100 reduction=none => f32[1]{inf}",
     NULL},
    {"cross_entropy(f32[1, 2]{0, -inf}, i32[1]{1}) ignore_index=-100 smoothing=1 reduction=none "
     "=> f32[1]{inf}",
     NULL},
    {"cross_entropy(f32[2, 2]{inf, 0, inf, 0}, i32[2]{1, 0}) ignore_index=-100 reduction=none "
     "=> f32[2]{inf, nan}",
     NULL},
    {"cross_entropy(f32[1, 2]{nan, 0}, i32[1]{1}) ignore_index=-100 reduction=none => f32[1]{nan}",
     NULL},
    {"cross_entropy(f32[2, 5], i32[2, 1]) ignore_index=0 reduction=mean", "one label a row"},
    {"cross_entropy(f32[2, 5], i32[5]) ignore_index=0 reduction=mean", "labels must be [2]"},
    {"cross_entropy(f32[2, 5], f32[2]) ignore_index=0 reduction=mean", "labels must be i32"},
    {"cross_entropy(i32[2, 5], i32[2]) ignore_index=0 reduction=mean", "must be f32"},
    {"cross_entropy(f32[], i32[]) ignore_index=0 reduction=mean", "must be [.., C]"},
    {"cross_entropy(f32[2, 5], i32[2]) smoothing=1.5 reduction=mean", "smoothing must lie in"},
    {"cross_entropy(f32[2, 5], i32[2]) ignore_index=4294967296 reduction=mean", "value of i32"},
};

const op_impl op_impl_cross_entropy = {.infer = infer_cross_entropy,
                                       .ref = ref_cross_entropy,
                                       .grad = grad_cross_entropy,
                                       .decompose = decompose_cross_entropy,
                                       CASES(cases)};
