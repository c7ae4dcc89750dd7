/* attention in graphs: gradients of rows that see nothing, second order, symbolic sizes. */
#include "ref/ref.h"
#include "support/op_run.h"
#include "support/test.h"

#include "ops/table.h"

#include <math.h>

typedef struct bench {
  sn_ctx *ctx;
  sn_graph *g;
  sn_value q, k, v, mask, lengths, sinks;
  sn_value first;
} bench;

/* Sizes are given as dims: numbers or symbols of the graph. */
static void build(bench *t, sn_dim b, sn_dim sq, sn_dim skv, bool masked) {
  sn_graph *g = t->g;
  t->q = sn_input(g, "q", SN_F32, SN_SHAPE(b, 2, sq, 3));
  t->k = sn_input(g, "k", SN_F32, SN_SHAPE(b, 1, skv, 3));
  t->v = sn_input(g, "v", SN_F32, SN_SHAPE(b, 1, skv, 2));
  t->mask = masked ? sn_input(g, "mask", SN_BOOL, SN_SHAPE(sq, skv)) : SN_NONE;
  t->lengths = masked ? SN_NONE : sn_input(g, "lengths", SN_I32, SN_SHAPE(b));
  t->sinks = masked ? SN_NONE : sn_input(g, "sinks", SN_F32, SN_SHAPE(2));
  t->first = sn_attention(g, t->q, t->k, t->v, t->mask, SN_NONE, t->lengths, t->sinks, 0.7, 1.5,
                          SN_CAUSAL_END, masked ? 0 : 3, SN_LAYOUT_BHSD);
}

static bool open_bench(bench *t) {
  *t = (bench){0};
  return CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK) &&
         CHECK(sn_graph_create(t->ctx, &t->g) == SN_OK);
}

static void close_bench(bench *t) {
  sn_graph_destroy(t->g);
  sn_ctx_destroy(t->ctx);
}

/* Fills a leaf: drawn numbers; `length` for lengths; the mask hides row 1 and key 0. */
static void fill(const bench *t, ref_tensor *x, sn_value leaf, const char *name) {
  for (int64_t i = 0; leaf.id && x->data && i < x->count; i++) {
    if (leaf.id == t->lengths.id)
      x->data[i] = (double)(2 + i % 2);
    else if (leaf.id == t->mask.id)
      x->data[i] = i / x->dim[1] != 1 && i % x->dim[1] != 0;
    else
      x->data[i] = case_weight(name, i);
  }
}

/* Runs and copies output k to out (room for 64); its count, or -1. */
static int64_t run_output(const bench *t, const int64_t *bindings, int k, double *out) {
  ref_machine m;
  if (!CHECK(ref_start(&m, t->g, bindings, REF_F64) == SN_OK))
    return -1;
  const sn_value leaves[] = {t->q, t->k, t->v, t->mask, t->lengths, t->sinks};
  static const char *const names[] = {"q", "k", "v", "mask", "lengths", "sinks"};
  for (int i = 0; i < 6; i++)
    fill(t, &m.tensors[leaves[i].id], leaves[i], names[i]);
  int64_t n = -1;
  if (ref_execute(&m, NULL) == SN_OK) {
    const ref_tensor *y = &m.tensors[t->g->outputs[k].value.id];
    n = y->count;
    CHECK(n <= 64);
    memcpy(out, y->data, (size_t)n * sizeof *out);
  } else {
    FAIL("%s", sn_ctx_message(t->ctx));
  }
  ref_end(&m);
  return n;
}

TEST(hidden_rows_have_no_gradient) {
  bench t;
  sn_value wrt[3], grads[3] = {0};
  int64_t none[1] = {0};
  double d[3][64];
  if (open_bench(&t)) {
    build(&t, 1, 3, 3, true);
    sn_value loss = sn_sum(t.g, sn_sqr(t.g, t.first), SN_ALL_AXES, false);
    wrt[0] = t.q, wrt[1] = t.k, wrt[2] = t.v;
    CHECK(sn_grad(t.g, loss, wrt, 3, grads) == SN_OK);
    for (int i = 0; i < 3; i++)
      sn_output(t.g, (const char *[]){"dq", "dk", "dv"}[i], grads[i]);
    for (int i = 0; i < 3; i++)
      for (int64_t e = 0, n = run_output(&t, none, i, d[i]); e < n; e++)
        CHECK(isfinite(d[i][e]));
    /* Rows 0 and 1 see nothing (key 0 is hidden, row 1 is masked); row 2 sees keys 1 and 2. */
    for (int e = 0; e < 18; e++)
      CHECK((d[0][e] == 0) == (e / 3 % 3 != 2));
    for (int e = 0; e < 9; e++)
      CHECK((d[1][e] == 0) == (e / 3 == 0));
    for (int e = 0; e < 6; e++)
      CHECK((d[2][e] == 0) == (e / 2 == 0));
  }
  close_bench(&t);
}

