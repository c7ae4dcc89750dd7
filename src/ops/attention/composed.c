/* attention and attention_grad in simpler ops, with the matrix of scores: what they are checked
 * against, and how attention_grad is differentiated.
 *
 * Everything is computed in f32 and in the grouped form [B, Hk, G, S, D] with G = Hq / Hk query
 * heads for each kv head; k and v have 1 in the place of G. Sizes may be symbolic. Unlike the
 * definitions, a masked v that is not finite spoils its row (0 * inf), except behind kv_length. */
#include "ops/attention/scores.h"

typedef struct composed {
  build_ctx *c;
  sn_graph *g;
  attention_options o;
  attention_sizes z;
  int64_t group;
  sn_value q, k, v; /* grouped */
  sn_value visible; /* bool, broadcasts to [B,Hk,G,Sq,Skv]; SN_NONE: all */
  sn_value length;  /* i32 [B,1,1,1,1] or scalar: keys that are there */
  sn_value scores;  /* [B,Hk,G,Sq,Skv], -inf where masked */
  sn_value slopes;  /* d score / d q·k; SN_NONE: the scale */
} composed;

static sn_value to_dtype(sn_graph *g, sn_value x, sn_dtype dtype) {
  return sn_value_type(g, x).dtype == dtype ? x : sn_cast(g, x, dtype);
}

/* q, k, v or out in f32 and grouped. */
static sn_value grouped(composed *m, sn_value x) {
  if (m->o.layout == SN_LAYOUT_BSHD)
    x = sn_transpose(m->g, x, SN_INTS(0, 2, 1, 3));
  sn_shape s = sn_value_type(m->g, x).shape;
  int64_t group = m->z.hk ? s.dim[1] / m->z.hk : 1;
  x = to_dtype(m->g, x, SN_F32);
  return sn_reshape(m->g, x, SN_SHAPE(s.dim[0], m->z.hk, group, s.dim[2], s.dim[3]));
}

/* Back to the layout, shape and dtype of `like`. */
static sn_value ungrouped(composed *m, sn_value x, sn_value like) {
  sn_type t = sn_value_type(m->g, like);
  sn_shape s = sn_value_type(m->g, x).shape;
  sn_dim heads = sn_dim_mul(m->g, s.dim[1], s.dim[2]);
  x = sn_reshape(m->g, x, SN_SHAPE(s.dim[0], heads, s.dim[3], s.dim[4]));
  if (m->o.layout == SN_LAYOUT_BSHD)
    x = sn_transpose(m->g, x, SN_INTS(0, 2, 1, 3));
  return to_dtype(m->g, x, t.dtype);
}

/* mask or bias, of rank 2 to 4, with the head axis split. */
static sn_value split_heads(composed *m, sn_value x) {
  sn_shape s = sn_value_type(m->g, x).shape, full = {.rank = 4, .dim = {1, 1, 1, 1}};
  for (int d = 0; d < s.rank; d++)
    full.dim[4 - s.rank + d] = s.dim[d];
  bool one = full.dim[1] == 1;
  return sn_reshape(
      m->g, x,
      SN_SHAPE(full.dim[0], one ? 1 : m->z.hk, one ? 1 : m->group, full.dim[2], full.dim[3]));
}

/* A size as an i32 scalar. */
static sn_value extent(sn_graph *g, sn_dim d) {
  if (dim_is_number(d))
    return sn_full(g, SN_I32, SN_SCALAR, (double)d);
  return sn_sum(g, sn_full(g, SN_I32, SN_SHAPE(d), 1), SN_ALL_AXES, false);
}

static void require(composed *m, sn_value condition) {
  m->visible = m->visible.id ? sn_logical_and(m->g, m->visible, condition) : condition;
}

