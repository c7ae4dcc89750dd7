/* See train_graph.h. */
#include "support/train_graph.h"

#include <stdlib.h>

train_graph_options train_graph_tiny(sn_model_family family, int64_t layers) {
  return (train_graph_options){.family = family,
                               .layers = layers,
                               .hidden = 8,
                               .heads = 2,
                               .kv_heads = family == SN_MODEL_GPT2 ? 2 : 1,
                               .inner = 12,
                               .vocab = 7,
                               .batch = 2,
                               .tokens = 3};
}

train_graph_options train_graph_smollm2(int64_t layers) {
  return (train_graph_options){.family = SN_MODEL_LLAMA,
                               .layers = layers,
                               .hidden = 576,
                               .heads = 9,
                               .kv_heads = 3,
                               .inner = 1536,
                               .vocab = 49152,
                               .batch = 4,
                               .tokens = 512};
}

static sn_value forward(const train_graph_options *o, const sn_model *model, sn_graph *g) {
  sn_dim batch = o->symbolic_batch ? sn_symbol(g, "batch", o->batch) : o->batch;
  sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(batch, o->tokens));
  sn_value labels = sn_input(g, "labels", SN_I32, SN_SHAPE(batch, o->tokens));
  sn_value positions = sn_input(g, "positions", SN_I32, SN_SHAPE(o->tokens));
  sn_model_inputs in = {.ids = ids, .positions = positions, .mark_recompute = o->recompute};
  if (o->dropout > 0)
    in.key = sn_random_key(g, "key");
  sn_value logits = sn_model_logits(model, g, &in);
  return sn_cross_entropy(g, logits, labels, -100, 0, SN_REDUCTION_MEAN);
}

static sn_status train(sn_graph *g, sn_value loss) {
  int n = sn_graph_states(g, NULL, 0);
  sn_value *states = calloc((size_t)n + 1, sizeof *states),
           *grads = calloc((size_t)n + 1, sizeof *grads);
  sn_param *params = calloc((size_t)n + 1, sizeof *params);
  sn_status status = states && grads && params ? SN_OK : SN_ERR_NO_MEMORY;
  int used = 0;
  if (status == SN_OK) {
    (void)sn_graph_states(g, states, n);
    for (int i = 0; i < n; i++) /* the random key is no parameter */
      if (sn_value_type(g, states[i]).dtype == SN_F32)
        states[used++] = states[i];
    status = sn_grad(g, loss, states, used, grads);
  }
  if (status == SN_OK) {
    for (int i = 0; i < used; i++)
      params[i] =
          (sn_param){.state = states[i], .no_decay = sn_value_type(g, states[i]).shape.rank < 2};
    sn_clip_by_norm(g, sn_global_norm(g, grads, used), 1, grads, used);
    sn_value rate = sn_input(g, "rate", SN_F32, SN_SCALAR);
    sn_value step = sn_state(g, "step", SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
    sn_optimizer adamw = {.kind = SN_ADAMW, .weight_decay = 0.1};
    sn_optimizer_build(g, &adamw, rate, step, params, grads, used, SN_NONE);
    sn_assign(g, step, sn_add(g, step, sn_scalar(g, SN_I32, 1)));
    status = sn_graph_status(g);
  }
  free(states);
  free(grads);
  free(params);
  return status;
}

sn_status train_graph_build(sn_ctx *ctx, const train_graph_options *o, sn_graph **out_graph) {
  sn_model_config config = {.family = o->family,
                            .vocab = o->vocab,
                            .hidden = o->hidden,
                            .layers = o->layers,
                            .heads = o->heads,
                            .kv_heads = o->kv_heads,
                            .inner = o->inner,
                            .max_length = o->tokens,
                            .activation =
                                o->family == SN_MODEL_GPT2 ? SN_ACT_GELU_TANH : SN_ACT_SILU,
                            .tied = true,
                            .dropout = o->dropout,
                            .init_scale = 0.02};
  sn_model *model = NULL;
  *out_graph = NULL;
  sn_status status = sn_model_create(ctx, &config, &model);
  if (status == SN_OK)
    status = sn_graph_create(ctx, out_graph);
  if (status == SN_OK) {
    sn_value loss = forward(o, model, *out_graph);
    sn_output(*out_graph, "loss", loss);
    status = o->forward_only ? sn_graph_status(*out_graph) : train(*out_graph, loss);
  }
  if (status != SN_OK) {
    sn_graph_destroy(*out_graph);
    *out_graph = NULL;
  }
  sn_model_destroy(model);
  return status;
}
