/* Deep models in small ops: every layer is recognised, in time that grows with the graph, before gradients and behind them. */
#include "ops/table.h"
#include "opt/opt.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIME = 32, WIDTH = 64, HEADS = 4, EACH = WIDTH / HEADS };

static sn_value linear(sn_graph *g, sn_value x, const char *name, int64_t out) {
  sn_value w = sn_state(g, name, SN_F32, SN_SHAPE(WIDTH, out), SN_INIT_NORMAL, 0.1);
  return sn_matmul(g, x, w, false, false);
}

static sn_value norm(sn_graph *g, sn_value x) {
  sn_value power = sn_mean(g, sn_mul(g, x, x), SN_INTS(-1), true);
  return sn_mul(g, x, sn_rsqrt(g, sn_affine(g, power, 1, 1e-5)));
}

static sn_value heads(sn_graph *g, sn_value x) {
  return sn_transpose(g, sn_reshape(g, x, SN_SHAPE(2, TIME, HEADS, EACH)), SN_INTS(0, 2, 1, 3));
}

static sn_value attend(sn_graph *g, sn_value q, sn_value k, sn_value v) {
  sn_value s = sn_matmul(g, q, sn_transpose(g, k, SN_INTS(0, 1, 3, 2)), false, false);
  sn_value seen = sn_tril(g, sn_full(g, SN_BOOL, SN_SHAPE(TIME, TIME), 1), 0);
  s = sn_where(g, seen, sn_affine(g, s, 1 / sqrt(EACH), 0), sn_scalar(g, SN_F32, -INFINITY));
  sn_value e = sn_exp(g, sn_sub(g, s, sn_max(g, s, SN_INTS(-1), true)));
  return sn_matmul(g, sn_div(g, e, sn_sum(g, e, SN_INTS(-1), true)), v, false, false);
}

static sn_value layer(sn_graph *g, sn_value x, int i) {
  char name[16];
  snprintf(name, sizeof name, "%d", i);
  sn_scope_push(g, name);
  char q[16], k[16], v[16], o[16], up[16];
  snprintf(q, sizeof q, "%d.q", i);
  snprintf(k, sizeof k, "%d.k", i);
  snprintf(v, sizeof v, "%d.v", i);
  snprintf(o, sizeof o, "%d.o", i);
  snprintf(up, sizeof up, "%d.up", i);
  sn_value y = norm(g, x);
  y = attend(g, heads(g, linear(g, y, q, WIDTH)), heads(g, linear(g, y, k, WIDTH)),
             heads(g, linear(g, y, v, WIDTH)));
  y = sn_reshape(g, sn_transpose(g, y, SN_INTS(0, 2, 1, 3)), SN_SHAPE(2, TIME, WIDTH));
  x = sn_add(g, x, linear(g, y, o, WIDTH));
  y = linear(g, norm(g, x), up, WIDTH);
  x = sn_add(g, x, sn_mul(g, y, sn_sigmoid(g, y)));
  sn_scope_pop(g);
  return x;
}

static sn_value build(sn_graph *g, int layers) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(2, TIME, WIDTH));
  for (int i = 0; i < layers; i++)
    x = layer(g, x, i);
  return sn_mean(g, sn_sqr(g, x), SN_ALL_AXES, false);
}

static int count(const sn_graph *g, int op) {
  int n = 0;
  bool *live = calloc(g->n_nodes, sizeof *live);
  if (live)
    graph_mark_live(g, live);
  for (uint32_t i = 0; live && i < g->n_nodes; i++)
    n += live[i] && g->nodes[i].op == op;
  free(live);
  return n;
}

/* Seconds of CPU a node of the graph; negative after a failure. */
static double optimise(const char *what, const sn_graph *g, const opt_options *o, sn_graph **out) {
  opt_report r;
  clock_t before = clock();
  if (opt_run(g, o, out, &r) != SN_OK) {
    FAIL("%s", sn_ctx_message(g->ctx));
    return -1;
  }
  double s = (double)(clock() - before) / CLOCKS_PER_SEC;
  printf("%-12s %6lld -> %6lld nodes, %6lld e-nodes, %2lld rounds, %s, cost %.4g -> %.4g ms, cpu "
         "%.1f ms\n",
         what, (long long)r.nodes_before, (long long)r.nodes_after, (long long)r.enodes,
         (long long)r.iterations, opt_stop_name(r.stop), 1e3 * r.cost_before, 1e3 * r.cost_after,
         1e3 * s);
  CHECK(r.stop == OPT_FIXPOINT);
  return s / (double)r.nodes_before;
}

static sn_status add_gradients(sn_graph *g, sn_value loss) {
  static sn_value states[1024], grads[1024];
  char name[16];
  int n = sn_graph_states(g, states, 1024);
  sn_output(g, "loss", loss);
  SN_TRY(sn_grad(g, loss, states, n, grads));
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "grad%d", i);
    sn_output(g, name, grads[i]);
  }
  return sn_graph_status(g);
}

/* Recognised and then differentiated; and the gradients of the small ops as they are. */
static void check(int layers, double each[3]) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *found = NULL, *after = NULL, *plain = NULL;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_value loss = build(g, layers), kept;
    opt_options recognise = {.recognise_only = true, .keep = &loss, .n_keep = 1};
    recognise.out_values = calloc(g->n_values, sizeof(sn_value));
    each[0] = optimise("recognise", g, &recognise, &found);
    if (CHECK(found != NULL)) {
      kept = recognise.out_values[loss.id];
      CHECK(add_gradients(found, kept) == SN_OK);
      each[1] = optimise("trained", found, &OPT_OPTIONS_INIT, &after);
      CHECK_EQ_INT(count(found, OP_attention), layers);
      CHECK_EQ_INT(count(found, OP_attention_grad), layers);
      CHECK_EQ_INT(count(found, OP_rms_norm), 2 * layers);
      CHECK_EQ_INT(count(found, OP_softmax) + count(found, OP_where) + count(found, OP_exp), 0);
    }
    CHECK(add_gradients(g, loss) == SN_OK);
    each[2] = optimise("as it is", g, &OPT_OPTIONS_INIT, &plain);
    free(recognise.out_values);
  }
  sn_graph_destroy(plain);
  sn_graph_destroy(after);
  sn_graph_destroy(found);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST(every_layer_in_time_that_grows_with_the_graph) {
  static const int sizes[] = {2, 8, 32, 96};
  double first[3] = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !test_failed(); i++) {
    double each[3] = {0};
    check(sizes[i], each);
    for (int k = 0; k < 3; k++) {
      CHECK(i == 0 || each[k] < 6 * first[k]);
      first[k] = i == 0 ? each[k] : first[k];
    }
  }
}
