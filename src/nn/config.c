/* config.json of Hugging Face folders, in the keys that old and new versions write. Files are untrusted: a
 * key of the wrong type is an error, never a default, and nn_config_finish checks every size before a
 * graph is built from it. */
#include "nn/model.h"

#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A value or NULL: null in the file counts as absent. */
static const sn_json *get(const sn_json *o, const char *key) {
  const sn_json *v = sn_json_get(o, key);
  return sn_json_type(v) == SN_JSON_NULL ? NULL : v;
}

static sn_status bad_type(sn_ctx *ctx, const char *key, const char *expected, const sn_json *v) {
  return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must be %s, got %s", key, expected,
                     sn_json_type_name(sn_json_type(v)));
}

/* These leave *out, the default, where the key is absent. */
static sn_status read_int(sn_ctx *ctx, const sn_json *o, const char *key, int64_t lo, int64_t hi,
                          int64_t *out) {
  const sn_json *v = get(o, key);
  int64_t n;
  if (!v)
    return SN_OK;
  if (!sn_json_int(v, &n))
    return bad_type(ctx, key, "a whole number", v);
  if (n < lo || n > hi)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must lie in %lld … %lld, got %lld", key,
                       (long long)lo, (long long)hi, (long long)n);
  *out = n;
  return SN_OK;
}

static sn_status read_size(sn_ctx *ctx, const sn_json *o, const char *key, int64_t *out) {
  return read_int(ctx, o, key, 1, NN_LARGEST, out);
}

static sn_status read_number(sn_ctx *ctx, const sn_json *o, const char *key, double *out) {
  const sn_json *v = get(o, key);
  return !v || sn_json_number(v, out) ? SN_OK : bad_type(ctx, key, "a number", v);
}

/* A number of a configuration whose 0 means a default; in files 0 is 0. */
static sn_status read_option(sn_ctx *ctx, const sn_json *o, const char *key, double *out) {
  SN_TRY(read_number(ctx, o, key, out));
  if (!get(o, key))
    return SN_OK;
  if (!(*out >= 0))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must be 0 or above, got %g", key, *out);
  *out = *out == 0 ? SN_ZERO : *out;
  return SN_OK;
}

static sn_status read_flag(sn_ctx *ctx, const sn_json *o, const char *key, bool *out) {
  const sn_json *v = get(o, key);
  return !v || sn_json_bool(v, out) ? SN_OK : bad_type(ctx, key, "true or false", v);
}

static sn_status read_text(sn_ctx *ctx, const sn_json *o, const char *key, const char **out) {
  const sn_json *v = get(o, key);
  const char *text = sn_json_string(v, NULL);
  if (v && !text)
    return bad_type(ctx, key, "text", v);
  *out = text ? text : *out;
  return SN_OK;
}

/* Words of the file and what they stand for. */
typedef struct word {
  const char *name;
  int value;
} word;

static sn_status read_word(sn_ctx *ctx, const sn_json *o, const char *key, const word *words,
                           size_t n, int *out) {
  const char *name = NULL;
  SN_TRY(read_text(ctx, o, key, &name));
  if (!name)
    return SN_OK;
  for (size_t i = 0; i < n; i++)
    if (strcmp(words[i].name, name) == 0) {
      *out = words[i].value;
      return SN_OK;
    }
  return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED, "config: %s \"%s\" is not one we have", key, name);
}

static sn_status read_activation(sn_ctx *ctx, const sn_json *o, const char *key,
                                 sn_activation *out) {
  static const word words[] = {{"silu", SN_ACT_SILU}, {"swish", SN_ACT_SILU},
                               {"gelu", SN_ACT_GELU}, {"gelu_new", SN_ACT_GELU_TANH},
                               {"relu", SN_ACT_RELU}, {"gelu_pytorch_tanh", SN_ACT_GELU_TANH}};
  int value = (int)*out;
  SN_TRY(read_word(ctx, o, key, words, COUNT(words), &value));
  *out = (sn_activation)value;
  return SN_OK;
}

static sn_status require_keys(sn_ctx *ctx, const sn_json *o, const char *const *keys, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!get(o, keys[i]))
      return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" is missing", keys[i]);
  return SN_OK;
}

/* --- rotary positions --- */

