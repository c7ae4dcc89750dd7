/* What the losses share: a loss of each element (or row), then a reduction over them. Shapes of the
 * two arguments must agree; nothing broadcasts. Half dtypes are computed with as f32. */
#ifndef SINEW_OPS_LOSS_H
#define SINEW_OPS_LOSS_H

#include "ops/common.h"

/* --- infer --- */
/* out[0] from the shape of the single losses: that shape, or a scalar. */
void infer_loss(infer_ctx *c, sn_shape each, sn_reduction reduction);
/* Two floats of one dtype and shape, a loss for each element. */
sn_status infer_pair_loss(infer_ctx *c, sn_reduction reduction) SN_MUST_USE;
/* A share of smoothing lies in 0 … 1. */
sn_status infer_smoothing(infer_ctx *c, double smoothing) SN_MUST_USE;

/* --- ref --- */
/* Puts the loss of element k into the result. */
void ref_add_loss(ref_ctx *c, sn_reduction reduction, int64_t k, double loss);
/* After all of them: mean over count. */
void ref_end_loss(ref_ctx *c, sn_reduction reduction, double count);
/* The loss of each pair of elements; p is the op's parameter. */
sn_status ref_pair_loss(ref_ctx *c, sn_reduction reduction,
                        double (*f)(double a, double b, double p), double p) SN_MUST_USE;
/* logsumexp of n elements, `stride` apart. */
double logsumexp_slice(const double *x, int64_t n, int64_t stride);

/* --- grad and decompose, in f32 --- */
/* out[0] from the single losses. */
void build_loss_result(build_ctx *c, sn_value each, sn_reduction reduction);
/* The gradient of each single loss, of which there are `each`; a scalar where all have the same. */
sn_value build_loss_scale(build_ctx *c, sn_shape each, sn_reduction reduction);
/* din[i] = slope * scale in the dtype of input i, when it is needed. */
void build_loss_din(build_ctx *c, int i, sn_value slope, sn_value scale);

#endif
