/* cumsum along an axis: up to each element, or (exclusive) before it; from the end with reverse.
 * Integers wrap. */
#include "ops/reduce/reduce.h"

static sn_status infer_cumsum(infer_ctx *c) { return infer_scan(c, ATTRS(cumsum)->axis); }

static sn_status ref_cumsum(ref_ctx *c) {
  const attrs_cumsum *a = ATTRS(cumsum);
  ref_scan(c, a->axis, a->exclusive, a->reverse, &fold_add);
  return SN_OK;
}

/* An element counts in all results from it on: the same sum the other way round. */
static void grad_cumsum(build_ctx *c) {
  const attrs_cumsum *a = ATTRS(cumsum);
  build_din(c, 0, sn_cumsum(c->graph, c->dout[0], a->axis, a->exclusive, !a->reverse));
}

static const op_case cases[] = {
    {"cumsum(f32[2, 5]) axis=-1", NULL},
    {"cumsum(f32[3, 5]) axis=0 exclusive=true", NULL},
    {"cumsum(f32[2, 3, 5]) axis=1 reverse=true", NULL},
    {"cumsum(f32[2, 5]) axis=1 exclusive=true reverse=true", NULL},
    {"cumsum(f32[1, 7]) axis=0", NULL},
    {"cumsum(bf16[7]) axis=0", NULL},
    {"cumsum(f32[0, 3]) axis=0 => f32[0, 3]{}", NULL},
    {"cumsum(f32[3, 0]) axis=0 reverse=true", NULL},
    {"cumsum(f32[4]{1, 2, 3, 4}) axis=0 => f32[4]{1, 3, 6, 10}", NULL},
    {"cumsum(f32[4]{1, 2, 3, 4}) axis=0 exclusive=true => f32[4]{0, 1, 3, 6}", NULL},
    {"cumsum(f32[4]{1, 2, 3, 4}) axis=0 reverse=true => f32[4]{10, 9, 7, 4}", NULL},
    {"cumsum(f32[4]{1, 2, 3, 4}) axis=0 exclusive=true reverse=true => f32[4]{9, 7, 4, 0}", NULL},
    {"cumsum(f32[2, 2]{1, 2, 3, 4}) axis=-2 => f32[2, 2]{1, 2, 4, 6}", NULL},
    {"cumsum(f32[4]{1, nan, 2, inf}) axis=0 => f32[4]{1, nan, nan, nan}", NULL},
    {"cumsum(i32[3]{2147483647, 1, 1}) axis=0 => i32[3]{2147483647, -2147483648, -2147483647}",
     NULL},
    {"cumsum(u8[3]{200, 100, 7}) axis=0 => u8[3]{200, 44, 51}", NULL},
    {"cumsum(f32[2, 3]) axis=2", "outside of rank"},
    {"cumsum(f32[]) axis=0", "outside of rank"},
    {"cumsum(bool[2]) axis=0", "must be a number"},
};

const op_impl op_impl_cumsum = {
    .infer = infer_cumsum, .ref = ref_cumsum, .grad = grad_cumsum, CASES(cases)};
