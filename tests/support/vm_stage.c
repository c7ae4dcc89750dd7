/* See vm_stage.h. */
#include "support/vm_stage.h"

#include "support/test.h"

val stage_buffer(kernel *k) { return k_scratch(k, 0); }

val stage_constants(kernel *k) { return k_failures(k); }

static bool open_stage(vm_stage *s, int subgroup, bool wide, void (*body)(kernel *k)) {
  *s = (vm_stage){
      .target = {
          .subgroup = subgroup, .max_threads = 1024, .shared_bytes = 32 << 10, .block_bytes = 512}};
  if (!CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK))
    return false;
  arena_init(&s->memory, s->ctx);
  s->env = (emit_env){.ctx = s->ctx,
                      .memory = &s->memory,
                      .target = &s->target,
                      .wide = wide,
                      .shaders = &s->shaders};
  kernel *k = kernel_open(&s->env, STAGE_THREADS, false);
  body(k);
  return CHECK(kernel_close(k, &s->made) == SN_OK);
}

bool stage_open(vm_stage *s, int subgroup, void (*body)(kernel *k)) {
  return open_stage(s, subgroup, false, body);
}
bool stage_open_wide(vm_stage *s, int subgroup, void (*body)(kernel *k)) {
  return open_stage(s, subgroup, true, body);
}

void stage_close(vm_stage *s) {
  vm_destroy(s->v);
  vm_memory_destroy(&s->data);
  vm_memory_destroy(&s->read_only);
  arena_clear(&s->memory);
  sn_ctx_destroy(s->ctx);
}

static uint64_t slot_of(const vm_stage *s, const slot *of, uint64_t data, uint64_t read_only) {
  switch (of->kind) {
  case SLOT_AMOUNT: return (uint64_t)amount_at(&of->of, s->sizes);
  case SLOT_INVERSE: return slot_inverse(amount_at(&of->of, s->sizes));
  case SLOT_FAILURES: return read_only;
  default: return data;
  }
}

static void make_memory(vm_stage *s) {
  s->v = vm_create(s->target.subgroup);
  vm_hide_places(s->v, s->hides_places, s->hides_places);
  vm_memory_create(&s->data, 4 * STAGE_WORDS);
  vm_memory_create(&s->read_only, 64);
  vm_memory_define(&s->data, 0, 4 * STAGE_DEFINED, true);
  vm_memory_define(&s->read_only, 0, 64, true);
  for (uint32_t i = 0; i < STAGE_DEFINED; i++)
    memcpy(s->data.data + 4 * i, &i, 4);
  uint64_t data = vm_map(s->v, &s->data, 0, 4 * STAGE_WORDS, VM_READ | VM_WRITE);
  uint64_t read_only = vm_map(s->v, &s->read_only, 0, 64, VM_READ);
  s->block[0] = STAGE_GROUPS | UINT64_C(1) << 32;
  s->block[1] = BLOCK_HEADER | (uint64_t)s->made.part.n_slots << 32;
  for (int i = 0; i < s->made.part.n_slots; i++)
    s->block[BLOCK_HEADER + i] = slot_of(s, &s->made.part.slots[i], data, read_only);
}

const char *stage_run_words(vm_stage *s, vm_order order, const uint32_t *words, size_t n) {
  if (s->v) {
    vm_destroy(s->v);
    vm_memory_destroy(&s->data);
    vm_memory_destroy(&s->read_only);
  }
  make_memory(s);
  vm_module *m = vm_load(s->v, words, n);
  vm_job job = {.groups = {STAGE_GROUPS, 1, 1},
                .block = s->block,
                .block_bytes = sizeof s->block,
                .after = true,
                .order = order,
                .seed = 77,
                .budget = 1000};
  if (m)
    vm_dispatch(s->v, m, &job);
  return vm_finding(s->v);
}

const char *stage_run(vm_stage *s, vm_order order) {
  return stage_run_words(s, order, s->made.code->words, s->made.code->n_words);
}

uint32_t stage_result(const vm_stage *s, int i) {
  uint32_t x;
  memcpy(&x, s->data.data + 4 * (STAGE_DEFINED + i), 4);
  return x;
}
