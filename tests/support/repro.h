/* Graphs that once went wrong: tests/fixtures/repro/<what>.txt in the text form. A new file is a new test. */
#ifndef SINEW_TESTS_SUPPORT_REPRO_H
#define SINEW_TESTS_SUPPORT_REPRO_H

#include "support/plan_oracle.h"

enum { REPRO_SYMBOLS = 8, REPRO_BINDINGS = 4 };

/* Each as a sub-test of the running walk. */
void repro_each(void (*check)(const sn_graph *g));
/* Every symbol at its most, at 0, 1 and 2, as far as it may be; how many of them there are: 1 without symbols. */
int repro_bindings(const sn_graph *g, int64_t bindings[REPRO_BINDINGS][REPRO_SYMBOLS]);
/* Numbers of leaves that differ from draw to draw, with both signs; `draw` is a uint64_t. */
double repro_number(void *draw, const char *name, sn_dtype dtype, int64_t i);

#endif
