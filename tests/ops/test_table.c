/* Walks the op table: every op, every case, every check. Prints what it covered. */
#include "ops/table.h"
#include "support/op_walk.h"
#include "support/test.h"

#include <stdio.h>

TEST_WALK(op) {
  const op_table *table = op_table_get();
  op_walk_counts counts = {0};
  for (int i = 1; i < table->n; i++) {
    if (!test_begin("%s", table->ops[i].name))
      continue;
    op_walk(table, i, &counts);
    test_end();
  }
  op_walk_print_exemptions(table);
  printf("op table: %d ops, %d cases, %d cases that must fail, %d checks, %d gradient elements, %d "
         "decompositions\n",
         counts.ops, counts.cases, counts.error_cases, counts.checks, counts.gradients,
         counts.decompositions);
}
