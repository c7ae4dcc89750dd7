/* Every rule, from its row: the start is built from its pattern and instance, the rule alone is run on it, and
 * start and goal are compared through the reference. A row whose instance does not fit fails. */
#include "ir/dim.h"
#include "opt/emit.h"
#include "opt/intake.h"
#include "opt/saturate.h"
#include "support/graph_same.h"
#include "support/rule_instance.h"
#include "support/test.h"

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
    if (prove(&p) && CHECK(sn_graph_verify(p.goal) == SN_OK))
      compare(&p);
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
