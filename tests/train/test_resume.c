/* A run that was stopped in the middle of an accumulation and goes on in another process ends with every bit
 * of its state as the unbroken run has it: AdamW, dropout, clipping, warm-up and cosine, shuffled data,
 * accumulation, with and without loss scaling. */
#include "support/command.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATES = 20, ACCUMULATE = 3, STOP = 28 /* micro-batches: in the tenth update */ };

static sn_trainer_options options(bool scaled) {
  return (sn_trainer_options){.optimizer = {.kind = SN_ADAMW, .weight_decay = 0.1},
                              .schedule = {SN_SCHEDULE_COSINE, 2e-2, 1e-3, 4, UPDATES},
                              .clip_norm = 0.5,
                              .accumulate = ACCUMULATE,
                              .loss_scale = scaled ? 0x1p20 : 0};
}

/* Trains from a checkpoint ("-": fresh) until so many micro-batches, and saves. */
static sn_status train(tiny_model *t, tiny_lesson *l, const char *from, int64_t until,
                       const char *to) {
  int32_t key[3] = {77, 3, 0};
  float loss;
  sn_status status = strcmp(from, "-") != 0
                         ? sn_store_load(t->store, from)
                         : sn_store_write(t->store, "train.key", key, sizeof key);
  while (status == SN_OK && sn_trainer_batches(l->trainer) < until)
    status = tiny_lesson_step(l, &loss);
  return status == SN_OK ? sn_store_save(t->store, to, NULL, 0) : status;
}

/* In the other process: SINEW_RUN says "family scaled from until to". */
TEST(child) {
  char family[32], from[512], to[512];
  int scaled;
  long until;
  const char *run = getenv("SINEW_RUN");
  if (!run)
    return;
  REQUIRE(sscanf(run, "%31s %d %511s %ld %511s", family, &scaled, from, &until, to) == 5);
  sn_model_config c = tiny_config(family);
  c.dropout = 0.1;
  sn_trainer_options o = options(scaled);
  tiny_model t;
  tiny_lesson l;
  if (!tiny_start(&t, &c))
    return;
  sn_status status = tiny_lesson_start(&l, t.model, t.store, &o);
  if (status == SN_OK)
    status = train(&t, &l, from, until, to);
  if (status != SN_OK)
    FAIL("%s", sn_ctx_message(t.ctx));
  tiny_lesson_end(&l);
  tiny_end(&t);
}

static bool run_child(const char *family, bool scaled, const char *from, int until,
                      const char *to) {
  char text[1200];
  snprintf(text, sizeof text, "%s %d %s %d %s", family, scaled, from, until, to);
  setenv("SINEW_RUN", text, 1);
  command_result r = command_run(command_test("test_train_resume"), "=child", NULL);
  unsetenv("SINEW_RUN");
  bool fine = r.code == 0 || FAIL("%s: exit %d\n%s%s", text, r.code, r.out, r.err);
  command_free(&r);
  return fine;
}

/* Both files hold the same names, types and bits. Yields how many entries. */
static int compare(sn_ctx *ctx, const char *a, const char *b) {
  sn_store *x = NULL, *y = NULL;
  int n = 0;
  if (CHECK(sn_store_create(ctx, &x) == SN_OK) && CHECK(sn_store_create(ctx, &y) == SN_OK) &&
      CHECK(sn_store_load(x, a) == SN_OK) && CHECK(sn_store_load(y, b) == SN_OK)) {
    n = sn_store_count(x);
    CHECK_EQ_INT(n, sn_store_count(y));
    for (int i = 0; i < n; i++) {
      sn_entry e, f;
      CHECK(sn_store_at(x, i, &e) == SN_OK);
      if (!CHECK(sn_store_find(y, e.name, &f) == SN_OK) || !CHECK_EQ_UINT(e.size, f.size))
        break;
      char *p = malloc(e.size + 1), *q = malloc(e.size + 1);
      CHECK(sn_store_read(x, e.name, p, e.size) == SN_OK);
      CHECK(sn_store_read(y, e.name, q, e.size) == SN_OK);
      if (memcmp(p, q, e.size) != 0)
        FAIL("entry %s differs", e.name);
      free(p);
      free(q);
    }
  }
  sn_store_destroy(x);
  sn_store_destroy(y);
  return n;
}

static int32_t number_in(sn_ctx *ctx, const char *path, const char *name) {
  sn_store *s = NULL;
  int32_t n[3] = {-1, -1, -1};
  sn_entry e;
  if (CHECK(sn_store_create(ctx, &s) == SN_OK) && CHECK(sn_store_load(s, path) == SN_OK) &&
      CHECK(sn_store_find(s, name, &e) == SN_OK))
    CHECK(sn_store_read(s, name, n, e.size) == SN_OK);
  sn_store_destroy(s);
  return n[e.size / sizeof *n - 1];
}

static void check_resume(const char *family, bool scaled) {
  sn_ctx *ctx;
  const char *whole = test_scratch("whole.safetensors"), *half = test_scratch("half.safetensors");
  const char *resumed = test_scratch("resumed.safetensors");
  if (!run_child(family, scaled, "-", UPDATES * ACCUMULATE, whole) ||
      !run_child(family, scaled, "-", STOP, half) ||
      !run_child(family, scaled, half, UPDATES * ACCUMULATE, resumed))
    return;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_INT(number_in(ctx, half, "train.step"), STOP / ACCUMULATE);
  CHECK_EQ_INT(number_in(ctx, half, "train.pending"), STOP % ACCUMULATE);
  CHECK_EQ_INT(number_in(ctx, whole, "train.step"), UPDATES);
  CHECK_EQ_INT(number_in(ctx, whole, "train.key"), UPDATES * ACCUMULATE);
  CHECK(compare(ctx, whole, resumed) > 60);
  sn_ctx_destroy(ctx);
}

