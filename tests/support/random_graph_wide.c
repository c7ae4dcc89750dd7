/* The ops that make a random graph a wide one: see random_graph.h. Each function adds a few nodes that always fit
 * together, because a builder's error would spoil the graph. */
#include "support/random_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"

#include <stdio.h>

static sn_dim n_of(random_graph *r) { return sn_symbol(r->g, "n", RANDOM_GRAPH_SYMBOL); }
static sn_dim m_of(random_graph *r) { return sn_symbol(r->g, "m", RANDOM_GRAPH_SYMBOL_M); }

static sn_type f32(sn_shape shape) { return (sn_type){SN_F32, shape}; }

sn_type random_wide_type(random_graph *r) {
  sn_graph *g = r->g;
  sn_dim n = n_of(r), m = m_of(r);
  const sn_shape shapes[] = {SN_SHAPE(4, 6),
                             SN_SHAPE(6, 4),
                             SN_SHAPE(6),
                             SN_SCALAR,
                             SN_SHAPE(n, 6),
                             SN_SHAPE(n, m),
                             SN_SHAPE(m, 3, n),
                             SN_SHAPE(sn_dim_add(g, n, m), 6),
                             SN_SHAPE(sn_dim_mul(g, n, 2), 4),
                             SN_SHAPE(1, 6),
                             SN_SHAPE(4, 1),
                             SN_SHAPE(3, 5, 7),
                             SN_SHAPE(2, 1, 6),
                             SN_SHAPE(13),
                             SN_SHAPE(0, 6),
                             SN_SHAPE(2, 300)};
  return f32(shapes[random_draw(r, COUNT_OF(shapes))]);
}

static sn_shape shape_of(random_graph *r, sn_value v) { return sn_value_type(r->g, v).shape; }

/* An axis of x, which has some. */
static int axis_of(random_graph *r, sn_value x) {
  return (int)random_draw(r, (uint32_t)shape_of(r, x).rank);
}

/* A float with axes. */
static sn_value with_axes(random_graph *r) {
  sn_value x = random_any(r, NULL);
  return shape_of(r, x).rank ? x : random_any(r, &(sn_type){SN_F32, SN_SHAPE(n_of(r), 6)});
}

static void add_half(random_graph *r) {
  sn_graph *g = r->g;
  sn_dtype half = random_draw(r, 2) ? SN_F16 : SN_BF16;
  sn_value x = random_any(r, NULL);
  sn_type t = sn_value_type(g, x);
  sn_value a = sn_cast(g, x, half), b = sn_cast(g, random_any(r, &t), half);
  sn_value y = SN_NONE;
  switch (random_draw(r, 5)) {
  case 0: y = sn_tanh(g, a); break;
  case 1: y = sn_add(g, a, b); break;
  case 2: y = sn_mul(g, sn_sigmoid(g, a), b); break;
  case 3: y = t.shape.rank ? sn_sum(g, sn_sub(g, a, b), SN_INTS(-1), true) : sn_neg(g, a); break;
  default: y = t.shape.rank ? sn_softmax(g, a, -1) : sn_exp(g, a);
  }
  if (random_draw(r, 3))
    (void)sn_cast(g, y, SN_F32);
}

static void add_broadcast(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = with_axes(r), s = sn_sum(g, x, SN_INTS(axis_of(r, x)), true);
  switch (random_draw(r, 4)) {
  case 0: (void)sn_sub(g, x, s); break;
  case 1: (void)sn_mul(g, s, x); break;
  case 2: (void)sn_div(g, x, sn_affine(g, sn_sqr(g, s), 1, 1)); break;
  default: {
    sn_value row = sn_sum(g, x, SN_INTS(-1), false);
    (void)sn_add(g, x, sn_reshape(g, sn_mean(g, row, SN_ALL_AXES, false), SN_SHAPE(1)));
  }
  }
}

static void add_norm(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = with_axes(r);
  sn_shape s = shape_of(r, x);
  sn_type last = f32(SN_SHAPE(s.rank ? s.dim[s.rank - 1] : 1));
  sn_value w = random_draw(r, 2) ? random_any(r, &last) : SN_NONE;
  switch (random_draw(r, 5)) {
  case 0: (void)sn_layer_norm(g, x, w, SN_NONE, 1, 1e-2); break;
  case 1: (void)sn_rms_norm(g, x, w, SN_NONE, 1, 1e-2); break;
  case 2: (void)sn_softmax(g, x, axis_of(r, x)); break;
  case 3: (void)sn_log_softmax(g, x, axis_of(r, x)); break;
  default: (void)sn_l2_normalize(g, x, axis_of(r, x), 1e-2);
  }
}

