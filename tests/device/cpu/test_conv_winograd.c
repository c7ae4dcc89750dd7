/* Convolutions with fewer products (conv_winograd.h) against plain sums, on every instruction set and 1 to 4 threads. With small
 * integers all sums are exact, transforms too: results must be equal. With fractions, errors are compared with those of the
 * plain way. */
#include "device/cpu/conv_winograd.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { X = 1, W, Y, ADDED, SCALE, SUM, VALUES, DIMS = 2, KERNEL = 3, CODE = 8 };

/* y [n, co, windows…] of x [n, ci, size…] and w [co, ci, 3, 3]. Axes: n, windows… (m), co (n); ci, kernel… (k).
 * The long epilogue: sum = scale[co] * acc + added, y = sum * sum, both stored. */
typedef struct world {
  uint32_t seed;
  bool fractions, is_long;
  bool turned; /* kernels the other way round, as in gradients for inputs */
  int alone;   /* 1: there is one image, which has no axis */
  int64_t n, ci, co, size[DIMS], windows[DIMS], before[DIMS];
  program p;
  program_value values[VALUES];
  program_leaf states[1];
  void *address[VALUES];
  term x_terms[6], w_terms[4], y_terms[4], scale_terms[1], of[DIMS][2];
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

static float draw_number(world *w) {
  return w->fractions ? (float)(draw(w, 1 << 20) - (1 << 19)) / (float)(1 << 18)
                      : (float)(draw(w, 9) - 4);
}

/* Axes as they are with several images; of one image, they move up. */
static term of_axis(const world *w, int axis, int64_t stride) {
  return (term){.axis = (uint8_t)max_i64(0, axis - w->alone), .stride = stride, .div = 1};
}

static void add_value(world *w, int v, int64_t count) {
  float *to = malloc((size_t)count * sizeof *to + 1);
  w->values[v].count = count;
  w->address[v] = to;
  for (int64_t i = 0; i < count; i++)
    to[i] = draw_number(w);
}

static void make_x(world *w) {
  int64_t plane = w->size[0] * w->size[1], strides[DIMS] = {w->size[1], 1}, base = 0;
  int64_t by = w->turned ? -1 : 1, last = w->turned ? KERNEL - 1 : 0;
  int n_checks = 0;
  w->x_terms[0] = of_axis(w, 4, plane);
  w->x_terms[5] = of_axis(w, 0, w->ci * plane);
  for (int d = 0; d < DIMS; d++) {
    w->of[d][0] = of_axis(w, 1 + d, 1);
    w->of[d][1] = of_axis(w, 5 + d, by);
    w->x_terms[1 + 2 * d] = of_axis(w, 1 + d, strides[d]);
    w->x_terms[2 + 2 * d] = of_axis(w, 5 + d, by * strides[d]);
    base += (last - w->before[d]) * strides[d];
    if (w->before[d] != 0 || w->windows[d] + KERNEL - 1 > w->size[d]) /* else it never fails */
      w->checks[n_checks++] = (check){.n_terms = 2,
                                      .terms = w->of[d],
                                      .offset = last - w->before[d],
                                      .size = w->size[d],
                                      .divisor = 1};
  }
  w->a = (instr){.op = REGION_LOAD,
                 .dtype = SN_F32,
                 .at = {.value = X,
                        .base = base,
                        .n_terms = 6 - w->alone,
                        .terms = w->x_terms,
                        .n_checks = n_checks,
                        .checks = w->checks}};
}

static instr load(int value, int n_terms, const term *terms) {
  return (instr){.op = REGION_LOAD,
                 .dtype = SN_F32,
                 .at = {.value = (uint32_t)value, .n_terms = n_terms, .terms = terms}};
}

static instr store(int value, int n_terms, const term *terms, reg a) {
  instr i = load(value, n_terms, terms);
  i.op = REGION_STORE;
  i.a = a;
  return i;
}

static instr alu_of(alu code, reg a, reg b) {
  return (instr){.op = REGION_ALU, .code = (uint8_t)code, .dtype = SN_F32, .a = a, .b = b};
}

static void make_others(world *w) {
  int64_t taps = KERNEL * KERNEL, plane = w->windows[0] * w->windows[1];
  const term weights[] = {of_axis(w, 3, w->ci * taps), of_axis(w, 4, taps), of_axis(w, 5, KERNEL),
                          of_axis(w, 6, 1)};
  const term results[] = {of_axis(w, 1, w->windows[1]), of_axis(w, 2, 1), of_axis(w, 3, plane),
                          of_axis(w, 0, w->co * plane)};
  int n = 4 - w->alone; /* of the results' terms */
  memcpy(w->w_terms, weights, sizeof weights);
  memcpy(w->y_terms, results, sizeof results);
  w->scale_terms[0] = of_axis(w, 3, 1);
  w->b = load(W, 4, w->w_terms);
  w->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  if (!w->is_long) {
    w->epilogue[1] = store(Y, n, w->y_terms, 0);
    return;
  }
  w->epilogue[1] = load(SCALE, 1, w->scale_terms);
  w->epilogue[2] = load(ADDED, n, w->y_terms);
  w->epilogue[3] = alu_of(ALU_mul, 0, 1);
  w->epilogue[4] = alu_of(ALU_add, 3, 2);
  w->epilogue[5] = store(SUM, n, w->y_terms, 4);
  w->epilogue[6] = alu_of(ALU_mul, 4, 4);
  w->epilogue[7] = store(Y, n, w->y_terms, 6);
}

static void make_step(world *w) {
  w->product =
      (matmul_product){.n_k = 3, .k = {w->ci, KERNEL, KERNEL}, .a = {1, &w->a}, .b = {1, &w->b}};
  w->acc = (matmul_acc){1, &w->product};
  matmul_part *t = &w->part.u.matmul;
  *t = (matmul_part){.n_m = 3 - w->alone,
                     .n_n = 1,
                     .extent = {w->n, w->windows[0], w->windows[1], w->co},
                     .n_accs = 1,
                     .accs = &w->acc,
                     .epilogue = {w->is_long ? CODE : 2, w->epilogue}};
  memmove(t->extent, t->extent + w->alone, 3 * sizeof *t->extent);
  t->extent[3 - w->alone] = w->co;
  w->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
}

/* The step, of sizes that are there. Nothing else reads the weights. */
static void make_part(world *w) {
  w->alone = w->n == 1;
  for (int v = 1; v < VALUES; v++)
    w->values[v] = (program_value){.type = {.dtype = SN_F32}, .home = HOME_ARENA, .last = 1};
  w->values[W].home = HOME_STATE;
  w->p = (program){.n_values = VALUES,
                   .values = w->values,
                   .n_states = 1,
                   .states = w->states,
                   .steps = &w->step,
                   .n_main = 1};
  make_x(w);
  make_others(w);
  make_step(w);
}

static void make_world(world *w) {
  int64_t results = w->n * w->co * w->windows[0] * w->windows[1];
  make_part(w);
  add_value(w, X, w->n * w->ci * w->size[0] * w->size[1]);
  add_value(w, W, w->co * w->ci * KERNEL * KERNEL);
  add_value(w, Y, results);
  add_value(w, ADDED, results);
  add_value(w, SCALE, w->co);
  add_value(w, SUM, results);
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

static world *draw_world(uint32_t seed) {
  world *w = calloc(1, sizeof *w);
  w->seed = seed * 2654435761u + 7;
  int64_t most = seed % 4 == 0 ? 40 : 9;
  w->n = 1 + draw(w, 4);
  w->ci = 1 + draw(w, seed % 8 == 1 ? 300 : 20);
  w->co = 1 + draw(w, 40);
  w->is_long = draw(w, 2);
  for (int d = 0; d < DIMS; d++) {
    int64_t after = draw(w, 3);
    w->before[d] = draw(w, 3);
    w->size[d] = max_i64(1, KERNEL - w->before[d] - after) + draw(w, most);
    w->windows[d] = w->size[d] + w->before[d] + after - (KERNEL - 1);
  }
  w->turned = draw(w, 3) == 0;
  return w;
}

/* In f64. */
static double sum_at(const world *w, int64_t n, int64_t c, int64_t y, int64_t x) {
  const float *images = w->address[X], *weights = w->address[W];
  double sum = 0;
  for (int64_t i = 0; i < w->ci; i++)
    for (int64_t ky = 0; ky < KERNEL; ky++)
      for (int64_t kx = 0; kx < KERNEL; kx++) {
        int64_t h = y - w->before[0] + (w->turned ? KERNEL - 1 - ky : ky);
        int64_t v = x - w->before[1] + (w->turned ? KERNEL - 1 - kx : kx);
        if (h >= 0 && h < w->size[0] && v >= 0 && v < w->size[1])
          sum += (double)images[((n * w->ci + i) * w->size[0] + h) * w->size[1] + v] *
                 (double)weights[((c * w->ci + i) * KERNEL + ky) * KERNEL + kx];
      }
  return sum;
}

static double *all_sums(const world *w) {
  double *sums = malloc((size_t)w->values[Y].count * sizeof *sums + 1), *to = sums;
  for (int64_t n = 0; n < w->n; n++)
    for (int64_t c = 0; c < w->co; c++)
      for (int64_t y = 0; y < w->windows[0]; y++)
        for (int64_t x = 0; x < w->windows[1]; x++)
          *to++ = sum_at(w, n, c, y, x);
  return sums;
}

/* Integers: all is exact. */
static void check_exact(const world *w, const double *sums) {
  const float *y = w->address[Y], *added = w->address[ADDED], *scale = w->address[SCALE];
  const float *stored = w->address[SUM];
  int64_t plane = w->windows[0] * w->windows[1];
  for (int64_t i = 0; i < w->values[Y].count && !test_failed(); i++) {
    double expected = sums[i], sum = (double)scale[i / plane % w->co] * sums[i] + (double)added[i];
    if (w->is_long && !CHECK((double)stored[i] == sum))
      return;
    expected = w->is_long ? (double)((float)sum * (float)sum) : expected;
    if ((double)y[i] != expected)
      FAIL("result %lld: %g, expected %g", (long long)i, y[i], expected);
  }
}

static void run_world(world *w, const cpu_isa *isa, int threads) {
  cpu_case c = {.program = &w->p, .addresses = w->address, .threads = threads, .isa = isa};
  CHECK(sn_ctx_create(NULL, &c.ctx) == SN_OK);
  memset(w->address[Y], 0xff, (size_t)w->values[Y].count * sizeof(float));
  memset(w->address[SUM], 0xff, (size_t)w->values[SUM].count * sizeof(float));
  CHECK(cpu_case_run(&c, &w->step) == SN_OK);
  sn_ctx_destroy(c.ctx);
}

static bool is_taken(const world *w) { return winograd_kept(&w->p, &w->part.u.matmul) > 0; }

/* --- whether it pays or not --- */

enum { SCRATCH = 5 << 20 };
typedef struct forced {
  world *w;
  const cpu_isa *isa;
  cpu_crew *crew;
  int threads;
  char *scratch;
  float *kept;
} forced;

static void run_forced_thread(void *user, int thread) {
  forced *f = user;
  cpu_run r = cpu_case_alone(NULL, &f->w->p, NULL, f->w->address,
                             f->scratch + (size_t)thread * SCRATCH, SCRATCH);
  matmul_work m;
  r.isa = f->isa;
  r.thread = thread;
  r.threads = f->threads;
  r.crew = f->crew;
  winograd_keep(&r, &f->w->part.u.matmul, f->kept);
  cpu_sync(&r);
  CHECK(matmul_size(&m, &r, &f->w->step, &f->w->part.u.matmul));
  m.turned = m.winograd = true; /* as they are where it pays */
  m.few = false;
  m.side[ROWS] = m.n;
  m.side[COLS] = m.m;
  m.kept = f->kept;
  CHECK(matmul_open(&m) == SN_OK);
  CHECK(winograd_run(&m) == SN_OK);
}

static void run_forced(world *w, const cpu_isa *isa, int threads) {
  sn_ctx *ctx = NULL;
  team *t = NULL;
  cpu_crew *crew = aligned_alloc(64, (sizeof *crew + 63) / 64 * 64);
  memset(crew, 0, sizeof *crew);
  CHECK(sn_ctx_create(NULL, &ctx) == SN_OK && team_get(ctx, threads, &t) == SN_OK);
  crew->team = t;
  forced f = {w, isa, crew, threads, aligned_alloc(64, (size_t)threads * SCRATCH), NULL};
  size_t floats = 16 * (size_t)(w->co + 16) * (size_t)w->ci;
  f.kept = aligned_alloc(64, (floats + 15) / 16 * 64);
  memset(f.scratch, 0xff, (size_t)threads * SCRATCH);
  memset(w->address[Y], 0xff, (size_t)w->values[Y].count * sizeof(float));
  memset(w->address[SUM], 0xff, (size_t)w->values[SUM].count * sizeof(float));
  team_run(t, threads, run_forced_thread, &f);
  free(f.scratch);
  free(f.kept);
  free(crew);
  sn_ctx_destroy(ctx);
}

static void check_world(world *w, const cpu_isa *isa) {
  make_world(w);
  double *sums = all_sums(w);
  for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
    run_forced(w, isa, threads);
    check_exact(w, sums);
    if (test_failed())
      FAIL("images %lld x %lld x %lld x %lld, results %lld x %lld x %lld, %d threads",
           (long long)w->n, (long long)w->ci, (long long)w->size[0], (long long)w->size[1],
           (long long)w->co, (long long)w->windows[0], (long long)w->windows[1], threads);
  }
  free(sums);
  free_world(w);
}

TEST_WALK(integers) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (uint32_t seed = 1; seed <= 48 && !test_failed(); seed++)
      check_world(draw_world(seed), cpu_isa_at(i));
    test_end();
  }
}

