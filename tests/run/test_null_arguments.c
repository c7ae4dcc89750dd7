/* Every public function with NULL where its header does not allow it: an error with a message, or what stands for nothing; never
 * a crash. A row a pointer. The last test finds functions of the headers that stand in no row. */
#include "support/fixture.h"
#include "support/test.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What rows use: all that a program has. */
typedef struct world {
  fixture f;
  sn_value x, w, loss;
  sn_model *model;
  sn_generator *generator;
  sn_trainer *trainer;
  sn_safetensors *file;
  sn_json_doc *doc;
  sn_inspection *inspection;
} world;

static const sn_model_config tiny = {
    .vocab = 8, .hidden = 4, .layers = 1, .heads = 1, .max_length = 8};
static const sn_trainer_options training = {.schedule = {.rate = 0.1}, .device = "cpu"};
static const sn_session_options on_cpu = {.device = "cpu", .threads = 1};

static bool start(world *w) {
  *w = (world){0};
  const sn_generate_options generation = {.device = "cpu", .session = &on_cpu};
  const char *path = test_scratch("null.safetensors");
  if (!fixture_start(&w->f))
    return false;
  fixture *f = &w->f;
  w->x = sn_input(f->g, "x", SN_F32, SN_SHAPE(2));
  w->w = sn_state(f->g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 0);
  w->loss = sn_sum(f->g, sn_mul(f->g, w->x, w->w), SN_ALL_AXES, false);
  sn_output(f->g, "y", w->loss);
  const sn_param param = {.state = w->w};
  return fixture_ready(f, &on_cpu) && CHECK(sn_model_create(f->ctx, &tiny, &w->model) == SN_OK) &&
         CHECK(sn_model_init(w->model, f->store, 1) == SN_OK) &&
         CHECK(sn_generator_create(w->model, f->store, &generation, &w->generator) == SN_OK) &&
         CHECK(sn_trainer_create(f->g, w->loss, &param, 1, f->store, &training, &w->trainer) ==
               SN_OK) &&
         CHECK(sn_trainer_save(w->trainer, path, NULL, 0) == SN_OK) &&
         CHECK(sn_safetensors_open(f->ctx, path, &w->file) == SN_OK) &&
         CHECK(sn_json_parse(f->ctx, "{}", 2, &w->doc) == SN_OK) &&
         CHECK(sn_inspect(f->g, NULL, &w->inspection) == SN_OK);
}

static void end(world *w) {
  sn_inspection_destroy(w->inspection);
  sn_json_destroy(w->doc);
  sn_safetensors_close(w->file);
  sn_trainer_destroy(w->trainer);
  sn_generator_destroy(w->generator);
  sn_model_destroy(w->model);
  fixture_end(&w->f);
}

