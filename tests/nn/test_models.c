/* Models: golden numbers of another engine, names and shapes of weights, and that each part of a
 * configuration does what it says. */
#include "support/command.h"
#include "support/test.h"
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- against transformers --- */

TEST_WALK(golden) {
  static const char *const families[] = {"llama", "llama-bf16-sharded", "qwen2", "qwen3", "gemma3",
                                         "gpt2"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    char path[64], numbers[80];
    if (!test_begin("%s", families[i]))
      continue;
    snprintf(path, sizeof path, "data/hf/%s", families[i]);
    snprintf(numbers, sizeof numbers, "%s/golden.json", path);
    if (!test_shared(numbers)) {
      test_skip("no shared data: %s", path);
    } else {
      command_result r =
          command_run(command_sinew(), "check", test_shared(path), test_shared(numbers), NULL);
      if (r.code != 0)
        FAIL("exit %d\n%s%s", r.code, r.out, r.err);
      command_free(&r);
    }
    test_end();
  }
}

/* --- weights: names and shapes --- */

typedef struct weight {
  const char *name;
  int64_t rows, columns; /* columns 0: a vector */
} weight;

static void check_weights(const char *family, void (*change)(sn_model_config *c),
                          const weight *expected) {
  tiny_model t;
  sn_model_config c = tiny_config(family);
  size_t n = 0;
  c.layers = 1;
  if (change)
    change(&c);
  if (!tiny_start(&t, &c))
    return;
  for (; expected[n].name; n++) {
    sn_entry e;
    const weight *w = &expected[n];
    if (!CHECK(sn_store_find(t.store, w->name, &e) == SN_OK)) {
      FAIL("%s: no %s", family, w->name);
      continue;
    }
    CHECK_EQ_INT(e.type.dtype, SN_F32);
    CHECK_EQ_INT(e.type.shape.rank, w->columns ? 2 : 1);
    CHECK_EQ_INT(e.type.shape.dim[0], w->rows);
    if (w->columns)
      CHECK_EQ_INT(e.type.shape.dim[1], w->columns);
  }
  CHECK_EQ_INT(sn_store_count(t.store), n);
  CHECK_EQ_INT(sn_model_weight_count(t.model), n);
  tiny_end(&t);
}

#define L "model.layers.0."
#define A L "self_attn."
#define M L "mlp."
#define G "transformer.h.0."

#define LLAMA_BODY                                                                       \
  {"model.embed_tokens.weight", 29, 16}, {"model.norm.weight", 16, 0},                   \
      {L "input_layernorm.weight", 16, 0}, {L "post_attention_layernorm.weight", 16, 0}, \
      {M "gate_proj.weight", 24, 16}, {M "up_proj.weight", 24, 16}, {                    \
    M "down_proj.weight", 16, 24                                                         \
  }
#define LLAMA_HEADS                                                                      \
  {A "q_proj.weight", 16, 16}, {A "k_proj.weight", 8, 16}, {A "v_proj.weight", 8, 16}, { \
    A "o_proj.weight", 16, 16                                                            \
  }
#define QKV_BIASES \
  {A "q_proj.bias", 16, 0}, {A "k_proj.bias", 8, 0}, { A "v_proj.bias", 8, 0 }
#define GPT2_BODY                                                                                 \
  {"transformer.wte.weight", 29, 16}, {"transformer.wpe.weight", 32, 16},                         \
      {"transformer.ln_f.weight", 16, 0}, {"transformer.ln_f.bias", 16, 0},                       \
      {G "ln_1.weight", 16, 0}, {G "ln_1.bias", 16, 0}, {G "ln_2.weight", 16, 0},                 \
      {G "ln_2.bias", 16, 0}, {G "attn.c_attn.weight", 16, 48}, {G "attn.c_attn.bias", 48, 0},    \
      {G "attn.c_proj.weight", 16, 16}, {G "attn.c_proj.bias", 16, 0},                            \
      {G "mlp.c_fc.weight", 16, 24}, {G "mlp.c_fc.bias", 24, 0}, {G "mlp.c_proj.weight", 24, 16}, \
  {                                                                                               \
    G "mlp.c_proj.bias", 16, 0                                                                    \
  }
#define END \
  { NULL, 0, 0 }
