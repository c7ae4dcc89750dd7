/* The reference workloads: parameters and shapes as the shared lists have them, formulas of parameters and
 * inputs against numbers computed apart, and the quickest of the golden outputs. The rest of the goldens:
 * tests/long/test_workload_goldens.c. */
#include "nn/workload.h"
#include "support/fault.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKLOADS = 5, MOST_STATES = 300 };

/* A workload in a graph, with the lists of the shared file where there is one. */
typedef struct stage {
  sn_ctx *ctx;
  sn_graph *graph;
  sn_workload_values values;
  sn_json_doc *doc;
} stage;

static bool stage_start(stage *s, const sn_workload *w, sn_workload_form form) {
  char path[128];
  *s = (stage){0};
  snprintf(path, sizeof path, "workloads/%s.json", sn_workload_name(w));
  const char *shared = test_shared(path);
  bool ok = CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK) &&
            CHECK(sn_graph_create(s->ctx, &s->graph) == SN_OK) &&
            CHECK(sn_workload_build(w, s->graph, form, &s->values) == SN_OK);
  if (shared && ok)
    ok = CHECK(sn_json_parse_file(s->ctx, shared, &s->doc) == SN_OK);
  return ok;
}

static void stage_end(stage *s) {
  sn_json_destroy(s->doc);
  sn_graph_destroy(s->graph);
  sn_ctx_destroy(s->ctx);
}

static bool shape_is(const sn_shape *shape, const sn_json *list) {
  bool same = (size_t)shape->rank == sn_json_size(list);
  for (int d = 0; same && d < shape->rank; d++) {
    int64_t n = -1;
    same = sn_json_int(sn_json_at(list, (size_t)d), &n) && n == shape->dim[d];
  }
  return same;
}

TEST(registry) {
  for (int i = 0; i < WORKLOADS; i++) {
    const sn_workload *w = sn_workload_at(i);
    REQUIRE(w);
    CHECK_EQ_PTR(sn_workload_find(sn_workload_name(w)), w);
    CHECK(strlen(sn_workload_summary(w)) > 10);
  }
  CHECK_EQ_PTR(sn_workload_at(-1), NULL);
  CHECK_EQ_PTR(sn_workload_at(WORKLOADS), NULL);
  CHECK_EQ_PTR(sn_workload_find("smollm2-135m"), NULL);
  CHECK_EQ_PTR(sn_workload_find(""), NULL);
}

/* --- names and shapes --- */

static void check_params(const stage *s, const sn_workload *w) {
  const sn_json *root = sn_json_root(s->doc), *params = sn_json_get(root, "params");
  const sn_json *not_trained = sn_json_get(root, "not_trained");
  sn_value states[MOST_STATES], trained[MOST_STATES];
  int n = sn_graph_states(s->graph, states, MOST_STATES);
  CHECK_EQ_INT(n, sn_json_size(params));
  for (int i = 0; i < n && i < MOST_STATES; i++) {
    const char *name = sn_value_name(s->graph, states[i]);
    sn_type type = sn_value_type(s->graph, states[i]);
    if (type.dtype != SN_F32 || !shape_is(&type.shape, sn_json_get(params, name)))
      FAIL("%s: not in the list, or with another shape", name);
  }
  int kept = sn_workload_trainable(w, s->graph, trained, MOST_STATES);
  CHECK_EQ_INT(kept, n - (int)sn_json_size(not_trained));
  CHECK_EQ_INT(sn_workload_trainable(w, s->graph, NULL, 0), kept);
  for (int i = 0; i < kept; i++)
    for (size_t k = 0; k < sn_json_size(not_trained); k++)
      CHECK(strcmp(sn_value_name(s->graph, trained[i]),
                   sn_json_string(sn_json_at(not_trained, k), NULL)) != 0);
}

