/* Scratch memory of a run, how work is shared out, and how large sizes can get. Called by all archetypes. */
#include "device/cpu/cpu.h"

#include "base/stale.h"

sn_status cpu_fail(cpu_run *r, const char *what) {
  return r->thread == 0 ? diag_fail(r->ctx, SN_ERR_INTERNAL, "cpu: %s", what) : SN_ERR_INTERNAL;
}

void *cpu_take(cpu_run *r, size_t bytes) {
  size_t take = cpu_take_bytes(bytes);
  if (take > r->scratch_bytes - r->scratch_used) {
    (void)!cpu_fail(r, "a step needs more scratch memory than was said");
    return NULL;
  }
  char *p = r->scratch + r->scratch_used;
  r->scratch_used += take;
  r->scratch_most = r->scratch_used > r->scratch_most ? r->scratch_used : r->scratch_most;
  if (r->poison)
    stale_fill(p, take);
  return p;
}

void *cpu_take_shared(cpu_run *r, size_t bytes) {
  size_t take = cpu_take_bytes(bytes);
  if (!r->crew || take > r->crew->shared_bytes - r->shared_used) {
    (void)!cpu_fail(r, "a step needs more shared memory than was said");
    return NULL;
  }
  char *p = r->crew->shared + r->shared_used;
  r->shared_used += take;
  return p;
}

/* Half of the counters may be in use by threads that lag behind; when the other half begins, all have left it. */
void cpu_begin(cpu_run *r) {
  r->iteration = -1;
  if (r->threads == 1)
    return;
  r->loop++;
  uint32_t at = r->loop % CPU_LOOPS, half = CPU_LOOPS / 2;
  if (at % half == 0) {
    cpu_sync(r);
    if (r->thread == 0)
      for (uint32_t i = 0; i < half; i++)
        atomic_store_explicit(&r->crew->loops[(at + half + i) % CPU_LOOPS].next, 0,
                              memory_order_relaxed);
  }
}

int64_t cpu_size_max(const program *p, sn_dim d) {
  int64_t lo, hi = d;
  if (!dim_is_number(d))
    dim_range(p->dims, d, &lo, &hi);
  return hi;
}
