/* Sines, tangents and their inverses, in f32 and whole numbers: no f64. See emit_math.h. */
#include "device/vulkan/emit_math.h"

/* The first 96 bits of 2/pi that matter for a number m 2^ex, m of 24 bits, ex from -24 to 104: their first has the weight 2
 * in the product with it, those before it are multiples of 4. */
static void angle_window(kernel *k, val ex, val out[3]) {
  enum {
    WORDS = 8
  }; /* a word of zeros for what stands before the point, then those of the table */
  val at = k_add(k, ex, k_i32(k, 30)), word = math_shift(k, at, 5);
  val by = k_to_u32(k, k_and(k, at, k_i32(k, 31))), w[4];
  for (int i = 0; i < 4; i++) {
    w[i] = k_u32(k, i ? math_two_over_pi[i - 1] : 0);
    for (int j = 1; j < 5; j++)
      w[i] = k_select(k, k_eq(k, word, k_i32(k, j)),
                      k_u32(k, i + j < WORDS ? math_two_over_pi[i + j - 1] : 0), w[i]);
  }
  val back = k_sub(k, k_u32(k, 32), by), whole = k_eq(k, by, k_u32(k, 0));
  back = k_select(k, whole, k_u32(k, 31), back);
  for (int i = 0; i < 3; i++) {
    val high = spirv_op(&k->s, SPV_ShiftLeftLogical, k->s.u32, SPV_ARGS(w[i], by));
    val low = spirv_op(&k->s, SPV_ShiftRightLogical, k->s.u32, SPV_ARGS(w[i + 1], back));
    out[i] = k_select(k, whole, w[i], k_or(k, high, low));
  }
}

/* |x| = (4 j + quarter) pi/2 + r, |r| <= pi/4, for finite x: by the product with 2/pi in whole numbers. */
static val angle(kernel *k, val x, val *quarter) {
  spirv *s = &k->s;
  val b = k_and(k, math_bits(k, x), k_i32(k, MATH_SIGN)), a = math_float(k, b), w[3], p[3];
  val small = k_le(k, a, k_f32(k, 0x1.921fb4p-1f));
  val ex = k_sub(k, k_shr(k, b, 23), k_i32(k, 150));
  ex = k_min(k, k_max(k, ex, k_i32(k, -24)), k_i32(k, 104));
  val m = k_or(k, k_and(k, b, k_i32(k, 0x7fffff)), k_i32(k, 0x800000));
  m = spirv_op(s, SPV_UConvert, s->u64, SPV_ARGS(k_to_u32(k, m)));
  angle_window(k, ex, w);
  for (int i = 0; i < 3; i++)
    p[i] = k_mul(k, m, spirv_op(s, SPV_UConvert, s->u64, SPV_ARGS(w[i])));
  val turns = k_add(k, k_shl(k, p[0], 32), k_add(k, p[1], k_shr(k, p[2], 32))); /* units: 2^-62 */
  val fraction = k_shl(k, turns, 2), upper = k_shr(k, fraction, 63);
  *quarter = k_to_i32(k, k_add(k, k_shr(k, turns, 62), upper));
  val over = k_ne(k, upper, spirv_u64(s, 0)), zero = spirv_u64(s, 0);
  val size = k_to_f32(k, k_select(k, over, k_sub(k, zero, fraction), fraction));
  val r = k_mul(k, k_mul(k, size, k_f32(k, 0x1p-64f)), k_f32(k, 0x1.921fb6p+0f));
  r = k_select(k, over, k_neg(k, r), r);
  *quarter = k_select(k, small, k_i32(k, 0), *quarter);
  return k_select(k, small, a, r);
}

