/* See cores.h. */
#include "device/cpu/isa/cores.h"

#include "device/cpu/isa/vec.h"
#include "device/cpu/order.h"

static void add(float *restrict to, const float *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] += from[i];
}

/* Both forms of both scans: called with constants, so that each becomes a loop of its own. */
VEC_INLINE void scan_one_of(double *totals, const float *x, float *y, int64_t n, bool product,
                            bool exclusive) {
  for (int64_t i = 0; i < n; i++) {
    double before = totals[i], v = (double)x[i], next = product ? before * v : before + v;
    totals[i] = next;
    y[i] = (float)(exclusive ? before : next);
  }
}

static void scan(double *totals, const float *x, float *y, int64_t n, bool product,
                 bool exclusive) {
  if (product)
    (exclusive ? scan_one_of(totals, x, y, n, true, true)
               : scan_one_of(totals, x, y, n, true, false));
  else
    (exclusive ? scan_one_of(totals, x, y, n, false, true)
               : scan_one_of(totals, x, y, n, false, false));
}

/* Rows are interleaved: a sum waits for the one before it, others need not. */
VEC_INLINE void scan_rows_of(double *totals, const core_rows *r, int rows, bool product,
                             bool exclusive) {
  double acc[CORE_ROWS];
  for (int j = 0; j < rows; j++)
    acc[j] = totals[j];
  for (int64_t i = 0; i < r->n; i++)
    for (int j = 0; j < rows; j++) {
      double v = (double)r->x[j * r->x_row + i * r->x_step];
      double before = acc[j];
      acc[j] = product ? before * v : before + v;
      r->y[j * r->y_row + i * r->y_step] = (float)(exclusive ? before : acc[j]);
    }
  for (int j = 0; j < rows; j++)
    totals[j] = acc[j];
}

VEC_INLINE void scan_some_rows(double *totals, const core_rows *r, bool product, bool exclusive) {
  switch (r->rows) {
  case 4: scan_rows_of(totals, r, 4, product, exclusive); break;
  case 3: scan_rows_of(totals, r, 3, product, exclusive); break;
  case 2: scan_rows_of(totals, r, 2, product, exclusive); break;
  default: scan_rows_of(totals, r, 1, product, exclusive);
  }
}

static void scan_rows(double *totals, const core_rows *r, bool product, bool exclusive) {
  if (product)
    scan_some_rows(totals, r, true, exclusive);
  else if (exclusive)
    scan_some_rows(totals, r, false, true);
  else
    scan_some_rows(totals, r, false, false);
}

static void keys(const float *restrict x, int64_t n, uint32_t flip, uint32_t *restrict to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = order_key_f32(x[i]) ^ flip;
}

/* Most blocks have none: they are only looked through. */
static int64_t below(const uint32_t *restrict x, int64_t n, uint32_t bound, int32_t *restrict at) {
  enum { BLOCK = 64 };
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t many = n - i < BLOCK ? n - i : BLOCK;
    uint32_t any = 0;
    for (int64_t j = 0; j < many; j++)
      any |= x[i + j] < bound;
    for (int64_t j = 0; any && j < many; j++)
      if (x[i + j] < bound)
        at[found++] = (int32_t)(i + j);
  }
  return found;
}

extern const core_kernels ISA(core_kernels);
const core_kernels ISA(core_kernels) = {
    .add = add, .scan = scan, .scan_rows = scan_rows, .keys = keys, .below = below};
