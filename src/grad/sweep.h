/* One sweep back through a graph, as grad.c and recompute.c share it. */
#ifndef SINEW_GRAD_SWEEP_H
#define SINEW_GRAD_SWEEP_H

#include "ir/graph.h"

/* Arrays are by node index or value id of the graph at its start. */
typedef struct sweep {
  sn_graph *g;
  arena memory;
  uint32_t n_nodes, n_values;
  bool *reached;     /* nodes on the way back from the seeds */
  bool *active;      /* values that depend on a target */
  bool *target;      /* values whose gradient is asked for */
  sn_value *grad;    /* by value id: sum of what has arrived */
  uint32_t *via;     /* by value id: node through which its gradient arrived; for messages */
  uint32_t *segment; /* by node: boundary node index + 1, 0: none */
  bool *kept;        /* by node: lives until the backward pass, never cloned */
  sn_value *clone;   /* by value id: its copy in the backward pass; id 0: itself */
  sn_value *held;    /* by value id: a kept value behind the barrier of segment held_in */
  uint32_t *held_in;
  bool *cloned;        /* by boundary node: its segment has been cloned */
  bool cut_at_targets; /* a decomposition ends at the op's own arguments */
} sweep;

/* --- recompute.c --- */
/* Once what is reached is known: which nodes are computed again, and which are kept. */
void recompute_mark(sweep *s);
/* Clones the segment of a boundary, to be computed after `after` has arrived. */
sn_status recompute_segment(sweep *s, uint32_t boundary, sn_value after) SN_MUST_USE;
/* A value as the backward pass sees it: its clone, or itself. */
sn_value recompute_seen(const sweep *s, sn_value v);

#endif
