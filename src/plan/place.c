/* plan_place: where values of the two arenas lie. Called by compile when the order is final and it is known who is in place of
 * whom; fills first, last and offset of values, arena_bytes, prepared_bytes and lower_bound.
 *
 * A value and those in place of it are one block. It is alive from the first step that writes one of them to the last that
 * touches one. A prepared value that a run reads stays for ever: the steps of `main` and `commit` are all one moment to
 * the prepared arena, at its end. Prepare is always run whole, so what it only needs in between may lie where a kept value
 * will be made later.
 *
 * Memory that is used again at once makes steps wait for each other; where there is room it is left alone a little longer.
 */
#include "plan/barriers.h"
#include "plan/pack.h"
#include "plan/plan.h"
#include "plan/touches.h"

typedef struct placer {
  program *p;
  arena scratch;
  uint32_t *roots;
  pack_block *blocks; /* by root; last is -1 while nobody touches it */
  int *group;         /* by time */
} placer;

static sn_status too_large(sn_ctx *ctx, const char *what, const program *p, uint32_t v) {
  return diag_fail(ctx, SN_ERR_NO_MEMORY,
                   "plan: %s: value %u of %lld bytes is one too many: the sum of %u values does "
                   "not fit into 63 bits",
                   what, v, (long long)p->values[v].bytes, p->n_values - 1);
}

/* first and last of values; blocks with their lives. */
static sn_status find_lives(placer *w) {
  program *p = w->p;
  touches t;
  SN_TRY(touches_find(p, &w->scratch, &t));
  for (uint32_t v = 0; v < p->n_values; v++) {
    p->values[v].first = p->values[v].last = -1;
    w->blocks[v] = (pack_block){.first = 0, .last = -1};
  }
  for (int s = 0; s < program_steps(p); s++)
    for (int i = t.start[s]; i < t.start[s + 1]; i++) {
      program_value *v = &p->values[t.list[i].value];
      pack_block *block = &w->blocks[w->roots[t.list[i].value]];
      if (!(t.list[i].how & (TOUCH_READ | TOUCH_WRITE)))
        continue;
      if ((t.list[i].how & TOUCH_WRITE) && v->first < 0)
        v->first = s;
      v->last = s;
      if (block->last < 0)
        block->first = s;
      block->last = s;
    }
  return SN_OK;
}

/* Sizes of blocks, in units of PROGRAM_ALIGN; checks that all of them together can be counted. */
static sn_status find_sizes(placer *w) {
  const program *p = w->p;
  int64_t sum = 0;
  for (uint32_t v = 1; v < p->n_values; v++) {
    if (!value_is_placed(&p->values[v]))
      continue;
    int64_t bytes = p->values[v].bytes;
    pack_block *block = &w->blocks[w->roots[v]];
    if (bytes < 0)
      return diag_fail(w->scratch.ctx, SN_ERR_INTERNAL, "plan: value %u has %lld bytes", v,
                       (long long)bytes);
    if (p->values[w->roots[v]].home != p->values[v].home)
      return diag_fail(w->scratch.ctx, SN_ERR_INTERNAL,
                       "plan: value %u is in place of value %u, which lives elsewhere", v,
                       w->roots[v]);
    int64_t units = bytes / PROGRAM_ALIGN + (bytes % PROGRAM_ALIGN != 0);
    block->size = max_i64(block->size, units);
    if (!add_fits(sum, units, &sum) || sum > INT64_MAX / PROGRAM_ALIGN)
      return too_large(w->scratch.ctx, "memory", p, v);
  }
  return SN_OK;
}

/* Largest sum of blocks alive at once, in units. */
static bool largest_live(const pack_block *blocks, int n, int n_times, arena *scratch,
                         int64_t *out_bound) {
  int64_t *change = arena_array(scratch, (size_t)n_times + 1, sizeof *change);
  if (!change)
    return false;
  for (int i = 0; i < n; i++) {
    change[blocks[i].first] += blocks[i].size;
    change[blocks[i].last + 1] -= blocks[i].size;
  }
  int64_t alive = 0;
  *out_bound = 0;
  for (int t = 0; t < n_times; t++) {
    alive += change[t];
    *out_bound = max_i64(*out_bound, alive);
  }
  return true;
}

/* Groups of steps that memory need not keep apart; the time after the last step is one of its own. */
static sn_status find_groups(placer *w) {
  int n = program_steps(w->p);
  w->group = arena_array(&w->scratch, (size_t)n + 1, sizeof *w->group);
  if (!w->group)
    return SN_ERR_NO_MEMORY;
  SN_TRY(barriers_groups(w->p, w->roots, &w->scratch, w->group));
  w->group[n] = n ? w->group[n - 1] + 1 : 0;
  return SN_OK;
}

