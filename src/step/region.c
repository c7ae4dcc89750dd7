/* Tables of region programs and steps: what each instruction reads, what things are called. Plain data for planner,
 * verifier, devices and whoever prints a plan. */
#include "step/step.h"

const alu_info alu_table[ALU_COUNT] = {
    [ALU_none] = {"none", "nothing", 0},
#define ALU(name, arguments, meaning) [ALU_##name] = {#name, meaning, arguments},
#include "step/alu.def"
};

int instr_arguments(const instr *i) {
  static const int arguments[] = {
      [REGION_LOAD] = 0,   [REGION_STORE] = 1, [REGION_INDEX] = 0,  [REGION_INSIDE] = 0,
      [REGION_NUMBER] = 0, [REGION_SIZE] = 0,  [REGION_ALU] = 0,    [REGION_WORD] = 3,
      [REGION_REDUCE] = 1, [REGION_ACC] = 0,   [REGION_REQUIRE] = 2};
  return i->op == REGION_ALU ? alu_table[i->code].arguments : arguments[i->op];
}

const char *archetype_name(archetype a) {
  static const char *const names[] = {[STEP_POINTWISE] = "pointwise",
                                      [STEP_ROW] = "row",
                                      [STEP_MATMUL] = "matmul",
                                      [STEP_ATTENTION] = "attention",
                                      [STEP_ATTENTION_GRAD] = "attention_grad",
                                      [STEP_SCATTER] = "scatter",
                                      [STEP_SCAN] = "scan",
                                      [STEP_SORT] = "sort",
                                      [STEP_SAMPLE] = "sample",
                                      [STEP_PERMUTE] = "permute"};
  return (size_t)a < COUNT_OF(names) ? names[a] : "?";
}
