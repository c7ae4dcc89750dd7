/* The pipeline: a graph to a verified program, as one readable list of passes (compile.c). */
#ifndef SINEW_COMPILE_COMPILE_H
#define SINEW_COMPILE_COMPILE_H

#include "opt/opt.h"
#include "plan/plan.h"

typedef struct compile_options {
  bool no_opt; /* skip the e-graph */
  bool fast_math;
  bool no_fusion;
  int channels_last;   /* plan_options */
  bool cut_all;        /* however short the pieces become (plan_cut): for tests */
  opt_target target;   /* zeros: a modest machine */
  const char *watched; /* an output to check before anything is committed; may be NULL */
  const char *cache;   /* a folder of plans (cache.h); NULL: none */
  bool anew;           /* take none from there, and replace the one that is there */
  const char
      *device; /* who will run the program: plans for one are not taken for another; may be NULL */
} compile_options;

typedef struct compile_report {
  opt_report opt;
  int64_t nodes_before, nodes_after; /* live ones: as given, and lowered */
  int64_t steps, launches, barriers; /* of main and commit: what every run does */
  bool from_cache;                   /* fusion, order and places were found, and proved again */
  double total_s;
  struct {
    double check, opt, lower, fuse, order, place, verify, keep;
  } phase_s;
} compile_report;

typedef struct compiled {
  program *program;
  sn_graph *optimised; /* NULL with no_opt and after compile_forget */
  sn_graph *lowered;   /* what the program was proved against; NULL after compile_forget */
  compile_report report;
} compiled;

/* Memory and messages are those of the graph's context. options may be NULL. *out is zeros after a failure. */
sn_status compile_graph(const sn_graph *graph, const compile_options *options,
                        compiled *out) SN_MUST_USE;
/* Frees the graphs, which a program does not need to run. */
void compile_forget(compiled *c);
void compile_destroy(compiled *c);

#endif