/* An argument: an error whose message names the function. */
#define ARGUMENT(call)                                                    \
  do {                                                                    \
    (void)sn_ctx_fail(ctx, SN_OK, "-");                                   \
    CHECK_EQ_INT(call, SN_ERR_INVALID);                                   \
    CHECK_STR_HAS(sn_ctx_message(ctx), "must not be NULL");               \
    CHECK_STR_HAS(#call, strtok(strcpy(said, sn_ctx_message(ctx)), ":")); \
  } while (0)
/* The object itself: no context to say anything in. */
#define OBJECT(call)  CHECK_EQ_INT(call, SN_ERR_INVALID)
#define NOTHING(call) CHECK(!(call))
#define INVALID(call) CHECK((call).id == UINT32_MAX)

TEST(contexts_and_graphs) {
  world w;
  char said[1024];
  REQUIRE(start(&w));
  sn_ctx *ctx = w.f.ctx;
  sn_graph *g = w.f.g, *parsed;
  int64_t size = 0;
  sn_value v = w.w, got;
  sn_grad_path way;
  char *printed;
  OBJECT(sn_ctx_create(NULL, NULL));
  CHECK_EQ_STR(sn_ctx_message(NULL), "");
  CHECK_EQ_INT(sn_ctx_fail(NULL, SN_ERR_IO, "x"), SN_ERR_IO);
  CHECK_EQ_INT(sn_ctx_within(NULL, SN_ERR_IO, "x"), SN_ERR_IO);
  NOTHING(sn_ctx_alloc(NULL, 1));
  sn_ctx_free(NULL, NULL, 1);
  OBJECT(sn_graph_create(NULL, &parsed));
  ARGUMENT(sn_graph_create(ctx, NULL));
  OBJECT(sn_graph_status(NULL));
  CHECK_EQ_STR(sn_graph_message(NULL), "");
  NOTHING(sn_graph_ctx(NULL));
  NOTHING(sn_symbol(NULL, "n", 4));
  NOTHING(sn_dim_add(NULL, 1, 2) || sn_dim_sub(NULL, 1, 2) || sn_dim_mul(NULL, 1, 2));
  NOTHING(sn_dim_div(NULL, 4, 2) || sn_dim_max(NULL, 4));
  NOTHING(sn_value_type(NULL, v).dtype || sn_value_valid(NULL, v) || sn_value_name(NULL, v));
  INVALID(sn_value_result(NULL, v, 0));
  NOTHING(sn_graph_states(NULL, &got, 1) || sn_graph_inputs(NULL, &got, 1));
  NOTHING(sn_graph_output(NULL, 0, &got) || sn_graph_symbol(NULL, 0, &size));
  CHECK_EQ_INT(sn_graph_assigned(NULL, v).id, 0);
  OBJECT(sn_dim_value(NULL, 4, &size, &size));
  ARGUMENT(sn_dim_value(g, 4, &size, NULL));
  CHECK(sn_label(NULL, v, "a").id == v.id && sn_label(g, v, NULL).id == v.id);
  CHECK(sn_recompute(NULL, v).id == v.id);
  sn_scope_push(NULL, "a"), sn_scope_push(g, NULL), sn_scope_pop(g), sn_scope_pop(NULL);
  sn_output(NULL, "a", v), sn_assign(NULL, v, v);
  INVALID(sn_constant_bytes(NULL, SN_F32, SN_SCALAR, &w));
  INVALID(sn_scalar(NULL, SN_F32, 1));
  OBJECT(sn_grad(NULL, w.loss, &v, 1, &got));
  ARGUMENT(sn_grad(g, w.loss, NULL, 1, &got));
  ARGUMENT(sn_grad(g, w.loss, &v, 1, NULL));
  OBJECT(sn_grad_paths(NULL, w.loss, &v, 1, &way));
  ARGUMENT(sn_grad_paths(g, w.loss, NULL, 1, &way));
  ARGUMENT(sn_grad_paths(g, w.loss, &v, 1, NULL));
  OBJECT(sn_graph_recognise(NULL, &v, 1, &got, &parsed));
  ARGUMENT(sn_graph_recognise(g, NULL, 1, &got, &parsed));
  ARGUMENT(sn_graph_recognise(g, &v, 1, NULL, &parsed));
  ARGUMENT(sn_graph_recognise(g, &v, 1, &got, NULL));
  OBJECT(sn_graph_print(NULL, &printed));
  ARGUMENT(sn_graph_print(g, NULL));
  OBJECT(sn_graph_parse(NULL, "", &parsed));
  ARGUMENT(sn_graph_parse(ctx, NULL, &parsed));
  ARGUMENT(sn_graph_parse(ctx, "", NULL));
  OBJECT(sn_graph_parse_file(NULL, "a", &parsed));
  ARGUMENT(sn_graph_parse_file(ctx, NULL, &parsed));
  ARGUMENT(sn_graph_parse_file(ctx, "a", NULL));
  sn_text_free(NULL, NULL);
  OBJECT(sn_graph_verify(NULL));
  CHECK_EQ_INT(sn_graph_status(g), SN_OK);
  end(&w);
}

/* Builders: without a graph an invalid value, with one an error of the graph. */
TEST(builders) {
  sn_value parts[2], v = SN_NONE;
  INVALID(sn_neg(NULL, v));
  INVALID(sn_input(NULL, "x", SN_F32, SN_SCALAR));
  INVALID(sn_concat(NULL, &v, 1, 0));
  INVALID(sn_argsort(NULL, v, 0, false));
  INVALID(sn_global_avg_pool(NULL, v));
  INVALID(sn_attention_packed(NULL, v, 1, 1, 1, SN_CAUSAL_NONE, 0));
  INVALID(sn_random_key(NULL, "key"));
  INVALID(sn_global_norm(NULL, &v, 1));
  sn_split(NULL, v, 0, 2, parts);
  sn_clip_by_norm(NULL, v, 1, &v, 1);
  sn_optimizer_build(NULL, &training.optimizer, v, v, NULL, NULL, 0, v);
  for (int k = 0; k < 10; k++) {
    fixture f;
    REQUIRE(fixture_start(&f));
    sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(2));
    const sn_param p = {.state = sn_state(f.g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 0)};
    if (k == 0)
      INVALID(sn_input(f.g, NULL, SN_F32, SN_SCALAR));
    else if (k == 1)
      INVALID(sn_concat(f.g, NULL, 2, 0));
    else if (k == 2)
      INVALID(sn_constant_bytes(f.g, SN_F32, SN_SHAPE(2), NULL));
    else if (k == 3)
      (void)sn_symbol(f.g, NULL, 4);
    else if (k == 4)
      sn_output(f.g, NULL, x);
    else if (k == 5)
      INVALID(sn_random_key(f.g, NULL));
    else if (k == 6)
      sn_split(f.g, x, 0, 2, NULL);
    else if (k == 7)
      INVALID(sn_global_norm(f.g, NULL, 1));
    else if (k == 8)
      sn_clip_by_norm(f.g, x, 1, NULL, 1);
    else
      sn_optimizer_build(f.g, NULL, x, x, &p, &x, 1, SN_NONE);
    CHECK_EQ_INT(sn_graph_status(f.g), SN_ERR_INVALID);
    fixture_end(&f);
  }
}

