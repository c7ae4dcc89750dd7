/* Random graphs on the interpreter of SPIR-V, at several bindings of their symbols. */
#ifndef SINEW_TESTS_SUPPORT_VM_GRAPHS_H
#define SINEW_TESTS_SUPPORT_VM_GRAPHS_H

#include "support/vm_program.h"

/* The graph of a seed, as CHECKs of the running test; tally may be NULL. */
void vm_random_graph(uint64_t seed, vm_tally *tally);

#endif
