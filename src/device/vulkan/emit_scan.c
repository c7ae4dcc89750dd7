/* SCAN: running sums and products along an axis. x is [outer, n, inner]; a line is what lies along n at one (outer, inner).
 *
 * Short lines: a thread takes one. Longer ones: a workgroup takes a chunk of one line, or of SCAN_LANES lines next to each other where
 * there are so many; tile after tile, each thread SCAN_EACH elements that follow each other, and what comes before them
 * by a scan over the threads. Lines of more than one chunk take two launches: what each chunk comes to, then each chunk from
 * what those before it come to. So the order of a sum depends on extents alone. */
#include "device/vulkan/emit_borders.h"
#include "device/vulkan/emit_core.h"

typedef struct scanning {
  const strided *x, *y;
  reduce_kind kind;
  sn_dtype dtype;
  bool exclusive, reverse;
  int threads, lanes;
  int64_t
      totals;    /* byte of scratch: what chunks come to, [lines][chunks]; -1: there is one chunk */
  sn_dim chunks; /* of the longest line */
} scanning;

static val joined(emitter *e, const void *user, val a, val b) {
  const scanning *s = user;
  return s->kind == REDUCE_SUM ? k_add(e->k, a, b) : k_mul(e->k, a, b);
}

static val neutral(emitter *e, const scanning *s) { return emit_neutral(e, s->kind, s->dtype); }

/* Coordinates of element i of the scan. */
static void place(emitter *e, const scanning *s, const val line[2], val i, val n, val *at) {
  kernel *k = e->k;
  at[0] = line[0];
  at[1] = s->reverse ? k_sub(k, k_sub(k, n, k_index(k, 1)), i) : i;
  at[2] = line[1];
}

/* One more element: stores what the scan says there; the new sum. */
static val advance(emitter *e, const scanning *s, const val *at, val before, val x) {
  val next = joined(e, s, before, x);
  core_store(e, s->y, at, s->exclusive ? before : next);
  return next;
}

/* --- short lines --- */

static sn_status scan_short(emitter *e, const scanning *s) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  sn_dim lines[2] = {s->x->dim[0], s->x->dim[2]};
  amount inner = amount_of(&lines[1]);
  val flat = k_add(k, k_mul(k, k->group, k_index(k, k->threads)), k->local), line[2], at[3];
  k_if inside = k_if_begin(k, k_lt(k, flat, k_sizes(k, 2, lines)));
  line[0] = k_divide(k, flat, &inner, &line[1]);
  val sum = k_var(k, neutral(e, s)), n = k_size(k, s->x->dim[1]), zero = k_index(k, 0);
  k_loop i = k_loop_begin(k, zero, n, k_index(k, 1));
  place(e, s, line, i.i, n, at);
  val x = core_load(e, s->x, at);
  k_set(k, sum, advance(e, s, at, k_get(k, sum), x));
  k_loop_end(k, &i);
  k_if_end(k, &inside);
  kernel_grid(k, 1, &(amount){2, k->threads, lines});
  return emit_launch(e, false);
}

/* --- chunks --- */

static int tile_of(const scanning *s) { return s->threads / s->lanes * SCAN_EACH; }
static int chunk_of(const scanning *s) { return tile_of(s) * SCAN_TILES; }

/* Where a workgroup and a thread stand. */
typedef struct spot {
  val line[2], lane, segment; /* segment: of the tile */
  val inside;                 /* the line is there */
  val number;                 /* of the line */
  val chunk, first, end, n;   /* elements of the chunk; of the line */
  val array;
} spot;

/* Workgroups: outer, then blocks of inner (SCAN_LANES) or inner, then chunks. */
static void find_spot(emitter *e, const scanning *s, const amount *blocks, const amount *chunks,
                      spot *w) {
  kernel *k = e->k;
  const sn_dim *dim = s->x->dim;
  val lines = k_divide(k, k->group, chunks, &w->chunk), block;
  w->line[0] = k_divide(k, lines, blocks, &block);
  w->lane = k_and(k, k->local, k_index(k, s->lanes - 1));
  w->segment = k_shr(k, k->local, __builtin_ctz((unsigned)s->lanes));
  w->line[1] = k_add(k, k_mul(k, block, k_index(k, s->lanes)), w->lane);
  val inner = k_size(k, dim[2]);
  w->inside = k_lt(k, w->line[1], inner);
  w->number = k_add(k, k_mul(k, w->line[0], inner), w->line[1]);
  val length = k_index(k, chunk_of(s));
  w->n = k_size(k, dim[1]);
  w->first = k_mul(k, w->chunk, length);
  w->end = k_min(k, k_add(k, w->first, length), w->n);
  w->array = k_shared(k, emit_lane_type(e, s->dtype), 2 * k->threads);
}

static val total_at(emitter *e, const scanning *s, const spot *w, val chunk) {
  return k_add(e->k, k_mul(e->k, w->number, k_size(e->k, s->chunks)), chunk);
}

/* What the chunks before this one come to: threads of a line share them out. */
static val before_chunk(emitter *e, const scanning *s, const spot *w) {
  kernel *k = e->k;
  val sum = k_var(k, neutral(e, s)), stride = k_index(k, k->threads / s->lanes), all;
  val address = k_scratch(k, s->totals);
  k_if inside = k_if_begin(k, w->inside);
  k_loop c = k_loop_begin(k, w->segment, w->chunk, stride);
  val at = total_at(e, s, w, c.i);
  val total = k_load(k, emit_lane_type(e, s->dtype), address, at);
  k_set(k, sum, joined(e, s, k_get(k, sum), total));
  k_loop_end(k, &c);
  k_if_end(k, &inside);
  core_scan_threads(e, k_get(k, sum), w->array, s->lanes, joined, s, &all);
  return all;
}

