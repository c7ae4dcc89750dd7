/* The model's body and the builders of the families. nn uses the public API only. */
#ifndef SINEW_NN_MODEL_H
#define SINEW_NN_MODEL_H

#include <sinew/json.h>
#include <sinew/model.h>

struct sn_model {
  sn_ctx *ctx;
  sn_model_config config;
  char **names; /* of the weights */
  size_t n_names;
};

/* What a family builds a graph with. */
typedef struct nn_build {
  const sn_model_config *config;
  sn_graph *g;
  const sn_model_inputs *in;
  sn_shape shape; /* of ids: [B, T] */
} nn_build;

/* The largest size of any kind that a model may have. */
enum { NN_LARGEST = 1 << 24 };

/* config.json to config; messages through ctx. */
sn_status nn_config_read(sn_ctx *ctx, const sn_json *json, sn_model_config *out) SN_MUST_USE;
/* Fills defaults and checks that sizes fit together. */
sn_status nn_config_finish(sn_ctx *ctx, sn_model_config *config) SN_MUST_USE;

/* The states of the graph from the file's tensors into the store. */
sn_status nn_load(sn_ctx *ctx, sn_store *store, sn_safetensors *file,
                  const sn_graph *graph) SN_MUST_USE;

sn_value nn_llama(const nn_build *b);
sn_value nn_gpt2(const nn_build *b);

/* --- layers --- */
/* State "<scope><name>" of this shape: a weight. */
sn_value nn_weight(const nn_build *b, const char *prefix, const char *name, sn_shape shape,
                   sn_init init);
/* x·Wᵀ + bias with W [out, in], the layout of PyTorch's Linear. */
/* As layers take it: SN_ZERO is 0. */
double nn_norm_eps(const sn_model_config *config);
sn_value nn_linear(const nn_build *b, sn_value x, const char *prefix, const char *name, int64_t in,
                   int64_t out, bool bias);
sn_value nn_activation(const nn_build *b, sn_value x);
/* [B, T, heads·size] to [B, heads, T, size] and back. */
sn_value nn_split_heads(const nn_build *b, sn_value x, int64_t heads, int64_t size);
sn_value nn_join_heads(const nn_build *b, sn_value x);
/* Attention of a layer, through the cache where there is one. q, k, v are [B, H, T, D]. */
sn_value nn_attend(const nn_build *b, int64_t layer, sn_value q, sn_value k, sn_value v);
/* Dropout when the build has a key. */
sn_value nn_dropout(const nn_build *b, sn_value x);

#endif