static void add_concat(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = with_axes(r);
  sn_type t = sn_value_type(g, x);
  int axis = axis_of(r, x);
  sn_value list[] = {x, random_any(r, &t), sn_neg(g, x)};
  sn_value y = sn_concat(g, list, 1 + (int)random_draw(r, 3), axis);
  if (random_draw(r, 3) == 0) /* back to a part */
    (void)sn_slice(g, y, axis, t.shape.dim[axis], SN_END, 1);
  else if (random_draw(r, 3) == 0)
    (void)sn_reshape(g, y, SN_SHAPE(-1));
}

static void add_product(random_graph *r) {
  sn_graph *g = r->g;
  sn_dim n = n_of(r), m = m_of(r);
  const struct {
    sn_shape a, b;
    bool trans_a, trans_b;
  } rows[] = {{SN_SHAPE(n, 6), SN_SHAPE(6, 4), false, false},
              {SN_SHAPE(n, 6), SN_SHAPE(m, 6), false, true},
              {SN_SHAPE(n, 6), SN_SHAPE(n, m), true, false},
              {SN_SHAPE(3, n, 6), SN_SHAPE(3, 6, m), false, false},
              {SN_SHAPE(2, 1, n, 5), SN_SHAPE(3, 5, 7), false, false},
              {SN_SHAPE(1, 6), SN_SHAPE(6, 4), false, false},
              {SN_SHAPE(3, 5, 7), SN_SHAPE(7, 1), false, false},
              {SN_SHAPE(0, 6), SN_SHAPE(6, 4), false, false},
              {SN_SHAPE(0, 6), SN_SHAPE(0, 6), true, false},
              {SN_SHAPE(2, 300), SN_SHAPE(2, 300), false, true}};
  uint32_t k = random_draw(r, COUNT_OF(rows));
  sn_value a = random_any(r, &(sn_type){SN_F32, rows[k].a});
  sn_value b = random_any(r, &(sn_type){SN_F32, rows[k].b});
  sn_value y = sn_matmul(g, a, b, rows[k].trans_a, rows[k].trans_b);
  if (random_draw(r, 2)) /* something to fuse behind it */
    (void)sn_silu(g, sn_affine(g, y, 0.5, 0.25));
}

/* Two products of one argument, as gate and up are. */
static void add_pair(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = random_any(r, &(sn_type){SN_F32, SN_SHAPE(n_of(r), 6)});
  sn_value gate = sn_matmul(g, x, random_any(r, &(sn_type){SN_F32, SN_SHAPE(6, 4)}), false, false);
  sn_value up = sn_matmul(g, x, random_any(r, &(sn_type){SN_F32, SN_SHAPE(6, 4)}), false, false);
  (void)sn_mul(g, sn_silu(g, gate), up);
}

static void add_attention(random_graph *r) {
  sn_graph *g = r->g;
  sn_dim n = n_of(r), keys = random_draw(r, 2) ? n : sn_dim_add(g, n, m_of(r));
  sn_type q = f32(SN_SHAPE(2, 2, n, 4)), k = f32(SN_SHAPE(2, 1, keys, 4));
  sn_value kv = random_any(r, &k);
  (void)sn_attention(g, random_any(r, &q), kv, random_draw(r, 2) ? kv : random_any(r, &k), SN_NONE,
                     SN_NONE, SN_NONE, SN_NONE, 0.5, random_draw(r, 2) ? 0 : 5,
                     random_draw(r, 2) ? SN_CAUSAL_END : SN_CAUSAL_NONE, 0, SN_LAYOUT_BHSD);
}

static sn_value new_state(random_graph *r, const char *what, sn_dtype dtype, sn_shape shape) {
  char name[32];
  snprintf(name, sizeof name, "%s%u", what, r->g->n_values);
  return sn_state(r->g, name, dtype, shape, SN_INIT_ZEROS, 0);
}

/* Rows written into a state at a place known at run time; read back, or not. */
static void add_cache(random_graph *r) {
  sn_graph *g = r->g;
  sn_dim n = n_of(r);
  sn_value cache = new_state(r, "cache", SN_F32, SN_SHAPE(16, 6));
  sn_value start = random_leaf(r, (sn_type){SN_I32, SN_SCALAR}, NULL, 0);
  sn_value rows = random_any(r, &(sn_type){SN_F32, SN_SHAPE(n, 6)});
  sn_value next = sn_update_slice(g, cache, rows, start, 0);
  if (random_draw(r, 4))
    sn_assign(g, cache, next);
  switch (random_draw(r, 4)) {
  case 0: (void)sn_slice_at(g, next, start, 0, n); break;
  case 1: (void)sn_matmul(g, rows, next, false, true); break;
  case 2: (void)sn_add(g, cache, next); break; /* the old value is still needed */
  default: break;
  }
}

