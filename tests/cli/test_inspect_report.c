/* The forms of an inspection (text, JSON, HTML), from one that is made by hand. The command itself is in test_inspect.c. */
#include "cli/inspect_pictures.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step of prepare, four of a run in three groups, two values that share memory one after the other. */
static const sn_step steps[] = {
    {"pack \"w\"", "pointwise", "prepare", 1, 1, true, 10, 100},
    {"layers.0/matmul <q & k>", "matmul", "main", 3, 2, true, 3e9, 4e6},
    {"layers.0/softmax", "row", "main", 1, 1, true, 1e6, 8e6},
    {"layers.0/exp", "pointwise", "main", 1, 1, false, 2e6, 1e6},
    {"update", "pointwise", "commit", 2, 1, true, 0, 3e6},
};
static const sn_lifetime lifetimes[] = {
    {3, "layers.0/matmul", 4096, 0, 1, 2},
    {4, "layers.0/softmax", 1024, 4096, 2, 4},
    {5, "odd \"name\"\n<b>", 2048, 0, 3, 4},
};
static const sn_named_number phases[] = {{"opt", 0.5}, {"place", 0.25}};
static const sn_named_number rules[] = {{"add-zero", 3}, {"never", 0}};
static const sn_named_number archetypes[] = {{"pointwise", 2}, {"row", 1}, {"matmul", 1}};
static const sn_op_count ops[] = {{"add", 4, 2, 2}, {"softmax", 1, 1, 0}, {"exp", 0, 0, 1}};

static sn_inspection make(void) {
  return (sn_inspection){.device = "cpu",
                         .nodes_before = 5,
                         .nodes_optimised = 3,
                         .nodes_after = 3,
                         .layers = 1,
                         .egraph = {7, 9, 2, 11, "fixpoint", 0.125, 1e-3, 5e-4, false},
                         .launches = 5,
                         .barriers = 3,
                         .steps = 4,
                         .prepare_steps = 1,
                         .steps_per_layer = 3,
                         .launches_per_layer = 4.25,
                         .n_listed = 5,
                         .step_list = steps,
                         .peak_bytes = 5120,
                         .lower_bound_bytes = 5120,
                         .state_bytes = 64,
                         .input_bytes = 8,
                         .output_bytes = 4,
                         .constant_bytes = 2,
                         .prepare_bytes = 128,
                         .n_lifetimes = 3,
                         .lifetimes = lifetimes,
                         .flops = 3.003e9,
                         .bytes = 1.6e7,
                         .compile_s = 0.75,
                         .n_phases = 2,
                         .n_rules = 2,
                         .n_archetypes = 3,
                         .n_ops = 3,
                         .phases = phases,
                         .rules = rules,
                         .archetypes = archetypes,
                         .ops = ops};
}

static char *written(void (*form)(FILE *, const inspect_report *)) {
  sn_inspection i = make();
  inspect_report r = {"a <model> & \"more\"", "training", &i};
  const char *path = test_scratch("report");
  char *text = calloc(1, 1 << 20);
  FILE *f = fopen(path, "w");
  if (CHECK(f && text)) {
    form(f, &r);
    fclose(f);
    f = fopen(path, "r");
    text[f ? fread(text, 1, (1 << 20) - 1, f) : 0] = '\0';
  }
  if (f)
    fclose(f);
  return text;
}

static double number(const sn_json *j, const char *key) {
  double x = NAN;
  CHECK(sn_json_number(sn_json_get(j, key), &x));
  return x;
}