/* v does not count for the log-sum-exp, q does. */
TEST(a_loss_of_lse_alone_leaves_v_out) {
  bench t;
  sn_value grads[2] = {0};
  int64_t none[1] = {0};
  double d[64];
  if (open_bench(&t)) {
    build(&t, 1, 2, 3, false);
    sn_value lse = sn_value_result(t.g, t.first, 1), wrt[] = {t.v, t.q};
    CHECK(sn_grad(t.g, sn_sum(t.g, lse, SN_ALL_AXES, false), wrt, 2, grads) == SN_OK);
    sn_output(t.g, "dv", grads[0]);
    sn_output(t.g, "dq", grads[1]);
    for (int64_t e = 0, n = run_output(&t, none, 0, d); e < n; e++)
      CHECK_NEAR(d[e], 0, 0);
    for (int64_t e = 0, n = run_output(&t, none, 1, d); e < n; e++)
      CHECK(d[e] != 0);
  }
  close_bench(&t);
}

TEST(symbolic_sizes_give_the_same_numbers) {
  static const int64_t sizes[][3] = {{2, 2, 3}, {1, 1, 5}, {2, 4, 4}, {0, 2, 3}, {2, 0, 3}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    bench fixed, open;
    int64_t none[1] = {0};
    double expected[64], got[64];
    if (!open_bench(&fixed) || !open_bench(&open))
      return;
    build(&fixed, sizes[i][0], sizes[i][1], sizes[i][2], false);
    sn_dim b = sn_symbol(open.g, "batch", 4), sq = sn_symbol(open.g, "rows", 8);
    build(&open, b, sq, sn_symbol(open.g, "keys", 8), false);
    const node *n = graph_node(open.g, open.first);
    sn_value parts[2] = {0};
    build_ctx c = {.graph = open.g,
                   .attrs = n->attrs,
                   .n_in = n->n_in,
                   .n_out = n->n_out,
                   .in = n->in,
                   .out = parts};
    op_impl_attention.decompose(&c);
    for (int k = 0; k < 2; k++) {
      sn_output(fixed.g, k ? "lse" : "out", sn_value_result(fixed.g, fixed.first, k));
      sn_output(open.g, k ? "lse" : "out", sn_value_result(open.g, open.first, k));
    }
    sn_output(open.g, "composed out", parts[0]);
    sn_output(open.g, "composed lse", parts[1]);
    CHECK_EQ_STR(sn_graph_message(open.g), "");
    for (int k = 0; k < 4; k++) {
      int64_t count = run_output(&fixed, none, k % 2, expected);
      if (CHECK_EQ_INT(run_output(&open, sizes[i], k, got), count))
        CHECK_NEAR(op_run_distance(got, expected, count), 0, 1e-12);
    }
    close_bench(&fixed);
    close_bench(&open);
  }
}

/* The square of a gradient, as a function of a step x that stretches k; or its derivative for x. */
static double squared_gradient(double x, bool derivative) {
  bench t;
  int64_t none[1] = {0};
  double y[64] = {NAN};
  if (!open_bench(&t))
    return NAN;
  build(&t, 1, 2, 3, false);
  sn_value at = sn_full(t.g, SN_F32, SN_SCALAR, x), dq, dx;
  sn_value k = sn_add(t.g, t.k, sn_mul(t.g, at, t.k));
  sn_value out = sn_attention(t.g, t.q, k, t.v, SN_NONE, SN_NONE, t.lengths, t.sinks, 0.7, 1.5,
                              SN_CAUSAL_END, 3, SN_LAYOUT_BHSD);
  sn_value loss = sn_sum(t.g, sn_sqr(t.g, out), SN_ALL_AXES, false);
  loss = sn_add(t.g, loss, sn_sum(t.g, sn_value_result(t.g, out, 1), SN_ALL_AXES, false));
  CHECK(sn_grad(t.g, loss, &t.q, 1, &dq) == SN_OK);
  sn_value once = sn_sum(t.g, sn_sqr(t.g, dq), SN_ALL_AXES, false);
  CHECK(sn_grad(t.g, once, &at, 1, &dx) == SN_OK);
  sn_output(t.g, "y", derivative ? dx : once);
  run_output(&t, none, 0, y);
  close_bench(&t);
  return y[0];
}

TEST(second_order_agrees_with_differences) {
  double h = 1e-4, expected = (squared_gradient(h, false) - squared_gradient(-h, false)) / (2 * h);
  CHECK(fabs(expected) > 1e-3);
  CHECK_NEAR(squared_gradient(0, true), expected, 1e-6 * fabs(expected) + 1e-7);
}
