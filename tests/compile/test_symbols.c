/* One plan for all lengths: a transformer block with a cache of keys and values, compiled once with a symbolic
 * number of tokens, gives at every length from 0 to 128 what a plan compiled for that length gives; the same block
 * trained likewise; and both give what the reference gives. */
#include "ir/dtype.h"
#include "support/case.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 128, CACHE = 144, WIDTH = 24, HEADS = 3, HEAD = 8, HIDDEN = 40, START = 9 };

static sn_value weight(sn_graph *g, const char *name, sn_shape shape) {
  return sn_state(g, name, SN_F32, shape, SN_INIT_NORMAL, 0.1);
}

/* [tokens, heads * HEAD] to [1, heads, tokens, HEAD] */
static sn_value split(sn_graph *g, sn_value x, sn_dim tokens, int heads) {
  sn_value y = sn_reshape(g, x, SN_SHAPE(1, tokens, heads, HEAD));
  return sn_transpose(g, y, SN_INTS(0, 2, 1, 3));
}

static sn_value turned(sn_graph *g, sn_value x, sn_value positions) {
  return sn_rope(g, x, positions, 2, HEAD, 10000, SN_ROPE_HALF, SN_ROPE_DEFAULT, 1, 1, 1, 1, 0,
                 false, SN_F32);
}

/* Keys or values of all tokens so far, with the new ones written at `start`. */
static sn_value cached(sn_graph *g, const char *name, sn_value rows, sn_value start) {
  sn_value cache = sn_state(g, name, SN_F32, SN_SHAPE(1, 1, CACHE, HEAD), SN_INIT_ZEROS, 0);
  sn_value next = sn_update_slice(g, cache, rows, start, 2);
  sn_assign(g, cache, next);
  return next;
}

static sn_value attend(sn_graph *g, sn_value x, sn_dim tokens, bool cache) {
  sn_value q = sn_matmul(g, x, weight(g, "q", SN_SHAPE(WIDTH, HEADS * HEAD)), false, false);
  sn_value k = sn_matmul(g, x, weight(g, "k", SN_SHAPE(WIDTH, HEAD)), false, false);
  sn_value v = sn_matmul(g, x, weight(g, "v", SN_SHAPE(WIDTH, HEAD)), false, false);
  sn_value start = sn_input(g, "start", SN_I32, SN_SCALAR), length = SN_NONE;
  sn_value positions = sn_add(g, sn_arange(g, SN_I32, tokens, 0, 1), start);
  q = turned(g, split(g, q, tokens, HEADS), positions);
  k = turned(g, split(g, k, tokens, 1), positions);
  v = split(g, v, tokens, 1);
  if (cache) {
    k = cached(g, "keys", k, start);
    v = cached(g, "values", v, start);
    length = sn_input(g, "length", SN_I32, SN_SHAPE(1));
  }
  sn_value y = sn_attention(g, q, k, v, SN_NONE, SN_NONE, length, SN_NONE, 0.35, 0, SN_CAUSAL_END,
                            0, SN_LAYOUT_BHSD);
  y = sn_reshape(g, sn_transpose(g, y, SN_INTS(0, 2, 1, 3)), SN_SHAPE(tokens, HEADS * HEAD));
  return sn_matmul(g, y, weight(g, "o", SN_SHAPE(HEADS * HEAD, WIDTH)), false, false);
}

static sn_value block(sn_graph *g, sn_dim tokens, bool cache) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(tokens, WIDTH));
  sn_value n = sn_rms_norm(g, x, weight(g, "norm", SN_SHAPE(WIDTH)), SN_NONE, 1, 1e-5);
  sn_value y = sn_add(g, x, attend(g, n, tokens, cache));
  n = sn_layer_norm(g, y, weight(g, "norm2", SN_SHAPE(WIDTH)), weight(g, "bias2", SN_SHAPE(WIDTH)),
                    1, 1e-5);
  sn_value both[] = {n, sn_neg(g, x)};
  sn_value wide = sn_concat(g, both, 2, 1);
  sn_value gate = sn_matmul(g, wide, weight(g, "gate", SN_SHAPE(2 * WIDTH, HIDDEN)), false, false);
  sn_value up = sn_matmul(g, wide, weight(g, "up", SN_SHAPE(2 * WIDTH, HIDDEN)), false, false);
  sn_value down = sn_matmul(g, sn_mul(g, sn_silu(g, gate), up),
                            weight(g, "down", SN_SHAPE(HIDDEN, WIDTH)), false, false);
  return sn_add(g, y, down);
}

static void decode_graph(sn_graph *g, sn_dim tokens) {
  sn_value y = block(g, tokens, true);
  sn_value first = weight(g, "first", SN_SHAPE(3, WIDTH)), rows[] = {first, y};
  sn_value all = sn_concat(g, rows, 2, 0);
  sn_output(g, "y", y);
  sn_output(g, "last", sn_slice(g, all, 0, -2, SN_END, 1));
  sn_output(g, "flat", sn_softmax(g, sn_reshape(g, all, SN_SHAPE(-1)), 0));
}

