/* A whole program on the device: its steps in order, each part a shader of its own. Programs with cores (attention,
 * sorting, …) are refused: those are no regions. */
#ifndef SINEW_TESTS_SPIKE_EXECUTE_H
#define SINEW_TESTS_SPIKE_EXECUTE_H

#include "plan/program.h"
#include "spike/vulkan.h"

typedef struct execution {
  const program *program;
  const int64_t *sizes;      /* of the run */
  const void *const *inputs; /* by index of the program's */
  void *const *outputs;      /* written */
  void *const *states;       /* as they are before the run; not written */
  bool wide;
  int parts, instructions; /* what ran */
  uint32_t failure[2];     /* as in emit.h */
  bool is_core;            /* why: a step of this archetype is no region */
  char why[160];
} execution;

bool execute_program(gpu *g, execution *x);

#endif
