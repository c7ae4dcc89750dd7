/* sinew inspect: what the compiler makes of a workload, a model or a graph from a file, for people, as JSON, or as a page of pictures. */
#include "cli/inspect.h"

#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct inspect_args {
  const char *subject; /* a model folder, or a file with a graph; NULL: a workload */
  const char *workload, *device, *html;
  bool train, graph, plan, json;
} inspect_args;

static const cli_option options[] = {
    {NULL, "MODEL_DIR|GRAPH.txt", CLI_TEXT, offsetof(inspect_args, subject), false,
     "a folder with config.json (weights are not read), or a graph in the text form"},
    {"--workload", "NAME", CLI_TEXT, offsetof(inspect_args, workload), false,
     "a reference workload instead"},
    {"--train", NULL, CLI_FLAG, offsetof(inspect_args, train), false,
     "a training step with SGD instead of inference"},
    {"--device", "D", CLI_TEXT, offsetof(inspect_args, device), false,
     "what to compile for; default auto"},
    {"--graph", NULL, CLI_FLAG, offsetof(inspect_args, graph), false, "print the optimised graph"},
    {"--plan", NULL, CLI_FLAG, offsetof(inspect_args, plan), false,
     "print the plan: values, steps, regions"},
    {"--json", NULL, CLI_FLAG, offsetof(inspect_args, json), false, "print numbers as JSON"},
    {"--html", "FILE", CLI_TEXT, offsetof(inspect_args, html), false, "write a page with pictures"},
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

static bool check_args(const cli_command *self, const inspect_args *a) {
  if (!a->subject == !a->workload)
    (void)cli_error(self, "give one of MODEL_DIR, GRAPH.txt and --workload NAME");
  else if (a->subject && replay_is_graph(a->subject) && a->train)
    (void)cli_error(self, "--train is not for a graph in a file, which is compiled as it is");
  else if (a->workload && cli_check_workload(self, a->workload) != CLI_OK)
    return false;
  else if (cli_check_device(self, a->device) != CLI_OK)
    return false;
  else if (a->graph + a->plan + a->json > 1)
    (void)cli_error(self, "give one of --graph, --plan and --json");
  else
    return true;
  return false;
}

static sn_status print_text(sn_ctx *ctx, const sn_inspection *i, sn_inspect_text what) {
  char *text;
  SN_TRY(sn_inspection_print(i, what, &text));
  fputs(text, stdout);
  sn_text_free(ctx, text);
  return SN_OK;
}

static sn_status write_html(FILE *out, void *user) {
  inspect_html(out, user);
  return SN_OK;
}

static sn_status show(sn_ctx *ctx, const inspect_args *a, inspect_report *r) {
  if (a->html) {
    SN_TRY(cli_write_output(ctx, a->html, write_html, r));
    fprintf(stderr, "wrote %s\n", a->html);
  }
  if (a->graph)
    return print_text(ctx, r->i, SN_INSPECT_GRAPH);
  if (a->plan)
    return print_text(ctx, r->i, SN_INSPECT_PLAN);
  if (a->json)
    inspect_json(stdout, r);
  else if (!a->html)
    inspect_text(stdout, r);
  return SN_OK;
}

static sn_status inspect_graph(sn_ctx *ctx, const inspect_args *a, const sn_graph *g) {
  sn_inspect_options o = {.device = a->device, .finite_output = a->train ? "loss" : NULL};
  sn_inspection *i;
  SN_TRY(sn_inspect(g, &o, &i));
  if (sn_device_find(a->device) != sn_device_find(i->device))
    fprintf(stderr, "%s compiles nothing; shown for %s\n", a->device, i->device);
  inspect_report r = {a->workload ? a->workload : a->subject, a->train ? "training" : "inference",
                      i};
  sn_status status = show(ctx, a, &r);
  sn_inspection_destroy(i);
  return status;
}

/* Of a workload or a model. */
static sn_status build(sn_ctx *ctx, const inspect_args *a, sn_graph **out_graph) {
  sn_model *model = NULL;
  const sn_workload *workload = a->workload ? sn_workload_find(a->workload) : NULL;
  *out_graph = NULL;
  if (!workload)
    SN_TRY(sn_model_open(ctx, a->subject, &model));
  sn_status status = subject_build(ctx, workload, model,
                                   a->train ? SUBJECT_TRAINING : SUBJECT_INFERENCE, out_graph);
  sn_model_destroy(model);
  return status;
}

static sn_status run_in(sn_ctx *ctx, const inspect_args *a) {
  sn_graph *graph;
  SN_TRY(cli_check_output(ctx, a->html));
  if (a->subject && replay_is_graph(a->subject))
    SN_TRY(sn_graph_parse_file(ctx, a->subject, &graph));
  else
    SN_TRY(build(ctx, a, &graph));
  sn_status status = inspect_graph(ctx, a, graph);
  sn_graph_destroy(graph);
  return status;
}

static int run_inspect(const cli_command *self, int argc, char **argv) {
  inspect_args args = {0};
  sn_ctx *ctx;
  if (!cli_parse(self, argc, argv, &args) || !check_args(self, &args))
    return CLI_USAGE;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return cli_error(self, "out of memory");
  int code = run_in(ctx, &args) == SN_OK ? CLI_OK : cli_fail(self, ctx);
  sn_ctx_destroy(ctx);
  return code;
}

const cli_command cli_inspect = {
    "inspect", "show what the compiler makes of a workload, a model or a graph in a file", options,
    "Without --graph, --plan, --json and --html: a summary. Sizes are those of the largest "
    "symbols.\n"
    "A model folder is compiled as `sinew generate` runs it, with a cache of up to 2048 tokens "
    "that\n"
    "is fed up to 512 at a time, or with --train on 128 tokens. docs/inspect.md explains the "
    "numbers.",
    run_inspect};
