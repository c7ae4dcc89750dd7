/* Graphs drawn from bytes: a string of bytes decides everything, so that a fuzzer can steer it and a failure gets smaller by
 * leaving bytes out. Where the bytes end the graph does. Ops come from the whole table (drawn_ops.def); their
 * arguments are any values made so far, brought to the type that is wanted by casts, slices, reshapes and expands. While the
 * graph grows the reference computes each value at the bindings that were drawn (drawn_exact.h), so that indices lie in
 * their tables and only what the reference is sure of is used further.
 *
 *   drawn_graph d;
 *   if (drawn_graph_make(&d, ctx, bytes, size) == SN_OK)
 *     ... d.g, d.numbers ...
 *   drawn_graph_end(&d);
 */
#ifndef SINEW_TESTS_SUPPORT_DRAWN_GRAPH_H
#define SINEW_TESTS_SUPPORT_DRAWN_GRAPH_H

#include "support/drawn_exact.h"
#include "support/drawn_ops.h"

enum { DRAWN_LEAVES = 256, DRAWN_SYMBOLS = 2 };

/* The numbers of a leaf: by style, for any size; or as given. */
typedef struct drawn_leaf {
  char name[16];
  int style;
  uint32_t seed;
  int64_t lo, hi; /* integers: lo ≤ x < hi */
  const double *given;
  int64_t n_given;
} drawn_leaf;

typedef struct drawn_graph {
  sn_ctx *ctx;
  sn_graph *g;
  arena memory;
  const uint8_t *bytes;
  size_t size, at;
  int64_t bindings[DRAWN_SYMBOLS];
  sn_dim symbols[DRAWN_SYMBOLS];
  drawn_leaf leaves[DRAWN_LEAVES];
  int n_leaves;
  plan_numbers numbers; /* of this graph: fill and bindings */
  exact_judge judge;
  int only_op; /* 0: any; else the first op that is drawn */
  int refused; /* ops that did not fit: few */
  int depth;   /* of values made to fit */
  /* Pairs of ops (drawn_pairs.h): the value that the argument asked for in this place is made of. */
  sn_value given;
  int given_at, asked;
  int leaf_op; /* what the next leaf is; 0: drawn */
  bool no_memory;
  bool plain;       /* leaves without infinities and NaN */
  sn_value failing; /* a value that no run can have; SN_NONE: none is wanted or there was none */
  bool may_fail;
} drawn_graph;

/* Made in two steps, with what is added between them: a graph without ops; outputs for what nothing reads. */
sn_status drawn_graph_start(drawn_graph *d, sn_ctx *ctx, const uint8_t *bytes, size_t size);
sn_status drawn_graph_finish(drawn_graph *d);
sn_status drawn_graph_make(drawn_graph *d, sn_ctx *ctx, const uint8_t *bytes, size_t size);
void drawn_graph_end(drawn_graph *d);
/* plan_numbers.fill: user is the drawn_graph. */
double drawn_fill(void *user, const char *name, sn_dtype dtype, int64_t i);
/* Bytes of a seed. */
size_t drawn_bytes(uint64_t seed, uint8_t *bytes, size_t most);

/* --- for the files that draw ops --- */

/* 0 … n-1; 0 where the bytes have ended. */
uint32_t drawn(drawn_graph *d, uint32_t n);
static inline bool drawn_ended(const drawn_graph *d) { return d->at >= d->size; }
static inline bool drawn_one_in(drawn_graph *d, uint32_t n) { return drawn(d, n) == n - 1; }
/* An item of an array. */
#define DRAWN_OF(d, array) ((array)[drawn(d, COUNT_OF(array))])

static inline sn_type drawn_type(const drawn_graph *d, sn_value v) {
  return sn_value_type(d->g, v);
}
static inline sn_shape drawn_shape_of(const drawn_graph *d, sn_value v) {
  return sn_value_type(d->g, v).shape;
}
/* What a dim is at the drawn bindings. */
int64_t drawn_at(const drawn_graph *d, sn_dim dim);
/* A dtype of a letter of drawn_ops.def. */
sn_dtype drawn_dtype(drawn_graph *d, char letter);
bool drawn_fits_letter(char letter, sn_dtype dtype);
sn_dim drawn_dim(drawn_graph *d);
/* Few elements; rank low … high. */
sn_shape drawn_shape(drawn_graph *d, int low, int high);
/* An axis of a value of rank 1 or more, negative now and then. */
int64_t drawn_axis(drawn_graph *d, sn_shape s);

/* Adds a node and judges it; SN_NONE where it was refused, fails or is not to be used further. */
sn_value drawn_add(drawn_graph *d, int op, const sn_value *in, int n_in, const void *attrs);
bool drawn_usable(const drawn_graph *d, sn_value v);
const exact_value *drawn_known(const drawn_graph *d, sn_value v);

/* A new leaf; integers lie in lo … hi-1 where lo < hi. */
sn_value drawn_leaf_of(drawn_graph *d, sn_type type, int64_t lo, int64_t hi);
/* A value of a letter's dtype, of any shape of rank low … high. */
sn_value drawn_any(drawn_graph *d, char letter, int low, int high);
/* A scalar, computed more often than not. */
sn_value drawn_scalar(drawn_graph *d, sn_dtype dtype);
/* One element of a value, as a scalar. */
sn_value drawn_first(drawn_graph *d, sn_value v);
sn_value drawn_cast(drawn_graph *d, sn_value v, sn_dtype dtype);
sn_value drawn_reshaped(drawn_graph *d, sn_value v, sn_shape shape);
/* A value of this very type. */
sn_value drawn_like(drawn_graph *d, sn_dtype dtype, sn_shape shape);
/* One that broadcasts with the shape. */
sn_value drawn_beside(drawn_graph *d, sn_dtype dtype, sn_shape shape);
/* i32 of this shape with all elements in 0 … n-1. */
sn_value drawn_index(drawn_graph *d, sn_shape shape, int64_t n);
/* Or SN_NONE. */
static inline sn_value drawn_maybe(drawn_graph *d, sn_dtype dtype, sn_shape shape) {
  return drawn(d, 3) ? drawn_like(d, dtype, shape) : SN_NONE;
}

#endif