TEST_WALK(parameters_and_output) {
  for (int i = 0; i < WORKLOADS; i++) {
    const sn_workload *w = sn_workload_at(i);
    stage s;
    if (!test_begin("%s", sn_workload_name(w)))
      continue;
    if (stage_start(&s, w, SN_WORKLOAD_FULL)) {
      sn_type loss = sn_value_type(s.graph, s.values.loss);
      sn_type output = sn_value_type(s.graph, s.values.output);
      CHECK_EQ_INT(loss.dtype, SN_F32);
      CHECK_EQ_INT(loss.shape.rank, 0);
      if (s.doc) {
        check_params(&s, w);
        const sn_json *live = sn_json_get(sn_json_root(s.doc), "live");
        CHECK(shape_is(&output.shape, sn_json_get(live, "output_shape")));
      } else {
        test_skip("no shared data: workloads");
      }
    }
    stage_end(&s);
    test_end();
  }
}

/* The latency form has the same parameters, one row, and no loss. */
TEST_WALK(latency_form) {
  for (int i = 0; i < WORKLOADS; i++) {
    const sn_workload *w = sn_workload_at(i);
    stage full, latency;
    if (!test_begin("%s", sn_workload_name(w)))
      continue;
    if (stage_start(&full, w, SN_WORKLOAD_FULL) && stage_start(&latency, w, SN_WORKLOAD_LATENCY)) {
      CHECK_EQ_INT(sn_graph_states(latency.graph, NULL, 0), sn_graph_states(full.graph, NULL, 0));
      CHECK_EQ_UINT(latency.values.loss.id, 0);
      CHECK_EQ_INT(sn_value_type(latency.graph, latency.values.output).shape.dim[0], 1);
      stage_end(&latency);
    }
    stage_end(&full);
    test_end();
  }
}

/* --- formulas --- */

typedef struct sample {
  const char *name;
  sn_shape shape;
  int64_t at[3];
  double value[3];
} sample;

/* From the formulas by another program, in exact and singly rounded arithmetic. */
static const sample live_samples[] = {
    {"model.layers.0.self_attn.q_proj.weight",
     {2, {576, 576}},
     {0, 1, 331775},
     {-0.012610727, -0.049464982, -0.0656881928}},
    {"model.norm.weight", {1, {576}}, {0, 1, 575}, {0.979498327, 0.993354559, 1.01795685}},
    {"fc.bias", {1, {1000}}, {0, 1, 999}, {0.0037752986, 0.0221760161, -0.0339624658}},
    {"conv1.weight", {4, {64, 3, 7, 7}}, {0, 1, 9407}, {0.0314695835, -0.100101784, 0.12177936}}};

TEST(live_values) {
  for (size_t i = 0; i < sizeof live_samples / sizeof *live_samples; i++) {
    const sample *s = &live_samples[i];
    float *x = calloc(331776, sizeof *x);
    REQUIRE(x);
    workload_fill_live(s->name, &s->shape, x);
    for (int k = 0; k < 3; k++)
      CHECK(x[s->at[k]] == (float)s->value[k]);
    free(x);
  }
}

static const struct {
  const char *workload;
  sample sample;
} arena_samples[] = {
    {"SmolLM2-135M",
     {"model.layers.0.self_attn.q_proj.weight",
      {2, {576, 576}},
      {0, 1, 331775},
      {-0.0155968722, -0.0157183874, -0.0180243757}}},
    /* Filled as [in, out]: element [0, 1] is the out-th that the formula gives. */
    {"ResNet-50",
     {"fc.weight",
      {2, {1000, 2048}},
      {1, 2048, 2047999},
      {0.00727080368, -0.00981715135, 0.00991660077}}},
    {"Whisper-tiny",
     {"layers.0.fc1.weight",
      {2, {1536, 384}},
      {0, 1, 589823},
      {-0.00315876189, 0.00970592815, -0.0192842428}}},
    {"ResNet-50",
     {"bn1.weight", {1, {64}}, {0, 1, 63}, {-0.00993798487, -0.00992665254, -0.00737584988}}},
    {"ResNet-50", {"layer1.0.bn1.weight", {1, {64}}, {0, 1, 63}, {1, 1, 1}}},
    {"ResNet-50", {"layer2.0.downsample.1.bias", {1, {512}}, {0, 1, 511}, {0, 0, 0}}},
    {"ResNet-50",
     {"fc.bias", {1, {1000}}, {0, 1, 999}, {-0.00881642383, -0.00876874477, 0.00491767889}}},
    {"StableDiffusion",
     {"conv_in.weight",
      {4, {64, 4, 3, 3}},
      {0, 1, 2303},
      {0.0132740308, 0.0134231085, -0.0196254328}}}};

