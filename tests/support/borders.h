/* Each core, reduction, row kernel and product at sizes around the borders of its ways: graphs with one size that changes, and the sizes
 * at which kernels of the Vulkan device go another way (device/vulkan/emit_borders.h).
 *
 * For each border b a graph is made of sizes b - 1, b and b + 1, and once more with a symbol of at most b + 1 in its place,
 * bound to 1, to 0 and to these: plans go by the greatest size and run all others, and begin with one that is small.
 *
 *   TEST_WALK(interpreted) { borders_each(0, 300, check); }
 */
#ifndef SINEW_TESTS_SUPPORT_BORDERS_H
#define SINEW_TESTS_SUPPORT_BORDERS_H

#include "support/plan_oracle.h"

/* One graph and the numbers that it is to be run with. */
typedef void border_check(const sn_graph *g, const plan_numbers *n, int n_numbers);

/* Borders from … to; each as a sub-test of the running walk, "sort/2048". */
void borders_each(int64_t from, int64_t to, border_check *check);
/* Those of one kernel. */
void borders_of(const char *kernel, int64_t from, int64_t to, border_check *check);

#endif