static void train_graph(sn_graph *g, sn_dim tokens) {
  static const char *const names[] = {"q", "k", "v", "o", "norm", "norm2", "gate", "down"};
  sn_value wrt[COUNT_OF(names)], grads[COUNT_OF(names)];
  sn_value y = block(g, tokens, false);
  sn_value loss = sn_sum(g, sn_sqr(g, y), SN_ALL_AXES, false);
  int n_states;
  sn_value states[32];
  n_states = sn_graph_states(g, states, 32);
  for (size_t i = 0; i < COUNT_OF(names); i++)
    for (int k = 0; k < n_states; k++)
      if (strcmp(sn_value_name(g, states[k]), names[i]) == 0)
        wrt[i] = states[k];
  sn_output(g, "loss", loss);
  if (CHECK(sn_grad(g, loss, wrt, COUNT_OF(names), grads) == SN_OK))
    for (size_t i = 0; i < COUNT_OF(names); i++)
      sn_assign(g, wrt[i], sn_sub(g, wrt[i], sn_affine(g, grads[i], 0.01, 0)));
}

/* --- one plan and many --- */

typedef void (*builder)(sn_graph *g, sn_dim tokens);

static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  int64_t tokens = *(const int64_t *)user;
  (void)dtype;
  if (strcmp(name, "start") == 0)
    return START;
  if (strcmp(name, "length") == 0)
    return (double)(START + tokens);
  return 0.7 * case_weight(name, i) + (strncmp(name, "norm", 4) == 0);
}

static bool start_plan(plan_run *r, sn_ctx *ctx, builder build, int64_t tokens, sn_graph **out) {
  *r = (plan_run){0};
  if (!CHECK(sn_graph_create(ctx, out) == SN_OK))
    return false;
  build(*out, tokens < 0 ? sn_symbol(*out, "tokens", MOST) : tokens);
  return plan_run_start(r, *out, NULL) == SN_OK || FAIL("%s", sn_ctx_message(ctx));
}

/* Tensor i of both, row-major f32. */
static void compare_tensor(const char *name, int64_t tokens, const float *a, const float *b,
                           int64_t count) {
  double most = 0;
  for (int64_t k = 0; k < count; k++)
    most = fmax(most, fabs((double)b[k]));
  for (int64_t k = 0; k < count; k++)
    if (!(fabs((double)a[k] - (double)b[k]) <= 1e-5 * most)) {
      FAIL("%lld tokens: \"%s\" element %lld: %.9g, compiled for that length %.9g",
           (long long)tokens, name, (long long)k, (double)a[k], (double)b[k]);
      return;
    }
}

static int64_t count_of(const plan_results *res, const program_leaf *leaf) {
  int64_t n = 1;
  for (int d = 0; d < leaf->type.shape.rank; d++)
    n *= size_at(res->sizes, leaf->type.shape.dim[d]);
  return n;
}

static void compare_results(const plan_run *r, int64_t tokens, const plan_results *any,
                            const plan_run *fixed, const plan_results *one) {
  const program *p = r->c.program, *q = fixed->c.program;
  if (!CHECK(p->n_outputs == q->n_outputs && p->n_states == q->n_states))
    return;
  for (int i = 0; i < p->n_outputs; i++) {
    CHECK_EQ_STR(p->outputs[i].name, q->outputs[i].name);
    CHECK_EQ_INT(count_of(any, &p->outputs[i]), count_of(one, &q->outputs[i]));
    compare_tensor(p->outputs[i].name, tokens, any->outputs[i], one->outputs[i],
                   count_of(one, &q->outputs[i]));
  }
  for (int i = 0; i < p->n_states; i++) {
    CHECK_EQ_STR(p->states[i].name, q->states[i].name);
    compare_tensor(p->states[i].name, tokens, any->states[i], one->states[i],
                   count_of(one, &q->states[i]));
  }
}

static void check_length(plan_run *r, builder build, int64_t tokens) {
  plan_run fixed;
  sn_graph *g = NULL;
  plan_numbers n = {.bindings = &tokens, .fill = number, .user = &tokens};
  if (start_plan(&fixed, r->ctx, build, tokens, &g)) {
    plan_results any, one;
    bool ran = plan_run_once(r, &n, &any) == SN_OK || FAIL("%s", sn_ctx_message(r->ctx));
    bool ran_too = plan_run_once(&fixed, &n, &one) == SN_OK || FAIL("%s", sn_ctx_message(r->ctx));
    if (ran && ran_too)
      compare_results(r, tokens, &any, &fixed, &one);
    plan_results_end(&any);
    plan_results_end(&one);
    plan_run_end(&fixed);
  }
  sn_graph_destroy(g);
}

static void check_reference(plan_run *r, int64_t tokens) {
  char why[500];
  plan_numbers n = {.bindings = &tokens, .fill = number, .user = &tokens};
  if (plan_run_compare(r, &n, why, sizeof why) != PLAN_RIGHT)
    FAIL("%lld tokens: %s", (long long)tokens, why);
}

/* Lengths in an order that goes up and down: 0, 128, 1, 127, … */
static void check_lengths(builder build, int64_t every) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  plan_run r;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (start_plan(&r, ctx, build, -1, &g)) {
    for (int64_t k = 0; k <= MOST && !test_failed(); k += every)
      check_length(&r, build, k / every % 2 ? MOST - k / 2 : k / 2);
    for (size_t i = 0; i < 5 && !test_failed(); i++)
      check_reference(&r, (int64_t[]){0, 1, 2, 17, MOST}[i]);
    plan_run_end(&r);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST(a_block_with_a_cache_at_every_length) { check_lengths(decode_graph, 1); }
TEST(a_trained_block_at_many_lengths) { check_lengths(train_graph, 5); }
