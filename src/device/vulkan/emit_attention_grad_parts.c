/* Results of attention's gradient where each workgroup has passed over a part: sums of the parts in scratch memory, and the launch that adds
 * them up in their order. See emit_attention_grad.h. */
#include "device/vulkan/emit_attention_grad.h"
#include "device/vulkan/emit_attention_solo.h"

amount grad_parts(const grad_cut *c) {
  return c->each > 0 ? (amount){c->over.n, c->each, c->over.dims} : (amount){.n = 0, .tile = 1};
}

val grad_range(kernel *k, const grad_cut *c, val at, val *out_part, val *out_from, val *out_to) {
  amount parts = grad_parts(c);
  *out_from = k_index(k, 0);
  *out_to = k_amount(k, &c->over);
  if (c->each == 0)
    return at;
  val each = k_index(k, c->each), rest = k_divide(k, at, &parts, out_part);
  *out_from = k_mul(k, *out_part, each);
  *out_to = k_min(k, *out_to, k_add(k, *out_from, each));
  return rest;
}

void grad_result_at(emitter *e, const attending *a, bool keys, val b, val kv, val number,
                    val out[3]) {
  out[0] = b;
  out[1] = kv;
  out[2] = number;
  if (keys)
    return;
  query q = query_at(e, a, b, kv, number);
  out[1] = q.head;
  out[2] = q.i;
}

int64_t grad_take_parts(emitter *e, const grad_cut *c, const strided *to) {
  int64_t all = sizes_most(&e->env, c->over.n, c->over.dims);
  if (c->each == 0 || !to->value)
    return 0;
  int64_t parts = (all + c->each - 1) / c->each;
  return scratch_take(&e->env, parts * sizes_most(&e->env, 4, to->dim) * 4);
}

/* The number of an element of a part of a result, which is dense there. */
static val part_at(emitter *e, const strided *to, val part_number, const val at[4]) {
  kernel *k = e->k;
  val sum = part_number;
  for (int d = 0; d < 4; d++)
    sum = k_add(k, k_mul(k, sum, k_size(k, to->dim[d])), at[d]);
  return sum;
}

void grad_put(emitter *e, const grad_cut *c, const strided *to, int64_t byte, val part_number,
              const val at[4], val x) {
  if (c->each > 0)
    k_store(e->k, k_scratch(e->k, byte), part_at(e, to, part_number, at), x);
  else
    core_store(e, to, at, x);
}

void grad_put_four(emitter *e, const grad_cut *c, const strided *to, int64_t byte, val part_number,
                   const val at[3], val column, const val x[4]) {
  kernel *k = e->k;
  val all[4] = {at[0], at[1], at[2], column}, width = k_size(k, to->dim[3]);
  if (c->each == 0) {
    solo_store(e, to, at, column, x);
    return;
  }
  if (dim_is_number(to->dim[3]) && to->dim[3] % 4 == 0) {
    k_if inside = k_if_begin(k, k_lt(k, column, width));
    val index = k_shr(k, part_at(e, to, part_number, all), 2);
    k_store(k, k_scratch(k, byte), index, k_vector(k, 4, x));
    k_if_end(k, &inside);
    return;
  }
  for (int i = 0; i < 4; i++) {
    all[3] = k_add(k, column, k_index(k, i));
    k_if inside = k_if_begin(k, k_lt(k, all[3], width));
    grad_put(e, c, to, byte, part_number, all, x[i]);
    k_if_end(k, &inside);
  }
}

/* --- results from their parts --- */

enum { TOGETHER = 4, NUMBERS = 4 /* of a result that a thread has, side by side, at most */ };

static int numbers_of(const strided *to) {
  return dim_is_number(to->dim[3]) && to->dim[3] > 0 && to->dim[3] % NUMBERS == 0 ? NUMBERS : 1;
}

