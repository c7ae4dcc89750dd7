/* Reductions over the threads of a workgroup: by shuffles within subgroups, which are neighbouring threads, and through shared
 * memory between them. See emit.h. */
#include "device/vulkan/emit.h"

int emit_threads(const emitter *e) { return e->env.target->units < 8 ? 64 : 256; }

row_threads emit_row_threads(emitter *e, int lanes, bool columns) {
  kernel *k = e->k;
  row_threads t = {.lanes = lanes, .rows = k->threads / lanes, .columns = columns};
  if (t.rows == 1 || lanes == 1) {
    val zero = k_index(k, 0);
    t.lane = lanes == 1 ? zero : k->local;
    t.row = lanes == 1 ? k->local : zero;
    return t;
  }
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

/* Threads of a subgroup whose numbers differ in the bits below `to`, down to the bit `from`: all get what they have together. */
static val shuffled(emitter *e, reduce_kind kind, sn_dtype dtype, val mine, int from, int to) {
  for (int mask = from; mask < to; mask *= 2) {
    val other = from_bits(e, dtype, k_shuffle_xor(e->k, to_bits(e, dtype, mine), mask));
    mine = emit_combined(e, kind, dtype, mine, other);
  }
  return mine;
}

/* How a row's lanes lie in the workgroup. A bundle is some neighbouring threads, which have one value of each of their rows once
 * the threads of subgroups have put theirs together. */
typedef struct bundles {
  int from, to; /* bits of a thread's number that tell lanes of one row in one subgroup apart */
  int width;    /* threads of a bundle */
  int rows;     /* that it has */
  int parts;    /* bundles that a row has */
} bundles;

static bundles bundles_of(const emitter *e, const row_threads *t) {
  int subgroup = e->env.target->subgroup, threads = t->lanes * t->rows;
  if (!t->columns) {
    int width = t->lanes < subgroup ? t->lanes : subgroup;
    return (bundles){1, width, width, 1, t->lanes / width};
  }
  int width = t->rows < subgroup ? subgroup : t->rows;
  width = width < threads ? width : threads;
  return (bundles){t->rows, width, width, t->rows, threads / width};
}

/* Where in shared memory part n of this thread's row is. */
static val part_at(emitter *e, const row_threads *t, const bundles *b, val places, val n) {
  kernel *k = e->k;
  val at = t->columns ? k_add(k, k_mul(k, n, k_index(k, t->rows)), t->row)
                      : k_add(k, k_mul(k, t->row, k_index(k, b->parts)), n);
  return k_add(k, at, places);
}

/* Few parts every thread reads all of; many are shared out to the lanes of a subgroup once more. */
static val read_parts(emitter *e, const row_threads *t, const bundles *b, val places,
                      reduce_kind kind, sn_dtype dtype) {
  enum { FEW = 8 };
  kernel *k = e->k;
  int readers = b->parts <= FEW ? 1 : b->to / b->from;
  readers = readers < b->parts ? readers : b->parts;
  val first = k_index(k, 0), all = 0;
  if (readers > 1) {
    first = k_shr(k, k->local, __builtin_ctz((unsigned)b->from));
    first = k_and(k, first, k_index(k, readers - 1));
  }
  for (int i = 0; i < b->parts; i += readers) {
    val n = i ? k_add(k, first, k_index(k, i)) : first;
    val next = shared_lane(e, t, dtype, part_at(e, t, b, places, n));
    all = all ? emit_combined(e, kind, dtype, all, next) : next;
  }
  return shuffled(e, kind, dtype, all, b->from, b->from * readers);
}

static val reduce_bundles(emitter *e, row_threads *t, const bundles *b, reduce_kind kind,
                          sn_dtype dtype, val mine) {
  kernel *k = e->k;
  int each = b->parts * t->rows;
  if (!t->shared)
    t->shared = k_shared(k, k->s.u32, t->own ? t->own * each : each);
  val places = k_index(k, (int64_t)t->taken * each);
  val bundle = k_shr(k, k->local, __builtin_ctz((unsigned)b->width));
  val inside = k_and(k, k->local, k_index(k, b->width - 1));
  k_if first = k_if_begin(k, k_lt(k, inside, k_index(k, b->rows)));
  val at = k_add(k, k_mul(k, bundle, k_index(k, b->rows)), inside);
  k_shared_set(k, t->shared, k_add(k, at, places), to_bits(e, dtype, mine));
  k_if_end(k, &first);
  k_barrier_shared(k);
  val all = read_parts(e, t, b, places, kind, dtype);
  if (t->own)
    t->taken++;
  else
    k_barrier_shared(k);
  return all;
}

val emit_reduce_lanes(emitter *e, row_threads *t, reduce_kind kind, sn_dtype dtype, val mine) {
  if (t->lanes == 1)
    return mine;
  bundles b = bundles_of(e, t);
  mine = shuffled(e, kind, dtype, mine, b.from, b.to);
  return b.parts > 1 ? reduce_bundles(e, t, &b, kind, dtype, mine) : mine;
}
