/* Gradients of the weights of 3 x 3 convolutions with fewer products (conv_winograd_grad.c) against plain sums, on every
 * instruction set and 1 to 4 threads. With small integers all is exact; with fractions, errors are compared with those of the plain
 * way, and bits do not depend on threads. */
#include "device/cpu/conv_winograd.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { X = 1, G, Y, SCALE, VALUES, DIMS = 2, KERNEL = 3, TAPS = 9, CODE = 5 };

/* y [co, ci, 3, 3] of images x [n, ci, size…] and gradients g [n, co, windows…]. Axes: ci, kernel… (m), co (n); n, windows… (k).
 * The long epilogue: y = acc * scale[co] + acc. */
typedef struct world {
  uint32_t seed;
  bool fractions, is_long;
  int alone; /* 1: there is one image, which has no axis */
  int64_t n, ci, co, size[DIMS], windows[DIMS], before[DIMS];
  program p;
  program_value values[VALUES];
  void *address[VALUES];
  term x_terms[6], g_terms[4], y_terms[4], scale_terms[1], of[DIMS][2];
  check checks[DIMS];
  instr a, b, epilogue[CODE];
  matmul_product product;
  matmul_acc acc;
  part part;
  step step;
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

static void add_value(world *w, int v, int64_t count) {
  float *to = malloc((size_t)count * sizeof *to + 1);
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .home = HOME_ARENA, .count = count};
  w->address[v] = to;
  for (int64_t i = 0; i < count; i++)
    to[i] = w->fractions ? (float)(draw(w, 1 << 20) - (1 << 19)) / (float)(1 << 18)
                         : (float)(draw(w, 9) - 4);
}

static term of_axis(const world *w, int axis, int64_t stride) {
  return (term){.axis = (uint8_t)(axis - (axis > 4 ? w->alone : 0)), .stride = stride, .div = 1};
}

static instr access_of(region_op op, int value, int n_terms, const term *terms) {
  return (instr){.op = (uint8_t)op,
                 .dtype = SN_F32,
                 .at = {.value = (uint32_t)value, .n_terms = n_terms, .terms = terms}};
}

static void make_x(world *w) {
  int64_t plane = w->size[0] * w->size[1], strides[DIMS] = {w->size[1], 1};
  w->x_terms[0] = of_axis(w, 0, plane);
  w->x_terms[5] = (term){.axis = 4, .stride = w->ci * plane, .div = 1};
  w->a = access_of(REGION_LOAD, X, 6 - w->alone, w->x_terms);
  w->a.at.checks = w->checks;
  for (int d = 0; d < DIMS; d++) {
    w->of[d][0] = of_axis(w, 1 + d, 1);
    w->of[d][1] = of_axis(w, 5 + d, 1);
    w->x_terms[1 + 2 * d] = of_axis(w, 1 + d, strides[d]);
    w->x_terms[2 + 2 * d] = of_axis(w, 5 + d, strides[d]);
    w->a.at.base -= w->before[d] * strides[d];
    if (w->before[d] != 0 || w->windows[d] + KERNEL - 1 > w->size[d]) /* else it never fails */
      w->checks[w->a.at.n_checks++] = (check){.n_terms = 2,
                                              .terms = w->of[d],
                                              .offset = -w->before[d],
                                              .size = w->size[d],
                                              .divisor = 1};
  }
}

static void make_others(world *w) {
  int64_t plane = w->windows[0] * w->windows[1];
  const term gradients[] = {of_axis(w, 3, plane),
                            of_axis(w, 5, w->windows[1]),
                            of_axis(w, 6, 1),
                            {.axis = 4, .stride = w->co * plane, .div = 1}};
  const term results[] = {of_axis(w, 0, TAPS), of_axis(w, 1, KERNEL), of_axis(w, 2, 1),
                          of_axis(w, 3, w->ci * TAPS)};
  memcpy(w->g_terms, gradients, sizeof gradients);
  memcpy(w->y_terms, results, sizeof results);
  w->scale_terms[0] = of_axis(w, 3, 1);
  w->b = access_of(REGION_LOAD, G, 4 - w->alone, w->g_terms);
  w->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  w->epilogue[w->is_long ? 4 : 1] = access_of(REGION_STORE, Y, 4, w->y_terms);
  if (!w->is_long)
    return;
  w->epilogue[1] = access_of(REGION_LOAD, SCALE, 1, w->scale_terms);
  w->epilogue[2] = (instr){.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .a = 0, .b = 1};
  w->epilogue[3] = (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 2, .b = 0};
  w->epilogue[4].a = 3;
}

