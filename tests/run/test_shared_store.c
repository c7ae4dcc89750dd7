/* Training and generation on one store, in turns, on compiled plans. What a generating session has made of weights ahead of its
 * runs must follow every step of training: its logits are those, bit for bit, of a session that is made afresh from a
 * checkpoint of that moment. Nothing is compiled or allocated on the way, and `prepare` runs when a weight that it reads
 * has a new version, not more often. Bits may be compared because both sessions run one plan on one device; now and then the
 * reference is asked too. */
#include "support/fault.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <math.h>
#include <string.h>

#define DEVICE "cpu"

enum { CAPACITY = 16, MOST_PROMPT = 6, SPOKEN = 3 };

/* --- a session that generates --- */

typedef struct speaker {
  sn_graph *graph;
  sn_store *local; /* its cache */
  sn_session *session;
} speaker;

static sn_value find_state(sn_graph *g, const char *name) {
  sn_value states[64];
  int n = sn_graph_states(g, states, 64);
  for (int i = 0; i < n && i < 64; i++)
    if (strcmp(sn_value_name(g, states[i]), name) == 0)
      return states[i];
  return SN_NONE;
}

/* Logits of the last row, mixed by a matrix that depends on weights alone, in 16 bits: what a plan prepares. */
static void build(sn_graph *g, const sn_model *model, int64_t capacity) {
  sn_dim tokens = sn_symbol(g, "tokens", capacity);
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, tokens)),
                        .positions = sn_input(g, "positions", SN_I32, SN_SHAPE(tokens)),
                        .batch = 1,
                        .capacity = capacity,
                        .start = sn_input(g, "start", SN_I32, SN_SCALAR),
                        .kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(1))};
  sn_value logits = sn_model_logits(model, g, &in);
  sn_value last = sn_slice(g, logits, 1, sn_dim_sub(g, tokens, 1), tokens, 1);
  sn_value embedding = find_state(g, sn_model_weight_names(model)[0]);
  sn_value mix = sn_cast(g, sn_matmul(g, embedding, embedding, false, true), SN_BF16);
  last = sn_reshape(g, last, SN_SHAPE(1, TINY_VOCAB));
  sn_output(g, "logits", sn_matmul(g, last, sn_cast(g, mix, SN_F32), false, false));
}

static sn_status speaker_start(speaker *s, sn_ctx *ctx, const sn_model *model, sn_store *store,
                               int64_t capacity, const char *device) {
  *s = (speaker){0};
  SN_TRY(sn_graph_create(ctx, &s->graph));
  SN_TRY(sn_store_create(ctx, &s->local));
  build(s->graph, model, capacity);
  SN_TRY(sn_graph_status(s->graph));
  sn_value states[64];
  int n = sn_graph_states(s->graph, states, 64);
  for (int i = 0; i < n; i++)
    if (!sn_store_has(store, sn_value_name(s->graph, states[i])))
      SN_TRY(sn_store_add(s->local, sn_value_name(s->graph, states[i]),
                          sn_value_type(s->graph, states[i]), NULL));
  sn_session_options o = {.device = device, .local = s->local};
  return sn_session_create(s->graph, store, &o, &s->session);
}

static void speaker_end(speaker *s) {
  sn_session_destroy(s->session);
  sn_store_destroy(s->local);
  sn_graph_destroy(s->graph);
}

static sn_status feed(speaker *s, int from, int n, const int32_t *ids, float *logits) {
  int32_t positions[CAPACITY], start = from, length = from + n;
  for (int i = 0; i < n; i++)
    positions[i] = from + i;
  SN_TRY(sn_session_bind(s->session, "tokens", n));
  SN_TRY(sn_session_write(s->session, "ids", ids, (size_t)n * sizeof *ids));
  SN_TRY(sn_session_write(s->session, "positions", positions, (size_t)n * sizeof *ids));
  SN_TRY(sn_session_write(s->session, "start", &start, sizeof start));
  SN_TRY(sn_session_write(s->session, "kv_length", &length, sizeof length));
  SN_TRY(sn_session_run(s->session));
  return sn_session_read(s->session, "logits", logits, TINY_VOCAB * sizeof *logits);
}

static int32_t largest(const float *logits) {
  int32_t best = 0;
  for (int32_t v = 1; v < TINY_VOCAB; v++)
    best = logits[v] > logits[best] ? v : best;
  return best;
}

/* What is said to a prompt of n ids: the logits of each of SPOKEN ids, which follow each other. */
typedef struct speech {
  float logits[SPOKEN][TINY_VOCAB];
} speech;

static sn_status speak(speaker *s, int n, speech *out) {
  int32_t ids[MOST_PROMPT];
  for (int i = 0; i < n; i++)
    ids[i] = (5 * i + i * i) % TINY_VOCAB;
  SN_TRY(feed(s, 0, n, ids, out->logits[0]));
  for (int k = 1; k < SPOKEN; k++) {
    int32_t id = largest(out->logits[k - 1]);
    SN_TRY(feed(s, n + k - 1, 1, &id, out->logits[k]));
  }
  return SN_OK;
}

