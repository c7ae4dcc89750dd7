/* See attention.h. */
#include "device/cpu/attention.h"

#include "device/cpu/vectors.h"

#include <sinew/ops.h>

attention attention_of(const cpu_run *r, const core_part *c) {
  attention a = {.q = view_of(r, &c->in[0]),
                 .k = view_of(r, &c->in[1]),
                 .v = view_of(r, &c->in[2]),
                 .mask = view_of(r, &c->in[3]),
                 .bias = view_of(r, &c->in[4]),
                 .kv_length = view_of(r, &c->in[5]),
                 .sinks = view_of(r, &c->in[6]),
                 .from_start = c->ints[0] == SN_CAUSAL_START,
                 .causal = c->ints[0] != SN_CAUSAL_NONE || c->ints[1] > 0,
                 .window = c->ints[1],
                 .scale = (float)c->reals[0],
                 .softcap = (float)c->reals[1]};
  a.b = a.q.dim[0];
  a.hq = a.q.dim[1];
  a.sq = a.q.dim[2];
  a.d = a.q.dim[3];
  a.hk = a.k.dim[1];
  a.skv = a.k.dim[2];
  a.dv = a.v.dim[3];
  return a;
}

void attention_range(const attention *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
  int64_t length = a->skv;
  if (a->kv_length.data)
    length = view_i32(&a->kv_length, view_at(&a->kv_length, 1, &b));
  length = max_i64(0, min_i64(length, a->skv)); /* required elsewhere */
  int64_t at = a->from_start ? i : i + length - a->sq;
  *hi = a->causal ? min_i64(length, at + 1) : length;
  *lo = a->window > 0 && at >= a->window ? at - a->window + 1 : 0;
}

void attention_block_range(const attention *a, const attention_block *w, int64_t *lo, int64_t *hi) {
  *lo = a->skv;
  *hi = 0;
  for (int64_t i = w->i; i < w->i + w->n_rows; i++) {
    int64_t from, to;
    attention_range(a, w->b, i, &from, &to);
    if (from < to) {
      *lo = min_i64(*lo, from);
      *hi = max_i64(*hi, to);
    }
  }
}

const float *attention_rows(const view *v, int64_t b, int64_t h, int64_t s, int64_t n,
                            int64_t width, float *room, int64_t *out_row) {
  int64_t at = view_at(v, 3, (int64_t[]){b, h, s});
  if (v->dtype == SN_F32 && v->stride[3] == 1 && v->stride[2] >= width) {
    *out_row = v->stride[2];
    return (const float *)(const void *)v->data + at;
  }
  *out_row = width;
  for (int64_t i = 0; i < n; i++)
    view_read(v, at + i * v->stride[2], v->stride[3], width, room + i * width);
  return room;
}

/* --- numbers --- */

/* Bits of floats that are ordered as unsigned integers within a sign. */
#define BITS_MINUS_87 0xc2ae999au /* -87.3 */
#define BITS_88       0x42b00000u
#define BITS_INF      0x7f800000u
#define BITS_HALF     0x3f000000u
#define BITS_SIGN     0x80000000u

/* For choosing by bits: a choice by branches would keep loops from being vectors. */
INLINE uint32_t ones_if(bool condition) { return -(uint32_t)condition; }

/* n = round(x / ln 2), 2^n times a polynomial of the rest. NaN stays. */
INLINE float exp_of(float x) {
  const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
  uint32_t bits = f32_bits(x);
  uint32_t below = ones_if(bits - BITS_MINUS_87 <= (BITS_INF | BITS_SIGN) - BITS_MINUS_87);
  uint32_t above = ones_if(bits - BITS_88 <= BITS_INF - BITS_88);
  float y = f32_from_bits((bits & ~(below | above)) | (BITS_88 & above));
  float shifted = y * 1.44269504f + shift, n = shifted - shift;
  float r = y - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  uint32_t power = (f32_bits(shifted) - 0x4b400000u + 127u) << 23;
  return f32_from_bits(f32_bits(p * f32_from_bits(power)) & ~below);
}

