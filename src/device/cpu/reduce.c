/* Reductions of rows: lanes of a tile into partial results. Called by the
 * region machine (reduce_tile) and by loops, which open and close a row.
 *
 * Sums and products of floats are kept in f64; the order is fixed by extents
 * and tiles, never by data. Of one row there are LANE_SUMS partial results side
 * by side, combined at its end by halves. */
#include "device/cpu/machine.h"

#include <math.h>

static bool is_float(const region_op_state *op) { return instr_is_float(op->i); }

static double neutral(reduce_kind kind) {
  switch (kind) {
  case REDUCE_PROD: return 1;
  case REDUCE_MAX: return -INFINITY;
  case REDUCE_MIN: return INFINITY;
  default: return 0;
  }
}
static int32_t neutral_int(reduce_kind kind) {
  switch (kind) {
  case REDUCE_PROD:
  case REDUCE_ALL: return 1;
  case REDUCE_MAX: return INT32_MIN;
  case REDUCE_MIN: return INT32_MAX;
  default: return 0;
  }
}

static inline double larger(double a, double b) { return a > b || a != a ? a : b; }
static inline double smaller(double a, double b) { return a < b || a != a ? a : b; }

static double combined(reduce_kind kind, double a, double b) {
  switch (kind) {
  case REDUCE_PROD: return a * b;
  case REDUCE_MAX: return larger(a, b);
  case REDUCE_MIN: return smaller(a, b);
  default: return a + b;
  }
}
static int32_t combined_int(reduce_kind kind, int32_t a, int32_t b) {
  switch (kind) {
  case REDUCE_SUM: return (int32_t)((uint32_t)a + (uint32_t)b);
  case REDUCE_PROD: return (int32_t)((uint32_t)a * (uint32_t)b);
  case REDUCE_MAX: return a > b ? a : b;
  case REDUCE_MIN: return a < b ? a : b;
  case REDUCE_ANY: return a | (b != 0);
  default: return a & (b != 0);
  }
}

static int sums_of(const region_state *st, const region_op_state *op) {
  return is_float(op) ? st->kernels->float_sums : LANE_SUMS;
}

void reduce_begin(const region_state *st, region_op_state *op, int rows) {
  reduce_kind kind = (reduce_kind)op->i->code;
  int n = st->wide ? rows : sums_of(st, op);
  if (is_float(op)) {
    double none = neutral(kind);
    for (int i = 0; i < n; i++)
      op->acc[i] = none;
  } else {
    int32_t none = neutral_int(kind);
    for (int i = 0; i < n; i++)
      op->acc_int[i] = none;
  }
}

void reduce_tile(const region_state *st, region_op_state *op, const void *lanes, int n) {
  void *acc = is_float(op) ? (void *)op->acc : (void *)op->acc_int;
  if (st->wide)
    st->kernels->reduce_wide((reduce_kind)op->i->code, is_float(op), acc, lanes, n);
  else
    st->kernels->reduce((reduce_kind)op->i->code, is_float(op), acc, lanes, n);
}

void reduce_fold(const region_state *st, region_op_state *op) {
  reduce_kind kind = (reduce_kind)op->i->code;
  if (st->wide)
    return;
  if (is_float(op) && kind != REDUCE_PROD) {
    op->acc[0] = st->kernels->total(kind, op->acc);
    return;
  }
  for (int width = sums_of(st, op) / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++)
      if (is_float(op))
        op->acc[i] *= op->acc[i + width];
      else
        op->acc_int[i] = combined_int(kind, op->acc_int[i], op->acc_int[i + width]);
}

void reduce_combine(region_op_state *op, const void *from, int n) {
  reduce_kind kind = (reduce_kind)op->i->code;
  for (int i = 0; i < n; i++)
    if (is_float(op))
      op->acc[i] = combined(kind, op->acc[i], ((const double *)from)[i]);
    else
      op->acc_int[i] = combined_int(kind, op->acc_int[i], ((const int32_t *)from)[i]);
}

void reduce_end(const region_state *st, region_op_state *op, int rows) {
  float *f = (float *)op->own + st->row;
  int32_t *v = (int32_t *)op->own + st->row;
  reduce_fold(st, op);
  if (is_float(op))
    for (int i = 0; i < rows; i++)
      f[i] = (float)op->acc[i];
  else
    memcpy(v, op->acc_int, (size_t)rows * sizeof(int32_t));
  if (op->i->dtype != SN_F32 && op->i->dtype != SN_I32)
    st->kernels->round((sn_dtype)op->i->dtype, f, rows);
  op->lanes = op->own;
  if (op->spread)
    region_spread(st, op);
}
