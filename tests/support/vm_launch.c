/* See vm_launch.h. */
#include "support/vm_launch.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static vm_module *decoded(vm_launcher *l, const shader *of) {
  for (int i = 0; i < l->n_decoded; i++)
    if (l->decoded[i].of == of)
      return l->decoded[i].code;
  vm_module *code = vm_load(l->v, of->words, of->n_words);
  if (!code)
    return NULL;
  if (l->n_decoded == l->room_decoded) {
    l->room_decoded = l->room_decoded ? 2 * l->room_decoded : 16;
    l->decoded = realloc(l->decoded, (size_t)l->room_decoded * sizeof *l->decoded);
    if (!l->decoded)
      abort();
  }
  l->decoded[l->n_decoded++] = (struct vm_decoded){of, code};
  return code;
}

void vm_launcher_end(vm_launcher *l) {
  free(l->decoded);
  vm_memory_destroy(&l->counters);
  l->decoded = NULL;
  l->n_decoded = l->room_decoded = 0;
}

/* --- parameter blocks --- */

static uint64_t slot_value(const vm_launcher *l, const slot *s) {
  switch (s->kind) {
  case SLOT_AMOUNT: return (uint64_t)amount_at(&s->of, l->sizes);
  case SLOT_INVERSE: return slot_inverse(amount_at(&s->of, l->sizes));
  case SLOT_ADDRESS: return l->addresses[s->value];
  case SLOT_SCRATCH: return l->scratch + (uint64_t)s->byte;
  case SLOT_KEPT: return l->kept + (uint64_t)s->byte;
  case SLOT_NUMBER: return (uint64_t)s->byte;
  case SLOT_ZEROS: return l->zeros;
  case SLOT_FAILURES: return l->failures;
  }
  return 0;
}

static uint64_t part_groups(const vm_launcher *l, const launch_part *p) {
  int64_t n = 1, of = p->when.n ? amount_at(&p->when, l->sizes) : 0;
  if (p->when.n && (of < p->least || of > p->most))
    return 0;
  for (int i = 0; i < p->n_grid; i++)
    n *= amount_at(&p->grid[i], l->sizes);
  return (uint64_t)n;
}

static int most_slots(const launch *of) {
  int most = 0;
  for (int i = 0; i < of->n_parts; i++)
    most = of->parts[i].n_slots > most ? of->parts[i].n_slots : most;
  return block_even(most);
}

/* The number of workgroups. */
static uint64_t fill_block(const vm_launcher *l, const launch *of, int first, uint64_t *block) {
  uint64_t groups = 0;
  int apart = most_slots(of);
  for (int i = 0; i < of->n_parts; i++) {
    const launch_part *p = &of->parts[i];
    if (of->code->merged)
      block[BLOCK_HEADER + i] = groups;
    groups += part_groups(l, p);
    for (int k = 0; k < p->n_slots; k++)
      block[first + i * apart + k] = slot_value(l, &p->slots[k]);
  }
  block[0] = groups | (uint64_t)of->n_parts << 32;
  block[1] = (uint64_t)first | (uint64_t)apart << 32;
  return groups;
}

/* --- launches that wait by themselves --- */

/* Bytes of the two counters and of what says that one waited in vain; what the first has, and is wanted. */
enum { AWAITED = 0, RAISED = 4, IN_VAIN = 8, COUNTERS = 12, HAS = 3 };
static const uint64_t LOOKS = 2;

static void set_counters(vm_launcher *l, uint64_t *block) {
  const uint32_t words[] = {HAS, 0, 0};
  if (!l->chains)
    return;
  if (l->counters.bytes == 0) {
    vm_memory_create(&l->counters, COUNTERS);
    vm_memory_define(&l->counters, 0, COUNTERS, true);
    l->counters_at = vm_map(l->v, &l->counters, 0, COUNTERS, VM_READ | VM_WRITE);
  }
  memcpy(l->counters.data, words, sizeof words);
  block[BLOCK_AWAITED] = l->counters_at + AWAITED;
  block[BLOCK_NUMBER] = HAS | LOOKS << 32;
  block[BLOCK_RAISED] = l->counters_at + RAISED;
  block[BLOCK_IN_VAIN] = l->counters_at + IN_VAIN;
}

static bool counters_are_right(const vm_launcher *l, uint64_t groups) {
  uint32_t words[COUNTERS / 4] = {HAS, (uint32_t)groups, 0}, now[COUNTERS / 4];
  if (!l->chains)
    return true;
  memcpy(now, l->counters.data, sizeof now);
  return memcmp(now, words, sizeof now) == 0 ||
         FAIL("%u of %u workgroups have told of their end", now[1], words[1]);
}

static bool run(vm_launcher *l, const launch *of, bool after) {
  vm_module *code = decoded(l, of->code);
  int first = BLOCK_HEADER + (of->code->merged ? block_even(of->n_parts) : 0);
  size_t bytes = 8 * (size_t)(first + of->n_parts * most_slots(of));
  if (!code || bytes > (size_t)l->block_bytes)
    return false;
  uint64_t *block = calloc(1, bytes + 8);
  if (!block)
    abort();
  uint64_t groups = fill_block(l, of, first, block);
  set_counters(l, block);
  uint64_t x = groups < LAUNCH_GROUPS_X ? groups : LAUNCH_GROUPS_X;
  vm_job job = {.groups = {(uint32_t)x, x ? (uint32_t)((groups + x - 1) / x) : 0, 1},
                .block = block,
                .block_bytes = bytes,
                .after = after,
                .order = l->order,
                .seed = l->seed};
  bool ok = vm_dispatch(l->v, code, &job) && counters_are_right(l, groups);
  l->launches += groups > 0;
  free(block);
  return ok;
}

bool vm_launch(vm_launcher *l, const step_launches *all, bool after) {
  if (after) /* a step without launches is a barrier, too */
    vm_barrier(l->v);
  for (int kept = 1; kept >= 0; kept--) { /* those of prepare come first, and are waited for */
    bool any = false;
    for (int i = 0; i < all->n; i++) {
      const launch *of = &all->launches[i];
      if (of->kept == (kept == 1) && !run(l, of, of->after))
        return false;
      any = any || of->kept;
    }
    if (kept && any)
      vm_barrier(l->v);
  }
  return true;
}