TEST(stores_and_sessions) {
  world w;
  char said[1024];
  float data[2];
  REQUIRE(start(&w));
  sn_ctx *ctx = w.f.ctx;
  sn_graph *g = w.f.g;
  sn_store *s = w.f.store, *store;
  sn_session *r = w.f.session, *session;
  sn_entry entry;
  sn_type type;
  sn_step step;
  sn_device_peaks peaks;
  const char *const names[] = {"w"};
  OBJECT(sn_store_create(NULL, &store));
  ARGUMENT(sn_store_create(ctx, NULL));
  NOTHING(sn_store_ctx(NULL));
  OBJECT(sn_store_add(NULL, "a", (sn_type){SN_F32, SN_SCALAR}, NULL));
  ARGUMENT(sn_store_add(s, NULL, (sn_type){SN_F32, SN_SCALAR}, NULL));
  OBJECT(sn_store_init(NULL, g, 1));
  ARGUMENT(sn_store_init(s, NULL, 1));
  NOTHING(sn_store_count(NULL) || sn_store_has(NULL, "w") || sn_store_has(s, NULL));
  OBJECT(sn_store_at(NULL, 0, &entry));
  ARGUMENT(sn_store_at(s, 0, NULL));
  OBJECT(sn_store_find(NULL, "w", &entry));
  ARGUMENT(sn_store_find(s, NULL, &entry));
  ARGUMENT(sn_store_find(s, "w", NULL));
  OBJECT(sn_store_read(NULL, "w", data, 8));
  ARGUMENT(sn_store_read(s, NULL, data, 8));
  ARGUMENT(sn_store_read(s, "w", NULL, 8));
  OBJECT(sn_store_write(NULL, "w", data, 8));
  ARGUMENT(sn_store_write(s, NULL, data, 8));
  ARGUMENT(sn_store_write(s, "w", NULL, 8));
  OBJECT(sn_store_save(NULL, "a", NULL, 0));
  ARGUMENT(sn_store_save(s, NULL, NULL, 0));
  ARGUMENT(sn_store_save(s, "a", NULL, 1));
  OBJECT(sn_store_save_weights(NULL, names, 1, "a"));
  ARGUMENT(sn_store_save_weights(s, NULL, 1, "a"));
  ARGUMENT(sn_store_save_weights(s, names, 1, NULL));
  OBJECT(sn_store_load(NULL, "a"));
  ARGUMENT(sn_store_load(s, NULL));
  OBJECT(sn_store_load_weights(NULL, names, 1, w.file));
  ARGUMENT(sn_store_load_weights(s, NULL, 1, w.file));
  ARGUMENT(sn_store_load_weights(s, names, 1, NULL));
  const sn_store_source source = {.name = "w"}, nameless = {.name = NULL};
  OBJECT(sn_store_load_tensors(NULL, &source, 1, w.file));
  ARGUMENT(sn_store_load_tensors(s, NULL, 1, w.file));
  ARGUMENT(sn_store_load_tensors(s, &source, 1, NULL));
  OBJECT(sn_store_load_tensors(s, &nameless, 1, w.file));
  OBJECT(sn_store_load_file(NULL, w.file));
  ARGUMENT(sn_store_load_file(s, NULL));
  OBJECT(sn_session_create(NULL, s, NULL, &session));
  ARGUMENT(sn_session_create(g, s, NULL, NULL));
  OBJECT(sn_session_bind(NULL, "n", 1));
  ARGUMENT(sn_session_bind(r, NULL, 1));
  CHECK(sn_session_find_input(NULL, "x") == -1 && sn_session_find_input(r, NULL) == -1);
  CHECK(sn_session_find_output(NULL, "y") == -1 && sn_session_find_output(r, NULL) == -1);
  OBJECT(sn_session_write(NULL, "x", data, 8));
  ARGUMENT(sn_session_write(r, NULL, data, 8));
  OBJECT(sn_session_write_at(NULL, 0, data, 8));
  ARGUMENT(sn_session_write_at(r, 0, NULL, 8));
  OBJECT(sn_session_run(NULL));
  OBJECT(sn_session_read(NULL, "y", data, 4));
  ARGUMENT(sn_session_read(r, NULL, data, 4));
  OBJECT(sn_session_read_at(NULL, 0, data, 4));
  ARGUMENT(sn_session_read_at(r, 0, NULL, 4));
  OBJECT(sn_session_output_type(NULL, 0, &type));
  ARGUMENT(sn_session_output_type(r, 0, NULL));
  NOTHING(sn_session_get_stats(NULL).runs);
  OBJECT(sn_session_step(NULL, 0, &step));
  ARGUMENT(sn_session_step(r, 0, NULL));
  CHECK(sn_device_find(NULL) >= 0 && sn_device_why_not(NULL) != NULL);
  OBJECT(sn_device_measure(NULL, 0, &peaks));
  ARGUMENT(sn_device_measure(ctx, 0, NULL));
  end(&w);
}

