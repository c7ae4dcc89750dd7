/* See winograd.h. Lanes are tiles; a line is transformed down its rows first, then along them, by the matrices of conv_winograd.h.
 *
 * Along a line pixels stand in order, and those of a tile overlap its neighbours': they are parted into even and odd columns, and
 * the second two of a tile's four are the first two of the next. So a vector has one tile less than it has lanes. */
#include "device/cpu/isa/turn.h"
#include "device/cpu/isa/winograd_set.h"

#include <stddef.h>

#if defined(ISA_avx512)
#define EVEN    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD     1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define ONWARDS 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0
#define FIRST   0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(ISA_avx2)
#define EVEN    0, 2, 4, 6, 8, 10, 12, 14
#define ODD     1, 3, 5, 7, 9, 11, 13, 15
#define ONWARDS 1, 2, 3, 4, 5, 6, 7, 0
#define FIRST   0, 8, 1, 9, 2, 10, 3, 11
#define SECOND  4, 12, 5, 13, 6, 14, 7, 15
#else
#define EVEN    0, 2, 4, 6
#define ODD     1, 3, 5, 7
#define ONWARDS 1, 2, 3, 0
#define FIRST   0, 4, 1, 5
#define SECOND  2, 6, 3, 7
#endif
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* --- weights: lanes are results --- */

enum { TAPS = WINOGRAD_TAPS };

/* Tap by tap, of n kernels. Those that lie densely, in order or the other way round, are loaded whole and turned. */
VEC_INLINE void load_taps(const winograd_weights *w, const float *from, int n, vec g[TAPS][TAPS]) {
#if defined(ISA_avx512)
  if (w->row == TAPS * w->column && (w->column == 1 || w->column == -1)) {
    vec x[VEC] = {{0}};
    const float *least = w->column < 0 ? from - (TAPS * TAPS - 1) : from;
    for (int i = 0; i < n; i++)
      x[i] = vec_load_some(least + i * w->result, TAPS * TAPS);
    vec_turn(x);
    for (int t = 0; t < TAPS * TAPS; t++)
      g[t / TAPS][t % TAPS] = x[w->column < 0 ? TAPS * TAPS - 1 - t : t];
    return;
  }
#endif
  for (int y = 0; y < TAPS; y++)
    for (int x = 0; x < TAPS; x++) {
      vec v = {0};
      for (int i = 0; i < n; i++)
        v[i] = from[i * w->result + y * w->row + x * w->column];
      g[y][x] = v;
    }
}

/* Three become four. */
VEC_INLINE void transform_taps(vec a, vec b, vec c, vec to[WINOGRAD_PATCH]) {
  const vec half = vec_all(0.5f);
  vec ends = half * (a + c), middle = half * b;
  to[0] = a;
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = c;
}

VEC_INLINE void transform_weights(const winograd_weights *w, int64_t q, int first, int lanes) {
  vec g[TAPS][TAPS], rows[TAPS][WINOGRAD_PATCH], column[WINOGRAD_PATCH];
  int64_t n = w->n - first < lanes ? w->n - first : lanes;
  load_taps(w, w->from + first * w->result + q * w->channel, n < 0 ? 0 : (int)n, g);
  for (int y = 0; y < TAPS; y++)
    transform_taps(g[y][0], g[y][1], g[y][2], rows[y]);
  float *to = w->to + q * TILE_ROWS + first;
  for (int i = 0; i < WINOGRAD_PATCH; i++) {
    transform_taps(rows[0][i], rows[1][i], rows[2][i], column);
    for (int j = 0; j < WINOGRAD_PATCH; j++)
      vec_store_some(to + (j * WINOGRAD_PATCH + i) * w->plane, column[j], lanes);
  }
}

static void weights(const winograd_weights *w) {
  for (int64_t q = 0; q < w->channels; q++)
    for (int first = 0; first < TILE_ROWS; first += VEC)
      transform_weights(w, q, first, TILE_ROWS - first < VEC ? TILE_ROWS - first : VEC);
}

/* --- patches --- */

static lane_range lanes_of(const winograd_line *w, int row, int64_t column) {
  return lanes_among(w->lo, w->rows[row] ? w->hi : w->lo, column);
}

/* Where a vector of tiles goes: the first `room` lanes to a panel, the others, up to `lanes`, to the next. */
typedef struct patch_place {
  float *to, *next;
  int room, lanes;
  int64_t plane;
} patch_place;

VEC_INLINE void put_lanes(const patch_place *p, int64_t plane, vec x) {
  float *to = p->to + plane * p->plane, *next = p->next + plane * p->plane;
  if (p->room >= VEC) {
    vec_store(to, x);
    return;
  }
#if defined(ISA_avx512)
  __mmask16 here = (__mmask16)((1u << p->room) - 1), all = (__mmask16)((1u << p->lanes) - 1);
  _mm512_mask_storeu_ps(to, here & all, x);
  _mm512_mask_storeu_ps(next - p->room, (__mmask16)(all & ~here), x);
#else
  for (int i = 0; i < p->lanes; i++)
    *(i < p->room ? to + i : next + i - p->room) = x[i];
#endif
}

