/* Reductions and losses where the walk (test_table.c) cannot look: gradients at ties, zeros and
 * infinities, rows that must not count, errors of the run. */
#include "ops/table.h"
#include "support/graph_run.h"
#include "support/oracle.h"
#include "support/test.h"

#include <math.h>

/* --- gradients worked out by hand --- */

static const char *const lines[] = {
    /* all that tie share evenly, in each slice by itself */
    "max(f32[2, 3]{3, 3, 3, 1, 5, 5}) axes=[-1] keepdims=true => f32[2, 1]{3, 5} ; "
    "w f32[2, 1]{6, 8} ; grad f32[2, 3]{2, 2, 2, 0, 4, 4}",
    "max(f32[2, 2]{-inf, -inf, inf, 1}) axes=[1] => f32[2]{-inf, inf} ; w f32[2]{2, 4} ; "
    "grad f32[2, 2]{1, 1, 4, 0}",
    "min(f32[2, 3]{3, 1, 5, 3, 2, 5}) axes=[0] => f32[3]{3, 1, 5} ; w f32[3]{2, 4, 6} ; "
    "grad f32[2, 3]{1, 4, 3, 1, 0, 3}",
    "min(f16[4]{1, 1, 1, 1}) => f16[]{1} ; w f16[]{2} ; grad f16[4]{0.5, 0.5, 0.5, 0.5}",
    /* NaN passes nothing, as in maximum */
    "max(f32[2, 2]{nan, 1, 2, 1}) axes=[1] => f32[2]{nan, 2} ; w f32[2]{2, 4} ; "
    "grad f32[2, 2]{0, 0, 4, 0}",
    /* products of the others: no zero, one, two, over one axis and over two */
    "prod(f32[3]{2, 3, 5}) => f32[]{30} ; w f32[]{2} ; grad f32[3]{30, 20, 12}",
    "prod(f32[3]{2, 0, 5}) => f32[]{0} ; w f32[]{2} ; grad f32[3]{0, 20, 0}",
    "prod(f32[3]{0, 0, 5}) => f32[]{0} ; w f32[]{2} ; grad f32[3]{0, 0, 0}",
    "prod(f32[2, 2]{2, 0, 3, 5}) => f32[]{0} ; w f32[]{1} ; grad f32[2, 2]{0, 30, 0, 0}",
    "prod(f32[2, 2]{2, 0, 3, 0}) axes=[1] => f32[2]{0, 0} ; w f32[2]{1, 10} ; "
    "grad f32[2, 2]{0, 2, 0, 30}",
    "prod(f32[2, 2]{2, 0, 0, 5}) axes=[1, 0] keepdims=true => f32[1, 1]{0} ; w f32[1, 1]{1} ; "
    "grad f32[2, 2]{0, 0, 0, 0}",
    /* y = {2, 0, 0, 0}: dx[1] = 2 * (10 + 3 * 100 + 15 * 1000) */
    "cumprod(f32[4]{2, 0, 3, 5}) axis=0 => f32[4]{2, 0, 0, 0} ; w f32[4]{1, 10, 100, 1000} ; "
    "grad f32[4]{1, 30620, 0, 0}",
    /* a second zero ends what the first one sees: dx[1] = 2 * (10 + 3 * 100) */
    "cumprod(f32[4]{2, 0, 3, 0}) axis=0 => f32[4]{2, 0, 0, 0} ; w f32[4]{1, 10, 100, 1000} ; "
    "grad f32[4]{1, 620, 0, 0}",
    /* y = {1, 2, 0, 0} */
    "cumprod(f32[4]{2, 0, 3, 5}) axis=0 exclusive=true => f32[4]{1, 2, 0, 0} ; "
    "w f32[4]{1, 10, 100, 1000} ; grad f32[4]{10, 6200, 0, 0}",
    /* y = {0, 0, 15, 5}: dx[1] = 15 * (10 + 2 * 1) */
    "cumprod(f32[4]{2, 0, 3, 5}) axis=0 reverse=true => f32[4]{0, 0, 15, 5} ; "
    "w f32[4]{1, 10, 100, 1000} ; grad f32[4]{0, 180, 500, 1300}",
    /* y = {0, 15, 5, 1}: dx[1] = 15 * 1 */
    "cumprod(f32[4]{2, 0, 3, 5}) axis=0 exclusive=true reverse=true => f32[4]{0, 15, 5, 1} ; "
    "w f32[4]{1, 10, 100, 1000} ; grad f32[4]{0, 15, 50, 130}",
    /* roots at 0 */
    "l2_norm(f32[2, 2]{0, 0, 3, 4}) axes=[1] => f32[2]{0, 5} ; w f32[2]{2, 10} ; "
    "grad f32[2, 2]{0, 0, 6, 8}",
    "l2_normalize(f32[2, 2]{0, 0, 0, 4}) axis=1 eps=9 => f32[2, 2]{0, 0, 0, 0.8} ; "
    "w f32[2, 2]{3, 6, 5, 0} ; grad f32[2, 2]{1, 2, 1, 0}",
    /* what has no probability gets no gradient, not NaN */
    "logsumexp(f32[2, 2]{-inf, -inf, 5, -inf}) axes=[1] => f32[2]{-inf, 5} ; w f32[2]{2, 4} ; "
    "grad f32[2, 2]{0, 0, 4, 0}",
    "softmax(f32[3]{-inf, 2, 2}) axis=0 => f32[3]{0, 0.5, 0.5} ; w f32[3]{7, 1, 3} ; "
    "grad f32[3]{0, -0.5, 0.5}",
    "log_softmax(f32[3]{-inf, 0, 0}) axis=0 => f32[3]{-inf, -0.693147181, -0.693147181} ; "
    "w f32[3]{0, 1, 3} ; grad f32[3]{0, -1, 1}",
    "kl(f32[2]{1, 2}, f32[2]{-inf, 0}) reduction=sum => f32[]{-2} ; w f32[]{3} ; "
    "grad f32[2]{0, -3}, f32[2]{0, -3}",
    /* ignored rows: nothing, whatever stands in them; the others as if alone */
    "cross_entropy(f32[2, 2]{0, 1.09861228866811, 7, 9}, i32[2]{0, -100}) ignore_index=-100 "
    "reduction=mean => f32[]{1.38629436} ; w f32[]{4} ; grad f32[2, 2]{-3, 3, 0, 0}, none",
    "cross_entropy(f32[2, 2]{0, 1.09861228866811, nan, inf}, i32[2]{0, 1}) ignore_index=1 "
    "reduction=none => f32[2]{1.38629436, 0} ; w f32[2]{4, 8} ; grad f32[2, 2]{-3, 3, 0, 0}, none",
    "cross_entropy(f32[2, 2]{1, 2, nan, -inf}, i32[2]{-1, -1}) ignore_index=-1 smoothing=0.5 "
    "reduction=mean => f32[]{0} ; w f32[]{4} ; grad f32[2, 2]{0, 0, 0, 0}, none",
    /* p = {1/4, 3/4}, target {7/8, 1/8} */
    "cross_entropy(f32[1, 2]{0, 1.09861228866811}, i32[1]{0}) ignore_index=-100 smoothing=0.25 "
    "reduction=sum => f32[]{1.24896783} ; w f32[]{8} ; grad f32[1, 2]{-5, 5}, none",
    /* corners */
    "l1(f32[3]{1, 2, 3}, f32[3]{2, 2, 2}) reduction=sum => f32[]{2} ; w f32[]{3} ; "
    "grad f32[3]{-3, 0, 3}, f32[3]{3, 0, -3}",
    "smooth_l1(f32[3]{1, 2, 3}, f32[3]{2, 2, 2}) beta=0 reduction=mean => f32[]{0.666666667} ; "
    "w f32[]{3} ; grad f32[3]{-1, 0, 1}, f32[3]{1, 0, -1}",
    "smooth_l1(f32[3]{2, -2, 1}, f32[3]{0, 0, 0}) beta=2 reduction=sum => f32[]{2.25} ; w f32[]{2} "
    "; "
    "grad f32[3]{2, -2, 1}, f32[3]{-2, 2, -1}",
    "huber(f32[3]{2, -2, 5}, f32[3]{0, 0, 0}) delta=2 reduction=sum => f32[]{12} ; w f32[]{2} ; "
    "grad f32[3]{4, -4, 4}, f32[3]{-4, 4, -4}",
    /* certainties: right ones stay, wrong ones are drawn back */
    "bce(f32[4]{0, 0, 1, 1}, f32[4]{0, 1, 0, 1}) reduction=sum => f32[]{200} ; w f32[]{1} ; "
    "grad f32[4]{0, -1e12, 1e12, 0}, f32[4]{100, 100, -100, -100}",
};

