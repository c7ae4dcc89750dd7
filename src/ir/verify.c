/* Checks a graph's invariants (graph.h) anew, from the op table: what a pass built is proved, not
 * trusted. Does not change what the graph means; types are inferred from nothing but the op's own
 * arguments. */
#include "base/null.h"

#include "ir/dim.h"

static sn_status broken(const sn_graph *g, uint32_t i, const char *what) {
  return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: node %u (%s): %s", i,
                   graph_op(g, &g->nodes[i])->name, what);
}

static sn_status check_node(sn_graph *g, uint32_t i, arena *scratch) {
  const node *n = &g->nodes[i];
  if (n->op == 0 || n->op >= g->table->n)
    return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: node %u has no op", i);
  const op_desc *op = graph_op(g, n);
  if (n->n_out != op->n_results || (!op->on_list && n->n_in != op->n_inputs))
    return broken(g, i, "wrong number of arguments or results");
  sn_type *in = arena_array(scratch, (size_t)n->n_in, sizeof *in);
  if (!in)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_in; k++) {
    if (n->in[k].id >= n->first)
      return broken(g, i, "uses a value before it is computed");
    if (n->in[k].id == 0 && (op->on_list || !op->inputs[k].optional))
      return broken(g, i, "lacks an argument");
    in[k] = sn_value_type(g, n->in[k]);
  }
  sn_type out[MAX_RESULTS] = {0};
  infer_ctx c = {g, op, n->attrs, n->n_in, in, out};
  if (op->impl->infer(&c) != SN_OK || g->status != SN_OK) {
    g->status = SN_OK; /* it was sound before, and stays usable */
    g->message = "";
    return broken(g, i, "inference fails");
  }
  for (int k = 0; k < n->n_out; k++)
    if (g->values[n->first + (uint32_t)k].node != i ||
        !type_equal(out[k], g->values[n->first + (uint32_t)k].type))
      return broken(g, i, "a result's type is not what inference says");
  if (!graph_finds(g, n))
    return broken(g, i, "is not found by what it is: changed after it was added, or there twice");
  return SN_OK;
}

/* Names of inputs and states are unique among their kind; hash-consing lets equal ones be one node. */
static sn_status check_name(const sn_graph *g, uint32_t i) {
  if (!op_has_name(graph_op(g, &g->nodes[i])))
    return SN_OK;
  const char *name = graph_leaf_name(g, &g->nodes[i]);
  if (graph_find_named(g, g->nodes[i].op, name).id != g->nodes[i].first)
    return broken(g, i, "two leaves have its name");
  return SN_OK;
}

static sn_status check_outputs(const sn_graph *g) {
  for (int i = 0; i < g->n_outputs; i++) {
    if (!sn_value_valid(g, g->outputs[i].value))
      return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: output \"%s\" has no value",
                       g->outputs[i].name);
    for (int j = 0; j < i; j++)
      if (g->outputs[j].name == g->outputs[i].name) /* interned */
        return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: output \"%s\" is declared twice",
                         g->outputs[i].name);
  }
  return SN_OK;
}

static sn_status check_assigns(const sn_graph *g, arena *scratch) {
  int op = graph_find_op(g, "state");
  bool *assigned = arena_array(scratch, g->n_nodes, sizeof *assigned);
  if (!assigned)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < g->n_assigns; i++) {
    assignment a = g->assigns[i];
    if (!sn_value_valid(g, a.state) || !sn_value_valid(g, a.value) ||
        graph_node(g, a.state)->op != op ||
        !type_equal(sn_value_type(g, a.state), sn_value_type(g, a.value)))
      return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: assign %d does not fit its state", i);
    bool *before = &assigned[g->values[a.state.id].node];
    if (*before)
      return diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: a state is assigned twice");
    *before = true;
  }
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (assigned[i] != g->nodes[i].assigned)
      return broken(g, i, "is marked as assigned and is not, or the reverse");
  return SN_OK;
}

sn_status sn_graph_verify(const sn_graph *graph) {
  NEEDS(graph);
  /* Inference may intern size expressions, which does not change what the graph means. */
  sn_graph *g = (sn_graph *)(uintptr_t)graph;
  SN_TRY(graph_check(g, g->ctx));
  arena scratch;
  arena_init(&scratch, g->ctx);
  sn_status status = SN_OK;
  uint32_t next = 1;
  for (uint32_t i = 0; i < g->n_nodes && status == SN_OK; i++) {
    if (g->nodes[i].first != next)
      status = broken(g, i, "values are out of order");
    else
      status = check_node(g, i, &scratch);
    if (status == SN_OK)
      status = check_name(g, i);
    next += (uint32_t)g->nodes[i].n_out;
  }
  if (status == SN_OK && next != g->n_values)
    status =
        diag_fail(g->ctx, SN_ERR_INTERNAL, "graph: %u values for %u results", g->n_values, next);
  if (status == SN_OK)
    status = check_outputs(g);
  if (status == SN_OK)
    status = check_assigns(g, &scratch);
  arena_clear(&scratch);
  return status;
}
