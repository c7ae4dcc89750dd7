/* Softmax for attention, and the table of its kernels. See attention.h. */
#include "device/cpu/isa/attention_set.h"

#include <math.h>

#define LOG2_E 1.44269504f

/* 2^x, within 2 units of the last place; 0 below 2^-126, infinity from 2^128 on; NaN stays. 2^x = 2^n * 2^f with n the
 * nearest integer; 2^f by a polynomial, the best on -1/2 … 1/2. */
VEC_INLINE vec exp2_of(vec x) {
#if defined(ISA_avx512)
  vec n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const vec shift =
      vec_all(12582912.0f); /* 1.5 * 2^23: adding it leaves an integer in the low bits */
  vec_i32 tiny = x < vec_all(-126.0f);
  x = choose(x > vec_all(128.0f), vec_all(128.0f), choose(tiny, vec_all(-126.0f), x));
  vec shifted = x + shift, n = shifted - shift;
#endif
  vec f = x - n;
  vec p = vec_all(1.5353362e-4f);
  p = vec_fma(p, f, vec_all(1.3398874e-3f));
  p = vec_fma(p, f, vec_all(9.6184374e-3f));
  p = vec_fma(p, f, vec_all(5.5503325e-2f));
  p = vec_fma(p, f, vec_all(2.4022648e-1f));
  p = vec_fma(p, f, vec_all(6.9314720e-1f));
  p = vec_fma(p, f, vec_all(1.0f));
#if defined(ISA_avx512)
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, vec_all(-126.0f), _CMP_NLT_UQ), p, n);
#else
  vec power = (vec)(((vec_i32)shifted - 0x4b400000 + 127) << 23);
  return (vec)((vec_i32)(p * power) & ~tiny);
#endif
}

/* By its series near 0, where 1 - e would cancel. */
VEC_INLINE vec tanh_of(vec x) {
  vec_i32 sign = (vec_i32)x & INT32_MIN;
  vec size = (vec)((vec_i32)x ^ sign), t = x * x;
  vec e = exp2_of(size * vec_all(-2 * LOG2_E)), far = (1 - e) / (1 + e);
  vec s = vec_all(3.59212804e-3f);
  s = vec_fma(s, t, vec_all(-8.86323553e-3f));
  s = vec_fma(s, t, vec_all(2.18694885e-2f));
  s = vec_fma(s, t, vec_all(-5.39682540e-2f));
  s = vec_fma(s, t, vec_all(1.33333333e-1f));
  s = vec_fma(s, t, vec_all(-3.33333333e-1f));
  vec near = vec_fma(size * t, s, size);
  return (vec)((vec_i32)choose(size < vec_all(0.5f), near, far) | sign);
}

static void cap(float *x, int64_t n, float by, float *slopes) {
  for (int64_t i = 0; i < n; i += VEC) {
    vec t = tanh_of(vec_load(x + i));
    if (slopes)
      vec_store(slopes + i, 1 - t * t);
    vec_store(x + i, t * vec_all(by));
  }
}

static vec_i32 load_i32(const int32_t *from) {
  vec_i32 x;
  memcpy(&x, from, sizeof x);
  return x;
}

static void hide(const attention_tile *t) {
  for (int64_t l = 0; l < t->lanes; l += VEC) {
    vec_i32 from = load_i32(t->from + l), to = load_i32(t->to + l);
    for (int64_t j = 0; j < t->keys; j++) {
      vec_i32 key = (int32_t)(t->j + j) - (vec_i32){0};
      float *at = t->scores + j * t->lanes + l;
      vec_store(at, choose((key >= from) & (key < to), vec_load(at), vec_all(-INFINITY)));
    }
  }
}

/* A lane of a mask is set. */
static bool any(vec_i32 mask) {
#if defined(ISA_avx512)
  return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(ISA_avx2)
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  int32_t all = 0;
  for (int i = 0; i < VEC; i++)
    all |= mask[i];
  return all != 0;
#endif
}

/* --- weights --- */