TEST(files) {
  world w;
  char said[1024];
  float data[2];
  static const float two[2] = {1, 2};
  REQUIRE(start(&w));
  sn_ctx *ctx = w.f.ctx;
  sn_safetensors *file;
  sn_json_doc *doc;
  sn_inspection *i;
  char *printed;
  const sn_json *root = sn_json_root(w.doc);
  OBJECT(sn_inspect(NULL, NULL, &i));
  ARGUMENT(sn_inspect(w.f.g, NULL, NULL));
  OBJECT(sn_inspection_print(NULL, SN_INSPECT_PLAN, &printed));
  OBJECT(sn_inspection_print(w.inspection, SN_INSPECT_PLAN, NULL));
  OBJECT(sn_safetensors_open(NULL, "a", &file));
  ARGUMENT(sn_safetensors_open(ctx, NULL, &file));
  ARGUMENT(sn_safetensors_open(ctx, "a", NULL));
  OBJECT(sn_safetensors_open_model(NULL, "a", &file));
  ARGUMENT(sn_safetensors_open_model(ctx, NULL, &file));
  ARGUMENT(sn_safetensors_open_model(ctx, "a", NULL));
  NOTHING(sn_safetensors_count(NULL) || sn_safetensors_at(NULL, 0));
  NOTHING(sn_safetensors_find(NULL, "w") || sn_safetensors_find(w.file, NULL));
  NOTHING(sn_safetensors_metadata(NULL, "k") || sn_safetensors_metadata(w.file, NULL));
  OBJECT(sn_safetensors_read(NULL, 0, SN_F32, data, 2));
  ARGUMENT(sn_safetensors_read(w.file, 0, SN_F32, NULL, 2));
  OBJECT(sn_safetensors_check(NULL, 0, SN_F32));
  OBJECT(sn_safetensors_read_raw(NULL, 0, data, 8));
  ARGUMENT(sn_safetensors_read_raw(w.file, 0, NULL, 8));
  OBJECT(sn_safetensors_write(NULL, "a", NULL, 0, NULL, 0));
  ARGUMENT(sn_safetensors_write(ctx, NULL, NULL, 0, NULL, 0));
  ARGUMENT(sn_safetensors_write(ctx, "a", NULL, 1, NULL, 0));
  ARGUMENT(sn_safetensors_write(ctx, "a", NULL, 0, NULL, 1));
  const sn_safetensors_item nameless = {NULL, {SN_F32, SN_SCALAR}, data};
  const sn_safetensors_pair keyless = {NULL, "v"}, valueless = {"k", NULL};
  OBJECT(sn_safetensors_write(ctx, "a", &nameless, 1, NULL, 0));
  OBJECT(sn_safetensors_write(ctx, "a", NULL, 0, &keyless, 1));
  OBJECT(sn_safetensors_write(ctx, "a", NULL, 0, &valueless, 1));
  const char *path = test_scratch("null.npy");
  const sn_type pair = {SN_F32, SN_SHAPE(2)};
  sn_npy *npy = NULL;
  OBJECT(sn_npy_write(NULL, path, pair, two));
  ARGUMENT(sn_npy_write(ctx, NULL, pair, two));
  ARGUMENT(sn_npy_write(ctx, path, pair, NULL));
  OBJECT(sn_npy_open(NULL, path, &npy));
  ARGUMENT(sn_npy_open(ctx, NULL, &npy));
  ARGUMENT(sn_npy_open(ctx, path, NULL));
  REQUIRE(sn_npy_write(ctx, path, pair, two) == SN_OK && sn_npy_open(ctx, path, &npy) == SN_OK);
  NOTHING(sn_npy_get(NULL));
  OBJECT(sn_npy_read(NULL, SN_F32, data, 2));
  ARGUMENT(sn_npy_read(npy, SN_F32, NULL, 2));
  sn_npy_close(npy);
  OBJECT(sn_json_parse(NULL, "{}", 2, &doc));
  ARGUMENT(sn_json_parse(ctx, NULL, 2, &doc));
  ARGUMENT(sn_json_parse(ctx, "{}", 2, NULL));
  OBJECT(sn_json_parse_file(NULL, "a", &doc));
  ARGUMENT(sn_json_parse_file(ctx, NULL, &doc));
  ARGUMENT(sn_json_parse_file(ctx, "a", NULL));
  NOTHING(sn_json_root(NULL) || sn_json_type(NULL) || sn_json_string(NULL, NULL));
  NOTHING(sn_json_bool(root, NULL) || sn_json_number(root, NULL) || sn_json_int(root, NULL));
  NOTHING(sn_json_bool(NULL, NULL) || sn_json_number(NULL, NULL) || sn_json_int(NULL, NULL));
  NOTHING(sn_json_size(NULL) || sn_json_at(NULL, 0) || sn_json_key(NULL, NULL));
  NOTHING(sn_json_get(NULL, "a") || sn_json_get(root, NULL) || sn_json_get(NULL, NULL));
  end(&w);
}

