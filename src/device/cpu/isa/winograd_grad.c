/* Transforms for gradients of weights (conv_winograd_grad.c): see winograd.h. Lanes are channels: pixels are turned so that the
 * channels of each stand together, before anything is computed. So short lines waste no lanes, and results are steps of panels. */
#include "device/cpu/isa/turn.h"
#include "device/cpu/isa/winograd_set.h"

/* One row of pixels, a vector of channels for each of so many columns. */
static void stage_row(const winograd_turned *w, const float *row, int64_t columns, float *to) {
  for (int64_t c = 0; c < columns; c += VEC) {
    vec x[VEC] = {{0}};
    lane_range r = lanes_among(w->lo, w->hi, c);
    for (int q = 0; row && q < w->channels; q++)
      x[q] = load_lanes(column_at(row, q * w->channel + c), r);
    vec_turn(x);
    for (int i = 0; i < VEC && c + i < columns; i++)
      vec_store(to + (c + i) * VEC, x[i]);
  }
}

VEC_INLINE void put_step(const winograd_turned *w, float *to, int plane, vec x) {
  if (w->lanes == VEC)
    vec_store(to + plane * w->plane, x);
  else
    vec_store_some(to + plane * w->plane, x, w->lanes);
}

/* Column c of the staged rows, transformed down. */
VEC_INLINE void image_column(const float *staged, int64_t columns, int64_t c,
                             vec to[WINOGRAD_PATCH]) {
  vec d[WINOGRAD_PATCH];
  for (int i = 0; i < WINOGRAD_PATCH; i++)
    d[i] = vec_load(staged + (i * columns + c) * VEC);
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

void ISA(winograd_turn_images)(const winograd_turned *w) {
  int64_t columns = WINOGRAD_TILE * w->n + WINOGRAD_PATCH - WINOGRAD_TILE;
  vec a[WINOGRAD_PATCH], b[WINOGRAD_PATCH], c[WINOGRAD_PATCH], d[WINOGRAD_PATCH];
  for (int i = 0; i < WINOGRAD_PATCH; i++)
    stage_row(w, w->rows[i], columns, w->staged + i * columns * VEC);
  image_column(w->staged, columns, 0, a);
  image_column(w->staged, columns, 1, b);
  float *to = w->to;
  for (int64_t t = 0; t < w->n; t++, to += w->step) {
    image_column(w->staged, columns, WINOGRAD_TILE * t + 2, c);
    image_column(w->staged, columns, WINOGRAD_TILE * t + 3, d);
    for (int i = 0; i < WINOGRAD_PATCH; i++) {
      put_step(w, to, WINOGRAD_PATCH * i, a[i] - c[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 1, b[i] + c[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 2, c[i] - b[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 3, b[i] - d[i]);
      a[i] = c[i];
      b[i] = d[i];
    }
  }
}

void ISA(winograd_turn_results)(const winograd_turned *w) {
  int64_t columns = WINOGRAD_TILE * w->n;
  for (int i = 0; i < WINOGRAD_TILE; i++)
    stage_row(w, w->rows[i], columns, w->staged + i * columns * VEC);
  float *to = w->to;
  for (int64_t t = 0; t < w->n; t++, to += w->step) {
    const float *top = w->staged + WINOGRAD_TILE * t * VEC, *low = top + columns * VEC;
    vec a = vec_load(top), b = vec_load(top + VEC), c = vec_load(low), d = vec_load(low + VEC);
    const vec left[WINOGRAD_PATCH] = {a, a + c, a - c, -c};
    const vec right[WINOGRAD_PATCH] = {b, b + d, b - d, -d};
    for (int i = 0; i < WINOGRAD_PATCH; i++) {
      put_step(w, to, WINOGRAD_PATCH * i, left[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 1, left[i] + right[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 2, left[i] - right[i]);
      put_step(w, to, WINOGRAD_PATCH * i + 3, -right[i]);
    }
  }
}

/* --- back --- */

enum { TAPS = WINOGRAD_TAPS, ALL_TAPS = TAPS * TAPS };

/* Four become three. */
VEC_INLINE void restore_taps(vec a, vec b, vec c, vec d, vec to[TAPS]) {
  const vec half = vec_all(0.5f);
  vec sum = half * (b + c);
  to[0] = a + sum;
  to[1] = half * (b - c);
  to[2] = sum + d;
}

/* n kernels, whose taps stand one after the other. */
VEC_INLINE void put_taps(float *to, vec g[ALL_TAPS], int n) {
#if defined(ISA_avx512)
  vec x[VEC] = {{0}};
  for (int t = 0; t < ALL_TAPS; t++)
    x[t] = g[t];
  vec_turn(x);
  for (int i = 0; i < n; i++)
    vec_store_some(to + i * ALL_TAPS, x[i], ALL_TAPS);
#else
  for (int i = 0; i < n; i++)
    for (int t = 0; t < ALL_TAPS; t++)
      to[i * ALL_TAPS + t] = g[t][i];
#endif
}

void ISA(winograd_taps)(const winograd_sums *w) {
  for (int64_t i = 0; i < w->n; i += VEC) {
    vec m[WINOGRAD_PATCH][TAPS], g[ALL_TAPS];
    int n = (int)(w->n - i < VEC ? w->n - i : VEC);
    for (int y = 0; y < WINOGRAD_PATCH; y++) {
      const float *from = w->from + WINOGRAD_PATCH * y * w->plane + i;
      restore_taps(vec_load_some(from, n), vec_load_some(from + w->plane, n),
                   vec_load_some(from + 2 * w->plane, n), vec_load_some(from + 3 * w->plane, n),
                   m[y]);
    }
    for (int x = 0; x < TAPS; x++) {
      vec down[TAPS];
      restore_taps(m[0][x], m[1][x], m[2][x], m[3][x], down);
      for (int y = 0; y < TAPS; y++)
        g[y * TAPS + x] = down[y];
    }
    put_taps(w->to + i * ALL_TAPS, g, n);
  }
}
