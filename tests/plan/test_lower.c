/* Lowering: composites end in ops that the plan knows, and all else about a graph stays: leaves, outputs, assigns, symbols,
 * scopes, labels, streams. That the result computes the same is tests/ops/test_lowered.c. */
#include "ops/table.h"
#include "plan/plan.h"
#include "support/case.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct scene {
  sn_ctx *ctx;
  sn_graph *g, *lowered;
} scene;

static sn_status start(scene *s, const op_table *table, const char *source) {
  *s = (scene){0};
  if (!CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK))
    return SN_ERR_NO_MEMORY;
  SN_TRY(graph_parse(s->ctx, table, source, &s->g));
  return plan_lower(s->g, &s->lowered);
}

static void end(scene *s) {
  sn_graph_destroy(s->lowered);
  sn_graph_destroy(s->g);
  sn_ctx_destroy(s->ctx);
}

/* --- text in, text out --- */

typedef struct example {
  const char *name, *before, *after;
} example;

static const example examples[] = {
    {"common parts are one; scopes say where they come from",
     "symbol n 16\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[n, 4]\n"
     "scope \"net\"\n"
     "%4 = softmax(%1) axis=1\n"
     "%5 = logsumexp(%1) axes=[1] keepdims=true\n"
     "%6 = add(%4, %5)\n"
     "output \"y\" %6\n",
     "symbol n 16\n"
     "%1 = input() name=\"x\" dtype=f32 shape=[n, 4] : f32[n, 4]\n"
     "scope \"net.softmax\"\n"
     "%2 = max(%1) axes=[1] keepdims=true : f32[n, 1]\n"
     "%3 = sub(%1, %2) : f32[n, 4]\n"
     "%4 = exp(%3) : f32[n, 4]\n"
     "%5 = sum(%4) axes=[1] keepdims=true : f32[n, 1]\n"
     "%6 = div(%4, %5) : f32[n, 4]\n"
     "scope \"net.logsumexp\"\n"
     "%7 = full() dtype=f32 shape=[] value=0 : f32[]\n"
     "%8 = isinf(%2) : bool[n, 1]\n"
     "%9 = where(%8, %7, %2) : f32[n, 1]\n"
     "%10 = sub(%1, %9) : f32[n, 4]\n"
     "%11 = exp(%10) : f32[n, 4]\n"
     "%12 = sum(%11) axes=[1] keepdims=true : f32[n, 1]\n"
     "%13 = log(%12) : f32[n, 1]\n"
     "%14 = add(%13, %9) : f32[n, 1]\n"
     "scope \"net\"\n"
     "%15 = add(%6, %14) : f32[n, 4]\n"
     "output \"y\" %15\n"},
    {"dead leaves, labels and streams stay, dead code goes",
     "%1 = input() name=\"x\" dtype=f32 shape=[4]\n"
     "%2 = input() name=\"unused\" dtype=i32 shape=[]\n"
     "%3 = state() name=\"idle\" dtype=f32 shape=[2] init=zeros scale=0\n"
     "%4 = state() name=\"key\" dtype=i32 shape=[3] init=zeros scale=0\n"
     "%5 = exp(%1)\n"
     "label %5 \"dead\"\n"
     "%6 = dropout(%1, %4) p=0.5 stream=7\n"
     "label %6 \"dropped\"\n"
     "output \"y\" %6\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[4] : f32[4]\n"
     "%2 = input() name=\"unused\" dtype=i32 shape=[] : i32[]\n"
     "%3 = state() name=\"idle\" dtype=f32 shape=[2] init=zeros scale=0 : f32[2]\n"
     "%4 = state() name=\"key\" dtype=i32 shape=[3] init=zeros scale=0 : i32[3]\n"
     "%5 = dropout(%1, %4) p=0.5 stream=7 : f32[4]\n"
     "label %5 \"dropped\"\n"
     "output \"y\" %5\n"},
    {"labels of composites go to their results; names and assigns stay",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 2]\n"
     "%2 = state() name=\"mean\" dtype=f32 shape=[4, 1] init=zeros scale=0\n"
     "%3 = mean(%1) axes=[1] keepdims=true\n"
     "label %3 \"the mean\"\n"
     "output \"y\" %3\n"
     "output \"again\" %3\n"
     "assign %2 %3\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 2] : f32[4, 2]\n"
     "%2 = state() name=\"mean\" dtype=f32 shape=[4, 1] init=zeros scale=0 : f32[4, 1]\n"
     "scope \"mean\"\n"
     "%3 = sum(%1) axes=[1] keepdims=true : f32[4, 1]\n"
     "%4 = affine(%3) mul=0.5 add=0 : f32[4, 1]\n"
     "label %4 \"the mean\"\n"
     "output \"y\" %4\n"
     "output \"again\" %4\n"
     "assign %2 %4\n"},
    {"contractions, cores and elements stay as they are",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4]\n"
     "%2 = matmul(%1, %1) trans_a=false trans_b=true\n"
     "%3 = cumsum(%2) axis=0 exclusive=false reverse=false\n"
     "%4 = gelu(%3)\n"
     "output \"y\" %4\n",
     "%1 = input() name=\"x\" dtype=f32 shape=[4, 4] : f32[4, 4]\n"
     "%2 = matmul(%1, %1) trans_a=false trans_b=true : f32[4, 4]\n"
     "%3 = cumsum(%2) axis=0 exclusive=false reverse=false : f32[4, 4]\n"
     "%4 = gelu(%3) : f32[4, 4]\n"
     "output \"y\" %4\n"},
};

