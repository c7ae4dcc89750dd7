/* Sessions: inputs, outputs, symbols and what is refused. State is in test_session_state.c. */
#include "support/fixture.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WRITE(f, name, data) sn_session_write((f).session, name, data, sizeof(data))
#define READ(f, name, data)  sn_session_read((f).session, name, data, sizeof(data))

TEST_ON_DEVICES(inputs_and_outputs_by_name_and_handle) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(2)), y = sn_input(f.g, "y", SN_F32, SN_SHAPE(2));
  sn_output(f.g, "sum", sn_add(f.g, x, y));
  sn_output(f.g, "difference", sn_sub(f.g, x, y));
  REQUIRE(fixture_ready(&f, NULL));
  const float a[2] = {1, 2}, b[2] = {10, 20};
  float got[2];
  CHECK_EQ_INT(WRITE(f, "y", b), SN_OK);
  int in = sn_session_find_input(f.session, "x"), out = sn_session_find_output(f.session, "sum");
  REQUIRE(in >= 0 && out >= 0);
  CHECK_EQ_INT(sn_session_write_at(f.session, in, a, sizeof a), SN_OK);
  REQUIRE(fixture_run(&f));
  CHECK_EQ_INT(READ(f, "difference", got), SN_OK);
  CHECK(got[0] == -9 && got[1] == -18);
  CHECK_EQ_INT(sn_session_read_at(f.session, out, got, sizeof got), SN_OK);
  CHECK(got[0] == 11 && got[1] == 22);
  sn_type type;
  CHECK_EQ_INT(sn_session_output_type(f.session, out, &type), SN_OK);
  CHECK(type.dtype == SN_F32 && type.shape.rank == 1 && type.shape.dim[0] == 2);
  /* What was written stays; the caller's bytes were copied. */
  CHECK_EQ_INT(WRITE(f, "x", b), SN_OK);
  REQUIRE(fixture_run(&f));
  CHECK_EQ_INT(READ(f, "sum", got), SN_OK);
  CHECK(got[0] == 20 && got[1] == 40);
  fixture_end(&f);
}

TEST_ON_DEVICES(unknown_names_and_handles) {
  fixture f;
  REQUIRE(fixture_start(&f));
  float x[1] = {1};
  sn_type type;
  sn_output(f.g, "y", sn_input(f.g, "x", SN_F32, SN_SHAPE(1)));
  REQUIRE(fixture_ready(&f, NULL));
  CHECK_EQ_INT(sn_session_find_input(f.session, "y"), -1);
  CHECK_EQ_INT(sn_session_find_output(f.session, "x"), -1);
  CHECK_EQ_INT(WRITE(f, "y", x), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "no input \"y\"");
  CHECK_EQ_INT(sn_session_write_at(f.session, 1, x, sizeof x), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_write_at(f.session, -1, x, sizeof x), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 1), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(READ(f, "y", x), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "nothing has run yet");
  CHECK_EQ_INT(sn_session_output_type(f.session, 0, &type), SN_ERR_STATE);
  CHECK_EQ_INT(WRITE(f, "x", x), SN_OK);
  REQUIRE(fixture_run(&f));
  CHECK_EQ_INT(READ(f, "x", x), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_read_at(f.session, 1, x, sizeof x), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_read_at(f.session, -1, x, sizeof x), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_output_type(f.session, 1, &type), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_read(f.session, "y", x, 3), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"y\" has 4 bytes, got room for 3");
  CHECK_EQ_INT(READ(f, "y", x), SN_OK);
  fixture_end(&f);
}

