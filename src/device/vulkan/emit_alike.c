/* Launches of one step for another. See emit_alike.h. */
#include "device/vulkan/emit_alike.h"

/* A step that was emitted. */
typedef struct alike_step {
  uint64_t hash;
  const int64_t *words;
  size_t n_words;
  const uint32_t *values;
  const unsigned char *uses; /* by value: what its kernels do with it, where env->uses asks */
  int n_values;
  int kept_first, n_kept; /* what it took of kept memory: entries of the table */
  step_launches made;
  struct alike_step *next;
} alike_step;

/* --- steps that were emitted --- */

/* What it does with values is noted apart from what others do. */
static sn_status emit_noted(emitter *e, const step *s,
                            sn_status (*emit)(emitter *e, const step *s, step_launches *out),
                            alike_step *made) {
  unsigned char *uses = e->env.uses, *others, *own;
  if (!uses)
    return emit(e, s, &made->made);
  others = arena_array(e->env.memory, (size_t)made->n_values, 1);
  own = arena_array(e->env.memory, (size_t)made->n_values, 1);
  if (!others || !own)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < made->n_values; i++) {
    others[i] = uses[made->values[i]];
    uses[made->values[i]] = 0;
  }
  sn_status status = emit(e, s, &made->made);
  for (int i = 0; i < made->n_values; i++) {
    own[i] = uses[made->values[i]];
    uses[made->values[i]] |= others[i];
  }
  made->uses = own;
  return status;
}

static void set_numbers(emitter *e, const alike_step *s, bool on) {
  for (int i = 0; i < s->n_values; i++)
    e->env.alike->number[s->values[i]] = on ? (uint32_t)i + 1 : 0;
}

static bool has_number(const emitter *e, uint32_t value) {
  return value < e->env.program->n_values && e->env.alike->number[value] > 0;
}

static bool can_give(const emitter *e, const slot *s, int64_t kept_from) {
  return s->kind == SLOT_ADDRESS ? has_number(e, s->value)
                                 : s->kind != SLOT_KEPT || s->byte >= kept_from;
}

/* Whether all that it names is its own: the values that are written down, and kept memory from byte `kept_from` on. */
static bool can_serve(const emitter *e, const alike_step *s, int64_t kept_from) {
  for (int i = 0; i < s->n_kept; i++)
    if (!has_number(e, e->env.kept->list[s->kept_first + i].value))
      return false;
  for (int i = 0; i < s->made.n; i++)
    for (int p = 0; p < s->made.launches[i].n_parts; p++) {
      const launch_part *of = &s->made.launches[i].parts[p];
      for (int k = 0; k < of->n_slots; k++)
        if (!can_give(e, &of->slots[k], kept_from))
          return false;
    }
  return true;
}

/* Emits the step that is written down. */
static sn_status emit_first(emitter *e, const step *s, uint64_t hash,
                            sn_status (*emit)(emitter *e, const step *s, step_launches *out),
                            step_launches *out) {
  struct alike_table *t = e->env.alike;
  const struct kept_table *kept = e->env.kept;
  int64_t kept_from = kept ? kept->bytes : 0;
  alike_step *made = arena_alloc(e->env.memory, sizeof *made);
  if (!made)
    return SN_ERR_NO_MEMORY;
  *made = (alike_step){
      .hash = hash,
      .words = arena_copy(e->env.memory, t->words, t->n_words * sizeof *t->words),
      .n_words = t->n_words,
      .values = arena_copy(e->env.memory, t->values, (size_t)t->n_values * sizeof *t->values),
      .n_values = t->n_values,
      .kept_first = kept ? kept->n : 0,
      .next = t->list};
  if (!made->words || !made->values)
    return SN_ERR_NO_MEMORY;
  SN_TRY(emit_noted(e, s, emit, made));
  made->n_kept = kept ? kept->n - made->kept_first : 0;
  set_numbers(e, made, true);
  if (can_serve(e, made, kept_from))
    t->list = made;
  set_numbers(e, made, false);
  *out = made->made;
  return SN_OK;
}

/* --- steps like them --- */

