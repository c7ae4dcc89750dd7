/* The test harness (test.h): registration, filters, counting, reports, and main() of every test
 * executable.
 *
 * All state is one `run`. A quiet run swaps in a fresh one and restores the old afterwards, so
 * nothing that happens in it can count for the test that started it. Failures may come from
 * threads; they are recorded under one lock. */
#include "support/test.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_SIZE = 160, TEXT_SIZE = 1024, SHOWN_FAILURES = 20 };

/* What is counted: a test, a sub-test, or a probe's body. */
typedef struct unit {
  char name[NAME_SIZE];
  int failures;
  bool skipped;
  char reason[TEXT_SIZE];
  double started;
} unit;

typedef struct skip_note {
  struct skip_note *next;
  char text[NAME_SIZE + TEXT_SIZE + 4];
} skip_note;

typedef struct run {
  const char *const *filters;
  int filter_count;
  int part, parts,
      met; /* of every `parts` tests that match, the one at `part`; 0 parts: all. How many matched */
  bool quiet, verbose, listing;
  test_result result;
  unit test;
  unit sub;
  bool may_have_subs, in_sub, had_subs;
  /* Whether the running test itself matches the filters, and so all of its sub-tests. */
  bool whole_test;
  skip_note *skips, **skips_end;
} run;

static test_case *tests;
static run *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Name for the crash report: a signal handler must not walk the run. */
static char running_name[NAME_SIZE];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A harness that is used wrongly says so and stops; it must never pass by accident. */
static void misuse(const char *what) {
  fprintf(stderr, "test harness: %s (in %s)\n", what, running_name);
  exit(2);
}

void test_register_(test_case *test) {
  test_case **at = &tests;
  while (*at && (*at)->line < test->line)
    at = &(*at)->next;
  test->next = *at;
  *at = test;
}

/* --- Filters */

static bool matches_filter(const char *filter, const char *name) {
  if (filter[0] == '=')
    return strcmp(filter + 1, name) == 0;
  if (strpbrk(filter, "*?"))
    return fnmatch(filter, name, 0) == 0;
  return strstr(name, filter) != NULL;
}

static bool matches(const run *r, const char *name) {
  if (r->filter_count == 0)
    return true;
  for (int i = 0; i < r->filter_count; i++) {
    if (matches_filter(r->filters[i], name))
      return true;
  }
  return false;
}

/* Whether a test that matches is of the part that runs. */
static bool is_of_part(run *r) { return r->parts == 0 || r->met++ % r->parts == r->part; }

/* Whether the test itself runs; a walk is asked for each of its tests. */
static bool is_picked(run *r, const test_case *test) {
  return test->walk || (r->whole_test && (test->line == TEST_LAST || is_of_part(r)));
}

/* --- Units */

static unit *running_unit(run *r) { return r->in_sub ? &r->sub : &r->test; }

static void unit_open(unit *u, const char *name) {
  memset(u, 0, sizeof *u);
  snprintf(u->name, sizeof u->name, "%s", name);
  snprintf(running_name, sizeof running_name, "%s", name);
  u->started = seconds();
}

static void note_skip(run *r, const unit *u) {
  skip_note *note = calloc(1, sizeof *note);
  if (!note)
    return;
  snprintf(note->text, sizeof note->text, "%s: %s", u->name, u->reason);
  *r->skips_end = note;
  r->skips_end = &note->next;
}

static void unit_close(run *r, const unit *u) {
  const char *verdict = "ok";
  if (u->failures > 0) {
    r->result.failed++;
    verdict = "FAILED";
  } else if (u->skipped) {
    r->result.skipped++;
    note_skip(r, u);
    verdict = "skipped";
  } else {
    r->result.passed++;
  }
  if (r->quiet)
    return;
  if (r->verbose || u->failures > 0) {
    printf("%-7s %s (%.3f s)\n", verdict, u->name, seconds() - u->started);
    fflush(stdout);
  }
}

