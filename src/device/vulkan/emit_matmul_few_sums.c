/* What the lanes of a matmul of few rows have of its sums, put together. See emit_matmul_few.h.
 *
 * A few sums of lanes that are neighbours are added by shuffles; many, or those of lanes that stand apart, in shared memory. */
#include "device/vulkan/emit_matmul_few.h"

enum { SHARED_SUMS = 4096 };

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

/* --- the same by shuffles --- */

static bool uses_shuffles(const few *f) {
  int n = f->shape->few * f->shape->many;
  return f->shape->along_k && n * f->m.part->n_accs <= MOST_SHUFFLED && n <= f->shape->lanes;
}

/* Sum i of a thread over the lanes of its subgroup that share its points. */
static val add_neighbours(few *f, int acc, int i, int width) {
  kernel *k = f->m.e->k;
  val sum = k_get(k, f->sum[acc][i]);
  for (int mask = 1; mask < width; mask *= 2)
    sum = k_add(k, sum, k_shuffle_xor(k, sum, mask));
  return sum;
}

/* Lane i gets sum i. */
static val deal_out(few *f, const val *sums, int n) {
  kernel *k = f->m.e->k;
  val mine = sums[0];
  for (int i = 1; i < n; i++)
    mine = k_select(k, k_eq(k, f->lane, k_index(k, i)), sums[i], mine);
  return mine;
}

/* The subgroups' sums in shared memory, [accumulator][sum][group][subgroup]; returns it. */
static val share_subgroups(few *f, val (*sums)[MOST_SHUFFLED], int n, int width) {
  kernel *k = f->m.e->k;
  int parts = f->shape->lanes / width;
  val array = k_shared(k, k->s.f32, f->m.part->n_accs * n * f->groups * parts);
  val at = k_add(k, times(k, f->group, parts), high_part(k, f->lane, width));
  k_if one = k_if_begin(k, k_eq(k, low_part(k, f->lane, width), k_index(k, 0)));
  for (int a = 0; a < f->m.part->n_accs; a++)
    for (int i = 0; i < n; i++)
      k_shared_set(k, array, plus(k, at, (int64_t)(a * n + i) * f->groups * parts), sums[a][i]);
  k_if_end(k, &one);
  k_barrier_shared(k);
  return array;
}

static val add_subgroups(few *f, val array, int acc, int n, int parts) {
  kernel *k = f->m.e->k;
  val line = plus(k, f->lane, (int64_t)acc * n);
  val at = k_add(k, times(k, line, f->groups * parts), times(k, f->group, parts)), sum = 0;
  for (int i = 0; i < parts; i++) {
    val x = k_shared_get(k, array, plus(k, at, i));
    sum = sum ? k_add(k, sum, x) : x;
  }
  return sum;
}

static void store_by_shuffles(few *f) {
  kernel *k = f->m.e->k;
  const few_shape *s = f->shape;
  int n = s->few * s->many, subgroup = f->m.e->env.target->subgroup, side = s->side;
  int width = s->lanes < subgroup ? s->lanes : subgroup, parts = s->lanes / width;
  val sums[EMIT_ACCS][MOST_SHUFFLED], mine[EMIT_ACCS], at[2], array = 0;
  for (int a = 0; a < f->m.part->n_accs; a++) {
    for (int i = 0; i < n; i++)
      sums[a][i] = add_neighbours(f, a, i, width);
    mine[a] = deal_out(f, sums[a], n);
  }
  if (parts > 1)
    array = share_subgroups(f, sums, n, width);
  val point = high_part(k, f->lane, s->many), of_many = low_part(k, f->lane, s->many);
  at[side] = k_add(k, f->m.begin[side], point);
  at[!side] = k_add(k, k_add(k, f->m.begin[!side], times(k, f->group, s->many)), of_many);
  val exists = k_and(k, k_lt(k, at[0], f->m.size[0]), k_lt(k, at[1], f->m.size[1]));
  k_if inside = k_if_begin(k, k_and(k, exists, k_lt(k, f->lane, k_index(k, n))));
  for (int a = 0; a < f->m.part->n_accs && parts > 1; a++)
    mine[a] = add_subgroups(f, array, a, n, parts);
  matmul_result(&f->m, at[0], at[1], mine);
  k_if_end(k, &inside);
}

void few_results(few *f) {
  if (uses_shuffles(f))
    store_by_shuffles(f);
  else
    store_results(f);
}
