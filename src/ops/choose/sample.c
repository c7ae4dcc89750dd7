/* sample: draws one id from each row of logits [.., V]. A row's stages, in order:
 *
 *   penalty      once for each distinct id >= 0 in the row's history: l / penalty where l > 0, else
 *                l * penalty. Negative ids are empty places; an id >= V is an error
 *   NaN          a row with a NaN yields the lowest index of one, as argmax does
 *   temperature  0: the lowest index of the largest logit, and no randomness; else the weight of id
 *                i is exp((l_i - max) / temperature), and 1 where l_i = max, even if infinite
 *   order        by logit, largest first, lowest index first at ties; each of the next three keeps
 *                a beginning of this order, never less than one id
 *   top-k        the first k
 *   top-p        of those, the shortest beginning whose weights reach top_p of their sum
 *   min-p        of those, weights >= min_p (the largest weight is 1)
 *   draw         u = word of the row * 2^-32 (choose.h); of the ids kept, by index, the first at
 *                which the running sum of weights is above u * their sum
 */
#include "ops/choose/choose.h"

static sn_status infer_options(infer_ctx *c) {
  const attrs_sample *a = ATTRS(sample);
  if (!isfinite(a->temperature) || a->temperature < 0)
    return infer_fail(c, "temperature must be finite and not negative, got %g", a->temperature);
  if (a->top_k < 0)
    return infer_fail(c, "top_k must not be negative (0: off), got %lld", (long long)a->top_k);
  SN_TRY(infer_probability(c, "top_p", a->top_p));
  SN_TRY(infer_probability(c, "min_p", a->min_p));
  if (!isfinite(a->repetition_penalty) || a->repetition_penalty <= 0)
    return infer_fail(c, "repetition_penalty must be finite and positive (1: off), got %g",
                      a->repetition_penalty);
  if (a->repetition_penalty != 1 && !infer_has(c, 2))
    return infer_fail(c, "a repetition_penalty of %g needs a history", a->repetition_penalty);
  return SN_OK;
}

static sn_status infer_history(infer_ctx *c) {
  sn_shape want = c->in[0].shape;
  SN_TRY(infer_dtype(c, 2, SN_I32));
  SN_TRY(infer_rank(c, 2, want.rank));
  want.dim[want.rank - 1] = c->in[2].shape.dim[want.rank - 1];
  return infer_shape(c, 2, want, "the axes of logits before the last, then any number of ids");
}

static sn_status infer_sample(infer_ctx *c) {
  sn_shape rows = c->in[0].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_key(c, 1));
  SN_TRY(infer_options(c));
  if (rows.rank > 0 && sn_dim_max(c->graph, rows.dim[rows.rank - 1]) > INT32_MAX)
    return infer_fail(c, "rows of %s are too long for i32 indices", infer_text(c, 0));
  if (rows.rank == 0 || rows.dim[rows.rank - 1] == 0)
    return infer_fail(c, "logits must be [.., V] with at least one id, got %s", infer_text(c, 0));
  if (infer_has(c, 2))
    SN_TRY(infer_history(c));
  rows.dim[--rows.rank] = 0;
  c->out[0] = (sn_type){SN_I32, rows};
  return SN_OK;
}

/* One row at work: logits are copied so that the penalty can change them. */
typedef struct row {
  int64_t n;
  double *logit;
  double *weight; /* 0 for ids that are not kept */
  bool *seen;
  sort_item *order; /* twice as long as the row */
} row;

static sn_status row_start(row *w, const ref_ctx *c) {
  size_t n = (size_t)w->n;
  w->logit = arena_array(c->scratch, n, sizeof *w->logit);
  w->weight = arena_array(c->scratch, n, sizeof *w->weight);
  w->seen = arena_array(c->scratch, n, sizeof *w->seen);
  w->order = arena_array(c->scratch, n, 2 * sizeof *w->order);
  return w->logit && w->weight && w->seen && w->order ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status penalise(const ref_ctx *c, row *w, const double *history, int64_t n_history) {
  double penalty = ATTRS(sample)->repetition_penalty;
  memset(w->seen, 0, (size_t)w->n * sizeof *w->seen);
  for (int64_t h = 0; h < n_history; h++) {
    if (history[h] >= (double)w->n)
      return ref_fail(c, SN_ERR_INVALID, "the history has id %.0f, but there are only %lld",
                      history[h], (long long)w->n);
    if (history[h] < 0 || w->seen[(int64_t)history[h]])
      continue;
    w->seen[(int64_t)history[h]] = true;
    double *l = &w->logit[(int64_t)history[h]];
    *l = *l > 0 ? *l / penalty : *l * penalty;
  }
  return SN_OK;
}

/* How many of the order's first ids stay. */
static int64_t count_kept(const attrs_sample *a, const row *w, double max) {
  int64_t kept = a->top_k > 0 ? min_i64(a->top_k, w->n) : w->n;
  double sum = 0, reached = 0;
  for (int64_t i = 0; i < w->n; i++)
    w->weight[i] = w->logit[i] == max ? 1 : exp((w->logit[i] - max) / a->temperature);
  for (int64_t k = 0; k < kept; k++)
    sum += w->weight[w->order[k].at];
  for (int64_t k = 0; k < kept && a->top_p < 1; k++) {
    reached += w->weight[w->order[k].at];
    if (reached >= a->top_p * sum)
      kept = k + 1;
  }
  while (kept > 1 && w->weight[w->order[kept - 1].at] < a->min_p)
    kept--;
  return kept;
}

static int64_t draw(const row *w, double u) {
  double sum = 0, running = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < w->n; i++)
    sum += w->weight[i];
  for (int64_t i = 0; i < w->n; i++) {
    if (w->weight[i] == 0)
      continue;
    last = i;
    running += w->weight[i];
    if (running > u * sum)
      break;
  }
  return last;
}

