/* Every op's `element`: its cases, run with numbers (element_machine.h), must be what the definition says; and every op can be
 * lowered at all. */
#include "ir/dtype.h"
#include "ops/table.h"
#include "ref/ref.h"
#include "support/case.h"
#include "support/element_machine.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

/* Relative, in f32: a few roundings more than the definition, which rounds once. */
static const double TOLERANCE = 8 * 0x1p-24;

/* Ops whose elements lose digits where their results are small: the error is relative to 1, or to this power of the largest argument
 * above 1. */
static const struct {
  const char *op;
  int degree;
  const char *why;
} cancelling[] = {
    {"gelu", 1, "x * (1 + erf(...)) / 2 cancels for negative x"},
    {"affine", 1, "x * mul and the sum are rounded each"},
    {"normal", 0, "std * z and the sum are rounded each"},
    {"matmul", 2, "products are rounded before they are summed"},
    {"conv", 2, "products are rounded before they are summed"},
    {"conv_grad_input", 2, "products are rounded before they are summed"},
    {"conv_grad_weight", 2, "products are rounded before they are summed"},
};

static const char *const without_element[] = {
    "attention", "attention_grad", "cumsum", "cumprod", "sort", "topk", "sample", "permutation"};

static double largest_input(const ref_tensor *in, int n) {
  double largest = 1;
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; in[i].data && k < in[i].count; k++)
      if (isfinite(in[i].data[k]))
        largest = fmax(largest, fabs(in[i].data[k]));
  return largest;
}

/* What errors are relative to, besides the result. */
static double scale_of(const op_desc *op, const ref_tensor *in, int n) {
  for (size_t i = 0; i < COUNT_OF(cancelling); i++)
    if (strcmp(cancelling[i].op, op->name) == 0)
      return pow(largest_input(in, n), cancelling[i].degree);
  return 0;
}

/* One step of a half dtype may come on top, where the value lies at a boundary. */
static double unit_of(sn_dtype dtype) {
  return dtype == SN_F16 ? 0x1p-10 : dtype == SN_BF16 ? 0x1p-7 : TOLERANCE;
}

static bool close(double a, double b, sn_dtype dtype, double scale) {
  if (isnan(a) || isnan(b))
    return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b) || !dtype_is_float(dtype))
    return a == b;
  double least = dtype == SN_F16 ? 0x1p-24 : 0x1p-140; /* of subnormals */
  return fabs(a - b) <= fmax(least, unit_of(dtype) * fmax(scale, fmax(fabs(a), fabs(b))));
}

typedef struct run {
  op_test_case c;
  arena memory;
  sn_graph *g;
  const node *n;
  ref_tensor in[CASE_MAX_INPUTS], expected[MAX_RESULTS], got;
} run;

static bool allocate(run *r, ref_tensor *t, sn_type type) {
  t->dtype = type.dtype;
  t->rank = type.shape.rank;
  t->count = 1;
  for (int d = 0; d < t->rank; d++)
    t->count *= t->dim[d] = type.shape.dim[d];
  t->data = arena_array(&r->memory, (size_t)t->count, sizeof *t->data);
  return CHECK(t->data != NULL);
}

static bool prepare(run *r) {
  sn_value first;
  if (!CHECK(case_graph(&r->c, &r->g, &first) == SN_OK))
    return false;
  r->n = graph_node(r->g, first);
  for (int i = 0; i < r->c.n_in; i++) {
    const case_tensor *from = &r->c.in[i];
    if (from->type.dtype == SN_NO_DTYPE)
      continue;
    if (!allocate(r, &r->in[i], from->type))
      return false;
    for (int64_t k = 0; k < from->count; k++)
      r->in[i].data[k] = dtype_round(from->type.dtype, from->data[k]);
  }
  for (int k = 0; k < r->n->n_out; k++)
    if (!allocate(r, &r->expected[k], r->g->values[r->n->first + (uint32_t)k].type))
      return false;
  return allocate(r, &r->got, r->g->values[r->n->first].type);
}

static void compare(const run *r, const char *line) {
  double scale = scale_of(r->c.op, r->in, r->c.n_in);
  for (int64_t k = 0; k < r->got.count; k++)
    if (!close(r->expected[0].data[k], r->got.data[k], r->got.dtype, scale)) {
      FAIL("%s: element %lld: the definition says %.9g, element %.9g", line, (long long)k,
           r->expected[0].data[k], r->got.data[k]);
      return;
    }
}

