/* Compiles and runs a drawn graph and compares what it gives with the reference: exact values bit for bit (drawn_exact.h says
 * when NaN and zeros are equal), others within their error. One compilation, with or without fusion and the optimiser as a
 * byte of the graph says; then a run on each plan that plan_run.h makes (one thread, several, each instruction set), one more
 * with the new states as states, and one at other bindings. A run that the reference refuses must be refused.
 *
 * The device is that of SINEW_TEST_DEVICE (chosen.h).
 */
#ifndef SINEW_TESTS_SUPPORT_DRAWN_CHECK_H
#define SINEW_TESTS_SUPPORT_DRAWN_CHECK_H

#include "support/drawn_graph.h"

enum { DRAWN_ARGUMENTS = 11, DRAWN_WORDS = 8 };

/* How often each was run and compared. Arguments of ops on lists count as the first or the second. */
typedef struct drawn_tally {
  int64_t argument[OP_COUNT][DRAWN_ARGUMENTS][SN_DTYPE_COUNT];
  int64_t op[OP_COUNT];
  int64_t word[OP_COUNT][12]
              [DRAWN_WORDS]; /* values of enumerations, flags and dtypes, by attribute */
  int64_t graphs, exact, near, silent, failing, refused, runs;
} drawn_tally;

/* false: `why` says what is wrong. tally may be NULL. */
bool drawn_check(drawn_graph *d, drawn_tally *tally, char *why, size_t size);
/* Makes and checks; a failure is shrunk and its text added to what `why` says. *out_text (NULL where nothing is wrong): graph,
 * bindings and numbers; release with free. */
bool drawn_check_bytes(const uint8_t *bytes, size_t n, int only_op, drawn_tally *tally, char *why,
                       size_t size, char **out_text);
/* The graph cut down while it still fails, as text: see above. */
char *drawn_report(drawn_graph *d, const char *why);
/* What was never counted `least` times, a line each; how many there are. */
int drawn_tally_missing(const drawn_tally *t, int64_t least, void (*say)(const char *line));
void drawn_tally_print(const drawn_tally *t);

#endif
