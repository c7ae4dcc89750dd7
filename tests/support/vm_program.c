/* See vm_program.h. */
#include "support/vm_program.h"

#include "device/vulkan/emit_alike.h"
#include "device/vulkan/emit_pairs.h"
#include "ir/dtype.h"
#include "support/launch_order.h"
#include "support/vm_launch.h"
#include "support/vm_validate.h"

#include <stdlib.h>

enum { HOMES = HOME_CONSTANT + 1 };

typedef struct machine {
  vm_execution *x;
  const program *p;
  vm *v;
  vm_launcher launcher;
  arena memory; /* of the emitters */
  struct shader_table shaders;
  struct kept_table kept_entries;
  struct alike_table alike;
  step_launches *made; /* by step */
  launch_order in_order;
  bool *forgotten;        /* by value */
  int phases;             /* that began so far */
  vm_memory *home[HOMES]; /* arenas: one; leaves and constants: by index */
  int n_home[HOMES];
  vm_memory failures, zeros, scratch, kept;
  uint64_t *addresses;
} machine;

gpu_target vm_target(int subgroup) {
  if (subgroup == 16)
    return (gpu_target){.subgroup = subgroup,
                        .max_threads = 128,
                        .shared_bytes = 16 << 10,
                        .block_bytes = 16 << 10,
                        .units = 8};
  return (gpu_target){.subgroup = subgroup,
                      .max_threads = 1024,
                      .shared_bytes = subgroup == 8 ? 32 << 10 : 48 << 10,
                      .block_bytes = 64 << 10,
                      .units = subgroup == 32 ? 132 : 8,
                      .keeps_nan = true,
                      .chains = subgroup == 32};
}

/* --- memory --- */

static int64_t leaf_count(const machine *m, const sn_type *type) {
  int64_t n = 1;
  for (int d = 0; d < type->shape.rank; d++)
    n *= size_at(m->x->sizes, type->shape.dim[d]);
  return n;
}

static size_t leaf_bytes(const machine *m, const program_leaf *leaf) {
  return (size_t)leaf_count(m, &leaf->type) * sn_dtype_size(leaf->type.dtype);
}

static vm_memory *new_memories(machine *m, value_home home, int n) {
  m->n_home[home] = n;
  m->home[home] = calloc((size_t)n + 1, sizeof *m->home[home]);
  if (!m->home[home])
    abort();
  return m->home[home];
}

static void fill(vm_memory *to, size_t bytes, const void *from) {
  vm_memory_create(to, bytes);
  if (from && bytes)
    memcpy(to->data, from, bytes);
  vm_memory_define(to, 0, bytes, from != NULL);
}

static void make_homes(machine *m) {
  const program *p = m->p;
  vm_memory *to = new_memories(m, HOME_ARENA, 1);
  vm_memory_create(to, (size_t)p->arena_bytes);
  to = new_memories(m, HOME_PREPARED, 1);
  vm_memory_create(to, (size_t)p->prepared_bytes);
  to = new_memories(m, HOME_INPUT, p->n_inputs);
  for (int i = 0; i < p->n_inputs; i++)
    fill(&to[i], leaf_bytes(m, &p->inputs[i]), m->x->inputs[i]);
  to = new_memories(m, HOME_OUTPUT, p->n_outputs);
  for (int i = 0; i < p->n_outputs; i++)
    fill(&to[i], leaf_bytes(m, &p->outputs[i]), NULL);
  to = new_memories(m, HOME_STATE, p->n_states);
  for (int i = 0; i < p->n_states; i++)
    fill(&to[i], leaf_bytes(m, &p->states[i]), m->x->states[i]);
  to = new_memories(m, HOME_CONSTANT, p->n_constants);
  for (int i = 0; i < p->n_constants; i++)
    fill(&to[i], p->constants[i].size, p->constants[i].data);
}

static size_t value_bytes(const machine *m, const program_value *v) {
  return (size_t)size_at(m->x->sizes, v->count) * sn_dtype_size(v->type.dtype);
}

