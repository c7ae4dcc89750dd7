/* Measuring single operations: for each line a session, some runs, and between them the machine's peaks, since what memory
 * gives is not steady on all machines; medians of both. See bench_ops.h. */
#include "cli/bench_ops.h"

#include "cli/bench_peak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A row lasts at least so long, and so many runs. */
#define LEAST_S 0.15
enum { MOST_RUNS = 1000, MOST_LINES = 2000, PEAK_TRIES = 32 };

typedef struct bench_run {
  sn_ctx *ctx;
  const ops_options *options;
  bench_peak *peak;
  ops_row *rows;
  int n;
} bench_run;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sn_status no_memory(sn_ctx *ctx) {
  return sn_ctx_fail(ctx, SN_ERR_NO_MEMORY, "out of memory");
}

/* --- inputs --- */

/* The sum of four uniform numbers, near enough to normal. */
static float next_float(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t x = *state ^ *state >> 29;
  double sum = 0;
  for (int k = 0; k < 4; k++)
    sum += (double)(x >> 16 * k & 0xffff) / 65536 - 0.5;
  return (float)(sum * 1.732);
}

static void fill(const ops_input *in, size_t n, void *data) {
  uint64_t state = 7;
  for (size_t i = 0; i < n; i++) {
    float x = next_float(&state);
    if (in->type.dtype == SN_I32) {
      ((int32_t *)data)[i] = (int32_t)((state >> 33) % (uint64_t)(in->below ? in->below : 1));
    } else if (in->type.dtype == SN_BF16) {
      uint32_t bits;
      memcpy(&bits, &x, sizeof bits);
      ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    } else {
      ((float *)data)[i] = x + (float)in->mean;
    }
  }
}

/* An input that no result depends on may be gone. */
static sn_status write_inputs(sn_ctx *ctx, const ops_case *c, sn_session *s) {
  for (int i = 0; i < c->n_inputs; i++) {
    const ops_input *in = &c->inputs[i];
    size_t n = 1, each = sn_dtype_size(in->type.dtype);
    for (int d = 0; d < in->type.shape.rank; d++)
      n *= (size_t)in->type.shape.dim[d];
    int at = sn_session_find_input(s, in->name);
    if (at < 0)
      continue;
    void *data = malloc(n * each + 1);
    if (!data)
      return no_memory(ctx);
    fill(in, n, data);
    sn_status status = sn_session_write_at(s, at, data, n * each);
    free(data);
    SN_TRY(status);
  }
  return SN_OK;
}

/* --- one row --- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  if (n == 0)
    return 0;
  qsort(x, (size_t)n, sizeof *x, by_size);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Rates of each kind, measured between the runs. */
typedef struct peak_tries {
  int n;
  double rate[BENCH_PEAK_KINDS][PEAK_TRIES];
} peak_tries;

/* What hardly writes is held against reading. */
static bool is_of_kind(const ops_case *c, int kind) {
  bool reads = c->write < (c->read + c->write) / 8;
  return kind == BENCH_PEAK_FLOPS || (kind == BENCH_PEAK_READ) == reads;
}

static void try_peaks(bench_run *b, const ops_case *c, peak_tries *t) {
  for (int kind = 0; kind < BENCH_PEAK_KINDS; kind++)
    if (is_of_kind(c, kind))
      t->rate[kind][t->n] = bench_peak_try(b->peak, (bench_peak_kind)kind, c->read + c->write);
  t->n++;
}

/* The kind with the best median. */
static void take_peaks(const ops_case *c, peak_tries *t, ops_row *row) {
  row->peak_flops = median(t->rate[BENCH_PEAK_FLOPS], t->n);
  for (int kind = BENCH_PEAK_READ; kind < BENCH_PEAK_KINDS; kind++) {
    double rate = is_of_kind(c, kind) ? median(t->rate[kind], t->n) : 0;
    row->peak_bytes = rate > row->peak_bytes ? rate : row->peak_bytes;
  }
}

/* Runs and the machine's peaks take turns, about half of the time each. Two runs first: outputs of runs that follow each other
 * lie in different places. */
