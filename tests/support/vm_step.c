/* See vm_step.h. */
#include "support/vm_step.h"

#include "ir/dtype.h"
#include "support/command.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 256, KEPT_MODULES = 512 };

typedef struct machine {
  vm_step *step;
  vm *v;
  vm_memory values[MAX_VALUES], scratch, failures;
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
                      .keeps_nan = true};
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

/* --- launches --- */

static uint64_t slot_word(const vm_launch_env *e, const slot *s) {
  switch (s->kind) {
  case SLOT_AMOUNT: return (uint64_t)amount_at(&s->of, e->sizes);
  case SLOT_INVERSE: return slot_inverse(amount_at(&s->of, e->sizes));
  case SLOT_ADDRESS: return e->addresses[s->value];
  case SLOT_SCRATCH: return e->scratch + (uint64_t)s->byte;
  case SLOT_FAILURES: return e->failures;
  }
  return 0;
}

static uint64_t part_groups(const vm_launch_env *e, const launch_part *p) {
  int64_t n = 1, of = p->when.n ? amount_at(&p->when, e->sizes) : 0;
  if (p->when.n && (of < p->least || of > p->most))
    return 0;
  for (int i = 0; i < p->n_grid; i++)
    n *= amount_at(&p->grid[i], e->sizes);
  return (uint64_t)n;
}

/* Fills a block; the number of workgroups. */
static uint64_t fill_block(const vm_launch_env *e, const launch *l, uint64_t *block) {
  uint64_t groups = 0;
  int first = BLOCK_HEADER + (l->code->merged ? block_even(l->n_parts) : 0);
  int apart = block_even(l->parts[0].n_slots);
  for (int i = 0; i < l->n_parts; i++) {
    if (l->code->merged)
      block[BLOCK_HEADER + i] = groups;
    groups += part_groups(e, &l->parts[i]);
    for (int k = 0; k < l->parts[i].n_slots; k++)
      block[first + i * apart + k] = slot_word(e, &l->parts[i].slots[k]);
  }
  block[0] = groups | (uint64_t)l->n_parts << 32;
  block[1] = (uint64_t)first | (uint64_t)apart << 32;
  return groups;
}

/* Modules by shader, of one interpreter at a time. */
static struct {
  vm *of;
  int n;
  const shader *code[KEPT_MODULES];
  vm_module *module[KEPT_MODULES];
} kept;

void vm_launch_forget(void) {
  for (int i = 0; i < kept.n; i++)
    vm_unload(kept.of, kept.module[i]);
  kept.n = 0;
  kept.of = NULL;
}

static vm_module *module_of(vm *v, const shader *code) {
  if (kept.of != v || kept.n == KEPT_MODULES)
    vm_launch_forget();
  for (int i = 0; i < kept.n; i++)
    if (kept.code[i] == code)
      return kept.module[i];
  vm_module *m = vm_load(v, code->words, code->n_words);
  if (m) {
    kept.of = v;
    kept.code[kept.n] = code;
    kept.module[kept.n++] = m;
  }
  return m;
}

static bool run_launch(vm *v, const launch *l, const vm_launch_env *e, bool after, int *ran) {
  uint64_t *block = calloc(1, (size_t)e->block_bytes);
  if (!block)
    abort();
  vm_module *code = module_of(v, l->code);
  uint64_t groups = fill_block(e, l, block);
  uint64_t x = groups < LAUNCH_GROUPS_X ? groups : LAUNCH_GROUPS_X;
  vm_job job = {.groups = {(uint32_t)x, x ? (uint32_t)((groups + x - 1) / x) : 0, 1},
                .block = block,
                .block_bytes = (size_t)e->block_bytes,
                .after = after,
                .order = e->order,
                .seed = e->seed};
  bool ok = code && (groups == 0 || vm_dispatch(v, code, &job));
  *ran += groups > 0;
  free(block);
  return ok;
}

bool vm_run_launches(vm *v, const step_launches *l, const vm_launch_env *env, bool barrier,
                     int *out_ran) {
  int ran = 0;
  bool ok = true;
  for (int i = 0; i < l->n && ok; i++) {
    ok = run_launch(v, &l->launches[i], env, barrier || l->launches[i].after, &ran);
    barrier = false;
  }
  if (out_ran)
    *out_ran = ran;
  return ok;
}

