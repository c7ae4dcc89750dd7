/* Convolutions over two dimensions and their gradients as steps of the CPU device. A convolution has three tensors, images
 * [n, groups * ci, size…], weights [groups * co, ci, kernel…] and results [n, groups * co, windows…]; any one of them is the sum of
 * products of the other two. A test draws sizes, says the axes of its step, and has the accesses, the memory and the sums made here:
 *
 *   conv_case *c = conv_case_new(seed);           // groups, strides and dilations of 1, kernels of 3 x 3
 *   c->axes = conv_case_axes_forward(false, true);
 *   conv_case_tensors(c);
 *   c->a[0] = conv_case_read(conv_case_at(c, CONV_IMAGES)); …
 *   conv_case_make_step(c, 1, 2);
 */
#ifndef SINEW_TESTS_SUPPORT_CONV_CASE_H
#define SINEW_TESTS_SUPPORT_CONV_CASE_H

#include "support/cpu_case.h"

enum { CONV_IMAGES = 1, CONV_WEIGHTS, CONV_RESULTS, CONV_OWN, CONV_VALUES = 8 };
enum { CONV_DIMS = 2, CONV_KERNEL = 3, CONV_CODE = 8, CONV_TERMS = 48 };

/* Numbers of the step's axes: the part's, then those of k. Windows and taps have two. -1: none. */
typedef struct conv_case_axes {
  int group, n, window, ci, co, tap;
  int n_part; /* how many are the part's */
} conv_case_axes;

typedef struct conv_case {
  uint32_t seed;
  bool fractions; /* numbers are; else small integers, of which all sums are exact */
  bool turned;    /* kernels the other way round, as in gradients for inputs */
  conv_case_axes axes;
  int64_t n, groups, ci, co;
  int64_t size[CONV_DIMS], windows[CONV_DIMS], kernel[CONV_DIMS], stride[CONV_DIMS],
      before[CONV_DIMS], dilation[CONV_DIMS];
  program p;
  program_value values[CONV_VALUES];
  program_leaf states[1];
  void *address[CONV_VALUES];
  term terms[CONV_TERMS];
  int n_terms;
  check checks[CONV_DIMS];
  instr a[CONV_CODE], b[1], epilogue[CONV_CODE];
  matmul_product product;
  matmul_acc acc;
  part part;
  step step;
} conv_case;

conv_case *conv_case_new(uint32_t seed);
/* Of 3 x 3, padded by one all around. */
conv_case *conv_case_new_same(int64_t n, int64_t ci, int64_t co, int64_t rows, int64_t columns);
void conv_case_free(conv_case *c);

int64_t conv_case_draw(conv_case *c, int64_t below);
/* The size, `more` than the least that the kernel asks for, and the windows that it has, of kernel, stride, dilation, padding. */
void conv_case_fit(conv_case *c, int d, int64_t after, int64_t more);

/* m: n, windows; n: co; k: ci, taps. */
conv_case_axes conv_case_axes_forward(bool grouped, bool several_images);
/* m: ci, taps; n: co; k: n, windows. */
conv_case_axes conv_case_axes_weights(bool several_images);

/* Memory with drawn numbers. */
void conv_case_add(conv_case *c, int value, sn_dtype dtype, int64_t count);
void conv_case_tensors(conv_case *c);

/* Where a point of the step has its element of a tensor. */
access conv_case_at(conv_case *c, int tensor);
access conv_case_at_axis(conv_case *c, int value, int axis);
/* The term of an axis, which is there, to be changed. */
term *conv_case_term(conv_case *c, const access *at, int axis);
/* Adds to an access whose terms were the last added. */
void conv_case_add_term(conv_case *c, access *at, int axis, int64_t stride);
instr conv_case_read(access at);
instr conv_case_write(access at, reg a);
instr conv_case_alu(alu code, reg a, reg b);
/* The step of the operands a and b and the epilogue, which are there. */
void conv_case_make_step(conv_case *c, int n_a, int n_epilogue);

/* Garbage in all that the step writes. */
void conv_case_clear(conv_case *c);
void conv_case_run(conv_case *c, const cpu_isa *isa, int threads);

/* What a tensor is of the other two, in f64, or of their magnitudes. The caller frees. */
double *conv_case_sums(const conv_case *c, int tensor, bool magnitudes);
/* Whether it is that; fails the test if not. */
bool conv_case_check(const conv_case *c, int tensor, const double *sums);
/* Of fractions: bits do not depend on threads; errors are at most `most` times those of the plain way, which a step goes whose
 * operand b is cast. Frees the case. */
void conv_case_check_errors(conv_case *c, int tensor, const cpu_isa *isa, double most);

#endif
