/* Pointwise ops: what rows of cases cannot say. Errors at run time, accuracy of small results
 * (rows compare absolutely below 1), second derivatives of the closed forms. */
#include "ops/table.h"
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

TEST(integers_by_zero_are_errors) {
  static const char *const ops[] = {"div", "floor_div", "rem", "fmod"};
  static const char *const dtypes[] = {"i32", "u8"};
  for (size_t i = 0; i < COUNT_OF(ops) * COUNT_OF(dtypes); i++) {
    char text[80];
    const char *op = ops[i / 2], *t = dtypes[i % 2];
    snprintf(text, sizeof text, "%s(%s[2, 3]{7}, %s[3]{1, 2, 0})", op, t, t);
    op_run r;
    if (op_run_load(&r, text)) {
      CHECK_EQ_INT(op_run_status(&r), SN_ERR_NUMERIC);
      CHECK_STR_HAS(sn_ctx_message(r.ctx), op);
      CHECK_STR_HAS(sn_ctx_message(r.ctx), "divided by 0 (element 2 of b)");
    }
    op_run_end(&r);
  }
}

/* Relative accuracy where the plain formula has none. */
TEST(small_results_are_exact) {
  static const struct {
    const char *text;
    double expected;
  } rows[] = {
      {"expm1(f32[1]{1e-10})", 1.00000000005e-10},
      {"log1p(f32[1]{1e-10})", 9.9999999995e-11},
      {"sigmoid(f32[1]{-100})", 3.7200759760208361e-44},
      {"softplus(f32[1]{-100})", 3.7200759760208361e-44},
      {"softplus(f32[1]{-1e-10})", 0.69314718050994531},
      {"elu(f32[1]{-1e-10}) alpha=1", -9.9999999995e-11},
      {"gelu(f32[1]{-10})", -7.6198530241604975e-23},
      {"silu(f32[1]{-100})", -3.7200759760208361e-42},
      {"tanh(f32[1]{1e-10})", 1e-10},
      {"erf(f32[1]{1e-10})", 1.1283791670955126e-10},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    op_run r;
    if (op_run_text(&r, rows[i].text) && !(fabs(r.out[0].data[0] / rows[i].expected - 1) < 1e-12))
      FAIL("%s: expected %.17g, got %.17g", rows[i].text, rows[i].expected, r.out[0].data[0]);
    op_run_end(&r);
  }
}

typedef sn_value unary_op(sn_graph *g, sn_value x);

/* d^order/dx^order of f at each element of "in0", as the output of a graph. */
static double derivative(unary_op *f, int order, double at) {
  sn_ctx *ctx;
  sn_graph *g;
  double result = NAN;
  op_test_case c;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return NAN;
  if (CHECK(case_load(ctx, op_table_get(), "neg(f32[]{0})", &c) == SN_OK)) {
    c.in[0].data[0] = at;
    if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
      sn_value x = sn_input(g, "in0", SN_F32, SN_SCALAR), y = f(g, x);
      for (int i = 0; i < order; i++)
        CHECK(sn_grad(g, y, &x, 1, &y) == SN_OK);
      sn_output(g, "y", y);
      arena memory;
      arena_init(&memory, ctx);
      case_tensor out = {0};
      if (CHECK(case_run(&c, g, REF_F64, &memory, &out) == SN_OK))
        result = out.data[0];
      arena_clear(&memory);
      sn_graph_destroy(g);
    }
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
  return result;
}

/* Gradients are graphs of table ops, so they can be differentiated again. */
TEST(second_derivatives) {
  static unary_op *const ops[] = {
      sn_recip,   sn_sqr,   sn_sqrt, sn_rsqrt, sn_exp,       sn_exp2,     sn_expm1,    sn_log,
      sn_log2,    sn_log1p, sn_sin,  sn_cos,   sn_tan,       sn_atan,     sn_tanh,     sn_erf,
      sn_sigmoid, sn_silu,  sn_gelu, sn_mish,  sn_gelu_tanh, sn_softplus, sn_hardswish};
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    double at = 0.7, h = 1e-3;
    double expected = (8 * (derivative(ops[i], 1, at + h) - derivative(ops[i], 1, at - h)) -
                       (derivative(ops[i], 1, at + 2 * h) - derivative(ops[i], 1, at - 2 * h))) /
                      (12 * h);
    double got = derivative(ops[i], 2, at);
    if (!(fabs(got - expected) < 1e-8 * fmax(1, fabs(expected))))
      FAIL("op %zu: differences give %.12g, the graph gives %.12g", i, expected, got);
  }
}
