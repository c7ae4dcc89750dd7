/* Steps as launches: kernels of the parts, equal ones joined. See emit.h.
 *
 * A kernel that finds its part by its workgroup's number (merged) is another shader than the same kernel alone, and slower to begin.
 * So parts are emitted as if each were alone; where some turn out to be equal, the step is emitted once more, with those merged. */
#include "device/vulkan/emit_alike.h"
#include "device/vulkan/emit_matmul_rewrite.h"

static sn_status (*const archetypes[STEP_ARCHETYPES])(emitter *e, const part *p) = {
    [STEP_POINTWISE] = emit_loop,
    [STEP_ROW] = emit_loop,
    [STEP_MATMUL] = emit_matmul,
    [STEP_ATTENTION] = emit_attention,
    [STEP_ATTENTION_GRAD] = emit_attention_grad,
    [STEP_SCATTER] = emit_scatter,
    [STEP_SCAN] = emit_scan,
    [STEP_SORT] = emit_sort,
    [STEP_SAMPLE] = emit_sample,
    [STEP_PERMUTE] = emit_permute};

kernel *emit_open_early(emitter *e, int threads) {
  e->n_recent = e->n_loads = e->n_known = 0; /* another kernel's numbers */
  return e->k = kernel_open(&e->env, threads, e->merges && e->merges[e->n_made]);
}

kernel *emit_open(emitter *e, int threads) {
  if (emit_open_early(e, threads))
    k_wait(e->k);
  return e->k;
}

static sn_status add_made(emitter *e, const struct made_kernel *made) {
  if (e->n_made == e->room_made) {
    int room = e->room_made ? 2 * e->room_made : 16;
    struct made_kernel *more = arena_array(e->env.memory, (size_t)room, sizeof *more);
    if (!more)
      return SN_ERR_NO_MEMORY;
    if (e->n_made)
      memcpy(more, e->made, (size_t)e->n_made * sizeof *more);
    e->made = more;
    e->room_made = room;
  }
  e->made[e->n_made++] = *made;
  return SN_OK;
}

sn_status emit_launch_when(emitter *e, bool after, const amount *of, int64_t least, int64_t most) {
  struct made_kernel made = {.level = e->level, .after = after};
  kernel *k = e->k;
  e->k = NULL;
  e->level++;
  SN_TRY(kernel_close(k, &made.made));
  launch_part *p = &made.made.part;
  if (of) {
    p->when = *of;
    p->least = least;
    p->most = most;
    p->when.dims = arena_copy(e->env.memory, of->dims, (size_t)of->n * sizeof *of->dims);
    if (!p->when.dims)
      return SN_ERR_NO_MEMORY;
  }
  return add_made(e, &made);
}

sn_status emit_launch_kept(emitter *e) {
  struct made_kernel made = {.kept = true};
  kernel *k = e->k;
  e->k = NULL;
  SN_TRY(kernel_close(k, &made.made));
  return add_made(e, &made);
}

sn_status emit_launch(emitter *e, bool after) { return emit_launch_when(e, after, NULL, 0, 0); }

/* --- joining --- */

static bool are_equal(const struct made_kernel *a, const struct made_kernel *b) {
  return a->level == b->level && a->kept == b->kept && a->made.code == b->made.code;
}

static int block_words(int n_parts, int n_slots) {
  return BLOCK_HEADER + block_even(n_parts) + n_parts * block_even(n_slots);
}

/* Of the kernels from index `first` on, those of its level and shader that are not taken: as many as one launch holds. */
static sn_status join(emitter *e, int first, launch *out) {
  const struct made_kernel *m = &e->made[first];
  int n = 0, most = e->env.target->block_bytes / 8, slots = m->made.part.n_slots;
  launch_part *parts = arena_array(e->env.memory, (size_t)(e->n_made - first), sizeof *parts);
  if (!parts)
    return SN_ERR_NO_MEMORY;
  for (int i = first; i < e->n_made; i++) {
    struct made_kernel *other = &e->made[i];
    if (other->taken || !are_equal(m, other))
      continue;
    if (n > 0 && (!m->made.code->merged || n == LAUNCH_PARTS || block_words(n + 1, slots) > most))
      break;
    other->taken = true;
    parts[n++] = other->made.part;
  }
  *out = (launch){.code = m->made.code, .kept = m->kept, .n_parts = n, .parts = parts};
  return block_words(n, slots) <= most
             ? SN_OK
             : diag_fail(e->env.ctx, SN_ERR_UNSUPPORTED,
                         "vulkan: a step has more sizes and values than its parameter block holds");
}

