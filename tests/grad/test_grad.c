/* The reverse sweep: what adds up, what is zero, what is refused, and gradients of gradients. What each op's
 * vjp computes is the business of the op table's own test. */
#include "ops/table.h"
#include "support/fault.h"
#include "support/graph_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static sn_value input(graph_run *r, const char *name, sn_shape shape) {
  return sn_input(r->g, name, SN_F32, shape);
}

static sn_value total(sn_graph *g, sn_value x) { return sn_sum(g, x, SN_ALL_AXES, false); }

/* sum(x * w) with w drawn: every element of x counts differently. */
static sn_value weighted(graph_run *r, const char *name, sn_value x) {
  return total(r->g, sn_mul(r->g, x, input(r, name, sn_value_type(r->g, x).shape)));
}

/* Outputs loss and its gradients; false after a failed check. */
static bool differentiate(graph_run *r, sn_value loss, const sn_value *wrt, int n) {
  static const char *const names[] = {"g0", "g1", "g2", "g3"};
  sn_value grads[4];
  sn_output(r->g, "loss", loss);
  if (sn_grad(r->g, loss, wrt, n, grads) != SN_OK)
    return FAIL("%s", sn_ctx_message(r->ctx));
  for (int i = 0; i < n; i++) {
    sn_type a = sn_value_type(r->g, grads[i]), b = sn_value_type(r->g, wrt[i]);
    CHECK(type_equal(a, b));
    sn_output(r->g, names[i], grads[i]);
  }
  return graph_run_execute(r, NULL);
}

/* Compares the gradients of the last run with differences of the loss, for inputs wrt. */
static void check_differences(graph_run *r, const sn_value *wrt, int n, double tolerance) {
  ref_tensor got[GRAPH_RUN_OUTPUTS];
  memcpy(got, r->out, sizeof got);
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < got[k + 1].count; i++) {
      double want = graph_run_difference(r, sn_value_name(r->g, wrt[k]), i), g = got[k + 1].data[i];
      if (!(fabs(g - want) <= tolerance * fmax(1, fabs(want))))
        FAIL("gradient %d, element %lld: %.12g, differences give %.12g", k, (long long)i, g, want);
    }
}

static void check_gradients(graph_run *r, sn_value loss, const sn_value *wrt, int n) {
  if (differentiate(r, loss, wrt, n))
    check_differences(r, wrt, n, 1e-7);
}

/* --- adding up --- */

TEST(a_value_used_many_times) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 3)), y = sn_tanh(g, x);
  sn_value sum = sn_add(g, sn_mul(g, y, x), sn_exp(g, y));
  for (int i = 0; i < 5; i++)
    sum = sn_add(g, sum, sn_affine(g, sn_mul(g, sum, x), 0.5, i));
  check_gradients(&r, weighted(&r, "w", sn_add(g, sum, y)), &x, 1);
  graph_run_end(&r);
}

TEST_WALK(a_value_twice_in_one_op) {
  static const char *const ops[] = {
      "mul", "sub", "matmul", "concat", "where", "div", "cross_entropy_dist", "gated_rms_norm"};
  for (size_t k = 0; k < COUNT_OF(ops); k++) {
    if (!test_begin("%s", ops[k]))
      continue;
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_graph *g = r.g;
    sn_value x = sn_affine(g, input(&r, "x", SN_SHAPE(3, 3)), 1, 2), pair[2] = {x, x};
    sn_value leaf = graph_find_named(g, OP_input, "x");
    sn_value y[] = {sn_mul(g, x, x),
                    sn_sub(g, x, x),
                    sn_matmul(g, x, x, false, true),
                    sn_concat(g, pair, 2, 1),
                    sn_where(g, sn_gt(g, x, sn_scalar(g, SN_F32, 2)), x, x),
                    sn_div(g, x, sn_mul(g, x, x)),
                    sn_cross_entropy_dist(g, x, x, 0.1, SN_REDUCTION_NONE),
                    sn_gated_rms_norm(g, x, x, SN_NONE, 1e-3)};
    check_gradients(&r, weighted(&r, "w", y[k]), &leaf, 1);
    graph_run_end(&r);
    test_end();
  }
}

