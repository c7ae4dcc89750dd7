/* The launch that packs an operand: a workgroup makes a block, a thread 4 points by 4 elements of k of it. See emit_matmul_packed.h. */
#include "device/vulkan/emit_matmul_image.h"
#include "device/vulkan/emit_matmul_packed.h"

#include <math.h>

enum { THREADS = 128, EACH = 4, LINE = PACKED_DEPTH + 1 /* of elements in shared memory */ };

/* --- operands --- */

static bool reads_batch(const matmul_part *p, const operand *o) {
  if (!o->plain)
    return p->n_batch > 0;
  for (int i = 0; i < o->at->n_terms; i++)
    if (o->at->terms[i].axis < p->n_batch)
      return true;
  for (int c = 0; c < o->n_checks; c++)
    for (int i = 0; i < o->checks[c]->n_terms; i++)
      if (o->checks[c]->terms[i].axis < p->n_batch)
        return true;
  return false;
}

int packed_find(const packed_operands *all, const operand *o) {
  for (int i = 0; i < all->n; i++) {
    const operand *have = &all->list[i].o;
    const matmul_product *a = have->product, *b = o->product;
    if (have->side == o->side && a->n_k == b->n_k &&
        memcmp(a->k, b->k, (size_t)a->n_k * sizeof *a->k) == 0 && region_same(have->code, o->code))
      return i;
  }
  return -1;
}

bool packed_collect(const emitter *e, const matmul_part *p, packed_operands *out) {
  out->n = 0;
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < 2 * p->accs[a].n_products; i++) {
      operand o;
      vk_operand_read(e, p, &p->accs[a].products[i / 2], i % 2, &o);
      if (packed_find(out, &o) >= 0)
        continue;
      if (out->n == PACKED_OPERANDS)
        return false;
      out->list[out->n++] = (packed_operand){.o = o, .batched = reads_batch(p, &o)};
    }
  return true;
}

amount packed_tiles(const matmul_part *p, int side) {
  const sn_dim *points = p->extent + p->n_batch + (side ? p->n_m : 0);
  return (amount){side ? p->n_n : p->n_m, PACKED_POINTS, points};
}

amount packed_depths(const matmul_product *p) { return (amount){p->n_k, PACKED_DEPTH, p->k}; }

static int64_t amount_most(const emitter *e, amount a) {
  int64_t n = sizes_most(&e->env, a.n, a.dims);
  return n / a.tile + (n % a.tile != 0);
}

void packed_bytes(const emitter *e, const matmul_part *p, const packed_operand *of,
                  int64_t out[2]) {
  int64_t blocks = amount_most(e, packed_depths(of->o.product));
  int64_t batches = of->batched ? sizes_most(&e->env, p->n_batch, p->extent) : 1;
  if (!mul_fits(blocks, amount_most(e, packed_tiles(p, of->o.side)), &blocks) ||
      !mul_fits(blocks, batches, &blocks) || !mul_fits(blocks, 16 * PACKED_BLOCK, &out[0]))
    blocks = out[0] = INT64_MAX / 16;
  out[1] = 4 * blocks;
}

/* --- memory --- */

bool packed_may_keep(const emitter *e, const matmul_part *p, const packed_operand *of) {
  const operand *o = &of->o;
  amount tiles = packed_tiles(p, o->side);
  if (!o->plain || o->n_checks > 0 || of->batched || !kept_may_read(&e->env, o->at->value) ||
      !dim_is_number(o->at->base) || !dims_are_numbers(tiles.n, tiles.dims) ||
      !dims_are_numbers(o->product->n_k, o->product->k))
    return false;
  for (int i = 0; i < o->at->n_terms; i++) {
    const term *t = &o->at->terms[i];
    if (!dim_is_number(t->stride) || !dim_is_number(t->div) || !dim_is_number(t->mod))
      return false;
  }
  return true;
}

/* What kept blocks are made of. Axes by their side: points, or k. */
static size_t key_of(const matmul_part *p, const operand *o, int64_t *key) {
  amount tiles = packed_tiles(p, o->side);
  int first[2] = {p->n_batch + (o->side ? p->n_m : 0), p->n_batch + p->n_m + p->n_n};
  size_t n = 0;
  key[n++] = (int64_t)o->at->value;
  key[n++] = o->at->base;
  key[n++] = o->at->n_terms;
  for (int i = 0; i < o->at->n_terms; i++) {
    const term *t = &o->at->terms[i];
    int of_k = t->axis >= first[1];
    key[n++] = 2 * (t->axis - first[of_k]) + of_k;
    key[n++] = t->stride;
    key[n++] = t->div;
    key[n++] = t->mod;
  }
  for (int i = 0; i < tiles.n; i++)
    key[n++] = tiles.dims[i];
  key[n++] = -1;
  for (int i = 0; i < o->product->n_k; i++)
    key[n++] = o->product->k[i];
  return n * sizeof *key;
}

