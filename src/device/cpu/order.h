/* Sorting by 32-bit keys, for sort, topk, sample and permutation. */
#ifndef SINEW_DEVICE_CPU_ORDER_H
#define SINEW_DEVICE_CPU_ORDER_H

#include "base/half.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct order_item {
  uint32_t key;
  int32_t at; /* where it stood */
} order_item;

/* Keys whose order as unsigned integers is that of the numbers: NaN as the largest, zeros equal. */
static inline uint32_t order_key_f32(float x) {
  uint32_t bits = f32_bits(x == 0 ? 0.0f : x);
  uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? UINT32_MAX : key;
}
static inline uint32_t order_key_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }

/* Sorts n items by key, smallest first, stable. spare has room for n. */
void order_sort(order_item *items, order_item *spare, int64_t n);

/* --- the same by all threads of a run --- */

enum { ORDER_MANY = 1 << 15 }; /* from so many on it is worth it */
struct cpu_run;
/* What they share: items and spare, for n each; the rest is the sort's own. */
typedef struct order_shared {
  order_item *items, *spare;
  struct order_counts *counts;
} order_shared;
/* Shared memory, and how much that is; false: there is none left. */
bool order_share(struct cpu_run *r, int64_t n, order_shared *out);
size_t order_share_bytes(int64_t n);
/* All threads call it, behind a barrier; the items it gives, which are in order for all. */
const order_item *order_sort_shared(struct cpu_run *r, const order_shared *s, int64_t n);

/* --- the first k of many --- */

enum { ORDER_CHUNK = 1024 };
typedef struct order_first {
  const struct core_kernels *kernels;
  order_item *items, *spare; /* room for order_first_room(k) each */
  int64_t k, n;
  bool bounded; /* only keys below the bound can still be among the first k */
  uint32_t bound;
} order_first;
static inline int64_t order_first_room(int64_t k) { return k + 2 * ORDER_CHUNK; }
/* Up to ORDER_CHUNK keys that stood at `at` and behind it; places must ascend from call to call. */
void order_first_add(order_first *f, const uint32_t *keys, int64_t n, int64_t at);
/* Then the first f->n (k, or all if they are fewer) of items are in order. */
void order_first_end(order_first *f);

#endif
