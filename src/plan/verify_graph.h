/* For verify_graph.c and verify_element.c: where in a value of the graph an element is executed. */
#ifndef SINEW_PLAN_VERIFY_GRAPH_H
#define SINEW_PLAN_VERIFY_GRAPH_H

#include "plan/verify.h"

enum { ELEMENT_REGS = 8192, PLACE_REGS = 8, PLACE_CHECKS = 4 };

/* A register of an element: one lane, or one for each sample of the reduction that is open. */
typedef struct wide {
  int n;
  sym s[VERIFY_SAMPLES];
} wide;

struct node_numbers {
  const void *attrs;
  const sn_type *in;
};

/* A place whose coordinates are numbers but for registers that are not known. Checks that pass are gone; those of which one cannot
 * know stay, since loads below are under them too. */
typedef struct position {
  int64_t at[SN_MAX_RANK];
  int n_regs, n_checks;
  struct position_term {
    int of; /* an axis; or a check, as -1 - its number */
    int64_t stride, size;
    sym index;
  } regs[PLACE_REGS];
  struct {
    int64_t offset, size, divisor;
  } checks[PLACE_CHECKS];
  outcome checked; /* of the checks: none fails */
} position;

/* The element of a value at a place, through what is remembered. */
sym expect_at(verifier *v, uint32_t value, const position *at, bool inside);
/* The same through the op's `element`; the value's node has one. */
sym element_run_at(verifier *v, uint32_t value, const position *at);
static inline void expect_give_up(verifier *v, sn_status status) {
  if (v->status == SN_OK)
    v->status = status;
}

#endif
