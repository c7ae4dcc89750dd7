/* Shaders that runs on the interpreter of SPIR-V make, through spirv-val as well: each once, and of those every n-th.
 *
 *   vm_validator v = {.every = 4};
 *   vm_check_options o = {.see = vm_validate, .see_user = &v};
 *   …
 *   CHECK_EQ_STR(v.complaint, "");
 *   vm_validator_end(&v);
 *
 * Shaders with cooperative matrices are left out, since an installed spirv-val may not know them; the interpreter
 * checks their structure itself.
 */
#ifndef SINEW_TESTS_SUPPORT_VM_VALIDATE_H
#define SINEW_TESTS_SUPPORT_VM_VALIDATE_H

#include "support/vm_program.h"

typedef struct vm_validator {
  uint64_t every;
  int different, validated;
  char complaint[500]; /* the first */
  uint64_t *seen;      /* hashes */
  int room;
} vm_validator;

void vm_validate(void *validator, const shader *s);
void vm_validator_end(vm_validator *v);

#endif
