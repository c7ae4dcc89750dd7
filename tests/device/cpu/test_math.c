/* The vector functions of every instruction set against the C library in f64: the bounds that step/math.h states. A sample of
 * all floats here; all of them in tests/long/test_math_all.c. */
#include "support/math_sweep.h"
#include "support/test.h"

#include "base/half.h"
#include "device/cpu/isa/lanes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void each_isa(void (*f)(const cpu_isa *isa)) {
  for (int i = 0; cpu_isa_at(i); i++)
    f(cpu_isa_at(i));
}

static void sweep_all(const cpu_isa *isa) {
  for (int i = 0; i < math_function_count; i++) {
    double worst = math_sweep(isa, &math_functions[i], 1, 4099);
    if (getenv("MATH_SWEEP_PRINT"))
      fprintf(stderr, "%-9s %-9s %.3f ulp\n", isa->name, alu_table[math_functions[i].code].name,
              worst);
  }
}
TEST(sample_of_all_floats) { each_isa(sweep_all); }

/* Where functions change their form, and where floats end. */
static void check_ends(const cpu_isa *isa) {
  static const float at[] = {0,       1,         1.5625f, 3.92f,   88.7228f, 104,       0x1p-126f,
                             FLT_MAX, 0x1p-149f, 0.3466f, 0.5f,    1e6f,     0x1p23f,   20,
                             0.7071f, 1.4142f,   2,       0x1p24f, 1e-3f,    0.785398f, 128};
  for (int i = 0; i < math_function_count; i++)
    for (size_t k = 0; k < COUNT_OF(at); k++)
      for (int sign = 0; sign < 2; sign++) {
        uint32_t bits = f32_bits(sign ? -at[k] : at[k]);
        uint64_t from = bits > 200 ? bits - 200 : bits;
        float x[512], got[512];
        for (int j = 0; j < 512; j++)
          x[j] = f32_from_bits((uint32_t)(from + (uint64_t)j));
        isa->lanes->alu(math_functions[i].code, SN_F32, SN_F32, 0)(got, x, NULL, NULL, 0, 0, 512);
        for (int j = 0; j < 512; j++) {
          double ulps = math_ulps(got[j], math_functions[i].exact((double)x[j]));
          if (ulps > math_functions[i].bound &&
              !FAIL("%s on %s at %a: %.3g ulp", alu_table[math_functions[i].code].name, isa->name,
                    (double)x[j], ulps))
            return;
        }
      }
}
TEST(ends_of_ranges) { each_isa(check_ends); }

/* Powers: a grid of exponents over bases of all sizes, with the special cases of C. */
static void check_pow(const cpu_isa *isa) {
  static const float y[] = {0,     -0.0f,    1,         -1,  2,    -2,    3,
                            0.5f,  -0.5f,    1.0f / 3,  10,  2.5f, -7.1f, 100.5,
                            1e-4f, INFINITY, -INFINITY, NAN, 41,   1e10f};
  float x[256], exponent[256], got[256];
  double worst = 0;
  for (uint64_t bits = 7; bits < UINT64_C(1) << 32; bits += 256 * 40009)
    for (size_t k = 0; k < COUNT_OF(y); k++) {
      for (int i = 0; i < 256; i++) {
        x[i] = f32_from_bits((uint32_t)(bits + (uint64_t)i * 40009));
        x[i] = isnan(x[i]) ? NAN : x[i]; /* of signalling ones C says nothing */
        exponent[i] = y[k];
      }
      isa->lanes->alu(ALU_pow, SN_F32, SN_F32, 0)(got, x, exponent, NULL, 0, 0, 256);
      for (int i = 0; i < 256; i++) {
        double ulps = math_ulps(got[i], pow((double)x[i], (double)y[k]));
        worst = fmax(worst, ulps);
        if (ulps > 2 && !FAIL("pow(%a, %a) on %s: %a, %.3g ulp", (double)x[i], (double)y[k],
                              isa->name, (double)got[i], ulps))
          return;
      }
    }
  if (getenv("MATH_SWEEP_PRINT"))
    fprintf(stderr, "%-9s pow       %.3f ulp\n", isa->name, worst);
}
TEST(powers) { each_isa(check_pow); }
