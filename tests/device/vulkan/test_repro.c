/* Graphs that once went wrong (support/repro.h): on the interpreter of SPIR-V, and on a driver where there is one, against the reference. Each
 * size is the first that a plan meets: what a parameter block holds then is written from nothing. */
#include "support/plan_run.h"
#include "support/repro.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vulkan_case.h"

#include <stdlib.h>

static uint64_t draw;

static void each_binding(const sn_graph *g, void (*on)(const sn_graph *g, const plan_numbers *n)) {
  int64_t bindings[REPRO_BINDINGS][REPRO_SYMBOLS] = {{0}};
  int n = repro_bindings(g, bindings);
  for (int b = 0; b < n; b++)
    on(g, &(plan_numbers){.bindings = bindings[b], .fill = repro_number, .user = &draw});
}

static void interpret(const sn_graph *g, const plan_numbers *n) {
  char why[1000];
  for (int unfused = 0; unfused < 2; unfused++) {
    vm_check_options o = {.compile = {.no_fusion = unfused}};
    if (vm_check(g, n, 1, &o, NULL, why, sizeof why) == PLAN_WRONG)
      FAIL("%s: %s", unfused ? "unfused" : "fused", why);
  }
}

static void drive(const sn_graph *g, const plan_numbers *n) {
  char why[1000];
  int modes = PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED;
  if (plan_check(g, modes, n, 1, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

static void check_interpreted(const sn_graph *g) { each_binding(g, interpret); }
static void check_driven(const sn_graph *g) {
  if (!vulkan_ready())
    return;
  setenv("SINEW_TEST_DEVICE", "vulkan", 1);
  each_binding(g, drive);
  vulkan_check();
}

TEST_WALK(interpreted) { repro_each(check_interpreted); }
TEST_WALK(driven) { repro_each(check_driven); }
