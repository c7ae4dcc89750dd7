/* Reductions, norms and losses in graphs: sizes that are symbols give what numbers give, in
 * results, decompositions and gradients; second-order gradients. */
#include "ops/table.h"
#include "support/graph_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

/* An op on x (and more) with sizes n and m. */
typedef sn_value (*builder)(sn_graph *g, sn_dim n, sn_dim m);

static sn_value x_of(sn_graph *g, sn_dim n, sn_dim m) {
  return sn_input(g, "x", SN_F32, SN_SHAPE(n, m));
}

static sn_value vector(sn_graph *g, const char *name, sn_dim m) {
  return sn_input(g, name, SN_F32, SN_SHAPE(m));
}

static sn_value positive(sn_graph *g, sn_value x) { return sn_affine(g, x, 0.4, 0.5); }

static sn_value labels_of(sn_graph *g, sn_dim n) {
  return sn_sub(g, sn_arange(g, SN_I32, n, 0, 1), sn_scalar(g, SN_I32, 1)); /* -1, 0, 1, … */
}

#define ROW(name, expression) \
  static sn_value name(sn_graph *g, sn_dim n, sn_dim m) { return expression; }

ROW(sums, sn_sum(g, x_of(g, n, m), SN_INTS(0), false))
ROW(means, sn_mean(g, x_of(g, n, m), SN_INTS(1), true))
ROW(mean_of_all, sn_mean(g, x_of(g, n, m), SN_ALL_AXES, false))
ROW(variances, sn_var(g, x_of(g, n, m), SN_INTS(1), 0, false))
ROW(unbiased, sn_var(g, x_of(g, n, m), SN_ALL_AXES, 1, true))
ROW(products, sn_prod(g, x_of(g, n, m), SN_ALL_AXES, false))
ROW(logsums, sn_logsumexp(g, x_of(g, n, m), SN_INTS(1), false))
ROW(norms, sn_l2_norm(g, x_of(g, n, m), SN_ALL_AXES, false))
ROW(running_sums, sn_cumsum(g, x_of(g, n, m), 1, true, true))
ROW(running_products, sn_cumprod(g, x_of(g, n, m), 0, false, false))
ROW(running_products_back, sn_cumprod(g, x_of(g, n, m), 1, true, true))
ROW(softmaxes, sn_softmax(g, x_of(g, n, m), 1))
ROW(log_softmaxes, sn_log_softmax(g, x_of(g, n, m), 0))
ROW(layer_norms, sn_layer_norm(g, x_of(g, n, m), vector(g, "w", m), vector(g, "b", m), 1, 0.1))
ROW(rms_norms, sn_rms_norm(g, x_of(g, n, m), vector(g, "w", m), SN_NONE, 1, 0.1))
ROW(rms_norm_of_all, sn_rms_norm(g, x_of(g, n, m), SN_NONE, SN_NONE, 2, 0.1))
ROW(group_norms, sn_group_norm(g, sn_input(g, "x", SN_F32, SN_SHAPE(n, 4, m)), vector(g, "w", 4),
                               vector(g, "b", 4), 2, 0.1))
ROW(batch_norms, sn_batch_norm(g, x_of(g, n, m), SN_NONE, vector(g, "b", m), vector(g, "mean", m),
                               positive(g, vector(g, "var", m)), 0.1))
ROW(batch_norms_train,
    sn_batch_norm_train(g, sn_input(g, "x", SN_F32, SN_SHAPE(n, 3, m)), vector(g, "w", 3), SN_NONE,
                        vector(g, "mean", 3), vector(g, "var", 3), 0.25, 0.1))
ROW(l2_normalized, sn_l2_normalize(g, x_of(g, n, m), 1, 0.1))
ROW(gated, sn_gated_rms_norm(g, x_of(g, n, m), sn_input(g, "z", SN_F32, SN_SHAPE(n, m)),
                             vector(g, "w", m), 0.1))
