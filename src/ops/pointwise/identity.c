/* stop_gradient, barrier: x of any dtype, unchanged. stop_gradient passes no gradient, so finite
 * differences disagree with it by intent: its float cases are marked as kinks, and
 * tests/ops/test_ties.c checks it. */
#include "ops/pointwise/pointwise.h"

static sn_status infer_same(infer_ctx *c) {
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_same(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = c->in[0].data[i];
  return SN_OK;
}

static reg element_same(elem_ctx *c, const place *at) { return elem_input(c, 0, at); }

static const op_case stop_gradient_cases[] = {
    {"stop_gradient(f32[2, 3]{1, 2, 3, nan, inf, -6}) => f32[2, 3]{1, 2, 3, nan, inf, -6} @kink",
     NULL},
    {"stop_gradient(f16[0, 3]) @kink", NULL},
    {"stop_gradient(i32[1]{-7}) => i32[1]{-7}", NULL},
    {"stop_gradient(bool[2]{1, 0}) => bool[2]{1, 0}", NULL},
    {"stop_gradient(none)", "x is missing"},
};

const op_impl op_impl_stop_gradient = {.infer = infer_same,
                                       .ref = ref_same,
                                       .grad = grad_zero,
                                       .element = element_same,
                                       CASES(stop_gradient_cases)};

/* The gradient passes to x; `after` is an order, not a value. */
static void grad_barrier(build_ctx *c) { build_din(c, 0, c->dout[0]); }

static const op_case barrier_cases[] = {
    {"barrier(f32[2, 3], none)", NULL},
    {"barrier(f32[2], f32[5]) id=7", NULL},
    {"barrier(f32[2]{1, nan}, i32[]) => f32[2]{1, nan}", NULL},
    {"barrier(bf16[0, 3], none)", NULL},
    {"barrier(i32[1]{-7}, f32[]) => i32[1]{-7}", NULL},
    {"barrier(none, f32[2])", "x is missing"},
    {"barrier(f32[2], none) id=-2", "an identity must lie in"},
};

const op_impl op_impl_barrier = {.infer = infer_same,
                                 .ref = ref_same,
                                 .grad = grad_barrier,
                                 .element = element_same,
                                 CASES(barrier_cases)};