static double yarn_magnitude(double factor, double scale) {
  return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

/* What the scalings need beside their kind, which the file must say. */
static sn_status read_yarn(sn_ctx *ctx, const sn_json *p, sn_rope_options *r) {
  double scale = 0, all = 0;
  bool truncate = true;
  r->low = 1;
  r->high = 32;
  SN_TRY(read_number(ctx, p, "beta_slow", &r->low));
  SN_TRY(read_number(ctx, p, "beta_fast", &r->high));
  SN_TRY(read_number(ctx, p, "mscale", &scale));
  SN_TRY(read_number(ctx, p, "mscale_all_dim", &all));
  SN_TRY(read_flag(ctx, p, "truncate", &truncate));
  if (!truncate)
    return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                       "config: yarn without \"truncate\" is not supported");
  if (r->attention_factor == 0 && scale != 0 && all != 0)
    r->attention_factor = yarn_magnitude(r->factor, scale) / yarn_magnitude(r->factor, all);
  return SN_OK;
}

static sn_status read_llama3(sn_ctx *ctx, const sn_json *p, sn_rope_options *r) {
  static const char *const keys[] = {"low_freq_factor", "high_freq_factor",
                                     "original_max_position_embeddings"};
  SN_TRY(require_keys(ctx, p, keys, COUNT(keys)));
  SN_TRY(read_number(ctx, p, keys[0], &r->low));
  return read_number(ctx, p, keys[1], &r->high);
}

static sn_status read_scaling(sn_ctx *ctx, const sn_json *p, const sn_model_config *c,
                              sn_rope_options *r) {
  static const word words[] = {{"default", SN_ROPE_DEFAULT},
                               {"linear", SN_ROPE_LINEAR},
                               {"dynamic", SN_ROPE_DYNAMIC},
                               {"llama3", SN_ROPE_LLAMA3},
                               {"yarn", SN_ROPE_YARN}};
  int kind = SN_ROPE_DEFAULT;
  SN_TRY(read_word(ctx, p, get(p, "rope_type") ? "rope_type" : "type", words, COUNT(words), &kind));
  r->scaling = (sn_rope_scaling)kind;
  r->original_length = c->max_length;
  SN_TRY(read_size(ctx, p, "original_max_position_embeddings", &r->original_length));
  if (kind == SN_ROPE_YARN) /* unless the file says it */
    r->factor = (double)c->max_length / (double)r->original_length;
  else if (kind != SN_ROPE_DEFAULT)
    SN_TRY(require_keys(ctx, p, &(const char *){"factor"}, 1));
  SN_TRY(read_number(ctx, p, "factor", &r->factor));
  if (!(r->factor > 0))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"factor\" must be above 0, got %g", r->factor);
  SN_TRY(read_number(ctx, p, "attention_factor", &r->attention_factor));
  if (kind == SN_ROPE_YARN)
    return read_yarn(ctx, p, r);
  return kind == SN_ROPE_LLAMA3 ? read_llama3(ctx, p, r) : SN_OK;
}

static sn_status check_base(sn_ctx *ctx, const char *key, double base) {
  if (base > 0)
    return SN_OK;
  return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"%s\" must be above 0, got %g", key, base);
}

/* Base and scaling of a rope object, which may be absent. */
static sn_status read_rope_object(sn_ctx *ctx, const char *key, const sn_json *p,
                                  const sn_model_config *c, sn_rope_options *r) {
  if (!p)
    return SN_OK;
  if (sn_json_type(p) != SN_JSON_OBJECT)
    return bad_type(ctx, key, "an object", p);
  SN_TRY(read_number(ctx, p, "rope_theta", &r->base));
  return read_scaling(ctx, p, c, r);
}

/* Where layers that slide have a base of their own: `rope_parameters` with an object for each kind of layer
 * (new), or `rope_local_base_freq`, never scaled (old). */
