/* Sessions that run a compiled plan: what is made once and what anew, what is counted, what is timed. What holds on every device
 * is in test_session.c and test_session_state.c. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/test.h"

#include <string.h>

/* The device to test: the first that compiles. */
static const char *planned_device(void) {
  for (int i = 0; sn_device_name(i); i++)
    if (strcmp(sn_device_name(i), "ref") != 0)
      return sn_device_name(i);
  return NULL;
}

/* y = x · (w ∘ w) + b; b counts the runs. x is [n, 2]. */
static void build(sn_graph *g) {
  sn_dim n = sn_symbol(g, "n", 8);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n, 2));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(2, 2), SN_INIT_ZEROS, 0);
  sn_value b = sn_state(g, "b", SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_value y = sn_matmul(g, x, sn_mul(g, w, w), false, false);
  sn_output(g, "y", sn_add(g, y, b));
  sn_assign(g, b, sn_affine(g, b, 1, 1));
}

static bool start(fixture *f, sn_session_options *o) {
  o->device = planned_device();
  if (!CHECK(o->device != NULL) || !fixture_start(f))
    return false;
  build(f->g);
  return fixture_ready(f, o);
}

static void set_w(sn_store *store, float w) {
  const float all[4] = {w, w, w, w};
  CHECK_EQ_INT(sn_store_write(store, "w", all, sizeof all), SN_OK);
}

/* All of y, which is (2 w² + runs) for x of ones; NAN when they differ. */
static float run_at(sn_session *s, int n) {
  float x[16], y[16];
  size_t size = (size_t)n * 2 * sizeof *x;
  for (int i = 0; i < 16; i++)
    x[i] = 1;
  CHECK_EQ_INT(sn_session_bind(s, "n", n), SN_OK);
  CHECK_EQ_INT(sn_session_write(s, "x", x, size), SN_OK);
  CHECK_EQ_INT(sn_session_run(s), SN_OK);
  CHECK_EQ_INT(sn_session_read(s, "y", y, size), SN_OK);
  for (int i = 1; i < 2 * n; i++)
    CHECK(y[i] == y[0]);
  return y[0];
}

/* Refused on every device, before anything is made. */
TEST(threads_are_not_negative) {
  for (int i = 0; sn_device_name(i); i++) {
    fixture f;
    sn_session *s;
    sn_session_options o = {.device = sn_device_name(i), .threads = -1};
    REQUIRE(fixture_start(&f));
    build(f.g);
    CHECK_EQ_INT(sn_store_init(f.store, f.g, 1), SN_OK);
    CHECK_EQ_INT(sn_session_create(f.g, f.store, &o, &s), SN_ERR_INVALID);
    CHECK(s == NULL);
    CHECK_STR_HAS(sn_ctx_message(f.ctx), "threads");
    o.threads = 1;
    if (CHECK_EQ_INT(sn_session_create(f.g, f.store, &o, &s), SN_OK))
      CHECK_EQ_INT(sn_session_get_stats(s).threads, 1);
    sn_session_destroy(s);
    fixture_end(&f);
  }
}

TEST(one_plan_serves_all_sizes) {
  static const int sizes[] = {3, 8, 1, 8, 3, 1};
  fixture f;
  sn_session_options o = {0};
  REQUIRE(start(&f, &o));
  set_w(f.store, 1);
  for (int i = 0; i < 6; i++)
    CHECK(run_at(f.session, sizes[i]) == (float)(2 + i));
  sn_session_stats s = sn_session_get_stats(f.session);
  CHECK_EQ_INT(s.compiles, 1);
  CHECK_EQ_INT(s.runs, 6);
  CHECK(s.steps > 0 && s.launches >= s.steps && s.compile_s > 0 && !s.from_cache);
  fixture_end(&f);
}

