/* transpose: result axis i is input axis perm[i]. */
#include "ops/common.h"
#include "step/element.h"

static sn_status infer_transpose(infer_ctx *c) {
  const sn_ints *perm = &ATTRS(transpose)->perm;
  sn_shape x = c->in[0].shape;
  bool used[SN_MAX_RANK] = {false};
  if (perm->n != x.rank)
    return infer_fail(c, "perm must list all %d axes of %s, got %d", x.rank, infer_text(c, 0),
                      perm->n);
  c->out[0] = c->in[0];
  for (int d = 0; d < x.rank; d++) {
    int axis;
    SN_TRY(infer_axis(c, perm->v[d], x.rank, &axis));
    if (used[axis])
      return infer_fail(c, "axis %lld is listed twice", (long long)perm->v[d]);
    used[axis] = true;
    c->out[0].shape.dim[d] = x.dim[axis];
  }
  return SN_OK;
}

static sn_status ref_transpose(ref_ctx *c) {
  const sn_ints *perm = &ATTRS(transpose)->perm;
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  int64_t stride[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  ref_strides(x, stride);
  for (int64_t k = 0; k < y->count; k++) {
    int64_t at = 0;
    for (int d = 0; d < y->rank; d++)
      at += index[d] * stride[resolve_axis(perm->v[d], x->rank)];
    y->data[k] = x->data[at];
    ref_next(index, y->dim, y->rank);
  }
  return SN_OK;
}

static void grad_transpose(build_ctx *c) {
  const sn_ints *perm = &ATTRS(transpose)->perm;
  sn_ints back = {.n = perm->n};
  for (int d = 0; d < perm->n; d++)
    back.v[resolve_axis(perm->v[d], perm->n)] = d;
  build_din(c, 0, sn_transpose(c->graph, c->dout[0], back));
}

static uint16_t element_transpose(elem_ctx *c, const place *at) {
  place x = *at;
  for (int d = 0; d < at->rank; d++)
    x.c[resolve_axis(ATTRS(transpose)->perm.v[d], at->rank)] = at->c[d];
  return elem_input(c, 0, &x);
}

static const op_case cases[] = {
    {"transpose(f32[2, 3]) perm=[1, 0]", NULL},
    {"transpose(f32[2, 3, 5]) perm=[2, 0, 1]", NULL},
    {"transpose(f32[2, 1, 3, 5]) perm=[0, -1, -3, -2]", NULL},
    {"transpose(f32[0, 3]) perm=[1, 0]", NULL},
    {"transpose(i32[2, 3]{1, 2, 3, 4, 5, 6}) perm=[1, 0] => i32[3, 2]{1, 4, 2, 5, 3, 6}", NULL},
    {"transpose(u8[2, 1, 3]{1, 2, 3, 4, 5, 6}) perm=[2, 1, 0] => u8[3, 1, 2]{1, 4, 2, 5, 3, 6}",
     NULL},
    {"transpose(i32[2, 2, 2]{1, 2, 3, 4, 5, 6, 7, 8}) perm=[1, 2, 0] => "
     "i32[2, 2, 2]{1, 5, 2, 6, 3, 7, 4, 8}",
     NULL},
    {"transpose(bool[1, 2]{1, 0}) perm=[-1, 0] => bool[2, 1]{1, 0}", NULL},
    {"transpose(f16[1, 2]{nan, inf}) perm=[1, 0] => f16[2, 1]{nan, inf}", NULL},
    {"transpose(bf16[2, 3]) perm=[1, 0]", NULL},
    {"transpose(f32[]) perm=[]", NULL},
    {"transpose(f32[2, 3]) perm=[0]", "must list all 2 axes"},
    {"transpose(f32[2, 3]) perm=[0, 0]", "listed twice"},
    {"transpose(f32[2, 3]) perm=[0, 2]", "outside of rank"},
};

const op_impl op_impl_transpose = {.infer = infer_transpose,
                                   .ref = ref_transpose,
                                   .grad = grad_transpose,
                                   .element = element_transpose,
                                   CASES(cases)};
