/* The gradient of strided convolutions for their input, as the planner says it (floor_div registers, checks with divisors),
 * against a plain sum, on every instruction set and 1 to 4 threads; and that it is cut into phases. */
#include "device/cpu/conv.h"
#include "support/conv_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { RESIDUAL = CONV_OWN };

/* Images (dx) of results (dy) and weights. Axes: n, size… (where windows stand in convolutions), ci (m, m, m, n), then co, kernel…. */
static const conv_case_axes axes = {
    .group = -1, .n = 0, .window = 1, .ci = 3, .co = 4, .tap = 5, .n_part = 4};

static void draw_sizes(conv_case *c) {
  c->n = 1 + conv_case_draw(c, 2);
  c->ci = conv_case_draw(c, 3) ? 1 + conv_case_draw(c, 9) : 6 + conv_case_draw(c, 40);
  c->co = conv_case_draw(c, 9) ? 1 + conv_case_draw(c, 20) : 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    c->stride[d] = 1 + conv_case_draw(c, 4);
    c->dilation[d] = conv_case_draw(c, 3) ? 1 : 2 + conv_case_draw(c, 2);
    c->kernel[d] = 1 + conv_case_draw(c, 4);
    c->before[d] = conv_case_draw(c, 3);
    int64_t after = conv_case_draw(c, 3);
    conv_case_fit(c, d, after, conv_case_draw(c, 14));
  }
}

/* For each axis of a stride: number, index, floor_div; then the load. */
static int make_dy(conv_case *c) {
  int64_t plane = c->windows[0] * c->windows[1], strides[CONV_DIMS] = {c->windows[1], 1};
  access at = {.value = CONV_RESULTS, .n_checks = CONV_DIMS, .checks = c->checks};
  int n = 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    access of = {.base = c->before[d]};
    conv_case_add_term(c, &of, axes.window + d, 1);
    conv_case_add_term(c, &of, axes.tap + d, -c->dilation[d]);
    c->checks[d] = (check){.n_terms = 2,
                           .terms = of.terms,
                           .offset = c->before[d],
                           .size = c->windows[d],
                           .divisor = c->stride[d]};
    c->a[n] = (instr){.op = REGION_NUMBER, .dtype = SN_I32, .x = (double)c->stride[d]};
    c->a[n + 1] = (instr){.op = REGION_INDEX, .dtype = SN_I32, .at = of};
    c->a[n + 2] = conv_case_alu(ALU_floor_div, (reg)(n + 1), (reg)n);
    c->a[n + 2].dtype = SN_I32;
    n += c->stride[d] > 1 ? 3 : 0;
  }
  conv_case_add_term(c, &at, axes.n, c->co * plane);
  conv_case_add_term(c, &at, axes.co, plane);
  for (int d = 0, from = 2; d < CONV_DIMS; d++) {
    if (c->stride[d] == 1) {
      conv_case_add_term(c, &at, axes.window + d, strides[d]);
      conv_case_add_term(c, &at, axes.tap + d, -c->dilation[d] * strides[d]);
      at.base += c->before[d] * strides[d];
      continue;
    }
    conv_case_add_term(c, &at, TERM_REG, strides[d]);
    term *t = &c->terms[c->n_terms - 1];
    *t = (term){.axis = TERM_REG, .from = (reg)from, .stride = strides[d], .mod = c->windows[d]};
    from += 3;
  }
  c->a[n] = conv_case_read(at);
  c->a[n].dtype = (uint8_t)c->values[CONV_RESULTS].type.dtype;
  return n + 1;
}

static int make_epilogue(conv_case *c, bool residual) {
  access at = {.value = CONV_IMAGES};
  int64_t plane = c->size[0] * c->size[1];
  conv_case_add_term(c, &at, axes.n, c->ci * plane);
  conv_case_add_term(c, &at, axes.window, c->size[1]);
  conv_case_add_term(c, &at, axes.window + 1, 1);
  conv_case_add_term(c, &at, axes.ci, plane);
  int n = 0;
  c->epilogue[n++] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  if (residual) {
    c->epilogue[n] = conv_case_read(at);
    c->epilogue[n++].at.value = RESIDUAL;
    c->epilogue[n++] = conv_case_alu(ALU_add, 0, 1);
  }
  c->epilogue[n] = conv_case_write(at, (reg)(n - 1));
  return n + 1;
}

