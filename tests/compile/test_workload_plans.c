/* The plans of the five reference workloads, inference and training with Adam, as exact numbers: whoever changes
 * the planner sees here what it does to them. Fewer is better; a number that goes down is written down here. The
 * bounds that must hold whatever the numbers are checked apart. */
#include "cli/cli.h"
#include "compile/compile.h"
#include "support/test.h"

#include <sinew/model.h>
#include <sinew/sinew.h>
#include <sinew/train.h>
#include <sinew/workload.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMS = 512, SMOLLM2_LAYERS = 30 };

typedef struct numbers {
  int64_t prepare, steps, launches, barriers, peak, lower_bound;
} numbers;

static const struct {
  const char *workload;
  bool train;
  numbers is;
} rows[] = {
    {"SmolLM2-135M", false, {1, 246, 246, 244, 1376256, 1376256}},
    {"SmolLM2-135M", true, {2, 545, 605, 488, 268932736, 268932736}},
    {"SmolVLA", false, {0, 119, 119, 115, 984320, 984320}},
    {"SmolVLA", true, {0, 278, 310, 235, 54148928, 54146048}},
    {"StableDiffusion", false, {0, 42, 42, 36, 3670016, 3670016}},
    {"StableDiffusion", true, {0, 95, 95, 74, 17313024, 17313024}},
    {"ResNet-50", false, {1, 55, 55, 54, 25690112, 25690112}},
    {"ResNet-50", true, {1, 192, 192, 112, 202965824, 202965824}},
    {"Whisper-tiny", false, {0, 32, 32, 31, 13824000, 13824000}},
    {"Whisper-tiny", true, {0, 102, 110, 63, 163878272, 163878272}},
};

/* --- building --- */

/* *graph becomes another one: whoever takes gradients recognises first. */
static sn_status add_training(const sn_workload *w, sn_graph **graph, sn_value loss) {
  static sn_value states[MOST_PARAMS], grads[MOST_PARAMS];
  static sn_param params[MOST_PARAMS];
  int n = sn_workload_trainable(w, *graph, states, MOST_PARAMS);
  if (!CHECK(n < MOST_PARAMS))
    return SN_ERR_INVALID;
  states[n] = loss;
  SN_TRY(cli_recognise(graph, states, n + 1));
  sn_graph *g = *graph;
  for (int i = 0; i < n; i++)
    params[i] = (sn_param){.state = states[i]};
  SN_TRY(sn_grad(g, states[n], states, n, grads));
  sn_value rate = sn_input(g, "rate", SN_F32, SN_SCALAR),
           at = sn_input(g, "step", SN_I32, SN_SCALAR);
  sn_optimizer_build(g, &(sn_optimizer){.kind = SN_ADAM}, rate, at, params, grads, n, SN_NONE);
  return sn_graph_status(g);
}

static sn_status compile_workload(sn_ctx *ctx, const char *name, bool train, compiled *out) {
  const sn_workload *w = sn_workload_find(name);
  sn_workload_values v;
  sn_graph *g = NULL;
  SN_TRY(sn_graph_create(ctx, &g));
  sn_status status = sn_workload_build(w, g, SN_WORKLOAD_FULL, &v);
  sn_output(g, "loss", v.loss);
  if (!train)
    sn_output(g, "output", v.output);
  else if (status == SN_OK)
    status = add_training(w, &g, v.loss);
  /* A trainer looks at the loss before anything is committed. */
  compile_options o = {.watched = train ? "loss" : NULL};
  if (status == SN_OK)
    status = compile_graph(g, &o, out);
  sn_graph_destroy(g);
  return status;
}

/* --- looking --- */

static numbers count(const compiled *c) {
  const program *p = c->program;
  return (numbers){p->n_prepare,       c->report.steps, c->report.launches,
                   c->report.barriers, p->arena_bytes,  p->lower_bound};
}

static bool is_host_or_slow(const program *p) {
  for (int i = 0; i < program_steps(p); i++)
    if (p->steps[i].launches < 1)
      return true;
  return false;
}

/* Steps and launches whose name says that layer. */
static void count_layer(const program *p, int layer, int64_t *steps, int64_t *launches) {
  char prefix[32];
  snprintf(prefix, sizeof prefix, "layers.%d:", layer);
  *steps = *launches = 0;
  for (int i = p->n_prepare; i < program_steps(p); i++)
    if (p->steps[i].name && strstr(p->steps[i].name, prefix)) {
      ++*steps;
      *launches += p->steps[i].launches;
    }
}

