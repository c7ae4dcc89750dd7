/* See image_graphs.h. */
#include "support/image_graphs.h"

#include "ir/graph.h"
#include "ops/table.h"

#include <stdio.h>

enum { BATCH = 2, SIDE = 6, WIDE = 5 };

static sn_value weights(sn_graph *g, const char *name, sn_shape shape) {
  return sn_state(g, name, SN_F32, shape, SN_INIT_ZEROS, 0);
}

static sn_value vector(sn_graph *g, const char *name, int64_t n) {
  return weights(g, name, SN_SHAPE(n));
}

static sn_value image(sn_graph *g) {
  return sn_input(g, "x", SN_F32, SN_SHAPE(BATCH, 3, SIDE, WIDE));
}

/* 3 x 3 around each place. */
static sn_value conv3(sn_graph *g, sn_value x, const char *name, int64_t from, int64_t to,
                      int64_t stride) {
  return sn_conv(g, x, weights(g, name, SN_SHAPE(to, from, 3, 3)), SN_NONE, SN_INTS(stride, stride),
                 SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 1);
}

static sn_value conv1(sn_graph *g, sn_value x, const char *name, int64_t from, int64_t to) {
  return sn_conv(g, x, weights(g, name, SN_SHAPE(to, from, 1, 1)), vector(g, "bias", to),
                 SN_INTS(1, 1), SN_INTS(0, 0), SN_INTS(0, 0), SN_INTS(1, 1), 1);
}

static sn_value pool2(sn_graph *g, sn_value x, sn_pool_kind kind) {
  return sn_pool(g, x, kind, SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(1, 1), SN_INTS(1, 1),
                 SN_INTS(1, 1), false, false);
}

/* --- models --- */

static sn_value chain(sn_graph *g, int64_t c) {
  sn_value y = sn_relu(g, conv3(g, image(g), "a", 3, c, 1));
  y = sn_relu(g, conv3(g, y, "b", c, 2 * c, 2));
  return sn_mean(g, conv1(g, y, "c", 2 * c, c), SN_INTS(2, 3), false);
}

static sn_value residual(sn_graph *g, int64_t c) {
  sn_value x = conv3(g, image(g), "a", 3, c, 1);
  sn_value y =
      sn_silu(g, sn_group_norm(g, x, vector(g, "gain", c), vector(g, "shift", c), 4, 1e-5));
  return sn_add(g, x, conv3(g, y, "b", c, c, 1));
}

static sn_value skips(sn_graph *g, int64_t c) {
  sn_value skip = residual(g, c);
  sn_value y = conv3(g, sn_tanh(g, skip), "d", c, c, 2);
  y = sn_upsample_nearest(g, y, SN_SHAPE(SIDE, WIDE), 0, 0);
  sn_value both[] = {skip, y};
  return conv3(g, sn_concat(g, both, 2, 1), "e", 2 * c, 4, 1);
}

/* A norm reads the concat first, a convolution later. */
static sn_value decoder(sn_graph *g, int64_t c) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(BATCH, 3, SIDE, SIDE));
  sn_value skip = sn_relu(g, conv3(g, x, "a", 3, c, 1)), up = conv3(g, skip, "b", c, 2 * c, 2);
  up = sn_upsample_nearest(g, up, SN_SHAPE(SIDE, SIDE), 0, 0);
  sn_value both[] = {up, skip};
  x = sn_concat(g, both, 2, 1);
  sn_value y =
      sn_silu(g, sn_group_norm(g, x, vector(g, "gain", 3 * c), vector(g, "shift", 3 * c), 4, 1e-5));
  return sn_add(g, conv3(g, y, "d", 3 * c, c, 1), conv1(g, x, "e", 3 * c, c));
}

static sn_value batches(sn_graph *g, int64_t c) {
  sn_value mean = vector(g, "mean", c), var = vector(g, "var", c);
  sn_value y = sn_batch_norm_train(g, conv3(g, image(g), "a", 3, c, 1), vector(g, "gain", c),
                                   vector(g, "shift", c), mean, var, 0.1, 1e-3);
  y = pool2(g, sn_relu(g, y), SN_POOL_MAX);
  y = pool2(g, conv3(g, y, "b", c, c, 1), SN_POOL_AVG);
  return sn_sum(g, conv1(g, y, "c", c, 4), SN_INTS(2, 3), false);
}

static sn_value signal(sn_graph *g, int64_t c) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(BATCH, 3, 20));
  sn_value y = sn_gelu(g, sn_conv(g, x, weights(g, "a", SN_SHAPE(c, 3, 3)), vector(g, "bias", c),
                                  SN_INTS(1), SN_INTS(1), SN_INTS(1), SN_INTS(1), 1));
  y = sn_gelu(g, sn_conv(g, y, weights(g, "b", SN_SHAPE(c, c, 3)), SN_NONE, SN_INTS(2), SN_INTS(1),
                         SN_INTS(1), SN_INTS(1), 1));
  y = sn_transpose(g, y, SN_INTS(0, 2, 1));
  return sn_matmul(g, sn_layer_norm(g, y, SN_NONE, SN_NONE, 1, 1e-5),
                   weights(g, "w", SN_SHAPE(c, 4)), false, false);
}