static void add_random(random_graph *r) {
  sn_graph *g = r->g;
  sn_value key = new_state(r, "key", SN_I32, SN_SHAPE(3)), x = random_any(r, NULL);
  sn_shape s = shape_of(r, x);
  switch (random_draw(r, 4)) {
  case 0: (void)sn_add(g, x, sn_uniform(g, key, SN_F32, s, -1, 1, -1)); break;
  case 1: (void)sn_mul(g, x, sn_normal(g, key, SN_F32, s, 0.5, 0.25, -1)); break;
  case 2: (void)sn_where(g, sn_bernoulli(g, key, s, 0.5, -1), x, sn_neg(g, x)); break;
  default: (void)sn_dropout(g, x, key, 0.25, -1);
  }
  if (random_draw(r, 2))
    sn_assign(g, key, sn_add(g, key, sn_scalar(g, SN_I32, 1)));
}

static void add_shuffle(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = with_axes(r);
  sn_shape s = shape_of(r, x);
  sn_ints perm = {.n = s.rank}, twice = {.n = s.rank};
  int turn = (int)random_draw(r, (uint32_t)s.rank);
  sn_shape back = {.rank = s.rank};
  for (int d = 0; d < s.rank; d++) {
    perm.v[d] = (d + turn) % s.rank;
    twice.v[d] = 1 + (d == turn);
    back.dim[d] = s.dim[s.rank - 1 - d];
  }
  switch (random_draw(r, 5)) {
  case 0: (void)sn_transpose(g, x, perm); break;
  case 1: (void)sn_reshape(g, sn_exp(g, sn_transpose(g, x, perm)), back); break;
  case 2: (void)sn_flip(g, x, SN_INTS(axis_of(r, x))); break;
  case 3: (void)sn_tile(g, x, twice); break;
  default: (void)sn_reshape(g, x, back);
  }
}

static void add_fold(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = with_axes(r);
  sn_ints axes = SN_INTS(axis_of(r, x));
  bool keep = random_draw(r, 2);
  switch (random_draw(r, 5)) {
  case 0: (void)sn_logsumexp(g, x, axes, keep); break;
  case 1: (void)sn_l2_norm(g, x, axes, keep); break;
  case 2: (void)sn_mean(g, sn_sqr(g, x), axes, keep); break;
  case 3: (void)sn_cumsum(g, x, axis_of(r, x), random_draw(r, 2), random_draw(r, 2)); break;
  default: (void)sn_sum(g, x, axes, keep);
  }
}

static void add_convolution(random_graph *r) {
  sn_graph *g = r->g;
  int stride = 1 + (int)random_draw(r, 2);
  sn_type image = f32(SN_SHAPE(m_of(r), 2, 9)), weight = f32(SN_SHAPE(3, 2, 3));
  sn_value y = sn_conv(g, random_any(r, &image), random_any(r, &weight), SN_NONE, SN_INTS(stride),
                       SN_INTS(1), SN_INTS(1), SN_INTS(1), 1);
  if (random_draw(r, 2))
    (void)sn_relu(g, sn_affine(g, y, 1, 0.125));
}

static void add_rope(random_graph *r) {
  sn_dim n = n_of(r);
  sn_value x = random_any(r, &(sn_type){SN_F32, SN_SHAPE(2, n, 4)});
  (void)sn_rope(r->g, x, sn_arange(r->g, SN_I32, n, 0, 1), 1, 4, 100, SN_ROPE_HALF, SN_ROPE_DEFAULT,
                1, 1, 1, 1, 0, false, SN_F32);
}

/* Rows 0 … 3 by index. */
static void add_rows(random_graph *r) {
  sn_graph *g = r->g;
  sn_value index = random_leaf(r, (sn_type){SN_I32, SN_SHAPE(m_of(r))}, NULL, 0);
  sn_value table = random_any(r, &(sn_type){SN_F32, SN_SHAPE(4, 6)});
  sn_value rows = sn_gather(g, table, index);
  if (random_draw(r, 2))
    (void)sn_scatter_add(g, table, index, sn_affine(g, rows, 2, 1));
}

void random_wide_op(random_graph *r) {
  static void (*const adders[])(random_graph *) = {
      add_half,      add_broadcast, add_norm,   add_concat,  add_product,     add_pair,
      add_attention, add_cache,     add_random, add_shuffle, add_fold,        add_rope,
      add_rows,      add_shuffle,   add_fold,   add_product, add_convolution, add_broadcast};
  if (random_draw(r, 12) == 0)
    (void)sn_recompute(r->g, random_any(r, NULL));
  adders[random_draw(r, COUNT_OF(adders))](r);
}