TEST_ON_DEVICES(runs_that_are_not_ready) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_dim n = sn_symbol(f.g, "n", 4);
  sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(n, 3));
  sn_value unused = sn_input(f.g, "unused", SN_I32, SN_SHAPE(n));
  (void)unused;
  sn_output(f.g, "y", sn_neg(f.g, x));
  REQUIRE(fixture_ready(&f, NULL));
  float data[12] = {0};
  CHECK_EQ_INT(sn_session_write(f.session, "x", data, 24), SN_OK);
  CHECK_EQ_INT(sn_session_write(f.session, "unused", data, 8), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "symbol n is not bound");
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 5), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "expected 0 … 4, got 5");
  CHECK_EQ_INT(sn_session_bind(f.session, "n", -1), SN_ERR_INVALID);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_STATE);
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 2), SN_OK);
  CHECK(fixture_run(&f));
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 3), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"x\": expected f32[3, 3], 36 bytes, got 24 bytes");
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 1), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"x\": expected f32[1, 3], 12 bytes, got 24 bytes");
  CHECK_EQ_INT(sn_session_bind(f.session, "n", 3), SN_OK);
  /* The last good run's output stays. */
  CHECK_EQ_INT(sn_session_read(f.session, "y", data, 24), SN_OK);
  CHECK_EQ_INT(sn_session_write(f.session, "x", data, 36), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"unused\": expected i32[3]");
  CHECK_EQ_INT(sn_session_write(f.session, "unused", data, 12), SN_OK);
  CHECK(fixture_run(&f));
  CHECK_EQ_INT(sn_session_read(f.session, "y", data, 36), SN_OK);
  fixture_end(&f);
}

TEST_ON_DEVICES(inputs_must_be_written_even_unused_ones) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_output(f.g, "y", sn_neg(f.g, sn_input(f.g, "x", SN_F32, SN_SHAPE(1))));
  (void)sn_input(f.g, "unused", SN_F32, SN_SHAPE(0));
  REQUIRE(fixture_ready(&f, NULL));
  const float x[1] = {1};
  float y[1];
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"x\" was never written");
  CHECK_EQ_INT(WRITE(f, "x", x), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"unused\" was never written");
  CHECK_EQ_INT(sn_session_write(f.session, "unused", NULL, 0), SN_OK);
  REQUIRE(fixture_run(&f));
  CHECK_EQ_INT(READ(f, "y", y), SN_OK);
  CHECK(y[0] == -1);
  fixture_end(&f);
}

TEST(sessions_that_cannot_be_made) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_session *s;
  sn_session_options o = {.device = "abacus"};
  sn_output(f.g, "y", sn_state(f.g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 1));
  CHECK_EQ_INT(sn_session_create(f.g, f.store, NULL, &s), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"w\" is not in the store");
  CHECK(s == NULL);
  CHECK_EQ_INT(sn_session_create(f.g, NULL, NULL, &s), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"w\": no store is given");
  CHECK_EQ_INT(sn_store_add(f.store, "w", (sn_type){SN_F32, SN_SHAPE(2, 1)}, NULL), SN_OK);
  CHECK_EQ_INT(sn_session_create(f.g, f.store, NULL, &s), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "the graph has f32[2], the store has f32[2, 1]");
  sn_store *right;
  REQUIRE(sn_store_create(f.ctx, &right) == SN_OK && sn_store_init(right, f.g, 0) == SN_OK);
  CHECK_EQ_INT(sn_session_create(f.g, right, &o, &s), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "no device \"abacus\"");
  o = (sn_session_options){.device = "auto", .finite_output = "loss"};
  CHECK_EQ_INT(sn_session_create(f.g, right, &o, &s), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "\"loss\"");
  o = (sn_session_options){.device = sn_device_name(0)};
  CHECK_EQ_INT(sn_session_create(f.g, right, &o, &s), SN_OK);
  sn_session_destroy(s);
  /* The graph's own error comes up, whatever has been said since. */
  (void)sn_matmul(f.g, sn_full(f.g, SN_F32, SN_SHAPE(2, 3), 0),
                  sn_full(f.g, SN_F32, SN_SHAPE(2, 3), 0), false, false);
  sn_entry e;
  CHECK_EQ_INT(sn_store_find(right, "nothing", &e), SN_ERR_NOT_FOUND);
  CHECK_EQ_INT(sn_session_create(f.g, right, NULL, &s), SN_ERR_INVALID);
  CHECK_EQ_STR(sn_ctx_message(f.ctx), sn_graph_message(f.g));
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "matmul");
  sn_session_destroy(NULL);
  sn_store_destroy(right);
  fixture_end(&f);
}

