/* input, state, constant: values that come from outside the graph; the interpreter and devices bind
 * them, so they have no ref. */
#include "base/null.h"

#include "ops/common.h"

static sn_status no_negative_dims(infer_ctx *c, const sn_shape *s) {
  for (int d = 0; d < s->rank; d++)
    if (dim_is_number(s->dim[d]) && s->dim[d] < 0)
      return infer_fail(c, "dim %d of %s is negative", d, graph_shape_text(c->graph, *s));
  return SN_OK;
}

static sn_status numbers_only(infer_ctx *c, const sn_shape *s) {
  for (int d = 0; d < s->rank; d++)
    if (!dim_is_number(s->dim[d]))
      return infer_fail(c, "its shape must be numbers, got %s", graph_shape_text(c->graph, *s));
  return no_negative_dims(c, s);
}

static sn_status infer_input(infer_ctx *c) {
  c->out[0] = (sn_type){ATTRS(input)->dtype, ATTRS(input)->shape};
  return no_negative_dims(c, &ATTRS(input)->shape);
}

static const op_case input_cases[] = {
    {"input() name=\"x\" dtype=f32 shape=[2, 3]", NULL},
    {"input() name=\"tokens of \\\"a\\\"\" dtype=i32 shape=[]", NULL},
    {"input() name=\"x\" dtype=bool shape=[0, 1]", NULL},
    {"input() name=\"x\" dtype=f32 shape=[-2]", "negative"},
    {"input() name=\"\" dtype=f32 shape=[2]", "must not be empty"},
};

const op_impl op_impl_input = {
    .infer = infer_input, .no_grad = "a leaf: gradients end here", CASES(input_cases)};

static sn_status infer_state(infer_ctx *c) {
  c->out[0] = (sn_type){ATTRS(state)->dtype, ATTRS(state)->shape};
  SN_TRY(numbers_only(c, &ATTRS(state)->shape));
  if (!isfinite(ATTRS(state)->scale))
    return infer_fail(c, "state \"%s\": scale must be finite", ATTRS(state)->name);
  if (ATTRS(state)->init >= SN_INIT_NORMAL && !dtype_is_float(ATTRS(state)->dtype))
    return infer_fail(c, "state \"%s\": a random initial value needs a float dtype, got %s",
                      ATTRS(state)->name, sn_dtype_name(ATTRS(state)->dtype));
  return SN_OK;
}

static const op_case state_cases[] = {
    {"state() name=\"w\" dtype=f32 shape=[2, 3] init=normal scale=0.02", NULL},
    {"state() name=\"b\" dtype=bf16 shape=[0, 1] init=uniform scale=0.5", NULL},
    {"state() name=\"n\" dtype=i32 shape=[] init=zeros scale=0", NULL},
    {"state() name=\"one\" dtype=u8 shape=[5] init=ones scale=1", NULL},
    {"state() name=\"n\" dtype=i32 shape=[4] init=normal scale=1", "needs a float dtype"},
    {"state() name=\"w\" dtype=f32 shape=[4] init=normal scale=inf", "must be finite"},
};

const op_impl op_impl_state = {
    .infer = infer_state, .no_grad = "a leaf: gradients end here", CASES(state_cases)};

static sn_status infer_constant(infer_ctx *c) {
  const attrs_constant *a = ATTRS(constant);
  c->out[0] = (sn_type){a->dtype, a->shape};
  SN_TRY(numbers_only(c, &a->shape));
  int64_t bytes = (int64_t)sn_dtype_size(a->dtype);
  for (int d = 0; d < a->shape.rank; d++)
    if (!mul_fits(bytes, a->shape.dim[d], &bytes))
      return infer_fail(c, "too large: %s", graph_shape_text(c->graph, a->shape));
  if ((size_t)bytes != a->data.size)
    return infer_fail(c, "%s has %lld bytes, got %zu", graph_type_text(c->graph, c->out[0]),
                      (long long)bytes, a->data.size);
  return SN_OK;
}

static const op_case constant_cases[] = {
    {"constant() dtype=f32 shape=[2] data=0x0000803f00000040", NULL},
    {"constant() dtype=i32 shape=[] data=0x2a000000", NULL},
    {"constant() dtype=bool shape=[3, 1] data=0x000100", NULL},
    {"constant() dtype=u8 shape=[0, 5] data=0x", NULL},
    {"constant() dtype=f32 shape=[2] data=0x0000803f", "has 8 bytes, got 4"},
};

const op_impl op_impl_constant = {
    .infer = infer_constant, .no_grad = "a leaf: gradients end here", CASES(constant_cases)};

sn_value sn_constant_bytes(sn_graph *g, sn_dtype dtype, sn_shape shape, const void *data) {
  NEEDS_OR(g, graph_invalid());
  size_t bytes = sn_dtype_size(dtype);
  for (int d = 0; d < shape.rank && d < SN_MAX_RANK; d++)
    if (shape.dim[d] < 0 || !size_mul_fits(bytes, (size_t)shape.dim[d], &bytes))
      return graph_fail(g, SN_ERR_INVALID,
                        "constant: its shape must be numbers that fit in memory");
  return sn_constant(g, dtype, shape, (sn_bytes){data, bytes});
}

sn_value sn_scalar(sn_graph *g, sn_dtype dtype, double value) {
  NEEDS_OR(g, graph_invalid());
  return sn_full(g, dtype, SN_SCALAR, value);
}
