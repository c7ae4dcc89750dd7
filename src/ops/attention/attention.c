/* attention: softmax(q·k * scale, softcapped, + bias, masked)·v, and the log-sum-exp of each row.
 * The rules of masks and alignment stand in scores.h. One row of scores at a time, no matrix. */
#include "ops/attention/scores.h"

static sn_status infer_attention(infer_ctx *c) {
  return attention_infer(c, ATTENTION_OPTIONS(attention), &c->out[0], &c->out[1]);
}

/* The largest of the scores and the sink; NaN wins; -inf when nothing counts. */
static double row_max(const attention_rows *r, double sink) {
  double max = sink;
  for (int64_t j = 0; j < r->skv; j++)
    if (r->scores[j] > max || isnan(r->scores[j]))
      max = r->scores[j];
  return max;
}

/* out += softmax(scores)·v; returns the log-sum-exp. */
static double row_out(const attention_rows *r, int64_t b, int64_t h, double *out) {
  const ref_tensor *v = &r->in[IN_V];
  double sink = attention_sink(r, h), max = row_max(r, sink);
  if (max == -INFINITY)
    return max;
  double sum = exp(sink - max);
  for (int64_t j = 0; j < r->skv; j++)
    sum += exp(r->scores[j] - max);
  for (int64_t j = 0; j < r->skv; j++) {
    if (r->scores[j] == -INFINITY)
      continue;
    const double *value = attention_row(r, v, b, attention_kv_head(r, h), j);
    double p = exp(r->scores[j] - max) / sum;
    for (int64_t d = 0; d < v->dim[3]; d++)
      out[d] += p * value[d];
  }
  return max + log(sum);
}

static sn_status ref_attention(ref_ctx *c) {
  attention_rows r;
  SN_TRY(attention_rows_start(&r, c, ATTENTION_OPTIONS(attention)));
  for (int64_t b = 0; b < r.b; b++)
    for (int64_t h = 0; h < r.hq; h++)
      for (int64_t i = 0; i < r.sq; i++) {
        attention_row_scores(&r, b, h, i);
        c->out[1].data[(b * r.hq + h) * r.sq + i] =
            row_out(&r, b, h, attention_row(&r, &c->out[0], b, h, i));
      }
  return SN_OK;
}

static void grad_attention(build_ctx *c) {
  static const int gradient_of[] = {IN_Q, IN_K, IN_V, IN_BIAS, IN_SINKS};
  const attrs_attention *a = ATTRS(attention);
  const sn_value *in = c->in;
  sn_value d_out = c->dout[0].id ? c->dout[0] : build_full_like(c, c->out[0], 0);
  sn_value first =
      sn_attention_grad(c->graph, in[IN_Q], in[IN_K], in[IN_V], in[IN_MASK], in[IN_BIAS],
                        in[IN_KV_LENGTH], in[IN_SINKS], c->out[1], c->out[0], d_out, c->dout[1],
                        a->scale, a->softcap, a->causal, a->window, a->layout);
  for (int k = 0; k < (int)COUNT_OF(gradient_of); k++)
    if (build_has(c, gradient_of[k]))
      build_din(c, gradient_of[k], sn_value_result(c->graph, first, k));
}

