/* Tests of the harness itself, through quiet runs: what must fail fails, and is named. */
#include "support/command.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void failing_checks(void *arg) {
  int which = *(int *)arg;
  const float bytes[2] = {1.0f, 2.0f}, others[2] = {1.0f, 3.0f};
  switch (which) {
  case 0: CHECK(1 == 2); break;
  case 1: CHECK_EQ_INT(-1, 2); break;
  case 2: CHECK_EQ_UINT(1, 2); break;
  case 3: CHECK_EQ_PTR(bytes, others); break;
  case 4: CHECK_EQ_STR("one\ntwo", "one\ntwp"); break;
  case 5: CHECK_EQ_STR("one", NULL); break;
  case 6: CHECK_EQ_MEM(bytes, others, sizeof bytes); break;
  case 7: CHECK_STR_HAS("matmul: sizes differ", "shape"); break;
  case 8: CHECK_NEAR(1.0, 1.1, 0.01); break;
  case 9: CHECK_NEAR((double)NAN, (double)NAN, 1.0); break;
  case 10: CHECK_NEAR((double)INFINITY, 1.0, 1.0); break;
  case 11: FAIL("%s", "in words"); break;
  default: REQUIRE(which < 0); break;
  }
}

TEST(every_check_can_fail) {
  for (int i = 0; i <= 12; i++) {
    test_result result = test_probe(failing_checks, &i);
    if (!CHECK_EQ_INT(result.failed, 1))
      FAIL("check %d let an error pass", i);
    CHECK_STR_HAS(result.failed_check, "test_harness.c:");
  }
  int text = 4;
  test_result result = test_probe(failing_checks, &text);
  CHECK_STR_HAS(result.failed_check, "line 2, column 3: \"two\", expected \"twp\"");
}

static void passing_checks(void *arg) {
  (void)arg;
  CHECK(true);
  CHECK_EQ_INT(-1, -1);
  CHECK_EQ_UINT(UINT64_MAX, UINT64_MAX);
  CHECK_EQ_STR("a", "a");
  CHECK_EQ_STR(NULL, NULL);
  CHECK_EQ_MEM("ab", "ac", 1);
  CHECK_STR_HAS("abc", "b");
  CHECK_NEAR((double)INFINITY, (double)INFINITY, 0.0);
  REQUIRE(true);
}

TEST(every_check_can_pass) {
  test_result result = test_probe(passing_checks, NULL);
  CHECK_EQ_INT(result.passed, 1);
  CHECK_EQ_INT(result.failed, 0);
}

static void sub_tests(void *arg) {
  (void)arg;
  static const char *const names[] = {"good", "bad", "absent"};
  for (int i = 0; i < 3; i++) {
    if (!test_begin("%s/case%d", names[i], i))
      continue;
    CHECK(i != 1);
    if (i == 2)
      test_skip("nothing there");
    test_end();
  }
}

TEST(sub_tests_are_counted_and_named) {
  test_result result = test_probe(sub_tests, NULL);
  CHECK_EQ_INT(result.passed, 1);
  CHECK_EQ_INT(result.failed, 1);
  CHECK_EQ_INT(result.skipped, 1);
  CHECK_EQ_STR(result.failed_test, "probe/bad/case1");
  CHECK(!test_failed());
}

/* What the mutation run does: the walk below notices the mutant in one named sub-test. */
static int mutant = -1;

TEST_WALK(walk) {
  for (int i = 0; i < 12; i++) {
    if (!test_begin("square/case%d", i))
      continue;
    CHECK_EQ_INT(i == mutant ? i : i * i, i * i);
    test_end();
  }
}

TEST(a_quiet_run_names_what_failed) {
  mutant = 5;
  test_result all = test_run_quietly("walk/square");
  test_result exact = test_run_quietly("=walk/square/case1");
  test_result glob = test_run_quietly("walk/*/case1?");
  mutant = -1;
  CHECK_EQ_INT(all.passed, 11);
  CHECK_EQ_INT(all.failed, 1);
  CHECK_EQ_STR(all.failed_test, "walk/square/case5");
  CHECK_STR_HAS(all.failed_check, "i == mutant");
  CHECK_EQ_INT(exact.passed + exact.failed, 1);
  CHECK_EQ_INT(glob.passed, 2);
  CHECK(!test_failed());
}

static void unfinished(void *arg) {
  (void)arg;
  if (test_begin("left open"))
    SKIP("returned too early");
}

static void closing_test(void) { CHECK(true); }

__attribute__((constructor)) static void register_closing_test(void) {
  static test_case self = {"closing", __FILE__, TEST_LAST, false, closing_test, false, NULL};
  test_register_(&self);
}

/* Parts have every test once, those of walks too, in turn; but that which closes all is in each. */
TEST(parts_share_the_tests) {
  const char *self = command_test("test_support_harness");
  command_result all = command_run(self, "--list", (char *)NULL);
  const char *rest[3];
  command_result parts[3];
  int n = 0;
  for (int i = 0; i < 3; i++) {
    char part[8];
    snprintf(part, sizeof part, "%d/3", i + 1);
    parts[i] = command_run(self, "--part", part, "--list", (char *)NULL);
    rest[i] = parts[i].out;
  }
  for (const char *line = all.out; *line && strcmp(line, "closing\n") != 0; n++) {
    size_t size = strcspn(line, "\n") + 1;
    if (CHECK(strncmp(line, rest[n % 3], size) == 0))
      rest[n % 3] += size;
    line += size;
  }
  CHECK(n > 6 && strstr(all.out, "walk/"));
  for (int i = 0; i < 3; i++) {
    CHECK_EQ_STR(rest[i], "closing\n");
    command_free(&parts[i]);
  }
  command_free(&all);
  static const char *const wrong[] = {"0/3", "4/3", "1", "1/0", "1/3x", "a/b"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    command_result r = command_run(self, "--part", wrong[i], "--list", (char *)NULL);
    CHECK_EQ_INT(r.code, 2);
    CHECK_STR_HAS(r.err, "usage");
    command_free(&r);
  }
}

TEST(an_open_sub_test_is_a_failure) {
  test_result result = test_probe(unfinished, NULL);
  CHECK_EQ_INT(result.failed, 1);
  CHECK_EQ_STR(result.failed_test, "probe/left open");
}

TEST(files_are_found) {
  CHECK(test_shared("surely/not/there") == NULL);
  FILE *source = fopen(test_source("tests/support/test.h"), "r");
  REQUIRE(source != NULL);
  fclose(source);
  FILE *scratch = fopen(test_scratch("file"), "w");
  REQUIRE(scratch != NULL);
  fclose(scratch);
}