static int64_t sample_row(const ref_ctx *c, row *w, uint32_t word) {
  for (int64_t i = 0; i < w->n; i++)
    w->order[i] = (sort_item){w->logit[i], i};
  sort_items(w->order, w->order + w->n, w->n, true);
  if (ATTRS(sample)->temperature == 0 || isnan(w->order[0].x))
    return w->order[0].at;
  int64_t kept = count_kept(ATTRS(sample), w, w->order[0].x);
  for (int64_t k = kept; k < w->n; k++)
    w->weight[w->order[k].at] = 0;
  return draw(w, word * 0x1p-32);
}

static sn_status ref_sample(ref_ctx *c) {
  const ref_tensor *logits = &c->in[0], *history = &c->in[2];
  row w = {.n = logits->dim[logits->rank - 1]};
  if (w.n == 0 && c->out[0].count > 0)
    return ref_fail(c, SN_ERR_INVALID, "there are no ids to draw from");
  SN_TRY(row_start(&w, c));
  rng random = rng_of(&c->in[1], ATTRS(sample)->stream);
  int64_t n_history = history->data ? history->dim[history->rank - 1] : 0;
  for (int64_t r = 0; r < c->out[0].count; r++) {
    for (int64_t i = 0; i < w.n; i++)
      w.logit[i] = logits->data[r * w.n + i];
    if (n_history > 0)
      SN_TRY(penalise(c, &w, history->data + r * n_history, n_history));
    c->out[0].data[r] = (double)sample_row(c, &w, rng_word(&random, (uint64_t)r));
  }
  return SN_OK;
}

#define KEY    "i32[3]{0, 0, 0}"
#define GREEDY " temperature=0 top_k=0 top_p=1 min_p=0 repetition_penalty="
#define DRAWN  " temperature=1 top_k=0 top_p=1 min_p=0 repetition_penalty=1 stream=0"

