/* Powers, quotients and remainders: what needs more digits than f32 has, in sums of two floats. See emit_math.h. */
#include "device/vulkan/emit_math.h"

/* a * b as a sum of two floats: halves of 12 bits have exact products. */
static val product(kernel *k, val a, val b, val *low) {
  val mask = k_i32(k, (int32_t)0xfffff000), p = k_mul(k, a, b);
  val ah = math_float(k, k_and(k, math_bits(k, a), mask)), al = k_sub(k, a, ah);
  val bh = math_float(k, k_and(k, math_bits(k, b), mask)), bl = k_sub(k, b, bh);
  val rest = k_sub(k, k_mul(k, ah, bh), p);
  rest = k_add(k, rest, k_mul(k, ah, bl));
  rest = k_add(k, rest, k_mul(k, al, bh));
  *low = k_add(k, rest, k_mul(k, al, bl));
  return p;
}

/* log2 of a > 0 as a sum of two floats. */
static val log2_exact(kernel *k, val a, val *low) {
  val n, m = math_split(k, a, &n), one = k_f32(k, 1), d = k_sub(k, m, one),
         below = k_add(k, m, one);
  val s = k_div(k, d, below), back, product_low;
  back = product(k, s, below, &product_low);
  val lost = k_sub(k, one, k_sub(k, below, m)); /* below + lost = m + 1 */
  val rest = k_sub(k, k_sub(k, d, back), product_low);
  rest = k_sub(k, rest, k_mul(k, s, lost));
  val s_low = k_div(k, rest, below), t = k_mul(k, s, s), p_low;
  val p = product(k, s, k_f32(k, MATH_LOG2_HI), &p_low);
  val tail = k_mul(k, k_mul(k, s, t), MATH_POLY(k, t, math_log2_tail));
  p_low = k_add(k, p_low, k_mul(k, s, k_f32(k, MATH_LOG2_LO)));
  p_low = k_add(k, p_low, k_mul(k, s_low, k_f32(k, MATH_LOG2_HI)));
  p_low = k_add(k, p_low, tail);
  val sum = k_add(k, n, p), gone = k_sub(k, p, k_sub(k, sum, n)); /* |n| > |p|, or n = 0 */
  *low = k_add(k, gone, p_low);
  return sum;
}

/* a^b for a > 0, both finite. */
static val pow_inside(kernel *k, val a, val b) {
  val l_low, l = log2_exact(k, a, &l_low), z_low, z = product(k, b, l, &z_low);
  z_low = k_add(k, z_low, k_mul(k, b, l_low));
  val big = k_lt(k, k_f32(k, 160), k_abs(k, z)); /* 0 or infinite all the same */
  z = math_at_most(k, math_at_least(k, z, -160), 160);
  z_low = k_select(k, big, k_f32(k, 0), z_low);
  val n = k_glsl(k, GLSL_RoundEven, z), r = k_add(k, k_sub(k, z, n), z_low);
  return math_scale(k, k_add(k, math_expm1_near(k, k_mul(k, r, k_f32(k, MATH_LN2))), k_f32(k, 1)),
                    n);
}

val math_pow_of(kernel *k, val a, val b) {
  val zero = k_f32(k, 0), one = k_f32(k, 1), inf = k_f32(k, INFINITY), x = k_abs(k, a),
      y = k_abs(k, b);
  val nan = k_or(k, math_is_nan(k, a), math_is_nan(k, b));
  val ends = k_or(k, k_or(k, k_eq(k, x, zero), k_eq(k, x, inf)), k_or(k, k_eq(k, y, inf), nan));
  val r = pow_inside(k, k_select(k, ends, one, x), k_select(k, ends, one, b));
  /* at the ends only the sign of b log a counts */
  val up = k_eq(k, k_lt(k, one, x), k_lt(k, zero, b));
  val end = k_select(k, k_eq(k, x, one), one, k_select(k, up, inf, zero));
  r = k_select(k, ends, end, r);
  val half = k_mul(k, b, k_f32(k, 0.5f));
  val whole = k_or(k, k_eq(k, k_glsl(k, GLSL_Floor, b), b), k_eq(k, y, inf));
  val odd = k_and(k, whole, k_ne(k, k_glsl(k, GLSL_Floor, half), half));
  odd = k_and(k, odd, k_lt(k, y, inf));
  val negative = k_lt(k, math_bits(k, a), k_i32(k, 0));
  r = k_select(k, k_and(k, negative, odd), k_neg(k, r), r);
  val inside = k_and(k, k_lt(k, a, zero), k_lt(k, x, inf));
  r = k_select(k, k_and(k, inside, k_not(k, whole)), k_f32(k, NAN), r);
  r = k_select(k, nan, k_f32(k, NAN), r);
  return k_select(k, k_or(k, k_eq(k, b, zero), k_eq(k, a, one)), one, r);
}