static world *world_of(int64_t n, int64_t ci, int64_t co, int64_t rows, int64_t columns) {
  world *w = calloc(1, sizeof *w);
  *w = (world){.seed = 77, .n = n, .ci = ci, .co = co, .before = {1, 1}};
  w->size[0] = w->windows[0] = rows;
  w->size[1] = w->windows[1] = columns;
  return w;
}

/* Lines longer than a unit usually is, one longer than goes through the epilogue, units of many images, one that takes all
 * the scratch memory that it asked for. */
TEST(integers_of_other_shapes) {
  const int64_t shapes[][5] = {{1, 32, 33, 4, 519}, {1, 33, 40, 5, 1024}, {20, 256, 80, 4, 4},
                               {2, 64, 64, 28, 28}, {4, 512, 40, 8, 8},   {9, 160, 110, 7, 7},
                               {1, 32, 32, 4, 1025}};
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    const int64_t *s = shapes[i];
    world *w = world_of(s[0], s[1], s[2], s[3], s[4]);
    make_world(w);
    CHECK(is_taken(w) == (s[4] <= 1024));
    double *sums = all_sums(w);
    for (int threads = 1; threads <= 3; threads += 2) {
      run_world(w, NULL, threads);
      check_exact(w, sums);
    }
    free(sums);
    free_world(w);
  }
}

