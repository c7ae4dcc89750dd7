/* Runs a graph that a test has built, in double precision, with symbols bound and inputs drawn by
 * name and index (case_weight), so that an input of the same name holds the same numbers in every
 * graph:
 *
 *   graph_run r;
 *   if (graph_run_start(&r)) {
 *     sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(sn_symbol(r.g, "n", 8), 3));
 *     sn_output(r.g, "y", sn_neg(r.g, x));
 *     if (graph_run_execute(&r, (int64_t[]){5}))
 *       CHECK_NEAR(r.out[0].data[0], …);
 *   }
 *   graph_run_end(&r);
 *
 * A bad graph and a failed run are failed checks. */
#ifndef SINEW_TESTS_SUPPORT_GRAPH_RUN_H
#define SINEW_TESTS_SUPPORT_GRAPH_RUN_H

#include "support/case.h"

enum { GRAPH_RUN_OUTPUTS = 8 };

typedef struct graph_run {
  sn_ctx *ctx;
  sn_graph *g;
  arena memory;
  ref_tensor out[GRAPH_RUN_OUTPUTS]; /* of the last run, by output */
  /* One element of one input is moved by this much: for differences. */
  const char *moved;
  int64_t moved_index;
  double moved_by;
} graph_run;

bool graph_run_start(graph_run *r);
/* bindings by symbol, in the order of their making; NULL without symbols. */
bool graph_run_execute(graph_run *r, const int64_t *bindings);
/* The same, expecting nothing: the status, and the message in sn_ctx_message(r->ctx). */
sn_status graph_run_status(graph_run *r, const int64_t *bindings);
/* d out[0].data[0] / d element i of an input, by central differences. */
double graph_run_difference(graph_run *r, const char *input, int64_t i);
void graph_run_end(graph_run *r);

/* Sum over a * b, in double. */
double ref_tensor_dot(const ref_tensor *a, const ref_tensor *b);
/* Whether shapes are equal and elements lie within a tolerance; a failed check says where not. */
bool ref_tensor_near(const char *what, const ref_tensor *a, const ref_tensor *b, double tolerance);

#endif
