/* Shape ops beyond their cases (test_table.c): slices against Python's, errors that only a run can find,
 * symbolic sizes with gradients, second-order gradients. */
#include "ops/table.h"
#include "support/graph_run.h"
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

/* --- slice as Python does --- */

enum { POINTS = 10 };
static const int64_t starts[POINTS] = {-100, -5, -4, -1, 0, 1, 3, 4, 7, SN_END};
static const int64_t stops[POINTS] = {-100, -5, -4, -1, 0, 1, 3, 4, 7, SN_END};

/* Printed by Python: ",".join("0123"[:n][a:b:step] for a in starts for b in stops), with 100 for a start
 * of SN_END and None for such a stop. */
static const struct {
  int64_t n, step;
  const char *slices;
} python[] = {
    {1, 1,
     ",,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,,,,,,,,,"
     ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"},
    {1, 2,
     ",,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,0,0,0,0,0,,,,,,,,,,,,,,"
     ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"},
    {1, -1,
     ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,"
     "0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,"},
    {1, -3,
     ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,0,"
     "0,0,,,,,,,0,0,0,0,,,,,,,0,0,0,0,,,,,,,0,"},
    {4, 1,
     ",,,012,,0,012,0123,0123,0123,,,,012,,0,012,0123,0123,0123,,,,012,,0,012,0123,0123,0123,,"
     ",,,,,,3,3,3,,,,012,,0,012,0123,0123,0123,,,,12,,,12,123,123,123,,,,,,,,3,3,3,,,,,,,,,,,,"
     ",,,,,,,,,,,,,,,,,,,"},
    {4, 2,
     ",,,02,,0,02,02,02,02,,,,02,,0,02,02,02,02,,,,02,,0,02,02,02,02,,,,,,,,3,3,3,,,,02,,0,02,"
     "02,02,02,,,,1,,,1,13,13,13,,,,,,,,3,3,3,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"},
    {4, -1,
     ",,,,,,,,,,,,,,,,,,,,0,0,,,,,,,,0,3210,3210,321,,321,32,,,,3210,0,0,,,,,,,,0,10,10,1,,1,,"
     ",,,10,3210,3210,321,,321,32,,,,3210,3210,3210,321,,321,32,,,,3210,3210,3210,321,,321,32,"
     ",,,3210,3210,3210,321,,321,32,,,,3210,"},
    {4, -3,
     ",,,,,,,,,,,,,,,,,,,,0,0,,,,,,,,0,30,30,3,,3,3,,,,30,0,0,,,,,,,,0,1,1,1,,1,,,,,1,30,30,3,"
     ",3,3,,,,30,30,30,3,,3,3,,,,30,30,30,3,,3,3,,,,30,30,30,3,,3,3,,,,30,"},
};

static void slice_text(int64_t n, int64_t start, int64_t stop, int64_t step, char *out,
                       size_t size) {
  char text[160];
  op_run r;
  snprintf(text, sizeof text, "slice(i32[%lld]{0, 1, 2, 3}) axis=0 start=%lld stop=%lld step=%lld",
           (long long)n, (long long)start, (long long)stop, (long long)step);
  if (n == 1)
    snprintf(text, sizeof text, "slice(i32[1]{0}) axis=0 start=%lld stop=%lld step=%lld",
             (long long)start, (long long)stop, (long long)step);
  out[0] = '\0';
  if (op_run_text(&r, text))
    for (int64_t i = 0; i < r.out[0].count && (size_t)i + 1 < size; i++) {
      out[i] = (char)('0' + (int)r.out[0].data[i]);
      out[i + 1] = '\0';
    }
  op_run_end(&r);
}

TEST(slices_are_those_of_python) {
  for (size_t k = 0; k < COUNT_OF(python); k++) {
    const char *at = python[k].slices;
    for (int i = 0; i < POINTS; i++)
      for (int j = 0; j < POINTS; j++) {
        char got[8], expected[8] = "";
        size_t n = strcspn(at, ",");
        memcpy(expected, at, n);
        at += n + 1;
        slice_text(python[k].n, starts[i], stops[j], python[k].step, got, sizeof got);
        if (strcmp(got, expected) != 0)
          FAIL("n %d, [%lld:%lld:%d]: expected '%s', got '%s'", (int)python[k].n,
               (long long)starts[i], (long long)stops[j], (int)python[k].step, expected, got);
      }
    CHECK_EQ_STR(at, "");
  }
}

/* --- errors that only a run can find --- */

static const struct {
  const char *text, *message;
} run_errors[] = {
    {"gather(f32[3, 2], i32[2]{0, 3})", "gather: index 3 at position 1 is outside of 0 … 2"},
    {"gather(f32[3, 2], i32[]{-1})", "index -1"},
    {"gather(f32[0, 2], i32[1]{0})", "index 0 at position 0 is outside of 0 … -1"},
    {"gather_along(f32[2, 3], i32[2, 1]{2, 3}) axis=1", "gather_along: index 3 at position 1"},
    {"gather_along(f32[2, 3], i32[1, 3]{0, 1, 2}) axis=0", "index 2 at position 2"},
    {"index_select(f32[2, 3], i32[2]{0, -2147483648}) axis=1", "index -2147483648 at position 1"},
    {"scatter_add(f32[3, 2], i32[1]{3}, f32[1, 2])", "scatter_add: index 3 at position 0"},
    {"scatter_set(f32[3, 2], i32[1]{-1}, f32[1, 2])", "scatter_set: index -1 at position 0"},
    {"scatter_along_add(f32[3], i32[2]{0, 3}, f32[2]) axis=0", "scatter_along_add: index 3"},
    {"scatter_along_set(f32[3], i32[2]{0, 2147483647}, f32[2]) axis=0", "index 2147483647"},
    {"one_hot(i32[2]{0, 3}) n=3 dtype=f32", "one_hot: index 3 at position 1 is outside of 0 … 2"},
    {"slice_at(f32[5], i32[]{3}) axis=0 size=3",
     "slice_at: 3 entries from 3 on do not lie in an axis of 5"},
    {"slice_at(f32[5], i32[]{-1}) axis=0 size=3", "3 entries from -1 on"},
    {"update_slice(f32[5], f32[3], i32[]{3}) axis=0",
     "update_slice: 3 entries from 3 on do not lie in an axis of 5"},
    {"update_slice(f32[5], f32[3], i32[]{-1}) axis=0", "3 entries from -1 on"},
};

/* Of a result without elements none depends on them. */
static const char *const unused[] = {
    "gather(f32[3, 0], i32[1]{3})",
    "gather_along(f32[0, 3], i32[0, 1]) axis=1",
    "index_select(f32[0, 3], i32[1]{3}) axis=1",
    "scatter_add(f32[0, 2], i32[2]{-1, 9}, f32[2, 2])",
    "scatter_set(f32[3, 0], i32[2]{-1, 9}, f32[2, 0])",
    "scatter_along_add(f32[2, 0], i32[2, 1]{-1, 9}, f32[2, 1]) axis=1",
    "scatter_along_set(f32[0], i32[1]{3}, f32[1]) axis=0",
    "one_hot(i32[1]{0}) n=0 dtype=f32",
    "slice_at(f32[5], i32[]{6}) axis=0 size=0",
    "update_slice(f32[0, 3], f32[0, 2], i32[]{9}) axis=1",
    "div(i32[0, 2], i32[1]{0})",
    "cross_entropy(f32[2, 5], i32[2]{9, -3}) ignore_index=0 smoothing=1 reduction=none",
};

TEST(what_no_element_depends_on_is_no_error) {
  for (size_t i = 0; i < COUNT_OF(unused); i++) {
    op_run r;
    if (op_run_load(&r, unused[i]) && op_run_status(&r) != SN_OK)
      FAIL("%s: %s", unused[i], sn_ctx_message(r.ctx));
    op_run_end(&r);
  }
}

TEST(bad_indices_are_run_time_errors) {
  for (size_t i = 0; i < COUNT_OF(run_errors); i++) {
    op_run r;
    if (op_run_load(&r, run_errors[i].text)) {
      CHECK_EQ_INT(op_run_status(&r), SN_ERR_INVALID);
      CHECK_STR_HAS(sn_ctx_message(r.ctx), run_errors[i].message);
    }
    op_run_end(&r);
  }
}

/* --- symbolic sizes ---
 * A builder makes the same op on sizes that are symbols or their values; the results and the gradients of
 * sum(y * w) must be the same. */

typedef struct sizes {
  sn_dim n, k;
} sizes;

static sn_value build_slice_inside(sn_graph *g, sn_value x, sizes s) {
  return sn_slice(g, x, 1, s.k, s.n, 1);
}
static sn_value build_slice_rear(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_slice(g, x, 1, -2, SN_END, 1);
}
static sn_value build_slice_steps(sn_graph *g, sn_value x, sizes s) {
  return sn_slice(g, x, 1, s.k, SN_END, 3);
}
static sn_value build_slice_back(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_slice(g, x, 1, SN_END, SN_END, -1);
}
static sn_value build_slice_back_steps(sn_graph *g, sn_value x, sizes s) {
  return sn_slice(g, x, 1, -1, s.k, -2);
}
static sn_value build_slice_all_back_steps(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_slice(g, x, -1, -2, SN_END, -2);
}
static sn_value build_concat(sn_graph *g, sn_value x, sizes s) {
  sn_value part = sn_slice(g, x, 1, 0, s.k, 1);
  return sn_concat(g, (sn_value[]){part, x, part}, 3, 1);
}
static sn_value build_pad_constant(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_pad(g, x, SN_INTS(1, 2), SN_INTS(0, 3), SN_PAD_CONSTANT, 0.5);
}
static sn_value build_pad_reflect(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_pad(g, x, SN_INTS(1, 2), SN_INTS(1, 1), SN_PAD_REFLECT, 0);
}
static sn_value build_pad_edge(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_pad(g, x, SN_INTS(1, 3), SN_INTS(2, 2), SN_PAD_EDGE, 0);
}
static sn_value build_tile(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_tile(g, x, SN_INTS(2, 3));
}
static sn_value build_flip(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_flip(g, x, SN_ALL_AXES);
}
static sn_value build_stack(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_stack(g, (sn_value[]){x, sn_neg(g, x)}, 2, 1);
}
static sn_value build_triangle(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_tril(g, sn_triu(g, x, -1), 2);
}
static sn_value build_gather(sn_graph *g, sn_value x, sizes s) {
  sn_value columns = sn_transpose(g, x, SN_INTS(1, 0));
  return sn_gather(g, columns, sn_arange(g, SN_I32, s.k, 0, 1));
}
static sn_value build_gather_along(sn_graph *g, sn_value x, sizes s) {
  sn_value list = sn_reshape(g, sn_arange(g, SN_I32, s.k, 0, 1), SN_SHAPE(1, s.k));
  return sn_gather_along(g, x, sn_expand(g, list, SN_SHAPE(3, s.k)), 1);
}
static sn_value build_select(sn_graph *g, sn_value x, sizes s) {
  return sn_index_select(g, x, sn_arange(g, SN_I32, s.k, 0, 1), 1);
}
static sn_value build_scatter(sn_graph *g, sn_value x, sizes s) {
  sn_value columns = sn_transpose(g, x, SN_INTS(1, 0));
  sn_value index = sn_arange(g, SN_I32, s.k, 1, 0), value = sn_slice(g, columns, 0, 0, s.k, 1);
  return sn_scatter_set(g, sn_scatter_add(g, columns, index, value), index, value);
}
static sn_value build_scatter_along(sn_graph *g, sn_value x, sizes s) {
  sn_value value = sn_slice(g, x, 1, 0, s.k, 1), index = sn_full(g, SN_I32, SN_SHAPE(3, s.k), 1);
  return sn_scatter_along_set(g, sn_scatter_along_add(g, x, index, value, 1), index, value, 1);
}
static sn_value build_run(sn_graph *g, sn_value x, sizes s) {
  sn_value start = sn_scalar(g, SN_I32, 1), part = sn_slice_at(g, x, start, 1, s.k);
  return sn_update_slice(g, x, sn_mul(g, part, part), start, -1);
}
static sn_value build_im2col(sn_graph *g, sn_value x, sizes s) {
  sn_value image = sn_reshape(g, x, SN_SHAPE(1, 3, s.n));
  return sn_im2col(g, image, SN_INTS(2), SN_INTS(2), SN_INTS(1), SN_INTS(2), SN_INTS(2));
}
static sn_value build_upsample(sn_graph *g, sn_value x, sizes s) {
  sn_value image = sn_reshape(g, x, SN_SHAPE(s.n, 1, 3));
  sn_value near = sn_upsample_nearest(g, image, SN_SHAPE(5), 0, 0);
  return sn_add(g, near, sn_upsample_linear(g, image, SN_SHAPE(5), false, 0, 0));
}
static sn_value build_one_hot(sn_graph *g, sn_value x, sizes s) {
  sn_value hot = sn_one_hot(g, sn_arange(g, SN_I32, s.k, 0, 1), s.n, SN_F32);
  return sn_matmul(g, sn_add(g, hot, sn_eye(g, SN_F32, s.k, s.n)), x, false, true);
}

static const struct {
  const char *name;
  sn_value (*build)(sn_graph *g, sn_value x, sizes s);
} builders[] = {
    {"slice inside", build_slice_inside},
    {"slice of the rear", build_slice_rear},
    {"slice in steps", build_slice_steps},
    {"slice back", build_slice_back},
    {"slice back in steps", build_slice_back_steps},
    {"slice back to 0 in steps", build_slice_all_back_steps},
    {"concat", build_concat},
    {"pad constant", build_pad_constant},
    {"pad reflect", build_pad_reflect},
    {"pad edge", build_pad_edge},
    {"tile", build_tile},
    {"flip", build_flip},
    {"stack", build_stack},
    {"triangle", build_triangle},
    {"gather", build_gather},
    {"gather_along", build_gather_along},
    {"index_select", build_select},
    {"scatter", build_scatter},
    {"scatter_along", build_scatter_along},
    {"slice_at and update_slice", build_run},
    {"im2col", build_im2col},
    {"upsample", build_upsample},
    {"one_hot and eye", build_one_hot},
};

static int find(const char *name) {
  for (int b = 0; b < (int)COUNT_OF(builders); b++)
    if (strcmp(builders[b].name, name) == 0)
      return b;
  FAIL("no builder %s", name);
  return 0;
}

/* Outputs y and the gradient of sum(y * w)^2, so that both orders of the vjps are in it. */
static bool build_both(graph_run *r, int b, sizes s) {
  sn_graph *g = r->g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(3, s.n)), dx;
  sn_value y = builders[b].build(g, x, s);
  sn_value w = sn_input(g, "w", SN_F32, sn_value_type(g, y).shape);
  sn_value sum = sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false);
  sn_output(g, "y", y);
  if (sn_grad(g, sn_mul(g, sum, sum), &x, 1, &dx) != SN_OK)
    return FAIL("%s: %s", builders[b].name, sn_ctx_message(r->ctx));
  sn_output(g, "dx", dx);
  return true;
}

