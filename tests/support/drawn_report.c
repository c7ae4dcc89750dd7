/* A drawn graph that failed, made smaller node by node and written as text: see drawn_check.h. */
#include "support/drawn_check.h"

#include "base/text.h"
#include "ir/dim.h"
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_NUMBERS = 300 };

/* --- smaller graphs --- */

typedef struct cutting {
  drawn_graph *d;
  bool *node, *output, *assign; /* an input in its place; left out */
  bool *needed;
} cutting;

static void mark(cutting *c, sn_value v) {
  if (v.id)
    c->needed[c->d->g->values[v.id].node] = true;
}

static void mark_needed(cutting *c) {
  const sn_graph *g = c->d->g;
  memset(c->needed, 0, g->n_nodes * sizeof *c->needed);
  for (int i = 0; i < g->n_outputs; i++)
    if (!c->output[i])
      mark(c, g->outputs[i].value);
  for (int i = 0; i < g->n_assigns; i++)
    if (!c->assign[i]) {
      mark(c, g->assigns[i].state);
      mark(c, g->assigns[i].value);
    }
  for (uint32_t i = g->n_nodes; i-- > 0;)
    for (int k = 0; c->needed[i] && !c->node[i] && k < g->nodes[i].n_in; k++)
      mark(c, g->nodes[i].in[k]);
}

/* Inputs with the numbers that the reference gave. */
static void put_inputs(const cutting *c, const node *n, drawn_graph *to, sn_value *map) {
  for (int k = 0; k < n->n_out && to->n_leaves < DRAWN_LEAVES; k++) {
    uint32_t v = n->first + (uint32_t)k;
    const exact_value *known = &c->d->judge.values[v];
    drawn_leaf *l = &to->leaves[to->n_leaves++];
    *l = (drawn_leaf){0};
    snprintf(l->name, sizeof l->name, "c%u", v);
    if (known->t.data)
      l->given = arena_copy(&to->memory, known->t.data, (size_t)known->t.count * sizeof(double));
    l->n_given = known->t.data ? known->t.count : 0;
    sn_type t = c->d->g->values[v].type;
    map[v] = sn_input(to->g, l->name, t.dtype, t.shape);
  }
}

static void put_node(const node *n, drawn_graph *to, sn_value *map) {
  sn_value in[64] = {{0}};
  for (int k = 0; k < n->n_in && k < 64; k++)
    in[k] = map[n->in[k].id];
  sn_value first = graph_add(to->g, n->op, in, n->n_in, n->attrs);
  for (int k = 0; k < n->n_out; k++)
    map[n->first + (uint32_t)k] = (sn_value){first.id + (uint32_t)k};
}

static bool put_all(cutting *c, drawn_graph *to) {
  const sn_graph *g = c->d->g;
  sn_value *map = arena_array(&to->memory, g->n_values, sizeof *map);
  if (!map || !dim_copy_all(to->g, g))
    return false;
  mark_needed(c);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (c->needed[i] && c->node[i])
      put_inputs(c, &g->nodes[i], to, map);
    else if (c->needed[i])
      put_node(&g->nodes[i], to, map);
  for (int i = 0; i < g->n_outputs; i++)
    if (!c->output[i])
      sn_output(to->g, g->outputs[i].name, map[g->outputs[i].value.id]);
  for (int i = 0; i < g->n_assigns; i++)
    if (!c->assign[i])
      sn_assign(to->g, map[g->assigns[i].state.id], map[g->assigns[i].value.id]);
  return to->g->status == SN_OK && (to->g->n_outputs || to->g->n_assigns);
}

/* The graph with these cuts, judged; false where there is none. drawn_graph_end in any case. */
static bool cut_graph(cutting *c, drawn_graph *to) {
  *to = *c->d;
  arena_init(&to->memory, to->ctx);
  to->g = NULL;
  to->numbers.bindings = to->bindings;
  to->numbers.user = to;
  to->judge = (exact_judge){0};
  arena_init(&to->judge.memory, to->ctx);
  if (graph_create(to->ctx, c->d->g->table, &to->g) != SN_OK || !put_all(c, to))
    return false;
  exact_start(&to->judge, to->g, &to->numbers);
  return exact_go_on(&to->judge);
}

static bool still(cutting *c, const char *why) {
  drawn_graph small;
  char said[1200] = "";
  bool fails = cut_graph(c, &small) && !drawn_check(&small, NULL, said, sizeof said);
  drawn_graph_end(&small);
  return fails && strncmp(said, why, 7) == 0;
}

static void cut_all(cutting *c, const char *why) {
  const sn_graph *g = c->d->g;
  for (int i = 0; i < g->n_assigns; i++) {
    c->assign[i] = true;
    c->assign[i] = still(c, why);
  }
  for (int i = 0; i < g->n_outputs; i++) {
    c->output[i] = true;
    c->output[i] = still(c, why);
  }
  for (uint32_t i = g->n_nodes; i-- > 0;) {
    c->node[i] = g->nodes[i].n_in > 0;
    c->node[i] = c->node[i] && still(c, why);
  }
}

/* --- text --- */

static void put_numbers(const drawn_graph *d, text *t) {
  const sn_graph *g = d->g;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    const exact_value *v = &d->judge.values[n->first];
    if (n->op != OP_input && n->op != OP_state)
      continue;
    text_printf(t, "# %s %s = {", n->op == OP_state ? "state" : "input", graph_leaf_name(g, n));
    for (int64_t k = 0; v->t.data && k < v->t.count && k < MOST_NUMBERS; k++)
      text_printf(t, "%s%.9g", k ? ", " : "", v->t.data[k]);
    text_puts(t, v->t.count > MOST_NUMBERS ? ", …}\n" : "}\n");
  }
}

static char *written(const drawn_graph *d, const char *why) {
  char *body = NULL, *out = NULL;
  text t;
  text_init(&t, d->ctx);
  text_printf(&t, "# %s\n", why);
  for (int s = 0; s < DRAWN_SYMBOLS; s++)
    text_printf(&t, "# %s = %lld\n", dim_symbol_name(d->g, s), (long long)d->bindings[s]);
  if (sn_graph_print(d->g, &body) == SN_OK)
    text_puts(&t, body);
  put_numbers(d, &t);
  if (text_done(&t) == SN_OK)
    out = strdup(t.data);
  sn_text_free(d->ctx, body);
  text_free(&t);
  return out;
}

char *drawn_report(drawn_graph *d, const char *why) {
  const sn_graph *g = d->g;
  cutting c = {.d = d,
               .node = arena_array(&d->memory, g->n_nodes, sizeof *c.node),
               .needed = arena_array(&d->memory, g->n_nodes, sizeof *c.needed),
               .output = arena_array(&d->memory, (size_t)g->n_outputs + 1, sizeof *c.output),
               .assign = arena_array(&d->memory, (size_t)g->n_assigns + 1, sizeof *c.assign)};
  if (!c.node || !c.needed || !c.output || !c.assign)
    return NULL;
  cut_all(&c, why);
  drawn_graph small;
  char said[1200] = "", *out = NULL;
  if (cut_graph(&c, &small) && !drawn_check(&small, NULL, said, sizeof said))
    out = written(&small, said);
  else
    out = written(d, why);
  drawn_graph_end(&small);
  return out;
}
