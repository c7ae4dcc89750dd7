/* Graphs that no region could hold: long chains, wide sums, many results. Fusion cuts them into steps; none is refused, and the
 * proof holds. */
#include "plan/plan.h"
#include "support/test.h"

#include <stdio.h>

enum { MANY = 300 };

static sn_value input(sn_graph *g, int k, sn_shape shape) {
  char name[16];
  snprintf(name, sizeof name, "x%d", k);
  return sn_input(g, name, SN_F32, shape);
}

static void output(sn_graph *g, int k, sn_value v) {
  char name[16];
  snprintf(name, sizeof name, "y%d", k);
  sn_output(g, name, v);
}

static void concat_of_many(sn_graph *g) {
  sn_value parts[MANY];
  for (int k = 0; k < MANY; k++)
    parts[k] = input(g, k, SN_SHAPE(2, 3));
  output(g, 0, sn_concat(g, parts, MANY, 0));
}

static void concat_of_computed(sn_graph *g) {
  sn_value parts[MANY];
  for (int k = 0; k < MANY; k++)
    parts[k] = sn_exp(g, input(g, k, SN_SHAPE(2, 3)));
  output(g, 0, sn_tanh(g, sn_concat(g, parts, MANY, 1)));
}

static void sum_of_many(sn_graph *g) {
  sn_value sum = input(g, 0, SN_SHAPE(4, 5));
  for (int k = 1; k < MANY; k++)
    sum = sn_add(g, sum, input(g, k, SN_SHAPE(4, 5)));
  output(g, 0, sum);
}

static void sum_of_contractions(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(4, 5)), sum = SN_NONE;
  for (int k = 1; k < 40; k++) {
    sn_value y = sn_matmul(g, x, input(g, k, SN_SHAPE(5, 6)), false, false);
    sum = k == 1 ? y : sn_add(g, sum, y);
  }
  output(g, 0, sum);
}

static void deep_chain(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(7));
  for (int k = 0; k < 3000; k++)
    x = k % 2 ? sn_sin(g, x) : sn_affine(g, x, 0.5, k);
  output(g, 0, x);
}

/* As an expression of leaves it doubles with each step. */
static void doubling_chain(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(7, 3));
  for (int k = 0; k < 200; k++)
    x = sn_add(g, sn_sin(g, x), sn_flip(g, x, SN_INTS(0)));
  output(g, 0, x);
}

static void deep_views(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(4, 6));
  for (int k = 0; k < 400; k++) {
    x = sn_transpose(g, x, SN_INTS(1, 0));
    x = sn_reshape(g, x, SN_SHAPE(4, 6));
  }
  output(g, 0, sn_exp(g, x));
}

static void many_norms(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10));
  for (int k = 0; k < 120; k++)
    x = sn_add(g, sn_layer_norm(g, x, SN_NONE, SN_NONE, 1, 1e-5), x);
  output(g, 0, x);
}

static void softmax_of_long(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10)), y = x;
  for (int k = 1; k < 150; k++)
    y = sn_add(g, sn_affine(g, y, 0.5, k), input(g, k, SN_SHAPE(6, 10)));
  output(g, 0, sn_softmax(g, y, 1));
}

static void many_outputs(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10));
  for (int k = 0; k < 1500; k++)
    output(g, k, sn_affine(g, x, k, 1));
}

static void many_row_outputs(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10));
  for (int k = 0; k < 400; k++)
    output(g, k, sn_sum(g, sn_sin(g, sn_affine(g, x, k, 1)), SN_INTS(1), false));
}

static void many_epilogues(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10));
  sn_value y = sn_matmul(g, x, input(g, 1, SN_SHAPE(10, 4)), false, false);
  for (int k = 0; k < 1500; k++)
    output(g, k, sn_affine(g, y, k, 1));
}

static void many_commits(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(6, 10));
  for (int k = 0; k < 600; k++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", k);
    sn_value s = sn_state(g, name, SN_F32, SN_SHAPE(6, 10), SN_INIT_ZEROS, 0);
    sn_assign(g, s, sn_add(g, sn_affine(g, s, 0.5, 0), x));
  }
}

static void large_rank(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(2, 3, 2, 3, 2, 3, 2, 3));
  x = sn_reshape(g, sn_transpose(g, x, SN_INTS(7, 1, 5, 3, 2, 6, 4, 0)), SN_SHAPE(4, 9, 36));
  x = sn_sum(g, x, SN_INTS(1), true);
  x = sn_reshape(g, sn_transpose(g, x, SN_INTS(2, 1, 0)), SN_SHAPE(6, 24));
  output(g, 0, sn_exp(g, x));
}

/* Padded again and again: more checks than an access holds. */
static void many_pads(sn_graph *g) {
  sn_value x = input(g, 0, SN_SHAPE(3, 3));
  for (int k = 0; k < 12; k++)
    x = sn_pad(g, x, SN_INTS(1, k % 2), SN_INTS(0, 1), SN_PAD_CONSTANT, k % 3);
  output(g, 0, x);
}

static const struct limit {
  const char *name;
  void (*build)(sn_graph *g);
} limits[] = {{"concat of many", concat_of_many},
              {"concat of many that are computed", concat_of_computed},
              {"sum of many", sum_of_many},
              {"sum of many contractions", sum_of_contractions},
              {"deep chain", deep_chain},
              {"doubling chain", doubling_chain},
              {"deep views", deep_views},
              {"many norms", many_norms},
              {"softmax of a long expression", softmax_of_long},
              {"many outputs", many_outputs},
              {"many outputs of rows", many_row_outputs},
              {"many outputs of an epilogue", many_epilogues},
              {"many commits", many_commits},
              {"large rank", large_rank},
              {"many pads", many_pads}};

static sn_status plan(sn_ctx *ctx, const sn_graph *g, bool no_fusion, int *out_steps) {
  sn_graph *lowered = NULL;
  program *p = NULL;
  plan_options o = {.no_fusion = no_fusion};
  sn_status status = plan_lower(g, &lowered);
  if (status == SN_OK)
    status = plan_fuse(lowered, &o, &p);
  if (status == SN_OK)
    status = plan_order(p, ctx);
  if (status == SN_OK)
    status = plan_in_place(p, ctx);
  if (status == SN_OK)
    status = plan_place(p, ctx);
  if (status == SN_OK)
    status = plan_barriers(p, ctx);
  if (status == SN_OK)
    status = plan_verify(p, lowered);
  *out_steps = p ? program_steps(p) : 0;
  program_destroy(p);
  sn_graph_destroy(lowered);
  return status;
}

TEST_WALK(nothing_is_too_large_for_a_region) {
  for (size_t k = 0; k < COUNT_OF(limits); k++) {
    if (!test_begin("%s", limits[k].name))
      continue;
    sn_ctx *ctx;
    sn_graph *g = NULL;
    int fused = 0, apart = 0;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
      limits[k].build(g);
      if (plan(ctx, g, false, &fused) != SN_OK)
        FAIL("%s", sn_ctx_message(ctx));
      if (plan(ctx, g, true, &apart) != SN_OK)
        FAIL("without fusion: %s", sn_ctx_message(ctx));
      CHECK(fused <= apart);
    }
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
    test_end();
  }
}
