/* The kernel and its loop over k. See emit_matmul_direct.h. */
#include "device/vulkan/emit_matmul_packed.h"

/* Loads, or little more: a program's code stands in the loop as often as a thread has elements. */
static bool all_short(const emitter *e, const matmul_part *p) {
  enum { SHORT = 3 };
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++)
      for (int side = 0; side < 2; side++) {
        operand o;
        vk_operand_read(e, p, &p->accs[a].products[i], side, &o);
        if (!o.plain && o.code->n > SHORT)
          return false;
      }
  return true;
}

bool direct_fits(const emitter *e, const direct_shape *s, const matmul_part *p) {
  const gpu_target *t = e->env.target;
  return t->places && t->f16 && direct_threads(s, t) <= t->max_threads && all_short(e, p) &&
         4 * direct_words(s, p, t) <= t->shared_bytes;
}

int direct_threads(const direct_shape *s, const gpu_target *t) {
  return direct_subgroups(s) * t->subgroup;
}

bool direct_keeps(const emitter *e, const matmul_part *p) {
  packed_operands all;
  bool any = false;
  for (int i = 0; e->env.kept && packed_collect(e, p, &all) && i < all.n; i++)
    any = any || packed_may_keep(e, p, &all.list[i]);
  return any;
}

/* --- one stage --- */

/* The thread's row and column of element e of the sums of fragments i and j. Columns: 4 (e & 1) and what the fragment has. */
static int sum_number(const direct *d, int i, int j, int e) {
  int row = i * 2 + e / 4, block = j / 2, in = 2 * (j % 2) + (e >> 1 & 1);
  return row * 4 * d->shape->fragments[1] + block * 8 + (e & 1) * 4 + in;
}

void direct_add(direct *d, int acc, int i, int j, val sums, const val undo[2]) {
  kernel *k = d->m.e->k;
  val x[MATRIX_ELEMENTS];
  k_matrix_sums(k, sums, x);
  for (int e = 0; e < MATRIX_ELEMENTS; e++) {
    val total = d->total[acc][sum_number(d, i, j, e)];
    k_set(k, total, k_fma(k, k_mul(k, x[e], undo[0]), undo[1], k_get(k, total)));
  }
}

static void add_sums(direct *d, int acc, const direct_side *a, const direct_side *b,
                     const val *sums) {
  const int *n = d->shape->fragments;
  for (int r = 0; r < n[0] / 2; r++)
    for (int c = 0; c < n[1] / 2; c++) {
      val undo[2];
      scale_undo_both(d->m.e->k, a->exponent[r], b->exponent[c], undo);
      for (int f = 0; f < 4; f++) {
        int i = 2 * r + f / 2, j = 2 * c + f % 2;
        direct_add(d, acc, i, j, sums[i * n[1] + j], undo);
      }
    }
}

/* Small products first, and neighbouring instructions for different sums. */
static void multiply(direct *d, int acc, const direct_side *a, const direct_side *b) {
  kernel *k = d->m.e->k;
  const int *n = d->shape->fragments;
  val sums[DIRECT_FRAGMENTS * DIRECT_FRAGMENTS], zero = k_matrix_of(k, d->type[2], 0);
  for (int i = 0; i < n[0] * n[1]; i++)
    sums[i] = zero;
  for (int product = d->products - 1; product >= 0; product--)
    for (int i = 0; i < n[0] * n[1]; i++)
      sums[i] = k_matrix_multiply_add(k, d->type[MATRIX_SUM], a->half[i / n[1]][product == 1],
                                      b->half[i % n[1]][product == 2], sums[i]);
  add_sums(d, acc, a, b, sums);
}

static void load_set(direct *d, int set, val at_k, val to, val size) {
  kernel *k = d->m.e->k;
  k_if some = k_if_begin(k, k_lt(k, at_k, to));
  for (int i = 0; i < d->n_sides; i++)
    direct_load(d, &d->sides[i], set, at_k, size);
  k_if_end(k, &some);
}

/* Uses a set, and loads the next stage into it as soon as its numbers are matrices. */
static void use_set(direct *d, int set, val at_k, val next, val to, val size) {
  for (int i = 0; i < d->n_sides; i++)
    direct_convert(d, &d->sides[i], set, at_k, size);
  load_set(d, set, next, to, size);
  for (int a = 0; a < d->n; a++)
    multiply(d, d->first + a, &d->sides[d->of[a][0]], &d->sides[d->of[a][1]]);
}

/* --- the loop over k --- */

