/* sinew inspect, as a user runs it. What the reports look like is in test_inspect_report.c. */
#include "support/command.h"
#include "support/files.h"
#include "support/model_folder.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define INSPECT(...) command_run(command_sinew(), "inspect", __VA_ARGS__, (char *)NULL)

static void check_fails(command_result r, int code, const char *message) {
  CHECK_EQ_INT(r.code, code);
  CHECK_EQ_STR(r.out, "");
  CHECK_STR_HAS(r.err, message);
  command_free(&r);
}

static void check_prints(command_result r, const char *part) {
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_STR(r.err, "");
  CHECK_STR_HAS(r.out, part);
  command_free(&r);
}

TEST(wrong_usage) {
  check_fails(INSPECT("--json"), 2, "one of MODEL_DIR, GRAPH.txt and --workload");
  check_fails(INSPECT("folder", "--workload", "SmolVLA"), 2,
              "one of MODEL_DIR, GRAPH.txt and --workload");
  check_fails(INSPECT("--workload", "LeNet"), 2, "no workload \"LeNet\"");
  check_fails(INSPECT(""), 2, "MODEL_DIR|GRAPH.txt is empty");
  check_fails(INSPECT("--workload", "StableDiffusion", "--device", "abacus"), 2, "abacus");
  check_fails(INSPECT("--workload", "SmolVLA", "--json", "--plan"), 2,
              "--graph, --plan and --json");
}

TEST(a_graph_from_a_file) {
  const char *graph = test_source("tests/fixtures/run/rounding.txt");
  const char *bad = test_scratch("bad.txt");
  check_prints(INSPECT(graph), "rounding.txt, inference, compiled for ");
  check_prints(INSPECT(graph, "--graph"), "matmul");
  check_prints(INSPECT(graph, "--plan"), "step 0 matmul");
  check_prints(INSPECT(graph, "--json"), "rounding.txt\",\n\"purpose\": \"inference\"");
  check_fails(INSPECT(graph, "--train"), 2, "--train is not for a graph in a file");
  check_fails(INSPECT(graph, "--workload", "SmolVLA"), 2, "one of MODEL_DIR, GRAPH.txt and");
  files_put_text(bad, "%1 = inpt()\n");
  check_fails(INSPECT(bad), 1, "bad.txt: graph text 1:6: ");
  check_fails(INSPECT("/no/such.txt"), 1, "/no/such.txt: cannot open");
}

TEST(failures) {
  check_fails(INSPECT("/no/such/folder"), 1, "/no/such/folder");
  check_fails(INSPECT("--workload", "StableDiffusion", "--html", test_scratch("no/such/x.html")), 1,
              "x.html: cannot be written: No such file or directory");
  check_fails(INSPECT("--workload", "StableDiffusion", "--html", "/"), 1,
              "/: cannot be written: Is a directory");
}

static double number(const sn_json *j, const char *key) {
  double x = NAN;
  CHECK(sn_json_number(sn_json_get(j, key), &x));
  return x;
}

TEST(numbers_of_a_workload) {
  command_result r = INSPECT("--workload", "StableDiffusion", "--json");
  sn_ctx *ctx;
  sn_json_doc *doc;
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_STR(r.err, "");
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_json_parse(ctx, r.out, strlen(r.out), &doc) == SN_OK)) {
    const sn_json *j = sn_json_root(doc);
    CHECK(number(j, "steps") > 20 && number(j, "launches") >= number(j, "steps"));
    CHECK(number(j, "peak_bytes") >= number(j, "lower_bound_bytes"));
    CHECK(number(j, "state_bytes") == 21176320);
    CHECK(sn_json_size(sn_json_get(j, "lifetimes")) > 10);
    CHECK(number(sn_json_get(j, "archetypes"), "matmul") >= 23);
  }
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  command_free(&r);
}

TEST(forms) {
  check_prints(INSPECT("--workload", "StableDiffusion"), "costliest steps");
  check_prints(INSPECT("--workload", "StableDiffusion", "--graph"), "conv");
  check_prints(INSPECT("--workload", "StableDiffusion", "--plan"), "step 0");
  command_result ref = INSPECT("--workload", "StableDiffusion", "--device", "ref");
  CHECK_STR_HAS(ref.err, "ref compiles nothing; shown for ");
  CHECK_STR_HAS(ref.out, "compiled for cpu");
  command_free(&ref);
  const char *page = test_scratch("page.html");
  command_result r = INSPECT("--workload", "StableDiffusion", "--html", page);
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_STR(r.out, "");
  CHECK_STR_HAS(r.err, "wrote ");
  CHECK_STR_HAS(r.err, page);
  command_free(&r);
  FILE *f = fopen(page, "r");
  char begin[64] = "";
  if (CHECK(f != NULL))
    CHECK(fread(begin, 1, sizeof begin - 1, f) > 0);
  CHECK_STR_HAS(begin, "<!doctype html>");
  if (f)
    fclose(f);
}

TEST(a_model_folder) {
  const char *folder = test_scratch("model");
  (void)mkdir(folder, 0777);
  config_write(folder, config_llama, NULL);
  check_prints(INSPECT(folder), "inference");
  check_prints(INSPECT(folder, "--train"), "training");
}
