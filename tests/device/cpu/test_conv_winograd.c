/* Convolutions with fewer products (conv_winograd.h) against plain sums, on every instruction set and 1 to 4 threads. With small
 * integers all sums are exact, transforms too: results must be equal. With fractions, errors are compared with those of the
 * plain way. */
#include "device/cpu/conv_winograd.h"
#include "support/conv_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { ADDED = CONV_OWN, SCALE, SUM };

/* The step, of sizes that are there. Nothing else reads the weights, a state.
 * The long epilogue: sum = scale[co] * acc + added, y = sum * sum, both stored. */
static void make_step(conv_case *c, bool is_long) {
  c->values[CONV_WEIGHTS].home = HOME_STATE;
  c->axes = conv_case_axes_forward(false, c->n > 1);
  c->a[0] = conv_case_read(conv_case_at(c, CONV_IMAGES));
  c->b[0] = conv_case_read(conv_case_at(c, CONV_WEIGHTS));
  c->epilogue[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  access y = conv_case_at(c, CONV_RESULTS), added = y, sum = y;
  added.value = ADDED;
  sum.value = SUM;
  c->epilogue[1] = conv_case_write(y, 0);
  if (is_long) {
    c->epilogue[1] = conv_case_read(conv_case_at_axis(c, SCALE, c->axes.co));
    c->epilogue[2] = conv_case_read(added);
    c->epilogue[3] = conv_case_alu(ALU_mul, 0, 1);
    c->epilogue[4] = conv_case_alu(ALU_add, 3, 2);
    c->epilogue[5] = conv_case_write(sum, 4);
    c->epilogue[6] = conv_case_alu(ALU_mul, 4, 4);
    c->epilogue[7] = conv_case_write(y, 6);
  }
  conv_case_make_step(c, 1, is_long ? 8 : 2);
}

static void make_case(conv_case *c, bool is_long) {
  make_step(c, is_long);
  conv_case_tensors(c);
  conv_case_add(c, ADDED, SN_F32, c->values[CONV_RESULTS].count);
  conv_case_add(c, SCALE, SN_F32, c->co);
  conv_case_add(c, SUM, SN_F32, c->values[CONV_RESULTS].count);
}

static conv_case *draw_case(uint32_t seed) {
  conv_case *c = conv_case_new(seed);
  int64_t most = seed % 4 == 0 ? 40 : 9;
  c->n = 1 + conv_case_draw(c, 4);
  c->ci = 1 + conv_case_draw(c, seed % 8 == 1 ? 300 : 20);
  c->co = 1 + conv_case_draw(c, 40);
  for (int d = 0; d < CONV_DIMS; d++) {
    int64_t after = conv_case_draw(c, 3);
    c->before[d] = conv_case_draw(c, 3);
    conv_case_fit(c, d, after, conv_case_draw(c, most));
  }
  c->turned = conv_case_draw(c, 3) == 0;
  make_case(c, conv_case_draw(c, 2));
  return c;
}

/* Integers: all is exact. */
static void check_exact(const conv_case *c, const double *sums) {
  const float *y = c->address[CONV_RESULTS], *stored = c->address[SUM];
  const float *added = c->address[ADDED], *scale = c->address[SCALE];
  bool is_long = c->part.u.matmul.epilogue.n > 2;
  int64_t plane = c->windows[0] * c->windows[1];
  for (int64_t i = 0; i < c->values[CONV_RESULTS].count && !test_failed(); i++) {
    double expected = sums[i], sum = (double)scale[i / plane % c->co] * sums[i] + (double)added[i];
    if (is_long && !CHECK((double)stored[i] == sum))
      return;
    expected = is_long ? (double)((float)sum * (float)sum) : expected;
    if ((double)y[i] != expected)
      FAIL("result %lld: %g, expected %g", (long long)i, (double)y[i], expected);
  }
}

static void check_run(conv_case *c, const cpu_isa *isa, int threads, const double *sums) {
  conv_case_clear(c);
  conv_case_run(c, isa, threads);
  check_exact(c, sums);
}

static bool is_taken(const conv_case *c) { return winograd_kept(&c->p, &c->part.u.matmul) > 0; }

/* --- whether it pays or not --- */

enum { SCRATCH = 5 << 20 };
typedef struct forced {
  conv_case *c;
  const cpu_isa *isa;
  cpu_crew *crew;
  int threads;
  char *scratch;
  float *kept;
} forced;

static void run_forced_thread(void *user, int thread) {
  forced *f = user;
  cpu_run r = cpu_case_alone(NULL, &f->c->p, NULL, f->c->address,
                             f->scratch + (size_t)thread * SCRATCH, SCRATCH);
  matmul_work m;
  r.isa = f->isa;
  r.thread = thread;
  r.threads = f->threads;
  r.crew = f->crew;
  winograd_keep(&r, &f->c->part.u.matmul, f->kept);
  cpu_sync(&r);
  CHECK(matmul_size(&m, &r, &f->c->step, &f->c->part.u.matmul));
  m.turned = m.winograd = true; /* as they are where it pays */
  m.few = false;
  m.side[ROWS] = m.n;
  m.side[COLS] = m.m;
  m.kept = f->kept;
  CHECK(matmul_open(&m) == SN_OK);
  CHECK(winograd_run(&m) == SN_OK);
}

static void run_forced(conv_case *c, const cpu_isa *isa, int threads) {
  sn_ctx *ctx = NULL;
  team *t = NULL;
  cpu_crew *crew = aligned_alloc(64, (sizeof *crew + 63) / 64 * 64);
  memset(crew, 0, sizeof *crew);
  CHECK(sn_ctx_create(NULL, &ctx) == SN_OK && team_get(ctx, threads, &t) == SN_OK);
  crew->team = t;
  forced f = {c, isa, crew, threads, aligned_alloc(64, (size_t)threads * SCRATCH), NULL};
  size_t floats = 16 * (size_t)(c->co + 16) * (size_t)c->ci;
  f.kept = aligned_alloc(64, (floats + 15) / 16 * 64);
  memset(f.scratch, 0xff, (size_t)threads * SCRATCH);
  conv_case_clear(c);
  team_run(t, threads, run_forced_thread, &f);
  free(f.scratch);
  free(f.kept);
  free(crew);
  sn_ctx_destroy(ctx);
}

static void check_integers(const cpu_isa *isa) {
  for (uint32_t seed = 1; seed <= 48 && !test_failed(); seed++) {
    conv_case *c = draw_case(seed);
    double *sums = conv_case_sums(c, CONV_RESULTS, false);
    for (int threads = 1; threads <= 4 && !test_failed(); threads++) {
      run_forced(c, isa, threads);
      check_exact(c, sums);
      if (test_failed())
        FAIL("seed %u, %d threads", seed, threads);
    }
    free(sums);
    conv_case_free(c);
  }
}

TEST_WALK(integers) { cpu_case_each_isa(check_integers); }

/* Lines longer than a unit usually is, one longer than goes through the epilogue, units of many images, one that takes all
 * the scratch memory that it asked for. */
TEST(integers_of_other_shapes) {
  const int64_t shapes[][5] = {{1, 32, 33, 4, 519}, {1, 33, 40, 5, 1024}, {20, 256, 80, 4, 4},
                               {2, 64, 64, 28, 28}, {4, 512, 40, 8, 8},   {9, 160, 110, 7, 7},
                               {1, 32, 32, 4, 1025}};
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    const int64_t *s = shapes[i];
    conv_case *c = conv_case_new_same(s[0], s[1], s[2], s[3], s[4]);
    make_case(c, false);
    CHECK(is_taken(c) == (s[4] <= 1024));
    double *sums = conv_case_sums(c, CONV_RESULTS, false);
    for (int threads = 1; threads <= 3; threads += 2)
      check_run(c, NULL, threads, sums);
    free(sums);
    conv_case_free(c);
  }
}

