/* The op table in C: the enum and the attribute structs, derived from ops.def, and the table itself. */
#ifndef SINEW_OPS_TABLE_H
#define SINEW_OPS_TABLE_H

#include "ir/op.h"

typedef enum op_id {
  OP_NONE,
#define OP(name, inputs, attributes, results, meaning) OP_##name,
#define OPN(name, attributes, results, meaning)        OP_##name,
#include <sinew/ops.def>
  OP_COUNT
} op_id;

/* struct attrs_NAME: the op's attributes by name. The first member is there for ops without any. */
#define INT(n)        int64_t n;
#define DIM(d)        sn_dim d;
#define REAL(f)       double f;
#define FLAG(b)       bool b;
#define DTYPE(t)      sn_dtype t;
#define INTS(l)       sn_ints l;
#define SHAPE(s)      sn_shape s;
#define STR(s)        const char *s;
#define BYTES(b)      sn_bytes b;
#define ENUM(type, e) type e;
#define STREAM(s)     int64_t s;
#define OP(name, inputs, attributes, results, meaning) \
  typedef struct attrs_##name {                        \
    char unused_;                                      \
    attributes                                         \
  } attrs_##name;
#define OPN(name, attributes, results, meaning) OP(name, , attributes, results, meaning)
#include <sinew/ops.def>

/* Each op's implementation, in its file below src/ops/. */
#define OP(name, inputs, attributes, results, meaning) extern const op_impl op_impl_##name;
#define OPN(name, attributes, results, meaning)        extern const op_impl op_impl_##name;
#include <sinew/ops.def>

const op_table *op_table_get(void);

#endif
