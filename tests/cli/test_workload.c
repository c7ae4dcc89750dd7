/* sinew workload, as a user runs it: wrong usage, one step as JSON, training steps. The numbers themselves are
 * compared in tests/nn/test_workload.c and tests/long/test_workload_goldens.c. */
#include "support/command.h"
#include "support/files.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <stdio.h>
#include <string.h>

#define WORKLOAD(...) command_run(command_sinew(), "workload", __VA_ARGS__, (char *)NULL)

static void check_fails(command_result r, int code, const char *message) {
  CHECK_EQ_INT(r.code, code);
  CHECK_EQ_STR(r.out, "");
  CHECK_STR_HAS(r.err, message);
  command_free(&r);
}

TEST(wrong_usage) {
  check_fails(command_run(command_sinew(), "workload", (char *)NULL), 2, "NAME");
  check_fails(WORKLOAD("LeNet"), 2, "no workload \"LeNet\"; there are SmolLM2-135M, SmolVLA, ");
  check_fails(WORKLOAD("SmolVLA", "--lr", "1"), 2, "--lr means nothing without --steps");
  check_fails(WORKLOAD("SmolVLA", "--optimizer", "sgd"), 2, "--optimizer means nothing without");
  check_fails(WORKLOAD("SmolVLA", "--steps", "1", "--lr", "nan"), 2, "--lr: not a number");
  check_fails(WORKLOAD("SmolVLA", "--threads", "1025"), 2, "--threads: expected 0 … 1024");
  check_fails(WORKLOAD("SmolVLA", "--device", "abacus"), 2, "abacus");
  check_fails(WORKLOAD("SmolVLA", "--init", "dead"), 2, "expected arena or live");
  check_fails(WORKLOAD("SmolVLA", "--optimizer", "lion"), 2, "expected sgd or adam");
  check_fails(WORKLOAD("SmolVLA", "--threads", "-1"), 2, "--threads");
  check_fails(WORKLOAD("SmolVLA", "--steps", "-1"), 2, "--steps");
  check_fails(WORKLOAD("SmolVLA", "--lr", "-0.1"), 2, "--lr");
  check_fails(WORKLOAD("SmolVLA", "--lr", "inf"), 2, "--lr");
  check_fails(WORKLOAD("SmolVLA", "--steps", "2", "--dump", "x.json"), 2, "--dump");
}

TEST(failures) {
  check_fails(WORKLOAD("StableDiffusion", "--dump", test_scratch("no/such/folder/x.json")), 1,
              "x.json: cannot be written: No such file or directory");
  check_fails(WORKLOAD("StableDiffusion", "--plan-cache", "/no/such/folder"), 1,
              "--plan-cache: /no/such/folder: No such file or directory");
}

/* A line a step; a second run with the same numbers gives the same losses. */
TEST(training_steps) {
  command_result r = WORKLOAD("StableDiffusion", "--init", "live", "--steps", "2", "--optimizer",
                              "sgd", "--lr", "0.00019", "--threads", "1");
  double first = NAN, second = NAN;
  int end = 0;
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_INT(sscanf(r.out, "step 0 loss %lf\nstep 1 loss %lf\n%n", &first, &second, &end), 2);
  CHECK_EQ_INT(end, strlen(r.out));
  CHECK_NEAR(first, 1.0974208988771628, 1e-5);
  CHECK_NEAR(second, 1.0427042523890133, 1e-4);
  command_free(&r);
}

static void check_dump(const sn_json *dump) {
  const sn_json *grads = sn_json_get(dump, "grads");
  double loss = NAN, l2 = NAN, rms = NAN;
  CHECK(sn_json_number(sn_json_get(dump, "loss"), &loss));
  CHECK(sn_json_number(sn_json_get(dump, "output_l2"), &l2));
  CHECK(sn_json_number(sn_json_get(dump, "output_rms"), &rms));
  CHECK_NEAR(loss, 0.504666911884545, 1e-6);
  CHECK_NEAR(l2, 0.8544373855347784, 1e-6);
  CHECK_NEAR(rms * sqrt(2 * 4 * 32 * 32), l2, 1e-6);
  CHECK_EQ_INT(sn_json_size(sn_json_get(dump, "output_shape")), 4);
  CHECK_EQ_INT(sn_json_size(sn_json_get(dump, "output_first32")), 32);
  CHECK_EQ_INT(sn_json_size(sn_json_get(dump, "output_last8")), 8);
  CHECK_EQ_INT(sn_json_size(grads), 53);
  for (size_t i = 0; i < sn_json_size(grads); i++) {
    const sn_json *g = sn_json_at(grads, i);
    CHECK(sn_json_size(sn_json_get(g, "shape")) > 0);
    CHECK(sn_json_number(sn_json_get(g, "l2"), &l2) && l2 > 0);
    CHECK_EQ_INT(sn_json_size(sn_json_get(g, "first4")), 4);
    CHECK_EQ_INT(sn_json_size(sn_json_get(g, "last4")), 4);
  }
}

/* The file is written whole, over one that was there; nothing else stays in its folder. The plan is kept beside. */
TEST(one_step) {
  char path[512], plans[512];
  const char *folder = files_new_folder("step");
  snprintf(plans, sizeof plans, "%s", files_new_folder("plans"));
  snprintf(path, sizeof path, "%s", files_in(folder, "step.json"));
  files_put_text(path, "old");
  command_result r = WORKLOAD("StableDiffusion", "--dump", path, "--plan-cache", plans);
  sn_json_doc *doc;
  sn_ctx *ctx;
  CHECK_EQ_INT(r.code, 0);
  CHECK_EQ_STR(r.out, "");
  command_free(&r);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_json_parse_file(ctx, path, &doc) == SN_OK))
    check_dump(sn_json_root(doc));
  CHECK_EQ_INT(files_count(folder), 1);
  CHECK_EQ_INT(files_count(plans), 1);
  files_remove_folder(folder);
  files_remove_folder(plans);
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
}
