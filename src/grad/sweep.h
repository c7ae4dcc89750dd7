/* One sweep back through a graph, as grad.c and recompute.c share it. */
#ifndef SINEW_GRAD_SWEEP_H
#define SINEW_GRAD_SWEEP_H

#include "ir/graph.h"

/* Arrays are by node index or value id of the graph at the sweep's start. A sweep through a decomposition
 * touches a few nodes of a large graph, so its arrays are made once, for all such sweeps at its depth, and
 * it leaves them zeroed: its cost is what it touches. */
typedef struct sweep {
  sn_graph *g;
  arena *memory; /* of the outermost sweep; dies with it */
  uint32_t n_nodes, n_values, cap_nodes, cap_values;
  bool *reached;   /* nodes on the way back from the seeds */
  uint32_t *order; /* those nodes, users before arguments */
  uint32_t n_order;
  uint32_t *heap; /* reached and not yet in order */
  uint32_t n_heap;
  bool *active;        /* values that depend on a target */
  bool *target;        /* values whose gradient is asked for */
  bool *end;           /* where an inner sweep ends: the arguments of the op that is decomposed */
  sn_value *grad;      /* by value id: sum of what has arrived */
  uint32_t *via;       /* by value id: node through which its gradient arrived; for messages */
  struct sweep *inner; /* for decompositions; NULL until there is one */

  /* Recomputation, in the outermost sweep only; NULL in inner ones. */
  uint32_t *segment; /* by node: boundary node index + 1, 0: none */
  bool *kept;        /* by node: lives until the backward pass, never cloned */
  sn_value *clone;   /* by value id: its copy in the backward pass; id 0: itself */
  sn_value *held;    /* by value id: a kept value behind the barrier of segment held_in */
  uint32_t *held_in;
  bool *cloned; /* by boundary node: its segment has been cloned */
} sweep;

/* --- grad.c --- */
/* For messages: a label, a leaf's name, or the op. */
const char *grad_value_name(const sn_graph *g, uint32_t v);

/* --- paths.c --- */
/* Fails where one of the values reaches the loss, but only through what has no gradient. */
sn_status grad_check_paths(sn_graph *g, sn_value loss, const sn_value *wrt, int n) SN_MUST_USE;

/* --- recompute.c --- */
/* Once what is reached is known: which nodes are computed again, and which are kept. */
sn_status recompute_mark(sweep *s) SN_MUST_USE;
/* Clones the segment of a boundary, to be computed after `after` has arrived. */
sn_status recompute_segment(sweep *s, uint32_t boundary, sn_value after) SN_MUST_USE;
/* A value as the backward pass sees it: its clone, or itself. */
sn_value recompute_seen(const sweep *s, sn_value v);

#endif
