/* Instruction sets. The files of isa/ are compiled once a set, each time with names of its own (isa/vec.h); what they
 * export to the rest of the device are these tables of functions. Which table a plan uses is decided when it is lowered:
 * the best that the processor has, or the one that the environment's SINEW_CPU names.
 */
#ifndef SINEW_DEVICE_CPU_ISA_H
#define SINEW_DEVICE_CPU_ISA_H

#include "base/base.h"

typedef struct cpu_isa {
  const char *name;
  const struct matmul_kernels *matmul;       /* isa/matmul.h */
  const struct pack_kernels *pack;           /* isa/pack.h */
  const struct lane_kernels *lanes;          /* isa/lanes.h */
  const struct attention_kernels *attention; /* isa/attention.h */
  const struct core_kernels *cores;          /* isa/cores.h */
  const struct pool_kernels *pool;           /* isa/pool.h */
  const struct winograd_kernels *winograd;   /* isa/winograd.h */
} cpu_isa;

/* The set by that name, or the best one for NULL or "". An unknown one, or one that this processor has not, is an
 * error that names those it has. */
sn_status cpu_isa_find(sn_ctx *ctx, const char *name, const cpu_isa **out) SN_MUST_USE;
/* The best one of this processor. */
const cpu_isa *cpu_isa_best(void);
/* Those of this processor, the best first; NULL beyond the last. */
const cpu_isa *cpu_isa_at(int index);

#endif
