/* SCATTER: values written into, or added to, a base, in index order: duplicates add up in that order, or the last of them stays.
 * Indices outside are left out. Sums of f16 and bf16 run in f32 and are rounded once.
 *
 * A slice is what indices point into: all of it for rows, one (outer, inner) along an axis. No two threads write an element: of the
 * entries of a slice that have the same index, one is the owner (the first for sums, the last otherwise). A few entries find
 * that out by looking at all others. Many are put in order first, by index and place; then equal ones stand next to
 * each other. */
#include "device/vulkan/emit_order.h"

typedef struct scattering {
  const strided *base, *index, *value, *to;
  bool add, along;
  sn_dim m; /* entries of a slice */
} scattering;

/* An entry at work: coordinates of its slice (along) or its column (rows), and its slice's number. */
typedef struct entry {
  val outer, inner, column, slice;
} entry;

static val index_at(emitter *e, const scattering *s, const entry *x, val i) {
  val rows[1] = {i}, along[3] = {x->outer, i, x->inner};
  return core_load(e, s->index, s->along ? along : rows);
}

static val value_at(emitter *e, const scattering *s, const entry *x, val i) {
  val rows[2] = {i, x->column}, along[3] = {x->outer, i, x->inner};
  return core_load(e, s->value, s->along ? along : rows);
}

static val result_at(emitter *e, const scattering *s, const entry *x, val row) {
  val rows[2] = {row, x->column}, along[3] = {x->outer, row, x->inner};
  return core_load(e, s->to, s->along ? along : rows);
}

static void put(emitter *e, const scattering *s, const entry *x, val row, val lane) {
  val rows[2] = {row, x->column}, along[3] = {x->outer, row, x->inner};
  core_store(e, s->to, s->along ? along : rows, lane);
}

/* Whether an index (i32) lies in the slice: as an unsigned number it is below their number. */
static val is_valid(emitter *e, const scattering *s, val index) {
  kernel *k = e->k;
  val rows = k_size(k, s->to->dim[s->along ? 1 : 0]);
  if (k->env->wide)
    rows = k_min(k, rows, k_index(k, INT64_C(1) << 31));
  val all = k_to_u32(k, rows);
  return k_lt(k, k_bits(k, index, k->s.u32), all);
}

/* One thread for each of n entries (or chunks of them) of each slice and each column, along the last axis first. Opens a condition: the
 * thread has one, number *i. */
static k_if find_entry(emitter *e, const scattering *s, const sn_dim *n, entry *x, val *i) {
  kernel *k = e->k;
  const strided *v = s->value;
  sn_dim all[3] = {v->dim[0], *n, v->dim[2]}, rows[2] = {*n, v->dim[1]};
  amount last = amount_of(&v->dim[v->rank - 1]), each = amount_of(n);
  val flat = k_add(k, k_mul(k, k->group, k_index(k, k->threads)), k->local);
  k_if inside = k_if_begin(k, k_lt(k, flat, k_sizes(k, v->rank, s->along ? all : rows)));
  *x = (entry){0};
  if (s->along) {
    val rest = k_divide(k, flat, &last, &x->inner);
    x->outer = k_divide(k, rest, &each, i);
    x->slice = k_add(k, k_mul(k, x->outer, k_size(k, v->dim[2])), x->inner);
  } else {
    *i = k_divide(k, flat, &last, &x->column);
    x->slice = k_index(k, 0);
  }
  return inside;
}

static void add_grid(emitter *e, const scattering *s, const sn_dim *n) {
  const strided *v = s->value;
  sn_dim all[3] = {v->dim[0], *n, v->dim[2]}, rows[2] = {*n, v->dim[1]};
  kernel_grid(e->k, 1, &(amount){v->rank, e->k->threads, s->along ? all : rows});
}

/* --- the base --- */

/* Whether the base is in the result's memory already. An output that is in place of a value of the arena is not. */
static bool is_in_place(const emitter *e, const scattering *s) {
  const program_value *values = e->env.program->values;
  const program_value *from = &values[s->base->value], *to = &values[s->to->value];
  bool placed = to->home == HOME_ARENA || to->home == HOME_PREPARED;
  return s->base->value == s->to->value ||
         (from->home == to->home &&
          (placed ? from->offset == to->offset && from->bytes > 0 : from->index == to->index));
}

static sn_status copy_base(emitter *e, const scattering *s) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const strided *to = s->to;
  val at[3], flat = k_add(k, k_mul(k, k->group, k_index(k, k->threads)), k->local);
  k_if inside = k_if_begin(k, k_lt(k, flat, k_sizes(k, to->rank, to->dim)));
  for (int d = to->rank - 1; d > 0; d--) {
    amount by = amount_of(&to->dim[d]);
    flat = k_divide(k, flat, &by, &at[d]);
  }
  at[0] = flat;
  core_store(e, to, at, core_load(e, s->base, at));
  k_if_end(k, &inside);
  kernel_grid(k, 1, &(amount){to->rank, k->threads, to->dim});
  return emit_launch(e, false);
}

