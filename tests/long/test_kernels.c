/* Every case of every op, with 32-bit and with 64-bit indices, fused and not, exact and fast, and many random graphs, on the
 * interpreter of SPIR-V, and through AMD's compiler; see device/vulkan/test_kernels.c. */
#include "ops/table.h"
#include "support/test.h"
#include "support/vm_case.h"
#include "support/vm_graphs.h"
#include "support/vm_validate.h"

enum { FIRST_GRAPH = 1001, LAST_GRAPH = 2000 };

TEST(amds_compiler_is_there) {
  if (!vm_validate_for_amd())
    test_skip("no RADV: the driver of Mesa for AMD's GPUs, or Vulkan's loader, is not installed");
}

TEST_WALK(every_op) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!impl->ref || !test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases; k++)
      for (int way = 0; way < 8 && !impl->cases[k].error; way++) {
        vm_check_options o = {.wide = way & 1,
                              .compile = {.no_fusion = way & 2},
                              .precision = way & 4 ? SN_PRECISION_FAST : SN_PRECISION_EXACT};
        vm_case(impl->cases[k].text, &o, NULL);
      }
    test_end();
  }
}

TEST_WALK(random_graphs) {
  for (uint64_t seed = FIRST_GRAPH; seed <= LAST_GRAPH; seed++)
    if (test_begin("%d", (int)seed)) {
      vm_random_graph(seed, NULL);
      test_end();
    }
}
