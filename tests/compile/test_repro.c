/* Graphs that once went wrong (support/repro.h), each through the compiler in all modes, on the device of chosen.h and, on the
 * cpu, with every instruction set, against the reference. */
#include "support/plan_run.h"
#include "support/repro.h"
#include "support/test.h"

enum { DRAWS = 3 };

static void check_graph(const sn_graph *g) {
  int64_t bindings[REPRO_BINDINGS][REPRO_SYMBOLS] = {{0}};
  uint64_t draws[DRAWS];
  plan_numbers numbers[DRAWS * REPRO_BINDINGS];
  char why[1000] = "";
  int n = 0, n_bindings = repro_bindings(g, bindings);
  for (int d = 0; d < DRAWS; d++)
    draws[d] = (uint64_t)d;
  for (int b = 0; b < n_bindings; b++)
    for (int d = 0; d < DRAWS; d++)
      numbers[n++] =
          (plan_numbers){.bindings = bindings[b], .fill = repro_number, .user = &draws[d]};
  int modes = PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED;
  if (plan_check(g, modes, numbers, n, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

TEST_WALK(graph) { repro_each(check_graph); }
