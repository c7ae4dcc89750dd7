/* Questions about whole graphs that several folders ask. */
#include "base/null.h"

#include "ir/graph.h"

void graph_mark_live(const sn_graph *g, bool *live) {
  memset(live, 0, g->n_nodes * sizeof *live);
  for (int i = 0; i < g->n_outputs; i++)
    live[g->values[g->outputs[i].value.id].node] = true;
  for (int i = 0; i < g->n_assigns; i++) {
    live[g->values[g->assigns[i].state.id].node] = true;
    live[g->values[g->assigns[i].value.id].node] = true;
  }
  for (uint32_t i = g->n_nodes; i-- > 0;)
    for (int k = 0; live[i] && k < g->nodes[i].n_in; k++)
      if (g->nodes[i].in[k].id)
        live[g->values[g->nodes[i].in[k].id].node] = true;
}

const char *sn_value_name(const sn_graph *g, sn_value v) {
  NEEDS_OR(g, NULL);
  if (!sn_value_valid(g, v) || !op_has_name(graph_op(g, graph_node(g, v))))
    return NULL;
  return graph_leaf_name(g, graph_node(g, v));
}

static int leaves_of(const sn_graph *g, const char *op_name, sn_value *out, int capacity) {
  NEEDS_OR(g, 0);
  int n = 0, op = graph_find_op(g, op_name);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].op == op) {
      if (n < capacity)
        out[n] = node_result(&g->nodes[i], 0);
      n++;
    }
  return n;
}

int sn_graph_states(const sn_graph *g, sn_value *out_states, int capacity) {
  return leaves_of(g, "state", out_states, capacity);
}

int sn_graph_inputs(const sn_graph *g, sn_value *out_inputs, int capacity) {
  return leaves_of(g, "input", out_inputs, capacity);
}

const char *sn_graph_output(const sn_graph *g, int index, sn_value *out_value) {
  NEEDS_OR(g, NULL);
  bool there = index >= 0 && index < g->n_outputs;
  if (out_value)
    *out_value = there ? g->outputs[index].value : SN_NONE;
  return there ? g->outputs[index].name : NULL;
}

sn_value sn_graph_assigned(const sn_graph *g, sn_value state) {
  NEEDS_OR(g, SN_NONE);
  for (int i = 0; i < g->n_assigns; i++)
    if (g->assigns[i].state.id == state.id)
      return g->assigns[i].value;
  return SN_NONE;
}
