/* SORT (sort and topk) and PERMUTE: stable, by keys of 32 bits (order.h). Threads share slices; one long slice is sorted by
 * all of them together. The first few of many are found without sorting the rest. */
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa/cores.h"
#include "device/cpu/order.h"
#include "device/cpu/view.h"

enum { FEW = 8 }; /* up to a FEWth of a slice is "the first few" */

static size_t need_items(int64_t n) { return 2 * cpu_take_bytes((size_t)n * sizeof(order_item)); }

static sn_status take_items(cpu_run *r, int64_t n, order_item **items, order_item **spare) {
  *items = cpu_take(r, (size_t)n * sizeof **items);
  *spare = cpu_take(r, (size_t)n * sizeof **spare);
  return *items && *spare ? SN_OK : SN_ERR_INTERNAL;
}

/* --- sort --- */

/* x [outer, n, inner]; values and indices [outer, k, inner], either may be left out. */
typedef struct sorting {
  view x, values, indices;
  uint32_t flip;
  int64_t k; /* the first so many are wanted */
  order_item *items, *spare;
} sorting;

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

/* Items first … end-1 to their places, as far as each result goes. */
static void store_slice(const sorting *s, int64_t o, int64_t i, const order_item *items,
                        int64_t first, int64_t end) {
  const view *x = &s->x, *values = &s->values, *indices = &s->indices;
  size_t size = element_size(x->dtype);
  int64_t from = view_at(x, 3, (int64_t[]){o, 0, i});
  for (int64_t k = first; values->data && k < min_i64(end, values->dim[1]); k++) {
    int64_t at = view_at(values, 3, (int64_t[]){o, k, i});
    memcpy(values->data + (size_t)at * size,
           x->data + (size_t)(from + items[k].at * x->stride[1]) * size, size);
  }
  for (int64_t k = first; indices->data && k < min_i64(end, indices->dim[1]); k++)
    ((int32_t *)(void *)indices->data)[view_at(indices, 3, (int64_t[]){o, k, i})] = items[k].at;
}

/* Keys of a slice that begins at element `from`, as items first … end-1. */
static void fill_items(const sorting *s, int64_t from, int64_t first, int64_t end,
                       order_item *items) {
  for (int64_t k = first; k < end; k++)
    items[k] = (order_item){key_at(&s->x, from + k * s->x.stride[1]) ^ s->flip, (int32_t)k};
}

static void find_first(const cpu_run *r, const sorting *s, int64_t from) {
  order_first f = {.kernels = r->isa->cores, .items = s->items, .spare = s->spare, .k = s->k};
  uint32_t keys[ORDER_CHUNK];
  const view *x = &s->x;
  for (int64_t k = 0; k < x->dim[1]; k += ORDER_CHUNK) {
    int64_t n = min_i64(ORDER_CHUNK, x->dim[1] - k), at = from + k * x->stride[1];
    if (x->dtype == SN_F32 && x->stride[1] == 1)
      r->isa->cores->keys((const float *)(const void *)x->data + at, n, s->flip, keys);
    else
      for (int64_t j = 0; j < n; j++)
        keys[j] = key_at(x, at + j * x->stride[1]) ^ s->flip;
    order_first_add(&f, keys, n, k);
  }
  order_first_end(&f);
}

static bool is_few(int64_t k, int64_t n) { return k * FEW <= n && n > 2 * ORDER_CHUNK; }

/* Items that a slice of n takes at most, whatever k is. */
static int64_t room_of(int64_t n) { return max_i64(n, order_first_room(n / FEW)); }

static void sort_slice(const cpu_run *r, const sorting *s, int64_t o, int64_t i) {
  int64_t from = view_at(&s->x, 3, (int64_t[]){o, 0, i}), n = s->x.dim[1];
  if (is_few(s->k, n)) {
    find_first(r, s, from);
  } else {
    fill_items(s, from, 0, n, s->items);
    order_sort(s->items, s->spare, n);
  }
  store_slice(s, o, i, s->items, 0, s->k);
}

static void sort_slices(cpu_run *r, const sorting *s) {
  enum { WORTH = 1 << 12 };
  int64_t inner = s->x.dim[2], all = s->x.dim[0] * inner, i;
  int64_t group = max_i64(1, WORTH / max_i64(1, s->x.dim[1]));
  cpu_begin(r);
  while (cpu_next(r, (all + group - 1) / group, &i))
    for (int64_t k = i * group; k < min_i64(all, (i + 1) * group); k++)
      sort_slice(r, s, k / inner, k % inner);
}

