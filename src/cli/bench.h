/* Measurements of `sinew bench` and the forms in which it shows them. */
#ifndef SINEW_CLI_BENCH_H
#define SINEW_CLI_BENCH_H

#include "cli/replay.h"
#include "cli/subject.h"

typedef struct bench_step {
  char *name;
  char archetype[24], phase[12];
  double flops, bytes;
  double seconds; /* a run, on average */
} bench_step;

/* One purpose of one subject, measured. */
typedef struct bench_form {
  const char *name; /* "inference", "latency", "training" */
  double compile_s, median_ms, best_ms;
  double host_ms; /* the least that a run took without waiting for a GPU */
  sn_session_stats stats;
  bench_step *steps; /* with profile or trace only */
  int n_steps;
  sn_span *spans; /* of the last run; with profile or trace only */
  int n_spans;
} bench_form;

enum { BENCH_FORMS = 3, BENCH_SAMPLE = 8 };

typedef struct bench_result {
  const char *name;             /* of the workload, or the file of a graph */
  bench_form form[BENCH_FORMS]; /* inference, latency, training; the first only, of a graph */
  int n_forms;
  double loss;
  float sample[BENCH_SAMPLE]; /* the first of the output */
  int n_sample;
  int64_t state_bytes;
  int64_t peak_bytes; /* most that the process had in memory so far */
} bench_result;

typedef struct bench_options {
  const char *device; /* a name of sn_device_name */
  const char *description;
  const char *note; /* sn_device_note, "" where there is nothing to tell */
  int threads, repeat;
  bool spans; /* time steps */
  const char *plan_cache;
  sn_precision precision;
  bool profile; /* JSON has where the time goes */
  /* What the machine can do a second, on as many threads; 0: not measured, which only a profile asks for. By matrices: 0 where the
   * device has no units for them. */
  double peak_flops, peak_matrix_flops, peak_bytes;
  double launch_s; /* of a step that does nothing; GPUs */
} bench_options;

typedef struct bench_report {
  const bench_options *options;
  const bench_result *results;
  int n;
} bench_report;

/* Measures a workload in all its forms, or the graph of a file as it is, with drawn inputs. Free with bench_free also after
 * a failure. */
sn_status bench_measure(sn_ctx *ctx, const sn_workload *workload, const bench_options *options,
                        bench_result *out) SN_MUST_USE;
sn_status bench_measure_graph(sn_ctx *ctx, const char *path, const bench_options *options,
                              bench_result *out) SN_MUST_USE;
void bench_free(bench_result *result);
/* The largest form that was measured: training, or the only one. */
const bench_form *bench_last(const bench_result *result);

void bench_table(FILE *out, const bench_report *r);
/* What the device runs for them: steps, launches and the like; nothing where that is not counted. */
void bench_counts(FILE *out, const bench_report *r);
void bench_json(FILE *out, const bench_report *r);
void bench_profile(FILE *out, const bench_report *r);
void bench_trace(FILE *out, const bench_report *r);
void bench_html(FILE *out, const bench_report *r);

/* Seconds by archetype of a form, the most first; returns how many. */
typedef struct bench_share {
  const char *archetype;
  double seconds, bound; /* taken, and the least that the machine would need */
  int steps;
} bench_share;
enum { BENCH_SHARES = 16 };
int bench_shares(const bench_options *o, const bench_form *f, bench_share out[BENCH_SHARES]);
/* The least time for a step: the longer of arithmetic and memory traffic at the peaks, for matmuls and attention those of products by
 * matrices where the precision allows them; at most what it took (operands that come from a cache are faster than memory). 0
 * without peaks. */
double bench_bound(const bench_options *o, const bench_step *s);

/* The steps that took longest, the longest first; returns how many. */
int bench_costliest(const bench_form *f, const bench_step **out, int capacity);

#endif
