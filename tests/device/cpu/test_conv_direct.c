/* Convolutions of few channels a group against a plain sum, on every instruction set and 1 to 4 threads. Numbers are small
 * integers, so that sums are exact. */
#include "support/conv_case.h"
#include "support/test.h"

#include <stdlib.h>

static conv_case *draw_case(uint32_t seed) {
  conv_case *c = conv_case_new(seed);
  c->n = 1 + conv_case_draw(c, 3);
  c->groups = 1 + conv_case_draw(c, 6);
  c->ci = 1 + conv_case_draw(c, 4);
  c->co = 1 + conv_case_draw(c, 5);
  for (int d = 0; d < CONV_DIMS; d++) {
    c->stride[d] = conv_case_draw(c, 3) ? 1 : 1 + conv_case_draw(c, 3);
    c->dilation[d] = conv_case_draw(c, 3) ? 1 : 2;
    c->kernel[d] = 1 + conv_case_draw(c, 4);
    c->before[d] = conv_case_draw(c, 4);
    int64_t after = conv_case_draw(c, 4);
    conv_case_fit(c, d, after, conv_case_draw(c, d == 1 ? 60 : 12));
  }
  conv_case_tensors(c);
  c->axes = conv_case_axes_forward(true, true);
  c->a[0] = conv_case_read(conv_case_at(c, CONV_IMAGES));
  c->b[0] = conv_case_read(conv_case_at(c, CONV_WEIGHTS));
  c->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  c->epilogue[1] = conv_case_write(conv_case_at(c, CONV_RESULTS), 0);
  conv_case_make_step(c, 1, 2);
  return c;
}

static void check_cases(const cpu_isa *isa) {
  for (uint32_t seed = 1; seed <= 150 && !test_failed(); seed++) {
    conv_case *c = draw_case(seed);
    double *sums = conv_case_sums(c, CONV_RESULTS, false);
    for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
      conv_case_clear(c);
      conv_case_run(c, isa, threads);
      if (!conv_case_check(c, CONV_RESULTS, sums))
        FAIL("seed %u, %d threads", seed, threads);
    }
    free(sums);
    conv_case_free(c);
  }
}

TEST_WALK(few_channels_a_group) { cpu_case_each_isa(check_cases); }