static sn_status read_two_ropes(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  const sn_json *both = get(o, "rope_parameters");
  const char *full = "full_attention", *sliding = "sliding_attention";
  c->rope.base = 1e6;
  c->rope_sliding = (sn_rope_options){.base = 10000, .factor = 1};
  SN_TRY(read_number(ctx, o, "rope_theta", &c->rope.base));
  SN_TRY(read_number(ctx, o, "rope_local_base_freq", &c->rope_sliding.base));
  if (!both) {
    SN_TRY(read_rope_object(ctx, "rope_scaling", get(o, "rope_scaling"), c, &c->rope));
  } else if (sn_json_type(both) != SN_JSON_OBJECT) {
    return bad_type(ctx, "rope_parameters", "an object", both);
  } else {
    SN_TRY(read_rope_object(ctx, full, get(both, full), c, &c->rope));
    SN_TRY(read_rope_object(ctx, sliding, get(both, sliding), c, &c->rope_sliding));
  }
  SN_TRY(check_base(ctx, "rope_local_base_freq", c->rope_sliding.base));
  return check_base(ctx, "rope_theta", c->rope.base);
}

/* `rope_parameters` (new) or `rope_theta` and `rope_scaling` (old). */
static sn_status read_rope(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  const char *key = get(o, "rope_parameters") ? "rope_parameters" : "rope_scaling";
  const sn_json *p = get(o, key);
  double partial = 1;
  SN_TRY(read_number(ctx, o, "rope_theta", &c->rope.base));
  SN_TRY(read_number(ctx, o, "partial_rotary_factor", &partial));
  SN_TRY(read_rope_object(ctx, key, p, c, &c->rope));
  if (p)
    SN_TRY(read_number(ctx, p, "partial_rotary_factor", &partial));
  SN_TRY(check_base(ctx, "rope_theta", c->rope.base));
  c->rotary = partial > 0 && partial <= 1 ? (int64_t)(partial * (double)c->head_size) : 0;
  if (c->rotary < 2)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT,
                       "config: \"partial_rotary_factor\" must lie in (0, 1] and turn 2 or more of "
                       "a head's %lld, got %g",
                       (long long)c->head_size, partial);
  return SN_OK;
}

/* --- families --- */

typedef enum windows { NO_WINDOW, ALL_LAYERS, LATER_LAYERS, MOST_LAYERS } windows;

/* What sets the members of the Llama family apart. */
typedef struct kin {
  const char *name;
  bool qkv_bias; /* always */
  bool bias_key; /* attention_bias adds biases to q, k, v and the output */
  bool mlp_bias_key, qk_norm, two_ropes;
  windows windows; /* where layer_types does not tell */
} kin;

static const kin llamas[] = {{"llama", false, true, true, false, false, NO_WINDOW},
                             {"mistral", false, false, false, false, false, ALL_LAYERS},
                             {"qwen2", true, false, false, false, false, LATER_LAYERS},
                             {"qwen3", false, true, false, true, false, LATER_LAYERS}};
static const kin gemma3 = {"gemma3_text", false, true, false, true, true, MOST_LAYERS};

static sn_status read_layer_types(sn_ctx *ctx, const sn_json *types, sn_model_config *c) {
  if (sn_json_type(types) != SN_JSON_ARRAY)
    return bad_type(ctx, "layer_types", "an array", types);
  if ((int64_t)sn_json_size(types) != c->layers)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT,
                       "config: \"layer_types\" lists %zu layers, there are %lld",
                       sn_json_size(types), (long long)c->layers);
  for (size_t i = 0; i < sn_json_size(types); i++) {
    const char *kind = sn_json_string(sn_json_at(types, i), NULL);
    c->sliding[i] = kind && strcmp(kind, "sliding_attention") == 0;
    if (!c->sliding[i] && (!kind || strcmp(kind, "full_attention") != 0))
      return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                         "config: \"layer_types\": \"%s\" of layer %zu is not one we have",
                         kind ? kind : "", i);
  }
  return SN_OK;
}

/* Which layers slide: `layer_types`, or for older files all (Mistral), those from `max_window_layers` on (Qwen
 * with use_sliding_window), or all but every 6th (Gemma). */
