/* See order.h. By digits of 8 bits, lowest first; a digit that all keys share costs no pass. */
#include "device/cpu/order.h"

#include <stddef.h>

enum { DIGITS = 4, DIGIT_VALUES = 256, FEW = 32 };

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
      count[d][items[i].key >> 8 * d & 255]++;
  for (int d = 0; d < DIGITS; d++) {
    int64_t start = 0;
    if (count[d][from[0].key >> 8 * d & 255] == n)
      continue;
    for (int v = 0; v < DIGIT_VALUES; v++) {
      int64_t many = count[d][v];
      count[d][v] = start;
      start += many;
    }
    for (int64_t i = 0; i < n; i++)
      to[count[d][from[i].key >> 8 * d & 255]++] = from[i];
    order_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items)
    memcpy(items, from, (size_t)n * sizeof *items);
}
