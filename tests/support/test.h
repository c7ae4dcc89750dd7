/* The test harness. A file tests/<folder>/test_<thing>.c is one executable:
 *
 *   #include "support/test.h"
 *
 *   TEST(adds_two_numbers) {
 *     CHECK_EQ_INT(add(1, 2), 3);
 *   }
 *
 *   TEST_WALK(every_op) {                        // a test made of tests known only at run time
 *     for (int i = 0; i < op_count(); i++) {
 *       if (!test_begin("%s", op_name(i))) continue;   // filtered out
 *       check_op(i);                                   // CHECKs count for every_op/<op name>
 *       test_end();
 *     }
 *   }
 *
 * Tests register themselves; main() is in test.c. A failed CHECK prints and marks the running test
 * failed; the test goes on. All CHECKs yield true when they hold, so `if (!CHECK(p)) return;`
 * guards what follows. They may be used from threads that a test starts and joins.
 *
 * Running: test_x [-v] [--list] [--part I/N] [filter...]. A filter is a part of a name, a glob when
 * it holds `*` or `?`, or an exact name after `=` (=every_op/softmax). A walk's tests are named
 * walk/name. --part 2/3: of every three tests the second, so that three processes share them. The last line printed is `N passed, N failed, N skipped`. */
#ifndef SINEW_TESTS_SUPPORT_TEST_H
#define SINEW_TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Defining tests */

#define TEST(name)      TEST_DEFINE_(name, false)
#define TEST_WALK(name) TEST_DEFINE_(name, true)

/* Ends the running test as skipped. The reason is reported; in CI it must be an allowed one.
 * Inside a walk's sub-test use test_skip() and test_end() instead, so that the walk goes on. */
#define SKIP(...)           \
  do {                      \
    test_skip(__VA_ARGS__); \
    return;                 \
  } while (0)

/* --- Checks: each evaluates its arguments once */

#define TEST_AT_ __FILE__, __LINE__

#define CHECK(cond)            test_check_(TEST_AT_, (cond) ? true : false, #cond)
#define CHECK_EQ_INT(a, b)     test_eq_int_(TEST_AT_, #a, #b, (long long)(a), (long long)(b))
#define CHECK_EQ_UINT(a, b)    test_eq_uint_(TEST_AT_, #a, #b, (uint64_t)(a), (uint64_t)(b))
#define CHECK_EQ_PTR(a, b)     test_eq_ptr_(TEST_AT_, #a, #b, (a), (b))
#define CHECK_EQ_STR(a, b)     test_eq_str_(TEST_AT_, #a, #b, (a), (b))
#define CHECK_EQ_MEM(a, b, n)  test_eq_mem_(TEST_AT_, #a, #b, (a), (b), (n))
#define CHECK_STR_HAS(s, part) test_str_has_(TEST_AT_, #s, (s), (part))
/* |a - b| <= tol. Equal infinities are near; a NaN is near nothing. */
#define CHECK_NEAR(a, b, tol) test_near_(TEST_AT_, #a, #b, (double)(a), (double)(b), (double)(tol))
/* As CHECK, but leaves the (void) function when it fails. */
#define REQUIRE(cond) \
  do {                \
    if (!CHECK(cond)) \
      return;         \
  } while (0)
/* A failure in words: FAIL("%s: row %d differs", name, row). */
#define FAIL(...) test_fail_(TEST_AT_, __VA_ARGS__)

#define TEST_PRINTF_(fmt, args) __attribute__((format(printf, fmt, args)))

/* --- Sub-tests of a TEST_WALK */

/* Opens the sub-test <walk>/<name>. False when a filter leaves it out: then do not call test_end.
 * Sub-tests do not nest. */
bool test_begin(const char *format, ...) TEST_PRINTF_(1, 2);
void test_end(void);
/* Marks the running test (or sub-test) skipped and returns to the caller. */
void test_skip(const char *format, ...) TEST_PRINTF_(1, 2);
/* Whether the running test (or sub-test) has failed so far. */
bool test_failed(void);

/* --- Quiet runs, for tests of tests (mutation): apply a mutant, run the walk, see what noticed */

typedef struct test_result {
  int passed, failed, skipped;
  char failed_test[160];   /* name of the first test that failed, or "" */
  char failed_check[1536]; /* its first failed check, as `file:line: text`, or "" */
} test_result;

/* Runs body(arg) as one quiet test; nothing in it counts for the caller. It may open sub-tests. */
test_result test_probe(void (*body)(void *arg), void *arg);
/* Runs the registered tests that match the filter (see above), except those already running. */
test_result test_run_quietly(const char *filter);

/* --- Files. Returned strings live until the process ends. */

/* A path in the folder of shared data (environment SINEW_SHARED, or shared/ beside the source
 * tree), or NULL when it does not exist. */
const char *test_shared(const char *relative);
/* A path in the source tree, present or not. */
const char *test_source(const char *relative);
/* A path for a scratch file, in a folder of this process that is removed at exit. */
const char *test_scratch(const char *name);

/* --- Behind the macros */

/* The line of a test that closes all others, such as one that says what they have found: it runs last, and in every part. */
#define TEST_LAST INT32_MAX

typedef struct test_case {
  const char *name;
  const char *file;
  int line; /* tests run in this order */
  bool walk;
  void (*run)(void);
  bool running;
  struct test_case *next;
} test_case;

#define TEST_DEFINE_(id, is_walk)                                                           \
  static void test_run_##id(void);                                                          \
  __attribute__((constructor)) static void test_register_##id(void) {                       \
    static test_case self = {#id, __FILE__, __LINE__, is_walk, test_run_##id, false, NULL}; \
    test_register_(&self);                                                                  \
  }                                                                                         \
  static void test_run_##id(void)

void test_register_(test_case *test);
bool test_check_(const char *file, int line, bool ok, const char *text);
bool test_fail_(const char *file, int line, const char *format, ...) TEST_PRINTF_(3, 4);
bool test_eq_int_(const char *file, int line, const char *a_text, const char *b_text, long long a,
                  long long b);
bool test_eq_uint_(const char *file, int line, const char *a_text, const char *b_text, uint64_t a,
                   uint64_t b);
bool test_eq_ptr_(const char *file, int line, const char *a_text, const char *b_text, const void *a,
                  const void *b);
bool test_eq_str_(const char *file, int line, const char *a_text, const char *b_text, const char *a,
                  const char *b);
bool test_eq_mem_(const char *file, int line, const char *a_text, const char *b_text, const void *a,
                  const void *b, size_t size);
bool test_str_has_(const char *file, int line, const char *text, const char *string,
                   const char *part);
bool test_near_(const char *file, int line, const char *a_text, const char *b_text, double a,
                double b, double tolerance);

#endif
