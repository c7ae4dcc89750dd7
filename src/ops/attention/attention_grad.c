/* attention_grad: the gradients of attention for q, k, v, bias and sinks, from what attention
 * yielded (lse, out) and what arrives there (d_out, d_lse). Exact when lse and out are
 * attention's; a function of them as they are given otherwise:
 *   p = exp(score - lse)                     (0 in rows whose lse is -inf)
 *   ds = p * (d_out·v - d_out·out + d_lse)   gradient of a score; the sink has no v
 * dbias has the bias's own shape, summed where it was broadcast. Results for a bias or sinks left
 * out have shape [0]. */
#include "ops/attention/scores.h"

enum { DQ, DK, DV, DBIAS, DSINKS };

static sn_status infer_attention_grad(infer_ctx *c) {
  sn_type out, lse, nothing = {c->in[IN_Q].dtype, SN_SHAPE(0)};
  SN_TRY(attention_infer(c, ATTENTION_OPTIONS(attention_grad), &out, &lse));
  for (int i = IN_LSE; i <= IN_D_LSE; i++) {
    bool of_out = i == IN_OUT || i == IN_D_OUT;
    if (!infer_has(c, i))
      continue;
    SN_TRY(infer_dtype(c, i, of_out ? out.dtype : lse.dtype));
    SN_TRY(infer_shape(c, i, of_out ? out.shape : lse.shape,
                       of_out ? "attention's result" : "its rows"));
  }
  c->out[DQ] = c->in[IN_Q];
  c->out[DK] = c->in[IN_K];
  c->out[DV] = c->in[IN_V];
  c->out[DBIAS] = infer_has(c, IN_BIAS) ? c->in[IN_BIAS] : nothing;
  c->out[DSINKS] = infer_has(c, IN_SINKS) ? c->in[IN_SINKS] : nothing;
  return SN_OK;
}

/* to += x * row */
static void add_scaled(double *to, double x, const double *row, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] += x * row[i];
}

/* What one score of row (b, h, i) gives; p is its probability, ds its gradient. */
static void add_key(ref_ctx *c, const attention_rows *r, const int64_t index[4], double p,
                    double ds) {
  int64_t b = index[0], h = index[1], i = index[2], j = index[3];
  int64_t kv = attention_kv_head(r, h), d = r->in[IN_Q].dim[3], dv = r->in[IN_V].dim[3];
  double dx = ds * r->slopes[j];
  add_scaled(attention_row(r, &c->out[DQ], b, h, i), dx, attention_row(r, &r->in[IN_K], b, kv, j),
             d);
  add_scaled(attention_row(r, &c->out[DK], b, kv, j), dx, attention_row(r, &r->in[IN_Q], b, h, i),
             d);
  add_scaled(attention_row(r, &c->out[DV], b, kv, j), p,
             attention_row(r, &r->in[IN_D_OUT], b, h, i), dv);
  if (r->in[IN_BIAS].data)
    c->out[DBIAS].data[ref_broadcast_offset(&r->in[IN_BIAS], index, 4)] += ds;
}

static void add_row(ref_ctx *c, attention_rows *r, int64_t b, int64_t h, int64_t i) {
  const ref_tensor *d_lse = &r->in[IN_D_LSE], *v = &r->in[IN_V];
  int64_t at = (b * r->hq + h) * r->sq + i, dv = v->dim[3];
  double lse = r->in[IN_LSE].data[at];
  if (lse == -INFINITY)
    return;
  const double *d_out = attention_row(r, &r->in[IN_D_OUT], b, h, i);
  double common = (d_lse->data ? d_lse->data[at] : 0) -
                  attention_dot(d_out, attention_row(r, &r->in[IN_OUT], b, h, i), dv);
  attention_row_scores(r, b, h, i);
  for (int64_t j = 0; j < r->skv; j++) {
    if (r->scores[j] == -INFINITY)
      continue;
    double p = exp(r->scores[j] - lse);
    double arrives = attention_dot(d_out, attention_row(r, v, b, attention_kv_head(r, h), j), dv);
    add_key(c, r, (int64_t[]){b, h, i, j}, p, p * (arrives + common));
  }
  if (r->in[IN_SINKS].data)
    c->out[DSINKS].data[h] += exp(attention_sink(r, h) - lse) * common;
}

