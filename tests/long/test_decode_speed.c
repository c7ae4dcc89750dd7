/* What a plan for many lengths costs where it decodes one token: a plan of up to 2048 tokens against a plan of exactly one, on
 * a model of SmolLM2-135M's shape with random weights. The two take turns, and the medians are compared: of the thread's CPU
 * time, since the machine may be busy and one thread does all of it; wall-clock times are printed beside them, and by archetype
 * where the time goes. DECODE_LAYERS and DECODE_RUNS change the size of it. */
#include "support/test.h"

#include <sinew/sinew.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double MOST = 1.05; /* times the plan of one token */

enum { CAPACITY = 2048, PROMPT = 40, MOST_RUNS = 1000, MOST_STEPS = 4096 };

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t number(const char *variable, int64_t otherwise) {
  const char *text = getenv(variable);
  return text && atoll(text) > 0 ? atoll(text) : otherwise;
}

/* --- a session that decodes --- */

typedef struct decoder {
  const char *name;
  bool symbolic;
  sn_graph *graph;
  sn_store *local;
  sn_session *session;
  double cpu[MOST_RUNS], wall[MOST_RUNS];
  bool timed;                 /* spans count below */
  double by_step[MOST_STEPS]; /* seconds, of the runs that were timed */
} decoder;

static void take_span(void *user, const sn_span *span) {
  decoder *d = user;
  if (d->timed && span->step >= 0 && span->step < MOST_STEPS)
    d->by_step[span->step] += span->end_s - span->begin_s;
}

static sn_status build(decoder *d, const sn_model *model) {
  sn_graph *g = d->graph;
  sn_dim tokens = d->symbolic ? sn_symbol(g, "tokens", CAPACITY) : 1;
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, tokens)),
                        .positions = sn_input(g, "positions", SN_I32, SN_SHAPE(tokens)),
                        .batch = 1,
                        .capacity = CAPACITY,
                        .start = sn_input(g, "start", SN_I32, SN_SCALAR),
                        .kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(1))};
  sn_value logits = sn_model_logits(model, g, &in);
  sn_output(g, "logits", sn_slice(g, logits, 1, sn_dim_sub(g, tokens, 1), tokens, 1));
  return sn_graph_status(g);
}

static sn_status start(decoder *d, sn_ctx *ctx, const sn_model *model, sn_store *store) {
  sn_value states[1024];
  SN_TRY(sn_graph_create(ctx, &d->graph));
  SN_TRY(sn_store_create(ctx, &d->local));
  SN_TRY(build(d, model));
  int n = sn_graph_states(d->graph, states, 1024);
  for (int i = 0; i < n && i < 1024; i++)
    if (!sn_store_has(store, sn_value_name(d->graph, states[i])))
      SN_TRY(sn_store_add(d->local, sn_value_name(d->graph, states[i]),
                          sn_value_type(d->graph, states[i]), NULL));
  sn_session_options o = {
      .device = "cpu", .threads = 1, .local = d->local, .span = take_span, .span_user = d};
  SN_TRY(sn_session_create(d->graph, store, &o, &d->session));
  return d->symbolic ? sn_session_bind(d->session, "tokens", 1) : SN_OK;
}

static void end(decoder *d) {
  sn_session_destroy(d->session);
  sn_store_destroy(d->local);
  sn_graph_destroy(d->graph);
}

/* One token at row `at`; its times are those of run i. */
static sn_status decode(decoder *d, int at, int i) {
  int32_t id = at * 7 % 1000, position = at, length = at + 1;
  SN_TRY(sn_session_write(d->session, "ids", &id, sizeof id));
  SN_TRY(sn_session_write(d->session, "positions", &position, sizeof position));
  SN_TRY(sn_session_write(d->session, "start", &position, sizeof position));
  SN_TRY(sn_session_write(d->session, "kv_length", &length, sizeof length));
  double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  sn_status status = sn_session_run(d->session);
  d->cpu[i] = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  d->wall[i] = seconds(CLOCK_MONOTONIC) - wall;
  return status;
}

/* --- measuring --- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *times, int n) {
  double sorted[MOST_RUNS];
  memcpy(sorted, times, (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, by_size);
  return sorted[n / 2];
}

/* First a few runs that fill caches; then the two in turns, at the same rows, the one first that came second before. */
static sn_status measure(decoder d[2], int n) {
  for (int at = 0; at < 3; at++)
    for (int k = 0; k < 2; k++)
      SN_TRY(decode(&d[k], at, 0));
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      decoder *one = &d[(i + k) % 2];
      one->timed = true;
      SN_TRY(decode(one, PROMPT + i, i));
      one->timed = false;
    }
  return SN_OK;
}

