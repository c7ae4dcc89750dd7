/* Drawing the values of inputs, and single numbers of any dtype. See replay.h and docs/replay.md. */
#include "cli/replay.h"

#include <math.h>
#include <string.h>

/* --- numbers --- */

static double load_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

static double load_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return (double)x;
}

double replay_load(sn_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case SN_F32: return (double)((const float *)data)[i];
  case SN_F16: return load_f16(((const uint16_t *)data)[i]);
  case SN_BF16: return load_f32((uint32_t)((const uint16_t *)data)[i] << 16);
  case SN_I32: return ((const int32_t *)data)[i];
  default: return ((const uint8_t *)data)[i];
  }
}

int64_t replay_count(sn_shape shape) {
  int64_t n = 1;
  for (int d = 0; d < shape.rank; d++)
    n *= shape.dim[d];
  return n;
}

const char *replay_type_text(sn_type type, char out[REPLAY_TYPE]) {
  int n = snprintf(out, REPLAY_TYPE, "%s[", sn_dtype_name(type.dtype));
  for (int d = 0; d < type.shape.rank; d++)
    n += snprintf(out + n, (size_t)(REPLAY_TYPE - n), "%s%lld", d ? ", " : "",
                  (long long)type.shape.dim[d]);
  snprintf(out + n, (size_t)(REPLAY_TYPE - n), "]");
  return out;
}

/* --- drawing --- */

const replay_drawing replay_drawn = {.seed = 0, .most = 3};

/* FNV-1a. */
static uint64_t hash(uint64_t seed, const char *name) {
  uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
  for (; *name; name++)
    h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return h;
}

/* SplitMix64: number i of the sequence of a seed. */
static uint64_t bits_at(uint64_t seed, int64_t i) {
  uint64_t z = seed + (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* -2 … 2 in equal steps, each of which the dtype holds exactly: 2^-22 of f32, 2^-9 of f16, 2^-6 of bf16. */
static float float_of(sn_dtype dtype, uint64_t bits) {
  int k = dtype == SN_F32 ? 24 : dtype == SN_F16 ? 11 : 8;
  int64_t whole = (int64_t)(bits >> (64 - k)) - (INT64_C(1) << (k - 1));
  return ldexpf((float)whole, 2 - k);
}

/* The upper half of an f32; of f16 no drawn number is subnormal, infinite or needs rounding. */
static uint16_t half_of(sn_dtype dtype, float x) {
  uint32_t b;
  memcpy(&b, &x, sizeof b);
  if (dtype == SN_BF16)
    return (uint16_t)(b >> 16);
  return (uint16_t)(x == 0 ? 0 : (b >> 16 & 0x8000) | ((b >> 13 & 0x3ffff) - (112u << 10)));
}

void replay_draw(replay_leaf *leaf, const replay_drawing *drawing) {
  sn_dtype dtype = leaf->type.dtype;
  uint64_t seed = bits_at(hash(drawing->seed, leaf->name), 0);
  uint64_t most = (uint64_t)drawing->most;
  most = dtype == SN_BOOL ? 1 : dtype == SN_U8 && most > UINT8_MAX ? UINT8_MAX : most;
  int64_t n = replay_count(leaf->type.shape);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = bits_at(seed, i);
    float x = float_of(dtype, bits);
    uint64_t whole = (bits >> 32) * (most + 1) >> 32;
    switch (dtype) {
    case SN_F32: ((float *)leaf->data)[i] = x; break;
    case SN_F16:
    case SN_BF16: ((uint16_t *)leaf->data)[i] = half_of(dtype, x); break;
    case SN_I32: ((int32_t *)leaf->data)[i] = (int32_t)whole; break;
    default: ((uint8_t *)leaf->data)[i] = (uint8_t)whole; break;
    }
  }
}
