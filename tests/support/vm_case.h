/* Cases of ops on the interpreter of SPIR-V: forward, and with the gradients of all float arguments where the op has
 * them. */
#ifndef SINEW_TESTS_SUPPORT_VM_CASE_H
#define SINEW_TESTS_SUPPORT_VM_CASE_H

#include "support/vm_program.h"

/* CHECKs of the running test; tally may be NULL. */
void vm_case(const char *line, const vm_check_options *options, vm_tally *tally);

#endif
