/* Kernels at sizes around the smaller borders of their ways (support/borders.h), on the interpreter of SPIR-V. tests/long/test_borders.c goes up
 * to 100,000, on drivers and on the CPU, too. */
#include "support/borders.h"
#include "support/test.h"
#include "support/vm_program.h"

enum { MOST = 600, EVERY = 13 };

/* Every so many of the graphs. */
static void interpret(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  static int number;
  char why[1000];
  if (number++ % EVERY)
    return;
  if (vm_check(g, n, n_numbers, NULL, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

TEST_WALK(interpreted) { borders_each(0, MOST, interpret); }
