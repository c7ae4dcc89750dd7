/* A drawn hundredth of all pairs of ops (support/drawn_pairs.h); test_long_op_pairs runs all. */
#include "support/drawn_pairs.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

TEST(a_hundredth_of_all_pairs) {
  int64_t n = op_pair_count(), made = 0, all = 0;
  for (int64_t i = 37; i < n && !test_failed(); i += 101, all++) {
    char why[1200], *text = NULL;
    bool is_made = false;
    op_pair p = op_pair_at(i);
    if (!op_pair_check(p, NULL, &is_made, why, sizeof why, &text)) {
      printf("%s\n", text ? text : "");
      FAIL("pair %lld: %s", (long long)i, why);
    }
    free(text);
    made += is_made;
  }
  if (!test_failed())
    CHECK(made * 10 >= all * 9);
}
