/* Reductions over the threads of a workgroup: by shuffles within subgroups, which are neighbouring threads, and through shared
 * memory between them. See emit.h. */
#include "device/vulkan/emit.h"

int emit_threads(const emitter *e) { return e->env.target->units < 8 ? 64 : 256; }

row_threads emit_row_threads(emitter *e, int lanes, bool columns) {
  kernel *k = e->k;
  row_threads t = {.lanes = lanes, .rows = k->threads / lanes, .columns = columns};
  int by = columns ? t.rows : t.lanes, shift = __builtin_ctz((unsigned)by);
  val low = k_and(k, k->local, k_index(k, by - 1)), high = k_shr(k, k->local, shift);
  t.lane = columns ? high : low;
  t.row = columns ? low : high;
  return t;
}

static val to_bits(emitter *e, sn_dtype dtype, val x) {
  kernel *k = e->k;
  if (dtype == SN_BOOL)
    return k_select(k, x, k_u32(k, 1), k_u32(k, 0));
  return k_bits(k, x, k->s.u32);
}

static val from_bits(emitter *e, sn_dtype dtype, val x) {
  kernel *k = e->k;
  if (dtype == SN_BOOL)
    return k_ne(k, x, k_u32(k, 0));
  return k_bits(k, x, emit_lane_type(e, dtype));
}

static val shared_lane(emitter *e, const row_threads *t, sn_dtype dtype, val at) {
  return from_bits(e, dtype, k_shared_get(e->k, t->shared, at));
}

/* Lanes of a row stand `rows` apart: a tree in shared memory. */
static val reduce_columns(emitter *e, const row_threads *t, reduce_kind kind, sn_dtype dtype,
                          val mine) {
  kernel *k = e->k;
  k_shared_set(k, t->shared, k->local, to_bits(e, dtype, mine));
  k_barrier_shared(k);
  for (int half = t->lanes / 2; half > 0; half /= 2) {
    k_if active = k_if_begin(k, k_lt(k, t->lane, k_index(k, half)));
    val a = shared_lane(e, t, dtype, k->local);
    val b = shared_lane(e, t, dtype, k_add(k, k->local, k_index(k, half * t->rows)));
    k_shared_set(k, t->shared, k->local, to_bits(e, dtype, emit_combined(e, kind, dtype, a, b)));
    k_if_end(k, &active);
    k_barrier_shared(k);
  }
  val all = shared_lane(e, t, dtype, t->row);
  k_barrier_shared(k);
  return all;
}

/* Each subgroup's part of a row, put together in order by every thread. */
static val reduce_subgroups(emitter *e, row_threads *t, reduce_kind kind, sn_dtype dtype, val mine,
                            int width) {
  kernel *k = e->k;
  int parts = t->lanes / width, shift = __builtin_ctz((unsigned)width);
  val places = k_index(k, (int64_t)t->taken * (k->threads / width));
  val number = k_add(k, k_shr(k, k->local, shift), places);
  val inside = k_and(k, k->local, k_index(k, width - 1));
  k_if first = k_if_begin(k, k_eq(k, inside, k_index(k, 0)));
  k_shared_set(k, t->shared, number, to_bits(e, dtype, mine));
  k_if_end(k, &first);
  k_barrier_shared(k);
  val from = k_add(k, k_mul(k, t->row, k_index(k, parts)), places);
  val all = shared_lane(e, t, dtype, from);
  for (int i = 1; i < parts; i++) {
    val next = shared_lane(e, t, dtype, k_add(k, from, k_index(k, i)));
    all = emit_combined(e, kind, dtype, all, next);
  }
  if (t->own)
    t->taken++;
  else
    k_barrier_shared(k);
  return all;
}

static void make_shared(emitter *e, row_threads *t, int width) {
  kernel *k = e->k;
  int own = t->own * (k->threads / width);
  if (!t->shared)
    t->shared = k_shared(k, k->s.u32, t->columns || !own ? k->threads : own);
}

val emit_reduce_lanes(emitter *e, row_threads *t, reduce_kind kind, sn_dtype dtype, val mine) {
  kernel *k = e->k;
  if (t->lanes == 1)
    return mine;
  int subgroup = e->env.target->subgroup, width = t->lanes < subgroup ? t->lanes : subgroup;
  if (t->columns || t->lanes > width)
    make_shared(e, t, width);
  if (t->columns)
    return reduce_columns(e, t, kind, dtype, mine);
  for (int mask = 1; mask < width; mask *= 2) {
    val other = from_bits(e, dtype, k_shuffle_xor(k, to_bits(e, dtype, mine), mask));
    mine = emit_combined(e, kind, dtype, mine, other);
  }
  return t->lanes > width ? reduce_subgroups(e, t, kind, dtype, mine, width) : mine;
}
