/* Prompts longer than SN_GENERATE_PIECE: fed in several runs, they give what one run gives, draws and all; memory is that of
 * a piece; a piece that fails can be tried again. And what a generator passes on to its session. */
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <string.h>

enum { LONG = 2 * SN_GENERATE_PIECE + 76, ROOM = LONG + 8, DRAWS = 4 };

static const double NEAR = 5e-5;

static void fill(int32_t ids[LONG]) {
  for (int i = 0; i < LONG; i++)
    ids[i] = (7 * i + i * i / 3) % TINY_VOCAB;
}

static sn_generator *generator(const tiny_model *t, const sn_generate_options *o) {
  sn_generator *g;
  if (sn_generator_create(t->model, t->store, o, &g) != SN_OK)
    FAIL("%s", sn_ctx_message(t->ctx));
  return g;
}

static int32_t next(const tiny_model *t, sn_generator *g, const int32_t *ids, size_t n) {
  int32_t id = -1;
  if (g && sn_generator_next(g, ids, n, &id) != SN_OK)
    FAIL("%s", sn_ctx_message(t->ctx));
  return id;
}

static bool logits_near(sn_generator *a, sn_generator *b, double tolerance) {
  float x[TINY_VOCAB], y[TINY_VOCAB];
  bool near = a && b && CHECK(sn_generator_logits(a, x, TINY_VOCAB) == SN_OK) &&
              CHECK(sn_generator_logits(b, y, TINY_VOCAB) == SN_OK);
  for (int v = 0; v < TINY_VOCAB && near; v++)
    near = CHECK_NEAR(x[v], y[v], tolerance);
  return near;
}

/* n ids at once, then draws, with a cache and without. */
static void check_length(const tiny_model *t, size_t n) {
  static int32_t ids[LONG];
  sn_generate_options cached = {
      .temperature = 1.5, .top_k = 9, .seed = 4, .repetition_penalty = 1.3, .capacity = ROOM};
  sn_generate_options whole = cached;
  whole.recompute = true;
  sn_generator *a = generator(t, &cached), *b = generator(t, &whole);
  fill(ids);
  for (int i = 0; i < DRAWS && a && b; i++) {
    CHECK_EQ_INT(next(t, a, ids, i ? 0 : n), next(t, b, ids, i ? 0 : n));
    CHECK(logits_near(a, b, NEAR));
  }
  sn_generator_destroy(a);
  sn_generator_destroy(b);
}

TEST_WALK(as_in_one_run) {
  static const char *const names[] = {"gpt2", "llama", "mistral", "gemma3"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    tiny_model t;
    sn_model_config c = tiny_config(names[k]);
    c.max_length = ROOM;
    if (!test_begin("%s", names[k]))
      continue;
    if (tiny_start(&t, &c)) {
      check_length(&t, SN_GENERATE_PIECE);
      check_length(&t, SN_GENERATE_PIECE + 1);
      check_length(&t, LONG);
      tiny_end(&t);
    }
    test_end();
  }
}

/* --- memory --- */

/* What a generator with room for so many takes. */
static size_t bytes_for(int64_t capacity, const fault_heap *heap, const sn_model *model,
                        sn_store *store) {
  sn_generate_options o = {.capacity = capacity};
  sn_generator *g;
  size_t before = heap->bytes, taken = 0;
  if (CHECK_EQ_INT(sn_generator_create(model, store, &o, &g), SN_OK))
    taken = heap->bytes - before;
  sn_generator_destroy(g);
  return taken;
}

/* Room for more costs the rows of the cache and the ids, and no more than some scratch for what a run computes: less than
 * another copy of what one layer caches. */