static int add_side(direct *d, const matmul_product *product, int side) {
  operand o;
  vk_operand_read(d->m.e, d->m.part, product, side, &o);
  for (int i = 0; i < d->n_sides; i++)
    if (d->sides[i].o.side == side && region_same(d->sides[i].o.code, o.code))
      return i;
  direct_side *s = &d->sides[d->n_sides];
  *s = (direct_side){.o = o};
  int packed = packed_find(d->packed, &o);
  s->packed = packed >= 0 ? &d->packed->list[packed] : NULL;
  direct_side_open(d, s);
  return d->n_sides++;
}

static void sum_product(direct *d, int number) {
  kernel *k = d->m.e->k;
  const direct_shape *s = d->shape;
  const matmul_acc *accs = d->m.part->accs + d->first;
  const matmul_product *product = &accs[0].products[number];
  int depth = DIRECT_SIDE, pace = depth * s->slices;
  val from, to, size = k_sizes(k, product->n_k, product->k);
  d->n_sides = 0;
  for (int a = 0; a < d->n; a++)
    for (int side = 0; side < 2; side++)
      d->of[a][side] = add_side(d, &accs[a].products[number], side);
  matmul_range(&d->m, product, depth, &from, &to);
  from = k_add(k, from, k_mul(k, d->slice, k_index(k, depth)));
  for (int set = 0; set < s->ahead; set++)
    load_set(d, set, plus(k, from, set * pace), to, size);
  k_loop l = k_loop_begin(k, from, to, k_index(k, s->ahead * pace));
  for (int set = 0; set < s->ahead; set++) {
    val at_k = plus(k, l.i, set * pace);
    k_if some = k_if_begin(k, k_lt(k, at_k, to));
    use_set(d, set, at_k, plus(k, at_k, s->ahead * pace), to, size);
    k_if_end(k, &some);
  }
  k_loop_end(k, &l);
}

static void sum_all(direct *d) {
  const matmul_part *p = d->m.part;
  for (int a = 0; a < p->n_accs; a += d->n) {
    d->first = a;
    d->n = 1;
    if (d->shape->together && a + 1 < p->n_accs && accs_share(&p->accs[a], &p->accs[a + 1]))
      d->n = 2;
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(d, i);
  }
}

/* --- the kernel --- */

static void place_thread(direct *d) {
  kernel *k = d->m.e->k;
  const int *n = d->shape->subgroups;
  val lane = k_subgroup_lane(k);
  d->g = high_part(k, lane, 4);
  d->t = low_part(k, lane, 4);
  d->number = k_subgroup_number(k);
  val rest = high_part(k, d->number, n[1]);
  d->place[1] = low_part(k, d->number, n[1]);
  d->place[0] = low_part(k, rest, n[0]);
  d->slice = high_part(k, rest, n[0]);
}

void direct_begin(direct *d) {
  kernel *k = d->m.e->k;
  const gpu_target *t = d->m.e->env.target;
  int each[2] = {direct_points(d->shape, 0), direct_points(d->shape, 1)};
  vk_matmul_open(&d->m, each);
  k_use_matrices(k, t->matrix, SN_F16, d->type);
  d->words = k_shared(k, k->s.u32, direct_words(d->shape, d->m.part, t));
  place_thread(d);
  d->wild = k_var(k, k_u32(k, 0));
  val zero = k_f32(k, 0);
  for (int a = 0; a < d->m.part->n_accs; a++)
    for (int i = 0; i < 8 * d->shape->fragments[0] * d->shape->fragments[1]; i++)
      d->total[a][i] = k_var(k, zero);
}

/* What stays as it is from run to run (weights) is packed once. */
static sn_status keep_operands(emitter *e, const matmul_part *p, packed_operands *out) {
  packed_operands all;
  out->n = 0;
  if (!packed_collect(e, p, &all))
    return SN_OK;
  for (int i = 0; i < all.n; i++)
    if (packed_may_keep(e, p, &all.list[i])) {
      out->list[out->n] = all.list[i];
      SN_TRY(emit_pack(e, p, &out->list[out->n++], NULL, 0, 0));
    }
  return SN_OK;
}

sn_status emit_direct(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) {
  packed_operands kept;
  SN_TRY(keep_operands(e, p, &kept));
  direct *d = mem_alloc(e->env.ctx, sizeof *d);
  if (!d || !emit_open(e, direct_threads(way->direct, e->env.target))) {
    mem_free(e->env.ctx, d, d ? sizeof *d : 0);
    return SN_ERR_NO_MEMORY;
  }
  d->m = (matmul){.e = e, .part = p, .way = way, .scratch = scratch};
  d->shape = way->direct;
  d->products = way->products;
  d->depth = DIRECT_SIDE;
  d->packed = &kept;
  direct_begin(d);
  sum_all(d);
  direct_store(d);
  mem_free(e->env.ctx, d, sizeof *d);
  return emit_launch_when(e, false, of, least, most);
}
