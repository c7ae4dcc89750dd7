/* Reductions of lanes into partial results. The order is fixed by the number of lanes, never by data.
 *
 * Sums of floats: four vectors are added in f32, what comes of that in f64. So a sum is off by what three additions
 * of f32 are off, however many terms it has. */
#include "device/cpu/isa/lanes_set.h"

/* VEC sums in f64. */
typedef struct wide {
  vec_f64 low, high;
} wide;
VEC_INLINE void wide_add(wide *s, vec v) {
  s->low += vec_widen(v, 0);
  s->high += vec_widen(v, 1);
}
VEC_INLINE vec some(const float *v, int n) { return n < VEC ? vec_load_some(v, n) : vec_load(v); }

static void sum_floats(double *sums, const float *v, int n) {
  wide s;
  int i = 0;
  memcpy(&s, sums, sizeof s);
  for (; i + 4 * VEC <= n; i += 4 * VEC)
    wide_add(&s, (vec_load(v + i) + vec_load(v + i + VEC)) +
                     (vec_load(v + i + 2 * VEC) + vec_load(v + i + 3 * VEC)));
  for (; i < n; i += VEC)
    wide_add(&s, some(v + i, n - i));
  memcpy(sums, &s, sizeof s);
}

/* NaN wins: it is picked where it comes, and stays. */
VEC_INLINE vec larger(vec best, vec v) {
  vec m = vec_pick(vec_less(best, v), v, best);
  return vec_pick(vec_same(best, best), vec_pick(vec_same(v, v), m, v), best);
}

static void most_floats(double *sums, const float *v, int n, float sign) {
  vec best[2] = {vec_all(-INFINITY), vec_all(-INFINITY)}, by = vec_all(sign);
  int i = 0;
  for (; i + 2 * VEC <= n; i += 2 * VEC) {
    best[0] = larger(best[0], vec_load(v + i) * by);
    best[1] = larger(best[1], vec_load(v + i + VEC) * by);
  }
  for (; i < n; i += VEC) {
    vec x = vec_all(-INFINITY), y = some(v + i, n - i) * by;
    memcpy(&x, &y, sizeof(float) * (size_t)(n - i < VEC ? n - i : VEC));
    best[0] = larger(best[0], x);
  }
  best[0] = larger(best[0], best[1]);
  for (int k = 0; k < VEC; k++) {
    double p = (double)(best[0][k] * sign), q = sums[k];
    bool wins = sign > 0 ? p > q : p < q;
    sums[k] = q != q ? q : wins || p != p ? p : q;
  }
}

static void multiply_floats(double *sums, const float *v, int n) {
  int i = 0;
  for (; i + VEC <= n; i += VEC)
    for (int k = 0; k < VEC; k++)
      sums[k] *= (double)v[i + k];
  for (int k = 0; i < n; i++, k++)
    sums[k] *= (double)v[i];
}

/* --- integers and bools --- */
#define EACH(statement)                        \
  do {                                         \
    int i = 0;                                 \
    for (; i + LANE_SUMS <= n; i += LANE_SUMS) \
      for (int k = 0; k < LANE_SUMS; k++) {    \
        int32_t a = sums[k], p = v[i + k];     \
        sums[k] = statement;                   \
      }                                        \
    for (int k = 0; i < n; i++, k++) {         \
      int32_t a = sums[k], p = v[i];           \
      sums[k] = statement;                     \
    }                                          \
  } while (0)

static void reduce_integers(reduce_kind kind, int32_t *restrict sums, const int32_t *v, int n) {
  switch (kind) {
  case REDUCE_SUM: EACH((int32_t)((uint32_t)a + (uint32_t)p)); break;
  case REDUCE_PROD: EACH((int32_t)((uint32_t)a * (uint32_t)p)); break;
  case REDUCE_MAX: EACH(a > p ? a : p); break;
  case REDUCE_MIN: EACH(a < p ? a : p); break;
  case REDUCE_ANY: EACH(a | (p != 0)); break;
  case REDUCE_ALL: EACH(a & (p != 0)); break;
  }
}

void ISA(lanes_reduce)(reduce_kind kind, bool floats, void *sums, const void *lanes, int n) {
  if (!floats) {
    reduce_integers(kind, sums, lanes, n);
    return;
  }
  switch (kind) {
  case REDUCE_PROD: multiply_floats(sums, lanes, n); break;
  case REDUCE_MAX: most_floats(sums, lanes, n, 1); break;
  case REDUCE_MIN: most_floats(sums, lanes, n, -1); break;
  default: sum_floats(sums, lanes, n); break;
  }
}

/* --- every lane a row --- */
enum { BLOCK = 32 };
#define WIDE(LANE, ACC, expression)               \
  for (int block = 0; block < n; block += BLOCK)  \
    for (int i = block; i < block + BLOCK; i++) { \
      LANE p = ((const LANE *)lanes)[i];          \
      ACC a = ((ACC *)acc)[i];                    \
      ((ACC *)acc)[i] = expression;               \
    }

static void wide_floats(reduce_kind kind, double *restrict acc, const float *restrict lanes,
                        int n) {
  switch (kind) {
  case REDUCE_PROD: WIDE(float, double, a *(double)p) break;
  case REDUCE_MAX: WIDE(float, double, (((double)p > a) | (p != p)) ? (double)p : a) break;
  case REDUCE_MIN: WIDE(float, double, (((double)p < a) | (p != p)) ? (double)p : a) break;
  default: WIDE(float, double, a + (double)p) break;
  }
}

static void wide_integers(reduce_kind kind, int32_t *restrict acc, const int32_t *restrict lanes,
                          int n) {
  switch (kind) {
  case REDUCE_SUM: WIDE(int32_t, int32_t, (int32_t)((uint32_t)a + (uint32_t)p)) break;
  case REDUCE_PROD: WIDE(int32_t, int32_t, (int32_t)((uint32_t)a * (uint32_t)p)) break;
  case REDUCE_MAX: WIDE(int32_t, int32_t, a > p ? a : p) break;
  case REDUCE_MIN: WIDE(int32_t, int32_t, a < p ? a : p) break;
  case REDUCE_ANY: WIDE(int32_t, int32_t, a | (p != 0)) break;
  case REDUCE_ALL: WIDE(int32_t, int32_t, a & (p != 0)) break;
  }
}

void ISA(lanes_reduce_wide)(reduce_kind kind, bool floats, void *acc, const void *lanes, int n) {
  if (floats)
    wide_floats(kind, acc, lanes, n);
  else
    wide_integers(kind, acc, lanes, n);
}
