/* Attention's parts of keys joined: what each came to, in their order, under one maximum. See emit_attention.h. */
#include "device/vulkan/emit_attention_solo.h"

#include <math.h>

enum { TOGETHER = 4 };

/* Facts of a part, or those of the last where there is none: *there says so. Loads of several are under way together. */
static val fact_at(emitter *e, const forward *f, val start, val number, val n, int which,
                   val *there, val *part_number) {
  kernel *k = e->k;
  val last = k_sub(k, n, k_index(k, 1));
  *there = k_lt(k, number, n);
  *part_number = k_add(k, start, k_min(k, number, last));
  val at = k_add(k, k_shl(k, *part_number, 1), k_index(k, which));
  return k_load(k, k->s.f32, k_scratch(k, f->facts), at);
}

static val most_of_parts(emitter *e, const forward *f, val start, val n) {
  kernel *k = e->k;
  val most = k_var(k, k_f32(k, -INFINITY)), zero = k_index(k, 0), x[TOGETHER], there, number;
  k_loop i = k_loop_begin(k, zero, n, k_index(k, TOGETHER));
  for (int c = 0; c < TOGETHER; c++)
    x[c] = fact_at(e, f, start, k_add(k, i.i, k_index(k, c)), n, 0, &there, &number);
  for (int c = 0; c < TOGETHER; c++)
    k_set(k, most, k_max(k, k_get(k, most), x[c]));
  k_loop_end(k, &i);
  return k_get(k, most);
}

/* Numbers of the result that a thread has, side by side. */
enum { MOST = 4 };
static int numbers_of(const forward *f) {
  return dim_is_number(f->a.dv) && f->a.dv > 0 && f->a.dv % MOST == 0 ? MOST : 1;
}

static val load_sums(emitter *e, const forward *f, val number, val column) {
  kernel *k = e->k;
  val at = k_add(k, k_mul(k, number, k_size(k, f->a.dv)), column);
  if (numbers_of(f) == 1)
    return k_load(k, k->s.f32, k_scratch(k, f->sums), at);
  return k_load(k, spirv_vector(&k->s, k->s.f32, MOST), k_scratch(k, f->sums), k_shr(k, at, 2));
}

/* Numbers of the result from its parts, in their order: their sums, and that of the weights. */
static void sum_parts(emitter *e, const forward *f, val start, val n, val base, val column,
                      val *sum, val *x) {
  kernel *k = e->k;
  int numbers = numbers_of(f);
  val zero = k_index(k, 0), nothing = k_f32(k, 0), all = k_var(k, nothing), out[MOST];
  val max[TOGETHER], more[TOGETHER], value[TOGETHER], there[TOGETHER], number;
  for (int i = 0; i < numbers; i++)
    out[i] = k_var(k, nothing);
  k_loop i = k_loop_begin(k, zero, n, k_index(k, TOGETHER));
  for (int c = 0; c < TOGETHER; c++) {
    val at = k_add(k, i.i, k_index(k, c));
    max[c] = fact_at(e, f, start, at, n, 0, &there[c], &number);
    more[c] = fact_at(e, f, start, at, n, 1, &there[c], &number);
    value[c] = f->a.dv != 0 ? load_sums(e, f, number, column) : nothing;
  }
  for (int c = 0; c < TOGETHER; c++) {
    val weight = emit_float1(e, ALU_exp, k_sub(k, max[c], base));
    weight = k_select(k, there[c], weight, nothing);
    k_set(k, all, k_fma(k, more[c], weight, k_get(k, all)));
    for (int j = 0; j < numbers; j++) {
      val y = numbers == 1 ? value[c] : k_part(k, value[c], j);
      y = k_select(k, there[c], y, nothing);
      k_set(k, out[j], k_fma(k, y, weight, k_get(k, out[j])));
    }
  }
  k_loop_end(k, &i);
  *sum = k_get(k, all);
  for (int j = 0; j < numbers; j++)
    x[j] = k_get(k, out[j]);
}

static void join_parts(emitter *e, const forward *f, val b, val kv, val row, val column) {
  kernel *k = e->k;
  const attending *a = &f->a;
  query q = query_at(e, a, b, kv, row);
  amount parts = amount_tiles(&a->skv, f->part);
  val n = k_amount(k, &parts), start = forward_part_at(e, f, b, kv, row, k_index(k, 0)), sum;
  val max = most_of_parts(e, f, start, n), x[MOST], at[4] = {b, q.head, q.i, column};
  sum_parts(e, f, start, n, forward_base(e, max), column, &sum, x);
  row_end end = forward_end(e, f, &q, max, sum);
  for (int i = 0; i < numbers_of(f); i++)
    x[i] = k_mul(k, x[i], end.scale);
  if (numbers_of(f) == MOST)
    solo_store(e, f->out, at, column, x);
  else if (a->dv != 0)
    core_store(e, f->out, at, x[0]);
  if (f->lse->value) {
    k_if first = k_if_begin(k, k_eq(k, column, k_index(k, 0)));
    core_store(e, f->lse, (val[]){b, q.head, q.i}, end.lse);
    k_if_end(k, &first);
  }
}

sn_status forward_join(emitter *e, const forward *f) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const attending *a = &f->a;
  int each = numbers_of(f);
  sn_dim all[5] = {a->b, a->hk, a->rows[0], a->rows[1], each > 1 ? a->dv / each : f->columns};
  amount width = amount_of(&all[4]), rows = {2, 1, a->rows}, heads = amount_of(&all[1]);
  val flat = k_add(k, k_mul(k, k->group, k_index(k, k->threads)), k->local), column, row, kv;
  k_if inside = k_if_begin(k, k_lt(k, flat, k_sizes(k, 5, all)));
  val rest = k_divide(k, flat, &width, &column);
  rest = k_divide(k, rest, &rows, &row);
  val b = k_divide(k, rest, &heads, &kv);
  join_parts(e, f, b, kv, row, each > 1 ? k_shl(k, column, 2) : column);
  k_if_end(k, &inside);
  kernel_grid(k, 1, &(amount){5, k->threads, all});
  return forward_launch(e, f, true);
}
