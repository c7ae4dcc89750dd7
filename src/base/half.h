/* Conversions between f16 or bf16 (as bits) and f32 or f64.
 *
 * Invariants: widening is exact. Narrowing rounds once, to nearest, ties to even, also into the
 * subnormals; what is too large becomes infinity. NaN stays NaN with its sign and the top of its
 * payload and becomes quiet, which is what the conversion instructions of CPUs do; so all non-NaN
 * bits survive narrow(widen(bits)). Signs of zeros are kept. Plain integer code: the result does
 * not depend on the rounding mode or on flush-to-zero.
 */
#ifndef SINEW_BASE_HALF_H
#define SINEW_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float f32_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float half_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = (uint32_t)(h >> 10) & 31, fraction = h & 0x3ff;
  if (exponent == 31) {
    uint32_t quiet = fraction ? 0x400000 : 0;
    return f32_from_bits(sign | 0x7f800000 | quiet | fraction << 13);
  }
  if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in f32 */
    float x = (float)fraction * 0x1p-24f;
    return f32_from_bits(sign | f32_bits(x));
  }
  return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline float bf16_to_f32(uint16_t b) { return f32_from_bits((uint32_t)b << 16); }

/* x / 2^shift, rounded to nearest even; shift >= 1 and x + 2^shift fits. */
static inline uint64_t half_shift_round(uint64_t x, int shift) {
  return (x + (UINT64_C(1) << (shift - 1)) - 1 + (x >> shift & 1)) >> shift;
}

static inline uint16_t half_from_f32(float f) {
  uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
  if (x > 0x7f800000) /* NaN */
    return (uint16_t)(sign | 0x7e00 | (x >> 13 & 0x3ff));
  if (x >= 0x477ff000) /* 65520 and above round to infinity */
    return (uint16_t)(sign | 0x7c00);
  if (x >= 0x38800000) /* 2^-14: normal; rebias the exponent, a carry of rounding moves it right */
    return (uint16_t)(sign | half_shift_round(x - (UINT32_C(112) << 23), 13));
  uint32_t exponent = x >> 23;
  if (exponent < 102) /* below 2^-25, half of the least subnormal */
    return (uint16_t)sign;
  return (uint16_t)(sign | half_shift_round((x & 0x7fffff) | 0x800000, (int)(126 - exponent)));
}

static inline uint16_t bf16_from_f32(float f) {
  uint32_t x = f32_bits(f);
  if ((x & 0x7fffffff) > 0x7f800000) /* NaN */
    return (uint16_t)(x >> 16 | 0x40);
  return (uint16_t)half_shift_round(x, 16);
}

/* From f64 to a 16-bit format with `exponent_bits` and 15 - exponent_bits bits of fraction. */
static inline uint16_t half_narrow_f64(double d, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits;
  uint64_t rebias = 1023 - ((UINT64_C(1) << (exponent_bits - 1)) - 1);
  uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction_bits;
  int shift = 52 - fraction_bits;
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  uint64_t sign = bits >> 48 & 0x8000, x = bits & (UINT64_MAX >> 1), exponent = x >> 52;
  if (x > UINT64_C(0x7ff) << 52) { /* NaN */
    uint64_t quiet = UINT64_C(1) << (fraction_bits - 1);
    return (uint16_t)(sign | infinity | quiet | (x >> shift & ((quiet << 1) - 1)));
  }
  if (exponent > rebias) { /* normal in the target, or too large for it */
    if (exponent - rebias >= UINT64_C(1) << exponent_bits)
      return (uint16_t)(sign | infinity);
    uint64_t y = half_shift_round(x - (rebias << 52), shift);
    return (uint16_t)(sign | (y < infinity ? y : infinity));
  }
  uint64_t below = rebias + 1 - exponent; /* subnormal: shift further by what lies below */
  if (below > (uint64_t)fraction_bits + 1)
    return (uint16_t)sign;
  uint64_t significand = (x & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
  return (uint16_t)(sign | half_shift_round(significand, shift + (int)below));
}

static inline uint16_t half_from_f64(double d) { return half_narrow_f64(d, 5); }
static inline uint16_t bf16_from_f64(double d) { return half_narrow_f64(d, 8); }

#endif
