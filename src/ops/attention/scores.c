/* See scores.h. */
#include "ops/attention/scores.h"

static int head_axis(sn_layout layout) { return layout == SN_LAYOUT_BHSD ? 1 : 2; }

sn_shape attention_shape(sn_layout layout, sn_dim b, sn_dim h, sn_dim s, sn_dim d) {
  return layout == SN_LAYOUT_BHSD ? SN_SHAPE(b, h, s, d) : SN_SHAPE(b, s, h, d);
}

attention_sizes attention_sizes_of(sn_layout layout, sn_shape q, sn_shape k, sn_shape v) {
  int h = head_axis(layout), s = 3 - h;
  return (attention_sizes){.b = q.dim[0],
                           .hq = q.dim[h],
                           .hk = k.dim[h],
                           .sq = q.dim[s],
                           .skv = k.dim[s],
                           .d = q.dim[3],
                           .dv = v.dim[3]};
}

/* --- infer --- */

static sn_status check_options(infer_ctx *c, attention_options o) {
  if (!isfinite(o.scale))
    return infer_fail(c, "scale must be a finite number, got %g", o.scale);
  if (!(isfinite(o.softcap) && o.softcap >= 0))
    return infer_fail(c, "softcap must be above 0, or 0 for none, got %g", o.softcap);
  if (o.window < 0)
    return infer_fail(c, "window must be above 0, or 0 for none, got %lld", (long long)o.window);
  return SN_OK;
}

static sn_status check_heads(infer_ctx *c, attention_sizes z) {
  if (!dim_is_number(z.hq) || !dim_is_number(z.hk))
    return infer_fail(c, "the numbers of heads must be plain numbers: q is %s, k is %s",
                      infer_text(c, IN_Q), infer_text(c, IN_K));
  if (z.hk == 0 ? z.hq != 0 : z.hq % z.hk != 0)
    return infer_fail(c, "%lld query heads are not a multiple of %lld kv heads", (long long)z.hq,
                      (long long)z.hk);
  return SN_OK;
}

static sn_status check_qkv(infer_ctx *c, sn_layout layout, attention_sizes *out_sizes) {
  for (int i = IN_Q; i <= IN_V; i++) {
    SN_TRY(infer_float(c, i));
    SN_TRY(infer_same_dtype(c, i, IN_Q));
    SN_TRY(infer_rank(c, i, 4));
  }
  sn_shape q = c->in[IN_Q].shape, k = c->in[IN_K].shape, v = c->in[IN_V].shape;
  attention_sizes z = attention_sizes_of(layout, q, k, v);
  SN_TRY(infer_shape(c, IN_K, attention_shape(layout, z.b, z.hk, z.skv, z.d),
                     "the batch and width of q"));
  SN_TRY(infer_shape(c, IN_V, attention_shape(layout, z.b, z.hk, z.skv, z.dv),
                     "the batch, heads and length of k"));
  *out_sizes = z;
  return check_heads(c, z);
}

/* mask and bias: rank 2 to 4, each dim 1 or that of [B,Hq,Sq,Skv]. */
static sn_status check_broadcast(infer_ctx *c, int i, attention_sizes z) {
  sn_shape full = SN_SHAPE(z.b, z.hq, z.sq, z.skv), s = c->in[i].shape;
  bool fits = s.rank >= 2 && s.rank <= 4;
  for (int d = 0; fits && d < s.rank; d++)
    fits = s.dim[d] == 1 || s.dim[d] == full.dim[4 - s.rank + d];
  if (fits)
    return SN_OK;
  return infer_fail(c, "%s must have rank 2 to 4 and broadcast to %s [B,Hq,Sq,Skv], got %s",
                    c->op->inputs[i].name, graph_shape_text(c->graph, full), infer_text(c, i));
}

static sn_status check_optional(infer_ctx *c, attention_sizes z) {
  if (infer_has(c, IN_MASK)) {
    SN_TRY(infer_dtype(c, IN_MASK, SN_BOOL));
    SN_TRY(check_broadcast(c, IN_MASK, z));
  }
  if (infer_has(c, IN_BIAS)) {
    SN_TRY(infer_same_dtype(c, IN_BIAS, IN_Q));
    SN_TRY(check_broadcast(c, IN_BIAS, z));
  }
  if (infer_has(c, IN_KV_LENGTH)) {
    SN_TRY(infer_dtype(c, IN_KV_LENGTH, SN_I32));
    SN_TRY(infer_shape(c, IN_KV_LENGTH, SN_SHAPE(z.b), "one length a batch entry"));
  }
  if (infer_has(c, IN_SINKS)) {
    SN_TRY(infer_same_dtype(c, IN_SINKS, IN_Q));
    SN_TRY(infer_shape(c, IN_SINKS, SN_SHAPE(z.hq), "one logit a query head"));
  }
  return SN_OK;
}

