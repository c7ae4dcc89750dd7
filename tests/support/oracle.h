/* Lines of the outside oracle (docs/oracle.md): a case with its expected results (case.h), and behind
 * semicolons what else is known about it:
 *
 *   op(inputs) attrs => results ; w f32[2]{1, 2} ; grad f32[3]{…}, none ; tol=1e-5 # whose numbers
 *
 *   w     weights of the results, in order (none for one that is no float); those left out are 0
 *   grad  gradients of loss = sum over the results of sum(result * w) for the inputs, in order; none:
 *         not compared
 *   tol   relative tolerance of results and gradients, instead of the usual ones
 *
 * A line that is empty or begins with # says nothing.
 */
#ifndef SINEW_TESTS_SUPPORT_ORACLE_H
#define SINEW_TESTS_SUPPORT_ORACLE_H

#include "support/case.h"

typedef struct oracle_line {
  op_test_case c;
  int n_weights, n_grads; /* no weights: no gradients are given */
  case_tensor weights[MAX_RESULTS], grads[CASE_MAX_INPUTS];
  double tolerance; /* 0: the usual */
} oracle_line;

typedef struct oracle_counts {
  int lines, values, gradient_lines, gradients;
} oracle_counts;

/* Reads a line. On failure the message is the context's. */
sn_status oracle_load(sn_ctx *ctx, const op_table *table, const char *source, oracle_line *out);
void oracle_free(oracle_line *l);
/* Runs the op and its vjp and compares: failed CHECKs name the place, which is "file:line". */
void oracle_check(oracle_line *l, const char *place, oracle_counts *counts);

#endif