static size_t made_bytes(const world *w) { return winograd_made(&w->p, &w->part.u.matmul); }

/* Weights that runs change: each run transforms them. Also for inputs' gradients. */
TEST_WALK(made) {
  const int64_t shapes[][5] = {{2, 64, 50, 14, 14}, {4, 260, 97, 8, 8}, {1, 33, 97, 28, 40}};
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    for (size_t k = 0; k < COUNT_OF(shapes) && !test_failed(); k++) {
      const int64_t *s = shapes[k];
      world *w = world_of(s[0], s[1], s[2], s[3], s[4]);
      w->turned = k > 0;
      w->is_long = k == 1;
      make_world(w);
      w->states[0].assigned = true;
      CHECK(!is_taken(w) && made_bytes(w) > 0);
      double *sums = all_sums(w);
      for (int threads = 1; threads <= 4; threads++) {
        run_world(w, cpu_isa_at(i), threads);
        check_exact(w, sums);
      }
      free(sums);
      free_world(w);
    }
    test_end();
  }
}

/* Two parts in a step, one behind the other in what is kept; the second stores elsewhere. */
TEST(two_parts) {
  world *w = world_of(2, 40, 50, 12, 14);
  make_world(w);
  matmul_acc acc = w->acc;
  instr epilogue[2] = {w->epilogue[0], store(SUM, 4, w->y_terms, 0)};
  part parts[2] = {w->part, w->part};
  parts[1].u.matmul.accs = &acc;
  parts[1].u.matmul.epilogue.code = epilogue;
  w->step.n_parts = 2;
  w->step.parts = parts;
  double *sums = all_sums(w);
  for (int threads = 1; threads <= 4; threads++) {
    run_world(w, NULL, threads);
    check_exact(w, sums);
    CHECK_EQ_MEM(w->address[SUM], w->address[Y], (size_t)w->values[Y].count * sizeof(float));
  }
  free(sums);
  free_world(w);
}

