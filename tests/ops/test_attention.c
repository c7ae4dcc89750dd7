/* attention: what must hold between results. The walk (test_table.c) checks numbers, gradients and
 * the decomposition; here are the ways in which attention goes wrong in practice: a part that is
 * dropped, a batch or head that is taken for another, an alignment that is off by one, a cache
 * that differs from the whole. */
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

static double distance(const op_run *a, const op_run *b, int k) {
  if (!CHECK_EQ_INT(a->out[k].count, b->out[k].count))
    return INFINITY;
  return op_run_distance(a->out[k].data, b->out[k].data, a->out[k].count);
}

/* Runs two cases and returns how far their results 0 and 1 lie apart at most. */
static double apart(const char *one, const char *other) {
  op_run a, b = {0};
  double d = NAN;
  if (op_run_text(&a, one) && op_run_text(&b, other))
    d = fmax(distance(&a, &b, 0), distance(&a, &b, 1));
  op_run_end(&a);
  op_run_end(&b);
  return d;
}

#define QKV     "attention(f32[2, 2, 3, 4], f32[2, 1, 5, 4], f32[2, 1, 5, 3], "
#define MASK    "bool[3, 5]{1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1}, "
#define BIAS    "f32[2, 3, 5], "
#define KV      "i32[2]{4, 5}, "
#define SINKS   "f32[2]) "
#define OPTIONS "scale=0.5 softcap=1 causal=end window=2"

TEST(every_part_counts) {
  static const struct {
    const char *dropped, *text;
  } rows[] = {
      {"scale", QKV MASK BIAS KV SINKS "scale=1 softcap=1 causal=end window=2"},
      {"softcap", QKV MASK BIAS KV SINKS "scale=0.5 causal=end window=2"},
      {"softcap's size", QKV MASK BIAS KV SINKS "scale=0.5 softcap=2 causal=end window=2"},
      {"causal end", QKV MASK BIAS KV SINKS "scale=0.5 softcap=1 causal=start window=2"},
      {"window", QKV MASK BIAS KV SINKS "scale=0.5 softcap=1 causal=end"},
      {"mask", QKV "none, " BIAS KV SINKS OPTIONS},
      {"bias", QKV MASK "none, " KV SINKS OPTIONS},
      {"kv_length", QKV MASK BIAS "none, " SINKS OPTIONS},
      {"sinks", QKV MASK BIAS KV "none) " OPTIONS},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!(apart(QKV MASK BIAS KV SINKS OPTIONS, rows[i].text) > 1e-3))
      FAIL("nothing changes without %s", rows[i].dropped);
  CHECK(apart(QKV MASK BIAS KV SINKS "scale=1 causal=end", QKV MASK BIAS KV SINKS "scale=1") >
        1e-3);
}

/* Copies rows of a case's input: `count` numbers from a's place `from` to b's place `to`. */
static void copy(op_run *b, int64_t to, const op_run *a, int64_t from, int input, int64_t count) {
  memcpy(b->in[input].data + to, a->in[input].data + from, (size_t)count * sizeof(double));
}

TEST(batches_do_not_mix) {
  op_run all, one = {0};
  const char *options = "scale=0.7 causal=end";
  char text[256];
  snprintf(text, sizeof text,
           "attention(f32[3, 2, 2, 4], f32[3, 1, 5, 4], f32[3, 1, 5, 2], none, "
           "f32[3, 1, 2, 5], i32[3]{2, 5, 4}, none) %s",
           options);
  if (!op_run_text(&all, text))
    return;
  for (int b = 0; b < 3; b++) {
    snprintf(text, sizeof text,
             "attention(f32[1, 2, 2, 4], f32[1, 1, 5, 4], f32[1, 1, 5, 2], none, "
             "f32[1, 1, 2, 5], i32[1], none) %s",
             options);
    if (op_run_load(&one, text)) {
      static const int inputs[] = {0, 1, 2, 4, 5}, sizes[] = {16, 20, 10, 10, 1};
      for (int i = 0; i < 5; i++)
        copy(&one, 0, &all, b * sizes[i], inputs[i], sizes[i]);
      if (op_run_execute(&one)) {
        CHECK_NEAR(op_run_distance(one.out[0].data, all.out[0].data + b * 8, 8), 0, 1e-14);
        CHECK_NEAR(op_run_distance(one.out[1].data, all.out[1].data + b * 4, 4), 0, 1e-14);
      }
    }
    op_run_end(&one);
  }
  op_run_end(&all);
}

/* [B,H,S,D] to [B,S,H,D]. */
static void transpose_rows(double *to, const double *from, const int64_t dim[4]) {
  for (int64_t b = 0; b < dim[0]; b++)
    for (int64_t h = 0; h < dim[1]; h++)
      for (int64_t s = 0; s < dim[2]; s++)
        memcpy(to + ((b * dim[2] + s) * dim[1] + h) * dim[3],
               from + ((b * dim[1] + h) * dim[2] + s) * dim[3], (size_t)dim[3] * sizeof *to);
}

