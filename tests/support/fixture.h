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

/* The device of sessions whose options name none: NULL, or the one of a TEST_ON_DEVICES that runs. */
extern const char *fixture_device;

/* A test that runs once on every device, as name/device. Sessions that it makes by itself take fixture_device. */
#define TEST_ON_DEVICES(id)                      \
  static void on_device_##id(void);              \
  TEST_WALK(id) {                                \
    for (int i_ = 0; sn_device_name(i_); i_++) { \
      if (!test_begin("%s", sn_device_name(i_))) \
        continue;                                \
      fixture_device = sn_device_name(i_);       \
      on_device_##id();                          \
      fixture_device = NULL;                     \
      test_end();                                \
    }                                            \
  }                                              \
  static void on_device_##id(void)

/* false after a failed check. */
bool fixture_start(fixture *f);
/* Initialises the store from the graph and makes the session. */
bool fixture_ready(fixture *f, const sn_session_options *options);
/* Runs; a failure is a failed check with its message. */
bool fixture_run(fixture *f);
void fixture_end(fixture *f);

#endif
