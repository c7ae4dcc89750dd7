/* A stable merge sort of indices: n log n whatever the input, so that hostile files cannot make it
 * slow, and no allocation of its own. */
#ifndef SINEW_IO_SORT_H
#define SINEW_IO_SORT_H

#include "base/base.h"

typedef bool (*sort_less)(const void *user, uint32_t a, uint32_t b);

/* Fills order[0..n) with 0..n-1, sorted; scratch has n elements too. */
void sort_indices(uint32_t *order, uint32_t *scratch, size_t n, sort_less less, const void *user);

#endif
