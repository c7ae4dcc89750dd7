/* The Llama family: RMS norms, rotary positions, grouped-query attention, gated MLP. Covers Llama,
 * Mistral (sliding window), Qwen2 (biases), Qwen3 (norms of q and k) and Gemma 3 (norms of 1 + weight before and
 * behind each part, scaled embeddings, other rotary positions in the layers that slide). */
#include "nn/model.h"

#include <stdio.h>

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name,
                     int64_t size) {
  bool offset = b->config->norm_offset;
  sn_value w = nn_weight(b, prefix, name, SN_SHAPE(size), offset ? SN_INIT_ZEROS : SN_INIT_ONES);
  if (offset)
    w = sn_affine(b->g, w, 1, 1);
  return sn_rms_norm(b->g, x, w, SN_NONE, 1, nn_norm_eps(b->config));
}

static sn_value rotate(const nn_build *b, sn_value x, int64_t layer) {
  const sn_model_config *c = b->config;
  const sn_rope_options *r = c->sliding[layer] ? &c->rope_sliding : &c->rope;
  return sn_rope(b->g, x, b->in->positions, 2, c->rotary, r->base, SN_ROPE_HALF, r->scaling,
                 r->factor, r->low, r->high, r->original_length, r->attention_factor, false,
                 r->rounding);
}

static sn_value attention(const nn_build *b, sn_value x, const char *prefix, int64_t layer) {
  const sn_model_config *c = b->config;
  int64_t d = c->head_size;
  sn_value q = nn_linear(b, x, prefix, "q_proj", c->hidden, c->heads * d, c->qkv_bias);
  sn_value k = nn_linear(b, x, prefix, "k_proj", c->hidden, c->kv_heads * d, c->qkv_bias);
  sn_value v = nn_linear(b, x, prefix, "v_proj", c->hidden, c->kv_heads * d, c->qkv_bias);
  q = nn_split_heads(b, q, c->heads, d);
  k = nn_split_heads(b, k, c->kv_heads, d);
  v = nn_split_heads(b, v, c->kv_heads, d);
  if (c->qk_norm) {
    q = norm(b, q, prefix, "q_norm.weight", d);
    k = norm(b, k, prefix, "k_norm.weight", d);
  }
  sn_value y = nn_attend(b, layer, rotate(b, q, layer), rotate(b, k, layer), v);
  return nn_linear(b, nn_join_heads(b, y), prefix, "o_proj", c->heads * d, c->hidden, c->out_bias);
}

static sn_value mlp(const nn_build *b, sn_value x, const char *prefix) {
  const sn_model_config *c = b->config;
  sn_value gate = nn_linear(b, x, prefix, "gate_proj", c->hidden, c->inner, c->mlp_bias);
  sn_value up = nn_linear(b, x, prefix, "up_proj", c->hidden, c->inner, c->mlp_bias);
  sn_value y = sn_mul(b->g, nn_activation(b, gate), up);
  return nn_linear(b, y, prefix, "down_proj", c->inner, c->hidden, c->mlp_bias);
}

/* x += attention(norm(x)); x += mlp(norm(x)); in a sandwich each part's result is normed too. Mind that
 * "post_attention_layernorm" is the norm before the MLP in a plain layer, behind attention in a sandwich. */
static sn_value layer(const nn_build *b, sn_value x, int64_t i) {
  char scope[32], prefix[64], part[96];
  int64_t h = b->config->hidden;
  bool sandwich = b->config->sandwich_norms;
  snprintf(scope, sizeof scope, "layers.%lld", (long long)i);
  snprintf(prefix, sizeof prefix, "model.%s.", scope);
  sn_scope_push(b->g, scope);
  sn_value y = norm(b, x, prefix, "input_layernorm.weight", h);
  snprintf(part, sizeof part, "%sself_attn.", prefix);
  y = attention(b, y, part, i);
  if (sandwich)
    y = norm(b, y, prefix, "post_attention_layernorm.weight", h);
  x = sn_add(b->g, x, nn_dropout(b, y));
  y = norm(b, x, prefix,
           sandwich ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight", h);
  snprintf(part, sizeof part, "%smlp.", prefix);
  y = mlp(b, y, part);
  if (sandwich)
    y = norm(b, y, prefix, "post_feedforward_layernorm.weight", h);
  x = sn_add(b->g, x, nn_dropout(b, y));
  sn_scope_pop(b->g);
  return b->in->mark_recompute ? sn_recompute(b->g, x) : x;
}

/* Rows of the table. Gemma was trained with a scale in the dtype of its weights, so that is part of the model. */
static sn_value embed(const nn_build *b, sn_value table) {
  const sn_model_config *c = b->config;
  sn_value x = sn_gather(b->g, table, b->in->ids);
  bool half = c->file_dtype == SN_F16 || c->file_dtype == SN_BF16;
  if (c->embed_scale == 1)
    return x;
  sn_value scale = sn_scalar(b->g, half ? c->file_dtype : SN_F32, c->embed_scale);
  return sn_mul(b->g, x, half ? sn_cast(b->g, scale, SN_F32) : scale);
}

static sn_value head(const nn_build *b, sn_value x, sn_value table) {
  const sn_model_config *c = b->config;
  sn_value logits = c->tied ? sn_matmul(b->g, x, table, false, true)
                            : nn_linear(b, x, "", "lm_head", c->hidden, c->vocab, false);
  return c->logit_softcap > 0 ? sn_softcap(b->g, logits, c->logit_softcap) : logits;
}

sn_value nn_llama(const nn_build *b) {
  const sn_model_config *c = b->config;
  sn_value table =
      nn_weight(b, "model.", "embed_tokens.weight", SN_SHAPE(c->vocab, c->hidden), SN_INIT_NORMAL);
  sn_value x = nn_dropout(b, embed(b, table));
  for (int64_t i = 0; i < c->layers; i++)
    x = layer(b, x, i);
  return head(b, norm(b, x, "model.", "norm.weight", c->hidden), table);
}