#define WEIGHTS(...) ((const weight[]){__VA_ARGS__, END})

static void untie(sn_model_config *c) { c->tied = false; }

TEST(names_and_shapes) {
  check_weights("llama", NULL, WEIGHTS(LLAMA_BODY, LLAMA_HEADS));
  check_weights("llama", untie, WEIGHTS(LLAMA_BODY, LLAMA_HEADS, {"lm_head.weight", 29, 16}));
  check_weights("mistral", NULL, WEIGHTS(LLAMA_BODY, LLAMA_HEADS));
  check_weights("qwen2", NULL,
                WEIGHTS(LLAMA_BODY, LLAMA_HEADS, QKV_BIASES, {"lm_head.weight", 29, 16}));
  check_weights("qwen3", NULL,
                WEIGHTS(LLAMA_BODY, {A "q_proj.weight", 24, 16}, {A "k_proj.weight", 12, 16},
                        {A "v_proj.weight", 12, 16}, {A "o_proj.weight", 16, 24},
                        {A "q_norm.weight", 6, 0}, {A "k_norm.weight", 6, 0},
                        {"lm_head.weight", 29, 16}));
  check_weights("gemma3", NULL,
                WEIGHTS(LLAMA_BODY, {L "pre_feedforward_layernorm.weight", 16, 0},
                        {L "post_feedforward_layernorm.weight", 16, 0}, {A "q_proj.weight", 24, 16},
                        {A "k_proj.weight", 12, 16}, {A "v_proj.weight", 12, 16},
                        {A "o_proj.weight", 16, 24}, {A "q_norm.weight", 6, 0},
                        {A "k_norm.weight", 6, 0}));
  check_weights("partial", NULL,
                WEIGHTS(LLAMA_BODY, LLAMA_HEADS, QKV_BIASES, {A "o_proj.bias", 16, 0},
                        {M "gate_proj.bias", 24, 0}, {M "up_proj.bias", 24, 0},
                        {M "down_proj.bias", 16, 0}));
  check_weights("gpt2", NULL, WEIGHTS(GPT2_BODY));
  check_weights("gpt2", untie, WEIGHTS(GPT2_BODY, {"lm_head.weight", 29, 16}));
}

/* --- logits of a model as a function of its configuration --- */

enum { LENGTH = 8 };

typedef struct forward {
  sn_graph *g;
  sn_session *s;
} forward;

static bool forward_start(forward *f, const tiny_model *t, bool key) {
  *f = (forward){0};
  if (!CHECK(sn_graph_create(t->ctx, &f->g) == SN_OK))
    return false;
  sn_graph *g = f->g;
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, LENGTH)),
                        .positions = sn_arange(g, SN_I32, LENGTH, 0, 1)};
  if (key)
    in.key = sn_random_key(g, "key");
  sn_output(g, "logits", sn_model_logits(t->model, g, &in));
  return (CHECK(sn_store_init(t->store, g, 1) == SN_OK) &&
          CHECK(sn_session_create(g, t->store, NULL, &f->s) == SN_OK)) ||
         FAIL("%s", sn_ctx_message(t->ctx));
}

static void forward_end(forward *f) {
  sn_session_destroy(f->s);
  sn_graph_destroy(f->g);
}

static const int32_t text[LENGTH] = {3, 17, 0, 28, 5, 5, 11, 9};

typedef struct logits {
  float at[LENGTH][TINY_VOCAB];
} logits;

static logits forward_run(forward *f, const int32_t *ids) {
  logits l = {{{0}}};
  CHECK(sn_session_write(f->s, "ids", ids, LENGTH * sizeof *ids) == SN_OK);
  CHECK(sn_session_run(f->s) == SN_OK);
  CHECK(sn_session_read(f->s, "logits", &l, sizeof l) == SN_OK);
  return l;
}

static logits logits_of(const sn_model_config *c) {
  tiny_model t;
  forward f;
  logits l = {{{0}}};
  if (!tiny_start(&t, c))
    return l;
  if (forward_start(&f, &t, false))
    l = forward_run(&f, text);
  forward_end(&f);
  tiny_end(&t);
  return l;
}

