/* One kernel on the interpreter of SPIR-V, for tests of that: made by a function, run by a few workgroups on two
 * small buffers.
 *
 *   vm_stage s;
 *   if (stage_open(&s, 32, body))
 *     CHECK_EQ_STR(stage_run(&s, VM_FORWARD), "");
 *   stage_close(&s);
 */
#ifndef SINEW_TESTS_SUPPORT_VM_STAGE_H
#define SINEW_TESTS_SUPPORT_VM_STAGE_H

#include "device/vulkan/kernel.h"
#include "support/spirv_vm.h"

enum { STAGE_THREADS = 64, STAGE_GROUPS = 3, STAGE_WORDS = 1024, STAGE_DEFINED = 512 };

typedef struct vm_stage {
  sn_ctx *ctx;
  arena memory;
  struct shader_table shaders;
  gpu_target target;
  emit_env env;
  kernel_made made;
  vm *v;
  vm_memory data, read_only;
  uint64_t block[64];
  bool hides_places;    /* of elements of matrices (spirv_vm.h) */
  const int64_t *sizes; /* that slots of amounts are filled from; NULL: all are numbers */
} vm_stage;

bool stage_open(vm_stage *s, int subgroup, void (*body)(kernel *k));
/* The same with 64-bit indices. */
bool stage_open_wide(vm_stage *s, int subgroup, void (*body)(kernel *k));
void stage_close(vm_stage *s);
/* The address of STAGE_WORDS words, the first STAGE_DEFINED of which are written, word i being i. */
val stage_buffer(kernel *k);
/* Of 16 words that may only be read. */
val stage_constants(kernel *k);
/* A fresh run: what is found, "" when nothing is. It is there until the next run. */
const char *stage_run(vm_stage *s, vm_order order);
/* The same with another module, of a kernel with the same slots. */
const char *stage_run_words(vm_stage *s, vm_order order, const uint32_t *words, size_t n);
/* Word STAGE_DEFINED + i of the buffer. */
uint32_t stage_result(const vm_stage *s, int i);

#endif
