/* The graph that generates text: the model runs on all tokens, the last row of the logits is drawn from. Optimised, the head of
 * the model computes that row alone. */
#include "ops/table.h"
#include "opt/opt.h"
#include "support/graph_same.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <string.h>

/* As sn_generator builds it, but for the draw. */
static sn_value build(const sn_model *model, sn_graph *g, bool cached) {
  const sn_model_config *config = sn_model_get_config(model);
  sn_dim tokens = sn_symbol(g, "tokens", 16);
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, tokens)),
                        .positions = sn_input(g, "positions", SN_I32, SN_SHAPE(tokens))};
  if (cached) {
    in.batch = 1;
    in.capacity = 16;
    in.start = sn_input(g, "start", SN_I32, SN_SCALAR);
    in.kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(1));
  }
  sn_value logits = sn_model_logits(model, g, &in);
  sn_value last = sn_slice(g, logits, 1, sn_dim_sub(g, tokens, 1), tokens, 1);
  last = sn_reshape(g, last, SN_SHAPE(1, config->vocab));
  sn_output(g, "logits", last);
  return last;
}

static bool is_row(const sn_graph *g, sn_value v) {
  sn_shape s = sn_value_type(g, v).shape;
  return s.rank >= 2 && s.dim[s.rank - 2] == 1;
}

/* Products and norms with one row; the product with the table of words must be one. */
static void count(const sn_graph *g, int64_t vocab, int *heads, int *rows) {
  *heads = *rows = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    sn_value out = node_result(n, 0);
    sn_shape s = sn_value_type(g, out).shape;
    if (n->op != OP_matmul && n->op != OP_rms_norm && n->op != OP_layer_norm)
      continue;
    *rows += is_row(g, out);
    if (n->op == OP_matmul && s.dim[s.rank - 1] == vocab) {
      ++*heads;
      CHECK(is_row(g, out));
    }
  }
}

/* Positions and lengths that fit 5 tokens behind 3. */
static double fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user;
  if (strcmp(name, "ids") == 0)
    return (double)(i * 7 % TINY_VOCAB);
  if (strcmp(name, "positions") == 0)
    return (double)(3 + i);
  if (strcmp(name, "start") == 0)
    return 3;
  if (strcmp(name, "kv_length") == 0)
    return 8;
  return dtype == SN_I32 ? 0
                         : 0.5 * ((double)((i * 37 + (int64_t)strlen(name) * 11) % 64) / 32 - 1);
}

/* In sizes that matter the last layer's MLP follows, down to the product behind its attention. */
TEST(so_does_the_last_layer) {
  sn_model_config config = tiny_config("llama");
  sn_ctx *ctx = NULL;
  sn_model *model = NULL;
  sn_graph *g = NULL, *after = NULL;
  config.hidden = 576;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_size = 64;
  config.inner = 1536;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_model_create(ctx, &config, &model) == SN_OK) &&
      CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    int heads, rows;
    (void)build(model, g, true);
    if (CHECK(opt_run(g, &OPT_OPTIONS_INIT, &after, NULL) == SN_OK)) {
      count(after, config.vocab, &heads, &rows);
      CHECK_EQ_INT(heads, 1);
      CHECK_EQ_INT(rows, 7); /* head, norm, down, up, gate, norm, o */
    }
  }
  sn_graph_destroy(after);
  sn_graph_destroy(g);
  sn_model_destroy(model);
  sn_ctx_destroy(ctx);
}

static void check(const tiny_family *family, bool cached) {
  sn_model_config config = tiny_config(family->name);
  tiny_model t;
  sn_graph *g = NULL, *after = NULL;
  opt_report report;
  if (!tiny_start(&t, &config))
    return;
  if (CHECK(sn_graph_create(t.ctx, &g) == SN_OK)) {
    (void)build(t.model, g, cached);
    if (opt_run(g, &OPT_OPTIONS_INIT, &after, &report) != SN_OK || sn_graph_verify(after) != SN_OK)
      FAIL("%s", sn_ctx_message(t.ctx));
    else {
      char why[400];
      int heads, rows;
      const int64_t bindings[] = {5};
      graph_same exact = {.mode = REF_F64, .tolerance = 1e-9, .bindings = bindings, .fill = fill};
      count(after, config.vocab, &heads, &rows);
      CHECK_EQ_INT(heads, 1);
      CHECK(rows >= 2); /* with the last norm */
      CHECK(report.cost_after < report.cost_before && !report.kept_input);
      if (graph_compare(&exact, g, after, why, sizeof why) != GRAPHS_AGREE)
        FAIL("%s", why);
    }
  }
  sn_graph_destroy(after);
  sn_graph_destroy(g);
  tiny_end(&t);
}

TEST_WALK(the_head_computes_one_row) {
  for (const tiny_family *f = tiny_families; f->name; f++)
    for (int cached = 0; cached < 2; cached++) {
      if (!test_begin("%s %s", f->name, cached ? "cached" : "recomputed"))
        continue;
      check(f, cached == 1);
      test_end();
    }
}
