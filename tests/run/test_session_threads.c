/* Sessions in several threads on one store: each thread has a context, a graph and a session of its own. */
#include "run/store.h"
#include "support/fixture.h"
#include "support/test.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { RUNS = 1000 };

typedef struct worker {
  pthread_t thread;
  sn_store *store, *local;
  sn_status status;
  char message[128];
} worker;

static sn_status count_up(worker *w, fixture *f) {
  sn_value n = sn_state(f->g, "n", SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_assign(f->g, n, sn_add(f->g, n, sn_scalar(f->g, SN_I32, 1)));
  sn_value m = sn_state(f->g, "m", SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_assign(f->g, m, sn_add(f->g, m, n));
  sn_session_options o = {.device = fixture_device, .local = w->local, .threads = 1};
  sn_status status = sn_session_create(f->g, w->store, &o, &f->session);
  for (int i = 0; i < RUNS && status == SN_OK; i++)
    status = sn_session_run(f->session);
  return status;
}

static void *work(void *user) {
  worker *w = user;
  fixture f = {0};
  w->status = sn_ctx_create(NULL, &f.ctx);
  if (w->status == SN_OK)
    w->status = sn_graph_create(f.ctx, &f.g);
  if (w->status == SN_OK)
    w->status = count_up(w, &f);
  strncpy(w->message, sn_ctx_message(f.ctx), sizeof w->message - 1);
  fixture_end(&f);
  return NULL;
}

static void run_two(worker w[2]) {
  for (int i = 0; i < 2; i++)
    CHECK_EQ_INT(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
  for (int i = 0; i < 2; i++)
    CHECK_EQ_INT(pthread_join(w[i].thread, NULL), 0);
}

TEST_ON_DEVICES(two_threads_on_one_store_take_turns) {
  fixture f;
  REQUIRE(fixture_start(&f));
  const sn_type counter = {SN_I32, SN_SCALAR};
  CHECK_EQ_INT(sn_store_add(f.store, "n", counter, NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(f.store, "m", counter, NULL), SN_OK);
  worker w[2] = {{.store = f.store}, {.store = f.store}};
  run_two(w);
  int32_t n = 0, m = 0;
  CHECK(w[0].status == SN_OK && w[1].status == SN_OK);
  CHECK_EQ_INT(sn_store_read(f.store, "n", &n, sizeof n), SN_OK);
  CHECK_EQ_INT(sn_store_read(f.store, "m", &m, sizeof m), SN_OK);
  CHECK_EQ_INT(n, 2 * RUNS);
  CHECK_EQ_INT(m, 2 * RUNS * (2 * RUNS - 1) / 2); /* each run saw another n */
  sn_entry e;
  CHECK(sn_store_find(f.store, "n", &e) == SN_OK && e.version == 1 + 2 * RUNS);
  fixture_end(&f);
}

/* Whichever store is the local one, a run that waits for the first holds nothing yet. */
TEST_ON_DEVICES(stores_are_locked_in_one_order) {
  for (int turn = 0; turn < 2; turn++) {
    fixture f;
    sn_store *other;
    REQUIRE(fixture_start(&f) && sn_store_create(f.ctx, &other) == SN_OK);
    const sn_type counter = {SN_I32, SN_SCALAR};
    CHECK_EQ_INT(sn_store_add(f.store, "n", counter, NULL), SN_OK);
    CHECK_EQ_INT(sn_store_add(other, "m", counter, NULL), SN_OK);
    bool ordered = (uintptr_t)f.store < (uintptr_t)other;
    sn_store *first = ordered ? f.store : other, *second = ordered ? other : f.store;
    worker w = {.store = turn ? first : second, .local = turn ? second : first};
    store_lock(first);
    CHECK_EQ_INT(pthread_create(&w.thread, NULL, work, &w), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (CHECK_EQ_INT(pthread_mutex_trylock(&second->lock), 0))
      store_unlock(second);
    store_unlock(first);
    CHECK_EQ_INT(pthread_join(w.thread, NULL), 0);
    CHECK_EQ_INT(w.status, SN_OK);
    sn_store_destroy(other);
    fixture_end(&f);
  }
}

TEST_ON_DEVICES(two_stores_in_opposite_roles_do_not_deadlock) {
  fixture f;
  sn_store *other;
  REQUIRE(fixture_start(&f) && sn_store_create(f.ctx, &other) == SN_OK);
  const sn_type counter = {SN_I32, SN_SCALAR};
  CHECK_EQ_INT(sn_store_add(f.store, "n", counter, NULL), SN_OK);
  CHECK_EQ_INT(sn_store_add(other, "m", counter, NULL), SN_OK);
  worker w[2] = {{.store = f.store, .local = other}, {.store = other, .local = f.store}};
  run_two(w);
  CHECK(w[0].status == SN_OK && w[1].status == SN_OK);
  int32_t n = 0;
  CHECK_EQ_INT(sn_store_read(f.store, "n", &n, sizeof n), SN_OK);
  CHECK_EQ_INT(n, 2 * RUNS);
  sn_store_destroy(other);
  fixture_end(&f);
}

TEST_ON_DEVICES(messages_are_the_running_threads_own) {
  fixture f;
  REQUIRE(fixture_start(&f));
  CHECK_EQ_INT(sn_store_add(f.store, "n", (sn_type){SN_F32, SN_SCALAR}, NULL), SN_OK);
  worker w[2] = {{.store = f.store}, {.store = f.store}};
  run_two(w);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ_INT(w[i].status, SN_ERR_INVALID);
    CHECK_STR_HAS(w[i].message, "the graph has i32[], the store has f32[]");
  }
  CHECK_EQ_STR(sn_ctx_message(f.ctx), "");
  fixture_end(&f);
}
