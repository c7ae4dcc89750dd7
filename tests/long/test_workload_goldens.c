/* The reference workloads against goldens that PyTorch computed in f64: loss, output and every gradient with
 * the `live` parameters, losses of training steps, and the loss with the `arena` parameters. Where the shared
 * file has less, tests/fixtures/workloads/ has the rest. Prints the errors; the tolerances stand below.
 *
 * Runs on "cpu" at full precision, or on the device that the environment's SINEW_TEST_DEVICE names ("ref": the reference, in hours). */
#include "device/cpu/isa.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double LOSS_TOLERANCE = 1e-5;     /* relative */
static const double ARENA_TOLERANCE = 1e-6;    /* relative */
static const double OUTPUT_TOLERANCE = 1e-4;   /* of the output's rms */
static const double GRADIENT_TOLERANCE = 1e-4; /* of the gradient's norm */
static const double SEQUENCE_TOLERANCE = 1e-2; /* of the change since step 0 */

enum { MOST_PARAMS = 300 };

typedef struct stage {
  const sn_workload *workload;
  sn_ctx *ctx;
  sn_json_doc *doc, *more; /* the shared file; ours, or NULL */
  const char *init;        /* the part of them that holds */
  sn_graph *graph;
  sn_store *store;
  sn_workload_values values;
  sn_value params[MOST_PARAMS]; /* those that are trained */
  int n;
  sn_session *session;
  double started, made_s, run_s;
} stage;

static const char *device(void) {
  const char *name = getenv("SINEW_TEST_DEVICE");
  return name ? name : "cpu";
}

/* The environment's SINEW_TEST_PRECISION: what a device may lose by it is allowed for. */
static sn_precision precision(void) {
  const char *name = getenv("SINEW_TEST_PRECISION");
  return name && strcmp(name, "fast") == 0 ? SN_PRECISION_FAST : SN_PRECISION_EXACT;
}

/* `fast`: 1e-4 of the loss, 1e-3 of a gradient's norm. */
static double allowed(double tolerance) {
  return precision() == SN_PRECISION_FAST ? 10 * tolerance : tolerance;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Our own file, where there is one. */
static bool open_more(stage *s) {
  char path[128];
  snprintf(path, sizeof path, "tests/fixtures/workloads/%s.json", sn_workload_name(s->workload));
  FILE *file = fopen(test_source(path), "r");
  if (!file)
    return true;
  fclose(file);
  return CHECK(sn_json_parse_file(s->ctx, test_source(path), &s->more) == SN_OK);
}

/* What a file has under this key; NULL when neither has. */
static const sn_json *golden(const stage *s, const char *key) {
  const sn_json *found = sn_json_get(sn_json_get(sn_json_root(s->doc), s->init), key);
  if (found || !s->more)
    return found;
  return sn_json_get(sn_json_get(sn_json_root(s->more), s->init), key);
}

/* Every failure on the way is one of the test; skips without the shared file. */
static bool stage_start(stage *s, const sn_workload *w, sn_workload_init init) {
  char path[128];
  *s = (stage){.workload = w, .started = seconds()};
  s->init = init == SN_WORKLOAD_LIVE ? "live" : "arena";
  snprintf(path, sizeof path, "workloads/%s.json", sn_workload_name(w));
  if (!test_shared(path)) {
    test_skip("no shared data: workloads");
    return false;
  }
  bool ok = CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK) &&
            CHECK(sn_json_parse_file(s->ctx, test_shared(path), &s->doc) == SN_OK) &&
            open_more(s) && CHECK(sn_graph_create(s->ctx, &s->graph) == SN_OK) &&
            CHECK(sn_store_create(s->ctx, &s->store) == SN_OK) &&
            CHECK(sn_workload_build(w, s->graph, SN_WORKLOAD_FULL, &s->values) == SN_OK) &&
            CHECK(sn_workload_fill(w, s->graph, init, s->store) == SN_OK);
  if (!ok)
    return false;
  s->n = sn_workload_trainable(w, s->graph, s->params, MOST_PARAMS);
  return CHECK(s->n <= MOST_PARAMS);
}

static void stage_end(stage *s) {
  sn_session_destroy(s->session);
  sn_graph_destroy(s->graph);
  sn_store_destroy(s->store);
  sn_json_destroy(s->more);
  sn_json_destroy(s->doc);
  sn_ctx_destroy(s->ctx);
}

static double number(const sn_json *value) {
  double x = NAN;
  CHECK(sn_json_number(value, &x));
  return x;
}

/* A check of error <= tolerance, in words; NaN fails. */
static void check_error(const char *what, double error, double tolerance) {
  if (!(error <= allowed(tolerance)))
    FAIL("%s: error %.3g, at most %.3g", what, error, allowed(tolerance));
}

