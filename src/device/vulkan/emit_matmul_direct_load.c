/* Operands from memory to matrices. See emit_matmul_direct.h. */
#include "device/vulkan/emit_matmul_packed.h"

/* Points are in blocks of 32, of which a thread has four neighbours. */
enum { BLOCK = 32, EACH = 4 };

static bool loads_points(const operand *o) { return !o->along_k && o->width == EACH; }

/* Point i of this thread. */
static val point_at(direct *d, const direct_side *s, int i) {
  return plus(d->m.e->k, s->first, i / EACH * BLOCK + i % EACH);
}

/* --- packed operands --- */

static int tiles_of(const direct_side *s) { return s->points / EACH; }

static void packed_open(direct *d, direct_side *s) {
  kernel *k = d->m.e->k;
  amount tiles = packed_tiles(d->m.part, s->o.side), depths = packed_depths(s->o.product);
  val number = k_amount(k, &tiles), blocks = k_amount(k, &depths);
  val at = high_part(k, s->first, PACKED_POINTS);
  val before = s->packed->batched ? k_mul(k, d->m.batch, number) : k_index(k, 0);
  for (int i = 0; i < tiles_of(s); i++) {
    val tile = k_min(k, plus(k, at, i), plus(k, number, -1));
    s->blocks[i] = k_mul(k, k_add(k, before, tile), blocks);
  }
  for (int set = 0; set < d->shape->ahead; set++) {
    for (int i = 0; i < tiles_of(s); i++)
      s->seen[set][i] = k_var(k, k_i32(k, 0));
    for (int i = 0; i < s->points * 4; i++)
      s->kept[set][i / 4][i % 4] = k_var(k, k_u32(k, 0));
  }
}

static void packed_load(direct *d, direct_side *s, int set, val at_k) {
  kernel *k = d->m.e->k;
  spirv_id four = spirv_vector(&k->s, k->s.u32, 4);
  val blocks = packed_blocks(k, &s->packed->at), lane = k_add(k, times(k, d->g, 4), d->t);
  val exponents = packed_exponents(k, &s->packed->at);
  val in_k = k_add(k, times(k, high_part(k, at_k, DIRECT_SIDE), PACKED_POINTS * 4), lane);
  for (int i = 0; i < tiles_of(s); i++) {
    val block = k_add(k, s->blocks[i], high_part(k, at_k, PACKED_DEPTH));
    k_set(k, s->seen[set][i], k_load(k, k->s.i32, exponents, block));
    val at = k_add(k, times(k, s->blocks[i], PACKED_BLOCK), in_k);
    for (int c = 0; c < EACH; c++) {
      val x = k_load(k, four, blocks, plus(k, at, c * 32));
      for (int w = 0; w < 4; w++)
        k_set(k, s->kept[set][i * EACH + c][w], k_part(k, x, w));
    }
  }
}

static void packed_use(direct *d, direct_side *s, int set) {
  kernel *k = d->m.e->k;
  bool rest = d->products == 3;
  for (int i = 0; i < tiles_of(s); i++) {
    val e = k_get(k, s->seen[set][i]), is_wild = k_eq(k, e, k_i32(k, SCALE_INFINITE));
    k_set(k, d->wild, k_select(k, is_wild, k_u32(k, 1), k_get(k, d->wild)));
    s->exponent[i] = k_min(k, e, k_i32(k, SCALE_INFINITE - 1));
  }
  for (int f = 0; 2 * f < s->points; f++)
    for (int h = 0; h <= rest; h++) {
      val words[4];
      for (int w = 0; w < 4; w++)
        words[w] = k_get(k, s->kept[set][2 * f + w / 2][2 * h + w % 2]);
      s->half[f][h] = k_matrix_make(k, d->type[s->o.side ? MATRIX_B : MATRIX_A], words);
    }
}

/* --- operands as they are --- */

void direct_side_open(direct *d, direct_side *s) {
  kernel *k = d->m.e->k;
  const operand *o = &s->o;
  const direct_shape *shape = d->shape;
  int side = o->side, by = loads_points(o) ? EACH : 1;
  s->points = 2 * shape->fragments[side];
  val tile = k_mul(k, d->place[side], k_index(k, shape->fragments[side] * DIRECT_SIDE));
  s->first = k_add(k, k_add(k, d->m.begin[side], tile), times(k, d->g, EACH));
  if (s->packed) {
    packed_open(d, s);
    return;
  }
  s->at.n = o->plain ? s->points / by : 0;
  for (int i = 0; i < s->points && o->plain; i += by)
    operand_row(&d->m, o, &s->at, i / by, point_at(d, s, i));
  val zero = k_f32(k, 0);
  for (int set = 0; set < shape->ahead; set++) {
    if (o->n_checks > 0)
      s->there[set] = k_var(k, k_u32(k, 0));
    for (int i = 0; i < s->points * 4; i++)
      s->kept[set][i / 4][i % 4] = k_var(k, zero);
  }
}

/* The first k of this thread's four. */
static val first_k(direct *d, val at_k) {
  kernel *k = d->m.e->k;
  return k_add(k, at_k, times(k, d->t, 4));
}

static void keep(direct *d, direct_side *s, int set, int point, int j, val x) {
  k_set(d->m.e->k, s->kept[set][point][j], x);
}

/* One load: element j of a point, or four of k, or four points. */
static val load_one(direct *d, direct_side *s, int set, int point, int j, const operand_k *there) {
  const operand *o = &s->o;
  val x[4];
  val ok = operand_load_any(&d->m, o, &s->at, loads_points(o) ? point / EACH : point, there, x);
  for (int i = 0; i < o->width; i++)
    keep(d, s, set, o->along_k ? point : point + i, o->along_k ? j + i : j, x[i]);
  return ok;
}

