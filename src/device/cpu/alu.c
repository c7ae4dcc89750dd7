/* Arithmetic of regions: one function an instruction and kind of lanes. Called by the region machine through
 * cpu_alu_kernel; the meaning of each is step/alu.def.
 *
 * Cheap instructions run in blocks of CPU_LANE_BLOCK lanes, a fixed count that compilers turn into vector code; they
 * may compute lanes beyond n. Those that call libm stop at n. */
#include "device/cpu/lanes.h"
#include "device/cpu/machine.h"

#include <math.h>

#define KERNEL(name)                                                                             \
  static void name(void *restrict out, const void *pa, const void *pb, const void *pc, double x, \
                   double y, int n)
#define UNUSED_ARGUMENTS (void)pa, (void)pb, (void)pc, (void)x, (void)y

/* A kernel of `expression` over p, q (lanes of a, b of type IN) giving OUT. */
#define BLOCKS(name, OUT, IN, expression)                    \
  KERNEL(name) {                                             \
    UNUSED_ARGUMENTS;                                        \
    OUT *restrict o = out;                                   \
    const IN *a = pa, *b = pb ? pb : pa;                     \
    for (int block = 0; block < n; block += CPU_LANE_BLOCK)  \
      for (int i = block; i < block + CPU_LANE_BLOCK; i++) { \
        IN p = a[i], q = b[i];                               \
        (void)q;                                             \
        o[i] = (OUT)(expression);                            \
      }                                                      \
  }
#define LANES(name, OUT, IN, expression) \
  KERNEL(name) {                         \
    UNUSED_ARGUMENTS;                    \
    OUT *restrict o = out;               \
    const IN *a = pa, *b = pb ? pb : pa; \
    for (int i = 0; i < n; i++) {        \
      IN p = a[i], q = b[i];             \
      (void)q;                           \
      o[i] = (OUT)(expression);          \
    }                                    \
  }

/* --- floats --- */
BLOCKS(neg_f, float, float, -p)
BLOCKS(abs_f, float, float, fabsf(p))
BLOCKS(sign_f, float, float, p != p ? p : (float)((p > 0) - (p < 0)))
BLOCKS(recip_f, float, float, 1 / p)
BLOCKS(sqrt_f, float, float, sqrtf(p))
BLOCKS(rsqrt_f, float, float, 1 / sqrtf(p))
LANES(exp2_f, float, float, exp2f(p))
LANES(expm1_f, float, float, expm1f(p))
LANES(log_f, float, float, logf(p))
LANES(log2_f, float, float, log2f(p))
LANES(log1p_f, float, float, log1pf(p))
LANES(sin_f, float, float, sinf(p))
LANES(cos_f, float, float, cosf(p))
LANES(tan_f, float, float, tanf(p))
LANES(atan_f, float, float, atanf(p))
LANES(erf_f, float, float, erff(p))
LANES(floor_f, float, float, floorf(p))
LANES(ceil_f, float, float, ceilf(p))
LANES(round_f, float, float, rintf(p))

/* e to the v within 2 ulp, without a branch or a call, so that lane loops become vector code. v = k ln 2 + r with
 * |r| <= ln 2 / 2; e^r by its series; 2^k as two factors, so that neither end of the range is cut off early. */
static inline float exp_of(float v) {
  const float shifter =
      0x1.8p23f; /* adding it rounds to an integer, which its low bits then hold */
  float size = fabsf(v);
  v = copysignf(size > 104 ? 104 : size, v); /* beyond, the result is 0 or infinite all the same */
  float shifted = v * 1.44269504f + shifter, n = shifted - shifter;
  int32_t k = (int32_t)(f32_bits(shifted) - f32_bits(shifter)), half = k >> 1;
  float r = v - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 as a short number and the rest */
  float series = 1 + r * (1.0f / 7);
  series = 1 + r * (1.0f / 6) * series;
  series = 1 + r * (1.0f / 5) * series;
  series = 1 + r * (1.0f / 4) * series;
  series = 1 + r * (1.0f / 3) * series;
  series = r + r * r * 0.5f * series;
  float low = f32_from_bits((uint32_t)(half + 127) << 23);
  float high = f32_from_bits((uint32_t)(k - half + 127) << 23);
  return (1 + series) * low * high;
}
static inline float sigmoid(float v) {
  float e = exp_of(-fabsf(v)), above = v < 0 ? e : 1;
  return above / (1 + e);
}
/* Near 0 by the series, where 1 - e would cancel. */
static inline float tanh_of(float v) {
  float a = fabsf(v), q = v * v, e = exp_of(-2 * a), far = (1 - e) / (1 + e);
  float near =
      1 + q * (-1.0f / 3 +
               q * (2.0f / 15 + q * (-17.0f / 315 + q * (62.0f / 2835 + q * (-1382.0f / 155925)))));
  uint32_t by_series = 0 - (uint32_t)(a < 0.35f); /* a mask: a choice would become a branch */
  uint32_t t = (f32_bits(a * near) & by_series) | (f32_bits(far) & ~by_series);
  return copysignf(f32_from_bits(t), v);
}
BLOCKS(exp_f, float, float, exp_of(p))
BLOCKS(sigmoid_f, float, float, sigmoid(p))
BLOCKS(tanh_f, float, float, tanh_of(p))

