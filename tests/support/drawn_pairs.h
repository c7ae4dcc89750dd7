/* All pairs of ops: the result of one read by each argument of the other, as it is or through something between. */
#ifndef SINEW_TESTS_SUPPORT_DRAWN_PAIRS_H
#define SINEW_TESTS_SUPPORT_DRAWN_PAIRS_H

#include "support/drawn_check.h"

typedef enum pair_between {
  PAIR_DIRECT,
  PAIR_SCALAR, /* one element of it */
  PAIR_SLICE,
  PAIR_UPDATE, /* with a part overwritten */
  PAIR_BETWEENS
} pair_between;

typedef struct op_pair {
  int from, to, argument;
  pair_between between;
} op_pair;

/* How many there are, and the i-th. */
int64_t op_pair_count(void);
op_pair op_pair_at(int64_t i);
/* Makes the graph of a pair and checks it. *made: false where in several attempts none came about whose result can be told. */
bool op_pair_check(op_pair p, drawn_tally *tally, bool *made, char *why, size_t size,
                   char **out_text);

#endif
