/* See golden.h. */
#include "support/golden.h"

#include "cli/cli.h"
#include "support/chosen.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double LOSS_TOLERANCE = 1e-5;     /* relative */
static const double ARENA_TOLERANCE = 1e-6;    /* relative */
static const double OUTPUT_TOLERANCE = 1e-4;   /* of the output's rms */
static const double GRADIENT_TOLERANCE = 1e-4; /* of the gradient's norm */

/* `fast`: 1e-4 of the loss, 1e-3 of a gradient's norm. */
static double allowed(double tolerance) {
  return chosen_precision() == SN_PRECISION_FAST ? 10 * tolerance : tolerance;
}

double golden_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Our own file, where there is one. */
static bool open_more(golden *s) {
  char path[128];
  snprintf(path, sizeof path, "tests/fixtures/workloads/%s.json", sn_workload_name(s->workload));
  FILE *file = fopen(test_source(path), "r");
  if (!file)
    return true;
  fclose(file);
  return CHECK(sn_json_parse_file(s->ctx, test_source(path), &s->more) == SN_OK);
}

const sn_json *golden_find(const golden *s, const char *key) {
  const sn_json *found = sn_json_get(sn_json_get(sn_json_root(s->doc), s->init), key);
  if (found || !s->more)
    return found;
  return sn_json_get(sn_json_get(sn_json_root(s->more), s->init), key);
}

bool golden_start(golden *s, const sn_workload *w, sn_workload_init init) {
  char path[128];
  *s = (golden){.workload = w, .started = golden_seconds()};
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
  s->n = sn_workload_trainable(w, s->graph, s->params, GOLDEN_PARAMS);
  return CHECK(s->n < GOLDEN_PARAMS);
}

void golden_end(golden *s) {
  sn_session_destroy(s->session);
  sn_graph_destroy(s->graph);
  sn_store_destroy(s->store);
  sn_json_destroy(s->more);
  sn_json_destroy(s->doc);
  sn_ctx_destroy(s->ctx);
}

double golden_number(const sn_json *value) {
  double x = NAN;
  CHECK(sn_json_number(value, &x));
  return x;
}

void golden_check(const char *what, double error, double tolerance) {
  if (!(error <= allowed(tolerance)))
    FAIL("%s: error %.3g, at most %.3g", what, error, allowed(tolerance));
}

static void keep_worst(double *worst, double error) {
  if (!(error <= *worst))
    *worst = error;
}

/* --- one step --- */

/* Reads an output of f32; to be freed. */
static float *read_output(golden *s, const char *name, int64_t *out_n) {
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
    keep_worst(&worst, fabs((double)x[i] - golden_number(sn_json_at(list, i))));
  return worst;
}

static double worst_of_last(const float *x, int64_t n, const sn_json *list) {
  return worst_of(x + n - (int64_t)sn_json_size(list), list);
}

static void compare_loss(golden *s, double tolerance) {
  float loss = NAN;
  double expected = golden_number(golden_find(s, "loss_f64"));
  CHECK(sn_session_read(s->session, "loss", &loss, sizeof loss) == SN_OK);
  double error = fabs((double)loss / expected - 1);
  golden_check("loss", error, tolerance);
  printf("  loss %.9g, error %.2g", (double)loss, error);
}

static void compare_output(golden *s, double tolerance) {
  int64_t n;
  float *y = read_output(s, "output", &n);
  if (!y)
    return;
  double l2 = golden_number(golden_find(s, "output_l2_f64")), rms = l2 / sqrt((double)n);
  double first = worst_of(y, golden_find(s, "output_first32_f64")) / rms;
  double last = worst_of_last(y, n, golden_find(s, "output_last8_f64")) / rms;
  double error = fabs(norm_of(y, n) / l2 - 1);
  golden_check("norm of the output", error, tolerance);
  golden_check("first of the output", first, tolerance);
  golden_check("last of the output", last, tolerance);
  printf("; output: norm %.2g, samples %.2g", error, fmax(first, last));
  free(y);
}

static void gradient_name(const golden *s, int i, char *out, size_t size) {
  snprintf(out, size, "gradient of %s", sn_value_name(s->graph, s->params[i]));
}

static void compare_gradients(golden *s) {
  const sn_json *grads = golden_find(s, "grads_f64");
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
    double l2 = golden_number(sn_json_get(expected, "l2")), error = fabs(norm_of(x, n) / l2 - 1);
    double first = worst_of(x, sn_json_get(expected, "first4")) / l2;
    double last = worst_of_last(x, n, sn_json_get(expected, "last4")) / l2;
    golden_check(name, fmax(error, fmax(first, last)), GRADIENT_TOLERANCE);
    keep_worst(&worst_norm, error);
    keep_worst(&worst_sample, fmax(first, last));
    free(x);
  }
  printf("; %d gradients: norms %.2g, samples %.2g", s->n, worst_norm, worst_sample);
}

bool golden_went(const golden *s, sn_status status) {
  return status == SN_OK || FAIL("%s", sn_ctx_message(s->ctx));
}

static bool run_once(golden *s) {
  sn_session_options o = {.device = chosen_device(), .precision = chosen_precision()};
  double before = golden_seconds();
  if (!golden_went(s, sn_graph_status(s->graph)) ||
      !golden_went(s, sn_session_create(s->graph, s->store, &o, &s->session)) ||
      !golden_went(s, sn_workload_write(s->workload, s->graph, SN_WORKLOAD_FULL, s->session)))
    return false;
  s->made_s = golden_seconds() - before;
  bool ok = golden_went(s, sn_session_run(s->session));
  s->run_s = golden_seconds() - before - s->made_s;
  return ok;
}

static bool add_gradients(golden *s) {
  sn_value grads[GOLDEN_PARAMS];
  s->params[s->n] = s->values.loss;
  if (!golden_went(s, cli_recognise(&s->graph, s->params, s->n + 1)) ||
      !golden_went(s, sn_grad(s->graph, s->params[s->n], s->params, s->n, grads)))
    return false;
  for (int i = 0; i < s->n; i++) {
    char name[256];
    gradient_name(s, i, name, sizeof name);
    sn_output(s->graph, name, grads[i]);
  }
  return true;
}

void golden_step(const sn_workload *w, sn_workload_init init, bool gradients) {
  bool live = init == SN_WORKLOAD_LIVE;
  golden s;
  if (golden_start(&s, w, init)) {
    sn_output(s.graph, "loss", s.values.loss);
    sn_output(s.graph, "output", s.values.output);
    if ((!gradients || add_gradients(&s)) && run_once(&s)) {
      printf("%s, %s, %s:", sn_workload_name(w), live ? "live" : "arena", chosen_device());
      compare_loss(&s, live ? LOSS_TOLERANCE : ARENA_TOLERANCE);
      compare_output(&s, live ? OUTPUT_TOLERANCE : ARENA_TOLERANCE);
      if (gradients)
        compare_gradients(&s);
      printf("; made in %.2f s, ran %.2f s, %.1f s in all\n", s.made_s, s.run_s,
             golden_seconds() - s.started);
    }
  }
  golden_end(&s);
}
