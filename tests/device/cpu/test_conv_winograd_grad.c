/* Gradients of the weights of 3 x 3 convolutions with fewer products (conv_winograd_grad.c) against plain sums, on every
 * instruction set and 1 to 4 threads. With small integers all is exact; with fractions, errors are compared with those of the plain
 * way, and bits do not depend on threads. */
#include "device/cpu/conv_winograd.h"
#include "support/conv_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { SCALE = CONV_OWN, TAPS = CONV_KERNEL * CONV_KERNEL };

/* Weights of images and results. The long epilogue: acc * scale[co] + acc. */
static void make_case(conv_case *c, bool is_long) {
  conv_case_tensors(c);
  conv_case_add(c, SCALE, SN_F32, c->co);
  c->axes = conv_case_axes_weights(c->n > 1);
  c->a[0] = conv_case_read(conv_case_at(c, CONV_IMAGES));
  c->b[0] = conv_case_read(conv_case_at(c, CONV_RESULTS));
  c->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  c->epilogue[1] = conv_case_read(conv_case_at_axis(c, SCALE, c->axes.co));
  c->epilogue[2] = conv_case_alu(ALU_mul, 0, 1);
  c->epilogue[3] = conv_case_alu(ALU_add, 2, 0);
  c->epilogue[is_long ? 4 : 1] = conv_case_write(conv_case_at(c, CONV_WEIGHTS), is_long ? 3 : 0);
  conv_case_make_step(c, 1, is_long ? 5 : 2);
}

static bool is_taken(const conv_case *c) {
  return winograd_grad_shared(&c->p, &c->part.u.matmul) > 0;
}

static void check_shape(const int64_t *s, bool is_long, const cpu_isa *isa) {
  conv_case *c = conv_case_new_same(s[0], s[1], s[2], s[3], s[4]);
  for (int d = 0; d < CONV_DIMS; d++) {
    c->before[d] = s[5 + d];
    c->windows[d] = c->size[d] + 2 * c->before[d] - (CONV_KERNEL - 1);
  }
  make_case(c, is_long);
  CHECK(is_taken(c));
  double *sums = conv_case_sums(c, CONV_WEIGHTS, false);
  const float *scale = c->address[SCALE];
  for (int64_t i = 0; is_long && i < c->values[CONV_WEIGHTS].count; i++)
    sums[i] *= (double)scale[i / TAPS / c->ci] + 1;
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    conv_case_clear(c);
    conv_case_run(c, isa, threads);
    if (!conv_case_check(c, CONV_WEIGHTS, sums))
      FAIL("%d threads", threads);
  }
  free(sums);
  conv_case_free(c);
}

/* Images of odd sizes, one image, slabs of some lines, channels beyond a whole panel, results through the epilogue in several pieces,
 * no padding, much of it. */
static void check_integers(const cpu_isa *isa) {
  static const int64_t shapes[][7] = {{2, 60, 70, 19, 21, 1, 1},  {1, 64, 70, 28, 30, 1, 1},
                                      {3, 40, 230, 16, 14, 1, 0}, {2, 230, 49, 14, 16, 0, 1},
                                      {3, 64, 24, 56, 56, 1, 1},  {2, 64, 65, 20, 18, 0, 0},
                                      {2, 65, 64, 14, 16, 2, 2},  {4, 160, 150, 9, 7, 1, 1}};
  for (size_t i = 0; i < COUNT_OF(shapes) && !test_failed(); i++) {
    check_shape(shapes[i], i % 2, isa);
    if (test_failed())
      FAIL("shape %zu", i);
  }
}

TEST_WALK(integers) { cpu_case_each_isa(check_integers); }

static void check_fractions(const cpu_isa *isa) {
  conv_case *cases[] = {conv_case_new_same(2, 64, 64, 20, 20),
                        conv_case_new_same(3, 100, 70, 12, 11)};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    cases[i]->fractions = true;
    make_case(cases[i], false);
    conv_case_check_errors(cases[i], CONV_WEIGHTS, isa, 2.5);
  }
}

TEST_WALK(fractions) { cpu_case_each_isa(check_fractions); }

TEST(who_may) {
  conv_case *c = conv_case_new_same(2, 64, 64, 16, 16);
  make_case(c, false);
  matmul_part *t = &c->part.u.matmul;
  CHECK(is_taken(c));
  term *row = conv_case_term(c, &c->a[0].at, c->axes.window);
  row->stride *= 2; /* every other row */
  CHECK(!is_taken(c));
  row->stride /= 2;
  t->extent[1] = 5;
  CHECK(!is_taken(c));
  t->extent[1] = CONV_KERNEL;
  c->checks[0].divisor = 2;
  CHECK(!is_taken(c));
  c->checks[0].divisor = 1;
  CHECK(is_taken(c));
  t->extent[0] = 12; /* too few channels */
  CHECK(!is_taken(c));
  conv_case_free(c);
}
