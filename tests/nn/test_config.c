/* Model folders: what config.json says reaches the configuration, and everything that can be wrong with a
 * folder is an error with a message. */
#include "support/files.h"
#include "support/model_folder.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One key of a valid file changed. */
typedef struct mutation {
  const config_key *base;
  config_key change;
  sn_status status;
  const char *part; /* of the message */
} mutation;

#define LLAMA config_llama
#define GPT2  config_gpt2

static const mutation mutations[] = {
    {LLAMA, {"model_type", NULL}, SN_ERR_FORMAT, "\"model_type\" is missing"},
    {LLAMA, {"model_type", "7"}, SN_ERR_FORMAT, "\"model_type\" must be text, got a number"},
    {LLAMA, {"model_type", "\"bert\""}, SN_ERR_UNSUPPORTED, "model_type \"bert\" is not one of"},
    {LLAMA, {"model_type", "\"llama\\u0000x\""}, SN_ERR_FORMAT, "model_type"},
    {LLAMA, {"vocab_size", NULL}, SN_ERR_FORMAT, "\"vocab_size\" is missing"},
    {LLAMA, {"vocab_size", "null"}, SN_ERR_FORMAT, "\"vocab_size\" is missing"},
    {LLAMA, {"vocab_size", "0"}, SN_ERR_FORMAT, "\"vocab_size\" must lie in 1 … 16777216, got 0"},
    {LLAMA, {"vocab_size", "-29"}, SN_ERR_FORMAT, "got -29"},
    {LLAMA, {"vocab_size", "29.5"}, SN_ERR_FORMAT, "must be a whole number, got a number"},
    {LLAMA, {"vocab_size", "\"29\""}, SN_ERR_FORMAT, "must be a whole number, got a string"},
    {LLAMA, {"vocab_size", "[29]"}, SN_ERR_FORMAT, "must be a whole number, got an array"},
    {LLAMA, {"vocab_size", "1e18"}, SN_ERR_FORMAT, "must be a whole number"},
    {LLAMA, {"vocab_size", "9223372036854775807"}, SN_ERR_FORMAT, "got 9223372036854775807"},
    {LLAMA, {"hidden_size", NULL}, SN_ERR_FORMAT, "\"hidden_size\" is missing"},
    {LLAMA, {"hidden_size", "99999999"}, SN_ERR_FORMAT, "\"hidden_size\" must lie in"},
    {LLAMA, {"hidden_size", "true"}, SN_ERR_FORMAT, "\"hidden_size\" must be a whole number"},
    {LLAMA, {"hidden_size", "2"}, SN_ERR_FORMAT, "partial_rotary_factor"},
    {LLAMA, {"num_hidden_layers", NULL}, SN_ERR_FORMAT, "\"num_hidden_layers\" is missing"},
    {LLAMA, {"num_hidden_layers", "513"}, SN_ERR_FORMAT, "must lie in 0 … 512, got 513"},
    {LLAMA, {"num_hidden_layers", "-1"}, SN_ERR_FORMAT, "must lie in 0 … 512, got -1"},
    {LLAMA, {"num_attention_heads", NULL}, SN_ERR_FORMAT, "\"num_attention_heads\" is missing"},
    {LLAMA, {"num_attention_heads", "0"}, SN_ERR_FORMAT, "\"num_attention_heads\" must lie in"},
    {LLAMA,
     {"num_attention_heads", "5"},
     SN_ERR_INVALID,
     "5 heads are not a multiple of 2 KV heads"},
    {LLAMA,
     {"num_key_value_heads", "3"},
     SN_ERR_INVALID,
     "4 heads are not a multiple of 3 KV heads"},
    {LLAMA, {"num_key_value_heads", "8"}, SN_ERR_INVALID, "KV heads must lie in 1 … 4, got 8"},
    {LLAMA, {"num_key_value_heads", "0"}, SN_ERR_FORMAT, "\"num_key_value_heads\" must lie in"},
    {LLAMA, {"head_dim", "5"}, SN_ERR_INVALID, "rotary part of the head must be even, got 5"},
    {LLAMA,
     {"head_dim", "{}"},
     SN_ERR_FORMAT,
     "\"head_dim\" must be a whole number, got an object"},
    {LLAMA, {"intermediate_size", NULL}, SN_ERR_FORMAT, "\"intermediate_size\" is missing"},
    {LLAMA, {"intermediate_size", "-24"}, SN_ERR_FORMAT, "\"intermediate_size\" must lie in"},
    {LLAMA, {"max_position_embeddings", "0"}, SN_ERR_FORMAT, "\"max_position_embeddings\""},
    {LLAMA, {"rms_norm_eps", "\"tiny\""}, SN_ERR_FORMAT, "\"rms_norm_eps\" must be a number"},
    {LLAMA, {"rms_norm_eps", "-1"}, SN_ERR_FORMAT, "must be 0 or above"},
    {LLAMA,
     {"hidden_act", "\"mish\""},
     SN_ERR_UNSUPPORTED,
     "hidden_act \"mish\" is not one we have"},
    {LLAMA, {"hidden_act", "3"}, SN_ERR_FORMAT, "\"hidden_act\" must be text, got a number"},
    {LLAMA, {"attention_bias", "1"}, SN_ERR_FORMAT, "\"attention_bias\" must be true or false"},
    {LLAMA, {"mlp_bias", "\"no\""}, SN_ERR_FORMAT, "\"mlp_bias\" must be true or false"},
    {LLAMA, {"tie_word_embeddings", "0"}, SN_ERR_FORMAT, "\"tie_word_embeddings\" must be true"},
    {LLAMA, {"rope_theta", "\"1e4\""}, SN_ERR_FORMAT, "\"rope_theta\" must be a number"},
    {LLAMA, {"rope_theta", "-5"}, SN_ERR_FORMAT, "\"rope_theta\" must be above 0, got -5"},
    {LLAMA, {"rope_theta", "0"}, SN_ERR_FORMAT, "\"rope_theta\" must be above 0, got 0"},
    {LLAMA, {"rope_scaling", "\"linear\""}, SN_ERR_FORMAT, "\"rope_scaling\" must be an object"},
    {LLAMA, {"rope_parameters", "[1]"}, SN_ERR_FORMAT, "\"rope_parameters\" must be an object"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"bend\"}"},
     SN_ERR_UNSUPPORTED,
     "type \"bend\" is not one"},
    {LLAMA,
     {"rope_parameters", "{\"rope_type\": \"longrope\", \"factor\": 2}"},
     SN_ERR_UNSUPPORTED,
     "rope_type \"longrope\" is not one we have"},
    {LLAMA, {"rope_scaling", "{\"rope_type\": 4}"}, SN_ERR_FORMAT, "\"rope_type\" must be text"},
    {LLAMA, {"rope_scaling", "{\"type\": \"linear\"}"}, SN_ERR_FORMAT, "\"factor\" is missing"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"linear\", \"factor\": 0}"},
     SN_ERR_FORMAT,
     "\"factor\" must be above 0, got 0"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"linear\", \"factor\": -2}"},
     SN_ERR_FORMAT,
     "\"factor\" must be above 0, got -2"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"llama3\", \"factor\": 8}"},
     SN_ERR_FORMAT,
     "\"low_freq_factor\" is missing"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
                      "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 8}"},
     SN_ERR_INVALID,
     "0 < low < high"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 8, \"truncate\": false}"},
     SN_ERR_UNSUPPORTED,
     "truncate"},
    {LLAMA,
     {"rope_scaling", "{\"type\": \"yarn\", \"original_max_position_embeddings\": 0}"},
     SN_ERR_FORMAT,
     "original_max_position_embeddings"},
    {LLAMA, {"partial_rotary_factor", "0"}, SN_ERR_FORMAT, "\"partial_rotary_factor\" must lie in"},
    {LLAMA, {"partial_rotary_factor", "1.5"}, SN_ERR_FORMAT, "\"partial_rotary_factor\""},
    {LLAMA,
     {"partial_rotary_factor", "0.1"},
     SN_ERR_FORMAT,
     "turn 2 or more of a head's 4, got 0.1"},
    {LLAMA, {"partial_rotary_factor", "0.75"}, SN_ERR_INVALID, "must be even, got 3"},
    {LLAMA, {"layer_types", "[\"full_attention\"]"}, SN_ERR_FORMAT, "lists 1 layers, there are 2"},
    {LLAMA, {"layer_types", "\"full_attention\""}, SN_ERR_FORMAT, "must be an array, got a string"},
    {LLAMA, {"layer_types", "[\"full_attention\", 3]"}, SN_ERR_UNSUPPORTED, "of layer 1"},
    {LLAMA,
     {"layer_types", "[\"full_attention\", \"linear_attention\"]"},
     SN_ERR_UNSUPPORTED,
     "\"linear_attention\" of layer 1 is not one we have"},
    {LLAMA,
     {"layer_types", "[\"sliding_attention\", \"full_attention\"]"},
     SN_ERR_INVALID,
     "layer 0 slides, but there is no window"},
    {LLAMA, {"sliding_window", "0"}, SN_ERR_FORMAT, "\"sliding_window\" must lie in"},
    {LLAMA, {"initializer_range", "-0.1"}, SN_ERR_FORMAT, "must be 0 or above"},
    {LLAMA, {"eos_token_id", "\"</s>\""}, SN_ERR_FORMAT, "\"eos_token_id\" must be a whole number"},
    {LLAMA, {"eos_token_id", "[]"}, SN_ERR_FORMAT, "\"eos_token_id\" must be a token or a list"},
    {LLAMA,
     {"eos_token_id", "[1e18]"},
     SN_ERR_FORMAT,
     "\"eos_token_id\" must be a token or a list"},
    {LLAMA, {"bos_token_id", "-7"}, SN_ERR_FORMAT, "\"bos_token_id\" must lie in"},
    {LLAMA, {"dtype", "16"}, SN_ERR_FORMAT, "\"dtype\" must be text"},
    {GPT2, {"vocab_size", NULL}, SN_ERR_FORMAT, "\"vocab_size\" is missing"},
    {GPT2, {"n_embd", NULL}, SN_ERR_FORMAT, "\"n_embd\" is missing"},
    {GPT2, {"n_embd", "18"}, SN_ERR_INVALID, "hidden size 18 is not a multiple of 4 heads"},
    {GPT2, {"n_layer", NULL}, SN_ERR_FORMAT, "\"n_layer\" is missing"},
    {GPT2, {"n_head", NULL}, SN_ERR_FORMAT, "\"n_head\" is missing"},
    {GPT2, {"n_head", "3"}, SN_ERR_INVALID, "hidden size 16 is not a multiple of 3 heads"},
    {GPT2, {"n_positions", "-1"}, SN_ERR_FORMAT, "\"n_positions\" must lie in"},
    {GPT2, {"n_inner", "0"}, SN_ERR_FORMAT, "\"n_inner\" must lie in"},
    {GPT2, {"layer_norm_epsilon", "[]"}, SN_ERR_FORMAT, "\"layer_norm_epsilon\" must be a number"},
    {GPT2, {"activation_function", "\"tanh\""}, SN_ERR_UNSUPPORTED, "activation_function \"tanh\""},
    {GPT2, {"scale_attn_weights", "false"}, SN_ERR_UNSUPPORTED, "unusual attention scaling"},
    {GPT2, {"scale_attn_by_inverse_layer_idx", "true"}, SN_ERR_UNSUPPORTED, "unusual attention"},
};

