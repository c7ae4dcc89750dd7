/* Few results with long sums, as gradients of the weights of convolutions are said: that k is cut into slices, that sums are right
 * on every instruction set, and the same to the last bit on 1 to 4 threads. */
#include "device/cpu/matmul.h"
#include "support/conv_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { RATE = CONV_OWN };

/* Weights of images and results, times a rate of a half. */
static conv_case *draw_case(uint32_t seed) {
  conv_case *c = conv_case_new(seed);
  c->fractions = seed % 2 == 0;
  c->n = 2 + conv_case_draw(c, 3);
  c->kernel[0] = c->kernel[1] = 1 + 2 * conv_case_draw(c, 2);
  c->ci = 5 + conv_case_draw(c, c->kernel[0] == 1 ? 100 : 15);
  c->co = 5 + conv_case_draw(c, 40);
  for (int d = 0; d < CONV_DIMS; d++) {
    c->stride[d] = 1 + conv_case_draw(c, 2);
    c->before[d] = conv_case_draw(c, c->kernel[d]);
    conv_case_fit(c, d, 0, (45 + conv_case_draw(c, 10)) * c->stride[d]);
  }
  conv_case_tensors(c);
  conv_case_add(c, RATE, SN_F32, 1);
  *(float *)c->address[RATE] = 0.5f;
  c->axes = conv_case_axes_weights(true);
  c->a[0] = conv_case_read(conv_case_at(c, CONV_IMAGES));
  c->b[0] = conv_case_read(conv_case_at(c, CONV_RESULTS));
  c->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  c->epilogue[1] = conv_case_read((access){.value = RATE});
  c->epilogue[2] = conv_case_alu(ALU_mul, 0, 1);
  c->epilogue[3] = conv_case_write(conv_case_at(c, CONV_WEIGHTS), 2);
  conv_case_make_step(c, 1, 4);
  return c;
}

static void check_sums(const conv_case *c) {
  const float *got = c->address[CONV_WEIGHTS];
  double *sums = conv_case_sums(c, CONV_WEIGHTS, false);
  double *sizes = conv_case_sums(c, CONV_WEIGHTS, true);
  for (int64_t i = 0; i < c->values[CONV_WEIGHTS].count && !test_failed(); i++)
    if (!(fabs((double)got[i] - 0.5 * sums[i]) <= (c->fractions ? 1e-6 * sizes[i] : 0)))
      FAIL("weight %lld: %g, expected %g", (long long)i, (double)got[i], 0.5 * sums[i]);
  free(sums);
  free(sizes);
}

static void check_case(uint32_t seed, const cpu_isa *isa) {
  conv_case *c = draw_case(seed);
  size_t bytes = (size_t)c->values[CONV_WEIGHTS].count * sizeof(float);
  float *first = malloc(bytes);
  CHECK(matmul_slices(&c->part.u.matmul) > 1);
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    conv_case_clear(c);
    conv_case_run(c, isa, threads);
    if (threads == 1) {
      check_sums(c);
      memcpy(first, c->address[CONV_WEIGHTS], bytes);
    }
    CHECK(memcmp(first, c->address[CONV_WEIGHTS], bytes) == 0);
    if (test_failed())
      FAIL("seed %u, %d threads", seed, threads);
  }
  free(first);
  conv_case_free(c);
}

static void check_cases(const cpu_isa *isa) {
  for (uint32_t seed = 1; seed <= 8 && !test_failed(); seed++)
    check_case(seed, isa);
}

TEST_WALK(long_sums_are_right) { cpu_case_each_isa(check_cases); }
