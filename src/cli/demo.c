/* sinew demo: trains a small GPT on little stories, live. The stories come from a grammar (stories.h), so
 * there is something to judge the result by: sentences parse or they do not, and the bigram entropy of
 * held-out text is the loss of the best model that looks back one word only.
 *
 * Everything that training needs to go on is in the store and in the trainer's schedule, whose end is
 * planned from the speed of the first steps; demo-out/checkpoint.safetensors holds both. */
#include "cli/cli.h"
#include "cli/demo.h"
#include "cli/stories.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  TRAIN_TOKENS = 1000000,
  HELDOUT_TOKENS = 12000,
  CONTEXT = 128,
  BATCH = 6,
  CALIBRATION = 6, /* steps before the total is planned */
  FEWEST = 120,
  MOST = 4000,
  EVALUATIONS = 10,
  QUICK_BATCHES = 3, /* of the held-out text, while training */
  STORIES = 12       /* sampled at the end */
};

static const double TEMPERATURE = 0.5, OVERHEAD = 0.1; /* share of the time that is not training */

typedef struct demo_args {
  double seconds;
  const char *out;
  bool resume;
} demo_args;

static const cli_option options[] = {
    {"--seconds", "N", CLI_REAL, offsetof(demo_args, seconds), false,
     "how long to train, about; default 65"},
    {"--out", "DIR", CLI_TEXT, offsetof(demo_args, out), false, "where to; default demo-out"},
    {"--resume", NULL, CLI_FLAG, offsetof(demo_args, resume), false,
     "go on from DIR/checkpoint.safetensors"},
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

typedef struct demo {
  const cli_command *self;
  const demo_args *args;
  sn_ctx *ctx;
  sn_model *model;
  sn_store *store;
  sn_graph *train_graph, *eval_graph;
  sn_trainer *trainer;
  sn_session *eval;
  int32_t *train, *heldout;
  sn_token_data batches, heldout_batches;
  demo_record record;
  demo_view view;
  double entropy, first_loss, last_heldout;
  double in_steps; /* seconds spent in training steps, without measuring and stories */
  int64_t total;   /* steps planned */
} demo;

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

/* --- making ready --- */

static sn_status make_data(demo *d) {
  uint64_t seed = 1, other = 2;
  int32_t vocab = stories_vocab_size();
  size_t cells = (size_t)vocab * (size_t)vocab;
  uint32_t *counts = malloc(cells * sizeof *counts);
  d->train = malloc(TRAIN_TOKENS * sizeof *d->train);
  d->heldout = malloc(HELDOUT_TOKENS * sizeof *d->heldout);
  if (counts && d->train && d->heldout) {
    stories_fill(&seed, d->train, TRAIN_TOKENS);
    stories_fill(&other, d->heldout, HELDOUT_TOKENS);
    d->entropy = stories_bigram_entropy(d->heldout, HELDOUT_TOKENS, vocab, counts);
  }
  free(counts);
  if (!d->train || !d->heldout || !counts)
    return sn_ctx_fail(d->ctx, SN_ERR_NO_MEMORY, "out of memory for the stories");
  d->batches = (sn_token_data){d->train, TRAIN_TOKENS, CONTEXT, BATCH, 7};
  d->heldout_batches = (sn_token_data){d->heldout, HELDOUT_TOKENS, CONTEXT, BATCH, 0};
  return SN_OK;
}

static sn_value build_loss(const demo *d, sn_graph *g) {
  sn_shape shape = SN_SHAPE(BATCH, CONTEXT);
  sn_value ids = sn_input(g, "ids", SN_I32, shape), labels = sn_input(g, "labels", SN_I32, shape);
  sn_model_inputs in = {.ids = ids, .positions = sn_arange(g, SN_I32, CONTEXT, 0, 1)};
  sn_value logits = sn_model_logits(d->model, g, &in);
  return sn_cross_entropy(g, logits, labels, -100, 0, SN_REDUCTION_MEAN);
}

static sn_schedule schedule(int64_t total) {
  return (sn_schedule){SN_SCHEDULE_COSINE, 3e-3, 1e-4, 2 * CALIBRATION, total};
}

static sn_status make_trainer(demo *d) {
  SN_TRY(sn_graph_create(d->ctx, &d->train_graph));
  sn_value loss = build_loss(d, d->train_graph);
  SN_TRY(sn_graph_status(d->train_graph));
  int n = (int)sn_model_weight_count(d->model);
  sn_value *states = calloc((size_t)n, sizeof *states);
  sn_param *params = calloc((size_t)n, sizeof *params);
  sn_status status = SN_ERR_NO_MEMORY;
  if (states && params) {
    sn_graph_states(d->train_graph, states, n);
    for (int i = 0; i < n; i++)
      params[i] = (sn_param){.state = states[i],
                             .no_decay = sn_value_type(d->train_graph, states[i]).shape.rank < 2};
    sn_trainer_options o = {.optimizer = {.kind = SN_ADAMW, .beta2 = 0.98, .weight_decay = 0.05},
                            .schedule = schedule(0),
                            .clip_norm = 1};
    status = sn_trainer_create(d->train_graph, loss, params, n, d->store, &o, &d->trainer);
  }
  free(states);
  free(params);
  return status;
}

static sn_status make_eval(demo *d) {
  SN_TRY(sn_graph_create(d->ctx, &d->eval_graph));
  sn_output(d->eval_graph, "loss", build_loss(d, d->eval_graph));
  return sn_session_create(d->eval_graph, d->store, NULL, &d->eval);
}

static sn_status make_model(demo *d) {
  sn_model_config c = {.family = SN_MODEL_GPT2,
                       .vocab = stories_vocab_size(),
                       .hidden = 128,
                       .layers = 4,
                       .heads = 4,
                       .max_length = CONTEXT,
                       .activation = SN_ACT_RELU,
                       .tied = true,
                       .init_scale = 0.05,
                       .bos = STORIES_END,
                       .eos = STORIES_END};
  SN_TRY(sn_model_create(d->ctx, &c, &d->model));
  SN_TRY(sn_store_create(d->ctx, &d->store));
  SN_TRY(sn_model_init(d->model, d->store, 1));
  SN_TRY(make_trainer(d));
  return make_eval(d);
}

/* Whether the results can be kept is known before the training, not after it. */
static sn_status make_folder(demo *d) {
  const char *out = d->args->out;
  char probe[4096];
  struct stat found;
  if (mkdir(out, 0777) != 0 && errno != EEXIST)
    return sn_ctx_fail(d->ctx, SN_ERR_IO, "cannot make the folder \"%s\": %s", out,
                       strerror(errno));
  if (stat(out, &found) != 0 || !S_ISDIR(found.st_mode))
    return sn_ctx_fail(d->ctx, SN_ERR_IO, "--out: \"%s\" is there and is not a folder", out);
  if (!demo_path(d->ctx, out, ".probe-XXXXXX", probe, sizeof probe))
    return SN_ERR_INVALID;
  int file = mkstemp(probe);
  if (file < 0)
    return sn_ctx_fail(d->ctx, SN_ERR_IO, "--out: cannot write into \"%s\": %s", out,
                       strerror(errno));
  close(file);
  unlink(probe);
  return SN_OK;
}

/* --- keeping and resuming --- */

static sn_status save(demo *d) {
  char path[4096];
  if (!demo_path(d->ctx, d->args->out, "checkpoint.safetensors", path, sizeof path))
    return SN_ERR_INVALID;
  SN_TRY(sn_trainer_save(d->trainer, path, NULL, 0));
  if (!demo_path(d->ctx, d->args->out, "model.safetensors", path, sizeof path))
    return SN_ERR_INVALID;
  SN_TRY(sn_store_save_weights(d->store, sn_model_weight_names(d->model),
                               sn_model_weight_count(d->model), path));
  SN_TRY(demo_write_config(d->ctx, sn_model_get_config(d->model), d->args->out));
  return demo_record_write(d->ctx, &d->record, d->args->out, d->entropy);
}

static sn_status resume(demo *d) {
  char path[4096];
  if (!demo_path(d->ctx, d->args->out, "checkpoint.safetensors", path, sizeof path))
    return SN_ERR_INVALID;
  SN_TRY(sn_trainer_load(d->trainer, path));
  d->total = sn_trainer_schedule(d->trainer)->total;
  SN_TRY(demo_record_read(d->ctx, d->args->out, sn_trainer_steps(d->trainer), &d->record));
  if (d->record.n)
    d->first_loss = d->record.points[0].loss;
  int64_t step = sn_trainer_steps(d->trainer);
  printf("resumed at step %lld of %lld%s\n", (long long)step, (long long)d->total,
         d->total && step >= d->total ? ": the training was at its end" : "");
  return SN_OK;
}

/* --- measuring --- */

static sn_status write_batch(sn_session *s, const sn_token_data *data, int64_t index) {
  int32_t ids[BATCH * CONTEXT], labels[BATCH * CONTEXT];
  sn_token_batch(data, index, ids, labels);
  SN_TRY(sn_session_write(s, "ids", ids, sizeof ids));
  return sn_session_write(s, "labels", labels, sizeof labels);
}

/* Mean loss over the first n batches of the held-out text. */
static sn_status measure(demo *d, int64_t n, double *out) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    float loss;
    SN_TRY(write_batch(d->eval, &d->heldout_batches, i));
    SN_TRY(sn_session_run(d->eval));
    SN_TRY(sn_session_read(d->eval, "loss", &loss, sizeof loss));
    sum += (double)loss;
  }
  *out = sum / (double)n;
  return SN_OK;
}

