/* SmolVLA's action expert: 16 layers that attend in turn to themselves and to what the vision-language model
 * left behind. */
#include "nn/workload.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 16, ACTION = 32, TIME = 1440, CONTEXT = 320 };

static const sn_model_config config = {.hidden = 720,
                                       .heads = 15,
                                       .kv_heads = 5,
                                       .head_size = 64,
                                       .inner = 2048,
                                       .norm_eps = 1e-5,
                                       .init_scale = 0.02};

static double action(int64_t i) { return (double)sinf((float)i * 0.01f); }
static double time_of(int64_t i) { return (double)sinf((float)i * 0.005f); }
static double context(int64_t i) { return (double)cosf((float)i * 0.01f); }

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name) {
  sn_value w = nn_weight(b, prefix, name, SN_SHAPE(config.hidden), SN_INIT_ONES);
  return sn_rms_norm(b->g, x, w, SN_NONE, 1, config.norm_eps);
}

static sn_value linear(const nn_build *b, sn_value x, const char *prefix, const char *name,
                       int64_t out) {
  int64_t in = sn_value_type(b->g, x).shape.dim[2];
  return nn_linear(b, x, prefix, name, in, out, false);
}

static sn_value attention(const nn_build *b, sn_value x, sn_value source, const char *prefix) {
  int64_t d = config.head_size;
  sn_value q = linear(b, x, prefix, "attn.q_proj", config.heads * d);
  sn_value k = linear(b, source, prefix, "attn.k_proj", config.kv_heads * d);
  sn_value v = linear(b, source, prefix, "attn.v_proj", config.kv_heads * d);
  return linear(b, workload_attend(b, q, k, v), prefix, "attn.o_proj", config.hidden);
}

static sn_value mlp(const nn_build *b, sn_value x, const char *prefix) {
  sn_value gate = linear(b, x, prefix, "mlp.gate", config.inner);
  sn_value up = linear(b, x, prefix, "mlp.up", config.inner);
  return linear(b, sn_mul(b->g, sn_silu(b->g, gate), up), prefix, "mlp.down", config.hidden);
}

/* Even layers attend to themselves, odd ones to kv, which is not normalised. */
static sn_value layer(const nn_build *b, sn_value x, sn_value kv, int i) {
  char prefix[32];
  snprintf(prefix, sizeof prefix, "layers.%d.", i);
  sn_scope_push(b->g, prefix);
  sn_value y = norm(b, x, prefix, "norm1.weight");
  x = sn_add(b->g, x, attention(b, y, i % 2 == 0 ? y : kv, prefix));
  y = norm(b, x, prefix, "norm2.weight");
  x = sn_add(b->g, x, mlp(b, y, prefix));
  sn_scope_pop(b->g);
  return x;
}

static sn_status build(sn_graph *g, const sn_value *in, sn_workload_values *out) {
  nn_build b = {.config = &config, .g = g, .shape = sn_value_type(g, in[0]).shape};
  sn_value x = linear(&b, in[0], "", "action_proj", config.hidden);
  x = sn_add(g, x, linear(&b, in[1], "", "time_proj", config.hidden));
  sn_value kv = linear(&b, in[2], "", "kv_proj", config.hidden);
  for (int i = 0; i < LAYERS; i++)
    x = layer(&b, x, kv, i);
  x = norm(&b, x, "", "norm.weight");
  out->output = linear(&b, x, "", "head", ACTION);
  out->loss = workload_mean_square(g, out->output);
  return SN_OK;
}

const sn_workload workload_smolvla = {
    .name = "SmolVLA",
    .summary = "action expert of a vision-language-action model, 50 steps ahead",
    .inputs = {{"action", SN_F32, {3, {1, 50, ACTION}}, {3, {1, 1, ACTION}}, action, false},
               {"time", SN_F32, {3, {1, 1, TIME}}, {3, {1, 1, TIME}}, time_of, false},
               {"context", SN_F32, {3, {1, 16, CONTEXT}}, {3, {1, 1, CONTEXT}}, context, false}},
    .scale = 0.02f,
    .build = build};
