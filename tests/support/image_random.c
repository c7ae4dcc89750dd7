/* See image_graphs.h: random graphs of what stands between convolutions. Values are images [2, C, H, W], channels 4, 8 or 12. */
#include "support/image_graphs.h"

#include <stdio.h>

enum { IMAGES = 24, BATCH = 2 };

typedef struct maker {
  sn_graph *g;
  uint64_t state;
  sn_value at; /* i32: rows to choose */
  sn_value made[IMAGES];
  int n, names;
} maker;

static int64_t draw(maker *m, int64_t below) {
  m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)(m->state >> 33) % below;
}

static const char *name(maker *m, char out[16]) {
  snprintf(out, 16, "s%d", m->names++);
  return out;
}

static sn_value state(maker *m, sn_shape shape) {
  char of[16];
  return sn_state(m->g, name(m, of), SN_F32, shape, SN_INIT_ZEROS, 0);
}

static sn_value any(maker *m) { return m->made[draw(m, m->n)]; }
static sn_shape shape_of(const maker *m, sn_value x) { return sn_value_type(m->g, x).shape; }

/* Another of the same shape; itself if need be. */
static sn_value like(maker *m, sn_value x) {
  sn_shape s = shape_of(m, x);
  for (int k = 0; k < 8; k++) {
    sn_value y = any(m);
    sn_shape t = shape_of(m, y);
    if (y.id != x.id && s.dim[1] == t.dim[1] && s.dim[2] == t.dim[2] && s.dim[3] == t.dim[3])
      return y;
  }
  return x;
}

/* --- ops --- */

static sn_value add_conv(maker *m, sn_value x) {
  sn_shape s = shape_of(m, x);
  int64_t side = s.dim[2] > 2 && s.dim[3] > 2 ? 1 + 2 * draw(m, 2) : 1, stride = 1 + draw(m, 2);
  int64_t groups = draw(m, 4) ? 1 : 4, to = 4 * (1 + draw(m, 3)), pad = side / 2;
  sn_value w = state(m, SN_SHAPE(to, s.dim[1] / groups, side, side));
  return sn_conv(m->g, x, w, draw(m, 2) ? SN_NONE : state(m, SN_SHAPE(to)), SN_INTS(stride, stride),
                 SN_INTS(pad, pad), SN_INTS(pad, pad), SN_INTS(1, 1), groups);
}

static sn_value add_pointwise(maker *m, sn_value x) {
  switch (draw(m, 5)) {
  case 0: return sn_relu(m->g, x);
  case 1: return sn_tanh(m->g, x);
  case 2: return sn_mul(m->g, x, like(m, x));
  case 3: return sn_mul(m->g, x, state(m, SN_SHAPE(1, shape_of(m, x).dim[1], 1, 1)));
  default: return sn_add(m->g, x, like(m, x));
  }
}

static sn_value add_norm(maker *m, sn_value x) {
  int64_t c = shape_of(m, x).dim[1];
  sn_value gain = state(m, SN_SHAPE(c)), shift = state(m, SN_SHAPE(c));
  if (draw(m, 2))
    return sn_group_norm(m->g, x, gain, shift, draw(m, 2) ? 2 : 4, 1e-2);
  return sn_batch_norm_train(m->g, x, gain, shift, state(m, SN_SHAPE(c)), state(m, SN_SHAPE(c)),
                             0.1, 1e-2);
}

static sn_value add_move(maker *m, sn_value x) {
  sn_shape s = shape_of(m, x);
  switch (draw(m, 6)) {
  case 0: return sn_flip(m->g, x, SN_INTS(1 + draw(m, 3)));
  case 1: {
    sn_value both[] = {x, like(m, x)};
    return sn_slice(m->g, sn_concat(m->g, both, 2, 1), 1, 2, 2 + s.dim[1], 1);
  }
  case 2: return sn_pad(m->g, x, SN_INTS(0, 0, 1, 0), SN_INTS(0, 0, 0, 1), SN_PAD_CONSTANT, 0.5);
  case 3: return sn_upsample_nearest(m->g, x, SN_SHAPE(s.dim[2] + 2, 2 * s.dim[3]), 0, 0);
  case 4: return sn_slice(m->g, x, 3, 0, s.dim[3] > 2 ? s.dim[3] - 1 : s.dim[3], 1);
  default: return sn_transpose(m->g, x, SN_INTS(0, 1, 3, 2));
  }
}

