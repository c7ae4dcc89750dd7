/* Models: a configuration, the names of its weights, and the graphs that it builds. */
#include "base/null.h"

#include "nn/model.h"

#include <stdio.h>
#include <string.h>

sn_value sn_model_logits(const sn_model *m, sn_graph *g, const sn_model_inputs *in) {
  NEEDS_OR(m, (sn_value){UINT32_MAX});
  NEEDS_OR(g, (sn_value){UINT32_MAX});
  NEEDS_OR(in, (sn_value){UINT32_MAX});
  nn_build b = {.config = &m->config, .g = g, .in = in};
  b.shape = sn_value_type(g, in->ids).shape;
  sn_value logits = m->config.family == SN_MODEL_GPT2 ? nn_gpt2(&b) : nn_llama(&b);
  return sn_label(g, logits, "logits");
}

static void free_names(sn_model *m) {
  for (size_t i = 0; m->names && i < m->n_names; i++)
    if (m->names[i])
      sn_ctx_free(m->ctx, m->names[i], strlen(m->names[i]) + 1);
  sn_ctx_free(m->ctx, m->names, m->n_names * sizeof *m->names);
}

void sn_model_destroy(sn_model *m) {
  if (!m)
    return;
  sn_ctx *ctx = m->ctx;
  free_names(m);
  sn_ctx_free(ctx, m, sizeof *m);
}

/* A graph of the model for one row of one id: what it reads is what it weighs. */
static sn_status weight_graph(const sn_model *m, sn_graph **out) {
  SN_TRY(sn_graph_create(m->ctx, out));
  sn_value ids = sn_input(*out, "ids", SN_I32, SN_SHAPE(1, 1));
  sn_value positions = sn_input(*out, "positions", SN_I32, SN_SHAPE(1));
  sn_output(*out, "logits",
            sn_model_logits(m, *out, &(sn_model_inputs){.ids = ids, .positions = positions}));
  sn_status status = sn_graph_status(*out);
  if (status != SN_OK) {
    sn_graph_destroy(*out);
    *out = NULL;
  }
  return status;
}

static sn_status copy_names(sn_model *m, const sn_graph *g, const sn_value *states) {
  for (size_t i = 0; i < m->n_names; i++) {
    const char *name = sn_value_name(g, states[i]);
    m->names[i] = sn_ctx_alloc(m->ctx, strlen(name) + 1);
    if (!m->names[i])
      return SN_ERR_NO_MEMORY;
    memcpy(m->names[i], name, strlen(name) + 1);
  }
  return SN_OK;
}

static sn_status collect_names(sn_model *m) {
  sn_graph *g;
  sn_status status = SN_OK;
  SN_TRY(weight_graph(m, &g));
  size_t n = (size_t)sn_graph_states(g, NULL, 0);
  sn_value *states = sn_ctx_alloc(m->ctx, n * sizeof *states);
  m->names = sn_ctx_alloc(m->ctx, n * sizeof *m->names);
  if (states && m->names) {
    m->n_names = n;
    sn_graph_states(g, states, (int)n);
    status = copy_names(m, g, states);
  } else {
    status = SN_ERR_NO_MEMORY;
    sn_ctx_free(m->ctx, m->names, n * sizeof *m->names);
    m->names = NULL;
  }
  sn_ctx_free(m->ctx, states, n * sizeof *states);
  sn_graph_destroy(g);
  return status;
}

sn_status sn_model_create(sn_ctx *ctx, const sn_model_config *config, sn_model **out_model) {
  CLEARS(out_model);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, config);
  NEEDS_ARGUMENT(ctx, out_model);
  sn_model *m = sn_ctx_alloc(ctx, sizeof *m);
  if (!m)
    return SN_ERR_NO_MEMORY;
  m->ctx = ctx;
  m->config = *config;
  sn_status status = nn_config_finish(ctx, &m->config);
  if (status == SN_OK)
    status = collect_names(m);
  if (status == SN_OK)
    *out_model = m;
  else
    sn_model_destroy(m);
  return status;
}

sn_status sn_model_open(sn_ctx *ctx, const char *folder, sn_model **out_model) {
  CLEARS(out_model);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, folder);
  NEEDS_ARGUMENT(ctx, out_model);
  char path[4096];
  sn_json_doc *doc;
  sn_model_config *config;
  int n = snprintf(path, sizeof path, "%s/config.json", folder);
  if (n < 0 || (size_t)n >= sizeof path)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "model: the path is too long");
  SN_TRY(sn_json_parse_file(ctx, path, &doc));
  config = sn_ctx_alloc(ctx, sizeof *config);
  sn_status status = config ? nn_config_read(ctx, sn_json_root(doc), config) : SN_ERR_NO_MEMORY;
  if (status == SN_OK)
    status = sn_model_create(ctx, config, out_model);
  sn_ctx_free(ctx, config, sizeof *config);
  sn_json_destroy(doc);
  return status == SN_OK ? status : sn_ctx_within(ctx, status, "%s", path);
}

sn_ctx *sn_model_ctx(const sn_model *m) {
  NEEDS_OR(m, NULL);
  return m->ctx;
}
const sn_model_config *sn_model_get_config(const sn_model *m) {
  NEEDS_OR(m, NULL);
  return &m->config;
}
size_t sn_model_weight_count(const sn_model *m) {
  NEEDS_OR(m, 0);
  return m->n_names;
}
const char *const *sn_model_weight_names(const sn_model *m) {
  NEEDS_OR(m, NULL);
  return (const char *const *)m->names;
}

sn_status sn_model_init(const sn_model *m, sn_store *store, uint64_t seed) {
  NEEDS(m);
  NEEDS_ARGUMENT(m->ctx, store);
  sn_graph *g;
  SN_TRY(weight_graph(m, &g));
  sn_status status = sn_store_init(store, g, seed);
  sn_graph_destroy(g);
  return status;
}

sn_status sn_model_load(const sn_model *m, sn_store *store, const char *folder) {
  NEEDS(m);
  NEEDS_ARGUMENT(m->ctx, store);
  NEEDS_ARGUMENT(m->ctx, folder);
  sn_safetensors *file;
  sn_graph *g;
  SN_TRY(sn_safetensors_open_model(m->ctx, folder, &file));
  sn_status status = weight_graph(m, &g);
  if (status == SN_OK) {
    status = nn_load(m->ctx, store, file, g);
    sn_graph_destroy(g);
  }
  sn_safetensors_close(file);
  return status == SN_OK ? status : sn_ctx_within(m->ctx, status, "%s", folder);
}
