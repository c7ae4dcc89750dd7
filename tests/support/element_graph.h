/* Runs a lowered graph (plan/plan.h) element by element: each value either whole, from the elements of its op, or not at all,
 * its op's element being built into those of its users, as fusion does it. Cores are run by their definition.
 *
 * It is unkind where it may be: a read that fails a check gives a number that no op may count on, but for operands of
 * contractions, which are 0 there.
 */
#ifndef SINEW_TESTS_SUPPORT_ELEMENT_GRAPH_H
#define SINEW_TESTS_SUPPORT_ELEMENT_GRAPH_H

#include "ir/graph.h"

/* Element i of the input or state `name`. */
typedef double (*element_leaf)(void *user, const char *name, sn_dtype dtype, int64_t i);

/* out[k] is output k, in `memory`. Fails as a run would: with SN_ERR_NUMERIC where a requirement does not hold; with
 * SN_ERR_INTERNAL where an element is malformed. bindings are by symbol. */
sn_status element_graph(sn_graph *lowered, const int64_t *bindings, bool inlined, element_leaf leaf,
                        void *user, arena *memory, ref_tensor *out) SN_MUST_USE;

#endif
