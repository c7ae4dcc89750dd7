/* From a lowered graph to a program: fusion into steps, memory, order, proof. Called by compile, in this order:
 *
 *   plan_fuse      requires: a lowered graph (only ops with an element, contractions and cores).
 *                  makes: values with homes but without offsets, steps in a valid order, prepare/main/commit.
 *   plan_cut       pointwise parts that ask where they are become parts that know.
 *   plan_order     keeps: every dependency. Lowers the largest live set; never above that of the order it was given.
 *   plan_in_place  lets results take over the memory of arguments that die, where loads and stores agree.
 *   plan_place     offsets, arena_bytes, lower_bound, first and last.
 *   plan_barriers  the flags, from real hazards.
 *   plan_verify    proves all of it against the graph, trusting none of the above.
 */
#ifndef SINEW_PLAN_PLAN_H
#define SINEW_PLAN_PLAN_H

#include "plan/program.h"

typedef struct plan_options {
  bool no_fusion;    /* every value that an op makes is stored */
  int channels_last; /* values between convolutions that have a multiple of so many channels stand with these last; 0: none */
  const char *watched; /* an output that must be known before anything is committed; may be NULL */
} plan_options;

/* Composite ops into those that have an element or an archetype of their own; hash-consing merges what is common. */
sn_status plan_lower(const sn_graph *g, sn_graph **out_lowered) SN_MUST_USE;
sn_status plan_fuse(sn_graph *lowered, const plan_options *options,
                    program **out_program) SN_MUST_USE;
/* all: however short the pieces become */
sn_status plan_cut(program *p, sn_ctx *ctx, bool all) SN_MUST_USE;
sn_status plan_order(program *p, sn_ctx *ctx) SN_MUST_USE;
sn_status plan_in_place(program *p, sn_ctx *ctx) SN_MUST_USE;
sn_status plan_place(program *p, sn_ctx *ctx) SN_MUST_USE;
sn_status plan_barriers(program *p, sn_ctx *ctx) SN_MUST_USE;
/* SN_ERR_INTERNAL with a message that names step, value and what is wrong. */
sn_status plan_verify(const program *p, sn_graph *lowered) SN_MUST_USE;
/* Whether the output is whole before `commit` begins, so that it can be looked at first; name NULL: nothing to look at. */
sn_status plan_verify_watched(const program *p, sn_ctx *ctx, const char *name) SN_MUST_USE;

/* Whether an op is a contraction (matmul, conv and its gradients) or has a core archetype. */
bool plan_is_contraction(int op);
bool plan_is_core(int op);
/* What an op requires of sizes beside those of its element: *out_least must not be negative. False: nothing. */
bool plan_size_required(sn_graph *g, const node *n, sn_dim *out_least, const char **out_what);

#endif
