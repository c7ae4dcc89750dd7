/* See model_faults.h. */
#include "support/model_faults.h"

#include "support/fault.h"
#include "support/files.h"
#include "support/model_folder.h"
#include "support/snapshot.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the stage: a folder with a model and a checkpoint --- */

typedef struct stage {
  const char *folder, *checkpoint;
} stage;

static sn_model_config small(void) {
  sn_model_config c = tiny_config("llama");
  c.layers = 1;
  c.dropout = 0.1;
  return c;
}

static stage stage_start(const char *name) {
  stage s = {.folder = files_new_folder(name)};
  sn_model_config c = small();
  tiny_model t;
  char *path = calloc(1, 1024);
  strcpy(path, files_in(s.folder, "run.safetensors"));
  s.checkpoint = path;
  if (tiny_start(&t, &c)) {
    config_key changes[] = {{"num_hidden_layers", "1"}, {NULL, NULL}};
    config_write(s.folder, config_llama, changes);
    weights_write(s.folder, t.store, sn_model_weight_names(t.model),
                  sn_model_weight_count(t.model));
    tiny_end(&t);
  }
  return s;
}

static void stage_end(stage *s) {
  files_remove_folder(s->folder);
  free((void *)(uintptr_t)s->checkpoint);
}

/* --- allocations --- */

typedef sn_status (*act)(sn_ctx *ctx, const stage *s);

/* The error must be the one planted, and say something. What is tried without memory may also come out well: tables of
 * graphs that stay small are only slower. */
static bool fits(const sn_ctx *ctx, sn_status status, bool failed, sn_status planted) {
  if (failed && status == planted && ctx && sn_ctx_message(ctx)[0])
    return true;
  return (status == SN_OK && (!failed || planted == SN_ERR_NO_MEMORY)) ||
         FAIL("%s: %s", sn_status_name(status), ctx ? sn_ctx_message(ctx) : "no context");
}

/* persistent: from that allocation on all fail, also those of the second attempts and of messages. */
static void sweep_heap(act body, const char *name, int64_t stride, bool persistent) {
  stage s = stage_start(name);
  fault_heap heap = {.persistent = persistent};
  bool more;
  do {
    heap.fail_at += stride - 1;
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_status status = ctx ? body(ctx, &s) : SN_ERR_NO_MEMORY;
    bool fine = !ctx || fits(ctx, status, heap.failed > 0, SN_ERR_NO_MEMORY);
    sn_ctx_destroy(ctx);
    more = fault_heap_end(&heap);
    if (!fine)
      FAIL("with allocation %lld failing", (long long)heap.fail_at);
  } while (more && !test_failed());
  CHECK(heap.fail_at > 2 * stride);
  stage_end(&s);
}

static void sweep(act body, const char *name, int64_t stride) {
  sweep_heap(body, name, stride, false);
  sweep_heap(body, name, 2 * stride, true);
}

static sn_status load(sn_ctx *ctx, const stage *s) {
  sn_model *model = NULL;
  sn_store *store = NULL;
  sn_status status = sn_model_open(ctx, s->folder, &model);
  if (status == SN_OK)
    status = sn_store_create(ctx, &store);
  if (status == SN_OK)
    status = sn_model_load(model, store, s->folder);
  sn_store_destroy(store);
  sn_model_destroy(model);
  return status;
}

void faults_while_loading(int64_t stride) { sweep(load, "load", stride); }

/* Model, store with fresh weights, trainer, as far as memory allows. */
typedef struct run {
  sn_model *model;
  sn_store *store;
  tiny_lesson lesson;
} run;

static sn_status run_start(run *r, sn_ctx *ctx) {
  sn_model_config c = small();
  sn_trainer_options o = {.optimizer = {.kind = SN_ADAMW},
                          .schedule = {.rate = 0.01},
                          .clip_norm = 1,
                          .accumulate = 2,
                          .loss_scale = 256};
  *r = (run){0};
  sn_status status = sn_model_create(ctx, &c, &r->model);
  if (status == SN_OK)
    status = sn_store_create(ctx, &r->store);
  if (status == SN_OK)
    status = sn_model_init(r->model, r->store, 5);
  return status == SN_OK ? tiny_lesson_start(&r->lesson, r->model, r->store, &o) : status;
}

static void run_end(run *r) {
  tiny_lesson_end(&r->lesson);
  sn_store_destroy(r->store);
  sn_model_destroy(r->model);
}

enum { STEPS = 2 }; /* one update */

/* A step that failed is made again; the store ends as one that never failed. */
static sn_status train(sn_ctx *ctx, const stage *s) {
  static snapshot expected; /* of the first run, in which nothing fails */
  run r;
  float loss;
  (void)s;
  sn_status first = SN_OK, status = run_start(&r, ctx);
  while (status == SN_OK && sn_trainer_steps(r.lesson.trainer) * 2 < STEPS) {
    sn_status step = tiny_lesson_step(&r.lesson, &loss);
    if (step != SN_OK && first != SN_OK)
      status = step; /* one allocation fails, not two */
    first = step != SN_OK ? step : first;
    if (sn_trainer_batches(r.lesson.trainer) >= STEPS)
      break;
  }
  /* The update that failed after the last micro-batch comes with the next one. */
  bool whole = status == SN_OK && sn_trainer_steps(r.lesson.trainer) * 2 == STEPS;
  if (whole) {
    snapshot now = snapshot_take(r.store, false);
    if (!expected.bytes)
      expected = now;
    else if (!CHECK(snapshot_equal(&now, &expected)))
      status = SN_ERR_INTERNAL;
    if (now.bytes != expected.bytes)
      snapshot_free(&now);
  }
  run_end(&r);
  return status == SN_OK ? first : status;
}

