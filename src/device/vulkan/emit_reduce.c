/* Reductions over the threads of a workgroup: by shuffles within subgroups, which are neighbouring threads, and through shared
 * memory between them. See emit.h. */
#include "device/vulkan/emit.h"

#include <math.h>

int emit_threads(const emitter *e) {
  const gpu_target *t = e->env.target;
  return t->units < 8 || t->max_threads < 256 ? 64 : 256;
}

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

/* Parts that a thread reads are every so many: few are read by every thread, many are shared out to the lanes of a subgroup once
 * more. */
static int readers_of(const bundles *b) {
  enum { FEW = 8 };
  int readers = b->parts <= FEW ? 1 : b->to / b->from;
  return readers < b->parts ? readers : b->parts;
}

/* The first part that this thread reads. */
static val first_part(emitter *e, const bundles *b, int readers) {
  kernel *k = e->k;
  if (readers == 1)
    return k_index(k, 0);
  return k_and(k, k_shr(k, k->local, __builtin_ctz((unsigned)b->from)), k_index(k, readers - 1));
}

static val read_parts(emitter *e, const row_threads *t, const bundles *b, val places,
                      reduce_kind kind, sn_dtype dtype) {
  kernel *k = e->k;
  int readers = readers_of(b);
  val first = first_part(e, b, readers), all = 0;
  for (int i = 0; i < b->parts; i += readers) {
    val n = i ? k_add(k, first, k_index(k, i)) : first;
    val next = shared_lane(e, t, dtype, part_at(e, t, b, places, n));
    all = all ? emit_combined(e, kind, dtype, all, next) : next;
  }
  return shuffled(e, kind, dtype, all, b->from, b->from * readers);
}

static void share_bundle(emitter *e, const row_threads *t, const bundles *b, val places,
                         const lanes_value *v) {
  kernel *k = e->k;
  val bundle = k_shr(k, k->local, __builtin_ctz((unsigned)b->width));
  val inside = k_and(k, k->local, k_index(k, b->width - 1));
  val at = k_add(k, k_mul(k, bundle, k_index(k, b->rows)), inside);
  k_shared_set(k, t->shared, k_add(k, at, places), to_bits(e, v->dtype, v->mine));
}

/* Whether this thread's subgroup has the first lane of a row. */
static val has_first(emitter *e, const row_threads *t) {
  kernel *k = e->k;
  int subgroup = e->env.target->subgroup;
  if (!t->columns)
    return k_lt(k, t->lane, k_index(k, subgroup));
  return k_lt(k, k->local, k_index(k, t->rows < subgroup ? subgroup : t->rows));
}

static void read_bundles(emitter *e, const row_threads *t, const bundles *b, int n,
                         lanes_value *values) {
  kernel *k = e->k;
  int each = b->parts * t->rows;
  k_if first = {0};
  val kept[EMIT_TOGETHER];
  bool some = t->by_first && n <= EMIT_TOGETHER;
  for (int i = 0; i < n && some; i++)
    kept[i] = k_var(k, values[i].mine);
  if (some)
    first = k_if_begin(k, has_first(e, t));
  for (int i = 0; i < n; i++) {
    val places = k_index(k, (int64_t)(t->taken + i) * each);
    values[i].mine = read_parts(e, t, b, places, values[i].kind, values[i].dtype);
    if (some)
      k_set(k, kept[i], values[i].mine);
  }
  if (some)
    k_if_end(k, &first);
  for (int i = 0; i < n && some; i++)
    values[i].mine = k_get(k, kept[i]);
}

/* Leaves what bundles have in shared memory, and waits. */
static void share_bundles(emitter *e, row_threads *t, const bundles *b, int n,
                          const lanes_value *values) {
  kernel *k = e->k;
  int each = b->parts * t->rows;
  if (!t->shared)
    t->shared = k_shared(k, k->s.u32, t->own ? t->own * each : each);
  val inside = k_and(k, k->local, k_index(k, b->width - 1));
  k_if first = k_if_begin(k, k_lt(k, inside, k_index(k, b->rows)));
  for (int i = 0; i < n; i++)
    share_bundle(e, t, b, k_index(k, (int64_t)(t->taken + i) * each), &values[i]);
  k_if_end(k, &first);
  k_barrier_shared(k);
}

