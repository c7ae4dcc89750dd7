/* full: one number everywhere. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

static sn_status infer_full(infer_ctx *c) {
  const attrs_full *a = ATTRS(full);
  c->out[0] = (sn_type){a->dtype, a->shape};
  SN_TRY(infer_sizes(c, &a->shape));
  return infer_holds(c, a->dtype, a->value);
}

static sn_status ref_full(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = ATTRS(full)->value;
  return SN_OK;
}

static uint16_t element_full(elem_ctx *c, const place *at) {
  (void)at;
  return elem_number(c, dtype_round(ATTRS(full)->dtype, ATTRS(full)->value));
}

static const op_case cases[] = {
    {"full() dtype=f32 shape=[2, 3] value=1.5", NULL},
    {"full() dtype=i32 shape=[1] value=-7 => i32[1]{-7}", NULL},
    {"full() dtype=bool shape=[] value=1", NULL},
    {"full() dtype=f16 shape=[0, 5] value=inf", NULL},
    {"full() dtype=f16 shape=[1] value=65520 => f16[1]{inf}", NULL},
    {"full() dtype=bf16 shape=[2] value=257 => bf16[2]{256, 256}", NULL},
    {"full() dtype=f32 shape=[] value=nan => f32[]{nan}", NULL},
    {"full() dtype=u8 shape=[3] value=255 => u8[3]{255, 255, 255}", NULL},
    {"full() dtype=f32 shape=[2, -3] value=0", "negative"},
    {"full() dtype=u8 shape=[2] value=256", "256 is not a value of u8"},
    {"full() dtype=bool shape=[2] value=2", "2 is not a value of bool"},
    {"full() dtype=i32 shape=[2] value=nan", "is not a value of i32"},
    {"full() dtype=i32 shape=[2] value=0.5", "is not a value of i32"},
};

const op_impl op_impl_full = {.infer = infer_full,
                              .ref = ref_full,
                              .no_grad = "it has no arguments",
                              .element = element_full,
                              CASES(cases)};
