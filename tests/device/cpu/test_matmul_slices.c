/* Few results with long sums, as gradients of the weights of convolutions are said: that k is cut into slices, that sums are right
 * on every instruction set, and the same to the last bit on 1 to 4 threads. */
#include "device/cpu/matmul.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { X = 1, DY, RATE, DW, VALUES };

/* dw [co, ci, kernel, kernel] of x [n, ci, size, size] and dy [n, co, windows, windows], times a rate. Axes: ci, kh, kw (m), co (n),
 * then n, oh, ow. */
typedef struct world {
  uint32_t seed;
  int64_t n, ci, co, size, windows, kernel, stride, before;
  bool whole_numbers;
  program p;
  program_value values[VALUES];
  void *address[VALUES];
  int64_t count[VALUES];
  term a[6], checks[2][2], b[4], store[4];
  check of_checks[2];
  instr load_a, load_b, epilogue[4];
  matmul_product product;
  matmul_acc acc;
  part part;
  step step;
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

static term of_axis(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

static void add_value(world *w, int v, int64_t count) {
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count};
  w->count[v] = count;
  float *to = w->address[v] = malloc((size_t)count * sizeof *to);
  for (int64_t i = 0; i < count; i++)
    to[i] = w->whole_numbers ? (float)(draw(w, 7) - 3) : (float)(draw(w, 2001) - 1000) / 977;
}

static void make_operands(world *w) {
  int64_t plane = w->size * w->size, windows = w->windows * w->windows;
  w->a[0] = of_axis(0, plane);
  w->a[1] = of_axis(1, w->size);
  w->a[2] = of_axis(2, 1);
  w->a[3] = of_axis(4, w->ci * plane);
  w->a[4] = of_axis(5, w->stride * w->size);
  w->a[5] = of_axis(6, w->stride);
  for (int d = 0; d < 2; d++) {
    w->checks[d][0] = of_axis(1 + d, 1);
    w->checks[d][1] = of_axis(5 + d, w->stride);
    w->of_checks[d] = (check){
        .n_terms = 2, .terms = w->checks[d], .offset = -w->before, .size = w->size, .divisor = 1};
  }
  w->b[0] = of_axis(3, windows);
  w->b[1] = of_axis(4, w->co * windows);
  w->b[2] = of_axis(5, w->windows);
  w->b[3] = of_axis(6, 1);
  w->load_a = (instr){.op = REGION_LOAD,
                      .dtype = SN_F32,
                      .at = {.value = X,
                             .base = -w->before * (w->size + 1),
                             .n_terms = 6,
                             .terms = w->a,
                             .n_checks = 2,
                             .checks = w->of_checks}};
  w->load_b =
      (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {.value = DY, .n_terms = 4, .terms = w->b}};
}

static void make_step(world *w) {
  int64_t taps = w->kernel * w->kernel;
  w->store[0] = of_axis(0, taps);
  w->store[1] = of_axis(1, w->kernel);
  w->store[2] = of_axis(2, 1);
  w->store[3] = of_axis(3, w->ci * taps);
  w->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  w->epilogue[1] = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {.value = RATE}};
  w->epilogue[2] = (instr){.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .a = 0, .b = 1};
  w->epilogue[3] = (instr){.op = REGION_STORE,
                           .dtype = SN_F32,
                           .a = 2,
                           .at = {.value = DW, .n_terms = 4, .terms = w->store}};
  w->product = (matmul_product){
      .n_k = 3, .k = {w->n, w->windows, w->windows}, .a = {1, &w->load_a}, .b = {1, &w->load_b}};
  w->acc = (matmul_acc){1, &w->product};
  w->part.u.matmul = (matmul_part){.n_m = 3,
                                   .n_n = 1,
                                   .extent = {w->ci, w->kernel, w->kernel, w->co},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = {4, w->epilogue}};
  w->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
}

static world *make_world(uint32_t seed) {
  world *w = calloc(1, sizeof *w);
  w->seed = seed * 2654435761u + 5;
  w->whole_numbers = seed % 2;
  w->n = 2 + draw(w, 3);
  w->kernel = 1 + 2 * draw(w, 2);
  w->stride = 1 + draw(w, 2);
  w->before = draw(w, w->kernel);
  w->ci = 5 + draw(w, w->kernel == 1 ? 200 : 30);
  w->co = 5 + draw(w, 60);
  w->windows = 46 + draw(w, 10);
  w->size = (w->windows - 1) * w->stride + w->kernel - w->before;
  add_value(w, X, w->n * w->ci * w->size * w->size);
  add_value(w, DY, w->n * w->co * w->windows * w->windows);
  add_value(w, RATE, 1);
  add_value(w, DW, w->co * w->ci * w->kernel * w->kernel);
  *(float *)w->address[RATE] = 0.5f;
  w->p = (program){.n_values = VALUES, .values = w->values};
  make_operands(w);
  make_step(w);
  return w;
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

/* Weight number i; the sum of the products' magnitudes. */
static double expected(const world *w, int64_t i, double *out_size) {
  int64_t kw = i % w->kernel, kh = i / w->kernel % w->kernel,
          ci = i / (w->kernel * w->kernel) % w->ci, co = i / (w->kernel * w->kernel * w->ci);
  const float *x = w->address[X], *dy = w->address[DY];
  double sum = 0;
  *out_size = 0;
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t o = 0; o < w->windows * w->windows; o++) {
      int64_t y = o / w->windows * w->stride + kh - w->before;
      int64_t z = o % w->windows * w->stride + kw - w->before;
      if (y < 0 || y >= w->size || z < 0 || z >= w->size)
        continue;
      double p = (double)x[((n * w->ci + ci) * w->size + y) * w->size + z] *
                 (double)dy[(n * w->co + co) * w->windows * w->windows + o];
      sum += p;
      *out_size += fabs(p);
    }
  return 0.5 * sum;
}

/* Some of the weights, by plain sums. */
static void check_sums(world *w) {
  const float *got = w->address[DW];
  for (int64_t i = 0; i < w->count[DW] && !test_failed(); i += 1 + draw(w, 90)) {
    double size, want = expected(w, i, &size), off = fabs((double)got[i] - want);
    if (!(off <= (w->whole_numbers ? 0 : 1e-6 * size)))
      FAIL("weight %lld: %g, expected %g", (long long)i, (double)got[i], want);
  }
}

static void check_world(uint32_t seed, const cpu_isa *isa) {
  world *w = make_world(seed);
  size_t bytes = (size_t)w->count[DW] * sizeof(float);
  float *first = malloc(bytes);
  CHECK(matmul_slices(&w->part.u.matmul) > 1);
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    cpu_case c = {
        .ctx = NULL, .program = &w->p, .addresses = w->address, .threads = threads, .isa = isa};
    CHECK(sn_ctx_create(NULL, &c.ctx) == SN_OK);
    memset(w->address[DW], 0xff, bytes);
    CHECK(cpu_case_run(&c, &w->step) == SN_OK);
    if (threads == 1) {
      check_sums(w);
      memcpy(first, w->address[DW], bytes);
    }
    CHECK(memcmp(first, w->address[DW], bytes) == 0);
    if (test_failed())
      FAIL("seed %u, %d threads, instruction set %s", seed, threads, isa->name);
    sn_ctx_destroy(c.ctx);
  }
  free(first);
  free_world(w);
}

TEST_WALK(long_sums_are_right) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (uint32_t seed = 1; seed <= 8 && !test_failed(); seed++)
      check_world(seed, cpu_isa_at(i));
    test_end();
  }
}