static void make_world(world *w) {
  w->alone = w->n == 1;
  w->p = (program){.n_values = VALUES, .values = w->values, .steps = &w->step, .n_main = 1};
  add_value(w, X, w->n * w->ci * w->size[0] * w->size[1]);
  add_value(w, G, w->n * w->co * w->windows[0] * w->windows[1]);
  add_value(w, Y, w->co * w->ci * TAPS);
  add_value(w, SCALE, w->co);
  make_x(w);
  make_others(w);
  w->product = (matmul_product){.n_k = 3 - w->alone,
                                .k = {w->n, w->windows[0], w->windows[1]},
                                .a = {1, &w->a},
                                .b = {1, &w->b}};
  memmove(w->product.k, w->product.k + w->alone, 2 * sizeof *w->product.k);
  if (w->n > 1)
    w->product.k[2] = w->windows[1];
  w->acc = (matmul_acc){1, &w->product};
  w->part.u.matmul = (matmul_part){.n_m = 3,
                                   .n_n = 1,
                                   .extent = {w->ci, KERNEL, KERNEL, w->co},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = {w->is_long ? CODE : 2, w->epilogue}};
  w->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
}

static world *world_of(int64_t n, int64_t ci, int64_t co, int64_t rows, int64_t columns) {
  world *w = calloc(1, sizeof *w);
  *w = (world){.seed = 77, .n = n, .ci = ci, .co = co, .before = {1, 1}};
  w->size[0] = w->windows[0] = rows;
  w->size[1] = w->windows[1] = columns;
  return w;
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

static bool is_taken(const world *w) { return winograd_grad_shared(&w->p, &w->part.u.matmul) > 0; }

/* In f64. */
static double sum_at(const world *w, int64_t co, int64_t ci, int64_t ky, int64_t kx) {
  const float *images = w->address[X], *gradients = w->address[G];
  double sum = 0;
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t y = 0; y < w->windows[0]; y++)
      for (int64_t x = 0; x < w->windows[1]; x++) {
        int64_t h = y - w->before[0] + ky, v = x - w->before[1] + kx;
        if (h >= 0 && h < w->size[0] && v >= 0 && v < w->size[1])
          sum += (double)images[((n * w->ci + ci) * w->size[0] + h) * w->size[1] + v] *
                 (double)gradients[((n * w->co + co) * w->windows[0] + y) * w->windows[1] + x];
      }
  return sum;
}

static double *all_sums(const world *w) {
  double *sums = malloc((size_t)w->values[Y].count * sizeof *sums + 1);
  for (int64_t i = 0; i < w->values[Y].count; i++)
    sums[i] = sum_at(w, i / TAPS / w->ci, i / TAPS % w->ci, i / KERNEL % KERNEL, i % KERNEL);
  return sums;
}

static void run_world(world *w, const cpu_isa *isa, int threads) {
  cpu_case c = {.program = &w->p, .addresses = w->address, .threads = threads, .isa = isa};
  CHECK(sn_ctx_create(NULL, &c.ctx) == SN_OK);
  memset(w->address[Y], 0xff, (size_t)w->values[Y].count * sizeof(float));
  CHECK(cpu_case_run(&c, &w->step) == SN_OK);
  sn_ctx_destroy(c.ctx);
}

static void check_exact(const world *w, const double *sums) {
  const float *y = w->address[Y], *scale = w->address[SCALE];
  for (int64_t i = 0; i < w->values[Y].count && !test_failed(); i++) {
    double by = w->is_long ? (double)scale[i / TAPS / w->ci] + 1 : 1;
    if ((double)y[i] != by * sums[i])
      FAIL("result %lld: %g, expected %g", (long long)i, y[i], by * sums[i]);
  }
}