/* The arguments of an op that is swept through its decomposition depend on each other. */
TEST(a_decomposed_op_on_dependent_arguments) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 5)), p = sn_softmax(g, x, -1);
  sn_value ce = sn_cross_entropy_dist(g, x, p, 0, SN_REDUCTION_SUM);
  sn_value norm = sn_gated_rms_norm(g, sn_log_softmax(g, x, -1), x, SN_NONE, 1e-3);
  check_gradients(&r, sn_add(g, ce, weighted(&r, "w", norm)), &x, 1);
  graph_run_end(&r);
}

/* A decomposition of which only one argument is asked for, and one whose result is not used whole. */
TEST(some_arguments_of_a_decomposed_op) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 4)), gate = input(&r, "gate", SN_SHAPE(2, 4)),
           weight = input(&r, "weight", SN_SHAPE(4));
  sn_value y = sn_gated_rms_norm(g, x, sn_stop_gradient(g, gate), weight, 1e-3);
  sn_value part = sn_slice(g, y, 1, 1, 3, 1), wrt[2] = {weight, x};
  check_gradients(&r, weighted(&r, "w", part), wrt, 2);
  graph_run_end(&r);
}

/* --- which values --- */

TEST(intermediate_values_and_those_before_them) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 3)), h = sn_tanh(g, x),
           w = input(&r, "w", SN_SHAPE(2, 3));
  sn_value loss = total(g, sn_mul(g, sn_mul(g, h, h), w));
  sn_value wrt[4] = {h, x, loss, h}, grads[4];
  REQUIRE(sn_grad(g, loss, wrt, 4, grads) == SN_OK);
  sn_output(g, "h", h);
  sn_output(g, "w", w);
  const char *const names[] = {"dh", "dx", "dloss", "dh again"};
  for (int i = 0; i < 4; i++)
    sn_output(g, names[i], grads[i]);
  REQUIRE(graph_run_execute(&r, NULL));
  for (int i = 0; i < 6; i++) {
    double hi = r.out[0].data[i], wi = r.out[1].data[i], dh = 2 * hi * wi;
    CHECK_NEAR(r.out[2].data[i], dh, 1e-12);
    CHECK_NEAR(r.out[3].data[i], dh * (1 - hi * hi), 1e-12);
    CHECK_NEAR(r.out[5].data[i], dh, 1e-12);
  }
  CHECK(r.out[4].count == 1 && r.out[4].data[0] == 1);
  graph_run_end(&r);
}

TEST(states_have_gradients) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 2), SN_INIT_NORMAL, 1);
  sn_value loss = total(g, sn_sqr(g, sn_matmul(g, x, w, false, false)));
  sn_value wrt[2] = {w, x};
  check_gradients(&r, loss, wrt, 2);
  graph_run_end(&r);
}

static bool all_zero(const ref_tensor *t) {
  for (int64_t i = 0; i < t->count; i++)
    if (t->data[i] != 0)
      return false;
  return true;
}

/* Values that the loss does not depend on, or only through stop_gradient, also where that stands before or behind what
 * has no gradient. */
TEST(zero_gradients) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_dim n = sn_symbol(g, "n", 5);
  sn_value x = input(&r, "x", SN_SHAPE(2, 3)), unused = input(&r, "unused", SN_SHAPE(n, 2)),
           cut = input(&r, "cut", SN_SHAPE(2, 3)), whole = input(&r, "whole", SN_SHAPE(2, 3)),
           later = sn_exp(g, x);
  sn_value best = sn_cast(g, sn_argmax(g, sn_stop_gradient(g, whole), 1, true), SN_F32);
  sn_value sum = sn_add(g, sn_add(g, x, sn_stop_gradient(g, cut)), best);
  sn_value wrt[4] = {unused, cut, whole, later}, grads[4];
  sn_value loss = total(g, sn_sqr(g, sum));
  REQUIRE(sn_grad(g, loss, wrt, 4, grads) == SN_OK);
  const char *const names[] = {"unused", "cut", "whole", "later"};
  for (int i = 0; i < 4; i++)
    sn_output(g, names[i], grads[i]);
  REQUIRE(graph_run_execute(&r, (int64_t[]){4}));
  CHECK_EQ_INT(r.out[0].count, 8);
  CHECK_EQ_INT(r.out[1].count, 6);
  for (int i = 0; i < 4; i++)
    CHECK(all_zero(&r.out[i]));
  graph_run_end(&r);
}