bool test_begin(const char *format, ...) {
  run *r = current;
  if (!r->may_have_subs)
    misuse("test_begin outside a TEST_WALK");
  if (r->in_sub)
    misuse("test_begin before test_end of the sub-test before");
  char own[NAME_SIZE], name[2 * NAME_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(own, sizeof own, format, args);
  va_end(args);
  snprintf(name, sizeof name, "%s/%s", r->test.name, own);
  r->had_subs = true;
  if ((!r->whole_test && !matches(r, name)) || !is_of_part(r))
    return false;
  if (r->listing) {
    printf("%s\n", name);
    return false;
  }
  unit_open(&r->sub, name);
  r->in_sub = true;
  return true;
}

void test_end(void) {
  run *r = current;
  if (!r->in_sub)
    misuse("test_end without test_begin");
  unit_close(r, &r->sub);
  r->in_sub = false;
  snprintf(running_name, sizeof running_name, "%s", r->test.name);
}

void test_skip(const char *format, ...) {
  unit *u = running_unit(current);
  va_list args;
  va_start(args, format);
  vsnprintf(u->reason, sizeof u->reason, format, args);
  va_end(args);
  u->skipped = true;
}

bool test_failed(void) { return running_unit(current)->failures > 0; }

/* --- Failures */

static void record_failure(const char *file, int line, const char *text) {
  pthread_mutex_lock(&lock);
  run *r = current;
  unit *u = running_unit(r);
  u->failures++;
  if (r->result.failed_test[0] == '\0') {
    snprintf(r->result.failed_test, sizeof r->result.failed_test, "%s", u->name);
    snprintf(r->result.failed_check, sizeof r->result.failed_check, "%s:%d: %s", file, line, text);
  }
  /* A check in a loop over a big tensor must not drown the first, telling lines. */
  if (!r->quiet && !r->listing && u->failures <= SHOWN_FAILURES) {
    printf("%s:%d: %s: %s\n", file, line, u->name, text);
    if (u->failures == SHOWN_FAILURES)
      printf("%s: further failures not shown\n", u->name);
    fflush(stdout);
  }
  pthread_mutex_unlock(&lock);
}

bool test_fail_(const char *file, int line, const char *format, ...) {
  char text[TEXT_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  record_failure(file, line, text);
  return false;
}

bool test_check_(const char *file, int line, bool ok, const char *text) {
  return ok || test_fail_(file, line, "CHECK(%s) is false", text);
}

bool test_eq_int_(const char *file, int line, const char *a_text, const char *b_text, long long a,
                  long long b) {
  return a == b || test_fail_(file, line, "%s == %s: %lld, expected %lld", a_text, b_text, a, b);
}

bool test_eq_uint_(const char *file, int line, const char *a_text, const char *b_text, uint64_t a,
                   uint64_t b) {
  return a == b || test_fail_(file, line, "%s == %s: %llu (0x%llx), expected %llu (0x%llx)", a_text,
                              b_text, (unsigned long long)a, (unsigned long long)a,
                              (unsigned long long)b, (unsigned long long)b);
}

bool test_eq_ptr_(const char *file, int line, const char *a_text, const char *b_text, const void *a,
                  const void *b) {
  return a == b || test_fail_(file, line, "%s == %s: %p, expected %p", a_text, b_text, a, b);
}

bool test_near_(const char *file, int line, const char *a_text, const char *b_text, double a,
                double b, double tolerance) {
  if (a == b || fabs(a - b) <= tolerance)
    return true;
  return test_fail_(file, line, "%s near %s: %.9g, expected %.9g within %.3g (off by %.3g)", a_text,
                    b_text, a, b, tolerance, fabs(a - b));
}

/* Texts may be whole files, so the report names the first line that differs. */
bool test_eq_str_(const char *file, int line, const char *a_text, const char *b_text, const char *a,
                  const char *b) {
  if (a && b && strcmp(a, b) == 0)
    return true;
  if (!a || !b) {
    if (a == b)
      return true;
    return test_fail_(file, line, "%s == %s: \"%s\", expected \"%s\"", a_text, b_text,
                      a ? a : "(null)", b ? b : "(null)");
  }
  size_t at = 0, start = 0;
  int number = 1;
  while (a[at] == b[at]) {
    if (a[at] == '\n') {
      number++;
      start = at + 1;
    }
    at++;
  }
  return test_fail_(file, line, "%s == %s: line %d, column %d: \"%.*s\", expected \"%.*s\"", a_text,
                    b_text, number, (int)(at - start) + 1, (int)strcspn(a + start, "\n"), a + start,
                    (int)strcspn(b + start, "\n"), b + start);
}

bool test_eq_mem_(const char *file, int line, const char *a_text, const char *b_text, const void *a,
                  const void *b, size_t size) {
  const unsigned char *p = a, *q = b;
  for (size_t i = 0; i < size; i++) {
    if (p[i] != q[i]) {
      return test_fail_(file, line, "%s == %s: byte %zu of %zu is 0x%02x, expected 0x%02x", a_text,
                        b_text, i, size, p[i], q[i]);
    }
  }
  return true;
}

bool test_str_has_(const char *file, int line, const char *text, const char *string,
                   const char *part) {
  if (string && part && strstr(string, part))
    return true;
  return test_fail_(file, line, "%s: \"%s\" does not contain \"%s\"", text,
                    string ? string : "(null)", part ? part : "(null)");
}

/* --- Running */

static void run_init(run *r, const char *const *filters, int filter_count) {
  memset(r, 0, sizeof *r);
  r->filters = filters;
  r->filter_count = filter_count;
  r->skips_end = &r->skips;
}

static void run_free(run *r) {
  while (r->skips) {
    skip_note *next = r->skips->next;
    free(r->skips);
    r->skips = next;
  }
}

static void finish_test(run *r) {
  if (r->in_sub) {
    test_fail_(__FILE__, __LINE__, "the test ended inside this sub-test");
    test_end();
  }
  /* A walk is counted by its sub-tests, and itself only when something outside them went wrong. */
  bool counts = !r->had_subs || r->test.failures > 0 || r->test.skipped;
  if (counts)
    unit_close(r, &r->test);
}

static void run_test(run *r, test_case *test) {
  r->whole_test = matches(r, test->name);
  if (test->running || !is_picked(r, test))
    return;
  if (r->listing && !test->walk) {
    printf("%s\n", test->name);
    return;
  }
  unit_open(&r->test, test->name);
  r->may_have_subs = test->walk;
  r->had_subs = false;
  test->running = true;
  test->run();
  test->running = false;
  if (r->listing)
    return;
  /* A walk that is there only because one of its sub-tests might have matched is no test. */
  if (!r->whole_test && !r->in_sub && r->test.failures == 0)
    return;
  if (test->walk && !r->had_subs && !r->test.skipped) {
    test_fail_(test->file, test->line, "the walk found nothing to test");
  }
  finish_test(r);
}

static void run_matching(run *r) {
  for (test_case *test = tests; test; test = test->next)
    run_test(r, test);
}

/* Makes `inner` the current run; the returned run is to be put back by leave_quiet. */
static run *enter_quiet(run *inner) {
  run *outer = current;
  inner->quiet = true;
  current = inner;
  return outer;
}

static test_result leave_quiet(run *inner, run *outer) {
  test_result result = inner->result;
  run_free(inner);
  current = outer;
  snprintf(running_name, sizeof running_name, "%s", running_unit(outer)->name);
  return result;
}

test_result test_probe(void (*body)(void *arg), void *arg) {
  run inner;
  run_init(&inner, NULL, 0);
  run *outer = enter_quiet(&inner);
  unit_open(&inner.test, "probe");
  inner.may_have_subs = true;
  inner.whole_test = true;
  body(arg);
  finish_test(&inner);
  return leave_quiet(&inner, outer);
}

test_result test_run_quietly(const char *filter) {
  run inner;
  run_init(&inner, &filter, 1);
  run *outer = enter_quiet(&inner);
  run_matching(&inner);
  return leave_quiet(&inner, outer);
}

/* --- Files */

typedef struct kept_path {
  struct kept_path *next;
  char text[];
} kept_path;

static kept_path *kept_paths;
static char scratch_folder[256];

static const char *keep_path(const char *folder, const char *relative) {
  size_t size = strlen(folder) + strlen(relative) + 2;
  kept_path *path = malloc(sizeof *path + size);
  if (!path)
    misuse("out of memory");
  snprintf(path->text, size, "%s/%s", folder, relative);
  pthread_mutex_lock(&lock);
  path->next = kept_paths;
  kept_paths = path;
  pthread_mutex_unlock(&lock);
  return path->text;
}

const char *test_source(const char *relative) { return keep_path(SINEW_SOURCE_DIR, relative); }

const char *test_shared(const char *relative) {
  const char *folder = getenv("SINEW_SHARED");
  const char *path = keep_path(folder ? folder : SINEW_SOURCE_DIR "/../shared", relative);
  return access(path, R_OK) == 0 ? path : NULL;
}

static void remove_scratch(void) {
  DIR *folder = opendir(scratch_folder);
  if (!folder)
    return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[sizeof scratch_folder + sizeof entry->d_name + 1];
    snprintf(path, sizeof path, "%s/%s", scratch_folder, entry->d_name);
    if (entry->d_name[0] != '.')
      unlink(path);
  }
  closedir(folder);
  rmdir(scratch_folder);
}

const char *test_scratch(const char *name) {
  if (scratch_folder[0] == '\0') {
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof scratch_folder, "%s/sinew-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch_folder))
      misuse("cannot create a scratch folder");
    atexit(remove_scratch);
  }
  return keep_path(scratch_folder, name);
}

/* --- main */

/* Only write() and raise() here: both are safe in a handler. */
static void report_crash(int number) {
  static const char before[] = "crashed in test ";
  ssize_t ignored = write(STDOUT_FILENO, before, sizeof before - 1);
  ignored = write(STDOUT_FILENO, running_name, strlen(running_name));
  ignored = write(STDOUT_FILENO, "\n", 1);
  (void)ignored;
  raise(number);
}

/* A sanitizer has handlers of its own, which tell more than ours: those are left alone. */
static void catch_crashes(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action;
    if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler != SIG_DFL)
      continue;
    memset(&action, 0, sizeof action);
    action.sa_handler = report_crash;
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(signals[i], &action, NULL);
  }
}

