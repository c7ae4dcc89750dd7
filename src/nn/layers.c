/* Layers that the families share. See model.h. */
#include "nn/model.h"

#include <math.h>
#include <stdio.h>

enum { NAME = 256 };

double nn_norm_eps(const sn_model_config *config) { return fmax(config->norm_eps, 0); }

sn_value nn_weight(const nn_build *b, const char *prefix, const char *name, sn_shape shape,
                   sn_init init) {
  char full[NAME];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  return sn_state(b->g, full, SN_F32, shape, init,
                  init == SN_INIT_NORMAL ? fmax(b->config->init_scale, 0) : 1);
}

sn_value nn_linear(const nn_build *b, sn_value x, const char *prefix, const char *name, int64_t in,
                   int64_t out, bool bias) {
  char full[NAME];
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value w = nn_weight(b, prefix, full, SN_SHAPE(out, in), SN_INIT_NORMAL);
  sn_value y = sn_matmul(b->g, x, w, false, true);
  if (!bias)
    return y;
  snprintf(full, sizeof full, "%s.bias", name);
  return sn_add(b->g, y, nn_weight(b, prefix, full, SN_SHAPE(out), SN_INIT_ZEROS));
}

sn_value nn_activation(const nn_build *b, sn_value x) {
  switch (b->config->activation) {
  case SN_ACT_SILU: return sn_silu(b->g, x);
  case SN_ACT_GELU: return sn_gelu(b->g, x);
  case SN_ACT_GELU_TANH: return sn_gelu_tanh(b->g, x);
  case SN_ACT_RELU: return sn_relu(b->g, x);
  }
  return x;
}

sn_value nn_split_heads(const nn_build *b, sn_value x, int64_t heads, int64_t size) {
  sn_value y = sn_reshape(b->g, x, SN_SHAPE(b->shape.dim[0], b->shape.dim[1], heads, size));
  return sn_transpose(b->g, y, SN_INTS(0, 2, 1, 3));
}

sn_value nn_join_heads(const nn_build *b, sn_value x) {
  sn_value y = sn_transpose(b->g, x, SN_INTS(0, 2, 1, 3));
  int64_t width = b->config->heads * b->config->head_size;
  return sn_reshape(b->g, y, SN_SHAPE(b->shape.dim[0], b->shape.dim[1], width));
}

/* The cache's new value: the rows written from `start` on. */
static sn_value append(const nn_build *b, const char *kind, int64_t layer, sn_value rows) {
  char name[64];
  snprintf(name, sizeof name, "cache.%s.%lld", kind, (long long)layer);
  sn_shape shape =
      SN_SHAPE(b->in->batch, b->config->kv_heads, b->in->capacity, b->config->head_size);
  sn_value cache = sn_state(b->g, name, SN_F32, shape, SN_INIT_ZEROS, 0);
  sn_value grown = sn_update_slice(b->g, cache, rows, b->in->start, 2);
  sn_assign(b->g, cache, grown);
  return grown;
}

sn_value nn_attend(const nn_build *b, int64_t layer, sn_value q, sn_value k, sn_value v) {
  const sn_model_config *c = b->config;
  sn_value kv_length = SN_NONE;
  if (b->in->capacity > 0) {
    k = append(b, "k", layer, k);
    v = append(b, "v", layer, v);
    kv_length = b->in->kv_length;
  }
  return sn_attention(b->g, q, k, v, SN_NONE, SN_NONE, kv_length, SN_NONE, c->attention_scale,
                      c->attention_softcap, SN_CAUSAL_END, c->sliding[layer] ? c->window : 0,
                      SN_LAYOUT_BHSD);
}

sn_value nn_dropout(const nn_build *b, sn_value x) {
  if (b->config->dropout == 0 || b->in->key.id == 0)
    return x;
  return sn_dropout(b->g, x, b->in->key, b->config->dropout, SN_AUTO);
}