static bool in_arena(const program_value *v) {
  return v->home == HOME_ARENA || v->home == HOME_PREPARED;
}

/* Each value by itself, so that bounds are its own; the memory below is shared as the plan has it. */
static void map_values(machine *m) {
  const program *p = m->p;
  m->addresses = calloc(p->n_values + 1, sizeof *m->addresses);
  if (!m->addresses)
    abort();
  for (uint32_t i = 1; i < p->n_values; i++) {
    const program_value *v = &p->values[i];
    vm_memory *to = &m->home[v->home][in_arena(v) ? 0 : v->index];
    m->addresses[i] = vm_map(m->v, to, in_arena(v) ? (size_t)v->offset : 0, value_bytes(m, v), 0);
  }
  vm_memory_create(&m->failures, 8 * (size_t)p->n_sites + 8);
  vm_memory_define(&m->failures, 0, m->failures.bytes, true);
  vm_memory_create(&m->zeros, 16);
  vm_memory_define(&m->zeros, 0, m->zeros.bytes, true);
  m->launcher.zeros = vm_map(m->v, &m->zeros, 0, m->zeros.bytes, VM_READ);
  m->launcher.failures = vm_map(m->v, &m->failures, 0, 8 * (size_t)p->n_sites, VM_READ | VM_WRITE);
}

static void free_memory(machine *m) {
  for (int h = 0; h < HOMES; h++) {
    for (int i = 0; i < m->n_home[h]; i++)
      vm_memory_destroy(&m->home[h][i]);
    free(m->home[h]);
  }
  vm_memory_destroy(&m->failures);
  vm_memory_destroy(&m->zeros);
  vm_memory_destroy(&m->kept);
  free(m->addresses);
}

/* --- steps --- */

static bool note_use(void *user, const step_use *use) {
  unsigned char *may = user;
  may[use->value] |= use->store ? VM_WRITE : VM_READ;
  return true;
}

static bool note_load(void *user, const step_use *use) { return use->store || note_use(user, use); }

/* The step before, where it has no launches since this one computes it; NULL: it has some. */
static const step *absorbed_by(const machine *m, int number) {
  const step *before = number > 0 ? &m->p->steps[number - 1] : NULL;
  return before && before->kind == STEP_ROW && m->made[number - 1].n == 0 ? before : NULL;
}

/* What a step may touch is what it names, and what a step reads that it computes for itself. A scatter's result has the memory of its base. */
static void allow_uses(machine *m, int number) {
  unsigned char *may = calloc(m->p->n_values + 1, 1);
  const step *s = &m->p->steps[number], *absorbed = absorbed_by(m, number);
  if (!may)
    abort();
  step_each_use(s, note_use, may);
  if (absorbed)
    step_each_use(absorbed, note_load, may);
  for (uint32_t i = 1; i < m->p->n_values; i++) {
    bool base = s->kind == STEP_SCATTER && may[i] & VM_WRITE;
    vm_allow(m->v, m->addresses[i], may[i] | (base ? VM_READ : 0));
  }
  free(may);
}

/* Values that this step makes hold nothing before it, but for what they are in place of. */
static void forget_values(machine *m, int number) {
  for (uint32_t i = 1; i < m->p->n_values; i++) {
    const program_value *v = &m->p->values[i];
    if (v->first == number && in_arena(v) && !v->in_place_of)
      vm_memory_define(&m->home[v->home][0], (size_t)v->offset, value_bytes(m, v), false);
  }
}