static bool differ(const logits *a, const logits *b) {
  double most = 0;
  for (int i = 0; i < LENGTH; i++)
    for (int v = 0; v < TINY_VOCAB; v++)
      most = fmax(most, fabs((double)a->at[i][v] - (double)b->at[i][v]));
  return most > 1e-4;
}

/* Which positions change when one id does: those that see it. One layer, so nothing passes it on. */
static void check_sight(const char *family, int64_t window, bool slides) {
  tiny_model t;
  forward f;
  sn_model_config c = tiny_config(family);
  c.layers = 1;
  c.window = window;
  c.sliding[0] = slides;
  if (!tiny_start(&t, &c))
    return;
  if (forward_start(&f, &t, false)) {
    logits before = forward_run(&f, text);
    for (int at = 0; at < LENGTH; at++) {
      int32_t other[LENGTH];
      memcpy(other, text, sizeof text);
      other[at] = (text[at] + 1) % TINY_VOCAB;
      logits after = forward_run(&f, other);
      for (int i = 0; i < LENGTH; i++) {
        bool sees = at <= i && (!slides || i - at < window);
        bool changed = memcmp(before.at[i], after.at[i], sizeof before.at[i]) != 0;
        if (sees != changed)
          FAIL("%s, window %d: position %d %s id %d", family, (int)window, i,
               changed ? "sees" : "does not see", at);
      }
    }
  }
  forward_end(&f);
  tiny_end(&t);
}

TEST(what_a_position_sees) {
  check_sight("llama", 0, false);
  check_sight("gpt2", 0, false);
  check_sight("qwen3", 0, false);
  check_sight("gemma3", 0, false);
  check_sight("gemma3", 3, true);
  check_sight("llama", 2, false); /* a window is for the layers that slide */
  for (int64_t window = 1; window <= LENGTH + 1; window++)
    check_sight("llama", window, true);
}

