/* Operands from memory to matrices. See emit_matmul_direct.h. */
#include "device/vulkan/emit_matmul_packed.h"
#include "device/vulkan/emit_pairs.h"

/* Points are in blocks of 32, of which a thread has four neighbours. */
enum { BLOCK = 32, EACH = 4 };

static bool loads_points(const operand *o) { return !o->along_k && o->width == EACH; }

/* Point i of this thread. */
static val point_at(direct *d, const direct_side *s, int i) {
  return plus(d->m.e->k, s->first, i / EACH * BLOCK + i % EACH);
}

/* --- halves --- */

void direct_halves(kernel *k, sn_dtype half, val scale, const val x[2], val *out, val *rest) {
  if (half == SN_BF16) {
    k_two_bf16(k, x, out, rest);
    return;
  }
  const val scaled[2] = {k_mul(k, x[0], scale), k_mul(k, x[1], scale)};
  k_two_halves(k, scaled, out, rest);
}

val direct_exponent(kernel *k, val most) {
  val e = scale_exponent(k, most), end = k_i32(k, SCALE_INFINITE - 1);
  return k_min(k, k_max(k, e, k_i32(k, SCALE_LEAST)), end);
}

/* --- packed operands --- */

static int tiles_of(const direct_side *s) { return s->points / EACH; }

static val to_u64(kernel *k, val index) {
  if (k->env->wide)
    return k_bits(k, index, k->s.u64);
  return spirv_op(&k->s, SPV_UConvert, k->s.u64, SPV_ARGS(k_bits(k, index, k->s.u32)));
}

static void open_kept(kernel *k, direct_side *s, val none) {
  for (int i = 0; i < s->points * 4; i++)
    s->kept[i / 4][i % 4] = k_var(k, none);
}

/* Tiles that do not exist are the last one. */
static void packed_open(direct *d, direct_side *s) {
  kernel *k = d->m.e->k;
  amount tiles = packed_tiles(d->m.part, s->o.side), depths = packed_depths(s->o.product);
  val number = k_amount(k, &tiles),
      fours = k_mul(k, k_amount(k, &depths), k_index(k, PACKED_BLOCK));
  val at = high_part(k, s->first, PACKED_POINTS), lane = k_add(k, times(k, d->g, 4), d->t);
  for (int i = 0; i < tiles_of(s); i++) {
    val tile = k_min(k, plus(k, at, i), plus(k, number, -1));
    val first = k_add(k, k_mul(k, tile, fours), lane);
    val offset = k_mul(k, to_u64(k, first), spirv_u64(&k->s, 16));
    s->blocks[i] = k_add(k, k_kept(k, s->packed->at), offset);
    if (d->half == SN_F16)
      s->exponent[i] = k_var(k, k_load(k, k->s.i32, k_kept(k, s->packed->exponents), tile));
  }
  open_kept(k, s, k_u32(k, 0));
}

static void packed_load(direct *d, direct_side *s, val at_k) {
  kernel *k = d->m.e->k;
  spirv_id four = spirv_vector(&k->s, k->s.u32, 4);
  val bytes = k_mul(k, at_k, k_index(k, 16 * PACKED_BLOCK / PACKED_DEPTH));
  for (int i = 0; i < tiles_of(s); i++) {
    val at = k_add(k, s->blocks[i], to_u64(k, bytes));
    for (int c = 0; c < EACH; c++) {
      val x = k_load(k, four, at, k_index(k, c * 32));
      for (int w = 0; w < 4; w++)
        k_set(k, s->kept[i * EACH + c][w], k_part(k, x, w));
    }
  }
}

static void packed_use(direct *d, direct_side *s) {
  kernel *k = d->m.e->k;
  for (int f = 0; 2 * f < s->points; f++)
    for (int h = 0; h < d->products && h < 2; h++) {
      val words[4];
      for (int w = 0; w < 4; w++)
        words[w] = k_get(k, s->kept[2 * f + w / 2][2 * h + w % 2]);
      s->half[f][h] = k_matrix_make(k, d->type[s->o.side ? MATRIX_B : MATRIX_A], words);
    }
}

/* --- operands as they are --- */

