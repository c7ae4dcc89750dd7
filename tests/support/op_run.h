/* One case of an op, run in double precision, for tests that say how results relate to each other:
 *
 *   op_run a;
 *   if (op_run_load(&a, "rope(f32[3, 4], i32[3]{0, 1, 2}) seq_axis=0 dims=4 base=100")) {
 *     a.in[0].data[0] = 1;                        // inputs may be changed before …
 *     if (op_run_execute(&a))                     // … each run
 *       CHECK_NEAR(a.out[0].data[0], …);
 *   }
 *   op_run_end(&a);
 *
 * Drawn inputs depend on the op, the input's place and its index only: the same shapes, the same
 * numbers. What fails to load or to run is a failed check. */
#ifndef SINEW_TESTS_SUPPORT_OP_RUN_H
#define SINEW_TESTS_SUPPORT_OP_RUN_H

#include "support/case.h"

typedef struct op_run {
  sn_ctx *ctx;
  op_test_case c;
  case_tensor *in; /* c.in */
  case_tensor out[MAX_RESULTS];
  arena memory;
  bool loaded;
} op_run;

bool op_run_load(op_run *r, const char *text);
bool op_run_execute(op_run *r);
/* Both at once. */
bool op_run_text(op_run *r, const char *text);
/* Runs and expects a failure; its message is sn_ctx_message(r->ctx). */
sn_status op_run_status(op_run *r);
void op_run_end(op_run *r);

/* The largest difference between n numbers; infinity where just one is finite. */
double op_run_distance(const double *a, const double *b, int64_t n);

#endif
