/* Sorting by 32-bit keys, for sort, topk, sample and permutation. */
#ifndef SINEW_DEVICE_CPU_ORDER_H
#define SINEW_DEVICE_CPU_ORDER_H

#include "base/half.h"

typedef struct order_item {
  uint32_t key;
  int32_t at; /* where it stood */
} order_item;

/* Keys whose order as unsigned integers is that of the numbers: NaN as the largest, zeros equal. */
static inline uint32_t order_key_f32(float x) {
  uint32_t bits = f32_bits(x == 0 ? 0.0f : x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return UINT32_MAX;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static inline uint32_t order_key_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }

/* Sorts n items by key, smallest first, stable. spare has room for n. */
void order_sort(order_item *items, order_item *spare, int64_t n);

#endif
