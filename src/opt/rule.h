/* Rules: compiled patterns, matching, and what conditions and builders see. */
#ifndef SINEW_OPT_RULE_H
#define SINEW_OPT_RULE_H

#include "opt/egraph.h"
#include "opt/opt.h"

/* What they mean stands in rules.def. */
enum { RULE_FAST = 1, RULE_RECOGNISE = 2, RULE_BEFORE_GRADIENTS = 4 };
enum { PATTERN_NODES = 24, PATTERN_ARGS = 7, LETTERS = 26, ATTRS_ROOM = 512 };

typedef struct rule_match rule_match;
typedef bool (*rule_condition)(const rule_match *m);
/* Fills zeroed attributes; false: the goal does not apply after all. */
typedef bool (*rule_builder)(const rule_match *m, void *attrs);

typedef enum pattern_kind {
  PATTERN_VAR,
  PATTERN_NONE,
  PATTERN_OP,
  PATTERN_UNARY,
  PATTERN_BINARY
} pattern_kind;

/* Nodes stand in pre-order: a parent before its arguments. */
typedef struct pattern_node {
  pattern_kind kind;
  int op;
  char letter; /* of a variable, or of a named node; 0: none */
  bool
      optional; /* a value may be left out; a node may be passed over, its body stands in its place */
  int parent, slot, n_args, arg[PATTERN_ARGS];
  int body; /* slot of the argument that stands for a node that was passed over */
  rule_builder build;
} pattern_node;

typedef struct pattern {
  int n;
  pattern_node node[PATTERN_NODES];
} pattern;

typedef struct rule {
  const char *name, *start_text, *goal_text, *instance;
  int flags;
  rule_condition condition;
  pattern start, goal;
} rule;

/* A match under way. Letters: 'a' … 'z'. */
struct rule_match {
  egraph *e;
  const rule *r;
  class_id root;
  class_id value[LETTERS];     /* of ?x; 0: unbound, or none */
  const enode *named[LETTERS]; /* of op:a; NULL: unbound, or passed over */
  const enode *bound[PATTERN_NODES];
  bool swapped[PATTERN_NODES];
  class_id passed[PATTERN_NODES]; /* the class where a node was passed over; 0: it was not */
};

static inline const enode *match_node(const rule_match *m, char letter) {
  return m->named[letter - 'a'];
}
static inline bool match_has(const rule_match *m, char letter) {
  return m->value[letter - 'a'] != 0;
}
static inline eclass *match_class(const rule_match *m, char letter) {
  return egraph_class(m->e, m->value[letter - 'a']);
}
static inline const sn_type *match_type(const rule_match *m, char letter) {
  return &match_class(m, letter)->type;
}
/* Type of argument i of a named node. */
static inline const sn_type *match_argument(const rule_match *m, char letter, int i) {
  return &egraph_class(m->e, match_node(m, letter)->in[i])->type;
}
/* Attributes of a named node: MATCH_ATTRS(m, 'a', affine)->mul. */
#define MATCH_ATTRS(m, letter, op) ((const attrs_##op *)match_node(m, letter)->attrs)

int rule_count(void);
const rule *rule_text(int i); /* patterns not compiled */
/* Compiles rule i; an error is a mistake in rules.def. */
sn_status rule_compile(sn_ctx *ctx, const op_table *table, int i, rule *out) SN_MUST_USE;
/* Tries the rule at one node; adds what it proves. Returns how many complete matches there were (long tries count too) and counts in
 * *hits those that were new. */
int64_t rule_apply(egraph *e, const rule *r, int index, const enode *at, int64_t *hits);

rule_builder rule_find_builder(const char *name, size_t length);

/* The axis of x that the slice a is of, seen through the reshape r; -1: it is not one axis of x. */
int rule_axis_before_reshape(const rule_match *m);

/* Builders of attention.c. */
bool build_of_parts(const rule_match *m, void *attrs);
bool build_one_head_q(const rule_match *m, void *attrs);
bool build_one_head_k(const rule_match *m, void *attrs);
bool build_one_head_v(const rule_match *m, void *attrs);
bool build_one_head_c(const rule_match *m, void *attrs);
bool build_one_head_b(const rule_match *m, void *attrs);
bool build_causal_by_c(const rule_match *m, void *attrs);
bool build_causal_by_b(const rule_match *m, void *attrs);

#define WHEN(name) bool when_##name(const rule_match *m);
#include "opt/conditions.def"

#endif
