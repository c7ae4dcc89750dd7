/* sinew bench: how long the reference workloads take, as a table, as JSON, as a page; with a profile or a trace of the
 * steps. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench_args {
  const char *workload, *device, *html, *trace;
  int64_t threads, repeat;
  bool json, profile;
} bench_args;

static const cli_option options[] = {
    {"--workload", "NAME", CLI_TEXT, offsetof(bench_args, workload), false,
     "one of the reference workloads, or all (default)"},
    {"--device", "D", CLI_TEXT, offsetof(bench_args, device), false, "where to run; default auto"},
    {"--threads", "N", CLI_INT, offsetof(bench_args, threads), false,
     "threads to use; default 0: as many as are good"},
    {"--repeat", "N", CLI_INT, offsetof(bench_args, repeat), false,
     "runs to take the median of, behind two that are not counted; default 5"},
    {"--json", NULL, CLI_FLAG, offsetof(bench_args, json), false,
     "print JSON in the field names of the Inference Arena"},
    {"--html", "FILE", CLI_TEXT, offsetof(bench_args, html), false, "write a page with pictures"},
    {"--profile", NULL, CLI_FLAG, offsetof(bench_args, profile), false,
     "print time by archetype and the costliest steps"},
    {"--trace", "FILE", CLI_TEXT, offsetof(bench_args, trace), false,
     "write a span for each step, for chrome://tracing or Perfetto"},
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

enum { MOST_THREADS = 1024, MOST_REPEATS = 100000, MOST_WORKLOADS = 32 };

static bool check_args(const cli_command *self, const bench_args *a) {
  if (strcmp(a->workload, "all") != 0 && !sn_workload_find(a->workload))
    (void)cli_error(self, "there is no workload \"%s\"; `sinew help workload` lists them",
                    a->workload);
  else if (a->threads < 0 || a->threads > MOST_THREADS)
    (void)cli_error(self, "--threads: expected 0 … %d, got %lld", MOST_THREADS,
                    (long long)a->threads);
  else if (a->repeat < 1 || a->repeat > MOST_REPEATS)
    (void)cli_error(self, "--repeat: expected 1 … %d, got %lld", MOST_REPEATS,
                    (long long)a->repeat);
  else
    return true;
  return false;
}

/* What the asked-for name means; a name that is not there is left for the session to refuse. */
static void choose_device(const char *asked, bench_options *o) {
  bool any = !asked || strcmp(asked, "auto") == 0;
  o->device = asked;
  o->description = "";
  for (int i = 0; sn_device_name(i); i++)
    if (any || strcmp(sn_device_name(i), asked) == 0) {
      o->device = sn_device_name(i);
      o->description = sn_device_description(i);
      return;
    }
}

static void write_html(FILE *out, void *user) { bench_html(out, user); }
static void write_trace(FILE *out, void *user) { bench_trace(out, user); }

static sn_status show(sn_ctx *ctx, const bench_args *a, bench_report *r) {
  if (a->json)
    bench_json(stdout, r);
  else
    bench_table(stdout, r);
  if (a->profile && !a->json)
    bench_profile(stdout, r);
  if (a->html)
    SN_TRY(report_write_file(ctx, a->html, write_html, r));
  return a->trace ? report_write_file(ctx, a->trace, write_trace, r) : SN_OK;
}

static sn_status run_in(sn_ctx *ctx, const bench_args *a) {
  bench_options o = {.threads = (int)a->threads,
                     .repeat = (int)a->repeat,
                     .spans = a->profile || a->trace || a->html};
  bench_result results[MOST_WORKLOADS] = {0};
  bool all = strcmp(a->workload, "all") == 0;
  sn_status status = SN_OK;
  int n = 0;
  choose_device(a->device, &o);
  for (int i = 0; sn_workload_at(i) && n < MOST_WORKLOADS && status == SN_OK; i++) {
    const sn_workload *w = sn_workload_at(i);
    if (!all && w != sn_workload_find(a->workload))
      continue;
    fprintf(stderr, "measuring %s on %s\n", sn_workload_name(w), o.device);
    status = bench_measure(ctx, w, &o, &results[n++]);
  }
  bench_report r = {&o, results, n};
  if (status == SN_OK)
    status = show(ctx, a, &r);
  for (int i = 0; i < n; i++)
    bench_free(&results[i]);
  return status;
}

static int run_bench(const cli_command *self, int argc, char **argv) {
  bench_args args = {.workload = "all", .repeat = 5};
  sn_ctx *ctx;
  if (!cli_parse(self, argc, argv, &args) || !check_args(self, &args))
    return CLI_USAGE;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return cli_error(self, "out of memory");
  int code = run_in(ctx, &args) == SN_OK ? CLI_OK : cli_fail(self, ctx);
  sn_ctx_destroy(ctx);
  return code;
}

const cli_command cli_bench = {
    "bench", "measure the reference workloads", options,
    "compile: graph to ready session, of inference. inference: the forward pass. latency: the "
    "same on\n"
    "the smallest input. training: forward and backward, all gradients. Medians. Steps are timed "
    "only\n"
    "with --profile, --trace or --html.",
    run_bench};
