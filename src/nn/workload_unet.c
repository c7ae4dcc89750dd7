/* StableDiffusion: a small U-Net of residual blocks on three levels, without attention. */
#include "nn/workload.h"

#include <math.h>
#include <stdio.h>

enum { LEVELS = 3, GROUPS = 16, CHANNELS = 4, SIZE = 32 };

static const int64_t width[LEVELS] = {64, 128, 256};
static const double EPS = 1e-5;
static const sn_model_config config = {.init_scale = 0.02};

static double noise(int64_t i) { return (double)sinf((float)((double)i * 0.01)); }
static double target(int64_t i) { return (double)cosf((float)((double)i * 0.007)); }

static sn_value norm_silu(const nn_build *b, sn_value x, const char *prefix, const char *name) {
  char full[64];
  sn_shape channels = SN_SHAPE(sn_value_type(b->g, x).shape.dim[1]);
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value weight = nn_weight(b, prefix, full, channels, SN_INIT_ONES);
  snprintf(full, sizeof full, "%s.bias", name);
  sn_value bias = nn_weight(b, prefix, full, channels, SN_INIT_ZEROS);
  return sn_silu(b->g, sn_group_norm(b->g, x, weight, bias, GROUPS, EPS));
}

static sn_value block(const nn_build *b, sn_value x, const char *prefix, int64_t channels) {
  sn_scope_push(b->g, prefix);
  sn_value y = workload_conv(b, norm_silu(b, x, prefix, "norm1"), prefix, "conv1", channels, 3, 1);
  y = workload_conv(b, norm_silu(b, y, prefix, "norm2"), prefix, "conv2", channels, 3, 1);
  if (sn_value_type(b->g, x).shape.dim[1] != channels)
    x = workload_conv(b, x, prefix, "res_conv", channels, 1, 1);
  sn_scope_pop(b->g);
  return sn_add(b->g, y, x);
}

static sn_value encode(const nn_build *b, sn_value x, sn_value skips[LEVELS]) {
  char name[32];
  for (int i = 0; i < LEVELS; i++) {
    snprintf(name, sizeof name, "encoder_blocks.%d.", i);
    x = skips[i] = block(b, x, name, width[i]);
    snprintf(name, sizeof name, "downsamples.%d", i);
    if (i + 1 < LEVELS)
      x = workload_conv(b, x, "", name, width[i], 3, 2);
  }
  return x;
}

/* From the last level up. */
static sn_value decode(const nn_build *b, sn_value x, const sn_value skips[LEVELS]) {
  char name[32];
  for (int i = 0; i < LEVELS; i++) {
    int level = LEVELS - 1 - i;
    sn_shape s = sn_value_type(b->g, skips[level]).shape;
    if (i > 0)
      x = sn_upsample_nearest(b->g, x, SN_SHAPE(s.dim[2], s.dim[3]), 0, 0);
    x = sn_concat(b->g, (sn_value[]){x, skips[level]}, 2, 1);
    snprintf(name, sizeof name, "decoder_blocks.%d.", i);
    x = block(b, x, name, width[level]);
  }
  return x;
}

static sn_status build(sn_graph *g, const sn_value *in, sn_workload_values *out) {
  nn_build b = {.config = &config, .g = g};
  sn_value skips[LEVELS];
  sn_value x = workload_conv(&b, in[0], "", "conv_in", width[0], 3, 1);
  x = encode(&b, x, skips);
  x = block(&b, x, "middle.", width[LEVELS - 1]);
  x = decode(&b, x, skips);
  out->output = workload_conv(&b, norm_silu(&b, x, "", "norm_out"), "", "conv_out", CHANNELS, 3, 1);
  if (in[1].id)
    out->loss = sn_mse(g, out->output, in[1], SN_REDUCTION_MEAN);
  return SN_OK;
}

const sn_workload workload_unet = {
    .name = "StableDiffusion",
    .summary = "small U-Net of a diffusion model, 2 images of 32 x 32",
    .inputs = {{"x",
                SN_F32,
                {4, {2, CHANNELS, SIZE, SIZE}},
                {4, {1, CHANNELS, SIZE, SIZE}},
                noise,
                false},
               {"target", SN_F32, {4, {2, CHANNELS, SIZE, SIZE}}, {0, {0}}, target, false}},
    .scale = 0.02f,
    .build = build};
