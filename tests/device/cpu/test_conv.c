/* The gradient of strided convolutions for their input, as the planner says it (floor_div registers, checks with divisors),
 * against a plain sum, on every instruction set and 1 to 4 threads; and that it is cut into phases. */
#include "device/cpu/conv.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { DY = 1, W, RESIDUAL, DX, VALUES, DIMS = 2, OPERAND = 6 };

/* dx [n, ci, size…] of dy [n, co, windows…] and w [co, ci, kernel…]. Axes: n, size…, ci (m, m, m, n), then co, kernel…. */
typedef struct world {
  uint32_t seed;
  int64_t n, ci, co, size[DIMS], windows[DIMS], kernel[DIMS], stride[DIMS], before[DIMS],
      dilation[DIMS];
  bool cast, residual;
  program p;
  program_value values[VALUES];
  void *address[VALUES];
  int64_t count[VALUES];
  term terms[16][8];
  int n_terms;
  check checks[DIMS];
  instr a[OPERAND + 1], b[1], epilogue[4];
  matmul_product product;
  matmul_acc acc;
  part part;
  step step;
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

static const term *add_terms(world *w, int n, const term *from) {
  term *to = w->terms[w->n_terms++];
  memcpy(to, from, (size_t)n * sizeof *to);
  return to;
}
static term of_axis(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

static void add_value(world *w, int v, sn_dtype dtype, int64_t count) {
  w->values[v] = (program_value){.type = {.dtype = dtype}, .count = count};
  w->count[v] = count;
  w->address[v] = malloc((size_t)count * 4 + 4);
  for (int64_t i = 0; i < count; i++)
    dtype_store(dtype, w->address[v], i, (double)(draw(w, 9) - 4));
}

static void draw_sizes(world *w) {
  w->n = 1 + draw(w, 2);
  w->ci = draw(w, 3) ? 1 + draw(w, 9) : 6 + draw(w, 40);
  w->co = draw(w, 9) ? 1 + draw(w, 20) : 0;
  for (int d = 0; d < DIMS; d++) {
    w->stride[d] = 1 + draw(w, 4);
    w->dilation[d] = draw(w, 3) ? 1 : 2 + draw(w, 2);
    w->kernel[d] = 1 + draw(w, 4);
    w->before[d] = draw(w, 3);
    int64_t reach = w->dilation[d] * (w->kernel[d] - 1) + 1, after = draw(w, 3);
    w->size[d] = max_i64(1, reach - w->before[d] - after) + draw(w, 14);
    w->windows[d] = (w->size[d] + w->before[d] + after - reach) / w->stride[d] + 1;
  }
}

/* number; for each axis: index, floor_div; load; perhaps a cast. */
static region make_dy(world *w) {
  int64_t plane = w->windows[0] * w->windows[1], strides[DIMS] = {w->windows[1], 1};
  int n = 0, n_terms = 2;
  term load[8] = {of_axis(0, w->co * plane), of_axis(4, plane)};
  int64_t base = 0;
  int n_checks = 0;
  for (int d = 0; d < DIMS; d++) {
    term of[2] = {of_axis(1 + d, 1), of_axis(5 + d, -w->dilation[d])};
    const term *sum = add_terms(w, 2, of);
    w->checks[n_checks++] = (check){.n_terms = 2,
                                    .terms = sum,
                                    .offset = w->before[d],
                                    .size = w->windows[d],
                                    .divisor = w->stride[d]};
    if (w->stride[d] == 1) {
      load[n_terms++] = of_axis(1 + d, strides[d]);
      load[n_terms++] = of_axis(5 + d, -w->dilation[d] * strides[d]);
      base += w->before[d] * strides[d];
      continue;
    }
    reg number = (reg)n, index = (reg)(n + 1);
    w->a[n++] = (instr){.op = REGION_NUMBER, .dtype = SN_I32, .x = (double)w->stride[d]};
    w->a[n++] = (instr){.op = REGION_INDEX,
                        .dtype = SN_I32,
                        .at = {.base = w->before[d], .n_terms = 2, .terms = sum}};
    w->a[n++] =
        (instr){.op = REGION_ALU, .code = ALU_floor_div, .dtype = SN_I32, .a = index, .b = number};
    load[n_terms++] =
        (term){.axis = TERM_REG, .from = (reg)(n - 1), .stride = strides[d], .mod = w->windows[d]};
  }
  w->a[n++] = (instr){.op = REGION_LOAD,
                      .dtype = (uint8_t)w->values[DY].type.dtype,
                      .at = {.value = DY,
                             .base = base,
                             .n_terms = n_terms,
                             .terms = add_terms(w, n_terms, load),
                             .n_checks = n_checks,
                             .checks = w->checks}};
  return (region){n, w->a};
}

static region make_epilogue(world *w) {
  int64_t plane = w->size[0] * w->size[1];
  term at[4] = {of_axis(0, w->ci * plane), of_axis(1, w->size[1]), of_axis(2, 1),
                of_axis(3, plane)};
  const term *terms = add_terms(w, 4, at);
  int n = 0;
  w->epilogue[n++] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  if (w->residual) {
    w->epilogue[n++] = (instr){.op = REGION_LOAD,
                               .dtype = SN_F32,
                               .at = {.value = RESIDUAL, .n_terms = 4, .terms = terms}};
    w->epilogue[n++] = (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 0, .b = 1};
  }
  w->epilogue[n] = (instr){.op = REGION_STORE,
                           .dtype = SN_F32,
                           .a = (reg)(n - 1),
                           .at = {.value = DX, .n_terms = 4, .terms = terms}};
  return (region){n + 1, w->epilogue};
}

static world *make_world(uint32_t seed) {
  world *w = calloc(1, sizeof *w);
  w->seed = seed * 2654435761u + 99;
  draw_sizes(w);
  w->residual = draw(w, 2);
  int64_t taps = w->kernel[0] * w->kernel[1], plane = w->size[0] * w->size[1];
  add_value(w, DY, draw(w, 4) ? SN_F32 : SN_BF16, w->n * w->co * w->windows[0] * w->windows[1]);
  add_value(w, W, SN_F32, w->co * w->ci * taps);
  add_value(w, RESIDUAL, SN_F32, w->n * w->ci * plane);
  add_value(w, DX, SN_F32, w->n * w->ci * plane);
  w->p = (program){.n_values = VALUES, .values = w->values};
  term weight[4] = {of_axis(4, w->ci * taps), of_axis(3, taps), of_axis(5, w->kernel[1]),
                    of_axis(6, 1)};
  w->b[0] = (instr){.op = REGION_LOAD,
                    .dtype = SN_F32,
                    .at = {.value = W, .n_terms = 4, .terms = add_terms(w, 4, weight)}};
  w->product = (matmul_product){
      .n_k = 3, .k = {w->co, w->kernel[0], w->kernel[1]}, .a = make_dy(w), .b = {1, w->b}};
  w->acc = (matmul_acc){1, &w->product};
  w->part.u.matmul = (matmul_part){.n_m = 3,
                                   .n_n = 1,
                                   .extent = {w->n, w->size[0], w->size[1], w->ci},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = make_epilogue(w)};
  w->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
  return w;
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

/* --- what is expected --- */

static double load(const world *w, int v, int64_t i) {
  return dtype_load(w->values[v].type.dtype, w->address[v], i);
}

/* Whether pixel x is at place y of a window, and which. */
static bool find_window(const world *w, int d, int64_t x, int64_t y, int64_t *out) {
  int64_t v = x + w->before[d] - y * w->dilation[d];
  *out = v / w->stride[d];
  return v >= 0 && v % w->stride[d] == 0 && *out < w->windows[d];
}

static double expected(const world *w, int64_t n, int64_t ci, int64_t h, int64_t x) {
  double sum = 0;
  int64_t oh, ow;
  for (int64_t kh = 0; kh < w->kernel[0]; kh++)
    for (int64_t kw = 0; kw < w->kernel[1]; kw++)
      if (find_window(w, 0, h, kh, &oh) && find_window(w, 1, x, kw, &ow))
        for (int64_t co = 0; co < w->co; co++)
          sum += load(w, DY, ((n * w->co + co) * w->windows[0] + oh) * w->windows[1] + ow) *
                 load(w, W, ((co * w->ci + ci) * w->kernel[0] + kh) * w->kernel[1] + kw);
  int64_t at = ((n * w->ci + ci) * w->size[0] + h) * w->size[1] + x;
  return sum + (w->residual ? load(w, RESIDUAL, at) : 0);
}

static bool check_result(const world *w) {
  int64_t at = 0;
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t ci = 0; ci < w->ci; ci++)
      for (int64_t h = 0; h < w->size[0]; h++)
        for (int64_t x = 0; x < w->size[1]; x++, at++) {
          double want = expected(w, n, ci, h, x), got = load(w, DX, at);
          if (want != got) {
            FAIL("pixel %lld, %lld of channel %lld of image %lld: %g, expected %g", (long long)h,
                 (long long)x, (long long)ci, (long long)n, got, want);
            return false;
          }
        }
  return true;
}

/* Every second run has the result in place of what is added to it. */
static void check_world(uint32_t seed, const cpu_isa *isa) {
  world *w = make_world(seed);
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    void *address[VALUES];
    size_t bytes = (size_t)w->count[DX] * sizeof(float);
    cpu_case c = {
        .ctx = NULL, .program = &w->p, .addresses = address, .threads = threads, .isa = isa};
    CHECK(sn_ctx_create(NULL, &c.ctx) == SN_OK);
    memcpy(address, w->address, sizeof address);
    memset(address[DX], 0xff, bytes);
    if (threads % 2 == 0) {
      memcpy(address[DX], address[RESIDUAL], bytes);
      address[RESIDUAL] = address[DX];
    }
    CHECK(cpu_case_run(&c, &w->step) == SN_OK);
    if (!check_result(w))
      FAIL("seed %u, %d threads, instruction set %s", seed, threads, isa->name);
    sn_ctx_destroy(c.ctx);
  }
  free_world(w);
}

TEST_WALK(strided_gradients_are_right) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (uint32_t seed = 1; seed <= 150 && !test_failed(); seed++)
      check_world(seed, cpu_isa_at(i));
    test_end();
  }
}