/* --- division --- */

val math_quotient(kernel *k, val a, val b) {
  val q = k_div(k, a, b), low, p = product(k, q, b, &low);
  val rest = k_sub(k, k_sub(k, a, p), low), more = k_add(k, q, k_div(k, rest, b));
  val size = k_abs(k, q),
      inside = k_and(k, k_lt(k, size, k_f32(k, 0x1p100f)), k_lt(k, k_f32(k, 0x1p-100f), size));
  val moderate =
      k_and(k, k_lt(k, k_abs(k, p), k_f32(k, 0x1p120f)), k_lt(k, k_f32(k, 0x1p-100f), k_abs(k, p)));
  return k_select(k, k_and(k, inside, moderate), more, q);
}

/* A quotient that is just below a whole number may have been rounded to it, and one below 0 to -0: then what it leaves of a has not the
 * divisor's sign. */
val math_floor_quotient(kernel *k, val a, val b) {
  val q = k_glsl(k, GLSL_Floor, math_quotient(k, a, b)), zero = k_f32(k, 0), low;
  val p = product(k, q, b, &low), rest = k_sub(k, k_sub(k, a, p), low);
  val below = k_and(k, k_lt(k, rest, zero), k_lt(k, zero, b));
  val above = k_and(k, k_lt(k, zero, rest), k_lt(k, b, zero));
  return k_select(k, k_or(k, below, above), k_sub(k, q, k_f32(k, 1)), q);
}

/* The driver's root, made exact to the last digit by what it is short of, but where that is all but halfway between two numbers. */
val math_sqrt_of(kernel *k, val x) {
  val s = k_glsl(k, GLSL_Sqrt, x), low, p = product(k, s, s, &low);
  val rest = k_sub(k, k_sub(k, x, p), low);
  val more = k_add(k, s, k_div(k, rest, k_add(k, s, s)));
  val inside = k_and(k, k_lt(k, k_f32(k, 0x1p-80f), x), k_lt(k, x, k_f32(k, 0x1p100f)));
  return k_select(k, inside, more, s);
}

/* The exponent of x > 0 as bits have it; of a subnormal number, below that. */
static val exponent_of(kernel *k, val x) {
  val bits = math_bits(k, x), e = k_shr(k, bits, 23), zero = k_i32(k, 0);
  val of_whole = k_shr(k, math_bits(k, k_to_f32(k, bits)), 23);
  return k_select(k, k_eq(k, e, zero), k_sub(k, of_whole, k_i32(k, 149)), e);
}

/* |a| loses multiples of |b| 2^j, from the largest down, each product exact. */
val math_fmod_of(kernel *k, val a, val b) {
  val zero = k_f32(k, 0), inf = k_f32(k, INFINITY), x = k_abs(k, a), y = k_abs(k, b);
  val normal = k_and(k, k_and(k, k_lt(k, x, inf), k_lt(k, y, inf)), k_lt(k, zero, y));
  val by = k_select(k, normal, y, k_f32(k, 1));
  val left = k_var(k, k_select(k, normal, x, zero));
  k_loop l = k_loop_begin(k, k_i32(k, 0), k_i32(k, 16), k_i32(k, 1));
  val r = k_get(k, left);
  k_loop_break(k, &l, k_lt(k, r, by));
  val ex = k_sub(k, exponent_of(k, r), exponent_of(k, by));
  ex = k_max(k, k_sub(k, ex, k_i32(k, 20)), k_i32(k, 0));
  ex = k_min(k, ex, k_i32(k, 252)); /* that math_scale takes */
  val unit = math_scale(k, by, k_to_f32(k, ex)), low;
  val q = k_glsl(k, GLSL_Trunc, k_div(k, r, unit)), p = product(k, q, unit, &low);
  r = k_sub(k, k_sub(k, r, p), low);
  for (int i = 0; i < 2; i++) /* the quotient may be one or two too large */
    r = k_select(k, k_lt(k, r, zero), k_add(k, r, unit), r);
  k_set(k, left, r);
  k_loop_end(k, &l);
  val r2 = math_sign_of(k, k_get(k, left), a);
  val whole = k_and(k, k_lt(k, x, inf), k_eq(k, y, inf)); /* nothing to take away */
  return k_select(k, normal, r2, k_select(k, whole, a, k_f32(k, NAN)));
}