/* Whether it must be known which elements exist. */
static bool has_notes(const direct_side *s) {
  return s->o.plain && s->o.n_checks > 0 && !s->o.zeros;
}

/* Gradients of convolutions take none across: as fast, but more shaders. */
static bool may_take_pairs(const direct *d, const operand *o) {
  return d->half == SN_BF16 && d->products == 3 && o->plain && o->width == EACH &&
         o->dtype == SN_F32 && o->code->n == 1 && (o->along_k || !d->m.part->gradient);
}

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
  s->o.takes_pairs = may_take_pairs(d, o);
  s->o.zeros = o->plain && o->n_checks > 0 && o->width == EACH && o->dtype == SN_F32;
  s->paired = s->o.takes_pairs && is_paired(&d->m.e->env, o->at->value);
  if (d->half == SN_F16) {
    s->exponent[0] = k_var(k, k_i32(k, SCALE_LEAST));
    s->scale = k_var(k, scale_of(k, k_i32(k, SCALE_LEAST)));
  }
  s->at.n = o->plain ? s->points / by : 0;
  for (int i = 0; i < s->points && o->plain; i += by)
    operand_row(&d->m, o, &s->at, i / by, point_at(d, s, i));
  for (int i = 0; i < s->points * 2 && has_notes(s); i++)
    s->there[i / 2][i % 2] = k_var(k, k_u32(k, 0));
  open_kept(k, s, k_f32(k, 0));
}

/* The first k of this thread's four. */
static val first_k(direct *d, val at_k) {
  kernel *k = d->m.e->k;
  return k_add(k, at_k, times(k, d->t, 4));
}

/* One load: element j of a point, or four of k, or four points. */
static val load_one(direct *d, direct_side *s, int point, int j, const operand_k *there) {
  const operand *o = &s->o;
  val x[4];
  val ok = operand_load_any(&d->m, o, &s->at, loads_points(o) ? point / EACH : point, there, x);
  for (int i = 0; i < o->width; i++)
    k_set(d->m.e->k, s->kept[o->along_k ? point : point + i][o->along_k ? j + i : j], x[i]);
  return ok;
}

/* Notes which elements exist: two of k in a word, as halves are. What a load has in common stands once. */
static void note(direct *d, direct_side *s, int point, int j, val ok) {
  kernel *k = d->m.e->k;
  val all = k_u32(k, 0xffffffff), none = k_u32(k, 0);
  if (s->o.along_k && s->o.width == 4) {
    k_set(k, s->there[point][0], k_select(k, ok, all, none));
    return;
  }
  val variable = s->there[point][j / 2];
  val bits = k_select(k, ok, k_u32(k, j % 2 ? 0xffff0000 : 0xffff), none);
  k_set(k, variable, j % 2 ? k_or(k, k_get(k, variable), bits) : bits);
}

/* Bits of those of word w (k = 2 w, 2 w + 1) of a point that exist. */
static val noted(direct *d, const direct_side *s, int point, int w) {
  bool line = s->o.along_k && s->o.width == 4;
  int of = loads_points(&s->o) ? point / EACH * EACH : point;
  return k_get(d->m.e->k, s->there[of][line ? 0 : w]);
}

static void load_stage(direct *d, direct_side *s, val at_k, val size) {
  kernel *k = d->m.e->k;
  const operand *o = &s->o;
  int by_k = o->along_k ? o->width : 1, by_points = o->along_k ? 1 : o->width;
  val from = first_k(d, at_k);
  for (int j = 0; j < 4; j += by_k) {
    val at = plus(k, from, j);
    operand_k there = d->table ? direct_table_at(d, s, at, size) : operand_at_k(&d->m, o, at, size);
    for (int i = 0; i < s->points; i += by_points) {
      val ok = load_one(d, s, i, j, &there);
      if (has_notes(s))
        note(d, s, i, j, ok);
    }
  }
}

/* The elements of an operand that is a program. */
static void compute_stage(direct *d, direct_side *s, val at_k, val size) {
  kernel *k = d->m.e->k;
  val from = first_k(d, at_k);
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < s->points; i++)
      k_set(k, s->kept[i][j],
            operand_element(&d->m, &s->o, point_at(d, s, i), plus(k, from, j), size));
}

