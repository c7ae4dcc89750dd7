/* config.json of Hugging Face folders, in the keys that old and new versions write. Files are untrusted:
 * every size is checked before a graph is built from it. */
#include "nn/model.h"

#include <string.h>

/* Reads an integer that must lie in lo … hi. Absent or null: stays at the default. */
static sn_status read_int(sn_ctx *ctx, const sn_json *o, const char *key, int64_t lo, int64_t hi,
                          int64_t *out) {
  const sn_json *v = sn_json_get(o, key);
  int64_t n;
  if (!v || sn_json_type(v) == SN_JSON_NULL)
    return SN_OK;
  if (!sn_json_int(v, &n) || n < lo || n > hi)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT,
                       "config: \"%s\" must be a whole number in %lld … %lld, got %s", key,
                       (long long)lo, (long long)hi, sn_json_type_name(sn_json_type(v)));
  *out = n;
  return SN_OK;
}

static sn_status read_number(sn_ctx *ctx, const sn_json *o, const char *key, double *out) {
  const sn_json *v = sn_json_get(o, key);
  if (!v || sn_json_type(v) == SN_JSON_NULL)
    return SN_OK;
  if (!sn_json_number(v, out))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must be a number, got %s", key,
                       sn_json_type_name(sn_json_type(v)));
  return SN_OK;
}

static sn_status read_flag(sn_ctx *ctx, const sn_json *o, const char *key, bool *out) {
  const sn_json *v = sn_json_get(o, key);
  if (!v || sn_json_type(v) == SN_JSON_NULL || sn_json_bool(v, out))
    return SN_OK;
  return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must be true or false, got %s", key,
                     sn_json_type_name(sn_json_type(v)));
}

static sn_status read_activation(sn_ctx *ctx, const sn_json *o, const char *key,
                                 sn_activation *out) {
  static const struct {
    const char *name;
    sn_activation activation;
  } known[] = {{"silu", SN_ACT_SILU},          {"swish", SN_ACT_SILU},
               {"gelu", SN_ACT_GELU},          {"gelu_new", SN_ACT_GELU_TANH},
               {"relu", SN_ACT_RELU},          {"gelu_pytorch_tanh", SN_ACT_GELU_TANH}};
  const char *name = sn_json_string(sn_json_get(o, key), NULL);
  if (!name)
    return SN_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) {
      *out = known[i].activation;
      return SN_OK;
    }
  return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED, "config: activation \"%s\" is not one we have", name);
}

enum { LARGEST = 1 << 24 };

#define TRY(x)                                  \
  do {                                          \
    sn_status status_ = (x);                    \
    if (status_ != SN_OK)                       \
      return status_;                           \
  } while (0)

static sn_status read_scaling_kind(sn_ctx *ctx, const char *kind, sn_rope_scaling *out) {
  static const struct {
    const char *name;
    sn_rope_scaling scaling;
  } known[] = {{"default", SN_ROPE_DEFAULT}, {"linear", SN_ROPE_LINEAR},
               {"dynamic", SN_ROPE_DYNAMIC}, {"llama3", SN_ROPE_LLAMA3},
               {"yarn", SN_ROPE_YARN}};
  for (size_t i = 0; kind && i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, kind) == 0) {
      *out = known[i].scaling;
      return SN_OK;
    }
  return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED, "config: rope type \"%s\" is not one we have",
                     kind ? kind : "");
}

/* `rope_parameters` (new) or `rope_theta` and `rope_scaling` (old). */
static sn_status read_rope(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  const sn_json *p = sn_json_get(o, "rope_parameters");
  if (sn_json_type(p) != SN_JSON_OBJECT)
    p = sn_json_get(o, "rope_scaling");
  sn_rope_options *r = &c->rope;
  TRY(read_number(ctx, o, "rope_theta", &r->base));
  double partial = 1;
  TRY(read_number(ctx, o, "partial_rotary_factor", &partial));
  if (sn_json_type(p) == SN_JSON_OBJECT) {
    const char *kind = sn_json_string(sn_json_get(p, "rope_type"), NULL);
    if (!kind)
      kind = sn_json_string(sn_json_get(p, "type"), NULL);
    TRY(read_scaling_kind(ctx, kind, &r->scaling));
    bool yarn = r->scaling == SN_ROPE_YARN;
    r->low = yarn ? 1 : 0;
    r->high = yarn ? 32 : 0;
    r->original_length = c->max_length;
    TRY(read_number(ctx, p, "rope_theta", &r->base));
    TRY(read_number(ctx, p, "partial_rotary_factor", &partial));
    TRY(read_number(ctx, p, "factor", &r->factor));
    TRY(read_number(ctx, p, yarn ? "beta_slow" : "low_freq_factor", &r->low));
    TRY(read_number(ctx, p, yarn ? "beta_fast" : "high_freq_factor", &r->high));
    TRY(read_number(ctx, p, "attention_factor", &r->attention_factor));
    TRY(read_int(ctx, p, "original_max_position_embeddings", 1, LARGEST, &r->original_length));
  }
  if (!(partial > 0 && partial <= 1))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: partial_rotary_factor must lie in (0, 1], got %g",
                       partial);
  c->rotary = (int64_t)(partial * (double)c->head_size);
  return SN_OK;
}

