/* The kernel and its loop over k. See emit_matmul_direct.h. */
#include "device/vulkan/emit_matmul_packed.h"

#include <math.h>

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
  return t->places && t->bf16_places && direct_threads(s, t) <= t->max_threads && all_short(e, p) &&
         16 * direct_vectors(s, p, t) <= t->shared_bytes;
}

int direct_threads(const direct_shape *s, const gpu_target *t) {
  return direct_subgroups(s) * t->subgroup;
}

bool direct_keeps(const emitter *e, const matmul_part *p) {
  packed_operands all;
  packed_collect(e, p, &all);
  return all.n > 0;
}

/* --- one stage --- */

/* The thread's row and column of element e of the sums of fragments i and j. Columns: 4 (e & 1) and what the fragment has. */
static int sum_number(const direct *d, int i, int j, int e) {
  int row = i * 2 + e / 4, block = j / 2, in = 2 * (j % 2) + (e >> 1 & 1);
  return row * 4 * d->shape->fragments[1] + block * 8 + (e & 1) * 4 + in;
}

/* Small products first, and neighbouring instructions for different sums. */
static void multiply(direct *d, int acc, const direct_side *a, const direct_side *b) {
  kernel *k = d->m.e->k;
  const int *n = d->shape->fragments;
  val sums[DIRECT_FRAGMENTS * DIRECT_FRAGMENTS];
  for (int i = 0; i < n[0] * n[1]; i++)
    sums[i] = k_get(k, d->sums[acc][i]);
  for (int product = d->products - 1; product >= 0; product--)
    for (int i = 0; i < n[0] * n[1]; i++)
      sums[i] = k_matrix_multiply_add(k, d->type[MATRIX_SUM], a->half[i / n[1]][product == 1],
                                      b->half[i % n[1]][product == 2], sums[i]);
  for (int i = 0; i < n[0] * n[1]; i++)
    k_set(k, d->sums[acc][i], sums[i]);
}

static void multiply_sums(direct *d, int acc, int fragment, const val by[2]) {
  kernel *k = d->m.e->k;
  val variable = d->sums[acc][fragment], sums = k_get(k, variable);
  for (int i = 0; i < 2; i++)
    sums = k_matrix_times(k, d->type[MATRIX_SUM], sums, by[i]);
  k_set(k, variable, sums);
}

/* Numbers larger than so far have another scale, which sums take, too. Beside an infinity nothing is left of others: then no sum is a number from here on,
 * and all are made again. */
static void rescale(direct *d, int side, val exponent) {
  kernel *k = d->m.e->k;
  direct_side *s = &d->sides[side];
  val by[2];
  scale_change(k, k_sub(k, exponent, k_get(k, s->exponent[0])), by);
  val is_wild = k_eq(k, exponent, k_i32(k, SCALE_INFINITE - 1));
  by[0] = k_select(k, is_wild, k_f32(k, NAN), by[0]);
  for (int a = 0; a < d->n; a++)
    for (int i = 0; i < d->shape->fragments[0] * d->shape->fragments[1]; i++)
      if (d->of[a][0] == side || d->of[a][1] == side)
        multiply_sums(d, d->first + a, i, by);
  k_set(k, s->exponent[0], exponent);
  k_set(k, s->scale, scale_of(k, exponent));
}

static void follow_scales(direct *d) {
  kernel *k = d->m.e->k;
  for (int i = 0; i < d->n_sides; i++) {
    val exponent;
    if (d->sides[i].packed)
      continue;
    k_if more = k_if_begin(k, direct_grows(d, &d->sides[i], &exponent));
    rescale(d, i, exponent);
    k_if_end(k, &more);
  }
}

/* Whether a stage's registers are words of matrices as they come from memory. */
static bool has_words(const direct_side *s) { return s->packed || s->paired; }

/* Loads a stage of the operands that have words, or of the others. */
static void load_stage(direct *d, bool words, val at_k, val size) {
  for (int i = 0; i < d->n_sides; i++)
    if (has_words(&d->sides[i]) == words)
      direct_load(d, &d->sides[i], at_k, size);
}

/* Uses a stage, and loads the next one. What is loaded goes to where its predecessor has been used already: if both had to be there at once,
 * registers would be copied, and a copy waits for the load. */