/* A thread's elements of a tile, which begins at `start`; neutral behind the end. Without branches, so that all are under way together:
 * what is outside is read from the last place inside. */
static void load_each(emitter *e, const scanning *s, const spot *w, val start, val *x) {
  kernel *k = e->k;
  val nothing = neutral(e, s), one = k_index(k, 1), last = k_sub(k, w->end, one), line[2];
  line[0] = w->line[0];
  line[1] = k_min(k, w->line[1], k_sub(k, k_size(k, s->x->dim[2]), one));
  for (int i = 0; i < SCAN_EACH; i++) {
    val at[3], index = k_add(k, start, k_index(k, i));
    val there = k_and(k, w->inside, k_le(k, index, last));
    place(e, s, line, k_min(k, index, last), w->n, at);
    x[i] = k_select(k, there, core_load(e, s->x, at), nothing);
  }
}

static void store_each(emitter *e, const scanning *s, const spot *w, val start, val before,
                       const val *x) {
  kernel *k = e->k;
  for (int i = 0; i < SCAN_EACH; i++) {
    val at[3], index = k_add(k, start, k_index(k, i));
    val there = k_and(k, w->inside, k_lt(k, index, w->end));
    val next = joined(e, s, before, x[i]);
    k_if inside = k_if_begin(k, there);
    place(e, s, w->line, index, w->n, at);
    core_store(e, s->y, at, s->exclusive ? before : next);
    k_if_end(k, &inside);
    before = next;
  }
}

/* What comes before a thread's elements within the tile; *all: the tile. */
static val before_thread(emitter *e, const scanning *s, const spot *w, const val *x, val *all) {
  kernel *k = e->k;
  val mine = x[0];
  for (int i = 1; i < SCAN_EACH; i++)
    mine = joined(e, s, mine, x[i]);
  /* Threads hand on what the ones before them have: the sum up to and with them is not theirs. */
  val upto = core_scan_threads(e, mine, w->array, s->lanes, joined, s, all);
  val nothing = neutral(e, s), zero = k_index(k, 0);
  k_shared_set(k, w->array, k->local, upto);
  k_barrier(k);
  k_if later = k_if_begin(k, k_lt(k, zero, w->segment));
  val previous = k_shared_get(k, w->array, k_sub(k, k->local, k_index(k, s->lanes)));
  previous = k_if_value(k, &later, previous, nothing);
  k_barrier(k);
  return previous;
}

/* A chunk: stores its elements, or what it comes to (`total`). */
static sn_status scan_chunks(emitter *e, const scanning *s, bool total, bool carried) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const sn_dim *dim = s->x->dim;
  amount blocks = amount_tiles(&dim[2], s->lanes), chunks = amount_tiles(&dim[1], chunk_of(s));
  spot w;
  find_spot(e, s, &blocks, &chunks, &w);
  val carry = k_var(k, carried ? before_chunk(e, s, &w) : neutral(e, s));
  k_loop tile = k_loop_begin(k, w.first, w.end, k_index(k, tile_of(s)));
  val x[SCAN_EACH], all, start = k_add(k, tile.i, k_mul(k, w.segment, k_index(k, SCAN_EACH)));
  load_each(e, s, &w, start, x);
  val before = before_thread(e, s, &w, x, &all), so_far = k_get(k, carry);
  if (!total)
    store_each(e, s, &w, start, joined(e, s, so_far, before), x);
  k_set(k, carry, joined(e, s, so_far, all));
  k_loop_end(k, &tile);
  if (total) {
    val one = k_eq(k, w.segment, k_index(k, 0));
    k_if writes = k_if_begin(k, k_and(k, w.inside, one));
    val at = total_at(e, s, &w, w.chunk), address = k_scratch(k, s->totals);
    k_store(k, address, at, k_get(k, carry));
    k_if_end(k, &writes);
  }
  kernel_grid(k, 3, (amount[]){amount_of(&dim[0]), blocks, chunks});
  if (s->totals < 0)
    return emit_launch(e, false);
  amount n = amount_of(&dim[1]);
  return emit_launch_when(e, carried, &n, carried || total ? chunk_of(s) + 1 : 0,
                          carried || total ? INT64_MAX : chunk_of(s));
}

sn_status emit_scan(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  scanning s = {.x = &c->in[0],
                .y = &c->out[0],
                .kind = c->ints[0] ? REDUCE_PROD : REDUCE_SUM,
                .dtype = (sn_dtype)c->in[0].dtype,
                .exclusive = c->ints[1] != 0,
                .reverse = c->ints[2] != 0,
                .threads = core_threads(e),
                .totals = -1};
  int64_t longest = size_most(&e->env, s.x->dim[1]), inner = size_most(&e->env, s.x->dim[2]);
  if (longest <= SCAN_SHORT)
    return scan_short(e, &s);
  s.lanes = inner >= SCAN_LANES_LEAST ? SCAN_LANES : 1;
  if (longest <= chunk_of(&s))
    return scan_chunks(e, &s, false, false);
  s.chunks = (longest + chunk_of(&s) - 1) / chunk_of(&s);
  s.totals = scratch_take(&e->env, size_most(&e->env, s.x->dim[0]) * inner * s.chunks * 4);
  if (!dim_is_number(s.x->dim[1]))
    SN_TRY(scan_chunks(e, &s, false, false));
  SN_TRY(scan_chunks(e, &s, true, false));
  return scan_chunks(e, &s, false, true);
}
