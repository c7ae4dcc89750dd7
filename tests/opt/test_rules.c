/* Every rule, from its row: the start is built from its pattern and instance, the rule alone is run on it, and
 * start and goal are compared through the reference; so are their gradients where a rule is used before those are taken. A row whose instance does not fit fails. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "opt/emit.h"
#include "opt/intake.h"
#include "opt/saturate.h"
#include "support/graph_same.h"
#include "support/rule_instance.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

typedef struct proof {
  sn_ctx *ctx;
  int index, which; /* of the goals: there may be several, by what was passed over */
  bool more;
  rule_instance instance;
  sn_graph *start, *goal;
  egraph e;
  rule_set set;
  extraction x;
  opt_report report;
} proof;

/* The node that the rule put into the class of the start. There is none where the goal is a value or a node
 * that was there: then the first of the class is chosen already. Of several results the rule replaces all. */
static bool take_goal(proof *p, class_id root) {
  bool added = false;
  if (p->x.choice[egraph_find(&p->e, root)]->op == OP_PROJECT)
    root = p->x.choice[egraph_find(&p->e, root)]->in[0];
  int at = 0;
  for (enode *n = egraph_class(&p->e, root)->first; n; n = n->next) {
    if (n->dead || n->rule != p->index + 1)
      continue;
    added = true;
    p->more = p->more || at > p->which;
    if (at++ == p->which && !extract_force(&p->x, n))
      return FAIL("the goal cannot be taken");
  }
  return added ? CHECK(at > p->which) : true;
}

static bool prove(proof *p) {
  const sn_graph *g = p->start;
  bool live[64] = {false};
  class_id of[64] = {0};
  opt_options o = {.fast_math = true, .max_matches = 1000};
  if (!CHECK(g->n_nodes < 64 && g->n_values < 64))
    return false;
  graph_mark_live(g, live);
  bool ok = rule_set_init(&p->set, p->ctx, &p->e.memory, g->table, &o, p->index) == SN_OK &&
            opt_intake(&p->e, g, live, of) == SN_OK &&
            opt_saturate(&p->e, &p->set, &o, &p->report) == SN_OK;
  if (!ok)
    return FAIL("%s", sn_ctx_message(p->ctx));
  class_id root = of[g->outputs[0].value.id];
  if (!CHECK(p->report.rule[p->index].hits > 0))
    return false;
  if (extract_start(&p->x, &p->e, of, &o) != SN_OK || !take_goal(p, root))
    return false;
  return CHECK(opt_emit(&p->x, of, p->goal, NULL) == SN_OK) || FAIL("%s", sn_ctx_message(p->ctx));
}

/* --- gradients --- */

/* The gradients of a weighted sum of "y" for every float leaf, as outputs; *out_n of them. */
static sn_status add_gradients(sn_graph *g, int *out_n) {
  sn_value wrt[LETTERS], grad[LETTERS], y = g->outputs[0].value;
  char name[16];
  int n = 0;
  for (uint32_t i = 0; i < g->n_nodes && n < LETTERS; i++) {
    sn_value v = node_result(&g->nodes[i], 0);
    if (op_has_name(graph_op(g, &g->nodes[i])) && dtype_is_float(sn_value_type(g, v).dtype))
      wrt[n++] = v;
  }
  *out_n = n;
  sn_type type = sn_value_type(g, y);
  sn_value weighted = sn_mul(g, y, sn_input(g, "o.weights", type.dtype, type.shape));
  sn_value loss = sn_sum(g, weighted, SN_ALL_AXES, false);
  SN_TRY(sn_grad(g, loss, wrt, n, grad));
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "d%s", sn_value_name(g, wrt[i]));
    sn_output(g, name, grad[i]);
  }
  return sn_graph_status(g);
}

/* What is recognised before gradients are taken must not change them. */
static void compare_gradients(proof *p) {
  int n = 0, again = 0;
  char why[400];
  graph_same same = {
      .mode = REF_F64, .tolerance = 1e-6, .fill = rule_instance_fill, .user = &p->instance};
  if (!(rule_text(p->index)->flags & (RULE_RECOGNISE | RULE_BEFORE_GRADIENTS)) ||
      !dtype_is_float(sn_value_type(p->start, p->start->outputs[0].value).dtype))
    return;
  if (add_gradients(p->start, &n) != SN_OK || add_gradients(p->goal, &again) != SN_OK)
    FAIL("%s", sn_ctx_message(p->ctx));
  else if (CHECK(n > 0 && n == again) &&
           graph_compare(&same, p->start, p->goal, why, sizeof why) != GRAPHS_AGREE)
    FAIL("gradients: %s", why);
}

static void compare(const proof *p) {
  char *before = NULL, *after = NULL, why[400];
  bool printed =
      sn_graph_print(p->start, &before) == SN_OK && sn_graph_print(p->goal, &after) == SN_OK;
  if (CHECK(printed))
    CHECK(strcmp(before, after) != 0);
  graph_same exact = {.mode = REF_F64,
                      .tolerance = 1e-6,
                      .fill = rule_instance_fill,
                      .user = (void *)(uintptr_t)&p->instance};
  graph_same rounded = exact;
  rounded.mode = REF_F32;
  rounded.tolerance = 1e-5;
  if (graph_compare(&exact, p->start, p->goal, why, sizeof why) != GRAPHS_AGREE ||
      graph_compare(&rounded, p->start, p->goal, why, sizeof why) != GRAPHS_AGREE)
    FAIL("%s\n%s=>\n%s", why, before, after);
  sn_text_free(p->ctx, before);
  sn_text_free(p->ctx, after);
}

/* Whether there are more goals. */
static bool check_goal(int index, int k, int which) {
  proof p = {.index = index, .which = which};
  if (!CHECK(sn_ctx_create(NULL, &p.ctx) == SN_OK))
    return false;
  if (rule_instance_graph(p.ctx, rule_text(index), k, &p.instance, &p.start) != SN_OK) {
    FAIL("%s", sn_ctx_message(p.ctx));
    sn_ctx_destroy(p.ctx);
    return false;
  }
  if (CHECK(graph_create(p.ctx, p.start->table, &p.goal) == SN_OK) &&
      CHECK(egraph_init(&p.e, p.goal, p.start->table) == SN_OK)) {
    if (prove(&p) && CHECK(sn_graph_verify(p.goal) == SN_OK)) {
      compare(&p);
      compare_gradients(&p);
    }
    egraph_end(&p.e);
  }
  sn_graph_destroy(p.start);
  sn_graph_destroy(p.goal);
  sn_ctx_destroy(p.ctx);
  return p.more && !test_failed();
}

static void check_instance(int index, int k) {
  for (int which = 0; check_goal(index, k, which); which++)
    continue;
}

TEST_WALK(rule) {
  for (int i = 0; i < rule_count(); i++) {
    if (!test_begin("%s", rule_text(i)->name))
      continue;
    for (int k = 0; k < rule_instance_count(rule_text(i)); k++)
      check_instance(i, k);
    test_end();
  }
}

TEST(names_are_unique) {
  for (int i = 0; i < rule_count(); i++)
    for (int j = 0; j < i; j++)
      CHECK(strcmp(rule_text(i)->name, rule_text(j)->name) != 0);
}