TEST(gpt2_resumes_bit_for_bit) { check_resume("gpt2", false); }
TEST(llama_resumes_bit_for_bit) { check_resume("llama", false); }
TEST(scaled_run_resumes_bit_for_bit) { check_resume("mistral", true); }

/* What resuming must not do without: each thing, left out, shows in the weights. So the test above would
 * notice if it were not restored. */
static void spoil(tiny_model *t, const char *what) {
  char zeros[4096] = {0};
  sn_entry e;
  for (int i = 0; i < sn_store_count(t->store); i++)
    if (CHECK(sn_store_at(t->store, i, &e) == SN_OK) && strncmp(e.name, what, strlen(what)) == 0 &&
        CHECK(e.size <= sizeof zeros))
      CHECK(sn_store_write(t->store, e.name, zeros, e.size) == SN_OK);
}

static void weights_after(const char *without, float *out, size_t n) {
  sn_model_config c = tiny_config("gpt2");
  c.dropout = 0.1;
  sn_trainer_options o = options(false);
  tiny_model t;
  tiny_lesson l;
  float loss;
  int32_t key[3] = {77, 3, 0};
  if (!tiny_start(&t, &c))
    return;
  if (CHECK(tiny_lesson_start(&l, t.model, t.store, &o) == SN_OK)) {
    CHECK(sn_store_write(t.store, "train.key", key, sizeof key) == SN_OK);
    for (int i = 0; i < 8; i++)
      CHECK(tiny_lesson_step(&l, &loss) == SN_OK);
    if (without)
      spoil(&t, without);
    for (int i = 0; i < 4; i++)
      CHECK(tiny_lesson_step(&l, &loss) == SN_OK);
    CHECK(sn_store_read(t.store, "transformer.wte.weight", out, n * sizeof *out) == SN_OK);
  }
  tiny_lesson_end(&l);
  tiny_end(&t);
}

TEST(every_part_of_the_state_matters) {
  static const char *const parts[] = {"train.m.",    "train.v.",  "train.g.",     "train.step",
                                      "train.batch", "train.key", "train.pending"};
  static float whole[TINY_VOCAB * 16], without[TINY_VOCAB * 16];
  weights_after(NULL, whole, TINY_VOCAB * 16);
  weights_after(NULL, without, TINY_VOCAB * 16);
  CHECK_EQ_MEM(whole, without, sizeof whole);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    weights_after(parts[i], without, TINY_VOCAB * 16);
    if (memcmp(whole, without, sizeof whole) == 0)
      FAIL("nothing depends on %s", parts[i]);
  }
}

/* Weights alone, from a checkpoint into a store for evaluation. */
TEST(weights_only) {
  sn_model_config c = tiny_config("llama");
  const char *path = test_scratch("checkpoint.safetensors");
  sn_trainer_options o = options(false);
  tiny_model t, e;
  tiny_lesson l;
  float loss;
  if (!tiny_start(&t, &c) || !tiny_start(&e, &c))
    return;
  CHECK(tiny_lesson_start(&l, t.model, t.store, &o) == SN_OK);
  for (int i = 0; i < 4; i++)
    CHECK(tiny_lesson_step(&l, &loss) == SN_OK);
  CHECK(sn_store_save(t.store, path, NULL, 0) == SN_OK);
  sn_safetensors *file;
  size_t n = sn_model_weight_count(e.model);
  const char *const *names = sn_model_weight_names(e.model);
  REQUIRE(sn_safetensors_open(e.ctx, path, &file) == SN_OK);
  CHECK(sn_store_load_weights(e.store, names, n, file) == SN_OK);
  sn_safetensors_close(file);
  CHECK_EQ_INT(sn_store_count(e.store), n);
  for (size_t i = 0; i < n; i++) {
    char a[8192], b[8192];
    sn_entry entry;
    CHECK(sn_store_find(e.store, names[i], &entry) == SN_OK && entry.size <= sizeof a);
    CHECK(sn_store_read(e.store, names[i], a, entry.size) == SN_OK);
    CHECK(sn_store_read(t.store, names[i], b, entry.size) == SN_OK);
    CHECK_EQ_MEM(a, b, entry.size);
  }
  tiny_lesson_end(&l);
  tiny_end(&t);
  tiny_end(&e);
}

/* A checkpoint of another shape is refused and changes nothing. */
TEST(checkpoint_of_another_model) {
  sn_model_config c = tiny_config("llama"), wider = c;
  const char *path = test_scratch("wider.safetensors");
  tiny_model t, w;
  wider.hidden = 24;
  if (!tiny_start(&t, &c) || !tiny_start(&w, &wider))
    return;
  CHECK(sn_store_save(w.store, path, NULL, 0) == SN_OK);
  CHECK_EQ_INT(sn_store_load(t.store, path), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "expected f32[29, 16], the file has F32[29, 24]");
  tiny_end(&t);
  tiny_end(&w);
}