/* As the device does it. */
static sn_status emit_all(machine *m) {
  const program *p = m->p;
  emit_env env = {.ctx = m->x->ctx,
                  .memory = &m->memory,
                  .program = p,
                  .target = &m->x->target,
                  .wide = m->x->wide,
                  .precision = m->x->precision,
                  .kept = &m->kept_entries,
                  .alike = &m->alike,
                  .shaders = &m->shaders};
  m->made = arena_array(&m->memory, (size_t)program_steps(p), sizeof *m->made);
  if (!m->made)
    return SN_ERR_NO_MEMORY;
  SN_TRY(pairs_choose(&env));
  for (int i = 0; i < program_steps(p); i++) {
    env.kept = i < p->n_prepare ? NULL : &m->kept_entries;
    SN_TRY(emit_step(&env, &p->steps[i], &m->made[i]));
  }
  vm_memory_create(&m->kept, (size_t)m->kept_entries.bytes);
  m->launcher.kept = vm_map(m->v, &m->kept, 0, m->kept.bytes, VM_READ | VM_WRITE);
  return SN_OK;
}

/* Those of a step that are part of it, or of `prepare`. */
static step_launches some_of(machine *m, int number, bool kept) {
  const step_launches *all = &m->made[number];
  launch *some = arena_array(&m->memory, (size_t)all->n, sizeof *some);
  step_launches out = {.launches = some, .scratch_bytes = all->scratch_bytes};
  if (!some)
    abort();
  for (int i = 0; i < all->n; i++)
    if (all->launches[i].kept == kept)
      some[out.n++] = all->launches[i];
  return out;
}

static sn_status finding(machine *m, int number) {
  const step *s = &m->p->steps[number];
  return diag_fail(m->x->ctx, SN_ERR_INTERNAL, "step %d (%s, \"%s\"): %s", number,
                   archetype_name(s->kind), s->name ? s->name : "", vm_finding(m->v));
}

static sn_status run_kept(machine *m) {
  for (int i = 0; i < program_steps(m->p); i++) {
    step_launches launches = some_of(m, i, true);
    allow_uses(m, i);
    if (launches.n > 0 && !vm_launch(&m->launcher, &launches, true))
      return finding(m, i);
  }
  return SN_OK;
}

static sn_status run_step(machine *m, int number, bool first) {
  const step *s = &m->p->steps[number];
  step_launches launches = some_of(m, number, false);
  vm_memory_create(&m->scratch, (size_t)launches.scratch_bytes);
  m->launcher.scratch = vm_map(m->v, &m->scratch, 0, m->scratch.bytes, VM_READ | VM_WRITE);
  allow_uses(m, number);
  forget_values(m, number);
  bool ok = vm_launch(&m->launcher, &launches, s->barrier || first);
  vm_memory_destroy(&m->scratch);
  return ok ? SN_OK : finding(m, number);
}

static sn_status run_steps(machine *m, int section) {
  const program *p = m->p;
  const int n[ORDER_SECTIONS] = {p->n_prepare, p->n_main, p->n_commit};
  int first = 0;
  for (int i = 0; i < section; i++)
    first += n[i];
  for (int i = 0; i < n[section]; i++)
    SN_TRY(run_step(m, first + i, i == 0));
  return SN_OK;
}

/* A value holds nothing before the first launch of its step that has to do with it. */
static void forget_touched(machine *m, const ordered_launch *l) {
  for (int p = 0; p < l->of->n_parts; p++)
    for (int k = 0; k < l->of->parts[p].n_slots; k++) {
      const slot *x = &l->of->parts[p].slots[k];
      const program_value *v = &m->p->values[x->value];
      if (x->kind != SLOT_ADDRESS || m->forgotten[x->value] || v->first != l->step ||
          !in_arena(v) || v->in_place_of)
        continue;
      m->forgotten[x->value] = true;
      vm_memory_define(&m->home[v->home][0], (size_t)v->offset, value_bytes(m, v), false);
    }
}

static sn_status run_ordered(machine *m, const ordered_launch *l, bool begins) {
  launch alone = *l->of;
  alone.after = false;
  size_t scratch = (size_t)m->made[l->step].scratch_bytes;
  m->launcher.scratch =
      vm_map(m->v, &m->scratch, (size_t)l->scratch_at, scratch, VM_READ | VM_WRITE);
  allow_uses(m, l->step);
  forget_touched(m, l);
  step_launches one = {.n = 1, .launches = &alone};
  return vm_launch(&m->launcher, &one, begins) ? SN_OK : finding(m, l->step);
}

