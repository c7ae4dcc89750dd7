/* PERMUTE: the numbers 0 … n-1 in the order of random words, one for each. See emit_order.h. */
#include "device/vulkan/emit_order.h"

static val item_of(emitter *e, void *user, val row, val i) {
  const core_part *c = user;
  val key[3];
  (void)row;
  for (int n = 0; n < 3; n++) {
    val at[1] = {k_index(e->k, n)};
    key[n] = core_load(e, &c->in[0], at);
  }
  val word = emit_random(e, key, (uint32_t)c->ints[0], i);
  return core_pair(e, word, k_to_u32(e->k, i));
}

static void put_item(emitter *e, void *user, val row, val i, val item) {
  const core_part *c = user;
  (void)row;
  val at[1] = {i};
  core_store(e, &c->out[0], at, k_bits(e->k, core_low(e, item), e->k->s.i32));
}

static sn_status put_list(emitter *e, core_part *c, const order_list *l) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  val size = k_size(k, c->out[0].dim[0]);
  val i = k_add(k, k_mul(k, k->group, k_index(k, k->threads)), k->local);
  k_if inside = k_if_begin(k, k_lt(k, i, size));
  val item = emit_order_item(e, l, k_index(k, 0), i);
  put_item(e, c, 0, i, item);
  k_if_end(k, &inside);
  amount tiles = amount_tiles(&c->out[0].dim[0], k->threads);
  kernel_grid(k, 1, &tiles);
  return emit_launch(e, true);
}

sn_status emit_permute(emitter *e, const part *p) {
  core_part c = p->u.core;
  order_job j = {.n = c.out[0].dim[0], .item = item_of, .user = &c};
  order_list l;
  if (emit_order_is_short(e, j.n))
    return emit_order_short(e, &j, put_item);
  SN_TRY(emit_order_sort(e, &j, &l));
  return put_list(e, &c, &l);
}
