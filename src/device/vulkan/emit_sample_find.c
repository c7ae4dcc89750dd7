/* Sums of weights, and where they pass a limit. See emit_sample.h. */
#include "device/vulkan/emit_sample.h"

enum { UNIT_BITS = 20 }; /* twice: weights in units of 2^-40 */

/* --- weights --- */

/* What a row's weights need. */
typedef struct row_facts {
  val row, max; /* f32 */
  val best;     /* item */
  val n;        /* ids, or places of the order, that count */
  val cutoff;   /* u64: the last item that is kept; 0: all are */
} row_facts;

static val as_u64(emitter *e, val x) {
  val zero = k_u32(e->k, 0);
  return core_pair(e, zero, x);
}

/* A number in 0 … 1 in units. */
static val in_units(emitter *e, val weight) {
  kernel *k = e->k;
  val unit = k_f32(k, (float)(1 << UNIT_BITS)), high = k_mul(k, weight, unit);
  val upper = k_to_u32(k, high);
  val rest = k_mul(k, k_sub(k, high, k_to_f32(k, upper)), unit);
  val lower = as_u64(e, k_to_u32(k, rest));
  return k_add(k, k_shl(k, as_u64(e, upper), UNIT_BITS), lower);
}

/* exp((logit - max) / temperature), 1 for the largest; below min-p 0. */
static val weight_of(emitter *e, const sampling *s, const row_facts *f, val logit) {
  kernel *k = e->k;
  val one = k_f32(k, 1), same = k_eq(k, logit, f->max);
  val x = k_div(k, k_sub(k, logit, f->max), k_f32(k, s->temperature));
  val weight = k_select(k, same, one, emit_float1(e, ALU_exp, x));
  val kept = k_le(k, k_f32(k, s->min_p), weight);
  return k_select(k, kept, weight, k_f32(k, 0));
}

/* The logit that an item's key was made from. */
static val logit_of(emitter *e, val item) {
  kernel *k = e->k;
  val top = k_u32(k, 0x80000000u), key = k_not(k, core_high(e, item)), positive = k_ge(k, key, top);
  val lowered = k_xor(k, key, top), flipped = k_not(k, key);
  return k_bits(k, k_select(k, positive, lowered, flipped), k->s.f32);
}

/* The weight at place i < n, in units; min-p does not count for top-p. */
static val units_at(emitter *e, const sampling *s, const row_facts *f, sample_by by, val i) {
  kernel *k = e->k;
  if (by == SAMPLE_BY_LOGIT) {
    sampling all = *s;
    all.min_p = 0;
    val logit = logit_of(e, emit_order_item(e, &s->order, f->row, i));
    return in_units(e, weight_of(e, &all, f, logit));
  }
  val logit = sample_logit(e, s, f->row, i), weight = weight_of(e, s, f, logit);
  if (f->cutoff) {
    val key = k_not(k, emit_order_key(e, SN_F32, logit));
    val item = core_pair(e, key, k_to_u32(k, i));
    weight = k_select(k, k_le(k, item, f->cutoff), weight, k_f32(k, 0));
  }
  return in_units(e, weight);
}

/* Places that there may be, for grids. */
static sn_dim places(const sampling *s, const sample_by *by) {
  return *by == SAMPLE_BY_LOGIT && s->top_k > 0 ? s->top_k : s->n;
}

/* Of what top-k keeps the last. */
static val kept_by_k(emitter *e, const sampling *s) {
  val n = k_size(e->k, s->n);
  return s->top_k > 0 ? k_min(e->k, k_size(e->k, s->top_k), n) : n;
}

static row_facts facts_of(emitter *e, const sampling *s, sample_by by, val row, val array) {
  kernel *k = e->k;
  row_facts f = {.row = row, .best = sample_best(e, s, row, array)};
  f.max = sample_logit(e, s, row, k_to_index(k, core_low(e, f.best)));
  f.n = by == SAMPLE_BY_LOGIT ? kept_by_k(e, s) : k_size(k, s->n);
  if (by == SAMPLE_BY_ID && s->ordered) {
    if (s->cutoff >= 0) {
      f.cutoff = k_load(k, k->s.u64, k_scratch(k, s->cutoff), row);
    } else {
      val last = k_sub(k, kept_by_k(e, s), k_index(k, 1));
      f.cutoff = emit_order_item(e, &s->order, row, last);
    }
  }
  return f;
}