static void check_symbolic(int b, graph_run *symbolic, int64_t n, int64_t k) {
  graph_run fixed;
  if (graph_run_start(&fixed) && build_both(&fixed, b, (sizes){n, k}) &&
      graph_run_execute(symbolic, (int64_t[]){n, k}) && graph_run_execute(&fixed, NULL))
    for (int o = 0; o < 2; o++)
      ref_tensor_near(builders[b].name, &symbolic->out[o], &fixed.out[o], 1e-12);
  graph_run_end(&fixed);
}

TEST_WALK(symbolic_sizes) {
  for (int b = 0; b < (int)COUNT_OF(builders); b++) {
    if (!test_begin("%s", builders[b].name))
      continue;
    graph_run r;
    if (graph_run_start(&r)) {
      sizes s = {sn_symbol(r.g, "n", 16), sn_symbol(r.g, "k", 16)};
      if (build_both(&r, b, s))
        for (int64_t n = 3; n <= 8; n++)
          for (int64_t k = 0; k < n; k++)
            check_symbolic(b, &r, n, k);
    }
    graph_run_end(&r);
    test_end();
  }
}

/* What does not fit is found when the graph runs. */
static void check_refused(const char *name, int64_t n, int64_t k, const char *message) {
  graph_run r;
  if (graph_run_start(&r)) {
    sizes s = {sn_symbol(r.g, "n", 16), sn_symbol(r.g, "k", 16)};
    sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(3, s.n));
    sn_output(r.g, "y", builders[find(name)].build(r.g, x, s));
    CHECK_EQ_INT(graph_run_status(&r, (int64_t[]){n, k}), SN_ERR_INVALID);
    if (!test_failed())
      CHECK_STR_HAS(sn_ctx_message(r.ctx), message);
  }
  graph_run_end(&r);
}

