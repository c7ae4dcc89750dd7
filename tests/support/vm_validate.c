/* See vm_validate.h. */
#include "support/vm_validate.h"

#include "support/vm_step.h"

#include <stdlib.h>

void vm_validate(void *validator, const shader *s) {
  vm_validator *v = validator;
  for (int i = 0; i < v->different; i++)
    if (v->seen[i] == s->hash)
      return;
  if (v->different == v->room) {
    v->room = v->room ? 2 * v->room : 256;
    v->seen = realloc(v->seen, (size_t)v->room * sizeof *v->seen);
    if (!v->seen)
      abort();
  }
  v->seen[v->different++] = s->hash;
  if (s->hash % v->every || shader_has_matrices(s) || v->complaint[0])
    return;
  v->validated++;
  (void)spirv_val(s->words, s->n_words, v->complaint, sizeof v->complaint);
}

void vm_validator_end(vm_validator *v) {
  free(v->seen);
  v->seen = NULL;
}
