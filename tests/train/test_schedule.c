/* Learning rates: the corners of each curve. */
#include "support/test.h"

#include <math.h>
#include <sinew/train.h>

static double rate(sn_schedule s, int64_t step) { return sn_schedule_rate(&s, step); }

TEST(constant) {
  sn_schedule s = {SN_SCHEDULE_CONSTANT, 0.5, 0.1, 0, 10};
  CHECK_NEAR(rate(s, 0), 0.5, 0);
  CHECK_NEAR(rate(s, 10), 0.5, 0);
  CHECK_NEAR(rate(s, INT64_C(1) << 40), 0.5, 0);
}

TEST(warmup_climbs_to_the_rate) {
  for (int kind = 0; kind < 3; kind++) {
    sn_schedule s = {(sn_schedule_kind)kind, 0.8, 0.1, 4, 12};
    CHECK_NEAR(rate(s, 0), 0.2, 1e-15);
    CHECK_NEAR(rate(s, 1), 0.4, 1e-15);
    CHECK_NEAR(rate(s, 3), 0.8, 1e-15);
    CHECK_NEAR(rate(s, 4), 0.8, 1e-15);
  }
}

TEST(linear) {
  sn_schedule s = {SN_SCHEDULE_LINEAR, 1, 0.2, 2, 10};
  CHECK_NEAR(rate(s, 2), 1, 1e-15);
  CHECK_NEAR(rate(s, 4), 0.8, 1e-15);
  CHECK_NEAR(rate(s, 6), 0.6, 1e-15);
  CHECK_NEAR(rate(s, 9), 0.3, 1e-15);
  CHECK_NEAR(rate(s, 10), 0.2, 0);
  CHECK_NEAR(rate(s, 1000), 0.2, 0);
}

TEST(cosine) {
  sn_schedule s = {SN_SCHEDULE_COSINE, 1, 0.2, 2, 10};
  CHECK_NEAR(rate(s, 2), 1, 1e-15);
  CHECK_NEAR(rate(s, 4), 0.6 + 0.4 * sqrt(0.5), 1e-15);
  CHECK_NEAR(rate(s, 6), 0.6, 1e-15);
  CHECK_NEAR(rate(s, 8), 0.6 - 0.4 * sqrt(0.5), 1e-15);
  CHECK_NEAR(rate(s, 10), 0.2, 0);
  CHECK_NEAR(rate(s, 11), 0.2, 0);
}

TEST(never_rises_after_warmup) {
  for (int kind = 0; kind < 3; kind++) {
    sn_schedule s = {(sn_schedule_kind)kind, 1e-3, 1e-5, 7, 100};
    for (int64_t i = s.warmup; i < 120; i++)
      CHECK(rate(s, i) <= rate(s, i - 1) && rate(s, i) > 0);
  }
}

/* No total: no fall. A total within the warm-up ends it. */
TEST(odd_totals) {
  for (int kind = 0; kind < 3; kind++) {
    sn_schedule open = {(sn_schedule_kind)kind, 1, 0, 0, 0};
    CHECK_NEAR(rate(open, 0), 1, 0);
    CHECK_NEAR(rate(open, 99), 1, 0);
  }
  sn_schedule early = {SN_SCHEDULE_COSINE, 1, 0.25, 10, 5},
              both = {SN_SCHEDULE_LINEAR, 1, 0.25, 5, 5};
  CHECK_NEAR(rate(early, 4), 0.5, 1e-15);
  CHECK_NEAR(rate(early, 5), 0.25, 0);
  CHECK_NEAR(rate(both, 4), 1, 0);
  CHECK_NEAR(rate(both, 5), 0.25, 0);
}