TEST_WALK(examples) {
  for (size_t k = 0; k < COUNT_OF(examples); k++) {
    scene s;
    char *printed = NULL;
    if (!test_begin("%s", examples[k].name))
      continue;
    if (start(&s, op_table_get(), examples[k].before) != SN_OK)
      FAIL("%s", sn_ctx_message(s.ctx));
    else if (CHECK(sn_graph_print(s.lowered, &printed) == SN_OK))
      CHECK_EQ_STR(printed, examples[k].after);
    sn_text_free(s.ctx, printed);
    end(&s);
    test_end();
  }
}

/* --- every op --- */

static bool is_known(const sn_graph *g, const node *n) {
  const op_impl *impl = graph_op(g, n)->impl;
  return !impl->ref || impl->element || plan_is_contraction(n->op) || plan_is_core(n->op);
}

static void check_ends(const sn_graph *g, const sn_graph *lowered) {
  for (uint32_t k = 0; k < lowered->n_nodes; k++)
    if (!is_known(lowered, &lowered->nodes[k]))
      FAIL("%s is left", graph_op(lowered, &lowered->nodes[k])->name);
  if (!CHECK_EQ_INT(lowered->n_outputs, g->n_outputs))
    return;
  for (int k = 0; k < g->n_outputs; k++) {
    CHECK_EQ_STR(lowered->outputs[k].name, g->outputs[k].name);
    CHECK(type_equal(sn_value_type(lowered, lowered->outputs[k].value),
                     sn_value_type(g, g->outputs[k].value)));
  }
  CHECK_EQ_INT(lowered->next_stream >= g->next_stream, true);
  CHECK_EQ_INT(sn_graph_verify(lowered), SN_OK);
}

/* A second time nothing changes, but that what decompositions left dead is gone. */
static void check_again(const sn_graph *lowered) {
  sn_graph *twice = NULL, *thrice = NULL;
  char *one = NULL, *two = NULL;
  if (CHECK(plan_lower(lowered, &twice) == SN_OK && plan_lower(twice, &thrice) == SN_OK &&
            sn_graph_print(twice, &one) == SN_OK && sn_graph_print(thrice, &two) == SN_OK)) {
    CHECK(twice->n_nodes <= lowered->n_nodes);
    CHECK_EQ_STR(one, two);
  }
  sn_text_free(lowered->ctx, one);
  sn_text_free(lowered->ctx, two);
  sn_graph_destroy(twice);
  sn_graph_destroy(thrice);
}

static void check_case(const char *line) {
  sn_ctx *ctx;
  op_test_case c;
  sn_graph *g = NULL, *lowered = NULL;
  sn_value first;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK)) {
    if (case_graph(&c, &g, &first) == SN_OK) {
      if (plan_lower(g, &lowered) != SN_OK)
        FAIL("%s: %s", line, sn_ctx_message(ctx));
      else {
        check_ends(g, lowered);
        check_again(lowered);
      }
    }
    case_free(&c);
  }
  sn_graph_destroy(lowered);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(every_op_ends_in_what_the_plan_knows) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases; k++)
      if (!impl->cases[k].error)
        check_case(impl->cases[k].text);
    test_end();
  }
}

/* --- long lists --- */

TEST(a_long_concat_becomes_one_of_concats) {
  scene s = {0};
  sn_value parts[200];
  REQUIRE(sn_ctx_create(NULL, &s.ctx) == SN_OK);
  REQUIRE(sn_graph_create(s.ctx, &s.g) == SN_OK);
  for (int k = 0; k < 200; k++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", k);
    parts[k] = sn_input(s.g, name, SN_F32, SN_SHAPE(2, 1 + k % 3));
  }
  sn_output(s.g, "y", sn_concat(s.g, parts, 200, 1));
  if (CHECK_EQ_INT(plan_lower(s.g, &s.lowered), SN_OK)) {
    int concats = 0, arguments = 0;
    for (uint32_t k = 0; k < s.lowered->n_nodes; k++)
      if (s.lowered->nodes[k].op == OP_concat) {
        CHECK(s.lowered->nodes[k].n_in <= 64);
        arguments += s.lowered->nodes[k].n_in;
        concats++;
      }
    CHECK(concats > 3);
    CHECK_EQ_INT(arguments, 200 + concats - 1);
    check_ends(s.g, s.lowered);
  }
  end(&s);
}

/* --- a wrong table --- */

static void decompose_into_itself(build_ctx *c) {
  c->out[0] = sn_softmax(c->graph, sn_neg(c->graph, c->in[0]), -1);
}

/* The table with another decomposition of softmax. */
static void check_wrong(void (*decompose)(build_ctx *c), const char *message) {
  const op_table *table = op_table_get();
  op_desc *ops = malloc((size_t)table->n * sizeof *ops);
  REQUIRE(ops != NULL);
  memcpy(ops, table->ops, (size_t)table->n * sizeof *ops);
  op_impl wrong = *ops[OP_softmax].impl;
  wrong.decompose = decompose;
  ops[OP_softmax].impl = &wrong;
  op_table planted = {ops, table->n};
  scene s;
  sn_status status = start(&s, &planted,
                           "%1 = input() name=\"x\" dtype=f32 shape=[4]\n"
                           "%2 = softmax(%1) axis=0\n"
                           "output \"y\" %2\n");
  CHECK_EQ_INT(status, SN_ERR_INTERNAL);
  CHECK(!s.lowered);
  CHECK_STR_HAS(sn_ctx_message(s.ctx), message);
  end(&s);
  free(ops);
}

TEST(a_composite_without_decomposition_is_refused) {
  check_wrong(NULL, "softmax has no element and no decomposition");
}

TEST(a_decomposition_that_does_not_end_is_refused) {
  check_wrong(decompose_into_itself, "does not end");
}
