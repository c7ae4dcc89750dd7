/* Arithmetic on floats that gives floats. */
#include "device/cpu/isa/alu_floats.h"
#include "device/cpu/isa/alu_set.h"

VECTOR_1(neg, neg_of(p))
VECTOR_1(abs_value, vec_abs(p))
VECTOR_1(sign, sign_of(p))
VECTOR_1(recip, 1 / p)
VECTOR_1(root, root_of(p))
VECTOR_1(rsqrt, 1 / root_of(p))
VECTOR_1(floors, floor_of(p))
VECTOR_1(ceils, ceil_of(p))
VECTOR_1(rounds, round_of(p))
VECTOR_2(add, p + q)
VECTOR_2(sub, p - q)
VECTOR_2(mul, p *q)
VECTOR_2_WITH(divide_lanes, vec_load(a + i), vec_load(b + i), p / q)
VECTOR_2_WITH(divide_one_a, a0, vec_load(b + i), p / q)
VECTOR_2_WITH(divide_any, vec_load(a + i), b0, p / q)
KERNEL(divide_one_b) {
  const float *b = pb;
  const vec q = vec_all(*b), by = 1 / q;
  if (!divides_by(*b)) {
    divide_any(out, pa, pb, pc, x, y, n);
    return;
  }
  for (int i = 0; i < n; i += VEC)
    vec_store((float *)out + i, quotient_of(vec_load((const float *)pa + i), q, by));
}
VECTOR_2(larger, max_of(p, q))
VECTOR_2(smaller, min_of(p, q))

/* --- functions --- */
VECTOR_1(exps, vec_exp(p))
VECTOR_1(exps2, vec_exp2(p))
VECTOR_1(expm1s, vec_expm1(p))
VECTOR_1(logs, vec_log(p))
VECTOR_1(logs2, vec_log2(p))
VECTOR_1(log1ps, vec_log1p(p))
VECTOR_1(tanhs, vec_tanh(p))
VECTOR_1(sigmoids, vec_sigmoid(p))
VECTOR_1(softpluses, vec_softplus(p))
VECTOR_1(erfs, vec_erf(p))

/* Large angles, infinities and NaN are the library's, of lanes 0 … n-1. */
VEC_INLINE vec angle_or(vec p, vec good, int n, float (*other)(float)) {
  vec_mask far = mask_not(vec_is_angle(p));
  if (mask_any(far))
    for (int i = 0; i < VEC && i < n; i++)
      good[i] = mask_lane(far, i) ? other(p[i]) : good[i];
  return good;
}
VECTOR_1(sines, angle_or(p, vec_sin(p), n - i, sinf))
VECTOR_1(cosines, angle_or(p, vec_cos(p), n - i, cosf))
VECTOR_1(tangents, angle_or(p, vec_tan(p), n - i, tanf))

/* So are powers of what is not positive and finite, and exponents that are not finite. */
VEC_INLINE vec pow_of(vec p, vec q, int n) {
  const vec end = vec_all(INFINITY);
  vec good = vec_pow(p, q);
  vec_mask far = mask_not(
      mask_both(mask_both(vec_less(vec_all(0), p), vec_less(p, end)), vec_less(vec_abs(q), end)));
  if (mask_any(far))
    for (int i = 0; i < VEC && i < n; i++)
      good[i] = mask_lane(far, i) ? powf(p[i], q[i]) : good[i];
  return good;
}
VECTOR_2(power, pow_of(p, q, n - i))

LANES_2(arc_tangent, float, float, atanf(p))
LANES_2(arc_tangent2, float, float, atan2f(p, q))
/* In f64: a quotient just below a whole number must not be rounded up to it first. */
LANES_2(floor_divide, float, float, floor((double)p / (double)q))
LANES_2(fmods, float, float, fmodf(p, q))
static float remainder_of(float p, float q) {
  float r = fmodf(p, q);
  return r != 0 && (r < 0) != (q < 0) ? r + q : r;
}
LANES_2(rem, float, float, remainder_of(p, q))

/* --- select --- */
#define SELECT(name, B, C)                                              \
  KERNEL(name) {                                                        \
    (void)x, (void)y;                                                   \
    float *o = out;                                                     \
    const float *b = pb, *c = pc;                                       \
    const vec b0 = vec_all(*b), c0 = vec_all(*c), zero = {0};           \
    (void)b0, (void)c0;                                                 \
    for (int i = 0; i < n; i += VEC) {                                  \
      vec_i32 a;                                                        \
      memcpy(&a, (const int32_t *)pa + i, sizeof a);                    \
      vec_store(o + i, vec_pick(vec_same(vec_of_ints(a), zero), C, B)); \
    }                                                                   \
  }
SELECT(select_lanes, vec_load(b + i), vec_load(c + i))
SELECT(select_one_b, b0, vec_load(c + i))
SELECT(select_one_c, vec_load(b + i), c0)
SELECT(select_ones, b0, c0)

static const alu_row rows[ALU_COUNT] = {
    [ALU_neg] = {.lanes = neg},
    [ALU_abs] = {.lanes = abs_value},
    [ALU_sign] = {.lanes = sign},
    [ALU_recip] = {.lanes = recip},
    [ALU_sqrt] = {.lanes = root},
    [ALU_rsqrt] = {.lanes = rsqrt},
    [ALU_exp] = {.lanes = exps},
    [ALU_exp2] = {.lanes = exps2},
    [ALU_expm1] = {.lanes = expm1s},
    [ALU_log] = {.lanes = logs},
    [ALU_log2] = {.lanes = logs2},
    [ALU_log1p] = {.lanes = log1ps},
    [ALU_sin] = {.lanes = sines},
    [ALU_cos] = {.lanes = cosines},
    [ALU_tan] = {.lanes = tangents},
    [ALU_atan] = {.lanes = arc_tangent},
    [ALU_tanh] = {.lanes = tanhs},
    [ALU_sigmoid] = {.lanes = sigmoids},
    [ALU_softplus] = {.lanes = softpluses},
    [ALU_erf] = {.lanes = erfs},
    [ALU_floor] = {.lanes = floors},
    [ALU_ceil] = {.lanes = ceils},
    [ALU_round] = {.lanes = rounds},
    [ALU_add] = ALU_ROW(add),
    [ALU_sub] = ALU_ROW(sub),
    [ALU_mul] = ALU_ROW(mul),
    [ALU_div] = ALU_ROW(divide),
    [ALU_floor_div] = {.lanes = floor_divide},
    [ALU_rem] = {.lanes = rem},
    [ALU_fmod] = {.lanes = fmods},
    [ALU_pow] = ALU_ROW(power),
    [ALU_max] = ALU_ROW(larger),
    [ALU_min] = ALU_ROW(smaller),
    [ALU_atan2] = {.lanes = arc_tangent2},
};

lane_alu ISA(alu_floats)(alu code, unsigned ones) {
  if (code != ALU_select)
    return alu_row_find(&rows[code], ones);
  switch (ones) {
  case 0: return select_lanes;
  case LANE_ONE_B: return select_one_b;
  case LANE_ONE_C: return select_one_c;
  case LANE_ONE_B | LANE_ONE_C: return select_ones;
  default: return NULL;
  }
}