/* Numbers from `flat` on, in the order of the parts. */
static void add_parts(emitter *e, const struct grad_later *l, val flat, val at[4]) {
  kernel *k = e->k;
  const strided *to = l->to;
  int each = numbers_of(to);
  spirv_id type = each > 1 ? spirv_vector(&k->s, k->s.f32, NUMBERS) : k->s.f32;
  amount parts = grad_parts(&l->cut);
  val all = k_sizes(k, 4, to->dim), n = k_amount(k, &parts), zero = k_f32(k, 0), x[TOGETHER];
  val last = k_sub(k, n, k_index(k, 1)), none = k_index(k, 0), sum[NUMBERS], out[NUMBERS];
  for (int i = 0; i < each; i++)
    sum[i] = k_var(k, zero);
  k_loop i = k_loop_begin(k, none, n, k_index(k, TOGETHER));
  for (int t = 0; t < TOGETHER; t++) {
    val number = k_min(k, k_add(k, i.i, k_index(k, t)), last);
    val place = k_add(k, k_mul(k, number, all), flat);
    x[t] = k_load(k, type, k_scratch(k, l->byte), each > 1 ? k_shr(k, place, 2) : place);
  }
  for (int t = 0; t < TOGETHER; t++) {
    val there = k_lt(k, k_add(k, i.i, k_index(k, t)), n);
    for (int j = 0; j < each; j++) {
      val more = k_select(k, there, each > 1 ? k_part(k, x[t], j) : x[t], zero);
      k_set(k, sum[j], k_add(k, k_get(k, sum[j]), more));
    }
  }
  k_loop_end(k, &i);
  for (int j = 0; j < each; j++)
    out[j] = k_get(k, sum[j]);
  if (each > 1)
    solo_store(e, to, at, at[3], out);
  else
    core_store(e, to, at, out[0]);
}

/* n results of equal sizes in one launch. */
static sn_status add_together(emitter *e, int n, const struct grad_later *l, bool after) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const sn_dim *dim = l->to->dim;
  int each = numbers_of(l->to);
  sn_dim size[4] = {dim[0], dim[1], dim[2], each > 1 ? dim[3] / each : dim[3]}, results = n;
  amount blocks = {4, k->threads, size};
  val number, which = k_divide(k, k->group, &blocks, &number), at[4];
  val rest = k_add(k, k_mul(k, number, k_index(k, k->threads)), k->local), flat = rest;
  k_if inside = k_if_begin(k, k_lt(k, flat, k_sizes(k, 4, size)));
  for (int d = 3; d > 0; d--) {
    amount by = amount_of(&size[d]);
    rest = k_divide(k, rest, &by, &at[d]);
  }
  at[0] = rest;
  at[3] = each > 1 ? k_shl(k, at[3], 2) : at[3];
  for (int i = 0; i < n; i++) {
    k_if mine = k_if_begin(k, k_eq(k, which, k_index(k, i)));
    add_parts(e, &l[i], each > 1 ? k_shl(k, flat, 2) : flat, at);
    k_if_end(k, &mine);
  }
  k_if_end(k, &inside);
  kernel_grid(k, 2, (amount[]){{1, 1, &results}, blocks});
  return emit_launch(e, after);
}

static bool same_size(const strided *a, const strided *b) {
  bool same = true;
  for (int d = 0; d < 4; d++)
    same = same && a->dim[d] == b->dim[d];
  return same;
}

sn_status grad_add_all(emitter *e, const grad_rest *r) {
  for (int i = 0, n; i < r->n; i += n) {
    for (n = 1; i + n < r->n && same_size(r->at[i].to, r->at[i + n].to);)
      n++;
    SN_TRY(add_together(e, n, &r->at[i], i == 0));
  }
  return SN_OK;
}

void grad_add_later(grad_rest *r, const grad_cut *c, const strided *to, int64_t byte) {
  if (c->each == 0 || !to->value)
    return;
  r->at[r->n].cut = *c;
  r->at[r->n].to = to;
  r->at[r->n++].byte = byte;
}
