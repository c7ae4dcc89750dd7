/* Everything that is checked of an op through its row: used by the table's tests and, with planted
 * faults, by the mutation run. */
#ifndef SINEW_TESTS_SUPPORT_OP_WALK_H
#define SINEW_TESTS_SUPPORT_OP_WALK_H

#include "support/case.h"

typedef struct op_walk_counts {
  int ops, cases, error_cases, checks, gradients, decompositions;
} op_walk_counts;

/* Runs all checks of one op as CHECKs of the running test; adds to counts. */
void op_walk(const op_table *table, int op, op_walk_counts *counts);

/* Why an op is let off a demand of the walk; NULL when it is not. */
typedef enum op_demand { DEMAND_ZERO_SIZE, DEMAND_PRIME, DEMAND_ONE, DEMAND_ERROR_CASE } op_demand;
const char *op_walk_exempt(const char *op, op_demand demand);
/* Prints every exemption with its reason. */
void op_walk_print_exemptions(const op_table *table);

#endif
