/* Products of attention: see attention.h. Both forms of a are read in place, a number at a time to all lanes. */
#include "device/cpu/isa/attention_set.h"

/* Rows and vectors of the largest tiles: sums stay in registers, with room for the operands. */
#if defined(ISA_avx512) || defined(__aarch64__)
enum { VECTORS_MOST = 4, ROWS_4 = 6, ROWS_3 = 8, ROWS_2 = 12, ROWS_1 = 16 };
#else
enum { VECTORS_MOST = 2, ROWS_2 = 6, ROWS_1 = 8 };
#endif

/* Rows i … i+rows-1 of c, lanes j … j+vectors*VEC-1. across: a's rows are side by side (a_row is 1). */
VEC_INLINE void tile(const attention_product *w, int64_t i, int64_t j, const int rows,
                     const int vectors, const bool across) {
  vec sum[16][4];
  float *c = w->c + i * w->c_row + j;
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      sum[r][v] = w->add ? vec_load(c + r * w->c_row + v * VEC) : (vec){0};
  const float *a = w->a + i * w->a_row, *b = w->b + j;
  int64_t row = across ? 1 : w->a_row, step = across ? w->a_k : 1;
  for (int64_t p = 0; p < w->k; p++, a += step, b += w->b_row) {
    vec x[4];
    for (int v = 0; v < vectors; v++)
      x[v] = vec_load(b + v * VEC);
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < vectors; v++)
        sum[r][v] = vec_fma(vec_all(a[r * row]), x[v], sum[r][v]);
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      vec_store(c + r * w->c_row + v * VEC, sum[r][v]);
}

/* All rows: in tiles of `most`, then of 4, then what is left. */
#define ROWS_OF(vectors, most, across)      \
  for (; i + (most) <= w->m; i += (most))   \
    tile(w, i, j, (most), vectors, across); \
  for (; i + 4 <= w->m; i += 4)             \
    tile(w, i, j, 4, vectors, across);      \
  if (w->m - i == 3)                        \
    tile(w, i, j, 3, vectors, across);      \
  else if (w->m - i == 2)                   \
    tile(w, i, j, 2, vectors, across);      \
  else if (w->m - i == 1)                   \
  tile(w, i, j, 1, vectors, across)
#define COLUMNS(vectors, most)                                           \
  static void columns_##vectors(const attention_product *w, int64_t j) { \
    int64_t i = 0;                                                       \
    if (w->a_row == 1) {                                                 \
      ROWS_OF(vectors, most, true);                                      \
    } else {                                                             \
      ROWS_OF(vectors, most, false);                                     \
    }                                                                    \
  }
COLUMNS(1, ROWS_1)
COLUMNS(2, ROWS_2)
#if defined(ISA_avx512) || defined(__aarch64__)
COLUMNS(3, ROWS_3)
COLUMNS(4, ROWS_4)
#endif

void ISA(attention_multiply)(const attention_product *w) {
  static void (*const columns[])(const attention_product *, int64_t) = {
    columns_1,
    columns_2,
#if defined(ISA_avx512) || defined(__aarch64__)
    columns_3,
    columns_4,
#endif
  };
  for (int64_t j = 0; j < w->n;) {
    int64_t left = (w->n - j) / VEC, vectors = left < VECTORS_MOST ? left : VECTORS_MOST;
    columns[vectors - 1](w, j);
    j += vectors * VEC;
  }
}