static float softplus(float v) { return v != v ? v : (v > 0 ? v : 0) + log1pf(expf(-fabsf(v))); }
LANES(softplus_f, float, float, softplus(p))

BLOCKS(add_f, float, float, p + q)
BLOCKS(sub_f, float, float, p - q)
BLOCKS(mul_f, float, float, p *q)
BLOCKS(div_f, float, float, p / q)
/* In f64: a quotient just below an integer must not be rounded up to it first. */
LANES(floor_div_f, float, float, floor((double)p / (double)q))
static float rem_of(float p, float q) {
  float r = fmodf(p, q);
  return r != 0 && (r < 0) != (q < 0) ? r + q : r;
}
LANES(rem_f, float, float, rem_of(p, q))
LANES(fmod_f, float, float, fmodf(p, q))
LANES(pow_f, float, float, powf(p, q))
LANES(atan2_f, float, float, atan2f(p, q))
BLOCKS(max_f, float, float, ((p > q) | (p != p)) ? p : q)
BLOCKS(min_f, float, float, ((p < q) | (p != p)) ? p : q)

/* --- bools of floats --- */
BLOCKS(isnan_b, int32_t, float, p != p)
BLOCKS(isinf_b, int32_t, float, fabsf(p) == INFINITY)
BLOCKS(eq_b, int32_t, float, p == q)
BLOCKS(ne_b, int32_t, float, p != q)
BLOCKS(lt_b, int32_t, float, p < q)
BLOCKS(le_b, int32_t, float, p <= q)
BLOCKS(gt_b, int32_t, float, p > q)
BLOCKS(ge_b, int32_t, float, p >= q)

/* --- integers: as unsigned where they wrap --- */
#define WRAP(p, op, q) (int32_t)((uint32_t)(p)op(uint32_t)(q))
BLOCKS(neg_i, int32_t, int32_t, WRAP(0, -, p))
BLOCKS(abs_i, int32_t, int32_t, p < 0 ? WRAP(0, -, p) : p)
BLOCKS(sign_i, int32_t, int32_t, (p > 0) - (p < 0))
BLOCKS(same_i, int32_t, int32_t, p)
BLOCKS(add_i, int32_t, int32_t, WRAP(p, +, q))
BLOCKS(sub_i, int32_t, int32_t, WRAP(p, -, q))
BLOCKS(mul_i, int32_t, int32_t, WRAP(p, *, q))
BLOCKS(max_i, int32_t, int32_t, p > q ? p : q)
BLOCKS(min_i, int32_t, int32_t, p < q ? p : q)
BLOCKS(eq_i, int32_t, int32_t, p == q)
BLOCKS(ne_i, int32_t, int32_t, p != q)
BLOCKS(lt_i, int32_t, int32_t, p < q)
BLOCKS(le_i, int32_t, int32_t, p <= q)
BLOCKS(gt_i, int32_t, int32_t, p > q)
BLOCKS(ge_i, int32_t, int32_t, p >= q)
BLOCKS(not_i, int32_t, int32_t, p == 0)
BLOCKS(and_i, int32_t, int32_t, (p != 0) & (q != 0))
BLOCKS(or_i, int32_t, int32_t, (p != 0) | (q != 0))
BLOCKS(xor_i, int32_t, int32_t, (p != 0) != (q != 0))

/* In 64 bits, so that INT32_MIN / -1 wraps when it is narrowed. */
static int64_t div_of(int64_t p, int64_t q) { return q == 0 ? 0 : p / q; }
static int64_t fmod_of(int64_t p, int64_t q) { return q == 0 ? 0 : p % q; }
static int64_t floor_div_of(int64_t p, int64_t q) {
  return q == 0 ? 0 : p / q - (p % q != 0 && (p < 0) != (q < 0));
}
static int64_t rem_int(int64_t p, int64_t q) {
  int64_t r = fmod_of(p, q);
  return r != 0 && (r < 0) != (q < 0) ? r + q : r;
}
static int32_t pow_int(int32_t p, int32_t q) {
  uint32_t result = 1, base = (uint32_t)p;
  if (q < 0)
    return p == 1 ? 1 : p == -1 ? (q % 2 ? -1 : 1) : 0;
  for (; q; q >>= 1, base *= base)
    result *= q & 1 ? base : 1;
  return (int32_t)result;
}
LANES(div_i, int32_t, int32_t, div_of(p, q))
LANES(floor_div_i, int32_t, int32_t, floor_div_of(p, q))
LANES(rem_i, int32_t, int32_t, rem_int(p, q))
LANES(fmod_i, int32_t, int32_t, fmod_of(p, q))
LANES(pow_i, int32_t, int32_t, pow_int(p, q))

