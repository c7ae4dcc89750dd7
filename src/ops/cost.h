/* What an op costs, whatever runs it: arithmetic and traffic, from its types alone. Symbols count at their
 * maximum. The optimiser and the plan turn this into time on a target. */
#ifndef SINEW_OPS_COST_H
#define SINEW_OPS_COST_H

#include "ir/graph.h"

typedef enum op_kind {
  OP_KIND_OTHER,    /* a step of its own: matmul, norm, reduction, … */
  OP_KIND_LEAF,     /* input, state, constant */
  OP_KIND_FILL,     /* made from nothing where it is used: full, arange, eye */
  OP_KIND_VIEW,     /* no work at all: reshape */
  OP_KIND_MOVE,     /* elements in other places: transpose, slice, expand, … */
  OP_KIND_UNARY,    /* pointwise, one argument, shape kept */
  OP_KIND_BINARY,   /* pointwise, two arguments broadcast */
  OP_KIND_POINTWISE /* pointwise otherwise: where, barrier, dropout, random */
} op_kind;

op_kind op_kind_of(int op);
/* Whether f(a, b) = f(b, a). */
bool op_commutes(int op);

/* Elements and bytes of a type, symbols at their maximum. */
double type_elements(const sn_graph *dims, const sn_type *t);
double type_bytes(const sn_graph *dims, const sn_type *t);

/* flops: multiply and add count two; bytes: all inputs read and all results written once. */
void op_cost(const sn_graph *dims, int op, const void *attrs, int n_in, const sn_type *in,
             int n_out, const sn_type *out, double *flops, double *bytes);

#endif