/* false in *out_new: what the memory is for is there. */
static sn_status take_memory(emitter *e, const matmul_part *p, packed_operand *of, bool *out_new) {
  int64_t bytes[2];
  packed_bytes(e, p, of, bytes);
  *out_new = true;
  of->at.kept = packed_may_keep(e, p, of);
  if (of->at.kept) {
    int64_t key[4 + 4 * ACCESS_TERMS + 2 * REGION_AXES];
    size_t size = key_of(p, &of->o, key);
    SN_TRY(kept_take(&e->env, key, size, bytes[0] + bytes[1], &of->at.blocks, out_new));
  } else {
    of->at.blocks = scratch_take(&e->env, bytes[0] + bytes[1]);
  }
  of->at.exponents = of->at.blocks + bytes[0];
  return SN_OK;
}

static val address(kernel *k, bool kept, int64_t byte) {
  return kept ? k_kept(k, byte) : k_scratch(k, byte);
}
val packed_blocks(kernel *k, const packed_place *at) { return address(k, at->kept, at->blocks); }
val packed_exponents(kernel *k, const packed_place *at) {
  return address(k, at->kept, at->exponents);
}

/* --- cost --- */

/* Launches that pack, of an image two; and what goes through memory, twice as slowly where each element is computed or has checks. */
double packed_cost(const emitter *e, const matmul_part *p) {
  enum { LAUNCH = 6000, ANOTHER = 2100, IMAGE = 11000, BYTES_A_CYCLE = 2400 };
  packed_operands all;
  double sum = LAUNCH - ANOTHER;
  int64_t elements = image_elements(e, p), bytes[2];
  if (!packed_collect(e, p, &all))
    return INFINITY;
  if (elements > 0)
    sum = IMAGE + 16.0 * (double)elements / BYTES_A_CYCLE;
  for (int i = 0; i < all.n; i++) {
    const packed_operand *of = &all.list[i];
    if (packed_may_keep(e, p, of) || (elements > 0 && of->o.side == 0))
      continue;
    packed_bytes(e, p, of, bytes);
    double slow = of->o.plain && of->o.n_checks == 0 ? 2 : 4; /* read and written */
    sum += ANOTHER + slow * (double)bytes[0] / BYTES_A_CYCLE;
  }
  return sum;
}

/* --- a block --- */

typedef struct pack {
  matmul m;
  const operand *o;
  val point, at_k, size; /* this thread's first ones; k in all */
  val x[EACH][EACH];     /* by point and k */
} pack;

/* An operand that is one load. */
static void load_plain(pack *b) {
  kernel *k = b->m.e->k;
  const operand *o = b->o;
  int by_k = o->along_k ? o->width : 1, by_points = o->along_k ? 1 : o->width;
  operand_rows rows = {.n = EACH / by_points};
  for (int i = 0; i < EACH; i += by_points)
    operand_row(&b->m, o, &rows, i / by_points, plus(k, b->point, i));
  for (int j = 0; j < EACH; j += by_k) {
    operand_k there = operand_at_k(&b->m, o, plus(k, b->at_k, j), b->size);
    for (int i = 0; i < EACH; i += by_points) {
      val x[4];
      operand_load(&b->m, o, &rows, i / by_points, &there, x);
      for (int n = 0; n < o->width; n++)
        b->x[o->along_k ? i : i + n][o->along_k ? j + n : j] = x[n];
    }
  }
}

/* Any other: its code once, for the elements of the block in the order in which neighbours lie; through shared memory. */
static void load_computed(pack *b) {
  kernel *k = b->m.e->k;
  const operand *o = b->o;
  val shared = k_shared(k, k->s.f32, PACKED_POINTS * LINE), line = k_index(k, LINE);
  val end = k_index(k, PACKED_POINTS * PACKED_DEPTH), by = k_index(k, THREADS);
  int inner = o->along_k ? PACKED_DEPTH : PACKED_POINTS;
  k_loop l = k_loop_begin(k, k->local, end, by);
  val low = low_part(k, l.i, inner), high = high_part(k, l.i, inner);
  val point = o->along_k ? high : low, at_k = o->along_k ? low : high;
  val first = b->m.begin[o->side], first_k = b->m.begin[!o->side];
  val x = operand_element(&b->m, o, k_add(k, first, point), k_add(k, first_k, at_k), b->size);
  k_shared_set(k, shared, k_add(k, k_mul(k, point, line), at_k), x);
  k_loop_end(k, &l);
  k_barrier_shared(k);
  val at = k_add(k, k_mul(k, k_sub(k, b->point, first), line), k_sub(k, b->at_k, first_k));
  for (int i = 0; i < EACH; i++)
    for (int j = 0; j < EACH; j++)
      b->x[i][j] = k_shared_get(k, shared, plus(k, at, i * LINE + j));
}

