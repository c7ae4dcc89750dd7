/* See math_sweep.h. */
#include "support/math_sweep.h"

#include "base/half.h"
#include "device/cpu/isa/lanes.h"
#include "support/test.h"

#include <float.h>
#include <math.h>

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double softplus_or_nan(double x) { return isnan(x) ? x : softplus(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }

const math_function math_functions[] = {
    {ALU_exp, exp, 2},     {ALU_exp2, exp2, 2},       {ALU_expm1, expm1, 3},
    {ALU_log, log, 2},     {ALU_log2, log2, 3},       {ALU_log1p, log1p, 3},
    {ALU_sin, sin, 2},     {ALU_cos, cos, 2},         {ALU_tan, tan, 4},
    {ALU_tanh, tanh, 4},   {ALU_sigmoid, sigmoid, 3}, {ALU_softplus, softplus_or_nan, 3},
    {ALU_erf, erf, 3},     {ALU_sqrt, sqrt, 0.5},     {ALU_rsqrt, rsqrt, 1.5},
    {ALU_floor, floor, 0}, {ALU_ceil, ceil, 0},       {ALU_round, rint, 0},
};
const int math_function_count = (int)COUNT_OF(math_functions);

double math_ulps(float got, double exact) {
  if (isnan(exact) || isnan(got))
    return isnan(exact) && isnan(got) ? 0 : (double)INFINITY;
  if ((double)got == exact)
    return !signbit(got) == !signbit(exact) ? 0 : (double)INFINITY;
  if (isinf(exact))
    return (double)INFINITY;
  int exponent;
  exact = fmax(-0x1p128, fmin(0x1p128, exact));
  (void)frexp(exact, &exponent);
  double unit = ldexp(1, (exponent < -125 ? -125 : exponent > 128 ? 128 : exponent) - 24);
  double value = isinf(got) ? copysign(0x1p128, (double)got) : (double)got;
  return fabs(value - exact) / unit;
}

enum { BATCH = 256 };

static bool check_batch(const cpu_isa *isa, const math_function *f, const float *x, int n,
                        double *worst) {
  float got[BATCH];
  lane_alu kernel = isa->lanes->alu(f->code, SN_F32, SN_F32, 0);
  kernel(got, x, NULL, NULL, 0, 0, BATCH);
  for (int i = 0; i < n; i++) {
    double ulps = math_ulps(got[i], f->exact((double)x[i]));
    *worst = fmax(*worst, ulps);
    if (ulps > f->bound)
      return FAIL("%s on %s: of %a it gives %a, exactly %a, %.3g ulp", alu_table[f->code].name,
                  isa->name, (double)x[i], (double)got[i], f->exact((double)x[i]), ulps);
  }
  return true;
}

double math_sweep(const cpu_isa *isa, const math_function *f, uint64_t from, uint64_t stride) {
  float x[BATCH] = {0};
  double worst = 0;
  int n = 0;
  for (uint64_t bits = from; bits < UINT64_C(1) << 32; bits += stride) {
    x[n++] = f32_from_bits((uint32_t)bits);
    if (n < BATCH && bits + stride < UINT64_C(1) << 32)
      continue;
    if (!check_batch(isa, f, x, n, &worst))
      break;
    n = 0;
  }
  return worst;
}