TEST(memory_is_that_of_a_piece) {
  enum { FEW = 1024, MANY = 131072, SCRATCH = 13 << 19 };
  fault_heap heap = {0};
  sn_model_config c = tiny_config("llama");
  c.max_length = MANY;
  sn_model *model = NULL;
  sn_store *store = NULL;
  sn_ctx *ctx = fault_ctx(&heap);
  REQUIRE(ctx != NULL);
  if (CHECK_EQ_INT(sn_model_create(ctx, &c, &model), SN_OK) &&
      CHECK_EQ_INT(sn_store_create(ctx, &store), SN_OK) &&
      CHECK_EQ_INT(sn_model_init(model, store, 5), SN_OK)) {
    const sn_model_config *full = sn_model_get_config(model);
    size_t row = (size_t)(full->layers * 2 * full->kv_heads * full->head_size) * sizeof(float);
    size_t few = bytes_for(FEW, &heap, model, store), many = bytes_for(MANY, &heap, model, store);
    CHECK(many > few);
    CHECK(SCRATCH < row / (size_t)full->layers * (MANY - FEW));
    CHECK(many - few <= (row + 2 * sizeof(int32_t)) * (MANY - FEW) + SCRATCH);
  }
  sn_store_destroy(store);
  sn_model_destroy(model);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
}

/* --- a piece that fails --- */

typedef struct patience {
  int64_t calls, most; /* 0: endless */
} patience;

static bool go_on(void *user, int64_t done, int64_t total, const char *what) {
  patience *p = user;
  (void)done, (void)total, (void)what;
  return ++p->calls != p->most;
}

/* Cancelled at that call of the progress, in whichever piece: the same call again gives what it would have given. */
static void check_cancelled(const tiny_model *t, int64_t at, int64_t *out_calls) {
  static int32_t ids[LONG];
  patience p = {0, at};
  sn_session_options session = {.progress = {go_on, &p}};
  sn_generate_options o = {.temperature = 1.5, .seed = 8, .capacity = ROOM};
  sn_generator *plain = generator(t, &o);
  o.session = &session;
  sn_generator *g = generator(t, &o);
  int32_t id;
  fill(ids);
  if (at) {
    CHECK_EQ_INT(sn_generator_next(g, ids, LONG, &id), SN_ERR_CANCELLED);
    CHECK_EQ_INT(id, -1);
  }
  for (int i = 0; i < DRAWS && plain && g; i++) {
    CHECK_EQ_INT(next(t, g, ids, i ? 0 : LONG), next(t, plain, ids, i ? 0 : LONG));
    CHECK(logits_near(g, plain, 0));
    *out_calls = i == 0 ? p.calls : *out_calls;
  }
  sn_generator_destroy(plain);
  sn_generator_destroy(g);
}

TEST(tried_again) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  int64_t calls = 0, unused;
  c.max_length = ROOM;
  if (!tiny_start(&t, &c))
    return;
  check_cancelled(&t, 0, &calls);
  CHECK(calls > 6);
  check_cancelled(&t, 1, &unused);
  check_cancelled(&t, calls / 2, &unused); /* in the second piece of three */
  check_cancelled(&t, calls - 1, &unused);
  tiny_end(&t);
}

/* --- options of its session --- */

TEST(session_options) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  if (!tiny_start(&t, &c))
    return;
  const char *folder = files_new_folder("plans");
  sn_session_options bad[] = {{.threads = -1}, {.local = t.store}, {.plan_cache = "/no/such"}};
  static const sn_status status[] = {SN_ERR_INVALID, SN_ERR_INVALID, SN_ERR_NOT_FOUND};
  static const char *const parts[] = {"threads", "local", "/no/such"};
  sn_generator *g;
  for (int i = 0; i < 3; i++) {
    sn_generate_options o = {.session = &bad[i]};
    CHECK_EQ_INT(sn_generator_create(t.model, t.store, &o, &g), status[i]);
    CHECK(g == NULL);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), parts[i]);
  }
  sn_session_options kept = {.device = "abacus", .plan_cache = folder};
  sn_generate_options o = {.session = &kept};
  CHECK_EQ_INT(sn_generator_create(t.model, t.store, &o, &g), SN_ERR_NOT_FOUND);
  o.device = "auto"; /* goes before the other */
  g = generator(&t, &o);
  CHECK_EQ_INT(files_count(folder), 1);
  sn_generator_destroy(g);
  files_remove_folder(folder);
  tiny_end(&t);
}
