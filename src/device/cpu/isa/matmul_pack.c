/* Panels from f32 in memory: matmul_kernels.pack. See matmul.h.
 *
 * Where k is dense, squares of VEC x VEC are turned in registers, a panel after the other along its rows. Where rows are, lines
 * of a panel are copied, K_AT_ONCE steps for all panels before the next. What comes next is asked for ahead of time, into the second
 * cache: rows often lie so far apart that they would push each other out of the first.
 */
#include "device/cpu/isa/matmul_set.h"
#include "device/cpu/isa/turn.h"

enum { K_AT_ONCE = 16, LINE = 16, AHEAD = 5 * LINE };

/* Lanes 0 … n-1; n is a constant where it matters. */
VEC_INLINE void store_lanes(float *to, vec x, int n) {
  if (n >= VEC)
    vec_store(to, x);
  else
    memcpy(to, &x, (size_t)n * sizeof *to);
}

/* --- squares --- */

/* Up to VEC rows and steps of k; rows up to `lanes` become 0. */
VEC_INLINE void turn_square(const float *from, int64_t row, int n, int k, float *to, int width,
                            int lanes) {
  vec x[VEC] = {{0}};
  for (int i = 0; i < n; i++) {
    x[i] = k == VEC ? vec_load(from + i * row) : vec_load_some(from + i * row, k);
    __builtin_prefetch(from + i * row + AHEAD, 0, 2);
  }
  vec_turn(x);
  for (int p = 0; p < k; p++)
    store_lanes(to + p * width, x[p], lanes);
}

VEC_INLINE void turn_lanes(const float *from, int64_t row, int n, int64_t k, float *to, int width,
                           int lanes) {
  int64_t p = 0;
  for (; p + VEC <= k; p += VEC)
    if (n == lanes)
      turn_square(from + p, row, lanes, VEC, to + p * width, width, lanes);
    else
      turn_square(from + p, row, n, VEC, to + p * width, width, lanes);
  if (p < k)
    turn_square(from + p, row, n, (int)(k - p), to + p * width, width, lanes);
}

/* One panel. */
VEC_INLINE void turn_rows(const float *from, int64_t row, int n, int64_t k, float *to, int width) {
  for (int i = 0; i < width; i += VEC) {
    int lanes = width - i < VEC ? width - i : VEC;
    int rows = n - i < 0 ? 0 : n - i < lanes ? n - i : lanes;
    turn_lanes(from + (rows > 0 ? i * row : 0), row, rows, k, to + i, width, lanes);
  }
}

/* --- lines --- */

VEC_INLINE void copy_line(const float *from, int n, float *to) {
  int i = 0;
  for (; i + VEC <= n; i += VEC)
    vec_store(to + i, vec_load(from + i));
  memcpy(to + i, from + i, (size_t)(n - i) * sizeof *to);
}

/* Some steps of one panel. */
VEC_INLINE void copy_lines(const float *from, int64_t k_step, int n, int k, float *to, int width) {
  for (int p = 0; p < k; p++, from += k_step, to += width) {
    for (int i = 0; i < width; i += LINE)
      __builtin_prefetch(from + K_AT_ONCE * k_step + i, 0, 2);
    if (n == width) {
      copy_line(from, width, to);
    } else {
      for (int i = 0; i < width; i++)
        to[i] = i < n ? from[i] : 0;
    }
  }
}

static void pick(const float *from, int64_t row, int64_t k_step, int n, int k, float *to,
                 int width) {
  for (int p = 0; p < k; p++)
    for (int i = 0; i < width; i++)
      to[p * width + i] = i < n ? from[i * row + p * k_step] : 0;
}

VEC_INLINE void pack_lines(const float *from, int64_t row, int64_t k_step, int64_t n, int64_t k,
                           int width, float *to, int64_t panel) {
  for (int64_t p = 0; p < k; p += K_AT_ONCE)
    for (int64_t i = 0; i < n; i += width) {
      const float *x = from + i * row + p * k_step;
      float *y = to + i / width * panel + p * width;
      int rows = (int)(n - i < width ? n - i : width);
      int steps = (int)(k - p < K_AT_ONCE ? k - p : K_AT_ONCE);
      if (row == 1)
        copy_lines(x, k_step, rows, steps, y, width);
      else
        pick(x, row, k_step, rows, steps, y, width);
    }
}

/* Calls f, which is inline, with a width that is a constant where it is one of the tiles'. */
#define WITH_WIDTH(f, width, ...)                     \
  ((width) == TILE_ROWS   ? f(TILE_ROWS, __VA_ARGS__) \
   : (width) == TILE_COLS ? f(TILE_COLS, __VA_ARGS__) \
                          : f(width, __VA_ARGS__))

VEC_INLINE void pack_width(int width, const float *from, int64_t row, int64_t k_step, int64_t n,
                           int64_t k, float *to, int64_t panel) {
  if (k_step != 1)
    pack_lines(from, row, k_step, n, k, width, to, panel);
  for (int64_t i = 0; k_step == 1 && i < n; i += width)
    turn_rows(from + i * row, row, (int)(n - i < width ? n - i : width), k, to + i / width * panel,
              width);
}

void ISA(matmul_pack)(const float *from, int64_t row, int64_t k_step, int64_t n, int64_t k,
                      int width, float *to, int64_t panel) {
  WITH_WIDTH(pack_width, width, from, row, k_step, n, k, to, panel);
}

/* --- rows of several matrices --- */

/* Some steps of n rows, fewer than a panel has. */
VEC_INLINE void copy_part(const float *from, int64_t k_step, int n, int k, float *to, int width) {
  for (int p = 0; p < k; p++, from += k_step, to += width)
    for (int i = 0; i < n; i += VEC) {
      int lanes = n - i < VEC ? n - i : VEC;
      __builtin_prefetch(from + K_AT_ONCE * k_step + i, 0, 2);
      vec_store_some(to + i, vec_load_some(from + i, lanes), lanes);
    }
}

VEC_INLINE void pack_rows(int width, const float *from, int64_t k_step, int64_t n, int64_t k,
                          int lane, float *to, int64_t panel) {
  for (int64_t p = 0; p < k; p += K_AT_ONCE) {
    int steps = (int)(k - p < K_AT_ONCE ? k - p : K_AT_ONCE), rows;
    for (int64_t i = 0; i < n; i += rows) {
      int first = (int)((lane + i) % width);
      float *y = to + (lane + i) / width * panel + p * width + first;
      rows = (int)(n - i < width - first ? n - i : width - first);
      if (rows == width)
        copy_lines(from + i + p * k_step, k_step, width, steps, y, width);
      else
        copy_part(from + i + p * k_step, k_step, rows, steps, y, width);
    }
  }
}

void ISA(matmul_pack_rows)(const float *from, int64_t k_step, int64_t n, int64_t k, int width,
                           int lane, float *to, int64_t panel) {
  WITH_WIDTH(pack_rows, width, from, k_step, n, k, lane, to, panel);
}