/* Which layers slide: `layer_types`, or for older files all (Mistral), or those from
 * `max_window_layers` on (Qwen2 with use_sliding_window). */
static sn_status read_windows(sn_ctx *ctx, const sn_json *o, const char *type, sn_model_config *c) {
  const sn_json *types = sn_json_get(o, "layer_types");
  bool use = strcmp(type, "mistral") == 0;
  int64_t from = 0;
  TRY(read_int(ctx, o, "sliding_window", 1, LARGEST, &c->window));
  TRY(read_flag(ctx, o, "use_sliding_window", &use));
  TRY(read_int(ctx, o, "max_window_layers", 0, LARGEST, &from));
  if (sn_json_type(types) == SN_JSON_ARRAY && (int64_t)sn_json_size(types) != c->layers)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: layer_types lists %zu layers, there are %lld",
                       sn_json_size(types), (long long)c->layers);
  for (int64_t i = 0; i < c->layers; i++) {
    const char *kind = sn_json_string(sn_json_at(types, (size_t)i), NULL);
    c->sliding[i] = kind ? strcmp(kind, "sliding_attention") == 0 : use && c->window && i >= from;
    if (c->sliding[i] && !c->window)
      return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: layer %lld slides, but there is no window",
                         (long long)i);
  }
  return SN_OK;
}

static sn_status read_llama(sn_ctx *ctx, const sn_json *o, const char *type, sn_model_config *c) {
  bool qwen2 = strcmp(type, "qwen2") == 0, bias = qwen2;
  c->family = SN_MODEL_LLAMA;
  c->max_length = 2048;
  c->rope = (sn_rope_options){.base = 10000, .factor = 1};
  c->qk_norm = strcmp(type, "qwen3") == 0;
  c->norm_eps = 1e-6;
  TRY(read_int(ctx, o, "vocab_size", 1, LARGEST, &c->vocab));
  TRY(read_int(ctx, o, "hidden_size", 1, LARGEST, &c->hidden));
  TRY(read_int(ctx, o, "num_hidden_layers", 0, SN_MAX_LAYERS, &c->layers));
  TRY(read_int(ctx, o, "num_attention_heads", 1, LARGEST, &c->heads));
  TRY(read_int(ctx, o, "num_key_value_heads", 1, LARGEST, &c->kv_heads));
  TRY(read_int(ctx, o, "head_dim", 1, LARGEST, &c->head_size));
  TRY(read_int(ctx, o, "intermediate_size", 1, LARGEST, &c->inner));
  TRY(read_int(ctx, o, "max_position_embeddings", 1, LARGEST, &c->max_length));
  TRY(read_number(ctx, o, "rms_norm_eps", &c->norm_eps));
  TRY(read_activation(ctx, o, "hidden_act", &c->activation));
  TRY(read_flag(ctx, o, "attention_bias", &bias));
  TRY(read_flag(ctx, o, "mlp_bias", &c->mlp_bias));
  c->qkv_bias = bias;
  c->out_bias = bias && !qwen2;
  if (c->head_size == 0 && c->heads > 0)
    c->head_size = c->hidden / c->heads;
  TRY(read_rope(ctx, o, c));
  return read_windows(ctx, o, type, c);
}

