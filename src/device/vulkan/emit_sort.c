/* SORT: values in order along an axis, and where they stood (sort and top-k). See emit_order.h. */
#include "device/vulkan/emit_order.h"

typedef struct sorting {
  const strided *x, *values, *indices; /* [outer, n, inner], [outer, k, inner] */
  bool falls;
  sn_dim k;
} sorting;

/* Slices are rows of the order: their number is o * inner + i. */
static void slice_of(emitter *e, const sorting *s, val row, val *at) {
  amount inner = amount_of(&s->x->dim[2]);
  at[0] = k_divide(e->k, row, &inner, &at[2]);
}

static val item_of(emitter *e, void *user, val row, val i) {
  const sorting *s = user;
  kernel *k = e->k;
  val at[3] = {0, i, 0};
  slice_of(e, s, row, at);
  val key = emit_order_key(e, (sn_dtype)s->x->dtype, core_load(e, s->x, at));
  if (s->falls)
    key = k_not(k, key);
  return core_pair(e, key, k_to_u32(k, i));
}

static void put_item(emitter *e, void *user, val row, val i, val item) {
  const sorting *s = user;
  kernel *k = e->k;
  val to[3] = {0, i, 0}, number = core_low(e, item);
  slice_of(e, s, row, to);
  if (s->values->value) {
    val from[3] = {to[0], k_to_index(k, number), to[2]};
    core_store(e, s->values, to, core_load(e, s->x, from));
  }
  if (s->indices->value)
    core_store(e, s->indices, to, k_bits(k, number, k->s.i32));
}

/* The results from a list. */
static sn_status put_list(emitter *e, sorting *s, const order_job *j, const order_list *l) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  amount tiles = amount_tiles(&s->k, k->threads);
  val tile, row = k_divide(k, k->group, &tiles, &tile), size = k_size(k, s->k);
  val i = k_add(k, k_mul(k, tile, k_index(k, k->threads)), k->local);
  k_if inside = k_if_begin(k, k_lt(k, i, size));
  put_item(e, s, row, i, emit_order_item(e, l, row, i));
  k_if_end(k, &inside);
  kernel_grid(k, 2, (amount[]){{j->n_rows, 1, j->rows}, tiles});
  return emit_launch(e, true);
}

sn_status emit_sort(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  sorting s = {.x = &c->in[0],
               .values = &c->out[0],
               .indices = &c->out[1],
               .falls = c->ints[0] != 0,
               .k = c->out[0].value ? c->out[0].dim[1] : c->out[1].dim[1]};
  order_job j = {.n_rows = 2,
                 .rows = {s.x->dim[0], s.x->dim[2]},
                 .n = s.x->dim[1],
                 .item = item_of,
                 .user = &s};
  order_list l;
  if (!c->out[0].value && !c->out[1].value)
    return SN_OK;
  if (s.k == 0)
    return SN_OK;
  j.first = s.k == j.n ? 0 : s.k; /* other k are numbers */
  if (emit_order_is_short(e, j.n))
    return emit_order_short(e, &j, put_item);
  if (j.first > ORDER_FEW)
    j.first = 0;
  SN_TRY(emit_order_sort(e, &j, &l));
  return put_list(e, &s, &j, &l);
}
