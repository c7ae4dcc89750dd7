/* Drawn graphs (support/drawn_graph.h) for long: DRAWN_GRAPHS of them (200,000) from DRAWN_SEED on, on the device of
 * SINEW_TEST_DEVICE. Every thousand says how far it is, so that a run can go on at the next seed. In the end the counter: each op
 * with each dtype of each argument and each word of its attributes must have been run and compared 100 times, on
 * as many graphs as that takes. DRAWN_FAILURES shows more than the first failure. */
#include "support/drawn_check.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 200000, ENOUGH = 100, GRAPHS_FOR_ENOUGH = 100000 };

static uint64_t number_from(const char *variable, uint64_t usual) {
  const char *n = getenv(variable);
  return n ? strtoull(n, NULL, 10) : usual;
}

static bool check_seed(uint64_t seed, drawn_tally *tally) {
  uint8_t bytes[256];
  char why[1200], *text = NULL;
  size_t n = drawn_bytes(seed, bytes, sizeof bytes);
  if (drawn_check_bytes(bytes, n, 0, tally, why, sizeof why, &text))
    return true;
  printf("seed %llu: %s\n%s\n", (unsigned long long)seed, why, text ? text : "");
  free(text);
  return FAIL("seed %llu: %s", (unsigned long long)seed, why);
}

static void say(const char *line) { printf("too few: %s\n", line); }

TEST(drawn_graphs_equal_the_reference) {
  static drawn_tally tally;
  uint64_t graphs = number_from("DRAWN_GRAPHS", GRAPHS), first = number_from("DRAWN_SEED", 1);
  uint64_t failures = number_from("DRAWN_FAILURES", 1);
  for (uint64_t seed = first; seed < first + graphs && failures > 0; seed++) {
    failures -= !check_seed(seed, &tally);
    if ((seed + 1 - first) % 1000 == 0) {
      printf("%llu of %llu; the next seed is %llu\n", (unsigned long long)(seed + 1 - first),
             (unsigned long long)graphs, (unsigned long long)(seed + 1));
      fflush(stdout);
    }
  }
  drawn_tally_print(&tally);
  int missing = drawn_tally_missing(&tally, ENOUGH, say);
  if (graphs >= GRAPHS_FOR_ENOUGH)
    CHECK_EQ_INT(missing, 0);
}
