/* sinew bench ops: lines and what they cost, wrong usage, one small measurement of each kind, the reports from rows made by
 * hand, and the machine's peaks. */
#include "cli/bench_ops.h"
#include "cli/bench_peak.h"
#include "support/command.h"
#include "support/files.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BENCH(...) command_run(command_sinew(), "bench", __VA_ARGS__, (char *)NULL)

/* --- lines --- */

TEST(every_line_builds) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int quick = 0; quick < 2; quick++)
    for (int i = 0; ops_line(i, quick); i++) {
      char problem[OPS_PROBLEM] = "";
      ops_case c = {0};
      if (!ops_parse(ops_line(i, quick), &c, problem))
        FAIL("%s: %s", ops_line(i, quick), problem);
      else if (ops_build(ctx, &c) != SN_OK)
        FAIL("%s", sn_ctx_message(ctx));
      else {
        CHECK_EQ_STR(c.name, ops_line(i, quick));
        CHECK(c.read > 0 && c.write > 0 && c.flops >= 0);
      }
      sn_graph_destroy(c.graph);
    }
  sn_ctx_destroy(ctx);
}

static void check_cost(const char *line, double flops, double read, double write) {
  sn_ctx *ctx;
  char problem[OPS_PROBLEM];
  ops_case c = {0};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(ops_parse(line, &c, problem)) && CHECK(ops_build(ctx, &c) == SN_OK) &&
      (c.flops != flops || c.read != read || c.write != write))
    FAIL("%s: %g operations, %g bytes read, %g written", line, c.flops, c.read, c.write);
  sn_graph_destroy(c.graph);
  sn_ctx_destroy(ctx);
}

TEST(costs) {
  check_cost("matmul NT 2 3 5", 60, 4 * (10 + 15), 4 * 6);
  check_cost("matmul TN 2 3 5 7", 420, 4 * 7 * (10 + 15), 4 * 7 * 6);
  check_cost("matmul NN 2 3 5 bf16 weights", 60, 4 * 10 + 2 * 15, 4 * 6);
  /* 8 x 8 to 4 x 4 */
  check_cost("conv forward 1 4 8 8 6 3 3 2 1", 2 * 16 * 6 * 36, 4 * (256 + 216), 4 * 96);
  check_cost("conv grad-input 1 4 8 8 6 3 3 2 1", 2 * 16 * 6 * 36, 4 * (96 + 216), 4 * 256);
  check_cost("conv grad-weight 1 4 8 8 6 3 3 2 1", 2 * 16 * 6 * 36, 4 * (96 + 256), 4 * 216);
  check_cost("conv forward 1 3 1 20 4 1 3 2 1", 2 * 10 * 4 * 9, 4 * (60 + 36), 4 * 40);
  /* each query sees on average 2.5 of 4 keys */
  check_cost("attention 1 2 1 4 4 8", 4 * 2 * 4 * 4 * 8, 4 * (64 + 32 + 32), 4 * 64);
  check_cost("attention causal 1 2 1 4 4 8", 4 * 2 * 4 * 2.5 * 8, 4 * (64 + 32 + 32), 4 * 64);
  check_cost("adam 100", 1200, 1600, 1200);
  check_cost("gather 1000 8 5", 0, 4 * (5 * 8 + 5), 4 * 40);
  check_cost("sum rows 10 20", 200, 800, 40);
}

static void check_problem(const char *line, const char *text) {
  char problem[OPS_PROBLEM] = "";
  ops_case c;
  CHECK(!ops_parse(line, &c, problem));
  CHECK_STR_HAS(problem, text);
}

