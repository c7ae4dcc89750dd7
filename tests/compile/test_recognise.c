/* sn_graph_recognise: transformer blocks in small ops, in the spellings of different people, train the same before and
 * after, with attention, norms and losses as ops of their own. */
#include "ir/graph.h"
#include "support/fault.h"
#include "support/test.h"

#include <sinew/sinew.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  BATCH = 2,
  TIME = 6,
  WIDTH = 16,
  HEADS = 4,
  EACH = WIDTH / HEADS,
  INNER = 24,
  CLASSES = 11,
  STEPS = 4,
  MOST = 16
};

typedef struct block {
  sn_graph *g;
  sn_dim batch;
  int kv_heads;
  sn_value state[MOST];
  int n;
  sn_value loss;
} block;

typedef struct style {
  const char *name;
  int kv_heads;
  bool symbolic;
  sn_value (*norm)(block *b, sn_value x, const char *name);
  sn_value (*attend)(block *b, sn_value q, sn_value k, sn_value v); /* [B, H, S, D] */
  sn_value (*mlp)(block *b, sn_value x);
  sn_value (*loss)(block *b, sn_value logits, sn_value labels);
  const char *ops[6]; /* that must be there afterwards */
} style;

static sn_value weight(block *b, const char *name, sn_shape shape, double scale) {
  sn_value w =
      sn_state(b->g, name, SN_F32, shape, scale == 1 ? SN_INIT_ONES : SN_INIT_NORMAL, scale);
  b->state[b->n++] = w;
  return w;
}
static sn_value linear(block *b, sn_value x, const char *name, int64_t in, int64_t out) {
  return sn_matmul(b->g, x, weight(b, name, SN_SHAPE(in, out), 0.3), false, false);
}
static sn_value number(block *b, double x) { return sn_scalar(b->g, SN_F32, x); }

/* --- norms --- */
static sn_value rms_by_rsqrt(block *b, sn_value x, const char *name) {
  sn_graph *g = b->g;
  sn_value power = sn_mean(g, sn_powf(g, x, 2), SN_INTS(-1), true);
  sn_value y = sn_mul(g, x, sn_rsqrt(g, sn_add(g, power, number(b, 1e-5))));
  return sn_mul(g, y, weight(b, name, SN_SHAPE(WIDTH), 1));
}
static sn_value rms_weight_first(block *b, sn_value x, const char *name) {
  sn_graph *g = b->g;
  sn_value power = sn_div(g, sn_sum(g, sn_mul(g, x, x), SN_INTS(-1), true), number(b, WIDTH));
  sn_value y = sn_mul(g, x, weight(b, name, SN_SHAPE(WIDTH), 1));
  return sn_mul(g, y, sn_rsqrt(g, sn_affine(g, power, 1, 1e-5)));
}
static sn_value layer_by_var(block *b, sn_value x, const char *name) {
  sn_graph *g = b->g;
  sn_value centre = sn_sub(g, x, sn_mean(g, x, SN_INTS(-1), true));
  sn_value root = sn_sqrt(g, sn_add(g, sn_var(g, x, SN_INTS(-1), 0, true), number(b, 1e-5)));
  return sn_mul(g, sn_div(g, centre, root), weight(b, name, SN_SHAPE(WIDTH), 1));
}

