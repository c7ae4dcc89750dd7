/* Runs graphs through the whole pipeline (compile, the device and precision of chosen.h) and compares them with the reference
 * interpreter.
 *
 *   plan_run r;
 *   if (plan_run_start(&r, graph, &options) == SN_OK &&       // once
 *       plan_run_compare(&r, &numbers, why, sizeof why) == PLAN_WRONG)   // at any number of bindings
 *     FAIL("%s", why);
 *   plan_run_end(&r);
 *
 * Buffers of the host are as large as the bound sizes say, with guards behind them; results are full of NaN before
 * a run.
 *
 * What counts as equal: plan_oracle.h.
 */
#ifndef SINEW_TESTS_SUPPORT_PLAN_RUN_H
#define SINEW_TESTS_SUPPORT_PLAN_RUN_H

#include "compile/compile.h"
#include "device/device.h"
#include "support/plan_oracle.h"

/* Tensors compared, and passed over because the reference is unsure of them. */
typedef struct plan_tally {
  int compared, passed_over;
} plan_tally;

enum { PLAN_LOWERED = 8 };
typedef struct plan_run {
  sn_ctx *ctx;
  const sn_graph *g;
  compile_options options;
  compiled c;
  /* The same program for one thread; for several; on the cpu, for the other instruction sets in turn. `which` is the one
   * that a run is on. */
  device_plan *lowered[PLAN_LOWERED];
  bool prepared[PLAN_LOWERED]; /* a run has filled the prepared arena */
  int n_lowered, which;
  plan_tally tally;
} plan_run;

/* The leaves of one run, in memory of their own. */
typedef struct plan_block {
  void *data;
  size_t bytes;
} plan_block;
typedef struct plan_results {
  arena memory;
  plan_block *blocks; /* inputs, states, outputs */
  int n_blocks, cap_blocks;
  int64_t *sizes;
  const void **inputs; /* by leaf of the program, as the others */
  void **outputs, **states;
} plan_results;

typedef enum plan_verdict {
  PLAN_RIGHT,
  PLAN_WRONG,
  PLAN_FAILS /* the reference fails and so does the plan, with a message */
} plan_verdict;

sn_status plan_run_start(plan_run *r, const sn_graph *g, const compile_options *options);
void plan_run_end(plan_run *r);
/* One run; results are there until plan_results_end, which must be called whatever comes back. Fails with
 * SN_ERR_INTERNAL when a guard was overwritten, an input changed, or a failed run changed a state. */
sn_status plan_run_once(plan_run *r, const plan_numbers *n, plan_results *out);
void plan_results_end(plan_results *r);
/* Several runs: one, one on what it left in the arena and without preparing, one on several threads: they must agree to the
 * last bit. And one for each other instruction set. All must agree with the reference, as said above. */
plan_verdict plan_run_compare(plan_run *r, const plan_numbers *n, char *why, size_t size);

/* Compiles with and without fusion, with and without the optimiser, as `modes` says (bits: 1 no_fusion, 2 no_opt;
 * each mode counts as 1 << bits; without the optimiser all that can be is cut, and channels stand last), and compares at these numbers. `why` begins with the mode; tally, which may be
 * NULL, is added to. */
enum { PLAN_FUSED = 1, PLAN_UNFUSED = 2, PLAN_PLAIN_FUSED = 4, PLAN_PLAIN_UNFUSED = 8 };
plan_verdict plan_check(const sn_graph *g, int modes, const plan_numbers *n, int n_numbers,
                        plan_tally *tally, char *why, size_t size);

#endif
