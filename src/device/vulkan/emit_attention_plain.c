/* See emit_attention_plain.h. It is slow and short: what is not finite is rare. */
#include "device/vulkan/emit_attention_plain.h"

#include "device/vulkan/emit_matmul.h"

#include <math.h>

val plain_get(const crew *c, val at) {
  return k_bits(c->e->k, k_shared_get(c->e->k, c->words, at), c->e->k->s.f32);
}
void plain_set(const crew *c, val at, val x) {
  k_shared_set(c->e->k, c->words, at, k_bits(c->e->k, x, c->e->k->s.u32));
}

void plain_find(emitter *e, const forward *f, int rows, plain_block *b) {
  kernel *k = e->k;
  const attending *a = &f->a;
  amount heads = amount_of(&a->hk), blocks = {2, rows, a->rows};
  amount parts = amount_tiles(&a->skv, f->part);
  val rest = k->group, one = k_index(k, 1), number;
  if (f->cut)
    rest = k_divide(k, rest, &parts, &b->part);
  rest = k_divide(k, rest, &blocks, &number);
  b->b = k_divide(k, rest, &heads, &b->kv);
  b->first = k_mul(k, number, k_index(k, rows));
  b->rows = k_sizes(k, 2, a->rows);
  val end = k_min(k, k_add(k, b->first, k_index(k, rows)), b->rows);
  queries_see(e, a, b->b, b->first, k_sub(k, end, one), &b->low, &b->high);
  if (f->cut) {
    val from = k_mul(k, b->part, k_index(k, f->part));
    b->low = k_max(k, b->low, from);
    b->high = k_min(k, b->high, k_add(k, from, k_index(k, f->part)));
  }
  kernel_grid(k, f->cut ? 3 : 2, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, blocks, parts});
}

static val fact_at(const crew *c, const plain_block *b, val plane, val row, int which) {
  kernel *k = c->e->k;
  val number = k_add(k, k_mul(k, plane, k_index(k, crew_rows(c))), row);
  return plus(k, k_mul(k, number, k_index(k, PLAIN_FACTS)), b->facts + which);
}

plain_elements plain_each(const crew *c, int rows, int columns) {
  kernel *k = c->e->k;
  sn_dim size = columns;
  amount by = amount_of(&size);
  plain_elements x = {
      .l = k_loop_rolled(k, k->local, k_index(k, (int64_t)rows * columns), k_index(k, k->threads))};
  x.row = k_divide(k, x.l.i, &by, &x.column);
  return x;
}

/* --- scores --- */

static int score_stride(const crew *c) { return crew_columns(c) + 1; }
static val score_at(const crew *c, val row, val column) {
  kernel *k = c->e->k;
  val line = k_mul(k, row, k_index(k, score_stride(c)));
  return plus(k, k_add(k, line, column), c->areas);
}

val plain_dot(const crew *c, const strided *x, const strided *y, sn_dim width, const val at_x[3],
              const val at_y[3]) {
  kernel *k = c->e->k;
  val sum = k_var(k, k_f32(k, 0));
  k_loop d = k_loop_rolled(k, k_index(k, 0), k_size(k, width), k_index(k, 1));
  val left = core_load(c->e, x, (val[]){at_x[0], at_x[1], at_x[2], d.i});
  val right = core_load(c->e, y, (val[]){at_y[0], at_y[1], at_y[2], d.i});
  k_set(k, sum, k_fma(k, left, right, k_get(k, sum)));
  k_loop_end(k, &d);
  return k_get(k, sum);
}

static void find_scores(crew *c, const plain_block *b, val first) {
  kernel *k = c->e->k;
  const attending *a = c->a;
  plain_elements x = plain_each(c, crew_rows(c), crew_columns(c));
  query q = query_at(c->e, a, b->b, b->kv, k_add(k, b->first, x.row));
  q.high = k_min(k, q.high, b->high);
  val key = k_add(k, first, x.column), above = k_le(k, q.low, key);
  k_if seen = k_if_begin(k, k_and(k, above, k_lt(k, key, q.high)));
  val product =
      plain_dot(c, a->q, a->k, a->d, (val[]){b->b, q.head, q.i}, (val[]){b->b, b->kv, key});
  val score = score_of(c->e, a, &q, key, product, NULL);
  score = k_if_value(k, &seen, score, k_f32(k, -INFINITY));
  plain_set(c, score_at(c, x.row, x.column), score);
  k_loop_end(k, &x.l);
}

