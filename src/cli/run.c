/* sinew run: a graph in the text form, run with given or drawn inputs, on one device or compared on two. See
 * docs/replay.md. */
#include "cli/run.h"

#include <stdlib.h>
#include <string.h>

typedef struct run_args {
  const char *path, *out, *compare;
  cli_texts in, bind;
  cli_session session;
  int64_t seed, runs, draw_int;
  double tolerance;
  bool no_fusion, no_optimizer;
} run_args;

static const cli_option options[] = {
    {NULL, "GRAPH.txt", CLI_TEXT, offsetof(run_args, path), true, "a graph in the text form"},
    {"--in", "FILE", CLI_TEXTS, offsetof(run_args, in), false,
     "[NAME=]FILE.npy or [NAME=]FILE.safetensors: values of inputs and states; may be repeated"},
    {"--bind", "SYMBOL=N", CLI_TEXTS, offsetof(run_args, bind), false,
     "the value of a symbol; may be repeated"},
    {"--seed", "S", CLI_INT, offsetof(run_args, seed), false,
     "for inputs and states that no file has; default 0"},
    {"--draw-int", "N", CLI_INT, offsetof(run_args, draw_int), false,
     "draw i32 and u8 from 0 … N; default 3"},
    {"--runs", "N", CLI_INT, offsetof(run_args, runs), false,
     "run so many times, with states carried on; default 1"},
    {"--out", "FILE", CLI_TEXT, offsetof(run_args, out), false,
     "write the results: FILE.safetensors, or FILE.npy for one output"},
    {"--compare", "D2", CLI_TEXT, offsetof(run_args, compare), false,
     "run on a second device too and compare; exit status 1 when a result differs"},
    {"--tolerance", "T", CLI_REAL, offsetof(run_args, tolerance), false,
     "of floats: |a - b| at most T · max(1, |b|), 0: the same bits; default by dtype"},
    {"--no-fusion", NULL, CLI_FLAG, offsetof(run_args, no_fusion), false,
     "one step an op, to find out what is at fault"},
    {"--no-optimizer", NULL, CLI_FLAG, offsetof(run_args, no_optimizer), false,
     "the graph as it is written, for the same purpose"},
    CLI_SESSION_ROWS(run_args, session),
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

enum { MOST_RUNS = 1000000 };
static const double default_tolerance = -1;

/* --- arguments --- */

static bool check_range(const cli_command *self, const char *name, int64_t n, int64_t least,
                        int64_t most) {
  if (n >= least && n <= most)
    return true;
  (void)cli_error(self, "%s: expected %lld … %lld, got %lld", name, (long long)least,
                  (long long)most, (long long)n);
  return false;
}

static bool check_ending(const cli_command *self, const char *name, const char *path) {
  if (replay_ends_in(path, ".npy") || replay_ends_in(path, ".safetensors"))
    return true;
  (void)cli_error(self, "%s: expected a file that ends in .npy or .safetensors, got \"%s\"", name,
                  path);
  return false;
}

static int check_args(const cli_command *self, const run_args *a) {
  for (int i = 0; i < a->in.n; i++)
    if (!check_ending(self, "--in", a->in.at[i]))
      return CLI_USAGE;
  if ((a->out && !check_ending(self, "--out", a->out)) ||
      !check_range(self, "--runs", a->runs, 1, MOST_RUNS) ||
      !check_range(self, "--seed", a->seed, 0, INT64_MAX) ||
      !check_range(self, "--draw-int", a->draw_int, 0, INT32_MAX))
    return CLI_USAGE;
  bool has_tolerance = a->tolerance > default_tolerance || a->tolerance < default_tolerance;
  if (has_tolerance && (a->tolerance < 0 || !a->compare)) {
    (void)cli_error(self, a->compare ? "--tolerance must not be negative"
                                     : "--tolerance means nothing without --compare");
    return CLI_USAGE;
  }
  if (a->compare && cli_check_device(self, a->compare) != CLI_OK)
    return CLI_USAGE;
  return cli_check_session(self, &a->session);
}

/* --- running --- */

static sn_status make_side(const replay *r, const run_args *a, const char *device, run_side *out) {
  sn_session_options o = cli_session_options(&a->session);
  o.device = device;
  o.no_fusion = a->no_fusion;
  o.no_optimizer = a->no_optimizer;
  return run_side_make(r, &o, (uint64_t)a->seed, a->runs, out);
}

/* *differ: how many results do. */
static sn_status compare(const replay *r, const run_args *a, const run_side *first, int *differ) {
  run_side second;
  sn_status status = make_side(r, a, a->compare, &second);
  if (status == SN_OK)
    *differ = run_compare(stdout, first, &second, a->tolerance);
  run_side_free(r->ctx, &second);
  return status;
}

static sn_status run_on(const replay *r, const run_args *a, int *differ) {
  run_side side;
  run_print_inputs(stdout, r);
  sn_status status = make_side(r, a, a->session.device, &side);
  if (status == SN_OK) {
    run_print_results(stdout, &side);
    if (a->out)
      status = run_write(r->ctx, a->out, &side);
  }
  if (status == SN_OK && a->compare)
    status = compare(r, a, &side, differ);
  run_side_free(r->ctx, &side);
  return status;
}

static sn_status run_replay(replay *r, const run_args *a, int *differ) {
  const replay_drawing drawing = {(uint64_t)a->seed, a->draw_int};
  for (int i = 0; i < a->bind.n; i++)
    SN_TRY(replay_bind(r, a->bind.at[i]));
  for (int i = 0; i < a->in.n; i++)
    SN_TRY(replay_give(r, a->in.at[i]));
  SN_TRY(replay_settle(r, &drawing));
  return run_on(r, a, differ);
}

static sn_status run_in(sn_ctx *ctx, const run_args *a, int *differ) {
  replay r = {0};
  SN_TRY(cli_check_output(ctx, a->out));
  sn_status status = replay_open(ctx, a->path, &r);
  if (status == SN_OK && a->out && replay_ends_in(a->out, ".npy") &&
      sn_graph_output(r.graph, 1, NULL))
    status = sn_ctx_fail(
        ctx, SN_ERR_INVALID,
        "--out: %s holds one array, the graph has several outputs: use .safetensors", a->out);
  if (status == SN_OK)
    status = run_replay(&r, a, differ);
  replay_close(&r);
  return status;
}

static int run_run(const cli_command *self, int argc, char **argv) {
  run_args args = {.runs = 1, .draw_int = replay_drawn.most, .tolerance = default_tolerance};
  int differ = 0;
  sn_ctx *ctx;
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  int code = check_args(self, &args);
  if (code != CLI_OK)
    return code;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return cli_error(self, "out of memory");
  if (run_in(ctx, &args, &differ) != SN_OK)
    code = cli_fail(self, ctx);
  else if (differ)
    code = cli_error(self, "%d result%s", differ, differ == 1 ? " differs" : "s differ");
  sn_ctx_destroy(ctx);
  return code;
}

const cli_command cli_run = {
    "run", "run a graph in the text form, with given or drawn inputs", options,
    "A FILE.npy without a NAME is for the input or state of its base name, or for the only input "
    "that is\n"
    "left; a FILE.safetensors is for all inputs and states of its tensors' names. Other inputs are "
    "drawn from\n"
    "the seed and their name: floats from -2 … 2, bools from both. Other states begin as the graph "
    "says.\n"
    "Symbols are what --bind says, or what the shapes of given inputs say, or their maximum. "
    "Results are\n"
    "outputs and the states that the graph assigns. docs/replay.md tells more.",
    run_run};