ROW(cross_entropies,
    sn_cross_entropy(g, x_of(g, n, m), labels_of(g, n), -1, 0.25, SN_REDUCTION_MEAN))
ROW(cross_entropies_dist,
    sn_cross_entropy_dist(g, x_of(g, n, m), sn_input(g, "t", SN_F32, SN_SHAPE(n, m)), 0.25,
                          SN_REDUCTION_MEAN))
ROW(bces, sn_bce(g, positive(g, x_of(g, n, m)), sn_input(g, "t", SN_F32, SN_SHAPE(n, m)),
                 SN_REDUCTION_MEAN))
ROW(bces_logits,
    sn_bce_logits(g, x_of(g, n, m), sn_input(g, "t", SN_F32, SN_SHAPE(n, m)), SN_REDUCTION_MEAN))
ROW(squares, sn_mse(g, x_of(g, n, m), sn_input(g, "t", SN_F32, SN_SHAPE(n, m)), SN_REDUCTION_MEAN))
ROW(divergences,
    sn_kl(g, x_of(g, n, m), sn_input(g, "t", SN_F32, SN_SHAPE(n, m)), SN_REDUCTION_MEAN))

static const struct {
  const char *name;
  builder build;
  bool smooth;  /* second order is checked */
  bool nothing; /* sizes of 0 give no error */
} rows[] = {
    {"sum", sums, false, true},
    {"mean", means, false, true},
    {"mean of all", mean_of_all, false, true},
    {"var", variances, true, true},
    {"var unbiased", unbiased, true, true},
    {"prod", products, true, true},
    {"logsumexp", logsums, true, true},
    {"l2_norm", norms, true, true},
    {"cumsum", running_sums, false, true},
    {"cumprod", running_products, true, true},
    {"cumprod back", running_products_back, true, true},
    {"softmax", softmaxes, true, true},
    {"log_softmax", log_softmaxes, true, true},
    {"layer_norm", layer_norms, true, true},
    {"rms_norm", rms_norms, true, true},
    {"rms_norm of all", rms_norm_of_all, true, true},
    {"group_norm", group_norms, true, true},
    {"batch_norm", batch_norms, true, true},
    {"batch_norm_train", batch_norms_train, true, true},
    {"l2_normalize", l2_normalized, true, true},
    {"gated_rms_norm", gated, true, true},
    {"cross_entropy", cross_entropies, true, false},
    {"cross_entropy_dist", cross_entropies_dist, true, true},
    {"bce", bces, true, true},
    {"bce_logits", bces_logits, true, true},
    {"mse", squares, true, true},
    {"kl", divergences, true, true},
};

/* sum over the float results of sum(result * drawn weights) */
static sn_value weighted(sn_graph *g, sn_value first, const char *prefix) {
  sn_value total = SN_NONE;
  for (int k = 0; k < graph_node(g, first)->n_out; k++) {
    char name[32];
    snprintf(name, sizeof name, "%s%d", prefix, k);
    sn_value y = sn_value_result(g, first, k);
    sn_value w = sn_input(g, name, SN_F32, sn_value_type(g, y).shape);
    sn_value part = sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false);
    total = total.id ? sn_add(g, total, part) : part;
  }
  return total;
}

static sn_value decomposed(sn_graph *g, sn_value first) {
  node n = *graph_node(g, first);
  sn_value out[MAX_RESULTS] = {0};
  build_ctx c = {
      .graph = g, .attrs = n.attrs, .n_in = n.n_in, .n_out = n.n_out, .in = n.in, .out = out};
  if (!graph_op(g, &n)->impl->decompose)
    return first;
  graph_op(g, &n)->impl->decompose(&c);
  return out[n.n_out - 1];
}

/* Outputs: the last result, the same decomposed, the gradient for x, that through the
 * decomposition. */
