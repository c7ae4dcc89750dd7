/* Graphs from choices. */
#ifndef SINEW_OPT_EMIT_H
#define SINEW_OPT_EMIT_H

#include "opt/extract.h"

/* Adds what is chosen to `out`, an empty graph with the input's dims: inputs and states first, in order.
 * out_values: where each value of the input went; may be NULL. */
sn_status opt_emit(extraction *x, const class_id *of, sn_graph *out,
                   sn_value *out_values) SN_MUST_USE;
/* The same with the live part of the input as it is. */
sn_status opt_copy(const sn_graph *in, const bool *live, sn_graph *out,
                   sn_value *out_values) SN_MUST_USE;

#endif
