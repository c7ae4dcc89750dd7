/* mean over axes, of floats; NaN over nothing. */
#include "ops/reduce/reduce.h"

static sn_status infer_mean(infer_ctx *c) {
  if (dtype_is_int(c->in[0].dtype))
    return infer_fail(
        c, "the mean of integers is seldom one: cast x to a float first (sn_cast), got %s",
        infer_text(c, 0));
  SN_TRY(infer_float(c, 0));
  return infer_reduced(c, &ATTRS(mean)->axes, ATTRS(mean)->keepdims, c->in[0].dtype);
}

static sn_status ref_mean(ref_ctx *c) {
  reduce_walk w;
  reduce_walk_start(&w, &c->in[0], &ATTRS(mean)->axes);
  ref_fold(c, &ATTRS(mean)->axes, &fold_add);
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] /= (double)w.count;
  return SN_OK;
}

/* dx = dy / n */
static void grad_mean(build_ctx *c) {
  const attrs_mean *a = ATTRS(mean);
  sn_shape shape = build_shape(c, c->in[0]);
  sn_value share = build_over_count(c, c->dout[0], build_reduced_count(c, shape, a->axes));
  sn_value kept = build_keepdims(c, share, shape, a->axes, a->keepdims);
  build_din(c, 0, sn_expand(c->graph, kept, shape));
}

static void decompose_mean(build_ctx *c) {
  const attrs_mean *a = ATTRS(mean);
  sn_value x = c->in[0], total = sn_sum(c->graph, build_wide(c, x), a->axes, a->keepdims);
  sn_dim n = build_reduced_count(c, build_shape(c, x), a->axes);
  c->out[0] = build_narrow(c, build_over_count(c, total, n), build_dtype(c, x));
}

static const op_case cases[] = {
    {"mean(f32[2, 3])", NULL},
    {"mean(f32[2, 3, 5]) axes=[1] keepdims=true", NULL},
    {"mean(f32[2, 3, 5]) axes=[-1, 0]", NULL},
    {"mean(f32[3, 1, 7]) axes=[-2]", NULL},
    {"mean(f32[])", NULL},
    {"mean(f16[7])", NULL},
    {"mean(bf16[2, 5]) axes=[1]", NULL},
    {"mean(f32[2, 3]{1, 2, 6, -1, -2, -6}) axes=[1] => f32[2]{3, -3}", NULL},
    {"mean(f32[2, 3]{1, 2, 6, 3, 4, 0}) axes=[0] keepdims=true => f32[1, 3]{2, 3, 3}", NULL},
    {"mean(f16[4]{60000, 60000, 60000, 60000}) => f16[]{60000}", NULL},
    {"mean(f32[3]{1, nan, 2}) => f32[]{nan}", NULL},
    {"mean(f32[3]{1, -inf, 2}) => f32[]{-inf}", NULL},
    {"mean(f32[0, 3]) axes=[0] => f32[3]{nan}", NULL},
    {"mean(f32[0]) => f32[]{nan}", NULL},
    {"mean(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"mean(f32[2, 3]) axes=[2]", "outside of rank"},
    {"mean(f32[2, 3]) axes=[1, 1]", "listed twice"},
    {"mean(i32[3])", "cast"},
    {"mean(u8[3])", "cast"},
    {"mean(bool[2])", "must be f32"},
};

const op_impl op_impl_mean = {.infer = infer_mean,
                              .ref = ref_mean,
                              .grad = grad_mean,
                              .decompose = decompose_mean,
                              CASES(cases)};
