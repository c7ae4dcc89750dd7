/* SAMPLE: one id from each row of logits. See emit_sample.h; sums and places: emit_sample_find.c. */
#include "device/vulkan/emit_sample.h"

/* --- logits --- */

/* Which of a thread's ids of a tile, first, first + threads, …, stand in the row's history: a bit for each. */
static val seen_of(emitter *e, const sampling *s, val row, val first) {
  kernel *k = e->k;
  val mask = k_var(k, k_u32(k, 0)), zero = k_index(k, 0), start = k_to_i32(k, first);
  val rest = k_u32(k, (uint32_t)k->threads - 1), tile = k_u32(k, (uint32_t)s->tile);
  k_loop h = k_loop_begin(k, zero, k_size(k, s->history->dim[1]), k_index(k, 1));
  val at[2] = {row, h.i}, id = core_load(e, s->history, at);
  val distance = k_bits(k, k_sub(k, id, start), k->s.u32), inside = k_lt(k, distance, tile);
  val mine = k_eq(k, k_and(k, distance, rest), k_u32(k, 0)), hit = k_and(k, inside, mine);
  val number = k_shr(k, distance, __builtin_ctz((unsigned)k->threads));
  number = k_select(k, hit, number, k_u32(k, 0));
  val bit = core_shl(e, k_u32(k, 1), number);
  bit = k_select(k, hit, bit, k_u32(k, 0));
  k_set(k, mask, k_or(k, k_get(k, mask), bit));
  k_loop_end(k, &h);
  return k_get(k, mask);
}

static val penalised(emitter *e, const sampling *s, val logit, val seen) {
  kernel *k = e->k;
  val penalty = k_f32(k, s->penalty), positive = k_lt(k, k_f32(k, 0), logit);
  val less = k_div(k, logit, penalty), more = k_mul(k, logit, penalty);
  val changed = k_select(k, positive, less, more);
  return k_select(k, seen, changed, logit);
}

static val changed_at(emitter *e, const sampling *s, val row, val i) {
  val pitch = k_size(e->k, size_most(&e->env, s->n));
  return k_add(e->k, k_mul(e->k, row, pitch), i);
}

val sample_logit(emitter *e, const sampling *s, val row, val i) {
  val at[2] = {row, i};
  if (s->changed < 0)
    return core_load(e, s->logits, at);
  val place = changed_at(e, s, row, i);
  return k_load(e->k, e->k->s.f32, k_scratch(e->k, s->changed), place);
}

/* --- the best of each row --- */

static val item_of(emitter *e, val logit, val i) {
  val key = k_not(e->k, emit_order_key(e, SN_F32, logit));
  return core_pair(e, key, k_to_u32(e->k, i));
}

static val lesser(emitter *e, const void *user, val a, val b) {
  (void)user;
  return k_select(e->k, k_lt(e->k, b, a), b, a);
}

static val best_at(emitter *e, const sampling *s, val row, val tile) {
  return k_add(e->k, k_mul(e->k, row, k_size(e->k, s->tiles)), tile);
}

val sample_best(emitter *e, const sampling *s, val row, val array) {
  kernel *k = e->k;
  amount tiles = amount_tiles(&s->n, s->tile);
  val none = spirv_u64(&k->s, ORDER_NONE), best = k_var(k, none), all;
  k_loop t = k_loop_begin(k, k->local, k_amount(k, &tiles), k_index(k, k->threads));
  val at = best_at(e, s, row, t.i), address = k_scratch(k, s->best);
  val item = k_load(k, k->s.u64, address, at);
  k_set(k, best, lesser(e, NULL, k_get(k, best), item));
  k_loop_end(k, &t);
  core_scan_threads(e, k_get(k, best), array, 1, lesser, NULL, &all);
  return all;
}

