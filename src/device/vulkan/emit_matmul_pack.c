/* The launch that packs an operand: a workgroup makes the blocks of 32 points, a thread 4 points by 4 elements of k of each. See
 * emit_matmul_packed.h. */
#include "device/vulkan/emit_matmul_packed.h"

enum { THREADS = 128, EACH = 4 };

/* --- operands --- */

amount packed_tiles(const matmul_part *p, int side) {
  const sn_dim *points = p->extent + p->n_batch + (side ? p->n_m : 0);
  return (amount){side ? p->n_n : p->n_m, PACKED_POINTS, points};
}

amount packed_depths(const matmul_product *p) { return (amount){p->n_k, PACKED_DEPTH, p->k}; }

/* Bytes of an operand's blocks; false: more than may be. */
static bool bytes_of(const emitter *e, const matmul_part *p, const operand *o, int64_t *out) {
  enum { MOST = 1 << 30 };
  const amount all[2] = {packed_tiles(p, o->side), packed_depths(o->product)};
  *out = 16 * PACKED_BLOCK;
  for (int i = 0; i < 2; i++) {
    int64_t n = sizes_most(&e->env, all[i].n, all[i].dims);
    if (!mul_fits(*out, n / all[i].tile + (n % all[i].tile != 0), out) || *out > MOST)
      return false;
  }
  return true;
}

static bool reads_batch(const matmul_part *p, const operand *o) {
  for (int i = 0; i < o->at->n_terms; i++)
    if (o->at->terms[i].axis < p->n_batch)
      return true;
  return false;
}

static bool may_keep(const emitter *e, const matmul_part *p, const operand *o) {
  amount tiles = packed_tiles(p, o->side);
  int64_t bytes;
  if (!o->plain || o->n_checks > 0 || reads_batch(p, o) || !kept_may_read(&e->env, o->at->value) ||
      !dim_is_number(o->at->base) || !dims_are_numbers(tiles.n, tiles.dims) ||
      !dims_are_numbers(o->product->n_k, o->product->k) || !bytes_of(e, p, o, &bytes))
    return false;
  for (int i = 0; i < o->at->n_terms; i++) {
    const term *t = &o->at->terms[i];
    if (!dim_is_number(t->stride) || !dim_is_number(t->div) || !dim_is_number(t->mod))
      return false;
  }
  return true;
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

void packed_collect(const emitter *e, const matmul_part *p, packed_operands *out) {
  out->n = 0;
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < 2 * p->accs[a].n_products && out->n < PACKED_OPERANDS; i++) {
      operand o;
      vk_operand_read(e, p, &p->accs[a].products[i / 2], i % 2, &o);
      if (may_keep(e, p, &o) && packed_find(out, &o) < 0)
        out->list[out->n++] = (packed_operand){.o = o};
    }
}

/* --- memory --- */

