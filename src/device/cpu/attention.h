/* What attention and its gradient share on the CPU: the operands of a run, which keys a row sees, blocks of rows in
 * f32, and the scores of a block. The rules of masks and alignment are those of the op (named in step.h).
 *
 * Work goes by blocks of ATTENTION_ROWS query rows of one head against blocks of ATTENTION_KEYS keys; both are multiples of the
 * kernel's tile, so padded rows and columns have room everywhere. */
#ifndef SINEW_DEVICE_CPU_ATTENTION_H
#define SINEW_DEVICE_CPU_ATTENTION_H

#include "device/cpu/matmul_kernel.h"
#include "device/cpu/view.h"

#include <math.h>

enum { ATTENTION_ROWS = 96, ATTENTION_KEYS = 240 };

typedef struct attention {
  view q, k, v, mask, bias, kv_length, sinks;
  int64_t b, hq, hk, sq, skv, d, dv;
  bool from_start, causal; /* a window is causal */
  int64_t window;          /* 0: none */
  float scale, softcap;
} attention;

/* One block: rows i … i+n_rows-1 of head h of entry b, keys j … j+n_keys-1. */
typedef struct attention_block {
  int64_t b, h, i, n_rows, j, n_keys;
} attention_block;

attention attention_of(const cpu_run *r, const core_part *c);
static inline int64_t attention_kv_head(const attention *a, int64_t h) {
  return h / (a->hq / a->hk);
}
/* Row i sees keys of *lo … *hi - 1 only (and of these what mask and bias leave). */
void attention_range(const attention *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi);
/* The union over the rows of a block. */
void attention_block_range(const attention *a, const attention_block *w, int64_t *lo, int64_t *hi);

/* Rows of a tensor [B,H,S,D] as f32, row-major: in place where they are so already, else in `room` [n][width]. *out_row is
 * the distance of rows. */
const float *attention_rows(const view *v, int64_t b, int64_t h, int64_t s, int64_t n,
                            int64_t width, float *room, int64_t *out_row);

/* Products q·k of row i, n of them from key w->j on, into scores: scaled, capped, biased, -inf where masked. slopes: NULL, or
 * room for d score / d q·k. */
void attention_scores(const attention *a, const attention_block *w, int64_t i, float *scores,
                      float *slopes);

/* x = e to the x - minus; what lies below 2^-126 becomes 0, above 88 is cut. NaN stays. */
void attention_exp(float *x, float minus, int64_t n);
float attention_exp_one(float x);
/* The largest; -inf of nothing. A NaN may win or not. */
float attention_max(const float *x, int64_t n);
float attention_sum(const float *x, int64_t n);

#endif
