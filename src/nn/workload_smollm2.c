/* SmolLM2-135M: a Llama of 30 layers, predicting ids 1 … 128 from 0 … 127. */
#include "nn/workload.h"

static double id(int64_t i) { return (double)i; }
static double next_id(int64_t i) { return (double)i + 1; }

static sn_status build(sn_graph *g, const sn_value *in, sn_workload_values *out) {
  sn_model_config config = {.family = SN_MODEL_LLAMA,
                            .vocab = 49152,
                            .hidden = 576,
                            .layers = 30,
                            .heads = 9,
                            .kv_heads = 3,
                            .head_size = 64,
                            .inner = 1536,
                            .max_length = 8192,
                            .norm_eps = 1e-6,
                            .activation = SN_ACT_SILU,
                            .rope = {.base = 10000}};
  sn_model *model;
  SN_TRY(sn_model_create(sn_graph_ctx(g), &config, &model));
  sn_value positions = sn_arange(g, SN_I32, sn_value_type(g, in[0]).shape.dim[1], 0, 1);
  out->output = sn_model_logits(model, g, &(sn_model_inputs){.ids = in[0], .positions = positions});
  if (in[1].id)
    out->loss = sn_cross_entropy(g, out->output, in[1], -100, 0, SN_REDUCTION_MEAN);
  sn_model_destroy(model);
  return SN_OK;
}

const sn_workload workload_smollm2 = {
    .name = "SmolLM2-135M",
    .summary = "language model: Llama of 30 layers, 128 tokens",
    .inputs = {{"ids", SN_I32, {2, {1, 128}}, {2, {1, 1}}, id, false},
               {"labels", SN_I32, {2, {1, 128}}, {0, {0}}, next_id, false}},
    .scale = 0.02f,
    .build = build};
