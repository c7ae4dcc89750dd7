/* sinew bench: how long the reference workloads or a graph from a file take, as a table, as JSON, as a page; with a profile or a trace of the
 * steps. sinew bench ops: how long single operations take (bench_ops.h). */
#include "cli/bench.h"

#include "cli/bench_ops.h"
#include "cli/bench_peak.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench_args {
  const char *what; /* NULL, "ops" or a file with a graph */
  const char *workload, *html, *trace, *filter, *shapes;
  cli_session session;
  int64_t repeat;
  bool json, profile, quick;
} bench_args;

static const cli_option options[] = {
    {NULL, "ops|GRAPH.txt", CLI_TEXT, offsetof(bench_args, what), false,
     "measure single operations, or the graph in a file, instead of workloads"},
    {"--workload", "NAME", CLI_TEXT, offsetof(bench_args, workload), false,
     "one of the reference workloads, or all (default)"},
    {"--repeat", "N", CLI_INT, offsetof(bench_args, repeat), false,
     "runs to take the median of, behind some that are not counted; default 5"},
    {"--json", NULL, CLI_FLAG, offsetof(bench_args, json), false,
     "print JSON in the field names of the Inference Arena"},
    {"--html", "FILE", CLI_TEXT, offsetof(bench_args, html), false, "write a page with pictures"},
    {"--profile", NULL, CLI_FLAG, offsetof(bench_args, profile), false,
     "print time by archetype and the costliest steps, also as JSON"},
    {"--trace", "FILE", CLI_TEXT, offsetof(bench_args, trace), false,
     "write a span for each step, for chrome://tracing or Perfetto"},
    {"--filter", "TEXT", CLI_TEXT, offsetof(bench_args, filter), false,
     "ops: only those whose line has this text, or that are of this group"},
    {"--shapes", "FILE", CLI_TEXT, offsetof(bench_args, shapes), false,
     "ops: those in this file, one a line, in place of the usual ones"},
    {"--quick", NULL, CLI_FLAG, offsetof(bench_args, quick), false,
     "ops: a tiny one of each kind, to see that it works"},
    CLI_SESSION_ROWS(bench_args, session),
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

enum { MOST_REPEATS = 100000, MOST_WORKLOADS = 32 };

static bool is_ops(const bench_args *a) { return a->what && strcmp(a->what, "ops") == 0; }

/* What belongs to another part of the command. */
static int check_what(const cli_command *self, const bench_args *a) {
  bool ops = is_ops(a);
  const char *misplaced = NULL;
  if (a->what && !ops && !replay_is_graph(a->what)) {
    (void)cli_error(self, "unexpected argument %s; `sinew help %s` tells more", a->what,
                    self->name);
    return CLI_USAGE;
  }
  if (ops && (a->workload || a->html || a->trace || a->profile || a->session.plan_cache))
    misplaced = "--workload, --html, --trace, --profile and --plan-cache are not for ops";
  if (!ops && (a->filter || a->shapes || a->quick))
    misplaced = "--filter, --shapes and --quick are for ops";
  if (a->what && !ops && a->workload)
    misplaced = "give one of GRAPH.txt and --workload NAME";
  if (misplaced)
    (void)cli_error(self, "%s", misplaced);
  return misplaced ? CLI_USAGE : CLI_OK;
}

static int check_args(const cli_command *self, const bench_args *a) {
  if (check_what(self, a) != CLI_OK)
    return CLI_USAGE;
  if (a->workload && strcmp(a->workload, "all") != 0 &&
      cli_check_workload(self, a->workload) != CLI_OK)
    return CLI_USAGE;
  if (a->repeat < 1 || a->repeat > MOST_REPEATS) {
    (void)cli_error(self, "--repeat: expected 1 … %d, got %lld", MOST_REPEATS,
                    (long long)a->repeat);
    return CLI_USAGE;
  }
  return cli_check_session(self, &a->session);
}

/* What the asked-for name means: a device, or the first. */
static void choose_device(const char *asked, bench_options *o) {
  int i = sn_device_find(asked);
  o->device = i < 0 ? asked : sn_device_name(i);
  o->description = i < 0 ? "" : sn_device_description(i);
  o->note = i < 0 ? "" : sn_device_note(i);
}

static sn_status write_html(FILE *out, void *user) {
  bench_html(out, user);
  return SN_OK;
}

static sn_status write_trace(FILE *out, void *user) {
  bench_trace(out, user);
  return SN_OK;
}

static sn_status write_to(sn_ctx *ctx, const char *path, sn_status (*write)(FILE *out, void *user),
                          bench_report *r) {
  if (!path)
    return SN_OK;
  SN_TRY(cli_write_output(ctx, path, write, r));
  fprintf(stderr, "wrote %s\n", path);
  return SN_OK;
}

static sn_status show(sn_ctx *ctx, const bench_args *a, bench_report *r) {
  if (a->json)
    bench_json(stdout, r);
  else {
    bench_table(stdout, r);
    bench_counts(stdout, r);
  }
  if (a->profile && !a->json)
    bench_profile(stdout, r);
  SN_TRY(write_to(ctx, a->html, write_html, r));
  return write_to(ctx, a->trace, write_trace, r);
}

/* Beyond all caches; behind each workload, since what memory gives is not steady on all machines. */
static sn_status see_processor(sn_ctx *ctx, bench_options *o, int threads) {
  const double footprint = 1e8;
  bench_peak *p = bench_peak_create(threads, footprint);
  if (!p)
    return sn_ctx_fail(ctx, SN_ERR_NO_MEMORY, "out of memory");
  double flops = bench_peak_flops(p), bytes = bench_peak_copy(p, footprint);
  o->peak_flops = flops > o->peak_flops ? flops : o->peak_flops;
  o->peak_bytes = bytes > o->peak_bytes ? bytes : o->peak_bytes;
  bench_peak_destroy(p);
  return SN_OK;
}

/* Devices that cannot tell have none. */
static sn_status see_device(sn_ctx *ctx, bench_options *o) {
  sn_device_peaks p;
  sn_status status = sn_device_measure(ctx, sn_device_find(o->device), &p);
  if (status == SN_ERR_UNSUPPORTED)
    return SN_OK;
  SN_TRY(status);
  o->peak_flops = p.flops;
  o->peak_matrix_flops = p.matrix_flops;
  o->peak_bytes = p.bytes;
  o->launch_s = p.launch_s;
  return SN_OK;
}

static sn_status see_peaks(sn_ctx *ctx, bench_options *o, int threads) {
  if (!o->profile)
    return SN_OK;
  if (strcmp(o->device, "cpu") == 0)
    return see_processor(ctx, o, threads);
  return o->peak_flops > 0 ? SN_OK : see_device(ctx, o);
}

/* Measures all that was asked for; *n counts what is to be freed, also after a failure. */
static sn_status measure_all(sn_ctx *ctx, const bench_args *a, bench_options *o,
                             bench_result results[MOST_WORKLOADS], int *n) {
  bool all = !a->workload || strcmp(a->workload, "all") == 0;
  if (a->what) {
    SN_TRY(bench_measure_graph(ctx, a->what, o, &results[(*n)++]));
    return see_peaks(ctx, o, results[0].form[0].stats.threads);
  }
  for (int i = 0; sn_workload_at(i) && *n < MOST_WORKLOADS; i++) {
    const sn_workload *w = sn_workload_at(i);
    if (!all && w != sn_workload_find(a->workload))
      continue;
    SN_TRY(bench_measure(ctx, w, o, &results[(*n)++]));
    SN_TRY(see_peaks(ctx, o, results[*n - 1].form[0].stats.threads));
  }
  return SN_OK;
}

static sn_status run_in(sn_ctx *ctx, const bench_args *a) {
  bench_options o = {.threads = (int)a->session.threads,
                     .repeat = (int)a->repeat,
                     .plan_cache = a->session.plan_cache,
                     .precision = cli_session_options(&a->session).precision,
                     .profile = a->profile,
                     .spans = a->profile || a->trace || a->html};
  bench_result results[MOST_WORKLOADS] = {0};
  int n = 0;
  choose_device(a->session.device, &o);
  SN_TRY(cli_check_output(ctx, a->html));
  SN_TRY(cli_check_output(ctx, a->trace));
  sn_status status = measure_all(ctx, a, &o, results, &n);
  bench_report r = {&o, results, n};
  if (status == SN_OK)
    status = show(ctx, a, &r);
  for (int i = 0; i < n; i++)
    bench_free(&results[i]);
  return status;
}

static sn_status run_ops(sn_ctx *ctx, const bench_args *a) {
  return bench_ops(ctx, &(ops_options){.device = a->session.device,
                                       .filter = a->filter,
                                       .shapes = a->shapes,
                                       .threads = (int)a->session.threads,
                                       .repeat = (int)a->repeat,
                                       .quick = a->quick,
                                       .json = a->json});
}

static int run_bench(const cli_command *self, int argc, char **argv) {
  bench_args args = {.repeat = 5};
  sn_ctx *ctx;
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  int code = check_args(self, &args);
  if (code != CLI_OK)
    return code;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return cli_error(self, "out of memory");
  sn_status status = (is_ops(&args) ? run_ops : run_in)(ctx, &args);
  code = status == SN_OK ? CLI_OK : cli_fail(self, ctx);
  sn_ctx_destroy(ctx);
  return code;
}

const cli_command cli_bench = {
    "bench", "measure the reference workloads, a graph in a file, or single operations", options,
    "compile: graph to ready session, of inference. inference: the forward pass. latency: the "
    "same on\n"
    "the smallest input. training: forward and backward, all gradients. Medians. Steps are timed "
    "only\n"
    "with --profile, --trace or --html. Progress goes to stderr. With --plan-cache, a plan may be "
    "found\n"
    "instead of made, which `compile` then shows. GRAPH.txt is a graph in the text form: its "
    "inputs "
    "are\n"
    "drawn as `sinew run` draws them and its symbols are their maxima; there is one form, "
    "inference.\n\n"
    "ops: each operation as GFLOP/s and GB/s, counting what it cannot do without, and how much of "
    "the\n"
    "time is the least that the machine needs for it: the larger of arithmetic at the peak of "
    "multiply-adds\n"
    "and traffic at the bandwidth of memory (of a cache, where the operands fit into one). Both "
    "peaks are\n"
    "measured before and behind each operation, on as many threads.",
    run_bench};
