/* A region while it is being built: instructions as a hash-consed graph, without phases and without an order beyond
 * arguments before users. Equal instructions are one. What was added since a mark can be taken back, so that fusion may
 * try. Layout (region_layout) then keeps what sinks need and puts it into the order that step.h asks for. */
#ifndef SINEW_PLAN_DAG_H
#define SINEW_PLAN_DAG_H

#include "step/element.h"

typedef struct dag_node {
  instr i;
  bool row;       /* constant along the inner axes */
  uint32_t chain; /* in the hash table, node + 1 */
} dag_node;

typedef struct dag {
  arena *memory;
  dag_node *nodes;
  int n, cap;
  uint32_t *buckets;
  int n_buckets;
  int limit;   /* of nodes */
  int n_outer; /* axes below are those of rows; all others are inner */
  bool full;   /* a region grew beyond REGION_MAX, or memory ran out (no_memory) */
  bool no_memory;
} dag;

/* Limits leave room for stores, and for phases in which points are computed again. */
enum { DAG_LIMIT = 512, DAG_ROW_LIMIT = 192, DAG_REDUCTIONS = 8 };
void dag_init(dag *d, arena *memory, int n_outer);
/* Adds or finds; 0 with `full` set on failure. Accesses are copied where they are new. */
reg dag_add(dag *d, const instr *i);
/* Takes back all nodes from n on. */
void dag_truncate(dag *d, int n);
/* The access that a place in a value of this shape is; false when it has too many terms. terms and checks point into `scratch`.
 * channels_last: dim 1 is the innermost in memory (program.h). */
typedef struct access_room {
  term terms[ACCESS_TERMS];
  check checks[ACCESS_CHECKS];
  term check_terms[ACCESS_CHECKS][COORD_TERMS];
} access_room;
bool dag_access(sn_graph *g, const place *at, sn_shape shape, bool channels_last, uint32_t value,
                access_room *scratch, access *out);
/* Whether an access moves along one of the axes from `axis` on. */
bool access_varies(const access *at, const dag_node *nodes, int axis);
/* Whether both are, at each point, of one and the same element of their values. */
bool access_same_map(const access *a, const access *b);

/* The nodes of one dag at the end of another, its accumulators counted on from first_acc; where[i] is what node i became. */
bool dag_append(dag *into, const dag *from, int first_acc, reg *where) SN_MUST_USE;

/* --- dag_layout.c --- */
/* Lays out the nodes that the sinks need as the code of a loop part. sink: by node; late_stores: those of points all in the last
 * phase. The code is in `memory`. SN_ERR_NO_MEMORY, or SN_ERR_INTERNAL beyond REGION_MAX. */
sn_status dag_layout(const dag *d, const bool *sink, bool late_stores, arena *memory, region *out,
                     int *out_phases) SN_MUST_USE;
/* The same without rows and phases: operands (the one sink comes last) and epilogues of matmul parts. */
sn_status dag_flatten(const dag *d, const bool *sink, arena *memory, region *out) SN_MUST_USE;
/* needed[i]: node i is a sink or serves one. */
void dag_mark(const dag *d, const bool *sink, bool *needed);

#endif
