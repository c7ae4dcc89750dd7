/* sample: that draws have the distribution that the stages define, that greedy is temperature 0
 * and nothing else, that a new counter is a new draw. Seeds are fixed; bounds are
 * chi-square-like. */
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 20000, IDS = 6 };
static const double logits[IDS] = {0.5, 2, -1, 2, 1, -3};

typedef struct options {
  double temperature;
  int top_k;
  double top_p, min_p, penalty;
  int history[3]; /* used when penalty is not 1 */
} options;

/* counts[i]: how often id i came up in ROWS rows of the same logits. */
static bool sample_rows(options o, int counter, int counts[IDS]) {
  char text[400];
  snprintf(text, sizeof text,
           "sample(f32[%d, %d]{0}, i32[3]{11, 12, %d}, i32[%d, 3]{0}) temperature=%g top_k=%d "
           "top_p=%g min_p=%g repetition_penalty=%g stream=3",
           ROWS, IDS, counter, ROWS, o.temperature, o.top_k, o.top_p, o.min_p, o.penalty);
  op_run r;
  bool ok = op_run_load(&r, text);
  memset(counts, 0, IDS * sizeof *counts);
  for (int64_t i = 0; ok && i < ROWS * IDS; i++)
    r.in[0].data[i] = logits[i % IDS];
  for (int64_t i = 0; ok && i < ROWS * 3; i++)
    r.in[2].data[i] = o.history[i % 3];
  ok = ok && op_run_execute(&r);
  for (int64_t i = 0; ok && i < ROWS; i++)
    if (CHECK(r.out[0].data[i] >= 0 && r.out[0].data[i] < IDS))
      counts[(int)r.out[0].data[i]]++;
  op_run_end(&r);
  return ok;
}

/* weights[i]: the expected share of id i, in any unit; 0 must never come up. */
static void check_shares(const char *what, options o, const double weights[IDS]) {
  int counts[IDS], kinds = 0;
  double sum = 0, chi = 0;
  if (!sample_rows(o, 5, counts))
    return;
  for (int i = 0; i < IDS; i++)
    sum += weights[i];
  for (int i = 0; i < IDS; i++) {
    double expected = ROWS * weights[i] / sum;
    if (weights[i] == 0 && counts[i] > 0)
      FAIL("%s: id %d was drawn %d times", what, i, counts[i]);
    if (weights[i] > 0 && ++kinds)
      chi += pow(counts[i] - expected, 2) / expected;
  }
  if (chi > kinds + 5 * sqrt(2.0 * kinds))
    FAIL("%s: chi-square %g of %d ids", what, chi, kinds);
}

/* e to the logits, worked out once: 0.5, 2, -1, 2, 1, -3. */
#define E0 1.6487213
#define E1 7.3890561
#define E2 0.36787944
#define E4 2.7182818
#define E5 0.049787068

TEST(shares_follow_the_stages) {
  check_shares("plain", (options){1, 0, 1, 0, 1, {0}}, (double[]){E0, E1, E2, E1, E4, E5});
  check_shares("temperature 2", (options){2, 0, 1, 0, 1, {0}},
               (double[]){sqrt(E0), sqrt(E1), sqrt(E2), sqrt(E1), sqrt(E4), sqrt(E5)});
  check_shares("temperature 1/2", (options){0.5, 0, 1, 0, 1, {0}},
               (double[]){E0 * E0, E1 * E1, E2 * E2, E1 * E1, E4 * E4, E5 * E5});
  check_shares("top-k 3", (options){1, 3, 1, 0, 1, {0}}, (double[]){0, E1, 0, E1, E4, 0});
  check_shares("top-k 1 of a tie", (options){1, 1, 1, 0, 1, {0}}, (double[]){0, 1, 0, 0, 0, 0});
  /* parts of the sum 19.56, largest first: 0.378, 0.756, 0.895, 0.979, 0.997, 1 */
  check_shares("top-p 0.8", (options){1, 0, 0.8, 0, 1, {0}}, (double[]){0, E1, 0, E1, E4, 0});
  check_shares("top-p 0.75", (options){1, 0, 0.75, 0, 1, {0}}, (double[]){0, E1, 0, E1, 0, 0});
  check_shares("top-p 0.3", (options){1, 0, 0.3, 0, 1, {0}}, (double[]){0, 1, 0, 0, 0, 0});
  /* after top-k 3 the parts are 0.422, 0.845, 1: 0.8 is reached by two */
  check_shares("top-p after top-k", (options){1, 3, 0.8, 0, 1, {0}},
               (double[]){0, E1, 0, E1, 0, 0});
  /* relative to the largest: 0.223, 1, 0.0498, 1, 0.368, 0.0067 */
  check_shares("min-p 0.3", (options){1, 0, 1, 0.3, 1, {0}}, (double[]){0, E1, 0, E1, E4, 0});
  check_shares("min-p 0.01", (options){1, 0, 1, 0.01, 1, {0}}, (double[]){E0, E1, E2, E1, E4, 0});
  /* temperature before min-p: at 2 the relative weights are the roots, 0.472 … 0.607 */
  check_shares("min-p at temperature 2", (options){2, 0, 1, 0.5, 1, {0}},
               (double[]){0, sqrt(E1), 0, sqrt(E1), sqrt(E4), 0});
  /* logits 0.5, 1, -2, 2, 1, -3 after the penalty on 1 and 2 */
  check_shares("penalty 2", (options){1, 0, 1, 0, 2, {1, 2, 1}},
               (double[]){E0, E4, 0.13533528, E1, E4, E5});
  check_shares("penalty before top-k", (options){1, 1, 1, 0, 2, {1, -1, 1}},
               (double[]){0, 0, 0, 1, 0, 0});
}

