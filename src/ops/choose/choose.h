/* What choosing and random ops share: how random ops use Philox (base/philox.h), and sorting.
 *
 * Layout. An op's `key` argument is i32 [3] (seed low, seed high, counter), its `stream` is an
 * attribute:
 *   Philox key      = { seed low, seed high }
 *   Philox counter  = { block low, block high, counter, stream }
 * where block is a 64-bit index within the op's result. Word w of the stream is word w % 4 of block
 * w / 4. The caller adds 1 to the counter for each run; the graph gives each random op a stream of
 * its own.
 *
 * Element e, row-major over the result (dropout: over x; sample: over the rows), is made from words
 * as follows. top(w) is word w >> 8, in 0 … 2^24-1; u(w) is top(w) * 2^-24, in [0, 1).
 *   uniform      lo + u(e) * (hi - lo): lo and hi are rounded to the result's dtype first, then
 *                difference, product and sum are each rounded to f32 (no fused multiply-add), then
 *                to the dtype; what is not below hi becomes the largest value of the dtype below hi
 *   bernoulli    top(e) < ceil(p * 2^24), that is u(e) < p
 *   dropout      dropped where bernoulli of the same key, stream and p is true
 *   randint      n = hi - lo; lo + ((a * 2^32 + b) * n >> 64) with a = word 2e, b = word 2e + 1;
 *                the probabilities of two results differ by at most 2^-64
 *   permutation  result j is the index of the j-th smallest of the words 0 … n-1; at ties the lower
 *                index first
 *   normal       elements 2k and 2k + 1 share two words: r = sqrt(-2 log(u(2k) + 2^-24)),
 *                t = u(2k + 1); they are mean + std * r * cos(2 pi t) and the same with the sine.
 *                Devices reduce t exactly to an eighth of a turn before they multiply by pi, and
 *                take the logarithm from the exact difference to 1 near 1, so that they agree
 *                within 2 ulp
 *   sample       row e: word e * 2^-32 (see sample.c)
 */
#ifndef SINEW_OPS_CHOOSE_H
#define SINEW_OPS_CHOOSE_H

#include "base/philox.h"
#include "ops/common.h"

/* --- random --- */
/* One op's stream. */
typedef struct rng {
  uint32_t key[2], counter, stream;
} rng;

static inline uint32_t rng_word(const rng *r, uint64_t index) {
  uint64_t block = index / 4;
  uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), r->counter, r->stream};
  philox(r->key, x);
  return x[index % 4];
}

static inline uint32_t rng_bits24(const rng *r, uint64_t index) { return rng_word(r, index) >> 8; }
static inline double rng_unit(const rng *r, uint64_t index) {
  return rng_bits24(r, index) * 0x1p-24;
}

/* Input i must be a key: i32 [3]. */
sn_status infer_key(infer_ctx *c, int i) SN_MUST_USE;
/* A probability: 0 … 1. */
sn_status infer_probability(infer_ctx *c, const char *name, double p) SN_MUST_USE;
/* Input 0 is a key; the result has this type. */
sn_status infer_random(infer_ctx *c, sn_dtype dtype, sn_shape shape) SN_MUST_USE;
/* The stream of an op whose key is the tensor given. */
rng rng_of(const ref_tensor *key, int64_t stream);
/* u < p of a 24-bit u, for every p in 0 … 1. */
bool rng_below(const rng *r, uint64_t index, double p);

/* The same on devices: word `index` of the stream of the op whose key is input i; bernoulli at a place of result 0. */
reg element_word(elem_ctx *c, int i, int64_t stream, const coord *index);
reg element_below(elem_ctx *c, int i, const place *at, double p, int64_t stream);

/* --- sorting --- */
typedef struct sort_item {
  double x;
  int64_t at; /* where it stood */
} sort_item;

/* Sorts n items, stable in both directions, NaN as the largest. spare has room for n. */
void sort_items(sort_item *items, sort_item *spare, int64_t n, bool descending);

#endif
