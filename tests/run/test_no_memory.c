/* Allocation failures: in each phase of a training program every allocation fails once, in turn. The phase
 * says so, changes nothing, leaks nothing, and works when tried again. */
#include "ir/graph.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <unistd.h>

typedef struct program {
  fault_heap *heap;
  fixture f;
  sn_store *copy; /* the same entries, to load into */
  float y[8];
} program;

/* A step of training: two layers, dropout, a symbol, gradients with a mark, momentum. */
static sn_value parameter(sn_graph *g, const char *name, sn_shape shape) {
  return sn_state(g, name, SN_F32, shape, SN_INIT_NORMAL, 0.5);
}

static sn_status build(program *p) {
  SN_TRY(sn_graph_create(p->f.ctx, &p->f.g));
  sn_graph *g = p->f.g;
  sn_value key = sn_random_key(g, "key");
  sn_scope_push(g, "net");
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 4), 3));
  sn_value w[2] = {parameter(g, "w0", SN_SHAPE(3, 4)), parameter(g, "w1", SN_SHAPE(4, 2))};
  sn_value h = sn_recompute(g, sn_tanh(g, sn_matmul(g, x, w[0], false, false)));
  h = sn_label(g, sn_dropout(g, h, key, 0.25, SN_AUTO), "dropped");
  sn_value y = sn_matmul(g, h, w[1], false, false);
  y = sn_gated_rms_norm(g, y, y, sn_constant_bytes(g, SN_F32, SN_SHAPE(2), (float[]){1, 2}), 1e-3);
  sn_scope_pop(g);
  sn_value loss = sn_sum(g, sn_sqr(g, y), SN_ALL_AXES, false);
  sn_output(g, "y", y);
  sn_output(g, "loss", loss);
  return sn_graph_status(g);
}

static sn_status differentiate(program *p) {
  sn_graph *g = p->f.g;
  sn_value w[8], grads[2], loss = g->outputs[1].value;
  static const char *const moments[2] = {"m0", "m1"};
  int n = sn_graph_states(g, w, 8); /* key, w0, w1 */
  CHECK_EQ_INT(n, 3);
  SN_TRY(sn_grad(g, loss, w + 1, 2, grads));
  for (int i = 0; i < 2; i++) {
    sn_value m =
        sn_state(g, moments[i], SN_F32, sn_value_type(g, w[i + 1]).shape, SN_INIT_ZEROS, 0);
    sn_value next = sn_add(g, sn_affine(g, m, 0.9, 0), grads[i]);
    sn_assign(g, m, next);
    sn_assign(g, w[i + 1], sn_sub(g, w[i + 1], sn_affine(g, next, 0.1, 0)));
  }
  return sn_graph_status(g);
}

static sn_status init(program *p) {
  if (!p->f.store)
    SN_TRY(sn_store_create(p->f.ctx, &p->f.store));
  return sn_store_init(p->f.store, p->f.g, 3);
}

static sn_status create(program *p) {
  sn_session_options o = {.device = fixture_device, .threads = 1};
  SN_TRY(sn_session_create(p->f.g, p->f.store, &o, &p->f.session));
  return sn_session_bind(p->f.session, "n", 4);
}

static sn_status write_input(program *p) {
  static const float x[12] = {1, 2, 3, -1, 0.5f, 0.25f, -3, -2, 1, 1, 0, 1};
  return sn_session_write(p->f.session, "x", x, sizeof x);
}

static sn_status run(program *p) { return sn_session_run(p->f.session); }

static const char *path(void) { return test_scratch("step.safetensors"); }

static sn_status save(program *p) { return sn_store_save(p->f.store, path(), NULL, 0); }

static sn_status make_copy(program *p) {
  if (!p->copy)
    SN_TRY(sn_store_create(p->f.ctx, &p->copy));
  return sn_store_add(p->copy, "w0", (sn_type){SN_F32, SN_SHAPE(3, 4)}, NULL);
}

/* Into a store that has some of the entries, so that others are added. */
static sn_status load(program *p) {
  snapshot before = snapshot_take(p->copy, true);
  sn_status status = sn_store_load(p->copy, path());
  if (status == SN_OK)
    snapshot_free(&before);
  else
    CHECK(snapshot_unchanged(&before, p->copy));
  return status;
}

static sn_status load_weights(program *p) {
  static const char *const names[] = {"w0", "w1", "m1"};
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open(p->f.ctx, path(), &file));
  snapshot before = snapshot_take(p->copy, true);
  sn_status status = sn_store_load_weights(p->copy, names, 3, file);
  if (status == SN_OK)
    snapshot_free(&before);
  else
    CHECK(snapshot_unchanged(&before, p->copy));
  sn_safetensors_close(file);
  return status;
}

