/* What an op is to the rest of the compiler: a row of facts (from ops.def) and an implementation (from
 * src/ops). The ir folder sees ops only through these types, never by name.
 *
 * One struct owns all that an op needs: infer (shapes, dtypes, clear errors), ref (the definition),
 * grad (a vjp that builds graph) or by decomposition or none with the reason, decompose, element (what one
 * element of the result is, from which the planner makes steps), and cases, which every table-driven test
 * iterates.
 */
#ifndef SINEW_IR_OP_H
#define SINEW_IR_OP_H

#include "base/arena.h"

#include <sinew/ops.h>

enum { MAX_RESULTS = 5, MAX_INPUTS = 11 /* but for ops on a list */ };

typedef enum attr_kind {
  ATTR_INT,
  ATTR_DIM,
  ATTR_REAL,
  ATTR_FLAG,
  ATTR_DTYPE,
  ATTR_INTS,
  ATTR_SHAPE,
  ATTR_STR,
  ATTR_BYTES, /* stands last */
  ATTR_ENUM,
  ATTR_STREAM
} attr_kind;

typedef struct attr_desc {
  const char *name;
  attr_kind kind;
  size_t offset;            /* in the op's attribute struct */
  const char *const *words; /* ATTR_ENUM: its words, NULL-terminated */
} attr_desc;

typedef struct input_desc {
  const char *name;
  bool optional;
} input_desc;

/* Shape inference. in[i].dtype is SN_NO_DTYPE for an argument left out. Fills out[]. */
typedef struct infer_ctx {
  sn_graph *graph;
  const struct op_desc *op;
  const void *attrs;
  int n_in;
  const sn_type *in;
  sn_type *out;
} infer_ctx;

/* A tensor of the reference: whatever the dtype, elements are held as doubles (every element of every
 * dtype is exact in one), row-major. The interpreter rounds results to their dtype. */
typedef struct ref_tensor {
  sn_dtype dtype;
  int rank;
  int64_t dim[SN_MAX_RANK];
  int64_t count;
  double *data; /* NULL for an argument left out */
} ref_tensor;

/* One evaluation. Results are allocated and zeroed. */
typedef struct ref_ctx {
  sn_ctx *ctx;
  arena *scratch; /* dies after the op */
  const sn_graph *graph;
  const int64_t *bindings; /* by symbol, for attributes with symbolic dims: ref_dim */
  const struct op_desc *op;
  const void *attrs;
  int n_in, n_out;
  const ref_tensor *in;
  ref_tensor *out;
} ref_ctx;

/* Building: decompose reads `in` and fills `out`; grad reads in, out, dout (SN_NONE: no gradient
 * arrives there) and fills din for the inputs that `need` asks for (SN_NONE stays: zero). */
typedef struct build_ctx {
  sn_graph *graph;
  const void *attrs;
  int n_in, n_out;
  const sn_value *in;
  sn_value *out;
  const sn_value *dout;
  const bool *need;
  sn_value *din;
} build_ctx;

/* A case, in the text form `op(f32[2,3], i32[4]{0,7}, none) axis=-1` (tests/support/case.h). With
 * `error` set, building must fail with a message that has this in it. */
typedef struct op_case {
  const char *text;
  const char *error;
} op_case;

struct elem_ctx;
struct place;

typedef struct op_impl {
  sn_status (*infer)(infer_ctx *c);
  sn_status (*ref)(ref_ctx *c); /* NULL for leaves, which the interpreter binds */
  /* Exactly one of the three: */
  void (*grad)(build_ctx *c);
  bool grad_by_decompose;
  const char *no_grad; /* the reason */
  void (*decompose)(build_ctx *c);
  /* What an element of result 0 is (step/element.h), for ops that the plan lowers to regions; returns a register. An op has
   * this, or a decomposition, or an archetype of its own. */
  uint16_t (*element)(struct elem_ctx *c, const struct place *at);
  const op_case *cases;
  int n_cases;
} op_impl;

typedef struct op_desc {
  const char *name, *meaning;
  const input_desc *inputs;
  int n_inputs;
  bool on_list; /* any number of inputs, at least one */
  const attr_desc *attrs;
  int n_attrs;
  size_t attrs_size;
  int n_results;
  const op_impl *impl;
} op_desc;

/* A graph holds its table by pointer, so that tests can run on one with a planted fault. */
typedef struct op_table {
  const op_desc *ops; /* by op id; id 0 is unused */
  int n;
} op_table;

#endif
