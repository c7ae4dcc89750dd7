/* where: chooses elementwise between two values of one dtype (any dtype), all three broadcast.
 * What is not chosen never matters, NaN included; nor does it get a gradient. */
#include "ops/pointwise/pointwise.h"

static sn_status infer_where(infer_ctx *c) {
  sn_shape both;
  SN_TRY(infer_dtype(c, 0, SN_BOOL));
  SN_TRY(infer_same_dtype(c, 1, 2));
  SN_TRY(infer_broadcast(c, c->in[1].shape, c->in[2].shape, &both));
  c->out[0].dtype = c->in[1].dtype;
  return infer_broadcast(c, c->in[0].shape, both, &c->out[0].shape);
}

static sn_status ref_where(ref_ctx *c) {
  ref_tensor *y = &c->out[0];
  int64_t index[SN_MAX_RANK] = {0};
  for (int64_t k = 0; k < y->count; k++) {
    bool chosen = c->in[0].data[ref_broadcast_offset(&c->in[0], index, y->rank)] != 0;
    const ref_tensor *from = &c->in[chosen ? 1 : 2];
    y->data[k] = from->data[ref_broadcast_offset(from, index, y->rank)];
    ref_next(index, y->dim, y->rank);
  }
  return SN_OK;
}

static void grad_where(build_ctx *c) {
  sn_value zero = build_scalar_like(c, c->dout[0], 0);
  if (c->need[1])
    build_din(c, 1, sn_where(c->graph, c->in[0], c->dout[0], zero));
  if (c->need[2])
    build_din(c, 2, sn_where(c->graph, c->in[0], zero, c->dout[0]));
}

static reg element_where(elem_ctx *c, const place *at) {
  reg cond = elem_broadcast(c, 0, at), a = elem_broadcast(c, 1, at), b = elem_broadcast(c, 2, at);
  return elem_alu3(c, ALU_select, cond, a, b);
}

static const op_case cases[] = {
    {"where(bool[2, 3], f32[2, 3], f32[2, 3])", NULL},
    {"where(bool[2, 1]{1, 0}, f32[3, 1, 1], f32[5])", NULL},
    {"where(bool[7]{1, 0, 0, 1, 0, 1, 1}, f32[], f32[7])", NULL},
    {"where(bool[0, 3], f32[1], f32[3])", NULL},
    {"where(bool[]{0}, f32[2]{1, 2}, f32[2]{3, 4}) => f32[2]{3, 4}", NULL},
    {"where(bool[2, 1]{1, 0}, f32[3]{1, 2, 3}, f32[]{9}) => f32[2, 3]{1, 2, 3, 9, 9, 9}", NULL},
    {"where(bool[3]{1, 0, 1}, f32[3]{1, nan, inf}, f32[3]{nan, 2, nan}) => f32[3]{1, 2, inf}",
     NULL},
    {"where(bool[2]{1, 0}, f16[2]{1, 2}, f16[2]{3, 4}) => f16[2]{1, 4}", NULL},
    {"where(bool[2]{0, 1}, bf16[1]{1}, bf16[2]{3, 4}) => bf16[2]{3, 1}", NULL},
    {"where(bool[2]{1, 0}, i32[2]{1, 2}, i32[2]{3, 4}) => i32[2]{1, 4}", NULL},
    {"where(bool[2]{1, 0}, bool[1]{0}, bool[1]{1}) => bool[2]{0, 1}", NULL},
    {"where(u8[2], f32[2], f32[2])", "cond must be bool"},
    {"where(bool[2], f32[2], f16[2])", "dtypes differ"},
    {"where(bool[2], f32[3], f32[1])", "do not broadcast"},
    {"where(bool[2], f32[4], f32[3])", "do not broadcast"},
};

const op_impl op_impl_where = {.infer = infer_where,
                               .ref = ref_where,
                               .grad = grad_where,
                               .element = element_where,
                               CASES(cases)};