static double rms_error(const world *w, const double *sums) {
  const float *y = w->address[Y];
  double sum = 0;
  for (int64_t i = 0; i < w->values[Y].count; i++)
    sum += ((double)y[i] - sums[i]) * ((double)y[i] - sums[i]);
  return sqrt(sum / (double)w->values[Y].count);
}

/* Fractions: bits do not depend on threads; errors are at most twice those of plain sums (1.4 to 1.6 times as large). */
static void check_errors(const cpu_isa *isa, world *w) {
  w->fractions = true;
  make_world(w);
  double *sums = all_sums(w), error;
  size_t bytes = (size_t)w->values[Y].count * sizeof(float);
  float *one = malloc(bytes);
  run_world(w, isa, 1);
  memcpy(one, w->address[Y], bytes);
  error = rms_error(w, sums);
  for (int threads = 2; threads <= 4; threads++) {
    run_world(w, isa, threads);
    CHECK_EQ_MEM(one, w->address[Y], bytes);
  }
  instr plain_b[2] = {w->b, {.op = REGION_ALU, .code = ALU_cast, .dtype = SN_F32, .a = 0}};
  w->product.b = (region){2, plain_b}; /* a cast: the plain way */
  CHECK(!is_taken(w));
  run_world(w, isa, 2);
  double plain = rms_error(w, sums);
  if (!(error <= 2 * plain) || memcmp(one, w->address[Y], bytes) == 0)
    FAIL("%s: error %.3g, plain %.3g", isa->name, error, plain);
  free(one);
  free(sums);
  free_world(w);
}

