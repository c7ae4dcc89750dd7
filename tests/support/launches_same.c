/* See launches_same.h. */
#include "support/launches_same.h"

#include "device/vulkan/emit_alike.h"
#include "device/vulkan/emit_pairs.h"

#include <string.h>

/* The value of slots that are no address says with whom they were shared while the kernel was made. */
static bool same_slot(const slot *a, const slot *b) {
  return a->kind == b->kind && (a->kind != SLOT_ADDRESS || a->value == b->value) &&
         a->byte == b->byte && amount_equal(&a->of, &b->of);
}

static bool same_part(const launch_part *a, const launch_part *b) {
  bool same = a->n_slots == b->n_slots && a->n_grid == b->n_grid && a->least == b->least &&
              a->most == b->most && amount_equal(&a->when, &b->when);
  for (int i = 0; same && i < a->n_slots; i++)
    same = same_slot(&a->slots[i], &b->slots[i]);
  for (int i = 0; same && i < a->n_grid; i++)
    same = amount_equal(&a->grid[i], &b->grid[i]);
  return same;
}

static bool same_shader(const shader *a, const shader *b) {
  return a->n_words == b->n_words && a->threads == b->threads && a->merged == b->merged &&
         a->subgroup == b->subgroup &&
         memcmp(a->words, b->words, a->n_words * sizeof *a->words) == 0;
}

bool launches_same(const step_launches *a, const step_launches *b) {
  bool same = a->n == b->n && a->scratch_bytes == b->scratch_bytes;
  for (int i = 0; same && i < a->n; i++) {
    const launch *x = &a->launches[i], *y = &b->launches[i];
    same = same_shader(x->code, y->code) && x->after == y->after && x->kept == y->kept &&
           x->n_parts == y->n_parts;
    for (int p = 0; same && p < x->n_parts; p++)
      same = same_part(&x->parts[p], &y->parts[p]);
  }
  return same;
}

sn_status launches_emit(emit_env *env, sn_ctx *ctx, arena *memory, const program *p, bool alike,
                        step_launches *out, int *out_reused) {
  struct kept_table *kept = arena_alloc(memory, sizeof *kept);
  struct alike_table *table = arena_alloc(memory, sizeof *table);
  env->ctx = ctx;
  env->memory = memory;
  env->program = p;
  env->shaders = arena_alloc(memory, sizeof *env->shaders);
  if (!kept || !table || !env->shaders)
    return SN_ERR_NO_MEMORY;
  env->alike = alike ? table : NULL;
  env->kept = kept;
  SN_TRY(pairs_choose(env));
  for (int i = 0; i < program_steps(p); i++) {
    env->kept = i < p->n_prepare ? NULL : kept;
    SN_TRY(emit_step(env, &p->steps[i], &out[i]));
  }
  env->kept = kept;
  if (out_reused)
    *out_reused = table->n_reused;
  return SN_OK;
}