/* --- attention --- */
static sn_value softmax(block *b, sn_value x) {
  sn_graph *g = b->g;
  sn_value max = sn_stop_gradient(g, sn_max(g, x, SN_INTS(-1), true));
  sn_value e = sn_exp(g, sn_sub(g, x, max));
  return sn_div(g, e, sn_sum(g, e, SN_INTS(-1), true));
}
/* k^T by an explicit transpose, masked by a comparison of positions. */
static sn_value attend_where(block *b, sn_value q, sn_value k, sn_value v) {
  sn_graph *g = b->g;
  sn_value s = sn_matmul(g, q, sn_transpose(g, k, SN_INTS(0, 1, 3, 2)), false, false);
  s = sn_div(g, s, number(b, sqrt(EACH)));
  sn_value at = sn_arange(g, SN_I32, TIME, 0, 1);
  sn_value seen =
      sn_ge(g, sn_reshape(g, at, SN_SHAPE(TIME, 1)), sn_reshape(g, at, SN_SHAPE(1, TIME)));
  return sn_matmul(g, softmax(b, sn_where(g, seen, s, number(b, -INFINITY))), v, false, false);
}
/* The scale on q, an additive mask, heads of k and v repeated. */
static sn_value repeated(block *b, sn_value x) {
  sn_graph *g = b->g;
  int64_t group = HEADS / b->kv_heads;
  x = sn_reshape(g, x, SN_SHAPE(b->batch, b->kv_heads, 1, TIME, EACH));
  x = sn_expand(g, x, SN_SHAPE(b->batch, b->kv_heads, group, TIME, EACH));
  return sn_reshape(g, x, SN_SHAPE(b->batch, HEADS, TIME, EACH));
}
static sn_value attend_bias(block *b, sn_value q, sn_value k, sn_value v) {
  sn_graph *g = b->g;
  sn_value bias = sn_triu(g, sn_full(g, SN_F32, SN_SHAPE(TIME, TIME), -1e9), 1);
  q = sn_affine(g, q, 1 / sqrt(EACH), 0);
  sn_value s = sn_add(g, sn_matmul(g, q, repeated(b, k), false, true), bias);
  return sn_matmul(g, sn_softmax(g, s, -1), repeated(b, v), false, false);
}
/* Capped scores, and what is hidden is filled in first. */
static sn_value attend_filled(block *b, sn_value q, sn_value k, sn_value v) {
  sn_graph *g = b->g;
  sn_value s = sn_affine(g, sn_matmul(g, q, k, false, true), 1 / sqrt(EACH), 0);
  s = sn_affine(g, sn_tanh(g, sn_affine(g, s, 0.5, 0)), 2, 0);
  sn_value seen = sn_tril(g, sn_full(g, SN_F32, SN_SHAPE(TIME, TIME), 1), 0);
  s = sn_where(g, sn_eq(g, seen, number(b, 0)), number(b, -1e30), s);
  return sn_matmul(g, softmax(b, s), v, false, false);
}

/* --- MLPs --- */
static sn_value mlp_gated(block *b, sn_value x) {
  sn_graph *g = b->g;
  sn_value gate = linear(b, x, "gate", WIDTH, INNER), up = linear(b, x, "up", WIDTH, INNER);
  sn_value y = sn_div(g, gate, sn_add(g, number(b, 1), sn_exp(g, sn_neg(g, gate))));
  return linear(b, sn_mul(g, y, up), "down", INNER, WIDTH);
}
static sn_value mlp_gelu(block *b, sn_value x) {
  sn_graph *g = b->g;
  sn_value y = linear(b, x, "up", WIDTH, INNER);
  sn_value inside = sn_erf(g, sn_div(g, y, number(b, sqrt(2))));
  y = sn_mul(g, sn_affine(g, y, 0.5, 0), sn_add(g, number(b, 1), inside));
  return linear(b, y, "down", INNER, WIDTH);
}

/* --- losses --- */
static sn_value loss_gathered(block *b, sn_value logits, sn_value labels) {
  sn_graph *g = b->g;
  sn_value at = sn_reshape(g, labels, SN_SHAPE(b->batch, TIME, 1));
  sn_value chosen = sn_gather_along(g, sn_log_softmax(g, logits, -1), at, -1);
  return sn_neg(g, sn_mean(g, chosen, SN_ALL_AXES, false));
}
static sn_value loss_one_hot(block *b, sn_value logits, sn_value labels) {
  sn_graph *g = b->g;
  sn_value p = sn_mul(g, sn_one_hot(g, labels, CLASSES, SN_F32), sn_log_softmax(g, logits, -1));
  return sn_mean(g, sn_neg(g, sn_sum(g, p, SN_INTS(-1), false)), SN_ALL_AXES, false);
}

static const style styles[] = {
    {"where",
     HEADS,
     false,
     rms_by_rsqrt,
     attend_where,
     mlp_gated,
     loss_gathered,
     {"attention(", "rms_norm(", "silu(", "cross_entropy(", "causal=end", NULL}},
    {"bias",
     2,
     false,
     layer_by_var,
     attend_bias,
     mlp_gelu,
     loss_one_hot,
     {"attention(", "layer_norm(", "gelu(", "cross_entropy(", "causal=end", NULL}},
    {"symbolic",
     HEADS,
     true,
     rms_weight_first,
     attend_filled,
     mlp_gated,
     loss_gathered,
     {"attention(", "rms_norm(", "softcap=2", "cross_entropy(", "causal=end", NULL}},
};

/* --- the block --- */

static sn_value heads(block *b, sn_value x, int n) {
  x = sn_reshape(b->g, x, SN_SHAPE(b->batch, TIME, n, EACH));
  return sn_transpose(b->g, x, SN_INTS(0, 2, 1, 3));
}