/* --- few entries --- */

/* Whether one of the entries from … to-1 has this index. */
static val is_among(emitter *e, const scattering *s, const entry *x, val from, val to, val index) {
  kernel *k = e->k;
  val found = k_var(k, k_bool(k, false));
  k_loop i = k_loop_begin(k, from, to, k_index(k, 1));
  val same = k_eq(k, index_at(e, s, x, i.i), index);
  k_set(k, found, same);
  k_loop_break(k, &i, same);
  k_loop_end(k, &i);
  return k_get(k, found);
}

static void add_others(emitter *e, const scattering *s, const entry *x, val from, val index,
                       val sum) {
  kernel *k = e->k;
  k_loop i = k_loop_begin(k, from, k_size(k, s->m), k_index(k, 1));
  k_if same = k_if_begin(k, k_eq(k, index_at(e, s, x, i.i), index));
  val value = value_at(e, s, x, i.i);
  k_set(k, sum, k_add(k, k_get(k, sum), value));
  k_if_end(k, &same);
  k_loop_end(k, &i);
}

static sn_status scatter_few(emitter *e, const scattering *s, bool after) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  entry x;
  val i;
  k_if inside = find_entry(e, s, &s->m, &x, &i);
  val index = index_at(e, s, &x, i), row = k_to_index(k, index), one = k_index(k, 1);
  k_if valid = k_if_begin(k, is_valid(e, s, index));
  val next = k_add(k, i, one), zero = k_index(k, 0), m = k_size(k, s->m);
  val other = is_among(e, s, &x, s->add ? zero : next, s->add ? i : m, index);
  k_if owner = k_if_begin(k, k_not(k, other));
  val mine = value_at(e, s, &x, i);
  if (s->add) {
    val sum = k_var(k, k_add(k, result_at(e, s, &x, row), mine));
    add_others(e, s, &x, next, index, sum);
    mine = k_get(k, sum);
  }
  put(e, s, &x, row, mine);
  k_if_end(k, &owner);
  k_if_end(k, &valid);
  k_if_end(k, &inside);
  add_grid(e, s, &s->m);
  amount m_amount = amount_of(&s->m);
  return emit_launch_when(e, after, &m_amount, 0, SCATTER_FEW);
}

/* --- many --- */

static val item_of(emitter *e, void *user, val slice, val i) {
  const scattering *s = user;
  kernel *k = e->k;
  entry x = {0};
  if (s->along) {
    amount inner = amount_of(&s->to->dim[2]);
    x.outer = k_divide(k, slice, &inner, &x.inner);
  }
  val index = index_at(e, s, &x, i), none = k_u32(k, UINT32_MAX);
  val valid = is_valid(e, s, index), key = k_bits(k, index, k->s.u32);
  key = k_select(k, valid, key, none);
  return core_pair(e, key, k_to_u32(k, i));
}

static val key_at(emitter *e, const order_list *l, const entry *x, val i) {
  return core_high(e, emit_order_item(e, l, x->slice, i));
}

/* Whether item i of the order, which may not be there, has this key. */
static val has_key(emitter *e, const scattering *s, const order_list *l, const entry *x, val i,
                   val key) {
  kernel *k = e->k;
  val zero = k_index(k, 0), no = k_bool(k, false), low = k_ge(k, i, zero);
  val high = k_lt(k, i, k_size(k, s->m));
  k_if there = k_if_begin(k, k_and(k, low, high));
  val same = k_eq(k, key_at(e, l, x, i), key);
  return k_if_value(k, &there, same, no);
}

static val is_key(emitter *e, val key) { return k_ne(e->k, key, k_u32(e->k, UINT32_MAX)); }

/* The last of the entries that have the same index stays. */
static sn_status set_last(emitter *e, const scattering *s, const order_job *j,
                          const order_list *l) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  entry x;
  val i;
  k_if inside = find_entry(e, s, &s->m, &x, &i);
  val item = emit_order_item(e, l, x.slice, i), key = core_high(e, item), valid = is_key(e, key);
  val next = k_add(k, i, k_index(k, 1)), more = has_key(e, s, l, &x, next, key);
  k_if owner = k_if_begin(k, k_and(k, valid, k_not(k, more)));
  val value = value_at(e, s, &x, k_to_index(k, core_low(e, item)));
  put(e, s, &x, k_to_index(k, key), value);
  k_if_end(k, &owner);
  k_if_end(k, &inside);
  add_grid(e, s, &s->m);
  return emit_order_add(e, j, true);
}