TEST(lines_that_are_wrong) {
  check_problem("", "expected an operation");
  check_problem("multiply 3", "there is no operation \"multiply\"");
  check_problem("matmul NT 3 4", "expected matmul NN|NT|TN|TT M N K");
  check_problem("matmul XX 3 4 5", "\"XX\": expected matmul");
  check_problem("matmul N 3 4 5", "\"N\": expected matmul");
  check_problem("add N 4", "\"N\": expected add N");
  check_problem("sum row 3 4", "\"row\": expected sum all|rows|columns");
  check_problem("add 3x", "\"3x\": expected up to");
  check_problem("add 99999999999", "expected up to");
  check_problem("add 1 2 3 4 5 6 7 8 9 10 11", "expected up to");
  char line[300];
  memset(line, ' ', sizeof line);
  memcpy(line, "add 1", 5);
  memset(line + 100, '7', 150);
  line[299] = '\0';
  check_problem(line, "too long");
}

static void check_not_built(const char *line, const char *text) {
  sn_ctx *ctx;
  char problem[OPS_PROBLEM];
  ops_case c = {0};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(ops_parse(line, &c, problem))) {
    CHECK_EQ_INT(ops_build(ctx, &c), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(ctx), text);
  }
  sn_graph_destroy(c.graph);
  sn_ctx_destroy(ctx);
}

TEST(sizes_that_are_wrong) {
  check_not_built("conv forward 1 4 8 8 6 3 3 0 1", "must be 1 or more, got 0 and 1");
  check_not_built("conv grad-input 1 4 1 8 6 1 3 0 1 2", "must be 1 or more, got 0 and 2");
  check_not_built("conv grad-weight 1 4 8 8 6 3 3 2 1 0", "must be 1 or more, got 2 and 0");
  check_not_built("conv forward 1 4 8 8 6 9 9 1 0", "conv");
  check_not_built("max_pool 1 4 8 8 3 0 1", "stride");
}

TEST(spaces_do_not_matter) {
  char problem[OPS_PROBLEM];
  ops_case c;
  CHECK(ops_parse("  attention   4 3 3 2 1 5\tcausal  backward\n", &c, problem));
  CHECK_EQ_STR(c.name, "attention 4 3 3 2 1 5 causal backward");
  CHECK_EQ_INT(c.n_words, 2);
  CHECK_EQ_INT(c.n_numbers, 6);
  CHECK_EQ_INT(c.n[5], 5);
}

/* --- the command --- */

static void check_fails(command_result r, int code, const char *message) {
  CHECK_EQ_INT(r.code, code);
  CHECK_EQ_STR(r.out, "");
  CHECK_STR_HAS(r.err, message);
  command_free(&r);
}

TEST(wrong_usage) {
  const char *shapes = test_scratch("shapes");
  files_put_text(shapes, "# a comment\n\nadd 10\nadd\n");
  check_fails(BENCH("operations"), 2, "unexpected argument operations");
  check_fails(BENCH("ops", "--workload", "ResNet-50"), 2, "not for ops");
  check_fails(BENCH("ops", "--profile"), 2, "not for ops");
  check_fails(BENCH("--quick"), 2, "are for ops");
  check_fails(BENCH("--shapes", "x"), 2, "are for ops");
  check_fails(BENCH("ops", "--repeat", "0"), 2, "--repeat");
  check_fails(BENCH("ops", "--quick", "--filter", "abacus"), 1, "no operation \"abacus\"");
  check_fails(BENCH("ops", "--shapes", "/no/such"), 1, "/no/such: cannot be read");
  check_fails(BENCH("ops", "--shapes", "/dev/zero"), 1, "/dev/zero: too long");
  check_fails(BENCH("ops", "--shapes", "/"), 1, "/: cannot be read: Is a directory");
  files_put(test_scratch("zeros"), "add 10\0\n", 8);
  check_fails(BENCH("ops", "--shapes", test_scratch("zeros")), 1, "expected text");
  check_fails(BENCH("ops", "--repeat", "1", "--shapes", shapes), 1,
              "shapes, line 4: \"add\": expected add N");
  files_put_text(shapes, "topk 4 50 51\n");
  check_fails(BENCH("ops", "--repeat", "1", "--shapes", shapes), 1,
              "shapes, line 1: topk 4 50 51: topk: k must lie in");
}