TEST(a_stopped_path_beside_an_open_one) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(4)), dx;
  sn_value loss = total(g, sn_mul(g, x, sn_stop_gradient(g, sn_exp(g, x))));
  REQUIRE(sn_grad(g, loss, &x, 1, &dx) == SN_OK);
  sn_output(g, "e", sn_exp(g, x));
  sn_output(g, "dx", dx);
  REQUIRE(graph_run_execute(&r, NULL));
  CHECK(ref_tensor_near("d/dx of x * stop(e^x)", &r.out[0], &r.out[1], 1e-12));
  graph_run_end(&r);
}

/* --- ops of several results --- */

TEST(every_result_passes_its_gradient) {
  for (int used = 1; used < 4; used++) { /* result 0, result 1, both */
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_graph *g = r.g;
    sn_value q = input(&r, "q", SN_SHAPE(1, 2, 3, 4)), k = input(&r, "k", SN_SHAPE(1, 2, 5, 4)),
             v = input(&r, "v", SN_SHAPE(1, 2, 5, 4));
    sn_value y = sn_attention(g, q, k, v, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.5, 0, SN_CAUSAL_END,
                              0, SN_LAYOUT_BHSD);
    sn_value first = weighted(&r, "w", y), second = weighted(&r, "u", sn_value_result(g, y, 1));
    sn_value loss = used == 1 ? first : used == 2 ? second : sn_add(g, first, second);
    sn_value wrt[3] = {q, k, v};
    check_gradients(&r, loss, wrt, 3);
    graph_run_end(&r);
  }
}

TEST(integer_results_do_not_disturb) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(2, 5)), top = sn_topk(g, x, 3, 1, true);
  sn_value where = sn_cast(g, sn_value_result(g, top, 1), SN_F32);
  check_gradients(&r, total(g, sn_mul(g, sn_sqr(g, top), where)), &x, 1);
  graph_run_end(&r);
}

/* --- refusals --- */

TEST(what_cannot_be_asked) {
  graph_run r;
  sn_value got;
  struct {
    sn_value loss, wrt;
    const char *message;
  } c[5];
  for (int i = 0; i < 5; i++) {
    REQUIRE(graph_run_start(&r));
    sn_value x = input(&r, "x", SN_SHAPE(3)), n = sn_input(r.g, "n", SN_I32, SN_SCALAR);
    sn_value loss = total(r.g, x);
    c[0].loss = x, c[0].wrt = x, c[0].message = "the loss must be a float scalar, got f32[3]";
    c[1].loss = n, c[1].wrt = x, c[1].message = "the loss must be a float scalar, got i32[]";
    c[2].loss = SN_NONE, c[2].wrt = x, c[2].message = "the loss must be a float scalar";
    c[3].loss = loss, c[3].wrt = n, c[3].message = "value 0 to differentiate for must be a float";
    c[4].loss = loss, c[4].wrt = SN_NONE, c[4].message = "value 0 to differentiate for must be";
    CHECK_EQ_INT(sn_grad(r.g, c[i].loss, &c[i].wrt, 1, &got), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(r.ctx), c[i].message);
    CHECK(!sn_value_valid(r.g, got));
    CHECK_EQ_INT(sn_graph_status(r.g), SN_ERR_INVALID);
    graph_run_end(&r);
  }
}

TEST(a_broken_graph_keeps_its_own_error) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_value x = input(&r, "x", SN_SHAPE(3)), got;
  sn_value loss = total(r.g, sn_add(r.g, x, input(&r, "y", SN_SHAPE(2))));
  CHECK_EQ_INT(sn_grad(r.g, loss, &x, 1, &got), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_graph_message(r.g), "add");
  graph_run_end(&r);
}

TEST(no_values_no_gradients) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_value loss = total(r.g, input(&r, "x", SN_SHAPE(3)));
  CHECK_EQ_INT(sn_grad(r.g, loss, NULL, 0, NULL), SN_OK);
  graph_run_end(&r);
}

/* --- ways through integers and bools --- */

