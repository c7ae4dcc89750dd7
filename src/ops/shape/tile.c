/* tile: the whole repeated along each axis. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

static sn_status infer_tile(infer_ctx *c) {
  const sn_ints *repeats = &ATTRS(tile)->repeats;
  c->out[0] = c->in[0];
  if (repeats->n != c->in[0].shape.rank)
    return infer_fail(c, "repeats must have one number an axis of %s, got %d", infer_text(c, 0),
                      repeats->n);
  for (int d = 0; d < repeats->n; d++) {
    sn_dim *size = &c->out[0].shape.dim[d];
    if (repeats->v[d] < 0 || repeats->v[d] >= DIM_LIMIT)
      return infer_fail(c, "repeats must lie in 0 … 2^56, got %lld", (long long)repeats->v[d]);
    *size = sn_dim_mul(c->graph, *size, repeats->v[d]);
  }
  return c->graph->status;
}

static sn_status ref_tile(ref_ctx *c) {
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  int64_t stride[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  ref_strides(x, stride);
  for (int64_t k = 0; k < y->count; k++) {
    int64_t at = 0;
    for (int d = 0; d < y->rank; d++)
      at += index[d] % x->dim[d] * stride[d];
    y->data[k] = x->data[at];
    ref_next(index, y->dim, y->rank);
  }
  return SN_OK;
}

/* One axis at a time: [outer, rest] becomes [outer, times, rest], where rest starts at the axis. */
static sn_value repeat(build_ctx *c, sn_value x, int axis, int64_t times) {
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x), flat = {.rank = 3, .dim = {1, 1, 1}};
  for (int d = 0; d < shape.rank; d++) {
    sn_dim *part = &flat.dim[d < axis ? 0 : 2];
    *part = sn_dim_mul(g, *part, shape.dim[d]);
  }
  shape.dim[axis] = sn_dim_mul(g, shape.dim[axis], times);
  sn_value once = sn_reshape(g, x, flat);
  flat.dim[1] = times;
  return sn_reshape(g, sn_expand(g, once, flat), shape);
}

static void decompose_tile(build_ctx *c) {
  const sn_ints *repeats = &ATTRS(tile)->repeats;
  c->out[0] = c->in[0];
  for (int d = 0; d < repeats->n; d++)
    if (repeats->v[d] != 1)
      c->out[0] = repeat(c, c->out[0], d, repeats->v[d]);
}

static uint16_t element_tile(elem_ctx *c, const place *at) {
  place x = *at;
  coord copy;
  for (int d = 0; d < at->rank; d++)
    if (ATTRS(tile)->repeats.v[d] != 1)
      locate_divide(c, &at->c[d], c->in[0].shape.dim[d], c->out[0].shape.dim[d], &copy, &x.c[d]);
  return elem_input(c, 0, &x);
}

static const op_case cases[] = {
    {"tile(f32[2, 3]) repeats=[1, 2]", NULL},
    {"tile(f32[2, 1, 3]) repeats=[2, 3, 2]", NULL},
    {"tile(f32[5]) repeats=[1]", NULL},
    {"tile(f32[2, 3]) repeats=[0, 2]", NULL},
    {"tile(f32[0, 3]) repeats=[2, 2]", NULL},
    {"tile(f32[]) repeats=[]", NULL},
    {"tile(bf16[3]) repeats=[2]", NULL},
    {"tile(f32[2, 1, 1, 1, 1, 1, 1, 3]) repeats=[1, 1, 1, 2, 1, 1, 1, 2]", NULL},
    {"tile(i32[3]{1, 2, 3}) repeats=[2] => i32[6]{1, 2, 3, 1, 2, 3}", NULL},
    {"tile(u8[2, 2]{1, 2, 3, 4}) repeats=[2, 1] => u8[4, 2]{1, 2, 3, 4, 1, 2, 3, 4}", NULL},
    {"tile(bool[2, 1]{1, 0}) repeats=[1, 3] => bool[2, 3]{1, 1, 1, 0, 0, 0}", NULL},
    {"tile(f16[1]{nan}) repeats=[2] => f16[2]{nan, nan}", NULL},
    {"tile(f32[2, 3]) repeats=[2]", "one number an axis"},
    {"tile(f32[2]) repeats=[-1]", "repeats must lie in 0"},
    {"tile(f32[65536]) repeats=[72057594037927935]", "size expression: too large"},
};

const op_impl op_impl_tile = {.infer = infer_tile,
                              .ref = ref_tile,
                              .grad_by_decompose = true,
                              .decompose = decompose_tile,
                              .element = element_tile,
                              CASES(cases)};