TEST(bad_configurations) {
  const char *folder = files_new_folder("bad");
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
    const mutation *m = &mutations[i];
    config_key changes[] = {m->change, {NULL, NULL}};
    sn_model *model;
    config_write(folder, m->base, changes);
    sn_status status = sn_model_open(ctx, folder, &model);
    if (status != m->status || model || !strstr(sn_ctx_message(ctx), m->part) ||
        !strstr(sn_ctx_message(ctx), "config.json"))
      FAIL("\"%s\": %s: %s: %s, expected %s: %s", m->change.key,
           m->change.value ? m->change.value : "nothing", sn_status_name(status),
           sn_ctx_message(ctx), sn_status_name(m->status), m->part);
    sn_model_destroy(model);
  }
  sn_ctx_destroy(ctx);
  files_remove_folder(folder);
}

/* Any cut through a valid file is an error. */
TEST(truncated_configuration) {
  const char *folder = files_new_folder("cut");
  char text[4096];
  sn_ctx *ctx;
  config_write(folder, config_llama, NULL);
  FILE *f = fopen(files_in(folder, "config.json"), "r");
  REQUIRE(f && sn_ctx_create(NULL, &ctx) == SN_OK);
  size_t size = fread(text, 1, sizeof text, f);
  fclose(f);
  for (size_t n = 0; n + 2 < size; n++) {
    sn_model *model;
    files_put(files_in(folder, "config.json"), text, n);
    CHECK_EQ_INT(sn_model_open(ctx, folder, &model), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), "config.json");
  }
  files_put_text(files_in(folder, "config.json"), "[1, 2]");
  sn_model *model;
  CHECK_EQ_INT(sn_model_open(ctx, folder, &model), SN_ERR_FORMAT);
  CHECK_STR_HAS(sn_ctx_message(ctx), "expected an object, got an array");
  sn_ctx_destroy(ctx);
  files_remove_folder(folder);
}

