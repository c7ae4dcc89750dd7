/* The e-graph: classes of equal values, each with the e-nodes that compute it.
 *
 * Invariants, after egraph_rebuild: the arguments of live nodes are canonical classes; no two live nodes are
 * equal (op, arguments, attributes); a class has one type, and classes of different types are never merged.
 * Between rebuilds merged classes are pending and the table of nodes may be stale (deferred rebuild).
 *
 * Class 0 is an argument left out. Nodes and classes never move. Memory is the e-graph's arena; the first
 * failure is kept in `status`, after which adds yield class 0. Attributes that come with the input graph are
 * borrowed from it; dims are those of `dims`, the graph that is being made, where they have equal handles.
 */
#ifndef SINEW_OPT_EGRAPH_H
#define SINEW_OPT_EGRAPH_H

#include "ops/cost.h"
#include "ops/table.h"

/* Result k of a node with several: attributes are the number k, an int64_t. */
enum { OP_PROJECT = OP_COUNT };

typedef uint32_t class_id;

typedef struct enode {
  uint16_t op;
  uint16_t rule; /* the rule that added it + 1; 0: of the input, or made while folding */
  bool dead;     /* equal to another */
  int n_in;
  class_id *in;
  const void *attrs;
  class_id cls; /* not canonical: egraph_find */
  uint32_t id, next_hashed;
  struct enode *next; /* in its class */
  uint64_t hash;
  uint32_t origin; /* index of the first input node that is this one, + 1; 0: none */
} enode;

typedef struct parent_link {
  enode *node;
  struct parent_link *next;
} parent_link;

typedef struct eclass {
  sn_type type; /* SN_NO_DTYPE: several results, seen through OP_PROJECT */
  double bytes;
  enode *first, *last;
  parent_link *parents, *last_parent;
  enode *constant; /* a `constant` or `full` among its nodes */
  bool uniform;    /* every element is `value` */
  bool prepared;   /* depends on nothing but constants and states that are not assigned */
  bool pending;    /* merged since the last rebuild */
  bool dirty;      /* in the list to match */
  uint16_t felt; /* the levels of patterns at which a change here was passed on, in round felt_in */
  uint32_t felt_in;
  double value;
  uint32_t origin; /* lowest input value id of the class; 0: made by rules */
} eclass;

typedef struct egraph {
  const sn_graph *input;
  sn_graph *dims;
  const op_table *table;
  arena memory;
  sn_status status;
  enode **nodes;
  uint32_t n_nodes, cap_nodes;
  eclass **classes;
  class_id *leader; /* union-find */
  uint32_t n_classes, cap_classes;
  uint32_t *buckets; /* node id + 1 */
  uint32_t n_buckets;
  class_id *pending, *dirty;
  uint32_t n_pending, cap_pending, n_dirty, cap_dirty;
  uint32_t max_nodes; /* adds beyond are refused; 0: no bound */
  bool full;          /* one was */
  uint16_t adding_rule;
  const uint16_t
      *levels; /* by op: bit j, an inner node of some pattern at level j has it; NULL: none */
  uint32_t merges, round;
  uint32_t n_seen; /* nodes when the round began: those that patterns match */
  bool *assigned;  /* by input value: a state that an assign writes */
} egraph;

sn_status egraph_init(egraph *e, sn_graph *dims, const op_table *table) SN_MUST_USE;
void egraph_end(egraph *e);
class_id egraph_find(egraph *e, class_id c);
static inline eclass *egraph_class(egraph *e, class_id c) { return e->classes[egraph_find(e, c)]; }

/* The class of a node; finds it or adds it. types: its result's type, or NULL to infer it. Attributes are
 * borrowed, or copied where `copy` says so. 0 when it does not fit, is refused, or without memory. */
class_id egraph_add(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                    const sn_type *type, bool copy);
/* Makes two classes one; false when their types differ. Nothing else changes until egraph_rebuild. */
bool egraph_merge(egraph *e, class_id a, class_id b);
/* Restores congruence. */
void egraph_rebuild(egraph *e);
/* Puts a class on the list to match, and those above it in which a pattern could have it inside. */
void egraph_touch(egraph *e, class_id c);
/* The type that a node would have; false when its arguments do not fit, which is no error. in: canonical. */
bool egraph_infer(egraph *e, int op, const class_id *in, int n_in, const void *attrs, sn_type *out);

/* The same for all results of an op, at most MAX_RESULTS. */
bool egraph_infer_all(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                      sn_type *out);
/* A node of several results, whose types these are, as a class of its own; and the class of its first result.
 * Attributes are copied. */
class_id egraph_add_tuple(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                          const sn_type *results);
class_id egraph_add_first(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                          const sn_type *results);

/* Takes back an error of the graph that lends its dims, unless memory ran out. Always false. */
bool egraph_forgive(egraph *e);

size_t egraph_attrs_size(const egraph *e, int op);
/* Uniform value of a class as a node: full(type, value). */
class_id egraph_uniform(egraph *e, const sn_type *type, double value);
/* What the class holds, from one of its nodes: constants, uniform values, prepared ones. */
void egraph_note(egraph *e, eclass *c, enode *n);

#endif
