/* flip: reversed along axes; none listed means all of them. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

static sn_status infer_flip(infer_ctx *c) {
  bool chosen[SN_MAX_RANK];
  c->out[0] = c->in[0];
  return infer_axes(c, &ATTRS(flip)->axes, c->in[0].shape.rank, chosen);
}

static sn_status ref_flip(ref_ctx *c) {
  const sn_ints *axes = &ATTRS(flip)->axes;
  const ref_tensor *x = &c->in[0];
  bool reversed[SN_MAX_RANK];
  int64_t stride[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  ref_strides(x, stride);
  for (int d = 0; d < x->rank; d++)
    reversed[d] = axes->n == 0;
  for (int i = 0; i < axes->n; i++)
    reversed[resolve_axis(axes->v[i], x->rank)] = true;
  for (int64_t k = 0; k < x->count; k++) {
    int64_t at = 0;
    for (int d = 0; d < x->rank; d++)
      at += stride[d] * (reversed[d] ? x->dim[d] - 1 - index[d] : index[d]);
    c->out[0].data[k] = x->data[at];
    ref_next(index, x->dim, x->rank);
  }
  return SN_OK;
}

static void grad_flip(build_ctx *c) {
  build_din(c, 0, sn_flip(c->graph, c->dout[0], ATTRS(flip)->axes));
}

static uint16_t element_flip(elem_ctx *c, const place *at) {
  const sn_ints *axes = &ATTRS(flip)->axes;
  place x = *at;
  for (int i = 0; i < (axes->n == 0 ? x.rank : axes->n); i++) {
    int d = axes->n == 0 ? i : resolve_axis(axes->v[i], x.rank);
    coord back = coord_scale(c->graph, &at->c[d], -1);
    x.c[d] = coord_shift(c->graph, &back, sn_dim_sub(c->graph, c->in[0].shape.dim[d], 1));
  }
  return elem_input(c, 0, &x);
}

static const op_case cases[] = {
    {"flip(f32[2, 3]) axes=[1]", NULL},
    {"flip(f32[2, 3, 5]) axes=[0, -1]", NULL},
    {"flip(f32[0, 3]) axes=[0]", NULL},
    {"flip(f32[1]) axes=[0]", NULL},
    {"flip(f32[]) axes=[]", NULL},
    {"flip(bf16[3]) axes=[-1]", NULL},
    {"flip(i32[2, 3]{1, 2, 3, 4, 5, 6}) axes=[-1] => i32[2, 3]{3, 2, 1, 6, 5, 4}", NULL},
    {"flip(i32[2, 3]{1, 2, 3, 4, 5, 6}) axes=[0] => i32[2, 3]{4, 5, 6, 1, 2, 3}", NULL},
    {"flip(u8[2, 3]{1, 2, 3, 4, 5, 6}) axes=[] => u8[2, 3]{6, 5, 4, 3, 2, 1}", NULL},
    {"flip(bool[3]{1, 1, 0}) axes=[0] => bool[3]{0, 1, 1}", NULL},
    {"flip(f16[2]{nan, 1}) axes=[0] => f16[2]{1, nan}", NULL},
    {"flip(f32[2, 3]) axes=[2]", "outside of rank"},
    {"flip(f32[2, 3]) axes=[1, -1]", "listed twice"},
};

const op_impl op_impl_flip = {
    .infer = infer_flip, .ref = ref_flip, .grad = grad_flip, .element = element_flip, CASES(cases)};
