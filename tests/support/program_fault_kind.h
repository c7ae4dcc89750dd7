/* What a kind of fault is, for program_faults.c (what a wrong planner might do) and program_faults_hostile.c (what a plan from a bad
 * file might hold). */
#ifndef SINEW_TESTS_SUPPORT_PROGRAM_FAULT_KIND_H
#define SINEW_TESTS_SUPPORT_PROGRAM_FAULT_KIND_H

#include "support/program_faults.h"

/* One instruction and where it stands. */
typedef struct fault_spot {
  program *p;
  int step;
  part *of;
  const region *code;
  instr *i;
  int at;
  bool operand;
  const sn_dim *extents;
  int n_axes;
} fault_spot;

void program_fault_change(fault_undo *u, const void *at, const void *to, size_t size);
#define CHANGE(u, place, to)                             \
  do {                                                   \
    __typeof__(place) to_ = (to);                        \
    program_fault_change(u, &(place), &to_, sizeof to_); \
  } while (0)

/* One of the four functions: whether the fault was planted at a place. */
typedef struct fault_kind {
  const char *name;
  bool (*on_instr)(fault_spot *s, fault_undo *u);
  bool (*on_step)(program *p, int s, fault_undo *u);
  bool (*on_value)(program *p, int v, fault_undo *u);
  bool (*on_program)(program *p, int n, fault_undo *u);
  const char *words[24];
} fault_kind;

extern const fault_kind hostile_kinds[];
extern const int hostile_kind_count;

#endif
