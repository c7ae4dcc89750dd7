/* See matmul.h.
 *
 * A tile of results is TILE_ROWS x 2 vectors; all its sums stand in registers while k passes by: each step loads the two vectors of
 * b and multiplies them by a row's element after the other. Fewer rows or one vector at the edges are the same code with constants,
 * so that a sum's order is the same wherever a tile lies. */
#include "device/cpu/isa/matmul_set.h"

enum { LINE = 16 }; /* floats */

/* One tile. Sums live in named variables, because compilers keep arrays of vectors in memory. */
typedef struct tile_work {
  const float *a, *b;
  int64_t k;
  float *c;
  int64_t c_row;
  int n; /* columns */
  bool add;
  const float *next; /* asked for on the way, so many floats a step */
  int next_step;
} tile_work;

VEC_INLINE void put(float *to, vec x, int n, bool add) {
  if (n >= VEC)
    vec_store(to, add ? vec_load(to) + x : x);
  else if (n > 0)
    vec_store_some(to, add ? vec_load_some(to, n) + x : x, n);
}

/* sum + *x * b in all lanes. The element comes with the instruction, twice rather than once by way of a register: registers are what the
 * processor runs out of when it looks ahead. */
VEC_INLINE vec add_product(const float *x, vec b, vec sum) {
#if defined(ISA_avx512)
  __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(b), "m"(*x));
  return sum;
#else
  return vec_fma(vec_all(*x), b, sum);
#endif
}

#define ROW_FETCH(i)                                    \
  if (i < rows) {                                       \
    __builtin_prefetch(w->c + i * w->c_row, 1);         \
    if (vecs > 1)                                       \
      __builtin_prefetch(w->c + i * w->c_row + VEC, 1); \
  }
#define ROW_SUMS(i) vec s##i = {0}, t##i = {0};
#define ROW_STEP(i)                        \
  if (i < rows) {                          \
    s##i = add_product(a + i, b0, s##i);   \
    if (vecs > 1)                          \
      t##i = add_product(a + i, b1, t##i); \
  }
