/* What attention and its gradient share on the CPU: the operands of a run, how work is cut, which keys a row sees, and
 * scores. The rules of masks and alignment are those of the op (named in step.h).
 *
 * Work goes by blocks of at most ATTENTION_ROWS query rows, which stand in lanes (isa/attention.h), against blocks of
 * ATTENTION_KEYS keys. The rows of all heads that read one kv head are numbered together, head by head; where heads are
 * short, a block has rows of several. How work is cut depends on sizes alone.
 *
 * Blocks are computed as if all numbers were finite: what is masked is multiplied by 0. If a result is not finite, it
 * is computed again row by row and key by key, leaving out what is masked. */
#ifndef SINEW_DEVICE_CPU_ATTENTION_H
#define SINEW_DEVICE_CPU_ATTENTION_H

#include "device/cpu/isa/attention.h"
#include "device/cpu/view.h"

#include <math.h>

enum { ATTENTION_KEYS = 96, ATTENTION_VECTOR = 16 /* the widest; divides both */ };
#define ATTENTION_LOG2_E 1.44269504088896340736

typedef struct attention {
  const attention_kernels *kernels;
  view q, k, v, mask, bias, kv_length, sinks;
  int64_t b, hq, hk, sq, skv, d, dv;
  int64_t group;           /* query heads of a kv head */
  bool from_start, causal; /* a window is causal */
  int64_t window;          /* 0: none */
  float scale, softcap;
} attention;

attention attention_of(const cpu_run *r, const core_part *c);
/* Row i of entry b sees keys of *lo … *hi - 1 only (and of these what mask and bias leave). */
void attention_range(const attention *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi);

/* --- cuts --- */
static inline int64_t attention_whole(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}
/* Floats of a row of n, so that kernels may go by vectors. */
static inline int64_t attention_wide(int64_t n) { return attention_whole(n, ATTENTION_VECTOR); }
/* Blocks of rows for each kv head: group * sq rows in all. */
int64_t attention_blocks(int64_t group, int64_t sq);

/* One block of rows at work. */
typedef struct attention_block {
  int64_t b, kv;
  int64_t first, n;                                 /* rows, of those of the kv head */
  int64_t lanes;                                    /* n up to a multiple of the set's vector */
  int64_t lo, hi;                                   /* keys that any row sees */
  int64_t all_lo, all_hi;                           /* keys that all rows see */
  int32_t from[ATTENTION_ROWS], to[ATTENTION_ROWS]; /* keys that each row sees */
} attention_block;
void attention_block_start(const attention *a, int64_t b, int64_t kv, int64_t number,
                           attention_block *out);
/* The head and the number there of a block's row. */
static inline int64_t attention_head(const attention *a, const attention_block *w, int64_t row) {
  return w->kv * a->group + (w->first + row) / a->sq;
}
static inline int64_t attention_row(const attention *a, const attention_block *w, int64_t row) {
  return (w->first + row) % a->sq;
}

/* Part of a tile of scores: keys j … j+n-1 of it, lanes from l on, of which there are `lanes`. A tile at the edge of what is
 * seen is multiplied in such parts, without most of what nobody sees there:
 *   for (attention_part x = {0}; attention_next(a, w, t, &x);) … */
typedef struct attention_part {
  int64_t j, n, l, lanes;
} attention_part;
bool attention_next(const attention *a, const attention_block *w, const attention_tile *t,
                    attention_part *x);

/* --- operands --- */
/* k and v as dense f32 in shared scratch, where they are not so and several blocks of rows read them: all threads together,
 * once. Bytes of shared scratch for it, at most. */
sn_status attention_share_keys(cpu_run *r, attention *a) SN_MUST_USE;
size_t attention_shared_keys(const program *p, const core_part *c);
/* Row s of head h in a tensor [B,H,S,D], as f32. */
void attention_read_row(const attention *a, const view *v, int64_t b, int64_t h, int64_t s,
                        int64_t width, float *to);
/* n rows from s on as f32: in place where they are so already, else in `room` [n][width up to `unit`], the rest of a row 0.
 * *out_row is the distance of rows. */
const float *attention_rows(const attention *a, const view *v, int64_t b, int64_t h, int64_t s,
                            int64_t n, int64_t width, int64_t unit, float *room, int64_t *out_row);
/* The rows of a block, of a tensor that is laid out as q is: `to` is [lanes][wide], zeros behind width and n. */
void attention_block_rows(const attention *a, const attention_block *w, const view *v,
                          int64_t width, int64_t wide, float *to);

/* --- scores --- */
/* What rows in lanes are multiplied with, so that their products with keys are scores in units of log 2 (or what tanh
 * is taken of). */
static inline float attention_unit(const attention *a) {
  return (float)(a->softcap > 0 ? (double)a->scale / (double)a->softcap
                                : (double)a->scale * ATTENTION_LOG2_E);
}
/* Floats of room for attention_score_lanes. */
enum { ATTENTION_SCORE_ROOM = 2 * ATTENTION_ROWS * ATTENTION_KEYS };
/* Products of a tile become scores: capped, biased, -inf where masked. Slopes are left in t->slopes, where there is a cap. */
void attention_score_lanes(const attention *a, const attention_block *w, const attention_tile *t,
                           float *room);
/* to[j] = x·row j of n rows of width numbers. */
static inline void attention_dots_row(const attention *a, const float *x, const float *rows,
                                      int64_t row, int64_t n, int64_t width, float *to) {
  a->kernels->dots(
      &(attention_dots){.m = 1, .n = n, .d = width, .q = x, .rows = rows, .row = row, .to = to});
}
/* One row: n products scale * q·k from key j on, at most ATTENTION_KEYS, become scores (in plain units). slopes: NULL, or
 * room for d score / d q·k. Both have room for whole vectors. */
typedef struct attention_place {
  int64_t b, h, i;
} attention_place;
void attention_score_row(const attention *a, attention_place at, int64_t j, int64_t n,
                         float *scores, float *slopes);

/* --- forward: one block of rows against some keys --- */

/* Scratch of a thread. */
typedef struct attention_work {
  const attention *a;
  attention_block at;
  float *q;             /* [ATTENTION_ROWS][wide d] */
  float *turned;        /* [d][lanes]: the same with rows in lanes */
  float *keys, *values; /* [ATTENTION_KEYS][wide d or dv], where they are not read in place */
  float *scores;        /* [ATTENTION_KEYS][lanes], or [rows][ATTENTION_KEYS] */
  float *room;          /* ATTENTION_SCORE_ROOM; NULL without bias and mask */
  float *sums;          /* [dv][lanes] */
  float *keep;          /* by lane */
} attention_work;
/* What comes of it, by row: the largest score, the sum of exp2(score - largest), and the sums of these times v, [rows][wide dv]. */
typedef struct attention_result {
  float *largest, *total, *sums;
} attention_result;

/* Rows in lanes; or, where rows are few, row by row. Keys are lo … hi-1. */
void attention_run_lanes(attention_work *w, int64_t lo, int64_t hi, const attention_result *to);
void attention_run_few(attention_work *w, int64_t lo, int64_t hi, const attention_result *to);
static inline bool attention_is_few(const attention *a, const attention_block *w) {
  return w->n <= a->kernels->vector / 2;
}
/* Row `row` of the block again, key by key without what is masked: its result to out [dv], and its log-sum-exp. */
float attention_run_carefully(attention_work *w, int64_t row, float *out);

#endif
