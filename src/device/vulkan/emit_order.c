/* See emit_order.h. */
#include "device/vulkan/emit_order.h"

sn_status emit_order_add(emitter *e, const order_job *j, bool after) {
  return j->when.n > 0 ? emit_launch_when(e, after, &j->when, j->least, j->most)
                       : emit_launch(e, after);
}

/* --- keys --- */

static val float_key(emitter *e, val x) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), top = k_u32(k, 0x80000000u);
  x = k_select(k, k_eq(k, x, zero), zero, x);
  val bits = k_bits(k, x, k->s.u32), negative = k_ge(k, bits, top);
  val flipped = k_not(k, bits), raised = k_or(k, bits, top);
  val key = k_select(k, negative, flipped, raised);
  val magnitude = k_and(k, bits, k_u32(k, 0x7fffffffu));
  val number = k_le(k, magnitude, k_u32(k, 0x7f800000u));
  return k_select(k, number, key, k_u32(k, UINT32_MAX));
}

val emit_order_key(emitter *e, sn_dtype dtype, val lane) {
  kernel *k = e->k;
  if (dtype_is_float(dtype))
    return float_key(e, lane);
  if (dtype == SN_I32 || dtype == SN_U8)
    return k_xor(k, k_bits(k, lane, k->s.u32), k_u32(k, 0x80000000u));
  val one = k_u32(k, 1), zero = k_u32(k, 0);
  return k_select(k, lane, one, zero);
}

/* --- lists --- */

static val list_at(emitter *e, const order_list *l, val row, val i) {
  val start = k_mul(e->k, row, k_size(e->k, l->pitch));
  return k_add(e->k, start, i);
}

val emit_order_item(emitter *e, const order_list *l, val row, val i) {
  val at = list_at(e, l, row, i);
  return k_load(e->k, e->k->s.u64, k_scratch(e->k, l->byte), at);
}

static void list_put(emitter *e, const order_list *l, val row, val i, val item) {
  val at = list_at(e, l, row, i);
  k_store(e->k, k_scratch(e->k, l->byte), at, item);
}

static order_list take_list(emitter *e, const order_job *j, int64_t n) {
  int64_t bytes = sizes_most(&e->env, j->n_rows, j->rows) * n * 8;
  return (order_list){.byte = scratch_take(&e->env, bytes), .pitch = n};
}

/* --- a block --- */

/* A power of two: of a workgroup's shared memory, no more than the longest row has use for. */
static int block_size(const emitter *e, sn_dim n) {
  int64_t most = size_most(&e->env, n);
  int size = ORDER_BLOCK_LEAST, room = e->env.target->shared_bytes / 8;
  while (size < most && size < ORDER_BLOCK && 2 * size <= room)
    size *= 2;
  return size;
}

bool emit_order_is_short(const emitter *e, sn_dim n) {
  return size_most(&e->env, n) <= block_size(e, n);
}

/* How many stages sort n items: the least s with 2^s >= n. */
static val stages_of(emitter *e, val n, int block) {
  kernel *k = e->k;
  val stages = k_index(k, 0), one = k_index(k, 1), zero = stages;
  for (int size = 1; size < block; size *= 2) {
    val more = k_lt(k, k_index(k, size), n);
    stages = k_add(k, stages, k_select(k, more, one, zero));
  }
  return stages;
}

/* Items a and a + distance in order: the lesser one first, or last where bit `stage` of a is set. */
static void exchange(emitter *e, val items, val pair, val stage, val bit) {
  kernel *k = e->k;
  val one = k_index(k, 1), distance = core_shl(e, one, bit);
  val low = k_and(k, pair, k_sub(k, distance, one)), high = k_sub(k, pair, low);
  val a = k_add(k, k_shl(k, high, 1), low), b = k_add(k, a, distance);
  val x = k_shared_get(k, items, a), y = k_shared_get(k, items, b);
  val falls = k_eq(k, k_and(k, core_shr(e, a, stage), one), one);
  val greater = k_lt(k, y, x), swap = k_xor(k, greater, falls);
  val first = k_select(k, swap, y, x), second = k_select(k, swap, x, y);
  k_shared_set(k, items, a, first);
  k_shared_set(k, items, b, second);
}

