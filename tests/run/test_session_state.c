/* State in sessions: reads are the values at the start of a run, assigns commit together at its end, and a
 * run that fails commits nothing. Threads are in test_session_threads.c. */
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

static sn_value scalar_state(sn_graph *g, const char *name) {
  return sn_state(g, name, SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
}

static float value_of(sn_store *store, const char *name) {
  float x = NAN;
  CHECK_EQ_INT(sn_store_read(store, name, &x, sizeof x), SN_OK);
  return x;
}

static void set(sn_store *store, const char *name, float x) {
  CHECK_EQ_INT(sn_store_write(store, name, &x, sizeof x), SN_OK);
}

static float output(sn_session *s, const char *name) {
  float x = NAN;
  CHECK_EQ_INT(sn_session_read(s, name, &x, sizeof x), SN_OK);
  return x;
}

static uint64_t version_of(sn_store *store, const char *name) {
  sn_entry e;
  return CHECK(sn_store_find(store, name, &e) == SN_OK) ? e.version : 0;
}

TEST_ON_DEVICES(reads_are_of_the_start_and_assigns_of_the_end) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value n = scalar_state(f.g, "n"), other = scalar_state(f.g, "other");
  sn_value next = sn_affine(f.g, n, 1, 1);
  sn_output(f.g, "before", n);
  sn_assign(f.g, n, next);
  sn_output(f.g, "after", next);
  sn_output(f.g, "read again", sn_affine(f.g, scalar_state(f.g, "n"), 10, 0));
  sn_output(f.g, "other", other);
  REQUIRE(fixture_ready(&f, NULL));
  uint64_t v = version_of(f.store, "n"), w = version_of(f.store, "other");
  for (int i = 0; i < 5; i++) {
    REQUIRE(fixture_run(&f));
    CHECK(output(f.session, "before") == (float)i);
    CHECK(output(f.session, "after") == (float)(i + 1));
    CHECK(output(f.session, "read again") == (float)(10 * i));
    CHECK(value_of(f.store, "n") == (float)(i + 1));
    CHECK_EQ_UINT(version_of(f.store, "n"), v + (uint64_t)i + 1);
  }
  CHECK_EQ_UINT(version_of(f.store, "other"), w);
  fixture_end(&f);
}

TEST_ON_DEVICES(states_can_be_swapped) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value a = scalar_state(f.g, "a"), b = scalar_state(f.g, "b"), c = scalar_state(f.g, "c");
  sn_assign(f.g, a, b);
  sn_assign(f.g, b, a);
  sn_assign(f.g, c, c);
  REQUIRE(fixture_ready(&f, NULL));
  set(f.store, "a", 1);
  set(f.store, "b", 2);
  set(f.store, "c", 3);
  REQUIRE(fixture_run(&f));
  CHECK(value_of(f.store, "a") == 2 && value_of(f.store, "b") == 1 && value_of(f.store, "c") == 3);
  REQUIRE(fixture_run(&f));
  CHECK(value_of(f.store, "a") == 1 && value_of(f.store, "b") == 2);
  fixture_end(&f);
}

TEST(one_assign_a_state) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value a = scalar_state(f.g, "a");
  sn_assign(f.g, a, sn_affine(f.g, a, 1, 1));
  sn_assign(f.g, scalar_state(f.g, "a"), a);
  CHECK_EQ_INT(sn_graph_status(f.g), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_graph_message(f.g), "\"a\" is assigned twice");
  fixture_end(&f);
}

TEST_ON_DEVICES(state_of_every_dtype) {
  fixture f;
  REQUIRE(fixture_start(&f));
  for (int d = 1; d < SN_DTYPE_COUNT; d++) {
    const char *name = sn_dtype_name((sn_dtype)d);
    sn_value s = sn_state(f.g, name, (sn_dtype)d, SN_SHAPE(3), SN_INIT_ZEROS, 0);
    sn_assign(f.g, s, sn_full(f.g, (sn_dtype)d, SN_SHAPE(3), 1));
  }
  sn_value none = sn_state(f.g, "none", SN_F32, SN_SHAPE(0), SN_INIT_ZEROS, 0);
  sn_assign(f.g, none, sn_neg(f.g, none));
  REQUIRE(fixture_ready(&f, NULL));
  REQUIRE(fixture_run(&f));
  const float one[3] = {1, 1, 1};
  const uint16_t half[3] = {0x3c00, 0x3c00, 0x3c00}, bf16[3] = {0x3f80, 0x3f80, 0x3f80};
  const int32_t i32[3] = {1, 1, 1};
  const uint8_t u8[3] = {1, 1, 1};
  const void *want[SN_DTYPE_COUNT] = {NULL, one, half, bf16, i32, u8, u8};
  for (int d = 1; d < SN_DTYPE_COUNT; d++) {
    char got[12];
    size_t size = 3 * sn_dtype_size((sn_dtype)d);
    CHECK_EQ_INT(sn_store_read(f.store, sn_dtype_name((sn_dtype)d), got, size), SN_OK);
    CHECK_EQ_MEM(got, want[d], size);
  }
  CHECK_EQ_UINT(version_of(f.store, "none"), 2);
  fixture_end(&f);
}

