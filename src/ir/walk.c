/* Questions about whole graphs that several folders ask. */
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