static bool same_logits(decoder d[2], size_t vocab) {
  float *x = malloc(2 * vocab * sizeof *x), worst = 0, size = 0;
  bool ok = CHECK(x);
  for (int k = 0; k < 2 && ok; k++)
    ok = CHECK(sn_session_read(d[k].session, "logits", x + (size_t)k * vocab, vocab * sizeof *x) ==
               SN_OK);
  for (size_t i = 0; i < vocab && ok; i++) {
    float off = x[i] - x[vocab + i];
    worst = off > worst ? off : -off > worst ? -off : worst;
    size = x[i] > size ? x[i] : -x[i] > size ? -x[i] : size;
  }
  free(x);
  return ok && CHECK(size > 0 && worst <= 1e-4F * size);
}

/* --- telling --- */

static void print_archetypes(const decoder *d, int n) {
  sn_session_stats stats = sn_session_get_stats(d->session);
  struct {
    const char *name;
    double s;
    int steps;
  } sums[16] = {0};
  int used = 0;
  for (int i = 0; i < stats.prepare_steps + stats.steps && i < MOST_STEPS; i++) {
    sn_step step;
    int k = 0;
    if (sn_session_step(d->session, i, &step) != SN_OK)
      continue;
    while (k < used && strcmp(sums[k].name, step.archetype) != 0)
      k++;
    if (k == 16)
      continue;
    used = k == used ? used + 1 : used;
    sums[k].name = step.archetype;
    sums[k].s += d->by_step[i] / n;
    sums[k].steps++;
  }
  for (int k = 0; k < used; k++)
    printf("    %-16s %8.3f ms in %d steps\n", sums[k].name, 1e3 * sums[k].s, sums[k].steps);
}

static void print_costliest(const decoder *d, int n) {
  sn_session_stats stats = sn_session_get_stats(d->session);
  bool shown[MOST_STEPS] = {false};
  for (int rank = 0; rank < 8; rank++) {
    int best = -1;
    sn_step step;
    for (int i = 0; i < stats.prepare_steps + stats.steps && i < MOST_STEPS; i++)
      if (!shown[i] && (best < 0 || d->by_step[i] > d->by_step[best]))
        best = i;
    if (best < 0 || sn_session_step(d->session, best, &step) != SN_OK)
      return;
    shown[best] = true;
    printf("    %8.3f ms  step %d, %s: %s\n", 1e3 * d->by_step[best] / n, best, step.archetype,
           step.name);
  }
}

static void print(const decoder *d, int n) {
  sn_session_stats s = sn_session_get_stats(d->session);
  double least = d->cpu[0], steps = 0;
  for (int i = 1; i < n; i++)
    least = d->cpu[i] < least ? d->cpu[i] : least;
  for (int i = 0; i < MOST_STEPS; i++)
    steps += d->by_step[i] / n;
  printf("  %-19s median %.3f ms, least %.3f ms; wall clock %.3f ms, in steps %.3f ms; %lld steps, "
         "%lld launches, arena %.1f MB, compiled in %.2f s\n",
         d->name, 1e3 * median(d->cpu, n), 1e3 * least, 1e3 * median(d->wall, n), 1e3 * steps,
         (long long)s.steps, (long long)s.launches, (double)s.arena_bytes / 1e6, s.compile_s);
  print_archetypes(d, n);
  print_costliest(d, n);
}

/* --- the test --- */

static sn_status make_model(sn_ctx *ctx, sn_model **out_model, sn_store **out_store) {
  sn_model_config c = {.family = SN_MODEL_LLAMA,
                       .vocab = 49152,
                       .hidden = 576,
                       .layers = number("DECODE_LAYERS", 30),
                       .heads = 9,
                       .kv_heads = 3,
                       .inner = 1536,
                       .max_length = CAPACITY,
                       .activation = SN_ACT_SILU,
                       .tied = true,
                       .bos = -1,
                       .eos = -1};
  SN_TRY(sn_model_create(ctx, &c, out_model));
  SN_TRY(sn_store_create(ctx, out_store));
  return sn_model_init(*out_model, *out_store, 1);
}

TEST(one_token_in_a_plan_for_many) {
  static decoder d[2] = {{.name = "plan of one token"},
                         {.name = "plan of up to 2048", .symbolic = true}};
  int n = (int)number("DECODE_RUNS", 61);
  sn_ctx *ctx = NULL;
  sn_model *model = NULL;
  sn_store *store = NULL;
  n = n > MOST_RUNS ? MOST_RUNS : n;
  sn_status status = sn_ctx_create(NULL, &ctx);
  if (status == SN_OK)
    status = make_model(ctx, &model, &store);
  for (int k = 0; k < 2 && status == SN_OK; k++)
    status = start(&d[k], ctx, model, store);
  if (status == SN_OK)
    status = measure(d, n);
  if (status != SN_OK)
    FAIL("%s", sn_ctx_message(ctx));
  else if (same_logits(d, 49152)) {
    double ratio = median(d[1].cpu, n) / median(d[0].cpu, n);
    print(&d[0], n);
    print(&d[1], n);
    printf("  ratio %.3f, at most %.2f\n", ratio, MOST);
    CHECK(ratio <= MOST);
  }
  for (int k = 0; k < 2; k++)
    end(&d[k]);
  sn_store_destroy(store);
  sn_model_destroy(model);
  sn_ctx_destroy(ctx);
}