sn_status attention_infer(infer_ctx *c, attention_options o, sn_type *out, sn_type *lse) {
  attention_sizes z;
  SN_TRY(check_options(c, o));
  SN_TRY(check_qkv(c, o.layout, &z));
  SN_TRY(check_optional(c, z));
  *out = (sn_type){c->in[IN_Q].dtype, attention_shape(o.layout, z.b, z.hq, z.sq, z.dv)};
  *lse = (sn_type){SN_F32, SN_SHAPE(z.b, z.hq, z.sq)};
  return SN_OK;
}

/* --- ref --- */

static sn_status check_lengths(const attention_rows *r, const ref_ctx *c) {
  const ref_tensor *lengths = &r->in[IN_KV_LENGTH];
  for (int64_t b = 0; lengths->data && b < r->b; b++)
    if (lengths->data[b] < 0 || lengths->data[b] > (double)r->skv)
      return ref_fail(c, SN_ERR_INVALID, "kv_length[%lld]: expected 0 … %lld, got %lld",
                      (long long)b, (long long)r->skv, (long long)lengths->data[b]);
  return SN_OK;
}

sn_status attention_rows_start(attention_rows *r, const ref_ctx *c, attention_options o) {
  int h = head_axis(o.layout), s = 3 - h;
  const ref_tensor *q = &c->in[IN_Q], *k = &c->in[IN_K];
  *r = (attention_rows){.options = o,
                        .in = c->in,
                        .b = q->dim[0],
                        .hq = q->dim[h],
                        .hk = k->dim[h],
                        .sq = q->dim[s],
                        .skv = k->dim[s]};
  SN_TRY(check_lengths(r, c));
  r->scores = arena_array(c->scratch, (size_t)r->skv, sizeof *r->scores);
  r->slopes = arena_array(c->scratch, (size_t)r->skv, sizeof *r->slopes);
  return r->scores && r->slopes ? SN_OK : SN_ERR_NO_MEMORY;
}

double *attention_row(const attention_rows *r, const ref_tensor *t, int64_t b, int64_t h,
                      int64_t s) {
  int64_t row = r->options.layout == SN_LAYOUT_BHSD ? (b * t->dim[1] + h) * t->dim[2] + s
                                                    : (b * t->dim[1] + s) * t->dim[2] + h;
  return t->data + row * t->dim[3];
}

static bool visible(const attention_rows *r, const int64_t index[4]) {
  const ref_tensor *lengths = &r->in[IN_KV_LENGTH], *mask = &r->in[IN_MASK];
  const attention_options *o = &r->options;
  int64_t b = index[0], i = index[2], j = index[3];
  int64_t length = lengths->data ? (int64_t)lengths->data[b] : r->skv;
  int64_t at = o->causal == SN_CAUSAL_START ? i : i + length - r->sq;
  if (j >= length)
    return false;
  if ((o->causal != SN_CAUSAL_NONE || o->window > 0) && j > at)
    return false;
  if (o->window > 0 && at - j >= o->window)
    return false;
  return !mask->data || mask->data[ref_broadcast_offset(mask, index, 4)] != 0;
}

void attention_row_scores(attention_rows *r, int64_t b, int64_t h, int64_t i) {
  const ref_tensor *q = &r->in[IN_Q], *k = &r->in[IN_K], *bias = &r->in[IN_BIAS];
  double cap = r->options.softcap;
  const double *query = attention_row(r, q, b, h, i);
  for (int64_t j = 0; j < r->skv; j++) {
    int64_t index[] = {b, h, i, j};
    r->scores[j] = -INFINITY;
    r->slopes[j] = 0;
    if (!visible(r, index))
      continue;
    const double *key = attention_row(r, k, b, attention_kv_head(r, h), j);
    double score = attention_dot(query, key, q->dim[3]) * r->options.scale,
           slope = r->options.scale;
    if (cap > 0) {
      double t = tanh(score / cap);
      score = cap * t;
      slope *= 1 - t * t;
    }
    if (bias->data)
      score += bias->data[ref_broadcast_offset(bias, index, 4)];
    r->scores[j] = score;
    r->slopes[j] = slope;
  }
}