/* One story, from <|end|> to <|end|>; printed when out is not NULL. */
static sn_status tell(demo *d, uint64_t seed, FILE *out, int32_t *tokens, size_t *n) {
  sn_generator *g;
  int64_t room = sn_model_get_config(d->model)->max_length;
  sn_generate_options o = {.temperature = TEMPERATURE, .seed = seed};
  SN_TRY(sn_generator_create(d->model, d->store, &o, &g));
  sn_status status = SN_OK;
  demo_printer printer = {0};
  tokens[0] = STORIES_END;
  *n = 1;
  do {
    int32_t id = STORIES_END;
    status = sn_generator_next(g, tokens, *n == 1 ? 1 : 0, &id);
    if (status == SN_OK)
      tokens[(*n)++] = id;
    if (status == SN_OK && out && id != STORIES_END)
      demo_print_tokens(&printer, out, tokens, *n);
  } while (status == SN_OK && tokens[*n - 1] != STORIES_END && (int64_t)*n < room && !interrupted);
  if (out)
    fputc('\n', out);
  sn_generator_destroy(g);
  return status;
}

static sn_status show_story(demo *d, const char *when) {
  int32_t tokens[CONTEXT + 1];
  size_t n;
  demo_view_break(&d->view);
  printf("\na story %s:\n  ", when);
  SN_TRY(tell(d, 11, stdout, tokens, &n));
  fputc('\n', stdout);
  fflush(stdout);
  return SN_OK;
}

