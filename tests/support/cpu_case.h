/* Runs one step on the CPU device's archetypes alone, on any number of threads and with any instruction set, in exactly the
 * scratch memory that it asks for (which holds NaN before, so that what is not computed shows). */
#ifndef SINEW_TESTS_CPU_CASE_H
#define SINEW_TESTS_CPU_CASE_H

#include "device/cpu/cpu.h"

typedef struct cpu_case {
  sn_ctx *ctx;
  const program *program;
  const int64_t *sizes;
  void *const *addresses;
  int threads;        /* 0: one */
  const cpu_isa *isa; /* NULL: the best */
  /* as it was left */
  bool failed;
  uint32_t site;
  int32_t shown;
  size_t scratch_used; /* the most of all threads */
} cpu_case;

sn_status cpu_case_run(cpu_case *c, const step *s);
/* A sub-test of the running walk for every instruction set of this machine. */
void cpu_case_each_isa(void (*each)(const cpu_isa *isa));
/* A run for one thread with scratch memory of its own, for what is called below the level of steps. Free with mem. */
cpu_run cpu_case_alone(sn_ctx *ctx, const program *p, const int64_t *sizes, void *const *addresses,
                       char *scratch, size_t bytes);

#endif