TEST(arena_values) {
  for (size_t i = 0; i < sizeof arena_samples / sizeof *arena_samples; i++) {
    const sample *s = &arena_samples[i].sample;
    float *x = calloc(2048000, sizeof *x);
    REQUIRE(x);
    workload_fill_arena(sn_workload_find(arena_samples[i].workload), s->name, &s->shape, x);
    for (int k = 0; k < 3; k++)
      if (!(fabs((double)x[s->at[k]] - s->value[k]) <= 2e-9)) /* an ulp of sinf */
        FAIL("%s[%lld] is %.9g, expected %.9g", s->name, (long long)s->at[k], (double)x[s->at[k]],
             s->value[k]);
    free(x);
  }
}

static const struct {
  const char *workload, *input;
  sn_workload_form form;
  int64_t n; /* elements */
  int64_t at[2];
  double value[2];
} input_samples[] = {
    {"SmolLM2-135M", "ids", SN_WORKLOAD_FULL, 128, {0, 127}, {0, 127}},
    {"SmolLM2-135M", "labels", SN_WORKLOAD_FULL, 128, {0, 127}, {1, 128}},
    {"SmolLM2-135M", "ids", SN_WORKLOAD_LATENCY, 1, {0, 0}, {0, 0}},
    {"SmolVLA", "action", SN_WORKLOAD_FULL, 1600, {1, 1599}, {0.00999983307, -0.278312266}},
    {"SmolVLA", "time", SN_WORKLOAD_FULL, 1440, {1, 1439}, {0.00499997893, 0.790616035}},
    {"SmolVLA", "context", SN_WORKLOAD_FULL, 5120, {1, 5119}, {0.999949992, 0.602220893}},
    {"SmolVLA", "action", SN_WORKLOAD_LATENCY, 32, {0, 1}, {0, 0.00999983307}},
    {"SmolVLA", "time", SN_WORKLOAD_LATENCY, 1440, {1, 1439}, {0.00499997893, 0.790616035}},
    {"SmolVLA", "context", SN_WORKLOAD_LATENCY, 320, {0, 1}, {1, 0.999949992}},
    {"StableDiffusion", "x", SN_WORKLOAD_FULL, 8192, {1, 8191}, {0.00999983307, 0.226608977}},
    {"StableDiffusion", "target", SN_WORKLOAD_FULL, 8192, {1, 8191}, {0.999975502, 0.705027759}},
    {"StableDiffusion", "x", SN_WORKLOAD_LATENCY, 4096, {0, 1}, {0, 0.00999983307}},
    {"ResNet-50", "x", SN_WORKLOAD_FULL, 602112, {1, 602111}, {0.000999999931, -0.879479051}},
    {"ResNet-50", "labels", SN_WORKLOAD_FULL, 4, {0, 3}, {0, 3}},
    {"ResNet-50", "x", SN_WORKLOAD_LATENCY, 150528, {1, 150527}, {0, 0}},
    {"Whisper-tiny", "x", SN_WORKLOAD_FULL, 240000, {1, 239999}, {0.000999999815, 0.945118904}},
    {"Whisper-tiny", "x", SN_WORKLOAD_LATENCY, 240000, {1, 239999}, {0.000999999815, 0.945118904}}};

/* All inputs of a form, passed through a graph that does nothing else. */
static sn_session *echo_inputs(sn_graph *g, const sn_workload *w, sn_workload_form form) {
  sn_session *session = NULL;
  for (int i = 0; i < WORKLOAD_MAX_INPUTS && w->inputs[i].name; i++) {
    const workload_input *in = &w->inputs[i];
    const sn_shape *shape = form == SN_WORKLOAD_FULL ? &in->full : &in->latency;
    if (shape->rank)
      sn_output(g, in->name, sn_cast(g, sn_input(g, in->name, in->dtype, *shape), SN_F32));
  }
  if (CHECK(sn_session_create(g, NULL, NULL, &session) == SN_OK) &&
      CHECK(sn_workload_write(w, g, form, session) == SN_OK))
    CHECK(sn_session_run(session) == SN_OK);
  return session;
}

