/* cast: any dtype to any. To an integer it truncates and saturates, from integers too, and NaN
 * gives 0; to f16 and bf16 it rounds to nearest even; to bool it is x != 0, so true for NaN. The
 * gradient of float to float is the cast back; elsewhere there is none to pass. */
#include "ops/pointwise/pointwise.h"

static sn_status infer_cast(infer_ctx *c) {
  c->out[0] = (sn_type){ATTRS(cast)->dtype, c->in[0].shape};
  return SN_OK;
}

/* The interpreter rounds to the dtype of the result; integers and bool are rounded in every
 * mode. */
static sn_status ref_cast(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = c->in[0].data[i];
  return SN_OK;
}

static void grad_cast(build_ctx *c) {
  build_din(c, 0, sn_cast(c->graph, c->dout[0], build_dtype(c, c->in[0])));
}

static reg element_cast(elem_ctx *c, const place *at) { return element_unary(c, at, ALU_cast); }

static const op_case cases[] = {
    {"cast(f32[2, 5]) dtype=f16", NULL},
    {"cast(bf16[3]) dtype=f32", NULL},
    {"cast(f32[3]) dtype=f32", NULL},
    {"cast(f32[0]) dtype=i32", NULL},
    {"cast(f32[8]{2.9, -2.9, 3e9, -3e9, nan, inf, -inf, 0.5}) dtype=i32 => "
     "i32[8]{2, -2, 2147483647, -2147483648, 0, 2147483647, -2147483648, 0}",
     NULL},
    {"cast(f32[6]{2.9, -0.9, -5, 300, nan, inf}) dtype=u8 => u8[6]{2, 0, 0, 255, 0, 255}", NULL},
    {"cast(i32[4]{-1, 7, 255, 256}) dtype=u8 => u8[4]{0, 7, 255, 255}", NULL},
    {"cast(f32[5]{0, -0.0, 0.25, nan, -inf}) dtype=bool => bool[5]{0, 0, 1, 1, 1}", NULL},
    {"cast(i32[3]{0, -1, 2}) dtype=bool => bool[3]{0, 1, 1}", NULL},
    {"cast(bool[2]{0, 1}) dtype=f32 => f32[2]{0, 1}", NULL},
    {"cast(u8[2]{0, 255}) dtype=i32 => i32[2]{0, 255}", NULL},
    {"cast(i32[2]{16777217, 16777219}) dtype=f32 => f32[2]{16777216, 16777220}", NULL},
    {"cast(f32[5]{1.00048828125, 1.00146484375, 65519, 65520, -1e6}) dtype=f16 => "
     "f16[5]{1, 1.001953125, 65504, inf, -inf}",
     NULL},
    {"cast(f32[4]{1.00390625, 1.01171875, nan, 3.4e38}) dtype=bf16 => bf16[4]{1, 1.015625, nan, "
     "inf}",
     NULL},
    {"cast(f16[1]{0.5}) dtype=bf16 => bf16[1]{0.5}", NULL},
    {"cast(none) dtype=f32", "x is missing"},
};

const op_impl op_impl_cast = {
    .infer = infer_cast, .ref = ref_cast, .grad = grad_cast, .element = element_cast, CASES(cases)};
