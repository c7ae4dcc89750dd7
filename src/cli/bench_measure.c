/* Measuring: for each form of a workload a session, a warm-up run, then the median of some runs. See bench.h. */
#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const struct {
  const char *name;
  subject_form form;
  sn_workload_form inputs;
} forms[BENCH_FORMS] = {{"inference", SUBJECT_INFERENCE, SN_WORKLOAD_FULL},
                        {"latency", SUBJECT_LATENCY, SN_WORKLOAD_LATENCY},
                        {"training", SUBJECT_BACKWARD, SN_WORKLOAD_FULL}};

typedef struct measure {
  sn_ctx *ctx;
  const sn_workload *workload; /* NULL: a graph from a file */
  const bench_options *options;
  bench_result *out;
  sn_store *store;
  sn_graph *graph;
  sn_session *session;
  bench_form *form;
  int room;     /* for spans */
  bool lost;    /* no memory for a span */
  double shown; /* when progress was last told */
} measure;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sn_status no_memory(const measure *m) {
  return sn_ctx_fail(m->ctx, SN_ERR_NO_MEMORY, "out of memory");
}

/* --- spans --- */

static void take_span(void *user, const sn_span *span) {
  measure *m = user;
  bench_form *f = m->form;
  if (f->n_spans == m->room) {
    int room = m->room ? 2 * m->room : 256;
    sn_span *wider = realloc(f->spans, (size_t)room * sizeof *wider);
    m->lost = m->lost || !wider;
    if (!wider)
      return;
    f->spans = wider;
    m->room = room;
  }
  f->spans[f->n_spans++] = *span;
}

static sn_status copy_steps(measure *m) {
  bench_form *f = m->form;
  sn_step s;
  int n = (int)(f->stats.prepare_steps + f->stats.steps);
  f->steps = calloc((size_t)n + 1, sizeof *f->steps);
  if (!f->steps)
    return no_memory(m);
  for (; f->n_steps < n; f->n_steps++) {
    bench_step *copy = &f->steps[f->n_steps];
    SN_TRY(sn_session_step(m->session, f->n_steps, &s));
    copy->name = malloc(strlen(s.name) + 1);
    if (!copy->name)
      return no_memory(m);
    strcpy(copy->name, s.name);
    snprintf(copy->archetype, sizeof copy->archetype, "%s", s.archetype);
    snprintf(copy->phase, sizeof copy->phase, "%s", s.phase);
    copy->flops = s.flops;
    copy->bytes = s.bytes;
  }
  return SN_OK;
}

/* A step may have a span on each thread: it lasts from the first begin to the last end. Steps that do not wait for each other
 * overlap there; what two of them share counts for the first, so that all of them and the waiting between are the run. */
static sn_status add_spans(measure *m) {
  bench_form *f = m->form;
  double *begin = calloc((size_t)f->n_steps + 1, sizeof *begin);
  double *end = calloc((size_t)f->n_steps + 1, sizeof *end);
  for (int i = 0; begin && end && i < f->n_spans; i++) {
    const sn_span *s = &f->spans[i];
    if (s->step < 0 || s->step >= f->n_steps)
      continue;
    if (end[s->step] <= 0 || s->begin_s < begin[s->step])
      begin[s->step] = s->begin_s;
    end[s->step] = s->end_s > end[s->step] ? s->end_s : end[s->step];
  }
  double covered = 0;
  for (int i = 0; begin && end && i < f->n_steps; i++) {
    double from = begin[i] > covered ? begin[i] : covered;
    f->steps[i].seconds += end[i] > from ? (end[i] - from) / m->options->repeat : 0;
    covered = end[i] > covered ? end[i] : covered;
  }
  bool done = begin && end && !m->lost;
  free(begin);
  free(end);
  return done ? SN_OK : no_memory(m);
}

/* --- runs --- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A line a run, or a second where runs are many. */
static void show_run(measure *m, int i, double ms) {
  enum { FEW = 20 };
  int n = m->options->repeat;
  if (n > FEW && i + 1 < n && now() - m->shown < 1)
    return;
  m->shown = now();
  fprintf(stderr, "  run %d of %d: %.2f ms\n", i + 1, n, ms);
}

/* Prepares, and touches all memory; outputs of two runs in a row lie in different places. A GPU that was idle while the plan was made
 * runs at a low clock for a while. */
static sn_status warm_up(measure *m) {
  const double clock_s = 0.4;
  bool gpu = strcmp(m->options->device, "cpu") != 0 && strcmp(m->options->device, "ref") != 0;
  double end = gpu ? now() + clock_s : 0;
  sn_status status = sn_session_run(m->session);
  if (status == SN_OK)
    status = sn_session_run(m->session);
  while (status == SN_OK && now() < end)
    status = sn_session_run(m->session);
  return status;
}

static sn_status time_runs(measure *m) {
  int n = m->options->repeat;
  double *ms = calloc((size_t)n, sizeof *ms);
  if (!ms)
    return no_memory(m);
  sn_status status = warm_up(m);
  for (int i = 0; i < n && status == SN_OK; i++) {
    m->form->n_spans = 0;
    double start = now();
    status = sn_session_run(m->session);
    ms[i] = 1e3 * (now() - start);
    double host_ms = 1e3 * sn_session_get_stats(m->session).host_s;
    if (i == 0 || host_ms < m->form->host_ms)
      m->form->host_ms = host_ms;
    if (status == SN_OK && m->options->spans)
      status = add_spans(m);
    if (status == SN_OK)
      show_run(m, i, ms[i]);
  }
  qsort(ms, (size_t)n, sizeof *ms, by_size);
  m->form->median_ms = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  m->form->best_ms = ms[0];
  free(ms);
  return status;
}

