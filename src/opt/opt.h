/* The optimiser: a graph to another that computes the same for less. Equality saturation over a native
 * e-graph (egraph.h) with the rules of rules.def, then extraction by the cost of a target.
 *
 *   opt_options o = OPT_OPTIONS_INIT;
 *   sn_graph *better;  opt_report report;
 *   SN_TRY(opt_run(graph, &o, &better, &report));
 *
 * requires: a sound graph. keeps: inputs and states (all of them, dead ones too), outputs, assigns, symbols,
 * labels and scopes of values that survive, random streams, barriers. breaks: value ids and the order of
 * nodes (inputs and states come first).
 *
 * What the options allow. By default every result stays within rounding of the unoptimised graph: sums and
 * products may be reordered and factored, scales folded, composites recognised. A row that attention written out makes NaN
 * because it sees no key is 0, as the op has it; scores below -1e9 are taken as hidden. fast_math adds what is
 * wrong for infinities, NaN and cancellation: x - x = 0, x / x = 1, 0 * x = 0, (a + b) - b = a. Neither keeps the
 * sign of a zero, or an infinity that only an intermediate product had: x * 1e30 * 1e-30 is x.
 *
 * Deterministic: the same graph and options give the same graph. Budgets count nodes and matches, never
 * time. The result never costs more than the input by the same model.
 */
#ifndef SINEW_OPT_OPT_H
#define SINEW_OPT_OPT_H

#include "ir/graph.h"

/* What a machine does in a second, and what starting a step costs. */
typedef struct opt_target {
  double flops, bytes, launch_s;
  bool
      count_nodes; /* the cost is launch_s a node, and little for a leaf, a view, or what depends on constants and states
                      that stay: what recognition chooses by */
} opt_target;

typedef struct opt_options {
  bool fast_math;
  /* What has better gradients and nothing else, before sn_grad: composites from primitives, and rules that serve nothing
   * but that. Of equal forms the one of fewer nodes is taken, whatever it costs forward: what is saved are gradients. */
  bool recognise_only;
  opt_target target;   /* zeros: a modest machine */
  int64_t max_nodes;   /* e-nodes beyond the input's; 0: four times the input's, and 10,000 */
  int64_t max_matches; /* 0: forty times the input's nodes, and 100,000 */
  /* Values that are needed beside outputs and assigns (a loss before its gradients), and where each value of
   * the input went: by id, SN_NONE for those that are gone; n_values entries, or NULL. */
  const sn_value *keep;
  int n_keep;
  sn_value *out_values;
} opt_options;
#define OPT_OPTIONS_INIT ((opt_options){0})

typedef enum opt_stop { OPT_FIXPOINT, OPT_NODE_BUDGET, OPT_MATCH_BUDGET } opt_stop;

enum { OPT_MAX_RULES = 192 };

typedef struct opt_report {
  int64_t nodes_before, nodes_after; /* live ones */
  int64_t classes, enodes, iterations, matches;
  opt_stop stop;
  double build_s, saturate_s, extract_s;
  double cost_before, cost_after; /* seconds on the target, by the model of cost.h */
  bool kept_input;                /* the input whole was cheaper */
  int n_rules;
  struct {
    const char *name;
    int64_t hits; /* times that it told the e-graph something new */
  } rule[OPT_MAX_RULES];
} opt_report;

const char *opt_stop_name(opt_stop stop);

/* report may be NULL. */
sn_status opt_run(const sn_graph *in, const opt_options *options, sn_graph **out_graph,
                  opt_report *report) SN_MUST_USE;
/* Before gradients are taken: opt_run with recognise_only. options may be NULL. */
sn_status opt_recognise(const sn_graph *in, const opt_options *options, sn_graph **out_graph,
                        opt_report *report) SN_MUST_USE;
/* Seconds that the live part of a graph takes on a target, by the optimiser's model. */
sn_status opt_graph_cost(const sn_graph *g, const opt_target *target, double *out_s) SN_MUST_USE;
/* The same where these values are needed too. */
sn_status opt_kept_cost(const sn_graph *g, const opt_target *target, const sn_value *keep,
                        int n_keep, double *out_s) SN_MUST_USE;
/* live[i] becomes true for each node that outputs, assigns and these values need. */
void opt_mark_live(const sn_graph *g, const sn_value *keep, int n_keep, bool *live);

#endif
