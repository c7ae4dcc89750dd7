/* Launches (src/device/vulkan/launch.h) on the interpreter of SPIR-V: parameter blocks filled as the device fills
 * them, shaders decoded once. */
#ifndef SINEW_TESTS_SUPPORT_VM_LAUNCH_H
#define SINEW_TESTS_SUPPORT_VM_LAUNCH_H

#include "device/vulkan/launch.h"
#include "support/spirv_vm.h"

typedef struct vm_launcher {
  vm *v;
  const int64_t *sizes;      /* of the run; NULL: all are numbers */
  const uint64_t *addresses; /* by value of the program */
  uint64_t scratch, kept, failures, zeros;
  int block_bytes; /* that a block may have */
  bool chains;     /* launches wait for a counter and raise another: gpu_target.chains */
  vm_order order;
  uint32_t seed;
  int launches; /* that ran so far */
  vm_memory counters;
  uint64_t counters_at;
  /* shaders decoded so far */
  struct vm_decoded {
    const shader *of;
    vm_module *code;
  } * decoded;
  int n_decoded, room_decoded;
} vm_launcher;

/* All launches of a step, one after the other; `after`: what ran before is done. False: vm_finding(l->v) says why. */
bool vm_launch(vm_launcher *l, const step_launches *all, bool after);
/* Frees what it has of its own; the shaders stay with the interpreter. */
void vm_launcher_end(vm_launcher *l);

#endif
