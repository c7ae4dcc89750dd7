/* Every case of every op through the whole pipeline, against the definition: forward, and with the gradients of all
 * float arguments where the op has them; planned with fusion and without, optimised and not. And runs that must
 * fail: with a message, and with the states as they were. */
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALL_MODES = PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED };

/* Inputs of the case by name; weights of the gradients are drawn. */
static double case_number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const op_test_case *c = user;
  (void)dtype;
  return strncmp(name, "in", 2) == 0 ? c->in[atoi(name + 2)].data[i] : case_weight(name, i);
}

static void check_graph(op_test_case *c, const char *line, const sn_graph *g, const char *what) {
  char why[1000];
  plan_numbers n = {.fill = case_number, .user = c};
  if (plan_check(g, ALL_MODES, &n, 1, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s: %s: %s", line, what, why);
}

/* sum over the float results of sum(result * w) */
static sn_value build_loss(sn_graph *g, sn_value first, int n_results) {
  sn_value loss = SN_NONE;
  for (int k = 0; k < n_results; k++) {
    sn_value y = sn_value_result(g, first, k);
    sn_type t = sn_value_type(g, y);
    if (!dtype_is_float(t.dtype))
      continue;
    char name[32];
    snprintf(name, sizeof name, "w%d", k);
    sn_value w = sn_input(g, name, t.dtype, t.shape);
    sn_value of_one = sn_cast(g, sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false), SN_F32);
    loss = loss.id ? sn_add(g, loss, of_one) : of_one;
  }
  return loss;
}

static void check_gradients(op_test_case *c, const char *line) {
  sn_graph *g;
  sn_value first, wrt[CASE_MAX_INPUTS], grads[CASE_MAX_INPUTS];
  int n = 0;
  if (!CHECK(case_graph(c, &g, &first) == SN_OK))
    return;
  for (int i = 0; i < c->n_in; i++)
    if (dtype_is_float(c->in[i].type.dtype))
      wrt[n++] = case_input(c, g, i);
  sn_value loss = build_loss(g, first, c->op->n_results);
  if (n > 0 && loss.id && CHECK(sn_grad(g, loss, wrt, n, grads) == SN_OK)) {
    for (int k = 0; k < n; k++) {
      char name[32];
      snprintf(name, sizeof name, "d%d", k);
      sn_output(g, name, grads[k]);
    }
    check_graph(c, line, g, "with gradients");
  }
  sn_graph_destroy(g);
}

static void check_case(const char *line) {
  sn_ctx *ctx;
  op_test_case c;
  sn_graph *g;
  sn_value first;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK)) {
    if (CHECK(case_graph(&c, &g, &first) == SN_OK)) {
      check_graph(&c, line, g, "forward");
      if (!c.op->impl->no_grad)
        check_gradients(&c, line);
      sn_graph_destroy(g);
    }
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}

TEST_WALK(every_op) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!impl->ref || !test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases; k++)
      if (!impl->cases[k].error)
        check_case(impl->cases[k].text);
    test_end();
  }
}

/* --- runs that must fail --- */

/* Cases that build, and that the definition refuses to run. */
static const char *const refused[] = {
    "div(i32[3]{7, 8, 9}, i32[3]{1, 0, 2})",
    "floor_div(i32[2]{7, 8}, i32[]{0})",
    "rem(i32[2]{7, 8}, i32[2]{0, 3})",
    "fmod(u8[2]{7, 8}, u8[2]{3, 0})",
    "gather(f32[4, 3], i32[2]{1, 4})",
    "gather(f32[4, 3], i32[2, 2]{0, 1, -1, 2})",
    "gather_along(f32[2, 3], i32[2, 2]{0, 2, 3, 1}) axis=1",
    "index_select(f32[2, 3], i32[2]{0, -1}) axis=1",
    "scatter_set(f32[4], i32[2]{0, 4}, f32[2])",
    "scatter_add(f32[4, 2], i32[2]{0, -1}, f32[2, 2])",
    "scatter_along_set(f32[2, 5], i32[2, 1]{4, 5}, f32[2, 1]) axis=1",
    "scatter_along_add(f32[2, 5], i32[1, 5]{0, 1, 2, 1, 0}, f32[1, 5]) axis=0",
    "update_slice(f32[5], f32[3], i32[]{3}) axis=0",
    "update_slice(f32[5, 2], f32[1, 2], i32[]{-1}) axis=0",
    "slice_at(f32[5], i32[]{3}) axis=0 size=3",
    "slice_at(f32[2, 5], i32[]{-1}) axis=1 size=2",
    "cross_entropy(f32[2, 3], i32[2]{0, 3}) ignore_index=-100 reduction=mean",
    "cross_entropy(f32[2, 3], i32[2]{-1, 1}) ignore_index=-100 reduction=none",
    "attention(f32[1, 1, 2, 3], f32[1, 1, 4, 3], f32[1, 1, 4, 3], none, none, i32[1]{5}, none) "
    "scale=1",
    "sample(f32[2, 4], i32[3]{1, 2, 3}, i32[2, 1]{0, 4}) temperature=1 top_p=1 "
    "repetition_penalty=2"};

/* A state beside it that must stay as it was: plan_run_once looks. */
static void add_counter(sn_graph *g) {
  sn_value s = sn_state(g, "counter", SN_F32, SN_SHAPE(3), SN_INIT_ZEROS, 0);
  sn_assign(g, s, sn_affine(g, s, 1, 1));
}

static void check_refused(const char *line) {
  sn_ctx *ctx;
  op_test_case c;
  sn_graph *g;
  sn_value first;
  char why[1000];
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (case_load(ctx, op_table_get(), line, &c) != SN_OK) {
    FAIL("%s: %s", line, sn_ctx_message(ctx));
  } else {
    if (case_graph(&c, &g, &first) == SN_OK) {
      add_counter(g);
      plan_numbers n = {.fill = case_number, .user = &c};
      for (int mode = 0; mode < 4; mode++)
        if (plan_check(g, 1 << mode, &n, 1, NULL, why, sizeof why) != PLAN_FAILS)
          FAIL("%s: should fail: %s", line, why);
      sn_graph_destroy(g);
    } else {
      FAIL("%s: %s", line, sn_ctx_message(ctx));
    }
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}

TEST_WALK(refused_at_run_time) {
  for (size_t i = 0; i < COUNT_OF(refused); i++)
    if (test_begin("%.*s %zu", (int)strcspn(refused[i], "("), refused[i], i)) {
      check_refused(refused[i]);
      test_end();
    }
}
