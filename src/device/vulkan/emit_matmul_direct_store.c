/* Sums of slices meet in shared memory, then go through the epilogue. See emit_matmul_direct.h.
 *
 * Sums are in fours of neighbours in the result: four columns of a row, or four rows of a column. A pass has some of a thread's fours:
 * every subgroup leaves them as vectors, [subgroup][accumulator][four][thread], then each slice adds up its share of them. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_matmul_direct.h"

/* Fours of a thread's sums, and of a pass: as many as there is room for. */
static int fours_of(const direct_shape *s) { return 2 * s->fragments[0] * s->fragments[1]; }

static int vectors_of(const direct_shape *s, const matmul_part *p, const gpu_target *t, int fours) {
  return direct_subgroups(s) * p->n_accs * fours * t->subgroup;
}

enum { PAIR = 2 };
_Static_assert((int)EMIT_FOURS >= (int)PAIR, "pairs of fours go through epilogues in step");
_Static_assert((int)DIRECT_SUMS / 4 <= 32, "each four of a thread has a bit");

/* How many neighbouring fours are used in step. Two that are not dealt are both inside or both outside where columns come in eights. */
static int fours_at_once(const matmul_part *p, int share, bool dealt) {
  const sn_dim *columns = p->extent + p->n_batch + p->n_m;
  bool eights = dealt;
  for (int i = 0; i < p->n_n; i++)
    eights = eights || (dim_is_number(columns[i]) && columns[i] % 8 == 0);
  return share > 1 && eights && p->n_accs <= 2 && matmul_points(p) == 4 ? PAIR : 1;
}

static int fours_of_pass(const direct_shape *s, const matmul_part *p, const gpu_target *t) {
  int n = fours_of(s);
  while (n > 1 && 16 * vectors_of(s, p, t, n) > t->shared_bytes)
    n /= 2;
  return n;
}

int direct_vectors(const direct_shape *s, const matmul_part *p, const gpu_target *t) {
  return vectors_of(s, p, t, fours_of_pass(s, p, t));
}

/* Columns of a thread's sums. */
static int columns_of(const direct *d) { return 4 * d->shape->fragments[1]; }

/* The sum of four `four`: along columns, or along rows. */
static int sum_of_four(const direct *d, int four, int i) {
  int columns = columns_of(d), each = columns / 4;
  if (d->m.columns_last)
    return four / each * columns + four % each * 4 + i;
  return (four / columns * 4 + i) * columns + four % columns;
}

/* --- a pass --- */

typedef struct pass {
  int fours; /* of a thread */
  int plane; /* vectors of a subgroup */
  val lane,
      own; /* this thread's number in the subgroup; the first vector of its place's first slice */
  bool dealt; /* lines of the result are dealt out: see spot */
} pass;

/* A four, and the thread that had its sums. */
typedef struct spot {
  val four, g, t, lane;
} spot;

/* Where neighbouring columns are neighbours in memory, a thread's two fours of a row are 32 bytes, of which an instruction of its own would load or
 * store half. So they are dealt out again: eight neighbouring threads take the eight fours of 32 columns in a row; of the eight rows that a pair of
 * fours is of in all threads, the first is of the first four, the second of the others. */
static bool deals(const direct *d, int fours) { return d->m.columns_last && fours > 1; }

/* The four that this thread takes as number even + odd (indices; odd 0 or 1). */
static spot spot_at(direct *d, const pass *p, val even, val odd) {
  kernel *k = d->m.e->k;
  if (!p->dealt)
    return (spot){k_add(k, even, odd), d->g, d->t, p->lane};
  val half = low_part(k, p->lane, 2);
  spot s = {.four = k_add(k, even, half), .t = low_part(k, high_part(k, p->lane, 2), 4)};
  s.g = k_add(k, high_part(k, p->lane, 8), times(k, odd, 4));
  s.lane = k_add(k, times(k, s.g, 4), s.t);
  return s;
}

static spot spot_of(direct *d, const pass *p, val i) {
  kernel *k = d->m.e->k;
  val odd = low_part(k, i, 2);
  return spot_at(d, p, k_sub(k, i, odd), odd);
}

