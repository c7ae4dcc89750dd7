/* Matching a rule at a node, and adding its goal. Patterns are walked in pre-order with backtracking: each
 * inner node is tried against every e-node of the class that its parent has there, commutative ones in both
 * orders, optional ones also passed over. */
#include "opt/rule.h"

typedef struct search {
  rule_match m;
  int index; /* of the rule */
  int64_t complete, hits, steps;
} search;

/* Of walking at one node: where classes have many forms a deep pattern could be tried without end. What a rule has not found by
 * then it does not find there. STEPS_A_MATCH of them count as one match in the budget. */
enum { MOST_STEPS = 20000, STEPS_A_MATCH = 1000 };

static bool op_fits(const pattern_node *p, const enode *n) {
  switch (p->kind) {
  case PATTERN_OP: return n->op == p->op;
  case PATTERN_UNARY: return op_kind_of(n->op) == OP_KIND_UNARY;
  case PATTERN_BINARY: return op_kind_of(n->op) == OP_KIND_BINARY;
  default: return false;
  }
}

static class_id argument(const search *s, const pattern_node *p) {
  if (s->m.passed[p->parent])
    return egraph_find(s->m.e, s->m.passed[p->parent]);
  const enode *n = s->m.bound[p->parent];
  int slot = s->m.swapped[p->parent] ? 1 - p->slot : p->slot;
  return egraph_find(s->m.e, n->in[slot]);
}

/* --- the goal --- */

static class_id build(search *s, const pattern *p, int k, const sn_type *want);

static bool goal_attrs(const rule_match *m, const pattern_node *p, int op, const void **attrs,
                       void *room) {
  const enode *like = p->letter ? match_node(m, p->letter) : NULL;
  if (p->build) {
    bool built = p->build(m, room);
    if (m->e->dims->status !=
        SN_OK) /* a size too complicated: no goal, and no error but for memory */
      return egraph_forgive(m->e);
    return built;
  }
  if (like)
    *attrs = like->attrs;
  return !like || egraph_attrs_size(m->e, op) == egraph_attrs_size(m->e, like->op);
}

/* Whether argument k of the goal is left out: `none`, a value that the start left out, or a node of one such alone. */
static bool left_out(const search *s, const pattern *p, int k) {
  const pattern_node *n = &p->node[k];
  if (n->kind == PATTERN_VAR)
    return !s->m.value[n->letter - 'a'];
  return n->kind == PATTERN_NONE || (n->n_args == 1 && left_out(s, p, n->arg[0]));
}

/* A node of several results stands for the first of them; for all where the rule's own start is such a node. */
static class_id add_results(search *s, int op, const class_id *in, int n_in, const void *attrs,
                            const sn_type *want) {
  egraph *e = s->m.e;
  const enode *like = s->m.bound[0];
  sn_type results[MAX_RESULTS] = {0}, given[MAX_RESULTS] = {0};
  if (!egraph_infer_all(e, op, in, n_in, attrs, results))
    return 0;
  if (!want || want->dtype != SN_NO_DTYPE) {
    if (want && !type_equal(results[0], *want))
      return 0;
    return egraph_add_first(e, op, in, n_in, attrs, results);
  }
  if (like->op != op || !egraph_infer_all(e, op, like->in, like->n_in, like->attrs, given))
    return 0;
  for (int i = 0; i < e->table->ops[op].n_results; i++)
    if (!type_equal(results[i], given[i]))
      return 0;
  return egraph_add_tuple(e, op, in, n_in, attrs, results);
}