/* Images of odd sizes, one image, slabs of some lines, channels beyond a whole panel, results through the epilogue in several pieces,
 * no padding, much of it. */
TEST_WALK(integers) {
  static const int64_t shapes[][7] = {{2, 60, 70, 19, 21, 1, 1},  {1, 64, 70, 28, 30, 1, 1},
                                      {3, 40, 230, 16, 14, 1, 0}, {2, 230, 49, 14, 16, 0, 1},
                                      {3, 64, 24, 56, 56, 1, 1},  {2, 64, 65, 20, 18, 0, 0},
                                      {2, 65, 64, 14, 16, 2, 2},  {4, 160, 150, 9, 7, 1, 1}};
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (size_t k = 0; k < COUNT_OF(shapes) && !test_failed(); k++) {
      const int64_t *s = shapes[k];
      world *w = world_of(s[0], s[1], s[2], s[3], s[4]);
      w->is_long = k % 2;
      for (int d = 0; d < DIMS; d++) {
        w->before[d] = s[5 + d];
        w->windows[d] = w->size[d] + 2 * w->before[d] - (KERNEL - 1);
      }
      make_world(w);
      CHECK(is_taken(w));
      double *sums = all_sums(w);
      for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
        run_world(w, cpu_isa_at(i), threads);
        check_exact(w, sums);
        if (test_failed())
          FAIL("shape %d, %d threads", (int)k, threads);
      }
      free(sums);
      free_world(w);
    }
    test_end();
  }
}

static double rms_error(const world *w, const double *sums) {
  const float *y = w->address[Y];
  double sum = 0;
  for (int64_t i = 0; i < w->values[Y].count; i++)
    sum += ((double)y[i] - sums[i]) * ((double)y[i] - sums[i]);
  return sqrt(sum / (double)w->values[Y].count);
}

/* The plain way is that of a step whose gradients are cast. */
static void check_errors(const cpu_isa *isa, world *w) {
  w->fractions = true;
  make_world(w);
  double *sums = all_sums(w);
  size_t bytes = (size_t)w->values[Y].count * sizeof(float);
  float *one = malloc(bytes);
  run_world(w, isa, 1);
  memcpy(one, w->address[Y], bytes);
  double error = rms_error(w, sums);
  for (int threads = 2; threads <= 4; threads++) {
    run_world(w, isa, threads);
    CHECK_EQ_MEM(one, w->address[Y], bytes);
  }
  instr plain[2] = {w->b, {.op = REGION_ALU, .code = ALU_cast, .dtype = SN_F32, .a = 0}};
  w->product.b = (region){2, plain};
  CHECK(!is_taken(w));
  run_world(w, isa, 2);
  double plain_error = rms_error(w, sums);
  if (!(error <= 2.5 * plain_error) || memcmp(one, w->address[Y], bytes) == 0)
    FAIL("%s: error %.3g, plain %.3g", isa->name, error, plain_error);
  free(one);
  free(sums);
  free_world(w);
}

TEST_WALK(fractions) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    check_errors(cpu_isa_at(i), world_of(2, 64, 64, 20, 20));
    check_errors(cpu_isa_at(i), world_of(3, 100, 70, 12, 11));
    test_end();
  }
}

TEST(who_may) {
  world *w = world_of(2, 64, 64, 16, 16);
  make_world(w);
  CHECK(is_taken(w));
  w->x_terms[2].stride *= 2; /* every other row */
  CHECK(!is_taken(w));
  w->x_terms[2].stride /= 2;
  w->part.u.matmul.extent[1] = 5;
  CHECK(!is_taken(w));
  w->part.u.matmul.extent[1] = KERNEL;
  w->checks[0].divisor = 2;
  CHECK(!is_taken(w));
  w->checks[0].divisor = 1;
  CHECK(is_taken(w));
  w->part.u.matmul.extent[0] = 12; /* too few channels */
  CHECK(!is_taken(w));
  free_world(w);
}
