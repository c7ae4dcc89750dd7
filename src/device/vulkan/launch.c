/* Amounts and slots. See launch.h. */
#include "device/vulkan/launch.h"

int64_t amount_at(const amount *a, const int64_t *sizes) {
  int64_t product = 1;
  for (int i = 0; i < a->n; i++)
    product *= size_at(sizes, a->dims[i]);
  return a->tile == 1 ? product : (product + a->tile - 1) / a->tile;
}

bool amount_equal(const amount *a, const amount *b) {
  return a->n == b->n && a->tile == b->tile &&
         (a->n == 0 || memcmp(a->dims, b->dims, (size_t)a->n * sizeof *a->dims) == 0);
}

bool amount_varies(const amount *a) {
  for (int i = 0; i < a->n; i++)
    if (!dim_is_number(a->dims[i]))
      return true;
  return false;
}

bool launch_varies(const launch *l) {
  for (int i = 0; i < l->n_parts; i++) {
    const launch_part *p = &l->parts[i];
    if (amount_varies(&p->when))
      return true;
    for (int k = 0; k < p->n_grid; k++)
      if (amount_varies(&p->grid[k]))
        return true;
  }
  return false;
}

int64_t part_fixed_groups(const launch_part *p) {
  int64_t groups = 1, when = p->when.n > 0 ? amount_at(&p->when, NULL) : 0;
  if (p->when.n > 0 && (when < p->least || when > p->most))
    return 0;
  for (int k = 0; k < p->n_grid; k++)
    groups *= amount_at(&p->grid[k], NULL);
  return groups;
}

/* With s = ceil(log2 by) and m = floor(2^32 (2^s - by) / by) + 1, (x m / 2^32 + x) / 2^s is exact for all x below 2^32; for x below
 * 2^31 the sum does not exceed 32 bits. */
uint64_t slot_inverse(int64_t by) {
  uint64_t d = by < 1 ? 1 : (uint64_t)by, s = 0;
  if (d >> 31)
    return UINT64_C(31) << 32; /* x / by is 0: x >> 31 */
  while ((UINT64_C(1) << s) < d)
    s++;
  uint64_t m = (((UINT64_C(1) << s) - d) << 32) / d + 1;
  return s << 32 | (uint32_t)m;
}