static void sort_shared(emitter *e, val items, val n, int block) {
  kernel *k = e->k;
  val one = k_index(k, 1), zero = k_index(k, 0), pairs = k_index(k, block / 2);
  val threads = k_index(k, k->threads), end = k_add(k, stages_of(e, n, block), one);
  k_loop stage = k_loop_begin(k, one, end, one);
  k_loop below = k_loop_begin(k, zero, stage.i, one);
  val bit = k_sub(k, k_sub(k, stage.i, one), below.i);
  k_loop pair = k_loop_begin(k, k->local, pairs, threads);
  exchange(e, items, pair.i, stage.i, bit);
  k_loop_end(k, &pair);
  k_barrier(k);
  k_loop_end(k, &below);
  k_loop_end(k, &stage);
}

/* What is done with blocks: items from the job's function or, from a list; to a list, or to `put`. */
typedef struct blocks {
  int block;
  amount count;           /* of blocks of a row */
  const order_list *from; /* NULL: the job's items */
  sn_dim n;               /* items of a row */
  const order_list *to;   /* NULL: `put` */
  void (*put)(emitter *e, void *user, val row, val i, val item);
} blocks;

static val block_item(emitter *e, const order_job *j, const blocks *b, val row, val i) {
  return b->from ? emit_order_item(e, b->from, row, i) : j->item(e, j->user, row, i);
}

static void load_block(emitter *e, const order_job *j, const blocks *b, val items, val row,
                       val first, val n) {
  kernel *k = e->k;
  val none = spirv_u64(&k->s, ORDER_NONE), size = k_index(k, b->block);
  k_loop p = k_loop_begin(k, k->local, size, k_index(k, k->threads));
  k_if inside = k_if_begin(k, k_lt(k, p.i, n));
  val item = block_item(e, j, b, row, k_add(k, first, p.i));
  item = k_if_value(k, &inside, item, none);
  k_shared_set(k, items, p.i, item);
  k_loop_end(k, &p);
  k_barrier(k);
}

/* All items of the block at their places, or the first few behind those of the blocks before. */
static void store_block(emitter *e, const order_job *j, const blocks *b, val items, val row,
                        val number, val first, val n) {
  kernel *k = e->k;
  val end = n, start = first;
  if (j->first > 0) {
    val few = k_size(k, j->first);
    end = b->to ? few : k_min(k, few, n);
    start = k_mul(k, number, few);
  }
  k_loop p = k_loop_begin(k, k->local, end, k_index(k, k->threads));
  val item = k_shared_get(k, items, p.i), at = k_add(k, start, p.i);
  if (b->to)
    list_put(e, b->to, row, at, item);
  else
    b->put(e, j->user, row, at, item);
  k_loop_end(k, &p);
}

/* A thread a pair where there may be so many: a block is one way from start to end, and its length is what counts. */
static int block_threads(const emitter *e, int block) {
  enum { MANY_UNITS = 32, MOST = 1024 };
  int most = e->env.target->units >= MANY_UNITS ? e->env.target->max_threads : core_threads(e);
  int threads = block / 2;
  while (threads > most || threads > MOST)
    threads /= 2;
  return threads;
}

static sn_status sort_blocks(emitter *e, const order_job *j, const blocks *b, bool after) {
  kernel *k = emit_open(e, block_threads(e, b->block));
  if (!k)
    return SN_ERR_NO_MEMORY;
  val number, row = k_divide(k, k->group, &b->count, &number);
  val items = k_shared(k, k->s.u64, b->block), size = k_index(k, b->block);
  val first = k_mul(k, number, size), rest = k_sub(k, k_size(k, b->n), first);
  val n = k_max(k, k_min(k, rest, size), k_index(k, 0));
  load_block(e, j, b, items, row, first, n);
  sort_shared(e, items, n, b->block);
  store_block(e, j, b, items, row, number, first, n);
  kernel_grid(k, 2, (amount[]){{j->n_rows, 1, j->rows}, b->count});
  return emit_order_add(e, j, after);
}

sn_status emit_order_short(emitter *e, const order_job *j,
                           void (*put)(emitter *e, void *user, val row, val i, val item)) {
  const sn_dim one = 1;
  blocks b = {.block = block_size(e, j->n), .count = {1, 1, &one}, .n = j->n, .put = put};
  return sort_blocks(e, j, &b, j->after);
}

/* --- the first few --- */