static void build(block *b, sn_graph *g, const style *s) {
  *b = (block){.g = g, .kv_heads = s->kv_heads};
  b->batch = s->symbolic ? sn_symbol(g, "batch", BATCH) : BATCH;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(b->batch, TIME, WIDTH));
  sn_value labels = sn_input(g, "labels", SN_I32, SN_SHAPE(b->batch, TIME));
  sn_value y = s->norm(b, x, "norm1");
  sn_value q = heads(b, linear(b, y, "q", WIDTH, WIDTH), HEADS);
  sn_value k = heads(b, linear(b, y, "k", WIDTH, s->kv_heads * EACH), s->kv_heads);
  sn_value v = heads(b, linear(b, y, "v", WIDTH, s->kv_heads * EACH), s->kv_heads);
  y = sn_transpose(g, s->attend(b, q, k, v), SN_INTS(0, 2, 1, 3));
  y = sn_reshape(g, y, SN_SHAPE(b->batch, TIME, WIDTH));
  x = sn_add(g, x, linear(b, y, "o", WIDTH, WIDTH));
  x = sn_add(g, x, s->mlp(b, s->norm(b, x, "norm2")));
  b->loss = s->loss(b, linear(b, x, "head", WIDTH, CLASSES), labels);
}

/* Gradients as outputs, and a step of descent. */
static sn_status train(block *b) {
  sn_value grad[MOST];
  char name[64];
  SN_TRY(sn_grad(b->g, b->loss, b->state, b->n, grad));
  sn_output(b->g, "loss", b->loss);
  for (int i = 0; i < b->n; i++) {
    snprintf(name, sizeof name, "d.%s", sn_value_name(b->g, b->state[i]));
    sn_output(b->g, name, grad[i]);
    sn_assign(b->g, b->state[i], sn_sub(b->g, b->state[i], sn_affine(b->g, grad[i], 0.5, 0)));
  }
  return sn_graph_status(b->g);
}

/* The same block in the recognised graph. */
static sn_status recognise(const block *b, block *out) {
  sn_value keep[MOST + 1], kept[MOST + 1];
  *out = *b;
  memcpy(keep, b->state, sizeof b->state);
  keep[b->n] = b->loss;
  SN_TRY(sn_graph_recognise(b->g, keep, b->n + 1, kept, &out->g));
  memcpy(out->state, kept, (size_t)b->n * sizeof *kept);
  out->loss = kept[b->n];
  return SN_OK;
}

typedef struct history {
  float loss[STEPS], grad[MOST][WIDTH * INNER];
  int attention_steps;
} history;

static int count_steps(sn_session *s, const char *archetype) {
  sn_step step;
  int n = 0;
  for (int i = 0; sn_session_step(s, i, &step) == SN_OK; i++)
    n += strcmp(step.archetype, archetype) == 0;
  return n;
}

static sn_status run(const block *b, const style *how, const char *device, history *out) {
  sn_ctx *ctx = sn_graph_ctx(b->g);
  sn_store *store = NULL;
  sn_session *s = NULL;
  sn_session_options o = {.device = device};
  float x[BATCH * TIME * WIDTH];
  int32_t labels[BATCH * TIME];
  for (int i = 0; i < BATCH * TIME * WIDTH; i++)
    x[i] = (float)sin(1 + 0.7 * i);
  for (int i = 0; i < BATCH * TIME; i++)
    labels[i] = i * 5 % CLASSES;
  sn_status status = sn_store_create(ctx, &store);
  if (status == SN_OK)
    status = sn_store_init(store, b->g, 7);
  if (status == SN_OK)
    status = sn_session_create(b->g, store, &o, &s);
  if (status == SN_OK && how->symbolic)
    status = sn_session_bind(s, "batch", BATCH);
  for (int k = 0; k < STEPS && status == SN_OK; k++) {
    status = sn_session_write(s, "x", x, sizeof x);
    if (status == SN_OK)
      status = sn_session_write(s, "labels", labels, sizeof labels);
    if (status == SN_OK)
      status = sn_session_run(s);
    if (status == SN_OK)
      status = sn_session_read(s, "loss", &out->loss[k], sizeof(float));
  }
  for (int i = 0; i < b->n && status == SN_OK; i++) {
    sn_shape shape = sn_value_type(b->g, b->state[i]).shape;
    size_t count = (size_t)(shape.dim[0] * (shape.rank > 1 ? shape.dim[1] : 1));
    status = sn_session_read_at(s, i + 1, out->grad[i], count * sizeof(float));
  }
  out->attention_steps = s ? count_steps(s, "attention") + count_steps(s, "attention_grad") : 0;
  sn_session_destroy(s);
  sn_store_destroy(store);
  return status;
}