/* Where a thread's four lies in its plane. Every other four has its threads in other banks, so that eight that take two fours of four threads do not meet. */
static val lane_of_four(kernel *k, const pass *p, val four, val lane) {
  return p->dealt ? k_xor(k, lane, times(k, low_part(k, four, 2), 4)) : lane;
}

/* What a thread's row or column is in the workgroup's tile. */
static val point_at(direct *d, const spot *s, int side, val number) {
  kernel *k = d->m.e->k;
  int each = d->shape->fragments[side] * DIRECT_SIDE, own = side ? 8 : 4;
  val block = high_part(k, number, own), in = low_part(k, number, own);
  val lane = times(k, side ? s->t : s->g, own), tile = k_mul(k, d->place[side], k_index(k, each));
  val at = k_add(k, k_add(k, times(k, block, 32), lane), in);
  return k_add(k, k_add(k, d->m.begin[side], tile), at);
}

/* The first point of a pass's four; `first`: the pass's first one of a thread. */
static void four_at(direct *d, const spot *s, val first, val out[2]) {
  kernel *k = d->m.e->k;
  int columns = columns_of(d), each = columns / 4;
  val row, column, four = k_add(k, first, s->four);
  if (d->m.columns_last) {
    row = high_part(k, four, each);
    column = times(k, low_part(k, four, each), 4);
  } else {
    row = times(k, high_part(k, four, columns), 4);
    column = low_part(k, four, columns);
  }
  out[0] = point_at(d, s, 0, row);
  out[1] = point_at(d, s, 1, column);
}

static val is_inside(direct *d, const val at[2]) {
  kernel *k = d->m.e->k;
  return k_and(k, k_lt(k, at[0], d->m.size[0]), k_lt(k, at[1], d->m.size[1]));
}

static int places_of(const direct *d) { return d->shape->subgroups[0] * d->shape->subgroups[1]; }

static void leave_fours(direct *d, const pass *p, int number) {
  kernel *k = d->m.e->k;
  int threads = d->m.e->env.target->subgroup;
  val plane = k_mul(k, d->number, k_index(k, p->plane)), at[2];
  for (int q = 0; q < 2; q++)
    at[q] = k_add(k, plane, lane_of_four(k, p, k_index(k, q), p->lane));
  for (int a = 0; a < d->m.part->n_accs; a++)
    for (int q = 0; q < p->fours; q++) {
      val x[4];
      for (int i = 0; i < 4; i++)
        x[i] = k_bits(k, d->total[a][sum_of_four(d, number * p->fours + q, i)], k->s.u32);
      k_shared_set(k, d->vectors, plus(k, at[q % 2], (a * p->fours + q) * threads),
                   k_vector(k, 4, x));
    }
}

/* Vector of a four in the first slice. */
static val vector_of(direct *d, const pass *p, int acc, const spot *s) {
  kernel *k = d->m.e->k;
  int threads = d->m.e->env.target->subgroup;
  val number = plus(k, s->four, acc * p->fours), lane = lane_of_four(k, p, s->four, s->lane);
  return k_add(k, p->own, k_add(k, k_mul(k, number, k_index(k, threads)), lane));
}

static val plane_at(direct *d, const pass *p, val at, int slice) {
  return plus(d->m.e->k, at, (int64_t)slice * places_of(d) * p->plane);
}

/* Component i (index) of a vector becomes x. */
static val with_component(kernel *k, val vector, val i, val x) {
  val parts[4];
  for (int c = 0; c < 4; c++)
    parts[c] = k_select(k, k_eq(k, i, k_index(k, c)), x, k_part(k, vector, c));
  return k_vector(k, 4, parts);
}

