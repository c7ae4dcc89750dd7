/* Short forms: each against the ops it stands for, or numbers by hand. */
#include "support/graph_run.h"
#include "support/test.h"

#include <sinew/compose.h>

static sn_value input(graph_run *r, const char *name, sn_shape shape) {
  return sn_input(r->g, name, SN_F32, shape);
}

/* The graph of a short form that must fail, and what it says. */
static void check_fails(graph_run *r, sn_value got, const char *message) {
  CHECK(!sn_value_valid(r->g, got));
  CHECK_EQ_INT(sn_graph_status(r->g), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_graph_message(r->g), message);
  graph_run_end(r);
}

/* --- split --- */

TEST(split_and_concat_are_inverse) {
  static const struct {
    int64_t axis;
    int n;
  } cases[] = {{0, 2}, {1, 3}, {-1, 5}, {-2, 1}, {1, 6}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_value x = input(&r, "x", SN_SHAPE(4, 6, 5)), part[6];
    sn_split(r.g, x, cases[i].axis, cases[i].n, part);
    sn_output(r.g, "x", x);
    sn_output(r.g, "joined", sn_concat(r.g, part, cases[i].n, cases[i].axis));
    if (graph_run_execute(&r, NULL))
      CHECK(ref_tensor_near("split and concat", &r.out[0], &r.out[1], 0));
    graph_run_end(&r);
  }
}

TEST(parts_stand_in_order) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_value x = input(&r, "x", SN_SHAPE(sn_symbol(r.g, "n", 4), 6)), part[3];
  sn_split(r.g, x, 1, 3, part);
  sn_output(r.g, "x", x);
  for (int i = 0; i < 3; i++)
    sn_output(r.g, (const char *[]){"a", "b", "c"}[i], part[i]);
  if (graph_run_execute(&r, (int64_t[]){2}))
    for (int i = 0; i < 3; i++) {
      CHECK(r.out[i + 1].dim[0] == 2 && r.out[i + 1].dim[1] == 2);
      CHECK(r.out[i + 1].data[3] == r.out[0].data[6 + 2 * i + 1]);
    }
  graph_run_end(&r);
}

TEST(parts_of_nothing) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_value part[3];
  sn_split(r.g, input(&r, "x", SN_SHAPE(2, 0)), 1, 3, part);
  sn_output(r.g, "last", part[2]);
  if (graph_run_execute(&r, NULL))
    CHECK(r.out[0].dim[0] == 2 && r.out[0].dim[1] == 0);
  graph_run_end(&r);
}

TEST(splits_that_do_not_come_out_even) {
  static const struct {
    int64_t axis;
    int n;
    bool none, symbolic;
    const char *message;
  } cases[] = {{1, 4, false, false, "axis 1 of [4, 6] does not fall into 4 equal parts"},
               {2, 2, false, false, "axis 2 of"},
               {-3, 2, false, false, "axis -3 of"},
               {0, 2, false, true, "does not fall into 2 equal parts"},
               {0, 2, true, false, "split: x is not a value"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_dim rows = cases[i].symbolic ? sn_symbol(r.g, "n", 8) : 4;
    sn_value x = cases[i].none ? SN_NONE : input(&r, "x", SN_SHAPE(rows, 6)), part[4];
    sn_split(r.g, x, cases[i].axis, cases[i].n, part);
    CHECK(!sn_value_valid(r.g, part[cases[i].n - 1]));
    check_fails(&r, part[0], cases[i].message);
  }
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_split(r.g, input(&r, "x", SN_SHAPE(4)), 0, 0, NULL);
  check_fails(&r, (sn_value){UINT32_MAX}, "into 0 equal parts");
}

/* --- argsort, global_avg_pool --- */

TEST(argsort_sorts) {
  for (int descending = 0; descending < 2; descending++) {
    graph_run r;
    REQUIRE(graph_run_start(&r));
    static const float x[2][4] = {{3, -1, 2, -1}, {0, 5, 5, 9}};
    static const double want[2][2][4] = {{{1, 3, 2, 0}, {0, 1, 2, 3}},
                                         {{0, 2, 1, 3}, {3, 1, 2, 0}}};
    sn_value v = sn_constant_bytes(r.g, SN_F32, SN_SHAPE(2, 4), x);
    sn_value index = sn_argsort(r.g, v, -1, descending);
    CHECK_EQ_INT(sn_value_type(r.g, index).dtype, SN_I32);
    sn_output(r.g, "index", index);
    if (graph_run_execute(&r, NULL))
      for (int i = 0; i < 8; i++)
        CHECK_EQ_INT(r.out[0].data[i], want[descending][i / 4][i % 4]);
    graph_run_end(&r);
  }
  graph_run r;
  REQUIRE(graph_run_start(&r));
  check_fails(&r, sn_argsort(r.g, input(&r, "x", SN_SHAPE(3)), 1, false), "sort");
}

TEST(global_avg_pool_is_the_mean_of_each_channel) {
  const sn_shape shapes[] = {SN_SHAPE(2, 3, 5), SN_SHAPE(2, 3, 2, 4), SN_SHAPE(1, 2, 2, 3, 2)};
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_value x = input(&r, "x", shapes[i]);
    sn_output(r.g, "x", x);
    sn_output(r.g, "y", sn_global_avg_pool(r.g, x));
    if (graph_run_execute(&r, NULL)) {
      const ref_tensor *y = &r.out[1];
      int64_t channels = r.out[0].dim[0] * r.out[0].dim[1], each = r.out[0].count / channels;
      CHECK_EQ_INT(y->rank, shapes[i].rank);
      CHECK_EQ_INT(y->count, channels);
      for (int64_t c = 0; c < channels && c < y->count; c++) {
        double sum = 0;
        for (int64_t k = 0; k < each; k++)
          sum += r.out[0].data[c * each + k];
        CHECK_NEAR(y->data[c], sum / (double)each, 1e-12);
      }
    }
    graph_run_end(&r);
  }
  graph_run r;
  REQUIRE(graph_run_start(&r));
  check_fails(&r, sn_global_avg_pool(r.g, input(&r, "x", SN_SHAPE(3, 4))),
              "expected [N, C, spatial…], got [3, 4]");
  REQUIRE(graph_run_start(&r));
  check_fails(&r, sn_global_avg_pool(r.g, SN_NONE), "");
}

