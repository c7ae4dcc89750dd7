/* Lines and squares by recipes: see pack.h.
 *
 * A line is loaded VEC lanes at a time: of every run its lanes with a mask, the others kept. What a mask leaves out is not
 * touched, so runs may stand anywhere in memory. */
#include "device/cpu/isa/pack.h"

#include "base/half.h"
#include "device/cpu/isa/turn.h"

#include <stdbool.h>

/* Ways to load, as constants of inlined loops: f32 one after the other, every second f32, halves one after the other, anything. */
typedef enum way { DENSE, SECOND, DENSE_F16, DENSE_BF16, ANY } way;

enum { VECTORS = PACK_LANES / VEC };

VEC_INLINE float element(const pack_source *s, int64_t i) {
  if (s->dtype == PACK_F32)
    return ((const float *)s->data)[i];
  uint16_t half = ((const uint16_t *)s->data)[i];
  return s->dtype == PACK_F16 ? half_to_f32(half) : bf16_to_f32(half);
}

/* Lanes first … first+VEC-1 of a line at element `at`; r has some of them. The others stay as in x. */
VEC_INLINE vec load_any(const pack_source *s, const pack_run *r, int64_t at, int first, vec x) {
  int from = r->lane > first ? r->lane : first;
  int to = r->lane + r->n < first + VEC ? r->lane + r->n : first + VEC;
  for (int l = from; l < to; l++)
    x[l - first] = element(s, at + r->at + l * s->by);
  return x;
}

#if defined(ISA_avx512)
/* Bit l to bit 2 l. */
VEC_INLINE uint32_t spread(uint32_t x) {
  x = (x | x << 8) & 0x00ff00ff;
  x = (x | x << 4) & 0x0f0f0f0f;
  x = (x | x << 2) & 0x33333333;
  return (x | x << 1) & 0x55555555;
}

/* Every second element, of which `each` has those of the lanes m; the other lanes stay as in x. */
VEC_INLINE __m512 load_second(const float *f, uint32_t each, __mmask16 m, __m512 x) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  __m512 lo = _mm512_maskz_loadu_ps((__mmask16)each, f);
  __m512 hi = _mm512_maskz_loadu_ps((__mmask16)(each >> 16), f + 16);
  return _mm512_mask_mov_ps(x, m, _mm512_permutex2var_ps(lo, even, hi));
}

VEC_INLINE vec load_run(way how, const pack_source *s, const pack_run *r, int64_t at, int first,
                        vec x) {
  __mmask16 m = (__mmask16)(r->mask >> first);
  int64_t i = at + r->at + first * (how == SECOND ? 2 : 1);
  const float *f = (const float *)s->data + i;
  const uint16_t *h = (const uint16_t *)s->data + i;
  if (how == DENSE)
    return (vec)_mm512_mask_loadu_ps((__m512)x, m, f);
  if (how == SECOND)
    return (vec)load_second(f, spread(m), m, (__m512)x);
  __m256i halves = _mm256_maskz_loadu_epi16(m, h);
  __m512 wide = how == DENSE_F16 ? _mm512_cvtph_ps(halves)
                                 : (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
  return (vec)_mm512_mask_mov_ps((__m512)x, m, wide);
}
#elif defined(ISA_avx2)
/* All bits of the lanes that m has. */
VEC_INLINE __m256i lanes_of(uint32_t m) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)m), bits), bits);
}

VEC_INLINE vec load_run(way how, const pack_source *s, const pack_run *r, int64_t at, int first,
                        vec x) {
  __m256i m = lanes_of(r->mask >> first);
  int64_t i = at + r->at + first * (how == SECOND ? 2 : 1);
  const float *f = (const float *)s->data + i;
  if (how == DENSE)
    return (vec)_mm256_blendv_ps((__m256)x, _mm256_maskload_ps(f, m), (__m256)m);
  if (how == SECOND) {
    const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    const __m256i even = _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0);
    __m256i lo = _mm256_and_si256(_mm256_permutevar8x32_epi32(m, low), even);
    __m256i hi = _mm256_and_si256(_mm256_permutevar8x32_epi32(m, high), even);
    __m256 both = _mm256_shuffle_ps(_mm256_maskload_ps(f, lo), _mm256_maskload_ps(f + 8, hi), 0x88);
    both = (__m256)_mm256_permute4x64_pd((__m256d)both, 0xd8);
    return (vec)_mm256_blendv_ps((__m256)x, both, (__m256)m);
  }
  if ((r->mask >> first & 0xff) != 0xff)
    return load_any(s, r, at, first, x);
  __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)s->data + i));
  return how == DENSE_F16 ? (vec)_mm256_cvtph_ps(halves)
                          : (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
}
#else
VEC_INLINE vec load_run(way how, const pack_source *s, const pack_run *r, int64_t at, int first,
                        vec x) {
  if (how == DENSE && (r->mask >> first & ((1u << VEC) - 1)) == (1u << VEC) - 1)
    return vec_load((const float *)s->data + at + r->at + first);
  return load_any(s, r, at, first, x);
}
#endif

