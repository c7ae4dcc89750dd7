/* Generation: the cache against recomputation, in pieces of every size; generators beside each other and
 * beside training on one store; refusals and going on after them. */
#include "support/snapshot.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t prompt[] = {3, 17, 0, 28, 5, 5, 11, 9, 20, 2, 14};
enum { PROMPT = sizeof prompt / sizeof *prompt };

/* The two ways sum in other orders. Mostly logits differ by 1e-6; one step of `partial` makes more of what was rounded: 4e-5
 * with the portable kernels (no fma), 2e-5 with avx2, 1e-5 with avx512, and as much lies between these sets on either way. With a row
 * of the cache in the wrong place they differ by 6e-3 and more. */
static const double NEAR = 1e-4;

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

/* --- the cache, through generators --- */

/* Both take the prompt in pieces, each with an id of their own behind it, then go on to the end. */
static void check_pieces(const tiny_model *t, const sn_generate_options *base, size_t piece) {
  sn_generate_options cached = *base, whole = *base;
  whole.recompute = true;
  sn_generator *a = generator(t, &cached), *b = generator(t, &whole);
  size_t used = 0, length = 0;
  while (a && b && length < TINY_LENGTH) {
    size_t n = PROMPT - used < piece ? PROMPT - used : piece;
    if (n > TINY_LENGTH - length)
      n = TINY_LENGTH - length;
    int32_t x = next(t, a, prompt + used, n), y = next(t, b, prompt + used, n);
    if (!CHECK_EQ_INT(x, y) || !logits_near(a, b, NEAR))
      break;
    used += n;
    length += n + 1;
  }
  CHECK(length >= TINY_LENGTH);
  sn_generator_destroy(a);
  sn_generator_destroy(b);
}

TEST_WALK(cache_agrees_with_recomputation) {
  for (const tiny_family *f = tiny_families; f->name; f++) {
    tiny_model t;
    sn_model_config c = tiny_config(f->name);
    if (!test_begin("%s", f->name))
      continue;
    if (tiny_start(&t, &c)) {
      sn_generate_options greedy = {0};
      sn_generate_options drawn = {
          .temperature = 1.5, .top_k = 9, .top_p = 0.95, .seed = 4, .repetition_penalty = 1.3};
      for (size_t piece = 1; piece <= PROMPT; piece++)
        check_pieces(&t, &greedy, piece);
      check_pieces(&t, &drawn, 4);
      tiny_end(&t);
    }
    test_end();
  }
}

/* --- the cache, through the model's own inputs: every row of two sequences, in pieces --- */

enum { ROWS = 2, LENGTH = 9 };

static void fill_ids(int32_t *ids, int from, int n) {
  for (int b = 0; b < ROWS; b++)
    for (int i = 0; i < n; i++)
      ids[b * n + i] = (7 * b + 5 * (from + i) + (from + i) * (from + i)) % TINY_VOCAB;
}

static sn_session *session_of(const tiny_model *t, sn_graph *g, bool cache, sn_store *local) {
  sn_dim n = sn_symbol(g, "n", LENGTH);
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(ROWS, n)),
                        .positions = sn_input(g, "positions", SN_I32, SN_SHAPE(n))};
  if (cache) {
    in.batch = ROWS;
    in.capacity = LENGTH + 2;
    in.start = sn_input(g, "start", SN_I32, SN_SCALAR);
    in.kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(ROWS));
  }
  sn_output(g, "logits", sn_model_logits(t->model, g, &in));
  sn_session *s = NULL;
  sn_value states[256];
  int n_states = sn_graph_states(g, states, 256);
  for (int i = 0; i < n_states; i++)
    if (!sn_store_has(t->store, sn_value_name(g, states[i])))
      CHECK(sn_store_add(local, sn_value_name(g, states[i]), sn_value_type(g, states[i]), NULL) ==
            SN_OK);
  sn_session_options o = {.local = local};
  if (sn_session_create(g, t->store, &o, &s) != SN_OK)
    FAIL("%s", sn_ctx_message(t->ctx));
  return s;
}

/* Rows from … from + n of both sequences; logits [ROWS, n, vocab]. */
static bool run_rows(sn_session *s, bool cache, int from, int n, float *logits) {
  int32_t ids[ROWS * LENGTH], positions[LENGTH], start = from, length[ROWS] = {from + n, from + n};
  fill_ids(ids, from, n);
  for (int i = 0; i < n; i++)
    positions[i] = from + i;
  size_t rows = (size_t)(ROWS * n);
  return CHECK(sn_session_bind(s, "n", n) == SN_OK) &&
         CHECK(sn_session_write(s, "ids", ids, rows * sizeof *ids) == SN_OK) &&
         CHECK(sn_session_write(s, "positions", positions, (size_t)n * sizeof *ids) == SN_OK) &&
         (!cache || (CHECK(sn_session_write(s, "start", &start, sizeof start) == SN_OK) &&
                     CHECK(sn_session_write(s, "kv_length", length, sizeof length) == SN_OK))) &&
         CHECK(sn_session_run(s) == SN_OK) &&
         CHECK(sn_session_read(s, "logits", logits, rows * TINY_VOCAB * sizeof(float)) == SN_OK);
}

