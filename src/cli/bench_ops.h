/* `sinew bench ops`: single operations, each as GFLOP/s, GB/s and percent of what the machine can do.
 *
 * An operation is a line of text, which is also its name in all reports: a kind, words and numbers in any mixture,
 *
 *   matmul NT 128 576 576        a stored [m, k], b stored [n, k]; m, n, k
 *   softmax 4096 1024            rows and columns
 *
 * bench_ops_kinds.c makes a graph of a line and says how many operations and bytes it cannot do without; bench_ops_rows.c has the
 * lines that are measured when none are given. */
#ifndef SINEW_CLI_BENCH_OPS_H
#define SINEW_CLI_BENCH_OPS_H

#include "cli/subject.h"

enum { OPS_NAME = 96, OPS_NUMBERS = 10, OPS_WORDS = 3, OPS_INPUTS = 12, OPS_PROBLEM = 200 };

/* An input of the graph, to be filled with numbers: indices below `below`, or where that is 0 normal floats around `mean`. */
typedef struct ops_input {
  const char *name;
  sn_type type;
  int64_t below;
  double mean;
} ops_input;

/* A line, understood; with a graph once it is built. */
typedef struct ops_case {
  char name[OPS_NAME];
  const struct ops_kind *kind;
  char word[OPS_WORDS][16];
  int n_words;
  int64_t n[OPS_NUMBERS];
  int n_numbers;

  sn_graph *graph;
  sn_status status; /* of what builders called beside the graph's own */
  ops_input inputs[OPS_INPUTS];
  int n_inputs;
  const char *dtype;  /* "f32", "bf16 weights" */
  double flops;       /* multiply-adds count two */
  double read, write; /* bytes, each value once */
} ops_case;

typedef struct ops_kind {
  const char *name, *group;
  const char *usage; /* words and numbers behind the name */
  int numbers;       /* that it needs */
  void (*build)(ops_case *c);
} ops_kind;
/* All of them; ended by a row without a name. */
extern const ops_kind ops_kinds[];

/* Understands a line; problem says what is wrong with it when it cannot. */
bool ops_parse(const char *line, ops_case *out, char problem[OPS_PROBLEM]);
/* Builds the graph of a case into c->graph, which is the caller's also after an error. */
sn_status ops_build(sn_ctx *ctx, ops_case *c) SN_MUST_USE;

/* Lines that are measured when none are given, in groups; NULL beyond the last. quick: a small one of each kind. */
const char *ops_line(int index, bool quick);

/* --- measuring (bench_ops.c) --- */

typedef struct ops_row {
  char name[OPS_NAME];
  const char *group, *dtype;
  double flops, bytes;
  double median_s, best_s;
  int runs, threads;
  double peak_flops, peak_bytes; /* a second, measured between its runs: medians */
} ops_row;

/* The least time that the peaks allow, over the time taken, in percent. */
double ops_percent(const ops_row *row);
/* Whether arithmetic, not memory, sets that least time. */
bool ops_is_compute(const ops_row *row);

typedef struct ops_options {
  const char *device, *filter, *shapes; /* NULL: any; all; the lines of ops_line */
  int threads, repeat;
  bool quick, json;
} ops_options;

/* Measures and prints. */
sn_status bench_ops(sn_ctx *ctx, const ops_options *o) SN_MUST_USE;

/* --- reports (bench_ops_report.c) --- */

void ops_table(FILE *out, const ops_row *rows, int n);
void ops_json(FILE *out, const ops_row *rows, int n);

#endif