/* Another shape, something there, and back. */
static sn_value add_reshaped(maker *m, sn_value x) {
  sn_shape s = shape_of(m, x);
  int64_t c = s.dim[1], p = s.dim[2] * s.dim[3];
  switch (draw(m, 4)) {
  case 0: x = sn_softmax(m->g, sn_reshape(m->g, x, SN_SHAPE(BATCH, 2, c / 2 * p)), 2); break;
  case 1: x = sn_exp(m->g, sn_tanh(m->g, sn_reshape(m->g, x, SN_SHAPE(BATCH, c / 2, 2, p)))); break;
  case 2: {
    sn_value rows =
        sn_transpose(m->g, sn_reshape(m->g, x, SN_SHAPE(BATCH, c, p)), SN_INTS(0, 2, 1));
    rows = sn_matmul(m->g, rows, state(m, SN_SHAPE(c, c)), false, false);
    x = sn_transpose(m->g, rows, SN_INTS(0, 2, 1));
    break;
  }
  default: x = sn_cumsum(m->g, sn_reshape(m->g, x, SN_SHAPE(BATCH, c * p)), 1, false, false); break;
  }
  return sn_reshape(m->g, x, s);
}

static sn_value add_pool(maker *m, sn_value x) {
  sn_shape s = shape_of(m, x);
  if (s.dim[2] < 3 || s.dim[3] < 3)
    return x;
  return sn_pool(m->g, x, draw(m, 2) ? SN_POOL_MAX : SN_POOL_AVG, SN_INTS(3, 2), SN_INTS(2, 1),
                 SN_INTS(1, 0), SN_INTS(0, 1), SN_INTS(1, 1), false, false);
}

static sn_value add_chosen(maker *m, sn_value x) {
  return shape_of(m, x).dim[2] < 4 ? x : sn_index_select(m->g, x, m->at, 2);
}

/* --- graphs --- */

static sn_value one_more(maker *m) {
  sn_value x = any(m);
  switch (draw(m, 12)) {
  case 0:
  case 1:
  case 2:
  case 3: return add_conv(m, x);
  case 4:
  case 5: return add_pointwise(m, x);
  case 6: return add_norm(m, x);
  case 7:
  case 8: return add_move(m, x);
  case 9: return add_reshaped(m, x);
  case 10: return add_pool(m, x);
  default: return draw(m, 4) ? add_pointwise(m, x) : add_chosen(m, x);
  }
}

static sn_value total(const maker *m, sn_value x) {
  return sn_sum(m->g, sn_tanh(m->g, x), SN_INTS(0, 1, 2, 3), false);
}

sn_status image_graph_random(sn_graph *g, uint64_t seed, int n_ops) {
  maker m = {.g = g, .state = seed * 77 + 13, .at = sn_input(g, "at", SN_I32, SN_SHAPE(3))};
  m.made[m.n++] = sn_input(g, "x", SN_F32, SN_SHAPE(BATCH, 4, 5, 6));
  while (m.n < n_ops + 1 && m.n < IMAGES) {
    sn_value y = one_more(&m);
    sn_shape s = sn_value_type(g, y).shape;
    if (sn_graph_status(g) != SN_OK)
      return sn_graph_status(g);
    if (s.dim[2] * s.dim[3] <= 100)
      m.made[m.n++] = y;
  }
  sn_value last = m.made[m.n - 1], dx;
  sn_output(g, "y", last);
  sn_output(g, "z", any(&m));
  if (seed % 2) {
    SN_TRY(sn_grad(g, sn_add(g, total(&m, last), total(&m, any(&m))), m.made, 1, &dx));
    sn_output(g, "dx", dx);
  }
  return sn_graph_status(g);
}