/* A float of x's shape that x reaches only through what has no gradient. */
static sn_value block(graph_run *r, const char *how, sn_value x) {
  sn_graph *g = r->g;
  sn_value zero = sn_scalar(g, SN_F32, 0), y = SN_NONE;
  if (strcmp(how, "argmax") == 0)
    y = sn_argmax(g, x, 0, true);
  else if (strcmp(how, "argmin") == 0)
    y = sn_argmin(g, x, 0, true);
  else if (strcmp(how, "gt") == 0)
    y = sn_gt(g, x, zero);
  else if (strcmp(how, "eq") == 0)
    y = sn_logical_not(g, sn_eq(g, x, zero));
  else if (strcmp(how, "isnan") == 0)
    y = sn_isnan(g, x);
  else if (strcmp(how, "cast") == 0)
    return sn_one_hot(g, sn_cast(g, x, SN_I32), 4, SN_F32);
  else if (strcmp(how, "topk") == 0)
    y = sn_value_result(g, sn_topk(g, x, 4, 0, true), 1);
  else if (strcmp(how, "sort") == 0)
    y = sn_value_result(g, sn_sort(g, x, 0, false), 1);
  else if (strcmp(how, "sample") == 0)
    y = sn_sample(g, sn_reshape(g, x, SN_SHAPE(1, 4)), sn_input(g, "key", SN_I32, SN_SHAPE(3)),
                  SN_NONE, 1, 0, 1, 0, 1, SN_AUTO);
  else if (strcmp(how, "where") == 0) /* a condition */
    return sn_where(g, sn_gt(g, x, zero), input(r, "other", SN_SHAPE(4)), zero);
  else if (strcmp(how, "gather") == 0) /* indices */
    return sn_gather(g, input(r, "table", SN_SHAPE(9)), sn_cast(g, x, SN_I32));
  return sn_cast(g, y, SN_F32);
}

/* No zeros where there is no derivative: an error that names the op and the path. */
TEST_WALK(only_through_what_has_no_gradient) {
  static const struct {
    const char *how, *op, *path;
  } rows[] = {{"argmax", "argmax", "x -> neg -> argmax -> cast -> sum"},
              {"argmin", "argmin", ""},
              {"gt", "gt", "x -> neg -> gt -> cast -> sum"},
              {"eq", "eq", "logical_not"},
              {"isnan", "isnan", ""},
              {"cast", "cast", "one_hot"},
              {"topk", "topk", ""},
              {"sort", "sort", ""},
              {"sample", "sample", "reshape -> sample -> cast -> sum"},
              {"where", "gt", "x -> neg -> gt -> where -> sum"},
              {"gather", "cast", "x -> neg -> cast -> gather -> sum"}};
  for (size_t k = 0; k < COUNT_OF(rows); k++) {
    char begin[64];
    if (!test_begin("%s", rows[k].how))
      continue;
    for (int beside = 0; beside < 3; beside++) {
      graph_run r;
      REQUIRE(graph_run_start(&r));
      sn_graph *g = r.g;
      sn_value x = input(&r, "x", SN_SHAPE(4)), dx, y = block(&r, rows[k].how, sn_neg(g, x));
      sn_grad_path way, want = beside == 0   ? SN_GRAD_BLOCKED
                               : beside == 1 ? SN_GRAD_STOPPED
                                             : SN_GRAD_OPEN;
      sn_value loss = total(g, y);
      if (beside == 1) /* zeros were asked for */
        loss = sn_add(g, total(g, sn_stop_gradient(g, x)), loss);
      if (beside == 2)
        loss = sn_add(g, loss, total(g, x));
      CHECK_EQ_INT(sn_grad_paths(g, loss, &x, 1, &way), SN_OK);
      CHECK_EQ_INT(way, want);
      CHECK_EQ_INT(sn_grad(g, loss, &x, 1, &dx), beside ? SN_OK : SN_ERR_UNSUPPORTED);
      snprintf(begin, sizeof begin, "grad: %s is not differentiable (", rows[k].op);
      if (!beside) {
        CHECK_STR_HAS(sn_ctx_message(r.ctx), begin);
        CHECK_STR_HAS(sn_ctx_message(r.ctx), "and x reaches the loss by nothing else");
        CHECK_STR_HAS(sn_ctx_message(r.ctx), rows[k].path);
        CHECK(!sn_value_valid(g, dx));
      }
      graph_run_end(&r);
    }
    test_end();
  }
}