TEST_WALK(gradient_of) {
  for (size_t i = 0; i < COUNT_OF(lines); i++) {
    sn_ctx *ctx;
    oracle_line line;
    oracle_counts counts = {0};
    if (!test_begin("%zu %.*s", i, (int)strcspn(lines[i], "("), lines[i]))
      continue;
    if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
      if (oracle_load(ctx, op_table_get(), lines[i], &line) == SN_OK) {
        oracle_check(&line, lines[i], &counts);
        CHECK(counts.gradients > 0);
        oracle_free(&line);
      } else {
        FAIL("%s: %s", lines[i], sn_ctx_message(ctx));
      }
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}

/* --- exactly nothing from rows that are ignored --- */

TEST(ignored_rows_have_no_gradient_at_all) {
  static const sn_reduction reductions[] = {SN_REDUCTION_NONE, SN_REDUCTION_MEAN, SN_REDUCTION_SUM};
  for (size_t i = 0; i < COUNT_OF(reductions); i++) {
    graph_run r;
    if (!graph_run_start(&r))
      return;
    static const int32_t label_data[] = {2, -100, 0, -100};
    sn_value x = sn_input(r.g, "x", SN_F32, SN_SHAPE(4, 5)), dx;
    sn_value labels = sn_constant_bytes(r.g, SN_I32, SN_SHAPE(4), label_data);
    sn_value loss = sn_cross_entropy(r.g, x, labels, -100, 0.1, reductions[i]);
    loss = sn_sum(r.g, loss, SN_ALL_AXES, false);
    CHECK(sn_grad(r.g, loss, &x, 1, &dx) == SN_OK);
    sn_output(r.g, "dx", dx);
    if (graph_run_execute(&r, NULL))
      for (int64_t k = 0; k < 20; k++)
        CHECK((r.out[0].data[k] == 0) == (k / 5 % 2 == 1));
    graph_run_end(&r);
  }
}

/* --- errors that only a run can see --- */

/* The run must fail as invalid, with this in its message. */
static void check_refused(sn_value (*build)(sn_graph *g), const int64_t *bindings,
                          const char *part) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_output(r.g, "y", build(r.g));
  if (CHECK(graph_run_status(&r, bindings) == SN_ERR_INVALID))
    CHECK_STR_HAS(sn_ctx_message(r.ctx), part);
  graph_run_end(&r);
}

