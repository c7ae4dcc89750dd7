/* States on a device with memory of its own: one store, used by sessions on the GPU, on the CPU and on the reference, by reads,
 * writes and checkpoints. Whoever comes must find the value that the last one left; and nothing is lost but with the device. */
#include "run/store.h"
#include "support/fixture.h"
#include "support/test.h"
#include "support/vulkan_case.h"

#include <sinew/session.h>
#include <stdlib.h>

/* count += x, big += 1 (all of it); y = count before, times w; fails where x is not finite. */
enum { BIG = 5000 };
static void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SCALAR);
  sn_value count = sn_state(g, "count", SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_value big = sn_state(g, "big", SN_F32, SN_SHAPE(BIG), SN_INIT_ZEROS, 0);
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3), SN_INIT_ONES, 0);
  sn_value next = sn_add(g, count, x);
  sn_output(g, "y", sn_mul(g, w, count));
  sn_output(g, "next", next);
  sn_assign(g, count, next);
  sn_assign(g, big, sn_affine(g, big, 1, 1));
}

typedef struct trio {
  fixture f;
  sn_session *gpu, *cpu, *ref;
} trio;

static bool make(trio *t, const char *name, sn_session **out) {
  sn_session_options o = {.device = name, .finite_output = "next"};
  const float one = 1;
  return (sn_session_create(t->f.g, t->f.store, &o, out) == SN_OK &&
          sn_session_write(*out, "x", &one, sizeof one) == SN_OK) ||
         FAIL("%s: %s", name, sn_ctx_message(t->f.ctx));
}

static bool trio_start(trio *t) {
  *t = (trio){0};
  if (!vulkan_ready() || !fixture_start(&t->f))
    return false;
  build(t->f.g);
  return CHECK(sn_store_init(t->f.store, t->f.g, 0) == SN_OK) && make(t, "vulkan", &t->gpu) &&
         make(t, "cpu", &t->cpu) && make(t, "ref", &t->ref);
}

static void trio_end(trio *t) {
  sn_session_destroy(t->gpu);
  sn_session_destroy(t->cpu);
  sn_session_destroy(t->ref);
  fixture_end(&t->f);
  gpu_fault_plant(NULL, 0, 0);
  vulkan_check();
}

static void run(trio *t, sn_session *s) {
  if (sn_session_run(s) != SN_OK)
    FAIL("%s", sn_ctx_message(t->f.ctx));
}

static float read_count(trio *t) {
  float x = -1;
  CHECK(sn_store_read(t->f.store, "count", &x, sizeof x) == SN_OK);
  return x;
}

static float read_big(trio *t) {
  static float big[BIG];
  CHECK(sn_store_read(t->f.store, "big", big, sizeof big) == SN_OK);
  for (int i = 1; i < BIG; i++)
    CHECK(big[i] == big[0]);
  return big[0];
}

static void write_count(trio *t, float x) {
  CHECK(sn_store_write(t->f.store, "count", &x, sizeof x) == SN_OK);
}

static float read_y(sn_session *s) {
  float y[3] = {-1, -1, -1};
  CHECK(sn_session_read(s, "y", y, sizeof y) == SN_OK);
  CHECK(y[0] == y[1] && y[1] == y[2]);
  return y[0];
}

static const store_entry *entry(trio *t, const char *name) { return store_find(t->f.store, name); }

/* Copies happen only when they must. */
TEST(values_stay_where_they_are) {
  trio t;
  if (!trio_start(&t))
    return;
  const store_entry *big = entry(&t, "big");
  run(&t, t.gpu);
  run(&t, t.gpu);
  CHECK_EQ_UINT(big->version, 3);
  CHECK_EQ_UINT(big->held, 1); /* never brought back */
  CHECK_EQ_UINT(big->mirrors[0].version, 3);
  CHECK(read_big(&t) == 2);
  CHECK_EQ_UINT(big->held, 3);
  const store_entry *w = entry(&t, "w");
  CHECK_EQ_UINT(w->mirrors[0].version, 1);
  run(&t, t.cpu);
  CHECK_EQ_UINT(big->held, 4);
  CHECK_EQ_UINT(big->mirrors[0].version, 3); /* not told yet */
  trio_end(&t);
}

static void everybody(void) {
  trio t;
  if (!trio_start(&t))
    return;
  sn_session *const order[] = {t.gpu, t.cpu, t.gpu, t.ref, t.gpu, t.gpu, t.cpu, t.ref, t.gpu};
  for (int i = 0; i < (int)COUNT_OF(order); i++) {
    run(&t, order[i]);
    CHECK(read_y(order[i]) == (float)i);
    if (i % 3 == 2)
      CHECK(read_count(&t) == (float)(i + 1));
  }
  CHECK(read_big(&t) == (float)COUNT_OF(order));
  write_count(&t, 100);
  run(&t, t.gpu);
  CHECK(read_y(t.gpu) == 100 && read_count(&t) == 101);
  const float w[3] = {2, 2, 2};
  CHECK(sn_store_write(t.f.store, "w", w, sizeof w) == SN_OK);
  run(&t, t.gpu);
  CHECK(read_y(t.gpu) == 202);
  trio_end(&t);
}

TEST(everybody_sees_the_last_value) { everybody(); }

/* As on a GPU whose memory the host does not see. */
TEST(everybody_sees_it_by_staging) {
  if (!vulkan_ready())
    return;
  gpu_close_unused();
  setenv("SINEW_VULKAN_DISCRETE", "1", 1);
  everybody();
  unsetenv("SINEW_VULKAN_DISCRETE");
}

