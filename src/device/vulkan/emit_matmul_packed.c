/* The kernel of products of packed operands. See emit_matmul_packed.h. */
#include "device/vulkan/emit_matmul_image.h"
#include "device/vulkan/emit_matmul_packed.h"

const packed_shape matmul_packed[PACKED_SHAPES] = {
    [PACKED_LARGE] = {{2, 2}, {2, 2}, 1, 2},
    [PACKED_SMALL] = {{2, 2}, {1, 1}, 4, 2},
};

enum { MOST_BYTES = 1 << 30, MOST_ACCS = 2, MOST_AHEAD = PACKED_STEPS };

/* Tiles and slices are those of the direct kernels, whose ways to results these take. */
static direct_shape direct_of(const packed_shape *s) {
  direct_shape d = {.slices = s->slices, .ahead = 1, .together = true};
  for (int side = 0; side < 2; side++) {
    d.fragments[side] = s->fragments[side];
    d.subgroups[side] = s->subgroups[side];
  }
  return d;
}

bool packed_fits(const emitter *e, const packed_shape *s, const matmul_part *p) {
  const gpu_target *t = e->env.target;
  const direct_shape d = direct_of(s);
  packed_operands all;
  int64_t sum = 0;
  if (!t->places || !t->f16 || e->env.wide || p->n_accs > MOST_ACCS ||
      direct_threads(&d, t) > t->max_threads || 4 * direct_words(&d, p, t) > t->shared_bytes ||
      !packed_collect(e, p, &all))
    return false;
  for (int i = 0; i < all.n; i++) {
    int64_t bytes[2];
    packed_bytes(e, p, &all.list[i], bytes);
    if (!add_fits(sum, bytes[0], &sum) || sum > MOST_BYTES)
      return false;
  }
  return true;
}

/* --- operands --- */

/* One of the products at hand. */
typedef struct side_blocks {
  const packed_operand *of;
  int blocks; /* of 32 points that the subgroup has */
  val at[2];  /* variables: addresses of this thread's first elements in the blocks of these k */
  val next[2];
  val line[2 * PACKED_OWN]; /* of an image: the fours of this thread's points at the first place */
  val exponents[2];         /* the first of each (index) */
  val exponent[2];          /* of these k (i32) */
  val kept[MOST_AHEAD][2 * PACKED_OWN]; /* variables: by step and point */
  val half[DIRECT_FRAGMENTS][2];        /* matrices of a step: halves, rests */
} side_blocks;

typedef struct packed {
  direct d;
  const packed_shape *shape;
  packed_operands operands;
  const packed_image *image; /* operand a; NULL: it is blocks */
  spirv_id four;
  int first, n, n_sides;
  side_blocks sides[1 + MOST_ACCS];
  int of[MOST_ACCS][2];
} packed;

/* Two accumulators leave no registers for more. */
static int ahead_of(const packed *t) { return t->n > 1 ? 1 : t->shape->ahead; }

static val to_u64(kernel *k, val index) {
  return spirv_op(&k->s, SPV_UConvert, k->s.u64, SPV_ARGS(k_bits(k, index, k->s.u32)));
}

static bool is_image(const packed *t, const side_blocks *s) {
  return t->image && s->of->o.side == 0;
}

static val read_exponent(packed *t, val address, val number) {
  kernel *k = t->d.m.e->k;
  val e = k_load(k, k->s.i32, address, number), odd = k_eq(k, e, k_i32(k, SCALE_INFINITE));
  k_set(k, t->d.wild, k_select(k, odd, k_u32(k, 1), k_get(k, t->d.wild)));
  return k_min(k, e, k_i32(k, SCALE_INFINITE - 1));
}

