/* sinew check: a model folder against numbers that another engine computed: loss, logits, the norm of every
 * gradient, and the greedy continuation, recomputed and through the KV cache. */
#include "cli/cli.h"
#include "cli/golden_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOSS_TOLERANCE = 1e-6, LOGIT_TOLERANCE = 5e-5, GRADIENT_TOLERANCE = 1e-4,
                    CACHE_TOLERANCE = 2e-5;

typedef struct check_args {
  const char *folder, *golden;
  cli_session session;
} check_args;

static const cli_option options[] = {
    {NULL, "MODEL_DIR", CLI_TEXT, offsetof(check_args, folder), true,
     "a folder with config.json and safetensors"},
    {NULL, "GOLDEN.json", CLI_TEXT, offsetof(check_args, golden), true, "the expected numbers"},
    CLI_SESSION_ROWS(check_args, session),
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

typedef struct check {
  const cli_command *self;
  const check_args *args;
  sn_ctx *ctx;
  sn_model *model;
  sn_store *store;
  sn_json_doc *doc;
  golden_file golden;
  int64_t vocab;
  sn_graph *graph;
  sn_session *session;
  int failures;
} check;

static void report(check *c, bool ok, const char *what, const char *text) {
  printf("%-4s %-10s %s\n", ok ? "ok" : "FAIL", what, text);
  c->failures += !ok;
}

/* --- the model and the golden file --- */

/* Golden numbers of a 16-bit model come from a module that was cast as a whole, its table of rotary
 * frequencies included; so the check rounds them too. (Running such a model does not.) */
static sn_status open_model(check *c) {
  SN_TRY(sn_model_open(c->ctx, c->args->folder, &c->model));
  sn_model_config config = *sn_model_get_config(c->model);
  if (config.family != SN_MODEL_LLAMA || config.file_dtype == SN_F32)
    return SN_OK;
  printf("note: rotary frequencies are rounded to %s\n", sn_dtype_name(config.file_dtype));
  config.rope.rounding = config.rope_sliding.rounding = config.file_dtype;
  sn_model_destroy(c->model);
  return sn_model_create(c->ctx, &config, &c->model);
}

static sn_status open_golden(check *c) {
  golden_file_model m = {.vocab = c->vocab,
                         .weights = sn_model_weight_names(c->model),
                         .n_weights = sn_model_weight_count(c->model)};
  SN_TRY(sn_json_parse_file(c->ctx, c->args->golden, &c->doc));
  return golden_file_read(c->ctx, c->args->golden, sn_json_root(c->doc), &m, &c->golden);
}

/* Weights last: they may take long. */
static sn_status open_all(check *c) {
  SN_TRY(open_model(c));
  c->vocab = sn_model_get_config(c->model)->vocab;
  SN_TRY(open_golden(c));
  SN_TRY(sn_store_create(c->ctx, &c->store));
  return sn_model_load(c->model, c->store, c->args->folder);
}

/* --- loss, logits, gradients: one graph, one run --- */

static sn_status add_gradients(check *c, sn_value loss) {
  size_t n = sn_model_weight_count(c->model);
  sn_value *states = calloc(n + 1, sizeof *states), *grads = calloc(n, sizeof *grads);
  sn_status status = SN_ERR_NO_MEMORY;
  if (states && grads) {
    sn_graph_states(c->graph, states, (int)n);
    states[n] = loss;
    status = cli_recognise(&c->graph, states, (int)n + 1);
  }
  if (status == SN_OK)
    status = sn_grad(c->graph, states[n], states, (int)n, grads);
  for (size_t i = 0; status == SN_OK && i < n; i++) {
    char name[700];
    snprintf(name, sizeof name, "gradient of %s", sn_value_name(c->graph, states[i]));
    sn_output(c->graph, name, sn_l2_norm(c->graph, grads[i], SN_ALL_AXES, false));
  }
  free(states);
  free(grads);
  return status == SN_OK ? sn_graph_status(c->graph) : status;
}

static sn_status run_graph(check *c) {
  SN_TRY(sn_graph_create(c->ctx, &c->graph));
  sn_graph *g = c->graph;
  sn_shape shape = SN_SHAPE(c->golden.batch, c->golden.length);
  sn_value ids = sn_input(g, "ids", SN_I32, shape), labels = sn_input(g, "labels", SN_I32, shape);
  sn_value positions = sn_arange(g, SN_I32, c->golden.length, 0, 1);
  sn_value logits =
      sn_model_logits(c->model, g, &(sn_model_inputs){.ids = ids, .positions = positions});
  sn_value loss = sn_cross_entropy(g, logits, labels, -100, 0, SN_REDUCTION_MEAN);
  sn_output(g, "logits", logits);
  sn_output(g, "loss", loss);
  SN_TRY(sn_graph_status(g));
  SN_TRY(add_gradients(c, loss)); /* c->graph is another one now */
  sn_session_options o = cli_session_options(&c->args->session);
  SN_TRY(sn_session_create(c->graph, c->store, &o, &c->session));
  size_t size = (size_t)(c->golden.batch * c->golden.length) * sizeof(int32_t);
  SN_TRY(sn_session_write(c->session, "ids", c->golden.ids, size));
  SN_TRY(sn_session_write(c->session, "labels", c->golden.labels, size));
  return sn_session_run(c->session);
}

static sn_status check_loss(check *c) {
  float loss;
  char text[160];
  SN_TRY(sn_session_read(c->session, "loss", &loss, sizeof loss));
  double want = c->golden.loss, error = fabs((double)loss - want) / fabs(want);
  snprintf(text, sizeof text, "%.9g, golden %.9g, relative error %.2g (at most %g)", (double)loss,
           want, error, LOSS_TOLERANCE);
  report(c, error <= LOSS_TOLERANCE, "loss", text);
  return SN_OK;
}

/* The largest |logit - golden| of a row, and what it was before. */
static double compare_row(const check *c, const float *logits, const sn_json *row, double worst) {
  for (int64_t v = 0; v < c->vocab; v++) {
    double error = fabs((double)logits[v] - golden_file_number(row, v));
    if (!(error <= worst))
      worst = error;
  }
  return worst;
}

static double compare_logits(const check *c, const float *logits, double *l2_error) {
  const golden_file *g = &c->golden;
  double sum = 0, worst = compare_row(c, logits + GOLDEN_MID * c->vocab, g->mid, 0);
  for (int64_t b = 0; b < g->batch; b++)
    worst = compare_row(c, logits + ((b + 1) * g->length - 1) * c->vocab,
                        sn_json_at(g->last, (size_t)b), worst);
  for (int64_t i = 0; i < g->batch * g->length * c->vocab; i++)
    sum += (double)logits[i] * (double)logits[i];
  *l2_error = fabs(sqrt(sum) - g->logits_l2) / g->logits_l2;
  return worst;
}

static sn_status check_logits(check *c) {
  size_t size = (size_t)(c->golden.batch * c->golden.length * c->vocab) * sizeof(float);
  float *logits = malloc(size);
  double worst = 0, l2_error = 0;
  char text[160];
  sn_status status =
      logits ? sn_session_read(c->session, "logits", logits, size) : SN_ERR_NO_MEMORY;
  if (status == SN_OK)
    worst = compare_logits(c, logits, &l2_error);
  free(logits);
  SN_TRY(status);
  snprintf(text, sizeof text, "worst error %.2g (at most %g), norm of all within %.2g", worst,
           LOGIT_TOLERANCE, l2_error);
  report(c, worst <= LOGIT_TOLERANCE && l2_error <= LOGIT_TOLERANCE, "logits", text);
  return SN_OK;
}

static sn_status check_gradients(check *c) {
  const sn_json *norms = c->golden.grads;
  const char *worst_name = "-";
  double worst = 0;
  char text[900];
  size_t n = sn_json_size(norms);
  for (size_t i = 0; i < n; i++) {
    const char *key = sn_json_key(sn_json_at(norms, i), NULL);
    double want = golden_file_number(norms, (int64_t)i);
    float norm;
    snprintf(text, sizeof text, "gradient of %.600s", key);
    SN_TRY(sn_session_read(c->session, text, &norm, sizeof norm));
    double error = fabs((double)norm - want) / fmax(fabs(want), 1e-30);
    if (!(error <= worst)) {
      worst = error;
      worst_name = key;
    }
  }
  snprintf(text, sizeof text, "%zu norms, worst relative error %.2g (at most %g) at %.600s", n,
           worst, GRADIENT_TOLERANCE, worst_name);
  report(c, worst <= GRADIENT_TOLERANCE, "gradients", text);
  return SN_OK;
}

/* --- greedy continuation --- */

typedef struct greedy {
  sn_generator *generator[2]; /* recomputed, cached */
  int equal[2];
  double worst; /* difference between the logits of the two */
  float *logits[2];
} greedy;

static sn_status greedy_step(check *c, greedy *r, const int32_t *prompt, size_t n, int64_t want) {
  size_t vocab = (size_t)c->vocab;
  for (int k = 0; k < 2; k++) {
    int32_t id;
    SN_TRY(sn_generator_next(r->generator[k], prompt, n, &id));
    SN_TRY(sn_generator_logits(r->generator[k], r->logits[k], vocab));
    r->equal[k] += id == want;
  }
  for (size_t v = 0; v < vocab; v++) {
    double d = fabs((double)r->logits[0][v] - (double)r->logits[1][v]);
    if (!(d <= r->worst))
      r->worst = d;
  }
  return SN_OK;
}

static sn_status run_greedy(check *c, greedy *r) {
  const sn_json *sequence = c->golden.greedy;
  int64_t n = (int64_t)sn_json_size(sequence);
  sn_session_options session = cli_session_options(&c->args->session);
  for (int k = 0; k < 2; k++) {
    sn_generate_options o = {.recompute = k == 0, .capacity = n, .session = &session};
    r->logits[k] = calloc((size_t)c->vocab, sizeof(float));
    if (!r->logits[k])
      return sn_ctx_fail(c->ctx, SN_ERR_NO_MEMORY, "out of memory");
    SN_TRY(sn_generator_create(c->model, c->store, &o, &r->generator[k]));
  }
  for (int64_t i = GOLDEN_PROMPT; i < n; i++)
    SN_TRY(greedy_step(c, r, c->golden.ids, i == GOLDEN_PROMPT ? GOLDEN_PROMPT : 0,
                       golden_file_id(sequence, i)));
  return SN_OK;
}

static sn_status check_greedy(check *c) {
  int n = (int)sn_json_size(c->golden.greedy) - GOLDEN_PROMPT;
  greedy r = {{NULL, NULL}, {0, 0}, 0, {NULL, NULL}};
  char text[160];
  sn_status status = run_greedy(c, &r);
  for (int k = 0; k < 2; k++) {
    sn_generator_destroy(r.generator[k]);
    free(r.logits[k]);
  }
  SN_TRY(status);
  snprintf(text, sizeof text, "%d of %d tokens recomputed, %d of %d through the cache", r.equal[0],
           n, r.equal[1], n);
  report(c, r.equal[0] == n && r.equal[1] == n, "greedy", text);
  snprintf(text, sizeof text, "logits with and without it differ by at most %.2g (at most %g)",
           r.worst, CACHE_TOLERANCE);
  report(c, r.worst <= CACHE_TOLERANCE, "cache", text);
  return SN_OK;
}

static sn_status run_checks(check *c) {
  SN_TRY(open_all(c));
  SN_TRY(run_graph(c));
  SN_TRY(check_loss(c));
  SN_TRY(check_logits(c));
  SN_TRY(check_gradients(c));
  return check_greedy(c);
}

static int run(const cli_command *self, int argc, char **argv) {
  check_args args = {0};
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  int code = cli_check_session(self, &args.session);
  if (code != CLI_OK)
    return code;
  check c = {.self = self, .args = &args};
  if (sn_ctx_create(NULL, &c.ctx) != SN_OK)
    return cli_error(self, "out of memory");
  code = run_checks(&c) == SN_OK ? CLI_OK : cli_fail(self, c.ctx);
  sn_session_destroy(c.session);
  sn_graph_destroy(c.graph);
  sn_json_destroy(c.doc);
  sn_store_destroy(c.store);
  sn_model_destroy(c.model);
  golden_file_free(&c.golden);
  sn_ctx_destroy(c.ctx);
  return c.failures ? CLI_FAILED : code;
}

const cli_command cli_check = {
    "check", "compare a model with golden numbers from another engine", options,
    "Compares loss, logits, the norm of every gradient and the greedy tokens, both recomputed and\n"
    "through the KV cache; prints the worst of each; exits with 1 beyond tolerance.",
    run};