/* One row of the transformed patch. a: columns 0 … VEC-1, b: the next. */
VEC_INLINE void put_row(vec a, vec b, const patch_place *p, int row) {
  vec even = SHUFFLE(a, b, EVEN), odd = SHUFFLE(a, b, ODD);
  vec even2 = SHUFFLE(even, even, ONWARDS), odd2 = SHUFFLE(odd, odd, ONWARDS);
  put_lanes(p, WINOGRAD_PATCH * row, even - even2);
  put_lanes(p, WINOGRAD_PATCH * row + 1, odd + even2);
  put_lanes(p, WINOGRAD_PATCH * row + 2, even2 - odd);
  put_lanes(p, WINOGRAD_PATCH * row + 3, odd - odd2);
}

/* Up to VEC - 1 tiles from tile t on, of all channels. */
VEC_INLINE void transform(const winograd_line *w, int64_t t, bool whole) {
  int64_t j = w->first + t, column = WINOGRAD_TILE * t;
  float *to = w->to + j / TILE_COLS * w->panel;
  patch_place p = {.to = to + j % TILE_COLS,
                   .next = to + w->panel,
                   .room = whole ? VEC : (int)(TILE_COLS - j % TILE_COLS),
                   .lanes = (int)(w->n - t < VEC - 1 ? w->n - t : VEC - 1),
                   .plane = w->plane};
  const float *from[WINOGRAD_PATCH];
  lane_range r[WINOGRAD_PATCH][2];
  for (int i = 0; i < WINOGRAD_PATCH; i++) {
    from[i] = column_at(w->rows[i], column);
    r[i][0] = lanes_of(w, i, column);
    r[i][1] = lanes_of(w, i, column + VEC);
  }
  for (int64_t q = 0; q < w->channels; q++, p.to += TILE_COLS, p.next += TILE_COLS) {
    vec a[WINOGRAD_PATCH], b[WINOGRAD_PATCH];
    for (int i = 0; i < WINOGRAD_PATCH; i++) {
      a[i] = load_lanes(from[i], r[i][0]);
      b[i] = load_lanes(column_at(from[i], VEC), r[i][1]);
      from[i] = column_at(from[i], w->channel);
    }
    put_row(a[0] - a[2], b[0] - b[2], &p, 0);
    put_row(a[1] + a[2], b[1] + b[2], &p, 1);
    put_row(a[2] - a[1], b[2] - b[1], &p, 2);
    put_row(a[1] - a[3], b[1] - b[3], &p, 3);
  }
}

static void patches(const winograd_line *w) {
  for (int64_t t = 0; t < w->n; t += VEC - 1)
    if ((w->first + t) % TILE_COLS <= TILE_COLS - VEC)
      transform(w, t, true);
    else
      transform(w, t, false);
}

/* --- results --- */

VEC_INLINE void put_results(float *to, vec even, vec odd, int64_t n) {
  vec first = SHUFFLE(even, odd, FIRST), second = SHUFFLE(even, odd, SECOND);
  if (n >= 2 * VEC) {
    vec_store(to, first);
    vec_store(to + VEC, second);
  } else {
    vec_store_some(to, first, (int)(n < VEC ? n : VEC));
    if (n > VEC)
      vec_store_some(to + VEC, second, (int)(n - VEC));
  }
}

/* Tiles t …, of one channel. */
VEC_INLINE void restore(const winograd_results *w, int64_t q, int64_t t) {
  vec s[WINOGRAD_PATCH][2];
  for (int i = 0; i < WINOGRAD_PATCH; i++) {
    const float *m = w->from + WINOGRAD_PATCH * i * w->plane + q * w->row + t;
    vec m1 = vec_load(m + w->plane), m2 = vec_load(m + 2 * w->plane);
    s[i][0] = vec_load(m) + m1 + m2;
    s[i][1] = m1 - m2 - vec_load(m + 3 * w->plane);
  }
  int64_t at = WINOGRAD_TILE * t, to = q * w->channel + at;
  if (w->to[0])
    put_results(w->to[0] + to, s[0][0] + s[1][0] + s[2][0], s[0][1] + s[1][1] + s[2][1],
                w->columns - at);
  if (w->to[1])
    put_results(w->to[1] + to, s[1][0] - s[2][0] - s[3][0], s[1][1] - s[2][1] - s[3][1],
                w->columns - at);
}

static void results(const winograd_results *w) {
  for (int64_t q = 0; q < w->channels; q++)
    for (int64_t t = 0; t < w->n; t += VEC)
      restore(w, q, t);
}

extern const winograd_kernels ISA(winograd_kernels);
const winograd_kernels ISA(winograd_kernels) = {.lanes = VEC,
                                                .turn_images = ISA(winograd_turn_images),
                                                .turn_results = ISA(winograd_turn_results),
                                                .taps = ISA(winograd_taps),
                                                .weights = weights,
                                                .patches = patches,
                                                .results = results};