/* Each field changes the result: a model whose logits are the same without a part tests nothing. */
TEST(every_field_counts) {
  sn_model_config base = tiny_config("llama"), c;
  logits first = logits_of(&base), other;
#define CHANGED(change)        \
  c = base;                    \
  change;                      \
  other = logits_of(&c);       \
  if (!differ(&first, &other)) \
  FAIL("%s changes nothing", #change)
  CHANGED(c.layers = 1);
  CHANGED(c.heads = 2; c.head_size = 8; c.kv_heads = 1);
  CHANGED(c.tied = false);
  CHANGED(c.qk_norm = true);
  CHANGED(c.rotary = 2);
  CHANGED(c.rope.base = 100);
  CHANGED(c.rope.scaling = SN_ROPE_LINEAR; c.rope.factor = 4);
  CHANGED(c.rope.attention_factor = 2);
  CHANGED(c.activation = SN_ACT_RELU);
  CHANGED(c.activation = SN_ACT_GELU);
  CHANGED(c.norm_eps = 0.5);
  CHANGED(c.window = 2; c.sliding[1] = true);
  CHANGED(c.init_scale = 0.3);
  CHANGED(c.embed_scale = 2);
  CHANGED(c.attention_scale = 0.3);
  CHANGED(c.attention_softcap = 0.2);
  CHANGED(c.logit_softcap = 3);
  CHANGED(c.sandwich_norms = true);
  CHANGED(c.window = 8; c.sliding[1] = true; c.rope_sliding.base = 100);
  base = tiny_config("gemma3");
  first = logits_of(&base);
  CHANGED(c.sandwich_norms = false);
  CHANGED(c.embed_scale = 2);
  CHANGED(c.attention_scale = 0);
  CHANGED(c.rope_sliding.base = 0);
  CHANGED(c.rope_sliding.base = 50);
  CHANGED(c.rope_sliding.scaling = SN_ROPE_LINEAR; c.rope_sliding.factor = 4);
  CHANGED(c.rope.base = 50);
  CHANGED(c.qk_norm = false);
  base = tiny_config("gpt2");
  first = logits_of(&base);
  CHANGED(c.activation = SN_ACT_RELU);
  CHANGED(c.norm_eps = 0.5);
  CHANGED(c.layers = 1);
}

/* A norm of 1 + weight begins with weights of 0, and is then the norm that begins with ones. */
TEST(norms_of_one_and_weight) {
  sn_model_config c = tiny_config("llama");
  logits plain = logits_of(&c);
  c.norm_offset = true;
  logits offset = logits_of(&c);
  CHECK_EQ_MEM(&plain, &offset, sizeof plain);
}

/* The scale of embeddings has the dtype of the files: 3.3 is 3.296875 in bf16. */
TEST(scale_of_embeddings_is_rounded) {
  sn_model_config c = tiny_config("llama");
  c.embed_scale = 3.296875;
  logits expected = logits_of(&c);
  c.embed_scale = 3.3;
  logits exact = logits_of(&c);
  c.file_dtype = SN_BF16;
  logits rounded = logits_of(&c);
  CHECK_EQ_MEM(&expected, &rounded, sizeof expected);
  CHECK(memcmp(&expected, &exact, sizeof expected) != 0);
}

/* The order of words matters to every family: positions reach the result. */
TEST_WALK(positions_count) {
  for (const tiny_family *family = tiny_families; family->name; family++) {
    static const int32_t turned[LENGTH] = {17, 3, 0, 28, 5, 5, 11, 9};
    tiny_model t;
    forward f;
    sn_model_config c = tiny_config(family->name);
    if (!test_begin("%s", family->name))
      continue;
    c.layers = 1;
    c.window = 0;
    c.sliding[0] = false;
    if (tiny_start(&t, &c)) {
      if (forward_start(&f, &t, false)) {
        logits a = forward_run(&f, text), b = forward_run(&f, turned);
        CHECK(memcmp(a.at[7], b.at[7], sizeof a.at[7]) != 0);
      }
      forward_end(&f);
      tiny_end(&t);
    }
    test_end();
  }
}

/* Biases are added: with fresh weights they are 0, so give each of them something. */
static void check_bias(const char *family, const char *name) {
  tiny_model t;
  forward f;
  sn_model_config c = tiny_config(family);
  if (!tiny_start(&t, &c))
    return;
  if (forward_start(&f, &t, false)) {
    sn_entry e;
    float bias[64];
    logits before = forward_run(&f, text);
    for (int i = 0; i < 64; i++)
      bias[i] = (float)(i % 5 - 2);
    if (CHECK(sn_store_find(t.store, name, &e) == SN_OK) && CHECK(e.size <= sizeof bias))
      CHECK(sn_store_write(t.store, name, bias, e.size) == SN_OK);
    logits after = forward_run(&f, text);
    /* A bias of all keys alike would not show, so these differ by channel. */
    if (!differ(&before, &after))
      FAIL("%s changes nothing", name);
  }
  forward_end(&f);
  tiny_end(&t);
}

TEST(every_weight_counts) {
  static const char *const families[] = {"partial", "qwen3", "gemma3", "gpt2"};
  for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
    tiny_model t;
    sn_model_config c = tiny_config(families[k]);
    if (!tiny_start(&t, &c))
      return;
    for (size_t i = 0; i < sn_model_weight_count(t.model); i++) {
      const char *name = sn_model_weight_names(t.model)[i];
      sn_entry e;
      CHECK(sn_store_find(t.store, name, &e) == SN_OK);
      if (e.type.shape.rank == 1)
        check_bias(families[k], name);
    }
    tiny_end(&t);
  }
}

/* An error inside a layer names the layer as the weights do. */
TEST(errors_name_the_layer) {
  tiny_model t;
  sn_model_config c = tiny_config("llama");
  sn_graph *g = NULL;
  if (tiny_start(&t, &c) && CHECK(sn_graph_create(t.ctx, &g) == SN_OK)) {
    sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, LENGTH));
    sn_model_inputs in = {.ids = ids};
    CHECK(!sn_value_valid(g, sn_model_logits(t.model, g, &in)));
    CHECK_EQ_STR(sn_graph_message(g), "layers.0: rope: positions is missing");
  }
  sn_graph_destroy(g);
  tiny_end(&t);
}

/* --- dropout and recomputation --- */

TEST(dropout_needs_a_key) {
  tiny_model t;
  forward f, keyed;
  sn_model_config c = tiny_config("gpt2");
  logits plain = logits_of(&c);
  c.dropout = 0.3;
  if (!tiny_start(&t, &c))
    return;
  if (forward_start(&f, &t, false) && forward_start(&keyed, &t, true)) {
    logits without = forward_run(&f, text), a = forward_run(&keyed, text);
    logits b = forward_run(&keyed, text);
    CHECK_EQ_MEM(&plain, &without, sizeof plain);
    CHECK(differ(&plain, &a));
    CHECK(differ(&a, &b)); /* each run draws anew */
    forward_end(&keyed);
  }
  forward_end(&f);
  tiny_end(&t);
}