/* Lanes l … l+n*VEC-1. */
VEC_INLINE bool soften_some(const attention_tile *t, int64_t l, const int n) {
  vec before[4], top[4], sum[4];
  vec_i32 changed = {0};
  for (int v = 0; v < n; v++)
    before[v] = top[v] = vec_load(t->largest + l + v * VEC);
  for (int64_t j = 0; j < t->keys; j++)
    for (int v = 0; v < n; v++)
      top[v] = larger(vec_load(t->scores + j * t->lanes + l + v * VEC), top[v]);
  for (int v = 0; v < n; v++) {
    vec_store(t->largest + l + v * VEC, top[v]);
    /* Where nothing counts yet: any number will do. */
    top[v] = choose(top[v] == vec_all(-INFINITY), (vec){0}, top[v]);
    sum[v] = (vec){0};
  }
  for (int64_t j = 0; j < t->keys; j++)
    for (int v = 0; v < n; v++) {
      float *at = t->scores + j * t->lanes + l + v * VEC;
      vec p = exp2_of(vec_load(at) - top[v]);
      vec_store(at, p);
      sum[v] += p;
    }
  for (int v = 0; v < n; v++) {
    vec keep = exp2_of(before[v] - top[v]);
    vec_store(t->keep + l + v * VEC, keep);
    vec_store(t->total + l + v * VEC, vec_fma(vec_load(t->total + l + v * VEC), keep, sum[v]));
    changed |= keep != vec_all(1);
  }
  return any(changed);
}
static bool soften(const attention_tile *t) {
  bool changed = false;
  int64_t l = 0;
  for (; l + 4 * VEC <= t->lanes; l += 4 * VEC)
    changed |= soften_some(t, l, 4);
  for (; l < t->lanes; l += VEC)
    changed |= soften_some(t, l, 1);
  return changed;
}

VEC_INLINE void weigh_some(const attention_tile *t, int64_t l, const int n) {
  vec lse[4], common[4];
  for (int v = 0; v < n; v++) {
    lse[v] = vec_load(t->lse + l + v * VEC);
    common[v] = vec_load(t->common + l + v * VEC);
  }
  for (int64_t j = 0; j < t->keys; j++)
    for (int v = 0; v < n; v++) {
      int64_t at = j * t->lanes + l + v * VEC;
      vec p = exp2_of(vec_load(t->scores + at) - lse[v]);
      vec ds = p * (vec_load(t->arrives + at) + common[v]);
      if (t->slopes)
        ds *= vec_load(t->slopes + at);
      vec_store(t->scores + at, p);
      vec_store(t->arrives + at, ds);
    }
}
static void weigh(const attention_tile *t) {
  int64_t l = 0;
  for (; l + 4 * VEC <= t->lanes; l += 4 * VEC)
    weigh_some(t, l, 4);
  for (; l < t->lanes; l += VEC)
    weigh_some(t, l, 1);
}

static void scale(float *x, int64_t rows, int64_t lanes, const float *by) {
  for (int64_t l = 0; l < lanes; l += VEC) {
    vec factor = vec_load(by + l);
    for (int64_t i = 0; i < rows; i++)
      vec_store(x + i * lanes + l, vec_load(x + i * lanes + l) * factor);
  }
}

static void add(float *x, int64_t rows, int64_t lanes, const float *y, bool for_all) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t l = 0; l < lanes; l += VEC) {
      vec more = for_all ? vec_all(y[i]) : vec_load(y + i * lanes + l);
      vec_store(x + i * lanes + l, vec_load(x + i * lanes + l) + more);
    }
}

/* --- one row --- */

static float largest_of(vec x) {
  float top = x[0];
  for (int i = 1; i < VEC; i++)
    top = x[i] > top ? x[i] : top;
  return top;
}