/* Points that do not exist are the last one. */
static void image_open(packed *t, side_blocks *s) {
  kernel *k = t->d.m.e->k;
  matmul *m = &t->d.m;
  const packed_image *of = t->image;
  val tile = k_mul(k, t->d.place[0], k_index(k, t->shape->fragments[0] * DIRECT_SIDE));
  val first = k_add(k, k_add(k, m->begin[0], tile), times(k, t->d.g, PACKED_OWN));
  s->blocks = t->shape->fragments[0] / 2;
  for (int i = 0; i < PACKED_OWN * s->blocks; i++) {
    val point = plus(k, first, i / PACKED_OWN * PACKED_POINTS + i % PACKED_OWN);
    matmul_point(m, 0, k_min(k, point, plus(k, m->size[0], -1)));
    val line = emit_linear(m->e, 0, of->n_rows, of->rows);
    line = k_add(k, line, k_size_of(k, &of->base));
    s->line[i] = k_add(k, times(k, line, 4), t->d.t);
  }
  val exponent = read_exponent(t, k_scratch(k, of->exponent), k_index(k, 0));
  for (int b = 0; b < s->blocks; b++)
    s->exponent[b] = exponent;
}

/* Of 16 elements of k, number `at` of them or the last: what the place adds. */
static void image_load(packed *t, side_blocks *s, val at, int set) {
  kernel *k = t->d.m.e->k;
  matmul *m = &t->d.m;
  const packed_image *of = t->image;
  const matmul_product *p = s->of->o.product;
  val number = k_min(k, at, plus(k, k_amount(k, &(amount){p->n_k, DIRECT_SIDE, p->k}), -1));
  matmul_k_point(m, p, times(k, number, DIRECT_SIDE));
  val add = times(k, emit_linear(m->e, 0, of->n_places, of->places), 4);
  for (int i = 0; i < PACKED_OWN * s->blocks; i++) {
    val four = k_add(k, s->line[i], add);
    k_set(k, s->kept[set][i], k_load(k, t->four, k_scratch(k, of->at), four));
  }
}

/* Addresses at the first k of this slice. Blocks of points that do not exist are the last ones. */
static void side_open(packed *t, side_blocks *s, val from) {
  if (is_image(t, s)) {
    image_open(t, s);
    return;
  }
  kernel *k = t->d.m.e->k;
  const operand *o = &s->of->o;
  const packed_place *at = &s->of->at;
  int side = o->side;
  amount tiles = packed_tiles(t->d.m.part, side), depths = packed_depths(o->product);
  val n = k_amount(k, &tiles), depth = k_amount(k, &depths);
  val bytes = spirv_u64(&k->s, 16), lane = k_add(k, times(k, t->d.g, 4), t->d.t);
  s->blocks = t->shape->fragments[side] / 2;
  val mine = high_part(k, t->d.m.begin[side], PACKED_POINTS);
  mine = k_add(k, mine, k_mul(k, t->d.place[side], k_index(k, s->blocks)));
  for (int b = 0; b < s->blocks; b++) {
    val tile = k_min(k, plus(k, mine, b), plus(k, n, -1));
    if (s->of->batched)
      tile = k_add(k, k_mul(k, t->d.m.batch, n), tile);
    s->exponents[b] = k_mul(k, tile, depth);
    val four = k_add(k, k_mul(k, k_add(k, s->exponents[b], from), k_index(k, PACKED_BLOCK)), lane);
    val address = k_add(k, packed_blocks(k, at), k_mul(k, to_u64(k, four), bytes));
    if (s->at[b])
      k_set(k, s->at[b], address);
    else
      s->at[b] = k_var(k, address);
  }
}

/* Step `turn` of the blocks of these k (from: their number), or of the next ones, of all points of this thread. */
static void side_load(packed *t, side_blocks *s, bool next, val from, int turn, int set) {
  kernel *k = t->d.m.e->k;
  if (is_image(t, s)) {
    image_load(t, s, plus(k, times(k, from, PACKED_STEPS), turn), set);
    return;
  }
  for (int i = 0; i < PACKED_OWN * s->blocks; i++) {
    int four = turn * PACKED_POINTS * 4 + i % PACKED_OWN * 32, b = i / PACKED_OWN;
    val at = next ? s->next[b] : k_get(k, s->at[b]);
    k_set(k, s->kept[set][i], k_load(k, t->four, at, k_index(k, four)));
  }
}