static val sin_near(kernel *k, val r) {
  val t = k_mul(k, r, r);
  return k_fma(k, k_mul(k, t, r), MATH_POLY(k, t, math_sin), r);
}
static val cos_near(kernel *k, val r) {
  val t = k_mul(k, r, r), rest = k_fma(k, k_f32(k, -0.5f), t, k_f32(k, 1));
  return k_fma(k, k_mul(k, t, t), MATH_POLY(k, t, math_cos), rest);
}
/* The sine of r + quarter pi/2. */
val math_sine(kernel *k, val r, val quarter) {
  val odd = k_ne(k, k_and(k, quarter, k_i32(k, 1)), k_i32(k, 0));
  val v = k_select(k, odd, cos_near(k, r), sin_near(k, r));
  val flip = k_shl(k, k_and(k, quarter, k_i32(k, 2)), 30);
  return math_float(k, k_xor(k, math_bits(k, v), flip));
}
static val finite_or_nan(kernel *k, val x, val r) {
  return k_select(k, k_lt(k, k_abs(k, x), k_f32(k, INFINITY)), r, k_f32(k, NAN));
}
val math_sin_of(kernel *k, val x) {
  val q, r = angle(k, x, &q), v = math_sine(k, r, q);
  val sign = k_and(k, math_bits(k, x), k_i32(k, INT32_MIN));
  return finite_or_nan(k, x, math_float(k, k_xor(k, math_bits(k, v), sign)));
}
val math_cos_of(kernel *k, val x) {
  val q, r = angle(k, x, &q);
  return finite_or_nan(k, x, math_sine(k, r, k_add(k, q, k_i32(k, 1))));
}
val math_tan_of(kernel *k, val x) {
  val q, r = angle(k, x, &q), one = k_i32(k, 1);
  val t = k_div(k, math_sine(k, r, q), math_sine(k, r, k_add(k, q, one)));
  val sign = k_and(k, math_bits(k, x), k_i32(k, INT32_MIN));
  return finite_or_nan(k, x, math_float(k, k_xor(k, math_bits(k, t), sign)));
}

/* The angle of y / x for y, x >= 0, not both 0 or both infinite: 0 … pi/2. */
static val atan_ratio(kernel *k, val y, val x) {
  val steep = k_lt(k, x, y);
  val t = k_div(k, k_select(k, steep, x, y), k_select(k, steep, y, x));
  val far = k_lt(k, k_f32(k, MATH_TAN_EIGHTH), t), one = k_f32(k, 1);
  val u = k_select(k, far, k_div(k, k_sub(k, t, one), k_add(k, t, one)), t);
  val v = k_mul(k, u, u);
  val a = k_fma(k, k_mul(k, u, v), MATH_POLY(k, v, math_atan), u);
  a = k_add(k, a, k_select(k, far, k_f32(k, 0x1.921fb6p-1f), k_f32(k, 0)));
  return k_select(k, steep, k_sub(k, k_f32(k, 0x1.921fb6p+0f), a), a);
}

val math_atan_of(kernel *k, val x) {
  val a = k_abs(k, math_without_nan(k, x));
  return math_keep_nan(k, x, math_sign_of(k, atan_ratio(k, a, k_f32(k, 1)), x));
}

val math_atan2_of(kernel *k, val y, val x) {
  val nan = k_or(k, math_is_nan(k, x), math_is_nan(k, y)), zero = k_f32(k, 0), one = k_f32(k, 1);
  val ay = k_abs(k, math_without_nan(k, y)), ax = k_abs(k, math_without_nan(k, x));
  val infinite = k_and(k, k_eq(k, ay, k_f32(k, INFINITY)), k_eq(k, ax, ay));
  val origin = k_and(k, k_eq(k, ay, zero), k_eq(k, ax, zero));
  ay = k_select(k, infinite, one, ay);
  ax = k_select(k, k_or(k, infinite, origin), one, ax);
  val a = atan_ratio(k, ay, ax);
  val left = k_lt(k, math_bits(k, x), k_i32(k, 0)); /* by the sign, also of -0 */
  a = k_select(k, left, k_sub(k, k_f32(k, 0x1.921fb6p+1f), a), a);
  return k_select(k, nan, k_f32(k, NAN), math_sign_of(k, a, y));
}