/* Where a sum is no number: all of it in its first slice, by plain multiply-adds. */
static void remake(direct *d, const pass *p, val i, val first) {
  kernel *k = d->m.e->k;
  spot s = spot_of(d, p, i);
  k_loop l = k_loop_rolled(k, k_index(k, 0), k_index(k, 4), k_index(k, 1));
  val at[2];
  four_at(d, &s, first, at);
  int last = d->m.columns_last;
  at[last] = k_add(k, at[last], l.i);
  k_if inside = k_if_begin(k, is_inside(d, at));
  for (int a = 0; a < d->m.part->n_accs; a++) {
    val place = vector_of(d, p, a, &s);
    val sum = k_bits(k, matmul_sum_plainly(&d->m, a, DIRECT_SIDE, at), k->s.u32);
    for (int slice = 0; slice < d->shape->slices; slice++) {
      val there = plane_at(d, p, place, slice), x = slice ? k_u32(k, 0) : sum;
      k_shared_set(k, d->vectors, there,
                   with_component(k, k_shared_get(k, d->vectors, there), l.i, x));
    }
  }
  k_if_end(k, &inside);
  k_loop_end(k, &l);
}

static void read_four(direct *d, const pass *p, const spot *of, val sums[][4]) {
  kernel *k = d->m.e->k;
  for (int a = 0; a < d->m.part->n_accs; a++) {
    val at = vector_of(d, p, a, of);
    for (int s = 0; s < d->shape->slices; s++) {
      val slice = k_shared_get(k, d->vectors, plane_at(d, p, at, s));
      for (int i = 0; i < 4; i++) {
        val x = k_bits(k, k_part(k, slice, i), k->s.f32);
        sums[a][i] = s == 0 ? x : k_add(k, sums[a][i], x);
      }
    }
  }
}

/* Whether some of the fours' sums are no numbers. */
static val any_wild(direct *d, int n, val sums[][EMIT_ACCS][4]) {
  kernel *k = d->m.e->k;
  val most = k_u32(k, 0), mask = k_u32(k, 0x7fffffff);
  for (int q = 0; q < n; q++)
    for (int i = 0; i < 4 * d->m.part->n_accs; i++)
      most = k_max(k, most, k_and(k, k_bits(k, sums[q][i / 4][i % 4], k->s.u32), mask));
  return k_le(k, k_u32(k, 0x7f800000), most);
}

/* A four whose points go through the epilogue one by one. */
static void use_points(direct *d, const val at[2], val sums[][4]) {
  kernel *k = d->m.e->k;
  int last = d->m.columns_last;
  for (int i = 0; i < 4; i++) {
    val there[2] = {at[0], at[1]}, one[EMIT_ACCS];
    there[last] = plus(k, there[last], i);
    k_if inside = k_if_begin(k, is_inside(d, there));
    for (int a = 0; a < d->m.part->n_accs; a++)
      one[a] = sums[a][i];
    matmul_result(&d->m, there[0], there[1], one);
    k_if_end(k, &inside);
  }
}

/* This slice's share of a pass, n fours at a time. */
typedef struct share {
  int n;
  val first, from, end,
      by;  /* the pass's first four of the thread; the share's, counted from there */
  val odd; /* variable: a bit for each n of them whose sums are no numbers */
} share;

/* Two fours in step: where the second is outside, which is one of more rows, the first goes twice, to the same place. */
static val both_inside(direct *d, const pass *p, const share *s, val at[][2],
                       val sums[][EMIT_ACCS][4]) {
  kernel *k = d->m.e->k;
  val inside = is_inside(d, at[0]);
  if (s->n == 1 || !p->dealt)
    return inside;
  val second = is_inside(d, at[1]);
  at[1][0] = k_select(k, second, at[1][0], at[0][0]);
  for (int i = 0; i < 4 * d->m.part->n_accs; i++)
    sums[1][i / 4][i % 4] = k_select(k, second, sums[1][i / 4][i % 4], sums[0][i / 4][i % 4]);
  return inside;
}