static void compare(const block *b, const history *one, const history *two, const char *what) {
  for (int k = 0; k < STEPS; k++)
    if (!(fabsf(one->loss[k] - two->loss[k]) <= 2e-5f * fabsf(one->loss[k])))
      FAIL("%s: the loss of step %d is %g, before %g", what, k, two->loss[k], one->loss[k]);
  CHECK(one->loss[STEPS - 1] < one->loss[0]);
  for (int i = 0; i < b->n; i++) {
    double largest = 0, apart = 0;
    for (int j = 0; j < WIDTH * INNER; j++) {
      largest = fmax(largest, fabs(one->grad[i][j]));
      apart = fmax(apart, fabs(one->grad[i][j] - two->grad[i][j]));
    }
    if (!(apart <= 1e-4 * largest && largest > 1e-5))
      FAIL("%s: the gradient of %s is %g apart of %g", what, sn_value_name(b->g, b->state[i]),
           apart, largest);
  }
}

static void check_ops(const sn_graph *g, const style *s) {
  char *text = NULL;
  if (!CHECK(sn_graph_print(g, &text) == SN_OK))
    return;
  for (int i = 0; s->ops[i]; i++)
    if (!strstr(text, s->ops[i]))
      FAIL("no %s in\n%s", s->ops[i], text);
  if (strstr(text, "softmax(") || strstr(text, "repeat") || strstr(text, "tril("))
    FAIL("something is left of the parts:\n%s", text);
  sn_text_free(sn_graph_ctx(g), text);
}

static history one, two, three;

static void check_style(const style *s) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  block before, after = {0};
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  memset(&one, 0, sizeof one);
  two = three = one;
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    build(&before, g, s);
    bool ok = recognise(&before, &after) == SN_OK;
    if (ok)
      check_ops(after.g, s);
    ok = ok && train(&before) == SN_OK && train(&after) == SN_OK &&
         sn_graph_verify(after.g) == SN_OK && run(&before, s, "ref", &one) == SN_OK &&
         run(&after, s, "ref", &two) == SN_OK && run(&after, s, "cpu", &three) == SN_OK;
    if (!ok)
      FAIL("%s", sn_ctx_message(ctx));
    else {
      compare(&before, &one, &two, "on the reference");
      compare(&before, &one, &three, "planned");
      CHECK(three.attention_steps >= 2);
    }
  }
  sn_graph_destroy(after.g);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(style) {
  for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
    if (!test_begin("%s", styles[i].name))
      continue;
    check_style(&styles[i]);
    test_end();
  }
}

/* What is kept is found again, also where nothing changes; outputs, assigns and labels stay. */
TEST(what_it_keeps) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL, *better = NULL;
  char *text = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 4), 3));
    sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3), SN_INIT_ZEROS, 0);
    sn_value y = sn_label(g, sn_mul(g, x, sn_sigmoid(g, x)), "gate");
    sn_value z = sn_exp(g, x);
    (void)sn_input(g, "unused", SN_F32, SN_SCALAR);
    sn_output(g, "y", y);
    sn_assign(g, w, sn_sum(g, y, SN_INTS(0), false));
    sn_value keep[] = {z, w, x, z}, kept[4];
    if (CHECK(sn_graph_recognise(g, keep, 4, kept, &better) == SN_OK) &&
        CHECK(sn_graph_verify(better) == SN_OK) && CHECK(sn_graph_print(better, &text) == SN_OK)) {
      CHECK(kept[0].id == kept[3].id && sn_value_valid(better, kept[0]));
      CHECK_EQ_STR(sn_value_name(better, kept[1]), "w");
      CHECK_EQ_STR(sn_value_name(better, kept[2]), "x");
      CHECK_STR_HAS(text, "silu(");
      CHECK_STR_HAS(text, "exp(");
      CHECK_STR_HAS(text, "\"gate\"");
      CHECK_STR_HAS(text, "\"unused\"");
      CHECK_STR_HAS(text, "assign ");
    }
    sn_text_free(ctx, text);
    sn_graph_destroy(better);
    CHECK(sn_graph_recognise(g, NULL, 0, NULL, &better) == SN_OK);
    sn_graph_destroy(better);
    sn_value none = SN_NONE;
    CHECK(sn_graph_recognise(g, &none, 1, kept, &better) == SN_ERR_INVALID && !better);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* Every allocation fails once. */
TEST(memory_that_runs_out) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_graph *g = NULL;
    if (ctx && sn_graph_create(ctx, &g) == SN_OK) {
      block before, after = {0};
      build(&before, g, &styles[0]);
      if (sn_graph_status(g) == SN_OK) {
        sn_status status = recognise(&before, &after);
        CHECK(status == SN_OK || status == SN_ERR_NO_MEMORY);
        CHECK((status == SN_OK) == (after.g != NULL && after.g != g));
        if (status == SN_OK)
          sn_graph_destroy(after.g);
      }
      sn_graph_destroy(g);
    }
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}