/* What kept blocks are made of. Axes by their side: points, or k. */
static size_t key_of(const matmul_part *p, const operand *o, sn_dtype half, int64_t *key) {
  amount tiles = packed_tiles(p, o->side);
  int first[2] = {p->n_batch + (o->side ? p->n_m : 0), p->n_batch + p->n_m + p->n_n};
  size_t n = 0;
  key[n++] = half;
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

/* --- a block --- */

typedef struct pack {
  matmul m;
  const operand *o;
  sn_dtype half;
  bool either;   /* the program has both kinds of halves: which one this is, is a slot */
  sn_dim scaled; /* 1: f16, which have a scale; 0 */
  val is_scaled; /* bool, where it is a slot */
  operand_rows rows;
  val point, k_of_block, size; /* this thread's first point, its first k of a block; k in all */
  val x[EACH][EACH];           /* by point and k */
} pack;

static void load_block(pack *b, val block) {
  kernel *k = b->m.e->k;
  const operand *o = b->o;
  int by_k = o->along_k ? o->width : 1, by_points = o->along_k ? 1 : o->width;
  val at_k = k_add(k, k_mul(k, block, k_index(k, PACKED_DEPTH)), b->k_of_block);
  for (int j = 0; j < EACH; j += by_k) {
    operand_k there = operand_at_k(&b->m, o, plus(k, at_k, j), b->size);
    for (int i = 0; i < EACH; i += by_points) {
      val x[4];
      operand_load(&b->m, o, &b->rows, i / by_points, &there, x);
      for (int n = 0; n < o->width; n++)
        b->x[o->along_k ? i : i + n][o->along_k ? j + n : j] = x[n];
    }
  }
}

/* For f16: the exponent (i32) of the largest magnitude of all blocks, but of what is no number. */
static val find_exponent(pack *b, val blocks) {
  kernel *k = b->m.e->k;
  int threads = b->m.e->env.target->subgroup, n = THREADS / threads;
  val most = k_var(k, k_u32(k, 0)), mask = k_u32(k, 0x7fffffff), zero = k_index(k, 0);
  k_loop l = k_loop_rolled(k, zero, blocks, k_index(k, 1));
  load_block(b, l.i);
  val seen = k_get(k, most);
  for (int i = 0; i < EACH * EACH; i++) {
    val size = k_and(k, k_bits(k, b->x[i / EACH][i % EACH], k->s.u32), mask);
    val finite = k_lt(k, scale_exponent(k, size), k_i32(k, SCALE_INFINITE));
    seen = k_max(k, seen, k_select(k, finite, size, k_u32(k, 0)));
  }
  k_set(k, most, seen);
  k_loop_end(k, &l);
  val all = k_subgroup_max(k, k_get(k, most)), maxima = k_shared(k, k->s.u32, n);
  k_if first = k_if_begin(k, k_eq(k, low_part(k, k->local, threads), zero));
  k_shared_set(k, maxima, high_part(k, k->local, threads), all);
  k_if_end(k, &first);
  k_barrier_shared(k);
  for (int i = 0; i < n; i++)
    all = k_max(k, all, k_shared_get(k, maxima, k_index(k, i)));
  return direct_exponent(k, all);
}

/* The halves of two numbers, of the kind that they are. */
static void make_halves(pack *b, val scale, const val two[2], val *out, val *rest) {
  kernel *k = b->m.e->k;
  val words[2][2];
  if (!b->either) {
    direct_halves(k, b->half, scale, two, out, rest);
    return;
  }
  direct_halves(k, SN_F16, scale, two, &words[0][0], &words[0][1]);
  direct_halves(k, SN_BF16, 0, two, &words[1][0], &words[1][1]);
  *out = k_select(k, b->is_scaled, words[0][0], words[1][0]);
  *rest = k_select(k, b->is_scaled, words[0][1], words[1][1]);
}

static void store_block(pack *b, val scale, val address, val block) {
  kernel *k = b->m.e->k;
  val at = k_add(k, k_mul(k, block, k_index(k, PACKED_BLOCK)), low_part(k, k->local, 32));
  at = k_add(k, at, times(k, high_part(k, k->local, 32), PACKED_POINTS * 4));
  for (int i = 0; i < EACH; i++) {
    val words[4];
    for (int j = 0; j < 2; j++) {
      const val two[2] = {b->x[i][2 * j], b->x[i][2 * j + 1]};
      make_halves(b, scale, two, &words[j], &words[2 + j]);
    }
    k_store(k, address, plus(k, at, i * 32), k_vector(k, 4, words));
  }
}

/* --- the launch --- */

/* This thread's points and k. */
static void place_thread(pack *b) {
  kernel *k = b->m.e->k;
  const operand *o = b->o;
  int by = o->along_k ? 1 : o->width;
  val lane = low_part(k, k->local, 32), g = high_part(k, lane, 4), t = low_part(k, lane, 4);
  b->point = k_add(k, b->m.begin[o->side], times(k, g, EACH));
  b->k_of_block = k_add(k, times(k, high_part(k, k->local, 32), DIRECT_SIDE), times(k, t, EACH));
  b->rows.n = EACH / by;
  for (int i = 0; i < EACH; i += by)
    operand_row(&b->m, o, &b->rows, i / by, plus(k, b->point, i));
}

/* The scale of f16, and its exponent stored. */
static val make_scale(pack *b, const packed_operand *of, val tile, val blocks) {
  kernel *k = b->m.e->k;
  val exponent = find_exponent(b, blocks);
  k_if first = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  k_store(k, k_kept(k, of->exponents), tile, exponent);
  k_if_end(k, &first);
  return scale_of(k, exponent);
}

static val scale_if_any(pack *b, const packed_operand *of, val tile, val blocks) {
  kernel *k = b->m.e->k;
  if (!b->either)
    return b->half == SN_F16 ? make_scale(b, of, tile, blocks) : 0;
  b->is_scaled = k_ne(k, k_size_of(k, &b->scaled), k_index(k, 0));
  val none = k_f32(k, 1);
  k_if scaled = k_if_begin(k, b->is_scaled);
  val scale = make_scale(b, of, tile, blocks);
  return k_if_value(k, &scaled, scale, none);
}

static void emit_body(pack *b, const packed_operand *of) {
  kernel *k = b->m.e->k;
  static const sn_dim one = 1;
  int side = b->o->side, each[2];
  amount tiles[2], depths = packed_depths(b->o->product);
  each[side] = PACKED_POINTS;
  each[!side] = 1;
  tiles[side] = packed_tiles(b->m.part, side);
  tiles[!side] = (amount){1, 1, &one};
  matmul_open_tiles(&b->m, tiles, each);
  b->size = k_sizes(k, b->o->product->n_k, b->o->product->k);
  place_thread(b);
  val blocks = k_amount(k, &depths), tile = high_part(k, b->m.begin[side], PACKED_POINTS);
  val scale = scale_if_any(b, of, tile, blocks);
  k_loop l = k_loop_rolled(k, k_index(k, 0), blocks, k_index(k, 1));
  load_block(b, l.i);
  store_block(b, scale, k_kept(k, of->at), k_add(k, k_mul(k, tile, blocks), l.i));
  k_loop_end(k, &l);
}

/* An operand over one axis of points and GENERAL_K of k, element by element, and the part that it is of: packing runs once, so that what
 * would make it faster is not worth a shader for each kind of operand. */
enum { GENERAL_K = 3, GENERAL_TERMS = 1 + GENERAL_K };

typedef struct general {
  matmul_part part;
  matmul_product product;
  operand o;
  access at;
  term terms[GENERAL_TERMS];
} general;

/* The one plain term of an axis; NULL: there is none, or it is another kind. */
static const term *term_of(const access *at, int axis) {
  const term *found = NULL;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    if (t->axis != axis)
      continue;
    if (found || t->div != 1 || t->mod != 0 || t->stride == 0)
      return NULL;
    found = t;
  }
  return found;
}

