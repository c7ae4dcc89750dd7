/* Parameter blocks of a plan's launches: laid out once, then kept right as sizes and addresses change. See launch.h for what is
 * in a block, plan.h for who holds it.
 *
 * What depends on no symbol is written once. Of the rest each amount is computed once for all the words that show it, and only
 * lines that changed are copied to the GPU: a size that changes with every run costs microseconds. */
#include "device/vulkan/plan.h"

#include <stdlib.h>

enum { LINE_WORDS = 8 /* what processors write at once to memory that is not cached */ };

void plan_set_word(plan_params *b, uint32_t word, uint64_t value) {
  if (b->words[word] == value)
    return;
  b->words[word] = value;
  b->dirty[word / LINE_WORDS] = 1;
  b->any_dirty = true;
}

static uint64_t halves(uint64_t low, uint64_t high) { return low | high << 32; }

/* --- laying out --- */

static int firsts(const launch *l) { return l->code->merged ? block_even(l->n_parts) : 0; }

static int stride(const launch *l) {
  int most = 0;
  for (int i = 0; i < l->n_parts; i++)
    most = l->parts[i].n_slots > most ? l->parts[i].n_slots : most;
  return block_even(most);
}

static uint32_t word_of(const lowered_launch *l, int p, int k) {
  int word = BLOCK_HEADER + firsts(l->of) + p * stride(l->of) + k;
  return l->block / 8 + (uint32_t)word;
}

/* Blocks first, then the numbers of workgroups: 16 bytes a launch. */
static sn_status lay_out(device_plan *dp, int *out_slots) {
  const int64_t align = dp->gpu->limits.uniform_alignment;
  int64_t at = 0, range = dp->gpu->target.block_bytes;
  *out_slots = 0;
  for (int i = 0; i < dp->n_launches; i++) {
    lowered_launch *l = &dp->launches[i];
    int64_t words = BLOCK_HEADER + firsts(l->of) + (int64_t)l->of->n_parts * stride(l->of);
    if (words * 8 > range)
      return diag_fail(dp->ctx, SN_ERR_INTERNAL, "vulkan: a parameter block is too large");
    l->block = (uint32_t)at;
    at = (at + words * 8 + align - 1) / align * align;
    *out_slots += l->of->n_parts * stride(l->of);
  }
  for (int i = 0; i < dp->n_launches; i++, at += 16)
    dp->launches[i].counts = (uint32_t)at;
  if (at > INT32_MAX)
    return diag_fail(dp->ctx, SN_ERR_NO_MEMORY, "vulkan: the plan has too many parameters");
  dp->params.n_words = (size_t)at / 8;
  return SN_OK;
}

static int number_of(plan_params *b, const amount *of) {
  for (int i = 0; i < b->n_numbers; i++)
    if (amount_equal(&b->numbers[i].of, of))
      return i;
  b->numbers[b->n_numbers] = (block_number){.of = *of};
  return b->n_numbers++;
}

static bool is_bound(const device_plan *dp, uint32_t value) {
  value_home home = dp->program->values[value].home;
  return home == HOME_OUTPUT || home == HOME_STATE;
}

static void place_slot(device_plan *dp, const slot *s, uint32_t word, int64_t scratch) {
  plan_params *b = &dp->params;
  bool inverse = s->kind == SLOT_INVERSE;
  if (s->kind == SLOT_ADDRESS && is_bound(dp, s->value))
    b->addresses[b->n_addresses++] = (address_use){word, s->value};
  else if (s->kind == SLOT_ADDRESS)
    plan_set_word(b, word, dp->addresses[s->value]);
  else if (s->kind == SLOT_SCRATCH)
    plan_set_word(b, word, room_address(&dp->scratch) + (uint64_t)(scratch + s->byte));
  else if (s->kind == SLOT_KEPT)
    plan_set_word(b, word, room_address(&dp->kept) + (uint64_t)s->byte);
  else if (s->kind == SLOT_NUMBER)
    plan_set_word(b, word, (uint64_t)s->byte);
  else if (s->kind == SLOT_ZEROS)
    plan_set_word(b, word, room_address(&dp->constants) + (uint64_t)dp->zeros_at);
  else if (s->kind == SLOT_FAILURES)
    plan_set_word(b, word, room_address(&dp->failures));
  else if (amount_varies(&s->of))
    b->uses[b->n_uses++] = (number_use){number_of(b, &s->of), inverse, word};
  else {
    int64_t n = amount_at(&s->of, NULL);
    plan_set_word(b, word, inverse ? slot_inverse(n) : (uint64_t)n);
  }
}