static size_t made_bytes(const conv_case *c) { return winograd_made(&c->p, &c->part.u.matmul); }

/* Weights that runs change: each run transforms them. Also for inputs' gradients. */
static void check_made(const cpu_isa *isa) {
  const int64_t shapes[][5] = {{2, 64, 50, 14, 14}, {4, 260, 97, 8, 8}, {1, 33, 97, 28, 40}};
  for (size_t i = 0; i < COUNT_OF(shapes) && !test_failed(); i++) {
    const int64_t *s = shapes[i];
    conv_case *c = conv_case_new_same(s[0], s[1], s[2], s[3], s[4]);
    c->turned = i > 0;
    make_case(c, i == 1);
    c->states[0].assigned = true;
    CHECK(!is_taken(c) && made_bytes(c) > 0);
    double *sums = conv_case_sums(c, CONV_RESULTS, false);
    for (int threads = 1; threads <= 4; threads++)
      check_run(c, isa, threads, sums);
    free(sums);
    conv_case_free(c);
  }
}

TEST_WALK(made) { cpu_case_each_isa(check_made); }

/* Two parts in a step, one behind the other in what is kept; the second stores elsewhere. */
TEST(two_parts) {
  conv_case *c = conv_case_new_same(2, 40, 50, 12, 14);
  make_case(c, false);
  matmul_acc acc = c->acc;
  instr epilogue[2] = {c->epilogue[0], c->epilogue[1]};
  part parts[2] = {c->part, c->part};
  epilogue[1].at.value = SUM;
  parts[1].u.matmul.accs = &acc;
  parts[1].u.matmul.epilogue.code = epilogue;
  c->step.n_parts = 2;
  c->step.parts = parts;
  double *sums = conv_case_sums(c, CONV_RESULTS, false);
  for (int threads = 1; threads <= 4; threads++) {
    check_run(c, NULL, threads, sums);
    CHECK_EQ_MEM(c->address[SUM], c->address[CONV_RESULTS],
                 (size_t)c->values[SUM].count * sizeof(float));
  }
  free(sums);
  conv_case_free(c);
}