/* --- what good files say --- */

static sn_model *open_with(sn_ctx *ctx, const config_key *base, const config_key *changes) {
  const char *folder = files_new_folder("good");
  sn_model *model;
  config_write(folder, base, changes);
  if (sn_model_open(ctx, folder, &model) != SN_OK)
    FAIL("%s", sn_ctx_message(ctx));
  files_remove_folder(folder);
  return model;
}

#define OPEN(model, ctx, base, ...)                                                        \
  sn_ctx *ctx;                                                                             \
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);                                             \
  sn_model *model = open_with(ctx, base, (const config_key[]){__VA_ARGS__, {NULL, NULL}}); \
  if (!model) {                                                                            \
    sn_ctx_destroy(ctx);                                                                   \
    return;                                                                                \
  }                                                                                        \
  const sn_model_config *c = sn_model_get_config(model)

#define CLOSE(model, ctx)  \
  sn_model_destroy(model); \
  sn_ctx_destroy(ctx)

TEST(llama_defaults) {
  OPEN(m, ctx, config_llama, {"num_key_value_heads", NULL}, {"rope_theta", NULL},
       {"rms_norm_eps", NULL}, {"max_position_embeddings", NULL}, {"hidden_act", NULL},
       {"tie_word_embeddings", NULL}, {"rope_scaling", "null"}, {"head_dim", "null"});
  CHECK_EQ_INT(c->family, SN_MODEL_LLAMA);
  CHECK_EQ_INT(c->kv_heads, 4);
  CHECK_EQ_INT(c->head_size, 4);
  CHECK_EQ_INT(c->rotary, 4);
  CHECK_EQ_INT(c->max_length, 2048);
  CHECK_NEAR(c->norm_eps, 1e-6, 0);
  CHECK_NEAR(c->rope.base, 10000, 0);
  CHECK_EQ_INT(c->activation, SN_ACT_SILU);
  CHECK(!c->tied && !c->qkv_bias && !c->out_bias && !c->mlp_bias && !c->qk_norm && !c->sliding[0]);
  CHECK_EQ_INT(c->bos, -1);
  CHECK_EQ_INT(c->eos, -1);
  CLOSE(m, ctx);
}