static sn_status read_windows(sn_ctx *ctx, const sn_json *o, const kin *k, sn_model_config *c) {
  const sn_json *types = get(o, "layer_types");
  bool use = k->windows == ALL_LAYERS || k->windows == MOST_LAYERS;
  int64_t period = 6;
  int64_t from = k->windows == LATER_LAYERS ? 28 : 0;
  SN_TRY(read_size(ctx, o, "sliding_window", &c->window));
  if (k->windows == LATER_LAYERS) {
    SN_TRY(read_flag(ctx, o, "use_sliding_window", &use));
    SN_TRY(read_int(ctx, o, "max_window_layers", 0, NN_LARGEST, &from));
  }
  if (k->windows == MOST_LAYERS) {
    SN_TRY(read_size(ctx, o, "_sliding_window_pattern", &period));
    SN_TRY(read_size(ctx, o, "sliding_window_pattern", &period));
  }
  if (types)
    return read_layer_types(ctx, types, c);
  for (int64_t i = from; i < c->layers; i++)
    c->sliding[i] = use && c->window > 0 && (k->windows != MOST_LAYERS || (i + 1) % period != 0);
  return SN_OK;
}

/* On top of the defaults that *c holds. */
static sn_status read_kin(sn_ctx *ctx, const sn_json *o, const kin *k, sn_model_config *c) {
  static const char *const keys[] = {"vocab_size", "hidden_size", "num_hidden_layers",
                                     "num_attention_heads", "intermediate_size"};
  bool bias = false;
  c->family = SN_MODEL_LLAMA;
  c->rope = (sn_rope_options){.base = 10000, .factor = 1};
  c->norm_eps = 1e-6;
  SN_TRY(require_keys(ctx, o, keys, COUNT(keys)));
  SN_TRY(read_size(ctx, o, keys[0], &c->vocab));
  SN_TRY(read_size(ctx, o, keys[1], &c->hidden));
  SN_TRY(read_int(ctx, o, keys[2], 0, SN_MAX_LAYERS, &c->layers));
  SN_TRY(read_size(ctx, o, keys[3], &c->heads));
  SN_TRY(read_size(ctx, o, keys[4], &c->inner));
  SN_TRY(read_size(ctx, o, "num_key_value_heads", &c->kv_heads));
  c->head_size = c->head_size ? c->head_size : c->hidden / c->heads;
  SN_TRY(read_size(ctx, o, "head_dim", &c->head_size));
  SN_TRY(read_size(ctx, o, "max_position_embeddings", &c->max_length));
  SN_TRY(read_option(ctx, o, "rms_norm_eps", &c->norm_eps));
  SN_TRY(read_activation(ctx, o, "hidden_act", &c->activation));
  if (k->bias_key)
    SN_TRY(read_flag(ctx, o, "attention_bias", &bias));
  if (k->mlp_bias_key)
    SN_TRY(read_flag(ctx, o, "mlp_bias", &c->mlp_bias));
  c->qkv_bias = bias || k->qkv_bias;
  c->out_bias = bias;
  c->qk_norm = k->qk_norm;
  SN_TRY(k->two_ropes ? read_two_ropes(ctx, o, c) : read_rope(ctx, o, c));
  return read_windows(ctx, o, k, c);
}

static sn_status read_llama(sn_ctx *ctx, const sn_json *o, const kin *k, sn_model_config *c) {
  c->max_length = 2048;
  return read_kin(ctx, o, k, c);
}

/* Gemma 3's text model: its own defaults, and scales that follow from sizes. */
static sn_status read_gemma3(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  double scalar = 256;
  bool both_ways = false;
  c->max_length = 131072;
  c->kv_heads = 4;
  c->head_size = 256;
  c->window = 4096;
  c->tied = c->norm_offset = c->sandwich_norms = true;
  SN_TRY(read_kin(ctx, o, &gemma3, c));
  c->activation = SN_ACT_GELU_TANH;
  c->embed_scale = sqrt((double)c->hidden);
  SN_TRY(read_activation(ctx, o, "hidden_activation", &c->activation));
  SN_TRY(read_number(ctx, o, "query_pre_attn_scalar", &scalar));
  SN_TRY(read_number(ctx, o, "attn_logit_softcapping", &c->attention_softcap));
  SN_TRY(read_number(ctx, o, "final_logit_softcapping", &c->logit_softcap));
  SN_TRY(read_flag(ctx, o, "use_bidirectional_attention", &both_ways));
  if (!(scalar > 0))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT,
                       "config: \"query_pre_attn_scalar\" must be above 0, got %g", scalar);
  if (both_ways)
    return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                       "config: attention in both directions is not supported");
  c->attention_scale = 1 / sqrt(scalar);
  return SN_OK;
}