TEST(layouts_agree) {
  static const int64_t dims[3][4] = {{2, 4, 3, 5}, {2, 2, 7, 5}, {2, 2, 7, 2}};
  static const int64_t out_dims[4] = {2, 4, 3, 2};
  op_run a, b = {0};
  double turned[48];
  if (op_run_text(&a,
                  "attention(f32[2, 4, 3, 5], f32[2, 2, 7, 5], f32[2, 2, 7, 2], none, none, none, "
                  "f32[4]) scale=0.5 causal=end window=3") &&
      op_run_load(&b,
                  "attention(f32[2, 3, 4, 5], f32[2, 7, 2, 5], f32[2, 7, 2, 2], none, none, none, "
                  "f32[4]) scale=0.5 causal=end window=3 layout=bshd")) {
    for (int i = 0; i < 3; i++)
      transpose_rows(b.in[i].data, a.in[i].data, dims[i]);
    if (op_run_execute(&b)) {
      transpose_rows(turned, a.out[0].data, out_dims);
      CHECK_NEAR(op_run_distance(turned, b.out[0].data, 48), 0, 1e-14);
      CHECK_NEAR(distance(&a, &b, 1), 0, 1e-14);
    }
  }
  op_run_end(&a);
  op_run_end(&b);
}

TEST(query_heads_share_kv_heads_in_groups) {
  op_run a, b = {0};
  if (op_run_text(&a,
                  "attention(f32[2, 6, 2, 3], f32[2, 2, 3, 3], f32[2, 2, 3, 2], none, none, none, "
                  "none) scale=0.5") &&
      op_run_load(&b,
                  "attention(f32[2, 6, 2, 3], f32[2, 6, 3, 3], f32[2, 6, 3, 2], none, none, none, "
                  "none) scale=0.5")) {
    for (int64_t h = 0; h < 12; h++) {
      int64_t kv = h / 6 * 2 + h % 6 / 3;
      copy(&b, h * 9, &a, kv * 9, 1, 9);
      copy(&b, h * 6, &a, kv * 6, 2, 6);
    }
    if (op_run_execute(&b)) {
      CHECK_NEAR(distance(&a, &b, 0), 0, 1e-14);
      CHECK_NEAR(distance(&a, &b, 1), 0, 1e-14);
    }
  }
  op_run_end(&a);
  op_run_end(&b);
}

#define SQUARE \
  "attention(f32[1, 2, 5, 3], f32[1, 2, 5, 3], f32[1, 2, 5, 2], none, none, none, none) "

TEST(windows_have_sharp_edges) {
  op_run a;
  if (op_run_text(&a, SQUARE "scale=1 causal=end window=1")) /* a row sees itself only */
    CHECK_NEAR(op_run_distance(a.out[0].data, a.in[2].data, a.out[0].count), 0, 1e-14);
  op_run_end(&a);
  CHECK_NEAR(apart(SQUARE "scale=1 causal=end window=5", SQUARE "scale=1 causal=end"), 0, 0);
  CHECK(apart(SQUARE "scale=1 causal=end window=4", SQUARE "scale=1 causal=end") > 1e-3);
  CHECK_NEAR(apart(SQUARE "scale=1 causal=end window=2", SQUARE "scale=1 window=2"), 0, 0);
  CHECK_NEAR(apart(SQUARE "scale=1 causal=end window=2", SQUARE "scale=1 causal=start window=2"), 0,
             0);
}

/* Two query rows against five keys: `end` is the last two rows of the whole, `start` the first
 * two. */
TEST(causal_alignment_picks_rows_of_the_whole) {
  static const struct {
    const char *text;
    int first;
  } rows[] = {
      {"attention(f32[1, 1, 2, 3], f32[1, 1, 5, 3], f32[1, 1, 5, 2], none, none, none, none) "
       "scale=1 "
       "causal=end",
       3},
      {"attention(f32[1, 1, 2, 3], f32[1, 1, 5, 3], f32[1, 1, 5, 2], none, none, none, none) "
       "scale=1 "
       "causal=start",
       0},
  };
  op_run whole, part = {0};
  if (!op_run_text(&whole,
                   "attention(f32[1, 1, 5, 3], f32[1, 1, 5, 3], f32[1, 1, 5, 2], none, none, "
                   "none, none) scale=1 causal=end"))
    return;
  for (int i = 0; i < 2; i++) {
    if (op_run_load(&part, rows[i].text)) {
      copy(&part, 0, &whole, rows[i].first * 3, 0, 6);
      if (op_run_execute(&part)) {
        CHECK_NEAR(op_run_distance(part.out[0].data, whole.out[0].data + rows[i].first * 2, 4), 0,
                   0);
        CHECK_NEAR(op_run_distance(part.out[1].data, whole.out[1].data + rows[i].first, 2), 0, 0);
      }
    }
    op_run_end(&part);
  }
  op_run_end(&whole);
}

/* Keys and values arrive a few rows at a time in a buffer that is longer than what has arrived and
 * holds NaN behind it; every row must come out as in one pass over the whole. */
