/* SORT (sort and topk) and PERMUTE: stable, by keys of 32 bits (order.h). */
#include "base/philox.h"
#include "device/cpu/order.h"
#include "device/cpu/view.h"

static size_t need_items(int64_t n) { return 2 * cpu_take_bytes((size_t)n * sizeof(order_item)); }

static sn_status take_items(cpu_run *r, int64_t n, order_item **items, order_item **spare) {
  *items = cpu_take(r, (size_t)n * sizeof **items);
  *spare = cpu_take(r, (size_t)n * sizeof **spare);
  return *items && *spare ? SN_OK : SN_ERR_INTERNAL;
}

/* --- sort --- */

static uint32_t key_at(const view *x, int64_t at) {
  if (x->dtype == SN_I32)
    return order_key_i32(view_i32(x, at));
  if (x->dtype == SN_U8 || x->dtype == SN_BOOL)
    return (uint8_t)x->data[at];
  return order_key_f32(view_load(x, at));
}

static size_t element_size(sn_dtype dtype) {
  return dtype == SN_F32 || dtype == SN_I32 ? 4 : dtype == SN_F16 || dtype == SN_BF16 ? 2 : 1;
}

/* The first of the items, as far as each result goes. */
static void store_slice(const view *x, int64_t from, const view *values, const view *indices,
                        int64_t o, int64_t i, const order_item *items) {
  size_t size = element_size(x->dtype);
  for (int64_t k = 0; values->data && k < values->dim[1]; k++) {
    int64_t at = view_at(values, 3, (int64_t[]){o, k, i});
    memcpy(values->data + (size_t)at * size,
           x->data + (size_t)(from + items[k].at * x->stride[1]) * size, size);
  }
  for (int64_t k = 0; indices->data && k < indices->dim[1]; k++)
    ((int32_t *)(void *)indices->data)[view_at(indices, 3, (int64_t[]){o, k, i})] = items[k].at;
}

static sn_status sort_part(cpu_run *r, const core_part *c) {
  view x = view_of(r, &c->in[0]), values = view_of(r, &c->out[0]), indices = view_of(r, &c->out[1]);
  uint32_t flip = c->ints[0] ? UINT32_MAX : 0;
  order_item *items, *spare;
  SN_TRY(take_items(r, x.dim[1], &items, &spare));
  for (int64_t o = 0; o < x.dim[0]; o++)
    for (int64_t i = 0; i < x.dim[2]; i++) {
      int64_t from = view_at(&x, 3, (int64_t[]){o, 0, i});
      for (int64_t k = 0; k < x.dim[1]; k++)
        items[k] = (order_item){key_at(&x, from + k * x.stride[1]) ^ flip, (int32_t)k};
      order_sort(items, spare, x.dim[1]);
      store_slice(&x, from, &values, &indices, o, i, items);
    }
  return SN_OK;
}

sn_status cpu_run_sort(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(sort_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
  }
  return SN_OK;
}

size_t cpu_need_sort(const program *p, const step *s) {
  int64_t longest = 0;
  for (int i = 0; i < s->n_parts; i++)
    longest = max_i64(longest, cpu_size_max(p, s->parts[i].u.core.in[0].dim[1]));
  return need_items(longest);
}

/* --- permutation --- */

static sn_status permute_part(cpu_run *r, const core_part *c) {
  view key = view_of(r, &c->in[0]), out = view_of(r, &c->out[0]);
  int64_t n = out.dim[0];
  uint32_t words[3];
  order_item *items, *spare;
  SN_TRY(take_items(r, n, &items, &spare));
  for (int64_t k = 0; k < 3; k++)
    words[k] = (uint32_t)view_i32(&key, view_at(&key, 1, &k));
  for (int64_t i = 0; i < n; i += 4) {
    uint64_t block = (uint64_t)i / 4;
    uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), words[2], (uint32_t)c->ints[0]};
    philox(words, x);
    for (int64_t j = i; j < n && j < i + 4; j++)
      items[j] = (order_item){x[j - i], (int32_t)j};
  }
  order_sort(items, spare, n);
  for (int64_t i = 0; i < n; i++)
    ((int32_t *)(void *)out.data)[view_at(&out, 1, &i)] = items[i].at;
  return SN_OK;
}

sn_status cpu_run_permute(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(permute_part(r, &s->parts[i].u.core));
    r->scratch_used = used;
  }
  return SN_OK;
}

size_t cpu_need_permute(const program *p, const step *s) {
  int64_t longest = 0;
  for (int i = 0; i < s->n_parts; i++)
    longest = max_i64(longest, cpu_size_max(p, s->parts[i].u.core.out[0].dim[0]));
  return need_items(longest);
}
