/* plan_cut: graphs whose parts are cut, and how; those that must be left; all against the reference. */
#include "support/plan_run.h"
#include "support/test.h"

static sn_ctx *ctx;
static sn_graph *g;

static sn_value input(const char *name, sn_shape shape) { return sn_input(g, name, SN_F32, shape); }

/* --- graphs --- */

static sn_value concat_of_channels(void) {
  sn_value in[] = {input("x", SN_SHAPE(2, 3, 40, 8)), input("y", SN_SHAPE(2, 5, 40, 8)),
                   input("z", SN_SHAPE(2, 1, 40, 8))};
  return sn_concat(g, in, 3, 1);
}

static sn_value concat_of_columns(void) {
  sn_value in[] = {input("x", SN_SHAPE(50, 70)), sn_neg(g, input("y", SN_SHAPE(50, 90)))};
  return sn_relu(g, sn_concat(g, in, 2, 1));
}

/* The gradient of three slices of one value, whose heads come first: what a fused q, k, v gives. */
static sn_value gradient_of_slices(void) {
  sn_value x = input("x", SN_SHAPE(32, 384)), sum = SN_NONE, dx;
  for (int i = 0; i < 3; i++) {
    const char *names[] = {"q", "k", "v"};
    sn_value one_of = sn_slice(g, x, 1, 128 * i, 128 * (i + 1), 1);
    one_of = sn_transpose(g, sn_reshape(g, one_of, SN_SHAPE(32, 4, 32)), SN_INTS(1, 0, 2));
    sn_value one = sn_sum(g, sn_mul(g, sn_sqr(g, one_of), input(names[i], SN_SHAPE(4, 32, 32))),
                          SN_INTS(0, 1, 2), false);
    sum = i ? sn_add(g, sum, one) : one;
  }
  CHECK(sn_grad(g, sum, &x, 1, &dx) == SN_OK);
  return dx;
}

static sn_value pad_of_rows(void) {
  return sn_pad(g, sn_exp(g, input("x", SN_SHAPE(80, 64))), SN_INTS(16, 0), SN_INTS(8, 0),
                SN_PAD_CONSTANT, 0);
}

/* Heads of 32 do not end where the pieces do. */
static sn_value pieces_across_heads(void) {
  sn_value x = sn_reshape(g, sn_transpose(g, input("x", SN_SHAPE(4, 64, 32)), SN_INTS(1, 0, 2)),
                          SN_SHAPE(64, 128));
  sn_value in[] = {input("y", SN_SHAPE(64, 80)), x};
  return sn_concat(g, in, 2, 1);
}

static sn_value short_pieces(void) {
  sn_value in[] = {input("x", SN_SHAPE(400, 32)), input("y", SN_SHAPE(400, 32))};
  return sn_concat(g, in, 2, 1);
}

static sn_value few_points(void) {
  sn_value in[] = {input("x", SN_SHAPE(4, 100)), input("y", SN_SHAPE(4, 100))};
  return sn_concat(g, in, 2, 1);
}

static sn_value length_of_a_symbol(void) {
  sn_value in[] = {input("x", SN_SHAPE(80, 100)), input("y", SN_SHAPE(sn_symbol(g, "n", 60), 100))};
  return sn_concat(g, in, 2, 0);
}

static const struct {
  const char *name;
  sn_value (*build)(void);
  int parts; /* of the step that makes the output */
} cases[] = {{"concat_of_channels", concat_of_channels, 3},
             {"concat_of_columns", concat_of_columns, 2},
             {"gradient_of_slices", gradient_of_slices, 3},
             {"pad_of_rows", pad_of_rows, 3},
             {"pieces_across_heads", pieces_across_heads, 1},
             {"short_pieces", short_pieces, 1},
             {"few_points", few_points, 1},
             {"length_of_a_symbol", length_of_a_symbol, 1}};

/* --- what became of them --- */

/* The step that makes the output asks nothing any more, if it is cut. */
static void check_parts(const program *p, int expected) {
  const step *last = &p->steps[program_steps(p) - 1];
  CHECK_EQ_INT(last->n_parts, expected);
  for (int k = 0; k < last->n_parts && expected > 1; k++) {
    const region *code = &last->parts[k].u.loop.code;
    for (int i = 0; i < code->n; i++) {
      CHECK(code->code[i].at.n_checks == 0);
      CHECK(code->code[i].op != REGION_INSIDE && code->code[i].op != REGION_INDEX);
      CHECK(code->code[i].op != REGION_ALU || code->code[i].code != ALU_select);
    }
  }
}

static void check_case(int k) {
  enum { ALL_MODES = PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED };
  int64_t n = 33;
  plan_numbers numbers = {.bindings = &n};
  compiled c;
  char why[1000];
  sn_output(g, "out", cases[k].build());
  if (!CHECK(sn_graph_status(g) == SN_OK) || !CHECK(compile_graph(g, NULL, &c) == SN_OK))
    return;
  check_parts(c.program, cases[k].parts);
  compile_destroy(&c);
  if (plan_check(g, ALL_MODES, &numbers, 1, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
}

TEST_WALK(graph) {
  for (int k = 0; k < (int)COUNT_OF(cases); k++)
    if (test_begin("%s", cases[k].name)) {
      if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK))
        check_case(k);
      sn_graph_destroy(g);
      sn_ctx_destroy(ctx);
      test_end();
    }
}