/* --- alternating --- */

typedef struct school {
  fault_heap heap; /* counts what is allocated */
  sn_ctx *ctx;
  sn_model *model;
  sn_store *store;
  tiny_lesson lesson;
  speaker speaker;
} school;

static sn_status school_start(school *s, const char *family, int64_t capacity) {
  sn_model_config c = tiny_config(family);
  sn_trainer_options o = {.optimizer = {.kind = SN_ADAMW, .weight_decay = 0.1},
                          .schedule = {.rate = 0.02},
                          .clip_norm = 1,
                          .device = DEVICE};
  SN_TRY(sn_model_create(s->ctx, &c, &s->model));
  SN_TRY(sn_store_create(s->ctx, &s->store));
  SN_TRY(sn_model_init(s->model, s->store, 5));
  SN_TRY(sn_store_add(s->store, "unrelated", (sn_type){SN_F32, SN_SCALAR}, NULL));
  SN_TRY(tiny_lesson_start(&s->lesson, s->model, s->store, &o));
  return speaker_start(&s->speaker, s->ctx, s->model, s->store, capacity, DEVICE);
}

static void school_end(school *s) {
  speaker_end(&s->speaker);
  tiny_lesson_end(&s->lesson);
  sn_store_destroy(s->store);
  sn_model_destroy(s->model);
  sn_ctx_destroy(s->ctx);
  CHECK_EQ_INT(s->heap.blocks, 0);
}

static bool went(sn_ctx *ctx, sn_status status) {
  return status == SN_OK || FAIL("%s", sn_ctx_message(ctx));
}

/* By a session that was never there before, on a store that comes from a file. */
static sn_status speak_afresh(sn_ctx *ctx, const school *s, const char *device, int n,
                              speech *out) {
  const char *path = test_scratch("now.safetensors");
  sn_store *store = NULL;
  speaker fresh = {0};
  sn_status status = sn_store_create(ctx, &store);
  if (status == SN_OK)
    status = sn_store_save(s->store, path, NULL, 0);
  if (status == SN_OK)
    status = sn_store_load(store, path);
  if (status == SN_OK)
    status = speaker_start(&fresh, ctx, s->model, store, CAPACITY, device);
  if (status == SN_OK)
    status = speak(&fresh, n, out);
  speaker_end(&fresh);
  sn_store_destroy(store);
  return status;
}

/* The first logits alone: what follows them depends on which is the largest. The matrix in 16 bits may be rounded the
 * other way. */
static void check_near(const speech *said, const speech *want) {
  float worst = 0, size = 0;
  for (int v = 0; v < TINY_VOCAB; v++) {
    worst = fmaxf(worst, fabsf(said->logits[0][v] - want->logits[0][v]));
    size = fmaxf(size, fabsf(want->logits[0][v]));
  }
  CHECK(worst <= 4e-3F * size);
}

static void check_afresh(const school *s, int n, const speech *said, bool on_reference) {
  sn_ctx *ctx;
  speech want;
  memset(&want, 0, sizeof want);
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (went(ctx, speak_afresh(ctx, s, DEVICE, n, &want)))
    CHECK(memcmp(said, &want, sizeof want) == 0);
  if (on_reference && went(ctx, speak_afresh(ctx, s, "ref", n, &want)))
    check_near(said, &want);
  sn_ctx_destroy(ctx);
}

/* Gives a weight the value that it has, which counts as new. */
static sn_status touch_weight(school *s) {
  const char *name = sn_model_weight_names(s->model)[0];
  float data[TINY_VOCAB * 16];
  SN_TRY(sn_store_read(s->store, name, data, sizeof data));
  return sn_store_write(s->store, name, data, sizeof data);
}

/* What happens before round r is spoken, and whether that changes weights. Training, but for every fifth time. */
static sn_status teach(school *s, int r, bool *out_changes) {
  float loss, number = (float)r;
  *out_changes = r % 10 != 4;
  if (r % 5 != 4)
    return tiny_lesson_step(&s->lesson, &loss);
  return *out_changes ? touch_weight(s)
                      : sn_store_write(s->store, "unrelated", &number, sizeof number);
}

enum { ROUNDS = 50 };

static void alternate(school *s) {
  speech said, before;
  int64_t prepares = 0, warm = 0;
  memset(&before, 0, sizeof before);
  for (int r = 0; r < ROUNDS && !test_failed(); r++) {
    int n = 1 + r % MOST_PROMPT;
    int64_t count = s->heap.count;
    bool changes;
    if (!went(s->ctx, teach(s, r, &changes)) || !went(s->ctx, speak(&s->speaker, n, &said)))
      return;
    warm = r < MOST_PROMPT ? 0 : warm + s->heap.count - count;
    prepares += changes || r == 0;
    CHECK_EQ_INT(sn_session_get_stats(s->speaker.session).prepares, prepares);
    check_afresh(s, n, &said, r % 10 == 0);
    CHECK(memcmp(&said, &before, sizeof said) != 0); /* another prompt, or other weights */
    before = said;
  }
  CHECK_EQ_INT(warm, 0);
}

