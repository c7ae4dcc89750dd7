/* The vector functions of every instruction set at every float: the bounds that step/math.h states. The common ones at all 2^32; the
 * others, whose exact values cost more than they do, at every 16th. */
#include "support/math_sweep.h"
#include "support/test.h"

static bool is_common(alu code) {
  return code == ALU_exp || code == ALU_log || code == ALU_tanh || code == ALU_sigmoid;
}

TEST_WALK(every_float) {
  for (int i = 0; cpu_isa_at(i); i++)
    for (int f = 0; f < math_function_count; f++) {
      const math_function *of = &math_functions[f];
      if (!test_begin("%s/%s", cpu_isa_at(i)->name, alu_table[of->code].name))
        continue;
      bool all = i == 0 && is_common(of->code);
      (void)math_sweep(cpu_isa_at(i), of, all ? 0 : 3, all ? 1 : 16);
      test_end();
    }
}
