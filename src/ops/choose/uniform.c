/* uniform: floats in [lo, hi), the same bits on every device (choose.h says how). */
#include "base/half.h"
#include "ops/choose/choose.h"

static sn_status infer_uniform(infer_ctx *c) {
  const attrs_uniform *a = ATTRS(uniform);
  if (!dtype_is_float(a->dtype))
    return infer_fail(c, "dtype must be f32, f16 or bf16, got %s (randint draws integers)",
                      sn_dtype_name(a->dtype));
  float lo = (float)dtype_round(a->dtype, a->lo), hi = (float)dtype_round(a->dtype, a->hi);
  if (!(lo < hi) || !isfinite(hi - lo))
    return infer_fail(c, "lo must be below hi in %s, and their difference finite, got %g and %g",
                      sn_dtype_name(a->dtype), a->lo, a->hi);
  return infer_random(c, a->dtype, a->shape);
}

/* The bits of the next value below one of these bits, in any of the formats with a sign in
 * front. */
static uint16_t previous(uint16_t bits) {
  if (bits & 0x8000)
    return (uint16_t)(bits + 1);
  return (uint16_t)(bits ? bits - 1 : 0x8001);
}

static double below(sn_dtype dtype, double hi) {
  if (dtype == SN_F16)
    return half_to_f32(previous(half_from_f64(hi)));
  if (dtype == SN_BF16)
    return bf16_to_f32(previous(bf16_from_f64(hi)));
  return nextafterf((float)hi, -INFINITY);
}

static sn_status ref_uniform(ref_ctx *c) {
  const attrs_uniform *a = ATTRS(uniform);
  rng r = rng_of(&c->in[0], a->stream);
  double lo = dtype_round(a->dtype, a->lo), hi = dtype_round(a->dtype, a->hi);
  double range = (float)(hi - lo); /* every step is rounded to f32 */
  for (int64_t i = 0; i < c->out[0].count; i++) {
    double step = (float)(rng_unit(&r, (uint64_t)i) * range);
    double x = dtype_round(a->dtype, (float)(lo + step));
    c->out[0].data[i] = x < hi ? x : below(a->dtype, hi);
  }
  return SN_OK;
}

static reg element_uniform(elem_ctx *c, const place *at) {
  const attrs_uniform *a = ATTRS(uniform);
  double lo = dtype_round(a->dtype, a->lo), hi = dtype_round(a->dtype, a->hi);
  coord index = elem_linear(c, at, c->out[0].shape);
  reg unit = elem_f32(c, ALU_unit, element_word(c, 0, a->stream, &index), 0);
  reg step = elem_f32(c, ALU_mul, unit, elem_number_as(c, SN_F32, (float)(hi - lo)));
  reg wide = elem_f32(c, ALU_add, elem_number_as(c, SN_F32, lo), step);
  reg x = a->dtype == SN_F32 ? wide : elem_alu1(c, ALU_cast, wide);
  reg inside = elem_alu_as(c, ALU_lt, SN_BOOL, x, elem_number(c, hi), 0, 0, 0);
  return elem_alu3(c, ALU_select, inside, x, elem_number(c, below(a->dtype, hi)));
}

static const op_case cases[] = {
    {"uniform(i32[3]{0, 0, 0}) dtype=f32 shape=[5] lo=0 hi=1 stream=0 => "
     "f32[5]{0.399046421, 0.880520165, 0.735712767, 0.605481803, 0.972241163}",
     NULL},
    {"uniform(i32[3]{7, -2, 3}) dtype=f32 shape=[2, 3] lo=-1 hi=3 stream=4 => "
     "f32[2, 3]{1.04438758, -0.364749193, 1.67242527, -0.540983915, 0.0472340584, 1.42455077}",
     NULL},
    {"uniform(i32[3]{0, 0, 0}) dtype=f32 shape=[1] lo=1 hi=1.0000001 stream=0 => f32[1]{1}", NULL},
    {"uniform(i32[3]{0, 0, 0}) dtype=f16 shape=[3] lo=0 hi=1 stream=0 => "
     "f16[3]{0.39892578, 0.88037109, 0.73583984}",
     NULL},
    {"uniform(i32[3]) dtype=bf16 shape=[0, 3] lo=-2 hi=-1", NULL},
    {"uniform(i32[3]) dtype=f32 shape=[] lo=0 hi=1", NULL},
    {"uniform(i32[3]) dtype=f32 shape=[2] lo=1 hi=1", "lo must be below hi"},
    {"uniform(i32[3]) dtype=f16 shape=[2] lo=1 hi=1.0001", "lo must be below hi in f16"},
    {"uniform(i32[3]) dtype=f32 shape=[2] lo=-3e38 hi=3e38", "their difference finite"},
    {"uniform(i32[3]) dtype=i32 shape=[2] lo=0 hi=9", "dtype must be f32, f16 or bf16"},
    {"uniform(i32[3]) dtype=f32 shape=[-2] lo=0 hi=1", "negative"},
    {"uniform(i32[2]) dtype=f32 shape=[2] lo=0 hi=1", "key must be [3]"},
    {"uniform(f32[3]) dtype=f32 shape=[2] lo=0 hi=1", "key must be i32"},
};

const op_impl op_impl_uniform = {.infer = infer_uniform,
                                 .ref = ref_uniform,
                                 .no_grad = "a random draw has no differentiable argument",
                                 .element = element_uniform,
                                 CASES(cases)};