static void side_matrices(packed *t, side_blocks *s, int set) {
  kernel *k = t->d.m.e->k;
  for (int f = 0; f < 2 * s->blocks; f++) {
    val x[2] = {k_get(k, s->kept[set][2 * f]), k_get(k, s->kept[set][2 * f + 1])};
    for (int h = 0; h < 2; h++) {
      const val words[4] = {k_part(k, x[0], 2 * h), k_part(k, x[0], 2 * h + 1),
                            k_part(k, x[1], 2 * h), k_part(k, x[1], 2 * h + 1)};
      s->half[f][h] = k_matrix_make(k, t->d.type[s->of->o.side ? MATRIX_B : MATRIX_A], words);
    }
  }
}

/* The exponents of these k, and where the next ones are. */
static void side_begin(packed *t, side_blocks *s, val number, val apart) {
  kernel *k = t->d.m.e->k;
  for (int b = 0; b < s->blocks && !is_image(t, s); b++) {
    s->next[b] = k_add(k, k_get(k, s->at[b]), apart);
    s->exponent[b] =
        read_exponent(t, packed_exponents(k, &s->of->at), k_add(k, s->exponents[b], number));
  }
}

static void side_end(packed *t, side_blocks *s) {
  for (int b = 0; b < s->blocks && !is_image(t, s); b++)
    k_set(t->d.m.e->k, s->at[b], s->next[b]);
}

/* --- products --- */

/* The sums of 64 elements of k to the totals. */
static void flush(packed *t, int acc, const val *sums) {
  const side_blocks *a = &t->sides[t->of[acc][0]], *b = &t->sides[t->of[acc][1]];
  const int *n = t->shape->fragments;
  for (int r = 0; r < a->blocks; r++)
    for (int c = 0; c < b->blocks; c++) {
      val undo[2];
      scale_undo_both(t->d.m.e->k, a->exponent[r], b->exponent[c], undo);
      for (int f = 0; f < 4; f++) {
        int i = 2 * r + f / 2, j = 2 * c + f % 2;
        direct_add(&t->d, t->first + acc, i, j, sums[i * n[1] + j], undo);
      }
    }
}

/* Small products first, and neighbouring instructions for different sums. */
static void multiply(packed *t, int acc, val *sums) {
  kernel *k = t->d.m.e->k;
  const side_blocks *a = &t->sides[t->of[acc][0]], *b = &t->sides[t->of[acc][1]];
  const int *n = t->shape->fragments;
  for (int product = 2; product >= 0; product--)
    for (int i = 0; i < n[0] * n[1]; i++)
      sums[i] = k_matrix_multiply_add(k, t->d.type[MATRIX_SUM], a->half[i / n[1]][product == 1],
                                      b->half[i % n[1]][product == 2], sums[i]);
}

/* 64 elements of k, block `number`, while later steps are on their way. */
static void use_blocks(packed *t, val number, val to) {
  kernel *k = t->d.m.e->k;
  enum { SUMS = DIRECT_FRAGMENTS * DIRECT_FRAGMENTS };
  int ahead = ahead_of(t), slices = t->shape->slices;
  val sums[MOST_ACCS][SUMS], zero = k_matrix_of(k, t->d.type[MATRIX_SUM], 0);
  val bytes = spirv_u64(&k->s, (uint64_t)16 * PACKED_BLOCK * (uint64_t)slices);
  val after = plus(k, number, slices), more = k_lt(k, after, to);
  val apart = k_select(k, more, bytes, spirv_u64(&k->s, 0)),
      next = k_select(k, more, after, number);
  for (int i = 0; i < t->n_sides; i++)
    side_begin(t, &t->sides[i], number, apart);
  for (int i = 0; i < MOST_ACCS * SUMS; i++)
    sums[i / SUMS][i % SUMS] = zero;
  for (int turn = 0; turn < PACKED_STEPS; turn++) {
    int later = turn + ahead, set = turn % ahead;
    for (int i = 0; i < t->n_sides; i++)
      side_matrices(t, &t->sides[i], set);
    for (int i = 0; i < t->n_sides; i++)
      side_load(t, &t->sides[i], later >= PACKED_STEPS, later < PACKED_STEPS ? number : next,
                later % PACKED_STEPS, set);
    for (int a = 0; a < t->n; a++)
      multiply(t, a, sums[a]);
  }
  for (int a = 0; a < t->n; a++)
    flush(t, a, sums[a]);
  for (int i = 0; i < t->n_sides; i++)
    side_end(t, &t->sides[i]);
}