static sn_value groups(sn_graph *g, int64_t c) {
  sn_value y = conv3(g, image(g), "a", 3, c, 1);
  y = sn_conv(g, sn_relu(g, y), weights(g, "b", SN_SHAPE(c, 1, 3, 3)), SN_NONE, SN_INTS(1, 1),
              SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(2, 2), c);
  y = sn_conv(g, sn_relu(g, y), weights(g, "c", SN_SHAPE(2 * c, c / 4, 3, 3)), SN_NONE,
              SN_INTS(2, 1), SN_INTS(1, 0), SN_INTS(0, 1), SN_INTS(1, 1), 4);
  return sn_conv_transpose(g, sn_relu(g, y), weights(g, "d", SN_SHAPE(2 * c, 3, 2, 2)), SN_NONE,
                           SN_INTS(2, 2), SN_INTS(0, 0), SN_INTS(0, 0), SN_INTS(1, 1),
                           SN_INTS(0, 0), 1);
}

/* Pixels as tokens, and back. */
static sn_value tokens(sn_graph *g, int64_t c) {
  sn_value x = conv3(g, image(g), "a", 3, c, 1);
  sn_value y = sn_transpose(g, sn_reshape(g, x, SN_SHAPE(BATCH, c, SIDE * WIDE)), SN_INTS(0, 2, 1));
  sn_value qkv = sn_matmul(g, y, weights(g, "qkv", SN_SHAPE(c, c)), false, false);
  qkv = sn_reshape(g, qkv, SN_SHAPE(BATCH, SIDE * WIDE, 2, c / 2));
  y = sn_attention(g, qkv, qkv, qkv, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.3, 0, SN_CAUSAL_NONE, 0,
                   SN_LAYOUT_BSHD);
  y = sn_transpose(g, sn_reshape(g, y, SN_SHAPE(BATCH, SIDE * WIDE, c)), SN_INTS(0, 2, 1));
  y = sn_add(g, x, sn_reshape(g, y, SN_SHAPE(BATCH, c, SIDE, WIDE)));
  return conv3(g, y, "b", c, 4, 1);
}

/* --- values that stay as they are --- */

/* A core works on them. */
static sn_value cores(sn_graph *g, int64_t c) {
  sn_value y = sn_cumsum(g, conv3(g, image(g), "a", 3, c, 1), 1, false, false);
  return conv3(g, y, "b", c, 4, 1);
}

/* They are read where an input says. */
static sn_value chosen(sn_graph *g, int64_t c) {
  sn_value at = sn_input(g, "at", SN_I32, SN_SHAPE(4));
  sn_value y = sn_relu(g, conv3(g, image(g), "a", 3, c, 1));
  return sn_index_select(g, y, at, 2);
}

static sn_value updated(sn_graph *g, int64_t c) {
  sn_value at = sn_input(g, "at", SN_I32, SN_SCALAR);
  sn_value base = sn_exp(g, sn_input(g, "base", SN_F32, SN_SHAPE(BATCH, c, SIDE + 4, WIDE)));
  sn_value y = sn_update_slice(g, base, conv3(g, image(g), "a", 3, c, 1), at, 2);
  return conv3(g, y, "b", c, 4, 1);
}

/* Sizes of images that are not known. */
static sn_value unknown(sn_graph *g, int64_t c) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 3), 3, SIDE, WIDE));
  return conv3(g, sn_relu(g, conv3(g, x, "a", 3, c, 1)), "b", c, 4, 1);
}

static const image_graph graphs[] = {
    {"chain", chain, false, 3},       {"chain, trained", chain, true, 4},
    {"residual", residual, false, 2}, {"residual, trained", residual, true, 3},
    {"skips", skips, false, 4},       {"skips, trained", skips, true, 6},
    {"decoder", decoder, false, 4},   {"decoder, trained", decoder, true, 5},
    {"batches", batches, false, 3},   {"batches, trained", batches, true, 4},
    {"signal", signal, false, 2},     {"signal, trained", signal, true, 3},
    {"groups", groups, false, 3},     {"groups, trained", groups, true, 4},
    {"tokens", tokens, false, 1},     {"tokens, trained", tokens, true, 2},
    {"cores", cores, false, -1},      {"chosen", chosen, false, -1},
    {"updated", updated, false, 0},   {"unknown", unknown, false, -1},
};

const image_graph *image_graph_at(int k) {
  return k >= 0 && k < (int)(sizeof graphs / sizeof *graphs) ? &graphs[k] : NULL;
}

sn_status image_graph_build(const image_graph *of, sn_graph *g, int64_t channels) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "gain", "shift", "w", "qkv"};
  enum { MOST = sizeof names / sizeof *names };
  sn_value y = of->build(g, channels), all[MOST], grads[MOST];
  int n = 0;
  sn_output(g, "y", y);
  if (!of->trains)
    return sn_graph_status(g);
  for (int i = 0; i < MOST; i++) {
    all[n] = graph_find_named(g, OP_state, names[i]);
    n += all[n].id != 0;
  }
  sn_shape shape = sn_value_type(g, y).shape;
  sn_ints axes = {.n = shape.rank};
  for (int i = 0; i < axes.n; i++)
    axes.v[i] = i;
  sn_status status = sn_grad(g, sn_sum(g, sn_sqr(g, y), axes, false), all, n, grads);
  for (int i = 0; i < n && status == SN_OK; i++) {
    char name[16];
    snprintf(name, sizeof name, "d%d", i);
    sn_output(g, name, grads[i]);
  }
  return status == SN_OK ? sn_graph_status(g) : status;
}