static sn_value build_slice_first(sn_graph *g, sn_value x, sizes s) {
  (void)s;
  return sn_slice(g, x, 1, 0, 5, 1);
}

static sn_value build_patches(sn_graph *graph, sn_value x, sizes s) {
  sn_value image = sn_reshape(graph, x, SN_SHAPE(1, 3, s.n));
  return sn_im2col(graph, image, SN_INTS(3), SN_INTS(3), SN_INTS(0), SN_INTS(0), SN_INTS(1));
}

TEST(patches_must_fit_when_the_graph_runs) {
  graph_run r;
  if (graph_run_start(&r)) {
    sizes s = {sn_symbol(r.g, "n", 16), 0};
    sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(3, s.n));
    sn_output(r.g, "y", build_patches(r.g, x, s));
    for (int64_t n = 1; n < 3; n++) {
      CHECK_EQ_INT(graph_run_status(&r, (int64_t[]){n}), SN_ERR_INVALID);
      CHECK_STR_HAS(sn_ctx_message(r.ctx),
                    "im2col: spatial axis 0: a window of 3 does not fit into");
    }
    CHECK(graph_run_execute(&r, (int64_t[]){0})); /* nothing has no patches */
    CHECK_EQ_INT(r.out[0].count, 0);
    CHECK(graph_run_execute(&r, (int64_t[]){3}));
    CHECK_EQ_INT(r.out[0].count, 9);
  }
  graph_run_end(&r);
}