/* In order; each needs those before it. */
static const struct {
  const char *name;
  sn_status (*run)(program *p);
  bool builds; /* a graph that failed is done with: the program starts again */
} phases[] = {
    {"build", build, true},
    {"grad", differentiate, true},
    {"init", init, false},
    {"create", create, false},
    {"write", write_input, false},
    {"run", run, false},
    {"run again", run, false},
    {"save", save, false},
    {"add", make_copy, false},
    {"load", load, false},
    {"load weights", load_weights, false},
};

static void end(program *p) {
  sn_store_destroy(p->copy);
  fixture_end(&p->f);
}

/* Phases [0, n); false after a failed check. The file is the same every time, so one is enough. */
static bool prepare(program *p, fault_heap *heap, size_t n) {
  *heap = (fault_heap){0};
  *p = (program){.heap = heap, .f = {.ctx = fault_ctx(heap)}};
  for (size_t i = 0; i < n; i++) {
    bool there = phases[i].run == save && access(path(), F_OK) == 0;
    if (!there && phases[i].run(p) != SN_OK)
      return FAIL("%s: %s", phases[i].name, sn_ctx_message(p->f.ctx));
  }
  return true;
}

/* What the stores hold once a phase is done and nothing has failed. */
static snapshot outcome(program *p) {
  sn_store *store = p->copy ? p->copy : p->f.store;
  return store ? snapshot_take(store, false) : (snapshot){0};
}

static snapshot clean_outcome(size_t phase) {
  fault_heap heap;
  program p;
  snapshot s = {0};
  if (prepare(&p, &heap, phase + 1))
    s = outcome(&p);
  end(&p);
  return s;
}

static sn_status try_failing(program *p, size_t phase, int64_t at, bool persistent) {
  fault_heap *h = p->heap;
  h->count = h->failed = 0;
  h->fail_at = at;
  h->persistent = persistent;
  sn_status status = phases[phase].run(p);
  h->fail_at = 0;
  return status;
}

/* Tries again: from the start where a graph broke. */
static void check_recovers(program *p, size_t phase, const snapshot *clean) {
  if (phases[phase].builds && (!p->f.g || sn_graph_status(p->f.g) != SN_OK)) {
    CHECK(!p->f.g || sn_graph_status(p->f.g) == SN_ERR_NO_MEMORY);
    sn_graph_destroy(p->f.g);
    p->f.g = NULL;
    for (size_t i = 0; i < phase; i++)
      CHECK_EQ_INT(phases[i].run(p), SN_OK);
  }
  CHECK_EQ_INT(phases[phase].run(p), SN_OK);
  snapshot got = outcome(p);
  CHECK(snapshot_equal(&got, clean));
  snapshot_free(&got);
}

/* False when nothing was left to fail. */
static bool check_failure(size_t phase, int64_t at, bool persistent, const snapshot *clean) {
  fault_heap heap;
  program p;
  bool ready = prepare(&p, &heap, phase);
  snapshot before = {0};
  if (ready && p.f.store)
    before = snapshot_take(p.f.store, true);
  sn_status status = ready ? try_failing(&p, phase, at, persistent) : SN_OK;
  bool failed = heap.failed > 0;
  if (!failed)
    CHECK_EQ_INT(status, SN_OK);
  else if (status != SN_OK) {
    CHECK_EQ_INT(status, SN_ERR_NO_MEMORY);
    CHECK_STR_HAS(sn_ctx_message(p.f.ctx), "memory");
  } else {
    /* Tables of graphs that stay small are only slower; compiling builds graphs too. */
    CHECK(phases[phase].builds || phases[phase].run == create);
  }
  if (failed && status != SN_OK && before.bytes) {
    snapshot now = snapshot_take(p.f.store, true);
    CHECK(snapshot_equal(&before, &now));
    snapshot_free(&now);
  }
  if (failed && status != SN_OK)
    check_recovers(&p, phase, clean);
  snapshot_free(&before);
  end(&p);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
  if (test_failed())
    FAIL("with allocation %lld failing%s", (long long)at, persistent ? " and all after it" : "");
  return failed && !test_failed();
}

static bool runs_on_device(size_t phase) {
  return phases[phase].run == create || phases[phase].run == run;
}

static void sweep(int device) {
  fixture_device = sn_device_name(device);
  for (size_t i = 0; i < COUNT_OF(phases); i++)
    for (int persistent = 0; persistent < 2; persistent++) {
      if (device > 0 && !runs_on_device(i)) /* the others are the same everywhere */
        continue;
      if (!test_begin("%s: %s%s", fixture_device, phases[i].name, persistent ? " for good" : ""))
        continue;
      int64_t at = 1;
      snapshot clean = clean_outcome(i);
      while (check_failure(i, at, persistent, &clean))
        at++;
      CHECK(at > 1);
      snapshot_free(&clean);
      test_end();
    }
  fixture_device = NULL;
  unlink(path());
}

TEST_WALK(every_allocation_fails_once) {
  for (int i = 0; sn_device_name(i); i++)
    if (strncmp(sn_device_name(i), "vulkan", 6) != 0) /* tests/device/vulkan/test_device.c does */
      sweep(i);
}
