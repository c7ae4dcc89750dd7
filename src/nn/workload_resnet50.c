/* ResNet-50 as torchvision has it, the stride in the 3×3 convolution; batch norm in inference form with mean
 * 0 and variance 1, and trained as such. */
#include "nn/workload.h"

#include <math.h>
#include <sinew/compose.h>
#include <stdio.h>

enum { STAGES = 4, EXPANSION = 4, CLASSES = 1000, SIZE = 224 };

static const double EPS = 1e-5;
static const sn_model_config config = {.init_scale = 0.02};

static double pixel(int64_t i) { return (double)sinf((float)((double)i * 0.001)); }
static double label(int64_t i) { return (double)i; }

static sn_value norm(const nn_build *b, sn_value x, const char *prefix, const char *name) {
  char full[64];
  sn_shape channels = SN_SHAPE(sn_value_type(b->g, x).shape.dim[1]);
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value weight = nn_weight(b, prefix, full, channels, SN_INIT_ONES);
  snprintf(full, sizeof full, "%s.bias", name);
  sn_value bias = nn_weight(b, prefix, full, channels, SN_INIT_ZEROS);
  sn_value mean = sn_full(b->g, SN_F32, channels, 0), var = sn_full(b->g, SN_F32, channels, 1);
  return sn_batch_norm(b->g, x, weight, bias, mean, var, EPS);
}

/* 1×1 down to `width` channels, 3×3, 1×1 up again, around them the input, fitted where it must be. */
static sn_value bottleneck(const nn_build *b, sn_value x, const char *prefix, int64_t width,
                           int64_t stride) {
  sn_graph *g = b->g;
  sn_scope_push(g, prefix);
  sn_value y = workload_conv(b, x, prefix, "conv1", width, 1, 1);
  y = sn_relu(g, norm(b, y, prefix, "bn1"));
  y = workload_conv(b, y, prefix, "conv2", width, 3, stride);
  y = sn_relu(g, norm(b, y, prefix, "bn2"));
  y = workload_conv(b, y, prefix, "conv3", width * EXPANSION, 1, 1);
  y = norm(b, y, prefix, "bn3");
  if (stride != 1 || sn_value_type(g, x).shape.dim[1] != width * EXPANSION) {
    x = workload_conv(b, x, prefix, "downsample.0", width * EXPANSION, 1, stride);
    x = norm(b, x, prefix, "downsample.1");
  }
  sn_scope_pop(g);
  return sn_relu(g, sn_add(g, y, x));
}

static sn_value stages(const nn_build *b, sn_value x) {
  static const int blocks[STAGES] = {3, 4, 6, 3};
  char prefix[32];
  for (int s = 0; s < STAGES; s++)
    for (int i = 0; i < blocks[s]; i++) {
      snprintf(prefix, sizeof prefix, "layer%d.%d.", s + 1, i);
      x = bottleneck(b, x, prefix, INT64_C(64) << s, s > 0 && i == 0 ? 2 : 1);
    }
  return x;
}

static sn_status build(sn_graph *g, const sn_value *in, sn_workload_values *out) {
  nn_build b = {.config = &config, .g = g};
  sn_value x = workload_conv(&b, in[0], "", "conv1", 64, 7, 2);
  x = sn_relu(g, norm(&b, x, "", "bn1"));
  x = sn_pool(g, x, SN_POOL_MAX, SN_INTS(3, 3), SN_INTS(2, 2), SN_INTS(1, 1), SN_INTS(1, 1),
              SN_INTS(1, 1), false, false);
  x = sn_global_avg_pool(g, stages(&b, x));
  sn_shape s = sn_value_type(g, x).shape;
  x = sn_reshape(g, x, SN_SHAPE(s.dim[0], s.dim[1]));
  out->output = nn_linear(&b, x, "", "fc", s.dim[1], CLASSES, true);
  if (in[1].id)
    out->loss = sn_cross_entropy(g, out->output, in[1], -100, 0, SN_REDUCTION_MEAN);
  return SN_OK;
}

const sn_workload workload_resnet50 = {
    .name = "ResNet-50",
    .summary = "image classifier, 4 images of 224 x 224",
    .inputs = {{"x", SN_F32, {4, {4, 3, SIZE, SIZE}}, {4, {1, 3, SIZE, SIZE}}, pixel, true},
               {"labels", SN_I32, {1, {4}}, {0, {0}}, label, false}},
    .scale = 0.01f,
    .transposed = {"fc.weight"},
    .unit_norms = "layer",
    .build = build};