static void build_visible(composed *m) {
  sn_graph *g = m->g;
  const sn_value *in = m->c->in;
  sn_value j = sn_arange(g, SN_I32, m->z.skv, 0, 1);
  sn_value at = sn_arange(g, SN_I32, m->z.sq, 0, 1);
  at = sn_reshape(g, at, SN_SHAPE(m->z.sq, 1));
  if (in[IN_KV_LENGTH].id) {
    m->length = sn_reshape(g, in[IN_KV_LENGTH], SN_SHAPE(m->z.b, 1, 1, 1, 1));
    require(m, sn_lt(g, j, m->length));
  } else {
    m->length = extent(g, m->z.skv);
  }
  if (m->o.causal != SN_CAUSAL_START)
    at = sn_add(g, at, sn_sub(g, m->length, extent(g, m->z.sq)));
  if (m->o.causal != SN_CAUSAL_NONE || m->o.window > 0)
    require(m, sn_le(g, j, at));
  /* A window that i32 cannot hold hides nothing. */
  if (m->o.window > 0 && m->o.window <= INT32_MAX)
    require(m, sn_lt(g, sn_sub(g, at, j), sn_scalar(g, SN_I32, (double)m->o.window)));
  if (in[IN_MASK].id)
    require(m, split_heads(m, in[IN_MASK]));
}

/* Zeros in the rows of k and v behind kv_length, so that nothing there can matter. */
static sn_value clear_tail(composed *m, sn_value x) {
  if (!m->c->in[IN_KV_LENGTH].id)
    return x;
  sn_value j = sn_reshape(m->g, sn_arange(m->g, SN_I32, m->z.skv, 0, 1), SN_SHAPE(m->z.skv, 1));
  return sn_where(m->g, sn_lt(m->g, j, m->length), x, sn_scalar(m->g, SN_F32, 0));
}

static void build_scores(composed *m) {
  sn_graph *g = m->g;
  const sn_value *in = m->c->in;
  sn_value x = sn_affine(g, sn_matmul(g, m->q, m->k, false, true), m->o.scale, 0);
  if (m->o.softcap > 0) {
    x = sn_softcap(g, x, m->o.softcap);
    sn_value t2 = sn_sqr(g, sn_affine(g, x, 1 / m->o.softcap, 0));
    m->slopes = sn_affine(g, t2, -m->o.scale, m->o.scale);
  }
  if (in[IN_BIAS].id)
    x = sn_add(g, x, split_heads(m, to_dtype(g, in[IN_BIAS], SN_F32)));
  m->scores = m->visible.id ? sn_where(g, m->visible, x, sn_scalar(g, SN_F32, -INFINITY)) : x;
}

static void start(composed *m, build_ctx *c, attention_options o) {
  attention_sizes z = attention_sizes_of(o.layout, build_shape(c, c->in[IN_Q]),
                                         build_shape(c, c->in[IN_K]), build_shape(c, c->in[IN_V]));
  *m = (composed){.c = c, .g = c->graph, .o = o, .z = z, .group = z.hk ? z.hq / z.hk : 1};
  build_visible(m);
  m->q = grouped(m, c->in[IN_Q]);
  m->k = clear_tail(m, grouped(m, c->in[IN_K]));
  m->v = clear_tail(m, grouped(m, c->in[IN_V]));
  build_scores(m);
}

/* The sink of every row, [B,Hk,G,Sq,1]; -inf without sinks. */
static sn_value sink_column(composed *m) {
  sn_value sinks = m->c->in[IN_SINKS];
  sn_shape column = SN_SHAPE(m->z.b, m->z.hk, m->group, m->z.sq, 1);
  if (!sinks.id)
    return sn_full(m->g, SN_F32, column, -INFINITY);
  sinks = sn_reshape(m->g, to_dtype(m->g, sinks, SN_F32), SN_SHAPE(m->z.hk, m->group, 1, 1));
  return sn_expand(m->g, sinks, column);
}

/* `instead` where x is `bad`, elsewhere x. */
static sn_value replace(sn_graph *g, sn_value x, double bad, double instead) {
  return sn_where(g, sn_eq(g, x, sn_scalar(g, SN_F32, bad)), sn_scalar(g, SN_F32, instead), x);
}