void direct_load(direct *d, direct_side *s, val at_k, val size) {
  if (s->packed)
    packed_load(d, s, at_k);
  else if (s->o.plain)
    load_stage(d, s, at_k, size);
  else
    compute_stage(d, s, at_k, size);
}

/* --- matrices --- */

/* Elements that do not exist count as 0. Behind the last k one zero of a product is enough: see needs_zeros of the panels. */
static bool ends_inside(const direct_side *s) {
  const matmul_product *p = s->o.product;
  int64_t all = 1;
  for (int i = 0; i < p->n_k; i++)
    all = dim_is_number(p->k[i]) && all > 0 ? all * p->k[i] : -1;
  bool whole = all > 0 && all % DIRECT_SIDE == 0;
  return s->o.plain && s->o.side == 0 && s->o.n_checks == 0 && !whole;
}

/* Bits of the halves of k = 2 w, 2 w + 1 that there are. */
static val before_end(direct *d, int w, val at_k, val size) {
  kernel *k = d->m.e->k;
  val from = first_k(d, at_k), bits[2];
  for (int i = 0; i < 2; i++) {
    val ok = k_lt(k, plus(k, from, 2 * w + i), size);
    bits[i] = k_select(k, ok, k_u32(k, i ? 0xffff0000 : 0xffff), k_u32(k, 0));
  }
  return k_or(k, bits[0], bits[1]);
}

/* Elements that do not exist may be any number: their scale serves the others, too. */
val direct_grows(direct *d, const direct_side *s, val *out_exponent) {
  kernel *k = d->m.e->k;
  val most = 0;
  for (int i = 0; i < s->points * 4; i++) {
    val size = k_abs(k, k_get(k, s->kept[i / 4][i % 4]));
    most = most ? k_max(k, most, size) : size;
  }
  *out_exponent = direct_exponent(k, k_subgroup_max(k, k_bits(k, most, k->s.u32)));
  return scale_exceeds(k, k_get(k, s->exponent[0]), *out_exponent);
}

/* Word w (k = 2 w, 2 w + 1) of a point of a value that is stored as pairs: of halves, or of what those leave (h 1). Neighbours along points
 * are the two of one word, so that a word of k has one of each of two. */
static val paired_word(direct *d, const direct_side *s, int point, int w, int h) {
  kernel *k = d->m.e->k;
  if (!loads_points(&s->o))
    return k_bits(k, k_get(k, s->kept[point][2 * h + w]), k->s.u32);
  int from = point / EACH * EACH + 2 * h + point % EACH / 2;
  const val two[2] = {k_get(k, s->kept[from][2 * w]), k_get(k, s->kept[from][2 * w + 1])};
  return k_join_halves(k, two, point % 2);
}

void direct_convert(direct *d, direct_side *s, val at_k, val size) {
  kernel *k = d->m.e->k;
  bool checks = has_notes(s), ends = ends_inside(s);
  int halves = d->products > 1 ? 2 : 1;
  val end[2] = {0, 0}, scale = d->half == SN_F16 && !s->packed ? k_get(k, s->scale) : 0;
  if (s->packed) {
    packed_use(d, s);
    return;
  }
  for (int w = 0; w < 2 && ends; w++)
    end[w] = before_end(d, w, at_k, size);
  for (int f = 0; 2 * f < s->points; f++) {
    val words[2][4];
    for (int i = 0; i < 4; i++) {
      int point = 2 * f + i / 2, w = i % 2;
      const val *x = &s->kept[point][2 * w];
      const val two[2] = {k_get(k, x[0]), k_get(k, x[1])};
      for (int h = 0; h < halves && s->paired; h++)
        words[h][i] = paired_word(d, s, point, w, h);
      if (!s->paired)
        direct_halves(k, d->half, scale, two, &words[0][i], halves > 1 ? &words[1][i] : NULL);
      val bits = checks ? noted(d, s, point, w) : end[w];
      for (int h = 0; h < halves && bits; h++)
        words[h][i] = k_and(k, words[h][i], bits);
    }
    for (int h = 0; h < halves; h++)
      s->half[f][h] = k_matrix_make(k, d->type[s->o.side ? MATRIX_B : MATRIX_A], words[h]);
  }
}
