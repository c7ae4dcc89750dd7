/* What most tests of sessions start from: a context, an empty graph, a store, and a session once the graph
 * is built. */
#ifndef SINEW_TESTS_SUPPORT_FIXTURE_H
#define SINEW_TESTS_SUPPORT_FIXTURE_H

#include <sinew/sinew.h>

typedef struct fixture {
  sn_ctx *ctx;
  sn_graph *g;
  sn_store *store;
  sn_session *session;
} fixture;

/* false after a failed check. */
bool fixture_start(fixture *f);
/* Initialises the store from the graph and makes the session. */
bool fixture_ready(fixture *f, const sn_session_options *options);
/* Runs; a failure is a failed check with its message. */
bool fixture_run(fixture *f);
void fixture_end(fixture *f);

#endif