TEST(gpt2_defaults) {
  OPEN(m, ctx, config_gpt2, {"n_inner", "null"}, {"n_positions", NULL},
       {"layer_norm_epsilon", NULL}, {"activation_function", NULL});
  CHECK_EQ_INT(c->family, SN_MODEL_GPT2);
  CHECK_EQ_INT(c->inner, 64);
  CHECK_EQ_INT(c->max_length, 1024);
  CHECK_NEAR(c->norm_eps, 1e-5, 0);
  CHECK_EQ_INT(c->activation, SN_ACT_GELU_TANH);
  CHECK(c->tied);
  CLOSE(m, ctx);
}

TEST(kin_of_llama) {
  {
    OPEN(m, ctx, config_llama, {"attention_bias", "true"}, {"mlp_bias", "true"},
         {"eos_token_id", "[5, 6]"}, {"bos_token_id", "1"}, {"sliding_window", "3"});
    CHECK(c->qkv_bias && c->out_bias && c->mlp_bias && !c->qk_norm && !c->sliding[0]);
    CHECK_EQ_INT(c->eos, 5);
    CHECK_EQ_INT(c->bos, 1);
    CLOSE(m, ctx);
  }
  {
    OPEN(m, ctx, config_llama, {"model_type", "\"qwen2\""}, {"attention_bias", "false"},
         {"head_dim", "6"});
    CHECK(c->qkv_bias && !c->out_bias && !c->mlp_bias && !c->qk_norm);
    CHECK_EQ_INT(c->head_size, 6);
    CLOSE(m, ctx);
  }
  {
    OPEN(m, ctx, config_llama, {"model_type", "\"qwen3\""}, {"attention_bias", "true"});
    CHECK(c->qkv_bias && c->out_bias && c->qk_norm);
    CLOSE(m, ctx);
  }
}

#define GEMMA \
  { "model_type", "\"gemma3_text\"" }

TEST(gemma3_defaults) {
  OPEN(m, ctx, config_llama, GEMMA, {"num_key_value_heads", NULL}, {"rope_theta", NULL},
       {"max_position_embeddings", NULL}, {"tie_word_embeddings", NULL}, {"hidden_act", NULL},
       {"num_hidden_layers", "13"});
  CHECK_EQ_INT(c->family, SN_MODEL_LLAMA);
  CHECK_EQ_INT(c->kv_heads, 4);
  CHECK_EQ_INT(c->head_size, 256);
  CHECK_EQ_INT(c->rotary, 256);
  CHECK_EQ_INT(c->max_length, 131072);
  CHECK_EQ_INT(c->window, 4096);
  CHECK_EQ_INT(c->activation, SN_ACT_GELU_TANH);
  CHECK(c->tied && c->qk_norm && c->norm_offset && c->sandwich_norms && !c->qkv_bias);
  CHECK_NEAR(c->rope.base, 1e6, 0);
  CHECK_NEAR(c->rope_sliding.base, 1e4, 0);
  CHECK_NEAR(c->embed_scale, 4, 0);
  CHECK_NEAR(c->attention_scale, 1.0 / 16, 0);
  CHECK_NEAR(c->attention_softcap + c->logit_softcap, 0, 0);
  for (int i = 0; i < 13; i++)
    CHECK_EQ_INT(c->sliding[i], i != 5 && i != 11);
  CLOSE(m, ctx);
}

TEST(gemma3_keys) {
  { /* as older versions write them */
    OPEN(m, ctx, config_llama, GEMMA, {"head_dim", "6"}, {"sliding_window", "5"},
         {"sliding_window_pattern", "2"}, {"query_pre_attn_scalar", "25"},
         {"attn_logit_softcapping", "50.0"}, {"final_logit_softcapping", "30.0"},
         {"rope_local_base_freq", "300.0"},
         {"rope_scaling", "{\"factor\": 8.0, \"rope_type\": \"linear\"}"});
    CHECK_EQ_INT(c->head_size, 6);
    CHECK(c->sliding[0] && !c->sliding[1]);
    CHECK_NEAR(c->attention_scale, 0.2, 1e-15);
    CHECK_NEAR(c->attention_softcap, 50, 0);
    CHECK_NEAR(c->logit_softcap, 30, 0);
    CHECK_NEAR(c->rope.base, 10000, 0);
    CHECK_NEAR(c->rope.factor, 8, 0);
    CHECK_EQ_INT(c->rope.scaling, SN_ROPE_LINEAR);
    CHECK_NEAR(c->rope_sliding.base, 300, 0);
    CHECK_EQ_INT(c->rope_sliding.scaling, SN_ROPE_DEFAULT);
    CLOSE(m, ctx);
  }
  { /* as newer ones do */
    OPEN(m, ctx, config_llama, GEMMA,
         {"rope_parameters",
          "{\"full_attention\": {\"rope_theta\": 700.0, \"rope_type\": \"linear\", \"factor\": "
          "4.0}, "
          "\"sliding_attention\": {\"rope_theta\": 70.0, \"rope_type\": \"default\"}}"},
         {"layer_types", "[\"full_attention\", \"sliding_attention\"]"});
    CHECK(!c->sliding[0] && c->sliding[1]);
    CHECK_NEAR(c->rope.base, 700, 0);
    CHECK_NEAR(c->rope.factor, 4, 0);
    CHECK_NEAR(c->rope_sliding.base, 70, 0);
    CHECK_NEAR(c->rope_sliding.factor, 1, 0);
    CLOSE(m, ctx);
  }
}