static void leave_places(emitter *e, row_threads *t, int n) {
  if (t->own)
    t->taken += n;
  else
    k_barrier_shared(e->k);
}

void emit_reduce_values(emitter *e, row_threads *t, int n, lanes_value *values) {
  if (t->lanes == 1 || n == 0)
    return;
  bundles b = bundles_of(e, t);
  for (int i = 0; i < n; i++)
    values[i].mine = shuffled(e, values[i].kind, values[i].dtype, values[i].mine, b.from, b.to);
  if (b.parts == 1)
    return;
  share_bundles(e, t, &b, n, values);
  read_bundles(e, t, &b, n, values);
  leave_places(e, t, n);
}

val emit_reduce_lanes(emitter *e, row_threads *t, reduce_kind kind, sn_dtype dtype, val mine) {
  lanes_value one = {kind, dtype, mine};
  emit_reduce_values(e, t, 1, &one);
  return one.mine;
}

/* --- moments --- */

/* So many numbers: their sum, and the squares of what they differ from their mean by. */
typedef struct moments {
  int64_t n;
  val sum, squares;
} moments;

/* Of as many each: what their means differ by is what their sums do. */
static moments both_moments(emitter *e, moments a, moments b) {
  kernel *k = e->k;
  val apart = k_mul(k, k_sub(k, b.sum, a.sum), k_f32(k, (float)sqrt(0.5 / (double)a.n)));
  return (moments){a.n + b.n, k_add(k, a.sum, b.sum),
                   k_fma(k, apart, apart, k_add(k, a.squares, b.squares))};
}

static val other_lane(emitter *e, val x, int mask) {
  return from_bits(e, SN_F32, k_shuffle_xor(e->k, to_bits(e, SN_F32, x), mask));
}

static moments shuffled_moments(emitter *e, moments m, int from, int to) {
  for (int mask = from; mask < to; mask *= 2)
    m = both_moments(e, m,
                     (moments){m.n, other_lane(e, m.sum, mask), other_lane(e, m.squares, mask)});
  return m;
}

/* Of the parts that this thread reads: `count`, a power of two, from number i on, two by two. */
static moments read_part_moments(emitter *e, const row_threads *t, const bundles *b, int64_t n,
                                 int i, int count) {
  kernel *k = e->k;
  int readers = readers_of(b), each = b->parts * t->rows;
  if (count > 1) {
    moments low = read_part_moments(e, t, b, n, i, count / 2);
    return both_moments(e, low, read_part_moments(e, t, b, n, i + count / 2, count / 2));
  }
  val first = first_part(e, b, readers), places = k_index(k, (int64_t)t->taken * each);
  val at = part_at(e, t, b, places, i ? k_add(k, first, k_index(k, i * readers)) : first);
  val beside = k_add(k, at, k_index(k, each));
  return (moments){n, shared_lane(e, t, SN_F32, at), shared_lane(e, t, SN_F32, beside)};
}

static moments read_moments(emitter *e, const row_threads *t, const bundles *b, int64_t n) {
  int readers = readers_of(b);
  moments all = read_part_moments(e, t, b, n, 0, b->parts / readers);
  return shuffled_moments(e, all, b->from, b->from * readers);
}

void emit_reduce_moments(emitter *e, row_threads *t, int n, val *sum, val *squares) {
  bundles b = bundles_of(e, t);
  moments m = shuffled_moments(e, (moments){n, *sum, *squares}, b.from, b.to);
  if (b.parts > 1) {
    const lanes_value two[2] = {{REDUCE_SUM, SN_F32, m.sum}, {REDUCE_SUM, SN_F32, m.squares}};
    share_bundles(e, t, &b, 2, two);
    m = read_moments(e, t, &b, m.n);
    leave_places(e, t, 2);
  }
  *sum = m.sum;
  *squares = m.squares;
}
