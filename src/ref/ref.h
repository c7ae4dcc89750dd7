/* The reference interpreter: runs a graph op by op from the definitions. Slow, obvious, the oracle for
 * everything else.
 *
 *   ref_machine m;
 *   SN_TRY(ref_start(&m, graph, bindings, REF_F32));
 *   … fill m.tensors[leaf.id].data for every live input, state and constant …
 *   status = ref_execute(&m, NULL);
 *   … read m.tensors[id].data of outputs and assigned values …
 *   ref_end(&m);
 *
 * Values are doubles. In REF_F32 mode each op's results are rounded to their dtype, so that storage is
 * f32 (f16, …) and accumulation inside an op is f64. In REF_F64 mode float results keep all bits:
 * for checking gradients.
 */
#ifndef SINEW_REF_REF_H
#define SINEW_REF_REF_H

#include "ir/graph.h"

typedef enum ref_mode { REF_F32, REF_F64 } ref_mode;

typedef struct ref_machine {
  const sn_graph *graph;
  const int64_t *bindings; /* by symbol, borrowed */
  ref_mode mode;
  ref_tensor *tensors; /* by value id; data NULL when not alive */
  bool *live;          /* by node */
  uint32_t *last_use;  /* by value id: index of the last node that reads it; UINT32_MAX: kept */
} ref_machine;

/* Checks bindings, evaluates the sizes of leaves and of what is needed, allocates the leaves that are
 * needed (zeroed). */
sn_status ref_start(ref_machine *m, const sn_graph *graph, const int64_t *bindings,
                    ref_mode mode) SN_MUST_USE;
/* Runs every live node. Outputs and assigned values stay readable until ref_end. */
sn_status ref_execute(ref_machine *m, const sn_progress *progress) SN_MUST_USE;
void ref_end(ref_machine *m);

/* Runs the definition of one op on given tensors, without a machine. */
sn_status ref_node(const sn_graph *graph, const int64_t *bindings, ref_mode mode, const node *n,
                   const ref_tensor *in, ref_tensor *out) SN_MUST_USE;

#endif