void attention_decompose(build_ctx *c) {
  composed m;
  start(&m, c, ATTENTION_OPTIONS(attention));
  sn_graph *g = m.g;
  sn_value sink = sink_column(&m);
  /* With the sink beside the scores the maximum is never over nothing; where nothing counts, 0
   * stands in for it and for the sum, so that no row is inf - inf or 0 / 0. */
  sn_value both = sn_concat(g, (sn_value[]){m.scores, sink}, 2, -1);
  sn_value max = replace(g, sn_max(g, both, SN_INTS(-1), true), -INFINITY, 0);
  sn_value e = sn_exp(g, sn_sub(g, m.scores, max));
  sn_value sum = sn_add(g, sn_sum(g, e, SN_INTS(-1), true), sn_exp(g, sn_sub(g, sink, max)));
  sn_value out = sn_div(g, sn_matmul(g, e, m.v, false, false), replace(g, sum, 0, 1));
  sn_value lse = sn_add(g, max, sn_log(g, sum));
  c->out[0] = ungrouped(&m, out, c->in[IN_Q]);
  c->out[1] = sn_reshape(g, lse, SN_SHAPE(m.z.b, m.z.hq, m.z.sq));
}

/* [B,Hq,Sq] as a column of each row. */
static sn_value column(composed *m, sn_value x) {
  return sn_reshape(m->g, x, SN_SHAPE(m->z.b, m->z.hk, m->group, m->z.sq, 1));
}

/* Gradients of k or v: summed over the query heads that share a kv head. */
static sn_value of_kv(composed *m, sn_value x, sn_value like) {
  return ungrouped(m, sn_sum(m->g, x, SN_INTS(2), true), like);
}

static sn_value of_bias(composed *m, sn_value ds) {
  sn_value bias = m->c->in[IN_BIAS];
  sn_type t = sn_value_type(m->g, bias.id ? bias : m->c->in[IN_Q]);
  if (!bias.id)
    return sn_full(m->g, t.dtype, SN_SHAPE(0), 0);
  ds = sn_reshape(m->g, ds, SN_SHAPE(m->z.b, m->z.hq, m->z.sq, m->z.skv));
  return to_dtype(m->g, build_sum_to(m->c, ds, t.shape), t.dtype);
}

static sn_value of_sinks(composed *m, sn_value lse, sn_value common) {
  sn_value sinks = m->c->in[IN_SINKS];
  sn_type t = sn_value_type(m->g, sinks.id ? sinks : m->c->in[IN_Q]);
  if (!sinks.id)
    return sn_full(m->g, t.dtype, SN_SHAPE(0), 0);
  sn_value p = sn_exp(m->g, sn_sub(m->g, sink_column(m), lse));
  sn_value d = sn_sum(m->g, sn_mul(m->g, p, common), SN_INTS(0, 3, 4), false);
  return to_dtype(m->g, sn_reshape(m->g, d, t.shape), t.dtype);
}

void attention_grad_decompose(build_ctx *c) {
  composed m;
  start(&m, c, ATTENTION_OPTIONS(attention_grad));
  sn_graph *g = m.g;
  sn_value d_out = grouped(&m, c->in[IN_D_OUT]), out = grouped(&m, c->in[IN_OUT]);
  /* Rows that saw nothing have p = exp(… - inf) = 0. */
  sn_value lse = replace(g, column(&m, c->in[IN_LSE]), -INFINITY, INFINITY);
  sn_value common = sn_neg(g, sn_sum(g, sn_mul(g, d_out, out), SN_INTS(-1), true));
  if (c->in[IN_D_LSE].id)
    common = sn_add(g, common, column(&m, c->in[IN_D_LSE]));
  sn_value p = sn_exp(g, sn_sub(g, m.scores, lse));
  sn_value ds = sn_mul(g, p, sn_add(g, sn_matmul(g, d_out, m.v, false, true), common));
  sn_value dx = m.slopes.id ? sn_mul(g, ds, m.slopes) : sn_affine(g, ds, m.o.scale, 0);
  c->out[0] = ungrouped(&m, sn_matmul(g, dx, m.k, false, false), c->in[IN_Q]);
  c->out[1] = of_kv(&m, sn_matmul(g, dx, m.q, true, false), c->in[IN_K]);
  c->out[2] = of_kv(&m, sn_matmul(g, p, d_out, true, false), c->in[IN_V]);
  c->out[3] = of_bias(&m, ds);
  c->out[4] = of_sinks(&m, lse, common);
}