/* Blocks of the longest row count, also where a row is shorter: what is behind it is ORDER_NONE. */
static sn_status sort_few(emitter *e, const order_job *j, order_list *out) {
  sn_dim n = j->n;
  order_list from;
  for (int level = 0;; level++) {
    int block = block_size(e, n);
    sn_dim count = (size_most(&e->env, n) + block - 1) / block;
    count = count > 0 ? count : 1;
    *out = take_list(e, j, count * j->first);
    blocks b = {
        .block = block, .count = {1, 1, &count}, .from = level ? &from : NULL, .n = n, .to = out};
    SN_TRY(sort_blocks(e, j, &b, level ? true : j->after));
    if (count == 1)
      return SN_OK;
    from = *out;
    n = count * j->first;
  }
}

/* --- all --- */

/* Items of run [start, end) of a row that are less than x. */
static val count_less(emitter *e, const order_list *l, val row, val start, val end, val x) {
  kernel *k = e->k;
  val low = k_var(k, start), high = k_var(k, end), one = k_index(k, 1), zero = k_index(k, 0);
  k_loop halving = k_loop_begin(k, zero, k_index(k, 64), one);
  val from = k_get(k, low), to = k_get(k, high);
  k_loop_break(k, &halving, k_ge(k, from, to));
  val middle = k_shr(k, k_add(k, from, to), 1);
  val less = k_lt(k, emit_order_item(e, l, row, middle), x);
  k_set(k, low, k_select(k, less, k_add(k, middle, one), from));
  k_set(k, high, k_select(k, less, to, middle));
  k_loop_end(k, &halving);
  return k_sub(k, k_get(k, low), start);
}

/* Where item i, x, of runs of `length` goes. */
static val place_of(emitter *e, const order_list *l, val row, val i, val n, val x, sn_dim length) {
  kernel *k = e->k;
  amount by = amount_of(&length);
  val within, run = k_divide(k, i, &by, &within), size = k_size(k, length);
  val mine = k_and(k, run, k_index(k, ORDER_WAYS - 1)), first = k_sub(k, run, mine);
  val rank = k_var(k, within), one = k_index(k, 1), zero = k_index(k, 0);
  k_loop other = k_loop_begin(k, zero, k_index(k, ORDER_WAYS), one);
  val start = k_mul(k, k_add(k, first, other.i), size);
  val there = k_lt(k, start, n), differs = k_ne(k, other.i, mine);
  k_if search = k_if_begin(k, k_and(k, there, differs));
  val end = k_min(k, k_add(k, start, size), n);
  val less = count_less(e, l, row, start, end, x);
  k_set(k, rank, k_add(k, k_get(k, rank), less));
  k_if_end(k, &search);
  k_loop_end(k, &other);
  return k_add(k, k_mul(k, first, size), k_get(k, rank));
}

static sn_status merge_runs(emitter *e, const order_job *j, sn_dim length, const order_list *from,
                            const order_list *to) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  amount tiles = amount_tiles(&j->n, k->threads);
  val tile, row = k_divide(k, k->group, &tiles, &tile), n = k_size(k, j->n);
  val i = k_add(k, k_mul(k, tile, k_index(k, k->threads)), k->local);
  k_if inside = k_if_begin(k, k_lt(k, i, n));
  val x = emit_order_item(e, from, row, i);
  val at = place_of(e, from, row, i, n, x, length);
  list_put(e, to, row, at, x);
  k_if_end(k, &inside);
  kernel_grid(k, 2, (amount[]){{j->n_rows, 1, j->rows}, tiles});
  return emit_order_add(e, j, true);
}

sn_status emit_order_sort(emitter *e, const order_job *j, order_list *out) {
  if (j->first > 0)
    return sort_few(e, j, out);
  int block = block_size(e, j->n);
  int64_t longest = size_most(&e->env, j->n);
  order_list from = take_list(e, j, longest), to = from;
  blocks b = {.block = block, .count = amount_tiles(&j->n, block), .n = j->n, .to = &from};
  SN_TRY(sort_blocks(e, j, &b, j->after));
  if (block < longest)
    to = take_list(e, j, longest);
  for (int64_t length = block; length < longest; length *= ORDER_WAYS) {
    SN_TRY(merge_runs(e, j, length, &from, &to));
    order_list swap = from;
    from = to;
    to = swap;
  }
  *out = from;
  return SN_OK;
}
