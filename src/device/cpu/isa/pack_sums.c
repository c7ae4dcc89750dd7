/* Sums of a few lines, for convolutions with few channels: see pack.h. */
#include "device/cpu/isa/pack.h"
#include "device/cpu/isa/vec.h"

/* n elements `by` apart, the lanes beyond 0. */
VEC_INLINE vec load_apart(const float *from, int64_t by, int n) {
  if (by == 1)
    return n == VEC ? vec_load(from) : vec_load_some(from, n);
  vec x = {0};
  for (int i = 0; i < n; i++)
    x[i] = from[i * by];
  return x;
}

/* n columns from j on, n <= VEC. */
VEC_INLINE void sum_columns(const pack_sums *w, int64_t j, int n, int rows, int64_t by) {
  vec sums[PACK_SUMS];
  for (int r = 0; r < rows; r++)
    sums[r] = w->add ? vec_load_some(w->c + r * w->c_row + j, n) : (vec){0};
  for (int t = 0; t < w->n; t++) {
    vec x = load_apart(w->x + w->at[t] + j * by, by, n);
    for (int r = 0; r < rows; r++)
      sums[r] = vec_fma(vec_all(w->weights[r * w->weights_row + t]), x, sums[r]);
  }
  for (int r = 0; r < rows; r++)
    if (n == VEC)
      vec_store(w->c + r * w->c_row + j, sums[r]);
    else
      vec_store_some(w->c + r * w->c_row + j, sums[r], n);
}

VEC_INLINE void sum_all(const pack_sums *w, int rows, int64_t by) {
  int64_t j = 0;
  for (; j + VEC <= w->columns; j += VEC)
    sum_columns(w, j, VEC, rows, by);
  if (j < w->columns)
    sum_columns(w, j, (int)(w->columns - j), rows, by);
}

VEC_INLINE void sum_rows(const pack_sums *w, int64_t by) {
  switch (w->rows) {
  case 1: sum_all(w, 1, by); break;
  case 2: sum_all(w, 2, by); break;
  case 3: sum_all(w, 3, by); break;
  default: sum_all(w, 4, by);
  }
}

extern void ISA(pack_sums)(const pack_sums *w);
void ISA(pack_sums)(const pack_sums *w) {
  if (w->by == 1)
    sum_rows(w, 1);
  else if (w->by == 2)
    sum_rows(w, 2);
  else
    sum_rows(w, w->by);
}