static sn_status read_gpt2(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  bool by_layer = false, weights = true;
  c->family = SN_MODEL_GPT2;
  c->activation = SN_ACT_GELU_TANH;
  c->max_length = 1024;
  c->norm_eps = 1e-5;
  c->tied = true;
  TRY(read_int(ctx, o, "vocab_size", 1, LARGEST, &c->vocab));
  TRY(read_int(ctx, o, "n_embd", 1, LARGEST, &c->hidden));
  TRY(read_int(ctx, o, "n_layer", 0, SN_MAX_LAYERS, &c->layers));
  TRY(read_int(ctx, o, "n_head", 1, LARGEST, &c->heads));
  TRY(read_int(ctx, o, "n_inner", 1, LARGEST, &c->inner));
  TRY(read_int(ctx, o, "n_positions", 1, LARGEST, &c->max_length));
  TRY(read_number(ctx, o, "layer_norm_epsilon", &c->norm_eps));
  TRY(read_activation(ctx, o, "activation_function", &c->activation));
  TRY(read_flag(ctx, o, "scale_attn_by_inverse_layer_idx", &by_layer));
  TRY(read_flag(ctx, o, "scale_attn_weights", &weights));
  if (by_layer || !weights)
    return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                       "config: GPT-2 with unusual attention scaling is not supported");
  if (c->inner == 0)
    c->inner = 4 * c->hidden;
  return SN_OK;
}

sn_status nn_config_read(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  static const char *const llamas[] = {"llama", "mistral", "qwen2", "qwen3"};
  *c = (sn_model_config){.bos = -1, .eos = -1, .init_scale = 0.02};
  const char *type = sn_json_string(sn_json_get(o, "model_type"), NULL);
  if (!type)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"model_type\" is missing");
  sn_status status = SN_ERR_UNSUPPORTED;
  for (size_t i = 0; i < sizeof llamas / sizeof *llamas && status == SN_ERR_UNSUPPORTED; i++)
    if (strcmp(llamas[i], type) == 0)
      TRY(status = read_llama(ctx, o, type, c));
  if (strcmp(type, "gpt2") == 0)
    TRY(status = read_gpt2(ctx, o, c));
  if (status != SN_OK)
    return sn_ctx_fail(ctx, status,
                       "config: model_type \"%s\" is not one of llama, mistral, qwen2, qwen3, gpt2",
                       type);
  TRY(read_flag(ctx, o, "tie_word_embeddings", &c->tied));
  TRY(read_number(ctx, o, "initializer_range", &c->init_scale));
  /* Some files list several end tokens; those are for chat, and the first serves here. */
  const sn_json *eos = sn_json_get(o, "eos_token_id");
  if (sn_json_type(eos) == SN_JSON_ARRAY)
    (void)sn_json_int(sn_json_at(eos, 0), &c->eos);
  else
    TRY(read_int(ctx, o, "eos_token_id", 0, LARGEST, &c->eos));
  TRY(read_int(ctx, o, "bos_token_id", 0, LARGEST, &c->bos));
  return nn_config_finish(ctx, c);
}

static sn_status require(sn_ctx *ctx, bool holds, const char *what, int64_t a, int64_t b) {
  if (holds)
    return SN_OK;
  return sn_ctx_fail(ctx, SN_ERR_INVALID, "model: %s: got %lld and %lld", what, (long long)a,
                     (long long)b);
}

sn_status nn_config_finish(sn_ctx *ctx, sn_model_config *c) {
  if (c->kv_heads == 0)
    c->kv_heads = c->heads;
  if (c->head_size == 0 && c->heads > 0)
    c->head_size = c->hidden / c->heads;
  if (c->inner == 0)
    c->inner = 4 * c->hidden;
  if (c->rotary == 0)
    c->rotary = c->head_size;
  if (c->norm_eps == 0)
    c->norm_eps = 1e-5;
  if (c->init_scale == 0)
    c->init_scale = 0.02;
  if (c->rope.base == 0)
    c->rope = (sn_rope_options){.base = 10000, .factor = 1};
  TRY(require(ctx, c->vocab > 0 && c->hidden > 0, "vocabulary and hidden size must be positive",
              c->vocab, c->hidden));
  TRY(require(ctx, c->layers >= 0 && c->layers <= SN_MAX_LAYERS, "layers must lie in 0 … 512",
              c->layers, SN_MAX_LAYERS));
  TRY(require(ctx, c->heads > 0 && c->kv_heads > 0 && c->heads % c->kv_heads == 0,
              "heads must be a multiple of KV heads", c->heads, c->kv_heads));
  TRY(require(ctx, c->max_length > 0 && c->max_length <= LARGEST, "longest sequence out of range",
              c->max_length, LARGEST));
  TRY(require(ctx, c->family != SN_MODEL_GPT2 || c->heads * c->head_size == c->hidden,
              "hidden size must be heads times head size", c->hidden, c->heads * c->head_size));
  return require(ctx, c->head_size > 0 && c->rotary > 0 && c->rotary <= c->head_size,
                 "rotary part must lie in the head", c->rotary, c->head_size);
}
