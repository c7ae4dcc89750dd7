/* SAMPLE: one id from each row of logits; the stages and their order are those of the op (named in step.h). All in doubles, as
 * in the op's definition, so that a draw near a border falls to the same side. Rows are put in order only where top-k, top-p or
 * min-p ask for it. */
#include "base/philox.h"
#include "device/cpu/order.h"
#include "device/cpu/view.h"

#include <math.h>

typedef struct sample {
  view logits, history, out;
  uint32_t key[2], counter, stream;
  int64_t n, top_k;
  double temperature, top_p, min_p, penalty;
  double *logit, *weight; /* weight: 0 for ids that are not kept */
  bool *seen;
  order_item *order, *spare;
} sample;

static size_t need_row(int64_t n) {
  return 2 * cpu_take_bytes((size_t)n * sizeof(double)) + cpu_take_bytes((size_t)n * sizeof(bool)) +
         2 * cpu_take_bytes((size_t)n * sizeof(order_item));
}

size_t cpu_need_sample(const program *p, const step *s) {
  int64_t longest = 0;
  for (int i = 0; i < s->n_parts; i++)
    longest = max_i64(longest, cpu_size_max(p, s->parts[i].u.core.in[0].dim[1]));
  return need_row(longest);
}

static sn_status start(sample *w, cpu_run *r, const core_part *c) {
  view key = view_of(r, &c->in[1]);
  *w = (sample){.logits = view_of(r, &c->in[0]),
                .history = view_of(r, &c->in[2]),
                .out = view_of(r, &c->out[0]),
                .top_k = c->ints[0],
                .stream = (uint32_t)c->ints[1],
                .temperature = c->reals[0],
                .top_p = c->reals[1],
                .min_p = c->reals[2],
                .penalty = c->reals[3]};
  w->key[0] = (uint32_t)view_i32(&key, key.base);
  w->key[1] = (uint32_t)view_i32(&key, key.base + key.stride[0]);
  w->counter = (uint32_t)view_i32(&key, key.base + 2 * key.stride[0]);
  w->n = w->logits.dim[1];
  size_t n = (size_t)w->n;
  w->logit = cpu_take(r, n * sizeof *w->logit);
  w->weight = cpu_take(r, n * sizeof *w->weight);
  w->seen = cpu_take(r, n * sizeof *w->seen);
  w->order = cpu_take(r, n * sizeof *w->order);
  w->spare = cpu_take(r, n * sizeof *w->spare);
  return w->logit && w->weight && w->seen && w->order && w->spare ? SN_OK : SN_ERR_INTERNAL;
}

/* Ids outside are left out: they are refused elsewhere. */
static void penalise(sample *w, int64_t row) {
  memset(w->seen, 0, (size_t)w->n * sizeof *w->seen);
  for (int64_t h = 0; h < w->history.dim[1]; h++) {
    int64_t id = view_i32(&w->history, view_at(&w->history, 2, (int64_t[]){row, h}));
    if (id < 0 || id >= w->n || w->seen[id])
      continue;
    w->seen[id] = true;
    w->logit[id] = w->logit[id] > 0 ? w->logit[id] / w->penalty : w->logit[id] * w->penalty;
  }
}

/* The lowest index of a NaN, else of the largest logit. */
static int64_t find_best(const sample *w) {
  int64_t best = 0;
  for (int64_t i = 0; i < w->n; i++) {
    if (isnan(w->logit[i]))
      return i;
    if (w->logit[i] > w->logit[best])
      best = i;
  }
  return best;
}

/* Largest first, lowest index first at ties. Keys are logits rounded to f32; among equal keys penalised logits may still
 * differ. */
static void put_in_order(sample *w) {
  for (int64_t i = 0; i < w->n; i++)
    w->order[i] = (order_item){~order_key_f32((float)w->logit[i]), (int32_t)i};
  order_sort(w->order, w->spare, w->n);
  for (int64_t i = 1; i < w->n; i++) {
    order_item x = w->order[i];
    int64_t j = i;
    while (j > 0 && w->order[j - 1].key == x.key && w->logit[w->order[j - 1].at] < w->logit[x.at]) {
      w->order[j] = w->order[j - 1];
      j--;
    }
    w->order[j] = x;
  }
}

/* How many of the order's first ids stay. */
static int64_t count_kept(const sample *w) {
  int64_t kept = w->top_k > 0 ? min_i64(w->top_k, w->n) : w->n;
  double sum = 0, reached = 0;
  for (int64_t k = 0; k < kept; k++)
    sum += w->weight[w->order[k].at];
  for (int64_t k = 0; k < kept && w->top_p < 1; k++) {
    reached += w->weight[w->order[k].at];
    if (reached >= w->top_p * sum)
      kept = k + 1;
  }
  while (kept > 1 && w->weight[w->order[kept - 1].at] < w->min_p)
    kept--;
  return kept;
}

static void choose_kept(sample *w) {
  if (w->top_k == 0 && !(w->top_p < 1) && !(w->min_p > 0))
    return;
  put_in_order(w);
  for (int64_t k = count_kept(w); k < w->n; k++)
    w->weight[w->order[k].at] = 0;
}

/* Of the ids kept, by index, the first at which the running sum of weights is above u * their sum. */
static int64_t pick(const sample *w, double u) {
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

static int64_t sample_row(sample *w, int64_t row) {
  int64_t best;
  for (int64_t i = 0; i < w->n; i++)
    w->logit[i] = (double)view_load(&w->logits, view_at(&w->logits, 2, (int64_t[]){row, i}));
  if (w->history.data)
    penalise(w, row);
  best = find_best(w);
  if (w->temperature == 0 || isnan(w->logit[best]))
    return best;
  double max = w->logit[best];
  for (int64_t i = 0; i < w->n; i++)
    w->weight[i] = w->logit[i] == max ? 1 : exp((w->logit[i] - max) / w->temperature);
  choose_kept(w);
  uint32_t x[4] = {(uint32_t)(row / 4), (uint32_t)((uint64_t)(row / 4) >> 32), w->counter,
                   w->stream};
  philox(w->key, x);
  return pick(w, x[row % 4] * 0x1p-32);
}

sn_status cpu_run_sample(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    sample w;
    SN_TRY(start(&w, r, &s->parts[i].u.core));
    for (int64_t row = 0; row < w.logits.dim[0] && w.n > 0; row++)
      ((int32_t *)(void *)w.out.data)[view_at(&w.out, 1, &row)] = (int32_t)sample_row(&w, row);
    r->scratch_used = used;
  }
  return SN_OK;
}
