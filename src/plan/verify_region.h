/* For verify_region.c, which executes region programs, and verify_part.c, which says at which points. */
#ifndef SINEW_PLAN_VERIFY_REGION_H
#define SINEW_PLAN_VERIFY_REGION_H

#include "plan/verify.h"

/* A region being executed at some points, its lanes. */
typedef struct frame {
  verifier *v;
  int step;
  const region *code;
  sym *regs; /* [instruction][lane] */
  int n_lanes;
  int64_t (*at)[VERIFY_AXES]; /* by lane */
  bool empty;                 /* rows without points: lane 0 stands for the row */
  int64_t inner;              /* points of a row */
  int sample_lane[VERIFY_SAMPLES];
  const sym *accs; /* [accumulator][lane] */
  const int64_t *extents;
  int n_axes, n_outer;
} frame;

static inline sym frame_register(const frame *f, reg r, int lane) {
  return f->regs[(size_t)r * (size_t)f->n_lanes + (size_t)lane];
}
/* Every instruction at every lane; stores are compared with the graph, requires are offered. */
sn_status frame_execute(const frame *f) SN_MUST_USE;

#endif
