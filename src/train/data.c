/* Batches of tokens. The order within an epoch is a keyed permutation computed element by element (a small
 * Feistel network, walked until it falls inside the range), so that any batch can be had at once and the
 * only position is its number. */
#include "base/null.h"

#include <sinew/train.h>

static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* A bijection on 2·half bits. */
static uint64_t feistel(uint64_t x, unsigned half, uint64_t key) {
  uint64_t mask = (UINT64_C(1) << half) - 1, left = x >> half, right = x & mask;
  for (uint64_t round = 0; round < 4; round++) {
    uint64_t next = left ^ (mix(right + mix(key + round)) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

/* The i-th of 0 … n-1 in the order that `key` gives. */
static int64_t permuted(int64_t i, int64_t n, uint64_t key) {
  unsigned half = 1;
  while (half < 31 && (UINT64_C(1) << (2 * half)) < (uint64_t)n)
    half++;
  uint64_t x = (uint64_t)i;
  do
    x = feistel(x, half, key);
  while (x >= (uint64_t)n);
  return (int64_t)x;
}

/* Windows that fit whatever the epoch's offset is. */
static int64_t windows(const sn_token_data *d) {
  if (d->context <= 0 || d->batch <= 0 || d->n <= d->context)
    return 0;
  int64_t w = d->n / d->context - 1;
  return w > 0 ? w : 1;
}

int64_t sn_token_epoch(const sn_token_data *d) {
  NEEDS_OR(d, 0);
  int64_t w = windows(d);
  return w == 0 ? 0 : (w + d->batch - 1) / d->batch;
}

void sn_token_batch(const sn_token_data *d, int64_t index, int32_t *ids, int32_t *labels) {
  NEEDS_OR(d, );
  NEEDS_OR(ids, );
  NEEDS_OR(labels, );
  NEEDS_OR(d->tokens, );
  int64_t w = windows(d);
  for (int64_t b = 0; w > 0 && b < d->batch; b++) {
    uint64_t row = (uint64_t)index * (uint64_t)d->batch + (uint64_t)b; /* wraps, never outside */
    uint64_t key = mix(d->seed ^ mix(row / (uint64_t)w));
    int64_t slack = d->n - 1 - w * d->context; /* room to move the windows of an epoch */
    int64_t offset = (int64_t)(mix(key) % (uint64_t)(slack + 1));
    const int32_t *from =
        d->tokens + offset + permuted((int64_t)(row % (uint64_t)w), w, key) * d->context;
    for (int64_t t = 0; t < d->context; t++) {
      ids[b * d->context + t] = from[t];
      labels[b * d->context + t] = from[t + 1];
    }
  }
}
