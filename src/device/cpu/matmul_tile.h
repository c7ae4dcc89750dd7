/* One tile of the kernel for one width of vectors; included by matmul_kernel.c once a width, with
 *   TILE_NAME, TILE_LANES and TILE_TARGET (attributes) defined.
 * Sums live in named variables, because compilers keep arrays of vectors in memory. */
typedef float TILE_VEC(any) __attribute__((vector_size(4 * TILE_LANES), aligned(4), may_alias));
typedef float TILE_VEC(sum) __attribute__((vector_size(4 * TILE_LANES)));

#define TILE_STEP(i)                 \
  x = a##i[at] - (TILE_VEC(sum)){0}; \
  s##i = s##i + x * b0;              \
  t##i = t##i + x * b1;
#define TILE_LOAD(i)                    \
  TILE_VEC(sum) s##i = {0}, t##i = {0}; \
  const float *a##i = w->a + (i0 + i) * w->a_row;
#define TILE_STORE(i)                              \
  {                                                \
    float *to = w->c + (i0 + i) * w->c_row + j0;   \
    if (w->add) {                                  \
      s##i += *(TILE_VEC(any) *)to;                \
      t##i += *(TILE_VEC(any) *)(to + TILE_LANES); \
    }                                              \
    *(TILE_VEC(any) *)to = s##i;                   \
    *(TILE_VEC(any) *)(to + TILE_LANES) = t##i;    \
  }

/* Rows i0 … i0+5 and columns j0 … j0+2*lanes-1, the latter at `b` in their panel. */
static inline TILE_TARGET void TILE_VEC(tile)(const kernel_block *w, int64_t i0, int64_t j0,
                                              const float *b) {
  TILE_LOAD(0)
  TILE_LOAD(1)
  TILE_LOAD(2) TILE_LOAD(3) TILE_LOAD(4)
      TILE_LOAD(5) for (int64_t p = 0, at = 0; p < w->k; p++, at += w->a_k) {
    TILE_VEC(sum) x, b0 = *(const TILE_VEC(any) *)(b + p * KERNEL_COLS);
    TILE_VEC(sum) b1 = *(const TILE_VEC(any) *)(b + p * KERNEL_COLS + TILE_LANES);
    TILE_STEP(0) TILE_STEP(1) TILE_STEP(2) TILE_STEP(3) TILE_STEP(4) TILE_STEP(5)
  }
  TILE_STORE(0) TILE_STORE(1) TILE_STORE(2) TILE_STORE(3) TILE_STORE(4) TILE_STORE(5)
}

/* A panel of b stays in the first cache while all rows of a pass by. */
static TILE_TARGET void TILE_NAME(const kernel_block *w) {
  for (int64_t j0 = 0; j0 < w->n; j0 += KERNEL_COLS)
    for (int64_t i0 = 0; i0 < w->m; i0 += KERNEL_ROWS)
      for (int64_t j = 0; j < KERNEL_COLS; j += 2 * TILE_LANES)
        TILE_VEC(tile)(w, i0, j0 + j, w->b + j0 * w->k + j);
}

#undef TILE_STEP
#undef TILE_LOAD
#undef TILE_STORE
#undef TILE_NAME
#undef TILE_LANES
#undef TILE_TARGET
