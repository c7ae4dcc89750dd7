/* Convolutions with fewer products (conv_winograd.h) in sessions: sizes that come with a run, weights that change between runs,
 * gradients. Numbers are small integers, so that all sums are exact. */
#include "support/test.h"

#include <sinew/sinew.h>
#include <stdlib.h>

enum { CHANNELS = 64, RESULTS = 72, TAPS = 9, N_MOST = 3, SIDE_MOST = 1060 };

typedef struct stage {
  sn_ctx *ctx;
  sn_graph *g;
  sn_store *store;
  sn_session *session;
  uint32_t seed;
  float weights[RESULTS * CHANNELS * TAPS];
  float *x, *y;
} stage;

static float draw(stage *s) {
  s->seed = s->seed * 1664525u + 1013904223u;
  return (float)((s->seed >> 8) % 9) - 4;
}

static void new_weights(stage *s) {
  for (int i = 0; i < RESULTS * CHANNELS * TAPS; i++)
    s->weights[i] = draw(s);
  CHECK(sn_store_write(s->store, "w", s->weights, sizeof s->weights) == SN_OK);
}

/* y = conv(x, w), padded by one all around. */
static stage *make_stage(sn_value *x, sn_value *w, sn_value *y) {
  stage *s = calloc(1, sizeof *s);
  const sn_type type = {SN_F32, SN_SHAPE(RESULTS, CHANNELS, 3, 3)};
  CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK);
  CHECK(sn_graph_create(s->ctx, &s->g) == SN_OK);
  CHECK(sn_store_create(s->ctx, &s->store) == SN_OK);
  CHECK(sn_store_add(s->store, "w", type, NULL) == SN_OK);
  new_weights(s);
  sn_dim n = sn_symbol(s->g, "n", N_MOST), rows = sn_symbol(s->g, "rows", SIDE_MOST);
  sn_dim columns = sn_symbol(s->g, "columns", SIDE_MOST);
  *x = sn_input(s->g, "x", SN_F32, SN_SHAPE(n, CHANNELS, rows, columns));
  *w = sn_state(s->g, "w", SN_F32, type.shape, SN_INIT_ZEROS, 0);
  *y =
      sn_conv(s->g, *x, *w, SN_NONE, SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 1);
  sn_output(s->g, "y", *y);
  return s;
}

static void open_session(stage *s, int threads) {
  sn_session_options options = {.device = "cpu", .threads = threads};
  CHECK(sn_session_create(s->g, s->store, &options, &s->session) == SN_OK);
}

static void end_stage(stage *s) {
  sn_session_destroy(s->session);
  sn_graph_destroy(s->g);
  sn_store_destroy(s->store);
  sn_ctx_destroy(s->ctx);
  free(s->x);
  free(s->y);
  free(s);
}

static float expected(const stage *s, int64_t rows, int64_t columns, int64_t image, int64_t c,
                      int64_t y, int64_t x) {
  float sum = 0;
  for (int64_t i = 0; i < CHANNELS; i++)
    for (int64_t k = 0; k < TAPS; k++) {
      int64_t h = y + k / 3 - 1, v = x + k % 3 - 1;
      if (h >= 0 && h < rows && v >= 0 && v < columns)
        sum += s->x[((image * CHANNELS + i) * rows + h) * columns + v] *
               s->weights[(c * CHANNELS + i) * TAPS + k];
    }
  return sum;
}

static void check_results(const stage *s, int64_t n, int64_t rows, int64_t columns) {
  const float *y = s->y;
  for (int64_t i = 0; i < n * RESULTS && !test_failed(); i++)
    for (int64_t h = 0; h < rows; h++)
      for (int64_t v = 0; v < columns; v++, y++)
        if (*y != expected(s, rows, columns, i / RESULTS, i % RESULTS, h, v) && !test_failed())
          FAIL("%lld x %lld x %lld: result %lld is %g", (long long)n, (long long)rows,
               (long long)columns, (long long)(y - s->y), *y);
}

static void run_sizes(stage *s, int64_t n, int64_t rows, int64_t columns) {
  size_t in = (size_t)(n * CHANNELS * rows * columns), out = (size_t)(n * RESULTS * rows * columns);
  s->x = realloc(s->x, in * sizeof *s->x + 1);
  s->y = realloc(s->y, out * sizeof *s->y + 1);
  for (size_t i = 0; i < in; i++)
    s->x[i] = draw(s);
  CHECK(sn_session_bind(s->session, "n", n) == SN_OK);
  CHECK(sn_session_bind(s->session, "rows", rows) == SN_OK);
  CHECK(sn_session_bind(s->session, "columns", columns) == SN_OK);
  CHECK(sn_session_write(s->session, "x", s->x, in * sizeof *s->x) == SN_OK);
  CHECK(sn_session_run(s->session) == SN_OK);
  CHECK(sn_session_read(s->session, "y", s->y, out * sizeof *s->y) == SN_OK);
  if (!test_failed())
    check_results(s, n, rows, columns);
}

/* No images at first, when weights are transformed; sizes for which it does not pay; lines that are too long. */
TEST(sizes_of_a_run) {
  for (int threads = 1; threads <= 3; threads++) {
    sn_value x, w, y;
    stage *s = make_stage(&x, &w, &y);
    open_session(s, threads);
    CHECK(sn_session_get_stats(s->session).prepare_bytes >= 16 * RESULTS * CHANNELS * 4);
    run_sizes(s, 0, 8, 8);
    run_sizes(s, 2, 13, 20);
    run_sizes(s, 3, 8, 8);
    run_sizes(s, 1, 1, 5);
    run_sizes(s, 1, 2, 1060);
    run_sizes(s, 1, 4, 100);
    new_weights(s);
    run_sizes(s, 2, 9, 16);
    CHECK_EQ_INT(sn_session_get_stats(s->session).prepares, 2);
    end_stage(s);
  }
}

/* Transformed weights are kept also where a gradient reads them again. */
TEST(gradients) {
  sn_value x, w, y, dx;
  stage *s = make_stage(&x, &w, &y);
  CHECK(sn_grad(s->g, sn_sum(s->g, y, SN_ALL_AXES, false), &x, 1, &dx) == SN_OK);
  sn_output(s->g, "dx", dx);
  open_session(s, 2);
  CHECK(sn_session_get_stats(s->session).prepare_bytes >= 16 * RESULTS * CHANNELS * 4);
  run_sizes(s, 1, 8, 8);
  end_stage(s);
}
