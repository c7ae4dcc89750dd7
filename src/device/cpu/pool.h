/* Row parts that are pooling with windows that overlap, image by image. loop.c hands such parts to pool_run.
 *
 * As rows of few points (the elements of a window, each under checks) they take the region machine hundreds of instructions
 * for a result: lines of pixels are short, and each element of a window is looked up anew. Here what the windows see is
 * computed once for a whole image by the region machine, with every stride-th pixel of a line side by side, and an element
 * of all windows of a line is then a line. What follows on the results is again the region machine's.
 *
 * Three kinds, as src/ops/conv/pool.c and pool_grad.c say them, in any surroundings:
 *   the largest (smallest) of a window     max over points of select(inside, x, -inf)
 *   ties of a window with its result       sum over points of same(select(inside, x, 0), y) * select(inside, 1, 0)
 *   shares of a pixel                      sum over windows of select(same(x, y) and holds, share, 0)
 * same: equal, or both NaN. In the third, rows are […, q, a, q', a'] (pixel q * stride + a) and points the windows that may
 * hold a pixel; holds, a table, says which do.
 */
#ifndef SINEW_DEVICE_CPU_POOL_H
#define SINEW_DEVICE_CPU_POOL_H

#include "device/cpu/loop.h"

enum { PLANE = 2, POOL_CODE = 256 /* instructions of a part, at most */ };

typedef enum pool_kind { POOL_LARGEST, POOL_SMALLEST, POOL_TIES, POOL_SHARES } pool_kind;

/* One axis of images. Of shares, window number (q + shift + tap) may hold pixel q * stride + a. */
typedef struct pool_axis {
  int64_t size, windows; /* of an image, of its results; shares: size is all of q * stride + a */
  int64_t kernel;        /* elements of a window, or taps */
  int64_t stride, shift; /* element k of window o is pixel o * stride + shift + k */
  /* Of shares: pixels i with 0 <= i + inner_shift < inner are x, the others are `outside`. */
  int64_t inner, inner_shift;
} pool_axis;

/* A value that windows read: shares only. */
typedef struct pool_window {
  const access *at;
  int64_t base, row; /* element of window (o, p): base + o * row + p + what the axes before add */
} pool_window;

typedef struct pool_part {
  pool_kind kind;
  const loop_part *of;
  int first; /* row axis of the plane */
  int reduce;
  pool_axis axis[PLANE];
  reg x, y;       /* y: not of shares */
  bool by_pixels; /* x can be computed for the pixels of an image without checks */
  float outside;
  pool_window values, shares; /* of shares: y, and what a window gives */
  const access *holds;
} pool_part;

/* Whether a part is such; extents must be numbers. */
bool pool_find(const loop_part *p, pool_part *out);
/* Scratch of a thread for it. */
size_t pool_need(const pool_part *p);
sn_status pool_run(cpu_run *r, const pool_part *p) SN_MUST_USE;

/* --- inside --- */

static inline const instr *pool_code(const pool_part *p, reg r) { return &p->of->code.code[r]; }
static inline bool pool_is_alu(const pool_part *p, reg r, alu code) {
  return pool_code(p, r)->op == REGION_ALU && pool_code(p, r)->code == code;
}
static inline bool pool_is_number(const pool_part *p, reg r, double x) {
  return pool_code(p, r)->op == REGION_NUMBER && pool_code(p, r)->x == x;
}

/* pool_find.c */
/* Whether two accesses have the same checks, one for each axis of the plane. */
bool pool_same_checks(const access *a, const access *b);
/* What select(inside, v, outside), perhaps several times, is inside: v. The checks are those of *inside, which is set where it
 * is NULL. */
reg pool_strip(const pool_part *p, reg r, double outside, const access **inside);
/* r = (a == b) or (isnan a and isnan b), in any order. */
bool pool_is_same(const pool_part *p, reg r, reg *a, reg *b);
/* Which axis of the plane a term of the points counts; -1: none alone. Points are the elements of a window, as two axes or as
 * one, row-major. */
int pool_tap_axis(const pool_part *p, const term *t);
/* Whether a register can be computed by pixels: all that it needs can. */
bool pool_is_image(const pool_part *p, reg root, const access *inside);
/* The axis that counts pixels along axis d of the plane, where an image is computed by pixels. */
static inline int pool_pixel_axis(const pool_part *p, int d) {
  return p->first + (p->kind == POOL_SHARES ? 2 * d + 1 : d);
}
/* An access of x by pixels. Needs room for n_terms + PLANE terms. False: it is of no such form. */
bool pool_by_pixels(const pool_part *p, const access *from, term *terms, access *out);

/* pool_shares.c */
bool pool_find_shares(pool_part *p, const instr *reduce);
/* What q and a of each axis multiply, of rows [q, a, q', a']; false: some term is of another form. */
bool pool_split_phases(const pool_part *p, const term *t, int n, int64_t q[PLANE],
                       int64_t a[PLANE]);

#endif