/* Lets blocks live from the beginning of the group in which they are born, so that no step of a group has to wait for another's
 * memory; but only in groups where that keeps within the bound. */
static bool widen_lives(placer *w, pack_block *blocks, int n, int n_times, int64_t bound) {
  int n_groups = w->group[n_times - 1] + 1;
  int64_t *alive = arena_array(&w->scratch, (size_t)n_groups + 1, sizeof *alive);
  int *begin = arena_array(&w->scratch, (size_t)n_groups, sizeof *begin);
  if (!alive || !begin)
    return false;
  for (int t = n_times - 1; t >= 0; t--)
    begin[w->group[t]] = t;
  for (int i = 0; i < n; i++) {
    alive[w->group[blocks[i].first]] += blocks[i].size;
    alive[w->group[blocks[i].last] + 1] -= blocks[i].size;
  }
  for (int g = 1; g < n_groups; g++)
    alive[g] += alive[g - 1];
  for (int i = 0; i < n; i++) {
    int born = w->group[blocks[i].first];
    if (alive[born] <= bound)
      blocks[i].first = begin[born];
  }
  return true;
}

/* Packs with wide lives; with exact ones too when that did not come close to the bound, and then takes what is lower. */
static sn_status pack_both(placer *w, pack_block *blocks, int n, int n_times, int64_t bound,
                           int64_t *out_height) {
  pack_block *wide = arena_copy(&w->scratch, blocks, (size_t)n * sizeof *wide);
  int64_t height;
  if (!wide || !widen_lives(w, wide, n, n_times, bound))
    return SN_ERR_NO_MEMORY;
  SN_TRY(pack_blocks(wide, n, n_times, bound, &w->scratch, &height));
  if (height > bound + bound / 100)
    SN_TRY(pack_blocks(blocks, n, n_times, bound, &w->scratch, out_height));
  if (height <= bound + bound / 100 || height <= *out_height) {
    *out_height = height;
    for (int i = 0; i < n; i++)
      blocks[i].offset = wide[i].offset;
  }
  return SN_OK;
}

/* Places the blocks of one arena. Steps from `n_times` - 1 on are all that one time. */
static sn_status place_home(placer *w, value_home home, int n_times, int64_t *out_bytes,
                            int64_t *out_bound) {
  program *p = w->p;
  pack_block *packed = arena_array(&w->scratch, p->n_values, sizeof *packed);
  uint32_t *root_of = arena_array(&w->scratch, p->n_values, sizeof *root_of);
  int n = 0;
  if (!packed || !root_of)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 1; v < p->n_values; v++) {
    pack_block b = w->blocks[v];
    if (p->values[v].home != home || w->roots[v] != v || b.size == 0 || b.last < 0)
      continue;
    b.first = b.first < n_times ? b.first : n_times - 1;
    b.last = b.last < n_times ? b.last : n_times - 1;
    root_of[n] = v;
    packed[n++] = b;
  }
  int64_t bound, height;
  if (!largest_live(packed, n, n_times, &w->scratch, &bound))
    return SN_ERR_NO_MEMORY;
  SN_TRY(pack_both(w, packed, n, n_times, bound, &height));
  for (int i = 0; i < n; i++)
    w->blocks[root_of[i]].offset = packed[i].offset;
  *out_bytes = height * PROGRAM_ALIGN;
  *out_bound = bound * PROGRAM_ALIGN;
  return SN_OK;
}

static sn_status place(placer *w) {
  program *p = w->p;
  int64_t prepared_bound;
  SN_TRY(touches_roots(p, &w->scratch, &w->roots));
  w->blocks = arena_array(&w->scratch, p->n_values, sizeof *w->blocks);
  if (!w->blocks)
    return SN_ERR_NO_MEMORY;
  SN_TRY(find_lives(w));
  SN_TRY(find_sizes(w));
  SN_TRY(find_groups(w));
  SN_TRY(place_home(w, HOME_ARENA, program_steps(p) + 1, &p->arena_bytes, &p->lower_bound));
  SN_TRY(place_home(w, HOME_PREPARED, p->n_prepare + 1, &p->prepared_bytes, &prepared_bound));
  for (uint32_t v = 1; v < p->n_values; v++)
    if (value_is_placed(&p->values[v]))
      p->values[v].offset = w->blocks[w->roots[v]].offset * PROGRAM_ALIGN;
  return SN_OK;
}

sn_status plan_place(program *p, sn_ctx *ctx) {
  placer w = {.p = p};
  arena_init(&w.scratch, ctx);
  sn_status status = place(&w);
  arena_clear(&w.scratch);
  return status;
}