/* --- training --- */

/* How many steps fit, from the time that the first n took. */
static void plan(demo *d, int64_t n, double seconds) {
  double each = seconds / (double)n, room = d->args->seconds * (1 - OVERHEAD);
  int64_t fit = (int64_t)(room / fmax(each, 1e-4));
  d->total = fit < FEWEST ? FEWEST : fit > MOST ? MOST : fit;
  sn_schedule planned = schedule(d->total);
  sn_trainer_set_schedule(d->trainer, &planned);
}

/* Measures now and then, and keeps the record. */
static sn_status after_step(demo *d, int64_t step, double loss) {
  double heldout = NAN;
  if (d->total && (step % (d->total / EVALUATIONS + 1) == 0 || step == d->total)) {
    SN_TRY(measure(d, QUICK_BATCHES, &heldout));
    d->last_heldout = heldout;
  }
  if (!demo_record_add(&d->record, (demo_point){step, loss, heldout}))
    return sn_ctx_fail(d->ctx, SN_ERR_NO_MEMORY, "out of memory for the record");
  return SN_OK;
}

static void show_progress(demo *d, int64_t step, int64_t first, double loss) {
  double spent = demo_clock() - d->view.started, done = (double)(step - first);
  demo_progress p = {.step = step,
                     .total = d->total,
                     .loss = loss,
                     .heldout = d->last_heldout,
                     .tokens_per_second = done * BATCH * CONTEXT / d->in_steps,
                     .seconds_left = spent / done * (double)(d->total - step)};
  demo_view_show(&d->view, &p, step == d->total);
}

static sn_status train(demo *d) {
  int64_t first = sn_trainer_steps(d->trainer), step = first;
  demo_view_start(&d->view);
  while (!interrupted && (d->total == 0 || step < d->total)) {
    float loss;
    double begin = demo_clock();
    SN_TRY(
        write_batch(sn_trainer_session(d->trainer), &d->batches, sn_trainer_batches(d->trainer)));
    SN_TRY(sn_trainer_step(d->trainer, &loss));
    d->in_steps += demo_clock() - begin;
    if (step++ == 0)
      d->first_loss = (double)loss;
    if (d->total == 0 && step >= CALIBRATION)
      plan(d, step - first, demo_clock() - d->view.started);
    SN_TRY(after_step(d, step, (double)loss));
    if (d->total)
      show_progress(d, step, first, (double)loss);
    if (step == d->total / 2)
      SN_TRY(show_story(d, "half way"));
  }
  return SN_OK;
}

/* --- the end --- */

