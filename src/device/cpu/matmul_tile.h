/* One tile of the kernel for one width of vectors; included by matmul_kernel.c once a width, with
 *   TILE_NAME, TILE_LANES and TILE_TARGET (attributes) defined.
 * Sums live in named variables, because compilers keep arrays of vectors in memory. */
typedef float TILE_VEC(any) __attribute__((vector_size(4 * TILE_LANES), aligned(4), may_alias));
typedef float TILE_VEC(sum) __attribute__((vector_size(4 * TILE_LANES)));

#define TILE_STEP(i)                 \
  x = a##i[at] - (TILE_VEC(sum)){0}; \
  s##i = s##i + x * b0;              \
  t##i = t##i + x * b1;
#define TILE_ROW(i)  const float *a##i = w->a + (i0 + i) * w->a_row;
#define TILE_ZERO(i) TILE_VEC(sum) s##i = {0}, t##i = {0};
#define TILE_KEEP(i)                                    \
  *(TILE_VEC(any) *)(part + i * 2 * TILE_LANES) = s##i; \
  *(TILE_VEC(any) *)(part + (i * 2 + 1) * TILE_LANES) = t##i;
#define TILE_EACH(what) what(0) what(1) what(2) what(3) what(4) what(5)

/* Rows i0 … i0+5 and columns j0 … j0+2*lanes-1, the latter at `b` in their panel. */
static inline TILE_TARGET void TILE_VEC(tile)(const kernel_block *w, int64_t i0, int64_t j0,
                                              const float *b) {
  enum { COLS = 2 * TILE_LANES, TILE = KERNEL_ROWS * COLS };
  float part[TILE];
  double sum[TILE] = {0};
  TILE_EACH(TILE_ROW)
  for (int64_t p = 0, at = 0; p < w->k;) {
    int64_t end = p + KERNEL_CHUNK < w->k ? p + KERNEL_CHUNK : w->k;
    TILE_EACH(TILE_ZERO)
    for (; p < end; p++, at += w->a_k) {
      TILE_VEC(sum) x, b0 = *(const TILE_VEC(any) *)(b + p * KERNEL_COLS);
      TILE_VEC(sum) b1 = *(const TILE_VEC(any) *)(b + p * KERNEL_COLS + TILE_LANES);
      TILE_EACH(TILE_STEP)
    }
    TILE_EACH(TILE_KEEP)
    for (int l = 0; l < TILE; l++)
      sum[l] += part[l];
  }
  for (int r = 0; r < KERNEL_ROWS; r++) {
    float *to = w->c + (i0 + r) * w->c_row + j0;
    const double *from = sum + r * COLS;
    if (w->add)
      for (int l = 0; l < COLS; l++)
        to[l] = (float)(to[l] + from[l]);
    else
      for (int l = 0; l < COLS; l++)
        to[l] = (float)from[l];
  }
}

/* A panel of b stays in the first cache while all rows of a pass by. */
static TILE_TARGET void TILE_NAME(const kernel_block *w) {
  for (int64_t j0 = 0; j0 < w->n; j0 += KERNEL_COLS)
    for (int64_t i0 = 0; i0 < w->m; i0 += KERNEL_ROWS)
      for (int64_t j = 0; j < KERNEL_COLS; j += 2 * TILE_LANES)
        TILE_VEC(tile)(w, i0, j0 + j, w->b + j0 * w->k + j);
}

#undef TILE_STEP
#undef TILE_ROW
#undef TILE_ZERO
#undef TILE_KEEP
#undef TILE_EACH
#undef TILE_NAME
#undef TILE_LANES
#undef TILE_TARGET
