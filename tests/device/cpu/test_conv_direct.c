/* Convolutions of few channels a group against a plain sum, on every instruction set and 1 to 4 threads. Numbers are small
 * integers, so that sums are exact. */
#include "support/cpu_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { X = 1, W, Y, VALUES, DIMS = 2 };

/* y [n, groups * co, windows…] of x [n, groups * ci, size…] and w [groups * co, ci, kernel…]. Axes: group (batch), n, windows…
 * (m), co (n); ci, kernel… (k). */
typedef struct world {
  uint32_t seed;
  int64_t n, groups, ci, co, size[DIMS], windows[DIMS], kernel[DIMS], stride[DIMS], before[DIMS],
      dilation[DIMS];
  program p;
  program_value values[VALUES];
  void *address[VALUES];
  term x_terms[7], w_terms[5], y_terms[5], of[DIMS][2];
  check checks[DIMS];
  instr a, b, epilogue[2];
  matmul_product product;
  matmul_acc acc;
  part part;
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

static term of_axis(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

static void add_value(world *w, int v, int64_t count) {
  float *to = malloc((size_t)count * sizeof *to + 1);
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count};
  w->address[v] = to;
  for (int64_t i = 0; i < count; i++)
    to[i] = (float)(draw(w, 9) - 4);
}

static void draw_sizes(world *w) {
  w->n = 1 + draw(w, 3);
  w->groups = 1 + draw(w, 6);
  w->ci = 1 + draw(w, 4);
  w->co = 1 + draw(w, 5);
  for (int d = 0; d < DIMS; d++) {
    w->stride[d] = draw(w, 3) ? 1 : 1 + draw(w, 3);
    w->dilation[d] = draw(w, 3) ? 1 : 2;
    w->kernel[d] = 1 + draw(w, 4);
    w->before[d] = draw(w, 4);
    int64_t reach = w->dilation[d] * (w->kernel[d] - 1) + 1, after = draw(w, 4);
    w->size[d] = max_i64(1, reach - w->before[d] - after) + draw(w, d == 1 ? 60 : 12);
    w->windows[d] = (w->size[d] + w->before[d] + after - reach) / w->stride[d] + 1;
  }
}

static void make_x(world *w) {
  int64_t plane = w->size[0] * w->size[1], strides[DIMS] = {w->size[1], 1}, base = 0;
  w->x_terms[0] = of_axis(0, w->ci * plane);
  w->x_terms[1] = of_axis(1, w->groups * w->ci * plane);
  w->x_terms[2] = of_axis(5, plane);
  for (int d = 0; d < DIMS; d++) {
    w->of[d][0] = of_axis(2 + d, w->stride[d]);
    w->of[d][1] = of_axis(6 + d, w->dilation[d]);
    w->x_terms[3 + 2 * d] = of_axis(2 + d, w->stride[d] * strides[d]);
    w->x_terms[4 + 2 * d] = of_axis(6 + d, w->dilation[d] * strides[d]);
    base -= w->before[d] * strides[d];
    w->checks[d] = (check){
        .n_terms = 2, .terms = w->of[d], .offset = -w->before[d], .size = w->size[d], .divisor = 1};
  }
  w->a = (instr){.op = REGION_LOAD,
                 .dtype = SN_F32,
                 .at = {.value = X,
                        .base = base,
                        .n_terms = 7,
                        .terms = w->x_terms,
                        .n_checks = DIMS,
                        .checks = w->checks}};
}

static void make_others(world *w) {
  int64_t taps = w->kernel[0] * w->kernel[1], plane = w->windows[0] * w->windows[1];
  const term weights[] = {of_axis(0, w->co * w->ci * taps), of_axis(4, w->ci * taps),
                          of_axis(5, taps), of_axis(6, w->kernel[1]), of_axis(7, 1)};
  const term results[] = {of_axis(0, w->co * plane), of_axis(1, w->groups * w->co * plane),
                          of_axis(2, w->windows[1]), of_axis(3, 1), of_axis(4, plane)};
  memcpy(w->w_terms, weights, sizeof weights);
  memcpy(w->y_terms, results, sizeof results);
  w->b = (instr){
      .op = REGION_LOAD, .dtype = SN_F32, .at = {.value = W, .n_terms = 5, .terms = w->w_terms}};
  w->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  w->epilogue[1] = (instr){
      .op = REGION_STORE, .dtype = SN_F32, .at = {.value = Y, .n_terms = 5, .terms = w->y_terms}};
}

static world *make_world(uint32_t seed) {
  world *w = calloc(1, sizeof *w);
  w->seed = seed * 2654435761u + 7;
  draw_sizes(w);
  add_value(w, X, w->n * w->groups * w->ci * w->size[0] * w->size[1]);
  add_value(w, W, w->groups * w->co * w->ci * w->kernel[0] * w->kernel[1]);
  add_value(w, Y, w->n * w->groups * w->co * w->windows[0] * w->windows[1]);
  w->p = (program){.n_values = VALUES, .values = w->values};
  make_x(w);
  make_others(w);
  w->product = (matmul_product){
      .n_k = 3, .k = {w->ci, w->kernel[0], w->kernel[1]}, .a = {1, &w->a}, .b = {1, &w->b}};
  w->acc = (matmul_acc){1, &w->product};
  w->part.u.matmul = (matmul_part){.n_batch = 1,
                                   .n_m = 3,
                                   .n_n = 1,
                                   .extent = {w->groups, w->n, w->windows[0], w->windows[1], w->co},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = {2, w->epilogue}};
  return w;
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

static float expected(const world *w, int64_t n, int64_t c, int64_t oh, int64_t ow) {
  const float *x = w->address[X], *weights = w->address[W];
  float sum = 0;
  for (int64_t i = 0; i < w->ci; i++)
    for (int64_t kh = 0; kh < w->kernel[0]; kh++)
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        int64_t h = oh * w->stride[0] - w->before[0] + kh * w->dilation[0];
        int64_t v = ow * w->stride[1] - w->before[1] + kw * w->dilation[1];
        int64_t from = (n * w->groups + c / w->co) * w->ci + i;
        if (h >= 0 && h < w->size[0] && v >= 0 && v < w->size[1])
          sum += x[(from * w->size[0] + h) * w->size[1] + v] *
                 weights[((c * w->ci + i) * w->kernel[0] + kh) * w->kernel[1] + kw];
      }
  return sum;
}

static bool check_result(const world *w) {
  const float *y = w->address[Y];
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t c = 0; c < w->groups * w->co; c++)
      for (int64_t h = 0; h < w->windows[0]; h++)
        for (int64_t v = 0; v < w->windows[1]; v++, y++)
          if (*y != expected(w, n, c, h, v)) {
            FAIL("window %lld, %lld of channel %lld of image %lld: %g, expected %g", (long long)h,
                 (long long)v, (long long)c, (long long)n, *y, expected(w, n, c, h, v));
            return false;
          }
  return true;
}

static void check_world(uint32_t seed, const cpu_isa *isa) {
  world *w = make_world(seed);
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    cpu_case c = {.program = &w->p, .addresses = w->address, .threads = threads, .isa = isa};
    CHECK(sn_ctx_create(NULL, &c.ctx) == SN_OK);
    memset(w->address[Y], 0xff, (size_t)w->values[Y].count * sizeof(float));
    CHECK(cpu_case_run(&c, &s) == SN_OK);
    if (!check_result(w))
      FAIL("seed %u, %d threads, instruction set %s", seed, threads, isa->name);
    sn_ctx_destroy(c.ctx);
  }
  free_world(w);
}

TEST_WALK(few_channels_a_group) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (uint32_t seed = 1; seed <= 150 && !test_failed(); seed++)
      check_world(seed, cpu_isa_at(i));
    test_end();
  }
}