static int report(const run *r) {
  const test_result *result = &r->result;
  for (const skip_note *note = r->skips; note; note = note->next) {
    printf("skipped %s\n", note->text);
  }
  if (result->passed + result->failed + result->skipped == 0) {
    printf(r->filter_count > 0 ? "no test matches\n" : "no tests\n");
    return 2;
  }
  printf("%d passed, %d failed, %d skipped\n", result->passed, result->failed, result->skipped);
  return result->failed > 0 ? 1 : 0;
}

/* "2/3" is the second of three parts. */
static bool read_part(run *r, const char *text) {
  char end;
  if (!text || sscanf(text, "%d/%d%c", &r->part, &r->parts, &end) != 2 || r->part < 1 ||
      r->part > r->parts)
    return false;
  r->part--;
  return true;
}

int main(int argc, char **argv) {
  run whole;
  const char **filters = calloc((size_t)argc + 1, sizeof *filters);
  if (!filters)
    return 2;
  setenv("SINEW_CACHE", "off", 0);   /* tests leave nothing behind, and find nothing */
  setenv("GALLIVM_PERF", "nopt", 0); /* Mesa's software driver: most of its time is compiling */
  run_init(&whole, filters, 0);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-v") == 0) {
      whole.verbose = true;
    } else if (strcmp(argv[i], "--list") == 0) {
      whole.listing = true;
    } else if (strcmp(argv[i], "--part") == 0 && read_part(&whole, argv[i + 1])) {
      i++;
    } else if (argv[i][0] == '-') {
      fprintf(stderr, "usage: %s [-v] [--list] [--part I/N] [filter...]\n", argv[0]);
      free(filters);
      return 2;
    } else {
      filters[whole.filter_count++] = argv[i];
    }
  }
  catch_crashes();
  current = &whole;
  run_matching(&whole);
  int code = whole.listing ? 0 : report(&whole);
  run_free(&whole);
  free(filters);
  return code;
}
