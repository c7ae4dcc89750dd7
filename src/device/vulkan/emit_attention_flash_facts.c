/* ATTENTION_GRAD of many rows: operands packed, and what is known of queries along with them. See emit_attention_flash_grad.h. */
#include "device/vulkan/emit_attention_flash_grad.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

/* Row `number` of a list: lse in units of log 2, inf where nothing is seen; d_lse - d_out·out; the keys that it sees. */
static void put_facts(const flash *f, const flash_packed *p, val b, val kv, val number, val dot) {
  emitter *e = f->e;
  kernel *k = e->k;
  val all = k_sizes(k, 2, f->a->rows), none = k_f32(k, INFINITY);
  query q = query_at(e, f->a, b, kv, k_min(k, number, plus(k, all, -1)));
  const val at[3] = {b, q.head, q.i};
  val lse = core_load(e, p->g->lse, at), there = k_lt(k, number, all);
  val seen = k_and(k, there, k_ne(k, lse, k_f32(k, -INFINITY)));
  val x[4] = {k_select(k, seen, k_mul(k, lse, k_f32(k, CREW_LOG2E)), none), k_neg(k, dot)};
  if (p->g->d_lse->value)
    x[1] = k_sub(k, core_load(e, p->g->d_lse, at), dot);
  if (p->ranges) {
    x[2] = k_bits(k, k_to_u32(k, q.low), k->s.f32);
    x[3] = k_bits(k, k_to_u32(k, k_select(k, there, q.high, k_index(k, 0))), k->s.f32);
  }
  val row = k_add(k, flash_list_start(f, true, b, kv), number);
  k_store(k, k_scratch(k, p->facts), row, k_vector(k, p->ranges ? 4 : 2, x));
}

static void make_facts(const flash *f, void *user, val b, val kv, val first) {
  kernel *k = f->e->k;
  const flash_packed *p = user;
  row_list l = {.of = p->g->out, .width = f->a->dv, .b = b, .head = kv, .packed = true};
  l.low = k_index(k, 0);
  l.high = k_sizes(k, 2, f->a->rows);
  row_list d_out = l;
  d_out.of = p->g->d_out;
  for (int r = 0; r < 2; r++) {
    val row = k_add(k, first, plus(k, f->g, 8 * r)), sum = k_f32(k, 0);
    for (int i = 0; i < p->o[1].n; i++) {
      val column = plus(k, k_shl(k, f->t, 2), FLASH_SIDE * i);
      val x = tile_load_vector(f->e, f->a, &l, row, column);
      val y = tile_load_vector(f->e, f->a, &d_out, row, column);
      for (int n = 0; n < 4; n++)
        sum = k_fma(k, k_part(k, x, n), k_part(k, y, n), sum);
    }
    sum = k_add(k, sum, k_shuffle_xor(k, sum, 1));
    sum = k_add(k, sum, k_shuffle_xor(k, sum, 2));
    k_if one = k_if_begin(k, k_eq(k, f->t, k_index(k, 0)));
    put_facts(f, p, b, kv, row, sum);
    k_if_end(k, &one);
  }
}

bool grad_flash_fits(const emitter *e, const backward *g) {
  const attending *a = &g->a;
  return flash_fits(e, a) && sizes_most(&e->env, 2, a->rows) >= FLASH_LEAST &&
         size_most(&e->env, a->skv) >= FLASH_LEAST;
}

sn_status grad_flash(emitter *e, const backward *g, grad_rest *rest) {
  const attending *a = &g->a;
  flash_packed p = {.g = g, .ranges = a->causal || a->kv_length->value};
  const sn_dim heads[2] = {a->b, a->hk};
  int64_t rows = (sizes_most(&e->env, 2, a->rows) + FLASH_STEP - 1) / FLASH_STEP * FLASH_STEP;
  bool keys = g->to[DK].value || g->to[DV].value;
  int all = QUERY_OPERANDS + KEY_OPERANDS, first = flash_same_lists(a) ? all : QUERY_OPERANDS;
  for (int i = 0; i < QUERY_OPERANDS; i++)
    p.o[i] = flash_operand_of(e, a, i % 2 ? g->d_out : a->q, true, i >= 2);
  for (int i = 0; i < KEY_OPERANDS; i++)
    p.o[QUERY_OPERANDS + i] = flash_operand_of(e, a, i == 1 ? a->v : a->k, false, i == 2);
  p.facts =
      scratch_take(&e->env, sizes_most(&e->env, 2, heads) * rows * (1 << flash_facts_power(&p)));
  SN_TRY(flash_pack(e, a, first, p.o, make_facts, &p));
  SN_TRY(emit_launch(e, false));
  if (first < all) {
    SN_TRY(flash_pack(e, a, all - first, p.o + first, NULL, NULL));
    SN_TRY(emit_launch(e, false));
  }
  if (keys)
    SN_TRY(flash_grad_side(e, &p, true, true, rest));
  return g->to[DQ].value ? flash_grad_side(e, &p, false, !keys, rest) : SN_OK;
}
