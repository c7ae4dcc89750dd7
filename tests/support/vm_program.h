/* Whole programs on the interpreter of SPIR-V (spirv_vm.h), without any driver: every step as the launches that the
 * Vulkan device emits for a target, memory of every home with exactly the bytes of each value. Beside what the
 * interpreter finds in shaders, it finds values that are read before they are made, values that a step touches though
 * it names them nowhere, and work that may run side by side and touches the same bytes: launches go in the order and the phases in
 * which a GPU gets them.
 *
 *   char why[1000];
 *   verdict = vm_check(graph, &numbers, 1, NULL, NULL, why, sizeof why);
 */
#ifndef SINEW_TESTS_SUPPORT_VM_PROGRAM_H
#define SINEW_TESTS_SUPPORT_VM_PROGRAM_H

#include "device/vulkan/emit.h"
#include "support/plan_run.h"
#include "support/spirv_vm.h"

typedef struct vm_execution {
  sn_ctx *ctx;
  const program *program;
  gpu_target target;
  bool wide;
  sn_precision precision;
  vm_order order;
  uint32_t seed;
  bool
      by_step; /* in the plan's order, at its barriers, as with timestamps and as on other devices */
  int without; /* leaves out where the n-th phase begins, from 1; 0: none */
  const int64_t *sizes;
  const void *const *inputs; /* by leaf, as in device_run */
  void *const *outputs;
  void *const *states;
  /* as it was left */
  int launches, shaders;
  int matrix_shaders; /* that have cooperative matrices */
  uint64_t instructions;
} vm_execution;

/* One run. Fails with SN_ERR_INTERNAL and the finding as the context's message, or as the program's requirements say;
 * states are then as they were. */
sn_status vm_execute(vm_execution *x) SN_MUST_USE;

/* What a device with subgroups of 8, 16, 32 or 64 threads offers; with 16 of them the least that Vulkan allows. */
gpu_target vm_target(int subgroup);

typedef struct vm_check_options {
  compile_options compile;
  bool wide;
  sn_precision
      precision; /* but exact: on targets with matrices of halves, and with the tolerance that goes with it */
  bool
      bf16; /* places of elements are known of matrices of bf16, too; else of some programs' alone */
  void (*change)(void *user, program *p); /* before it runs, to plant a fault; may be NULL */
  void *change_user;
  bool by_step; /* as in vm_execution */
  int without;
} vm_check_options;
typedef struct vm_tally {
  int runs, launches, shaders, matrix_shaders;
  uint64_t instructions;
} vm_tally;
/* Compiles a graph and runs it with each of these numbers at the three sizes of subgroups (some programs at a fourth), in a different order of
 * threads each; results must be those of the reference. options and tally may be NULL. */
plan_verdict vm_check(const sn_graph *g, const plan_numbers *n, int n_numbers,
                      const vm_check_options *options, vm_tally *tally, char *why, size_t size);
/* The same, as CHECKs of the running test; and every run must have so many launches (0: any number). */
void vm_check_launches(const sn_graph *g, int launches);

#endif
