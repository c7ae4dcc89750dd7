/* sinew bench: wrong usage, one measurement of the smallest workload, and the forms of its report from results that are made
 * by hand. */
#include "cli/bench.h"
#include "support/command.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BENCH(...) command_run(command_sinew(), "bench", __VA_ARGS__, (char *)NULL)

static void check_fails(command_result r, int code, const char *message) {
  CHECK_EQ_INT(r.code, code);
  CHECK_EQ_STR(r.out, "");
  CHECK_STR_HAS(r.err, message);
  command_free(&r);
}

TEST(wrong_usage) {
  check_fails(BENCH("--workload", "LeNet"), 2, "no workload \"LeNet\"");
  check_fails(BENCH("--repeat", "0"), 2, "--repeat");
  check_fails(BENCH("--threads", "-1"), 2, "--threads");
  check_fails(BENCH("StableDiffusion"), 2, "unexpected argument");
  check_fails(BENCH("--workload", "StableDiffusion", "--device", "abacus"), 2, "abacus");
  check_fails(BENCH("graph.txt", "--workload", "SmolVLA"), 2, "give one of GRAPH.txt and");
  check_fails(BENCH("graph.txt", "--filter", "x"), 2, "--filter, --shapes and --quick are for ops");
  check_fails(BENCH("/no/such.txt"), 1, "/no/such.txt: cannot open");
  check_fails(BENCH("--plan-cache", "/no/such"), 1, "--plan-cache: /no/such: No such file");
  check_fails(BENCH("--trace", "/no/such/x"), 1, "/no/such/x: cannot be written: No such file");
}

/* Progress is told for each form and run; the profile goes into the JSON. */
TEST(measures) {
  command_result r = BENCH("--workload", "StableDiffusion", "--repeat", "1", "--json", "--profile");
  static const char *const forms[] = {"inference", "latency", "training"};
  sn_ctx *ctx;
  sn_json_doc *doc;
  CHECK_EQ_INT(r.code, 0);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_json_parse(ctx, r.out, strlen(r.out), &doc) == SN_OK)) {
    const sn_json *profile = sn_json_get(sn_json_root(doc), "profile");
    for (int k = 0; k < 3; k++)
      CHECK(sn_json_size(sn_json_get(sn_json_get(profile, forms[k]), "costliest")) > 0);
  }
  const char *at = r.err;
  for (int k = 0; k < 3 && at; k++) {
    CHECK_STR_HAS(at, forms[k]);
    at = strstr(at, forms[k]);
    CHECK_STR_HAS(at ? at : "", "run 1 of 1: ");
  }
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  command_free(&r);
}

/* One form; what was not measured is null, and a dash in the table. */
TEST(a_graph_from_a_file) {
  const char *graph = test_source("tests/fixtures/run/affine.txt");
  sn_ctx *ctx;
  sn_json_doc *doc;
  char *html;
  command_result r = BENCH(graph, "--repeat", "1", "--json", "--profile", "--device", "cpu");
  CHECK_EQ_INT(r.code, 0);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_json_parse(ctx, r.out, strlen(r.out), &doc) == SN_OK)) {
    const sn_json *j = sn_json_root(doc), *ms = sn_json_get(j, "timings");
    double x = 0;
    CHECK(sn_json_number(sn_json_get(ms, "inference_ms"), &x) && x > 0);
    CHECK_EQ_INT(sn_json_type(sn_json_get(ms, "latency_ms")), SN_JSON_NULL);
    CHECK_EQ_INT(sn_json_type(sn_json_get(ms, "training_ms")), SN_JSON_NULL);
    CHECK_EQ_INT(sn_json_size(sn_json_get(j, "profile")), 1);
    CHECK_EQ_INT(sn_json_size(sn_json_get(j, "counts")), 1);
    CHECK(sn_json_number(sn_json_get(sn_json_get(j, "memory"), "state_bytes"), &x) && x == 12);
  }
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  command_free(&r);
  const char *page = test_scratch("page.html"), *trace = test_scratch("trace.json");
  r = BENCH(graph, "--repeat", "1", "--html", page, "--trace", trace, "--device", "cpu");
  CHECK_EQ_INT(r.code, 0);
  CHECK_STR_HAS(r.out, "           -            - ");
  command_free(&r);
  html = calloc(1, 1 << 16);
  FILE *f = fopen(page, "r");
  if (CHECK(html && f))
    html[fread(html, 1, (1 << 16) - 1, f)] = '\0';
  CHECK_STR_HAS(html, "affine.txt</h2>");
  CHECK_STR_HAS(html, "costliest steps of inference");
  CHECK_STR_HAS(html, "<td class=\"n\">-</td>");
  CHECK(!strstr(html, "nan"));
  if (f)
    fclose(f);
  free(html);
}

/* --- reports --- */