/* False: it is none of those that have this form. Axes of k that are not there have one point, and so any stride. */
static bool make_general(const matmul_part *p, const operand *o, general *g) {
  int first = p->n_batch + (o->side ? p->n_m : 0), first_k = p->n_batch + p->n_m + p->n_n;
  int n_k = o->product->n_k;
  if ((o->side ? p->n_n : p->n_m) != 1 || n_k > GENERAL_K || o->at->n_terms != 1 + n_k)
    return false;
  *g = (general){.part = {.n_m = 1, .n_n = 1, .extent = {1, p->extent[first]}},
                 .product = {.n_k = GENERAL_K},
                 .o = *o,
                 .at = *o->at};
  for (int i = 0; i < GENERAL_TERMS; i++) {
    const term *t = i <= n_k ? term_of(o->at, i ? first_k + i - 1 : first) : NULL;
    if (i <= n_k && !t)
      return false;
    g->terms[i] = (term){.axis = (uint8_t)(1 + i), .stride = t ? t->stride : 1, .div = 1};
    if (i > 0)
      g->product.k[i - 1] = t ? o->product->k[i - 1] : 1;
  }
  g->at.n_terms = GENERAL_TERMS;
  g->at.terms = g->terms;
  g->o.at = &g->at;
  g->o.product = &g->product;
  g->o.side = 1;
  g->o.along_k = true;
  g->o.width = 1;
  return true;
}

sn_status emit_pack(emitter *e, const matmul_part *p, sn_dtype half, packed_operand *of) {
  const matmul_way way = {.splits = 1};
  matmul_part one = *p;
  general g;
  pack b = {.o = &of->o,
            .half = half,
            .either = e->env.precision == SN_PRECISION_FAST && matmul_is_deep(&e->env),
            .scaled = half == SN_F16};
  int64_t key[4 + 4 * ACCESS_TERMS + 2 * REGION_AXES], bytes, tiles;
  bool is_new;
  size_t size = key_of(p, &of->o, half, key);
  if (!bytes_of(e, p, &of->o, &bytes))
    return SN_ERR_NO_MEMORY;
  amount of_tiles = packed_tiles(p, of->o.side);
  tiles = sizes_most(&e->env, of_tiles.n, of_tiles.dims) / PACKED_POINTS + 1;
  SN_TRY(kept_take(&e->env, of->o.at->value, key, size, bytes + 4 * tiles, &of->at, &is_new));
  of->exponents = of->at + bytes;
  if (!is_new)
    return SN_OK;
  if (!emit_open(e, THREADS))
    return SN_ERR_NO_MEMORY;
  e->k->ones = true;
  for (int i = 0; i < p->n_batch; i++)
    one.extent[i] = 1;
  b.m = (matmul){.e = e, .part = &one, .way = &way};
  if (make_general(p, &of->o, &g)) {
    b.o = &g.o;
    b.m.part = &g.part;
  }
  emit_body(&b, of);
  return emit_launch_kept(e);
}
