/* How much the reference knows about each value of a graph: whether it is exact, so that every device must give these very
 * numbers, or how far it may be off.
 *
 * An error of 0 means exact: whatever order sums and products are taken in, no rounding happens. So that this holds for
 * reordered sums (plans and the optimiser do that), a value has beside its numbers a bound of the sum of the magnitudes
 * of all terms it was made of, `most`, and a power of two that divides them, `grain`: through sums and products these come
 * from the arguments; it is exact while most / grain fits in the significand. Ops that choose or compare are exact on exact
 * arguments, and on others where moving these by their error changes nothing; both begin anew with what the numbers are. Every
 * other op is off by the tolerance of plan_oracle.h and what moving its arguments shows. An infinite error says nothing: then
 * the value is not compared.
 *
 * NaN equals NaN. Zeros are equal whatever their sign: the optimiser does not keep it (decision 8), so where it would show
 * (a division by a computed zero) nothing is said either. What convolutions, attention and weighted means
 * give of infinities is free (plan_oracle.h): devices multiply by 0 what the reference leaves out.
 */
#ifndef SINEW_TESTS_SUPPORT_DRAWN_EXACT_H
#define SINEW_TESTS_SUPPORT_DRAWN_EXACT_H

#include "support/plan_oracle.h"

#include <math.h>

/* What an op does to exactness: a column of drawn_ops.def. */
typedef enum exact_kind {
  EXACT_LEAF,
  EXACT_MOVE,    /* copies elements */
  EXACT_LINEAR,  /* sums of its arguments, some scaled by powers of two */
  EXACT_PRODUCT, /* sums of products of one element of each of two arguments */
  EXACT_STEP,    /* chooses, compares, rounds to whole numbers */
  EXACT_EXTREME, /* chooses; a moved argument moves the result as far at most */
  EXACT_SMOOTH   /* is rounded */
} exact_kind;

enum { EXACT_MOST_ELEMENTS = 1 << 15 };

typedef struct exact_value {
  ref_tensor t; /* data NULL: too large, or an argument is not there */
  double err, most, grain;
  bool failed; /* the run must fail here or before */
  bool pure;   /* moved from leaves: signs of zeros are kept */
} exact_value;

typedef struct exact_judge {
  const sn_graph *g;
  const plan_numbers *numbers;
  arena memory;
  exact_value *values; /* by id */
  uint32_t n_values, cap_values, n_nodes;
} exact_judge;

/* Judges the nodes that the graph has so far; again after some were added. false without memory. */
void exact_start(exact_judge *j, const sn_graph *g, const plan_numbers *numbers);
bool exact_go_on(exact_judge *j) SN_MUST_USE;
void exact_end(exact_judge *j);

/* Whether an element of a value is right; both are of its dtype. */
bool exact_accepts(const exact_value *v, int64_t i, double got);
static inline bool exact_says(const exact_value *v) {
  return v->t.data && !v->failed && v->err < INFINITY;
}

#endif