void faults_while_training(int64_t stride) {
  sn_ctx *ctx;
  if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
    CHECK(train(ctx, NULL) == SN_OK);
    sn_ctx_destroy(ctx);
  }
  sweep(train, "train", stride);
}

static sn_status save(sn_ctx *ctx, const stage *s) {
  run r = {0};
  sn_store *again = NULL;
  sn_model_config c = small();
  sn_status status = sn_model_create(ctx, &c, &r.model);
  if (status == SN_OK)
    status = sn_store_create(ctx, &r.store);
  if (status == SN_OK)
    status = sn_model_init(r.model, r.store, 5);
  if (status == SN_OK)
    status = sn_store_save(r.store, s->checkpoint, NULL, 0);
  if (status == SN_OK)
    status = sn_store_create(ctx, &again);
  if (status == SN_OK)
    status = sn_store_load(again, s->checkpoint);
  sn_store_destroy(again);
  run_end(&r);
  return status;
}

void faults_while_saving(int64_t stride) { sweep(save, "save", stride); }

enum { TOKENS = 4 };

/* A call that failed is made again; the ids are those of a generator that never failed. */
static sn_status generate_with(sn_generator *g, int32_t *out, bool *whole) {
  static const int32_t prompt[] = {3, 17, 0};
  sn_status first = SN_OK;
  for (int i = 0; i < TOKENS; i++) {
    sn_status status = sn_generator_next(g, prompt, i ? 0 : 3, &out[i]);
    if (status == SN_OK)
      continue;
    if (first != SN_OK)
      return status;
    first = status;
    i--;
  }
  *whole = true;
  return first;
}

static sn_status generate(sn_ctx *ctx, const stage *s) {
  static int32_t expected[TOKENS]; /* of the first run, in which nothing fails */
  static bool known;
  sn_model_config c = small();
  sn_model *model = NULL;
  sn_store *store = NULL;
  sn_generator *g = NULL;
  sn_generate_options o = {.temperature = 1, .seed = 3, .capacity = 8, .repetition_penalty = 1.2};
  int32_t ids[TOKENS];
  (void)s;
  sn_status status = sn_model_create(ctx, &c, &model);
  if (status == SN_OK)
    status = sn_store_create(ctx, &store);
  if (status == SN_OK)
    status = sn_model_init(model, store, 5);
  if (status == SN_OK)
    status = sn_generator_create(model, store, &o, &g);
  if (status == SN_OK) {
    bool whole = false;
    status = generate_with(g, ids, &whole);
    if (!known)
      memcpy(expected, ids, sizeof ids);
    known = true;
    if (whole)
      CHECK_EQ_MEM(ids, expected, sizeof ids);
  }
  sn_generator_destroy(g);
  sn_store_destroy(store);
  sn_model_destroy(model);
  return status;
}

void faults_while_generating(int64_t stride) {
  sn_ctx *ctx;
  if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
    CHECK(generate(ctx, NULL) == SN_OK);
    sn_ctx_destroy(ctx);
  }
  sweep(generate, "generate", stride);
}

/* --- file operations --- */

/* A close that fails after reading loses nothing and may pass; so may whatever a save does to clean up after others. */
static bool may_pass(io_op op, bool saves) {
  return op == IO_CLOSE || (saves && (op == IO_OPEN || op == IO_LOCK || op == IO_UNLINK));
}

static void sweep_io(act body, const char *name, bool saves) {
  stage s = stage_start(name);
  fault_io io = {.only = -1, .error = EIO};
  fault_heap heap = {.fail_at = -1};
  do {
    sn_ctx *ctx;
    heap.fail_at = -1;
    fault_heap_start(&heap); /* fails none, finds leaks */
    io = (fault_io){.only = -1, .at = io.at + 1, .error = EIO};
    ctx = fault_ctx(&heap);
    fault_io_install(ctx, &io);
    sn_status status = body(ctx, &s);
    if (!(io.failed && may_pass(io.last, saves) && status == SN_OK) &&
        !fits(ctx, status, io.failed > 0, SN_ERR_IO))
      FAIL("with file operation %lld failing", (long long)io.at);
    if (status != SN_OK)
      CHECK_STR_HAS(sn_ctx_message(ctx), s.folder);
    sn_ctx_destroy(ctx);
    (void)fault_heap_end(&heap);
  } while (io.failed && !test_failed());
  CHECK(io.at > 5);
  stage_end(&s);
}

void io_faults_while_loading(void) { sweep_io(load, "load_io", false); }
void io_faults_while_saving(void) { sweep_io(save, "save_io", true); }
