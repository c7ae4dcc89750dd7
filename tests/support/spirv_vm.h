/* An interpreter of the SPIR-V that the Vulkan device emits, for tests: it runs compute shaders on the host, and
 * finds what a driver lets pass. Findings are
 *   - reads and writes outside of the buffers that are mapped, unaligned ones, writes to what may only be read;
 *   - reads of bytes or variables that nothing has written;
 *   - races: two threads touch the same element, one of them writes, and no barrier (with the semantics for that kind of
 *     memory) stands between them; in shared memory, and in buffers between threads, workgroups and dispatches;
 *   - barriers and subgroup operations that not all threads of the workgroup, or subgroup, reach;
 *   - array indices out of range, divisions by 0, shifts by the width or more, conversions out of range, endless loops;
 *   - modules of wrong structure: ids, types, blocks, merges (spirv_vm_check.c), unknown instructions.
 *
 *   vm *v = vm_create(32);                                  // threads of a subgroup
 *   vm_memory m;  vm_memory_create(&m, bytes);
 *   uint64_t address = vm_map(v, &m, 0, bytes, VM_READ | VM_WRITE);
 *   vm_module *shader = vm_load(v, words, n);               // NULL: vm_finding says why
 *   vm_dispatch(v, shader, &(vm_job){.groups = {4, 1, 1}, .block = block, .block_bytes = size});
 *
 * The first finding ends a dispatch, which then returns false; vm_finding is its text. Everything is deterministic:
 * threads of a workgroup run one after the other up to the next barrier or subgroup operation, in the order that the
 * job asks for.
 *
 * Without memory it aborts: it serves tests only.
 */
#ifndef SINEW_TESTS_SUPPORT_SPIRV_VM_H
#define SINEW_TESTS_SUPPORT_SPIRV_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vm vm;
typedef struct vm_module vm_module;

vm *vm_create(int subgroup);
void vm_destroy(vm *v);
/* Elements of matrices of f16, of bf16 are at no places that a kernel could know, where they would be at those of kernel_matrix.h. Sums'
 * are at theirs unless both are hidden. */
void vm_hide_places(vm *v, bool f16, bool bf16);
/* What was found last; "" when nothing was. */
const char *vm_finding(const vm *v);

/* Decodes and checks a module. It stays until vm_unload or vm_destroy. */
vm_module *vm_load(vm *v, const uint32_t *words, size_t n);
void vm_unload(vm *v, vm_module *m);
int vm_threads(const vm_module *m); /* of a workgroup */

/* --- memory --- */

/* Bytes of the host, and by byte: whether it is defined, who touched it last. Zeroed and undefined at first. */
typedef struct vm_memory {
  unsigned char *data;
  unsigned char *defined; /* by byte: 1, or 0 */
  struct vm_touch *touches;
  size_t bytes;
} vm_memory;
void vm_memory_create(vm_memory *m, size_t bytes);
void vm_memory_destroy(vm_memory *m);
void vm_memory_define(vm_memory *m, size_t first, size_t bytes, bool defined);

enum { VM_READ = 1, VM_WRITE = 2 };
/* Gives bytes of a memory a device address, a multiple of 64 and of no more. Several may be given the same bytes.
 * `access` may be changed between dispatches. */
uint64_t vm_map(vm *v, vm_memory *m, size_t first, size_t bytes, int access);
void vm_allow(vm *v, uint64_t address, int access);
void vm_unmap_all(vm *v);

/* --- dispatches --- */

typedef enum vm_order { VM_FORWARD, VM_REVERSE, VM_RANDOM } vm_order;

typedef struct vm_job {
  uint32_t groups[3];
  const void *block; /* the uniform buffer of set 0, binding 0 */
  size_t block_bytes;
  bool after;      /* a barrier stands before it: what was done before is done and visible */
  vm_order order;  /* of threads and of workgroups */
  uint32_t seed;   /* VM_RANDOM */
  uint64_t budget; /* branches that a thread may take; 0: 2^24 */
} vm_job;
bool vm_dispatch(vm *v, const vm_module *m, const vm_job *job);
/* A barrier between dispatches; the same as the next job's `after`. */
void vm_barrier(vm *v);
/* Instructions that were run so far, for statistics. */
uint64_t vm_steps(const vm *v);

#endif