static conv_case *draw_case(uint32_t seed) {
  conv_case *c = conv_case_new(seed);
  draw_sizes(c);
  c->axes = axes;
  bool residual = conv_case_draw(c, 2);
  conv_case_tensors(c);
  if (conv_case_draw(c, 4) == 0)
    conv_case_add(c, CONV_RESULTS, SN_BF16, c->values[CONV_RESULTS].count);
  if (residual)
    conv_case_add(c, RESIDUAL, SN_F32, c->values[CONV_IMAGES].count);
  c->b[0] = conv_case_read(conv_case_at(c, CONV_WEIGHTS));
  int n_a = make_dy(c);
  conv_case_make_step(c, n_a, make_epilogue(c, residual));
  memcpy(c->part.u.matmul.extent + axes.window, c->size, sizeof c->size);
  return c;
}

/* Every second run has the result in place of what is added to it. */
static void check_threads(conv_case *c, const cpu_isa *isa, const double *sums) {
  void *residual = c->address[RESIDUAL], *result = c->address[CONV_IMAGES];
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    conv_case_clear(c);
    if (threads % 2 == 0 && residual) {
      memcpy(result, residual, (size_t)c->values[RESIDUAL].count * sizeof(float));
      c->address[RESIDUAL] = result;
    }
    conv_case_run(c, isa, threads);
    c->address[RESIDUAL] = residual;
    if (!conv_case_check(c, CONV_IMAGES, sums))
      FAIL("%d threads", threads);
  }
}

static void check_cases(const cpu_isa *isa) {
  for (uint32_t seed = 1; seed <= 150 && !test_failed(); seed++) {
    conv_case *c = draw_case(seed);
    double *sums = conv_case_sums(c, CONV_IMAGES, false);
    const float *residual = c->address[RESIDUAL];
    for (int64_t i = 0; residual && i < c->values[CONV_IMAGES].count; i++)
      sums[i] += (double)residual[i];
    check_threads(c, isa, sums);
    if (test_failed())
      FAIL("seed %u", seed);
    free(sums);
    conv_case_free(c);
  }
}

TEST_WALK(strided_gradients_are_right) { cpu_case_each_isa(check_cases); }

/* Every pixel is in one phase, and its products are few: those of strides, no more. */
TEST(strided_gradients_are_cut) {
  for (uint32_t seed = 1; seed <= 300; seed++) {
    conv_case *c = draw_case(seed);
    size_t bytes = conv_split_bytes(&c->step);
    char *scratch = aligned_alloc(PROGRAM_ALIGN, bytes + PROGRAM_ALIGN);
    cpu_run r = cpu_case_alone(NULL, &c->p, NULL, c->address, scratch, bytes);
    const step *s, *rest;
    CHECK(conv_split(&r, &c->step, &s, &rest) == SN_OK);
    CHECK_EQ_INT(r.scratch_used, bytes);
    bool is_strided = c->stride[0] * c->stride[1] > 1;
    CHECK((s != &c->step) == is_strided);
    int64_t pixels = 0, products = 0, most = 0;
    for (int i = 0; i < s->n_parts; i++) {
      const matmul_part *t = &s->parts[i].u.matmul;
      const matmul_product *p = &t->accs[0].products[0];
      int64_t own = t->extent[0] * t->extent[1] * t->extent[2];
      pixels += own;
      products += own * p->k[1] * p->k[2] * (p->k[0] > 0);
      CHECK(!is_strided || p->k[0] * p->k[1] * p->k[2] == 0 || p->a.n == 1);
    }
    CHECK_EQ_INT(pixels, c->n * c->size[0] * c->size[1]);
    most = c->n;
    for (int d = 0; d < CONV_DIMS; d++)
      most *= (c->size[d] / c->stride[d] + 1) * c->kernel[d];
    CHECK(products <= most);
    free(scratch);
    conv_case_free(c);
  }
}
