/* expand: repeats along axes of size 1 and along new leading axes; -1 keeps an axis as it is. */
#include "ops/common.h"
#include "step/element.h"

static sn_status infer_expand(infer_ctx *c) {
  sn_shape want = ATTRS(expand)->shape, x = c->in[0].shape;
  int extra = want.rank - x.rank;
  if (extra < 0)
    return infer_fail(c, "%s does not expand to %s: fewer axes", infer_text(c, 0),
                      graph_shape_text(c->graph, want));
  for (int d = 0; d < want.rank; d++) {
    sn_dim have = d < extra ? 1 : x.dim[d - extra];
    if (want.dim[d] == -1 && d >= extra)
      want.dim[d] = have;
    if ((dim_is_number(want.dim[d]) && want.dim[d] < 0) || (have != 1 && have != want.dim[d]))
      return infer_fail(c, "%s does not expand to %s", infer_text(c, 0),
                        graph_shape_text(c->graph, ATTRS(expand)->shape));
  }
  c->out[0] = (sn_type){c->in[0].dtype, want};
  return SN_OK;
}

static sn_status ref_expand(ref_ctx *c) {
  int64_t index[SN_MAX_RANK] = {0};
  for (int64_t k = 0; k < c->out[0].count; k++) {
    c->out[0].data[k] = c->in[0].data[ref_broadcast_offset(&c->in[0], index, c->out[0].rank)];
    ref_next(index, c->out[0].dim, c->out[0].rank);
  }
  return SN_OK;
}

static void grad_expand(build_ctx *c) { build_din(c, 0, c->dout[0]); }

static uint16_t element_expand(elem_ctx *c, const place *at) { return elem_broadcast(c, 0, at); }

static const op_case cases[] = {
    {"expand(f32[3, 1]) shape=[3, 5]", NULL},
    {"expand(f32[3, 1]) shape=[2, -1, 4]", NULL},
    {"expand(f32[2, 1]{3, 5}) shape=[2, 2] => f32[2, 2]{3, 3, 5, 5}", NULL},
    {"expand(f32[]) shape=[2, 2]", NULL},
    {"expand(f32[1, 3]) shape=[0, 3]", NULL},
    {"expand(i32[1]) shape=[7]", NULL},
    {"expand(i32[2, 1]{1, 2}) shape=[2, 3] => i32[2, 3]{1, 1, 1, 2, 2, 2}", NULL},
    {"expand(i32[1, 2]{1, 2}) shape=[3, -1] => i32[3, 2]{1, 2, 1, 2, 1, 2}", NULL},
    {"expand(u8[2]{1, 2}) shape=[2, 2] => u8[2, 2]{1, 2, 1, 2}", NULL},
    {"expand(bool[]{1}) shape=[1, 2] => bool[1, 2]{1, 1}", NULL},
    {"expand(f16[1]{nan}) shape=[2] => f16[2]{nan, nan}", NULL},
    {"expand(bf16[1, 1, 3]) shape=[2, 2, 3]", NULL},
    {"expand(f32[0]) shape=[2, 0] => f32[2, 0]{}", NULL},
    {"expand(f32[0]) shape=[1]", "does not expand"},
    {"expand(f32[1]) shape=[-2]", "does not expand"},
    {"expand(f32[3]) shape=[4]", "does not expand"},
    {"expand(f32[3, 1]) shape=[3]", "fewer axes"},
    {"expand(f32[1]) shape=[-1, 1]", "does not expand"},
};

const op_impl op_impl_expand = {.infer = infer_expand,
                                .ref = ref_expand,
                                .grad = grad_expand,
                                .element = element_expand,
                                CASES(cases)};