/* Errors are 1.4 to 1.6 times those of plain sums. */
static void check_fractions(const cpu_isa *isa) {
  conv_case *cases[] = {conv_case_new_same(2, 64, 64, 20, 20),
                        conv_case_new_same(3, 300, 50, 8, 9)};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    cases[i]->fractions = true;
    make_case(cases[i], false);
    conv_case_check_errors(cases[i], CONV_RESULTS, isa, 2);
  }
}

TEST_WALK(fractions) { cpu_case_each_isa(check_fractions); }

/* Weights that a run changes are not kept so, but transformed by each run. */
TEST(who_may) {
  conv_case *c = conv_case_new_same(2, 64, 64, 16, 16);
  make_case(c, false);
  CHECK(is_taken(c) && made_bytes(c) == 0);
  bool by_state[1] = {false};
  int64_t floats = winograd_kept(&c->p, &c->part.u.matmul);
  CHECK_EQ_INT(cpu_kept_matmul(&c->p, &c->step, by_state), floats * (int64_t)sizeof(float));
  CHECK(by_state[0]);
  c->states[0].assigned = true;
  CHECK(!is_taken(c) && made_bytes(c) > 0);
  c->states[0].assigned = false;
  c->product.k[1] = 5;
  CHECK(!is_taken(c));
  c->product.k[1] = CONV_KERNEL;
  conv_case_term(c, &c->a[0].at, c->axes.window)->stride *= 2; /* every other row */
  CHECK(!is_taken(c));
  conv_case_free(c);
}

/* Gradients for inputs. */
TEST(who_may_backwards) {
  conv_case *c = conv_case_new_same(2, 64, 64, 16, 16);
  c->turned = true;
  make_case(c, false);
  CHECK(is_taken(c) && made_bytes(c) == 0);
  c->states[0].assigned = true;
  CHECK(!is_taken(c) && made_bytes(c) > 0);
  conv_case_term(c, &c->a[0].at, c->axes.window)->stride *= 2; /* every other row */
  CHECK(made_bytes(c) == 0);
  conv_case_free(c);
}

/* What a part asks for is enough, however its lines are cut. */
TEST(scratch) {
  conv_case *draws = conv_case_new(3);
  for (int i = 0; i < 300 && !test_failed(); i++) {
    conv_case *c = conv_case_new_same(1 + conv_case_draw(draws, 8), 16 + conv_case_draw(draws, 700),
                                      16 + conv_case_draw(draws, 300),
                                      1 + conv_case_draw(draws, 60), 1 + conv_case_draw(draws, 60));
    make_step(c, false);
    for (int k = 0; is_taken(c) && k < 12 && cpu_isa_at(k / 4); k++) {
      const matmul_kernels *kernels = cpu_isa_at(k / 4)->matmul;
      winograd_shape s = {
          c->n, {c->size[0], c->size[1]}, c->ci, c->co, kernels->rows, kernels->cols, 1 + k % 4};
      winograd_cut cut = winograd_cut_for(&s);
      CHECK(winograd_need(&c->p, &c->part.u.matmul) >=
            sizeof(float) * (size_t)(16 * cut.plane + 16 * cut.sums_plane + cut.stored_floats));
    }
    conv_case_free(c);
  }
  conv_case_free(draws);
}