static void place_slots(device_plan *dp) {
  for (int s = 0; s < program_steps(dp->program); s++)
    for (int i = 0; i < dp->steps[s].n; i++) {
      const lowered_launch *l = &dp->launches[dp->steps[s].first + i];
      for (int p = 0; p < l->of->n_parts; p++)
        for (int k = 0; k < l->of->parts[p].n_slots; k++)
          place_slot(dp, &l->of->parts[p].slots[k], word_of(l, p, k), dp->steps[s].scratch_at);
      uint64_t begin = (uint64_t)(BLOCK_HEADER + firsts(l->of));
      plan_set_word(&dp->params, l->block / 8 + 1, halves(begin, (uint64_t)stride(l->of)));
    }
}

static int by_number(const void *a, const void *b) {
  const number_use *x = a, *y = b;
  return x->number != y->number ? x->number - y->number : (x->word > y->word) - (x->word < y->word);
}

static void sort_uses(plan_params *b) {
  qsort(b->uses, (size_t)b->n_uses, sizeof *b->uses, by_number);
  for (int i = b->n_uses - 1; i >= 0; i--) {
    b->numbers[b->uses[i].number].first = i;
    b->numbers[b->uses[i].number].n++;
  }
}

/* --- workgroups --- */

/* The numbers that its workgroups are computed from are computed once for all launches. */
static void place_counts(device_plan *dp, lowered_launch *l) {
  plan_params *b = &dp->params;
  l->counted = b->n_counts;
  for (int i = 0; i < l->of->n_parts && l->varies; i++) {
    const launch_part *p = &l->of->parts[i];
    part_count *c = &b->counts[b->n_counts++];
    c->when = p->when.n > 0 ? number_of(b, &p->when) : 0;
    c->n = p->n_grid;
    for (int k = 0; k < p->n_grid; k++)
      c->factor[k] = number_of(b, &p->grid[k]);
  }
}

static int64_t part_groups(const plan_params *b, const lowered_launch *l, int i) {
  const launch_part *p = &l->of->parts[i];
  if (!l->varies)
    return part_fixed_groups(p);
  const part_count *c = &b->counts[l->counted + i];
  int64_t groups = 1;
  if (p->when.n > 0) {
    int64_t n = b->numbers[c->when].value;
    if (n < p->least || n > p->most)
      return 0;
  }
  for (int k = 0; k < p->n_grid; k++)
    groups *= b->numbers[c->factor[k]].value;
  return groups;
}

/* A rectangle of workgroups with as few too many as may be. */
static void shape_groups(uint32_t out[3], int64_t n) {
  int64_t y = (n + LAUNCH_GROUPS_X - 1) / LAUNCH_GROUPS_X, x = y ? (n + y - 1) / y : 0;
  out[0] = (uint32_t)x;
  out[1] = (uint32_t)(y ? y : 1);
  out[2] = 1;
}

static sn_status set_groups(device_plan *dp, lowered_launch *l) {
  plan_params *b = &dp->params;
  int64_t all = 0;
  for (int i = 0; i < l->of->n_parts; i++) {
    if (l->of->code->merged)
      plan_set_word(b, l->block / 8 + BLOCK_HEADER + (uint32_t)i, (uint64_t)all);
    all += part_groups(b, l, i);
    if (all < 0 || all > (int64_t)LAUNCH_GROUPS_X * 32767)
      return diag_fail(dp->ctx, SN_ERR_UNSUPPORTED, "vulkan: a step is too large for one launch");
  }
  l->all = all;
  shape_groups(l->groups, all);
  plan_set_word(b, l->block / 8, halves((uint64_t)all, (uint64_t)l->of->n_parts));
  plan_set_word(b, l->counts / 8, halves(l->groups[0], l->groups[1]));
  plan_set_word(b, l->counts / 8 + 1, l->groups[2]);
  return SN_OK;
}

/* --- making --- */

