/* All pairs of ops (support/drawn_pairs.h), a sub-test for each first op: `=pairs/matmul` runs those that read a matmul. On the
 * device of SINEW_TEST_DEVICE. PAIRS_EVERY leaves all out but every so manyth; PAIRS_FAILURES shows more than the first failure of an op. */
#include "support/drawn_pairs.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t number_from(const char *variable, int64_t usual) {
  const char *n = getenv(variable);
  return n ? atoll(n) : usual;
}

/* All with one first op; how many came about. */
static int64_t check_from(int64_t first, int64_t behind, int64_t every, drawn_tally *tally) {
  int64_t made = 0, failures = number_from("PAIRS_FAILURES", 1);
  for (int64_t i = first + first % every; i < behind && failures > 0; i += every) {
    char why[1200], *text = NULL;
    bool is_made = false;
    op_pair p = op_pair_at(i);
    const op_desc *ops = op_table_get()->ops;
    if (!op_pair_check(p, tally, &is_made, why, sizeof why, &text)) {
      printf("pair %lld: %s\n%s\n", (long long)i, why, text ? text : "");
      FAIL("%s in argument %d of %s (%d): %s", ops[p.from].name, p.argument, ops[p.to].name,
           (int)p.between, why);
      failures--;
    }
    if (!is_made && getenv("PAIRS_UNMADE"))
      printf("unmade: %s in argument %d of %s (%d)\n", ops[p.from].name, p.argument, ops[p.to].name,
             (int)p.between);
    free(text);
    made += is_made;
  }
  return made;
}

TEST_WALK(pairs) {
  static drawn_tally tally;
  int64_t each = op_pair_count() / (OP_COUNT - 1), every = number_from("PAIRS_EVERY", 1);
  int64_t made = 0;
  for (int op = 1; op < OP_COUNT; op++) {
    if (!test_begin("%s", op_table_get()->ops[op].name))
      continue;
    made += check_from((op - 1) * each, op * each, every, &tally);
    test_end();
  }
  printf("%lld of %lld pairs came about\n", (long long)made, (long long)op_pair_count());
}