/* Every pixel is in one phase, and its products are few: those of strides, no more. */
TEST(strided_gradients_are_cut) {
  for (uint32_t seed = 1; seed <= 300; seed++) {
    world *w = make_world(seed);
    size_t bytes = conv_split_bytes(&w->step);
    char *scratch = aligned_alloc(PROGRAM_ALIGN, bytes + PROGRAM_ALIGN);
    cpu_run r = cpu_case_alone(NULL, &w->p, NULL, w->address, scratch, bytes);
    const step *s, *rest;
    CHECK(conv_split(&r, &w->step, &s, &rest) == SN_OK);
    CHECK_EQ_INT(r.scratch_used, bytes);
    bool is_strided = w->stride[0] * w->stride[1] > 1;
    CHECK((s != &w->step) == is_strided);
    int64_t pixels = 0, products = 0, most = 0;
    for (int i = 0; i < s->n_parts; i++) {
      const matmul_part *t = &s->parts[i].u.matmul;
      const matmul_product *p = &t->accs[0].products[0];
      int64_t own = t->extent[0] * t->extent[1] * t->extent[2];
      pixels += own;
      products += own * p->k[1] * p->k[2] * (p->k[0] > 0);
      CHECK(!is_strided || p->k[0] * p->k[1] * p->k[2] == 0 || p->a.n == 1);
    }
    CHECK_EQ_INT(pixels, w->n * w->size[0] * w->size[1]);
    most = w->n;
    for (int d = 0; d < DIMS; d++)
      most *= (w->size[d] / w->stride[d] + 1) * w->kernel[d];
    CHECK(products <= most);
    free(scratch);
    free_world(w);
  }
}
