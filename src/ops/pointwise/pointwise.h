/* What the pointwise families share. */
#ifndef SINEW_OPS_POINTWISE_H
#define SINEW_OPS_POINTWISE_H

#include "ops/common.h"

/* Two numbers of one dtype, broadcast; the result has that dtype. */
sn_status infer_binary_number(infer_ctx *c) SN_MUST_USE;
/* out = f(a, b), or i(a, b) where the dtype is an integer (i NULL: f serves both; u8 results are
 * wrapped to 0 … 255). */
sn_status ref_binary(ref_ctx *c, double (*f)(double, double),
                     double (*i)(double, double)) SN_MUST_USE;
/* out = f(x), elementwise. */
sn_status ref_unary(ref_ctx *c, double (*f)(double)) SN_MUST_USE;
/* out = f(x), or i(x) where the dtype is an integer (i NULL: f serves both); u8 wraps. */
sn_status ref_unary_number(ref_ctx *c, double (*f)(double), double (*i)(double)) SN_MUST_USE;
/* One float; the result has its type. */
sn_status infer_unary_float(infer_ctx *c) SN_MUST_USE;
/* One float or integer; the result has its type. */
sn_status infer_unary_number(infer_ctx *c) SN_MUST_USE;
/* Two floats of one dtype, broadcast; the result has that dtype. */
sn_status infer_binary_float(infer_ctx *c) SN_MUST_USE;

/* code(x) and code(a, b), the inputs broadcast. */
reg element_unary(elem_ctx *c, const place *at, alu code);
reg element_binary(elem_ctx *c, const place *at, alu code);

/* A vjp that passes nothing on: the gradient is zero wherever it exists. */
void grad_zero(build_ctx *c);
/* din[i] = factor * the gradient that arrives. */
void build_din_scaled(build_ctx *c, int i, sn_value factor);
/* A scalar of the dtype of v. */
sn_value build_scalar_like(build_ctx *c, sn_value v, double value);
/* value where cond holds, else 0. */
sn_value build_where_or_zero(build_ctx *c, sn_value cond, sn_value value);

#endif