static void check_case(sn_ctx *ctx, const op_table *table, const char *line) {
  run r = {0};
  if (case_load(ctx, table, line, &r.c) != SN_OK) {
    FAIL("%s: %s", line, sn_ctx_message(ctx));
    return;
  }
  arena_init(&r.memory, ctx);
  if (prepare(&r)) {
    sn_status defined = ref_node(r.g, NULL, REF_F32, r.n, r.in, r.expected);
    sn_status status = element_node(r.g, NULL, r.n, r.in, &r.got);
    if (defined == SN_OK && status != SN_OK)
      FAIL("%s: %s", line, sn_ctx_message(ctx));
    else if (defined != SN_OK)
      CHECK(status == SN_ERR_NUMERIC);
    else
      compare(&r, line);
  }
  arena_clear(&r.memory);
  sn_graph_destroy(r.g);
  case_free(&r.c);
}

static void check_text(const char *line) {
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  check_case(ctx, op_table_get(), line);
  sn_ctx_destroy(ctx);
}

static bool may_lack_element(const op_desc *op) {
  if (!op->impl->ref || op->impl->decompose || strncmp(op->name, "scatter_", 8) == 0)
    return true;
  for (size_t i = 0; i < COUNT_OF(without_element); i++)
    if (strcmp(without_element[i], op->name) == 0)
      return true;
  return false;
}

TEST_WALK(every_element) {
  const op_table *table = op_table_get();
  int ops = 0, cases = 0;
  for (int i = 1; i < table->n; i++) {
    const op_desc *op = &table->ops[i];
    if (!test_begin("%s", op->name))
      continue;
    if (!op->impl->element && !may_lack_element(op))
      FAIL("%s has no element, no decomposition and no archetype of its own", op->name);
    for (int k = 0; op->impl->element && k < op->impl->n_cases; k++)
      if (!op->impl->cases[k].error) {
        check_text(op->impl->cases[k].text);
        cases++;
      }
    ops += op->impl->element != NULL;
    test_end();
  }
  printf("elements: %d ops, %d cases\n", ops, cases);
}

/* An op of one result that is a function of the elements at the same place is never worth a decomposition. */
TEST(pointwise_ops_have_elements) {
  static const char *const names[] = {
      "silu",     "gelu",    "gelu_tanh", "mish",    "elu",           "leaky_relu", "hardswish",
      "sigmoid",  "softcap", "clamp",     "affine",  "powf",          "relu",       "sqr",
      "softplus", "cast",    "where",     "barrier", "stop_gradient", "dropout"};
  const op_table *table = op_table_get();
  for (size_t k = 0; k < COUNT_OF(names); k++)
    for (int i = 1; i < table->n; i++)
      if (strcmp(table->ops[i].name, names[k]) == 0 && !table->ops[i].impl->element)
        FAIL("%s", names[k]);
}

/* What the definition refuses, a requirement refuses. */
TEST(divisors_of_zero) {
  static const char *const ops[] = {"div", "floor_div", "rem", "fmod"};
  char line[128];
  for (size_t k = 0; k < COUNT_OF(ops); k++) {
    snprintf(line, sizeof line, "%s(i32[3]{5, 6, 7}, i32[3]{1, 0, 2})", ops[k]);
    check_text(line);
    snprintf(line, sizeof line, "%s(u8[1]{5}, u8[2, 1]{1, 0})", ops[k]);
    check_text(line);
    snprintf(line, sizeof line, "%s(i32[0], i32[1]{0})", ops[k]);
    check_text(line);
  }
}

/* Random words by position, also where positions come in many pieces and in odd counts. */
TEST(draws) {
  check_text("normal(i32[3]{5, 6, 7}) dtype=f32 shape=[3, 1, 5, 3] mean=1 std=2 stream=3");
  check_text("normal(i32[3]{5, 6, 7}) dtype=f32 shape=[3, 4] mean=0 std=1 stream=3");
  check_text("normal(i32[3]{5, 6, 7}) dtype=f32 shape=[2, 3, 2, 3, 2, 3, 2, 3] mean=0 std=1");
  check_text("uniform(i32[3]{5, 6, 7}) dtype=bf16 shape=[700] lo=1 hi=2 stream=8");
  check_text("uniform(i32[3]{5, 6, 7}) dtype=f16 shape=[2, 3, 2, 3, 2, 3, 2, 2] lo=-3 hi=5.5");
  check_text("randint(i32[3]{1, -1, 9}) shape=[2, 3, 2, 3, 2, 1, 2, 3] lo=-7 hi=1000 stream=1");
  check_text("bernoulli(i32[3]{1, -1, 9}) shape=[31, 7] p=0.3 stream=12");
  check_text("dropout(f16[31, 7], i32[3]{4, 5, 6}) p=0.3 stream=12");
}
