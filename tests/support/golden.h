/* The reference workloads against goldens that PyTorch computed in f64: loss, output and every gradient with the
 * `live` parameters, and the loss with the `arena` parameters. Where the shared file has less,
 * tests/fixtures/workloads/ has the rest. Prints the errors; the tolerances stand in the .c file.
 *
 * Runs on the device and with the precision of chosen.h. Skips without the shared folder.
 */
#ifndef SINEW_TESTS_SUPPORT_GOLDEN_H
#define SINEW_TESTS_SUPPORT_GOLDEN_H

#include <sinew/sinew.h>

enum { GOLDEN_PARAMS = 300 };
typedef struct golden {
  const sn_workload *workload;
  sn_ctx *ctx;
  sn_json_doc *doc, *more; /* the shared file; ours, or NULL */
  const char *init;        /* the part of them that holds */
  sn_graph *graph;
  sn_store *store;
  sn_workload_values values;
  sn_value params[GOLDEN_PARAMS]; /* those that are trained, and room for one more */
  int n;
  sn_session *session;
  double started, made_s, run_s;
} golden;

double golden_seconds(void);
/* Builds the graph and fills the store. Every failure on the way is one of the test. */
bool golden_start(golden *s, const sn_workload *w, sn_workload_init init);
void golden_end(golden *s);
/* What a file has under this key; NULL when neither has. */
const sn_json *golden_find(const golden *s, const char *key);
double golden_number(const sn_json *value);
/* A check of error <= tolerance (or what the precision allows), in words; NaN fails. */
void golden_check(const char *what, double error, double tolerance);
/* A failed call is a failed check, with the message. */
bool golden_went(const golden *s, sn_status status);

/* One run of a workload against its golden. Without gradients the plan is another: weights that nothing else reads are kept in
 * forms of the device's own. */
void golden_step(const sn_workload *w, sn_workload_init init, bool gradients);

#endif