/* --- select --- */
#define SELECT(name, TYPE)                                   \
  KERNEL(name) {                                             \
    (void)x, (void)y;                                        \
    TYPE *restrict o = out;                                  \
    const int32_t *a = pa;                                   \
    const TYPE *b = pb, *c = pc;                             \
    for (int block = 0; block < n; block += CPU_LANE_BLOCK)  \
      for (int i = block; i < block + CPU_LANE_BLOCK; i++) { \
        TYPE yes = b[i], no = c[i];                          \
        o[i] = a[i] ? yes : no;                              \
      }                                                      \
  }
SELECT(select_f, float)
SELECT(select_i, int32_t)

/* --- casts --- */
BLOCKS(cast_ff, float, float, p)
BLOCKS(cast_if, float, int32_t, p)
/* Rounded once: by way of f32 it would be twice. */
LANES(cast_i_f16, float, int32_t, half_to_f32(half_from_f64(p)))
LANES(cast_i_bf16, float, int32_t, bf16_to_f32(bf16_from_f64(p)))
static int32_t truncated(float p, float least, float beyond, int32_t most) {
  return p != p ? 0 : p >= beyond ? most : p <= least ? (int32_t)least : (int32_t)p;
}
LANES(cast_f_i32, int32_t, float, truncated(p, -0x1p31f, 0x1p31f, INT32_MAX))
LANES(cast_f_u8, int32_t, float, truncated(p, 0, 256, 255))
BLOCKS(cast_f_bool, int32_t, float, p != 0)
BLOCKS(cast_i_u8, int32_t, int32_t, p<0 ? 0 : p> 255 ? 255 : p)
BLOCKS(cast_i_bool, int32_t, int32_t, p != 0)

static alu_kernel cast_kernel(sn_dtype result, sn_dtype from) {
  bool of_float = dtype_is_float(from);
  switch (result) {
  case SN_F32: return of_float ? cast_ff : cast_if;
  case SN_F16: return of_float ? cast_ff : cast_i_f16;
  case SN_BF16: return of_float ? cast_ff : cast_i_bf16;
  case SN_I32: return of_float ? cast_f_i32 : same_i;
  case SN_U8: return of_float ? cast_f_u8 : cast_i_u8;
  case SN_BOOL: return of_float ? cast_f_bool : cast_i_bool;
  default: return NULL;
  }
}

/* --- random words --- */
BLOCKS(unit_f, float, int32_t, (float)((uint32_t)p >> 8) * 0x1p-24f)
LANES(bits_below_i, int32_t, int32_t, (double)((uint32_t)p >> 8) < x)

static int32_t range_int(int32_t a, int32_t b, double lo, double count) {
  uint64_t n = (uint64_t)count;
  uint64_t offset = ((uint32_t)a * n + ((uint32_t)b * n >> 32)) >> 32;
  return (int32_t)(uint32_t)((uint64_t)(int64_t)lo + offset);
}
LANES(range_int_i, int32_t, int32_t, range_int(p, q, x, y))

/* Sine or cosine of a turn of t / 2^24: exact reduction to an eighth, so that no multiple of pi is rounded far from 0. */
static double turn(uint32_t t, bool sine) {
  if (sine) /* sin(t) = cos(t - a quarter) */
    t = (t + (3u << 22)) & 0xffffff;
  uint32_t quarter = t >> 22, within = t & 0x3fffff;
  bool minus = quarter == 1 || quarter == 2;
  if (quarter & 1) /* cos(90° + w) = -cos(90° - w) */
    within = (1u << 22) - within;
  double eighth = 6.283185307179586 * 0x1p-24;
  double v = within <= 1u << 21 ? cos(within * eighth) : sin(((1u << 22) - within) * eighth);
  return minus ? -v : v;
}
static float gauss(uint32_t a, uint32_t b, bool second) {
  double radius = sqrt(-2 * log(((a >> 8) + 1) * 0x1p-24));
  return (float)(radius * turn(b >> 8, second));
}
KERNEL(gauss_f) {
  (void)x, (void)y;
  float *o = out;
  const int32_t *a = pa, *b = pb, *c = pc;
  for (int i = 0; i < n; i++)
    o[i] = gauss((uint32_t)a[i], (uint32_t)b[i], c[i] != 0);
}