/* What is wrong with Gemma's own keys. */
TEST(gemma3_errors) {
  static const mutation rows[] = {
      {LLAMA, {"query_pre_attn_scalar", "0"}, SN_ERR_FORMAT, "must be above 0, got 0"},
      {LLAMA, {"query_pre_attn_scalar", "\"x\""}, SN_ERR_FORMAT, "must be a number"},
      {LLAMA, {"rope_local_base_freq", "-1"}, SN_ERR_FORMAT, "\"rope_local_base_freq\" must be"},
      {LLAMA, {"rope_parameters", "3"}, SN_ERR_FORMAT, "\"rope_parameters\" must be an object"},
      {LLAMA,
       {"rope_parameters", "{\"sliding_attention\": []}"},
       SN_ERR_FORMAT,
       "\"sliding_attention\" must be an object"},
      {LLAMA, {"sliding_window_pattern", "0"}, SN_ERR_FORMAT, "must lie in 1"},
      {LLAMA, {"final_logit_softcapping", "-2"}, SN_ERR_INVALID, "softcap of logits"},
      {LLAMA, {"attn_logit_softcapping", "-2"}, SN_ERR_INVALID, "softcap of attention"},
      {LLAMA, {"hidden_activation", "\"mish\""}, SN_ERR_UNSUPPORTED, "hidden_activation"},
      {LLAMA, {"use_bidirectional_attention", "true"}, SN_ERR_UNSUPPORTED, "both directions"}};
  const char *folder = files_new_folder("bad");
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sn_model *model;
    config_write(folder, rows[i].base, (const config_key[]){GEMMA, rows[i].change, {NULL, NULL}});
    CHECK_EQ_INT(sn_model_open(ctx, folder, &model), rows[i].status);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].part);
    sn_model_destroy(model);
  }
  sn_ctx_destroy(ctx);
  files_remove_folder(folder);
}

static void check_windows(const config_key *changes, int64_t window, bool first, bool second) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_model *m = open_with(ctx, config_llama, changes);
  if (m) {
    const sn_model_config *c = sn_model_get_config(m);
    CHECK_EQ_INT(c->window, window);
    CHECK_EQ_INT(c->sliding[0], first);
    CHECK_EQ_INT(c->sliding[1], second);
  }
  CLOSE(m, ctx);
}

#define KEYS(...) ((const config_key[]){__VA_ARGS__, {NULL, NULL}})

TEST(windows) {
  const config_key mistral = {"model_type", "\"mistral\""}, qwen = {"model_type", "\"qwen2\""};
  const config_key five = {"sliding_window", "5"}, use = {"use_sliding_window", "true"};
  const config_key types = {"layer_types", "[\"sliding_attention\", \"full_attention\"]"};
  check_windows(KEYS(mistral, five), 5, true, true);
  check_windows(KEYS(mistral, {"sliding_window", "null"}), 0, false, false);
  check_windows(KEYS(mistral, five, types), 5, true, false);
  check_windows(KEYS(qwen, five), 5, false, false);
  check_windows(KEYS(qwen, five, use), 5, false, false); /* from layer 28 on */
  check_windows(KEYS(qwen, five, use, {"max_window_layers", "1"}), 5, false, true);
  check_windows(KEYS(qwen, five, {"max_window_layers", "0"}), 5, false, false);
  check_windows(KEYS(qwen, five, types), 5, true, false);
}

/* The scaling, in the keys of old and new files, as the configuration and as attributes in the graph. */
static void check_rope(const config_key *changes, const sn_rope_options *r,
                       const char *attributes) {
  sn_ctx *ctx;
  sn_graph *g;
  char *text = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_model *m = open_with(ctx, config_llama, changes);
  if (m && CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    const sn_rope_options *got = &sn_model_get_config(m)->rope;
    CHECK_NEAR(got->base, r->base, 0);
    CHECK_EQ_INT(got->scaling, r->scaling);
    CHECK_NEAR(got->factor, r->factor, 1e-12);
    CHECK_NEAR(got->low, r->low, 0);
    CHECK_NEAR(got->high, r->high, 0);
    CHECK_NEAR(got->attention_factor, r->attention_factor, 1e-12);
    CHECK_EQ_INT(got->original_length, r->original_length);
    sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, 4)),
                          .positions = sn_input(g, "p", SN_I32, SN_SHAPE(4))};
    sn_output(g, "logits", sn_model_logits(m, g, &in));
    if (CHECK(sn_graph_print(g, &text) == SN_OK))
      CHECK_STR_HAS(text, attributes);
    sn_text_free(ctx, text);
    sn_graph_destroy(g);
  }
  CLOSE(m, ctx);
}