/* What lies behind n, up to a whole vector, is hidden. */
static float soften_row(float *scores, int64_t n, float unit, float *largest, float *total) {
  vec top = vec_all(-INFINITY), sum = {0};
  for (int64_t j = n; j % VEC != 0; j++)
    scores[j] = -INFINITY;
  for (int64_t j = 0; j < n; j += VEC)
    top = larger(vec_load(scores + j), top);
  float most = largest_of(top), here = most * unit, before = *largest;
  float down = before > here && here != -INFINITY ? before - here : 0;
  here = here > before ? here : before;
  *largest = here;
  here = here == -INFINITY ? 0 : here;
  most = most == -INFINITY ? 0 : most;
  /* Less the largest in its own units first: the largest itself must come to 0 whatever the factor rounds to. */
  for (int64_t j = 0; j < n; j += VEC) {
    vec p = exp2_of(vec_fma(vec_load(scores + j) - vec_all(most), vec_all(unit), vec_all(-down)));
    vec_store(scores + j, p);
    sum += p;
  }
  float keep = exp2_of(vec_all(before - here))[0];
  *total = *total * keep + vec_sum(sum);
  return keep;
}

static void exp_row(float *x, float minus, int64_t n) {
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC)
    vec_store(x + i, exp2_of((vec_load(x + i) - vec_all(minus)) * vec_all(LOG2_E)));
  if (i < n)
    vec_store_some(x + i,
                   exp2_of((vec_load_some(x + i, (int)(n - i)) - vec_all(minus)) * vec_all(LOG2_E)),
                   (int)(n - i));
}

static bool finite(const float *x, int64_t n) {
  vec sum = {0};
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC)
    sum = vec_fma(vec_load(x + i), (vec){0}, sum);
  if (i < n)
    sum = vec_fma(vec_load_some(x + i, (int)(n - i)), (vec){0}, sum);
  return !any(sum != 0);
}

/* to (+)= x * by; returns lanes that are 0 where all of it is finite. */
VEC_INLINE vec add_scaled(float *to, const float *x, float by, int64_t n, bool add) {
  vec check = {0};
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC) {
    vec sum = vec_fma(vec_load(x + i), vec_all(by), add ? vec_load(to + i) : (vec){0});
    vec_store(to + i, sum);
    check = vec_fma(sum, (vec){0}, check);
  }
  if (i < n) {
    int some = (int)(n - i);
    vec sum = add ? vec_load_some(to + i, some) : (vec){0};
    sum = vec_fma(vec_load_some(x + i, some), vec_all(by), sum);
    vec_store_some(to + i, sum, some);
    check = vec_fma(sum, (vec){0}, check);
  }
  return check;
}

/* Mostly there is one part, and this is 1. */
static float weight_of(float x) { return x == 0 ? 1 : exp2_of(vec_all(x))[0]; }

static bool join(const attention_parts *p, float *to, float *largest, float *total) {
  float top = p->sink * LOG2_E, all = 0;
  vec check = {0};
  for (int64_t i = 0; i < p->n; i++)
    top = p->largest[i * p->stride] > top ? p->largest[i * p->stride] : top;
  float base = top == -INFINITY ? 0 : top;
  if (p->sink != -INFINITY)
    all = weight_of(p->sink * LOG2_E - base);
  for (int64_t i = 0; i < p->n; i++)
    all += p->total[i * p->stride] * weight_of(p->largest[i * p->stride] - base);
  for (int64_t i = 0; i < p->n; i++) {
    float weight = weight_of(p->largest[i * p->stride] - base);
    check +=
        add_scaled(to, p->sums + i * p->sums_stride, all == 0 ? 1 : weight / all, p->width, i > 0);
  }
  *largest = top;
  *total = all;
  return all - all == 0 && !any(check != 0);
}

extern const attention_kernels ISA(attention_kernels);
const attention_kernels ISA(attention_kernels) = {
    .vector = VEC,
    .multiply = ISA(attention_multiply),
    .transpose = ISA(attention_transpose),
    .cap = cap,
    .add = add,
    .hide = hide,
    .soften = soften,
    .weigh = weigh,
    .scale = scale,
    .dots = ISA(attention_multiply_rows),
    .soften_row = soften_row,
    .exp_row = exp_row,
    .join = join,
    .finite = finite,
    .widen_bf16 = ISA(attention_widen_bf16),
    .widen_f16 = ISA(attention_widen_f16),
};
