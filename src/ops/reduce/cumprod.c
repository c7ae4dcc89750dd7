/* cumprod along an axis: up to each element, or (exclusive) before it; from the end with reverse.
 * Integers wrap. */
#include "ops/reduce/reduce.h"

static sn_status infer_cumprod(infer_ctx *c) { return infer_scan(c, ATTRS(cumprod)->axis); }

static sn_status ref_cumprod(ref_ctx *c) {
  const attrs_cumprod *a = ATTRS(cumprod);
  ref_scan(c, a->axis, a->exclusive, a->reverse, &fold_multiply);
  return SN_OK;
}

/* out[i] = x[i + by] in the order of the scan, 0 beyond the end. */
static sn_value shifted(build_ctx *c, sn_value x, int axis, int64_t by) {
  sn_shape shape = build_shape(c, x);
  bool reverse = ATTRS(cumprod)->reverse;
  sn_ints before = {.n = shape.rank}, after = {.n = shape.rank};
  (reverse ? &before : &after)->v[axis] = by;
  sn_value grown = sn_pad(c->graph, x, before, after, SN_PAD_CONSTANT, 0);
  sn_dim start = reverse ? 0 : by;
  return sn_slice(c->graph, grown, axis, start, sn_dim_add(c->graph, shape.dim[axis], start), 1);
}

/* With the results from i on, dx[i] = (product before i) * s[i],
 *   s[i] = dy[i] + x[i+1] dy[i+1] + x[i+1] x[i+2] dy[i+2] + … = dy[i] + x[i+1] s[i+1]
 * (exclusive: the same from dy[i+1] on). No division, so zeros are no matter. The recurrence is
 * solved by doubling: when s covers `by` terms and step is the product over them,
 * s + step * s[i+by] covers twice as many. */
static void grad_cumprod(build_ctx *c) {
  const attrs_cumprod *a = ATTRS(cumprod);
  sn_graph *g = c->graph;
  sn_value x = c->in[0], s = c->dout[0];
  sn_shape shape = build_shape(c, x);
  int axis = resolve_axis(a->axis, shape.rank);
  int64_t longest = sn_dim_max(g, shape.dim[axis]);
  sn_value step = shifted(c, x, axis, 1);
  if (a->exclusive)
    s = shifted(c, s, axis, 1);
  for (int64_t by = 1; by < longest; by *= 2) {
    s = sn_add(g, s, sn_mul(g, step, shifted(c, s, axis, by)));
    if (by * 2 < longest)
      step = sn_mul(g, step, shifted(c, step, axis, by));
  }
  build_din(c, 0, sn_mul(g, sn_cumprod(g, x, a->axis, true, a->reverse), s));
}

static const op_case cases[] = {
    {"cumprod(f32[2, 5]) axis=-1", NULL},
    {"cumprod(f32[3, 5]) axis=0 exclusive=true", NULL},
    {"cumprod(f32[2, 3, 5]) axis=1 reverse=true", NULL},
    {"cumprod(f32[2, 5]) axis=1 exclusive=true reverse=true", NULL},
    {"cumprod(f32[11]) axis=0", NULL},
    {"cumprod(f32[1, 7]) axis=0", NULL},
    {"cumprod(f32[2]) axis=0 exclusive=true", NULL},
    {"cumprod(bf16[7]) axis=0", NULL},
    {"cumprod(f32[0, 3]) axis=0 => f32[0, 3]{}", NULL},
    {"cumprod(f32[3, 0]) axis=0 reverse=true", NULL},
    {"cumprod(f32[4]{1, 2, 3, 4}) axis=0 => f32[4]{1, 2, 6, 24}", NULL},
    {"cumprod(f32[4]{5, 2, 3, 4}) axis=0 exclusive=true => f32[4]{1, 5, 10, 30}", NULL},
    {"cumprod(f32[4]{5, 2, 3, 4}) axis=0 reverse=true => f32[4]{120, 24, 12, 4}", NULL},
    {"cumprod(f32[4]{5, 2, 3, 4}) axis=0 exclusive=true reverse=true => f32[4]{24, 12, 4, 1}",
     NULL},
    {"cumprod(f32[2, 2]{1, 2, 3, 4}) axis=-2 => f32[2, 2]{1, 2, 3, 8}", NULL},
    {"cumprod(f32[5]{2, 0, 3, 4, 5}) axis=0 => f32[5]{2, 0, 0, 0, 0}", NULL},
    {"cumprod(f32[5]{2, 0, 3, 0, 5}) axis=0", NULL},
    {"cumprod(f32[5]{2, 0, 3, 0, 5}) axis=0 exclusive=true reverse=true", NULL},
    {"cumprod(f32[3]{2, nan, 0}) axis=0 => f32[3]{2, nan, nan}", NULL},
    {"cumprod(i32[3]{65536, 65537, -1}) axis=0 => i32[3]{65536, 65536, -65536}", NULL},
    {"cumprod(u8[3]{16, 17, 2}) axis=0 => u8[3]{16, 16, 32}", NULL},
    {"cumprod(f32[2, 3]) axis=-3", "outside of rank"},
    {"cumprod(f32[]) axis=0", "outside of rank"},
    {"cumprod(bool[2]) axis=0", "must be a number"},
};

const op_impl op_impl_cumprod = {
    .infer = infer_cumprod, .ref = ref_cumprod, .grad = grad_cumprod, CASES(cases)};
