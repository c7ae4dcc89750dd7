/* The builders of ops.h, derived from ops.def: each packs its arguments and attributes and appends a
 * node. */
#include "ir/graph.h"
#include "ops/each.h"
#include "ops/table.h"

#define IN(x)         (sn_value, x),
#define OPT(x)        (sn_value, x),
#define INT(n)        (int64_t, n),
#define DIM(d)        (sn_dim, d),
#define REAL(f)       (double, f),
#define FLAG(b)       (bool, b),
#define DTYPE(t)      (sn_dtype, t),
#define INTS(l)       (sn_ints, l),
#define SHAPE(s)      (sn_shape, s),
#define STR(s)        (const char *, s),
#define BYTES(b)      (sn_bytes, b),
#define ENUM(type, e) (type, e),
#define STREAM(s)     (int64_t, s),

#define PARAMETER(op, type, name) , type name
#define ARGUMENT(op, type, name)  name,
#define ASSIGN(op, type, name)    attrs.name = name;

#define OP(op, inputs, attributes, results, meaning)                     \
  sn_value sn_##op(sn_graph *graph EACH(PARAMETER, op, inputs END)       \
                       EACH(PARAMETER, op, attributes END)) {            \
    attrs_##op attrs = {0};                                              \
    EACH(ASSIGN, op, attributes END)                                     \
    sn_value in[] = {EACH(ARGUMENT, op, inputs END) SN_NONE};            \
    return graph_add(graph, OP_##op, in, (int)COUNT_OF(in) - 1, &attrs); \
  }
#define OPN(op, attributes, results, meaning)                          \
  sn_value sn_##op(sn_graph *graph, const sn_value *values,            \
                   int n_values EACH(PARAMETER, op, attributes END)) { \
    attrs_##op attrs = {0};                                            \
    EACH(ASSIGN, op, attributes END)                                   \
    return graph_add(graph, OP_##op, values, n_values, &attrs);        \
  }
#include <sinew/ops.def>