/* The words of key 0, stream 0 stand for u = 0.39905, 0.88052, 0.73571, 0.60548, 0.97224. */
static const op_case cases[] = {
    /* greedy: ties, NaN, infinities */
    {"sample(f32[3, 4]{1, 3, 3, 2, 5, nan, 7, nan, -inf, -inf, -inf, -inf}, " KEY ", none)" GREEDY
     "1 => i32[3]{1, 1, 0}",
     NULL},
    {"sample(f32[2, 1, 3]{1, inf, inf, -1, -5, -3}, " KEY ", none)" GREEDY "1 stream=3 => i32[2, "
     "1]{1, 0}",
     NULL},
    {"sample(f32[5]{1, 2, 9, 4, 5}, " KEY ", none)" GREEDY "1 => i32[]{2}", NULL},
    /* the penalty: positive divided, negative multiplied, once an id, empty places skipped */
    {"sample(f32[3]{4, 3, 1}, " KEY ", i32[2]{0, -1})" GREEDY "2 => i32[]{1}", NULL},
    {"sample(f32[3]{-2, -3, -5}, " KEY ", i32[1]{0})" GREEDY "2 => i32[]{1}", NULL},
    {"sample(f32[2]{4, 1.5}, " KEY ", i32[3]{0, 0, 0})" GREEDY "2 => i32[]{0}", NULL},
    {"sample(f32[3]{1, 2, 1.5}, " KEY ", i32[1]{0})" GREEDY "0.25 => i32[]{0}", NULL},
    {"sample(f32[2, 2]{4, 3, 4, 3}, " KEY ", i32[2, 1]{1, 0})" GREEDY "2 => i32[2]{0, 1}", NULL},
    {"sample(f32[2]{4, 3}, " KEY ", i32[0])" GREEDY "2 => i32[]{0}", NULL},
    /* weights 1, 1, 1, 1: four equal parts of 0 … 1 */
    {"sample(f32[5, 4]{0}, " KEY ", none)" DRAWN " => i32[5]{1, 3, 2, 2, 3}", NULL},
    {"sample(f16[5, 4]{-inf}, " KEY ", none)" DRAWN " => i32[5]{1, 3, 2, 2, 3}", NULL},
    {"sample(bf16[5, 1], " KEY ", none)" DRAWN " => i32[5]{0, 0, 0, 0, 0}", NULL},
    {"sample(f32[2, 3]{inf, 5, inf, 0, nan, 1}, " KEY ", none)" DRAWN " => i32[2]{0, 1}", NULL},
    /* logits log(1 2 3 4): weights 1/4 … 1, parts 0.1 0.3 0.6 1 of the sum */
    {"sample(f32[5, 4]{0, 0.69314718, 1.09861229, 1.38629436, 0, 0.69314718, 1.09861229, "
     "1.38629436, "
     "0, 0.69314718, 1.09861229, 1.38629436, 0, 0.69314718, 1.09861229, 1.38629436, 0, 0.69314718, "
     "1.09861229, 1.38629436}, " KEY ", none)" DRAWN " => i32[5]{2, 3, 3, 3, 3}",
     NULL},
    /* temperature 1/2 squares the weights: 1 4 9 16 of 30; 2 takes roots: u = 0.39905 falls to 2 */
    {"sample(f32[2, 4]{0, 0.69314718, 1.09861229, 1.38629436, 0, 0.69314718, 1.09861229, "
     "1.38629436}"
     ", " KEY ", none) temperature=0.5 top_k=0 top_p=1 min_p=0 repetition_penalty=1 stream=0 => "
     "i32[2]{2, 3}",
     NULL},
    /* top-k 2 keeps 3 and, by index, the first of the ties 2 0 1 3; u = 0.39905, 0.88052 */
    {"sample(f32[2, 4]{2, 2, 2, 3, 2, 2, 2, 3}, " KEY ", none) temperature=1 top_k=2 top_p=1 "
     "min_p=0 repetition_penalty=1 stream=0 => i32[2]{3, 3}",
     NULL},
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=2 top_p=1 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{0, 1, 1, 1, 1}",
     NULL},
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=9 top_p=1 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{1, 3, 2, 2, 3}",
     NULL},
    /* top-p: of four equal parts 0.5 keeps two, a little more three, 0 one */
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=0 top_p=0.5 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{0, 1, 1, 1, 1}",
     NULL},
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=0 top_p=0.51 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{1, 2, 2, 1, 2}",
     NULL},
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=0 top_p=0 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{0, 0, 0, 0, 0}",
     NULL},
    /* top-p is of what top-k left: of two equal parts 0.5 keeps one */
    {"sample(f32[5, 4]{5}, " KEY ", none) temperature=1 top_k=2 top_p=0.5 min_p=0 "
     "repetition_penalty=1 stream=0 => i32[5]{0, 0, 0, 0, 0}",
     NULL},
    /* min-p: weights 1/4 1/2 3/4 1; 0.7 keeps 2 and 3 (parts 3/7, 1), 1 keeps the largest */
    {"sample(f32[2, 4]{0, 0.69314718, 1.09861229, 1.38629436, 0, 0.69314718, 1.09861229, "
     "1.38629436}"
     ", " KEY ", none) temperature=1 top_k=0 top_p=1 min_p=0.7 repetition_penalty=1 stream=0 => "
     "i32[2]{2, 3}",
     NULL},
    {"sample(f32[2, 4]{0, 2, 1, 1, 1, 1, 1, 3}, " KEY
     ", none) temperature=1 top_k=0 top_p=1 min_p=1 "
     "repetition_penalty=1 stream=0 => i32[2]{1, 3}",
     NULL},
    {"sample(f32[2, 3]{2, 2, 1, 2, 2, 1}, " KEY ", none) temperature=1 top_k=0 top_p=1 min_p=1 "
     "repetition_penalty=1 stream=0 => i32[2]{0, 1}",
     NULL},
    {"sample(f32[0, 4], " KEY ", none)" DRAWN, NULL},
    {"sample(f32[2, 0], " KEY ", none)" DRAWN, "at least one id"},
    {"sample(f32[], " KEY ", none)" DRAWN, "at least one id"},
    {"sample(i32[2], " KEY ", none)" DRAWN, "must be f32, f16 or bf16"},
    {"sample(f32[2], i32[2], none)" DRAWN, "key must be [3]"},
    {"sample(f32[2, 3], " KEY ", i32[3, 5])" DRAWN, "history must be [2, 5]"},
    {"sample(f32[2, 3], " KEY ", i32[5])" DRAWN, "must have rank 2"},
    {"sample(f32[2], " KEY ", u8[2])" DRAWN, "history must be i32"},
    {"sample(f32[2], " KEY ", none)" GREEDY "2", "needs a history"},
    {"sample(f32[2], " KEY ", i32[2])" GREEDY "0", "must be finite and positive"},
    {"sample(f32[2], " KEY ", none) temperature=-1 top_p=1 repetition_penalty=1",
     "temperature must be finite"},
    {"sample(f32[2], " KEY ", none) temperature=1 top_k=-1 top_p=1 repetition_penalty=1",
     "top_k must not be negative"},
    {"sample(f32[2], " KEY ", none) temperature=1 top_p=1.5 repetition_penalty=1",
     "top_p must lie in 0 … 1"},
    {"sample(f32[2], " KEY ", none) temperature=1 top_p=1 min_p=-1 repetition_penalty=1",
     "min_p must lie in 0 … 1"},
};

const op_impl op_impl_sample = {
    .infer = infer_sample, .ref = ref_sample, .no_grad = "its result is an integer", CASES(cases)};