/* One slice after the other, each by all threads. */
static sn_status sort_together(cpu_run *r, const sorting *s) {
  int64_t n = s->x.dim[1], from, to;
  order_shared shared;
  if (!order_share(r, n, &shared))
    return SN_ERR_INTERNAL;
  for (int64_t o = 0; o < s->x.dim[0]; o++)
    for (int64_t i = 0; i < s->x.dim[2]; i++) {
      cpu_share(r, n, 1, &from, &to);
      fill_items(s, view_at(&s->x, 3, (int64_t[]){o, 0, i}), from, to, shared.items);
      cpu_sync(r);
      store_slice(s, o, i, order_sort_shared(r, &shared, n), from, to);
      cpu_sync(r); /* the next slice has the same memory */
    }
  return SN_OK;
}

static sn_status sort_part(cpu_run *r, const core_part *c) {
  sorting s = {.x = view_of(r, &c->in[0]),
               .values = view_of(r, &c->out[0]),
               .indices = view_of(r, &c->out[1]),
               .flip = c->ints[0] ? UINT32_MAX : 0};
  int64_t slices = s.x.dim[0] * s.x.dim[2], n = s.x.dim[1];
  s.k = max_i64(s.values.data ? s.values.dim[1] : 0, s.indices.data ? s.indices.dim[1] : 0);
  if (r->threads > 1 && slices < r->threads && n >= ORDER_MANY && !is_few(s.k, n))
    return sort_together(r, &s);
  SN_TRY(take_items(r, room_of(n), &s.items, &s.spare));
  sort_slices(r, &s);
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
  return need_items(room_of(longest));
}

size_t cpu_need_shared_sort(const program *p, const step *s) {
  size_t all = 0;
  for (int i = 0; i < s->n_parts; i++) {
    int64_t n = cpu_size_max(p, s->parts[i].u.core.in[0].dim[1]);
    all += n >= ORDER_MANY ? order_share_bytes(n) : 0;
  }
  return all;
}

/* --- permutation --- */

/* Random keys of places from … to-1; from is a multiple of 4. */
static void draw_keys(const uint32_t words[3], uint32_t stream, int64_t from, int64_t to,
                      order_item *items) {
  for (int64_t i = from; i < to; i += 4) {
    uint64_t block = (uint64_t)i / 4;
    uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), words[2], stream};
    philox(words, x);
    for (int64_t j = i; j < to && j < i + 4; j++)
      items[j] = (order_item){x[j - i], (int32_t)j};
  }
}

static void store_places(const view *out, const order_item *items, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++)
    ((int32_t *)(void *)out->data)[view_at(out, 1, &i)] = items[i].at;
}

static sn_status permute_together(cpu_run *r, const uint32_t words[3], uint32_t stream,
                                  const view *out) {
  int64_t n = out->dim[0], from, to;
  order_shared shared;
  if (!order_share(r, n, &shared))
    return SN_ERR_INTERNAL;
  cpu_share(r, n, 4, &from, &to);
  draw_keys(words, stream, from, to, shared.items);
  cpu_sync(r);
  store_places(out, order_sort_shared(r, &shared, n), from, to);
  return SN_OK;
}

static sn_status permute_part(cpu_run *r, const core_part *c) {
  view key = view_of(r, &c->in[0]), out = view_of(r, &c->out[0]);
  int64_t n = out.dim[0];
  uint32_t words[3], stream = (uint32_t)c->ints[0];
  order_item *items, *spare;
  for (int64_t k = 0; k < 3; k++)
    words[k] = (uint32_t)view_i32(&key, view_at(&key, 1, &k));
  if (r->threads > 1 && n >= ORDER_MANY)
    return permute_together(r, words, stream, &out);
  SN_TRY(take_items(r, n, &items, &spare));
  if (r->thread != 0)
    return SN_OK;
  draw_keys(words, stream, 0, n, items);
  order_sort(items, spare, n);
  store_places(&out, items, 0, n);
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

size_t cpu_need_shared_permute(const program *p, const step *s) {
  size_t all = 0;
  for (int i = 0; i < s->n_parts; i++) {
    int64_t n = cpu_size_max(p, s->parts[i].u.core.out[0].dim[0]);
    all += n >= ORDER_MANY ? order_share_bytes(n) : 0;
  }
  return all;
}