/* Bits of `there`: by point and k. */
static uint32_t bits_of(const operand *o, int point, int j) {
  uint32_t bits = 0;
  for (int i = 0; i < o->width; i++)
    bits |= 1u << (o->along_k ? point * 4 + j + i : (point + i) * 4 + j);
  return bits;
}

static void load_stage(direct *d, direct_side *s, int set, val at_k, val size) {
  kernel *k = d->m.e->k;
  const operand *o = &s->o;
  int by_k = o->along_k ? o->width : 1, by_points = o->along_k ? 1 : o->width;
  val from = first_k(d, at_k), bits = 0, none = k_u32(k, 0);
  for (int j = 0; j < 4; j += by_k) {
    operand_k there = operand_at_k(&d->m, o, plus(k, from, j), size);
    for (int i = 0; i < s->points; i += by_points) {
      val ok = load_one(d, s, set, i, j, &there);
      if (o->n_checks == 0)
        continue;
      val one = k_select(k, ok, k_u32(k, bits_of(o, i, j)), none);
      bits = bits ? k_or(k, bits, one) : one;
    }
  }
  if (o->n_checks > 0)
    k_set(k, s->there[set], bits);
}

/* The elements of an operand that is a program. */
static void compute_stage(direct *d, direct_side *s, int set, val at_k, val size) {
  kernel *k = d->m.e->k;
  val from = first_k(d, at_k);
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < s->points; i++)
      keep(d, s, set, i, j,
           operand_element(&d->m, &s->o, point_at(d, s, i), plus(k, from, j), size));
}

void direct_load(direct *d, direct_side *s, int set, val at_k, val size) {
  if (s->packed) {
    packed_load(d, s, set, at_k);
    return;
  }
  if (s->o.plain)
    load_stage(d, s, set, at_k, size);
  else
    compute_stage(d, s, set, at_k, size);
}

/* --- halves --- */

/* Elements that do not exist count as 0. Behind the last k one zero of a product is enough: see needs_zeros of the panels. */
static bool needs_zeros(const direct_side *s) {
  const matmul_product *p = s->o.product;
  int64_t all = 1;
  for (int i = 0; i < p->n_k; i++)
    all = dim_is_number(p->k[i]) && all > 0 ? all * p->k[i] : -1;
  bool whole = all > 0 && all % DIRECT_SIDE == 0;
  return s->o.n_checks > 0 || (s->o.plain && s->o.side == 0 && !whole);
}

static val exists(direct *d, const direct_side *s, int set, int point, int j, val at_k, val size) {
  kernel *k = d->m.e->k;
  if (s->o.n_checks == 0)
    return k_lt(k, plus(k, first_k(d, at_k), j), size);
  val bit = k_and(k, k_get(k, s->there[set]), k_u32(k, 1u << (point * 4 + j)));
  return k_ne(k, bit, k_u32(k, 0));
}

/* The numbers of a stage, by point and k. */
static void settle(direct *d, const direct_side *s, int set, val at_k, val size, val x[][4]) {
  kernel *k = d->m.e->k;
  bool zeros = needs_zeros(s);
  val ok[4] = {0}, zero = k_f32(k, 0);
  for (int i = 0; i < s->points; i++)
    for (int j = 0; j < 4; j++) {
      x[i][j] = k_get(k, s->kept[set][i][j]);
      if (!zeros)
        continue;
      if (i == 0 || s->o.n_checks > 0)
        ok[j] = exists(d, s, set, i, j, at_k, size);
      x[i][j] = k_select(k, ok[j], x[i][j], zero);
    }
}

/* The power of two for a stage. */
static val choose_scale(direct *d, direct_side *s, val most) {
  kernel *k = d->m.e->k;
  val e = scale_exponent(k, k_subgroup_max(k, k_bits(k, most, k->s.u32)));
  val is_wild = k_eq(k, e, k_i32(k, SCALE_INFINITE));
  k_set(k, d->wild, k_select(k, is_wild, k_u32(k, 1), k_get(k, d->wild)));
  e = k_min(k, k_max(k, e, k_i32(k, SCALE_LEAST)), k_i32(k, SCALE_INFINITE - 1));
  for (int i = 0; i < DIRECT_TILES; i++)
    s->exponent[i] = e;
  return scale_of(k, e);
}

static void make_matrices(direct *d, direct_side *s, val scale, val x[][4]) {
  kernel *k = d->m.e->k;
  bool rest = d->products == 3;
  for (int f = 0; 2 * f < s->points; f++) {
    val words[2][4];
    for (int w = 0; w < 4; w++) {
      val two[2];
      for (int i = 0; i < 2; i++)
        two[i] = k_mul(k, x[2 * f + w / 2][w % 2 * 2 + i], scale);
      k_two_halves(k, two, &words[0][w], rest ? &words[1][w] : NULL);
    }
    for (int h = 0; h <= rest; h++)
      s->half[f][h] = k_matrix_make(k, d->type[s->o.side ? MATRIX_B : MATRIX_A], words[h]);
  }
}

void direct_convert(direct *d, direct_side *s, int set, val at_k, val size) {
  kernel *k = d->m.e->k;
  val x[DIRECT_POINTS][4], most = 0;
  if (s->packed) {
    packed_use(d, s, set);
    return;
  }
  settle(d, s, set, at_k, size, x);
  for (int i = 0; i < s->points * 4; i++) {
    val size_of = k_abs(k, x[i / 4][i % 4]);
    most = most ? k_max(k, most, size_of) : size_of;
  }
  make_matrices(d, s, choose_scale(d, s, most), x);
}