TEST(devices_are_listed) {
  CHECK(sn_device_name(0) != NULL && sn_device_description(0) != NULL);
  int n = 0;
  while (sn_device_name(n))
    n++;
  CHECK(sn_device_description(n) == NULL);
  CHECK(sn_device_name(-1) == NULL && sn_device_description(-1) == NULL);
}

TEST_ON_DEVICES(a_graph_changed_afterwards_does_not_run) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(1));
  sn_output(f.g, "y", x);
  REQUIRE(fixture_ready(&f, NULL));
  const float data[1] = {1};
  CHECK_EQ_INT(WRITE(f, "x", data), SN_OK);
  CHECK(fixture_run(&f));
  sn_output(f.g, "z", x);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_STATE);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "the graph was changed");
  (void)sn_symbol(f.g, "late", 4);
  CHECK_EQ_INT(sn_session_bind(f.session, "late", 2), SN_ERR_NOT_FOUND);
  fixture_end(&f);
}

TEST_ON_DEVICES(leaves_as_outputs) {
  fixture f;
  REQUIRE(fixture_start(&f));
  const int32_t c[2] = {7, -7};
  sn_value x = sn_input(f.g, "x", SN_U8, SN_SHAPE(3));
  sn_value w = sn_state(f.g, "w", SN_F16, SN_SHAPE(2), SN_INIT_ONES, 0);
  sn_value none = sn_input(f.g, "none", SN_F32, SN_SHAPE(2, 0));
  sn_output(f.g, "x", x);
  sn_output(f.g, "again", x);
  sn_output(f.g, "w", w);
  sn_output(f.g, "c", sn_constant_bytes(f.g, SN_I32, SN_SHAPE(2), c));
  sn_output(f.g, "none", sn_neg(f.g, none));
  sn_output(f.g, "sum of none", sn_sum(f.g, none, SN_INTS(1), false));
  REQUIRE(fixture_ready(&f, NULL));
  const uint8_t bytes[3] = {1, 2, 255};
  CHECK_EQ_INT(WRITE(f, "x", bytes), SN_OK);
  CHECK_EQ_INT(sn_session_write(f.session, "none", NULL, 0), SN_OK);
  REQUIRE(fixture_run(&f));
  uint8_t got[3], again[3];
  uint16_t half[2];
  int32_t numbers[2];
  float zeros[2] = {1, 1};
  CHECK(READ(f, "x", got) == SN_OK && memcmp(got, bytes, 3) == 0);
  CHECK(READ(f, "again", again) == SN_OK && memcmp(again, bytes, 3) == 0);
  CHECK(READ(f, "w", half) == SN_OK && half[0] == 0x3c00 && half[1] == 0x3c00);
  CHECK(READ(f, "c", numbers) == SN_OK && numbers[0] == 7 && numbers[1] == -7);
  CHECK_EQ_INT(sn_session_read(f.session, "none", NULL, 0), SN_OK);
  CHECK(READ(f, "sum of none", zeros) == SN_OK && zeros[0] == 0 && zeros[1] == 0);
  fixture_end(&f);
}