#define OLD(kind, rest) \
  {"rope_theta", "500.0"}, { "rope_scaling", "{" kind rest "}" }
#define NEW(kind, rest)                                                        \
  {"rope_theta", NULL}, {                                                      \
    "rope_parameters", "{\"rope_theta\": 500.0, \"rope_type\": " kind rest "}" \
  }

TEST(rope_scaling) {
  sn_rope_options r = {.base = 500, .factor = 1, .original_length = 32};
  check_rope(KEYS(NEW("\"default\"", "")), &r, "base=500 layout=half scaling=default");
  check_rope(KEYS({"rope_theta", NULL}, {"rope_parameters", "{\"rope_theta\": 500.0}"}), &r,
             "base=500 layout=half scaling=default");
  r = (sn_rope_options){.base = 500, .scaling = SN_ROPE_LINEAR, .factor = 4, .original_length = 32};
  check_rope(KEYS(OLD("\"type\": \"linear\"", ", \"factor\": 4")), &r,
             "base=500 layout=half scaling=linear factor=4");
  check_rope(KEYS(OLD("\"rope_type\": \"linear\"", ", \"factor\": 4.0")), &r,
             "scaling=linear factor=4");
  check_rope(KEYS(NEW("\"linear\"", ", \"factor\": 4.0")), &r, "scaling=linear factor=4");
  r.scaling = SN_ROPE_DYNAMIC;
  check_rope(KEYS(OLD("\"type\": \"dynamic\"", ", \"factor\": 4.0")), &r,
             "scaling=dynamic factor=4 low=0 high=0 original_length=32");
#define LLAMA3                                                             \
  ", \"factor\": 8, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, " \
  "\"original_max_position_embeddings\": 16"
  r = (sn_rope_options){.base = 500,
                        .scaling = SN_ROPE_LLAMA3,
                        .factor = 8,
                        .low = 1,
                        .high = 4,
                        .original_length = 16};
  check_rope(KEYS(OLD("\"rope_type\": \"llama3\"", LLAMA3)), &r,
             "scaling=llama3 factor=8 low=1 high=4 original_length=16");
  check_rope(KEYS(NEW("\"llama3\"", LLAMA3)), &r,
             "scaling=llama3 factor=8 low=1 high=4 original_length=16");
}

TEST(rope_yarn) {
  sn_rope_options r = {.base = 500,
                       .scaling = SN_ROPE_YARN,
                       .factor = 2,
                       .low = 1,
                       .high = 32,
                       .original_length = 16};
  check_rope(KEYS(NEW("\"yarn\"", ", \"original_max_position_embeddings\": 16")), &r,
             "scaling=yarn factor=2 low=1 high=32 original_length=16");
  r.factor = 4;
  r.low = 2;
  r.high = 16;
  r.attention_factor = 1.5;
  check_rope(KEYS(OLD("\"type\": \"yarn\"", ", \"factor\": 4, \"beta_slow\": 2, \"beta_fast\": 16, "
                                            "\"attention_factor\": 1.5, "
                                            "\"original_max_position_embeddings\": 16")),
             &r, "scaling=yarn factor=4 low=2 high=16 original_length=16 attention_factor=1.5");
  r = (sn_rope_options){.base = 500,
                        .scaling = SN_ROPE_YARN,
                        .factor = 4,
                        .low = 1,
                        .high = 32,
                        .attention_factor = (0.1 * 2 * log(4) + 1) / (0.1 * 3 * log(4) + 1),
                        .original_length = 16};
  check_rope(KEYS(NEW("\"yarn\"", ", \"factor\": 4, \"mscale\": 2, \"mscale_all_dim\": 3, "
                                  "\"original_max_position_embeddings\": 16")),
             &r, "scaling=yarn factor=4 low=1 high=32 original_length=16 attention_factor=0.9");
}

TEST(partial_rotation) {
  OPEN(m, ctx, config_llama, {"partial_rotary_factor", "0.5"});
  CHECK_EQ_INT(c->rotary, 2);
  CLOSE(m, ctx);
}

/* --- configurations from the caller --- */

TEST(caller_configurations) {
  static const struct {
    const char *part;
    int64_t vocab, hidden, heads, kv_heads, head_size, inner, layers, max_length;
    double dropout;
  } rows[] = {{"vocabulary must lie in", 0, 16, 4, 2, 0, 0, 2, 32, 0},
              {"vocabulary must lie in", INT64_MAX, 16, 4, 2, 0, 0, 2, 32, 0},
              {"hidden size must lie in", 29, INT64_MAX, 4, 2, 0, 0, 2, 32, 0},
              {"hidden size must lie in", 29, -16, 4, 2, 0, 0, 2, 32, 0},
              {"heads must lie in", 29, 16, 0, 0, 0, 0, 2, 32, 0},
              {"heads must lie in", 29, 16, INT64_C(1) << 40, 1, INT64_C(1) << 40, 0, 2, 32, 0},
              {"head size must lie in", 29, 16, 4, 2, INT64_C(1) << 60, 0, 2, 32, 0},
              {"inner size must lie in", 29, 16, 4, 2, 0, -1, 2, 32, 0},
              {"layers must lie in 0 … 512", 29, 16, 4, 2, 0, 0, 513, 32, 0},
              {"layers must lie in 0 … 512", 29, 16, 4, 2, 0, 0, -1, 32, 0},
              {"longest sequence must lie in", 29, 16, 4, 2, 0, 0, 2, 0, 0},
              {"dropout must lie in [0, 1), got 1", 29, 16, 4, 2, 0, 0, 2, 32, 1},
              {"dropout must lie in [0, 1), got nan", 29, 16, 4, 2, 0, 0, 2, 32, NAN}};
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sn_model_config c = {.vocab = rows[i].vocab,
                         .hidden = rows[i].hidden,
                         .heads = rows[i].heads,
                         .kv_heads = rows[i].kv_heads,
                         .head_size = rows[i].head_size,
                         .inner = rows[i].inner,
                         .layers = rows[i].layers,
                         .max_length = rows[i].max_length,
                         .dropout = rows[i].dropout};
    sn_model *m;
    CHECK_EQ_INT(sn_model_create(ctx, &c, &m), SN_ERR_INVALID);
    CHECK(m == NULL);
    CHECK_STR_HAS(sn_ctx_message(ctx), rows[i].part);
  }
  sn_ctx_destroy(ctx);
}

