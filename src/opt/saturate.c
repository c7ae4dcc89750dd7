/* See saturate.h. Matching is incremental: a round looks at the classes that changed, and those above them
 * in which a pattern could have the change inside (egraph_touch). */
#include "opt/saturate.h"

#include "opt/fold.h"

enum { MOST_ROUNDS = 64 };

static bool on_top(const pattern_node *p, int op) {
  if (p->kind == PATTERN_OP)
    return p->op == op;
  return op_kind_of(op) == (p->kind == PATTERN_UNARY ? OP_KIND_UNARY : OP_KIND_BINARY);
}

static bool allowed(const rule *r, const opt_options *o) {
  int wanted = r->flags & (RULE_RECOGNISE | RULE_BEFORE_GRADIENTS);
  return (o->fast_math || !(r->flags & RULE_FAST)) &&
         (o->recognise_only ? wanted != 0 : wanted != RULE_BEFORE_GRADIENTS);
}

static void mark_levels(rule_set *s, const pattern *p, int k, int level) {
  const pattern_node *n = &p->node[k];
  if (n->kind == PATTERN_VAR || n->kind == PATTERN_NONE)
    return;
  for (int op = 1; op < OP_COUNT; op++)
    if (on_top(n, op))
      s->levels[op] = (uint16_t)(s->levels[op] | 1u << level);
  for (int i = 0; i < n->n_args; i++)
    mark_levels(s, p, n->arg[i], level + 1);
  if (n->optional)
    mark_levels(s, p, n->arg[n->body], level);
}

static sn_status index_rules(rule_set *s, arena *memory) {
  for (int op = 1; op < OP_COUNT; op++) {
    uint16_t list[OPT_MAX_RULES];
    int n = 0;
    for (int i = 0; i < rule_count(); i++)
      if (s->enabled[i] && on_top(&s->rules[i].start.node[0], op))
        list[n++] = (uint16_t)i;
    s->by_op[op] = arena_copy(memory, list, (size_t)n * sizeof *list);
    s->n_by_op[op] = n;
    if (!s->by_op[op])
      return SN_ERR_NO_MEMORY;
  }
  return SN_OK;
}

sn_status rule_set_init(rule_set *s, sn_ctx *ctx, arena *memory, const op_table *table,
                        const opt_options *o, int only) {
  *s = (rule_set){.rules = arena_array(memory, (size_t)rule_count(), sizeof(rule))};
  if (!s->rules)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < rule_count(); i++) {
    SN_TRY(rule_compile(ctx, table, i, &s->rules[i]));
    s->enabled[i] = only < 0 ? allowed(&s->rules[i], o) : i == only;
    if (s->enabled[i])
      mark_levels(s, &s->rules[i].start, 0, 0);
  }
  return index_rules(s, memory);
}

typedef struct round {
  egraph *e;
  const rule_set *s;
  opt_report *report;
  int64_t max_matches;
} round_state;

static bool spent(const round_state *r) {
  if (r->e->full)
    r->report->stop = OPT_NODE_BUDGET;
  else if (r->report->matches >= r->max_matches)
    r->report->stop = OPT_MATCH_BUDGET;
  return r->report->stop != OPT_FIXPOINT || r->e->status != SN_OK;
}

static void visit(round_state *r, class_id c) {
  egraph *e = r->e;
  opt_fold(e, c);
  eclass *known = egraph_class(e, c);
  if (known->constant || known->uniform)
    return; /* nothing is simpler, and algebra on numbers has no end */
  for (const enode *n = e->classes[c]->first, *next; n; n = next) {
    next = n->next;
    if (n->dead || n->op == OP_PROJECT)
      continue;
    for (int k = 0; k < r->s->n_by_op[n->op] && !spent(r) && !n->dead; k++) {
      int i = r->s->by_op[n->op][k];
      r->report->matches += rule_apply(e, &r->s->rules[i], i, n, &r->report->rule[i].hits);
    }
  }
}

sn_status opt_saturate(egraph *e, const rule_set *s, const opt_options *o, opt_report *report) {
  round_state r = {e, s, report, o->max_matches};
  e->levels = s->levels;
  report->stop = OPT_FIXPOINT;
  while (e->n_dirty && e->status == SN_OK && report->iterations < MOST_ROUNDS) {
    class_id *list = e->dirty;
    uint32_t n = e->n_dirty;
    e->dirty = NULL;
    e->n_dirty = e->cap_dirty = 0;
    e->round++;
    e->n_seen = e->n_nodes;
    report->iterations++;
    for (uint32_t i = 0; i < n; i++)
      e->classes[list[i]]->dirty = false;
    for (uint32_t i = 0; i < n && !spent(&r); i++)
      if (egraph_find(e, list[i]) == list[i])
        visit(&r, list[i]);
    egraph_rebuild(e);
    if (spent(&r))
      break;
  }
  if (report->stop == OPT_FIXPOINT && e->n_dirty)
    report->stop = OPT_MATCH_BUDGET;
  return e->status;
}
