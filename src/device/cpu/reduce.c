/* Reductions of rows: lanes of a tile into partial results. Called by the region machine (reduce_tile) and by loops, which
 * open and close a row.
 *
 * Sums and products of floats are kept in f64; the order is fixed by extents and tiles, never by data. */
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

void reduce_begin(region_op_state *op, int rows) {
  reduce_kind kind = (reduce_kind)op->i->code;
  for (int i = 0; i < rows; i++)
    if (is_float(op))
      op->acc[i] = neutral(kind);
    else
      op->acc_int[i] = neutral_int(kind);
}

/* --- floats --- */
static inline double larger(double a, double b) { return a > b || a != a ? a : b; }
static inline double smaller(double a, double b) { return a < b || a != a ? a : b; }

/* Chains of additions side by side: the order of a tile's sum. */
static double sum_of(const float *v, int n) {
  double s[CPU_LANE_BLOCK] = {0};
  int i = 0;
  for (; i + CPU_LANE_BLOCK <= n; i += CPU_LANE_BLOCK)
    for (int k = 0; k < CPU_LANE_BLOCK; k++)
      s[k] += (double)v[i + k];
  for (int k = 0; i < n; i++, k++)
    s[k] += (double)v[i];
  for (int width = CPU_LANE_BLOCK / 2; width; width /= 2)
    for (int k = 0; k < width; k++)
      s[k] += s[k + width];
  return s[0];
}

/* A NaN, once taken, is kept: nothing is larger, and it differs from itself. */
static double max_of(const float *v, int n) {
  float m[CPU_LANE_BLOCK];
  double best = -INFINITY;
  int i = 0;
  for (int k = 0; k < CPU_LANE_BLOCK; k++)
    m[k] = -INFINITY;
  for (; i + CPU_LANE_BLOCK <= n; i += CPU_LANE_BLOCK)
    for (int k = 0; k < CPU_LANE_BLOCK; k++) {
      float p = v[i + k], q = m[k];
      m[k] = ((p > q) | (p != p)) ? p : q;
    }
  for (int k = 0; k < CPU_LANE_BLOCK; k++)
    best = larger(best, (double)m[k]);
  for (; i < n; i++)
    best = larger(best, (double)v[i]);
  return best;
}
static double min_of(const float *v, int n) {
  double best = INFINITY;
  for (int i = 0; i < n; i++)
    best = smaller(best, (double)v[i]);
  return best;
}
static double prod_of(const float *v, int n) {
  double p = 1;
  for (int i = 0; i < n; i++)
    p *= (double)v[i];
  return p;
}

static void combine(reduce_kind kind, double *acc, double v) {
  switch (kind) {
  case REDUCE_PROD: *acc *= v; break;
  case REDUCE_MAX: *acc = larger(*acc, v); break;
  case REDUCE_MIN: *acc = smaller(*acc, v); break;
  default: *acc += v; break;
  }
}

static double of_tile(reduce_kind kind, const float *v, int n) {
  switch (kind) {
  case REDUCE_PROD: return prod_of(v, n);
  case REDUCE_MAX: return max_of(v, n);
  case REDUCE_MIN: return min_of(v, n);
  default: return sum_of(v, n);
  }
}

/* Each lane to its own row; acc has room for whole blocks. */
static void wide_floats(reduce_kind kind, double *restrict acc, const float *v, int n) {
  switch (kind) {
  case REDUCE_SUM:
    for (int block = 0; block < n; block += CPU_LANE_BLOCK)
      for (int i = block; i < block + CPU_LANE_BLOCK; i++)
        acc[i] += (double)v[i];
    break;
  case REDUCE_MAX:
    for (int i = 0; i < n; i++)
      acc[i] = larger(acc[i], (double)v[i]);
    break;
  case REDUCE_MIN:
    for (int i = 0; i < n; i++)
      acc[i] = smaller(acc[i], (double)v[i]);
    break;
  default:
    for (int i = 0; i < n; i++)
      acc[i] *= (double)v[i];
    break;
  }
}

/* --- integers and bools --- */
static int32_t combine_int(reduce_kind kind, int32_t a, int32_t v) {
  switch (kind) {
  case REDUCE_SUM: return (int32_t)((uint32_t)a + (uint32_t)v);
  case REDUCE_PROD: return (int32_t)((uint32_t)a * (uint32_t)v);
  case REDUCE_MAX: return a > v ? a : v;
  case REDUCE_MIN: return a < v ? a : v;
  case REDUCE_ANY: return a | (v != 0);
  default: return a & (v != 0);
  }
}

void reduce_tile(region_op_state *op, const void *lanes, int n, bool wide) {
  reduce_kind kind = (reduce_kind)op->i->code;
  if (is_float(op)) {
    if (wide)
      wide_floats(kind, op->acc, lanes, n);
    else
      combine(kind, op->acc, of_tile(kind, lanes, n));
    return;
  }
  const int32_t *v = lanes;
  for (int i = 0; i < n; i++) {
    int32_t *acc = &op->acc_int[wide ? i : 0];
    *acc = combine_int(kind, *acc, v[i]);
  }
}

void reduce_end(region_op_state *op, int rows) {
  if (is_float(op))
    for (int i = 0; i < rows; i++)
      ((float *)op->own)[i] = (float)op->acc[i];
  else
    memcpy(op->own, op->acc_int, (size_t)rows * sizeof(int32_t));
  cpu_alu_round((sn_dtype)op->i->dtype, op->own, rows);
}