/* The step's own value in place of one of the step that was emitted; t->number has the places of those. */
static uint32_t own_value(const emitter *e, uint32_t value) {
  const struct alike_table *t = e->env.alike;
  return t->values[t->number[value] - 1];
}

/* Whether what the step keeps is not there yet: then it has launches that make it. */
static bool keeps_anew(emitter *e, const alike_step *like) {
  const struct kept_table *kept = e->env.kept;
  for (int i = 0; i < like->n_kept; i++) {
    const struct kept_entry *k = &kept->list[like->kept_first + i];
    if (kept_find(&e->env, own_value(e, k->value), k->key, k->size) >= 0)
      return false;
  }
  return true;
}

/* *out_by: how much further behind it is than what the other step keeps. */
static sn_status keep_too(emitter *e, const alike_step *like, int64_t *out_by) {
  *out_by = 0;
  for (int i = 0; i < like->n_kept; i++) {
    const struct kept_entry k = e->env.kept->list[like->kept_first + i];
    int64_t at;
    bool is_new;
    SN_TRY(kept_take(&e->env, own_value(e, k.value), k.key, k.size, k.bytes, &at, &is_new));
    *out_by = at - k.at;
  }
  return SN_OK;
}

static const slot *copy_slots(const emitter *e, const launch_part *p, int64_t kept_by) {
  slot *slots = arena_copy(e->env.memory, p->slots, (size_t)p->n_slots * sizeof *slots);
  for (int i = 0; slots && i < p->n_slots; i++) {
    if (slots[i].kind == SLOT_ADDRESS)
      slots[i].value = own_value(e, slots[i].value);
    if (slots[i].kind == SLOT_KEPT)
      slots[i].byte += kept_by;
  }
  return slots;
}

static sn_status copy_launches(const emitter *e, const step_launches *of, int64_t kept_by,
                               step_launches *out) {
  arena *a = e->env.memory;
  launch *launches = arena_copy(a, of->launches, (size_t)of->n * sizeof *launches);
  if (!launches)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < of->n; i++) {
    launch *l = &launches[i];
    launch_part *parts = arena_copy(a, l->parts, (size_t)l->n_parts * sizeof *parts);
    if (!parts)
      return SN_ERR_NO_MEMORY;
    for (int p = 0; p < l->n_parts; p++)
      if (parts[p].n_slots > 0 && !(parts[p].slots = copy_slots(e, &parts[p], kept_by)))
        return SN_ERR_NO_MEMORY;
    l->parts = parts;
  }
  *out = (step_launches){of->n, launches, of->scratch_bytes};
  return SN_OK;
}

/* *out_reused false: it has to be emitted. */
static sn_status reuse(emitter *e, const alike_step *like, step_launches *out, bool *out_reused) {
  struct alike_table *t = e->env.alike;
  int64_t kept_by;
  set_numbers(e, like, true);
  *out_reused = keeps_anew(e, like);
  sn_status status = *out_reused ? keep_too(e, like, &kept_by) : SN_OK;
  if (*out_reused && status == SN_OK)
    status = copy_launches(e, &like->made, kept_by, out);
  set_numbers(e, like, false);
  for (int i = 0; i < like->n_values && *out_reused && e->env.uses; i++)
    e->env.uses[t->values[i]] |= like->uses[i];
  t->n_reused += *out_reused;
  return status;
}

static const alike_step *find(const struct alike_table *t, uint64_t hash) {
  const alike_step *s = t->list;
  while (s && (s->hash != hash || s->n_words != t->n_words || s->n_values != t->n_values ||
               memcmp(s->words, t->words, t->n_words * sizeof *t->words) != 0))
    s = s->next;
  return s;
}

sn_status emit_alike(emitter *e, const step *s,
                     sn_status (*emit)(emitter *e, const step *s, step_launches *out),
                     step_launches *out) {
  bool reused = false;
  SN_TRY(alike_write_down(e, s));
  const struct alike_table *t = e->env.alike;
  uint64_t hash = hash_long(HASH_SEED, t->words, t->n_words * sizeof *t->words);
  const alike_step *like = find(t, hash);
  if (like)
    SN_TRY(reuse(e, like, out, &reused));
  return reused ? SN_OK : like ? emit(e, s, out) : emit_first(e, s, hash, emit, out);
}
