/* Conversions of lanes to and from f16 and bf16: what base/half.h says, bit for bit, without branches, so that loops over
 * lanes become vector code. (The small ones go through f32 addition: round to nearest, nothing flushed to 0.) */
#ifndef SINEW_DEVICE_CPU_LANES_H
#define SINEW_DEVICE_CPU_LANES_H

#include "base/half.h"

#include <stdbool.h>

/* All bits or none. */
static inline uint32_t lane_mask(bool b) { return 0 - (uint32_t)b; }

#define LANE_EXPONENT (UINT32_C(1) << 23) /* one step of f32's exponent */

static inline float lane_from_f16(uint16_t h) {
  const uint32_t least = 113 * LANE_EXPONENT; /* 2^-14: below it f16 is subnormal */
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = (uint32_t)(h & 0x7fff) << 13;
  uint32_t normal = size + 112 * LANE_EXPONENT;
  uint32_t small = f32_bits(f32_from_bits(size + least) - f32_from_bits(least));
  uint32_t is_small = lane_mask(size < LANE_EXPONENT);
  /* infinity and NaN: the largest exponent, quiet */
  normal += lane_mask(size >= 31 * LANE_EXPONENT) & (112 * LANE_EXPONENT);
  uint32_t quiet = lane_mask(size > 31 * LANE_EXPONENT) & 0x400000;
  return f32_from_bits(sign | (small & is_small) | (normal & ~is_small) | quiet);
}

static inline uint16_t lane_to_f16(float f) {
  uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
  uint32_t normal = (x - 112 * LANE_EXPONENT + 0xfff + (x >> 13 & 1)) >> 13;
  /* The units of 0.5 … 1 are those of f16's subnormals: adding rounds to them. */
  uint32_t is_small = lane_mask(x < 113 * LANE_EXPONENT);
  uint32_t small = f32_bits(f32_from_bits(x & is_small) + 0.5f) - f32_bits(0.5f);
  uint32_t is_large = lane_mask(x >= 0x477ff000), is_nan = lane_mask(x > 0x7f800000);
  uint32_t nan = 0x7e00 | (x >> 13 & 0x3ff);
  uint32_t finite = (small & is_small) | (normal & ~is_small);
  uint32_t number = (0x7c00 & is_large) | (finite & ~is_large);
  return (uint16_t)(sign | (nan & is_nan) | (number & ~is_nan));
}

static inline uint16_t lane_to_bf16(float f) {
  uint32_t x = f32_bits(f), is_nan = lane_mask((x & 0x7fffffff) > 0x7f800000);
  uint32_t number = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  return (uint16_t)(((x >> 16 | 0x40) & is_nan) | (number & ~is_nan));
}

#endif
