/* See order.h. By digits of 8 bits, lowest first; a digit that all keys share costs no pass. */
#include "device/cpu/order.h"

#include "device/cpu/cpu.h"
#include "device/cpu/isa/cores.h"

enum { DIGITS = 4, DIGIT_VALUES = 256, FEW = 64 };

static inline uint32_t digit_of(uint32_t key, int digit) { return key >> 8 * digit & 255; }

static void sort_few(order_item *items, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    order_item x = items[i];
    int64_t j = i;
    for (; j > 0 && items[j - 1].key > x.key; j--)
      items[j] = items[j - 1];
    items[j] = x;
  }
}

void order_sort(order_item *items, order_item *spare, int64_t n) {
  int64_t count[DIGITS][DIGIT_VALUES] = {{0}};
  order_item *from = items, *to = spare;
  if (n <= FEW) {
    sort_few(items, n);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    for (int d = 0; d < DIGITS; d++)
      count[d][digit_of(items[i].key, d)]++;
  for (int d = 0; d < DIGITS; d++) {
    int64_t start = 0;
    if (count[d][digit_of(from[0].key, d)] == n)
      continue;
    for (int v = 0; v < DIGIT_VALUES; v++) {
      int64_t many = count[d][v];
      count[d][v] = start;
      start += many;
    }
    for (int64_t i = 0; i < n; i++)
      to[count[d][digit_of(from[i].key, d)]++] = from[i];
    order_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items)
    memcpy(items, from, (size_t)n * sizeof *items);
}

/* --- by all threads --- */

/* Items are cut into ranges. Each counts its digits; a digit's items of a range go behind those of the ranges before. */
enum { RANGES = 16 };
typedef struct order_counts {
  int64_t of[RANGES][DIGIT_VALUES];
  bool same[DIGITS]; /* all items have one value of this digit */
} order_counts;

bool order_share(cpu_run *r, int64_t n, order_shared *out) {
  out->items = cpu_take_shared(r, (size_t)n * sizeof *out->items);
  out->spare = cpu_take_shared(r, (size_t)n * sizeof *out->spare);
  out->counts = cpu_take_shared(r, sizeof *out->counts);
  return out->items && out->spare && out->counts;
}

size_t order_share_bytes(int64_t n) {
  return 2 * cpu_take_bytes((size_t)n * sizeof(order_item)) + cpu_take_bytes(sizeof(order_counts));
}

static void count_digits(cpu_run *r, order_counts *c, const order_item *items, int64_t n, int d) {
  int64_t i;
  cpu_begin(r);
  while (cpu_next(r, RANGES, &i)) {
    memset(c->of[i], 0, sizeof c->of[i]);
    for (int64_t k = n * i / RANGES; k < n * (i + 1) / RANGES; k++)
      c->of[i][digit_of(items[k].key, d)]++;
  }
  cpu_sync(r);
}

/* Counts become places. */
static void find_places(order_counts *c, int64_t n, int d) {
  int64_t start = 0;
  c->same[d] = false;
  for (int v = 0; v < DIGIT_VALUES; v++) {
    int64_t first = start;
    for (int i = 0; i < RANGES; i++) {
      int64_t many = c->of[i][v];
      c->of[i][v] = start;
      start += many;
    }
    c->same[d] = c->same[d] || start - first == n;
  }
}

static void move_items(cpu_run *r, order_counts *c, const order_item *from, order_item *to,
                       int64_t n, int d) {
  int64_t i;
  cpu_begin(r);
  while (cpu_next(r, RANGES, &i))
    for (int64_t k = n * i / RANGES; k < n * (i + 1) / RANGES; k++)
      to[c->of[i][digit_of(from[k].key, d)]++] = from[k];
  cpu_sync(r);
}

const order_item *order_sort_shared(cpu_run *r, const order_shared *s, int64_t n) {
  order_item *from = s->items, *to = s->spare;
  for (int d = 0; d < DIGITS; d++) {
    count_digits(r, s->counts, from, n, d);
    if (r->thread == 0)
      find_places(s->counts, n, d);
    cpu_sync(r);
    if (s->counts->same[d])
      continue;
    move_items(r, s->counts, from, to, n, d);
    order_item *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* --- the first k --- */

static void trim(order_first *f) {
  order_sort(f->items, f->spare, f->n);
  f->n = min_i64(f->n, f->k);
  f->bounded = f->n == f->k;
  f->bound = f->bounded ? f->items[f->k - 1].key : 0;
}

/* Without a bound yet: enough of the keys to have one. Returns how many. */
static int64_t take_first(order_first *f, const uint32_t *keys, int64_t n, int64_t at) {
  int64_t many = min_i64(n, f->k + FEW / 2 - f->n);
  for (int64_t i = 0; i < many; i++)
    f->items[f->n++] = (order_item){keys[i], (int32_t)(at + i)};
  if (f->n >= f->k + FEW / 2)
    trim(f);
  return many;
}

void order_first_add(order_first *f, const uint32_t *keys, int64_t n, int64_t at) {
  int32_t found[ORDER_CHUNK];
  if (f->k == 0)
    return;
  int64_t taken = f->bounded ? 0 : take_first(f, keys, n, at);
  int64_t many = taken < n ? f->kernels->below(keys + taken, n - taken, f->bound, found) : 0;
  for (int64_t i = 0; i < many; i++) {
    int64_t from = taken + found[i];
    f->items[f->n++] = (order_item){keys[from], (int32_t)(at + from)};
  }
  if (f->n > f->k + ORDER_CHUNK)
    trim(f);
}

void order_first_end(order_first *f) {
  if (f->k > 0)
    trim(f);
}
