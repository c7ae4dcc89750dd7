/* What attention and attention_grad share: sizes, masks and the scores of one query row.
 *
 * The rules, in one place:
 *  - q is [B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hk,Skv,Dv] (layout bhsd) or [B,S,H,D] (bshd); Hq is a
 *    multiple of Hk and query head h reads kv head h / (Hq / Hk). lse is f32 [B,Hq,Sq] in both.
 *  - score = q·k * scale, softcapped, + bias. mask (bool, true: attend) and bias have rank 2 to 4
 *    and broadcast to [B,Hq,Sq,Skv] from the right: rank 2 is [Sq,Skv], rank 3 is [Hq,Sq,Skv].
 *  - kv_length[b] keys are there (all Skv when left out); the others are masked. Query row i stands
 *    at position i' = i + length - Sq: the last row at the last key that is there, so that rows
 *    appended to a longer buffer attend as they would without it. With causal start, i' = i.
 *  - causal: j <= i'. window w > 0: 0 <= i' - j < w; so a window is causal, and without a causal
 *    mask it is aligned to the end.
 *  - A masked key counts nothing, whatever k and v hold there; so does one whose score is -inf.
 *  - sinks[h] is one more logit of each row's denominator, without a value; lse includes it.
 *  - A row that sees no key yields 0, lse -inf (the sink's logit where there is one),
 *    gradient 0. */
#ifndef SINEW_OPS_ATTENTION_SCORES_H
#define SINEW_OPS_ATTENTION_SCORES_H

#include "ops/common.h"

/* Inputs; those after the sinks are attention_grad's. */
enum {
  IN_Q,
  IN_K,
  IN_V,
  IN_MASK,
  IN_BIAS,
  IN_KV_LENGTH,
  IN_SINKS,
  IN_LSE,
  IN_OUT,
  IN_D_OUT,
  IN_D_LSE
};

/* The attributes of both ops. */
typedef struct attention_options {
  double scale, softcap;
  sn_causal causal;
  int64_t window;
  sn_layout layout;
} attention_options;
#define ATTENTION_OPTIONS(op)                                                                      \
  ((attention_options){ATTRS(op)->scale, ATTRS(op)->softcap, ATTRS(op)->causal, ATTRS(op)->window, \
                       ATTRS(op)->layout})

typedef struct attention_sizes {
  sn_dim b, hq, hk, sq, skv, d, dv;
} attention_sizes;
attention_sizes attention_sizes_of(sn_layout layout, sn_shape q, sn_shape k, sn_shape v);
/* [B,H,S,D] in the layout's order. */
sn_shape attention_shape(sn_layout layout, sn_dim b, sn_dim h, sn_dim s, sn_dim d);

/* Checks what both ops take; the types of attention's results. */
sn_status attention_infer(infer_ctx *c, attention_options options, sn_type *out,
                          sn_type *lse) SN_MUST_USE;

/* One evaluation; scores and slopes are those of one query row. */
typedef struct attention_rows {
  attention_options options;
  const ref_tensor *in;
  int64_t b, hq, hk, sq, skv;
  double *scores; /* [Skv]; -inf where masked */
  double *slopes; /* [Skv]: d score / d q·k */
} attention_rows;

sn_status attention_rows_start(attention_rows *r, const ref_ctx *c,
                               attention_options options) SN_MUST_USE;
void attention_row_scores(attention_rows *r, int64_t b, int64_t h, int64_t i);
/* Row s of head h in a tensor laid out as q, k, v or out are. */
double *attention_row(const attention_rows *r, const ref_tensor *t, int64_t b, int64_t h,
                      int64_t s);
static inline double attention_dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}
static inline int64_t attention_kv_head(const attention_rows *r, int64_t h) {
  return h / (r->hq / r->hk);
}
/* The sink's logit of a head; -inf without sinks. */
static inline double attention_sink(const attention_rows *r, int64_t h) {
  return r->in[IN_SINKS].data ? r->in[IN_SINKS].data[h] : -INFINITY;
}

/* Both ops in simpler ones (composed.c), with a matrix of scores. */
void attention_decompose(build_ctx *c);
void attention_grad_decompose(build_ctx *c);

#endif
