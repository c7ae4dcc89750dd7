/* Composites from primitives: an op's own decomposition must come back as the op, before gradients are taken. */
#include "opt/opt.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/test.h"

#include <string.h>

/* One case of each; its decomposition is what a careful user would write. */
static const char *const composites[] = {
    "silu(f32[2, 7])",
    "mish(f32[2, 7])",
    "gelu(f32[2, 7])",
    "gelu_tanh(f32[2, 7])",
    "softmax(f32[2, 5]) axis=-1",
    "softmax(f32[3, 5]) axis=0",
    "log_softmax(f32[2, 5]) axis=-1",
    "rms_norm(f32[2, 5], none, none) axes=1 eps=1e-5",
    "rms_norm(f32[2, 5], f32[5], none) axes=1 eps=1e-5",
    "rms_norm(f32[2, 5], f32[5], f32[5]) axes=1 eps=1e-5",
    "rms_norm(f32[2, 3, 5], f32[3, 5], none) axes=2 eps=0.01",
    "layer_norm(f32[2, 5], none, none) axes=1 eps=1e-5",
    "layer_norm(f32[2, 5], f32[5], none) axes=1 eps=1e-5",
    "layer_norm(f32[2, 5], f32[5], f32[5]) axes=1 eps=1e-5",
};

/* The graph with the op written out. */
static sn_graph *written_out(sn_ctx *ctx, const op_test_case *c) {
  sn_graph *own = NULL, *g = NULL;
  sn_value first, in[MAX_INPUTS] = {{0}}, out[MAX_RESULTS] = {{0}};
  if (case_graph(c, &own, &first) != SN_OK || graph_create(ctx, c->table, &g) != SN_OK) {
    sn_graph_destroy(own);
    return NULL;
  }
  const node *n = graph_node(own, first);
  char name[16];
  for (int i = 0; i < c->n_in; i++) {
    strcpy(name, "in0");
    name[2] = (char)('0' + i);
    if (c->in[i].type.dtype)
      in[i] = sn_input(g, name, c->in[i].type.dtype, c->in[i].type.shape);
  }
  build_ctx b = {
      .graph = g, .attrs = n->attrs, .n_in = n->n_in, .n_out = n->n_out, .in = in, .out = out};
  c->op->impl->decompose(&b);
  sn_output(g, "out0", out[0]);
  sn_graph_destroy(own);
  return g;
}

static void check(const char *source) {
  sn_ctx *ctx = NULL;
  op_test_case c;
  sn_graph *after = NULL;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (!CHECK(case_load(ctx, op_table_get(), source, &c) == SN_OK)) {
    sn_ctx_destroy(ctx);
    return;
  }
  sn_graph *g = written_out(ctx, &c);
  if (CHECK(g != NULL) && CHECK(opt_recognise(g, NULL, &after, NULL) == SN_OK)) {
    const node *n = graph_node(after, after->outputs[0].value);
    if (strcmp(graph_op(after, n)->name, c.op->name) != 0) {
      char *text = NULL;
      (void)!sn_graph_print(after, &text);
      FAIL("not recognised:\n%s", text ? text : "");
      sn_text_free(ctx, text);
    }
  }
  sn_graph_destroy(after);
  sn_graph_destroy(g);
  case_free(&c);
  sn_ctx_destroy(ctx);
}

TEST_WALK(composite) {
  for (size_t i = 0; i < COUNT_OF(composites); i++) {
    if (!test_begin("%s", composites[i]))
      continue;
    check(composites[i]);
    test_end();
  }
}

/* What a user writes; the op itself is taken apart with more care for large numbers. */
TEST(plain_l2_norm) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *after = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *source = "%1 = input() name=\"x\" dtype=f32 shape=[2, 5]\n%2 = sqr(%1)\n"
                       "%3 = sum(%2) axes=[1] keepdims=true\n%4 = sqrt(%3)\noutput \"y\" %4\n";
  if (CHECK(sn_graph_parse(ctx, source, &g) == SN_OK) &&
      CHECK(opt_recognise(g, NULL, &after, NULL) == SN_OK))
    CHECK_EQ_STR(graph_op(after, graph_node(after, after->outputs[0].value))->name, "l2_norm");
  sn_graph_destroy(g);
  sn_graph_destroy(after);
  sn_ctx_destroy(ctx);
}

/* Before gradients nothing may pass a stop_gradient. */
TEST(stop_gradient_stays) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *after = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *source = "%1 = input() name=\"x\" dtype=f32 shape=[3]\n%2 = stop_gradient(%1)\n"
                       "%3 = mul(%1, %2)\noutput \"y\" %3\n";
  if (CHECK(sn_graph_parse(ctx, source, &g) == SN_OK) &&
      CHECK(opt_recognise(g, NULL, &after, NULL) == SN_OK)) {
    char *text = NULL;
    CHECK(sn_graph_print(after, &text) == SN_OK);
    CHECK_STR_HAS(text, "stop_gradient");
    sn_text_free(ctx, text);
  }
  sn_graph_destroy(g);
  sn_graph_destroy(after);
  sn_ctx_destroy(ctx);
}

/* The loss is no output yet; its gradients are taken in the new graph. */
TEST(a_kept_loss_has_gradients) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *after = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(3, 4)), to[16], grad;
    sn_value loss = sn_sum(g, sn_mul(g, sn_sigmoid(g, x), x), SN_ALL_AXES, false);
    opt_options o = {.keep = &loss, .n_keep = 1, .out_values = to};
    CHECK(g->n_values <= 16);
    if (CHECK(opt_recognise(g, &o, &after, NULL) == SN_OK) && CHECK(to[loss.id].id != 0)) {
      CHECK_EQ_STR(graph_op(after, graph_node(after, graph_node(after, to[loss.id])->in[0]))->name,
                   "silu");
      CHECK(sn_grad(after, to[loss.id], &to[x.id], 1, &grad) == SN_OK);
    }
  }
  sn_graph_destroy(g);
  sn_graph_destroy(after);
  sn_ctx_destroy(ctx);
}