/* A base left 0 must not drop the scaling beside it. */
TEST(scaling_without_a_base) {
  sn_model_config c = tiny_config("llama");
  tiny_model t;
  c.rope = (sn_rope_options){.scaling = SN_ROPE_LINEAR, .factor = 4};
  if (!tiny_start(&t, &c))
    return;
  const sn_rope_options *r = &sn_model_get_config(t.model)->rope;
  CHECK_NEAR(r->base, 10000, 0);
  CHECK_NEAR(r->factor, 4, 0);
  CHECK_EQ_INT(r->scaling, SN_ROPE_LINEAR);
  tiny_end(&t);
}

TEST(no_layers) {
  sn_model_config c = tiny_config("gpt2");
  tiny_model t;
  c.layers = 0;
  if (!tiny_start(&t, &c))
    return;
  CHECK_EQ_INT(sn_model_weight_count(t.model), 4);
  tiny_end(&t);
}

/* --- weights --- */

static void check_load(tiny_model *t, const char *folder, sn_status expected, const char *part) {
  sn_store *store;
  if (!CHECK(sn_store_create(t->ctx, &store) == SN_OK))
    return;
  CHECK_EQ_INT(sn_model_load(t->model, store, folder), expected);
  if (expected != SN_OK) {
    CHECK_STR_HAS(sn_ctx_message(t->ctx), part);
    CHECK_STR_HAS(sn_ctx_message(t->ctx), folder);
    CHECK_EQ_INT(sn_store_count(store), 0); /* nothing half done */
  }
  sn_store_destroy(store);
}

TEST(folders_without_what_they_need) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_model *m;
  if (!tiny_start(&t, &c))
    return;
  const char *folder = files_new_folder("empty");
  CHECK_EQ_INT(sn_model_open(t.ctx, folder, &m), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "config.json");
  CHECK_EQ_INT(sn_model_open(t.ctx, files_in(folder, "nowhere"), &m), SN_ERR_NOT_FOUND);
  files_put_text(files_in(folder, "plain"), "x");
  CHECK(sn_model_open(t.ctx, files_in(folder, "plain"), &m) != SN_OK);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "plain/config.json");
  char *far = malloc(6000);
  memset(far, 'a', 5999);
  far[5999] = '\0';
  CHECK(sn_model_open(t.ctx, far, &m) != SN_OK);
  free(far);
  check_load(&t, folder, SN_ERR_NOT_FOUND, "model.safetensors");
  files_put_text(files_in(folder, "model.safetensors"), "");
  check_load(&t, folder, SN_ERR_FORMAT, "model.safetensors");
  files_put_text(files_in(folder, "model.safetensors"), "\10\0\0\0\0\0\0\0{}");
  check_load(&t, folder, SN_ERR_FORMAT, "model.safetensors");
  size_t n = sn_model_weight_count(t.model);
  const char *const *names = sn_model_weight_names(t.model);
  weights_write(folder, t.store, names, n - 1);
  check_load(&t, folder, SN_ERR_NOT_FOUND, names[n - 1]);
  weights_write(folder, t.store, names + 1, n - 1);
  check_load(&t, folder, SN_ERR_NOT_FOUND, names[0]);
  weights_write(folder, t.store, names, n);
  check_load(&t, folder, SN_OK, NULL);
  tiny_end(&t);
  files_remove_folder(folder);
}