/* 1 behind a number that is too large for it: gone when each op's result is rounded. */
TEST_ON_DEVICES(every_result_is_rounded_to_its_dtype) {
  static const struct {
    sn_dtype dtype;
    double large;
  } cases[] = {{SN_F32, 1 << 25}, {SN_F16, 1 << 12}, {SN_BF16, 1 << 9}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    REQUIRE(fixture_start(&f));
    sn_value large = sn_scalar(f.g, cases[i].dtype, cases[i].large);
    sn_value sum = sn_add(f.g, sn_scalar(f.g, cases[i].dtype, 1), large);
    sn_output(f.g, "y", sn_cast(f.g, sn_sub(f.g, sum, large), SN_F32));
    REQUIRE(fixture_ready(&f, NULL));
    float y[1] = {-1};
    CHECK(fixture_run(&f));
    CHECK_EQ_INT(READ(f, "y", y), SN_OK);
    CHECK(y[0] == 0);
    fixture_end(&f);
  }
}

/* --- symbols --- */

enum { LONGEST = 6 };

/* softmax(x · w) over n, its sums, and x behind a part of itself: sizes n, 2 n and n + 3. */
static void build(sn_graph *g, sn_dim n) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n, 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 4), SN_INIT_NORMAL, 1);
  sn_value y = sn_softmax(g, sn_matmul(g, x, w, false, false), 0);
  sn_value both[2] = {x, x}, more[2] = {x, sn_full(g, SN_F32, SN_SHAPE(3, 3), 2)};
  sn_output(g, "y", y);
  sn_output(g, "mean", sn_mean(g, x, SN_INTS(0), false));
  sn_output(g, "twice", sn_concat(g, both, 2, 0));
  sn_output(g, "more", sn_concat(g, more, 2, 0));
}

typedef struct results {
  float y[LONGEST * 4], mean[3], twice[LONGEST * 6], more[(LONGEST + 3) * 3];
} results;

static void run_at(fixture *f, int64_t n, results *out) {
  float x[LONGEST * 3];
  for (int64_t i = 0; i < n * 3; i++)
    x[i] = (float)((i * 7 + n) % 11) / 4 - 1;
  size_t rows = (size_t)n;
  memset(out, 0, sizeof *out);
  CHECK_EQ_INT(sn_session_write(f->session, "x", x, rows * 12), SN_OK);
  REQUIRE(fixture_run(f));
  CHECK_EQ_INT(sn_session_read(f->session, "y", out->y, rows * 16), SN_OK);
  CHECK_EQ_INT(sn_session_read(f->session, "mean", out->mean, 12), SN_OK);
  CHECK_EQ_INT(sn_session_read(f->session, "twice", out->twice, rows * 24), SN_OK);
  CHECK_EQ_INT(sn_session_read(f->session, "more", out->more, (rows + 3) * 12), SN_OK);
}

TEST_ON_DEVICES(one_session_at_every_length_equals_fixed_graphs) {
  results fixed[LONGEST + 1], got;
  for (int n = 0; n <= LONGEST; n++) {
    fixture f;
    REQUIRE(fixture_start(&f));
    build(f.g, n);
    REQUIRE(fixture_ready(&f, NULL));
    run_at(&f, n, &fixed[n]);
    fixture_end(&f);
  }
  fixture f;
  REQUIRE(fixture_start(&f));
  build(f.g, sn_symbol(f.g, "n", LONGEST));
  REQUIRE(fixture_ready(&f, NULL));
  /* Up, down, and back and forth: nothing of another length may stay behind. */
  static const int order[] = {0, 1, 2, 3, 4, 5, 6, 5, 1, 6, 1, 6, 0, 6, 0, 3};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    CHECK_EQ_INT(sn_session_bind(f.session, "n", order[i]), SN_OK);
    run_at(&f, order[i], &got);
    CHECK_EQ_MEM(&got, &fixed[order[i]], sizeof got);
    sn_type type;
    CHECK_EQ_INT(sn_session_output_type(f.session, 2, &type), SN_OK);
    CHECK_EQ_INT(type.shape.dim[0], 2 * order[i]);
  }
  CHECK(fixed[3].y[0] > 0 && isnan(fixed[0].mean[0]));
  fixture_end(&f);
}
