/* Row steps that the next matmul computes for itself (src/device/vulkan/emit_absorb.c), on the interpreter of SPIR-V: results are the
 * reference's, and the launches are as many as there should be. */
#include "support/test.h"
#include "support/vm_program.h"

#include <stdio.h>

typedef struct absorb_case {
  const char *name;
  int64_t rows, points, columns;
  sn_value (*build)(sn_graph *g, sn_value x, const struct absorb_case *c);
  int launches; /* of a run; 0: any */
} absorb_case;

static sn_value weights(sn_graph *g, const char *name, int64_t n, int64_t k) {
  return sn_state(g, name, SN_F32, SN_SHAPE(n, k), SN_INIT_ZEROS, 0);
}

static sn_value gain(sn_graph *g, const absorb_case *c) {
  return sn_state(g, "gain", SN_F32, SN_SHAPE(c->points), SN_INIT_ZEROS, 0);
}

static sn_value one_matmul(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  return sn_matmul(g, y, weights(g, "w", c->columns, c->points), false, true);
}

static sn_value plain_columns(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  return sn_matmul(g, y, weights(g, "w", c->points, c->columns), false, false);
}

static sn_value two_sums(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_layer_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  return sn_matmul(g, y, weights(g, "w", c->columns, c->points), false, true);
}

static sn_value gated(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  sn_value up = sn_matmul(g, y, weights(g, "up", c->columns, c->points), false, true);
  sn_value gate = sn_matmul(g, y, weights(g, "gate", c->columns, c->points), false, true);
  return sn_mul(g, up, sn_silu(g, gate));
}

/* Two parts of one step. */
static sn_value two_parts(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  sn_output(g, "other", sn_matmul(g, y, weights(g, "v", 24, c->points), false, true));
  return sn_matmul(g, y, weights(g, "w", c->columns, c->points), false, true);
}

/* What the row stores is read by somebody else, too. */
static sn_value read_twice(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  sn_output(g, "norm", y);
  return sn_matmul(g, y, weights(g, "w", c->columns, c->points), false, true);
}

static sn_value read_by_epilogue(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  return sn_mul(g, y, sn_matmul(g, y, weights(g, "w", c->points, c->points), false, true));
}

static sn_value read_later(sn_graph *g, sn_value x, const absorb_case *c) {
  sn_value y = sn_rms_norm(g, x, gain(g, c), SN_NONE, 1, 1e-5);
  sn_value z = sn_matmul(g, y, weights(g, "w", c->points, c->points), false, true);
  return sn_mul(g, y, sn_softmax(g, z, -1));
}

/* The sum may lie where the row that it is added to lay, which every workgroup would still read. */
static sn_value in_place(sn_graph *g, sn_value x, const absorb_case *c) {
  for (int i = 0; i < 3; i++) {
    char name[2][16];
    snprintf(name[0], sizeof name[0], "gain%d", i);
    snprintf(name[1], sizeof name[1], "w%d", i);
    sn_value scale = sn_state(g, name[0], SN_F32, SN_SHAPE(c->points), SN_INIT_ZEROS, 0);
    sn_value y = sn_rms_norm(g, x, scale, SN_NONE, 1, 1e-5);
    x = sn_add(g, x, sn_matmul(g, y, weights(g, name[1], c->points, c->points), false, true));
  }
  return x;
}

static const absorb_case cases[] = {
    {"one row", 1, 576, 96, one_matmul, 1},
    {"short", 1, 7, 33, one_matmul, 1},
    {"three rows", 3, 200, 70, one_matmul, 1},
    {"columns", 1, 96, 64, plain_columns, 1},
    {"two sums", 2, 130, 40, two_sums, 1},
    {"gated", 1, 300, 50, gated, 1},
    {"parts", 1, 100, 48, two_parts, 1},
    {"read twice", 1, 100, 48, read_twice, 2},
    {"read by the epilogue", 1, 100, 100, read_by_epilogue, 2},
    {"read later", 1, 100, 100, read_later, 4},
    {"many rows", 40, 64, 64, one_matmul, 2},
    {"long row", 1, 5000, 16, one_matmul, 0},
    {"in place", 1, 64, 64, in_place, 0},
};

static void check_case(const absorb_case *c) {
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(c->rows, c->points));
  sn_output(g, "y", c->build(g, x, c));
  vm_check_launches(g, c->launches);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(absorbed_rows) {
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    if (test_begin("%s", cases[i].name)) {
      check_case(&cases[i]);
      test_end();
    }
}
