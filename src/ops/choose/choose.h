/* What choosing and random ops share. */
#ifndef SINEW_OPS_CHOOSE_H
#define SINEW_OPS_CHOOSE_H

#include "ops/choose/philox.h"
#include "ops/common.h"

/* --- random --- */
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

/* --- sorting --- */
typedef struct sort_item {
  double x;
  int64_t at; /* where it stood */
} sort_item;

/* Sorts n items, stable in both directions, NaN as the largest. spare has room for n. */
void sort_items(sort_item *items, sort_item *spare, int64_t n, bool descending);

#endif
