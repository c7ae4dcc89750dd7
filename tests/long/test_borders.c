/* Every core and reduction at sizes around each border of its ways up to 100,000 (support/borders.h), against the reference: on the CPU with every
 * instruction set, on a driver of Vulkan, on the interpreter of SPIR-V as far as that ends in minutes. */
#include "support/borders.h"
#include "support/plan_run.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vulkan_case.h"

#include <stdlib.h>

enum { MOST = 100000, MOST_INTERPRETED = 600, MOST_SAMPLED = 10000, EVERY = 11, FAST_MOST = 130 };

static void interpret(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  char why[1000];
  if (vm_check(g, n, n_numbers, NULL, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

/* Of large sizes every so many: a sort of 4,096 takes seconds. */
static void interpret_some(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  static int number;
  if (number++ % EVERY == 0)
    interpret(g, n, n_numbers);
}

/* Products by matrices have borders of their own: multiples of 16, and 32 rows of attention. */
static void interpret_fast(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  vm_check_options o = {.precision = SN_PRECISION_FAST, .bf16 = true};
  char why[1000];
  if (vm_check(g, n, n_numbers, &o, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

static void compare(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  char why[1000];
  if (plan_check(g, PLAN_FUSED, n, n_numbers, NULL, why, sizeof why) == PLAN_WRONG)
    FAIL("%s", why);
}

static void drive(const sn_graph *g, const plan_numbers *n, int n_numbers) {
  if (vulkan_ready())
    compare(g, n, n_numbers);
}

TEST_WALK(on_the_cpu) {
  setenv("SINEW_TEST_DEVICE", "cpu", 1);
  borders_each(0, MOST, compare);
}

TEST_WALK(driven) {
  setenv("SINEW_TEST_DEVICE", "vulkan", 1);
  borders_each(0, MOST, drive);
}

TEST_WALK(interpreted) { borders_each(0, MOST_INTERPRETED, interpret); }
TEST_WALK(interpreted_of_many) { borders_each(MOST_INTERPRETED + 1, MOST_SAMPLED, interpret_some); }

TEST_WALK(interpreted_fast) {
  static const char *const products[] = {
      "rows of matmul", "columns of matmul",     "k of matmul",       "queries", "keys of many",
      "conv",           "gradient of attention", "width of attention"};
  for (size_t i = 0; i < COUNT_OF(products); i++)
    borders_of(products[i], 0, FAST_MOST, interpret_fast);
}
