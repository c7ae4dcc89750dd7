/* See emit.h. Through the builders, so that every node is inferred and checked anew. */
#include "opt/emit.h"

#include <stdlib.h>

typedef struct placed {
  uint64_t place;
  class_id c;
} placed;

typedef struct emission {
  sn_graph *out;
  const sn_graph *in;
  sn_value *value; /* by class, or by value of the input */
} emission;

static int by_place(const void *a, const void *b) {
  const placed *x = a, *y = b;
  if (x->place != y->place)
    return x->place < y->place ? -1 : 1;
  return x->c < y->c ? -1 : x->c > y->c;
}

static sn_status add(emission *m, int op, const sn_value *in, int n_in, const void *attrs,
                     const char *scope, sn_value *out) {
  m->out->scope = *scope ? graph_intern(m->out, scope) : "";
  if (!m->out->scope) {
    m->out->scope = "";
    return SN_ERR_NO_MEMORY;
  }
  *out = graph_add(m->out, op, in, n_in, attrs);
  m->out->scope = "";
  return m->out->status;
}

static bool leaf(const node *n) { return n->op == OP_input || n->op == OP_state; }

/* Every input and state, dead ones too: they are part of what a graph says. by_value[id] becomes the new one. */
static sn_status add_leaves(emission *m, sn_value *by_value) {
  for (uint32_t i = 0; i < m->in->n_nodes; i++) {
    const node *n = &m->in->nodes[i];
    if (leaf(n))
      SN_TRY(add(m, n->op, NULL, 0, n->attrs, n->scope, &by_value[n->first]));
  }
  return SN_OK;
}

static void keep_marks(emission *m, uint32_t from, sn_value to) {
  const char *label = m->in->values[from].label;
  if (label && !m->out->values[to.id].label)
    m->out->values[to.id].label = graph_intern(m->out, label);
  if (m->in->nodes[m->in->values[from].node].boundary)
    m->out->nodes[m->out->values[to.id].node].boundary = true;
}

static sn_status add_ends(emission *m, const sn_value *by_value) {
  const sn_graph *g = m->in;
  for (int i = 0; i < g->n_outputs; i++)
    sn_output(m->out, g->outputs[i].name, by_value[g->outputs[i].value.id]);
  for (int i = 0; i < g->n_assigns; i++)
    sn_assign(m->out, by_value[g->assigns[i].state.id], by_value[g->assigns[i].value.id]);
  if (m->out->next_stream < g->next_stream)
    m->out->next_stream = g->next_stream;
  return m->out->status;
}

sn_status opt_copy(const sn_graph *g, const bool *live, sn_graph *out, sn_value *out_values) {
  arena memory;
  arena_init(&memory, g->ctx);
  emission m = {out, g, arena_array(&memory, g->n_values, sizeof(sn_value))};
  sn_status status = m.value ? add_leaves(&m, m.value) : SN_ERR_NO_MEMORY;
  for (uint32_t i = 0; status == SN_OK && i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    if (!live[i] && !leaf(n))
      continue;
    sn_value *in = arena_array(&memory, (size_t)n->n_in, sizeof *in), first = m.value[n->first];
    if (!in) {
      status = SN_ERR_NO_MEMORY;
      break;
    }
    for (int k = 0; k < n->n_in; k++)
      in[k] = m.value[n->in[k].id];
    if (!leaf(n))
      status = add(&m, n->op, in, n->n_in, n->attrs, n->scope, &first);
    for (int k = 0; status == SN_OK && k < n->n_out; k++) {
      m.value[n->first + (uint32_t)k] = (sn_value){first.id + (uint32_t)k};
      keep_marks(&m, n->first + (uint32_t)k, m.value[n->first + (uint32_t)k]);
    }
  }
  if (status == SN_OK)
    status = add_ends(&m, m.value);
  if (status == SN_OK && out_values)
    memcpy(out_values, m.value, g->n_values * sizeof *out_values);
  arena_clear(&memory);
  return status;
}

