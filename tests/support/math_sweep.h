/* How far the vector functions of an instruction set are from the C library's in f64, in units of the last place of f32. */
#ifndef SINEW_TESTS_SUPPORT_MATH_SWEEP_H
#define SINEW_TESTS_SUPPORT_MATH_SWEEP_H

#include "device/cpu/isa.h"
#include "step/region.h"

typedef struct math_function {
  alu code;
  double (*exact)(double x);
  double bound; /* that step/math.h states, in ulp */
} math_function;
extern const math_function math_functions[];
extern const int math_function_count;

/* Fails where one of the floats whose bits are from, from + stride, … (below 2^32) is off by more than the bound. Gives the
 * largest error. */
double math_sweep(const cpu_isa *isa, const math_function *f, uint64_t from, uint64_t stride);
/* Difference in units of the last place of what `exact` is in f32; of NaN and infinities: 0 or infinite. Results that f32 rounds to
 * infinity may be the largest number, and reversed. */
double math_ulps(float got, double exact);

#endif
