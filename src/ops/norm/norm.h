/* What the normalisations share. In all of them input 0 is x and, where the op has them, inputs 1
 * and 2 are weight and bias, each of which may be left out by itself. Statistics are f64 in the
 * reference and f32 in decompositions and gradients, whatever the dtype. */
#ifndef SINEW_OPS_NORM_H
#define SINEW_OPS_NORM_H

#include "ops/common.h"

/* --- infer --- */
/* eps is a finite number, 0 or more. */
sn_status infer_eps(infer_ctx *c, double eps) SN_MUST_USE;
/* Input i, if it is there, has this shape and the dtype of x. `what` says of what it is one. */
sn_status infer_parameter(infer_ctx *c, int i, sn_shape shape, const char *what) SN_MUST_USE;
/* x is a float [N, C, …]; inputs 1 … last are [C]. */
sn_status infer_channels(infer_ctx *c, int last) SN_MUST_USE;

/* --- ref --- */
/* y = (x - mean) / sqrt(var + eps), or without mean: x / sqrt(mean(x^2) + eps). */
void norm_row(const double *x, double *y, int64_t n, double eps, bool centred);
/* Result 0 times weight plus bias, which have one entry for each of n places that `inner`
 * consecutive elements share. */
void ref_scale(ref_ctx *c, int64_t n, int64_t inner);

/* --- grad and decompose, in f32 --- */
typedef struct normed {
  sn_value distance; /* x - mean, or x */
  sn_value var;      /* mean of its squares, with keepdims */
  sn_value inverse;  /* rsqrt(var + eps) */
  sn_value hat;      /* distance * inverse */
  sn_value mean;     /* SN_NONE unless centred */
  sn_ints axes;
} normed;
normed build_normed(build_ctx *c, sn_value x, sn_ints axes, double eps, bool centred);
/* The gradient for x of one for hat. */
sn_value build_normed_grad(build_ctx *c, const normed *n, sn_value d_hat);

/* [C, 1, …]: how a [C] stands beside an x of this shape. */
sn_shape channel_view(sn_shape x);
/* Times weight; plus bias, in the dtype of x; both. `view` is how these stand beside hat. */
sn_value build_weighted(build_ctx *c, sn_value x, sn_shape view);
sn_value build_shifted(build_ctx *c, sn_value x, sn_shape view);
sn_value build_scaled(build_ctx *c, sn_value hat, sn_shape view);
/* Of dout[0]: fills din for weight and bias, yields the gradient for hat. */
sn_value build_scaled_grad(build_ctx *c, sn_value hat, sn_shape view);
/* An f32 gradient for input i that stands as `view`: summed, in its shape and dtype. */
void build_din_view(build_ctx *c, int i, sn_value grad, sn_shape view);

#endif