/* --- runs that fail --- */

/* Two counters; the second depends on something that fails where the input "x" says so. */
static void build_fallible(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_I32, SN_SCALAR);
  sn_value a = scalar_state(g, "a"), b = scalar_state(g, "b");
  sn_value divided = sn_div(g, sn_scalar(g, SN_I32, 6), x);
  sn_value row = sn_gather(g, sn_full(g, SN_F32, SN_SHAPE(6), 1), divided);
  sn_value loss = sn_log(g, sn_add(g, row, sn_affine(g, sn_cast(g, x, SN_F32), 1, -4)));
  sn_assign(g, a, sn_affine(g, a, 1, 1));
  sn_assign(g, b, sn_add(g, b, row));
  sn_output(g, "loss", loss);
  sn_output(g, "a", a);
}

TEST_ON_DEVICES(failed_runs_commit_nothing) {
  static const struct {
    int32_t x;
    sn_status status;
    const char *message;
  } cases[] = {{0, SN_ERR_NUMERIC, "div"},
               {1, SN_ERR_INVALID, "gather"}, /* row 6 of 6 */
               {-1, SN_ERR_INVALID, "gather"},
               {2, SN_ERR_NUMERIC, "output \"loss\" is "}, /* log(-1) */
               {3, SN_ERR_NUMERIC, "output \"loss\" is -inf"}};
  fixture f;
  sn_session_options o = {.finite_output = "loss"};
  REQUIRE(fixture_start(&f));
  build_fallible(f.g);
  REQUIRE(fixture_ready(&f, &o));
  float good = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t fine = 5;
    CHECK_EQ_INT(sn_session_write(f.session, "x", &fine, sizeof fine), SN_OK);
    REQUIRE(fixture_run(&f));
    good++;
    snapshot before = snapshot_take(f.store, true);
    CHECK_EQ_INT(sn_session_write(f.session, "x", &cases[i].x, sizeof cases[i].x), SN_OK);
    CHECK_EQ_INT(sn_session_run(f.session), cases[i].status);
    CHECK_STR_HAS(sn_ctx_message(f.ctx), cases[i].message);
    CHECK(snapshot_unchanged(&before, f.store));
    CHECK(output(f.session, "a") == good - 1);
    CHECK_NEAR(output(f.session, "loss"), log(2), 1e-6);
    CHECK(value_of(f.store, "a") == good && value_of(f.store, "b") == good);
  }
  fixture_end(&f);
}

TEST_ON_DEVICES(without_the_check_infinities_commit) {
  fixture f;
  REQUIRE(fixture_start(&f));
  build_fallible(f.g);
  REQUIRE(fixture_ready(&f, NULL));
  int32_t x = 3;
  CHECK_EQ_INT(sn_session_write(f.session, "x", &x, sizeof x), SN_OK);
  REQUIRE(fixture_run(&f));
  CHECK(isinf(output(f.session, "loss")) && value_of(f.store, "a") == 1);
  fixture_end(&f);
}

typedef struct cancel {
  int64_t calls, at;
} cancel;

static bool report(void *user, int64_t done, int64_t total, const char *what) {
  cancel *c = user;
  CHECK(done >= 0 && done < total && what && *what);
  return ++c->calls != c->at;
}

TEST_ON_DEVICES(a_cancelled_run_commits_nothing) {
  cancel c = {0, 0};
  sn_session_options o = {.progress = {report, &c}};
  fixture f;
  REQUIRE(fixture_start(&f));
  build_fallible(f.g);
  REQUIRE(fixture_ready(&f, &o));
  int32_t x = 5;
  CHECK_EQ_INT(sn_session_write(f.session, "x", &x, sizeof x), SN_OK);
  REQUIRE(fixture_run(&f));
  int64_t calls = c.calls;
  CHECK(calls >= (strcmp(fixture_device, "ref") == 0 ? 6 : 1));
  for (int64_t at = 1; at <= calls; at++) {
    snapshot before = snapshot_take(f.store, true);
    c = (cancel){0, at};
    CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_CANCELLED);
    CHECK_EQ_INT(c.calls, at);
    CHECK(snapshot_unchanged(&before, f.store));
  }
  c = (cancel){0, 0};
  CHECK(fixture_run(&f));
  CHECK(value_of(f.store, "a") == 2);
  fixture_end(&f);
}

