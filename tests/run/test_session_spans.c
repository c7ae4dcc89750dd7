/* Spans of the CPU: which threads report which steps, on which thread, and whether what they report can have been. Times are
 * compared with each other only: no test here depends on how fast anything is. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ROWS = 4096, N = 64, MOST = 512, THREADS = 3 };

typedef struct record {
  sn_span spans[MOST];
  int n;
  bool elsewhere; /* one came on another thread */
  pthread_t caller;
} record;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void take(void *user, const sn_span *span) {
  record *r = user;
  r->elsewhere = r->elsewhere || !pthread_equal(r->caller, pthread_self());
  if (r->n < MOST)
    r->spans[r->n++] = *span;
}

/* Products, rows and elements, all large enough for every thread; and a step that is one number. */
static void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, N)), y = x;
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(N, N));
  for (int i = 0; i < 3; i++)
    y = sn_softmax(g, sn_matmul(g, y, w, false, false), 1);
  sn_output(g, "y", sn_sort(g, y, 1, false));
  sn_output(g, "total", sn_log(g, sn_sum(g, y, SN_ALL_AXES, false)));
}

static bool start(fixture *f, record *r, int threads, const char *finite) {
  *r = (record){.caller = pthread_self()};
  static float x[ROWS * N];
  for (int i = 0; i < ROWS * N; i++)
    x[i] = (float)sin(i);
  sn_session_options o = {.device = "cpu", .threads = threads, .finite_output = finite};
  o.span = take;
  o.span_user = r;
  build(f->g);
  return fixture_ready(f, &o) && CHECK(sn_session_write(f->session, "x", x, sizeof x) == SN_OK) &&
         CHECK(sn_session_write(f->session, "w", x, N * N * sizeof *x) == SN_OK);
}

/* In order of begin on each thread, one at a time, and within the run. */
static void check_order(const record *r, double begin, double end) {
  double last[THREADS];
  int step[THREADS];
  for (int t = 0; t < THREADS; t++)
    last[t] = begin, step[t] = -1;
  for (int i = 0; i < r->n; i++) {
    const sn_span *s = &r->spans[i];
    if (!CHECK(s->thread >= 0 && s->thread < THREADS))
      return;
    CHECK(s->begin_s >= last[s->thread] && s->end_s >= s->begin_s && s->end_s <= end);
    CHECK(s->step > step[s->thread]);
    last[s->thread] = s->end_s;
    step[s->thread] = s->step;
  }
}

static int threads_of(const record *r, int step) {
  int n = 0;
  for (int i = 0; i < r->n; i++)
    n += r->spans[i].step == step;
  return n;
}

TEST(every_thread_reports_its_part) {
  fixture f;
  record r;
  REQUIRE(fixture_start(&f) && start(&f, &r, THREADS, NULL));
  REQUIRE(sn_session_get_stats(f.session).threads == THREADS);
  for (int run = 0; run < 10; run++) {
    r.n = 0;
    double begin = seconds();
    CHECK_EQ_INT(sn_session_run(f.session), SN_OK);
    check_order(&r, begin, seconds());
    CHECK(!r.elsewhere);
    int whole = 0;
    sn_step step;
    for (int i = 0; sn_session_step(f.session, i, &step) == SN_OK; i++) {
      bool large = step.bytes >= ROWS * N * sizeof(float);
      int n = threads_of(&r, i);
      if (!CHECK(large ? n == THREADS : n >= 1 && n <= THREADS))
        FAIL("%d %s %s %d", i, step.name, step.archetype, n);
      whole += large;
    }
    CHECK(whole >= 5);
  }
  fixture_end(&f);
}

TEST(one_thread_reports_every_step_once) {
  fixture f;
  record r;
  REQUIRE(fixture_start(&f) && start(&f, &r, 1, NULL));
  double begin = seconds();
  CHECK_EQ_INT(sn_session_run(f.session), SN_OK);
  check_order(&r, begin, seconds());
  sn_session_stats s = sn_session_get_stats(f.session);
  CHECK_EQ_INT(r.n, s.prepare_steps + s.steps);
  for (int i = 0; i < r.n; i++)
    CHECK(r.spans[i].thread == 0 && r.spans[i].step == i);
  fixture_end(&f);
}

/* What ran of a run that fails is reported too. */
TEST(a_run_that_fails_reports_what_ran) {
  fixture f;
  record r;
  REQUIRE(fixture_start(&f) && start(&f, &r, THREADS, "total"));
  static float bad[ROWS * N];
  bad[5] = NAN;
  CHECK(sn_session_write(f.session, "x", bad, sizeof bad) == SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_NUMERIC);
  CHECK(r.n >= THREADS);
  fixture_end(&f);
}

/* Room for spans is taken when the session is made. */
TEST(a_timed_run_allocates_nothing) {
  fault_heap heap = {0};
  fixture f = {.ctx = fault_ctx(&heap)};
  record r;
  REQUIRE(f.ctx && sn_graph_create(f.ctx, &f.g) == SN_OK &&
          sn_store_create(f.ctx, &f.store) == SN_OK);
  REQUIRE(start(&f, &r, THREADS, NULL));
  CHECK_EQ_INT(sn_session_run(f.session), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_OK);
  int64_t count = heap.count;
  for (int i = 0; i < 4; i++)
    CHECK_EQ_INT(sn_session_run(f.session), SN_OK);
  CHECK_EQ_INT(heap.count, count);
  fixture_end(&f);
  CHECK_EQ_INT(heap.blocks, 0);
}