/* Units from place `start` on, at most `each` of them. */
static val sum_places(emitter *e, const sampling *s, const row_facts *f, sample_by by, val start,
                      val end, val stride) {
  kernel *k = e->k;
  val sum = k_var(k, spirv_u64(&k->s, 0));
  k_loop i = k_loop_begin(k, start, end, stride);
  val units = units_at(e, s, f, by, i.i);
  k_set(k, sum, k_add(k, k_get(k, sum), units));
  k_loop_end(k, &i);
  return k_get(k, sum);
}

static val sum_at(emitter *e, const sampling *s, val row, val tile) {
  return k_add(e->k, k_mul(e->k, row, k_size(e->k, s->tiles)), tile);
}

sn_status sample_add_tiles(emitter *e, const sampling *s, sample_by by) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  sn_dim n = places(s, &by);
  amount tiles = amount_tiles(&n, s->tile);
  val tile, row = k_divide(k, k->group, &tiles, &tile), size = k_index(k, s->tile), all;
  val array = k_shared(k, k->s.u64, 2 * k->threads), first = k_mul(k, tile, size);
  row_facts f = facts_of(e, s, by, row, array);
  val start = k_add(k, first, k->local), end = k_min(k, k_add(k, first, size), f.n);
  val sum = sum_places(e, s, &f, by, start, end, k_index(k, k->threads));
  core_scan_threads(e, sum, array, 1, NULL, NULL, &all);
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  val at = sum_at(e, s, row, tile);
  k_store(k, k_scratch(k, s->sums), at, all);
  k_if_end(k, &one);
  kernel_grid(k, 2, (amount[]){amount_of(&s->rows), tiles});
  return emit_launch(e, true);
}

/* --- places --- */

/* floor(sum * part / 2^32), or rounded up. */
static val part_of(emitter *e, val sum, val by32, bool up) {
  kernel *k = e->k;
  val by = as_u64(e, by32), high = k_mul(k, as_u64(e, core_high(e, sum)), by);
  val low = k_mul(k, as_u64(e, core_low(e, sum)), by);
  val whole = k_add(k, high, as_u64(e, core_high(e, low)));
  if (!up)
    return whole;
  val more = k_ne(k, core_low(e, low), k_u32(k, 0)), one = spirv_u64(&k->s, 1);
  return k_select(k, more, k_add(k, whole, one), whole);
}

/* A place is the first at which the running sum is above this. top-p: at which it reaches its part, less one unit. */
static val limit_of(emitter *e, const sampling *s, sample_by by, val row, val sum) {
  kernel *k = e->k;
  val one = spirv_u64(&k->s, 1), key[3];
  if (by == SAMPLE_BY_LOGIT) {
    val limit = part_of(e, sum, k_u32(k, (uint32_t)(s->top_p * 0x1p32)), true);
    return k_select(k, k_lt(k, limit, one), limit, k_sub(k, limit, one));
  }
  for (int i = 0; i < 3; i++) {
    val at[1] = {k_index(k, i)};
    key[i] = core_load(e, s->key, at);
  }
  return part_of(e, sum, emit_random(e, key, s->stream, row), false);
}

/* What threads tell each other. */
typedef struct finding {
  val array;        /* u64 [2 * threads] */
  val tile, before; /* shared [1]: where the limit is passed, and the sum before */
} finding;

/* mine: a thread's part of what follows `before`. Whether the limit is passed in it; *start: the sum before it. */
static val passes(emitter *e, const finding *w, val before, val mine, val limit, val *start,
                  val *all) {
  kernel *k = e->k;
  val upto = core_scan_threads(e, mine, w->array, 1, NULL, NULL, all);
  val end = k_add(k, before, upto);
  *start = k_sub(k, end, mine);
  val below = k_le(k, *start, limit);
  return k_and(k, below, k_lt(k, limit, end));
}

static val tile_sum(emitter *e, const sampling *s, val row, val tile, val tiles) {
  kernel *k = e->k;
  val zero = spirv_u64(&k->s, 0);
  k_if inside = k_if_begin(k, k_lt(k, tile, tiles));
  val at = sum_at(e, s, row, tile);
  val sum = k_load(k, k->s.u64, k_scratch(k, s->sums), at);
  return k_if_value(k, &inside, sum, zero);
}

static val sum_all(emitter *e, const sampling *s, const finding *w, val row, val tiles) {
  kernel *k = e->k;
  val sum = k_var(k, spirv_u64(&k->s, 0)), all;
  k_loop t = k_loop_begin(k, k->local, tiles, k_index(k, k->threads));
  val more = tile_sum(e, s, row, t.i, tiles);
  k_set(k, sum, k_add(k, k_get(k, sum), more));
  k_loop_end(k, &t);
  core_scan_threads(e, k_get(k, sum), w->array, 1, NULL, NULL, &all);
  return all;
}

