/* What the files of `sinew run` share: the results of a graph on one device, and what is done with them. */
#ifndef SINEW_CLI_RUN_H
#define SINEW_CLI_RUN_H

#include "cli/replay.h"

/* An output, or a state that the graph assigns. */
typedef struct run_result {
  const char *name; /* the graph's */
  bool is_state;
  sn_type type;
  void *data;
  size_t size;
} run_result;

/* The results of the last run on a device. */
typedef struct run_side {
  const char *device;  /* as asked for */
  run_result *results; /* outputs in their order, then states */
  int n;
} run_side;

/* Runs the graph `runs` times, with states carried on. Free with run_side_free also after a failure. */
sn_status run_side_make(const replay *r, const sn_session_options *options, uint64_t seed,
                        int64_t runs, run_side *out) SN_MUST_USE;
void run_side_free(sn_ctx *ctx, run_side *side);

/* Symbols and inputs, and the results, as text. */
void run_print_inputs(FILE *out, const replay *r);
void run_print_results(FILE *out, const run_side *side);

/* Prints, for each result, how far two devices are apart; how many results differ. A tolerance below 0: that of the
 * dtype; 0: the same bits, but any NaN is any NaN. Whole numbers and bools must be equal in any case. */
int run_compare(FILE *out, const run_side *a, const run_side *b, double tolerance);

/* A safetensors file of all results, or an npy file of the only output. */
sn_status run_write(sn_ctx *ctx, const char *path, const run_side *side) SN_MUST_USE;

#endif
