/* Before gradients are taken, frozen statistics go into the weights of the convolution that they stand behind: all gradients stay
 * what they were. */
#include "ir/graph.h"
#include "support/case.h"
#include "support/fixture.h"
#include "support/graph_same.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 12 };

typedef struct net {
  sn_graph *g;
  sn_value of[MOST]; /* what gradients are taken for, and the loss behind them */
  int n;
  sn_value raw; /* what the first convolution gives */
} net;

static sn_value trained(net *t, char letter, int layer, sn_shape shape) {
  char name[16];
  snprintf(name, sizeof name, "%c%d", letter, layer);
  return t->of[t->n++] = sn_state(t->g, name, SN_F32, shape, SN_INIT_NORMAL, 1);
}

static sn_value conv(net *t, sn_value x, int layer, int64_t channels, int64_t kernel) {
  sn_shape w = SN_SHAPE(channels, sn_value_type(t->g, x).shape.dim[1], kernel, kernel);
  sn_ints one = SN_INTS(1, 1);
  return sn_conv(t->g, x, trained(t, 'w', layer, w), SN_NONE, one, one, one, one, 1);
}

/* Statistics are states, or the 0 and 1 of a norm that has none. */
static sn_value norm(net *t, sn_value x, int layer, bool statistics) {
  sn_shape each = SN_SHAPE(sn_value_type(t->g, x).shape.dim[1]);
  sn_value m = statistics ? trained(t, 'm', layer, each) : sn_full(t->g, SN_F32, each, 0);
  sn_value v = statistics ? trained(t, 'v', layer, each) : sn_full(t->g, SN_F32, each, 1);
  sn_value weight = trained(t, 'g', layer, each), bias = trained(t, 'b', layer, each);
  return sn_batch_norm(t->g, x, weight, bias, m, v, 0.01);
}

static void build(net *t, sn_graph *g) {
  *t = (net){.g = g};
  sn_value x = t->of[t->n++] = sn_input(g, "x", SN_F32, SN_SHAPE(2, 3, 6, 6));
  t->raw = conv(t, x, 1, 4, 3);
  x = sn_relu(g, norm(t, t->raw, 1, true));
  x = sn_relu(g, norm(t, conv(t, x, 2, 3, 2), 2, false));
  sn_value slope = sn_input(g, "slope", SN_F32, sn_value_type(g, x).shape);
  t->of[t->n] = sn_sum(g, sn_mul(g, x, slope), SN_ALL_AXES, false);
}

static sn_status recognise(const net *t, net *out) {
  *out = *t;
  return sn_graph_recognise(t->g, t->of, t->n + 1, out->of, &out->g);
}

static sn_status differentiate(net *t) {
  sn_value grads[MOST];
  char name[16];
  sn_output(t->g, "loss", t->of[t->n]);
  SN_TRY(sn_grad(t->g, t->of[t->n], t->of, t->n, grads));
  for (int i = 0; i < t->n; i++) {
    snprintf(name, sizeof name, "d%s", sn_value_name(t->g, t->of[i]));
    sn_output(t->g, name, grads[i]);
  }
  return sn_graph_status(t->g);
}

/* Variances above 0, and one channel of each norm whose weight is 0. */
static double fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user, (void)dtype;
  double x = case_weight(name, i);
  if (name[0] == 'v')
    return 0.5 + fabs(x);
  return name[0] == 'g' && i == 1 ? 0 : x;
}

static int count(const sn_graph *g, const char *op) {
  int n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    n += strcmp(graph_op(g, &g->nodes[i])->name, op) == 0;
  return n;
}

/* Both ways, since a NaN in the first is not compared. */
static void check_same(const net *one, const net *two, ref_mode mode, double tolerance) {
  graph_same same = {.mode = mode, .tolerance = tolerance, .fill = fill};
  char why[400];
  if (graph_compare(&same, one->g, two->g, why, sizeof why) != GRAPHS_AGREE ||
      graph_compare(&same, two->g, one->g, why, sizeof why) != GRAPHS_AGREE)
    FAIL("%s", why);
}

TEST(gradients_stay_what_they_were) {
  fixture f;
  net before, after = {0};
  REQUIRE(fixture_start(&f));
  build(&before, f.g);
  CHECK(before.n < MOST);
  if (CHECK(recognise(&before, &after) == SN_OK)) {
    CHECK_EQ_INT(count(after.g, "batch_norm"), 0);
    CHECK_EQ_INT(count(after.g, "conv"), 2);
    CHECK_EQ_INT(count(after.g, "sub"), 1); /* a mean of 0 is no term */
    if (CHECK(differentiate(&before) == SN_OK) && CHECK(differentiate(&after) == SN_OK)) {
      check_same(&before, &after, REF_F64, 1e-6); /* folded constants are f32 */
      check_same(&before, &after, REF_F32, 1e-5);
    }
  }
  sn_graph_destroy(after.g);
  fixture_end(&f);
}

/* Another convolution would be more, not less. */
TEST(a_result_that_is_read_stays) {
  fixture f;
  net before, after = {0};
  REQUIRE(fixture_start(&f));
  build(&before, f.g);
  sn_output(f.g, "raw", before.raw);
  if (CHECK(recognise(&before, &after) == SN_OK)) {
    CHECK_EQ_INT(count(after.g, "batch_norm"), 1);
    CHECK_EQ_INT(count(after.g, "conv"), 2);
  }
  sn_graph_destroy(after.g);
  fixture_end(&f);
}