TEST(ways_of_values_to_a_loss) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = input(&r, "x", SN_SHAPE(4)), unused = input(&r, "unused", SN_SHAPE(2)),
           stopped = input(&r, "stopped", SN_SHAPE(4)), n = sn_input(g, "n", SN_I32, SN_SHAPE(4)),
           loss = total(g, sn_mul(g, sn_mul(g, x, sn_stop_gradient(g, sn_exp(g, stopped))),
                                  sn_cast(g, n, SN_F32)));
  sn_value later = sn_exp(g, loss), of[] = {x, unused, stopped, n, loss, later, SN_NONE};
  static const sn_grad_path want[] = {SN_GRAD_OPEN,    SN_GRAD_UNUSED, SN_GRAD_STOPPED,
                                      SN_GRAD_BLOCKED, SN_GRAD_OPEN,   SN_GRAD_UNUSED,
                                      SN_GRAD_UNUSED};
  sn_grad_path got[COUNT_OF(of)];
  CHECK_EQ_INT(sn_grad_paths(g, loss, of, COUNT_OF(of), got), SN_OK);
  for (size_t i = 0; i < COUNT_OF(of); i++)
    CHECK_EQ_INT(got[i], want[i]);
  CHECK_EQ_INT(sn_grad_paths(g, SN_NONE, of, 1, got), SN_ERR_INVALID);
  graph_run_end(&r);
}

/* tanh and topk without gradients. */
static const op_table *crippled(op_desc **out_ops) {
  static op_table table;
  static op_impl impls[2];
  const op_table *whole = op_table_get();
  op_desc *ops = calloc((size_t)whole->n, sizeof *ops);
  static const int ids[2] = {OP_tanh, OP_topk};
  memcpy(ops, whole->ops, (size_t)whole->n * sizeof *ops);
  for (int i = 0; i < 2; i++) {
    impls[i] = *whole->ops[ids[i]].impl;
    impls[i].grad = NULL;
    impls[i].grad_by_decompose = false;
    impls[i].no_grad = "for a test";
    ops[ids[i]].impl = &impls[i];
  }
  table = (op_table){ops, whole->n};
  *out_ops = ops;
  return &table;
}

TEST(the_path_to_what_is_not_differentiable_is_named) {
  op_desc *ops;
  const op_table *table = crippled(&ops);
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int k = 0; k < 3; k++) {
    sn_graph *g;
    sn_value dx, got;
    REQUIRE(graph_create(ctx, table, &g) == SN_OK);
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(4));
    sn_value y = k == 0 ? sn_tanh(g, x) : sn_topk(g, x, 2, 0, true);
    sn_value loss = total(g, sn_label(g, sn_exp(g, sn_neg(g, y)), "layers.0.gate"));
    /* No gradient asked through it, no error. */
    CHECK_EQ_INT(sn_grad(g, loss, &y, 1, &got), SN_OK);
    if (k == 2) { /* only the indices: integers */
      loss = total(g, sn_cast(g, sn_value_result(g, y, 1), SN_F32));
      CHECK_EQ_INT(sn_grad(g, loss, &x, 1, &dx), SN_ERR_UNSUPPORTED);
      CHECK_STR_HAS(sn_ctx_message(ctx), "topk is not differentiable (for a test)");
    } else {
      CHECK_EQ_INT(sn_grad(g, loss, &x, 1, &dx), SN_ERR_UNSUPPORTED);
      CHECK_STR_HAS(sn_ctx_message(ctx), k ? "grad: topk is not differentiable (for a test)"
                                           : "grad: tanh is not differentiable (for a test)");
      CHECK_STR_HAS(sn_ctx_message(ctx), k ? "on the way topk -> neg -> layers.0.gate -> sum"
                                           : "on the way tanh -> neg -> layers.0.gate -> sum");
      CHECK(!sn_value_valid(g, dx));
    }
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
  free(ops);
}