TEST(greedy_is_temperature_0) {
  int counts[IDS];
  REQUIRE(sample_rows((options){0, 0, 1, 0, 1, {0}}, 5, counts));
  CHECK_EQ_INT(counts[1], ROWS); /* the first of the two largest */
  REQUIRE(sample_rows((options){0, 0, 1, 0, 2, {1, 1, -1}}, 5, counts));
  CHECK_EQ_INT(counts[3], ROWS); /* after the penalty */
  REQUIRE(sample_rows((options){1, 0, 1, 0, 1, {0}}, 5, counts));
  CHECK(counts[0] > 0 && counts[1] < ROWS); /* 1 is a temperature like any other */
}

/* One row, many runs: only the counter differs, and the draws differ as they should. */
TEST(a_new_counter_is_a_new_draw) {
  int ones = 0, repeats = 0;
  double last = -1;
  for (int counter = 0; counter < 400; counter++) {
    char text[200];
    snprintf(text, sizeof text,
             "sample(f32[2]{0, 0}, i32[3]{11, 12, %d}, none) temperature=1 top_p=1 "
             "repetition_penalty=1 stream=3",
             counter);
    op_run a, b = {0};
    if (op_run_text(&a, text) && op_run_text(&b, text)) {
      CHECK_EQ_INT(a.out[0].data[0] == b.out[0].data[0], 1); /* the same key is the same draw */
      ones += a.out[0].data[0] == 1;
      repeats += a.out[0].data[0] == last;
      last = a.out[0].data[0];
    }
    op_run_end(&a);
    op_run_end(&b);
  }
  CHECK_NEAR(ones, 200, 50);
  CHECK_NEAR(repeats, 200, 50);
}

/* Rows of one run are draws of their own, and do not depend on each other's logits. */
TEST(rows_are_independent) {
  op_run a, b = {0};
  const char *text = "sample(f32[1000, 4]{0}, i32[3]{11, 12, 13}, none) temperature=1 top_p=1 "
                     "repetition_penalty=1 stream=3";
  if (op_run_load(&a, text) && op_run_load(&b, text)) {
    for (int i = 0; i < 4 * 500; i++)
      b.in[0].data[i] = i % 3;
    if (op_run_execute(&a) && op_run_execute(&b)) {
      CHECK_EQ_MEM(a.out[0].data + 500, b.out[0].data + 500, 500 * sizeof(double));
      CHECK(memcmp(a.out[0].data, b.out[0].data, 500 * sizeof(double)) != 0);
      int changes = 0;
      for (int i = 0; i + 1 < 1000; i++)
        changes += a.out[0].data[i] != a.out[0].data[i + 1];
      CHECK_NEAR(changes, 750, 70);
    }
  }
  op_run_end(&a);
  op_run_end(&b);
}

TEST(ids_outside_are_an_error) {
  op_run r;
  if (op_run_load(&r, "sample(f32[5], i32[3]{0, 0, 0}, i32[2]{1, 5}) temperature=0 top_p=1 "
                      "repetition_penalty=2")) {
    CHECK_EQ_INT(op_run_status(&r), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(r.ctx), "sample: the history has id 5, but there are only 5");
    r.in[2].data[1] = -2147483648.0;
    CHECK_EQ_INT(op_run_status(&r), SN_OK);
  }
  op_run_end(&r);
}