#define ROW_STORE(i)                                                          \
  if (i < rows) {                                                             \
    put(w->c + i * w->c_row, s##i, whole ? VEC : w->n, w->add);               \
    if (vecs > 1)                                                             \
      put(w->c + i * w->c_row + VEC, t##i, whole ? VEC : w->n - VEC, w->add); \
  }
#define ROW_ADD(i)                                    \
  if (i < rows) {                                     \
    s##i += vec_load(so_far + i * TILE_COLS);         \
    if (vecs > 1)                                     \
      t##i += vec_load(so_far + i * TILE_COLS + VEC); \
  }
#define ROW_KEEP(i)                                  \
  if (i < rows) {                                    \
    vec_store(so_far + i * TILE_COLS, s##i);         \
    if (vecs > 1)                                    \
      vec_store(so_far + i * TILE_COLS + VEC, t##i); \
  }

/* Products p … p+n-1; so_far: the sum of those before. */
VEC_INLINE void sum_chunk(const tile_work *w, int64_t p, int64_t n, float *so_far, int rows,
                          int vecs, bool whole) {
  const float *a = w->a + p * TILE_ROWS, *b = w->b + p * TILE_COLS, *end = b + n * TILE_COLS;
  const float *next = w->next + p * w->next_step;
  EACH_ROW(ROW_SUMS)
  for (; b < end; a += TILE_ROWS, b += TILE_COLS, next += w->next_step) {
    __builtin_prefetch(next, 0, 2);
    vec b0 = vec_load(b), b1 = b0;
    if (vecs > 1)
      b1 = vec_load(b + VEC);
    EACH_ROW(ROW_STEP)
  }
  if (p > 0) {
    EACH_ROW(ROW_ADD)
  }
  if (p + n < w->k) {
    EACH_ROW(ROW_KEEP)
  } else {
    EACH_ROW(ROW_STORE)
  }
}

VEC_INLINE void tile(const tile_work *w, int rows, int vecs, bool whole) {
  float so_far[TILE_ROWS * TILE_COLS];
  EACH_ROW(ROW_FETCH)
  for (int64_t p = 0; p < w->k || p == 0; p += MATMUL_CHUNK)
    sum_chunk(w, p, w->k - p < MATMUL_CHUNK ? w->k - p : MATMUL_CHUNK, so_far, rows, vecs, whole);
}

typedef void (*tile_run)(const tile_work *w);
#define ROW_TILES(i)                                                     \
  static void whole_##i(const tile_work *w) { tile(w, i + 1, 2, true); } \
  static void wide_##i(const tile_work *w) { tile(w, i + 1, 2, false); } \
  static void slim_##i(const tile_work *w) { tile(w, i + 1, 1, false); }
EACH_ROW(ROW_TILES)
#define ROW_NAMES(i) {whole_##i, wide_##i, slim_##i},
/* By rows - 1; by columns: all, more than a vector, fewer. */
static const tile_run tiles[TILE_ROWS][3] = {EACH_ROW(ROW_NAMES)};

static void run_tile(const panel_block *w, int64_t i, int64_t j, const float *next, int next_step) {
  int rows = (int)(w->m - i < TILE_ROWS ? w->m - i : TILE_ROWS);
  int cols = (int)(w->n - j < TILE_COLS ? w->n - j : TILE_COLS);
  tile_work t = {.a = w->a + i / TILE_ROWS * w->a_panel,
                 .b = w->b + j / TILE_COLS * w->b_panel,
                 .k = w->k,
                 .c = w->c + i * w->c_row + j,
                 .c_row = w->c_row,
                 .n = cols,
                 .add = w->add,
                 .next = next ? next : w->a,
                 .next_step = next ? next_step : 0};
  tiles[rows - 1][cols == TILE_COLS ? 0 : cols > VEC ? 1 : 2](&t);
}

/* Each panel of a against all of b: for large blocks of a, which come from afar. The next panel is on its way meanwhile. */
static void multiply_by_rows(const panel_block *w) {
  for (int64_t i = 0; i < w->m; i += TILE_ROWS) {
    const float *next = i + TILE_ROWS < w->m ? w->a + (i / TILE_ROWS + 1) * w->a_panel : NULL;
    for (int64_t j = 0; j < w->n; j += TILE_COLS)
      run_tile(w, i, j, j == 0 ? next : NULL, TILE_ROWS);
  }
}

/* Each panel of b against all of a. A step of b's next panel is more than is asked for at a time: tiles take turns. */
static void multiply_by_columns(const panel_block *w) {
  for (int64_t j = 0; j < w->n; j += TILE_COLS) {
    const float *next = j + TILE_COLS < w->n ? w->b + (j / TILE_COLS + 1) * w->b_panel : NULL;
    next = w->more ? w->b + w->k * TILE_COLS : next;
    for (int64_t i = 0; i < w->m; i += TILE_ROWS) {
      int64_t turn = i / TILE_ROWS * LINE * w->k;
      run_tile(w, i, j, next && turn < TILE_COLS * w->k ? next + turn : NULL, LINE);
    }
  }
}

static void multiply(const panel_block *w) {
  if (w->m > w->n && !w->more)
    multiply_by_rows(w);
  else
    multiply_by_columns(w);
}

const matmul_kernels ISA(matmul_kernels) = {
    .rows = TILE_ROWS,
    .cols = TILE_COLS,
    .multiply = multiply,
    .pack = ISA(matmul_pack),
    .pack_rows = ISA(matmul_pack_rows),
    .dots = ISA(matmul_dots),
    .add_rows = ISA(matmul_add_rows),
    .in_chain = ISA(matmul_in_chain),
    .chain = ISA(matmul_chain),
};