static class_id build_node(search *s, const pattern *p, int k, const sn_type *want) {
  const pattern_node *n = &p->node[k];
  egraph *e = s->m.e;
  class_id in[PATTERN_ARGS] = {0};
  int op = n->kind == PATTERN_OP ? n->op : match_node(&s->m, n->letter)->op;
  _Alignas(16) char room[ATTRS_ROOM] = {0};
  const void *attrs = room;
  if (egraph_attrs_size(e, op) > sizeof room || !goal_attrs(&s->m, n, op, &attrs, room))
    return 0;
  for (int i = 0; i < n->n_args; i++) {
    bool none = left_out(s, p, n->arg[i]);
    in[i] = none ? 0 : build(s, p, n->arg[i], NULL);
    if (!none && !in[i])
      return 0;
    in[i] = egraph_find(e, in[i]);
  }
  if (e->table->ops[op].n_results > 1)
    return add_results(s, op, in, n->n_args, attrs, want);
  if (!want)
    return egraph_add(e, op, in, n->n_args, attrs, NULL, true);
  sn_type type;
  if (!egraph_infer(e, op, in, n->n_args, attrs, &type) || !type_equal(type, *want))
    return 0;
  return egraph_add(e, op, in, n->n_args, attrs, want, true);
}

static class_id build(search *s, const pattern *p, int k, const sn_type *want) {
  const pattern_node *n = &p->node[k];
  return n->kind == PATTERN_VAR ? s->m.value[n->letter - 'a'] : build_node(s, p, k, want);
}

static void complete(search *s) {
  egraph *e = s->m.e;
  s->complete++;
  if (!s->m.r->condition(&s->m))
    return;
  sn_type type = egraph_class(e, s->m.root)->type;
  e->adding_rule = (uint16_t)(s->index + 1);
  class_id goal = build(s, &s->m.r->goal, 0, &type);
  e->adding_rule = 0;
  if (!goal || egraph_find(e, goal) == egraph_find(e, s->m.root))
    return;
  if (egraph_merge(e, s->m.root, goal))
    s->hits++;
}

/* --- the start --- */

static void walk(search *s, int k);

static void try_node(search *s, int k, const enode *n) {
  const pattern_node *p = &s->m.r->start.node[k];
  if (n->dead || n->id >= s->m.e->n_seen || !op_fits(p, n) || n->n_in != p->n_args)
    return;
  s->m.bound[k] = n;
  if (p->letter)
    s->m.named[p->letter - 'a'] = n;
  for (int order = 0; order < (op_commutes(n->op) ? 2 : 1); order++) {
    s->m.swapped[k] = order == 1;
    if (order == 0 || n->in[0] != n->in[1])
      walk(s, k + 1);
  }
}

static void try_value(search *s, int k, class_id c) {
  const pattern_node *p = &s->m.r->start.node[k];
  class_id *value = &s->m.value[p->letter - 'a'], before = *value;
  if (before ? egraph_find(s->m.e, before) != c : !c && !p->optional)
    return;
  *value = c;
  walk(s, k + 1);
  *value = before;
}

static void pass_over(search *s, int k, class_id c) {
  const pattern_node *p = &s->m.r->start.node[k];
  if (p->letter)
    s->m.named[p->letter - 'a'] = NULL;
  s->m.passed[k] = c;
  walk(s, k + 1);
  s->m.passed[k] = 0;
}

static void walk(search *s, int k) {
  const pattern *start = &s->m.r->start;
  if (++s->steps > MOST_STEPS)
    return;
  if (k == start->n) {
    complete(s);
    return;
  }
  const pattern_node *p = &start->node[k], *up = &start->node[p->parent];
  class_id c = argument(s, p);
  if (p->kind == PATTERN_NONE) {
    if (!c)
      walk(s, k + 1);
    return;
  }
  if (s->m.passed[p->parent] && p->slot != up->body)
    walk(s, k + 1); /* what goes with a node that is not there */
  else if (p->kind == PATTERN_VAR)
    try_value(s, k, c);
  else if (c) {
    if (p->optional)
      pass_over(s, k, c);
    for (const enode *n = s->m.e->classes[c]->first, *next; n; n = next) {
      next = n->next;
      try_node(s, k, n);
    }
  }
}

int64_t rule_apply(egraph *e, const rule *r, int index, const enode *at, int64_t *hits) {
  search s = {.m = {.e = e, .r = r, .root = at->cls}, .index = index};
  try_node(&s, 0, at);
  *hits += s.hits;
  return s.complete + s.steps / STEPS_A_MATCH;
}
