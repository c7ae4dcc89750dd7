/* How an operand that is one load (matmul.h: direct) is packed: its access as two lists of axes, rows and k, along each of which
 * the element number and every check grow by fixed amounts.
 *
 * One of the two indices is that along which lines are loaded: the one whose last axis lies densest in memory. Entries of
 * the other that differ only in axes which no check reads share all masks: they are of one class (of a convolution's k: the
 * place in the kernel; all input channels are alike).
 */
#ifndef SINEW_DEVICE_CPU_MATMUL_OPERAND_H
#define SINEW_DEVICE_CPU_MATMUL_OPERAND_H

#include "device/cpu/isa/pack.h"
#include "base/base.h"
#include "step/region.h"

enum {
  PLAN_AXES = 12,             /* of a group, behind splitting and merging */
  PLAN_CLASSES = PACK_CLASSES /* at most; with more every entry is a class of its own */
};

typedef struct plan_axis {
  int64_t extent, at;            /* elements from one to the next */
  int64_t checks[ACCESS_CHECKS]; /* of the plan's checks */
  bool is_checked;
} plan_axis;

/* Outermost first; none of extent 1. An empty group has one entry. */
typedef struct plan_group {
  int n;
  int64_t count, classes;
  plan_axis axes[PLAN_AXES];
} plan_group;

typedef struct operand_plan {
  bool fits; /* otherwise tables: divisors, axes with remainders that do not go up */
  int n_checks;
  struct plan_check {
    int of; /* check of the access; those that never fail are left out */
    int64_t size;
  } checks[ACCESS_CHECKS];
  plan_group rows, k;
  bool along_k; /* to pack it: lines are along k */
  bool k_inner; /* to read it: the same, where lines stay lines */
} operand_plan;

/* Where element (i of the rows, p of k) goes: to + i / width * panel + p * step + i % width. Rows up to whole panels become 0. */
typedef struct panel_layout {
  float *to;
  int64_t width, panel, step;
} panel_layout;
static inline float *panel_element(const panel_layout *l, int64_t i, int64_t p) {
  return l->to + i / l->width * l->panel + p * l->step + i % l->width;
}

struct direct_access;
struct axis_group;
struct matmul_work;
struct matmul_operand;
/* extent: of all axes of the access. */
void plan_open(operand_plan *p, const struct direct_access *d, const struct axis_group *rows,
               const struct axis_group *k, const int64_t *extent);
/* Scratch that plan_pack works in, of w->pack_room: matmul_open takes it. */
size_t plan_pack_bytes(void);
/* Needs a plan that fits. */
void plan_pack(const struct matmul_work *w, const struct matmul_operand *o, int64_t row,
               int64_t n_rows, int64_t k, int64_t n_k, const panel_layout *to);
/* Whether these elements are f32 without checks, at *out_at + i * *out_row + p * *out_k. */
bool plan_is_strided(const struct matmul_work *w, const struct matmul_operand *o, int64_t row,
                     int64_t n_rows, int64_t k, int64_t n_k, const float **out_at, int64_t *out_row,
                     int64_t *out_k);

/* --- walking a group --- */

/* The coordinates of entry i. */
static inline void plan_coords(const plan_group *g, int64_t i, int64_t *coords) {
  for (int a = g->n - 1; a > 0; a--) {
    coords[a] = i % g->axes[a].extent;
    i /= g->axes[a].extent;
  }
  coords[0] = i;
}

/* To the first entry behind a run along the last axis. */
static inline void plan_carry(const plan_group *g, int64_t *coords) {
  for (int a = g->n - 1; a > 0 && coords[a] == g->axes[a].extent; a--) {
    coords[a] = 0;
    coords[a - 1]++;
  }
}

static inline int64_t plan_at(const plan_group *g, const int64_t *coords) {
  int64_t at = 0;
  for (int a = 0; a < g->n; a++)
    at += coords[a] * g->axes[a].at;
  return at;
}

static inline void plan_checks(const plan_group *g, const int64_t *coords, int n_checks,
                               int64_t *checks) {
  for (int c = 0; c < n_checks; c++) {
    checks[c] = 0;
    for (int a = 0; a < g->n; a++)
      checks[c] += coords[a] * g->axes[a].checks[c];
  }
}

/* Numbers i of lo … hi-1 with 0 <= v + i * by < size. */
static inline void plan_narrow(int64_t v, int64_t by, int64_t size, int64_t *lo, int64_t *hi) {
  if (by == 0) {
    *hi = v >= 0 && v < size ? *hi : *lo;
    return;
  }
  if (by < 0) { /* from the other end */
    v = size - 1 - v;
    by = -by;
  }
  int64_t least = v >= 0 ? 0 : by == 1 ? -v : (-v + by - 1) / by;
  int64_t room = size - v; /* v + i * by < size */
  int64_t end = room <= 0 ? 0 : by == 1 ? room : (room + by - 1) / by;
  *lo = max_i64(*lo, least);
  *hi = min_i64(*hi, end);
}

#endif
