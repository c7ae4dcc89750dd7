/* Layers that several workloads share. See workload.h. */
#include "nn/workload.h"

#include <math.h>
#include <stdio.h>

/* [B, S, heads·size] to [B, heads, S, size] */
static sn_value split(const nn_build *b, sn_value x, int64_t heads) {
  nn_build of_x = *b;
  of_x.shape = sn_value_type(b->g, x).shape;
  return nn_split_heads(&of_x, x, heads, b->config->head_size);
}

sn_value workload_attend(const nn_build *b, sn_value q, sn_value k, sn_value v) {
  const sn_model_config *c = b->config;
  sn_value y = sn_attention(b->g, split(b, q, c->heads), split(b, k, c->kv_heads),
                            split(b, v, c->kv_heads), SN_NONE, SN_NONE, SN_NONE, SN_NONE,
                            1 / sqrt((double)c->head_size), 0, SN_CAUSAL_NONE, 0, SN_LAYOUT_BHSD);
  return nn_join_heads(b, y);
}

sn_value workload_mean_square(sn_graph *g, sn_value x) {
  return sn_mean(g, sn_sqr(g, x), SN_ALL_AXES, false);
}

sn_value workload_conv(const nn_build *b, sn_value x, const char *prefix, const char *name,
                       int64_t channels, int64_t kernel, int64_t stride) {
  char full[64];
  int64_t pad = kernel / 2, in = sn_value_type(b->g, x).shape.dim[1];
  snprintf(full, sizeof full, "%s.weight", name);
  sn_value w = nn_weight(b, prefix, full, SN_SHAPE(channels, in, kernel, kernel), SN_INIT_NORMAL);
  return sn_conv(b->g, x, w, SN_NONE, SN_INTS(stride, stride), SN_INTS(pad, pad), SN_INTS(pad, pad),
                 SN_INTS(1, 1), 1);
}