TEST(two_sessions_on_one_gpu) {
  trio t;
  sn_session *other;
  if (!trio_start(&t) || !make(&t, "vulkan", &other))
    return;
  for (int i = 0; i < 3; i++) {
    run(&t, t.gpu);
    run(&t, other);
    CHECK(read_y(other) == (float)(2 * i + 1));
  }
  CHECK_EQ_UINT(entry(&t, "big")->held, 1);
  sn_session_destroy(other);
  run(&t, t.gpu);
  CHECK(read_count(&t) == 7);
  trio_end(&t);
}

TEST(checkpoints_have_them) {
  trio t;
  if (!trio_start(&t))
    return;
  const char *path = test_scratch("mirrors.safetensors");
  run(&t, t.gpu);
  run(&t, t.gpu);
  CHECK(sn_store_save(t.f.store, path, NULL, 0) == SN_OK);
  run(&t, t.gpu);
  CHECK(sn_store_load(t.f.store, path) == SN_OK);
  run(&t, t.gpu);
  CHECK(read_y(t.gpu) == 2 && read_count(&t) == 3 && read_big(&t) == 3);
  trio_end(&t);
}

TEST(a_failed_run_changes_nothing) {
  trio t;
  if (!trio_start(&t))
    return;
  const float bad = 1.0f / 0.0f, one = 1;
  run(&t, t.gpu);
  run(&t, t.gpu);
  CHECK(sn_session_write(t.gpu, "x", &bad, sizeof bad) == SN_OK);
  CHECK_EQ_INT(sn_session_run(t.gpu), SN_ERR_NUMERIC);
  CHECK(read_y(t.gpu) == 1); /* of the last good run */
  CHECK(read_count(&t) == 2 && read_big(&t) == 2);
  CHECK_EQ_UINT(entry(&t, "big")->version, 3);
  CHECK(sn_session_write(t.gpu, "x", &one, sizeof one) == SN_OK);
  run(&t, t.gpu);
  CHECK(read_y(t.gpu) == 2 && read_count(&t) == 3);
  trio_end(&t);
}

/* What only the GPU had is gone until it is written; the rest, and the process, goes on. */
TEST(a_lost_gpu) {
  trio t;
  if (!trio_start(&t))
    return;
  float x, w[3];
  run(&t, t.gpu);
  run(&t, t.gpu);
  CHECK(read_count(&t) == 2);                    /* so that the host has this one */
  gpu_fault_plant("WaitSemaphores", 2, VK_LOST); /* of commit */
  CHECK_EQ_INT(sn_session_run(t.gpu), SN_ERR_STATE);
  gpu_fault_plant(NULL, 0, 0);
  CHECK_EQ_INT(sn_session_run(t.gpu), SN_ERR_STATE);
  CHECK(read_count(&t) == 2);
  CHECK(sn_store_read(t.f.store, "w", w, sizeof w) == SN_OK && w[0] == 1);
  static float big[BIG];
  CHECK_EQ_INT(sn_store_read(t.f.store, "big", big, sizeof big), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(t.f.ctx), "\"big\"");
  CHECK_EQ_INT(sn_session_run(t.cpu), SN_ERR_STATE);
  CHECK_EQ_INT(sn_session_run(t.ref), SN_ERR_STATE);
  CHECK_EQ_INT(sn_store_save(t.f.store, test_scratch("lost.safetensors"), NULL, 0), SN_ERR_STATE);
  CHECK(sn_store_write(t.f.store, "big", big, sizeof big) == SN_OK);
  run(&t, t.cpu);
  CHECK(read_count(&t) == 3);
  sn_session_destroy(t.gpu);
  if (make(&t, "vulkan", &t.gpu)) {
    run(&t, t.gpu);
    CHECK(read_count(&t) == 4 && read_big(&t) == 2);
  }
  CHECK(sn_session_read(t.gpu, "next", &x, sizeof x) == SN_OK && x == 4);
  trio_end(&t);
}

/* A run that was given up may still be under way: its states are not taken from under it when others on the store find that they are lost. */
TEST(a_run_that_was_given_up) {
  enum { SIZE = 512, PRODUCTS = 8 };
  fixture f;
  sn_graph *g;
  sn_session *slow = NULL, *next = NULL;
  float y = 0;
  if (!vulkan_ready() || !fixture_start(&f))
    return;
  sn_value w = sn_state(f.g, "w", SN_F32, SN_SHAPE(SIZE, SIZE), SN_INIT_ONES, 0), x = w;
  for (int i = 0; i < PRODUCTS; i++)
    x = sn_affine(f.g, sn_matmul(f.g, x, w, false, false), 1.0 / SIZE, 0.5);
  sn_assign(f.g, w, x);
  REQUIRE(sn_graph_create(f.ctx, &g) == SN_OK);
  w = sn_state(g, "w", SN_F32, SN_SHAPE(SIZE, SIZE), SN_INIT_ONES, 0);
  sn_output(g, "y", sn_max(g, w, SN_INTS(0, 1), false));
  sn_session_options o = {.device = "vulkan"};
  REQUIRE(sn_store_init(f.store, f.g, 0) == SN_OK &&
          sn_session_create(f.g, f.store, &o, &slow) == SN_OK);
  gpu_fault_plant("WaitSemaphores", 1, VK_TIMEOUT); /* it runs on for most of a second */
  CHECK_EQ_INT(sn_session_run(slow), SN_ERR_STATE);
  gpu_fault_plant(NULL, 0, 0);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "too long");
  CHECK(sn_session_create(g, f.store, &o, &next) == SN_OK && sn_session_run(next) == SN_OK);
  CHECK(sn_session_read(next, "y", &y, sizeof y) == SN_OK && y == 1);
  sn_session_destroy(next);
  sn_session_destroy(slow);
  sn_graph_destroy(g);
  fixture_end(&f);
  vulkan_check();
}
