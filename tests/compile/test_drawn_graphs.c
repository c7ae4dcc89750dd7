/* Drawn graphs (support/drawn_graph.h) run as they compile: what is exact equals the reference bit for bit, the rest within
 * its error. DRAWN_GRAPHS is how many, DRAWN_SEED the first; DRAWN_OP names an op that each begins with; DRAWN_FAILURES shows more than the
 * first failure, DRAWN_BRIEF does not shrink, DRAWN_TALLY prints what was run. */
#include "support/drawn_check.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 1200, FIRST = 1 };

static uint64_t number_from(const char *variable, uint64_t usual) {
  const char *n = getenv(variable);
  return n ? strtoull(n, NULL, 10) : usual;
}

static bool check_seed(uint64_t seed, int op, drawn_tally *tally) {
  uint8_t bytes[256];
  char why[1200], *text = NULL;
  size_t n = drawn_bytes(seed, bytes, sizeof bytes);
  if (drawn_check_bytes(bytes, n, op, tally, why, sizeof why, &text))
    return true;
  printf("seed %llu: %s\n%s\n", (unsigned long long)seed, why, text ? text : "");
  fflush(stdout);
  free(text);
  return FAIL("seed %llu: %s", (unsigned long long)seed, why);
}

TEST(every_op_has_a_row) {
  for (int op = 1; op < OP_COUNT; op++)
    if (!drawn_op_row(op))
      FAIL("%s has no row in drawn_ops.def", op_table_get()->ops[op].name);
}

TEST(drawn_graphs_equal_the_reference) {
  static drawn_tally tally;
  uint64_t graphs = number_from("DRAWN_GRAPHS", GRAPHS), first = number_from("DRAWN_SEED", FIRST);
  uint64_t most = number_from("DRAWN_FAILURES", 1), wrong = 0;
  int only = 0;
  for (int op = 1; op < OP_COUNT && getenv("DRAWN_OP"); op++)
    if (strcmp(op_table_get()->ops[op].name, getenv("DRAWN_OP")) == 0)
      only = op;
  for (uint64_t seed = first; seed < first + graphs && wrong < most; seed++)
    wrong += !check_seed(seed, only, &tally);
  if (getenv("DRAWN_TALLY"))
    drawn_tally_print(&tally);
  if (graphs >= GRAPHS && !test_failed())
    for (int op = 1; op < OP_COUNT; op++)
      if (tally.op[op] == 0)
        FAIL("%s never ran", op_table_get()->ops[op].name);
}
