/* The planned cost never rises: on the five workloads, inference and training, and on random graphs; by the report and computed
 * anew from both graphs. What a plan is timed with must not be worse for having been optimised. */
#include "cli/cli.h"
#include "opt/opt.h"
#include "support/random_graph.h"
#include "support/test.h"

#include <sinew/sinew.h>

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 200, MOST_STATES = 1024 };

/* Optimises; the cost of both graphs by the report and anew. `strictly`: there must be something to gain. */
static void check_costs(const char *name, const sn_graph *g, const opt_options *o, bool strictly) {
  sn_graph *after = NULL;
  opt_report r;
  double one = 0, two = 0;
  if (opt_run(g, o, &after, &r) != SN_OK || opt_graph_cost(g, &o->target, &one) != SN_OK ||
      opt_graph_cost(after, &o->target, &two) != SN_OK) {
    FAIL("%s: %s", name, sn_ctx_message(g->ctx));
    return;
  }
  if (getenv("OPT_COSTS"))
    printf("%-28s %5lld -> %5lld nodes, %.4g -> %.4g ms, %s\n", name, (long long)r.nodes_before,
           (long long)r.nodes_after, 1e3 * one, 1e3 * two, opt_stop_name(r.stop));
  if (!(two <= one) || !(r.cost_after <= r.cost_before))
    FAIL("%s: the cost rises from %g to %g s, by the report from %g to %g", name, one, two,
         r.cost_before, r.cost_after);
  CHECK(r.cost_before == one && r.cost_after == two);
  CHECK(!strictly || (two < one && !r.kept_input && r.stop == OPT_FIXPOINT));
  sn_graph_destroy(after);
}

/* --- workloads --- */

typedef enum form { LATENCY, FORWARD, GRADIENTS, TRAINING, FORMS } form;
static const char *const form_names[] = {"latency", "forward", "gradients", "training"};

static sn_status add_training(sn_graph **graph, const sn_workload *w, sn_value loss, bool update) {
  static sn_value states[MOST_STATES], grads[MOST_STATES];
  static sn_param params[MOST_STATES];
  sn_optimizer adam = {.kind = SN_ADAM};
  char name[32];
  int n = sn_workload_trainable(w, *graph, states, MOST_STATES - 1);
  if (!CHECK(n < MOST_STATES))
    return SN_ERR_INVALID;
  states[n] = loss;
  SN_TRY(cli_recognise(graph, states, n + 1));
  sn_graph *g = *graph;
  SN_TRY(sn_grad(g, states[n], states, n, grads));
  for (int i = 0; i < n; i++)
    params[i] = (sn_param){.state = states[i]};
  if (update)
    sn_optimizer_build(g, &adam, sn_input(g, "rate", SN_F32, SN_SCALAR),
                       sn_input(g, "step", SN_I32, SN_SCALAR), params, grads, n, SN_NONE);
  for (int i = 0; i < n && !update; i++) {
    snprintf(name, sizeof name, "grad%d", i);
    sn_output(g, name, grads[i]);
  }
  return sn_graph_status(g);
}

static sn_status build(sn_graph **graph, const sn_workload *w, form f) {
  sn_workload_values v;
  sn_graph *g = *graph;
  SN_TRY(sn_workload_build(w, g, f == LATENCY ? SN_WORKLOAD_LATENCY : SN_WORKLOAD_FULL, &v));
  sn_output(g, "output", f <= FORWARD ? v.output : v.loss);
  return f <= FORWARD ? sn_graph_status(g) : add_training(graph, w, v.loss, f == TRAINING);
}

static void check_workload(const sn_workload *w, form f) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (sn_graph_create(ctx, &g) != SN_OK || build(&g, w, f) != SN_OK)
    FAIL("%s", sn_ctx_message(ctx));
  else {
    static const opt_target fast = {.flops = 2e13, .bytes = 1e12, .launch_s = 1e-6};
    opt_options plain = {0}, gpu = {.target = fast},
                recognise = {.recognise_only = true, .target = {.count_nodes = true}},
                loose = {.fast_math = true};
    char name[64];
    snprintf(name, sizeof name, "%s %s", sn_workload_name(w), form_names[f]);
    check_costs(name, g, &plain, f >= GRADIENTS);
    check_costs(name, g, &gpu, false);
    check_costs(name, g, &recognise, false);
    check_costs(name, g, &loose, false);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(workload) {
  const sn_workload *w;
  for (int i = 0; (w = sn_workload_at(i)) != NULL; i++)
    for (int f = 0; f < FORMS; f++) {
      if (!test_begin("%s %s", sn_workload_name(w), form_names[f]))
        continue;
      check_workload(w, (form)f);
      test_end();
    }
}

/* --- random graphs --- */

static void check_random(uint64_t seed, bool wide) {
  sn_ctx *ctx = NULL;
  random_graph r;
  char name[32];
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  snprintf(name, sizeof name, "seed %llu%s", (unsigned long long)seed, wide ? ", wide" : "");
  int n = 6 + (int)(seed % 30);
  if ((wide ? random_graph_make_wide(&r, ctx, seed, n) : random_graph_make(&r, ctx, seed, n)) !=
      SN_OK)
    FAIL("%s: %s", name, sn_ctx_message(ctx));
  else {
    opt_options plain = {0}, few = {.max_nodes = 4},
                slow = {.target = {.flops = 1e9, .bytes = 1e12, .launch_s = 1e-9}};
    check_costs(name, r.g, &plain, false);
    check_costs(name, r.g, &few, false);
    check_costs(name, r.g, &slow, false);
  }
  random_graph_end(&r);
  sn_ctx_destroy(ctx);
}

TEST(random_graphs) {
  for (uint64_t seed = 1; seed <= GRAPHS && !test_failed(); seed++)
    check_random(seed, false);
}
TEST(wide_random_graphs) {
  for (uint64_t seed = 1; seed <= GRAPHS && !test_failed(); seed++)
    check_random(seed, true);
}
