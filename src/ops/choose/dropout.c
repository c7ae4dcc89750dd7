/* dropout: each element is 0 with probability p (also where x is NaN), else x / (1 - p); p = 1
 * drops all. The mask is a function of key, stream and position, so the gradient is dropout
 * itself, with the same key and stream: nothing is stored. */
#include "ops/choose/choose.h"

static sn_status infer_dropout(infer_ctx *c) {
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_key(c, 1));
  SN_TRY(infer_probability(c, "p", ATTRS(dropout)->p));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_dropout(ref_ctx *c) {
  double p = ATTRS(dropout)->p;
  rng r = rng_of(&c->in[1], ATTRS(dropout)->stream);
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = rng_below(&r, (uint64_t)i, p) ? 0 : c->in[0].data[i] / (1 - p);
  return SN_OK;
}

static void grad_dropout(build_ctx *c) {
  build_din(c, 0,
            sn_dropout(c->graph, c->dout[0], c->in[1], ATTRS(dropout)->p, ATTRS(dropout)->stream));
}

static void decompose_dropout(build_ctx *c) {
  sn_graph *g = c->graph;
  double p = ATTRS(dropout)->p;
  sn_value x = c->in[0];
  sn_value dropped = sn_bernoulli(g, c->in[1], build_shape(c, x), p, ATTRS(dropout)->stream);
  sn_value kept = build_scale(c, x, p < 1 ? 1 / (1 - p) : 0);
  c->out[0] = sn_where(g, dropped, sn_scalar(g, build_dtype(c, x), 0), kept);
}

static reg element_dropout(elem_ctx *c, const place *at) {
  double p = ATTRS(dropout)->p;
  reg dropped = element_below(c, 1, at, p, ATTRS(dropout)->stream);
  reg scale = elem_number_as(c, SN_F32, p < 1 ? 1 / (1 - p) : 0);
  reg kept = elem_f32(c, ALU_mul, elem_input(c, 0, at), scale);
  return elem_alu3(c, ALU_select, dropped, elem_number(c, 0), kept);
}

static const op_case cases[] = {
    {"dropout(f32[5, 3], i32[3]) p=0.5", NULL},
    {"dropout(f32[7], i32[3]) p=0.1 stream=9", NULL},
    {"dropout(f32[7]{1, 2, 3, 4, 5, 6, 7}, i32[3]{0, 0, 0}) p=0.5 stream=0 => "
     "f32[7]{0, 4, 6, 8, 10, 0, 14}",
     NULL},
    {"dropout(f32[7]{1, 2, 3, 4, 5, 6, 7}, i32[3]{7, -2, 3}) p=0.3 stream=4 => "
     "f32[7]{1.42857143, 0, 4.28571429, 0, 0, 8.57142857, 10}",
     NULL},
    {"dropout(f32[2]{nan, nan}, i32[3]{0, 0, 0}) p=0.5 stream=0 => f32[2]{0, nan}", NULL},
    {"dropout(f32[3], i32[3]) p=1 => f32[3]{0, 0, 0}", NULL},
    {"dropout(f32[3]{1, 2, 3}, i32[3]) p=0 => f32[3]{1, 2, 3}", NULL},
    {"dropout(f16[1], i32[3]) p=0.5", NULL},
    {"dropout(bf16[0, 3], i32[3]) p=0.5", NULL},
    {"dropout(f32[2], i32[3]) p=-0.1", "p must lie in 0 … 1"},
    {"dropout(f32[2], i32[2]) p=0.5", "key must be [3]"},
    {"dropout(i32[2], i32[3]) p=0.5", "must be f32, f16 or bf16"},
};

const op_impl op_impl_dropout = {.infer = infer_dropout,
                                 .ref = ref_dropout,
                                 .grad = grad_dropout,
                                 .decompose = decompose_dropout,
                                 .element = element_dropout,
                                 CASES(cases)};