static sn_status read_outputs(measure *m) {
  float loss;
  sn_type type;
  int at = sn_session_find_output(m->session, "output");
  size_t count = 1;
  SN_TRY(sn_session_read(m->session, "loss", &loss, sizeof loss));
  m->out->loss = (double)loss;
  SN_TRY(sn_session_output_type(m->session, at, &type));
  for (int d = 0; d < type.shape.rank; d++)
    count *= (size_t)type.shape.dim[d];
  float *output = malloc(count * sizeof *output + 1);
  if (!output)
    return no_memory(m);
  sn_status status = sn_session_read_at(m->session, at, output, count * sizeof *output);
  m->out->n_sample = count < BENCH_SAMPLE ? (int)count : BENCH_SAMPLE;
  if (status == SN_OK)
    memcpy(m->out->sample, output, (size_t)m->out->n_sample * sizeof *output);
  free(output);
  return status;
}

static sn_session_options options_of(measure *m) {
  sn_session_options o = {.device = m->options->device,
                          .threads = m->options->threads,
                          .precision = m->options->precision,
                          .plan_cache = m->options->plan_cache};
  if (m->options->spans) {
    o.span = take_span;
    o.span_user = m;
  }
  return o;
}

static sn_status begin_form(measure *m, double compile_s) {
  m->form->compile_s = compile_s;
  m->form->stats = sn_session_get_stats(m->session);
  fprintf(stderr, "%s, %s, on %s: compiled in %.3f s%s\n", m->out->name, m->form->name,
          m->options->device, m->form->compile_s,
          m->form->stats.from_cache ? ", from the plan cache" : "");
  return m->options->spans ? copy_steps(m) : SN_OK;
}

static sn_status measure_session(measure *m, int k) {
  sn_session_options o = options_of(m);
  double start = now();
  SN_TRY(sn_session_create(m->graph, m->store, &o, &m->session));
  SN_TRY(begin_form(m, now() - start));
  SN_TRY(sn_workload_write(m->workload, m->graph, forms[k].inputs, m->session));
  SN_TRY(time_runs(m));
  m->form->stats = sn_session_get_stats(m->session);
  return forms[k].form == SUBJECT_BACKWARD ? read_outputs(m) : SN_OK;
}

static sn_status measure_form(measure *m, int k) {
  m->form = &m->out->form[k];
  m->form->name = forms[k].name;
  m->room = 0;
  sn_status status = subject_build(m->ctx, m->workload, NULL, forms[k].form, &m->graph);
  if (status == SN_OK && k == 0) /* the other forms have the same parameters */
    status = sn_workload_fill(m->workload, m->graph, SN_WORKLOAD_ARENA, m->store);
  if (status == SN_OK)
    status = measure_session(m, k);
  sn_session_destroy(m->session);
  sn_graph_destroy(m->graph);
  m->session = NULL;
  m->graph = NULL;
  return status;
}

static int64_t store_bytes(const sn_store *store) {
  int64_t bytes = 0;
  sn_entry e;
  for (int i = 0; i < sn_store_count(store); i++)
    if (sn_store_at(store, i, &e) == SN_OK)
      bytes += (int64_t)e.size;
  return bytes;
}

/* Ends a measurement, good or not. */
static void finish(measure *m) {
  struct rusage usage;
  m->out->state_bytes = m->store ? store_bytes(m->store) : 0;
  sn_store_destroy(m->store);
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    m->out->peak_bytes = INT64_C(1024) * usage.ru_maxrss;
}

sn_status bench_measure(sn_ctx *ctx, const sn_workload *workload, const bench_options *options,
                        bench_result *out) {
  *out = (bench_result){.name = sn_workload_name(workload), .loss = NAN};
  measure m = {.ctx = ctx, .workload = workload, .options = options, .out = out};
  SN_TRY(sn_store_create(ctx, &m.store));
  sn_status status = SN_OK;
  for (; out->n_forms < BENCH_FORMS && status == SN_OK; out->n_forms++)
    status = measure_form(&m, out->n_forms);
  finish(&m);
  return status;
}

static sn_status measure_replay(measure *m, const replay *r) {
  sn_session_options o = options_of(m);
  m->form = &m->out->form[m->out->n_forms++];
  m->form->name = forms[0].name;
  double start = now();
  SN_TRY(replay_start(r, 0, &o, &m->store, &m->session));
  sn_status status = begin_form(m, now() - start);
  if (status == SN_OK)
    status = time_runs(m);
  if (status == SN_OK)
    m->form->stats = sn_session_get_stats(m->session);
  sn_session_destroy(m->session);
  return status;
}

sn_status bench_measure_graph(sn_ctx *ctx, const char *path, const bench_options *options,
                              bench_result *out) {
  replay r;
  const bench_form none = {.compile_s = NAN, .median_ms = NAN, .best_ms = NAN};
  *out = (bench_result){.name = path, .form = {none, none, none}, .loss = NAN};
  measure m = {.ctx = ctx, .options = options, .out = out};
  sn_status status = replay_open(ctx, path, &r);
  if (status == SN_OK)
    status = replay_settle(&r, &replay_drawn);
  if (status == SN_OK)
    status = measure_replay(&m, &r);
  finish(&m);
  replay_close(&r);
  return status;
}

const bench_form *bench_last(const bench_result *result) {
  return &result->form[result->n_forms > 0 ? result->n_forms - 1 : 0];
}

void bench_free(bench_result *result) {
  for (int k = 0; k < BENCH_FORMS; k++) {
    bench_form *f = &result->form[k];
    for (int i = 0; i < f->n_steps; i++)
      free(f->steps[i].name);
    free(f->steps);
    free(f->spans);
  }
  *result = (bench_result){0};
}
