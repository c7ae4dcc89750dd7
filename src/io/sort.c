/* See sort.h. */
#include "io/sort.h"

/* Merges from[lo..mid) and from[mid..hi) into to[lo..hi). */
static void merge(const uint32_t *from, uint32_t *to, size_t lo, size_t mid, size_t hi,
                  sort_less less, const void *user) {
  size_t a = lo, b = mid;
  for (size_t i = lo; i < hi; i++) {
    bool take_b = a == mid || (b < hi && less(user, from[b], from[a]));
    to[i] = take_b ? from[b++] : from[a++];
  }
}

void sort_indices(uint32_t *order, uint32_t *scratch, size_t n, sort_less less, const void *user) {
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  uint32_t *from = order, *to = scratch;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t lo = 0; lo < n; lo += 2 * width) {
      size_t mid = lo + width < n ? lo + width : n;
      size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
      merge(from, to, lo, mid, hi, less, user);
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != order)
    memcpy(order, from, n * sizeof *order);
}