static void check_rows(const float *whole, const float *part, int from, int n) {
  for (int b = 0; b < ROWS; b++)
    for (int i = 0; i < n; i++)
      for (int v = 0; v < TINY_VOCAB; v++)
        if (!CHECK_NEAR(part[(b * n + i) * TINY_VOCAB + v],
                        whole[(b * LENGTH + from + i) * TINY_VOCAB + v], NEAR))
          return;
}

static void check_sequences(const tiny_model *t) {
  static float whole[ROWS * LENGTH * TINY_VOCAB], part[ROWS * LENGTH * TINY_VOCAB];
  sn_graph *g[2] = {NULL, NULL};
  sn_store *local = NULL;
  sn_session *s[2] = {NULL, NULL};
  CHECK(sn_store_create(t->ctx, &local) == SN_OK);
  for (int k = 0; k < 2; k++)
    if (CHECK(sn_graph_create(t->ctx, &g[k]) == SN_OK))
      s[k] = session_of(t, g[k], k == 1, local);
  if (s[0] && s[1] && run_rows(s[0], false, 0, LENGTH, whole))
    for (int piece = 1; piece <= LENGTH; piece++)
      for (int from = 0; from < LENGTH; from += piece) {
        int n = LENGTH - from < piece ? LENGTH - from : piece;
        if (run_rows(s[1], true, from, n, part))
          check_rows(whole, part, from, n);
      }
  for (int k = 0; k < 2; k++) {
    sn_session_destroy(s[k]);
    sn_graph_destroy(g[k]);
  }
  sn_store_destroy(local);
}

TEST_WALK(every_logit_of_a_batch) {
  for (const tiny_family *f = tiny_families; f->name; f++) {
    tiny_model t;
    sn_model_config c = tiny_config(f->name);
    if (!test_begin("%s", f->name))
      continue;
    if (tiny_start(&t, &c)) {
      check_sequences(&t);
      tiny_end(&t);
    }
    test_end();
  }
}

/* --- beside each other --- */

enum { DRAWS = 12 };

static void draw_alone(const tiny_model *t, const sn_generate_options *o, int32_t *out) {
  sn_generator *g = generator(t, o);
  for (int i = 0; i < DRAWS; i++)
    out[i] = next(t, g, prompt, i ? 0 : 4);
  sn_generator_destroy(g);
}

TEST(generators_do_not_disturb_each_other) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_generate_options o[] = {{0}, {.temperature = 2, .seed = 1}, {.temperature = 2, .seed = 2}};
  int32_t alone[3][DRAWS];
  if (!tiny_start(&t, &c))
    return;
  snapshot before = snapshot_take(t.store, true);
  sn_generator *g[3];
  for (int k = 0; k < 3; k++) {
    draw_alone(&t, &o[k], alone[k]);
    g[k] = generator(&t, &o[k]);
  }
  for (int i = 0; i < DRAWS; i++)
    for (int k = 0; k < 3; k++)
      CHECK_EQ_INT(next(&t, g[k], prompt, i ? 0 : 4), alone[k][i]);
  CHECK(memcmp(alone[1], alone[2], sizeof alone[1]) != 0);
  CHECK(memcmp(alone[0], alone[1], sizeof alone[1]) != 0);
  for (int k = 0; k < 3; k++)
    sn_generator_destroy(g[k]);
  CHECK(snapshot_unchanged(&before, t.store));
  tiny_end(&t);
}

/* A fixed seed gives one sequence, but not one draw for ever. */
TEST(draws_follow_the_seed) {
  tiny_model t;
  sn_model_config c = tiny_config("gpt2");
  sn_generate_options o = {.temperature = 50, .seed = UINT64_C(1) << 40 | 7};
  int32_t a[DRAWS], b[DRAWS];
  if (!tiny_start(&t, &c))
    return;
  draw_alone(&t, &o, a);
  draw_alone(&t, &o, b);
  CHECK_EQ_MEM(a, b, sizeof a);
  int distinct = 0;
  for (int i = 1; i < DRAWS; i++)
    distinct += a[i] != a[0];
  CHECK(distinct > DRAWS / 2);
  o.seed = 7; /* the upper half counts too */
  draw_alone(&t, &o, b);
  CHECK(memcmp(a, b, sizeof a) != 0);
  tiny_end(&t);
}