static sn_value rows_of(sn_graph *g) {
  return sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 4), 3));
}

static sn_value max_of_rows(sn_graph *g) { return sn_max(g, rows_of(g), SN_INTS(0), false); }
static sn_value min_of_all(sn_graph *g) { return sn_min(g, rows_of(g), SN_ALL_AXES, true); }
static sn_value argmax_of_rows(sn_graph *g) { return sn_argmax(g, rows_of(g), 0, false); }
static sn_value argmin_of_rows(sn_graph *g) { return sn_argmin(g, rows_of(g), 0, true); }

TEST(nothing_has_no_largest) {
  static const int64_t none[] = {0};
  check_refused(max_of_rows, none, "max: has no value over nothing");
  check_refused(min_of_all, none, "min: has no value over nothing");
  check_refused(argmax_of_rows, none, "argmax: has no value over nothing");
  check_refused(argmin_of_rows, none, "argmin: has no value over nothing");
}

/* Slices of nothing, but none of them. */
static sn_value max_of_columns(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 4), 0));
  return sn_max(g, x, SN_INTS(1), false);
}

TEST(no_slices_need_no_largest) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_output(r.g, "y", max_of_columns(r.g));
  if (graph_run_execute(&r, (int64_t[]){0}))
    CHECK_EQ_INT(r.out[0].count, 0);
  graph_run_end(&r);
  check_refused(max_of_columns, (int64_t[]){2}, "no value over nothing");
}

static sn_value label_of(sn_graph *g, double label) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(2, 5));
  sn_value labels = sn_full(g, SN_I32, SN_SHAPE(2), label);
  return sn_cross_entropy(g, x, labels, -100, 0, SN_REDUCTION_MEAN);
}

static sn_value label_above(sn_graph *g) { return label_of(g, 5); }
static sn_value label_below(sn_graph *g) { return label_of(g, -1); }

TEST(labels_outside_are_refused) {
  check_refused(label_above, NULL, "the label of row 0 is 5, expected 0 … 4");
  check_refused(label_below, NULL, "the label of row 0 is -1, expected 0 … 4");
}