static char odd_name[] = "layers.0/\"odd\" <name>", other_name[] = "";

/* Two steps; the second ran on two threads. */
static bench_step steps[] = {{odd_name, "matmul", "main", 2e9, 1e6, 0.002},
                             {other_name, "row", "main", 1e6, 2e6, 0.001}};
static sn_span spans[] = {{0, 0, 10.0, 10.002}, {1, 0, 10.002, 10.0025}, {1, 1, 10.002, 10.003}};

static bench_form form(const char *name, double ms) {
  return (bench_form){.name = name,
                      .compile_s = 0.25,
                      .median_ms = ms,
                      .best_ms = ms / 2,
                      .host_ms = 0.0125,
                      .stats = {.steps = 2,
                                .launches = 5,
                                .barriers = 4,
                                .pipelines = 3,
                                .device_bytes = 6144,
                                .arena_bytes = 4096,
                                .prepare_bytes = 64,
                                .threads = 3},
                      .steps = steps,
                      .n_steps = 2,
                      .spans = spans,
                      .n_spans = 3};
}

/* Peaks: matmul 1 ms of 2; row 0.2 ms of 1. */
static const bench_options on_cpu = {.device = "cpu",
                                     .description = "a <machine>",
                                     .note = "",
                                     .threads = 2,
                                     .repeat = 5,
                                     .spans = true,
                                     .profile = true,
                                     .peak_flops = 2e12,
                                     .peak_bytes = 1e10};

static char *written_on(const bench_options *o, void (*show)(FILE *, const bench_report *), int n) {
  bench_result r[2] = {{.name = sn_workload_name(sn_workload_at(0)),
                        .n_forms = 3,
                        .loss = 1.5,
                        .sample = {1, NAN},
                        .n_sample = 2,
                        .state_bytes = INT64_C(123456789012345),
                        .peak_bytes = 1000000},
                       {.name = sn_workload_name(sn_workload_at(1)), .n_forms = 3, .loss = 2.5}};
  for (int i = 0; i < n; i++) {
    r[i].form[0] = form("inference", 3);
    r[i].form[1] = form("latency", 1);
    r[i].form[2] = form("training", 9);
  }
  bench_report report = {o, r, n};
  char *text = calloc(1, 1 << 18);
  FILE *f = fopen(test_scratch("bench"), "w+");
  if (CHECK(f && text)) {
    show(f, &report);
    rewind(f);
    text[fread(text, 1, (1 << 18) - 1, f)] = '\0';
  }
  if (f)
    fclose(f);
  return text;
}

static char *written(void (*show)(FILE *, const bench_report *), int n) {
  return written_on(&on_cpu, show, n);
}

typedef struct parsed {
  sn_ctx *ctx;
  sn_json_doc *doc;
  const sn_json *root;
} parsed;

static parsed parse(char *text) {
  parsed p = {0};
  if (CHECK(sn_ctx_create(NULL, &p.ctx) == SN_OK) &&
      sn_json_parse(p.ctx, text, strlen(text), &p.doc) != SN_OK)
    FAIL("%s", sn_ctx_message(p.ctx));
  p.root = p.doc ? sn_json_root(p.doc) : NULL;
  free(text);
  return p;
}

static void end(parsed *p) {
  sn_json_destroy(p->doc);
  sn_ctx_destroy(p->ctx);
}

static double number(const sn_json *j, const char *key) {
  double x = NAN;
  CHECK(sn_json_number(sn_json_get(j, key), &x));
  return x;
}

TEST(json_has_the_names_of_the_arena) {
  parsed p = parse(written(bench_json, 1));
  const sn_json *t = sn_json_get(p.root, "timings"), *o = sn_json_get(p.root, "outputs");
  CHECK_EQ_STR(sn_json_string(sn_json_get(p.root, "framework"), NULL), "sinew");
  CHECK_EQ_STR(sn_json_string(sn_json_get(p.root, "model"), NULL), "SmolLM2-135M");
  CHECK_EQ_STR(sn_json_string(sn_json_get(p.root, "device"), NULL), "a <machine>");
  CHECK_EQ_STR(sn_json_string(sn_json_get(p.root, "backend"), NULL), "cpu");
  CHECK(number(t, "compile_s") == 0.25 && number(t, "inference_ms") == 3);
  CHECK(number(t, "latency_ms") == 1 && number(t, "training_ms") == 9);
  CHECK(number(t, "inference_best_ms") == 1.5 && number(t, "training_best_ms") == 4.5);
  CHECK(number(t, "latency_best_ms") == 0.5);
  CHECK(number(o, "loss") == 1.5);
  CHECK_EQ_INT(sn_json_size(sn_json_get(o, "logits_sample")), 2);
  CHECK(number(sn_json_get(p.root, "memory"), "peak_bytes") == 1e6);
  const sn_json *counts = sn_json_get(sn_json_get(p.root, "counts"), "latency");
  CHECK(number(counts, "steps") == 2 && number(counts, "launches") == 5);
  CHECK(number(counts, "barriers") == 4 && number(counts, "pipelines") == 3);
  CHECK(number(counts, "device_bytes") == 6144);
  CHECK(number(sn_json_get(p.root, "memory"), "state_bytes") == 123456789012345); /* exactly */
  CHECK(number(p.root, "threads") == 3); /* those used, not those asked for */
  const sn_json *profile = sn_json_get(sn_json_get(p.root, "profile"), "latency");
  const sn_json *costliest = sn_json_get(profile, "costliest");
  CHECK(number(sn_json_get(sn_json_get(profile, "archetypes"), "matmul"), "ms") == 2);
  CHECK_NEAR(number(sn_json_get(sn_json_get(profile, "archetypes"), "row"), "bound_ms"), 0.2, 1e-9);
  CHECK_EQ_INT(sn_json_size(costliest), 2);
  CHECK(number(sn_json_at(costliest, 0), "bound_ms") == 1);
  CHECK(number(sn_json_at(costliest, 0), "flops") == 2e9);
  end(&p);
  p = parse(written(bench_json, 2));
  CHECK_EQ_INT(sn_json_size(p.root), 2);
  end(&p);
}

