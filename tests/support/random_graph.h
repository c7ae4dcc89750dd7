/* Random graphs: ops drawn from the table with their cases, and the simple ops that rules are about, on values
 * drawn from those made so far; inputs and states, some of them assigned, a symbolic size, gradients in every
 * third. A graph that fails a check can be shrunk to a small text.
 *
 * Wide ones (random_graph_wide.c) have more of what plans are about: two symbols in expressions, f16 and bf16,
 * sizes of 0 and 1 and odd ones, broadcasts, attention and norms on symbolic sizes, caches in states, random ops
 * whose key is a state, ops that jump (on leaves only, so that no rounding decides), recomputation, gradients in
 * every second.
 *
 * Chains (random_graph_chains.c) are mostly of ops that write parts of values: updates and scatters over leaves, views and
 * each other's results, with what is made of what they write over, which is read again afterwards.
 *
 *   random_graph r;
 *   if (random_graph_make(&r, ctx, seed, 20) == SN_OK && !holds(r.g))
 *     random_graph_shrink(&r, fails, user);             // r.g is now small
 *   random_graph_end(&r);
 */
#ifndef SINEW_TESTS_SUPPORT_RANDOM_GRAPH_H
#define SINEW_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "support/case.h"

/* The graph may have a symbol "n", of this maximum; wide ones have "n" and then "m". */
enum { RANDOM_GRAPH_LEAVES = 512, RANDOM_GRAPH_SYMBOL = 7, RANDOM_GRAPH_SYMBOL_M = 5 };

typedef enum random_graph_kind { RANDOM_NARROW, RANDOM_WIDE, RANDOM_CHAINS } random_graph_kind;

typedef struct random_graph {
  sn_ctx *ctx;
  sn_graph *g;
  uint64_t state; /* of the generator */
  random_graph_kind kind;
  arena memory;
  /* Numbers of the inputs "in<k>", where they come from a case. */
  const double *data[RANDOM_GRAPH_LEAVES];
  int64_t count[RANDOM_GRAPH_LEAVES];
  int n_leaves;
} random_graph;

sn_status random_graph_make(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops);
sn_status random_graph_make_wide(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops);
sn_status random_graph_make_chains(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops);
void random_graph_end(random_graph *r);
/* For graph_same: the numbers of the leaves. */
double random_graph_fill(void *graph, const char *name, sn_dtype dtype, int64_t i);
/* Cuts nodes off, each replaced by an input, and drops outputs, while `fails` still says so. */
void random_graph_shrink(random_graph *r, bool (*fails)(void *user, const random_graph *r),
                         void *user);

/* --- for random_graph_wide.c and random_graph_chains.c --- */
uint32_t random_draw(random_graph *r, uint32_t n);
/* A new input or state; data NULL: drawn. */
sn_value random_leaf(random_graph *r, sn_type type, const double *data, int64_t count);
/* A value of that type, made or new; type NULL: of any f32 type. */
sn_value random_any(random_graph *r, const sn_type *type);
void random_wide_op(random_graph *r);
void random_chain_op(random_graph *r);
sn_type random_wide_type(random_graph *r);

#endif