/* --- several sessions --- */

TEST_ON_DEVICES(sessions_see_each_others_commits_and_the_callers_writes) {
  fixture train, eval;
  REQUIRE(fixture_start(&train) && fixture_start(&eval));
  sn_value w = scalar_state(train.g, "w");
  sn_assign(train.g, w, sn_affine(train.g, w, 2, 1));
  REQUIRE(fixture_ready(&train, NULL));
  sn_output(eval.g, "y", sn_affine(eval.g, scalar_state(eval.g, "w"), 10, 0));
  sn_session_options o = {.device = fixture_device};
  REQUIRE(sn_session_create(eval.g, train.store, &o, &eval.session) == SN_OK);
  REQUIRE(fixture_run(&eval));
  CHECK(output(eval.session, "y") == 0);
  REQUIRE(fixture_run(&train) && fixture_run(&eval));
  CHECK(output(eval.session, "y") == 10);
  REQUIRE(fixture_run(&train) && fixture_run(&train) && fixture_run(&eval));
  CHECK(output(eval.session, "y") == 70);
  /* What is written after the sessions were made reaches them. */
  set(train.store, "w", 100);
  REQUIRE(fixture_run(&eval) && fixture_run(&train));
  CHECK(output(eval.session, "y") == 1000);
  CHECK(value_of(train.store, "w") == 201);
  /* So does what a checkpoint brings. */
  const char *path = test_scratch("w.safetensors");
  CHECK_EQ_INT(sn_store_save(train.store, path, NULL, 0), SN_OK);
  REQUIRE(fixture_run(&train));
  CHECK_EQ_INT(sn_store_load(train.store, path), SN_OK);
  REQUIRE(fixture_run(&eval));
  CHECK(output(eval.session, "y") == 2010);
  fixture_end(&eval);
  fixture_end(&train);
}

TEST_ON_DEVICES(a_local_store_comes_first) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value w = scalar_state(f.g, "w"), cache = scalar_state(f.g, "cache");
  sn_value next = sn_add(f.g, cache, w);
  sn_assign(f.g, cache, next);
  sn_output(f.g, "y", next);
  REQUIRE(sn_store_add(f.store, "w", (sn_type){SN_F32, SN_SCALAR}, NULL) == SN_OK);
  set(f.store, "w", 5);
  sn_store *local[2];
  sn_session *s[2];
  for (int i = 0; i < 2; i++) {
    REQUIRE(sn_store_create(f.ctx, &local[i]) == SN_OK);
    REQUIRE(sn_store_add(local[i], "cache", (sn_type){SN_F32, SN_SCALAR}, NULL) == SN_OK);
    set(local[i], "cache", 100 * (float)(i + 1));
    sn_session_options o = {.device = fixture_device, .local = local[i]};
    REQUIRE(sn_session_create(f.g, f.store, &o, &s[i]) == SN_OK);
  }
  for (int i = 0; i < 2; i++)
    CHECK(sn_session_run(s[i]) == SN_OK && sn_session_run(s[i]) == SN_OK);
  CHECK(value_of(local[0], "cache") == 110 && value_of(local[1], "cache") == 210);
  CHECK(!sn_store_has(f.store, "cache"));
  CHECK_EQ_UINT(version_of(f.store, "w"), 2);
  CHECK_EQ_UINT(version_of(local[0], "cache"), 4);
  /* A store that is both is locked once. */
  CHECK_EQ_INT(sn_store_add(f.store, "cache", (sn_type){SN_F32, SN_SCALAR}, NULL), SN_OK);
  sn_session_options both = {.device = fixture_device, .local = f.store};
  CHECK_EQ_INT(sn_session_create(f.g, f.store, &both, &f.session), SN_OK);
  CHECK(fixture_run(&f));
  CHECK(value_of(f.store, "cache") == 5);
  /* A state that the local store has in another type is an error, not a reason to look further. */
  sn_session *bad;
  sn_store *wrong;
  REQUIRE(sn_store_create(f.ctx, &wrong) == SN_OK);
  CHECK_EQ_INT(sn_store_add(wrong, "cache", (sn_type){SN_I32, SN_SCALAR}, NULL), SN_OK);
  both.local = wrong;
  CHECK_EQ_INT(sn_session_create(f.g, f.store, &both, &bad), SN_ERR_INVALID);
  sn_store_destroy(wrong);
  for (int i = 0; i < 2; i++) {
    sn_session_destroy(s[i]);
    sn_store_destroy(local[i]);
  }
  fixture_end(&f);
}
