/* Inspections: what they say of a graph holds together. How the command shows them is in tests/cli. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

/* Two layers under scopes, a gradient step on their weights. */
static void build(sn_graph *g) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(16, 32)), h = x, w[2], grads[2];
  static const char *const scopes[] = {"net.layers.0", "net.layers.1"};
  for (int i = 0; i < 2; i++) {
    sn_scope_push(g, scopes[i]);
    w[i] = sn_state(g, i ? "w1" : "w0", SN_F32, SN_SHAPE(32, 32), SN_INIT_NORMAL, 0.1);
    h = sn_gelu(g, sn_matmul(g, sn_softmax(g, h, 1), w[i], false, false));
    sn_scope_pop(g);
  }
  sn_value loss = sn_mean(g, sn_sqr(g, h), SN_ALL_AXES, false);
  sn_output(g, "loss", loss);
  CHECK(sn_grad(g, loss, w, 2, grads) == SN_OK);
  for (int i = 0; i < 2; i++)
    sn_assign(g, w[i], sn_sub(g, w[i], sn_affine(g, grads[i], 0.1, 0)));
}

/* Others can recompute the bound and see that places do not overlap. */
static void check_lifetimes(const sn_inspection *i) {
  int64_t most = 0, end = 0;
  for (int s = 0; s < i->n_listed; s++) {
    int64_t live = 0;
    for (int k = 0; k < i->n_lifetimes; k++)
      if (i->lifetimes[k].first <= s && s <= i->lifetimes[k].last)
        live += i->lifetimes[k].bytes;
    most = live > most ? live : most;
  }
  /* The bound counts whole blocks of 64 bytes. */
  CHECK(most <= i->lower_bound_bytes && i->lower_bound_bytes <= most + 64 * i->n_lifetimes);
  CHECK(i->lower_bound_bytes <= i->peak_bytes);
  for (int k = 0; k < i->n_lifetimes; k++) {
    const sn_lifetime *a = &i->lifetimes[k];
    end = a->offset + a->bytes > end ? a->offset + a->bytes : end;
    CHECK(a->bytes > 0 && a->first >= 0 && a->first <= a->last && a->last < i->n_listed);
    for (int m = 0; m < k; m++) {
      const sn_lifetime *b = &i->lifetimes[m];
      bool meet = a->first <= b->last && b->first <= a->last;
      CHECK(!meet || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
  }
  CHECK(end <= i->peak_bytes);
}

static void check_steps(const sn_inspection *i) {
  double steps = 0, flops = 0;
  int64_t launches = 0, barriers = 0, given = 0, lowered = 0;
  for (int k = 0; k < i->n_archetypes; k++)
    steps += i->archetypes[k].value;
  CHECK_EQ_INT((int)steps, i->steps);
  CHECK_EQ_INT(i->n_listed, i->prepare_steps + i->steps);
  for (int k = i->prepare_steps; k < i->n_listed; k++) {
    launches += i->step_list[k].launches;
    barriers += i->step_list[k].barrier;
    flops += i->step_list[k].flops;
  }
  CHECK_EQ_INT(launches, i->launches);
  CHECK_EQ_INT(barriers, i->barriers);
  CHECK_NEAR(flops, i->flops, 1);
  for (int k = 0; k < i->n_ops; k++) {
    given += i->ops[k].given;
    lowered += i->ops[k].lowered;
  }
  CHECK_EQ_INT(given, i->nodes_before);
  CHECK_EQ_INT(lowered, i->nodes_after);
}

TEST(numbers_hold_together) {
  fixture f;
  sn_inspection *i;
  REQUIRE(fixture_start(&f));
  build(f.g);
  if (!CHECK_EQ_INT(sn_inspect(f.g, NULL, &i), SN_OK))
    FAIL("%s", sn_ctx_message(f.ctx));
  REQUIRE(i != NULL);
  CHECK_EQ_INT(i->layers, 2);
  int inside = 0;
  for (int k = i->prepare_steps; k < i->n_listed; k++)
    inside += strncmp(i->step_list[k].name, "net.layers.", 11) == 0;
  CHECK(inside > 0 && inside < i->steps); /* the loss is in no layer */
  CHECK(i->steps_per_layer == inside / 2.0 && i->launches_per_layer >= i->steps_per_layer);
  CHECK_EQ_INT(i->state_bytes, 2 * 32 * 32 * 4);
  CHECK_EQ_INT(i->input_bytes, 16 * 32 * 4);
  CHECK_EQ_INT(i->output_bytes, 4);
  CHECK(i->n_listed > 4 && i->peak_bytes > 0 && i->compile_s > 0 && i->n_rules > 0);
  CHECK_EQ_STR(i->egraph.stop, "fixpoint");
  check_steps(i);
  check_lifetimes(i);
  sn_inspection_destroy(i);
  fixture_end(&f);
}

TEST(texts) {
  fixture f;
  sn_inspection *i;
  sn_graph *again = NULL;
  char *graph, *plan;
  REQUIRE(fixture_start(&f));
  build(f.g);
  REQUIRE(sn_inspect(f.g, NULL, &i) == SN_OK);
  CHECK_EQ_INT(sn_inspection_print(i, SN_INSPECT_GRAPH, &graph), SN_OK);
  CHECK_EQ_INT(sn_inspection_print(i, SN_INSPECT_PLAN, &plan), SN_OK);
  CHECK_EQ_INT(sn_graph_parse(f.ctx, graph, &again), SN_OK);
  CHECK_STR_HAS(plan, "matmul");
  sn_text_free(f.ctx, graph);
  sn_text_free(f.ctx, plan);
  sn_graph_destroy(again);
  sn_inspection_destroy(i);
  fixture_end(&f);
}

TEST(refused) {
  fixture f;
  sn_inspection *i;
  REQUIRE(fixture_start(&f));
  sn_inspect_options o = {.device = "abacus"};
  sn_output(f.g, "y", sn_input(f.g, "x", SN_F32, SN_SHAPE(2)));
  CHECK_EQ_INT(sn_inspect(f.g, &o, &i), SN_ERR_NOT_FOUND);
  CHECK(i == NULL);
  (void)sn_input(f.g, "x", SN_I32, SN_SHAPE(3));
  CHECK_EQ_INT(sn_inspect(f.g, NULL, &i), SN_ERR_INVALID);
  sn_inspection_destroy(NULL);
  fixture_end(&f);
}

TEST(options_are_followed) {
  fixture f;
  sn_inspection *fused, *apart;
  sn_inspect_options o = {.no_optimizer = true, .no_fusion = true};
  REQUIRE(fixture_start(&f));
  build(f.g);
  REQUIRE(sn_inspect(f.g, NULL, &fused) == SN_OK && sn_inspect(f.g, &o, &apart) == SN_OK);
  CHECK(apart->n_listed > fused->n_listed);
  CHECK_EQ_INT(apart->n_rules, 0);
  CHECK_EQ_INT(apart->nodes_optimised, apart->nodes_before);
  sn_inspection_destroy(fused);
  sn_inspection_destroy(apart);
  fixture_end(&f);
}