/* --- sums of many --- */

/* Entries in order are cut into chunks, so that many with one index are no long way for one thread. A run is those of one index. Runs
 * within a chunk are added to the result at once. Of one that goes on, the chunk where it begins leaves a `tail`, the
 * others a `head`; a second launch adds these up, in their order. */
typedef struct chunks {
  const scattering *s;
  const order_list *l;
  sn_dim count;       /* of a slice */
  int64_t head, tail; /* bytes of scratch: [slices][count][columns] */
} chunks;

/* The number of a chunk's sum in scratch. */
static val sum_at(emitter *e, const chunks *c, const entry *x, val chunk) {
  kernel *k = e->k;
  val at = k_add(k, k_mul(k, x->slice, k_size(k, c->count)), chunk);
  if (c->s->along)
    return at;
  return k_add(k, k_mul(k, at, k_size(k, c->s->to->dim[1])), x->column);
}

static void add_to(emitter *e, const scattering *s, const entry *x, val key, val sum) {
  kernel *k = e->k;
  k_if valid = k_if_begin(k, is_key(e, key));
  val row = k_to_index(k, key);
  put(e, s, x, row, k_add(k, result_at(e, s, x, row), sum));
  k_if_end(k, &valid);
}

/* A thread on its way through a chunk: variables. */
typedef struct walk {
  val key, sum, started; /* started: the run began in this chunk */
} walk;

/* The run ends here, or (ended false) goes on in the next chunk. */
static void flush(emitter *e, const chunks *c, const entry *x, const walk *w, val chunk,
                  val ended) {
  kernel *k = e->k;
  val sum = k_get(k, w->sum), started = k_get(k, w->started);
  k_if whole = k_if_begin(k, k_and(k, started, ended));
  add_to(e, c->s, x, k_get(k, w->key), sum);
  k_if_else(k, &whole);
  val at = sum_at(e, c, x, chunk), head = k_scratch(k, c->head), tail = k_scratch(k, c->tail);
  k_store(k, k_select(k, started, tail, head), at, sum);
  k_if_end(k, &whole);
}

static void take(emitter *e, const chunks *c, const entry *x, const walk *w, val chunk, val key,
                 val value) {
  kernel *k = e->k;
  val zero = emit_number(e, (sn_dtype)c->s->to->dtype, 0), yes = k_bool(k, true);
  k_if other = k_if_begin(k, k_ne(k, key, k_get(k, w->key)));
  flush(e, c, x, w, chunk, yes);
  k_set(k, w->key, key);
  k_set(k, w->sum, zero);
  k_set(k, w->started, yes);
  k_if_end(k, &other);
  k_set(k, w->sum, k_add(k, k_get(k, w->sum), value));
}

/* Entries first … end-1; loads of some are under way together. */
static void walk_chunk(emitter *e, const chunks *c, const entry *x, const walk *w, val chunk,
                       val first, val end) {
  kernel *k = e->k;
  val last = k_sub(k, end, k_index(k, 1)), key[SCATTER_TOGETHER], value[SCATTER_TOGETHER];
  k_loop i = k_loop_begin(k, first, end, k_index(k, SCATTER_TOGETHER));
  for (int n = 0; n < SCATTER_TOGETHER; n++) {
    val at = k_min(k, k_add(k, i.i, k_index(k, n)), last);
    val item = emit_order_item(e, c->l, x->slice, at);
    key[n] = core_high(e, item);
    value[n] = value_at(e, c->s, x, k_to_index(k, core_low(e, item)));
  }
  for (int n = 0; n < SCATTER_TOGETHER; n++) {
    val at = k_add(k, i.i, k_index(k, n));
    k_if there = k_if_begin(k, k_le(k, at, last));
    take(e, c, x, w, chunk, key[n], value[n]);
    k_if_end(k, &there);
  }
  k_loop_end(k, &i);
}

static sn_status sum_chunks(emitter *e, const chunks *c, const order_job *j) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const scattering *s = c->s;
  entry x;
  val chunk;
  k_if inside = find_entry(e, s, &c->count, &x, &chunk);
  val size = k_index(k, SCATTER_CHUNK), first = k_mul(k, chunk, size), m = k_size(k, s->m);
  val one = k_index(k, 1), end = k_min(k, k_add(k, first, size), m);
  k_if any = k_if_begin(k, k_lt(k, first, m));
  val key = key_at(e, c->l, &x, first);
  val continues = has_key(e, s, c->l, &x, k_sub(k, first, one), key);
  walk w = {.key = k_var(k, key), .sum = k_var(k, emit_number(e, (sn_dtype)s->to->dtype, 0))};
  w.started = k_var(k, k_not(k, continues));
  walk_chunk(e, c, &x, &w, chunk, first, end);
  val goes_on = has_key(e, s, c->l, &x, end, k_get(k, w.key));
  flush(e, c, &x, &w, chunk, k_not(k, goes_on));
  k_if_end(k, &any);
  k_if_end(k, &inside);
  add_grid(e, s, &c->count);
  return emit_order_add(e, j, true);
}

