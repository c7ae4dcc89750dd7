/* Scratch memory of a run, and how large sizes can get. Called by all archetypes. */
#include "device/cpu/cpu.h"

void *cpu_take(cpu_run *r, size_t bytes) {
  size_t take = cpu_take_bytes(bytes);
  if (take > r->scratch_bytes - r->scratch_used) {
    (void)!diag_fail(r->ctx, SN_ERR_INTERNAL,
                     "cpu: a step needs more scratch memory than was said");
    return NULL;
  }
  char *p = r->scratch + r->scratch_used;
  r->scratch_used += take;
  return p;
}

int64_t cpu_size_max(const program *p, sn_dim d) {
  int64_t lo, hi = d;
  if (!dim_is_number(d))
    dim_range(p->dims, d, &lo, &hi);
  return hi;
}