TEST(models_and_training) {
  world w;
  char said[1024];
  float logits[8], loss;
  int32_t id;
  REQUIRE(start(&w));
  sn_ctx *ctx = w.f.ctx;
  sn_graph *g = w.f.g;
  sn_store *s = w.f.store;
  sn_model *model;
  sn_generator *generator;
  sn_trainer *trainer, *t = w.trainer;
  const sn_param p = {.state = w.w};
  const sn_model_inputs in = {.ids = w.x};
  const sn_workload *load = sn_workload_at(0);
  sn_workload_values values;
  OBJECT(sn_model_create(NULL, &tiny, &model));
  ARGUMENT(sn_model_create(ctx, NULL, &model));
  ARGUMENT(sn_model_create(ctx, &tiny, NULL));
  OBJECT(sn_model_open(NULL, "a", &model));
  ARGUMENT(sn_model_open(ctx, NULL, &model));
  ARGUMENT(sn_model_open(ctx, "a", NULL));
  NOTHING(sn_model_ctx(NULL) || sn_model_get_config(NULL) || sn_model_weight_count(NULL));
  NOTHING(sn_model_weight_names(NULL));
  OBJECT(sn_model_init(NULL, s, 1));
  ARGUMENT(sn_model_init(w.model, NULL, 1));
  OBJECT(sn_model_load(NULL, s, "a"));
  ARGUMENT(sn_model_load(w.model, NULL, "a"));
  ARGUMENT(sn_model_load(w.model, s, NULL));
  INVALID(sn_model_logits(NULL, g, &in));
  INVALID(sn_model_logits(w.model, NULL, &in));
  INVALID(sn_model_logits(w.model, g, NULL));
  OBJECT(sn_generator_create(NULL, s, NULL, &generator));
  ARGUMENT(sn_generator_create(w.model, NULL, NULL, &generator));
  ARGUMENT(sn_generator_create(w.model, s, NULL, NULL));
  OBJECT(sn_generator_next(NULL, &id, 1, &id));
  ARGUMENT(sn_generator_next(w.generator, NULL, 1, &id));
  ARGUMENT(sn_generator_next(w.generator, &id, 1, NULL));
  OBJECT(sn_generator_logits(NULL, logits, 8));
  ARGUMENT(sn_generator_logits(w.generator, NULL, 8));
  NOTHING(sn_schedule_rate(NULL, 1) > 0 || sn_token_epoch(NULL));
  sn_token_batch(NULL, 0, &id, &id);
  const int32_t tokens[] = {1, 2, 3, 4};
  const sn_token_data data = {.tokens = tokens, .n = 4, .context = 2, .batch = 1},
                      none = {.n = 4, .context = 2, .batch = 1};
  sn_token_batch(&data, 0, NULL, &id), sn_token_batch(&data, 0, &id, NULL);
  sn_token_batch(&none, 0, &id, &id);
  OBJECT(sn_trainer_create(NULL, w.loss, &p, 1, s, &training, &trainer));
  ARGUMENT(sn_trainer_create(g, w.loss, NULL, 1, s, &training, &trainer));
  ARGUMENT(sn_trainer_create(g, w.loss, &p, 1, NULL, &training, &trainer));
  OBJECT(sn_trainer_create(g, w.loss, &p, 1, s, NULL, &trainer));
  ARGUMENT(sn_trainer_create(g, w.loss, &p, 1, s, &training, NULL));
  NOTHING(sn_trainer_session(NULL) || sn_trainer_schedule(NULL) || sn_trainer_store(NULL));
  sn_trainer_set_schedule(NULL, &training.schedule), sn_trainer_set_schedule(t, NULL);
  OBJECT(sn_trainer_step(NULL, &loss));
  ARGUMENT(sn_trainer_step(t, NULL));
  NOTHING(sn_trainer_steps(NULL) || sn_trainer_batches(NULL));
  OBJECT(sn_trainer_save(NULL, "a", NULL, 0));
  ARGUMENT(sn_trainer_save(t, NULL, NULL, 0));
  ARGUMENT(sn_trainer_save(t, "a", NULL, 1));
  OBJECT(sn_trainer_load(NULL, "a"));
  ARGUMENT(sn_trainer_load(t, NULL));
  NOTHING(sn_workload_find(NULL) || sn_workload_name(NULL) || sn_workload_summary(NULL));
  OBJECT(sn_workload_build(NULL, g, SN_WORKLOAD_FULL, &values));
  OBJECT(sn_workload_build(load, NULL, SN_WORKLOAD_FULL, &values));
  ARGUMENT(sn_workload_build(load, g, SN_WORKLOAD_FULL, NULL));
  NOTHING(sn_workload_trainable(NULL, g, NULL, 0) || sn_workload_trainable(load, NULL, NULL, 0));
  OBJECT(sn_workload_fill(NULL, g, SN_WORKLOAD_LIVE, s));
  OBJECT(sn_workload_fill(load, NULL, SN_WORKLOAD_LIVE, s));
  OBJECT(sn_workload_fill(load, g, SN_WORKLOAD_LIVE, NULL));
  OBJECT(sn_workload_write(NULL, g, SN_WORKLOAD_FULL, w.f.session));
  OBJECT(sn_workload_write(load, NULL, SN_WORKLOAD_FULL, w.f.session));
  OBJECT(sn_workload_write(load, g, SN_WORKLOAD_FULL, NULL));
  end(&w);
}