TEST(sizes_that_do_not_fit_are_run_time_errors) {
  check_refused("slice inside", 4, 5, "dim 1 of its result is -1");
  check_refused("slice of the rear", 1, 0,
                "slice: 2 elements from -2 on do not lie in an axis of 1");
  check_refused("concat", 3, 4, "slice: 4 elements from 0 on do not lie in an axis of 3");
  check_refused("pad reflect", 2, 0, "pad: axis 1 has only 2 elements for a pad of 2");
  check_refused("pad edge", 0, 0, "pad: axis 1 has only 0 elements for a pad of 3");
  check_refused("gather", 3, 4, "gather: index 3 at position 3 is outside of 0 … 2");
  check_refused("slice_at and update_slice", 3, 3,
                "slice_at: 3 entries from 1 on do not lie in an axis of 3");
  graph_run r;
  if (graph_run_start(&r)) {
    sizes s = {sn_symbol(r.g, "n", 16), 0};
    sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(3, s.n));
    sn_output(r.g, "y", build_slice_first(r.g, x, s));
    CHECK_EQ_INT(graph_run_status(&r, (int64_t[]){4}), SN_ERR_INVALID);
    CHECK(graph_run_execute(&r, (int64_t[]){5}));
  }
  graph_run_end(&r);
}