static void check_json(const sn_json *j) {
  static const struct {
    const char *key;
    double value;
  } want[] = {{"nodes_before", 5},
              {"nodes_after", 3},
              {"layers", 1},
              {"steps", 4},
              {"launches", 5},
              {"barriers", 3},
              {"steps_per_layer", 3},
              {"launches_per_layer", 4.25},
              {"prepare_steps", 1},
              {"peak_bytes", 5120},
              {"lower_bound_bytes", 5120},
              {"state_bytes", 64},
              {"prepare_bytes", 128},
              {"compile_s", 0.75}};
  for (size_t k = 0; k < sizeof want / sizeof *want; k++)
    if (number(j, want[k].key) != want[k].value)
      FAIL("%s is %g", want[k].key, number(j, want[k].key));
  CHECK_EQ_STR(sn_json_string(sn_json_get(j, "subject"), NULL), "a <model> & \"more\"");
  const sn_json *e = sn_json_get(j, "egraph");
  CHECK(number(e, "classes") == 7 && number(e, "nodes") == 9 && number(e, "iterations") == 2);
  CHECK_EQ_STR(sn_json_string(sn_json_get(e, "stop"), NULL), "fixpoint");
  CHECK(number(sn_json_get(j, "phases"), "place") == 0.25);
  CHECK(number(sn_json_get(j, "rules"), "add-zero") == 3);
  CHECK(number(sn_json_get(j, "archetypes"), "pointwise") == 2);
  CHECK_EQ_INT(sn_json_size(sn_json_get(j, "step_list")), 5);
  const sn_json *l = sn_json_get(j, "lifetimes");
  CHECK_EQ_INT(sn_json_size(l), 3);
  CHECK(number(sn_json_at(l, 1), "bytes") == 1024 && number(sn_json_at(l, 1), "offset") == 4096);
  CHECK(number(sn_json_at(l, 2), "first") == 3 && number(sn_json_at(l, 2), "last") == 4);
  CHECK_EQ_STR(sn_json_string(sn_json_get(sn_json_at(l, 2), "name"), NULL), "odd \"name\"\n<b>");
}

TEST(json) {
  char *text = written(inspect_json);
  sn_ctx *ctx;
  sn_json_doc *doc;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_json_parse(ctx, text, strlen(text), &doc) == SN_OK))
    check_json(sn_json_root(doc));
  else
    FAIL("%s", sn_ctx_message(ctx));
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  free(text);
}

TEST(text) {
  char *text = written(inspect_text);
  CHECK_STR_HAS(text, "5 nodes as given, 3 optimised, 3 lowered");
  CHECK_STR_HAS(text, "4 steps, 5 launches, 3 barriers (a layer: 3 steps, 4.25 launches)");
  CHECK_STR_HAS(text, "after 2 iterations:");
  CHECK_STR_HAS(text, "; 1 layer\n");
  CHECK_STR_HAS(text, "and 1 that runs when state changes");
  CHECK_STR_HAS(text, "add-zero 3");
  CHECK(strstr(text, "never") == NULL);
  CHECK_STR_HAS(text, "(1.000 x)");
  /* Costliest first: the matmul has all the arithmetic, the softmax half the traffic. */
  const char *matmul = strstr(text, "<q & k>"), *softmax = strstr(text, "layers.0/softmax");
  CHECK(matmul && softmax && matmul < softmax);
  CHECK(strstr(text, "pack") == NULL);
  free(text);
}

static int count(const char *text, const char *part) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part))
    n++;
  return n;
}

TEST(html) {
  static const char *const tags[] = {"section", "table", "tr", "svg", "title", "div", "main"};
  char *text = written(inspect_html);
  for (size_t k = 0; k < sizeof tags / sizeof *tags; k++) {
    char open[16], bare[16], close[16];
    snprintf(open, sizeof open, "<%s ", tags[k]);
    snprintf(bare, sizeof bare, "<%s>", tags[k]);
    snprintf(close, sizeof close, "</%s>", tags[k]);
    CHECK_EQ_INT(count(text, open) + count(text, bare), count(text, close));
  }
  CHECK(strstr(text, "http") == NULL && strstr(text, "<b>\n") == NULL);
  CHECK_STR_HAS(text, "a &lt;model&gt; &amp; &quot;more&quot;");
  CHECK_STR_HAS(text, "layers.0/matmul &lt;q &amp; k&gt;");
  CHECK_EQ_INT(count(text, "<rect class=\"box "),
               3); /* none is so thin that its frame would hide it */
  CHECK_EQ_INT(count(text, "<rect class=\"frame\""),
               4); /* prepare, matmul, softmax + exp, update */
  CHECK_STR_HAS(text, "4 groups of 5 steps");
  CHECK(strstr(text, "nan") == NULL && strstr(text, "inf\"") == NULL);
  free(text);
}

/* Nothing to show is no reason to divide by it. */
TEST(an_empty_plan) {
  sn_inspection none = {.device = "cpu", .egraph = {.stop = "fixpoint"}};
  inspect_report r = {"nothing", "training", &none};
  FILE *f = fopen(test_scratch("empty"), "w+");
  char text[1 << 14];
  REQUIRE(f != NULL);
  inspect_html(f, &r);
  none.egraph.iterations = 1;
  inspect_text(f, &r);
  rewind(f);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
  CHECK_STR_HAS(text, "after 1 iteration:");
}
