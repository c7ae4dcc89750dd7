/* A graph through the whole compiler and onto the Vulkan device, compared with the reference. */
#ifndef SINEW_TESTS_SPIKE_PLANNED_H
#define SINEW_TESTS_SPIKE_PLANNED_H

#include "support/plan_run.h"

typedef enum planned_verdict {
  PLANNED_RIGHT,
  PLANNED_WRONG,
  PLANNED_CORE, /* a step is no region; `why` names its archetype */
  PLANNED_FAILS /* it does not compile, or fails on the cpu device */
} planned_verdict;

/* With 32-bit indices, or 64. */
planned_verdict planned_check(const sn_graph *g, const plan_numbers *n, bool wide, char *why,
                              size_t size);

#endif
