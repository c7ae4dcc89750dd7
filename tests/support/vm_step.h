/* Runs one step on the interpreter of SPIR-V (spirv_vm.h), as the Vulkan device would: emitted for a target, with
 * parameter blocks filled, launch after launch. Every value has exactly its bytes, so that what reads or writes
 * beside it is found.
 *
 *   vm_step s = {.ctx = ctx, .program = p, .sizes = sizes, .addresses = memory, .target = vm_step_target(132)};
 *   if (!vm_step_run(&s, &step))
 *     FAIL("%s", s.finding);
 */
#ifndef SINEW_TESTS_SUPPORT_VM_STEP_H
#define SINEW_TESTS_SUPPORT_VM_STEP_H

#include "device/vulkan/emit.h"
#include "support/spirv_vm.h"

typedef struct vm_step {
  sn_ctx *ctx;
  const program *program;
  const int64_t *sizes;   /* of the run; NULL: all are numbers */
  void *const *addresses; /* by value: the host's memory, which results are copied back to */
  gpu_target
      target; /* places: those of elements of matrices are known, otherwise they are others */
  sn_precision precision;
  bool wide;
  vm_order order;
  uint32_t seed;
  /* Emits instead of emit_step, where a test asks for a way that emit_step would not choose. NULL: emit_step. */
  sn_status (*emit)(emitter *e, const part *p, void *user);
  void *user;
  /* as it was left */
  char finding[512];
  int launches;                  /* that ran */
  int n_shaders, matrix_shaders; /* those that have cooperative matrices */
  uint64_t steps;                /* instructions */
  int64_t scratch;               /* bytes */
  int32_t failures[64];          /* two words a site */
} vm_step;

/* A target like a large GPU's with so many units; subgroups of 32. */
gpu_target vm_step_target(int units);
bool vm_step_run(vm_step *v, const step *s);

#endif
