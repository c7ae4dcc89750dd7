/* What a step must have written, in builds that can tell (base/stale.h). Called by device.c around every step, which there stands
 * alone between two meetings of the threads. */
#include "device/cpu/cpu.h"

#include "base/stale.h"

#include <stdio.h>

static size_t bytes_of(const cpu_run *r, const program_value *v) {
  return (size_t)cpu_size(r, v->count) * sn_dtype_size(v->type.dtype);
}

/* A state holds what it held at the start of the run, and so does the memory of what a result is in place of. */
void cpu_forget_results(const cpu_run *r, int index) {
  for (uint32_t i = 1; i < r->program->n_values; i++) {
    const program_value *v = &r->program->values[i];
    if (v->first == index && v->in_place_of == 0 && v->home != HOME_STATE)
      stale_fill(cpu_address(r, i), bytes_of(r, v));
  }
}

sn_status cpu_check_results(cpu_run *r, int index) {
  for (uint32_t i = 1; i < r->program->n_values; i++) {
    const program_value *v = &r->program->values[i];
    bool made = v->first == index;
    int64_t at = made ? stale_find(cpu_address(r, i), bytes_of(r, v)) : -1;
    if (at < 0)
      continue;
    char what[200];
    const char *name = r->program->steps[index].name;
    snprintf(what, sizeof what,
             "step %d (%s, %.100s) makes element %lld of value %u of stale memory", index,
             archetype_name(r->program->steps[index].kind), name ? name : "",
             (long long)(at / (int64_t)sn_dtype_size(v->type.dtype)), i);
    return cpu_fail(r, what);
  }
  return SN_OK;
}