static sn_status time_runs(bench_run *b, const ops_case *c, sn_session *s, ops_row *row) {
  const ops_options *o = b->options;
  double taken[MOST_RUNS], all = 0, least = o->quick ? 0 : LEAST_S, peaks = 0;
  peak_tries tries = {0};
  int n = 0;
  for (int i = 0; i < 2; i++)
    SN_TRY(sn_session_run(s));
  while (n < MOST_RUNS && (n < o->repeat || all < least)) {
    double start = now();
    SN_TRY(sn_session_run(s));
    taken[n] = now() - start;
    all += taken[n++];
    if (peaks >= all || tries.n == PEAK_TRIES)
      continue;
    start = now();
    try_peaks(b, c, &tries);
    peaks += now() - start;
    SN_TRY(sn_session_run(s)); /* its operands may have left the caches */
  }
  row->median_s = median(taken, n);
  row->best_s = taken[0];
  row->runs = n;
  take_peaks(c, &tries, row);
  return SN_OK;
}

static sn_status measure_in(bench_run *b, ops_case *c, sn_store *store, sn_session **session) {
  ops_row *row = &b->rows[b->n];
  sn_session_options o = {.device = b->options->device, .threads = b->options->threads};
  SN_TRY(ops_build(b->ctx, c));
  SN_TRY(sn_store_init(store, c->graph, 1));
  SN_TRY(sn_session_create(c->graph, store, &o, session));
  SN_TRY(write_inputs(b->ctx, c, *session));
  *row = (ops_row){.group = c->kind->group,
                   .dtype = c->dtype,
                   .flops = c->flops,
                   .bytes = c->read + c->write,
                   .threads = sn_session_get_stats(*session).threads};
  strcpy(row->name, c->name);
  if (!b->peak && !(b->peak = bench_peak_create(row->threads, b->options->quick ? 1e5 : 1e9)))
    return no_memory(b->ctx);
  SN_TRY(time_runs(b, c, *session, row));
  b->n++;
  return SN_OK;
}

/* A filter that names a group means all of it and nothing else. */
static bool is_wanted(const ops_case *c, const char *filter) {
  for (const ops_kind *k = ops_kinds; filter && k->name; k++)
    if (strcmp(k->group, filter) == 0)
      return strcmp(c->kind->group, filter) == 0;
  return !filter || strstr(c->name, filter);
}

static sn_status measure_line(bench_run *b, const char *line) {
  char problem[OPS_PROBLEM];
  ops_case c;
  sn_store *store;
  sn_session *session = NULL;
  if (!ops_parse(line, &c, problem))
    return sn_ctx_fail(b->ctx, SN_ERR_INVALID, "%s", problem);
  if (!is_wanted(&c, b->options->filter))
    return SN_OK;
  SN_TRY(sn_store_create(b->ctx, &store));
  sn_status status = measure_in(b, &c, store, &session);
  if (status != SN_OK)
    status = sn_ctx_within(b->ctx, status, "%s", c.name);
  else
    fprintf(stderr, "%s: %.3f ms\n", c.name, 1e3 * b->rows[b->n - 1].median_s);
  sn_session_destroy(session);
  sn_graph_destroy(c.graph);
  sn_store_destroy(store);
  return status;
}

/* --- lines --- */

static sn_status measure_file(bench_run *b, const char *path) {
  enum { MOST_BYTES = 1 << 20 };
  sn_status status = SN_OK;
  char *text, *line;
  SN_TRY(cli_read_text(b->ctx, path, MOST_BYTES, &text));
  char *rest = text;
  for (int number = 1;
       status == SN_OK && b->n < MOST_LINES && (line = cli_next_line(&rest)) != NULL; number++) {
    if (line[strspn(line, " \t\r")] == '\0' || line[0] == '#')
      continue;
    status = measure_line(b, line);
    if (status != SN_OK)
      status = sn_ctx_within(b->ctx, status, "%s, line %d", path, number);
  }
  free(text);
  return status;
}

static sn_status measure_all(bench_run *b) {
  if (b->options->shapes)
    return measure_file(b, b->options->shapes);
  for (int i = 0; ops_line(i, b->options->quick) && b->n < MOST_LINES; i++)
    SN_TRY(measure_line(b, ops_line(i, b->options->quick)));
  return SN_OK;
}

sn_status bench_ops(sn_ctx *ctx, const ops_options *o) {
  bench_run b = {.ctx = ctx, .options = o, .rows = calloc(MOST_LINES, sizeof(ops_row))};
  if (!b.rows)
    return no_memory(ctx);
  sn_status status = measure_all(&b);
  if (status == SN_OK && b.n == 0)
    status = sn_ctx_fail(ctx, SN_ERR_NOT_FOUND, "there is no operation \"%s\" to measure",
                         o->filter ? o->filter : "");
  if (status == SN_OK)
    (o->json ? ops_json : ops_table)(stdout, b.rows, b.n);
  bench_peak_destroy(b.peak);
  free(b.rows);
  return status;
}
