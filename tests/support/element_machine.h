/* Runs an op's `element` (step/element.h) with numbers: records what it builds, then executes that at every element of result 0,
 * reductions by brute force. What a device does, but plain: each instruction is computed in double and rounded
 * to its dtype, a sum is accumulated in double.
 *
 *   ref_tensor out = {dtype, rank, dims, count, data};       // allocated, of the result's sizes
 *   status = element_node(graph, bindings, node, in, &out);  // as ref_node
 *
 * A requirement that does not hold fails with SN_ERR_NUMERIC and its message; a load outside of its input without a check
 * that says so, or a malformed instruction, with SN_ERR_INTERNAL.
 */
#ifndef SINEW_TESTS_SUPPORT_ELEMENT_MACHINE_H
#define SINEW_TESTS_SUPPORT_ELEMENT_MACHINE_H

#include "ir/graph.h"
#include "step/element.h"

/* `in` are the node's arguments in order, data NULL for those left out. */
sn_status element_node(sn_graph *graph, const int64_t *bindings, const node *n,
                       const ref_tensor *in, ref_tensor *out);

/* What an instruction of kind REGION_ALU makes of its arguments, before it is rounded to its dtype. */
double element_alu(const instr *i, double a, double b, double c);

#endif