static void use_stage(direct *d, val at_k, val next, val size) {
  if (d->half == SN_F16)
    follow_scales(d);
  for (int i = 0; i < d->n_sides; i++)
    direct_convert(d, &d->sides[i], at_k, size);
  load_stage(d, false, next, size);
  for (int a = 0; a < d->n; a++)
    multiply(d, d->first + a, &d->sides[d->of[a][0]], &d->sides[d->of[a][1]]);
  load_stage(d, true, next, size);
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

/* Sums of scaled f16 to what they stand for. */
static void undo_scales(direct *d) {
  kernel *k = d->m.e->k;
  const int *n = d->shape->fragments;
  for (int a = 0; a < d->n; a++)
    for (int f = 0; f < n[0] * n[1]; f++) {
      const direct_side *side[2] = {&d->sides[d->of[a][0]], &d->sides[d->of[a][1]]};
      const int tile[2] = {f / n[1] / 2, f % n[1] / 2};
      val e[2], undo[2];
      for (int i = 0; i < 2; i++)
        e[i] = k_get(k, side[i]->exponent[side[i]->packed ? tile[i] : 0]);
      scale_undo_both(k, e[0], e[1], undo);
      multiply_sums(d, d->first + a, f, undo);
    }
}

/* The stages of this subgroup, all neighbours. */
typedef struct stages {
  val first, last, span; /* k of the first and the last one; elements of k of all */
  val begin;             /* k of the one to begin with; behind the last comes the first */
} stages;

/* Workgroups with the same weights begin at different places of k: each brings some of the weights from memory, and meets what the others have
 * brought, where all of them would wait for the same ones. */
static val begin_of(direct *d, const stages *of, val number) {
  kernel *k = d->m.e->k;
  bool packed = false;
  for (int i = 0; i < d->n_sides; i++)
    packed = packed || (d->sides[i].packed && d->sides[i].o.side == 1);
  if (!packed)
    return of->first;
  int each = direct_points(d->shape, 0);
  amount tiles = {d->m.part->n_m, each, d->m.part->extent + d->m.part->n_batch};
  val tile = high_part(k, d->m.begin[0], each);
  val stage = k_div(k, k_mul(k, tile, number), k_amount(k, &tiles));
  return k_add(k, of->first, times(k, stage, DIRECT_SIDE));
}

static stages stages_of(direct *d, val from, val to) {
  kernel *k = d->m.e->k;
  int n = d->shape->slices;
  val length = k_max(k, k_index(k, 0), k_sub(k, to, from)); /* the last pieces may have none */
  val all = high_part(k, plus(k, length, DIRECT_SIDE - 1), DIRECT_SIDE);
  val each = high_part(k, plus(k, all, n - 1), n), before = k_mul(k, d->slice, each);
  val number = k_max(k, k_index(k, 0), k_min(k, each, k_sub(k, all, before)));
  stages of = {.span = times(k, number, DIRECT_SIDE)};
  of.first = k_add(k, from, times(k, before, DIRECT_SIDE));
  of.last = plus(k, k_add(k, of.first, of.span), -DIRECT_SIDE);
  of.begin = begin_of(d, &of, number);
  return of;
}

/* The stage at a place counted from the first on. */
static val stage_at(kernel *k, const stages *of, val at) {
  return k_select(k, k_le(k, at, of->last), at, k_sub(k, at, of->span));
}

/* What is packed was so before the run: it is on its way while others are waited for. */
static void load_first(direct *d, const stages *of, val size, val any, bool packed) {
  kernel *k = d->m.e->k;
  int n = 0;
  for (int i = 0; i < d->n_sides; i++)
    n += (d->sides[i].packed != NULL) == packed;
  if (n == 0)
    return;
  k_if some = k_if_begin(k, any);
  for (int i = 0; i < d->n_sides; i++)
    if ((d->sides[i].packed != NULL) == packed)
      direct_load(d, &d->sides[i], of->begin, size);
  k_if_end(k, &some);
}

/* Behind the last stage another one is loaded, for nobody. */
static void sum_stages(direct *d, const stages *of, val size) {
  kernel *k = d->m.e->k;
  val end = k_add(k, of->begin, of->span), any = k_lt(k, of->begin, end);
  load_first(d, of, size, any, true);
  k_wait(k);
  load_first(d, of, size, any, false);
  k_loop l = k_loop_rolled(k, of->begin, end, k_index(k, DIRECT_SIDE));
  val next = stage_at(k, of, plus(k, l.i, DIRECT_SIDE));
  use_stage(d, stage_at(k, of, l.i), next, size);
  k_loop_end(k, &l);
}

static void sum_product(direct *d, int number) {
  kernel *k = d->m.e->k;
  const matmul_acc *accs = d->m.part->accs + d->first;
  const matmul_product *product = &accs[0].products[number];
  val from, to, size = k_sizes(k, product->n_k, product->k);
  d->n_sides = 0;
  for (int a = 0; a < d->n; a++)
    for (int side = 0; side < 2; side++)
      d->of[a][side] = add_side(d, &accs[a].products[number], side);
  matmul_range(&d->m, product, DIRECT_SIDE, &from, &to);
  if (d->table)
    direct_fill_table(d, from, to, size);
  stages of = stages_of(d, from, to);
  sum_stages(d, &of, size);
  if (d->half == SN_F16)
    undo_scales(d);
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
  if (d->table)
    k_barrier_shared(d->m.e->k); /* its memory is that of results */
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

/* Everything before the first product. */
static void begin(direct *d) {
  kernel *k = d->m.e->k;
  const gpu_target *t = d->m.e->env.target;
  int each[2] = {direct_points(d->shape, 0), direct_points(d->shape, 1)};
  vk_matmul_open(&d->m, each);
  k_use_matrices(k, t->matrix, d->half, d->type);
  int vectors = direct_vectors(d->shape, d->m.part, t);
  d->vectors = k_shared(k, spirv_vector(&k->s, k->s.u32, 4),
                        (int)max_i64(vectors, d->table ? DIRECT_TABLE : 0));
  place_thread(d);
  val zero = k_matrix_of(k, d->type[MATRIX_SUM], 0);
  for (int a = 0; a < d->m.part->n_accs; a++)
    for (int i = 0; i < d->shape->fragments[0] * d->shape->fragments[1]; i++)
      d->sums[a][i] = k_var(k, zero);
}

static void read_sums(direct *d) {
  const int *n = d->shape->fragments;
  kernel *k = d->m.e->k;
  for (int a = 0; a < d->m.part->n_accs; a++)
    for (int i = 0; i < n[0] * n[1]; i++) {
      val x[MATRIX_ELEMENTS];
      k_matrix_sums(k, k_get(k, d->sums[a][i]), x);
      for (int e = 0; e < MATRIX_ELEMENTS; e++)
        d->total[a][sum_number(d, i / n[1], i % n[1], e)] = x[e];
    }
}

/* Sums of several products would need one scale. */
static bool one_product(const matmul_part *p) {
  for (int a = 0; a < p->n_accs; a++)
    if (p->accs[a].n_products > 1)
      return false;
  return true;
}

/* Elements of k that a piece has at most. */
static int64_t longest_piece(const emit_env *env, const matmul_part *p, int splits) {
  const matmul_product *x = &p->accs[0].products[0];
  int64_t all = sizes_most(env, x->n_k, x->k);
  return (all / (DIRECT_SIDE * splits) + 1) * DIRECT_SIDE;
}

sn_status emit_direct(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) {
  packed_operands kept;
  sn_dtype half = one_product(p) ? way->half : SN_BF16;
  packed_collect(e, p, &kept);
  for (int i = 0; i < kept.n; i++)
    SN_TRY(emit_pack(e, p, half, &kept.list[i]));
  direct *d = mem_alloc(e->env.ctx, sizeof *d);
  if (!d || !emit_open_early(e, direct_threads(way->direct, e->env.target))) {
    mem_free(e->env.ctx, d, d ? sizeof *d : 0);
    return SN_ERR_NO_MEMORY;
  }
  d->m = (matmul){.e = e, .part = p, .way = way, .scratch = scratch};
  d->shape = way->direct;
  d->products = way->products;
  d->half = half;
  d->packed = &kept;
  d->table = kept.n == 0 && direct_has_table(e, p, longest_piece(&e->env, p, way->splits));
  begin(d);
  sum_all(d);
  k_wait(e->k); /* where there are no products */
  read_sums(d);
  direct_store(d);
  mem_free(e->env.ctx, d, sizeof *d);
  return emit_launch_when(e, false, of, least, most);
}