/* --- beside training: no weight that a session has read before may be stale --- */

/* A generator made before any training sees the weights of now: those that a reloaded checkpoint has. */
static void check_against_reloaded(const tiny_model *t, sn_generator *old,
                                   const sn_generate_options *options, const char *path) {
  tiny_model r;
  if (!tiny_start(&r, sn_model_get_config(t->model)))
    return;
  sn_safetensors *file;
  CHECK(sn_store_save(t->store, path, NULL, 0) == SN_OK);
  if (CHECK(sn_safetensors_open(r.ctx, path, &file) == SN_OK)) {
    CHECK(sn_store_load_weights(r.store, sn_model_weight_names(r.model),
                                sn_model_weight_count(r.model), file) == SN_OK);
    sn_safetensors_close(file);
    sn_generator *fresh = generator(&r, options);
    for (int i = 0; i < 3; i++) {
      size_t n = i ? 0 : PROMPT;
      CHECK_EQ_INT(next(t, old, prompt, n), next(&r, fresh, prompt, n));
      CHECK(logits_near(old, fresh, 0));
    }
    sn_generator_destroy(fresh);
  }
  tiny_end(&r);
}

static void alternate(const char *family) {
  tiny_model t;
  tiny_lesson l;
  sn_model_config c = tiny_config(family);
  sn_trainer_options o = {.optimizer = {.kind = SN_ADAMW}, .schedule = {.rate = 0.05}};
  sn_generate_options options[] = {{0}, {.recompute = true}};
  sn_generator *old[4] = {NULL};
  float loss, logits[TINY_VOCAB], before[TINY_VOCAB] = {0};
  if (!tiny_start(&t, &c))
    return;
  for (int i = 0; i < 4; i++)
    old[i] = generator(&t, &options[i % 2]);
  CHECK(tiny_lesson_start(&l, t.model, t.store, &o) == SN_OK);
  for (int i = 0; i < 4; i++) {
    check_against_reloaded(&t, old[i], &options[i % 2], test_scratch("now.safetensors"));
    CHECK(sn_generator_logits(old[i], logits, TINY_VOCAB) == SN_OK);
    CHECK(memcmp(logits, before, sizeof logits) != 0);
    memcpy(before, logits, sizeof before);
    CHECK(tiny_lesson_step(&l, &loss) == SN_OK);
  }
  for (int i = 0; i < 4; i++)
    sn_generator_destroy(old[i]);
  tiny_lesson_end(&l);
  tiny_end(&t);
}

TEST(training_and_generation_alternate) {
  alternate("gpt2");
  alternate("qwen2");
}

/* --- refusals --- */

static void check_refused(const tiny_model *t, sn_generator *g, const int32_t *ids, size_t n,
                          const char *part) {
  int32_t id = 5;
  CHECK_EQ_INT(sn_generator_next(g, ids, n, &id), SN_ERR_INVALID);
  CHECK_EQ_INT(id, -1);
  CHECK_STR_HAS(sn_ctx_message(t->ctx), part);
}

/* Refused calls between the others change nothing. */
static void check_errors(bool recompute) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_generate_options o = {.temperature = 1, .seed = 9, .capacity = 8, .recompute = recompute};
  static const int32_t low[] = {3, -1}, high[] = {3, TINY_VOCAB};
  if (!tiny_start(&t, &c))
    return;
  sn_generator *a = generator(&t, &o), *b = generator(&t, &o);
  check_refused(&t, a, NULL, 0, "the prompt is empty");
  check_refused(&t, a, low, 2, "id -1 is outside of 0 … 28");
  check_refused(&t, a, high, 2, "id 29 is outside of 0 … 28");
  check_refused(&t, a, prompt, 9, "0 ids and 9 more exceed the room for 8");
  check_refused(&t, a, prompt, SIZE_MAX, "exceed the room for 8");
  for (int i = 0; i < 6; i++) { /* 3 ids, then 5 drawn into the room and one beyond it */
    CHECK_EQ_INT(next(&t, a, prompt, i ? 0 : 3), next(&t, b, prompt, i ? 0 : 3));
    CHECK(logits_near(a, b, 0));
    check_refused(&t, a, high, 2, i < 3 ? "outside" : "exceed");
    check_refused(&t, a, prompt, 7, "exceed the room");
  }
  check_refused(&t, a, NULL, 0, "the room for 8 ids is used up");
  check_refused(&t, a, prompt, 1, "8 ids and 1 more exceed the room for 8");
  CHECK(logits_near(a, b, 0)); /* those of the last draw are still there */
  sn_generator_destroy(a);
  sn_generator_destroy(b);
  tiny_end(&t);
}