/* Gradients with the layers' insides computed again, dropout included, are those without. */
static void gradients(const tiny_model *t, bool recompute, float *norms, int n) {
  sn_graph *g;
  sn_session *s = NULL;
  sn_value states[64], grads[64];
  int32_t key[3] = {5, 6, 7};
  if (!CHECK(sn_graph_create(t->ctx, &g) == SN_OK))
    return;
  sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, LENGTH));
  sn_model_inputs in = {.ids = ids,
                        .positions = sn_arange(g, SN_I32, LENGTH, 0, 1),
                        .key = sn_input(g, "key", SN_I32, SN_SHAPE(3)),
                        .mark_recompute = recompute};
  sn_value loss =
      sn_cross_entropy(g, sn_model_logits(t->model, g, &in), ids, -100, 0, SN_REDUCTION_MEAN);
  CHECK_EQ_INT(sn_graph_states(g, states, 64), n);
  CHECK(sn_grad(g, loss, states, n, grads) == SN_OK);
  for (int i = 0; i < n; i++)
    sn_output(g, sn_value_name(g, states[i]), sn_l2_norm(g, grads[i], SN_ALL_AXES, false));
  if (CHECK(sn_session_create(g, t->store, NULL, &s) == SN_OK)) {
    CHECK(sn_session_write(s, "ids", text, sizeof text) == SN_OK);
    CHECK(sn_session_write(s, "key", key, sizeof key) == SN_OK);
    CHECK(sn_session_run(s) == SN_OK);
    for (int i = 0; i < n; i++)
      CHECK(sn_session_read_at(s, i, &norms[i], sizeof *norms) == SN_OK);
  }
  sn_session_destroy(s);
  sn_graph_destroy(g);
}

TEST(recomputation_changes_no_gradient) {
  static const char *const families[] = {"gpt2", "llama"};
  for (int k = 0; k < 2; k++) {
    tiny_model t;
    sn_model_config c = tiny_config(families[k]);
    float a[64] = {0}, b[64] = {1};
    c.dropout = 0.2;
    if (!tiny_start(&t, &c))
      return;
    int n = (int)sn_model_weight_count(t.model);
    gradients(&t, false, a, n);
    gradients(&t, true, b, n);
    for (int i = 0; i < n; i++) {
      CHECK_NEAR(a[i], b[i], 1e-6 * fabs((double)a[i]));
      CHECK(a[i] > 0);
    }
    tiny_end(&t);
  }
}

/* Fresh weights depend on the seed and the name. */
TEST(fresh_weights) {
  tiny_model a, b;
  sn_store *other;
  sn_model_config c = tiny_config("llama");
  const char *name = "model.layers.0.self_attn.q_proj.weight";
  float x[256], y[256], z[256];
  if (!tiny_start(&a, &c) || !tiny_start(&b, &c))
    return;
  CHECK(sn_store_create(a.ctx, &other) == SN_OK);
  CHECK(sn_model_init(a.model, other, 6) == SN_OK);
  CHECK(sn_store_read(a.store, name, x, sizeof x) == SN_OK);
  CHECK(sn_store_read(b.store, name, y, sizeof y) == SN_OK);
  CHECK(sn_store_read(other, name, z, sizeof z) == SN_OK);
  CHECK_EQ_MEM(x, y, sizeof x);
  CHECK(memcmp(x, z, sizeof x) != 0);
  double squares = 0;
  for (int i = 0; i < 256; i++)
    squares += (double)x[i] * (double)x[i];
  CHECK_NEAR(sqrt(squares / 256), 0.4, 0.06);
  CHECK(sn_store_read(a.store, "model.layers.0.input_layernorm.weight", x, 64) == SN_OK);
  for (int i = 0; i < 16; i++)
    CHECK_NEAR(x[i], 1, 0);
  sn_store_destroy(other);
  tiny_end(&a);
  tiny_end(&b);
}