static void decode_in_chunks(const op_run *whole, int64_t chunk, const char *options) {
  enum { ROWS = 6, ROOM = 8, D = 3, DV = 2 };
  char text[256];
  snprintf(text, sizeof text,
           "attention(f32[1, 2, %d, 3], f32[1, 1, 8, 3], f32[1, 1, 8, 2], none, "
           "none, i32[1], f32[2]) %s",
           (int)chunk, options);
  for (int64_t at = 0; at < ROWS; at += chunk) {
    op_run step;
    if (op_run_load(&step, text)) {
      for (int64_t i = 0; i < ROOM * D; i++)
        step.in[1].data[i] = NAN;
      for (int64_t i = 0; i < ROOM * DV; i++)
        step.in[2].data[i] = NAN;
      copy(&step, 0, whole, 0, 1, (at + chunk) * D);
      copy(&step, 0, whole, 0, 2, (at + chunk) * DV);
      for (int64_t h = 0; h < 2; h++)
        copy(&step, h * chunk * D, whole, (h * ROWS + at) * D, 0, chunk * D);
      step.in[5].data[0] = (double)(at + chunk);
      for (int64_t h = 0; op_run_execute(&step) && h < 2; h++) {
        CHECK_NEAR(op_run_distance(step.out[0].data + h * chunk * DV,
                                   whole->out[0].data + (h * ROWS + at) * DV, chunk * DV),
                   0, 0);
        CHECK_NEAR(op_run_distance(step.out[1].data + h * chunk, whole->out[1].data + h * ROWS + at,
                                   chunk),
                   0, 0);
      }
    }
    op_run_end(&step);
  }
}

TEST(cached_decoding_equals_the_whole) {
  static const char *const options[] = {"scale=0.8 causal=end", "scale=0.8 causal=end window=3",
                                        "scale=0.8 softcap=2 window=2"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    char text[256];
    op_run whole;
    snprintf(text, sizeof text,
             "attention(f32[1, 2, 6, 3], f32[1, 1, 6, 3], f32[1, 1, 6, 2], none, "
             "none, none, f32[2]) %s",
             options[i]);
    if (op_run_text(&whole, text))
      for (int64_t chunk = 1; chunk <= 3; chunk++)
        decode_in_chunks(&whole, chunk, options[i]);
    op_run_end(&whole);
  }
}

/* A sink is a key without a value whose score is the sink's logit. */
TEST(a_sink_is_a_key_without_value) {
  op_run a, b = {0};
  if (op_run_text(&a,
                  "attention(f32[1, 2, 3, 2], f32[1, 2, 4, 2], f32[1, 2, 4, 3], none, none, none, "
                  "f32[2]{0.75, -0.5}) scale=1") &&
      op_run_load(&b,
                  "attention(f32[1, 2, 3, 2], f32[1, 2, 5, 2], f32[1, 2, 5, 3], none, f32[2, 1, 5]"
                  "{0, 0, 0, 0, 0.75, 0, 0, 0, 0, -0.5}, none, none) scale=1")) {
    for (int64_t h = 0; h < 2; h++) {
      memset(b.in[1].data + h * 10, 0, 10 * sizeof(double));
      memset(b.in[2].data + h * 15, 0, 15 * sizeof(double));
      copy(&b, h * 10, &a, h * 8, 1, 8);
      copy(&b, h * 15, &a, h * 12, 2, 12);
    }
    if (op_run_execute(&b)) {
      CHECK_NEAR(distance(&a, &b, 0), 0, 1e-14);
      CHECK_NEAR(distance(&a, &b, 1), 0, 1e-14);
    }
  }
  op_run_end(&a);
  op_run_end(&b);
}

/* What a mask hides may hold anything. */
TEST(masked_keys_may_hold_anything) {
  op_run a;
  if (op_run_load(
          &a, "attention(f32[1, 1, 2, 1], f32[1, 1, 3, 1], f32[1, 1, 3, 1], bool[1, 3]{1, 1, 0}, "
              "none, none, none) scale=1")) {
    a.in[1].data[2] = a.in[2].data[2] = NAN;
    if (op_run_execute(&a))
      CHECK(isfinite(a.out[0].data[0]) && isfinite(a.out[1].data[1]));
  }
  op_run_end(&a);
}

TEST(lengths_outside_the_buffer_are_errors) {
  static const int bad[] = {-1, 4};
  for (int i = 0; i < 2; i++) {
    op_run a;
    if (op_run_load(&a, "attention(f32[2, 1, 1, 1], f32[2, 1, 3, 1], f32[2, 1, 3, 1], none, none, "
                        "i32[2]{3, 0}, none) scale=1")) {
      a.in[5].data[1] = bad[i];
      CHECK(op_run_status(&a) == SN_ERR_INVALID);
      CHECK_STR_HAS(sn_ctx_message(a.ctx), "kv_length[1]: expected 0 … 3, got");
    }
    op_run_end(&a);
  }
}