/* Through the epilogue goes what has numbers for sums, or `again`, what had none. */
static void use_some(direct *d, const pass *p, const share *s, val again) {
  kernel *k = d->m.e->k;
  val sums[PAIR][EMIT_ACCS][4], at[PAIR][2], bit = k_var(k, k_u32(k, 1));
  k_loop l = k_loop_rolled(k, s->from, s->end, s->by);
  for (int q = 0; q < s->n; q++) {
    spot of = s->n == PAIR ? spot_at(d, p, l.i, k_index(k, q)) : spot_of(d, p, l.i);
    read_four(d, p, &of, sums[q]);
    four_at(d, &of, s->first, at[q]);
  }
  val wild = any_wild(d, s->n, sums), one = k_get(k, bit);
  val odd = k_or(k, k_get(k, s->odd), k_select(k, wild, one, k_u32(k, 0)));
  k_set(k, s->odd, odd);
  k_set(k, bit, k_shl(k, one, 1));
  val was = k_ne(k, k_and(k, odd, one), k_u32(k, 0)), goes = k_eq(k, again, was);
  bool fours = matmul_points(d->m.part) == 4;
  k_if now = k_if_begin(k, fours ? k_and(k, goes, both_inside(d, p, s, at, sums)) : goes);
  if (fours)
    matmul_result_fours(&d->m, s->n, at, sums);
  else
    use_points(d, at[0], sums[0]);
  k_if_end(k, &now);
  k_loop_end(k, &l);
}

static void remake_odd(direct *d, const pass *p, const share *s) {
  kernel *k = d->m.e->k;
  val bit = k_var(k, k_u32(k, 1));
  k_loop l = k_loop_rolled(k, s->from, s->end, s->by);
  val one = k_get(k, bit);
  k_if odd = k_if_begin(k, k_ne(k, k_and(k, k_get(k, s->odd), one), k_u32(k, 0)));
  k_loop each = k_loop_rolled(k, l.i, plus(k, l.i, s->n), k_index(k, 1));
  remake(d, p, each.i, s->first);
  k_loop_end(k, &each);
  k_if_end(k, &odd);
  k_set(k, bit, k_shl(k, one, 1));
  k_loop_end(k, &l);
}

/* Little code that runs several times is faster than more that runs once: it has to be fetched while everybody waits. So what makes sums
 * again that are no numbers stands behind the loop that uses the others, which then runs once more. */
static void use_fours(direct *d, const pass *p, val number) {
  kernel *k = d->m.e->k;
  int slices = d->shape->slices, n = fours_at_once(d->m.part, p->fours / slices, p->dealt);
  share s = {.n = n,
             .first = times(k, number, p->fours),
             .from = times(k, d->slice, n),
             .end = k_index(k, p->fours),
             .by = k_index(k, (int64_t)n * slices),
             .odd = k_var(k, k_u32(k, 0))};
  k_loop turn = k_loop_rolled(k, k_index(k, 0), k_index(k, 2), k_index(k, 1));
  val again = k_ne(k, turn.i, k_index(k, 0));
  use_some(d, p, &s, again);
  k_loop_break(k, &turn, k_or(k, again, k_eq(k, k_get(k, s.odd), k_u32(k, 0))));
  remake_odd(d, p, &s);
  k_loop_end(k, &turn);
}

/* Those who have a part of a thread's sums. */
static void meet(direct *d, const pass *p) {
  if (d->shape->slices > 1)
    k_barrier_shared(d->m.e->k);
  else if (p->dealt)
    k_barrier_subgroup(d->m.e->k);
}

void direct_store(direct *d) {
  kernel *k = d->m.e->k;
  const gpu_target *t = d->m.e->env.target;
  pass p = {.fours = fours_of_pass(d->shape, d->m.part, t)};
  p.dealt = deals(d, p.fours);
  p.plane = d->m.part->n_accs * p.fours * t->subgroup;
  p.lane = k_add(k, times(k, d->g, 4), d->t);
  val place = low_part(k, d->number, places_of(d));
  p.own = k_mul(k, place, k_index(k, p.plane));
  int n = fours_of(d->shape) / p.fours;
  k_loop l = k_loop_rolled(k, k_index(k, 0), k_index(k, n), k_index(k, 1));
  for (int i = 0; i < n; i++) {
    k_if mine = k_if_begin(k, k_eq(k, l.i, k_index(k, i)));
    leave_fours(d, &p, i);
    k_if_end(k, &mine);
  }
  meet(d, &p);
  use_fours(d, &p, l.i);
  meet(d, &p);
  k_loop_end(k, &l);
}