TEST_WALK(fractions) {
  for (int i = 0; cpu_isa_at(i); i++) {
    if (!test_begin("%s", cpu_isa_at(i)->name))
      continue;
    check_errors(cpu_isa_at(i), world_of(2, 64, 64, 20, 20));
    check_errors(cpu_isa_at(i), world_of(3, 300, 50, 8, 9));
    test_end();
  }
}

/* Weights that a run changes are not kept so, but transformed by each run. */
TEST(who_may) {
  world *w = world_of(2, 64, 64, 16, 16);
  make_world(w);
  CHECK(is_taken(w) && made_bytes(w) == 0);
  bool by_state[1] = {false};
  int64_t floats = winograd_kept(&w->p, &w->part.u.matmul);
  CHECK_EQ_INT(cpu_kept_matmul(&w->p, &w->step, by_state), floats * (int64_t)sizeof(float));
  CHECK(by_state[0]);
  w->states[0].assigned = true;
  CHECK(!is_taken(w) && made_bytes(w) > 0);
  w->states[0].assigned = false;
  w->product.k[1] = 5;
  CHECK(!is_taken(w));
  w->product.k[1] = KERNEL;
  w->x_terms[1].stride *= 2; /* every other row */
  CHECK(!is_taken(w));
  free_world(w);
}

/* Gradients for inputs. */
TEST(who_may_backwards) {
  world *w = world_of(2, 64, 64, 16, 16);
  w->turned = true;
  make_world(w);
  CHECK(is_taken(w) && made_bytes(w) == 0);
  w->states[0].assigned = true;
  CHECK(!is_taken(w) && made_bytes(w) > 0);
  w->x_terms[1].stride *= 2; /* every other row */
  CHECK(made_bytes(w) == 0);
  free_world(w);
}

/* What a part asks for is enough, however its lines are cut. */
TEST(scratch) {
  world draws = {.seed = 3};
  for (int i = 0; i < 300 && !test_failed(); i++) {
    world *w = world_of(1 + draw(&draws, 8), 16 + draw(&draws, 700), 16 + draw(&draws, 300),
                        1 + draw(&draws, 60), 1 + draw(&draws, 60));
    make_part(w);
    for (int k = 0; is_taken(w) && k < 12 && cpu_isa_at(k / 4); k++) {
      const matmul_kernels *kernels = cpu_isa_at(k / 4)->matmul;
      winograd_shape s = {
          w->n, {w->size[0], w->size[1]}, w->ci, w->co, kernels->rows, kernels->cols, 1 + k % 4};
      winograd_cut c = winograd_cut_for(&s);
      CHECK(winograd_need(&w->p, &w->part.u.matmul) >=
            sizeof(float) * (size_t)(16 * c.plane + 16 * c.sums_plane + c.stored_floats));
    }
    free_world(w);
  }
}
