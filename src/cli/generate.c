/* sinew generate: continues a prompt with a model folder. Ids in, ids out; text when the folder's
 * config.json carries the vocabulary of the demo's stories. */
#include "cli/cli.h"
#include "cli/demo.h"
#include "cli/stories.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct generate_args {
  const char *folder, *prompt, *ids;
  cli_session session;
  int64_t n, seed, top_k;
  double temperature, top_p;
  bool ignore_eos;
} generate_args;

static const cli_option options[] = {
    {NULL, "DIR", CLI_TEXT, offsetof(generate_args, folder), true,
     "a folder with config.json and safetensors"},
    {"--prompt", "TEXT", CLI_TEXT, offsetof(generate_args, prompt), false, "text to continue"},
    {"--ids", "LIST", CLI_TEXT, offsetof(generate_args, ids), false,
     "token ids to continue: 5,17,3"},
    {"-n", "N", CLI_INT, offsetof(generate_args, n), false,
     "how many tokens at the most; default 64"},
    {"--temp", "T", CLI_REAL, offsetof(generate_args, temperature), false,
     "temperature; 0, the default, always takes the likeliest"},
    {"--top-k", "K", CLI_INT, offsetof(generate_args, top_k), false,
     "with --temp: draw among the K likeliest; 0: all"},
    {"--top-p", "P", CLI_REAL, offsetof(generate_args, top_p), false,
     "with --temp: draw among the likeliest that make up P; 1: all"},
    {"--seed", "S", CLI_INT, offsetof(generate_args, seed), false, "seed of the draws; default 1"},
    {"--ignore-eos", NULL, CLI_FLAG, offsetof(generate_args, ignore_eos), false,
     "go on after the token that ends a text"},
    CLI_SESSION_ROWS(generate_args, session),
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

typedef struct generation {
  const cli_command *self;
  const generate_args *args;
  sn_ctx *ctx;
  sn_model *model;
  sn_store *store;
  sn_generator *generator;
  bool words; /* the folder has the stories' vocabulary */
  int32_t *ids;
  int64_t n, capacity;
} generation;

static int usage_error(const cli_command *self, const char *what) {
  (void)cli_error(self, "%s", what);
  return CLI_USAGE;
}

static int check_args(const cli_command *self, const generate_args *a) {
  if (!a->prompt == !a->ids)
    return usage_error(self, "give either --prompt or --ids");
  if (a->n < 0)
    return usage_error(self, "-n must not be negative");
  if (!(a->temperature >= 0) || isinf(a->temperature) || !(a->top_p > 0 && a->top_p <= 1) ||
      a->top_k < 0)
    return usage_error(
        self, "--temp must be finite and not negative, --top-k not negative, and --top-p above 0 "
              "and at most 1");
  return cli_check_session(self, &a->session);
}

static int encode_prompt(generation *g) {
  char bad[64];
  size_t n = 0;
  if (!g->words)
    return cli_error(g->self, "%s has no vocabulary that this command knows; use --ids",
                     g->args->folder);
  g->ids[0] = STORIES_END; /* a story begins after the end of another */
  stories_status status =
      stories_encode(g->args->prompt, g->ids + 1, (size_t)g->capacity - 1, bad, sizeof bad, &n);
  if (status == STORIES_UNKNOWN_WORD)
    return cli_error(g->self, "--prompt: the model does not know the word \"%s\"", bad);
  if (status != STORIES_OK)
    return cli_error(g->self, "--prompt: longer than the model's %lld tokens",
                     (long long)g->capacity);
  g->n = (int64_t)n + 1;
  return CLI_OK;
}

static int read_prompt(generation *g) {
  if (g->args->prompt)
    return encode_prompt(g);
  g->n = cli_parse_ids(g->self, g->args->ids, g->ids, g->capacity);
  if (g->n < 0)
    return CLI_USAGE;
  return g->n ? CLI_OK : cli_error(g->self, "--ids: the prompt is empty");
}

static int open_model(generation *g) {
  const generate_args *a = g->args;
  if (sn_model_open(g->ctx, a->folder, &g->model) != SN_OK ||
      sn_store_create(g->ctx, &g->store) != SN_OK ||
      sn_model_load(g->model, g->store, a->folder) != SN_OK ||
      demo_vocabulary_known(g->ctx, a->folder, &g->words) != SN_OK)
    return cli_fail(g->self, g->ctx);
  g->capacity = sn_model_get_config(g->model)->max_length;
  g->ids = calloc((size_t)g->capacity + 1, sizeof *g->ids);
  return g->ids ? CLI_OK : cli_error(g->self, "out of memory");
}

/* With room for what was asked: the longest sequence that a model can see may be far more. */
static int make_generator(generation *g) {
  const generate_args *a = g->args;
  if (g->capacity - g->n > a->n)
    g->capacity = g->n + a->n;
  sn_session_options session = cli_session_options(&a->session);
  sn_generate_options o = {.temperature = a->temperature,
                           .top_k = a->top_k,
                           .top_p = a->top_p,
                           .seed = (uint64_t)a->seed,
                           .capacity = g->capacity,
                           .session = &session};
  if (sn_generator_create(g->model, g->store, &o, &g->generator) != SN_OK)
    return cli_fail(g->self, g->ctx);
  return CLI_OK;
}

/* Prints what the newest id adds: its word, or its number. */
static void show(const generation *g, demo_printer *printer, bool first) {
  if (g->args->prompt)
    demo_print_tokens(printer, stdout, g->ids, (size_t)g->n);
  else
    printf("%s%d", first ? "" : " ", g->ids[g->n - 1]);
  fflush(stdout);
}

static int generate(generation *g) {
  demo_printer printer = {0};
  size_t fresh = (size_t)g->n;
  if (g->args->prompt)
    demo_print_tokens(&printer, stdout, g->ids, (size_t)g->n);
  for (int64_t i = 0; i < g->args->n; i++) {
    int32_t id;
    if (g->n >= g->capacity) {
      fprintf(stderr, "\n(the model sees at most %lld tokens)\n", (long long)g->capacity);
      break;
    }
    if (sn_generator_next(g->generator, g->ids, fresh, &id) != SN_OK)
      return cli_fail(g->self, g->ctx);
    fresh = 0;
    g->ids[g->n++] = id;
    show(g, &printer, i == 0);
    if (id == sn_model_get_config(g->model)->eos && !g->args->ignore_eos)
      break;
  }
  printf("\n");
  return CLI_OK;
}

static int run(const cli_command *self, int argc, char **argv) {
  generate_args args = {.n = 64, .seed = 1, .top_p = 1};
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  int code = check_args(self, &args);
  if (code != CLI_OK)
    return code;
  generation g = {.self = self, .args = &args};
  if (sn_ctx_create(NULL, &g.ctx) != SN_OK)
    return cli_error(self, "out of memory");
  code = open_model(&g);
  if (code == CLI_OK)
    code = read_prompt(&g);
  if (code == CLI_OK)
    code = make_generator(&g);
  if (code == CLI_OK)
    code = generate(&g);
  sn_generator_destroy(g.generator);
  sn_store_destroy(g.store);
  sn_model_destroy(g.model);
  free(g.ids);
  sn_ctx_destroy(g.ctx);
  return code;
}

const cli_command cli_generate = {
    "generate", "continue a prompt with a model", options,
    "Reads Hugging Face folders of the Llama family (Llama, Mistral, Qwen2, Qwen3) and GPT-2. "
    "Text\n"
    "prompts work for models of `sinew demo`, whose config.json holds their vocabulary. Goes on "
    "past\n"
    "the end of a text, up to N tokens or the longest sequence that the model can see.",
    run};