/* --- attention_packed --- */

enum { BATCH = 2, SIZE = 3, Q_HEADS = 4, KV_HEADS = 2, ALL_HEADS = Q_HEADS + 2 * KV_HEADS };

/* [B, S, all · D] to head h as [B, 1, S, D]. */
static sn_value head(sn_graph *g, sn_value qkv, sn_dim tokens, int h) {
  sn_value one = sn_slice(g, qkv, 2, h * SIZE, (h + 1) * SIZE, 1);
  return sn_reshape(g, one, SN_SHAPE(BATCH, 1, tokens, SIZE));
}

TEST(packed_attention_is_attention_of_its_heads) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_dim tokens = sn_symbol(g, "tokens", 7);
  sn_value qkv = input(&r, "qkv", SN_SHAPE(BATCH, tokens, ALL_HEADS * SIZE));
  sn_value each[Q_HEADS];
  for (int h = 0; h < Q_HEADS; h++) {
    int kv = h / (Q_HEADS / KV_HEADS);
    sn_value y = sn_attention(g, head(g, qkv, tokens, h), head(g, qkv, tokens, Q_HEADS + kv),
                              head(g, qkv, tokens, Q_HEADS + KV_HEADS + kv), SN_NONE, SN_NONE,
                              SN_NONE, SN_NONE, 0.7, 0, SN_CAUSAL_END, 3, SN_LAYOUT_BHSD);
    each[h] = sn_reshape(g, y, SN_SHAPE(BATCH, tokens, SIZE));
  }
  sn_output(g, "heads", sn_concat(g, each, Q_HEADS, 2));
  sn_output(g, "packed", sn_attention_packed(g, qkv, Q_HEADS, KV_HEADS, 0.7, SN_CAUSAL_END, 3));
  sn_output(g, "no window", sn_attention_packed(g, qkv, Q_HEADS, KV_HEADS, 0.7, SN_CAUSAL_END, 0));
  sn_output(g, "not causal",
            sn_attention_packed(g, qkv, Q_HEADS, KV_HEADS, 0.7, SN_CAUSAL_NONE, 0));
  sn_output(g, "scale", sn_attention_packed(g, qkv, Q_HEADS, KV_HEADS, 0.1, SN_CAUSAL_END, 3));
  for (int64_t n = 0; n <= 6; n += 3)
    if (graph_run_execute(&r, &n)) {
      CHECK(ref_tensor_near("packed", &r.out[0], &r.out[1], 1e-12));
      /* None of the attributes is dropped. */
      for (int k = 2; n == 6 && k < 5; k++)
        CHECK(memcmp(r.out[k].data, r.out[k - 1].data, (size_t)r.out[k].count * sizeof(double)));
    }
  graph_run_end(&r);
}

TEST(packings_that_do_not_fit) {
  static const struct {
    int64_t heads, kv_heads;
    const char *message;
  } cases[] = {{3, 1, "[2, 5, 12] does not hold 3 + 2 * 1 heads"},
               {0, 1, "0 + 2 * 1 heads"},
               {2, 0, "2 + 2 * 0 heads"},
               {-1, 2, "does not hold"},
               {INT64_MAX, INT64_MAX, "does not hold"}};
  graph_run r;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    REQUIRE(graph_run_start(&r));
    sn_value qkv = input(&r, "qkv", SN_SHAPE(2, 5, 12));
    check_fails(
        &r, sn_attention_packed(r.g, qkv, cases[i].heads, cases[i].kv_heads, 1, SN_CAUSAL_NONE, 0),
        cases[i].message);
  }
  REQUIRE(graph_run_start(&r));
  check_fails(&r,
              sn_attention_packed(r.g, input(&r, "x", SN_SHAPE(5, 12)), 2, 1, 1, SN_CAUSAL_NONE, 0),
              "[5, 12] does not hold");
  REQUIRE(graph_run_start(&r));
  check_fails(&r, sn_attention_packed(r.g, SN_NONE, 2, 1, 1, SN_CAUSAL_NONE, 0), "not a value");
}

/* --- random_key: what it does in runs is in run/test_random_key.c --- */

TEST(a_random_key_is_a_counted_state) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_value key = sn_random_key(r.g, "key");
  sn_type type = sn_value_type(r.g, key);
  CHECK_EQ_STR(sn_value_name(r.g, key), "key");
  CHECK(type.dtype == SN_I32 && type.shape.rank == 1 && type.shape.dim[0] == 3);
  CHECK_EQ_INT(r.g->n_assigns, 1);
  (void)sn_random_key(r.g, "other");
  CHECK_EQ_INT(sn_graph_status(r.g), SN_OK);
  (void)sn_random_key(r.g, "key");
  CHECK_STR_HAS(sn_graph_message(r.g), "\"key\" is assigned twice");
  graph_run_end(&r);
}
