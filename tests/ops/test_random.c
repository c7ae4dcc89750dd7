/* Random ops: Philox against the published answers, the layout of streams, distributions, and
 * that draws change with seed, counter and stream and with nothing else. All seeds are fixed, so
 * nothing here is flaky; bounds are five or more standard deviations wide. */
#include "ops/choose/choose.h"
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

/* --- the generator --- */

TEST(philox_known_answers) {
  static const struct {
    uint32_t key[2], counter[4], words[4];
  } rows[] = {
      {{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0xa4093822, 0x299f31d0},
       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    uint32_t x[4];
    memcpy(x, rows[i].counter, sizeof x);
    philox(rows[i].key, x);
    CHECK_EQ_MEM(x, rows[i].words, sizeof x);
  }
}

/* Block, counter and stream stand where choose.h says. */
TEST(the_layout_of_a_stream) {
  rng r = {.key = {0xa4093822, 0x299f31d0}, .counter = 0x13198a2e, .stream = 0x03707344};
  uint64_t first = 4 * UINT64_C(0x05a308d3243f6a88); /* four words a block */
  uint32_t x[4] = {0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344};
  philox(r.key, x);
  for (uint64_t i = 0; i < 4; i++)
    CHECK_EQ_UINT(rng_word(&r, first + i), x[i]);
}

/* --- ops --- */

/* Runs `op(key) attributes` and gives up to n results; the number of elements, -1 after a
 * failure. */
static int64_t draw(const char *op, const char *key, const char *attributes, double *out,
                    int64_t n) {
  char key_text[256];
  snprintf(key_text, sizeof key_text, "%s(i32[3]{%s}) %s", op, key, attributes);
  op_run r;
  int64_t count = -1;
  if (op_run_text(&r, key_text)) {
    count = r.out[0].count;
    memcpy(out, r.out[0].data, (size_t)min_i64(count, n) * sizeof *out);
  }
  op_run_end(&r);
  return count;
}

typedef struct moments {
  double mean, variance, least, most;
  double lag; /* correlation of neighbours */
} moments;

static moments moments_of(const double *x, int64_t n) {
  moments m = {.least = INFINITY, .most = -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    m.mean += x[i] / (double)n;
    m.least = fmin(m.least, x[i]);
    m.most = fmax(m.most, x[i]);
  }
  for (int64_t i = 0; i < n; i++)
    m.variance += (x[i] - m.mean) * (x[i] - m.mean) / (double)n;
  for (int64_t i = 0; i + 1 < n; i++)
    m.lag += (x[i] - m.mean) * (x[i + 1] - m.mean) / (double)n / m.variance;
  return m;
}

enum { MANY = 100000 };
static double numbers[MANY], others[MANY];

TEST(uniform_is_uniform) {
  REQUIRE(draw("uniform", "1, 2, 3", "dtype=f32 shape=[100000] lo=-1 hi=3 stream=5", numbers,
               MANY) == MANY);
  moments m = moments_of(numbers, MANY);
  CHECK_NEAR(m.mean, 1, 0.02);
  CHECK_NEAR(m.variance, 16.0 / 12, 0.02);
  CHECK_NEAR(m.lag, 0, 0.02);
  CHECK(m.least >= -1 && m.least < -0.999 && m.most < 3 && m.most > 2.999);
  int64_t bins[64] = {0};
  double chi = 0;
  for (int i = 0; i < MANY; i++)
    bins[(int)((numbers[i] + 1) * 16)]++;
  for (int i = 0; i < 64; i++)
    chi += pow((double)bins[i] - MANY / 64.0, 2) / (MANY / 64.0);
  CHECK_NEAR(chi, 63, 56); /* 63 degrees of freedom: deviation 11.2 */
}

/* However coarse the dtype, hi itself is never drawn, and lo is. */
TEST(uniform_stays_below_hi) {
  static const struct {
    const char *attributes;
    double lo, hi, below;
  } rows[] = {
      {"dtype=f16 shape=[100000] lo=0 hi=1 stream=1", 0, 1, 1 - 0x1p-11},
      {"dtype=bf16 shape=[100000] lo=0 hi=1 stream=2", 0, 1, 1 - 0x1p-8},
      {"dtype=f16 shape=[100000] lo=-0.00006103515625 hi=0 stream=3", -0x1p-14, 0, -0x1p-24},
      {"dtype=f16 shape=[100000] lo=-3 hi=-2 stream=4", -3, -2, -2 - 0x1p-9},
      {"dtype=f32 shape=[100000] lo=16777214 hi=16777216 stream=5", 16777214, 16777216, 16777215},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    REQUIRE(draw("uniform", "1, 2, 3", rows[i].attributes, numbers, MANY) == MANY);
    moments m = moments_of(numbers, MANY);
    CHECK(isfinite(m.mean)); /* no NaN among them */
    CHECK(m.least >= rows[i].lo);
    CHECK_EQ_INT(m.most == rows[i].below, 1);
  }
}

TEST(normal_is_normal) {
  REQUIRE(draw("normal", "1, 2, 3", "dtype=f32 shape=[100000] mean=2 std=3 stream=5", numbers,
               MANY) == MANY);
  moments m = moments_of(numbers, MANY);
  double skew = 0, kurtosis = 0, within[3] = {0};
  for (int i = 0; i < MANY; i++) {
    double z = (numbers[i] - 2) / 3;
    skew += z * z * z / MANY;
    kurtosis += z * z * z * z / MANY;
    for (int k = 0; k < 3; k++)
      within[k] += (fabs(z) < k + 1) / (double)MANY;
  }
  CHECK_NEAR(m.mean, 2, 0.05);
  CHECK_NEAR(m.variance, 9, 0.2);
  CHECK_NEAR(m.lag, 0, 0.02);
  CHECK_NEAR(skew, 0, 0.06);
  CHECK_NEAR(kurtosis, 3, 0.16);
  CHECK_NEAR(within[0], 0.682689, 0.008);
  CHECK_NEAR(within[1], 0.954500, 0.004);
  CHECK_NEAR(within[2], 0.997300, 0.001);
}

TEST(bernoulli_has_its_probability) {
  static const struct {
    const char *attributes;
    double p;
  } rows[] = {{"shape=[100000] p=0.5 stream=5", 0.5},
              {"shape=[100000] p=0.1 stream=6", 0.1},
              {"shape=[100000] p=0.001 stream=7", 0.001}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    REQUIRE(draw("bernoulli", "1, 2, 3", rows[i].attributes, numbers, MANY) == MANY);
    double p = rows[i].p;
    CHECK_NEAR(moments_of(numbers, MANY).mean, p, 5 * sqrt(p * (1 - p) / MANY));
  }
}

TEST(randint_is_even) {
  REQUIRE(draw("randint", "1, 2, 3", "shape=[100000] lo=-3 hi=4 stream=5", numbers, MANY) == MANY);
  int64_t bins[7] = {0};
  for (int i = 0; i < MANY; i++)
    if (CHECK(numbers[i] >= -3 && numbers[i] <= 3))
      bins[(int)numbers[i] + 3]++;
  for (int i = 0; i < 7; i++)
    CHECK_NEAR(bins[i], MANY / 7.0, 600);
  /* two thirds of the whole range: a modulo would favour the lower half two to one */
  REQUIRE(draw("randint", "1, 2, 3", "shape=[100000] lo=-2147483648 hi=715827882 stream=5", numbers,
               MANY) == MANY);
  int64_t lower = 0;
  for (int i = 0; i < MANY; i++)
    lower += numbers[i] < -715827883;
  CHECK_NEAR(lower, MANY / 2.0, 800);
}

/* Both words of an element count: the last bits of large results. */
TEST(randint_draws_from_64_bits) {
  static const double expected[] = {-614192817, -143164631, -1362057980, 241627343, -1293499183};
  REQUIRE(draw("randint", "7, -2, 3", "shape=[5] lo=-2147483648 hi=852516352 stream=4", numbers,
               MANY) == 5);
  for (int i = 0; i < 5; i++)
    CHECK_EQ_INT(numbers[i], expected[i]);
}

TEST(permutation_is_one) {
  static bool seen[5000];
  REQUIRE(draw("permutation", "1, 2, 3", "n=5000 stream=5", numbers, MANY) == 5000);
  int64_t fixed = 0;
  for (int i = 0; i < 5000; i++) {
    if (CHECK(numbers[i] >= 0 && numbers[i] < 5000 && !seen[(int)numbers[i]]))
      seen[(int)numbers[i]] = true;
    fixed += numbers[i] == i;
  }
  CHECK(fixed < 10); /* one on average */
}

/* Each of the 6 orders of 3 is as likely: by counter. */
TEST(permutations_are_equally_likely) {
  int counts[27] = {0};
  for (int i = 0; i < 3000; i++) {
    char key[32];
    snprintf(key, sizeof key, "9, 9, %d", i);
    REQUIRE(draw("permutation", key, "n=3 stream=0", numbers, MANY) == 3);
    counts[(int)(numbers[0] * 9 + numbers[1] * 3 + numbers[2])]++;
  }
  int orders = 0;
  for (int i = 0; i < 27; i++)
    if (counts[i] > 0 && ++orders)
      CHECK_NEAR(counts[i], 500, 110);
  CHECK_EQ_INT(orders, 6);
}

/* --- identity of draws --- */

static const struct {
  const char *op, *attributes;
} drawers[] = {
    {"uniform", "dtype=f32 shape=[1000] lo=0 hi=1"},
    {"normal", "dtype=f32 shape=[1000] mean=0 std=1"},
    {"bernoulli", "shape=[1000] p=0.5"},
    {"randint", "shape=[1000] lo=0 hi=1000"},
    {"permutation", "n=1000"},
};

static double agreement(int drawer, const char *key_a, int stream_a, const char *key_b,
                        int stream_b) {
  char attributes[128];
  snprintf(attributes, sizeof attributes, "%s stream=%d", drawers[drawer].attributes, stream_a);
  if (draw(drawers[drawer].op, key_a, attributes, numbers, MANY) != 1000)
    return NAN;
  snprintf(attributes, sizeof attributes, "%s stream=%d", drawers[drawer].attributes, stream_b);
  if (draw(drawers[drawer].op, key_b, attributes, others, MANY) != 1000)
    return NAN;
  int same = 0;
  for (int i = 0; i < 1000; i++)
    same += numbers[i] == others[i];
  return same / 1000.0;
}

TEST(draws_follow_seed_counter_and_stream) {
  for (int d = 0; d < (int)COUNT_OF(drawers); d++) {
    double chance = strcmp(drawers[d].op, "bernoulli") == 0 ? 0.6 : 0.01;
    CHECK_EQ_INT(agreement(d, "1, 2, 3", 4, "1, 2, 3", 4), 1);
    CHECK(agreement(d, "1, 2, 3", 4, "1, 2, 4", 4) < chance); /* a new run */
    CHECK(agreement(d, "1, 2, 3", 4, "1, 2, 3", 5) < chance); /* another op of the graph */
    CHECK(agreement(d, "1, 2, 3", 4, "2, 2, 3", 4) < chance); /* another seed, low and high */
    CHECK(agreement(d, "1, 2, 3", 4, "1, -2, 3", 4) < chance);
    CHECK(agreement(d, "1, 2, 3", 4, "1, 2, 4", 3) < chance); /* not their sum */
  }
}

/* Streams must not be shifted copies of each other. */
TEST(streams_are_independent) {
  REQUIRE(draw("normal", "1, 2, 3", "dtype=f32 shape=[100000] mean=0 std=1 stream=0", numbers,
               MANY) == MANY);
  REQUIRE(draw("normal", "1, 2, 4", "dtype=f32 shape=[100000] mean=0 std=1 stream=0", others,
               MANY) == MANY);
  for (int shift = 0; shift < 9; shift++) {
    double dot = 0;
    for (int i = 0; i + shift < MANY; i++)
      dot += numbers[i] * others[i + shift] / MANY;
    CHECK_NEAR(dot, 0, 0.02);
  }
}

/* Two random ops without an identity given get one each; the same op twice is two draws. */
TEST(a_graph_gives_each_op_a_stream) {
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  REQUIRE(sn_graph_create(ctx, &g) == SN_OK);
  sn_value key = sn_input(g, "key", SN_I32, SN_SHAPE(3));
  sn_value a = sn_uniform(g, key, SN_F32, SN_SHAPE(5), 0, 1, SN_AUTO);
  sn_value b = sn_uniform(g, key, SN_F32, SN_SHAPE(5), 0, 1, SN_AUTO);
  sn_value again = sn_uniform(g, key, SN_F32, SN_SHAPE(5), 0, 1, 0);
  CHECK(a.id != b.id);
  CHECK(a.id == again.id);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* --- dropout --- */

TEST(dropout_drops_and_scales) {
  op_run r;
  if (op_run_text(&r, "dropout(f32[100000]{2}, i32[3]{1, 2, 3}) p=0.2 stream=5")) {
    int64_t dropped = 0;
    for (int64_t i = 0; i < r.out[0].count; i++) {
      double y = r.out[0].data[i];
      dropped += y == 0;
      if (y != 0 && fabs(y - 2.5) > 1e-12)
        FAIL("element %lld is %g", (long long)i, y);
    }
    CHECK_NEAR((double)dropped, 20000, 650);
  }
  op_run_end(&r);
}

/* --- sizes that are bound at the run --- */

/* Runs permutation(n) and topk of uniform [n] with n bound; the status, and the permutation in
 * numbers. */
static sn_status run_with(sn_graph *g, int64_t n) {
  ref_machine m;
  SN_TRY(ref_start(&m, g, &n, REF_F32));
  for (uint32_t id = 1; id < g->n_values; id++)
    for (int i = 0; m.tensors[id].data && i < 3; i++)
      m.tensors[id].data[i] = i; /* the key is the only leaf */
  sn_status status = ref_execute(&m, NULL);
  const ref_tensor *t = &m.tensors[g->outputs[0].value.id];
  if (status == SN_OK && CHECK_EQ_INT(t->count, n))
    memcpy(numbers, t->data, (size_t)n * sizeof *numbers);
  ref_end(&m);
  return status;
}

TEST(sizes_may_be_symbols) {
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  REQUIRE(sn_graph_create(ctx, &g) == SN_OK);
  sn_dim n = sn_symbol(g, "n", 10);
  sn_value key = sn_input(g, "key", SN_I32, SN_SHAPE(3));
  sn_value u = sn_uniform(g, key, SN_F32, SN_SHAPE(n), 0, 1, SN_AUTO);
  sn_output(g, "order", sn_permutation(g, key, n, SN_AUTO));
  sn_output(g, "best", sn_topk(g, sn_dropout(g, u, key, 0.5, SN_AUTO), 3, 0, true));
  CHECK_EQ_INT(sn_graph_status(g), SN_OK);
  CHECK_EQ_INT(run_with(g, 3), SN_OK);
  CHECK_EQ_INT(numbers[0] + numbers[1] + numbers[2], 3);
  CHECK_EQ_INT(run_with(g, 10), SN_OK);
  CHECK_EQ_INT(run_with(g, 2), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "topk: k is 3, but the axis has only 2 entries");
  CHECK(!sn_value_valid(g, sn_topk(g, u, 11, 0, true)));
  CHECK_STR_HAS(sn_graph_message(g), "k must lie in 0 … 10 (axis 0 of f32[n]), got 11");
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}