static void check_bounds(const char *name, bool train, const compiled *c, const numbers *is) {
  CHECK((double)is->peak <= 1.05 * (double)is->lower_bound);
  CHECK(!is_host_or_slow(c->program));
  if (strcmp(name, "SmolLM2-135M") != 0)
    return;
  if (train) { /* ends of the model and the optimiser included */
    CHECK(is->steps <= 24 * SMOLLM2_LAYERS);
    CHECK(is->launches <= 32 * SMOLLM2_LAYERS);
    return;
  }
  for (int layer = 0; layer < SMOLLM2_LAYERS; layer++) {
    int64_t steps, launches;
    count_layer(c->program, layer, &steps, &launches);
    CHECK(steps > 0 && steps <= 8);
    CHECK(launches > 0 && launches <= 10);
  }
}

static void check_row(const char *name, bool train, const numbers *is) {
  sn_ctx *ctx = NULL;
  compiled c = {0};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (compile_workload(ctx, name, train, &c) != SN_OK) {
    FAIL("%s", sn_ctx_message(ctx));
  } else {
    numbers now = count(&c);
    check_bounds(name, train, &c, &now);
    if (memcmp(&now, is, sizeof now) != 0)
      FAIL("{%lld, %lld, %lld, %lld, %lld, %lld} is not {%lld, %lld, %lld, %lld, %lld, %lld}: "
           "prepare, steps, "
           "launches, barriers, peak, lower bound",
           (long long)now.prepare, (long long)now.steps, (long long)now.launches,
           (long long)now.barriers, (long long)now.peak, (long long)now.lower_bound,
           (long long)is->prepare, (long long)is->steps, (long long)is->launches,
           (long long)is->barriers, (long long)is->peak, (long long)is->lower_bound);
  }
  compile_destroy(&c);
  sn_ctx_destroy(ctx);
}

TEST_WALK(plans) {
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (test_begin("%s %s", rows[i].workload, rows[i].train ? "training" : "inference")) {
      check_row(rows[i].workload, rows[i].train, &rows[i].is);
      test_end();
    }
}

/* --- recomputation --- */

/* SmolLM2 with its gradients as outputs, or with updates by them; with one mark a layer, or none. */
static sn_status build_marked(sn_graph *g, bool marks, bool updates) {
  const sn_model_config config = {.family = SN_MODEL_LLAMA,
                                  .vocab = 49152,
                                  .hidden = 576,
                                  .layers = SMOLLM2_LAYERS,
                                  .heads = 9,
                                  .kv_heads = 3,
                                  .head_size = 64,
                                  .inner = 1536,
                                  .max_length = 8192,
                                  .norm_eps = 1e-6,
                                  .activation = SN_ACT_SILU,
                                  .rope = {.base = 10000}};
  static sn_value states[MOST_PARAMS], grads[MOST_PARAMS];
  sn_model *model;
  SN_TRY(sn_model_create(sn_graph_ctx(g), &config, &model));
  sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, 128));
  sn_value labels = sn_input(g, "labels", SN_I32, SN_SHAPE(1, 128));
  sn_model_inputs in = {
      .ids = ids, .positions = sn_arange(g, SN_I32, 128, 0, 1), .mark_recompute = marks};
  sn_value logits = sn_model_logits(model, g, &in);
  sn_model_destroy(model);
  sn_value loss = sn_cross_entropy(g, logits, labels, -100, 0, SN_REDUCTION_MEAN);
  int n = sn_graph_states(g, states, MOST_PARAMS);
  SN_TRY(sn_grad(g, loss, states, n, grads));
  sn_output(g, "loss", loss);
  for (int i = 0; i < n; i++)
    if (updates)
      sn_assign(g, states[i], sn_sub(g, states[i], sn_affine(g, grads[i], 0.01, 0)));
    else
      sn_output(g, sn_value_name(g, states[i]), grads[i]);
  return sn_graph_status(g);
}

static int64_t peak_of(bool marks, bool updates) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  compiled c = {0};
  int64_t peak = -1;
  if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    compile_options o = {.watched = "loss"};
    if (build_marked(g, marks, updates) == SN_OK && compile_graph(g, &o, &c) == SN_OK) {
      peak = c.program->arena_bytes;
      CHECK((double)peak <= 1.05 * (double)c.program->lower_bound);
    } else {
      FAIL("%s", sn_ctx_message(ctx));
    }
  }
  compile_destroy(&c);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  return peak;
}

TEST(marks_lower_the_peak) {
  for (int updates = 0; updates < 2; updates++) {
    int64_t without = peak_of(false, updates), with = peak_of(true, updates);
    if (!(with > 0 && (double)with <= 0.6 * (double)without))
      FAIL("%s: %lld bytes, %lld with marks", updates ? "updates" : "gradients", (long long)without,
           (long long)with);
  }
}