TEST(errors_and_going_on) {
  check_errors(false);
  check_errors(true);
}

TEST(logits_before_the_first_run) {
  tiny_model t;
  sn_model_config c = tiny_config("gpt2");
  sn_generate_options o = {0};
  float x[TINY_VOCAB];
  if (!tiny_start(&t, &c))
    return;
  sn_generator *g = generator(&t, &o);
  CHECK_EQ_INT(sn_generator_logits(g, x, TINY_VOCAB), SN_ERR_STATE);
  next(&t, g, prompt, 2);
  CHECK_EQ_INT(sn_generator_logits(g, x, TINY_VOCAB - 1), SN_ERR_INVALID);
  sn_generator_destroy(g);
  tiny_end(&t);
}

TEST(options_are_checked) {
  static const struct {
    sn_generate_options options;
    sn_status status;
    const char *part;
  } rows[] = {
      {{.temperature = -1}, SN_ERR_INVALID, "temperature"},
      {{.temperature = NAN}, SN_ERR_INVALID, "temperature"},
      {{.temperature = INFINITY}, SN_ERR_INVALID, "temperature"},
      {{.top_k = -1}, SN_ERR_INVALID, "top_k"},
      {{.top_p = 1.5}, SN_ERR_INVALID, "top_p"},
      {{.top_p = -0.5}, SN_ERR_INVALID, "top_p"},
      {{.min_p = NAN}, SN_ERR_INVALID, "min_p"},
      {{.repetition_penalty = -2}, SN_ERR_INVALID, "repetition_penalty"},
      {{.capacity = -1}, SN_ERR_INVALID, "capacity must lie in 0 … 32, got -1"},
      {{.capacity = TINY_LENGTH + 1}, SN_ERR_INVALID, "capacity must lie in 0 … 32, got 33"},
      {{.device = "abacus"}, SN_ERR_NOT_FOUND, "abacus"}};
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  if (!tiny_start(&t, &c))
    return;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sn_generator *g;
    CHECK_EQ_INT(sn_generator_create(t.model, t.store, &rows[i].options, &g), rows[i].status);
    CHECK(g == NULL);
    CHECK_STR_HAS(sn_ctx_message(t.ctx), rows[i].part);
  }
  tiny_end(&t);
}

/* No options are the defaults: greedy, with room for all that the model can see. */
TEST(without_options) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  if (!tiny_start(&t, &c))
    return;
  sn_generator *plain = NULL, *zeros = NULL;
  CHECK_EQ_INT(sn_generator_create(t.model, t.store, NULL, &plain), SN_OK);
  CHECK_EQ_INT(sn_generator_create(t.model, t.store, &(sn_generate_options){0}, &zeros), SN_OK);
  for (int i = 0; plain && zeros && i < TINY_LENGTH; i++) {
    int32_t start = 3, a = -1, b = -2;
    CHECK_EQ_INT(sn_generator_next(plain, &start, i == 0, &a), SN_OK);
    CHECK_EQ_INT(sn_generator_next(zeros, &start, i == 0, &b), SN_OK);
    CHECK_EQ_INT(a, b);
  }
  sn_generator_destroy(plain);
  sn_generator_destroy(zeros);
  tiny_end(&t);
}

/* A store without the weights is an error, not a model of zeros. */
TEST(missing_weights) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_store *empty;
  sn_generator *g;
  sn_generate_options o = {0};
  if (!tiny_start(&t, &c))
    return;
  CHECK(sn_store_create(t.ctx, &empty) == SN_OK);
  CHECK_EQ_INT(sn_generator_create(t.model, empty, &o, &g), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "model.embed_tokens.weight");
  sn_store_destroy(empty);
  tiny_end(&t);
}

/* Entries of the shared store that happen to be named like a generator's own are left alone. */
TEST(own_states_stay_its_own) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_generate_options o = {.temperature = 1, .seed = 3};
  int32_t a[DRAWS], b[DRAWS], key[3] = {1, 2, 3};
  float junk[64];
  if (!tiny_start(&t, &c))
    return;
  for (int i = 0; i < 64; i++)
    junk[i] = NAN;
  draw_alone(&t, &o, a);
  CHECK(sn_store_add(t.store, "generator.key", (sn_type){SN_I32, SN_SHAPE(3)}, key) == SN_OK);
  CHECK(sn_store_add(t.store, "cache.k.0", (sn_type){SN_F32, SN_SHAPE(64)}, junk) == SN_OK);
  snapshot before = snapshot_take(t.store, true);
  draw_alone(&t, &o, b);
  CHECK_EQ_MEM(a, b, sizeof a);
  CHECK(snapshot_unchanged(&before, t.store));
  tiny_end(&t);
}
