/* Modules with cooperative matrices as the extension before had them (SPV_NV_cooperative_matrix), which installed validators know
 * that do not know the present one: accesses to elements, types, blocks, memory and capabilities can be checked in that form. */
#ifndef SINEW_TESTS_SUPPORT_VM_OLDER_H
#define SINEW_TESTS_SUPPORT_VM_OLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Freed by the caller. NULL: there is something in it that cannot be said. */
uint32_t *older_matrices(const uint32_t *words, size_t n, size_t *out_n);

#endif