TEST(trace_has_a_span_a_step_and_thread) {
  parsed p = parse(written(bench_trace, 1));
  const sn_json *events = sn_json_get(p.root, "traceEvents");
  int n = 0;
  for (size_t i = 0; i < sn_json_size(events); i++) {
    const sn_json *e = sn_json_at(events, i);
    const char *kind = sn_json_string(sn_json_get(e, "ph"), NULL);
    const char *name = sn_json_string(sn_json_get(e, "name"), NULL);
    if (!kind || strcmp(kind, "X") != 0)
      continue;
    n++;
    CHECK(number(e, "ts") >= 0 && number(e, "dur") > 0);
    CHECK(number(sn_json_get(e, "args"), "bytes") > 0);
    CHECK(name && *name);
  }
  CHECK_EQ_INT(n, 3 * BENCH_FORMS);
  end(&p);
}

TEST(table_and_profile) {
  char *table = written(bench_table, 2), *profile = written(bench_profile, 1);
  CHECK_STR_HAS(table, "SmolLM2-135M");
  CHECK_STR_HAS(table, "SmolVLA");
  CHECK_STR_HAS(profile, "SmolLM2-135M, training: 3.000 ms in 2 steps");
  CHECK_STR_HAS(table, "cpu: a <machine>; 3 threads; median of 5");
  CHECK_STR_HAS(profile, "at 2000.0 GFLOP/s and 10.0 GB/s");
  CHECK_STR_HAS(profile, "2 steps of 9.000 ms; bound 1.200 ms");
  CHECK_STR_HAS(profile, "66.7 %   50.0 %  matmul         1 steps; at its bound 1.000 ms less");
  CHECK_STR_HAS(profile, "33.3 %   20.0 %  row            1 steps; at its bound 0.800 ms less");
  CHECK_STR_HAS(profile, "1000.0 GFLOP/s");
  free(table);
  free(profile);
}

/* Products by matrices, three for one: 0.5 ms of the matmul's 2. */
TEST(on_a_gpu) {
  bench_options o = on_cpu;
  o.device = "vulkan";
  o.note = "matrices: tested";
  o.precision = SN_PRECISION_FAST;
  o.peak_matrix_flops = 12e12;
  o.launch_s = 2.5e-6;
  char *table = written_on(&o, bench_table, 1), *profile = written_on(&o, bench_profile, 1);
  char *counts = written_on(&o, bench_counts, 2);
  CHECK_STR_HAS(table, "median of 5\nmatrices: tested\n");
  CHECK_STR_HAS(profile, "matrices: 12000.0 GFLOP/s, three for one");
  CHECK_STR_HAS(profile, "a step that does nothing: 2.50 us");
  CHECK_STR_HAS(profile, "66.7 %   25.0 %  matmul         1 steps; at its bound 1.500 ms less");
  CHECK_STR_HAS(profile, "33.3 %   20.0 %  row ");
  CHECK_STR_HAS(
      counts,
      "SmolVLA          training        2         5         4          3     12.5    6.00 KiB");
  free(table);
  free(profile);
  free(counts);
}

TEST(html_stands_alone) {
  char *text = written(bench_html, 2);
  CHECK(strstr(text, "http") == NULL && strstr(text, "<name>") == NULL);
  CHECK_STR_HAS(text, "a &lt;machine&gt;");
  CHECK_STR_HAS(text, "&quot;odd&quot; &lt;name&gt;");
  CHECK_STR_HAS(text, "</html>");
  free(text);
}
