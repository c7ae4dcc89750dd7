/* Planted faults in programs, for tests of the verifier: each kind changes one thing that a wrong planner might have got wrong, at its
 * n-th opportunity, and can be undone.
 *
 *   fault_undo undo;
 *   for (int kind = 0; kind < program_fault_kinds(); kind++)
 *     for (int n = 0; program_fault_plant(p, kind, n, &undo); n++) {
 *       status = plan_verify(p, graph);                      // must be SN_ERR_INTERNAL
 *       program_fault_restore(&undo);
 *     }
 */
#ifndef SINEW_TESTS_SUPPORT_PROGRAM_FAULTS_H
#define SINEW_TESTS_SUPPORT_PROGRAM_FAULTS_H

#include "plan/program.h"

enum { FAULT_CHANGES = 4, FAULT_BYTES = 256 };
typedef struct fault_undo {
  int n;
  struct {
    void *at;
    size_t size;
    unsigned char old[FAULT_BYTES];
  } changes[FAULT_CHANGES];
} fault_undo;

int program_fault_kinds(void);
const char *program_fault_name(int kind);
/* Words of which the verifier's message must have one, NULL-terminated. */
const char *const *program_fault_words(int kind);
/* Changes the program; false (and no change) when the kind has no n-th opportunity in it. */
bool program_fault_plant(program *p, int kind, int n, fault_undo *undo);
void program_fault_restore(fault_undo *undo);

#endif
