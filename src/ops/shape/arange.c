/* arange: start + i * step. Integers must be whole and stay in range for the largest n. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

static sn_status infer_arange(infer_ctx *c) {
  const attrs_arange *a = ATTRS(arange);
  sn_shape shape = {1, {a->n}};
  SN_TRY(infer_sizes(c, &shape));
  c->out[0] = (sn_type){a->dtype, shape};
  if (a->dtype == SN_BOOL)
    return infer_fail(c, "dtype must be a number's, got bool");
  if (!isfinite(a->start) || !isfinite(a->step))
    return infer_fail(c, "start and step must be finite, got %g and %g", a->start, a->step);
  if (dtype_is_float(a->dtype))
    return SN_OK;
  if (a->start != trunc(a->start) || a->step != trunc(a->step))
    return infer_fail(c, "start and step must be whole numbers for %s, got %g and %g",
                      sn_dtype_name(a->dtype), a->start, a->step);
  int64_t n = sn_dim_max(c->graph, a->n);
  SN_TRY(infer_holds(c, a->dtype, n > 0 ? a->start : 0));
  return infer_holds(c, a->dtype, n > 0 ? a->start + (double)(n - 1) * a->step : 0);
}

static sn_status ref_arange(ref_ctx *c) {
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = ATTRS(arange)->start + (double)i * ATTRS(arange)->step;
  return SN_OK;
}

/* Integers wrap on the way to a result that is in range, so a step need not be an i32. */
static uint16_t element_arange(elem_ctx *c, const place *at) {
  const attrs_arange *a = ATTRS(arange);
  sn_dtype dtype = dtype_is_float(a->dtype) ? SN_F32 : SN_I32;
  double start = dtype == SN_F32 ? a->start : wrap_i32((int64_t)fmod(a->start, 0x1p32));
  double step = dtype == SN_F32 ? a->step : wrap_i32((int64_t)fmod(a->step, 0x1p32));
  reg i = elem_coord(c, &at->c[0]);
  if (dtype == SN_F32)
    i = elem_alu_as(c, ALU_cast, SN_F32, i, 0, 0, 0, 0);
  if (step != 1)
    i = elem_alu_as(c, ALU_mul, dtype, i, elem_number_as(c, dtype, step), 0, 0, 0);
  if (start != 0)
    i = elem_alu_as(c, ALU_add, dtype, i, elem_number_as(c, dtype, start), 0, 0, 0);
  return dtype == a->dtype ? i : elem_alu1(c, ALU_cast, i);
}

static const op_case cases[] = {
    {"arange() dtype=f32 n=5 start=0 step=1 => f32[5]{0, 1, 2, 3, 4}", NULL},
    {"arange() dtype=f32 n=3 start=1.5 step=-0.25 => f32[3]{1.5, 1.25, 1}", NULL},
    {"arange() dtype=i32 n=4 start=7 step=-3 => i32[4]{7, 4, 1, -2}", NULL},
    {"arange() dtype=i32 n=2 start=2147483646 step=1 => i32[2]{2147483646, 2147483647}", NULL},
    {"arange() dtype=u8 n=3 start=250 step=2 => u8[3]{250, 252, 254}", NULL},
    {"arange() dtype=bf16 n=2 start=256 step=1 => bf16[2]{256, 256}", NULL},
    {"arange() dtype=f16 n=1 start=0.5 step=9 => f16[1]{0.5}", NULL},
    {"arange() dtype=i32 n=0 start=5e9 step=0 => i32[0]{}", NULL},
    {"arange() dtype=i32 n=3 start=2147483646 step=1", "is not a value of i32"},
    {"arange() dtype=u8 n=3 start=1 step=-1", "is not a value of u8"},
    {"arange() dtype=i32 n=3 start=0.5 step=1", "whole numbers"},
    {"arange() dtype=i32 n=3 start=0 step=0.5", "whole numbers"},
    {"arange() dtype=f32 n=3 start=inf step=1", "must be finite"},
    {"arange() dtype=f32 n=-1 start=0 step=1", "negative"},
    {"arange() dtype=bool n=1 start=0 step=1", "dtype must be a number's"},
};

const op_impl op_impl_arange = {.infer = infer_arange,
                                .ref = ref_arange,
                                .no_grad = "it has no arguments",
                                .element = element_arange,
                                CASES(cases)};