/* A size 0 is bound, not built in. */
TEST(symbols_may_be_zero) {
  static const char *const some[] = {"slice back", "concat", "pad constant",
                                     "tile",       "flip",   "triangle"};
  for (size_t i = 0; i < COUNT_OF(some); i++) {
    graph_run r;
    if (graph_run_start(&r)) {
      sizes s = {sn_symbol(r.g, "n", 16), sn_symbol(r.g, "k", 16)};
      if (build_both(&r, find(some[i]), s))
        CHECK(graph_run_execute(&r, (int64_t[]){0, 0}));
    }
    graph_run_end(&r);
  }
}

/* --- second order --- */

static double second_derivative(int b, int64_t at) {
  graph_run r;
  double difference = NAN;
  if (graph_run_start(&r)) {
    sn_graph *g = r.g;
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(3, 5)), dx, ddx;
    sn_value y = builders[b].build(g, sn_mul(g, x, sn_mul(g, x, x)), (sizes){5, 2});
    sn_value w = sn_input(g, "w", SN_F32, sn_value_type(g, y).shape);
    sn_value loss = sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false);
    if (CHECK(sn_grad(g, loss, &x, 1, &dx) == SN_OK)) {
      sn_value slope = sn_sum(g, sn_mul(g, dx, dx), SN_ALL_AXES, false);
      sn_output(g, "slope", slope);
      if (sn_grad(g, slope, &x, 1, &ddx) != SN_OK)
        FAIL("%s: %s", builders[b].name, sn_ctx_message(r.ctx));
      else {
        sn_output(g, "ddx", ddx);
        difference = graph_run_difference(&r, "x", at);
        if (graph_run_execute(&r, NULL))
          CHECK_NEAR(r.out[1].data[at], difference, 1e-6 * fmax(1, fabs(difference)));
      }
    }
  }
  graph_run_end(&r);
  return difference;
}

TEST(second_order) {
  for (int b = 0; b < (int)COUNT_OF(builders); b++) {
    double sum = 0;
    for (int64_t at = 0; at < 15; at++)
      sum += fabs(second_derivative(b, at));
    if (!(sum > 0.01))
      FAIL("%s: the second derivative is 0 everywhere", builders[b].name);
  }
}