/* --- the table: kernels by what they read and give --- */
typedef struct kernels {
  alu_kernel ff, ii; /* floats to floats, integers to integers */
  alu_kernel fi, xi; /* floats to integers, integers to floats */
} kernels;
static const kernels table[ALU_COUNT] = {
    [ALU_neg] = {.ff = neg_f, .ii = neg_i},
    [ALU_abs] = {.ff = abs_f, .ii = abs_i},
    [ALU_sign] = {.ff = sign_f, .ii = sign_i},
    [ALU_recip] = {.ff = recip_f},
    [ALU_sqrt] = {.ff = sqrt_f},
    [ALU_rsqrt] = {.ff = rsqrt_f},
    [ALU_exp] = {.ff = exp_f},
    [ALU_exp2] = {.ff = exp2_f},
    [ALU_expm1] = {.ff = expm1_f},
    [ALU_log] = {.ff = log_f},
    [ALU_log2] = {.ff = log2_f},
    [ALU_log1p] = {.ff = log1p_f},
    [ALU_sin] = {.ff = sin_f},
    [ALU_cos] = {.ff = cos_f},
    [ALU_tan] = {.ff = tan_f},
    [ALU_atan] = {.ff = atan_f},
    [ALU_tanh] = {.ff = tanh_f},
    [ALU_sigmoid] = {.ff = sigmoid_f},
    [ALU_softplus] = {.ff = softplus_f},
    [ALU_erf] = {.ff = erf_f},
    [ALU_floor] = {.ff = floor_f, .ii = same_i},
    [ALU_ceil] = {.ff = ceil_f, .ii = same_i},
    [ALU_round] = {.ff = round_f, .ii = same_i},
    [ALU_isnan] = {.fi = isnan_b},
    [ALU_isinf] = {.fi = isinf_b},
    [ALU_not] = {.ii = not_i},
    [ALU_unit] = {.xi = unit_f},
    [ALU_add] = {.ff = add_f, .ii = add_i},
    [ALU_sub] = {.ff = sub_f, .ii = sub_i},
    [ALU_mul] = {.ff = mul_f, .ii = mul_i},
    [ALU_div] = {.ff = div_f, .ii = div_i},
    [ALU_floor_div] = {.ff = floor_div_f, .ii = floor_div_i},
    [ALU_rem] = {.ff = rem_f, .ii = rem_i},
    [ALU_fmod] = {.ff = fmod_f, .ii = fmod_i},
    [ALU_pow] = {.ff = pow_f, .ii = pow_i},
    [ALU_max] = {.ff = max_f, .ii = max_i},
    [ALU_min] = {.ff = min_f, .ii = min_i},
    [ALU_atan2] = {.ff = atan2_f},
    [ALU_eq] = {.fi = eq_b, .ii = eq_i},
    [ALU_ne] = {.fi = ne_b, .ii = ne_i},
    [ALU_lt] = {.fi = lt_b, .ii = lt_i},
    [ALU_le] = {.fi = le_b, .ii = le_i},
    [ALU_gt] = {.fi = gt_b, .ii = gt_i},
    [ALU_ge] = {.fi = ge_b, .ii = ge_i},
    [ALU_and] = {.ii = and_i},
    [ALU_or] = {.ii = or_i},
    [ALU_xor] = {.ii = xor_i},
    [ALU_range_int] = {.ii = range_int_i},
    [ALU_bits_below] = {.ii = bits_below_i},
    [ALU_select] = {.ff = select_f, .ii = select_i},
    [ALU_gauss] = {.xi = gauss_f},
};

alu_kernel cpu_alu_kernel(alu code, sn_dtype result, sn_dtype from) {
  if (code == ALU_cast)
    return cast_kernel(result, from);
  const kernels *k = &table[code];
  if (dtype_is_float(result))
    return dtype_is_float(from) ? k->ff : k->xi;
  return dtype_is_float(from) ? k->fi : k->ii;
}

#define EACH_LANE(TYPE, expression)                        \
  for (int block = 0; block < n; block += CPU_LANE_BLOCK)  \
    for (int i = block; i < block + CPU_LANE_BLOCK; i++) { \
      TYPE p = ((TYPE *)lanes)[i];                         \
      ((TYPE *)lanes)[i] = expression;                     \
    }

void cpu_alu_round(sn_dtype dtype, void *lanes, int n) {
  if (dtype == SN_F16)
    EACH_LANE(float, lane_from_f16(lane_to_f16(p)))
  else if (dtype == SN_BF16)
    EACH_LANE(float, bf16_to_f32(lane_to_bf16(p)))
  else if (dtype == SN_U8)
    EACH_LANE(int32_t, p & 255)
}