static sn_status ref_attention_grad(ref_ctx *c) {
  attention_rows r;
  SN_TRY(attention_rows_start(&r, c, ATTENTION_OPTIONS(attention_grad)));
  for (int64_t b = 0; b < r.b; b++)
    for (int64_t h = 0; h < r.hq; h++)
      for (int64_t i = 0; i < r.sq; i++)
        add_row(c, &r, b, h, i);
  return SN_OK;
}

static const op_case cases[] = {
    /* Drawn, with an lse and out that are not attention's: compared with the decomposition, and its
     * gradients (attention's second order) with differences. */
    {"attention_grad(f32[1, 2, 2, 3], f32[1, 1, 3, 3], f32[1, 1, 3, 2], none, none, none, none, "
     "f32[1, 2, 2], f32[1, 2, 2, 2], f32[1, 2, 2, 2], none) scale=0.5",
     NULL},
    {"attention_grad(f32[2, 3, 2, 2], f32[2, 2, 1, 2], f32[2, 2, 1, 1], none, none, none, none, "
     "f32[2, 2, 3], f32[2, 3, 2, 1], f32[2, 3, 2, 1], f32[2, 2, 3]) scale=0.5 layout=bshd",
     NULL},
    {"attention_grad(f32[1, 2, 2, 2], f32[1, 2, 5, 2], f32[1, 2, 5, 1], bool[5]{1}, none, none, "
     "none, f32[1, 2, 2], f32[1, 2, 2, 1], f32[1, 2, 2, 1], none) scale=0.5",
     "mask must have rank 2 to 4"},
    {"attention_grad(f32[1, 2, 2, 2], f32[1, 2, 3, 2], f32[1, 2, 3, 1], bool[2, 3]{1, 0, 1, 0, 0, "
     "1}, f32[2, 1, 3], none, f32[2], f32[1, 2, 2], f32[1, 2, 2, 1], f32[1, 2, 2, 1], f32[1, 2, "
     "2]) scale=0.75 softcap=2",
     NULL},
    {"attention_grad(f32[2, 1, 2, 2], f32[2, 1, 5, 2], f32[2, 1, 5, 1], none, f32[2, 1, 1, 5], "
     "i32[2]{4, 1}, f32[1], f32[2, 1, 2], f32[2, 1, 2, 1], f32[2, 1, 2, 1], f32[2, 1, 2]) "
     "scale=0.75 causal=end window=2",
     NULL},
    {"attention_grad(f32[1, 1, 3, 2], f32[1, 1, 2, 2], f32[1, 1, 2, 1], none, f32[1, 2], none, "
     "none, f32[1, 1, 3], f32[1, 1, 3, 1], f32[1, 1, 3, 1], none) scale=-1 causal=start",
     NULL},
    {"attention_grad(bf16[1, 1, 2, 2], bf16[1, 1, 2, 2], bf16[1, 1, 2, 2], none, bf16[2, 2], none, "
     "bf16[1], f32[1, 1, 2], bf16[1, 1, 2, 2], bf16[1, 1, 2, 2], none) scale=0.5",
     NULL},
    {"attention_grad(f16[1, 1, 2, 2], f16[1, 1, 2, 2], f16[1, 1, 2, 2], none, none, none, none, "
     "f32[1, 1, 2], f16[1, 1, 2, 2], f16[1, 1, 2, 2], f32[1, 1, 2]) scale=0.5",
     NULL},
    {"attention_grad(f32[0, 1, 2, 3], f32[0, 1, 2, 3], f32[0, 1, 2, 1], none, none, none, f32[1], "
     "f32[0, 1, 2], f32[0, 1, 2, 1], f32[0, 1, 2, 1], none) scale=1",
     NULL},
    {"attention_grad(f32[1, 1, 0, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none, f32[1, 2], none, "
     "none, f32[1, 1, 0], f32[1, 1, 0, 1], f32[1, 1, 0, 1], none) scale=1",
     NULL},
    {"attention_grad(f32[1, 1, 2, 3], f32[1, 1, 0, 3], f32[1, 1, 0, 1], none, none, none, f32[1], "
     "f32[1, 1, 2], f32[1, 1, 2, 1], f32[1, 1, 2, 1], none) scale=1 causal=end",
     NULL},
    /* lse and out are taken as given: p = exp(0 - ln 4) = 1/4, ds = p * (3 * 2 - 3 * 1 + 0.5). */
    {"attention_grad(f32[1, 1, 1, 1]{0}, f32[1, 1, 1, 1]{5}, f32[1, 1, 1, 1]{2}, none, f32[1, "
     "1]{0}, none, f32[1]{0}, f32[1, 1, 1]{1.3862943611198906}, f32[1, 1, 1, 1]{1}, f32[1, 1, 1, "
     "1]{3}, f32[1, 1, 1]{0.5}) scale=2 => f32[1, 1, 1, 1]{8.75}, f32[1, 1, 1, 1]{0}, f32[1, 1, 1, "
     "1]{0.75}, f32[1, 1]{0.875}, f32[1]{-0.625}",
     NULL},
    /* Rows that see nothing give nothing, whatever arrives there; nor do keys behind kv_length. */
    {"attention_grad(f32[1, 1, 2, 1]{1, 2}, f32[1, 1, 2, 1]{3, 5}, f32[1, 1, 2, 1]{7, 9}, bool[2, "
     "1]{0, 0}, f32[2, 2]{1, 2, 3, 5}, none, none, f32[1, 1, 2]{-inf}, f32[1, 1, 2, 1]{0}, f32[1, "
     "1, 2, 1]{3}, f32[1, 1, 2]{4}) scale=2 => f32[1, 1, 2, 1]{0}, f32[1, 1, 2, 1]{0}, f32[1, 1, "
     "2, 1]{0}, f32[2, 2]{0}, f32[0]{0}",
     NULL},
    {"attention_grad(f32[1, 1, 1, 1]{1}, f32[1, 1, 2, 1]{3, nan}, f32[1, 1, 2, 1]{7, inf}, none, "
     "none, i32[1]{1}, none, f32[1, 1, 1]{6}, f32[1, 1, 1, 1]{7}, f32[1, 1, 1, 1]{3}, f32[1, 1, "
     "1]{4}) scale=2 => f32[1, 1, 1, 1]{24}, f32[1, 1, 2, 1]{8, 0}, f32[1, 1, 2, 1]{3, 0}, "
     "f32[0]{0}, f32[0]{0}",
     NULL},
    {"attention_grad(f32[1, 1, 1, 1]{1}, f32[1, 1, 1, 1]{3}, f32[1, 1, 1, 1]{7}, bool[1, 1]{0}, "
     "none, none, f32[1]{-inf}, f32[1, 1, 1]{-inf}, f32[1, 1, 1, 1]{0}, f32[1, 1, 1, 1]{3}, f32[1, "
     "1, 1]{4}) scale=2 => f32[1, 1, 1, 1]{0}, f32[1, 1, 1, 1]{0}, f32[1, 1, 1, 1]{0}, f32[0]{0}, "
     "f32[1]{0}",
     NULL},
    /* Numbers computed apart, by differentiating attention with complex steps. */
    {"attention_grad(f32[2, 2, 2, 2]{0.25, 1, 1.5, 0, -1.75, -1.25, 2, -1.25, 1.75, -0.75, 1.25, "
     "1.25, 1.25, -1.25, 1.5, -0.5}, f32[2, 1, 3, 2]{1, 0.5, -1.75, -1.75, 1.75, 0.75, 1.75, "
     "-1.25, 1.75, -0.75, -0.5, 1}, f32[2, 1, 3, 1]{1.5, -1, -2, 0.25, -0.25, -0.75}, none, none, "
     "none, none, f32[2, 2, 2]{0.667272038, 2.34003182, 3.94077843, 2.30378456, 3.56237746, "
     "1.74912687, 3.29849017, 3.05982079}, f32[2, 2, 2, 1]{1.25132447, -0.948098068, -0.991817338, "
     "-0.982254935, 0.0349263257, -0.25, 0.0575439278, 0.00916632607}, f32[2, 2, 2, 1]{0.75, 2, 0, "
     "-1, 1.5, -0.25, 0, 1.5}, none) scale=0.75 causal=end => f32[2, 2, 2, 2]{0.346406764, "
     "0.283423716, -0.813481209, -0.269764249, 0, 0, 0.389385227, 0.129132786, 0, -0.0689401707, "
     "-0.0586263943, 0.0586263943, 0, 0, 0.035290484, -0.100153987}, f32[2, 1, 3, 2]{0.622787119, "
     "0.777838991, -0.0320687627, -0.126586993, -0.590718356, -0.651251999, 0.426837876, "
     "-0.208686308, -0.435881106, 0.168273759, 0.00904322974, 0.0404125488}, f32[2, 1, 3, "
     "1]{0.988677747, 0.0641800324, 0.69714222, 1.59034199, 1.20159398, -0.0419359699}, f32[0]{}, "
     "f32[0]{}",
     NULL},
    {"attention_grad(f32[1, 2, 2, 2]{0, -0.25, 0.25, -1.25, -0.75, -1, 0.5, 1}, f32[1, 2, 3, "
     "2]{1.75, 1.5, -0.25, -2, 0, 2, 0, -0.25, -0.5, -0.75, -1, 1.5}, f32[1, 2, 3, 2]{0.5, -2, 0, "
     "-1.5, -1, 1.25, -1, 0.5, -1, -1.25, 1.25, 0.5}, bool[2, 3]{1, 0, 1, 1, 1, 0}, f32[2, 1, "
     "3]{-1.75, 2, -0.75, 0.75, 0.25, 0}, none, f32[2]{1.5, 1.25}, f32[1, 2, 2]{1.60821309, "
     "3.33365172, 1.8836805, 1.8150037}, f32[1, 2, 2, 2]{-0.0592810472, 0.0344255786, "
     "0.00153058486, -1.26178731, -0.23380943, 0.234682399, -0.431641954, -0.00712871129}, f32[1, "
     "2, 2, 2]{-1.75, -0.75, -0.5, -1.25, 0.75, 1.5, 0.25, 1.5}, f32[1, 2, 2]{-1.25, 1.5, -2, "
     "-0.5}) scale=0.5 softcap=3 => f32[1, 2, 2, 2]{-0.0176783799, -0.0528813612, -0.154759461, "
     "-1.27736185, 0.025209775, 0.0612348583, 0.0776515805, 0.111974668}, f32[1, 2, 3, "
     "2]{0.000785723259, -0.00140313345, 0.160259523, -0.801297617, 0, 0.00471605802, 0.306153969, "
     "0.414208896, -0.0776515805, -0.155303161, 0.0189073312, 0.025209775}, f32[1, 2, 3, "
     "2]{-0.052026969, -0.0254677696, -0.41855499, -1.04638747, -0.128990025, -0.0552814392, "
     "0.349565675, 1.00337348, 0.0318499555, 0.191099733, 0.078518456, 0.157036912}, f32[2, 1, "
     "3]{-0.0136293391, 1.50556838, -0.0379910744, -0.757688452, -0.31931446, -0.0512114672}, "
     "f32[2]{-1.20394797, -1.37178562}",
     NULL},
    {"attention_grad(f32[2, 2, 4, 1]{-1.75, 0.75, -0.5, 1.75, 0.25, -1.75, -2, 0, -1.75, 0.75, "
     "-1.25, -0.75, -1.5, 0.75, 1, 1.5}, f32[2, 3, 2, 1]{-0.25, -1.5, -2, 0.5, 0.25, 0.25, 1, "
     "-1.5, -0.5, 0.75, 1.5, -1.75}, f32[2, 3, 2, 1]{1.75, 1.75, -0.75, -2, 1.25, -1, 0, -1.5, "
     "-1.75, -0.75, 0.25, -0.5}, none, f32[2, 1, 1, 3]{-0.75, -0.5, 0, 0.5, 1.75, -1.5}, i32[2]{2, "
     "1}, f32[4]{-0.5, 0, -2, -2}, f32[2, 4, 2]{0.403270753, -0.102329212, 0.305436604, "
     "1.68437457, 0.368008523, -1.18542084, -1.58794415, -0.298586722, -0.5, -0.0690640884, 0, "
     "1.71751545, -2, -0.772035659, -2, -0.941509709}, f32[2, 2, 4, 1]{1.04082642, 0.460597176, "
     "1.58608262, 0.59099725, -0.246087613, -0.610829662, -1.11434871, -1.63514895, 0, 0, 0, 0, 0, "
     "0, -1.06066771, -0.979531121}, f32[2, 2, 4, 1]{1.75, 0.25, -1.5, -0.5, 0, 1.5, 1.5, -0.25, "
     "-1.5, 0.25, 0.75, -1, 0, -0.5, -0.5, -1.5}, f32[2, 4, 2]{1.25, -2, -1.75, 0.25, -1, -1.5, "
     "-2, -0.75, -2, -1.75, -1, -1.75, -2, 1.25, 2, -1.25}) scale=1.5 softcap=2 causal=end "
     "window=1 layout=bshd => f32[2, 2, 4, 1]{-0.499817661, 0.138157937, 1.88026869, 0.147068393, "
     "1.71588028, -0.00209321587, -0.705144206, -0.403955723, 0, 0, 0, 0, -0.317088009, "
     "-1.5939568, -0.806767497, 0.0882366095}, f32[2, 3, 2, 1]{-3.91319744, 0.455176439, "
     "-0.216316599, 2.82057682, 0, 0, -0.719835587, 0.449608389, 0, 0, 0, 0}, f32[2, 3, 2, "
     "1]{1.10662602, -1.52835574, 1.22165932, 0.631367911, 0, 0, -0.4102442, -1.33308703, 0, 0, 0, "
     "0}, f32[2, 1, 1, 3]{-0.894489864, -2.73720493, 0, -1.31577091, 0, 0}, f32[4]{-4.71266639, "
     "-2.47198145, -1.58408497, -0.283801489}",
     NULL},
    {"attention_grad(f32[1, 1, 3, 2]{-1.25, 0.75, 0.5, 1.5, -1.75, -0.5}, f32[1, 1, 2, 2]{-0.25, "
     "0, 0, -1}, f32[1, 1, 2, 2]{-1.5, 2, -0.25, -2}, none, f32[3, 2]{2, 1.5, 0, -1, 2, 0.25}, "
     "none, none, f32[1, 1, 3]{-inf, -0.125, 2.60722708}, f32[1, 1, 3, 2]{0, 0, -1.5, 2, "
     "-1.30486888, 1.37558041}, f32[1, 1, 3, 2]{1, 0.25, 1.75, 1, 1.25, 2}, f32[1, 1, 3]{1.5, "
     "-0.25, -1}) scale=1 causal=end => f32[1, 1, 3, 2]{0, 0, 0.0625, 0, -0.00103910435, "
     "1.00415642}, f32[1, 1, 2, 2]{-0.13227373, -0.377078209, 1.75727373, 0.502078209}, f32[1, 1, "
     "2, 2]{2.80486888, 2.68779021, 0.195131122, 0.312209795}, f32[3, 2]{0, 0, -0.25, 0, "
     "0.0041564174, -1.00415642}, f32[0]{}",
     NULL},
    {"attention_grad(f32[1, 1, 2, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none, none, none, none, "
     "f32[1, 2], f32[1, 1, 2, 1], f32[1, 1, 2, 1], none) scale=1",
     "lse must be [1, 1, 2]"},
    {"attention_grad(f16[1, 1, 2, 3], f16[1, 1, 2, 3], f16[1, 1, 2, 1], none, none, none, none, "
     "f16[1, 1, 2], f16[1, 1, 2, 1], f16[1, 1, 2, 1], none) scale=1",
     "lse must be f32"},
    {"attention_grad(f32[1, 1, 2, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none, none, none, none, "
     "f32[1, 1, 2], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none) scale=1",
     "out must be [1, 1, 2, 1]"},
    {"attention_grad(f32[1, 1, 2, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none, none, none, none, "
     "f32[1, 1, 2], f32[1, 1, 2, 1], f16[1, 1, 2, 1], none) scale=1",
     "d_out must be f32"},
    {"attention_grad(f32[1, 1, 2, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 1], none, none, none, none, "
     "f32[1, 1, 2], f32[1, 1, 2, 1], f32[1, 1, 2, 1], f32[2]) scale=1",
     "d_lse must be [1, 1, 2]"},
    {"attention_grad(f32[1, 3, 2, 3], f32[1, 2, 2, 3], f32[1, 2, 2, 1], none, none, none, none, "
     "f32[1, 3, 2], f32[1, 3, 2, 1], f32[1, 3, 2, 1], none) scale=1",
     "not a multiple"},
};

const op_impl op_impl_attention_grad = {.infer = infer_attention_grad,
                                        .ref = ref_attention_grad,
                                        .grad_by_decompose = true,
                                        .decompose = attention_grad_decompose,
                                        CASES(cases)};
