/* See tiny_model.h. */
#include "support/tiny_model.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static void gpt2(sn_model_config *c) {
  c->family = SN_MODEL_GPT2;
  c->kv_heads = 0;
  c->activation = SN_ACT_GELU_TANH;
}

static void llama(sn_model_config *c) { (void)c; }

static void mistral(sn_model_config *c) {
  c->window = 3;
  c->sliding[0] = true; /* the second layer sees everything */
}

static void qwen2(sn_model_config *c) {
  c->qkv_bias = true;
  c->tied = false;
}

static void qwen3(sn_model_config *c) {
  c->qk_norm = true;
  c->tied = false;
  c->head_size = 6;
}

static void gemma3(sn_model_config *c) {
  c->qk_norm = c->norm_offset = c->sandwich_norms = true;
  c->head_size = 6;
  c->activation = SN_ACT_GELU_TANH;
  c->embed_scale = 4;
  c->attention_scale = 0.3;
  c->window = 3;
  c->sliding[0] = true;
  c->rope_sliding.base = 100;
}

static void partial(sn_model_config *c) {
  c->rotary = 2;
  c->qkv_bias = c->out_bias = c->mlp_bias = true;
}

const tiny_family tiny_families[] = {{"gpt2", gpt2},       {"llama", llama}, {"mistral", mistral},
                                     {"qwen2", qwen2},     {"qwen3", qwen3}, {"gemma3", gemma3},
                                     {"partial", partial}, {NULL, NULL}};

sn_model_config tiny_config(const char *name) {
  sn_model_config c = {.family = SN_MODEL_LLAMA,
                       .vocab = TINY_VOCAB,
                       .hidden = 16,
                       .layers = 2,
                       .heads = 4,
                       .kv_heads = 2,
                       .inner = 24,
                       .max_length = TINY_LENGTH,
                       .tied = true,
                       .init_scale = 0.4,
                       .bos = -1,
                       .eos = -1};
  for (const tiny_family *f = tiny_families; f->name; f++)
    if (strcmp(f->name, name) == 0)
      f->configure(&c);
  return c;
}

bool tiny_start(tiny_model *t, const sn_model_config *config) {
  *t = (tiny_model){0};
  if (!CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK))
    return false;
  sn_status status = sn_model_create(t->ctx, config, &t->model);
  if (status == SN_OK)
    status = sn_store_create(t->ctx, &t->store);
  if (status == SN_OK)
    status = sn_model_init(t->model, t->store, 5);
  if (status == SN_OK)
    return true;
  FAIL("%s", sn_ctx_message(t->ctx));
  tiny_end(t);
  return false;
}

void tiny_end(tiny_model *t) {
  sn_store_destroy(t->store);
  sn_model_destroy(t->model);
  sn_ctx_destroy(t->ctx);
  *t = (tiny_model){0};
}

static int32_t tokens[TINY_TOKENS];

static sn_value build_loss(sn_graph *g, const sn_model *model) {
  sn_shape shape = SN_SHAPE(TINY_BATCH, TINY_CONTEXT);
  sn_value ids = sn_input(g, "ids", SN_I32, shape), labels = sn_input(g, "labels", SN_I32, shape);
  sn_model_inputs in = {.ids = ids, .positions = sn_arange(g, SN_I32, TINY_CONTEXT, 0, 1)};
  if (sn_model_get_config(model)->dropout > 0)
    in.key = sn_random_key(g, "train.key");
  return sn_cross_entropy(g, sn_model_logits(model, g, &in), labels, -100, 0, SN_REDUCTION_MEAN);
}

/* Matrices decay, vectors do not. Where dropout reads a key, that is the one state that is no weight. */
static int collect_params(sn_graph *g, sn_value *states, sn_param *params) {
  int n = sn_graph_states(g, states, 256), used = 0;
  for (int i = 0; i < n; i++)
    if (sn_value_type(g, states[i]).dtype == SN_F32)
      params[used++] =
          (sn_param){.state = states[i], .no_decay = sn_value_type(g, states[i]).shape.rank < 2};
  return used;
}

sn_status tiny_lesson_start(tiny_lesson *l, const sn_model *model, sn_store *store,
                            const sn_trainer_options *options) {
  sn_value states[256];
  sn_param params[256];
  *l = (tiny_lesson){.data = {tokens, TINY_TOKENS, TINY_CONTEXT, TINY_BATCH, 11}};
  for (int i = 0; i < TINY_TOKENS; i++)
    tokens[i] = (i * i + 3 * i) % TINY_VOCAB;
  sn_status status = sn_graph_create(sn_model_ctx(model), &l->graph);
  if (status != SN_OK)
    return status;
  sn_value loss = build_loss(l->graph, model);
  int n = collect_params(l->graph, states, params);
  return sn_trainer_create(l->graph, loss, params, n, store, options, &l->trainer);
}

sn_status tiny_lesson_step(tiny_lesson *l, float *out_loss) {
  int32_t ids[TINY_BATCH * TINY_CONTEXT], labels[TINY_BATCH * TINY_CONTEXT];
  sn_session *s = sn_trainer_session(l->trainer);
  sn_token_batch(&l->data, sn_trainer_batches(l->trainer), ids, labels);
  sn_status status = sn_session_write(s, "ids", ids, sizeof ids);
  if (status == SN_OK)
    status = sn_session_write(s, "labels", labels, sizeof labels);
  return status == SN_OK ? sn_trainer_step(l->trainer, out_loss) : status;
}

void tiny_lesson_end(tiny_lesson *l) {
  sn_trainer_destroy(l->trainer);
  sn_graph_destroy(l->graph);
  *l = (tiny_lesson){0};
}