/* Whatever a plan makes from w ahead of runs follows w: written, in another store, or not changed at all. */
TEST(what_is_prepared_is_never_stale) {
  fixture f;
  sn_store *local;
  REQUIRE(fixture_start(&f) && sn_store_create(f.ctx, &local) == SN_OK);
  sn_session_options o = {.device = planned_device(), .local = local};
  build(f.g);
  REQUIRE(fixture_ready(&f, &o));
  set_w(f.store, 1);
  CHECK(run_at(f.session, 2) == 2);
  CHECK(run_at(f.session, 2) == 3);
  sn_session_stats s = sn_session_get_stats(f.session);
  bool prepares = s.prepare_steps > 0;
  CHECK_EQ_INT(s.prepares, prepares);
  set_w(f.store, 3);
  CHECK(run_at(f.session, 2) == 20);
  CHECK(run_at(f.session, 4) == 21);
  CHECK_EQ_INT(sn_session_get_stats(f.session).prepares, 2 * prepares);
  /* The same version in another store is another value. */
  const float two[4] = {2, 2, 2, 2};
  CHECK_EQ_INT(sn_store_add(local, "w", (sn_type){SN_F32, SN_SHAPE(2, 2)}, two), SN_OK);
  sn_entry e;
  while (sn_store_find(f.store, "w", &e) == SN_OK) {
    uint64_t version = e.version;
    REQUIRE(sn_store_find(local, "w", &e) == SN_OK);
    if (e.version == version)
      break;
    set_w(local, 2);
  }
  CHECK(run_at(f.session, 2) == 12);
  CHECK(run_at(f.session, 2) == 13);
  CHECK_EQ_INT(sn_session_get_stats(f.session).prepares, 3 * prepares);
  CHECK_EQ_INT(sn_session_get_stats(f.session).runs, 6);
  sn_session_destroy(f.session);
  f.session = NULL;
  sn_store_destroy(local);
  fixture_end(&f);
}

typedef struct stopper {
  bool stop;
} stopper;

static bool keep_on(void *user, int64_t done, int64_t total, const char *what) {
  (void)done, (void)total, (void)what;
  return !((stopper *)user)->stop;
}

/* A run that fails after w changed must not count as one that prepared. */
TEST(a_failed_run_prepares_again) {
  fixture f;
  stopper user = {false};
  sn_session_options o = {.progress = {keep_on, &user}};
  REQUIRE(start(&f, &o));
  set_w(f.store, 1);
  CHECK(run_at(f.session, 2) == 2);
  set_w(f.store, 3);
  user.stop = true;
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_CANCELLED);
  user.stop = false;
  CHECK(run_at(f.session, 2) == 19);
  CHECK_EQ_INT(sn_session_get_stats(f.session).runs, 2);
  fixture_end(&f);
}

/* --- memory --- */

TEST(a_warm_session_allocates_nothing) {
  fault_heap heap = {0};
  fixture f = {.ctx = fault_ctx(&heap)};
  sn_session_options o = {.device = planned_device()};
  REQUIRE(f.ctx && sn_graph_create(f.ctx, &f.g) == SN_OK &&
          sn_store_create(f.ctx, &f.store) == SN_OK);
  build(f.g);
  REQUIRE(fixture_ready(&f, &o));
  for (int i = 0; i < 3; i++)
    (void)run_at(f.session, 8);
  int64_t count = heap.count;
  for (int n = 1; n <= 8; n++)
    (void)run_at(f.session, n);
  CHECK_EQ_INT(heap.count, count);
  fixture_end(&f);
  CHECK_EQ_INT(heap.blocks, 0);
}

/* --- steps and spans --- */

enum { MOST = 64 };
typedef struct timed {
  int n, count[MOST];
  double last_begin;
  bool wrong;
} timed;

static void take(void *user, const sn_span *s) {
  timed *t = user;
  t->n++;
  t->wrong = t->wrong || s->step < 0 || s->step >= MOST || s->thread < 0 || s->end_s < s->begin_s;
  if (!t->wrong)
    t->count[s->step]++;
}

TEST(steps_are_named_and_timed) {
  fixture f;
  timed t = {0};
  sn_session_options o = {.span = take, .span_user = &t};
  REQUIRE(start(&f, &o));
  (void)run_at(f.session, 8);
  sn_session_stats s = sn_session_get_stats(f.session);
  int n = (int)(s.prepare_steps + s.steps);
  REQUIRE(n <= MOST);
  CHECK(!t.wrong && t.n >= n);
  for (int i = 0; i < n; i++) {
    sn_step step;
    CHECK_EQ_INT(sn_session_step(f.session, i, &step), SN_OK);
    CHECK(t.count[i] > 0 && *step.archetype && step.parts > 0 && step.bytes >= 0);
    CHECK_EQ_STR(step.phase, i < s.prepare_steps ? "prepare" : step.phase);
  }
  sn_step none;
  CHECK_EQ_INT(sn_session_step(f.session, n, &none), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_step(f.session, -1, &none), SN_ERR_NOT_FOUND);
  fixture_end(&f);
}

TEST(the_reference_has_no_plan) {
  fixture f;
  sn_step none;
  sn_session_options o = {.device = "ref"};
  REQUIRE(fixture_start(&f));
  build(f.g);
  REQUIRE(fixture_ready(&f, &o));
  (void)run_at(f.session, 2);
  sn_session_stats s = sn_session_get_stats(f.session);
  CHECK(s.runs == 1 && s.compiles == 0 && s.steps == 0);
  CHECK_EQ_INT(sn_session_step(f.session, 0, &none), SN_ERR_NOT_FOUND);
  fixture_end(&f);
}
