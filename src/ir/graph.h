/* The graph's body. Nodes stand in topological order (arguments before users) because builders only
 * append; values of one node are consecutive. All memory is the graph's arena.
 *
 * Invariants (verify.c checks them anew): every argument's id lies below its node's first value;
 * types are what infer says; attributes are in canonical form (zeroed padding and tails, interned
 * strings), so that equal attributes are equal bytes; no two nodes are equal unless their op carries
 * an identity; at most one assign a state; names of inputs, states and outputs are unique.
 */
#ifndef SINEW_IR_GRAPH_H
#define SINEW_IR_GRAPH_H

#include "ir/op.h"

/* Bytes of a name, label or whole scope. */
enum { MAX_NAME = 512 };

typedef struct node {
  uint16_t op;
  bool boundary; /* sn_recompute: kept for the backward pass */
  bool assigned; /* a state that an assign writes */
  int n_in;
  int n_out;
  uint32_t first;       /* id of result 0 */
  const sn_value *in;   /* SN_NONE for arguments left out */
  const void *attrs;    /* the op's attribute struct */
  const char *scope;    /* where it was built; "" at the top */
  uint32_t next_hashed; /* chain in the hash table, node index + 1 */
} node;

typedef struct value_info {
  sn_type type;
  uint32_t node;
  const char *label; /* NULL when it has none */
} value_info;

typedef struct named_value {
  const char *name;
  sn_value value;
} named_value;

typedef struct assignment {
  sn_value state, value;
} assignment;

typedef struct dim_table dim_table;
typedef struct interned interned;

struct sn_graph {
  sn_ctx *ctx;
  arena memory;
  const op_table *table;
  node *nodes;
  uint32_t n_nodes, cap_nodes;
  value_info *values; /* by id; ids 0 is unused */
  uint32_t n_values, cap_values;
  uint32_t *buckets; /* node index + 1; n_buckets is a power of two */
  uint32_t n_buckets;
  interned *strings; /* names and labels (names.c) */
  dim_table *dims;
  named_value *outputs;
  int n_outputs, cap_outputs;
  assignment *assigns;
  int n_assigns, cap_assigns;
  const char *scope;
  struct scope_link *scopes;
  int64_t next_stream;
  sn_status status;
  const char *message;
};

sn_status graph_create(sn_ctx *ctx, const op_table *table, sn_graph **out_graph) SN_MUST_USE;
/* Appends (or finds) a node; the value of its result 0, invalid on error. */
sn_value graph_add(sn_graph *g, int op, const sn_value *in, int n_in, const void *attrs);
/* SN_OK, or the graph's first error, with its message put into ctx. */
sn_status graph_check(const sn_graph *g, sn_ctx *ctx) SN_MUST_USE;
/* Keeps the first error. Always returns the invalid value. */
sn_value graph_fail(sn_graph *g, sn_status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* Whether the hash table finds this node under its own op, arguments and attributes. */
bool graph_finds(const sn_graph *g, const node *n);

static inline bool shape_equal(sn_shape a, sn_shape b) {
  return a.rank == b.rank && memcmp(a.dim, b.dim, (size_t)a.rank * sizeof a.dim[0]) == 0;
}
static inline bool type_equal(sn_type a, sn_type b) {
  return a.dtype == b.dtype && shape_equal(a.shape, b.shape);
}

sn_value graph_invalid(void);
static inline const node *graph_node(const sn_graph *g, sn_value v) {
  return &g->nodes[g->values[v.id].node];
}
static inline const op_desc *graph_op(const sn_graph *g, const node *n) {
  return &g->table->ops[n->op];
}
static inline sn_value node_result(const node *n, int k) {
  return (sn_value){n->first + (uint32_t)k};
}
/* Inputs and states: leaves whose first attribute is a name. */
static inline bool op_has_name(const op_desc *op) {
  return !op->n_inputs && !op->on_list && op->n_attrs && op->attrs[0].kind == ATTR_STR;
}
/* The name that such a leaf carries. */
const char *graph_leaf_name(const sn_graph *g, const node *n);
/* Op id by name; 0 when there is none. */
int graph_find_op(const sn_graph *g, const char *name);

/* --- names.c --- */
/* A string that lives with the graph; equal strings are equal pointers. NULL without memory. */
const char *graph_intern(sn_graph *g, const char *text);
/* The leaf of that op and name; SN_NONE when there is none. */
sn_value graph_find_named(const sn_graph *g, int op, const char *name);
/* For graph.c: an empty table; a leaf found by its name from now on. false without memory. */
bool names_create(sn_graph *g) SN_MUST_USE;
bool names_set_leaf(sn_graph *g, int op, const char *name, sn_value leaf) SN_MUST_USE;

/* --- attributes (attr.c) --- */
/* Copies src into the zeroed dst in canonical form; false after graph_fail. */
bool attr_canonical(sn_graph *g, const op_desc *op, const void *src, void *dst);
static inline void *attr_at(const void *attrs, const attr_desc *a) {
  return (char *)(uintptr_t)attrs + a->offset;
}
/* The attribute of that name, or NULL. */
const attr_desc *attr_find(const op_desc *op, const char *name);

/* --- verify.c, print.c, parse.c --- */
sn_status graph_parse(sn_ctx *ctx, const op_table *table, const char *text,
                      sn_graph **out_graph) SN_MUST_USE;

/* --- walk.c --- */
/* live[i] becomes true for each node that outputs and assigns need (inputs and states that nothing
 * needs stay false). live has n_nodes entries. */
void graph_mark_live(const sn_graph *g, bool *live);

/* "f32[2, tokens, 64]" and "[2, tokens, 64]", in the graph's arena; "?" without memory. */
const char *graph_type_text(sn_graph *g, sn_type type);
const char *graph_shape_text(sn_graph *g, sn_shape shape);

#endif