/* Leaves the tile and the sum before it for all threads. */
static void find_tile(emitter *e, const sampling *s, const finding *w, val row, val tiles,
                      val limit) {
  kernel *k = e->k;
  val before = k_var(k, spirv_u64(&k->s, 0)), zero = k_index(k, 0), start, all;
  k_loop t = k_loop_begin(k, zero, tiles, k_index(k, k->threads));
  val tile = k_add(k, t.i, k->local), mine = tile_sum(e, s, row, tile, tiles);
  val so_far = k_get(k, before);
  k_if here = k_if_begin(k, passes(e, w, so_far, mine, limit, &start, &all));
  k_shared_set(k, w->tile, zero, tile);
  k_shared_set(k, w->before, zero, start);
  k_if_end(k, &here);
  k_set(k, before, k_add(k, so_far, all));
  k_loop_end(k, &t);
  k_barrier(k);
}

/* The first place from `start` on at which the running sum is above the limit. */
static val walk(emitter *e, const sampling *s, const row_facts *f, sample_by by, val start, val end,
                val before, val limit) {
  kernel *k = e->k;
  val running = k_var(k, before), place = k_var(k, start);
  k_loop i = k_loop_begin(k, start, end, k_index(k, 1));
  val sum = k_add(k, k_get(k, running), units_at(e, s, f, by, i.i));
  k_set(k, running, sum);
  k_set(k, place, i.i);
  k_loop_break(k, &i, k_lt(k, limit, sum));
  k_loop_end(k, &i);
  return k_get(k, place);
}

static void put_place(emitter *e, const sampling *s, const row_facts *f, sample_by by, val place) {
  kernel *k = e->k;
  val at[1] = {f->row};
  if (by == SAMPLE_BY_ID) {
    core_store(e, s->out, at, k_to_i32(k, place));
  } else {
    val item = emit_order_item(e, &s->order, f->row, place);
    k_store(k, k_scratch(k, s->cutoff), f->row, item);
  }
}

/* A row with a NaN has no weights: its result is that NaN. */
static void put_nan(emitter *e, const sampling *s, const row_facts *f, sample_by by, val is_nan) {
  kernel *k = e->k;
  val one = k_eq(k, k->local, k_index(k, 0));
  k_if mine = k_if_begin(k, k_and(k, is_nan, one));
  val id = k_to_index(k, core_low(e, f->best));
  put_place(e, s, f, by, by == SAMPLE_BY_ID ? id : k_index(k, 0));
  k_if_end(k, &mine);
}

sn_status sample_find(emitter *e, const sampling *s, sample_by by) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  sn_dim n = places(s, &by);
  amount tiles = amount_tiles(&n, s->tile), rows = amount_of(&s->rows);
  finding w;
  w.array = k_shared(k, k->s.u64, 2 * k->threads);
  w.tile = k_shared(k, k->index, 1);
  w.before = k_shared(k, k->s.u64, 1);
  row_facts f = facts_of(e, s, by, k->group, w.array);
  val is_nan = k_ne(k, f.max, f.max);
  put_nan(e, s, &f, by, is_nan);
  k_if number = k_if_begin(k, k_not(k, is_nan)); /* the same for all threads */
  val count = k_amount(k, &tiles), sum = sum_all(e, s, &w, k->group, count);
  val limit = limit_of(e, s, by, k->group, sum), zero = k_index(k, 0), start, all;
  find_tile(e, s, &w, k->group, count, limit);
  val first = k_mul(k, k_shared_get(k, w.tile, zero), k_index(k, s->tile));
  val each = k_index(k, SAMPLE_EACH), from = k_add(k, first, k_mul(k, k->local, each));
  val end = k_min(k, k_add(k, from, each), f.n);
  val mine = sum_places(e, s, &f, by, from, end, k_index(k, 1));
  val before = k_shared_get(k, w.before, zero);
  k_if here = k_if_begin(k, passes(e, &w, before, mine, limit, &start, &all));
  val place = walk(e, s, &f, by, from, end, start, limit);
  put_place(e, s, &f, by, place);
  k_if_end(k, &here);
  k_if_end(k, &number);
  kernel_grid(k, 1, &rows);
  return emit_launch(e, true);
}