/* --- the step --- */

/* The kernels that a hand has made, each a launch of its own. */
static sn_status emit_by_hand(machine *m, emit_env *env, const step *s, step_launches *out) {
  emitter *e = calloc(1, sizeof *e);
  if (!e)
    abort();
  sn_status status = SN_OK;
  e->env = *env;
  e->step = s;
  e->reg = e->regs[0];
  for (e->part = 0; e->part < s->n_parts && status == SN_OK; e->part++) {
    e->level = 0;
    status = m->step->emit(e, &s->parts[e->part], m->step->user);
  }
  launch *all = arena_array(&m->memory, (size_t)e->n_made + 1, sizeof *all);
  for (int i = 0; i < e->n_made; i++)
    all[i] = (launch){e->made[i].made.code, e->made[i].after, 1, &e->made[i].made.part};
  *out = (step_launches){e->n_made, all, e->env.scratch};
  free(e);
  return status;
}

static bool run_all(machine *m, const step *s) {
  vm_step *v = m->step;
  emit_env env = {.ctx = v->ctx,
                  .memory = &m->memory,
                  .program = v->program,
                  .target = &v->target,
                  .wide = v->wide,
                  .shaders = &m->shaders};
  step_launches launches;
  sn_status status = v->emit ? emit_by_hand(m, &env, s, &launches) : emit_step(&env, s, &launches);
  if (status != SN_OK)
    return fail(m, sn_ctx_message(v->ctx));
  v->n_shaders = m->shaders.n;
  v->scratch = launches.scratch_bytes;
  vm_memory_create(&m->scratch, (size_t)launches.scratch_bytes);
  vm_launch_env e = {.sizes = v->sizes,
                     .addresses = m->address,
                     .scratch = vm_map(m->v, &m->scratch, 0, m->scratch.bytes, VM_READ | VM_WRITE),
                     .failures = m->failures_at,
                     .block_bytes = v->target.block_bytes,
                     .order = v->order,
                     .seed = v->seed};
  bool ok = vm_run_launches(m->v, &launches, &e, true, &v->launches);
  if (!ok)
    fail(m, vm_finding(m->v));
  vm_launch_forget();
  vm_memory_destroy(&m->scratch);
  return ok;
}

bool vm_step_run(vm_step *v, const step *s) {
  machine *m = calloc(1, sizeof *m);
  if (!m)
    abort();
  m->step = v;
  m->v = vm_create(v->target.subgroup);
  arena_init(&m->memory, v->ctx);
  v->finding[0] = 0;
  v->launches = 0;
  map_values(m);
  vm_memory_create(&m->failures, sizeof v->failures);
  vm_memory_define(&m->failures, 0, sizeof v->failures, true);
  m->failures_at = vm_map(m->v, &m->failures, 0, sizeof v->failures, VM_READ | VM_WRITE);
  bool ok = run_all(m, s);
  memcpy(v->failures, m->failures.data, sizeof v->failures);
  v->steps = vm_steps(m->v);
  unmap_values(m);
  vm_memory_destroy(&m->failures);
  for (int i = 0; i < m->shaders.n && ok && v->validate; i++)
    ok = spirv_val(m->shaders.at[i]->words, m->shaders.at[i]->n_words, v->finding,
                   sizeof v->finding);
  vm_destroy(m->v);
  arena_clear(&m->memory);
  free(m);
  return ok;
}

bool spirv_val(const uint32_t *words, size_t n, char *out, size_t size) {
  const char *path = test_scratch("shader.spv");
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(words, sizeof *words, n, f) != n)
    abort();
  fclose(f);
  command_result r =
      command_run("/usr/bin/env", "spirv-val", "--target-env", "vulkan1.2", path, NULL);
  bool ok = r.code == 0 || r.code == 127; /* 127: not installed */
  if (!ok)
    snprintf(out, size, "spirv-val: %s%s", r.out, r.err);
  command_free(&r);
  return ok;
}
