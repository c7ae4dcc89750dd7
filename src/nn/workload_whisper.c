/* Whisper-tiny's encoder: two convolutions over 30 seconds of spectrogram, then 4 pre-norm layers. */
#include "nn/workload.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 4, BANDS = 80, FRAMES = 3000 };

static const sn_model_config config = {.hidden = 384,
                                       .heads = 6,
                                       .kv_heads = 6,
                                       .head_size = 64,
                                       .inner = 1536,
                                       .norm_eps = 1e-5,
                                       .init_scale = 0.02};

static double sound(int64_t i) { return (double)(float)sin((double)i * 0.001); }

static sn_value convolve(const nn_build *b, sn_value x, const char *prefix, int64_t stride) {
  int64_t out = config.hidden, in = sn_value_type(b->g, x).shape.dim[1];
  sn_value w = nn_weight(b, prefix, "weight", SN_SHAPE(out, in, 3), SN_INIT_NORMAL);
  sn_value bias = nn_weight(b, prefix, "bias", SN_SHAPE(out), SN_INIT_ZEROS);
  sn_value y = sn_conv(b->g, x, w, bias, SN_INTS(stride), SN_INTS(1), SN_INTS(1), SN_INTS(1), 1);
  return sn_gelu(b->g, y);
}

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name) {
  char full[64];
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value weight = nn_weight(b, prefix, full, SN_SHAPE(config.hidden), SN_INIT_ONES);
  snprintf(full, sizeof full, "%s.bias", name);
  sn_value bias = nn_weight(b, prefix, full, SN_SHAPE(config.hidden), SN_INIT_ZEROS);
  return sn_layer_norm(b->g, x, weight, bias, 1, config.norm_eps);
}

/* Keys have no bias. */
static sn_value attention(const nn_build *b, sn_value x, const char *prefix) {
  int64_t h = config.hidden;
  sn_value k = nn_linear(b, x, prefix, "self_attn.k_proj", h, h, false);
  sn_value v = nn_linear(b, x, prefix, "self_attn.v_proj", h, h, true);
  sn_value q = nn_linear(b, x, prefix, "self_attn.q_proj", h, h, true);
  return nn_linear(b, workload_attend(b, q, k, v), prefix, "self_attn.out_proj", h, h, true);
}

static sn_value layer(const nn_build *b, sn_value x, int i) {
  char prefix[32];
  snprintf(prefix, sizeof prefix, "layers.%d.", i);
  sn_scope_push(b->g, prefix);
  x = sn_add(b->g, x, attention(b, norm(b, x, prefix, "self_attn_layer_norm"), prefix));
  sn_value y = norm(b, x, prefix, "final_layer_norm");
  y = sn_gelu(b->g, nn_linear(b, y, prefix, "fc1", config.hidden, config.inner, true));
  x = sn_add(b->g, x, nn_linear(b, y, prefix, "fc2", config.inner, config.hidden, true));
  sn_scope_pop(b->g);
  return x;
}

static sn_status build(sn_graph *g, const sn_value *in, sn_workload_values *out) {
  nn_build b = {.config = &config, .g = g};
  sn_value x = convolve(&b, convolve(&b, in[0], "conv1.", 1), "conv2.", 2);
  x = sn_transpose(g, x, SN_INTS(0, 2, 1));
  b.shape = sn_value_type(g, x).shape;
  sn_shape table = SN_SHAPE(b.shape.dim[1], b.shape.dim[2]);
  x = sn_add(g, x, nn_weight(&b, "", "embed_positions.weight", table, SN_INIT_NORMAL));
  for (int i = 0; i < LAYERS; i++)
    x = layer(&b, x, i);
  out->output = norm(&b, x, "", "layer_norm");
  out->loss = workload_mean_square(g, out->output);
  return SN_OK;
}

const sn_workload workload_whisper = {
    .name = "Whisper-tiny",
    .summary = "encoder of a speech model, 30 seconds of sound",
    .inputs = {{"x", SN_F32, {3, {1, BANDS, FRAMES}}, {3, {1, BANDS, FRAMES}}, sound, false}},
    .not_trained = "embed_positions.weight",
    .scale = 0.02f,
    .transposed = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight",
                   "fc1.weight", "fc2.weight"},
    .build = build};