/* Each decomposition is a sweep of its own; it must not cost what the whole graph does. */
TEST(decompositions_share_their_memory) {
  enum { MANY = 300 };
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  sn_graph *g;
  REQUIRE(ctx != NULL && sn_graph_create(ctx, &g) == SN_OK);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(4)), y = x, dx;
  for (int i = 0; i < MANY; i++)
    y = sn_slice(g, sn_tile(g, y, SN_INTS(2)), 0, 1, 5, 1);
  sn_value loss = total(g, y);
  int64_t before = heap.count;
  CHECK_EQ_INT(sn_grad(g, loss, &x, 1, &dx), SN_OK);
  CHECK(heap.count - before < MANY / 4);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* maximum, but its first argument as it is: a decomposition that ends where it begins. */
static void first_argument(build_ctx *c) { c->out[0] = c->in[0]; }

TEST(a_decomposition_ends_at_its_arguments) {
  const op_table *whole = op_table_get();
  op_desc *ops = calloc((size_t)whole->n, sizeof *ops);
  REQUIRE(ops != NULL);
  memcpy(ops, whole->ops, (size_t)whole->n * sizeof *ops);
  op_impl impl = *ops[OP_maximum].impl;
  impl.grad = NULL;
  impl.grad_by_decompose = true;
  impl.decompose = first_argument;
  ops[OP_maximum].impl = &impl;
  const op_table table = {ops, whole->n};
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && graph_create(ctx, &table, &g) == SN_OK);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(4)), e = sn_exp(g, x), dx[2];
  CHECK_EQ_INT(sn_grad(g, total(g, sn_maximum(g, e, x)), &x, 1, &dx[0]), SN_OK);
  CHECK_EQ_INT(sn_grad(g, total(g, e), &x, 1, &dx[1]), SN_OK);
  CHECK_EQ_INT(dx[0].id, dx[1].id); /* the same graph: counted once */
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  free(ops);
}

/* --- gradients of gradients --- */

/* sum(w * d loss / dx), whose gradient is compared with differences of it. */
static void check_second(graph_run *r, sn_value loss, sn_value x) {
  sn_value dx;
  if (sn_grad(r->g, loss, &x, 1, &dx) != SN_OK) {
    FAIL("%s", sn_ctx_message(r->ctx));
    return;
  }
  sn_value again = weighted(r, "second", dx);
  if (differentiate(r, again, &x, 1))
    check_differences(r, &x, 1, 1e-6);
}

TEST_WALK(second_order) {
  static const char *const names[] = {"tanh",       "mul",  "matmul",    "softmax",
                                      "layer_norm", "gelu", "logsumexp", "cross_entropy",
                                      "attention",  "conv", "decomposed"};
  for (size_t k = 0; k < COUNT_OF(names); k++) {
    if (!test_begin("%s", names[k]))
      continue;
    graph_run r;
    REQUIRE(graph_run_start(&r));
    sn_graph *g = r.g;
    sn_value x = input(&r, "x", SN_SHAPE(1, 1, 3, 4)), flat = sn_reshape(g, x, SN_SHAPE(3, 4));
    const int32_t labels[3] = {1, 0, 3};
    sn_value label = sn_constant_bytes(g, SN_I32, SN_SHAPE(3), labels);
    sn_value w = input(&r, "kernel", SN_SHAPE(2, 1, 2, 2));
    sn_ints one = SN_INTS(1, 1), zero = SN_INTS(0, 0);
    sn_value y[] = {sn_tanh(g, flat),
                    sn_mul(g, flat, sn_exp(g, flat)),
                    sn_matmul(g, flat, flat, false, true),
                    sn_softmax(g, flat, 1),
                    sn_layer_norm(g, flat, SN_NONE, SN_NONE, 1, 1e-3),
                    sn_gelu(g, flat),
                    sn_logsumexp(g, flat, SN_INTS(0), false),
                    sn_cross_entropy(g, flat, label, -1, 0, SN_REDUCTION_MEAN),
                    sn_attention(g, x, sn_sqr(g, x), x, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.5, 0,
                                 SN_CAUSAL_END, 0, SN_LAYOUT_BHSD),
                    sn_sqr(g, sn_conv(g, x, w, SN_NONE, one, zero, zero, one, 1)),
                    sn_gated_rms_norm(g, flat, flat, SN_NONE, 1e-3)};
    check_second(&r, weighted(&r, "first", y[k]), x);
    graph_run_end(&r);
    test_end();
  }
}
