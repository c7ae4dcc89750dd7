/* Whole model graphs through the optimiser: the same results for less, the same text every time, and time
 * that grows with the graph. */
#include "opt/opt.h"
#include "support/graph_same.h"
#include "support/test.h"
#include "support/train_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct pair {
  sn_ctx *ctx;
  sn_graph *before, *after;
  opt_report report;
  double cpu_s; /* of opt_run: the machine may be busy */
} pair;

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static bool start(pair *p, const train_graph_options *o, const opt_options *options) {
  *p = (pair){0};
  if (!CHECK(sn_ctx_create(NULL, &p->ctx) == SN_OK))
    return false;
  if (train_graph_build(p->ctx, o, &p->before) != SN_OK)
    return FAIL("%s", sn_ctx_message(p->ctx));
  double before = cpu_now();
  if (opt_run(p->before, options, &p->after, &p->report) != SN_OK)
    return FAIL("%s", sn_ctx_message(p->ctx));
  p->cpu_s = cpu_now() - before;
  return CHECK(sn_graph_verify(p->after) == SN_OK) || FAIL("%s", sn_ctx_message(p->ctx));
}

static void end(pair *p) {
  sn_graph_destroy(p->before);
  sn_graph_destroy(p->after);
  sn_ctx_destroy(p->ctx);
}

static void print(const char *name, const pair *p) {
  const opt_report *r = &p->report;
  printf("%-24s %6lld -> %6lld nodes, %6lld classes, %6lld e-nodes, %3lld rounds, %s, cost %.4g -> "
         "%.4g ms%s, build %.1f + saturate %.1f + extract %.1f ms, cpu %.1f ms\n",
         name, (long long)r->nodes_before, (long long)r->nodes_after, (long long)r->classes,
         (long long)r->enodes, (long long)r->iterations, opt_stop_name(r->stop),
         1e3 * r->cost_before, 1e3 * r->cost_after, r->kept_input ? " (input kept)" : "",
         1e3 * r->build_s, 1e3 * r->saturate_s, 1e3 * r->extract_s, 1e3 * p->cpu_s);
  if (getenv("OPT_RULES"))
    for (int i = 0; i < r->n_rules; i++)
      if (r->rule[i].hits)
        printf("    %-24s %lld\n", r->rule[i].name, (long long)r->rule[i].hits);
}

static void check_same(const char *name, train_graph_options o, const int64_t *bindings) {
  pair p;
  if (!test_begin("%s", name))
    return;
  if (start(&p, &o, &OPT_OPTIONS_INIT)) {
    char why[400];
    print(name, &p);
    CHECK(p.report.cost_after <= p.report.cost_before);
    CHECK(!p.report.kept_input);
    CHECK(p.report.nodes_after <= p.report.nodes_before);
    graph_same exact = {.mode = REF_F64, .tolerance = 1e-6, .bindings = bindings};
    graph_same rounded = {.mode = REF_F32, .tolerance = 2e-4, .bindings = bindings};
    if (graph_compare(&exact, p.before, p.after, why, sizeof why) != GRAPHS_AGREE)
      FAIL("%s", why);
    if (graph_compare(&rounded, p.before, p.after, why, sizeof why) != GRAPHS_AGREE)
      FAIL("in f32: %s", why);
  }
  end(&p);
  test_end();
}

TEST_WALK(same_results) {
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 2);
  check_same("llama", o, NULL);
  o.recompute = true;
  check_same("llama recomputed", o, NULL);
  o.recompute = false;
  o.dropout = 0.25;
  check_same("llama dropout", o, NULL);
  o.dropout = 0;
  o.symbolic_batch = true;
  o.batch = 4;
  check_same("llama symbolic", o, (int64_t[]){3});
  o = train_graph_tiny(SN_MODEL_GPT2, 2);
  o.tokens = 4;
  check_same("gpt2", o, NULL);
  o.forward_only = true;
  check_same("gpt2 forward", o, NULL);
}

TEST(the_same_text_every_time) {
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 2);
  pair p, q;
  char *one = NULL, *two = NULL;
  if (start(&p, &o, &OPT_OPTIONS_INIT) && start(&q, &o, &OPT_OPTIONS_INIT)) {
    CHECK(sn_graph_print(p.after, &one) == SN_OK && sn_graph_print(q.after, &two) == SN_OK);
    CHECK_EQ_STR(one, two);
    sn_text_free(p.ctx, one);
    sn_text_free(q.ctx, two);
    end(&q);
  }
  end(&p);
}

/* Generous bounds: the machine may be busy, and sanitizers are slow. The table is what to read. */
TEST(time_grows_with_the_graph) {
  double each = 0;
  static const int64_t sizes[] = {3, 6, 12, 24, 30, 48, 64, 96, 104};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t layers = sizes[i];
    train_graph_options o = train_graph_smollm2(layers);
    pair p;
    char name[64];
    snprintf(name, sizeof name, "smollm2, %lld layers", (long long)layers);
    if (start(&p, &o, &OPT_OPTIONS_INIT)) {
      print(name, &p);
      CHECK(p.report.cost_after <= p.report.cost_before);
      double per_node = p.cpu_s / (double)p.report.nodes_before;
      CHECK(each == 0 || per_node < 6 * each);
      each = each == 0 ? per_node : each;
    }
    end(&p);
  }
}
