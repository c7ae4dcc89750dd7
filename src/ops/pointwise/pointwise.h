/* What the pointwise families share. */
#ifndef SINEW_OPS_POINTWISE_H
#define SINEW_OPS_POINTWISE_H

#include "ops/common.h"

/* Two numbers of one dtype, broadcast; the result has that dtype. */
sn_status infer_binary_number(infer_ctx *c) SN_MUST_USE;
/* out = f(a, b), or i(a, b) where the dtype is an integer (i NULL: f serves both; u8 results are wrapped
 * to 0 … 255). */
sn_status ref_binary(ref_ctx *c, double (*f)(double, double), double (*i)(double, double))
    SN_MUST_USE;
/* out = f(x), elementwise. */
sn_status ref_unary(ref_ctx *c, double (*f)(double)) SN_MUST_USE;
/* One float; the result has its type. */
sn_status infer_unary_float(infer_ctx *c) SN_MUST_USE;

#endif
