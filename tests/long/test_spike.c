/* Every case of every op, forward and with gradients, through the compiler and as shaders on the Vulkan device, against
 * the reference. Programs with a core (attention, sorting, …) are counted and passed over. See spike/planned.h. */
#include "ir/dtype.h"
#include "ops/table.h"
#include "spike/planned.h"
#include "spike/trial.h"
#include "support/case.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int verdicts[PLANNED_FAILS + 1];

static double case_number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const op_test_case *c = user;
  (void)dtype;
  return strncmp(name, "in", 2) == 0 ? c->in[atoi(name + 2)].data[i] : case_weight(name, i);
}

static void check_graph(op_test_case *c, const char *line, const sn_graph *g) {
  char why[1000];
  /* wide enough for the driver's functions */
  plan_numbers n = {.fill = case_number, .user = c, .tolerance = 1e-4};
  planned_verdict v = planned_check(g, &n, false, why, sizeof why);
  verdicts[v]++;
  if (v == PLANNED_WRONG)
    FAIL("%s: %s", line, why);
}

/* sum over the float results of sum(result * w) */
static sn_value build_loss(sn_graph *g, sn_value first, int n_results) {
  sn_value loss = SN_NONE;
  for (int k = 0; k < n_results; k++) {
    sn_value y = sn_value_result(g, first, k);
    sn_type t = sn_value_type(g, y);
    char name[32];
    if (!dtype_is_float(t.dtype))
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
  for (int i = 0; i < c->n_in; i++)
    if (dtype_is_float(c->in[i].type.dtype))
      wrt[n++] = case_input(c, g, i);
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

static void check_case(const char *line) {
  sn_ctx *ctx;
  op_test_case c;
  sn_value first;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK)) {
    for (int gradients = 0; gradients < (c.op->impl->no_grad ? 1 : 2); gradients++) {
      sn_graph *g;
      if (!CHECK(case_graph(&c, &g, &first) == SN_OK))
        break;
      if (!gradients || add_gradients(&c, g, first))
        check_graph(&c, line, g);
      sn_graph_destroy(g);
    }
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}

TEST_WALK(ops_as_shaders) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!impl->ref || !test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases && trial_possible(); k++)
      if (!impl->cases[k].error)
        check_case(impl->cases[k].text);
    test_end();
  }
  printf("%d right, %d wrong, %d with cores, %d that fail before\n", verdicts[PLANNED_RIGHT],
         verdicts[PLANNED_WRONG], verdicts[PLANNED_CORE], verdicts[PLANNED_FAILS]);
}
