/* Results with few rows (or few columns): decoding one token, dot products. See emit_matmul.h.
 *
 * Nothing is gained from tiles, since the large operand is used once: it is read straight into registers, by
 * threads along k or along its points, whichever are neighbours in memory; threads that share points then add their
 * sums in shared memory. */
#include "device/vulkan/emit_matmul.h"

enum { SHARED_SUMS = 4096, MOST_UNROLL = 4 };

typedef struct few {
  matmul m;
  const few_shape *shape;
  int groups;                         /* of `lanes` threads each */
  val lane, group;                    /* this thread */
  val sum[EMIT_ACCS][MATMUL_FEW * 4]; /* variables, [few][many] */
} few;

/* The two operands of a product, the one of the few side first. `step` elements of k are next to each other for a
 * thread. */
typedef struct pair {
  operand o[2];
  operand_rows at[2];
  val flat[2][MATMUL_FEW]; /* points */
  int n[2];
  int step;
} pair;

static void open_operand(few *f, pair *p, int i) {
  kernel *k = f->m.e->k;
  operand *o = &p->o[i];
  bool points = i == 1 && o->width == 4 && !o->along_k && p->n[1] == 4;
  if (!points && !(p->step == 4 && o->along_k))
    o->width = 1;
  val first = f->m.begin[o->side];
  if (i == 1) {
    val skip = times(k, f->group, f->shape->many);
    first = k_add(k, first, skip);
  }
  for (int r = 0; r < p->n[i]; r++) {
    p->flat[i][r] = plus(k, first, r);
    if (o->plain && (r == 0 || !points))
      operand_row(&f->m, o, &p->at[i], r, p->flat[i][r]);
  }
}

static void open_pair(few *f, const matmul_product *product, pair *p) {
  int side = f->shape->side;
  vk_operand_read(f->m.e, f->m.part, product, side, &p->o[0]);
  vk_operand_read(f->m.e, f->m.part, product, !side, &p->o[1]);
  p->n[0] = f->shape->few;
  p->n[1] = f->shape->many;
  p->step = p->o[1].plain && p->o[1].along_k && p->o[1].width == 4 ? 4 : 1;
  for (int i = 0; i < 2; i++)
    open_operand(f, p, i);
}

/* All elements of one operand at k …, [point][step]. */
static void load_operand(few *f, const pair *p, int i, val at_k, val size, val *out) {
  kernel *k = f->m.e->k;
  const operand *o = &p->o[i];
  bool points = o->width == 4 && !o->along_k, vector = o->width == 4 && o->along_k;
  for (int s = 0; s < p->step; s += vector ? 4 : 1) {
    operand_k there = {0};
    val now = plus(k, at_k, s), x[4];
    if (o->plain)
      there = operand_at_k(&f->m, o, now, size);
    for (int r = 0; r < p->n[i]; r += points ? 4 : 1) {
      if (o->plain)
        operand_load(&f->m, o, &p->at[i], r, &there, x);
      else
        x[0] = operand_element(&f->m, o, p->flat[i][r], now, size);
      for (int j = 0; j < (points || vector ? 4 : 1); j++)
        out[points ? (r + j) * p->step + s : r * p->step + s + j] = x[j];
    }
  }
}

static void multiply(few *f, const pair *p, const val *a, const val *b, val *sums) {
  kernel *k = f->m.e->k;
  for (int r = 0; r < p->n[0]; r++)
    for (int c = 0; c < p->n[1]; c++) {
      val to = sums[r * p->n[1] + c], sum = k_get(k, to);
      for (int s = 0; s < p->step; s++)
        sum = k_fma(k, a[r * p->step + s], b[c * p->step + s], sum);
      k_set(k, to, sum);
    }
}

static void sum_product(few *f, const matmul_product *product, val *sums) {
  kernel *k = f->m.e->k;
  pair p = {0};
  val from, to, size = k_sizes(k, product->n_k, product->k);
  open_pair(f, product, &p);
  /* so many loads are on their way at a time; along k one is of four elements */
  int apart = f->shape->lanes * p.step, unroll = f->shape->along_k ? 2 : MOST_UNROLL;
  matmul_range(&f->m, product, f->shape->lanes * 4 * MOST_UNROLL, &from, &to);
  val mine = k_add(k, from, times(k, f->lane, p.step)), by = k_index(k, apart * unroll);
  k_loop l = k_loop_begin(k, mine, to, by);
  val a[MOST_UNROLL][MATMUL_FEW * 4], b[MOST_UNROLL][MATMUL_FEW * 4];
  for (int u = 0; u < unroll; u++)
    load_operand(f, &p, 1, plus(k, l.i, u * apart), size, b[u]);
  for (int u = 0; u < unroll; u++)
    load_operand(f, &p, 0, plus(k, l.i, u * apart), size, a[u]);
  for (int u = 0; u < unroll; u++)
    multiply(f, &p, a[u], b[u], sums);
  k_loop_end(k, &l);
}

/* --- sums of the lanes --- */