static sn_status run_section(machine *m, int section) {
  if (m->x->by_step)
    return run_steps(m, section);
  vm_barrier(m->v);
  for (int i = 0; i < m->in_order.n[section]; i++) {
    const ordered_launch *l = &m->in_order.at[section][i];
    bool begins = l->begins && i > 0 && ++m->phases != m->x->without;
    SN_TRY(run_ordered(m, l, begins));
  }
  return SN_OK;
}

static sn_status find_failure(machine *m) {
  for (int i = 0; i < m->p->n_sites; i++) {
    int32_t record[2];
    memcpy(record, m->failures.data + 8 * i, sizeof record);
    if (record[0])
      return sn_ctx_fail(m->x->ctx, m->p->sites[i].status, m->p->sites[i].format, record[1]);
  }
  return SN_OK;
}

static sn_status run_sections(machine *m) {
  SN_TRY(run_section(m, 0));
  SN_TRY(run_kept(m));
  SN_TRY(run_section(m, 1));
  SN_TRY(find_failure(m));
  return run_section(m, 2);
}

static sn_status run_all(machine *m) {
  SN_TRY(emit_all(m));
  SN_TRY(launch_order_find(&m->memory, m->p, m->made, &m->in_order));
  m->forgotten = arena_array(&m->memory, m->p->n_values, sizeof *m->forgotten);
  if (!m->forgotten)
    return SN_ERR_NO_MEMORY;
  if (m->x->by_step)
    return run_sections(m);
  vm_memory_create(&m->scratch, (size_t)m->in_order.scratch_bytes);
  sn_status status = run_sections(m);
  vm_memory_destroy(&m->scratch);
  return status;
}

static sn_status take_results(machine *m) {
  const program *p = m->p;
  for (int i = 0; i < p->n_outputs; i++) {
    const vm_memory *from = &m->home[HOME_OUTPUT][i];
    for (size_t k = 0; k < from->bytes; k++)
      if (!from->defined[k])
        return diag_fail(m->x->ctx, SN_ERR_INTERNAL, "byte %zu of output \"%s\" was not written", k,
                         p->outputs[i].name);
    if (from->bytes)
      memcpy(m->x->outputs[i], from->data, from->bytes);
  }
  for (int i = 0; i < p->n_states; i++)
    if (m->home[HOME_STATE][i].bytes)
      memcpy(m->x->states[i], m->home[HOME_STATE][i].data, m->home[HOME_STATE][i].bytes);
  return SN_OK;
}

sn_status vm_execute(vm_execution *x) {
  machine m = {.x = x, .p = x->program, .v = vm_create(x->target.subgroup)};
  vm_hide_places(m.v, !x->target.places, !x->target.bf16_places);
  arena_init(&m.memory, x->ctx);
  make_homes(&m);
  m.launcher = (vm_launcher){.v = m.v,
                             .sizes = x->sizes,
                             .block_bytes = x->target.block_bytes,
                             .chains = x->target.chains,
                             .order = x->order,
                             .seed = x->seed};
  map_values(&m);
  m.launcher.addresses = m.addresses;
  sn_status status = run_all(&m);
  if (status == SN_OK)
    status = take_results(&m);
  x->launches = m.launcher.launches;
  x->shaders = m.shaders.n;
  for (int i = 0; i < m.shaders.n; i++) {
    x->matrix_shaders += shader_has_matrices(m.shaders.at[i]);
    vm_validate(m.shaders.at[i], "a program");
  }
  x->instructions = vm_steps(m.v);
  vm_launcher_end(&m.launcher);
  vm_destroy(m.v);
  free_memory(&m);
  arena_clear(&m.memory);
  return status;
}