static const op_case cases[] = {
    /* Drawn: compared with the decomposition and with differences. */
    {"attention(f32[2, 2, 3, 5], f32[2, 2, 7, 5], f32[2, 2, 7, 2], none, none, none, none) "
     "scale=0.4",
     NULL},
    {"attention(f32[2, 3, 2, 4], f32[2, 5, 1, 4], f32[2, 5, 1, 3], none, none, none, none) "
     "scale=0.5 layout=bshd",
     NULL},
    {"attention(f32[1, 6, 2, 3], f32[1, 3, 4, 3], f32[1, 3, 4, 2], none, none, none, none) "
     "scale=0.6 causal=end",
     NULL},
    {"attention(f32[1, 2, 3, 3], f32[1, 2, 3, 3], f32[1, 2, 3, 2], none, none, none, none) "
     "scale=-1 softcap=1.5 causal=start",
     NULL},
    {"attention(f32[1, 2, 5, 2], f32[1, 2, 7, 2], f32[1, 2, 7, 2], none, none, none, none) "
     "scale=0.7 causal=end window=3",
     NULL},
    {"attention(f32[1, 1, 3, 2], f32[1, 1, 5, 2], f32[1, 1, 5, 2], none, none, none, none) "
     "scale=0.7 window=2",
     NULL},
    {"attention(f32[2, 2, 2, 3], f32[2, 1, 3, 3], f32[2, 1, 3, 2], bool[2, 3]{1, 0, 1, 0, 1, 1}, "
     "f32[2, 3], none, none) scale=0.5",
     NULL},
    {"attention(f32[2, 2, 2, 3], f32[2, 1, 3, 3], f32[2, 1, 3, 2], bool[2, 1, 3]{1, 0, 1, 0, 1, "
     "1}, f32[2, 2, 1], none, none) scale=0.5",
     NULL},
    {"attention(f32[2, 2, 2, 3], f32[2, 1, 3, 3], f32[2, 1, 3, 2], bool[2, 1, 1, 3]{1, 0, 1, 0, 1, "
     "1}, f32[1, 2, 2, 3], none, none) scale=0.5",
     NULL},
    {"attention(f32[2, 2, 2, 3], f32[2, 2, 5, 3], f32[2, 2, 5, 2], none, none, i32[2]{3, 5}, none) "
     "scale=0.5 causal=end",
     NULL},
    {"attention(f32[2, 2, 2, 3], f32[2, 2, 5, 3], f32[2, 2, 5, 2], none, none, i32[2]{1, 4}, "
     "f32[2]) scale=0.5 causal=end window=2",
     NULL},
    {"attention(f32[2, 2, 4, 3], f32[2, 3, 1, 3], f32[2, 3, 1, 2], bool[4, 2, 3]{1, 1, 0, 0, 1, 1, "
     "0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0}, f32[2, 1, 2, 3], i32[2]{3, 2}, "
     "f32[4]) scale=0.8 softcap=2 causal=start window=2 layout=bshd",
     NULL},
    {"attention(bf16[1, 2, 2, 3], bf16[1, 1, 3, 3], bf16[1, 1, 3, 3], none, bf16[2, 3], none, "
     "bf16[2]) scale=0.5 causal=end",
     NULL},
    {"attention(f16[1, 2, 2, 3], f16[1, 1, 3, 3], f16[1, 1, 3, 3], none, none, none, none) "
     "scale=0.5",
     NULL},
    /* Sizes of 0 and 1. */
    {"attention(f32[0, 1, 2, 3], f32[0, 1, 2, 3], f32[0, 1, 2, 3], none, none, i32[0], none) "
     "scale=1",
     NULL},
    {"attention(f32[1, 0, 2, 3], f32[1, 0, 2, 3], f32[1, 0, 2, 3], none, none, none, f32[0]) "
     "scale=1",
     NULL},
    {"attention(f32[1, 1, 0, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 3], none, none, none, none) scale=1 "
     "causal=end",
     NULL},
    {"attention(f32[1, 1, 2, 0]{0}, f32[1, 1, 2, 0]{0}, f32[1, 1, 2, 2]{1, 2, 3, 5}, none, none, "
     "none, none) scale=1 => f32[1, 1, 2, 2]{2, 3.5, 2, 3.5}, f32[1, 1, 2]{0.693147181, "
     "0.693147181}",
     NULL},
    {"attention(f32[1, 1, 2, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 0], none, none, none, none) scale=1",
     NULL},
    {"attention(f32[1, 1, 2, 2]{1}, f32[1, 1, 0, 2], f32[1, 1, 0, 2], none, none, none, none) "
     "scale=1 => f32[1, 1, 2, 2]{0}, f32[1, 1, 2]{-inf} @kink",
     NULL},
    {"attention(f32[1, 1, 2, 2]{1}, f32[1, 1, 0, 2], f32[1, 1, 0, 2], none, none, none, "
     "f32[1]{0.5}) scale=1 => f32[1, 1, 2, 2]{0}, f32[1, 1, 2]{0.5}",
     NULL},
    {"attention(f32[1, 1, 1, 1]{2}, f32[1, 1, 1, 1]{3}, f32[1, 1, 1, 1]{5}, none, none, none, "
     "none) scale=0.5 => f32[1, 1, 1, 1]{5}, f32[1, 1, 1]{3}",
     NULL},
    /* Which keys a row sees. With q = 0 a row is the mean of the v it sees, and lse the log of
     * their number; v = 1, 10, 100, 1000 tells them apart. Alignment when Sq < Skv, with and
     * without windows. */
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 10, 100}, none, none, "
     "none, none) scale=1 causal=end => f32[1, 1, 2, 1]{5.5, 37}, f32[1, 1, 2]{0.693147181, "
     "1.09861229}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 10, 100}, none, none, "
     "none, none) scale=1 causal=start => f32[1, 1, 2, 1]{1, 5.5}, f32[1, 1, 2]{0, 0.693147181}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 10, 100}, none, none, "
     "none, none) scale=1 causal=end window=1 => f32[1, 1, 2, 1]{10, 100}, f32[1, 1, 2]{0, 0}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 10, 100}, none, none, "
     "none, none) scale=1 causal=start window=1 => f32[1, 1, 2, 1]{1, 10}, f32[1, 1, 2]{0, 0}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 4, 1], f32[1, 1, 4, 1]{1, 10, 100, 1000}, none, "
     "none, none, none) scale=1 causal=end window=2 => f32[1, 1, 2, 1]{55, 550}, f32[1, 1, "
     "2]{0.693147181, 0.693147181}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 4, 1], f32[1, 1, 4, 1]{1, 10, 100, 1000}, none, "
     "none, none, none) scale=1 window=2 => f32[1, 1, 2, 1]{55, 550}, f32[1, 1, 2]{0.693147181, "
     "0.693147181}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 10, 100}, none, none, "
     "none, none) scale=1 window=4000000000000 => f32[1, 1, 2, 1]{5.5, 37}, f32[1, 1, "
     "2]{0.693147181, 1.09861229}",
     NULL},
    /* Sq > Skv: with `end` the first rows see nothing; with `start` a window leaves the last ones
     * empty. */
    {"attention(f32[1, 1, 3, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 10}, none, none, none, "
     "none) scale=1 causal=end => f32[1, 1, 3, 1]{0, 1, 5.5}, f32[1, 1, 3]{-inf, 0, 0.693147181} "
     "@kink",
     NULL},
    {"attention(f32[1, 1, 3, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 10}, none, none, none, "
     "none) scale=1 causal=start => f32[1, 1, 3, 1]{1, 5.5, 5.5}, f32[1, 1, 3]{0, 0.693147181, "
     "0.693147181}",
     NULL},
    {"attention(f32[1, 1, 3, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 10}, none, none, none, "
     "none) scale=1 causal=start window=1 => f32[1, 1, 3, 1]{1, 10, 0}, f32[1, 1, 3]{0, 0, -inf} "
     "@kink",
     NULL},
    /* kv_length: rows stand at the end of the keys that are there; what lies behind is not read. */
    {"attention(f32[2, 1, 2, 1]{0}, f32[2, 1, 4, 1]{1, 2, nan, nan, 1, 2, 3, inf}, f32[2, 1, 4, "
     "1]{1, 10, nan, inf, 1, 10, 100, nan}, none, none, i32[2]{2, 3}, none) scale=1 causal=end => "
     "f32[2, 1, 2, 1]{1, 5.5, 5.5, 37}, f32[2, 1, 2]{0, 0.693147181, 0.693147181, 1.09861229}",
     NULL},
    {"attention(f32[2, 1, 2, 1]{0}, f32[2, 1, 4, 1], f32[2, 1, 4, 1]{1, 10, 100, 1000, 1, 10, 100, "
     "1000}, none, none, i32[2]{0, 1}, none) scale=1 => f32[2, 1, 2, 1]{0, 0, 1, 1}, f32[2, 1, "
     "2]{-inf, -inf, 0, 0} @kink",
     NULL},
    {"attention(f32[2, 1, 2, 1]{0}, f32[2, 1, 4, 1], f32[2, 1, 4, 1]{1, 10, 100, 1000, 1, 10, 100, "
     "1000}, none, none, i32[2]{3, 4}, none) scale=1 causal=end window=2 => f32[2, 1, 2, 1]{5.5, "
     "55, 55, 550}, f32[2, 1, 2]{0.693147181}",
     NULL},
    {"attention(f32[2, 1, 2, 1]{0}, f32[2, 1, 4, 1], f32[2, 1, 4, 1]{1, 10, 100, 1000, 1, 10, 100, "
     "1000}, none, none, i32[2]{1, 4}, none) scale=1 causal=start => f32[2, 1, 2, 1]{1, 1, 1, "
     "5.5}, f32[2, 1, 2]{0, 0, 0, 0.693147181}",
     NULL},
    {"attention(f32[1, 1, 3, 1]{0}, f32[1, 1, 4, 1], f32[1, 1, 4, 1]{1, 10, 100, 1000}, none, "
     "none, i32[1]{2}, none) scale=1 causal=end => f32[1, 1, 3, 1]{0, 1, 5.5}, f32[1, 1, 3]{-inf, "
     "0, 0.693147181} @kink",
     NULL},
    /* Query head h reads kv head h / (Hq / Hk), in both layouts. */
    {"attention(f32[1, 4, 1, 1]{0}, f32[1, 2, 1, 1], f32[1, 2, 1, 1]{7, 9}, none, none, none, "
     "none) scale=1 => f32[1, 4, 1, 1]{7, 7, 9, 9}, f32[1, 4, 1]{0}",
     NULL},
    {"attention(f32[1, 1, 6, 1]{0}, f32[1, 2, 3, 1], f32[1, 2, 3, 1]{1, 2, 3, 5, 6, 7}, none, "
     "none, none, none) scale=1 layout=bshd => f32[1, 1, 6, 1]{3, 3, 4, 4, 5, 5}, f32[1, 6, "
     "1]{0.693147181}",
     NULL},
    /* Masks, biases and sinks; a row without keys; -inf as a bias masks; NaN spoils its own row
     * only. */
    {"attention(f32[2, 2, 1, 1]{0}, f32[2, 1, 3, 1], f32[2, 1, 3, 1]{1, 10, 100, 2, 20, 200}, "
     "bool[2, 2, 1, 3]{1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1}, none, none, none) scale=1 => f32[2, 2, "
     "1, 1]{5.5, 55, 0, 200}, f32[2, 2, 1]{0.693147181, 0.693147181, -inf, 0} @kink",
     NULL},
    {"attention(f32[1, 2, 1, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 5}, none, f32[2, 1, 2]{0, "
     "1.0986122886681098, -inf, 1}, none, none) scale=1 => f32[1, 2, 1, 1]{4, 5}, f32[1, 2, "
     "1]{1.38629436, 1}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 5}, none, f32[2, 2]{-inf, "
     "-inf, 0, 0}, none, none) scale=1 => f32[1, 1, 2, 1]{0, 3}, f32[1, 1, 2]{-inf, 0.693147181}",
     NULL},
    {"attention(f32[1, 2, 1, 1]{0}, f32[1, 1, 3, 1], f32[1, 1, 3, 1]{1, 2, 6}, none, none, none, "
     "f32[2]{0, 1.0986122886681098}) scale=1 => f32[1, 2, 1, 1]{2.25, 1.5}, f32[1, 2, "
     "1]{1.38629436, 1.79175947}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{3, 9}, bool[2, 1]{0, 1}, "
     "none, none, f32[1]{0.25}) scale=1 => f32[1, 1, 2, 1]{0, 3.65405211}, f32[1, 1, 2]{0.25, "
     "1.18906993}",
     NULL},
    {"attention(f32[1, 1, 2, 1]{1, nan}, f32[1, 1, 2, 1]{0}, f32[1, 1, 2, 1]{1, 3}, none, none, "
     "none, none) scale=1 => f32[1, 1, 2, 1]{2, nan}, f32[1, 1, 2]{0.693147181, nan}",
     NULL},
    {"attention(f32[1, 1, 1, 1]{1}, f32[1, 1, 2, 1]{700, -700}, f32[1, 1, 2, 1]{1, 3}, none, none, "
     "none, none) scale=1 => f32[1, 1, 1, 1]{1}, f32[1, 1, 1]{700}",
     NULL},
    {"attention(f32[1, 2, 1, 1]{0}, f32[1, 1, 2, 1], f32[1, 1, 2, 1]{1, 3}, bool[2, 1, 1]{1, 0}, "
     "none, none, f32[2]{-inf}) scale=1 => f32[1, 2, 1, 1]{2, 0}, f32[1, 2, 1]{0.693147181, -inf}",
     NULL},
    /* Numbers computed apart: each of scale, softcap, bias, mask, sinks, groups and batches
     * counts. */
    {"attention(f32[2, 2, 2, 2]{0.5, -1.75, -1.25, -1.5, -1.75, 0.25, 1.25, -1, 1.25, 0.25, -2, "
     "1.5, -0.25, 0.75, -1.75, 1.75}, f32[2, 1, 3, 2]{0.75, 0.25, 0.75, 0.25, -0.25, -1.5, 2, 1, "
     "1.75, 1.25, -1, -1}, f32[2, 1, 3, 2]{0.5, 2, 2, 1.5, 1, -0.25, -1, -1, 1.75, -1.5, 0.5, -1}, "
     "none, none, none, none) scale=0.75 => f32[2, 2, 2, 2]{1.05660104, 0.202808329, 1.024645, "
     "-0.0528399863, 1.10692583, 0.605406606, 1.14471816, 0.907745279, 0.252065124, -1.2216295, "
     "0.573251477, -1.07762811, 0.502805394, -1.21725947, 0.636901686, -1.1450813}, f32[2, 2, "
     "2]{2.13170572, 2.02565899, 0.604972721, 1.75544497, 2.68860101, 0.643928478, 1.20851575, "
     "0.581063848}",
     NULL},
    {"attention(f32[1, 2, 2, 2]{-1.5, -1.5, -0.5, 1, 1.75, -0.25, 1.75, 0.75}, f32[1, 2, 3, "
     "2]{-0.5, 0.25, 1.75, 1, -0.25, -0.5, -1.75, 1.5, 0, 1.5, 1, 1.5}, f32[1, 2, 3, 1]{1.25, "
     "-0.5, -1.75, -1.5, -0.25, 1.5}, none, none, none, none) scale=2 softcap=1.5 causal=end => "
     "f32[1, 2, 2, 1]{1.07435336, 0.354382577, -0.635793123, 0.628757497}, f32[1, 2, "
     "2]{0.798946903, 1.42982561, -0.324089086, 2.15056265}",
     NULL},
    {"attention(f32[1, 2, 2, 2]{0.5, 0.75, -1.25, -1.25, 0.5, 0, -0.5, 0}, f32[1, 2, 3, 2]{-0.75, "
     "2, 2, -0.75, -1, 2, 2, -0.75, -2, 0.75, 0.5, 1.25}, f32[1, 2, 3, 1]{0, -0.5, -1.5, -0.25, "
     "-0.5, 1.25}, bool[2, 3]{1, 0, 1, 1, 1, 0}, f32[2, 2, 3]{2, -1.75, 1.75, -0.5, 1.75, -1.25, "
     "0.75, -1.5, 1, 2, 0.5, -1.5}, none, f32[2]{1, 2}) scale=0.5 softcap=3 => f32[1, 2, 2, "
     "1]{-0.565603707, -0.235898672, 0.213820366, -0.169792843}, f32[1, 2, 2]{3.22074796, "
     "1.7371501, 2.63500974, 2.68082813}",
     NULL},
    {"attention(f32[2, 2, 4, 2]{-1.5, 1.5, -0.25, 1.25, 0.5, -2, -1.5, -0.25, -1, -0.75, -1.5, "
     "1.75, 1.25, -0.25, 1, 1.5, -2, -0.25, 0, -1.25, -1.75, -1.5, -1, -0.75, 0, 1.75, 0.25, 0, "
     "-1.75, -1.5, -0.25, 0.25}, f32[2, 3, 2, 2]{-0.5, 0.75, -1.25, 1.75, 0.5, 1, 1, -1.5, 0.25, "
     "-1.25, 1.5, -1.75, 0.5, -0.25, 0.25, 0.5, -2, 1.25, 1, 0.25, -1.25, -0.5, 0.5, -0.5}, f32[2, "
     "3, 2, 1]{1.5, -1, -2, -0.5, -1.25, -1.25, -0.5, 2, -0.5, 0.75, 2, 2}, none, f32[2, 1, 1, "
     "3]{-1.5, 2, -1.25, -2, 1.5, 1}, i32[2]{2, 3}, f32[4]{1.25, 1.75, 0.5, 2}) scale=0.5 "
     "softcap=2 causal=end window=2 layout=bshd => f32[2, 2, 4, 1]{0.19933875, 0.0917615449, "
     "-0.0279546644, -0.0567501338, -1.00029395, -1.26450719, -0.455939614, -0.206588879, "
     "-0.423289043, -0.142257797, 0.416134469, 0.208521044, -0.145716616, 0.250895441, 1.08162454, "
     "0.566665277}, f32[2, 4, 2]{1.39259232, 2.04638762, 1.81312551, 2.9118113, 0.528352834, "
     "2.87384523, 2.05842406, 2.47272936, 3.12456354, 2.8562145, 2.08479547, 2.44887111, "
     "1.22938592, 1.77440329, 2.30312489, 2.6296724}",
     NULL},
    {"attention(f32[2, 4], f32[2, 4], f32[2, 4], none, none, none, none) scale=1",
     "q must have rank 4"},
    {"attention(i32[1, 1, 2, 4], i32[1, 1, 2, 4], i32[1, 1, 2, 4], none, none, none, none) scale=1",
     "must be f32"},
    {"attention(f32[1, 1, 2, 4], f16[1, 1, 2, 4], f32[1, 1, 2, 4], none, none, none, none) scale=1",
     "dtypes differ"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 2, 5], f32[1, 1, 2, 4], none, none, none, none) scale=1",
     "k must be [1, 1, 2, 4] (the batch and width of q), got f32[1, 1, 2, 5]"},
    {"attention(f32[1, 1, 2, 4], f32[2, 1, 2, 4], f32[2, 1, 2, 4], none, none, none, none) scale=1",
     "the batch and width of q"},
    {"attention(f32[1, 2, 2, 4], f32[1, 2, 2, 4], f32[1, 1, 2, 4], none, none, none, none) scale=1",
     "the batch, heads and length of k"},
    {"attention(f32[1, 2, 2, 4], f32[1, 2, 3, 4], f32[1, 2, 2, 4], none, none, none, none) scale=1",
     "the batch, heads and length of k"},
    {"attention(f32[1, 3, 2, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4], none, none, none, none) scale=1",
     "3 query heads are not a multiple of 2 kv heads"},
    {"attention(f32[1, 2, 3, 4], f32[1, 2, 2, 4], f32[1, 2, 2, 4], none, none, none, none) scale=1 "
     "layout=bshd",
     "not a multiple"},
    {"attention(f32[1, 2, 2, 4], f32[1, 0, 2, 4], f32[1, 0, 2, 4], none, none, none, none) scale=1",
     "not a multiple"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 2, 4], f32[1, 1, 2, 4], f32[2, 2], none, none, none) "
     "scale=1",
     "mask must be bool"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], bool[3], none, none, none) "
     "scale=1",
     "mask must have rank 2 to 4"},
    {"attention(f32[2, 1, 2, 4], f32[2, 1, 3, 4], f32[2, 1, 3, 4], none, f32[2, 2, 3], none, none) "
     "scale=1",
     "bias must have rank 2 to 4 and broadcast to [2, 1, 2, 3]"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], none, f16[2, 3], none, none) "
     "scale=1",
     "dtypes differ"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], none, none, f32[1], none) "
     "scale=1",
     "kv_length must be i32"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], none, none, i32[2], none) "
     "scale=1",
     "kv_length must be [1]"},
    {"attention(f32[1, 2, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], none, none, none, f32[1]) "
     "scale=1",
     "sinks must be [2]"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 4], none, none, none, f16[1]) "
     "scale=1",
     "dtypes differ"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 2, 4], f32[1, 1, 2, 4], none, none, none, none) "
     "scale=inf",
     "scale must be a finite"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 2, 4], f32[1, 1, 2, 4], none, none, none, none) scale=1 "
     "softcap=-1",
     "softcap must be"},
    {"attention(f32[1, 1, 2, 4], f32[1, 1, 2, 4], f32[1, 1, 2, 4], none, none, none, none) scale=1 "
     "window=-1",
     "window must be"},
};

const op_impl op_impl_attention = {.infer = infer_attention,
                                   .ref = ref_attention,
                                   .grad = grad_attention,
                                   .decompose = attention_decompose,
                                   CASES(cases)};