/* --- rows --- */

/* A thread a row: weights under the new maximum, and what the sums so far are multiplied with. */
static void weigh(crew *c, const plain_block *b) {
  kernel *k = c->e->k;
  val zero = k_index(k, 0), one = k_index(k, 1), end = k_index(k, crew_columns(c)), row = k->local;
  k_if mine = k_if_begin(k, k_lt(k, row, k_index(k, crew_rows(c))));
  val at_base = fact_at(c, b, zero, row, 0), at_sum = fact_at(c, b, zero, row, 1);
  val old = plain_get(c, at_base), most = k_var(k, old);
  k_loop l = k_loop_rolled(k, zero, end, one);
  k_set(k, most, k_max(k, k_get(k, most), plain_get(c, score_at(c, row, l.i))));
  k_loop_end(k, &l);
  val max = k_get(k, most), base = forward_base(c->e, max);
  val keep = emit_float1(c->e, ALU_exp, k_sub(k, old, base));
  val sum = k_var(k, k_mul(k, plain_get(c, at_sum), keep));
  l = k_loop_rolled(k, zero, end, one);
  val at = score_at(c, row, l.i);
  val weight = emit_float1(c->e, ALU_exp, k_sub(k, plain_get(c, at), base));
  plain_set(c, at, weight);
  k_set(k, sum, k_add(k, k_get(k, sum), weight));
  k_loop_end(k, &l);
  plain_set(c, at_base, max);
  plain_set(c, at_sum, k_get(k, sum));
  plain_set(c, fact_at(c, b, zero, row, 2), keep);
  k_if_end(k, &mine);
}

/* Sums with the values of a tile; what is weighted with 0 counts nothing, whatever it is. */
static void add_values(crew *c, const plain_block *b, val first, int width) {
  kernel *k = c->e->k;
  const attending *a = c->a;
  plain_elements x = plain_each(c, crew_rows(c), width);
  val column = x.column, size = k_size(k, a->dv), origin = k_index(k, 0);
  val at = k_add(k, k_mul(k, x.row, k_index(k, width + 4)), column);
  val keep = plain_get(c, fact_at(c, b, origin, x.row, 2)), sum = k_var(k, plain_get(c, at));
  k_set(k, sum, k_mul(k, k_get(k, sum), keep));
  k_loop l = k_loop_rolled(k, origin, k_index(k, crew_columns(c)), k_index(k, 1));
  val weight = plain_get(c, score_at(c, x.row, l.i)), counts = k_ne(k, weight, k_f32(k, 0));
  val key = k_add(k, first, l.i), inside = k_and(k, k_lt(k, key, b->high), k_lt(k, column, size));
  k_if some = k_if_begin(k, k_and(k, counts, inside));
  val value = core_load(c->e, a->v, (val[]){b->b, b->kv, key, column});
  k_set(k, sum, k_fma(k, weight, value, k_get(k, sum)));
  k_if_end(k, &some);
  k_loop_end(k, &l);
  plain_set(c, at, k_get(k, sum));
  k_loop_end(k, &x.l);
}

/* Planes of zeros, facts of rows that saw nothing. */
static void clear(crew *c, const plain_block *b, int width) {
  kernel *k = c->e->k;
  val zero = k_f32(k, 0), none = k_f32(k, -INFINITY), by = k_index(k, k->threads);
  int words = c->shape.columns * crew_plane_words(c, width);
  k_loop l = k_loop_rolled(k, k->local, k_index(k, words), by);
  plain_set(c, l.i, zero);
  k_loop_end(k, &l);
  l = k_loop_rolled(k, k->local, k_index(k, c->shape.columns * crew_rows(c)), by);
  val at = fact_at(c, b, k_index(k, 0), l.i, 0);
  plain_set(c, at, none);
  plain_set(c, plus(k, at, 1), zero);
  k_loop_end(k, &l);
}

