/* The reference workloads against their goldens, on the machine's own instruction set. The others, the `arena` parameters and
 * training steps: tests/long. */
#include "support/golden.h"
#include "support/test.h"

static void each(bool gradients) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      golden_step(sn_workload_at(i), SN_WORKLOAD_LIVE, gradients);
      test_end();
    }
}

TEST_WALK(live_step) { each(true); }
TEST_WALK(live_forward) { each(false); }
