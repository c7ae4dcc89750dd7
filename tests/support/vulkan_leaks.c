/* See vulkan_leaks.h. The graph: y = x · w, s = s + 1. */
#include "support/vulkan_leaks.h"

#include "support/test.h"
#include "support/vulkan_case.h"

#include <sinew/sinew.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 16, SIDE = 128, SLACK = 3 << 20 /* bytes that an allocator may keep */ };

typedef struct world {
  sn_ctx *ctx;
  sn_graph *g;
  sn_store *store;
  sn_session *session;
  gpu *gpu; /* held, so that it stays open */
} world;

/* Bytes of the process in memory; 0 where that is not told. */
static int64_t resident_bytes(void) {
#ifdef __SANITIZE_ADDRESS__
  return 0; /* it keeps what was freed: the number would say nothing */
#else
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%*d %ld", &pages) != 1)
    pages = 0;
  if (f)
    fclose(f);
  return 4096 * (int64_t)pages;
#endif
}

static bool open_world(world *t) {
  *t = (world){0};
  if (!vulkan_ready() || !CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK) ||
      !CHECK(gpu_get(t->ctx, 0, &t->gpu) == SN_OK) ||
      !CHECK(sn_graph_create(t->ctx, &t->g) == SN_OK) ||
      !CHECK(sn_store_create(t->ctx, &t->store) == SN_OK))
    return false;
  sn_value x = sn_input(t->g, "x", SN_F32, SN_SHAPE(ROWS, SIDE));
  sn_value w = sn_state(t->g, "w", SN_F32, SN_SHAPE(SIDE, SIDE), SN_INIT_ONES, 0);
  sn_value s = sn_state(t->g, "s", SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_output(t->g, "y", sn_matmul(t->g, x, w, false, false));
  sn_assign(t->g, s, sn_affine(t->g, s, 1, 1));
  return CHECK(sn_store_init(t->store, t->g, 0) == SN_OK);
}

static void close_world(world *t) {
  sn_store_destroy(t->store);
  sn_graph_destroy(t->g);
  gpu_put(t->gpu);
  sn_ctx_destroy(t->ctx);
  vulkan_check();
}

static bool open_session(world *t) {
  return sn_session_create(t->g, t->store, &(sn_session_options){.device = "vulkan"},
                           &t->session) == SN_OK ||
         FAIL("%s", sn_ctx_message(t->ctx));
}

static bool run(world *t) {
  static float x[ROWS][SIDE], y[ROWS][SIDE];
  return CHECK(sn_session_write(t->session, "x", x, sizeof x) == SN_OK) &&
         (sn_session_run(t->session) == SN_OK || FAIL("%s", sn_ctx_message(t->ctx))) &&
         CHECK(sn_session_read(t->session, "y", y, sizeof y) == SN_OK);
}

/* What there is when a quarter of the work is done must be there at its end, and no more. */
typedef struct watch {
  int64_t device, process;
  int64_t left; /* of the GPU's memory, as the driver tells; 0 where that is the host's */
} watch;

static watch look(const world *t) {
  bool own = t->gpu->has_budget && !gpu_is_software(t->gpu->info);
  return (watch){atomic_load(&t->gpu->used), resident_bytes(), own ? gpu_available(t->gpu) : 0};
}

static void compare(const world *t, watch before, int n, const char *what) {
  watch now = look(t);
  printf("%d %s: %lld bytes of the GPU more, %lld less there as its driver tells, %lld of the "
         "process\n",
         n, what, (long long)(now.device - before.device), (long long)(before.left - now.left),
         (long long)(now.process - before.process));
  CHECK_EQ_INT(now.device, before.device);
  CHECK(before.left - now.left <= SLACK);
  CHECK(now.process - before.process <= SLACK);
}

void vulkan_leaks_of_sessions(int n) {
  world t;
  watch before = {0};
  if (!open_world(&t))
    return;
  for (int i = 0; i < n && !test_failed(); i++) {
    if (i == n / 4)
      before = look(&t);
    if (open_session(&t))
      run(&t);
    sn_session_destroy(t.session);
  }
  compare(&t, before, n, "sessions");
  close_world(&t);
}

void vulkan_leaks_of_runs(int n) {
  world t;
  watch before = {0};
  float s = 0;
  if (!open_world(&t))
    return;
  if (open_session(&t)) {
    for (int i = 0; i < n && !test_failed(); i++) {
      if (i == n / 4)
        before = look(&t);
      run(&t);
    }
    compare(&t, before, n, "runs");
    CHECK(sn_store_read(t.store, "s", &s, sizeof s) == SN_OK);
    CHECK_EQ_INT(s, n);
  }
  sn_session_destroy(t.session);
  close_world(&t);
}
