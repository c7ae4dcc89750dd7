/* Shaders that tests make, through spirv-val: each once in a process, side by side with the tests. vm_program.c and vm_step.c bring all
 * that they run here. The last test of an executable that has any, every_shader_is_valid, says how many there were and fails with
 * what was found.
 *
 * An installed spirv-val may not know cooperative matrices: shaders with those go there in the form of an older extension (vm_older.h),
 * and through the interpreter's own check of structure (spirv_vm_check.c).
 */
#ifndef SINEW_TESTS_SUPPORT_VM_VALIDATE_H
#define SINEW_TESTS_SUPPORT_VM_VALIDATE_H

#include "device/vulkan/launch.h"

/* `from` is who made it, for messages. */
void vm_validate(const shader *s, const char *from);
/* Waits for all; what was found, as far as there is room, which is then forgotten, for tests that plant something. false: there is no spirv-val. */
bool vm_validate_take(char *out, size_t size);
bool shader_has_matrices(const shader *s);
/* From now on they go to AMD's compiler, too (radv.h), but for matrices, which it may not know. False: it is not there. */
bool vm_validate_for_amd(void);

#endif
