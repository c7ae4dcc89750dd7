/* Sessions that run on several threads: two contexts on two host threads with one store, and runs from within a callback of
 * a run of the same context. */
#include "support/fixture.h"
#include "support/test.h"

#include <pthread.h>
#include <string.h>

enum { N = 32, LONG = 5000, RUNS = 150 };

/* w [N, N] + 1, count [LONG] + 1; y = w·w and the sum of all counts, both of the values before. */
static void build_counter(sn_graph *g) {
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(N, N), SN_INIT_ZEROS, 0);
  sn_value count = sn_state(g, "count", SN_I32, SN_SHAPE(LONG), SN_INIT_ZEROS, 0);
  sn_assign(g, w, sn_affine(g, w, 1, 1));
  sn_assign(g, count, sn_add(g, count, sn_scalar(g, SN_I32, 1)));
  sn_output(g, "y", sn_matmul(g, w, w, false, false));
  sn_output(g, "total", sn_sum(g, count, SN_ALL_AXES, false));
}

/* Whether the outputs of a run are of one state: w and count all `before`; -1: not. */
static int read_before(sn_session *s) {
  float y[N * N];
  int32_t total = -1;
  if (sn_session_read(s, "y", y, sizeof y) != SN_OK ||
      sn_session_read(s, "total", &total, sizeof total) != SN_OK)
    return -1;
  int before = total / LONG;
  bool same = total % LONG == 0;
  for (int i = 0; i < N * N; i++)
    same = same && y[i] == (float)(N * before * before);
  return same ? before : -1;
}

typedef struct worker {
  pthread_t thread;
  sn_store *store;
  int threads;
  sn_status status;
  int torn;            /* runs whose outputs are of no one state */
  bool seen[2 * RUNS]; /* by what a run found */
} worker;

static void *work(void *user) {
  worker *w = user;
  fixture f = {0};
  w->status = sn_ctx_create(NULL, &f.ctx);
  if (w->status == SN_OK)
    w->status = sn_graph_create(f.ctx, &f.g);
  if (w->status == SN_OK) {
    build_counter(f.g);
    sn_session_options o = {.device = fixture_device, .threads = w->threads};
    w->status = sn_session_create(f.g, w->store, &o, &f.session);
  }
  for (int i = 0; i < RUNS && w->status == SN_OK; i++) {
    w->status = sn_session_run(f.session);
    int before = read_before(f.session);
    if (before >= 0 && before < 2 * RUNS)
      w->seen[before] = true;
    else
      w->torn++;
  }
  fixture_end(&f);
  return NULL;
}

TEST_ON_DEVICES(two_teams_on_one_store) {
  fixture f;
  REQUIRE(fixture_start(&f));
  build_counter(f.g);
  REQUIRE(sn_store_init(f.store, f.g, 1) == SN_OK);
  worker w[2] = {{.store = f.store, .threads = 2}, {.store = f.store, .threads = 3}};
  for (int i = 0; i < 2; i++)
    CHECK_EQ_INT(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ_INT(pthread_join(w[i].thread, NULL), 0);
    CHECK_EQ_INT(w[i].status, SN_OK);
    CHECK_EQ_INT(w[i].torn, 0);
  }
  for (int i = 0; i < 2 * RUNS; i++)
    CHECK(w[0].seen[i] != w[1].seen[i]); /* each state was read by one of them */
  fixture_end(&f);
}

/* --- a run within a run --- */

typedef struct outer {
  sn_ctx *ctx;
  sn_session *inner;
  int calls, good, made;
} outer;

static sn_session *make_inner(sn_ctx *ctx, sn_graph **g, sn_store **store) {
  sn_session *s = NULL;
  sn_session_options o = {.device = fixture_device, .threads = 4};
  if (sn_graph_create(ctx, g) != SN_OK || sn_store_create(ctx, store) != SN_OK)
    return NULL;
  build_counter(*g);
  return sn_store_init(*store, *g, 1) == SN_OK && sn_session_create(*g, *store, &o, &s) == SN_OK
             ? s
             : NULL;
}

static bool run_inner(void *user, int64_t done, int64_t total, const char *what) {
  outer *o = user;
  (void)done;
  (void)total;
  (void)what;
  o->good += sn_session_run(o->inner) == SN_OK && read_before(o->inner) == o->calls;
  if (o->calls++ == 0) { /* and one that is made here */
    sn_graph *g = NULL;
    sn_store *store = NULL;
    sn_session *s = make_inner(o->ctx, &g, &store);
    o->made = s && sn_session_run(s) == SN_OK && read_before(s) == 0;
    sn_session_destroy(s);
    sn_store_destroy(store);
    sn_graph_destroy(g);
  }
  return true;
}

TEST_ON_DEVICES(a_callback_runs_another_session) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_graph *g = NULL;
  sn_store *store = NULL;
  outer o = {.ctx = f.ctx, .inner = make_inner(f.ctx, &g, &store)};
  build_counter(f.g);
  REQUIRE(o.inner != NULL);
  sn_session_options options = {.threads = 3, .progress = {run_inner, &o}};
  REQUIRE(fixture_ready(&f, &options));
  for (int i = 0; i < 50; i++) {
    CHECK(fixture_run(&f));
    CHECK_EQ_INT(read_before(f.session), i);
  }
  CHECK(o.calls >= 50);
  CHECK_EQ_INT(o.good, o.calls);
  CHECK_EQ_INT(o.made, 1);
  sn_session_destroy(o.inner);
  sn_store_destroy(store);
  sn_graph_destroy(g);
  fixture_end(&f);
}
