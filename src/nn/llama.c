/* The Llama family: RMS norms, rotary positions, grouped-query attention, gated MLP. Covers Llama,
 * Mistral (sliding window), Qwen2 (biases) and Qwen3 (norms of q and k). */
#include "nn/model.h"

#include <stdio.h>

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name,
                     int64_t size) {
  sn_value w = nn_weight(b, prefix, name, SN_SHAPE(size), SN_INIT_ONES);
  return sn_rms_norm(b->g, x, w, SN_NONE, 1, b->config->norm_eps);
}

static sn_value rotate(const nn_build *b, sn_value x) {
  const sn_rope_options *r = &b->config->rope;
  return sn_rope(b->g, x, b->in->positions, 2, b->config->rotary, r->base, SN_ROPE_HALF, r->scaling,
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
  sn_value y = nn_attend(b, layer, rotate(b, q), rotate(b, k), v);
  return nn_linear(b, nn_join_heads(b, y), prefix, "o_proj", c->heads * d, c->hidden, c->out_bias);
}

static sn_value mlp(const nn_build *b, sn_value x, const char *prefix) {
  const sn_model_config *c = b->config;
  sn_value gate = nn_linear(b, x, prefix, "gate_proj", c->hidden, c->inner, c->mlp_bias);
  sn_value up = nn_linear(b, x, prefix, "up_proj", c->hidden, c->inner, c->mlp_bias);
  sn_value y = sn_mul(b->g, nn_activation(b, gate), up);
  return nn_linear(b, y, prefix, "down_proj", c->inner, c->hidden, c->mlp_bias);
}

/* x += attention(norm(x)); x += mlp(norm(x)) */
static sn_value layer(const nn_build *b, sn_value x, int64_t i) {
  char scope[32], prefix[64], part[96];
  int64_t h = b->config->hidden;
  snprintf(scope, sizeof scope, "layers.%lld", (long long)i);
  snprintf(prefix, sizeof prefix, "model.%s.", scope);
  sn_scope_push(b->g, scope);
  sn_value y = norm(b, x, prefix, "input_layernorm.weight", h);
  snprintf(part, sizeof part, "%sself_attn.", prefix);
  x = sn_add(b->g, x, nn_dropout(b, attention(b, y, part, i)));
  y = norm(b, x, prefix, "post_attention_layernorm.weight", h);
  snprintf(part, sizeof part, "%smlp.", prefix);
  x = sn_add(b->g, x, nn_dropout(b, mlp(b, y, part)));
  sn_scope_pop(b->g);
  return b->in->mark_recompute ? sn_recompute(b->g, x) : x;
}

sn_value nn_llama(const nn_build *b) {
  const sn_model_config *c = b->config;
  sn_value table =
      nn_weight(b, "model.", "embed_tokens.weight", SN_SHAPE(c->vocab, c->hidden), SN_INIT_NORMAL);
  sn_value x = nn_dropout(b, sn_gather(b->g, table, b->in->ids));
  for (int64_t i = 0; i < c->layers; i++)
    x = layer(b, x, i);
  x = norm(b, x, "model.", "norm.weight", c->hidden);
  if (c->tied)
    return sn_matmul(b->g, x, table, false, true);
  return nn_linear(b, x, "", "lm_head", c->hidden, c->vocab, false);
}