crew plain_open(emitter *e, const attending *a, int rows, int columns, plain_block *b) {
  int words;
  crew c = crew_of(e, a, (crew_shape){1, 1, rows}, rows * (columns + 4), 1, 0, PLAIN_FACTS * rows,
                   &words);
  c.words = k_shared(e->k, e->k->s.u32, words);
  b->facts = c.notes;
  b->power = k_var(e->k, k_i32(e->k, 0));
  return c;
}

void plain_forward(crew *c, const forward *f, plain_block *b, int width) {
  kernel *k = c->e->k;
  (void)f;
  clear(c, b, width);
  k_set(k, b->power, k_i32(k, 0));
  k_barrier_shared(k);
  k_loop l = k_loop_rolled(k, b->low, b->high, k_index(k, crew_columns(c)));
  find_scores(c, b, l.i);
  k_barrier_shared(k);
  weigh(c, b);
  k_barrier_shared(k);
  add_values(c, b, l.i, width);
  k_barrier_shared(k);
  k_loop_end(k, &l);
}

/* --- results --- */

/* A thread a row: its planes' sums under one maximum; what they are multiplied with; its lse. */
static void end_rows(crew *c, const forward *f, const plain_block *b) {
  kernel *k = c->e->k;
  int planes = c->shape.columns;
  k_if mine = k_if_begin(k, k_lt(k, k->local, k_index(k, crew_rows(c))));
  val row = k->local, max = 0, sum = 0;
  for (int p = 0; p < planes; p++) {
    val base = plain_get(c, fact_at(c, b, k_index(k, p), row, 0));
    max = max ? k_max(k, max, base) : base;
  }
  val top = forward_base(c->e, max), weight[8];
  for (int p = 0; p < planes; p++) {
    val base = plain_get(c, fact_at(c, b, k_index(k, p), row, 0));
    val more = plain_get(c, fact_at(c, b, k_index(k, p), row, 1));
    weight[p] = planes == 1 ? k_f32(k, 1) : emit_float1(c->e, ALU_exp, k_sub(k, base, top));
    more = k_mul(k, more, weight[p]);
    sum = sum ? k_add(k, sum, more) : more;
  }
  query q = query_at(c->e, c->a, b->b, b->kv, k_add(k, b->first, row));
  row_end end = {0};
  if (!f->cut)
    end = forward_end(c->e, f, &q, max, sum);
  for (int p = 0; p < planes; p++)
    plain_set(c, fact_at(c, b, k_index(k, p), row, 2),
              f->cut ? weight[p] : k_mul(k, weight[p], end.scale));
  k_if there = k_if_begin(k, q.there);
  if (f->cut) {
    val number = forward_part_at(c->e, f, b->b, b->kv, k_add(k, b->first, row), b->part);
    forward_put_facts(c->e, f, number, max, sum);
  } else if (f->lse->value) {
    core_store(c->e, f->lse, (val[]){b->b, q.head, q.i}, end.lse);
  }
  k_if_end(k, &there);
  k_if_end(k, &mine);
}

void plain_put(crew *c, const forward *f, const plain_block *b, int width) {
  kernel *k = c->e->k;
  end_rows(c, f, b);
  k_barrier_shared(k);
  plain_elements x = plain_each(c, crew_rows(c), width);
  query q = query_at(c->e, c->a, b->b, b->kv, k_add(k, b->first, x.row));
  k_if there = k_if_begin(k, k_and(k, q.there, k_lt(k, x.column, k_size(k, c->a->dv))));
  val at = k_add(k, k_mul(k, x.row, k_index(k, width + 4)), x.column), sum = 0;
  for (int p = 0; p < c->shape.columns; p++) {
    val by = plain_get(c, fact_at(c, b, k_index(k, p), x.row, 2));
    val more = k_mul(k, plain_get(c, plus(k, at, p * crew_plane_words(c, width))), by);
    sum = sum ? k_add(k, sum, more) : more;
  }
  sum = crew_scaled(k, sum, crew_factors_of(k, k_neg(k, k_get(k, b->power))));
  if (f->cut) {
    val row = k_add(k, b->first, x.row);
    forward_put_part(c->e, f, forward_part_at(c->e, f, b->b, b->kv, row, b->part), x.column, sum);
  } else {
    core_store(c->e, f->out, (val[]){b->b, q.head, q.i, x.column}, sum);
  }
  k_if_end(k, &there);
  k_loop_end(k, &x.l);
}