static void keep_worst(double *worst, double error) {
  if (!(error <= *worst))
    *worst = error;
}

/* --- one step --- */

/* Reads an output of f32; to be freed. */
static float *read_output(stage *s, const char *name, int64_t *out_n) {
  int at = sn_session_find_output(s->session, name);
  sn_type type;
  *out_n = 1;
  if (!CHECK(sn_session_output_type(s->session, at, &type) == SN_OK))
    return NULL;
  for (int d = 0; d < type.shape.rank; d++)
    *out_n *= type.shape.dim[d];
  float *x = malloc((size_t)*out_n * sizeof *x);
  if (CHECK(x) && CHECK(sn_session_read_at(s->session, at, x, (size_t)*out_n * sizeof *x) == SN_OK))
    return x;
  free(x);
  return NULL;
}

static double norm_of(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* The largest difference to a list of numbers; 0 where the golden has no such list. */
static double worst_of(const float *x, const sn_json *list) {
  double worst = 0;
  for (size_t i = 0; i < sn_json_size(list); i++)
    keep_worst(&worst, fabs((double)x[i] - number(sn_json_at(list, i))));
  return worst;
}

static double worst_of_last(const float *x, int64_t n, const sn_json *list) {
  return worst_of(x + n - (int64_t)sn_json_size(list), list);
}

static void compare_loss(stage *s, double tolerance) {
  float loss = NAN;
  double expected = number(golden(s, "loss_f64"));
  CHECK(sn_session_read(s->session, "loss", &loss, sizeof loss) == SN_OK);
  double error = fabs((double)loss / expected - 1);
  check_error("loss", error, tolerance);
  printf("  loss %.9g, error %.2g", (double)loss, error);
}

static void compare_output(stage *s, double tolerance) {
  int64_t n;
  float *y = read_output(s, "output", &n);
  if (!y)
    return;
  double l2 = number(golden(s, "output_l2_f64")), rms = l2 / sqrt((double)n);
  double first = worst_of(y, golden(s, "output_first32_f64")) / rms;
  double last = worst_of_last(y, n, golden(s, "output_last8_f64")) / rms;
  double error = fabs(norm_of(y, n) / l2 - 1);
  check_error("norm of the output", error, tolerance);
  check_error("first of the output", first, tolerance);
  check_error("last of the output", last, tolerance);
  printf("; output: norm %.2g, samples %.2g", error, fmax(first, last));
  free(y);
}

static void gradient_name(const stage *s, int i, char *out, size_t size) {
  snprintf(out, size, "gradient of %s", sn_value_name(s->graph, s->params[i]));
}

static void compare_gradients(stage *s) {
  const sn_json *grads = golden(s, "grads_f64");
  double worst_norm = 0, worst_sample = 0;
  CHECK(grads);
  for (int i = 0; grads && i < s->n; i++) {
    const sn_json *expected = sn_json_get(grads, sn_value_name(s->graph, s->params[i]));
    char name[256];
    int64_t n;
    gradient_name(s, i, name, sizeof name);
    float *x = CHECK(expected) ? read_output(s, name, &n) : NULL;
    if (!x)
      continue;
    double l2 = number(sn_json_get(expected, "l2")), error = fabs(norm_of(x, n) / l2 - 1);
    double first = worst_of(x, sn_json_get(expected, "first4")) / l2;
    double last = worst_of_last(x, n, sn_json_get(expected, "last4")) / l2;
    check_error(name, fmax(error, fmax(first, last)), GRADIENT_TOLERANCE);
    keep_worst(&worst_norm, error);
    keep_worst(&worst_sample, fmax(first, last));
    free(x);
  }
  printf("; %d gradients: norms %.2g, samples %.2g", s->n, worst_norm, worst_sample);
}

/* A failed call is a failed check, with the message. */
static bool went(const stage *s, sn_status status) {
  return status == SN_OK || FAIL("%s", sn_ctx_message(s->ctx));
}

static bool run_once(stage *s) {
  sn_session_options o = {.device = device(), .precision = precision()};
  double before = seconds();
  if (!went(s, sn_graph_status(s->graph)) ||
      !went(s, sn_session_create(s->graph, s->store, &o, &s->session)) ||
      !went(s, sn_workload_write(s->workload, s->graph, SN_WORKLOAD_FULL, s->session)))
    return false;
  s->made_s = seconds() - before;
  bool ok = went(s, sn_session_run(s->session));
  s->run_s = seconds() - before - s->made_s;
  return ok;
}

static bool add_gradients(stage *s) {
  sn_value grads[MOST_PARAMS];
  if (!CHECK(sn_grad(s->graph, s->values.loss, s->params, s->n, grads) == SN_OK))
    return false;
  for (int i = 0; i < s->n; i++) {
    char name[256];
    gradient_name(s, i, name, sizeof name);
    sn_output(s->graph, name, grads[i]);
  }
  return true;
}

static void step(const sn_workload *w, sn_workload_init init) {
  bool live = init == SN_WORKLOAD_LIVE;
  stage s;
  if (stage_start(&s, w, init)) {
    sn_output(s.graph, "loss", s.values.loss);
    sn_output(s.graph, "output", s.values.output);
    if ((!live || add_gradients(&s)) && run_once(&s)) {
      printf("%s, %s, %s:", sn_workload_name(w), live ? "live" : "arena", device());
      compare_loss(&s, live ? LOSS_TOLERANCE : ARENA_TOLERANCE);
      compare_output(&s, live ? OUTPUT_TOLERANCE : ARENA_TOLERANCE);
      if (live)
        compare_gradients(&s);
      printf("; made in %.2f s, ran %.2f s, %.1f s in all\n", s.made_s, s.run_s,
             seconds() - s.started);
    }
  }
  stage_end(&s);
}

static void live_steps(const char *set) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s%s%s", set ? set : "", set ? " " : "", sn_workload_name(sn_workload_at(i)))) {
      step(sn_workload_at(i), SN_WORKLOAD_LIVE);
      test_end();
    }
}

