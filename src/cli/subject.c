/* See subject.h. Graphs are built on the public API; nothing is run and no weights are needed. */
#include "cli/subject.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_CACHE = 2048, TRAINED_TOKENS = 128 };

typedef struct build {
  sn_ctx *ctx;
  sn_graph *g;
  const sn_workload *workload;
  const sn_model *model;
  subject_form form;
  sn_value output, loss;
  sn_value *params, *grads; /* params has room for one more */
  int n;
} build;

static sn_status build_workload(build *b) {
  sn_workload_values v;
  sn_workload_form form = b->form == SUBJECT_LATENCY ? SN_WORKLOAD_LATENCY : SN_WORKLOAD_FULL;
  SN_TRY(sn_workload_build(b->workload, b->g, form, &v));
  b->output = v.output;
  b->loss = v.loss;
  return SN_OK;
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* As text is generated: some tokens behind those in the cache, and the logits of the last. */
static void build_generation(build *b) {
  sn_graph *g = b->g;
  int64_t capacity = at_most(sn_model_get_config(b->model)->max_length, LONGEST_CACHE);
  int64_t piece = b->form == SUBJECT_LATENCY ? 1 : at_most(capacity, SN_GENERATE_PIECE);
  sn_dim tokens = sn_symbol(g, "tokens", piece);
  sn_model_inputs in = {.batch = 1, .capacity = capacity};
  in.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, tokens));
  in.positions = sn_input(g, "positions", SN_I32, SN_SHAPE(tokens));
  in.start = sn_input(g, "start", SN_I32, SN_SCALAR);
  in.kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(1));
  sn_value logits = sn_model_logits(b->model, g, &in);
  b->output = sn_slice(g, logits, 1, sn_dim_sub(g, tokens, 1), tokens, 1);
}

static void build_loss(build *b) {
  sn_graph *g = b->g;
  int64_t length = at_most(sn_model_get_config(b->model)->max_length, TRAINED_TOKENS);
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, length)),
                        .positions = sn_arange(g, SN_I32, length, 0, 1)};
  sn_value labels = sn_input(g, "labels", SN_I32, SN_SHAPE(1, length));
  b->output = sn_model_logits(b->model, g, &in);
  b->loss = sn_cross_entropy(g, b->output, labels, -100, 0, SN_REDUCTION_MEAN);
}

static bool is_trained(const build *b) {
  return b->form == SUBJECT_BACKWARD || b->form == SUBJECT_TRAINING;
}

static void add_updates(const build *b) {
  sn_param *params = calloc((size_t)b->n, sizeof *params);
  sn_value rate = sn_input(b->g, "rate", SN_F32, SN_SCALAR);
  sn_value step = sn_state(b->g, "step", SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_optimizer sgd = {.kind = SN_SGD};
  for (int i = 0; params && i < b->n; i++)
    params[i].state = b->params[i];
  if (params)
    sn_optimizer_build(b->g, &sgd, rate, step, params, b->grads, b->n, SN_NONE);
  free(params);
}

static void add_gradients(const build *b) {
  for (int i = 0; i < b->n; i++) {
    char name[700];
    snprintf(name, sizeof name, "gradient of %s", sn_value_name(b->g, b->params[i]));
    sn_output(b->g, name, b->grads[i]);
  }
}

static sn_status differentiate(build *b) {
  int room = sn_graph_states(b->g, NULL, 0);
  b->params = calloc((size_t)room + 1, sizeof *b->params);
  b->grads = calloc((size_t)room + 1, sizeof *b->grads);
  if (!b->params || !b->grads)
    return sn_ctx_fail(b->ctx, SN_ERR_NO_MEMORY, "out of memory");
  b->n = b->workload ? sn_workload_trainable(b->workload, b->g, b->params, room)
                     : sn_graph_states(b->g, b->params, room);
  b->params[b->n] = b->loss;
  SN_TRY(cli_recognise(&b->g, b->params, b->n + 1));
  b->loss = b->params[b->n];
  SN_TRY(sn_grad(b->g, b->loss, b->params, b->n, b->grads));
  sn_output(b->g, "loss", b->loss);
  if (b->form == SUBJECT_TRAINING)
    add_updates(b);
  else
    add_gradients(b);
  return SN_OK;
}

static sn_status build_all(build *b) {
  if (b->workload)
    SN_TRY(build_workload(b));
  else if (is_trained(b))
    build_loss(b);
  else
    build_generation(b);
  SN_TRY(sn_graph_status(b->g));
  if (b->form != SUBJECT_TRAINING)
    sn_output(b->g, "output", b->output);
  if (is_trained(b))
    SN_TRY(differentiate(b));
  return sn_graph_status(b->g);
}

sn_status subject_build(sn_ctx *ctx, const sn_workload *workload, const sn_model *model,
                        subject_form form, sn_graph **out_graph) {
  build b = {.ctx = ctx, .workload = workload, .model = model, .form = form};
  *out_graph = NULL;
  SN_TRY(sn_graph_create(ctx, &b.g));
  sn_status status = build_all(&b);
  if (status != SN_OK && sn_graph_status(b.g) == status)
    (void)sn_ctx_fail(ctx, status, "%s", sn_graph_message(b.g));
  free(b.params);
  free(b.grads);
  if (status == SN_OK)
    *out_graph = b.g;
  else
    sn_graph_destroy(b.g);
  return status;
}