static void build_outputs(sn_graph *g, sn_value first) {
  sn_value last = sn_value_result(g, first, graph_node(g, first)->n_out - 1);
  sn_value again = decomposed(g, first), x = graph_find_named(g, OP_input, "x"), dx[2];
  sn_value w = sn_input(g, "w last", SN_F32, sn_value_type(g, last).shape);
  sn_value loss = sn_sum(g, sn_mul(g, again, w), SN_ALL_AXES, false);
  CHECK(sn_grad(g, weighted(g, first, "w"), &x, 1, &dx[0]) == SN_OK);
  CHECK(sn_grad(g, loss, &x, 1, &dx[1]) == SN_OK);
  sn_output(g, "y", last);
  sn_output(g, "decomposed", again);
  sn_output(g, "dx", dx[0]);
  sn_output(g, "dx decomposed", dx[1]);
}

/* As ref_tensor_near, but NaN and infinities, which sizes of 0 give, equal themselves. */
static void check_same(const char *name, const ref_tensor *a, const ref_tensor *b) {
  if (!CHECK_EQ_INT(a->count, b->count))
    return;
  for (int64_t i = 0; i < a->count; i++) {
    double x = a->data[i], y = b->data[i];
    if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-12 * fmax(1, fabs(x))))
      FAIL("%s: element %lld: %.17g and %.17g", name, (long long)i, x, y);
  }
}

static void compare(const char *name, builder build, int64_t n, int64_t m) {
  graph_run numbers, symbols;
  if (graph_run_start(&numbers) && graph_run_start(&symbols)) {
    build_outputs(numbers.g, build(numbers.g, n, m));
    sn_dim sn = sn_symbol(symbols.g, "n", 6), sm = sn_symbol(symbols.g, "m", 7);
    build_outputs(symbols.g, build(symbols.g, sn, sm));
    if (graph_run_execute(&numbers, NULL) && graph_run_execute(&symbols, (int64_t[]){n, m})) {
      for (int k = 0; k < 4; k++)
        check_same(name, &numbers.out[k], &symbols.out[k]);
      check_same(name, &symbols.out[0], &symbols.out[1]);
    } else {
      FAIL("%s with sizes %lld and %lld", name, (long long)n, (long long)m);
    }
    graph_run_end(&symbols);
  }
  graph_run_end(&numbers);
}

TEST_WALK(symbolic_sizes) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!test_begin("%s", rows[i].name))
      continue;
    compare(rows[i].name, rows[i].build, 3, 5);
    compare(rows[i].name, rows[i].build, 5, 4);
    compare(rows[i].name, rows[i].build, 1, 1);
    if (rows[i].nothing) {
      compare(rows[i].name, rows[i].build, 0, 4);
      compare(rows[i].name, rows[i].build, 3, 0);
    }
    test_end();
  }
}

/* --- second order --- */

static void check_second(const char *name, builder build) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_graph *g = r.g;
  sn_value y = build(g, 3, 4), x = graph_find_named(g, OP_input, "x"), dx, second;
  CHECK(sn_grad(g, weighted(g, y, "w"), &x, 1, &dx) == SN_OK);
  sn_value loss = weighted(g, sn_mul(g, dx, dx), "u");
  sn_output(g, "first", loss);
  if (sn_grad(g, loss, &x, 1, &second) == SN_OK) {
    sn_output(g, "second", second);
    if (graph_run_execute(&r, NULL)) {
      ref_tensor got = r.out[1];
      for (int64_t i = 0; i < got.count; i++)
        if (!CHECK_NEAR(got.data[i], graph_run_difference(&r, "x", i), 1e-6))
          FAIL("%s: second gradient for x[%lld]", name, (long long)i);
    }
  } else {
    FAIL("%s: %s", name, sn_graph_message(g));
  }
  graph_run_end(&r);
}

TEST_WALK(second_order) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (!rows[i].smooth || !test_begin("%s", rows[i].name))
      continue;
    check_second(rows[i].name, rows[i].build);
    test_end();
  }
}
