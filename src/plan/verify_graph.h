/* For verify_graph.c and verify_element.c: elements of values of the graph, at plain coordinates. */
#ifndef SINEW_PLAN_VERIFY_GRAPH_H
#define SINEW_PLAN_VERIFY_GRAPH_H

#include "plan/verify.h"

enum { ELEMENT_REGS = 8192 };

/* A register of an element: one lane, or one for each sample of the reduction that is open. */
typedef struct wide {
  int n;
  sym s[VERIFY_SAMPLES];
} wide;

struct node_numbers {
  const void *attrs;
  const sn_type *in;
};

/* The element of a value at a place, through what is remembered. */
sym expect_at(verifier *v, uint32_t value, const int64_t *at, bool inside);
/* The same through the op's `element`; the value's node has one. */
sym element_run_at(verifier *v, uint32_t value, const int64_t *at);
static inline void expect_give_up(verifier *v, sn_status status) {
  if (v->status == SN_OK)
    v->status = status;
}

#endif
