/* Arithmetic of regions in doubles: the meaning of each row of alu.def, as plainly as can be. */
#include "ir/dtype.h"
#include "support/element_machine.h"

#include <math.h>

static double wrapped(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

static double softplus(double x) { return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x))); }

static double round_even(double x) {
  double down = floor(x), rest = x - down;
  if (rest == 0.5)
    return fmod(down, 2) == 0 ? down : down + 1;
  return rest < 0.5 ? down : rest > 0.5 ? down + 1 : x;
}

static double remainder_of(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double unit_of(double word) { return ((uint32_t)(int32_t)word >> 8) * 0x1p-24; }

static double range_int(double a, double b, double lo, double count) {
  uint64_t high = (uint32_t)(int32_t)a, low = (uint32_t)(int32_t)b, n = (uint64_t)count;
  return lo + (double)((high * n + (low * n >> 32)) >> 32);
}

static double gauss(double a, double b, double second) {
  double angle = 6.28318530717958647693 * unit_of(b);
  return sqrt(-2 * log(unit_of(a) + 0x1p-24)) * (second != 0 ? sin(angle) : cos(angle));
}

static double neg(double a) { return -a; }
static double sign(double a) { return isnan(a) ? a : (a > 0) - (a < 0); }
static double recip(double a) { return 1 / a; }
static double rsqrt(double a) { return 1 / sqrt(a); }
static double is_nan(double a) { return isnan(a) != 0; }
static double is_inf(double a) { return isinf(a) != 0; }
static double not_of(double a) { return a == 0; }
static double same(double a) { return a; }

static double (*const unary[ALU_COUNT])(double) = {
    [ALU_neg] = neg,      [ALU_abs] = fabs,        [ALU_sign] = sign,         [ALU_recip] = recip,
    [ALU_sqrt] = sqrt,    [ALU_rsqrt] = rsqrt,     [ALU_exp] = exp,           [ALU_exp2] = exp2,
    [ALU_expm1] = expm1,  [ALU_log] = log,         [ALU_log2] = log2,         [ALU_log1p] = log1p,
    [ALU_sin] = sin,      [ALU_cos] = cos,         [ALU_tan] = tan,           [ALU_atan] = atan,
    [ALU_tanh] = tanh,    [ALU_sigmoid] = sigmoid, [ALU_softplus] = softplus, [ALU_erf] = erf,
    [ALU_floor] = floor,  [ALU_ceil] = ceil,       [ALU_round] = round_even,  [ALU_isnan] = is_nan,
    [ALU_isinf] = is_inf, [ALU_not] = not_of,      [ALU_cast] = same,         [ALU_unit] = unit_of};

static bool compared(alu code, double a, double b, double *out) {
  switch (code) {
  case ALU_eq: *out = a == b; return true;
  case ALU_ne: *out = a != b; return true;
  case ALU_lt: *out = a < b; return true;
  case ALU_le: *out = a <= b; return true;
  case ALU_gt: *out = a > b; return true;
  case ALU_ge: *out = a >= b; return true;
  case ALU_and: *out = a != 0 && b != 0; return true;
  case ALU_or: *out = a != 0 || b != 0; return true;
  case ALU_xor: *out = (a != 0) != (b != 0); return true;
  default: return false;
  }
}

static double float_arithmetic(alu code, double a, double b) {
  bool is_nan = isnan(a) || isnan(b);
  switch (code) {
  case ALU_add: return a + b;
  case ALU_sub: return a - b;
  case ALU_mul: return a * b;
  case ALU_div: return a / b;
  case ALU_floor_div: return floor(a / b);
  case ALU_rem: return remainder_of(a, b);
  case ALU_fmod: return fmod(a, b);
  case ALU_pow: return pow(a, b);
  case ALU_max: return is_nan ? (double)NAN : fmax(a, b);
  case ALU_min: return is_nan ? (double)NAN : fmin(a, b);
  case ALU_atan2: return atan2(a, b);
  default: return NAN;
  }
}

static double int_arithmetic(alu code, double x, double y) {
  int64_t a = (int64_t)x, b = (int64_t)y;
  bool divides = code == ALU_div || code == ALU_floor_div || code == ALU_rem || code == ALU_fmod;
  if (divides && b == 0)
    return 0;
  switch (code) {
  case ALU_add: return wrapped(a + b);
  case ALU_sub: return wrapped(a - b);
  case ALU_mul: return wrapped(a * b);
  case ALU_div: return wrapped(a / b);
  case ALU_floor_div: return wrapped(a / b - (a % b != 0 && (a < 0) != (b < 0)));
  default: return float_arithmetic(code, x, y);
  }
}

double element_alu(const instr *i, double a, double b, double c) {
  alu code = (alu)i->code;
  double made;
  if (code == ALU_select)
    return a != 0 ? b : c;
  if (code == ALU_gauss)
    return gauss(a, b, c);
  if (code == ALU_range_int)
    return range_int(a, b, i->x, i->y);
  if (code == ALU_bits_below)
    return (double)((uint32_t)(int32_t)a >> 8) < i->x;
  if (compared(code, a, b, &made))
    return made;
  if (unary[code]) {
    made = unary[code](a);
    bool as_is = instr_is_float(i) || code == ALU_cast || i->dtype == SN_BOOL;
    return as_is ? made : wrapped((int64_t)made);
  }
  return instr_is_float(i) ? float_arithmetic(code, a, b) : int_arithmetic(code, a, b);
}