/* Tensors of another shape or of a dtype that is no float. */
TEST(tensors_that_do_not_fit) {
  tiny_model t, w;
  sn_model_config c = tiny_config("llama"), wide = c;
  wide.inner = 28;
  if (!tiny_start(&t, &c) || !tiny_start(&w, &wide))
    return;
  const char *folder = files_new_folder("misfit");
  size_t n = sn_model_weight_count(w.model);
  weights_write(folder, w.store, sn_model_weight_names(w.model), n);
  check_load(&t, folder, SN_ERR_INVALID,
             "tensor \"model.layers.0.mlp.gate_proj.weight\": expected [24, 16], the files have "
             "[28, 16]");
  sn_safetensors_item items[32];
  for (size_t i = 0; i < n && i < 32; i++) {
    sn_entry e;
    const char *name = sn_model_weight_names(t.model)[i];
    CHECK(sn_store_find(t.store, name, &e) == SN_OK);
    items[i] = (sn_safetensors_item){name, {SN_I32, e.type.shape}, calloc(1, e.size)};
  }
  CHECK(sn_safetensors_write(t.ctx, files_in(folder, "model.safetensors"), items, n, NULL, 0) ==
        SN_OK);
  for (size_t i = 0; i < n; i++)
    free((void *)(uintptr_t)items[i].data);
  check_load(&t, folder, SN_ERR_UNSUPPORTED, "I32");
  tiny_end(&t);
  tiny_end(&w);
  files_remove_folder(folder);
}

/* Huge sizes in a small file are refused by the shapes, before memory is asked for. */
TEST(huge_model_in_a_small_file) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  if (!tiny_start(&t, &c))
    return;
  const char *folder = files_new_folder("huge");
  weights_write(folder, t.store, sn_model_weight_names(t.model), sn_model_weight_count(t.model));
  config_write(folder, config_llama,
               KEYS({"vocab_size", "16777216"}, {"hidden_size", "16777216"}, {"head_dim", "16"}));
  sn_model *m;
  sn_store *store;
  CHECK(sn_model_open(t.ctx, folder, &m) == SN_OK);
  CHECK(sn_store_create(t.ctx, &store) == SN_OK);
  CHECK_EQ_INT(sn_model_load(m, store, folder), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(t.ctx), "expected [16777216, 16777216]");
  sn_store_destroy(store);
  sn_model_destroy(m);
  tiny_end(&t);
  files_remove_folder(folder);
}

/* Files of a bare model leave the prefix of the names out. */
TEST(names_without_prefix) {
  static const char *const families[] = {"gpt2", "llama"};
  for (int k = 0; k < 2; k++) {
    tiny_model t;
    sn_model_config c = tiny_config(families[k]);
    if (!tiny_start(&t, &c))
      return;
    const char *folder = files_new_folder("bare");
    sn_safetensors_item items[64];
    size_t n = sn_model_weight_count(t.model);
    const char *const *names = sn_model_weight_names(t.model);
    for (size_t i = 0; i < n; i++) {
      sn_entry e;
      CHECK(sn_store_find(t.store, names[i], &e) == SN_OK);
      void *data = malloc(e.size);
      CHECK(sn_store_read(t.store, names[i], data, e.size) == SN_OK);
      items[i] = (sn_safetensors_item){strchr(names[i], '.') + 1, e.type, data};
    }
    CHECK(sn_safetensors_write(t.ctx, files_in(folder, "model.safetensors"), items, n, NULL, 0) ==
          SN_OK);
    sn_store *store;
    CHECK(sn_store_create(t.ctx, &store) == SN_OK);
    if (sn_model_load(t.model, store, folder) != SN_OK)
      FAIL("%s", sn_ctx_message(t.ctx));
    for (size_t i = 0; i < n; i++) {
      char got[8192];
      sn_entry e;
      CHECK(sn_store_find(store, names[i], &e) == SN_OK && e.size <= sizeof got);
      CHECK(sn_store_read(store, names[i], got, e.size) == SN_OK);
      CHECK_EQ_MEM(got, items[i].data, e.size);
      free((void *)(uintptr_t)items[i].data);
    }
    sn_store_destroy(store);
    tiny_end(&t);
    files_remove_folder(folder);
  }
}

/* Loading into entries that are there replaces them, unless one is of another type: then none changes. */
TEST(loading_again) {
  tiny_model t, other;
  sn_model_config c = tiny_config("llama");
  if (!tiny_start(&t, &c) || !tiny_start(&other, &c))
    return;
  const char *folder = files_new_folder("again");
  const char *name = "model.layers.1.mlp.up_proj.weight", *last = "model.norm.weight";
  float kept[24 * 16], got[24 * 16], zeros[24 * 16] = {0};
  CHECK(sn_store_read(t.store, name, kept, sizeof kept) == SN_OK);
  weights_write(folder, t.store, sn_model_weight_names(t.model), sn_model_weight_count(t.model));
  CHECK(sn_store_write(other.store, name, zeros, sizeof zeros) == SN_OK);
  CHECK(sn_model_load(other.model, other.store, folder) == SN_OK);
  CHECK(sn_store_read(other.store, name, got, sizeof got) == SN_OK);
  CHECK_EQ_MEM(got, kept, sizeof got);
  sn_store *odd;
  CHECK(sn_store_create(t.ctx, &odd) == SN_OK);
  CHECK(sn_store_add(odd, last, (sn_type){SN_F32, SN_SHAPE(4, 4)}, NULL) == SN_OK);
  CHECK_EQ_INT(sn_model_load(t.model, odd, folder), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(t.ctx),
                "entry \"model.norm.weight\": expected f32[16], the store has f32[4, 4]");
  CHECK_EQ_INT(sn_store_count(odd), 1);
  sn_store_destroy(odd);
  tiny_end(&t);
  tiny_end(&other);
  files_remove_folder(folder);
}