/* The run that begins in a chunk and goes on behind it. */
static void join_run(emitter *e, const chunks *c, const entry *x, val chunk, val key) {
  kernel *k = e->k;
  const scattering *s = c->s;
  spirv_id type = emit_lane_type(e, (sn_dtype)s->to->dtype);
  val head = k_scratch(k, c->head), tail = k_scratch(k, c->tail), one = k_index(k, 1);
  val sum = k_var(k, k_load(k, type, tail, sum_at(e, c, x, chunk)));
  k_loop i = k_loop_begin(k, k_add(k, chunk, one), k_size(k, c->count), one);
  val more = k_load(k, type, head, sum_at(e, c, x, i.i));
  k_set(k, sum, k_add(k, k_get(k, sum), more));
  val next = k_mul(k, k_add(k, i.i, one), k_index(k, SCATTER_CHUNK));
  val ends = k_not(k, has_key(e, s, c->l, x, next, key));
  val last = k_not(k, has_key(e, s, c->l, x, k_sub(k, next, one), key));
  k_loop_break(k, &i, k_or(k, ends, last));
  k_loop_end(k, &i);
  add_to(e, s, x, key, k_get(k, sum));
}

static sn_status join_chunks(emitter *e, const chunks *c, const order_job *j) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const scattering *s = c->s;
  entry x;
  val chunk;
  k_if inside = find_entry(e, s, &c->count, &x, &chunk);
  val size = k_index(k, SCATTER_CHUNK), first = k_mul(k, chunk, size), one = k_index(k, 1);
  val end = k_add(k, first, size);
  k_if more = k_if_begin(k, k_lt(k, end, k_size(k, s->m)));
  val key = key_at(e, c->l, &x, k_sub(k, end, one));
  val goes_on = has_key(e, s, c->l, &x, end, key), here = has_key(e, s, c->l, &x, first, key);
  val before = has_key(e, s, c->l, &x, k_sub(k, first, one), key);
  val began = k_not(k, k_and(k, here, before));
  k_if mine = k_if_begin(k, k_and(k, goes_on, began));
  join_run(e, c, &x, chunk, key);
  k_if_end(k, &mine);
  k_if_end(k, &more);
  k_if_end(k, &inside);
  add_grid(e, s, &c->count);
  return emit_order_add(e, j, true);
}

static sn_status add_many(emitter *e, const scattering *s, const order_job *j,
                          const order_list *l) {
  chunks c = {
      .s = s, .l = l, .count = (size_most(&e->env, s->m) + SCATTER_CHUNK - 1) / SCATTER_CHUNK};
  int64_t slices = sizes_most(&e->env, j->n_rows, j->rows);
  int64_t columns = s->along ? 1 : size_most(&e->env, s->to->dim[1]);
  c.head = scratch_take(&e->env, slices * c.count * columns * 4);
  c.tail = scratch_take(&e->env, slices * c.count * columns * 4);
  SN_TRY(sum_chunks(e, &c, j));
  return join_chunks(e, &c, j);
}

sn_status emit_scatter(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  bool along = c->ints[1] == 1;
  scattering s = {.base = &c->in[0],
                  .index = &c->in[1],
                  .value = &c->in[2],
                  .to = &c->out[0],
                  .add = c->ints[0] != 0,
                  .along = along,
                  .m = c->in[1].dim[along ? 1 : 0]};
  bool copy = !is_in_place(e, &s);
  if (copy)
    SN_TRY(copy_base(e, &s));
  if (!dim_is_number(s.m) || s.m <= SCATTER_FEW)
    SN_TRY(scatter_few(e, &s, copy));
  if (size_most(&e->env, s.m) <= SCATTER_FEW)
    return SN_OK;
  order_job j = {.n_rows = along ? 2 : 0,
                 .rows = {c->out[0].dim[0], c->out[0].dim[2]},
                 .n = s.m,
                 .item = item_of,
                 .user = &s,
                 .after = copy,
                 .when = amount_of(&s.m),
                 .least = SCATTER_FEW + 1,
                 .most = INT64_MAX};
  order_list l;
  SN_TRY(emit_order_sort(e, &j, &l));
  return s.add ? add_many(e, &s, &j, &l) : set_last(e, &s, &j, &l);
}
