/* Time on a target: roofline per step, with fusion in mind. A pointwise value that one step reads costs its
 * arithmetic alone; one that several read is computed anew in each of them, or written and read, whichever is cheaper; a result is
 * written. Reads are charged to
 * what is read, so that the cost of a value depends on how often it is read and on nothing else. */
#ifndef SINEW_OPT_COST_H
#define SINEW_OPT_COST_H

#include "ops/cost.h"
#include "opt/opt.h"

typedef struct cost_facts {
  op_kind kind;
  bool part;           /* a result of a step with several */
  bool prepared;       /* made before the run */
  double flops, bytes; /* bytes of the value itself */
  double in_bytes;     /* of its arguments */
} cost_facts;

/* Costs are whole multiples of this, so that their sums are exact in any order. */
#define COST_UNIT_S 1e-13

/* In units. reads: by other values of the graph; pinned: an output, or assigned. 0 when neither. */
double cost_time(const opt_target *t, const cost_facts *f, uint32_t reads, bool pinned);
/* The target with what is left 0 filled in. */
opt_target cost_target(const opt_target *t);

#endif
