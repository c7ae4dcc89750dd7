/* All of the library in a thread whose stack is as small as docs/c-api.md says it may be: graphs, the compiler, runs on the CPU and
 * the reference, training, checkpoints, JSON as deep as it may be, generation. */
#include "support/fixture.h"
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_UNDEFINED__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SANITIZED 1
#endif
#endif

enum { STACK_KIB = 128 };

/* Convolutions with gradients, attention, sorting, gathers and reshapes: what the compiler thinks longest about. */
static sn_value build(sn_graph *g, sn_param *params) {
  sn_dim n = sn_symbol(g, "n", 8);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n, 4, 16, 16));
  params[0].state = sn_state(g, "conv", SN_F32, SN_SHAPE(8, 4, 3, 3), SN_INIT_NORMAL, 0.1);
  params[1].state = sn_state(g, "mix", SN_F32, SN_SHAPE(32, 32), SN_INIT_NORMAL, 0.1);
  sn_value y = sn_conv(g, x, params[0].state, SN_NONE, SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1),
                       SN_INTS(1, 1), 1);
  y = sn_pool(g, sn_relu(g, y), SN_POOL_MAX, SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(0, 0),
              SN_INTS(0, 0), SN_INTS(1, 1), false, false);
  y = sn_reshape(g, y, SN_SHAPE(n, 16, 32));
  sn_value q =
      sn_reshape(g, sn_matmul(g, y, params[1].state, false, false), SN_SHAPE(n, 16, 2, 16));
  sn_value a = sn_attention(g, q, q, q, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.25, 0, SN_CAUSAL_END,
                            0, SN_LAYOUT_BSHD);
  sn_value z = sn_pad(g, sn_sort(g, sn_transpose(g, a, SN_INTS(0, 2, 1, 3)), -1, true),
                      SN_INTS(0, 0, 1, 2), SN_INTS(0, 0, 1, 0), SN_PAD_REFLECT, 0);
  z = sn_cumsum(g, sn_softmax(g, z, -1), 2, false, false);
  return sn_mean(g, sn_sqr(g, z), SN_ALL_AXES, false);
}

static bool train(sn_ctx *ctx, const char *device, int threads) {
  static float x[8 * 4 * 16 * 16];
  const char *path = test_scratch("stack.safetensors");
  sn_graph *g = NULL;
  sn_store *store = NULL;
  sn_trainer *t = NULL;
  sn_param params[2] = {{.state = SN_NONE}};
  const sn_session_options how = {.device = device, .threads = threads};
  const sn_trainer_options o = {
      .optimizer = {.kind = SN_ADAMW}, .schedule = {.rate = 0.01}, .session = &how, .clip_norm = 1};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = (float)(i % 23) / 23;
  float loss;
  bool good =
      CHECK(sn_graph_create(ctx, &g) == SN_OK) && CHECK(sn_store_create(ctx, &store) == SN_OK);
  sn_value value = build(g, params);
  good = good && sn_trainer_create(g, value, params, 2, store, &o, &t) == SN_OK;
  good = good && sn_session_bind(sn_trainer_session(t), "n", 8) == SN_OK &&
         sn_session_write(sn_trainer_session(t), "x", x, sizeof x) == SN_OK &&
         sn_trainer_step(t, &loss) == SN_OK && sn_trainer_step(t, &loss) == SN_OK &&
         sn_trainer_save(t, path, NULL, 0) == SN_OK && sn_trainer_load(t, path) == SN_OK;
  if (!good)
    FAIL("%s", sn_ctx_message(ctx));
  sn_trainer_destroy(t);
  sn_store_destroy(store);
  sn_graph_destroy(g);
  return good;
}

static bool texts(sn_ctx *ctx) {
  char deep[2 * SN_JSON_MAX_DEPTH + 1] = {0};
  sn_json_doc *doc = NULL;
  sn_graph *g = NULL, *again = NULL;
  sn_param params[2];
  char *text = NULL;
  memset(deep, '[', SN_JSON_MAX_DEPTH);
  memset(deep + SN_JSON_MAX_DEPTH, ']', SN_JSON_MAX_DEPTH);
  bool good = CHECK(sn_json_parse(ctx, deep, strlen(deep), &doc) == SN_OK);
  sn_json_destroy(doc);
  good = good && CHECK(sn_graph_create(ctx, &g) == SN_OK);
  (void)build(g, params);
  good = good && CHECK(sn_graph_print(g, &text) == SN_OK);
  good = good && CHECK(sn_graph_parse(ctx, text, &again) == SN_OK);
  sn_text_free(ctx, text);
  sn_graph_destroy(again);
  sn_graph_destroy(g);
  return good;
}

static bool generate(sn_ctx *ctx) {
  static const sn_model_config tiny = {
      .vocab = 50, .hidden = 32, .layers = 2, .heads = 4, .kv_heads = 2, .max_length = 32};
  const sn_session_options how = {.device = "cpu", .threads = 2};
  const sn_generate_options o = {.temperature = 0.8, .top_k = 5, .session = &how};
  const int32_t prompt[] = {1, 2, 3};
  int32_t id;
  sn_model *m = NULL;
  sn_store *store = NULL;
  sn_generator *gen = NULL;
  bool good = sn_model_create(ctx, &tiny, &m) == SN_OK && sn_store_create(ctx, &store) == SN_OK &&
              sn_model_init(m, store, 1) == SN_OK &&
              sn_generator_create(m, store, &o, &gen) == SN_OK &&
              sn_generator_next(gen, prompt, 3, &id) == SN_OK &&
              sn_generator_next(gen, NULL, 0, &id) == SN_OK;
  if (!good)
    FAIL("%s", sn_ctx_message(ctx));
  sn_generator_destroy(gen);
  sn_store_destroy(store);
  sn_model_destroy(m);
  return good;
}

static void *work(void *user) {
  bool *good = user;
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return NULL;
  *good = texts(ctx) && train(ctx, "cpu", 2) && train(ctx, "ref", 1) && generate(ctx);
  sn_ctx_destroy(ctx);
  return NULL;
}

TEST(everything_in_a_thread_with_a_small_stack) {
#ifdef SANITIZED
  enum { FACTOR = 16 };
#else
  enum { FACTOR = 1 };
#endif
  const char *wanted = getenv("SINEW_TEST_STACK_KIB");
  size_t kib = wanted ? (size_t)atoi(wanted) : (size_t)STACK_KIB;
  pthread_attr_t attributes;
  pthread_t thread;
  bool good = false;
  CHECK_EQ_INT(pthread_attr_init(&attributes), 0);
  CHECK_EQ_INT(pthread_attr_setstacksize(&attributes, FACTOR * kib * 1024), 0);
  REQUIRE(pthread_create(&thread, &attributes, work, &good) == 0);
  CHECK_EQ_INT(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
  CHECK(good);
}
