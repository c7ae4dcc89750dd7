/* What convolution and its two gradients share: the shapes x, w, y of  y = conv(x, w)  and one walk
 * over all products of that sum, from which each of the three is computed. */
#ifndef SINEW_OPS_CONV_WALK_H
#define SINEW_OPS_CONV_WALK_H

#include "ops/conv/window.h"

/* The spatial sizes of a shape or tensor [.., .., spatial…]; of numbers, as a list. */
sn_ints conv_kernel(const sn_shape *w);
sn_ints ref_conv_kernel(const ref_tensor *w);
sn_shape conv_spatial(sn_shape x);

/* Input i is a weight of n spatial axes: numbers only. */
sn_status infer_conv_weight(infer_ctx *c, int i, int n) SN_MUST_USE;
/* The shape of y for x [N, Cin, spatial…] and w [Cout, Cin/groups, kernel…]. */
sn_status infer_conv(infer_ctx *c, sn_shape x, sn_shape w, const window *win, int64_t groups,
                     sn_shape *out_y) SN_MUST_USE;

/* The three tensors of a convolution. x or y may be what is computed. */
typedef struct conv_tensors {
  const ref_tensor *x, *w, *y;
} conv_tensors;
/* A run of products along the last axis: x[i * step] * *w belongs to y[i], for i < n. */
typedef void (*conv_visit)(double *x, int64_t step, double *w, double *y, int64_t n);
/* What there is to do with one: y += x * w, x += w * y, w += x * y. */
void conv_add_to_y(double *x, int64_t step, double *w, double *y, int64_t n);
void conv_add_to_x(double *x, int64_t step, double *w, double *y, int64_t n);
void conv_add_to_w(double *x, int64_t step, double *w, double *y, int64_t n);
/* Calls visit so that each product x * w that the definition sums into y comes once. */
sn_status ref_conv_walk(ref_ctx *c, conv_tensors t, const window *win, int64_t groups,
                        conv_visit visit) SN_MUST_USE;
/* y (zeroed) = bias of its channel; nothing without one. */
void ref_conv_bias(ref_tensor *y, const ref_tensor *bias);

/* --- element --- */
/* The product of inputs 0 and 1 at these places, summed over the axes of the last elem_axes, in f32. A read that fails
 * its checks counts as 0: whoever fuses what makes an operand into the sum must see to that. */
reg elem_sum_products(elem_ctx *c, const place *a, const place *b);
/* The group of a channel, and the channel within it; groups of `each` channels. */
void elem_group(elem_ctx *c, const coord *channel, int64_t groups, int64_t each, coord *out_group,
                coord *out_within);
/* Channel `within` of a group. */
coord elem_channel(elem_ctx *c, const coord *group, int64_t each, const coord *within);

#endif
