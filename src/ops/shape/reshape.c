/* reshape: the same elements in another shape; one dim may be -1 and is then what remains. */
#include "ops/common.h"
#include "step/element.h"

static sn_status resolve(infer_ctx *c, sn_shape *out) {
  sn_shape want = ATTRS(reshape)->shape, rest = {0};
  int open = -1;
  for (int d = 0; d < want.rank; d++) {
    if (want.dim[d] == -1 && open < 0)
      open = d;
    else if (want.dim[d] < 0 && dim_is_number(want.dim[d]))
      return infer_fail(c, "%s: only one dim may be -1, none below",
                        graph_shape_text(c->graph, want));
    else
      rest.dim[rest.rank++] = want.dim[d];
  }
  *out = want;
  sn_dim have = dim_count(c->graph, c->in[0].shape), used = dim_count(c->graph, rest);
  if (open >= 0 ? !dim_divide(c->graph, have, used, &out->dim[open]) : have != used)
    return infer_fail(c, "%s does not fit into %s", infer_text(c, 0),
                      graph_shape_text(c->graph, want));
  return SN_OK;
}

static sn_status infer_reshape(infer_ctx *c) {
  c->out[0].dtype = c->in[0].dtype;
  return resolve(c, &c->out[0].shape);
}

static sn_status ref_reshape(ref_ctx *c) {
  memcpy(c->out[0].data, c->in[0].data, (size_t)c->out[0].count * sizeof(double));
  return SN_OK;
}

static void grad_reshape(build_ctx *c) {
  build_din(c, 0, sn_reshape(c->graph, c->dout[0], build_shape(c, c->in[0])));
}

static uint16_t element_reshape(elem_ctx *c, const place *at) {
  place x;
  if (!place_reshape(c, c->graph, c->axis_extents, c->out[0].shape, at, c->in[0].shape, &x))
    return elem_number(c, 0); /* never: with registers every place can be said */
  return elem_input(c, 0, &x);
}

static const op_case cases[] = {
    {"reshape(f32[2, 3]) shape=[3, 2]", NULL},
    {"reshape(f32[2, 3]) shape=[-1]", NULL},
    {"reshape(f32[5]) shape=[1, 5, -1]", NULL},
    {"reshape(f32[0, 3]) shape=[3, 0]", NULL},
    {"reshape(i32[1]) shape=[]", NULL},
    {"reshape(bool[6]) shape=[2, 3]", NULL},
    {"reshape(i32[2, 3]{1, 2, 3, 4, 5, 6}) shape=[3, -1] => i32[3, 2]{1, 2, 3, 4, 5, 6}", NULL},
    {"reshape(u8[4]{1, 2, 3, 4}) shape=[2, 2] => u8[2, 2]{1, 2, 3, 4}", NULL},
    {"reshape(f16[2]{nan, inf}) shape=[2, 1] => f16[2, 1]{nan, inf}", NULL},
    {"reshape(bf16[0, 3]) shape=[-1, 3] => bf16[0, 3]{}", NULL},
    {"reshape(f32[0, 3]) shape=[-1, 0]", "does not fit"},
    {"reshape(f32[2, 3]) shape=[4, -1]", "does not fit"},
    {"reshape(f32[2, 3]) shape=[4]", "does not fit"},
    {"reshape(f32[2, 3]) shape=[-1, -1]", "only one dim"},
    {"reshape(f32[2, 3]) shape=[-2, 3]", "only one dim"},
};

const op_impl op_impl_reshape = {.infer = infer_reshape,
                                 .ref = ref_reshape,
                                 .grad = grad_reshape,
                                 .element = element_reshape,
                                 CASES(cases)};