static sn_status allocate(device_plan *dp, int slots) {
  plan_params *b = &dp->params;
  arena *a = &dp->memory;
  int parts = 0;
  for (int i = 0; i < dp->n_launches; i++)
    parts += dp->launches[i].varies ? dp->launches[i].of->n_parts : 0;
  int numbers = slots + parts * (LAUNCH_GRID + 1);
  b->n_lines = b->n_words / LINE_WORDS + 1;
  b->n_sizes = program_sizes(dp->program);
  b->words = arena_array(a, b->n_lines * LINE_WORDS, sizeof *b->words);
  b->dirty = arena_array(a, b->n_lines, sizeof *b->dirty);
  b->numbers = arena_array(a, (size_t)numbers, sizeof *b->numbers);
  b->counts = arena_array(a, (size_t)parts, sizeof *b->counts);
  b->uses = arena_array(a, (size_t)slots, sizeof *b->uses);
  b->addresses = arena_array(a, (size_t)slots, sizeof *b->addresses);
  b->sizes = arena_array(a, (size_t)b->n_sizes, sizeof *b->sizes);
  if (!b->words || !b->dirty || !b->numbers || !b->counts || !b->uses || !b->addresses || !b->sizes)
    return SN_ERR_NO_MEMORY;
  /* A shader may declare as much as a block can have, wherever its own begins. */
  int64_t bytes = (int64_t)(b->n_lines * LINE_WORDS * 8) + dp->gpu->target.block_bytes;
  return gpu_block_create(dp->gpu, dp->ctx, MEMORY_SHARED, "parameters", bytes, &b->block);
}

sn_status plan_params_create(device_plan *dp) {
  int slots;
  SN_TRY(lay_out(dp, &slots));
  SN_TRY(allocate(dp, slots));
  memset(dp->params.dirty, 1, dp->params.n_lines);
  dp->params.any_dirty = true;
  place_slots(dp);
  sort_uses(&dp->params);
  for (int i = 0; i < dp->n_launches; i++)
    place_counts(dp, &dp->launches[i]);
  for (int i = 0; i < dp->n_launches; i++)
    if (!dp->launches[i].varies)
      SN_TRY(set_groups(dp, &dp->launches[i]));
  return plan_phases(dp);
}

void plan_params_destroy(device_plan *dp) { gpu_block_destroy(dp->gpu, &dp->params.block); }

/* --- filling --- */

/* A number may be any, negative strides among them, so none says that nothing was written yet: `all` does. */
static void fill_numbers(plan_params *b, const int64_t *sizes, bool all) {
  for (int i = 0; i < b->n_numbers; i++) {
    block_number *n = &b->numbers[i];
    int64_t value = amount_at(&n->of, sizes);
    if (value == n->value && !all)
      continue;
    n->value = value;
    uint64_t inverse = slot_inverse(value);
    for (int k = n->first; k < n->first + n->n; k++)
      plan_set_word(b, b->uses[k].word, b->uses[k].inverse ? inverse : (uint64_t)value);
  }
}

static sn_status fill_sizes(device_plan *dp, const int64_t *sizes) {
  plan_params *b = &dp->params;
  size_t bytes = (size_t)b->n_sizes * sizeof *sizes;
  if (b->filled && (bytes == 0 || memcmp(b->sizes, sizes, bytes) == 0))
    return SN_OK;
  bool all = !b->filled;
  b->filled = false;
  fill_numbers(b, sizes, all);
  for (int i = 0; i < dp->n_launches; i++)
    if (dp->launches[i].varies)
      SN_TRY(set_groups(dp, &dp->launches[i]));
  if (bytes)
    memcpy(b->sizes, sizes, bytes);
  b->filled = true;
  return SN_OK;
}

static void flush(plan_params *b) {
  for (size_t i = 0; i < b->n_lines; i++) {
    size_t from = i;
    while (i < b->n_lines && b->dirty[i])
      b->dirty[i++] = 0;
    if (i > from)
      memcpy(b->block.data + from * LINE_WORDS * 8, b->words + from * LINE_WORDS,
             (i - from) * LINE_WORDS * 8);
  }
  b->any_dirty = false;
}

sn_status plan_params_fill(device_plan *dp, const int64_t *sizes) {
  plan_params *b = &dp->params;
  SN_TRY(fill_sizes(dp, sizes));
  for (int i = 0; i < b->n_addresses; i++)
    plan_set_word(b, b->addresses[i].word, dp->addresses[b->addresses[i].value]);
  if (b->any_dirty)
    flush(b);
  return SN_OK;
}