static sn_status read_gpt2(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  static const char *const keys[] = {"vocab_size", "n_embd", "n_layer", "n_head"};
  bool by_layer = false, weights = true;
  c->family = SN_MODEL_GPT2;
  c->activation = SN_ACT_GELU_TANH;
  c->max_length = 1024;
  c->norm_eps = 1e-5;
  c->tied = true;
  SN_TRY(require_keys(ctx, o, keys, COUNT(keys)));
  SN_TRY(read_size(ctx, o, keys[0], &c->vocab));
  SN_TRY(read_size(ctx, o, keys[1], &c->hidden));
  SN_TRY(read_int(ctx, o, keys[2], 0, SN_MAX_LAYERS, &c->layers));
  SN_TRY(read_size(ctx, o, keys[3], &c->heads));
  SN_TRY(read_size(ctx, o, "n_inner", &c->inner));
  SN_TRY(read_size(ctx, o, "n_positions", &c->max_length));
  SN_TRY(read_option(ctx, o, "layer_norm_epsilon", &c->norm_eps));
  SN_TRY(read_activation(ctx, o, "activation_function", &c->activation));
  SN_TRY(read_flag(ctx, o, "scale_attn_by_inverse_layer_idx", &by_layer));
  SN_TRY(read_flag(ctx, o, "scale_attn_weights", &weights));
  if (by_layer || !weights)
    return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                       "config: GPT-2 with unusual attention scaling is not supported");
  return SN_OK;
}

static sn_status read_family(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  const char *type = NULL;
  SN_TRY(read_text(ctx, o, "model_type", &type));
  if (!type)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: \"model_type\" is missing");
  for (size_t i = 0; i < COUNT(llamas); i++)
    if (strcmp(llamas[i].name, type) == 0)
      return read_llama(ctx, o, &llamas[i], c);
  if (strcmp(type, gemma3.name) == 0)
    return read_gemma3(ctx, o, c);
  if (strcmp(type, "gpt2") == 0)
    return read_gpt2(ctx, o, c);
  return sn_ctx_fail(ctx, SN_ERR_UNSUPPORTED,
                     "config: model_type \"%s\" is not one of llama, mistral, qwen2, qwen3, "
                     "gemma3_text, gpt2",
                     type);
}

/* `dtype` (new) or `torch_dtype` (old). */
static sn_status read_file_dtype(sn_ctx *ctx, const sn_json *o, sn_dtype *out) {
  const char *name = "float32";
  SN_TRY(read_text(ctx, o, get(o, "dtype") ? "dtype" : "torch_dtype", &name));
  *out = strcmp(name, "bfloat16") == 0 ? SN_BF16 : strcmp(name, "float16") == 0 ? SN_F16 : SN_F32;
  return SN_OK;
}

sn_status nn_config_read(sn_ctx *ctx, const sn_json *o, sn_model_config *c) {
  *c = (sn_model_config){.bos = -1, .eos = -1, .init_scale = 0.02};
  if (sn_json_type(o) != SN_JSON_OBJECT)
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "config: expected an object, got %s",
                       sn_json_type_name(sn_json_type(o)));
  SN_TRY(read_family(ctx, o, c));
  SN_TRY(read_file_dtype(ctx, o, &c->file_dtype));
  SN_TRY(read_flag(ctx, o, "tie_word_embeddings", &c->tied));
  SN_TRY(read_option(ctx, o, "initializer_range", &c->init_scale));
  SN_TRY(read_int(ctx, o, "bos_token_id", -1, NN_LARGEST, &c->bos));
  /* Some files list several end tokens; those are for chat, and the first serves here. */
  const sn_json *eos = get(o, "eos_token_id");
  if (sn_json_type(eos) != SN_JSON_ARRAY)
    SN_TRY(read_int(ctx, o, "eos_token_id", -1, NN_LARGEST, &c->eos));
  else if (!sn_json_int(sn_json_at(eos, 0), &c->eos) || c->eos < 0 || c->eos > NN_LARGEST)
    return bad_type(ctx, "eos_token_id", "a token or a list of them", eos);
  return nn_config_finish(ctx, c);
}