/* --- the loop over k --- */

static int add_side(packed *t, const matmul_product *product, int side) {
  operand o;
  vk_operand_read(t->d.m.e, t->d.m.part, product, side, &o);
  const packed_operand *of = &t->operands.list[packed_find(&t->operands, &o)];
  for (int i = 0; i < t->n_sides; i++)
    if (t->sides[i].of == of)
      return i;
  t->sides[t->n_sides] = (side_blocks){.of = of};
  return t->n_sides++;
}

static void open_sides(packed *t, int number) {
  kernel *k = t->d.m.e->k;
  const matmul_acc *accs = t->d.m.part->accs + t->first;
  val zero = k_u32(k, 0), none[4] = {zero, zero, zero, zero}, four = k_vector(k, 4, none);
  t->n_sides = 0;
  for (int a = 0; a < t->n; a++)
    for (int side = 0; side < 2; side++)
      t->of[a][side] = add_side(t, &accs[a].products[number], side);
  for (int i = 0; i < t->n_sides; i++)
    for (int set = 0; set < ahead_of(t); set++)
      for (int n = 0; n < PACKED_OWN * t->shape->fragments[t->sides[i].of->o.side] / 2; n++)
        t->sides[i].kept[set][n] = k_var(k, four);
}

static void sum_product(packed *t, int number) {
  kernel *k = t->d.m.e->k;
  const matmul_product *product = &t->d.m.part->accs[t->first].products[number];
  amount depths = packed_depths(product);
  val from, to, end = k_amount(k, &depths);
  open_sides(t, number);
  matmul_range(&t->d.m, product, PACKED_DEPTH, &from, &to);
  from = k_add(k, high_part(k, from, PACKED_DEPTH), t->d.slice);
  to = k_min(k, high_part(k, plus(k, to, PACKED_DEPTH - 1), PACKED_DEPTH), end);
  for (int i = 0; i < t->n_sides; i++)
    side_open(t, &t->sides[i], from);
  k_if some = k_if_begin(k, k_lt(k, from, to));
  for (int i = 0; i < t->n_sides; i++)
    for (int set = 0; set < ahead_of(t); set++)
      side_load(t, &t->sides[i], false, from, set, set);
  k_if_end(k, &some);
  k_loop l = k_loop_rolled(k, from, to, k_index(k, t->shape->slices));
  use_blocks(t, l.i, to);
  k_loop_end(k, &l);
}

static void sum_all(packed *t) {
  const matmul_part *p = t->d.m.part;
  for (int a = 0; a < p->n_accs; a += t->n) {
    t->first = a;
    t->n = a + 1 < p->n_accs && accs_share(&p->accs[a], &p->accs[a + 1]) ? 2 : 1;
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(t, i);
  }
}

/* --- the launches --- */

static void emit_body(packed *t) {
  kernel *k = t->d.m.e->k;
  t->four = spirv_vector(&k->s, k->s.u32, 4);
  direct_begin(&t->d);
  sum_all(t);
  direct_store(&t->d);
}

sn_status emit_packed(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) {
  packed *t = arena_alloc(e->env.memory, sizeof *t);
  const direct_shape shape = direct_of(way->packed);
  if (!t)
    return SN_ERR_NO_MEMORY;
  *t = (packed){.shape = way->packed};
  packed_image *image;
  SN_TRY(image_find(e, p, &p, &image));
  t->image = image;
  if (!packed_collect(e, p, &t->operands))
    return SN_ERR_UNSUPPORTED;
  for (int i = 0; i < t->operands.n; i++)
    if (!image || t->operands.list[i].o.side == 1)
      SN_TRY(emit_pack(e, p, &t->operands.list[i], of, least, most));
  if (image)
    SN_TRY(emit_image(e, image, of, least, most));
  if (!emit_open(e, direct_threads(&shape, e->env.target)))
    return SN_ERR_NO_MEMORY;
  t->d.m = (matmul){.e = e, .part = p, .way = way, .scratch = scratch};
  t->d.shape = &shape;
  t->d.products = 3;
  t->d.depth = PACKED_DEPTH;
  emit_body(t);
  return emit_launch_when(e, true, of, least, most);
}