VEC_INLINE vec load_of(way how, const pack_source *s, const pack_run *r, int64_t at, int first,
                       vec x) {
  return how == ANY ? load_any(s, r, at, first, x) : load_run(how, s, r, at, first, x);
}

/* --- lines --- */

/* The runs that reach into one vector of a line, of every class. */
typedef struct vector_runs {
  int most; /* of any class */
  const pack_recipe *recipes;
  uint8_t n[PACK_CLASSES], run[PACK_CLASSES][VEC];
} vector_runs;

static void find_runs(const pack_lines *w, int vector, vector_runs *out) {
  uint32_t lanes = ((1u << VEC) - 1) << vector * VEC;
  out->most = 0;
  out->recipes = w->recipes;
  for (int c = 0; c < w->classes; c++) {
    const pack_recipe *r = &w->recipes[c];
    int n = 0;
    for (int i = 0; i < r->n; i++)
      if (r->runs[i].mask & lanes)
        out->run[c][n++] = (uint8_t)i;
    out->n[c] = (uint8_t)n;
    out->most = n > out->most ? n : out->most;
  }
}

/* One vector of a line. */
VEC_INLINE vec load_vector(way how, const pack_source *s, const vector_runs *v, int class_of,
                           int64_t at, int first) {
  const pack_run *runs = v->recipes[class_of].runs;
  vec x = {0};
  for (int i = 0; i < v->n[class_of]; i++)
    x = load_of(how, s, &runs[v->run[class_of][i]], at, first, x);
  return x;
}

VEC_INLINE void copy_vectors(way how, const pack_source *s, const vector_runs *v,
                             const pack_lines *w, int first) {
  int lanes = w->lanes - first < VEC ? w->lanes - first : VEC;
  for (int64_t q = 0; q < w->n; q++) {
    vec x = load_vector(how, s, v, w->class_of[q], w->at[q], first);
    float *to = w->to + q * w->step + first;
    if (lanes == VEC)
      vec_store(to, x);
    else
      vec_store_some(to, x, lanes);
  }
}

#if defined(ISA_avx512)
/* At most n runs a vector, for constant n: two vectors to the line, runs that are missing have no lanes. */
enum { FEW_RUNS = 4 };
typedef struct few_runs {
  int64_t at[2 * FEW_RUNS];
  uint32_t each[2 * FEW_RUNS]; /* of SECOND: a bit an element in memory */
  __mmask16 mask[2 * FEW_RUNS];
} few_runs;

VEC_INLINE __m512 load_few(way how, const float *from, const few_runs *r, int first, int n) {
  __m512 x = _mm512_setzero_ps();
  for (int i = first; i < first + n; i++)
    x = how == DENSE ? _mm512_mask_loadu_ps(x, r->mask[i], from + r->at[i])
                     : load_second(from + r->at[i], r->each[i], r->mask[i], x);
  return x;
}

VEC_INLINE void copy_few(way how, const pack_source *s, const few_runs *runs, const pack_lines *w,
                         int n) {
  const float *data = s->data;
  __mmask16 low = (__mmask16)(w->lanes < VEC ? (1u << w->lanes) - 1 : 0xffff);
  __mmask16 high = (__mmask16)(w->lanes <= VEC ? 0 : (1u << (w->lanes - VEC)) - 1);
  for (int64_t q = 0; q < w->n; q++) {
    const few_runs *r = &runs[w->class_of[q]];
    const float *from = data + w->at[q];
    float *to = w->to + q * w->step;
    _mm512_mask_storeu_ps(to, low, load_few(how, from, r, 0, n));
    if (high == 0xffff)
      _mm512_storeu_ps(to + VEC, load_few(how, from, r, n, n));
    else if (high)
      _mm512_mask_storeu_ps(to + VEC, high, load_few(how, from, r, n, n));
  }
}

static void find_few(const vector_runs v[2], int classes, int64_t by, int n, few_runs *out) {
  for (int c = 0; c < classes; c++)
    for (int i = 0; i < 2 * n; i++) {
      const vector_runs *of = &v[i / n];
      bool has = i % n < of->n[c];
      const pack_run *r = has ? &of->recipes[c].runs[of->run[c][i % n]] : NULL;
      out[c].at[i] = has ? r->at + i / n * VEC * by : 0;
      out[c].mask[i] = (__mmask16)(has ? r->mask >> i / n * VEC : 0);
      out[c].each[i] = spread(out[c].mask[i]);
    }
}

VEC_INLINE bool copy_pairs(way how, const pack_source *s, const vector_runs v[2],
                           const pack_lines *w) {
  few_runs runs[PACK_CLASSES];
  int most = v[0].most > v[1].most ? v[0].most : v[1].most;
  if (most > FEW_RUNS)
    return false;
  most = most > 0 ? most : 1;
  find_few(v, w->classes, s->by, most, runs);
  if (most == 1)
    copy_few(how, s, runs, w, 1);
  else if (most == 2)
    copy_few(how, s, runs, w, 2);
  else if (most == 3)
    copy_few(how, s, runs, w, 3);
  else
    copy_few(how, s, runs, w, 4);
  return true;
}
#else
VEC_INLINE bool copy_pairs(way how, const pack_source *s, const vector_runs *v,
                           const pack_lines *w) {
  (void)how, (void)s, (void)v, (void)w;
  return false;
}
#endif