/* Where a node belongs: where it or its value was written; a value that rules made belongs to the last of what it is made
 * from, leaves aside. */
static const char *scope_of(const extraction *x, const emission *m, class_id c, const enode *n,
                            const sn_value *in) {
  const sn_graph *g = x->e->input;
  uint32_t v = x->e->classes[c]->origin, last = 0;
  if (n->origin)
    return g->nodes[n->origin - 1].scope;
  if (v)
    return g->nodes[g->values[v].node].scope;
  for (int i = 0; i < n->n_in; i++)
    if (in[i].id > last && !leaf(graph_node(m->out, in[i])))
      last = in[i].id;
  return last ? graph_node(m->out, (sn_value){last})->scope : "";
}

static sn_status emit_class(extraction *x, emission *m, class_id c) {
  const enode *n = x->choice[c];
  if (n->op == OP_PROJECT) {
    uint32_t first = m->value[egraph_find(x->e, n->in[0])].id;
    m->value[c] = (sn_value){first + (uint32_t) * (const int64_t *)n->attrs};
    return SN_OK;
  }
  if (m->value[c].id)
    return SN_OK; /* an input or a state */
  sn_value few[MAX_INPUTS], *in = few;
  if (n->n_in > MAX_INPUTS)
    in = arena_array(&x->e->memory, (size_t)n->n_in, sizeof *in);
  if (!in)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n->n_in; i++)
    in[i] = n->in[i] ? m->value[egraph_find(x->e, n->in[i])] : SN_NONE;
  SN_TRY(add(m, n->op, in, n->n_in, n->attrs, scope_of(x, m, c, n, in), &m->value[c]));
  const sn_type *type = &x->e->classes[c]->type;
  if (type->dtype != SN_NO_DTYPE && !type_equal(*type, sn_value_type(m->out, m->value[c])))
    return diag_fail(m->out->ctx, SN_ERR_INTERNAL, "opt: %s has not the type of its class",
                     x->e->table->ops[n->op].name);
  return SN_OK;
}

static sn_status emit_needed(extraction *x, emission *m) {
  egraph *e = x->e;
  placed *order = arena_array(&e->memory, e->n_classes, sizeof *order);
  size_t n = 0;
  if (!order)
    return SN_ERR_NO_MEMORY;
  for (class_id c = 1; c < e->n_classes; c++)
    if (extract_needed(x, c))
      order[n++] = (placed){x->place[c], c};
  qsort(order, n, sizeof *order, by_place);
  for (size_t i = 0; i < n; i++)
    SN_TRY(emit_class(x, m, order[i].c));
  return SN_OK;
}

sn_status opt_emit(extraction *x, const class_id *of, sn_graph *out, sn_value *out_values) {
  egraph *e = x->e;
  const sn_graph *g = e->input;
  emission m = {out, g, arena_array(&e->memory, e->n_classes, sizeof(sn_value))};
  sn_value *by_value = arena_array(&e->memory, g->n_values, sizeof *by_value);
  if (!m.value || !by_value)
    return SN_ERR_NO_MEMORY;
  SN_TRY(add_leaves(&m, by_value));
  for (uint32_t v = 1; v < g->n_values; v++)
    if (by_value[v].id && of[v])
      m.value[egraph_find(e, of[v])] = by_value[v];
  SN_TRY(emit_needed(x, &m));
  for (uint32_t v = 1; v < g->n_values; v++)
    if (of[v] && extract_needed(x, egraph_find(e, of[v]))) {
      by_value[v] = m.value[egraph_find(e, of[v])];
      keep_marks(&m, v, by_value[v]);
    } else if (by_value[v].id)
      keep_marks(&m, v, by_value[v]);
  if (out_values)
    memcpy(out_values, by_value, g->n_values * sizeof *out_values);
  return add_ends(&m, by_value);
}
