/* sinew workload: one step of a reference workload (loss, output, gradients) as JSON, or the losses of some
 * training steps. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct workload_args {
  const char *name, *init, *dump, *optimizer; /* the last NULL: sgd */
  cli_session session;
  int64_t steps;
  double rate; /* NAN: the optimiser's default */
} workload_args;

static const cli_option options[] = {
    {NULL, "NAME", CLI_TEXT, offsetof(workload_args, name), true,
     "SmolLM2-135M, SmolVLA, StableDiffusion, ResNet-50 or Whisper-tiny"},
    {"--init", "HOW", CLI_TEXT, offsetof(workload_args, init), false,
     "parameter values: arena (default) or live"},
    {"--dump", "FILE", CLI_TEXT, offsetof(workload_args, dump), false,
     "where the JSON goes; default stdout"},
    {"--steps", "N", CLI_INT, offsetof(workload_args, steps), false,
     "train N steps and print their losses instead"},
    {"--optimizer", "KIND", CLI_TEXT, offsetof(workload_args, optimizer), false,
     "with --steps: sgd (default) or adam"},
    {"--lr", "X", CLI_REAL, offsetof(workload_args, rate), false,
     "with --steps: learning rate; default 0.01 for sgd, 0.0001 for adam"},
    CLI_SESSION_ROWS(workload_args, session),
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

typedef struct run {
  const workload_args *args;
  const sn_workload *workload;
  sn_workload_init init;
  bool adam;
  sn_ctx *ctx;
  sn_graph *graph;
  sn_store *store;
  sn_workload_values values;
  sn_value *params; /* those that are trained, and room for one more */
  int n;
} run;

enum { MOST_STEPS = 1000000 };

/* --- arguments --- */

static bool parse_words(const cli_command *self, run *r) {
  const workload_args *a = r->args;
  const char *optimizer = a->optimizer ? a->optimizer : "sgd";
  r->workload = sn_workload_find(a->name);
  r->init = strcmp(a->init, "live") == 0 ? SN_WORKLOAD_LIVE : SN_WORKLOAD_ARENA;
  r->adam = strcmp(optimizer, "adam") == 0;
  if (cli_check_workload(self, a->name) != CLI_OK)
    return false;
  if (r->init == SN_WORKLOAD_ARENA && strcmp(a->init, "arena") != 0)
    (void)cli_error(self, "--init: expected arena or live, got \"%s\"", a->init);
  else if (!r->adam && strcmp(optimizer, "sgd") != 0)
    (void)cli_error(self, "--optimizer: expected sgd or adam, got \"%s\"", optimizer);
  else
    return true;
  return false;
}

static bool check_numbers(const cli_command *self, const workload_args *a) {
  if (a->steps < 0 || a->steps > MOST_STEPS)
    (void)cli_error(self, "--steps: expected 0 … %d, got %lld", MOST_STEPS, (long long)a->steps);
  else if (a->rate < 0)
    (void)cli_error(self, "--lr: expected a number that is not negative, got %g", a->rate);
  else if (a->steps > 0 && a->dump)
    (void)cli_error(self, "--dump belongs to one step and --steps to many: give one of them");
  else if (a->steps == 0 && (a->optimizer || !isnan(a->rate)))
    (void)cli_error(self, "%s means nothing without --steps",
                    a->optimizer ? "--optimizer" : "--lr");
  else
    return true;
  return false;
}

/* --- graph and store --- */

static sn_status prepare(run *r) {
  SN_TRY(sn_graph_create(r->ctx, &r->graph));
  SN_TRY(sn_store_create(r->ctx, &r->store));
  SN_TRY(sn_workload_build(r->workload, r->graph, SN_WORKLOAD_FULL, &r->values));
  SN_TRY(sn_workload_fill(r->workload, r->graph, r->init, r->store));
  r->n = sn_workload_trainable(r->workload, r->graph, NULL, 0);
  int room = sn_graph_states(r->graph, NULL, 0);
  r->params = calloc((size_t)room + 1, sizeof *r->params);
  if (!r->params)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  sn_workload_trainable(r->workload, r->graph, r->params, room);
  return SN_OK;
}

/* --- one step as JSON --- */

/* JSON has no word for what is not finite. */
static void print_number(FILE *out, double x, int digits) {
  if (isfinite(x))
    fprintf(out, "%.*g", digits, x);
  else
    fputs("null", out);
}

static void print_numbers(FILE *out, const char *key, const float *x, int64_t n) {
  fprintf(out, "\"%s\": [", key);
  for (int64_t i = 0; i < n; i++) {
    fputs(i ? ", " : "", out);
    print_number(out, (double)x[i], 9);
  }
  fputc(']', out);
}

static void print_shape(FILE *out, const char *key, const sn_shape *s) {
  fprintf(out, "\"%s\": [", key);
  for (int d = 0; d < s->rank; d++)
    fprintf(out, "%s%lld", d ? ", " : "", (long long)s->dim[d]);
  fputc(']', out);
}

/* An output of the session, read whole. */
typedef struct tensor {
  sn_type type;
  int64_t n;
  float *data; /* to be freed */
  double l2;
} tensor;

static sn_status read_tensor(const run *r, sn_session *s, const char *name, tensor *out) {
  int at = sn_session_find_output(s, name);
  *out = (tensor){.n = 1};
  SN_TRY(sn_session_output_type(s, at, &out->type));
  for (int d = 0; d < out->type.shape.rank; d++)
    out->n *= out->type.shape.dim[d];
  size_t size = (size_t)out->n * sizeof *out->data;
  out->data = malloc(size);
  if (!out->data)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  SN_TRY(sn_session_read_at(s, at, out->data, size));
  double sum = 0;
  for (int64_t i = 0; i < out->n; i++)
    sum += (double)out->data[i] * (double)out->data[i];
  out->l2 = sqrt(sum);
  return SN_OK;
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

static sn_status dump_output(const run *r, sn_session *s, FILE *out) {
  float loss;
  tensor t;
  SN_TRY(sn_session_read(s, "loss", &loss, sizeof loss));
  sn_status status = read_tensor(r, s, "output", &t);
  if (status == SN_OK) {
    int64_t first = at_most(t.n, 32), last = at_most(t.n, 8);
    fprintf(out, "{\n\"workload\": \"%s\",\n\"init\": \"%s\",\n\"loss\": ", r->args->name,
            r->args->init);
    print_number(out, (double)loss, 9);
    fputs(",\n", out);
    print_shape(out, "output_shape", &t.type.shape);
    fputs(",\n\"output_l2\": ", out);
    print_number(out, t.l2, 12);
    fputs(",\n\"output_rms\": ", out);
    print_number(out, t.l2 / sqrt((double)t.n), 12);
    fputs(",\n", out);
    print_numbers(out, "output_first32", t.data, first);
    fputs(",\n", out);
    print_numbers(out, "output_last8", t.data + t.n - last, last);
    fputs(",\n\"grads\": {", out);
  }
  free(t.data);
  return status;
}

static sn_status dump_gradient(const run *r, sn_session *s, const char *param, const char *name,
                               FILE *out) {
  tensor t;
  sn_status status = read_tensor(r, s, name, &t);
  if (status == SN_OK) {
    int64_t n = at_most(t.n, 4);
    fprintf(out, "\n\"%s\": {", param);
    print_shape(out, "shape", &t.type.shape);
    fputs(", \"l2\": ", out);
    print_number(out, t.l2, 12);
    fputs(", ", out);
    print_numbers(out, "first4", t.data, n);
    fputs(", ", out);
    print_numbers(out, "last4", t.data + t.n - n, n);
    fputc('}', out);
  }
  free(t.data);
  return status;
}

/* The output that holds the gradient of parameter i. */
static void gradient_name(const run *r, int i, char *out, size_t size) {
  snprintf(out, size, "gradient of %s", sn_value_name(r->graph, r->params[i]));
}

static sn_status dump(const run *r, sn_session *s, FILE *out) {
  SN_TRY(dump_output(r, s, out));
  for (int i = 0; i < r->n; i++) {
    char name[256];
    gradient_name(r, i, name, sizeof name);
    fputs(i ? "," : "", out);
    SN_TRY(dump_gradient(r, s, sn_value_name(r->graph, r->params[i]), name, out));
  }
  fputs("\n}\n}\n", out);
  return SN_OK;
}

static sn_status add_outputs(run *r) {
  sn_value *grads = calloc((size_t)r->n, sizeof *grads);
  if (!grads)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  sn_output(r->graph, "output", r->values.output);
  sn_output(r->graph, "loss", r->values.loss);
  r->params[r->n] = r->values.loss;
  sn_status status = cli_recognise(&r->graph, r->params, r->n + 1);
  if (status == SN_OK)
    status = sn_grad(r->graph, r->params[r->n], r->params, r->n, grads);
  for (int i = 0; status == SN_OK && i < r->n; i++) {
    char name[256];
    gradient_name(r, i, name, sizeof name);
    sn_output(r->graph, name, grads[i]);
  }
  free(grads);
  return status == SN_OK ? sn_graph_status(r->graph) : status;
}

typedef struct finished {
  const run *r;
  sn_session *session;
} finished;

static sn_status write_dump(FILE *out, void *user) {
  const finished *f = user;
  return dump(f->r, f->session, out);
}

static sn_status run_once(run *r) {
  const char *path = r->args->dump;
  sn_session_options o = cli_session_options(&r->args->session);
  finished f = {.r = r};
  SN_TRY(add_outputs(r));
  SN_TRY(sn_session_create(r->graph, r->store, &o, &f.session));
  sn_status status = sn_workload_write(r->workload, r->graph, SN_WORKLOAD_FULL, f.session);
  if (status == SN_OK)
    status = sn_session_run(f.session);
  if (status == SN_OK)
    status = path ? cli_write_output(r->ctx, path, write_dump, &f) : write_dump(stdout, &f);
  sn_session_destroy(f.session);
  return status;
}

/* --- training --- */

static sn_status create_trainer(run *r, sn_trainer **out) {
  double rate = isnan(r->args->rate) ? (r->adam ? 1e-4 : 1e-2) : r->args->rate;
  sn_session_options session = cli_session_options(&r->args->session);
  sn_trainer_options o = {.optimizer = {.kind = r->adam ? SN_ADAM : SN_SGD},
                          .schedule = {.kind = SN_SCHEDULE_CONSTANT, .rate = rate},
                          .session = &session};
  *out = NULL;
  sn_param *params = calloc((size_t)r->n, sizeof *params);
  if (!params)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  for (int i = 0; i < r->n; i++)
    params[i].state = r->params[i];
  sn_status status = sn_trainer_create(r->graph, r->values.loss, params, r->n, r->store, &o, out);
  free(params);
  return status;
}

static sn_status train(run *r) {
  sn_trainer *t;
  SN_TRY(create_trainer(r, &t));
  sn_status status =
      sn_workload_write(r->workload, r->graph, SN_WORKLOAD_FULL, sn_trainer_session(t));
  for (int64_t k = 0; status == SN_OK && k < r->args->steps; k++) {
    float loss;
    status = sn_trainer_step(t, &loss);
    if (status == SN_OK)
      printf("step %lld loss %.9g\n", (long long)k, (double)loss);
    fflush(stdout);
  }
  sn_trainer_destroy(t);
  return status;
}

static sn_status run_all(run *r) {
  SN_TRY(cli_check_output(r->ctx, r->args->dump)); /* a step may take a minute */
  SN_TRY(prepare(r));
  return r->args->steps > 0 ? train(r) : run_once(r);
}

static int run_workload(const cli_command *self, int argc, char **argv) {
  workload_args args = {.init = "arena", .rate = NAN};
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  run r = {.args = &args};
  if (!parse_words(self, &r) || !check_numbers(self, &args))
    return CLI_USAGE;
  int code = cli_check_session(self, &args.session);
  if (code != CLI_OK)
    return code;
  if (sn_ctx_create(NULL, &r.ctx) != SN_OK)
    return cli_error(self, "out of memory");
  code = run_all(&r) == SN_OK ? CLI_OK : cli_fail(self, r.ctx);
  free(r.params);
  sn_graph_destroy(r.graph);
  sn_store_destroy(r.store);
  sn_ctx_destroy(r.ctx);
  return code;
}

const cli_command cli_workload = {
    "workload", "run a reference workload: one step as JSON, or a few training steps", options,
    "Models, inputs and parameters are fixed by formulas (docs/workloads.md). The JSON holds "
    "loss,\n"
    "norm and samples of the output, and norm and samples of every gradient. With --steps, each "
    "line\n"
    "is `step K loss X`, the loss before update K, counted from 0.",
    run_workload};