static double number(const sn_json *j, const char *key) {
  double x = NAN;
  CHECK(sn_json_number(sn_json_get(j, key), &x));
  return x;
}

static void check_row(const sn_json *row) {
  const char *name = sn_json_string(sn_json_get(row, "name"), NULL);
  double seconds = number(row, "seconds"), flops = number(row, "flops");
  double bytes = number(row, "bytes"), percent = number(row, "percent");
  double compute = flops / (1e9 * number(row, "peak_gflops"));
  double memory = bytes / (1e9 * number(row, "peak_gbs"));
  const char *bound = sn_json_string(sn_json_get(row, "bound"), NULL);
  bool good = seconds > 0 && bytes > 0 && number(row, "best_seconds") <= seconds;
  good = good && fabs(number(row, "gflops") - 1e-9 * flops / seconds) <= 1e-6 * flops;
  good = good && fabs(percent - 100 * fmax(compute, memory) / seconds) <= 1e-6 * percent;
  good = good && bound && strcmp(bound, compute > memory ? "arithmetic" : "memory") == 0;
  good = good && number(row, "threads") == 2 && number(row, "runs") >= 1;
  if (!good)
    FAIL("%s: the numbers do not fit together", name ? name : "?");
}

static bool has_kind(const sn_json *rows, const char *kind) {
  bool found = false;
  for (size_t i = 0; i < sn_json_size(rows); i++) {
    const char *name = sn_json_string(sn_json_get(sn_json_at(rows, i), "name"), NULL);
    found = found || (name && strncmp(name, kind, strlen(kind)) == 0 && name[strlen(kind)] == ' ');
  }
  return found;
}

typedef struct parsed {
  sn_ctx *ctx;
  sn_json_doc *doc;
  const sn_json *root;
} parsed;

static parsed parse(const char *text) {
  parsed p = {0};
  if (CHECK(sn_ctx_create(NULL, &p.ctx) == SN_OK) &&
      sn_json_parse(p.ctx, text, strlen(text), &p.doc) != SN_OK)
    FAIL("%s", sn_ctx_message(p.ctx));
  p.root = p.doc ? sn_json_root(p.doc) : NULL;
  return p;
}

static void end(parsed *p) {
  sn_json_destroy(p->doc);
  sn_ctx_destroy(p->ctx);
}

TEST(measures_one_of_each_kind) {
  command_result r = BENCH("ops", "--quick", "--repeat", "1", "--threads", "2", "--json");
  CHECK_EQ_INT(r.code, 0);
  parsed p = parse(r.out);
  for (size_t i = 0; i < sn_json_size(p.root); i++)
    check_row(sn_json_at(p.root, i));
  for (const ops_kind *k = ops_kinds; k->name; k++)
    if (!has_kind(p.root, k->name))
      FAIL("no line of %s is measured", k->name);
  CHECK_STR_HAS(r.err, "matmul NT 64 48 32: ");
  end(&p);
  command_free(&r);
}

TEST(measures_the_lines_of_a_file) {
  const char *shapes = test_scratch("lines");
  files_put_text(shapes, "add 100\n# no\nmatmul NT 8 8 8\nsum rows 4 5\n");
  command_result r =
      BENCH("ops", "--shapes", shapes, "--filter", "m", "--repeat", "2", "--json", "--quick");
  CHECK_EQ_INT(r.code, 0);
  parsed p = parse(r.out);
  CHECK_EQ_INT(sn_json_size(p.root), 2); /* add has no m */
  CHECK_EQ_STR(sn_json_string(sn_json_get(sn_json_at(p.root, 0), "name"), NULL), "matmul NT 8 8 8");
  CHECK_EQ_STR(sn_json_string(sn_json_get(sn_json_at(p.root, 0), "shape"), NULL), "NT 8 8 8");
  CHECK_EQ_STR(sn_json_string(sn_json_get(sn_json_at(p.root, 1), "group"), NULL), "reduce");
  CHECK(number(sn_json_at(p.root, 1), "runs") == 2);
  end(&p);
  command_free(&r);
}

