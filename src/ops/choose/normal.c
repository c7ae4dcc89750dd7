/* normal: floats with a given mean and standard deviation, by Box–Muller (choose.h says how). */
#include "ops/choose/choose.h"

static sn_status infer_normal(infer_ctx *c) {
  const attrs_normal *a = ATTRS(normal);
  if (!dtype_is_float(a->dtype))
    return infer_fail(c, "dtype must be f32, f16 or bf16, got %s", sn_dtype_name(a->dtype));
  if (!isfinite(a->mean) || !isfinite(a->std) || a->std < 0)
    return infer_fail(c, "mean and std must be finite and std not negative, got %g and %g", a->mean,
                      a->std);
  return infer_random(c, a->dtype, a->shape);
}

static sn_status ref_normal(ref_ctx *c) {
  static const double TURN = 6.28318530717958647693;
  const attrs_normal *a = ATTRS(normal);
  rng r = rng_of(&c->in[0], a->stream);
  for (int64_t i = 0; i < c->out[0].count; i++) {
    uint64_t pair = (uint64_t)i & ~UINT64_C(1);
    double u = rng_unit(&r, pair) + 0x1p-24, angle = TURN * rng_unit(&r, pair + 1);
    double z = sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
    c->out[0].data[i] = a->mean + a->std * z;
  }
  return SN_OK;
}

/* 2k, where the element's number is 2k or 2k + 1, and whether it is the latter. */
static coord pair_of(elem_ctx *c, const coord *index, sn_dim count, reg *out_second) {
  coord pair, rest;
  reg odd, zero = elem_number_as(c, SN_I32, 0);
  if (coord_divide(c->graph, c->axis_extents, index, 2, count, &pair, &rest)) {
    odd = elem_coord(c, &rest);
  } else {
    reg number = elem_coord(c, index), two = elem_number_as(c, SN_I32, 2);
    pair = elem_at(elem_alu_as(c, ALU_floor_div, SN_I32, number, two, 0, 0, 0), count);
    odd = elem_alu_as(c, ALU_rem, SN_I32, number, two, 0, 0, 0);
  }
  *out_second = elem_alu_as(c, ALU_ne, SN_BOOL, odd, zero, 0, 0, 0);
  return coord_scale(c->graph, &pair, 2);
}

static reg element_normal(elem_ctx *c, const place *at) {
  const attrs_normal *a = ATTRS(normal);
  coord index = elem_linear(c, at, c->out[0].shape);
  reg second;
  coord pair = pair_of(c, &index, dim_count(c->graph, c->out[0].shape), &second);
  coord next = coord_shift(c->graph, &pair, 1);
  reg radius = element_word(c, 0, a->stream, &pair), angle = element_word(c, 0, a->stream, &next);
  reg z = elem_alu_as(c, ALU_gauss, SN_F32, radius, angle, second, 0, 0);
  return element_scaled(c, z, a->std, a->mean);
}

static const op_case cases[] = {
    {"normal(i32[3]{0, 0, 0}) dtype=f32 shape=[5] mean=0 std=1 stream=0 => "
     "f32[5]{0.991137475, -0.92466278, -0.617609055, -0.482068347, -0.153638112}",
     NULL},
    {"normal(i32[3]{7, -2, 3}) dtype=f32 shape=[3, 1] mean=5 std=0.5 stream=4 => "
     "f32[3, 1]{5.31404907, 5.48679684, 5.33730266}",
     NULL},
    /* counters at which the first word's 24 bits are all 0 and all 1: the longest tail, and none */
    {"normal(i32[3]{0, 0, 33008474}) dtype=f32 shape=[2] mean=0 std=1 stream=0 => "
     "f32[2]{5.30651375, -2.26096803}",
     NULL},
    {"normal(i32[3]{0, 0, 1205178}) dtype=f32 shape=[2] mean=0 std=1 stream=0 => f32[2]{0, 0}",
     NULL},
    {"normal(i32[3]) dtype=f32 shape=[2] mean=-3 std=0 => f32[2]{-3, -3}", NULL},
    {"normal(i32[3]{0, 0, 0}) dtype=f16 shape=[2] mean=0 std=1 stream=0 => "
     "f16[2]{0.99121094, -0.92480469}",
     NULL},
    {"normal(i32[3]) dtype=bf16 shape=[0, 3] mean=0 std=1", NULL},
    {"normal(i32[3]) dtype=f32 shape=[] mean=0 std=1", NULL},
    {"normal(i32[3]) dtype=f32 shape=[2] mean=0 std=-1", "std not negative"},
    {"normal(i32[3]) dtype=f32 shape=[2] mean=inf std=1", "must be finite"},
    {"normal(i32[3]) dtype=i32 shape=[2] mean=0 std=1", "dtype must be f32, f16 or bf16"},
    {"normal(i32[3]) dtype=f32 shape=[-2] mean=0 std=1", "negative"},
    {"normal(i32[4]) dtype=f32 shape=[2] mean=0 std=1", "key must be [3]"},
};

const op_impl op_impl_normal = {.infer = infer_normal,
                                .ref = ref_normal,
                                .no_grad = "a random draw has no differentiable argument",
                                .element = element_normal,
                                CASES(cases)};
