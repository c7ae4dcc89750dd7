/* Extraction: which node of each class the result is made of. */
#ifndef SINEW_OPT_EXTRACT_H
#define SINEW_OPT_EXTRACT_H

#include "opt/cost.h"
#include "opt/egraph.h"

/* By canonical class. `place` orders the needed classes so that arguments come first. */
typedef struct extraction {
  egraph *e;
  opt_target target;
  enode **choice;
  uint32_t *reads; /* by needed classes */
  bool *pinned;
  uint64_t *place;
  double *flops;   /* by node; below 0: not asked yet */
  double *bytes;   /* of a node's arguments, once flops is there */
  double total;    /* units of what is needed */
  class_id *stack; /* worklists and the journal of a trial */
  struct journal_entry *journal;
  uint32_t n_stack, cap_stack, n_journal, cap_journal;
} extraction;

/* Starts from the input's own choices: needed are the classes of outputs, assigned and kept values. */
sn_status extract_start(extraction *x, egraph *e, const class_id *of,
                        const opt_options *o) SN_MUST_USE;
/* Exchanges single choices while the whole gets cheaper, shared values counted once. */
sn_status extract_improve(extraction *x) SN_MUST_USE;
/* Takes that node for its class, if the result has no cycle; for tests. */
bool extract_force(extraction *x, enode *n);
static inline bool extract_needed(const extraction *x, class_id c) {
  return x->reads[c] || x->pinned[c];
}

#endif