/* What ends things takes NULL. */
TEST(ends) {
  sn_ctx_destroy(NULL), sn_graph_destroy(NULL), sn_store_destroy(NULL), sn_session_destroy(NULL);
  sn_model_destroy(NULL), sn_generator_destroy(NULL), sn_trainer_destroy(NULL);
  sn_safetensors_close(NULL), sn_json_destroy(NULL), sn_inspection_destroy(NULL);
  sn_npy_close(NULL);
}

/* --- no function is left out --- */

static char *read_text(const char *path) {
  FILE *file = fopen(test_source(path), "r");
  size_t room = 1 << 18;
  char *text = calloc(1, room);
  if (!CHECK(file && text && fread(text, 1, room - 1, file) > 0))
    text = NULL;
  if (file)
    fclose(file);
  return text;
}

TEST(every_function_stands_in_a_row) {
  DIR *headers = opendir(test_source("include/sinew"));
  char *rows = read_text("tests/run/test_null_arguments.c");
  int found = 0;
  REQUIRE(headers);
  for (const struct dirent *e; rows && (e = readdir(headers));) {
    char path[300], name[80];
    if (!strstr(e->d_name, ".h") || strcmp(e->d_name, "ops.h") == 0)
      continue; /* builders: a test of their own */
    snprintf(path, sizeof path, "include/sinew/%s", e->d_name);
    char *text = read_text(path);
    for (char *at = text; at && (at = strstr(at, "SN_API ")); at++) {
      char *end = strchr(at, ';'), *open = strchr(at, '('), *begin = open;
      if (!end || !open || open > end || !memchr(open, '*', (size_t)(end - open)))
        continue;
      while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')
        begin--;
      if (strncmp(begin, "sn_", 3) != 0) /* what the macro itself is */
        continue;
      snprintf(name, sizeof name, "%.*s", (int)(open - begin) + 1, begin);
      found++;
      if (!strstr(rows, name))
        FAIL("%s: %s…) stands in no row", path, name);
    }
    free(text);
  }
  CHECK(found > 110);
  closedir(headers);
  free(rows);
}

/* --- options that no build knows --- */

TEST(threads_and_precision_have_bounds) {
  static const struct {
    sn_session_options o;
    sn_status status;
    const char *part;
  } rows[] = {{{.threads = 1000000}, SN_ERR_INVALID, "threads must lie in 0 … 255, got 1000000"},
              {{.threads = SN_MAX_THREADS + 1}, SN_ERR_INVALID, "threads"},
              {{.threads = -1}, SN_ERR_INVALID, "threads"},
              {{.precision = (sn_precision)3}, SN_ERR_INVALID, "unknown precision 3"},
              {{.precision = (sn_precision)-1}, SN_ERR_INVALID, "unknown precision"},
              {{.precision = SN_PRECISION_HALF, .threads = 2}, SN_OK, ""}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    sn_session_options o = rows[i].o;
    o.device = "cpu";
    REQUIRE(fixture_start(&f));
    sn_output(f.g, "y", sn_scalar(f.g, SN_F32, 1));
    CHECK_EQ_INT(sn_session_create(f.g, NULL, &o, &f.session), rows[i].status);
    CHECK_STR_HAS(sn_ctx_message(f.ctx), rows[i].part);
    fixture_end(&f);
  }
}
