/* See choose.h. */
#include "ops/choose/choose.h"

sn_status infer_key(infer_ctx *c, int i) {
  SN_TRY(infer_dtype(c, i, SN_I32));
  return infer_shape(c, i, SN_SHAPE(3), "seed low, seed high, counter");
}

sn_status infer_probability(infer_ctx *c, const char *name, double p) {
  if (p >= 0 && p <= 1)
    return SN_OK;
  return infer_fail(c, "%s must lie in 0 … 1, got %g", name, p);
}

sn_status infer_random(infer_ctx *c, sn_dtype dtype, sn_shape shape) {
  SN_TRY(infer_key(c, 0));
  for (int d = 0; d < shape.rank; d++)
    if (dim_is_number(shape.dim[d]) && shape.dim[d] < 0)
      return infer_fail(c, "dim %d of %s is negative", d, graph_shape_text(c->graph, shape));
  c->out[0] = (sn_type){dtype, shape};
  return SN_OK;
}

static uint32_t word_of(double i32) { return (uint32_t)(int32_t)i32; }

rng rng_of(const ref_tensor *key, int64_t stream) {
  return (rng){.key = {word_of(key->data[0]), word_of(key->data[1])},
               .counter = word_of(key->data[2]),
               .stream = (uint32_t)stream};
}

bool rng_below(const rng *r, uint64_t index, double p) {
  return rng_bits24(r, index) < (uint32_t)ceil(p * 0x1p24);
}

reg element_word(elem_ctx *c, int i, int64_t stream, const coord *index) {
  reg key[3];
  for (int k = 0; k < 3; k++) {
    place at = {.rank = 1, .c = {coord_number(k)}};
    key[k] = elem_input(c, i, &at);
  }
  return elem_word(c, key, stream, index);
}

reg element_below(elem_ctx *c, int i, const place *at, double p, int64_t stream) {
  coord index = elem_linear(c, at, c->out[0].shape);
  reg word = element_word(c, i, stream, &index);
  return elem_alu_as(c, ALU_bits_below, SN_BOOL, word, word, 0, ceil(p * 0x1p24), 0);
}

static bool less(double a, double b) { return isnan(b) ? !isnan(a) : a < b; }

static bool before(const sort_item *a, const sort_item *b, bool descending) {
  return descending ? less(b->x, a->x) : less(a->x, b->x);
}

/* Merges from[lo, mid) and from[mid, hi) into to; the left one first at ties. */
static void merge(const sort_item *from, sort_item *to, int64_t lo, int64_t mid, int64_t hi,
                  bool descending) {
  int64_t a = lo, b = mid;
  for (int64_t k = lo; k < hi; k++) {
    bool right = a == mid || (b < hi && before(&from[b], &from[a], descending));
    to[k] = from[right ? b++ : a++];
  }
}

void sort_items(sort_item *items, sort_item *spare, int64_t n, bool descending) {
  sort_item *from = items, *to = spare;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width)
      merge(from, to, lo, min_i64(lo + width, n), min_i64(lo + 2 * width, n), descending);
    sort_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items)
    memcpy(items, from, (size_t)n * sizeof *items);
}
