/* sn_graph_recognise: the optimiser with the rules for before gradients, and the way back to the caller's values. */
#include "base/null.h"
#include "base/stack.h"

#include "opt/opt.h"

typedef struct recognition {
  const sn_graph *graph;
  const opt_options *options;
  sn_graph **out_graph;
} recognition;

static sn_status recognise(void *user) {
  const recognition *r = user;
  return opt_recognise(r->graph, r->options, r->out_graph, NULL);
}

sn_status sn_graph_recognise(const sn_graph *graph, const sn_value *keep, int n_keep,
                             sn_value *out_kept, sn_graph **out_graph) {
  CLEARS(out_graph);
  NEEDS(graph);
  NEEDS_ARGUMENT(graph->ctx, out_graph);
  NEEDS_ARGUMENT_IF(graph->ctx, n_keep > 0, keep);
  NEEDS_ARGUMENT_IF(graph->ctx, n_keep > 0, out_kept);
  size_t n_values = graph->n_values;
  sn_value *to = mem_array(graph->ctx, n_values, sizeof *to);
  opt_options options = {.keep = keep, .n_keep = n_keep, .out_values = to};
  recognition r = {graph, &options, out_graph};
  sn_status status = to ? stack_run_deep(graph->ctx, recognise, &r) : SN_ERR_NO_MEMORY;
  for (int i = 0; i < n_keep; i++)
    out_kept[i] = status == SN_OK ? to[keep[i].id] : SN_NONE;
  mem_free(graph->ctx, to, n_values * sizeof *to);
  return status;
}