VEC_INLINE void copy_lines(way how, const pack_source *s, const pack_lines *w) {
  vector_runs v[VECTORS];
  for (int i = 0; i < VECTORS; i++)
    find_runs(w, i, &v[i]);
  if ((how == DENSE || how == SECOND) && copy_pairs(how, s, v, w))
    return;
  for (int i = 0; i * VEC < w->lanes; i++)
    copy_vectors(how, s, &v[i], w, i * VEC);
}

static way way_of(const pack_source *s) {
  bool vectors = VEC > 4;
  if (s->dtype == PACK_F32)
    return s->by == 1 ? DENSE : s->by == 2 && vectors ? SECOND : ANY;
  if (s->by != 1 || !vectors)
    return ANY;
  return s->dtype == PACK_F16 ? DENSE_F16 : DENSE_BF16;
}

static void lines(const pack_source *s, const pack_lines *w) {
  switch (way_of(s)) {
  case DENSE: copy_lines(DENSE, s, w); break;
  case SECOND: copy_lines(SECOND, s, w); break;
  case DENSE_F16: copy_lines(DENSE_F16, s, w); break;
  case DENSE_BF16: copy_lines(DENSE_BF16, s, w); break;
  default: copy_lines(ANY, s, w);
  }
}

/* --- columns --- */

VEC_INLINE vec load_line(way how, const pack_source *s, const pack_recipe *r, int64_t at,
                         int first) {
  vec x = load_of(how, s, &r->runs[0], at, first, (vec){0});
  for (int k = 1; k < r->n; k++)
    x = load_of(how, s, &r->runs[k], at, first, x);
  return x;
}

/* VEC columns by VEC lanes, from column c and lane p of a square; n of the columns are lines. */
VEC_INLINE void turn_block(way how, const pack_source *s, const pack_columns *w,
                           const pack_recipe *recipes, int c, int p, int steps, float *to, int n,
                           int lanes) {
  vec x[VEC];
  for (int i = 0; i < VEC; i++)
    if (i < n)
      x[i] = load_line(how, s, &recipes[w->class_of[c + i]], w->at[c + i], p);
    else
      x[i] = (vec){0};
  vec_turn(x);
  to += p * w->step + c;
  for (int i = 0; i < VEC; i++)
    if (i < steps && lanes == VEC)
      vec_store(to + i * w->step, x[i]);
    else if (i < steps)
      vec_store_some(to + i * w->step, x[i], lanes);
}

/* Whole blocks, and those of panels of 12, are compiled for their sizes. */
VEC_INLINE void turn_any(way how, const pack_source *s, const pack_columns *w,
                         const pack_recipe *recipes, int c, int p, int steps, float *to) {
  int n = w->n - c < VEC ? w->n - c : VEC, lanes = w->lanes - c < VEC ? w->lanes - c : VEC;
  steps = steps - p < VEC ? steps - p : VEC;
  n = n < 0 ? 0 : n;
  if (n == VEC && steps == VEC)
    turn_block(how, s, w, recipes, c, p, VEC, to, VEC, VEC);
  else if (VEC > 12 && n == 12 && lanes == 12 && steps == VEC)
    turn_block(how, s, w, recipes, c, p, VEC, to, 12, 12);
  else
    turn_block(how, s, w, recipes, c, p, steps, to, n, lanes);
}

VEC_INLINE void turn_lines(way how, const pack_source *s, const pack_columns *w) {
  const pack_recipe *recipes = w->recipes;
  float *to = w->to;
  for (int at = 0; at < w->steps; at += PACK_SQUARE) {
    int steps = w->steps - at < PACK_SQUARE ? w->steps - at : PACK_SQUARE;
    for (int c = 0; c < w->lanes; c += VEC)
      for (int p = 0; p < steps; p += VEC)
        turn_any(how, s, w, recipes, c, p, steps, to);
    recipes += w->classes;
    to += PACK_SQUARE * w->step;
  }
}

static void columns(const pack_source *s, const pack_columns *w) {
  switch (way_of(s)) {
  case DENSE: turn_lines(DENSE, s, w); break;
  case SECOND: turn_lines(SECOND, s, w); break;
  case DENSE_F16: turn_lines(DENSE_F16, s, w); break;
  case DENSE_BF16: turn_lines(DENSE_BF16, s, w); break;
  default: turn_lines(ANY, s, w);
  }
}

void ISA(pack_sums)(const pack_sums *w);

extern const pack_kernels ISA(pack_kernels);
const pack_kernels ISA(pack_kernels) = {lines, columns, ISA(pack_sums)};
