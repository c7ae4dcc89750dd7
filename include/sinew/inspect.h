/* Inspecting: what the compiler makes of a graph, as numbers, lists and text.
 *
 *   sn_inspection *i;
 *   sn_inspect(graph, NULL, &i);
 *   printf("%lld steps, %lld bytes\n", (long long)i->steps, (long long)i->peak_bytes);
 *   sn_inspection_destroy(i);
 *
 * It compiles the graph as a session would, and needs no store, so nothing is run. Sizes are those of the symbols' maxima. The
 * graph must outlive the inspection, which belongs to the thread of the graph's context.
 */
#ifndef SINEW_INSPECT_H
#define SINEW_INSPECT_H

#include <sinew/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_inspect_options {
  /* As in sn_session_options. "ref" compiles nothing: it stands for the first device that does, which the inspection then
   * names. */
  const char *device;
  bool fast_math, no_optimizer, no_fusion;
  /* As in sn_session_options: an output that is looked at before anything is committed, as trainers do with the loss. */
  const char *finite_output;
} sn_inspect_options;

typedef struct sn_named_number {
  const char *name;
  double value;
} sn_named_number;

/* How many nodes of an op there are: as given, behind the e-graph, and lowered to what plans know. */
typedef struct sn_op_count {
  const char *name;
  int64_t given, optimised, lowered;
} sn_op_count;

/* A stretch of the arena and the steps, by their index, from the one that writes it first to the last that reads it. Values
 * that take over each other's memory are one stretch. Where `bytes` of all that are alive at a step are added up, the
 * largest sum is lower_bound_bytes. */
typedef struct sn_lifetime {
  uint32_t value;   /* number of the first value in it, as the plan's text counts them */
  const char *name; /* its label, or scope and op */
  int64_t bytes, offset;
  int first, last;
} sn_lifetime;

/* Made by sn_inspect; read only. Lists and strings live until sn_inspection_destroy. */
typedef struct sn_inspection {
  const char *device;
  /* The graph: live nodes. Layers are the scopes that end in a number (layers.0). */
  int64_t nodes_before, nodes_optimised, nodes_after, layers;
  /* The e-graph; stop says why it ended: "fixpoint", "node budget" or "match budget". */
  struct {
    int64_t classes, nodes, iterations, matches;
    const char *stop;
    double seconds, cost_before, cost_after; /* costs are seconds by the optimiser's model */
    bool kept_input;                         /* nothing that was found is cheaper */
  } egraph;
  /* The plan. Counts are those of sn_session_stats: of one run, prepare aside. */
  int steps, prepare_steps;
  int64_t launches, barriers;
  /* Of those steps of a run whose scope lies in a layer; 0 without layers. */
  double steps_per_layer, launches_per_layer;
  int n_listed;             /* prepare_steps + steps */
  const sn_step *step_list; /* all of them, those of prepare first */
  /* Memory: peak and lower bound are of the arena, without state, inputs and outputs. */
  int64_t peak_bytes, lower_bound_bytes, state_bytes, input_bytes, output_bytes, constant_bytes,
      prepare_bytes;
  int n_lifetimes;
  const sn_lifetime *lifetimes;
  double flops, bytes; /* of all steps of a run */
  double compile_s;
  int n_phases, n_rules, n_archetypes, n_ops;
  const sn_named_number *phases;     /* seconds of each pass of the compiler, in order */
  const sn_named_number *rules;      /* how often each rule told the e-graph something new */
  const sn_named_number *archetypes; /* steps of a run, by archetype; those that occur */
  const sn_op_count *ops;            /* those that occur */
} sn_inspection;

/* Memory and messages are those of the graph's context. options may be NULL. */
SN_MUST_USE SN_API sn_status sn_inspect(const sn_graph *graph, const sn_inspect_options *options,
                                        sn_inspection **out_inspection);
SN_API void sn_inspection_destroy(sn_inspection *inspection);

/* The optimised graph in the text form of graphs; the plan as text. Release with sn_text_free. */
typedef enum sn_inspect_text { SN_INSPECT_GRAPH, SN_INSPECT_PLAN } sn_inspect_text;
SN_MUST_USE SN_API sn_status sn_inspection_print(const sn_inspection *inspection,
                                                 sn_inspect_text what, char **out_text);

#ifdef __cplusplus
}
#endif

#endif