TEST(filters_by_group_or_text) {
  command_result r = BENCH("ops", "--quick", "--repeat", "1", "--filter", "norm", "--json");
  parsed p = parse(r.out); /* normal is pointwise */
  CHECK(has_kind(p.root, "layer_norm") && has_kind(p.root, "softmax"));
  CHECK(!has_kind(p.root, "normal"));
  end(&p);
  command_free(&r);
  r = BENCH("ops", "--quick", "--repeat", "1", "--filter", "rm", "--json");
  p = parse(r.out);
  CHECK(has_kind(p.root, "normal") && has_kind(p.root, "permutation"));
  CHECK(!has_kind(p.root, "softmax"));
  end(&p);
  command_free(&r);
}

/* --- reports --- */

static const ops_row rows[] = {
    {"matmul NN 1 2 3", "matmul", "f32", 2e9, 1e6, 0.02, 0.01, 5, 2, 200e9,
     20e9}, /* 10 ms of 20: arithmetic */
    {"add 1", "pointwise", "f32", 1e6, 4e8, 0.025, 0.02, 5, 2, 200e9,
     20e9}, /* 20 ms of 25: memory */
    {"matmul NN 4 5 6", "matmul", "f32", 2e9, 1e6, 0.1, 0.1, 5, 2, 200e9, 20e9}}; /* 10 ms of 100 */

TEST(percent_of_the_bound) {
  CHECK(ops_is_compute(&rows[0]) && !ops_is_compute(&rows[1]));
  CHECK_NEAR(ops_percent(&rows[0]), 50, 1e-9);
  CHECK_NEAR(ops_percent(&rows[1]), 80, 1e-9);
  CHECK_NEAR(ops_percent(&rows[2]), 10, 1e-9);
  CHECK_EQ_INT(ops_percent(&(ops_row){.flops = 1}), 0);
}

TEST(table_shows_the_slowest) {
  char text[8192] = "";
  FILE *f = fopen(test_scratch("table"), "w+");
  REQUIRE(f != NULL);
  ops_table(f, rows, 3);
  rewind(f);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  CHECK_STR_HAS(text, "2 threads; peaks, the highest of all rows: 200.0 GFLOP/s, 20.0 GB/s beyond");
  CHECK_STR_HAS(text, "100.0      0.1      20.0    50.0 % arithmetic");
  CHECK_STR_HAS(text, "16.0      20.0    80.0 % memory");
  CHECK_STR_HAS(text, "furthest from its bound: matmul NN 4 5 6, 10.0 %");
  CHECK_STR_HAS(text, "furthest from its bound of all: matmul NN 4 5 6, 10.0 %");
  const char *matmuls = strstr(text, "\nmatmul\n"), *second = strstr(text, "matmul NN 4 5 6  ");
  CHECK(matmuls && second && second < strstr(text, "\npointwise\n")); /* groups stand together */
}

/* --- peaks --- */

/* How fast is the machine's business: another process may take any of these tries. */
TEST(peaks) {
  for (int threads = 1; threads <= 2; threads++) {
    bench_peak *p = bench_peak_create(threads, 1e6);
    REQUIRE(p != NULL);
    double flops = bench_peak_flops(p);
    CHECK(flops > 0 && flops < 1e14);
    for (double bytes = 0; bytes < 1e7; bytes = bytes * 30 + 1000) { /* also more than there is */
      double copy = bench_peak_copy(p, bytes);
      CHECK(copy > 0 && copy < 1e14);
      for (int kind = 0; kind < BENCH_PEAK_KINDS; kind++) {
        double rate = bench_peak_try(p, (bench_peak_kind)kind, bytes);
        CHECK(rate > 0 && rate < 1e14);
      }
    }
    bench_peak_destroy(p);
  }
  bench_peak_destroy(NULL);
}
