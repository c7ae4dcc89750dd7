/* Modules come and go. See spirv_vm.h; the parts: spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

vm *vm_create(int subgroup) {
  vm *v = calloc(1, sizeof *v);
  if (!v)
    abort();
  v->subgroup = subgroup;
  v->clock = v->beside_from = 1;
  return v;
}

void vm_hide_places(vm *v, bool f16, bool bf16) {
  v->hides_places[FLOAT_16] = f16;
  v->hides_places[FLOAT_B16] = bf16;
  v->hides_places[FLOAT_32] = f16 && bf16;
}

static void free_module(vm_module *m) {
  for (uint32_t i = 0; i < m->types.n; i++)
    free(m->types.at[i].offset);
  free(m->ids);
  free(m->types.at);
  free(m->decorations.at);
  free(m->functions.at);
  free(m->blocks.at);
  free(m->ways.at);
  free(m->ops.at);
  free(m->extra.at);
  free(m->edges.at);
  free(m->constants.at);
  free(m->inputs.at);
  free(m->shared.at);
  free(m->own);
  free(m);
}

void vm_destroy(vm *v) {
  if (!v)
    return;
  for (uint32_t i = 0; i < v->modules.n; i++)
    free_module(v->modules.at[i]);
  free(v->modules.at);
  free(v->maps.at);
  free(v->threads);
  free(v->frames);
  free(v->defined);
  free(v->shared);
  free(v->shared_defined);
  free(v->shared_touches);
  free(v);
}

vm_module *vm_load(vm *v, const uint32_t *words, size_t n) {
  vm_module *m = calloc(1, sizeof *m);
  uint32_t *own = malloc((n + 1) * sizeof *own);
  if (!m || !own)
    abort();
  memcpy(own, words, n * sizeof *own);
  v->finding[0] = '\0';
  m->v = v;
  m->own = own;
  m->words = own;
  m->n_words = (uint32_t)n;
  m->n_frame = 1; /* reference 0 is none */
  if (!vm_survey(m) || !vm_check_blocks(m) || !vm_write_code(m)) {
    free_module(m);
    return NULL;
  }
  PUSH(v->modules, m);
  return m;
}

void vm_unload(vm *v, vm_module *m) {
  for (uint32_t i = 0; i < v->modules.n; i++)
    if (v->modules.at[i] == m) {
      v->modules.at[i] = v->modules.at[--v->modules.n];
      free_module(m);
      return;
    }
}

int vm_threads(const vm_module *m) { return (int)(m->local[0] * m->local[1] * m->local[2]); }