/* Points of the few side whose sums shared memory holds at a time. */
static int points_at_once(const few *f) {
  int each = f->m.part->n_accs * f->shape->many * (f->shape->threads + f->groups),
      n = f->shape->few;
  while (n > 1 && n * each > SHARED_SUMS)
    n /= 2;
  return n;
}

static int lines_at_once(const few *f) { return points_at_once(f) * f->shape->many * f->groups; }

/* A line of shared memory has the lanes' sums of a point: [accumulator][few][many][group]. One place is left free,
 * for banks. */
static void share_sums(few *f, val array, int first) {
  kernel *k = f->m.e->k;
  int n = points_at_once(f) * f->shape->many, line = f->shape->lanes + 1;
  val at = k_add(k, k_mul(k, f->group, k_index(k, line)), f->lane);
  for (int a = 0; a < f->m.part->n_accs; a++)
    for (int i = 0; i < n; i++) {
      val x = k_get(k, f->sum[a][first * f->shape->many + i]);
      k_shared_set(k, array, plus(k, at, (a * n + i) * f->groups * line), x);
    }
}

/* The sum of a line, lane after lane. */
static val add_line(few *f, val array, val line) {
  kernel *k = f->m.e->k;
  val sum = k_var(k, k_f32(k, 0)), first = k_mul(k, line, k_index(k, f->shape->lanes + 1));
  val zero = k_index(k, 0), end = k_index(k, f->shape->lanes), by = k_index(k, 4);
  k_loop l = k_loop_begin(k, zero, end, by);
  val x[4], at = k_add(k, first, l.i);
  for (int i = 0; i < 4; i++)
    x[i] = k_shared_get(k, array, plus(k, at, i));
  val low = k_add(k, x[0], x[1]), high = k_add(k, x[2], x[3]);
  low = k_add(k, low, high);
  k_set(k, sum, k_add(k, k_get(k, sum), low));
  k_loop_end(k, &l);
  return k_get(k, sum);
}

/* Results of the lines that shared memory holds; `first`: the first of their few points. */
static void use_sums(few *f, val array, val first) {
  kernel *k = f->m.e->k;
  int side = f->shape->side, many = f->shape->many, lines = lines_at_once(f);
  val end = k_index(k, lines), by = k_index(k, k->threads), at[2], sums[EMIT_ACCS];
  k_loop l = k_loop_begin(k, k->local, end, by);
  val group = low_part(k, l.i, f->groups), rest = high_part(k, l.i, f->groups);
  val point = high_part(k, rest, many), of_many = low_part(k, rest, many);
  at[side] = k_add(k, k_add(k, f->m.begin[side], first), point);
  val skip = times(k, group, many);
  at[!side] = k_add(k, k_add(k, f->m.begin[!side], skip), of_many);
  val row_exists = k_lt(k, at[0], f->m.size[0]), column_exists = k_lt(k, at[1], f->m.size[1]);
  k_if inside = k_if_begin(k, k_and(k, row_exists, column_exists));
  for (int a = 0; a < f->m.part->n_accs; a++)
    sums[a] = add_line(f, array, plus(k, l.i, a * lines));
  matmul_result(&f->m, at[0], at[1], sums);
  k_if_end(k, &inside);
  k_loop_end(k, &l);
}

static void store_results(few *f) {
  kernel *k = f->m.e->k;
  int n = points_at_once(f);
  val array = k_shared(k, k->s.f32, f->m.part->n_accs * lines_at_once(f) * (f->shape->lanes + 1));
  val zero = k_index(k, 0), end = k_index(k, f->shape->few), by = k_index(k, n);
  k_loop pass = k_loop_begin(k, zero, end, by);
  for (int i = 0; i < f->shape->few; i += n) {
    k_if mine = k_if_begin(k, k_eq(k, pass.i, k_index(k, i)));
    share_sums(f, array, i);
    k_if_end(k, &mine);
  }
  k_barrier(k);
  use_sums(f, array, pass.i);
  k_barrier(k);
  k_loop_end(k, &pass);
}

static void emit_body(few *f) {
  kernel *k = f->m.e->k;
  const few_shape *s = f->shape;
  const matmul_part *p = f->m.part;
  int each[2];
  f->groups = s->threads / s->lanes;
  each[s->side] = s->few;
  each[!s->side] = f->groups * s->many;
  vk_matmul_open(&f->m, each);
  int inner = s->along_k ? s->lanes : f->groups;
  val low = low_part(k, k->local, inner), high = high_part(k, k->local, inner);
  f->lane = s->along_k ? low : high;
  f->group = s->along_k ? high : low;
  for (int a = 0; a < p->n_accs; a++) {
    for (int i = 0; i < s->few * s->many; i++)
      f->sum[a][i] = k_var(k, k_f32(k, 0));
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(f, &p->accs[a].products[i], f->sum[a]);
  }
  store_results(f);
}

sn_status emit_few(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                   const amount *of, int64_t least, int64_t most) {
  few f = {.m = {.e = e, .part = p, .way = way, .scratch = scratch}, .shape = &way->few};
  if (!emit_open(e, way->few.threads))
    return SN_ERR_NO_MEMORY;
  emit_body(&f);
  return emit_launch_when(e, false, of, least, most);
}
