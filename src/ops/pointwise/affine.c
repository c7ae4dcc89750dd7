/* affine: x * mul + add, rounded once. Floats, and integers where both numbers are whole and fit
 * i32: then it wraps as mul and add do. */
#include "ops/pointwise/pointwise.h"

static sn_status infer_affine(infer_ctx *c) {
  const attrs_affine *a = ATTRS(affine);
  SN_TRY(infer_unary_number(c));
  bool whole = dtype_round(SN_I32, a->mul) == a->mul && dtype_round(SN_I32, a->add) == a->add;
  if (dtype_is_int(c->in[0].dtype) && !whole)
    return infer_fail(c, "on %s, mul and add must be whole numbers, got %g and %g",
                      infer_text(c, 0), a->mul, a->add);
  return SN_OK;
}

static sn_status ref_affine(ref_ctx *c) {
  const attrs_affine *a = ATTRS(affine);
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  for (int64_t i = 0; i < y->count; i++) {
    if (!dtype_is_int(x->dtype))
      y->data[i] = x->data[i] * a->mul + a->add;
    else {
      int64_t exact = (int64_t)x->data[i] * (int64_t)a->mul + (int64_t)a->add;
      y->data[i] = y->dtype == SN_U8 ? (double)(exact & 0xff) : wrap_i32(exact);
    }
  }
  return SN_OK;
}

static void grad_affine(build_ctx *c) {
  build_din(c, 0, build_scale(c, c->dout[0], ATTRS(affine)->mul));
}

static reg element_affine(elem_ctx *c, const place *at) {
  return element_scaled(c, elem_input(c, 0, at), ATTRS(affine)->mul, ATTRS(affine)->add);
}

static const op_case cases[] = {
    {"affine(f32[2, 5]) mul=-1.5 add=0.25", NULL},
    {"affine(f32[3]) mul=0 add=7 => f32[3]{7, 7, 7}", NULL},
    {"affine(f32[0, 3]) mul=2 add=1", NULL},
    {"affine(f32[4]{-1.5, 3, -inf, nan}) mul=2 add=1 => f32[4]{-2, 7, -inf, nan}", NULL},
    {"affine(f16[2]{2, 60000}) mul=-2 add=0.5 => f16[2]{-3.5, -inf}", NULL},
    {"affine(bf16[1]{3}) mul=0.5 add=1 => bf16[1]{2.5}", NULL},
    {"affine(i32[3]{3, 1073741824, -7}) mul=2 add=-1 => i32[3]{5, 2147483647, -15}", NULL},
    {"affine(i32[1]{1073741824}) mul=2 add=1 => i32[1]{-2147483647}", NULL},
    {"affine(u8[3]{3, 100, 0}) mul=3 add=-1 => u8[3]{8, 43, 255}", NULL},
    {"affine(i32[2]) mul=0.5 add=0", "must be whole numbers"},
    {"affine(i32[2]) mul=1 add=3000000000", "must be whole numbers"},
    {"affine(bool[2]) mul=1 add=0", "must be a number"},
};

const op_impl op_impl_affine = {.infer = infer_affine,
                                .ref = ref_affine,
                                .grad = grad_affine,
                                .element = element_affine,
                                CASES(cases)};
