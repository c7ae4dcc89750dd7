/* Whether two graphs compute the same, by running both through the reference on the same numbers: leaves are
 * filled by name, outputs and assigned values are compared by name. */
#ifndef SINEW_TESTS_SUPPORT_GRAPH_SAME_H
#define SINEW_TESTS_SUPPORT_GRAPH_SAME_H

#include "ref/ref.h"

typedef struct graph_same {
  ref_mode mode;
  double tolerance; /* of the largest magnitude in the value that is compared */
  const int64_t *bindings;
  /* The number at index i of a leaf; NULL: case_weight for floats, 0 … 3 for integers, 0 or 1 for bool. */
  double (*fill)(void *user, const char *name, sn_dtype dtype, int64_t i);
  void *user;
} graph_same;

typedef enum graph_verdict { GRAPHS_AGREE, GRAPHS_DIFFER, GRAPHS_FAIL } graph_verdict;

/* GRAPHS_FAIL: the first does not run (a run-time error). `why` says where they differ. Elements that
 * are NaN in the first are not compared, and of infinities not the sign: it may hang on that of a zero. */
graph_verdict graph_compare(const graph_same *s, const sn_graph *a, const sn_graph *b, char *why,
                            size_t size);

#endif