TEST(input_values) {
  for (size_t i = 0; i < sizeof input_samples / sizeof *input_samples; i++) {
    const sn_workload *w = sn_workload_find(input_samples[i].workload);
    size_t size = (size_t)input_samples[i].n * sizeof(float);
    float *x = malloc(size);
    sn_ctx *ctx;
    sn_graph *g;
    REQUIRE(x && sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
    sn_session *s = echo_inputs(g, w, input_samples[i].form);
    if (CHECK(sn_session_read(s, input_samples[i].input, x, size) == SN_OK))
      for (int k = 0; k < 2; k++)
        CHECK_NEAR(x[input_samples[i].at[k]], input_samples[i].value[k], 1e-7);
    sn_session_destroy(s);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
    free(x);
  }
}

/* --- the quickest golden: images of a batch do not see each other, so the first 32 numbers of the U-Net's
 * output are the same for one image as for two --- */

TEST(unet_of_one_image) {
  const sn_workload *w = sn_workload_find("StableDiffusion");
  enum { N = 4 * 32 * 32 };
  static float y[N];
  stage s;
  sn_store *store = NULL;
  sn_session *session = NULL;
  if (stage_start(&s, w, SN_WORKLOAD_LATENCY) && s.doc) {
    const sn_json *live = sn_json_get(sn_json_root(s.doc), "live");
    const sn_json *golden = sn_json_get(live, "output_first32_f64");
    double rms = NAN, expected = NAN;
    sn_json_number(sn_json_get(live, "output_rms_f64"), &rms);
    sn_output(s.graph, "output", s.values.output);
    if (CHECK(sn_store_create(s.ctx, &store) == SN_OK) &&
        CHECK(sn_workload_fill(w, s.graph, SN_WORKLOAD_ARENA, store) == SN_OK) &&
        CHECK(sn_workload_fill(w, s.graph, SN_WORKLOAD_LIVE, store) == SN_OK) && /* overwrites */
        CHECK(sn_session_create(s.graph, store, NULL, &session) == SN_OK) &&
        CHECK(sn_workload_write(w, s.graph, SN_WORKLOAD_LATENCY, session) == SN_OK) &&
        CHECK(sn_session_run(session) == SN_OK) &&
        CHECK(sn_session_read(session, "output", y, sizeof y) == SN_OK))
      for (size_t i = 0; i < 32; i++) {
        CHECK(sn_json_number(sn_json_at(golden, i), &expected));
        CHECK_NEAR(y[i], expected, 1e-5 * rms);
      }
  } else if (!test_failed()) {
    test_skip("no shared data: workloads");
  }
  sn_session_destroy(session);
  sn_store_destroy(store);
  stage_end(&s);
}

/* --- no memory --- */

static sn_status build_and_fill(sn_ctx *ctx) {
  const sn_workload *w = sn_workload_find("StableDiffusion");
  sn_workload_values v;
  sn_graph *g = NULL;
  sn_store *store = NULL;
  sn_status status = sn_graph_create(ctx, &g);
  if (status == SN_OK)
    status = sn_store_create(ctx, &store);
  if (status == SN_OK)
    status = sn_workload_build(w, g, SN_WORKLOAD_FULL, &v);
  if (status == SN_OK)
    status = sn_workload_fill(w, g, SN_WORKLOAD_LIVE, store);
  sn_store_destroy(store);
  sn_graph_destroy(g);
  return status;
}

TEST(no_memory) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_status status = ctx ? build_and_fill(ctx) : SN_ERR_NO_MEMORY;
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    sn_ctx_destroy(ctx);
    heap.fail_at += 6; /* every seventh */
  } while (fault_heap_end(&heap));
}
