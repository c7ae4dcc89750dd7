/* Exponentials and logarithms by the polynomials of step/math.h, in f32: none of the driver's functions but rounding and
 * division. See emit_math.h. */
#include "device/vulkan/emit_math.h"

/* --- exp and its kin --- */

/* e^r - 1 for |r| <= ln 2 / 2 */
val math_expm1_near(kernel *k, val r) {
  val p = MATH_POLY(k, r, math_exp);
  return k_fma(k, k_mul(k, r, r), p, r);
}

/* x = n ln 2 + r */
static val exp_reduce(kernel *k, val x, val *n) {
  *n = k_glsl(k, GLSL_RoundEven, k_mul(k, x, k_f32(k, MATH_LOG2E)));
  val r = k_sub(k, x, k_mul(k, *n, k_f32(k, MATH_LN2_HI)));
  return k_sub(k, r, k_mul(k, *n, k_f32(k, MATH_LN2_LO)));
}

/* x 2^n in two factors, so that neither end of the range is cut off early */
val math_scale(kernel *k, val x, val n) {
  val whole = k_to_i32(k, n), half = math_shift(k, whole, 1);
  val first = k_mul(k, x, math_power(k, half));
  return k_mul(k, first, math_power(k, k_sub(k, whole, half)));
}

val math_exp_of(kernel *k, val x) {
  val n,
      y = math_at_most(k, math_at_least(k, math_without_nan(k, x), MATH_EXP_LEAST), MATH_EXP_MOST);
  val r = exp_reduce(k, y, &n), e = k_add(k, math_expm1_near(k, r), k_f32(k, 1));
  return math_keep_nan(k, x, math_scale(k, e, n));
}

val math_exp2_of(kernel *k, val x) {
  val y = math_at_most(k, math_at_least(k, math_without_nan(k, x), -151), 129);
  val n = k_glsl(k, GLSL_RoundEven, y), r = k_mul(k, k_sub(k, y, n), k_f32(k, MATH_LN2));
  return math_keep_nan(k, x, math_scale(k, k_add(k, math_expm1_near(k, r), k_f32(k, 1)), n));
}

/* 2^n (e^r) - 1 as s2 (s1 (e^r - 1) + (s1 - 1 / s2)), s1 s2 = 2^n. */
val math_expm1_of(kernel *k, val x) {
  val n, y = math_at_most(k, math_at_least(k, math_without_nan(k, x), -20), MATH_EXP_MOST);
  val r = exp_reduce(k, y, &n), whole = k_to_i32(k, n), half = math_shift(k, whole, 1);
  val s1 = math_power(k, half), s2 = math_power(k, k_sub(k, whole, half));
  val below = math_power(k, k_sub(k, half, whole));
  val e = k_fma(k, s1, math_expm1_near(k, r), k_sub(k, s1, below));
  val same = k_or(k, k_eq(k, x, k_f32(k, 0)), math_is_nan(k, x));
  return k_select(k, same, x, k_mul(k, e, s2));
}

val math_tanh_of(kernel *k, val x) {
  val n, a = k_abs(k, math_without_nan(k, x));
  a = math_at_most(k, k_add(k, a, a), 20);
  val r = exp_reduce(k, a, &n), s = math_power(k, k_to_i32(k, n));
  val m = k_fma(k, s, math_expm1_near(k, r), k_sub(k, s, k_f32(k, 1)));
  return math_keep_nan(k, x, math_sign_of(k, k_div(k, m, k_add(k, m, k_f32(k, 2))), x));
}

val math_sigmoid_of(kernel *k, val x) {
  val e = math_exp_of(k, math_minus_abs(k, x)), one = k_f32(k, 1);
  val above = k_select(k, k_lt(k, x, k_f32(k, 0)), e, one);
  return math_keep_nan(k, x, k_div(k, above, k_add(k, e, one)));
}

/* The polynomial of one side of the split or of the other. */
static val erf_side(kernel *k, val is_near, val u, const float *near, const float *far, int n) {
  val sum = k_select(k, is_near, k_f32(k, near[n - 1]), k_f32(k, far[n - 1]));
  for (int i = n - 2; i >= 0; i--)
    sum = k_fma(k, sum, u, k_select(k, is_near, k_f32(k, near[i]), k_f32(k, far[i])));
  return sum;
}

