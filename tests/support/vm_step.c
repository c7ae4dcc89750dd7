/* See vm_step.h. */
#include "support/vm_step.h"

#include "ir/dtype.h"
#include "support/test.h"
#include "support/vm_launch.h"
#include "support/vm_validate.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 256 };

typedef struct machine {
  vm_step *step;
  vm *v;
  vm_memory values[MAX_VALUES], scratch, kept, failures, zeros;
  uint64_t address[MAX_VALUES], failures_at;
  arena memory;
  struct shader_table shaders;
} machine;

gpu_target vm_step_target(int units) {
  return (gpu_target){.subgroup = 32,
                      .max_threads = 1024,
                      .shared_bytes = 48 << 10,
                      .block_bytes = 16 << 10,
                      .units = units,
                      .keeps_nan = true,
                      .chains = true};
}

static bool fail(machine *m, const char *why) {
  snprintf(m->step->finding, sizeof m->step->finding, "%s", why);
  return false;
}

/* --- memory --- */

static size_t value_bytes(const vm_step *s, uint32_t v) {
  const program_value *value = &s->program->values[v];
  return (size_t)size_at(s->sizes, value->count) * sn_dtype_size(value->type.dtype);
}

static uint32_t owner(const vm_step *s, uint32_t v) {
  for (uint32_t w = 1; w < v; w++)
    if (s->addresses[w] && s->addresses[w] == s->addresses[v])
      return w;
  return v;
}

static void map_values(machine *m) {
  const vm_step *s = m->step;
  for (uint32_t v = 1; v < s->program->n_values && v < MAX_VALUES; v++) {
    size_t bytes = value_bytes(s, v);
    uint32_t from = owner(s, v);
    if (from == v) {
      vm_memory_create(&m->values[v], bytes);
      if (bytes)
        memcpy(m->values[v].data, s->addresses[v], bytes);
      vm_memory_define(&m->values[v], 0, bytes, true);
    }
    m->address[v] = vm_map(m->v, &m->values[from], 0, m->values[from].bytes, VM_READ | VM_WRITE);
  }
}

static void unmap_values(machine *m) {
  const vm_step *s = m->step;
  for (uint32_t v = 1; v < s->program->n_values && v < MAX_VALUES; v++)
    if (owner(s, v) == v) {
      if (m->values[v].bytes)
        memcpy(s->addresses[v], m->values[v].data, m->values[v].bytes);
      vm_memory_destroy(&m->values[v]);
    }
}

/* --- the step --- */

static sn_status emit_by_hand(emitter *e, const part *p) {
  const vm_step *v = e->env.hand;
  return v->emit(e, p, v->user);
}

static bool run_all(machine *m, const step *s) {
  vm_step *v = m->step;
  struct kept_table kept = {0};
  emit_env env = {.ctx = v->ctx,
                  .memory = &m->memory,
                  .program = v->program,
                  .target = &v->target,
                  .wide = v->wide,
                  .precision = v->precision,
                  .by_hand = v->emit ? emit_by_hand : NULL,
                  .hand = v,
                  .kept = &kept,
                  .shaders = &m->shaders};
  step_launches launches;
  if (emit_step(&env, s, &launches) != SN_OK)
    return fail(m, sn_ctx_message(v->ctx));
  v->n_shaders = m->shaders.n;
  v->matrix_shaders = 0;
  for (int i = 0; i < m->shaders.n; i++)
    v->matrix_shaders += shader_has_matrices(m->shaders.at[i]);
  v->scratch = launches.scratch_bytes;
  vm_memory_create(&m->scratch, (size_t)launches.scratch_bytes);
  vm_memory_create(&m->kept, (size_t)kept.bytes);
  vm_launcher l = {.v = m->v,
                   .kept = vm_map(m->v, &m->kept, 0, m->kept.bytes, VM_READ | VM_WRITE),
                   .sizes = v->sizes,
                   .addresses = m->address,
                   .scratch = vm_map(m->v, &m->scratch, 0, m->scratch.bytes, VM_READ | VM_WRITE),
                   .failures = m->failures_at,
                   .zeros = vm_map(m->v, &m->zeros, 0, m->zeros.bytes, VM_READ),
                   .block_bytes = v->target.block_bytes,
                   .chains = v->target.chains,
                   .order = v->order,
                   .seed = v->seed};
  bool ok = vm_launch(&l, &launches, true);
  v->launches = l.launches;
  if (!ok)
    fail(m, vm_finding(m->v));
  vm_launcher_end(&l);
  vm_memory_destroy(&m->scratch);
  vm_memory_destroy(&m->kept);
  return ok;
}

bool vm_step_run(vm_step *v, const step *s) {
  machine *m = calloc(1, sizeof *m);
  if (!m)
    abort();
  m->step = v;
  m->v = vm_create(v->target.subgroup);
  vm_hide_places(m->v, !v->target.places, !v->target.bf16_places);
  arena_init(&m->memory, v->ctx);
  v->finding[0] = 0;
  v->launches = 0;
  map_values(m);
  vm_memory_create(&m->zeros, 16);
  vm_memory_define(&m->zeros, 0, m->zeros.bytes, true);
  vm_memory_create(&m->failures, sizeof v->failures);
  vm_memory_define(&m->failures, 0, sizeof v->failures, true);
  m->failures_at = vm_map(m->v, &m->failures, 0, sizeof v->failures, VM_READ | VM_WRITE);
  bool ok = run_all(m, s);
  memcpy(v->failures, m->failures.data, sizeof v->failures);
  v->steps = vm_steps(m->v);
  unmap_values(m);
  vm_memory_destroy(&m->failures);
  vm_memory_destroy(&m->zeros);
  for (int i = 0; i < m->shaders.n; i++)
    vm_validate(m->shaders.at[i], archetype_name(s->kind));
  vm_destroy(m->v);
  arena_clear(&m->memory);
  free(m);
  return ok;
}