val packed_workgroup_max(emitter *e, val most) {
  kernel *k = e->k;
  int threads = e->env.target->subgroup, n = k->threads / threads;
  most = k_subgroup_max(k, most);
  val maxima = k_shared(k, k->s.u32, n), lane = low_part(k, k->local, threads);
  k_if first = k_if_begin(k, k_eq(k, lane, k_index(k, 0)));
  k_shared_set(k, maxima, high_part(k, k->local, threads), most);
  k_if_end(k, &first);
  k_barrier_shared(k);
  for (int i = 0; i < n; i++) {
    val one = k_shared_get(k, maxima, k_index(k, i));
    most = i == 0 ? one : k_max(k, most, one);
  }
  return most;
}

val packed_exponent(emitter *e, val most) {
  kernel *k = e->k;
  val exponent = scale_exponent(k, packed_workgroup_max(e, most));
  return k_max(k, exponent, k_i32(k, SCALE_LEAST));
}

/* Of the largest magnitude of the block; as bits, an infinity or NaN is above all numbers. */
static val exponent_of(pack *b) {
  kernel *k = b->m.e->k;
  val most = k_u32(k, 0), mask = k_u32(k, 0x7fffffff);
  for (int i = 0; i < EACH * EACH; i++)
    most = k_max(k, most, k_and(k, k_bits(k, b->x[i / EACH][i % EACH], k->s.u32), mask));
  return packed_exponent(b->m.e, most);
}

static void store(pack *b, val scale, val address, val block) {
  kernel *k = b->m.e->k;
  val at = k_add(k, k_mul(k, block, k_index(k, PACKED_BLOCK)), low_part(k, k->local, 32));
  at = k_add(k, at, times(k, high_part(k, k->local, 32), PACKED_POINTS * 4));
  for (int i = 0; i < EACH; i++) {
    val words[4];
    for (int j = 0; j < 2; j++) {
      const val two[2] = {k_mul(k, b->x[i][2 * j], scale), k_mul(k, b->x[i][2 * j + 1], scale)};
      k_two_halves(k, two, &words[j], &words[2 + j]);
    }
    k_store(k, address, plus(k, at, i * 32), k_vector(k, 4, words));
  }
}

/* --- the launch --- */

/* This thread's points and k. */
static void place_thread(pack *b) {
  kernel *k = b->m.e->k;
  int side = b->o->side;
  val lane = low_part(k, k->local, 32), g = high_part(k, lane, 4), t = low_part(k, lane, 4);
  b->point = k_add(k, b->m.begin[side], times(k, g, EACH));
  val turn = times(k, high_part(k, k->local, 32), DIRECT_SIDE);
  b->at_k = k_add(k, k_add(k, b->m.begin[!side], turn), times(k, t, EACH));
}

static void emit_body(pack *b, const packed_operand *of) {
  kernel *k = b->m.e->k;
  const operand *o = b->o;
  int side = o->side, each[2];
  amount tiles[2];
  each[side] = PACKED_POINTS;
  each[!side] = PACKED_DEPTH;
  tiles[side] = packed_tiles(b->m.part, side);
  tiles[!side] = packed_depths(o->product);
  matmul_open_tiles(&b->m, tiles, each);
  b->size = k_sizes(k, o->product->n_k, o->product->k);
  place_thread(b);
  if (o->plain)
    load_plain(b);
  else
    load_computed(b);
  val exponent = exponent_of(b);
  val tile = high_part(k, b->m.begin[side], PACKED_POINTS);
  val block = k_add(k, k_mul(k, b->m.batch, k_amount(k, &tiles[side])), tile);
  val in_k = high_part(k, b->m.begin[!side], PACKED_DEPTH);
  block = k_add(k, k_mul(k, block, k_amount(k, &tiles[!side])), in_k);
  store(b, scale_of(k, exponent), packed_blocks(k, &of->at), block);
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  k_store(k, packed_exponents(k, &of->at), block, exponent);
  k_if_end(k, &one);
}

sn_status emit_pack(emitter *e, const matmul_part *p, packed_operand *of, const amount *when,
                    int64_t least, int64_t most) {
  const matmul_way way = {.splits = 1};
  matmul_part one = *p;
  pack b = {.o = &of->o};
  bool is_new;
  SN_TRY(take_memory(e, p, of, &is_new));
  if (!is_new)
    return SN_OK;
  if (!emit_open(e, THREADS))
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < p->n_batch && !of->batched; i++)
    one.extent[i] = 1;
  b.m = (matmul){.e = e, .part = &one, .way = &way};
  emit_body(&b, of);
  return of->at.kept ? emit_launch_kept(e) : emit_launch_when(e, false, when, least, most);
}
