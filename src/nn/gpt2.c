/* GPT-2: layer norms, learned positions, one matrix for q, k and v, weights stored [in, out]. */
#include "nn/model.h"

#include <stdio.h>

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name) {
  char full[64];
  sn_shape shape = SN_SHAPE(b->config->hidden);
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value w = nn_weight(b, prefix, full, shape, SN_INIT_ONES);
  snprintf(full, sizeof full, "%s.bias", name);
  sn_value bias = nn_weight(b, prefix, full, shape, SN_INIT_ZEROS);
  return sn_layer_norm(b->g, x, w, bias, 1, nn_norm_eps(b->config));
}

/* x·W + bias with W [in, out]: what GPT-2's files call a Conv1D. */
static sn_value linear(const nn_build *b, sn_value x, const char *prefix, const char *name,
                       int64_t in, int64_t out) {
  char full[64];
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value w = nn_weight(b, prefix, full, SN_SHAPE(in, out), SN_INIT_NORMAL);
  snprintf(full, sizeof full, "%s.bias", name);
  sn_value bias = nn_weight(b, prefix, full, SN_SHAPE(out), SN_INIT_ZEROS);
  return sn_add(b->g, sn_matmul(b->g, x, w, false, false), bias);
}

static sn_value attention(const nn_build *b, sn_value x, const char *prefix, int64_t layer) {
  const sn_model_config *c = b->config;
  int64_t h = c->hidden;
  sn_value qkv = linear(b, x, prefix, "attn.c_attn", h, 3 * h), part[3];
  for (int i = 0; i < 3; i++)
    part[i] =
        nn_split_heads(b, sn_slice(b->g, qkv, 2, i * h, (i + 1) * h, 1), c->heads, c->head_size);
  sn_value y = nn_attend(b, layer, part[0], part[1], part[2]);
  return linear(b, nn_join_heads(b, y), prefix, "attn.c_proj", h, h);
}

static sn_value mlp(const nn_build *b, sn_value x, const char *prefix) {
  const sn_model_config *c = b->config;
  sn_value y = nn_activation(b, linear(b, x, prefix, "mlp.c_fc", c->hidden, c->inner));
  return linear(b, y, prefix, "mlp.c_proj", c->inner, c->hidden);
}

/* x += attention(norm(x)); x += mlp(norm(x)) */
static sn_value layer(const nn_build *b, sn_value x, int64_t i) {
  char scope[32], prefix[64];
  snprintf(scope, sizeof scope, "h.%lld", (long long)i);
  snprintf(prefix, sizeof prefix, "transformer.%s.", scope);
  sn_scope_push(b->g, scope);
  x = sn_add(b->g, x, nn_dropout(b, attention(b, norm(b, x, prefix, "ln_1"), prefix, i)));
  x = sn_add(b->g, x, nn_dropout(b, mlp(b, norm(b, x, prefix, "ln_2"), prefix)));
  sn_scope_pop(b->g);
  return b->in->mark_recompute ? sn_recompute(b->g, x) : x;
}

sn_value nn_gpt2(const nn_build *b) {
  const sn_model_config *c = b->config;
  const char *prefix = "transformer.";
  sn_value words =
      nn_weight(b, prefix, "wte.weight", SN_SHAPE(c->vocab, c->hidden), SN_INIT_NORMAL);
  sn_value places =
      nn_weight(b, prefix, "wpe.weight", SN_SHAPE(c->max_length, c->hidden), SN_INIT_NORMAL);
  sn_value x =
      sn_add(b->g, sn_gather(b->g, words, b->in->ids), sn_gather(b->g, places, b->in->positions));
  x = nn_dropout(b, x);
  for (int64_t i = 0; i < c->layers; i++)
    x = layer(b, x, i);
  x = norm(b, x, prefix, "ln_f");
  if (c->tied)
    return sn_matmul(b->g, x, words, false, true);
  return nn_linear(b, x, "", "lm_head", c->hidden, c->vocab, false);
}