float attention_exp_one(float x) { return exp_of(x); }

VECTORS static void exp_all(float *x, float minus, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    x[i] = exp_of(x[i] - minus);
}
void attention_exp(float *x, float minus, int64_t n) { exp_all(x, minus, n); }

/* Floats as integers of the same order; NaN, by its sign, above or below all. */
VECTORS static int32_t ordered_max(const float *x, int64_t n) {
  int32_t max = INT32_MIN;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits = (int32_t)f32_bits(x[i]), ordered = bits ^ (bits >> 31 & INT32_MAX);
    max = ordered > max ? ordered : max;
  }
  return max;
}
float attention_max(const float *x, int64_t n) {
  int32_t max = ordered_max(x, n);
  return n > 0 ? f32_from_bits((uint32_t)(max ^ (max >> 31 & INT32_MAX))) : -INFINITY;
}

VECTORS static float sum_all(const float *x, int64_t n) {
  float sum[16] = {0}, tail = 0;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; l++)
      sum[l] += x[i + l];
  for (; i < n; i++)
    tail += x[i];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; l++)
      sum[l] += sum[l + half];
  return sum[0] + tail;
}
float attention_sum(const float *x, int64_t n) { return sum_all(x, n); }

/* By its series near 0, where 1 - e would cancel. */
INLINE float tanh_of(float x) {
  float size = fabsf(x), e = exp_of(-2 * size), far = (1 - e) / (1 + e), t = x * x;
  float s = 3.59212804e-3f;
  s = s * t - 8.86323553e-3f;
  s = s * t + 2.18694885e-2f;
  s = s * t - 5.39682540e-2f;
  s = s * t + 1.33333333e-1f;
  s = s * t - 3.33333333e-1f;
  float near = size + size * t * s;
  uint32_t is_near = ones_if(f32_bits(size) < BITS_HALF);
  float away = f32_from_bits((f32_bits(near) & is_near) | (f32_bits(far) & ~is_near));
  return copysignf(away, x);
}

/* --- scores --- */

VECTORS static void scale_all(float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    x[i] *= by;
}

VECTORS static void cap_all(float *x, float cap, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    x[i] = cap * tanh_of(x[i] / cap);
}

/* From capped scores: scale * (1 - tanh^2). */
static void find_slopes(const attention *a, const float *scores, float *slopes, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float t = a->softcap > 0 ? scores[i] / a->softcap : 0;
    slopes[i] = a->scale * (1 - t * t);
  }
}

static void apply_bias(const attention *a, const attention_block *w, int64_t i, float *scores) {
  const view *v = &a->bias;
  int64_t at = view_at(v, 4, (int64_t[]){w->b, w->h, i, w->j});
  for (int64_t j = 0; j < w->n_keys; j++)
    scores[j] += view_load(v, at + j * v->stride[3]);
}

static void apply_mask(const attention *a, const attention_block *w, int64_t i, float *scores) {
  const view *v = &a->mask;
  int64_t at = view_at(v, 4, (int64_t[]){w->b, w->h, i, w->j});
  for (int64_t j = 0; j < w->n_keys; j++)
    if (!v->data[at + j * v->stride[3]])
      scores[j] = -INFINITY;
}

void attention_scores(const attention *a, const attention_block *w, int64_t i, float *scores,
                      float *slopes) {
  int64_t lo, hi, n = w->n_keys;
  scale_all(scores, a->scale, n);
  if (a->softcap > 0)
    cap_all(scores, a->softcap, n);
  if (slopes)
    find_slopes(a, scores, slopes, n);
  if (a->bias.data)
    apply_bias(a, w, i, scores);
  if (a->mask.data)
    apply_mask(a, w, i, scores);
  attention_range(a, w->b, i, &lo, &hi);
  for (int64_t j = 0; j < min_i64(n, lo - w->j); j++)
    scores[j] = -INFINITY;
  for (int64_t j = max_i64(0, hi - w->j); j < n; j++)
    scores[j] = -INFINITY;
}
