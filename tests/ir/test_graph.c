/* Building graphs: hash-consing and its exceptions, sticky errors, labels, scopes, outputs and assigns;
 * the verifier on corrupted graphs; memory that runs out. The text form: test_text.c. */
#include "ir/dim.h"
#include "ops/table.h"
#include "support/fault.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static sn_ctx *ctx;
static sn_graph *g;

static bool start(void) {
  g = NULL;
  return CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK);
}

static void end(void) {
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static sn_value input(const char *name) { return sn_input(g, name, SN_F32, SN_SHAPE(2, 3)); }

static sn_value state(const char *name) {
  return sn_state(g, name, SN_F32, SN_SHAPE(2, 3), SN_INIT_ZEROS, 0);
}

/* --- hash-consing --- */

TEST(equal_ops_are_one_value) {
  if (start()) {
    sn_value x = input("x"), y = input("y");
    CHECK_EQ_UINT(sn_add(g, x, y).id, sn_add(g, x, y).id);
    CHECK_EQ_UINT(sn_softmax(g, x, -1).id, sn_softmax(g, x, -1).id);
    CHECK_EQ_UINT(sn_full(g, SN_F32, SN_SHAPE(2), 1).id, sn_full(g, SN_F32, SN_SHAPE(2), 1).id);
    CHECK(sn_add(g, x, y).id != sn_add(g, y, x).id);
    CHECK(sn_add(g, x, y).id != sn_sub(g, x, y).id);
    CHECK(sn_softmax(g, x, -1).id != sn_softmax(g, x, 0).id);
    CHECK(sn_full(g, SN_F32, SN_SHAPE(2), 0.0).id != sn_full(g, SN_F32, SN_SHAPE(2), -0.0).id);
    sn_value three[] = {x, y, x};
    CHECK_EQ_UINT(sn_concat(g, three, 3, 0).id, sn_concat(g, three, 3, 0).id);
    CHECK(sn_concat(g, three, 3, 0).id != sn_concat(g, three, 2, 0).id);
    CHECK_EQ_UINT(sn_layer_norm(g, x, SN_NONE, SN_NONE, 1, 1e-5).id,
                  sn_layer_norm(g, x, SN_NONE, SN_NONE, 1, 1e-5).id);
    CHECK_EQ_STR(sn_graph_message(g), "");
  }
  end();
}

/* What stands behind the used part of a list or a struct does not count. */
TEST(unused_tails_do_not_matter) {
  if (start()) {
    sn_value x = input("x");
    sn_ints axes = SN_INTS(1), dirty = axes;
    sn_shape shape = SN_SHAPE(3, 2), dirty_shape = shape;
    for (int i = 1; i < SN_MAX_RANK; i++)
      dirty.v[i] = 1234 + i;
    for (int i = 2; i < SN_MAX_RANK; i++)
      dirty_shape.dim[i] = -99;
    CHECK_EQ_UINT(sn_sum(g, x, axes, true).id, sn_sum(g, x, dirty, true).id);
    CHECK_EQ_UINT(sn_reshape(g, x, shape).id, sn_reshape(g, x, dirty_shape).id);
    CHECK_EQ_STR(sn_graph_message(g), "");
  }
  end();
}

TEST(constants_are_compared_by_content) {
  if (start()) {
    float a[] = {1, 2}, b[] = {1, 2}, c[] = {1, 3};
    sn_value x = sn_constant_bytes(g, SN_F32, SN_SHAPE(2), a);
    CHECK_EQ_UINT(x.id, sn_constant_bytes(g, SN_F32, SN_SHAPE(2), b).id);
    CHECK(x.id != sn_constant_bytes(g, SN_F32, SN_SHAPE(2), c).id);
    CHECK(x.id != sn_constant_bytes(g, SN_F32, SN_SHAPE(2, 1), a).id);
    CHECK(x.id != sn_constant_bytes(g, SN_I32, SN_SHAPE(2), a).id);
    a[0] = 7; /* the graph has its own copy */
    CHECK_EQ_UINT(x.id, sn_constant_bytes(g, SN_F32, SN_SHAPE(2), b).id);
  }
  end();
}

TEST(leaves_are_one_by_name) {
  if (start()) {
    CHECK_EQ_UINT(input("x").id, input("x").id);
    CHECK(input("x").id != input("y").id);
    CHECK_EQ_UINT(state("x").id, state("x").id);
    CHECK(input("x").id != state("x").id);
    CHECK_EQ_STR(sn_graph_message(g), "");
    sn_value again = sn_input(g, "x", SN_F32, SN_SHAPE(3, 2));
    CHECK(!sn_value_valid(g, again));
    CHECK_STR_HAS(sn_graph_message(g), "input: \"x\" is declared twice with different attributes");
  }
  end();
}

TEST(a_state_has_one_initial_value) {
  if (start()) {
    state("w");
    sn_state(g, "w", SN_F32, SN_SHAPE(2, 3), SN_INIT_ONES, 0);
    CHECK_STR_HAS(sn_graph_message(g), "state: \"w\" is declared twice with different attributes");
  }
  end();
}

TEST(streams_are_identities) {
  if (start()) {
    sn_value key = sn_input(g, "key", SN_I32, SN_SHAPE(3));
    sn_value a = sn_bernoulli(g, key, SN_SHAPE(4), 0.5, SN_AUTO);
    sn_value b = sn_bernoulli(g, key, SN_SHAPE(4), 0.5, SN_AUTO);
    CHECK(a.id != b.id);
    sn_value c = sn_bernoulli(g, key, SN_SHAPE(4), 0.5, 7);
    CHECK_EQ_UINT(c.id, sn_bernoulli(g, key, SN_SHAPE(4), 0.5, 7).id);
    CHECK(c.id != sn_bernoulli(g, key, SN_SHAPE(4), 0.5, 8).id);
    /* the next free one lies behind those that were asked for */
    sn_value d = sn_bernoulli(g, key, SN_SHAPE(4), 0.5, SN_AUTO);
    CHECK_EQ_INT(((const attrs_bernoulli *)graph_node(g, d)->attrs)->stream, 9);
    sn_bernoulli(g, key, SN_SHAPE(4), 0.5, INT32_MAX);
    CHECK_EQ_STR(sn_graph_message(g), "");
    sn_bernoulli(g, key, SN_SHAPE(4), 0.5, SN_AUTO);
    CHECK_STR_HAS(sn_graph_message(g), "attribute stream: no identity is free");
  }
  end();
}

TEST(barriers_are_never_merged) {
  if (start()) {
    sn_value x = input("x");
    CHECK(sn_barrier(g, x, SN_NONE, SN_AUTO).id != sn_barrier(g, x, SN_NONE, SN_AUTO).id);
    CHECK_EQ_UINT(sn_barrier(g, x, SN_NONE, 40).id, sn_barrier(g, x, SN_NONE, 40).id);
  }
  end();
}

TEST(many_nodes_are_found_again) {
  if (start()) {
    enum { MANY = 3000 };
    sn_value x = input("x"), made[MANY];
    for (int i = 0; i < MANY; i++)
      made[i] = sn_affine(g, x, i, 1);
    uint32_t nodes = g->n_nodes;
    for (int i = 0; i < MANY; i++)
      CHECK(sn_affine(g, x, i, 1).id == made[i].id);
    CHECK_EQ_UINT(g->n_nodes, nodes);
    CHECK(sn_graph_verify(g) == SN_OK);
  }
  end();
}

/* More names than the first table holds, of two kinds of leaves. */
TEST(many_names_are_found_again) {
  if (start()) {
    enum { MANY = 2000 };
    char name[16];
    sn_value inputs[MANY], states[MANY];
    for (int i = 0; i < MANY; i++) {
      snprintf(name, sizeof name, "leaf.%d", i);
      inputs[i] = input(name);
      states[i] = i % 2 ? state(name) : SN_NONE;
    }
    int op_input = graph_find_op(g, "input"), op_state = graph_find_op(g, "state");
    for (int i = 0; i < MANY; i++) {
      snprintf(name, sizeof name, "leaf.%d", i);
      CHECK(graph_find_named(g, op_input, name).id == inputs[i].id);
      CHECK(graph_find_named(g, op_state, name).id == states[i].id);
      CHECK(graph_intern(g, name) == sn_value_name(g, inputs[i]));
    }
    CHECK_EQ_UINT(graph_find_named(g, op_input, "leaf").id, 0);
    CHECK_EQ_INT(sn_graph_verify(g), SN_OK);
  }
  end();
}

/* --- sticky errors --- */

TEST(the_first_error_stays) {
  if (start()) {
    sn_value a = input("a"), b = sn_input(g, "b", SN_F32, SN_SHAPE(4, 3));
    sn_scope_push(g, "layers.0");
    sn_scope_push(g, "attention");
    sn_value bad = sn_label(g, sn_matmul(g, a, b, false, false), "scores");
    CHECK(!sn_value_valid(g, bad));
    CHECK_EQ_INT(sn_value_type(g, bad).dtype, SN_NO_DTYPE);
    sn_scope_pop(g);
    sn_scope_pop(g);
    const char *message =
        "layers.0.attention: matmul: inner sizes differ: a is [2, 3], b is [4, 3]";
    CHECK_EQ_INT(sn_graph_status(g), SN_ERR_INVALID);
    CHECK_EQ_STR(sn_graph_message(g), message);
    CHECK_EQ_STR(sn_ctx_message(ctx), message);
    /* everything after it is quiet */
    CHECK(!sn_value_valid(g, sn_add(g, bad, a)));
    CHECK(!sn_value_valid(g, sn_add(g, a, a)));
    CHECK(!sn_value_valid(g, sn_softmax(g, bad, 99)));
    sn_output(g, "y", bad);
    sn_output(g, "", bad);
    sn_assign(g, bad, a);
    CHECK_EQ_INT(sn_symbol(g, "n", 5), 0);
    CHECK_EQ_STR(sn_graph_message(g), message);
    char *printed = NULL;
    sn_value dx;
    CHECK_EQ_INT(sn_graph_print(g, &printed), SN_ERR_INVALID);
    CHECK(printed == NULL);
    CHECK_EQ_INT(sn_ctx_fail(ctx, SN_ERR_IO, "another"), SN_ERR_IO);
    CHECK_EQ_INT(sn_graph_verify(g), SN_ERR_INVALID);
    CHECK_EQ_STR(sn_ctx_message(ctx), sn_graph_message(g)); /* said anew by whatever refuses it */
    CHECK_EQ_INT(sn_grad(g, bad, &a, 1, &dx), SN_ERR_INVALID);
  }
  end();
}

static void missing_argument(void) { sn_add(g, input("x"), SN_NONE); }
static void foreign_value(void) { sn_neg(g, (sn_value){12345}); }
static void empty_list(void) { sn_concat(g, NULL, 0, 0); }
static void none_in_list(void) { sn_concat(g, (sn_value[]){input("x"), SN_NONE}, 2, 0); }
static void unnamed_input(void) { sn_input(g, NULL, SN_F32, SN_SHAPE(2)); }
static void long_name(void) {
  char name[600];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  input(name);
}
static void long_output(void) {
  char name[600];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  sn_output(g, name, input("x"));
}
static void long_scope(void) {
  for (int i = 0; i < 100; i++)
    sn_scope_push(g, "a scope name");
}
static void long_label(void) {
  char name[600];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  sn_label(g, input("x"), name);
}
static void bad_dtype(void) { sn_input(g, "x", (sn_dtype)99, SN_SHAPE(2)); }
static void bad_rank(void) { sn_input(g, "x", SN_F32, (sn_shape){9, {0}}); }
static void negative_rank(void) { sn_input(g, "x", SN_F32, (sn_shape){-1, {0}}); }
static void bad_list(void) { sn_sum(g, input("x"), (sn_ints){9, {0}}, false); }
static void bad_enum(void) { sn_state(g, "s", SN_F32, SN_SHAPE(2), (sn_init)17, 0); }
static void bad_stream(void) { sn_barrier(g, input("x"), SN_NONE, -2); }
static void huge_dim(void) { sn_input(g, "x", SN_F32, SN_SHAPE(DIM_LIMIT)); }
static void endless_dim(void) { sn_input(g, "x", SN_F32, SN_SHAPE(SN_END)); }
static void huge_value(void) {
  sn_input(g, "x", SN_F32, SN_SHAPE(INT64_C(1) << 30, INT64_C(1) << 30));
}
static void foreign_dim(void) { sn_input(g, "x", SN_F32, SN_SHAPE(DIM_HANDLES - 3)); }
static void no_bytes(void) { sn_constant(g, SN_F32, SN_SHAPE(2), (sn_bytes){NULL, 8}); }
static void symbolic_constant(void) {
  float x = 0;
  sn_constant_bytes(g, SN_F32, SN_SHAPE(sn_symbol(g, "n", 4)), &x);
}
static void no_such_result(void) { sn_value_result(g, input("x"), 1); }
static void negative_result(void) { sn_value_result(g, input("x"), -1); }
static void result_of_nothing(void) { sn_value_result(g, SN_NONE, 0); }
static void output_twice(void) {
  sn_output(g, "y", input("x"));
  sn_output(g, "y", input("z"));
}
static void output_unnamed(void) { sn_output(g, "", input("x")); }
static void output_null(void) { sn_output(g, NULL, input("x")); }
static void output_of_nothing(void) { sn_output(g, "y", SN_NONE); }
static void assign_twice(void) {
  sn_value s = state("s");
  sn_assign(g, s, input("x"));
  sn_assign(g, s, input("z"));
}
static void assign_wrong_shape(void) {
  sn_assign(g, state("s"), sn_input(g, "x", SN_F32, SN_SHAPE(3, 2)));
}
static void assign_wrong_dtype(void) {
  sn_assign(g, state("s"), sn_input(g, "x", SN_F16, SN_SHAPE(2, 3)));
}
static void assign_to_input(void) { sn_assign(g, input("x"), input("z")); }
static void assign_to_result(void) { sn_assign(g, sn_neg(g, state("s")), input("z")); }
static void assign_nothing(void) { sn_assign(g, state("s"), SN_NONE); }
static void grad_of_integer(void) {
  sn_value x = sn_input(g, "x", SN_I32, SN_SCALAR), dx;
  (void)!sn_grad(g, x, &x, 1, &dx);
}
static void grad_of_vector(void) {
  sn_value x = input("x"), dx;
  (void)!sn_grad(g, x, &x, 1, &dx);
}

static const struct {
  void (*build)(void);
  const char *message;
} errors[] = {
    {missing_argument, "add: b is missing"},
    {foreign_value, "neg: x is not a value of this graph"},
    {empty_list, "concat: expected at least 1 arguments, got 0"},
    {none_in_list, "concat: argument is missing"},
    {unnamed_input, "input: attribute name: a name must not be empty"},
    {long_name, "longer than 512 bytes"},
    {long_output, "a name must have 1 to 512 bytes"},
    {long_scope, "a scope must be shorter than 512 bytes"},
    {long_label, "a label must be shorter than 512 bytes"},
    {bad_dtype, "input: attribute dtype: no such dtype"},
    {bad_rank, "input: attribute shape: a shape must have 0 to 8 dims"},
    {negative_rank, "a shape must have 0 to 8 dims"},
    {bad_list, "sum: attribute axes: a list must have 0 to 8 numbers"},
    {bad_enum, "state: attribute init: no such choice"},
    {bad_stream, "barrier: attribute id: an identity must lie in 0"},
    {huge_dim, "a dim is too large or belongs to another graph"},
    {endless_dim, "input: result would have the impossible size [4611686018427387903]"},
    {huge_value, "input: result would have the impossible size [1073741824, 1073741824]"},
    {foreign_dim, "a dim is too large or belongs to another graph"},
    {no_bytes, "constant: attribute data: no bytes are given"},
    {symbolic_constant, "its shape must be numbers"},
    {no_such_result, "input: has results 0 … 0, not 1"},
    {negative_result, "input: has results 0 … 0, not -1"},
    {result_of_nothing, "result 0 of a value that is not there"},
    {output_twice, "output \"y\" is declared twice"},
    {output_unnamed, "a name must have 1 to 512 bytes"},
    {output_null, "a name must have 1 to 512 bytes"},
    {output_of_nothing, "output \"y\": not a value of this graph"},
    {assign_twice, "assign: state \"s\" is assigned twice"},
    {assign_wrong_shape, "assign: state \"s\" is f32[2, 3], the new value is f32[3, 2]"},
    {assign_wrong_dtype, "assign: state \"s\" is f32[2, 3], the new value is f16[2, 3]"},
    {assign_to_input, "assign: needs a state and a value of this graph"},
    {assign_to_result, "assign: needs a state and a value of this graph"},
    {assign_nothing, "assign: needs a state and a value of this graph"},
    {grad_of_integer, "grad: the loss must be a float scalar, got i32[]"},
    {grad_of_vector, "grad: the loss must be a float scalar, got f32[2, 3]"},
};

TEST(errors_say_what_is_wrong) {
  for (size_t i = 0; i < COUNT_OF(errors); i++) {
    if (start()) {
      errors[i].build();
      CHECK_EQ_INT(sn_graph_status(g), SN_ERR_INVALID);
      CHECK_STR_HAS(sn_graph_message(g), errors[i].message);
    }
    end();
  }
}

/* --- values, labels, scopes --- */

TEST(results_of_ops_with_several) {
  if (start()) {
    sn_value sorted = sn_sort(g, input("x"), 1, false);
    sn_value index = sn_value_result(g, sorted, 1);
    CHECK_EQ_UINT(sn_value_result(g, sorted, 0).id, sorted.id);
    CHECK_EQ_INT(sn_value_type(g, index).dtype, SN_I32);
    CHECK_EQ_UINT(sn_value_result(g, index, 0).id, sorted.id);
    CHECK(!sn_value_valid(g, SN_NONE));
    CHECK_EQ_INT(sn_value_type(g, SN_NONE).dtype, SN_NO_DTYPE);
    CHECK_EQ_STR(sn_graph_message(g), "");
    CHECK(!sn_value_valid(g, sn_value_result(g, sorted, 2)));
    CHECK_STR_HAS(sn_graph_message(g), "sort: has results 0 … 1, not 2");
  }
  end();
}

TEST(labels_carry_their_scope) {
  if (start()) {
    sn_value x = sn_label(g, input("x"), "plain");
    sn_scope_push(g, "layers.1");
    sn_value y = sn_label(g, sn_neg(g, x), "q");
    sn_scope_push(g, NULL);
    sn_scope_pop(g);
    CHECK_EQ_STR(g->values[y.id].label, "layers.1.q");
    CHECK_EQ_STR(graph_node(g, y)->scope, "layers.1");
    sn_label(g, y, "other"); /* the first stays */
    CHECK_EQ_STR(g->values[y.id].label, "layers.1.q");
    sn_scope_pop(g);
    sn_scope_pop(g); /* one too many does nothing */
    CHECK_EQ_STR(g->values[x.id].label, "plain");
    CHECK_EQ_STR(graph_node(g, sn_sqr(g, x))->scope, "");
    CHECK_EQ_UINT(sn_label(g, sn_exp(g, x), NULL).id, sn_exp(g, x).id);
    CHECK_EQ_UINT(sn_label(g, SN_NONE, "nothing").id, 0);
    CHECK_EQ_UINT(sn_recompute(g, SN_NONE).id, 0);
    CHECK_EQ_STR(sn_graph_message(g), "");
  }
  end();
}

/* --- the verifier --- */

static sn_value matmul_graph(void) {
  sn_value s = state("w"), x = sn_input(g, "x", SN_F32, SN_SHAPE(5, 2));
  sn_value y = sn_matmul(g, x, s, false, false), z = sn_tanh(g, y);
  sn_output(g, "y", z);
  sn_output(g, "z", y);
  sn_assign(g, s, sn_neg(g, s));
  return y;
}

static node *its_node(sn_value v) { return &g->nodes[g->values[v.id].node]; }
static sn_value *its_in(sn_value v) { return (sn_value *)(uintptr_t)its_node(v)->in; }

static void break_dtype(sn_value y) { g->values[y.id].type.dtype = SN_F16; }
static void break_size(sn_value y) { g->values[y.id].type.shape.dim[1]++; }
static void break_rank(sn_value y) { g->values[y.id].type.shape.rank = 1; }
static void break_order(sn_value y) { its_in(y)[0] = (sn_value){y.id + 1}; }
static void break_self(sn_value y) { its_in(y)[0] = y; }
static void break_missing(sn_value y) { its_in(y)[1] = SN_NONE; }
static void break_swapped(sn_value y) {
  sn_value a = its_in(y)[0];
  its_in(y)[0] = its_in(y)[1];
  its_in(y)[1] = a;
}
static void break_attribute(sn_value y) { /* both shapes of the transposed product fit */
  attrs_matmul *a = (attrs_matmul *)(uintptr_t)its_node(y)->attrs;
  a->trans_a = true;
}
static void break_leaf_attribute(sn_value y) {
  attrs_state *a = (attrs_state *)(uintptr_t)its_node(its_in(y)[1])->attrs;
  a->scale = 0.25;
}
static void break_op(sn_value y) { its_node(y)->op = OP_COUNT; }
static void break_count(sn_value y) { its_node(y)->n_in = 1; }
static void break_results(sn_value y) { its_node(y)->n_out = 2; }
static void break_first(sn_value y) { its_node(y)->first++; }
static void break_owner(sn_value y) { g->values[y.id].node++; }
static void break_values(sn_value y) {
  (void)y;
  g->n_values--;
}
static void break_name(sn_value y) {
  (void)y;
  sn_value extra = sn_input(g, "other", SN_F32, SN_SHAPE(1));
  attrs_input *a = (attrs_input *)(uintptr_t)its_node(extra)->attrs;
  a->name = graph_intern(g, "x");
}
static void break_output(sn_value y) {
  (void)y;
  g->outputs[0].value.id = 9999;
}
static void break_output_name(sn_value y) {
  (void)y;
  g->outputs[0].name = g->outputs[1].name;
}
static void break_assign(sn_value y) { g->assigns[0].value = y; }
static void break_assign_state(sn_value y) {
  (void)y;
  g->assigns[0].state = g->assigns[0].value;
}
static void break_assigned(sn_value y) { g->nodes[g->values[y.id].node].assigned = true; }
static void break_assign_twice(sn_value y) {
  (void)y;
  g->assigns[1] = g->assigns[0];
  g->n_assigns = 2;
}

static const struct {
  const char *name;
  void (*corrupt)(sn_value y);
  const char *message;
} corruptions[] = {
    {"dtype", break_dtype, "a result's type is not what inference says"},
    {"size", break_size, "a result's type is not what inference says"},
    {"rank", break_rank, "a result's type is not what inference says"},
    {"order", break_order, "uses a value before it is computed"},
    {"self", break_self, "uses a value before it is computed"},
    {"missing", break_missing, "lacks an argument"},
    {"swapped", break_swapped, "node 2 (matmul): inference fails"},
    {"attribute", break_attribute, "node 2 (matmul): "},
    {"leaf attribute", break_leaf_attribute, "node 0 (state): is not found by what it is"},
    {"op", break_op, "node 2 has no op"},
    {"count", break_count, "wrong number of arguments or results"},
    {"results", break_results, "wrong number of arguments or results"},
    {"first", break_first, "values are out of order"},
    {"owner", break_owner, "a result's type is not what inference says"},
    {"values", break_values, "values for"},
    {"name", break_name, "(input): "},
    {"output", break_output, "output \"y\" has no value"},
    {"output name", break_output_name, "output \"z\" is declared twice"},
    {"assign", break_assign, "assign 0 does not fit its state"},
    {"assign state", break_assign_state, "assign 0 does not fit its state"},
    {"assign twice", break_assign_twice, "a state is assigned twice"},
    {"assigned", break_assigned, "is marked as assigned and is not"},
};

TEST_WALK(the_verifier_finds) {
  for (size_t i = 0; i < COUNT_OF(corruptions); i++) {
    if (!test_begin("%s", corruptions[i].name))
      continue;
    if (start()) {
      sn_value y = matmul_graph();
      CHECK_EQ_INT(sn_graph_verify(g), SN_OK);
      corruptions[i].corrupt(y);
      CHECK_EQ_INT(sn_graph_verify(g), SN_ERR_INTERNAL);
      CHECK_STR_HAS(sn_ctx_message(ctx), corruptions[i].message);
      CHECK_EQ_INT(sn_graph_status(g), SN_OK); /* a finding is not an error of the builders */
    }
    end();
    test_end();
  }
}

/* --- memory that runs out --- */

static void build_and_print(sn_ctx *c) {
  sn_graph *made = NULL, *read = NULL;
  char *printed = NULL;
  if (sn_graph_create(c, &made) != SN_OK)
    return;
  sn_dim n = sn_symbol(made, "n", 64);
  sn_value x = sn_input(made, "x", SN_F32, SN_SHAPE(n, 6));
  sn_value w = sn_state(made, "w", SN_F32, SN_SHAPE(6, 6), SN_INIT_NORMAL, 0.02), dw;
  sn_scope_push(made, "layer");
  sn_value y = sn_label(made, sn_softmax(made, sn_matmul(made, x, w, false, false), -1), "p");
  y = sn_slice(made, y, 0, sn_dim_div(made, n, 2), n, 1);
  sn_value loss = sn_sum(made, sn_mul(made, y, y), SN_ALL_AXES, false);
  sn_scope_pop(made);
  sn_output(made, "loss", loss);
  if (sn_graph_status(made) == SN_OK && sn_grad(made, loss, &w, 1, &dw) == SN_OK)
    sn_assign(made, w, dw);
  if (sn_graph_status(made) == SN_OK && sn_graph_verify(made) == SN_OK &&
      sn_graph_print(made, &printed) == SN_OK) {
    sn_status status = sn_graph_parse(c, printed, &read);
    CHECK(status == SN_OK || status == SN_ERR_NO_MEMORY);
  } else {
    CHECK(sn_graph_status(made) == SN_OK || sn_graph_status(made) == SN_ERR_NO_MEMORY);
  }
  sn_text_free(c, printed);
  sn_graph_destroy(read);
  sn_graph_destroy(made);
}

TEST(every_allocation_may_fail) {
  fault_heap heap = {0};
  bool more = true;
  for (int i = 0; more && i < 20000; i++) {
    fault_heap_start(&heap);
    sn_ctx *c = fault_ctx(&heap);
    if (c)
      build_and_print(c);
    sn_ctx_destroy(c);
    more = fault_heap_end(&heap);
  }
  CHECK(!more);
}