static sn_status judge(demo *d) {
  int32_t tokens[CONTEXT + 1];
  stories_tally all = {0, 0};
  double heldout, chance = log((double)stories_vocab_size());
  SN_TRY(measure(d, sn_token_epoch(&d->heldout_batches), &heldout));
  for (uint64_t i = 0; i < STORIES; i++) {
    size_t n;
    SN_TRY(tell(d, 100 + i, NULL, tokens, &n));
    stories_tally one = stories_count_parsed(tokens, n);
    all.parsed += one.parsed;
    all.total += one.total;
  }
  printf("first loss          %.3f (a guess among %d words: %.3f)\n", d->first_loss,
         stories_vocab_size(), chance);
  printf("held-out loss       %.3f (bigram entropy of that text: %.3f)\n", heldout, d->entropy);
  printf("sampled sentences   %zu of %zu parse under the grammar (%.0f %%)\n", all.parsed,
         all.total, all.total ? 100.0 * (double)all.parsed / (double)all.total : 0);
  return SN_OK;
}

static sn_status finish(demo *d) {
  const char *out = d->args->out;
  SN_TRY(save(d));
  if (interrupted) {
    printf("\nstopped at step %lld of %lld; everything is in %s/. To go on:\n"
           "  %s demo --out %s --resume\n",
           (long long)sn_trainer_steps(d->trainer), (long long)d->total, out, cli_program, out);
    return SN_OK;
  }
  SN_TRY(show_story(d, "after"));
  SN_TRY(judge(d));
  printf(
      "\n%s/ holds model.safetensors, config.json, checkpoint.safetensors, loss.csv and loss.svg."
      "\nTo continue a story:\n"
      "  %s generate %s --prompt \"Once upon a time there was a\" -n 60 --temp 0.5\n",
      out, cli_program, out);
  return SN_OK;
}

/* Training failed, say by a loss that is not finite: what was learnt up to then is kept. */
static sn_status keep(demo *d, sn_status status) {
  char why[512];
  snprintf(why, sizeof why, "%s", sn_ctx_message(d->ctx));
  if (sn_trainer_steps(d->trainer) > 0 && save(d) == SN_OK)
    fprintf(stderr, "the state before step %lld is in %s/\n",
            (long long)sn_trainer_steps(d->trainer) + 1, d->args->out);
  return sn_ctx_fail(d->ctx, status, "%s", why);
}

static sn_status run_demo(demo *d) {
  SN_TRY(make_folder(d));
  SN_TRY(make_data(d));
  SN_TRY(make_model(d));
  if (d->args->resume)
    SN_TRY(resume(d));
  int64_t weights = 0;
  for (size_t i = 0; i < sn_model_weight_count(d->model); i++) {
    sn_entry e;
    SN_TRY(sn_store_find(d->store, sn_model_weight_names(d->model)[i], &e));
    weights += (int64_t)(e.size / sizeof(float));
  }
  printf(
      "a GPT of %lld weights learns stories of %d words from %d tokens; each step sees %d tokens\n",
      (long long)weights, stories_vocab_size(), TRAIN_TOKENS, BATCH * CONTEXT);
  if (!d->args->resume)
    SN_TRY(show_story(d, "before"));
  sn_status status = train(d);
  return status == SN_OK ? finish(d) : keep(d, status);
}

static int run(const cli_command *self, int argc, char **argv) {
  demo_args args = {.seconds = 65, .out = "demo-out"};
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  if (!(args.seconds > 0 && args.seconds <= 86400)) {
    (void)cli_error(self, "--seconds must be above 0 and at most 86400");
    return CLI_USAGE;
  }
  demo d = {.self = self, .args = &args, .last_heldout = NAN};
  if (sn_ctx_create(NULL, &d.ctx) != SN_OK)
    return cli_error(self, "out of memory");
  struct sigaction action = {.sa_handler = on_interrupt};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  int code = run_demo(&d) == SN_OK ? CLI_OK : cli_fail(self, d.ctx);
  sn_session_destroy(d.eval);
  sn_trainer_destroy(d.trainer);
  sn_graph_destroy(d.eval_graph);
  sn_graph_destroy(d.train_graph);
  sn_store_destroy(d.store);
  sn_model_destroy(d.model);
  demo_record_free(&d.record);
  free(d.train);
  free(d.heldout);
  sn_ctx_destroy(d.ctx);
  return code == CLI_OK && interrupted ? 130 : code;
}

const cli_command cli_demo = {
    "demo", "train a small GPT on little stories, live", options,
    "Writes model.safetensors and config.json (for `sinew generate`), checkpoint.safetensors,\n"
    "loss.csv and loss.svg. Ctrl-C saves and says how to resume.",
    run};
