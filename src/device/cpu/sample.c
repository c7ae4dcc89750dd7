/* SAMPLE: one id from each row of logits; the stages and their order are those of the op (named in step.h). All in
 * doubles, as in the op's definition, so that a draw near a border falls to the same side. Threads share rows. A row
 * is put in order only where top-p asks for it, or top-k of many; the first few ids, or the best, of a row whose
 * logits nothing has changed are found without. */
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa/cores.h"
#include "device/cpu/order.h"
#include "device/cpu/view.h"

#include <math.h>

enum { FEW = 8 }; /* up to a FEWth of a row is "the first few" */

typedef struct sample {
  const core_kernels *kernels;
  view logits, history, out;
  uint32_t key[2], counter, stream;
  int64_t n, top_k;
  double temperature, top_p, min_p, penalty;
  double *logit, *weight; /* weight: 0 for ids that are not kept */
  bool *seen;
  order_item *order, *spare;
} sample;

/* Items of a row, in order or the first few. */
static size_t room_of(int64_t n) { return (size_t)max_i64(n, order_first_room(n / FEW + 1)); }

static size_t need_row(int64_t n) {
  return 2 * cpu_take_bytes((size_t)n * sizeof(double)) + cpu_take_bytes((size_t)n * sizeof(bool)) +
         2 * cpu_take_bytes(room_of(n) * sizeof(order_item));
}

size_t cpu_need_sample(const program *p, const step *s) {
  int64_t longest = 0;
  for (int i = 0; i < s->n_parts; i++)
    longest = max_i64(longest, cpu_size_max(p, s->parts[i].u.core.in[0].dim[1]));
  return need_row(longest);
}

static sn_status start(sample *w, cpu_run *r, const core_part *c) {
  view key = view_of(r, &c->in[1]);
  *w = (sample){.kernels = r->isa->cores,
                .logits = view_of(r, &c->in[0]),
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
  w->order = cpu_take(r, room_of(w->n) * sizeof *w->order);
  w->spare = cpu_take(r, room_of(w->n) * sizeof *w->spare);
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

/* Largest first, lowest index first at ties. Keys are logits rounded to f32; among equal keys penalised logits may
 * still differ. */
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

/* Weights do not rise in the order of logits, and the first is 1, so min-p alone needs no order. */
static void choose_kept(sample *w) {
  if (w->top_k == 0 && !(w->top_p < 1)) {
    for (int64_t i = 0; i < w->n; i++)
      if (w->weight[i] < w->min_p)
        w->weight[i] = 0;
    return;
  }
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

/* A number in [0, 1) for the row. */
static double draw(const sample *w, int64_t row) {
  uint32_t x[4] = {(uint32_t)(row / 4), (uint32_t)((uint64_t)(row / 4) >> 32), w->counter,
                   w->stream};
  philox(w->key, x);
  return x[row % 4] * 0x1p-32;
}

static double weight_of(const sample *w, double logit, double max) {
  return logit == max ? 1 : exp((logit - max) / w->temperature);
}

static int64_t sample_all(sample *w, int64_t row) {
  int64_t best;
  for (int64_t i = 0; i < w->n; i++)
    w->logit[i] = (double)view_load(&w->logits, view_at(&w->logits, 2, (int64_t[]){row, i}));
  if (w->history.data)
    penalise(w, row);
  best = find_best(w);
  if (w->temperature == 0 || isnan(w->logit[best]))
    return best;
  for (int64_t i = 0; i < w->n; i++)
    w->weight[i] = weight_of(w, w->logit[i], w->logit[best]);
  choose_kept(w);
  return pick(w, draw(w, row));
}

/* --- rows of which the first k ids are enough --- */

/* How many: 0 where all are needed. */
static int64_t enough(const sample *w) {
  int64_t k = w->temperature == 0 ? 1 : w->top_k;
  return w->history.data || k * FEW > w->n ? 0 : k;
}

/* Logits of a row from `from` on, as keys whose order is largest first. */
static void read_keys(const sample *w, int64_t row, int64_t from, int64_t n, uint32_t *keys) {
  float x[ORDER_CHUNK];
  view_read(&w->logits, view_at(&w->logits, 2, (int64_t[]){row, from}), w->logits.stride[1], n, x);
  w->kernels->keys(x, n, UINT32_MAX, keys);
}

static double logit_at(const sample *w, int64_t row, int64_t i) {
  return (double)view_load(&w->logits, view_at(&w->logits, 2, (int64_t[]){row, i}));
}

/* Of the first `kept` of the order the id that the draw falls on: as pick does, by index. */
static int64_t pick_few(sample *w, int64_t kept, double u) {
  double sum = 0, running = 0;
  for (int64_t k = 0; k < kept; k++)
    w->order[k].key = (uint32_t)w->order[k].at;
  order_sort(w->order, w->spare, kept);
  for (int64_t k = 0; k < kept; k++)
    sum += w->weight[w->order[k].at];
  int64_t last = 0;
  for (int64_t k = 0; k < kept; k++) {
    int64_t i = w->order[k].at;
    if (w->weight[i] == 0)
      continue;
    last = i;
    running += w->weight[i];
    if (running > u * sum)
      break;
  }
  return last;
}

static int64_t sample_few(sample *w, int64_t row, int64_t k) {
  order_first f = {.kernels = w->kernels, .items = w->order, .spare = w->spare, .k = k};
  uint32_t keys[ORDER_CHUNK];
  for (int64_t i = 0; i < w->n; i += ORDER_CHUNK) {
    int64_t n = min_i64(ORDER_CHUNK, w->n - i);
    read_keys(w, row, i, n, keys);
    order_first_add(&f, keys, n, i);
  }
  order_first_end(&f);
  int64_t best = w->order[0].at;
  double max = logit_at(w, row, best);
  if (w->temperature == 0 || isnan(max))
    return best;
  for (int64_t i = 0; i < k; i++)
    w->weight[w->order[i].at] = weight_of(w, logit_at(w, row, w->order[i].at), max);
  return pick_few(w, count_kept(w), draw(w, row));
}

static int64_t sample_row(sample *w, int64_t row) {
  int64_t k = enough(w);
  return k > 0 ? sample_few(w, row, k) : sample_all(w, row);
}

static void sample_rows(cpu_run *r, sample *w) {
  enum { WORTH = 1 << 12 };
  int64_t rows = w->n > 0 ? w->logits.dim[0] : 0, i;
  int64_t group = max_i64(1, WORTH / max_i64(1, w->n));
  cpu_begin(r);
  while (cpu_next(r, (rows + group - 1) / group, &i))
    for (int64_t row = i * group; row < min_i64(rows, (i + 1) * group); row++)
      ((int32_t *)(void *)w->out.data)[view_at(&w->out, 1, &row)] = (int32_t)sample_row(w, row);
}

sn_status cpu_run_sample(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    sample w;
    SN_TRY(start(&w, r, &s->parts[i].u.core));
    sample_rows(r, &w);
    r->scratch_used = used;
  }
  return SN_OK;
}
