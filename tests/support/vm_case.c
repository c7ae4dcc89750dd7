/* See vm_case.h. */
#include "support/vm_case.h"

#include "ir/dtype.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/test.h"

#include <sinew/sinew.h>
#include <stdio.h>
#include <stdlib.h>

/* Inputs of the case by name; weights of the gradients are drawn. */
static double case_number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const op_test_case *c = user;
  (void)dtype;
  return strncmp(name, "in", 2) == 0 ? c->in[atoi(name + 2)].data[i] : case_weight(name, i);
}

/* sum over the float results of sum(result * w) */
static sn_value build_loss(sn_graph *g, sn_value first, int n_results) {
  sn_value loss = SN_NONE;
  for (int k = 0; k < n_results; k++) {
    sn_value y = sn_value_result(g, first, k);
    sn_type t = sn_value_type(g, y);
    char name[32];
    if (t.dtype != SN_F32 && t.dtype != SN_F16 && t.dtype != SN_BF16)
      continue;
    snprintf(name, sizeof name, "w%d", k);
    sn_value weighted = sn_mul(g, y, sn_input(g, name, t.dtype, t.shape));
    sn_value one = sn_cast(g, sn_sum(g, weighted, SN_ALL_AXES, false), SN_F32);
    loss = loss.id ? sn_add(g, loss, one) : one;
  }
  return loss;
}

/* Adds gradients of the float arguments as outputs; false when there are none. */
static bool add_gradients(const op_test_case *c, sn_graph *g, sn_value first) {
  sn_value wrt[CASE_MAX_INPUTS], grads[CASE_MAX_INPUTS];
  int n = 0;
  for (int i = 0; i < c->n_in; i++) {
    sn_dtype t = c->in[i].type.dtype;
    if (t == SN_F32 || t == SN_F16 || t == SN_BF16)
      wrt[n++] = case_input(c, g, i);
  }
  sn_value loss = build_loss(g, first, c->op->n_results);
  if (n == 0 || !loss.id || !CHECK(sn_grad(g, loss, wrt, n, grads) == SN_OK))
    return false;
  for (int k = 0; k < n; k++) {
    char name[32];
    snprintf(name, sizeof name, "d%d", k);
    sn_output(g, name, grads[k]);
  }
  return true;
}

void vm_case(const char *line, const vm_check_options *options, vm_tally *tally) {
  sn_ctx *ctx;
  op_test_case c;
  sn_value first;
  char why[1000];
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK)) {
    for (int gradients = 0; gradients < (c.op->impl->no_grad ? 1 : 2); gradients++) {
      plan_numbers n = {.fill = case_number, .user = &c};
      sn_graph *g;
      if (!CHECK(case_graph(&c, &g, &first) == SN_OK))
        break;
      if (!gradients || add_gradients(&c, g, first))
        if (vm_check(g, &n, 1, options, tally, why, sizeof why) == PLAN_WRONG)
          FAIL("%s: %s: %s", line, gradients ? "with gradients" : "forward", why);
      sn_graph_destroy(g);
    }
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}