/* The logits behind the penalty, and the best of each tile. */
static sn_status read_logits(emitter *e, const sampling *s) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  amount tiles = amount_tiles(&s->n, s->tile);
  val tile, row = k_divide(k, k->group, &tiles, &tile), size = k_index(k, s->tile), all;
  val array = k_shared(k, k->s.u64, 2 * k->threads), first = k_mul(k, tile, size);
  val end = k_min(k, k_add(k, first, size), k_size(k, s->n));
  val best = k_var(k, spirv_u64(&k->s, ORDER_NONE)), start = k_add(k, first, k->local);
  val seen = s->changed >= 0 ? k_var(k, seen_of(e, s, row, start)) : 0;
  k_loop i = k_loop_begin(k, start, end, k_index(k, k->threads));
  val at[2] = {row, i.i}, logit = core_load(e, s->logits, at);
  if (s->changed >= 0) {
    val bits = k_get(k, seen), one = k_u32(k, 1);
    logit = penalised(e, s, logit, k_eq(k, k_and(k, bits, one), one));
    k_set(k, seen, k_shr(k, bits, 1));
    val place = changed_at(e, s, row, i.i);
    k_store(k, k_scratch(k, s->changed), place, logit);
  }
  val item = item_of(e, logit, i.i);
  k_set(k, best, lesser(e, NULL, k_get(k, best), item));
  k_loop_end(k, &i);
  core_scan_threads(e, k_get(k, best), array, 1, lesser, NULL, &all);
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  val place = best_at(e, s, row, tile);
  k_store(k, k_scratch(k, s->best), place, all);
  k_if_end(k, &one);
  kernel_grid(k, 2, (amount[]){amount_of(&s->rows), tiles});
  return emit_launch(e, false);
}

/* Temperature 0. */
static sn_status take_best(emitter *e, const sampling *s) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  val row = k->group, array = k_shared(k, k->s.u64, 2 * k->threads);
  val best = sample_best(e, s, row, array);
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  val at[1] = {row};
  core_store(e, s->out, at, k_bits(k, core_low(e, best), k->s.i32));
  k_if_end(k, &one);
  amount rows = amount_of(&s->rows);
  kernel_grid(k, 1, &rows);
  return emit_launch(e, true);
}

/* --- the step --- */

static val order_item_of(emitter *e, void *user, val row, val i) {
  val logit = sample_logit(e, user, row, i);
  return item_of(e, logit, i);
}

/* The first ids in order, as many as top-k asks for. */
static sn_status put_in_order(emitter *e, sampling *s) {
  order_job j = {.n_rows = 1,
                 .rows = {s->rows},
                 .n = s->n,
                 .first = s->top_k <= ORDER_FEW ? s->top_k : 0,
                 .item = order_item_of,
                 .user = s,
                 .after = true};
  SN_TRY(emit_order_sort(e, &j, &s->order));
  if (!(s->top_p < 1))
    return SN_OK;
  s->cutoff = scratch_take(&e->env, size_most(&e->env, s->rows) * 8);
  SN_TRY(sample_add_tiles(e, s, SAMPLE_BY_LOGIT));
  return sample_find(e, s, SAMPLE_BY_LOGIT);
}

sn_status emit_sample(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  sampling s = {.logits = &c->in[0],
                .key = &c->in[1],
                .history = &c->in[2],
                .out = &c->out[0],
                .rows = c->in[0].dim[0],
                .n = c->in[0].dim[1],
                .top_k = c->ints[0],
                .stream = (uint32_t)c->ints[1],
                .temperature = (float)c->reals[0],
                .top_p = c->reals[1],
                .min_p = (float)c->reals[2],
                .penalty = (float)c->reals[3],
                .tile = core_threads(e) * SAMPLE_EACH,
                .changed = -1,
                .cutoff = -1};
  int64_t rows = size_most(&e->env, s.rows), n = size_most(&e->env, s.n);
  s.top_k = min_i64(s.top_k, n);
  s.tiles = (n + s.tile - 1) / s.tile;
  s.ordered = s.top_k > 0 || s.top_p < 1;
  if (s.history->value)
    s.changed = scratch_take(&e->env, rows * n * 4);
  s.best = scratch_take(&e->env, rows * s.tiles * 8);
  s.sums = scratch_take(&e->env, rows * s.tiles * 8);
  SN_TRY(read_logits(e, &s));
  if (s.temperature == 0)
    return take_best(e, &s);
  if (s.ordered)
    SN_TRY(put_in_order(e, &s));
  SN_TRY(sample_add_tiles(e, &s, SAMPLE_BY_ID));
  return sample_find(e, &s, SAMPLE_BY_ID);
}