val math_erf_of(kernel *k, val x) {
  val a = k_abs(k, math_without_nan(k, x)), is_near = k_lt(k, a, k_f32(k, MATH_ERF_SPLIT));
  val u = k_select(k, is_near, k_mul(k, a, a), math_at_most(k, a, MATH_ERF_MOST));
  val above = erf_side(k, is_near, u, math_erf_near_above, math_erf_far_above,
                       COUNT_OF(math_erf_near_above));
  val below = erf_side(k, is_near, u, math_erf_near_below, math_erf_far_below,
                       COUNT_OF(math_erf_near_below));
  val r = k_div(k, above, below);
  val size = k_select(k, is_near, k_fma(k, a, r, a), k_sub(k, k_f32(k, 1), r));
  return math_keep_nan(k, x, math_sign_of(k, size, x));
}

/* --- logarithms --- */

/* x = 2^n m with sqrt(1/2) <= m < sqrt(2), for x > 0; what it gives for others is not used. */
val math_split(kernel *k, val x, val *n) {
  val small = k_lt(k, x, k_f32(k, 0x1p-126f));
  val i = k_sub(k, math_bits(k, k_select(k, small, k_mul(k, x, k_f32(k, 0x1p25f)), x)),
                k_i32(k, MATH_SQRT_HALF_BITS));
  val whole = k_to_f32(k, math_shift(k, i, 23));
  *n = k_sub(k, whole, k_select(k, small, k_f32(k, 25), k_f32(k, 0)));
  val m = k_and(k, i, k_i32(k, 0x7fffff));
  return math_float(k, k_add(k, m, k_i32(k, MATH_SQRT_HALF_BITS)));
}

/* log(1 + f) - f + more */
static val log_near(kernel *k, val x, val more) {
  val h = k_mul(k, x, x), cube = k_mul(k, x, h);
  return k_fma(k, k_f32(k, -0.5f), h, k_fma(k, cube, MATH_POLY(k, x, math_log), more));
}

/* What logarithms are where x is not between 0 and infinity: -inf, NaN, x. */
static val log_ends(kernel *k, val x, val r) {
  val zero = k_f32(k, 0), below = k_select(k, k_eq(k, x, zero), k_f32(k, -INFINITY), k_f32(k, NAN));
  r = k_select(k, k_lt(k, x, k_f32(k, INFINITY)), r, x);
  return k_select(k, k_lt(k, zero, x), r, math_keep_nan(k, x, below));
}

val math_log_of(kernel *k, val x) {
  val n, m = k_sub(k, math_split(k, x, &n), k_f32(k, 1));
  val r = k_add(k, m, log_near(k, m, k_mul(k, n, k_f32(k, MATH_LN2_LO))));
  return log_ends(k, x, k_fma(k, n, k_f32(k, MATH_LN2_HI), r));
}

val math_log2_of(kernel *k, val x) {
  val n, m = k_sub(k, math_split(k, x, &n), k_f32(k, 1));
  val r = k_add(k, m, log_near(k, m, k_f32(k, 0)));
  return log_ends(k, x, k_fma(k, r, k_f32(k, MATH_LOG2E), n));
}

/* For x > -1 and finite. What 1 + x loses is found and put back. */
static val log1p_inside(kernel *k, val x) {
  val one = k_f32(k, 1), u = k_add(k, x, one);
  val lost =
      k_select(k, k_lt(k, x, one), k_sub(k, x, k_sub(k, u, one)), k_sub(k, one, k_sub(k, u, x)));
  val n, m = math_split(k, u, &n), counts = k_lt(k, n, k_f32(k, 100)); /* beyond, nothing counts */
  val by = k_select(k, counts, k_neg(k, n), k_f32(k, 0));
  lost = k_mul(k, k_select(k, counts, lost, k_f32(k, 0)), math_power(k, k_to_i32(k, by)));
  val d = k_add(k, k_sub(k, m, one), lost);
  val r = k_add(k, d, log_near(k, d, k_mul(k, n, k_f32(k, MATH_LN2_LO))));
  return k_fma(k, n, k_f32(k, MATH_LN2_HI), r);
}

val math_log1p_of(kernel *k, val x) {
  val r = log_ends(k, k_add(k, x, k_f32(k, 1)), log1p_inside(k, x));
  return k_select(k, k_eq(k, x, k_f32(k, 0)), x, r);
}

val math_softplus_of(kernel *k, val x) {
  val e = math_exp_of(k, math_minus_abs(k, x));
  return math_keep_nan(k, x, k_add(k, math_at_least(k, x, 0), log1p_inside(k, e)));
}