TEST_WALK(training_and_generation_alternate) {
  static const char *const families[] = {"llama", "gemma3", "gpt2"};
  for (int i = 0; i < 3; i++) {
    if (!test_begin("%s", families[i]))
      continue;
    school s = {0};
    s.ctx = fault_ctx(&s.heap);
    if (CHECK(s.ctx != NULL) && went(s.ctx, school_start(&s, families[i], CAPACITY))) {
      sn_session_stats stats = sn_session_get_stats(s.speaker.session);
      CHECK(stats.prepare_steps > 0); /* or all this shows nothing */
      alternate(&s);
      stats = sn_session_get_stats(s.speaker.session);
      CHECK_EQ_INT(stats.compiles, 1);
      CHECK_EQ_INT(stats.runs, ROUNDS * SPOKEN);
      CHECK_EQ_INT(sn_session_get_stats(sn_trainer_session(s.lesson.trainer)).compiles, 1);
    }
    school_end(&s);
    test_end();
  }
}

/* --- generators beside each other --- */

/* A generator allocates once a call, for the positions: compiling again would be thousands. */
TEST(generators_of_two_lengths_compile_once) {
  static const int32_t prompt[] = {3, 17, 0, 28, 5, 5, 11, 9};
  school s = {0};
  sn_generator *g[2] = {NULL, NULL};
  s.ctx = fault_ctx(&s.heap);
  if (CHECK(s.ctx != NULL) && went(s.ctx, school_start(&s, "qwen3", CAPACITY))) {
    for (int k = 0; k < 2; k++) {
      sn_generate_options o = {.capacity = k ? TINY_LENGTH : 24, .device = DEVICE};
      CHECK(went(s.ctx, sn_generator_create(s.model, s.store, &o, &g[k])));
    }
    int32_t id;
    for (int r = 0; r < 8 && g[0] && g[1]; r++)
      for (int k = 0; k < 2; k++) { /* pieces of 8 and 3, then single ids and pairs, in turns */
        int64_t count = s.heap.count;
        size_t n = r == 0 ? (k ? 3 : 8) : (size_t)((r + k) % 2 * 2);
        CHECK(went(s.ctx, sn_generator_next(g[k], prompt, n, &id)));
        CHECK(r < 2 || s.heap.count - count <= 1); /* outputs have two buffers */
      }
  }
  for (int k = 0; k < 2; k++)
    sn_generator_destroy(g[k]);
  school_end(&s);
}

/* One session, whose lengths go up and down, and another of another capacity beside it. */
TEST(lengths_in_turns_compile_nothing) {
  static const int lengths[] = {6, 1, 3, 6, 2, 1, 5, 4};
  school s = {0};
  speaker other = {0};
  speech first[8], again, beside;
  s.ctx = fault_ctx(&s.heap);
  if (CHECK(s.ctx != NULL) && went(s.ctx, school_start(&s, "llama", CAPACITY)) &&
      went(s.ctx, speaker_start(&other, s.ctx, s.model, s.store, MOST_PROMPT + SPOKEN, DEVICE)))
    for (int round = 0; round < 3; round++) {
      int64_t count = s.heap.count;
      for (int i = 0; i < 8; i++) {
        CHECK(went(s.ctx, speak(&s.speaker, lengths[i], round ? &again : &first[i])));
        CHECK(went(s.ctx, speak(&other, lengths[7 - i], &beside)));
        CHECK(round == 0 || memcmp(&again, &first[i], sizeof again) == 0);
      }
      CHECK(round == 0 || s.heap.count == count);
    }
  if (s.speaker.session && other.session) {
    CHECK_EQ_INT(sn_session_get_stats(s.speaker.session).compiles, 1);
    CHECK_EQ_INT(sn_session_get_stats(s.speaker.session).prepares, 1);
    CHECK_EQ_INT(sn_session_get_stats(other.session).prepares, 1);
  }
  speaker_end(&other);
  school_end(&s);
}

/* --- memory of one run --- */

/* A warm run, of training and of generation, under one binding: nothing is allocated. */
TEST_WALK(warm_runs_allocate_nothing) {
  for (const tiny_family *f = tiny_families; f->name; f++) {
    if (!test_begin("%s", f->name))
      continue;
    school s = {0};
    speech said;
    float loss;
    s.ctx = fault_ctx(&s.heap);
    if (CHECK(s.ctx != NULL) && went(s.ctx, school_start(&s, f->name, CAPACITY))) {
      for (int i = 0; i < 2; i++)
        CHECK(went(s.ctx, tiny_lesson_step(&s.lesson, &loss)) &&
              went(s.ctx, speak(&s.speaker, 4, &said)));
      int64_t count = s.heap.count;
      for (int i = 0; i < 3; i++)
        CHECK(went(s.ctx, tiny_lesson_step(&s.lesson, &loss)) &&
              went(s.ctx, speak(&s.speaker, 4, &said)));
      CHECK_EQ_INT(s.heap.count - count, 0);
    }
    school_end(&s);
    test_end();
  }
}