/* Level by level; one wait for a level is enough. */
static sn_status join_all(emitter *e, step_launches *out) {
  launch *all = arena_array(e->env.memory, (size_t)e->n_made, sizeof *all);
  if (!all)
    return SN_ERR_NO_MEMORY;
  out->launches = all;
  for (int level = 0, left = e->n_made; left > 0; level++) {
    bool after = false, first = true;
    for (int i = 0; i < e->n_made; i++)
      after = after || (e->made[i].level == level && e->made[i].after);
    for (int i = 0; i < e->n_made; i++) {
      if (e->made[i].taken || e->made[i].level != level)
        continue;
      SN_TRY(join(e, i, &all[out->n]));
      all[out->n].after = after && first && !all[out->n].kept;
      first = first && all[out->n].kept;
      left -= all[out->n++].n_parts;
    }
  }
  return SN_OK;
}

/* --- steps --- */

/* Which kernels the step has more than once; false: none. What makes kept memory runs once, and is not merged for that. */
static bool find_equal(const emitter *e, bool *out) {
  bool any = false;
  for (int i = 0; i < e->n_made; i++) {
    for (int k = 0; k < e->n_made && !e->made[i].kept && !out[i]; k++)
      out[i] = k != i && are_equal(&e->made[i], &e->made[k]);
    any = any || out[i];
  }
  return any;
}

static sn_status emit_parts(emitter *e) {
  const step *s = e->step;
  sn_status status = SN_OK;
  e->env.scratch = 0;
  e->n_made = 0;
  for (e->part = 0; e->part < s->n_parts && status == SN_OK; e->part++) {
    e->level = 0;
    status = (e->env.by_hand ? e->env.by_hand : archetypes[s->kind])(e, &s->parts[e->part]);
  }
  return status;
}

/* The second time as if there had been no first, but for what is known from it. */
static sn_status emit_merged(emitter *e) {
  const int n_shaders = e->env.shaders->n;
  const struct kept_table kept = e->env.kept ? *e->env.kept : (struct kept_table){0};
  SN_TRY(emit_parts(e));
  bool *merges = arena_array(e->env.memory, (size_t)e->n_made + 1, sizeof *merges);
  if (!merges)
    return SN_ERR_NO_MEMORY;
  if (e->step->n_parts == 1 || !find_equal(e, merges))
    return SN_OK;
  e->env.shaders->n = n_shaders;
  if (e->env.kept) {
    e->env.kept->n = kept.n;
    e->env.kept->bytes = kept.bytes;
  }
  e->merges = merges;
  return emit_parts(e);
}

static sn_status emit_anew(emitter *e, const step *s, step_launches *out) {
  const size_t size = EMIT_REGS * sizeof *e->regs;
  sn_status status = SN_OK;
  e->regs = mem_alloc(e->env.ctx, size);
  if (!e->regs)
    return SN_ERR_NO_MEMORY;
  e->reg = e->regs[0];
  if (s->kind == STEP_MATMUL && !e->env.by_hand && !e->absorbed)
    status = matmul_rewrite(&e->env, s, &s);
  e->step = s;
  if (status == SN_OK)
    status = emit_merged(e);
  if (status == SN_OK)
    status = join_all(e, out);
  out->scratch_bytes = e->env.scratch;
  mem_free(e->env.ctx, e->regs, size);
  return status;
}

sn_status emit_step(const emit_env *env, const step *s, step_launches *out) {
  emitter *e = mem_alloc(env->ctx, sizeof *e);
  sn_status status = SN_OK;
  *out = (step_launches){0};
  if (!e)
    return SN_ERR_NO_MEMORY;
  e->env = *env;
  e->absorbed = emit_absorbed(e, s);
  if (!emit_is_absorbed(e, s)) {
    /* What a scatter does depends on where its values lie. */
    bool alone = !env->alike || env->by_hand || s->kind == STEP_SCATTER;
    status = alone ? emit_anew(e, s, out) : emit_alike(e, s, emit_anew, out);
  }
  if (status != SN_OK)
    status = diag_within(env->ctx, status, "step \"%s\"", s->name ? s->name : "");
  mem_free(env->ctx, e, sizeof *e);
  return status;
}