/* On the cpu: with each of its instruction sets, unless the environment's SINEW_CPU names one. */
TEST_WALK(live_step) {
  if (strcmp(device(), "cpu") != 0 || getenv("SINEW_CPU")) {
    live_steps(NULL);
    return;
  }
  for (int k = 0; cpu_isa_at(k); k++) {
    setenv("SINEW_CPU", cpu_isa_at(k)->name, 1);
    live_steps(cpu_isa_at(k)->name);
  }
  unsetenv("SINEW_CPU");
}

TEST_WALK(arena_loss) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      step(sn_workload_at(i), SN_WORKLOAD_ARENA);
      test_end();
    }
}

/* --- training --- */

static void compare_sequence(stage *s, sn_trainer *t, const sn_json *losses) {
  double start = number(sn_json_at(losses, 0)), worst = 0;
  float first = NAN, loss = NAN;
  double before = seconds();
  CHECK(sn_workload_write(s->workload, s->graph, SN_WORKLOAD_FULL, sn_trainer_session(t)) == SN_OK);
  for (size_t k = 0; k < sn_json_size(losses); k++) {
    if (!went(s, sn_trainer_step(t, &loss)))
      return;
    if (k == 0)
      first = loss;
    double expected = number(sn_json_at(losses, k)) - start;
    if (k > 0)
      keep_worst(&worst, fabs((double)loss - (double)first - expected) / fabs(expected));
  }
  check_error("loss at step 0", fabs((double)first / start - 1), LOSS_TOLERANCE);
  check_error("changes of the loss", worst, SEQUENCE_TOLERANCE);
  printf("  loss %.6g to %.6g, worst change off by %.2g %%; %zu steps in %.1f s, %.1f s in all\n",
         (double)first, (double)loss, 100 * worst, sn_json_size(losses), seconds() - before,
         seconds() - s->started);
}

static void train(const sn_workload *w, sn_optimizer_kind kind, const char *rate_key,
                  const char *losses_key) {
  stage s;
  if (stage_start(&s, w, SN_WORKLOAD_LIVE)) {
    const sn_json *losses = golden(&s, losses_key);
    sn_trainer_options o = {.optimizer = {.kind = kind},
                            .schedule = {.kind = SN_SCHEDULE_CONSTANT},
                            .device = device()};
    sn_param params[MOST_PARAMS] = {0};
    sn_trainer *t = NULL;
    for (int i = 0; i < s.n; i++)
      params[i].state = s.params[i];
    if (CHECK(losses)) {
      o.schedule.rate = number(golden(&s, rate_key));
      printf("%s, %s, %s:", sn_workload_name(w), losses_key, device());
      if (went(&s, sn_trainer_create(s.graph, s.values.loss, params, s.n, s.store, &o, &t)))
        compare_sequence(&s, t, losses);
    }
    sn_trainer_destroy(t);
  }
  stage_end(&s);
}

TEST_WALK(sgd_losses) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      train(sn_workload_at(i), SN_SGD, "sgd_lr", "sgd_losses_f64");
      test_end();
    }
}

TEST_WALK(adam_losses) {
  for (int i = 0; sn_workload_at(i); i++)
    if (test_begin("%s", sn_workload_name(sn_workload_at(i)))) {
      train(sn_workload_at(i), SN_ADAM, "adam_lr", "adam_losses_f64");
      test_end();
    }
}
