/* What the plan makes of ops: lowered by their decompositions to ops that say what an element is, and run element by
 * element, every op's cases give what the definition gives; with each value made whole and with elements built into
 * each other. And graphs with symbolic sizes, with what these demand of a run. */
#include "ir/dtype.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "support/element_graph.h"
#include "support/graph_run.h"
#include "support/random_graph.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* f32 on the way where the definition has f64; relative to 1 or the largest argument above. */
static double tolerance_of(sn_dtype dtype) {
  return dtype == SN_F16 ? 0x1p-8 : dtype == SN_BF16 ? 0x1p-5 : 2e-5;
}

static bool close(double a, double b, sn_dtype dtype, double scale) {
  if (isnan(a) || isnan(b))
    return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b) || !dtype_is_float(dtype))
    return a == b;
  return fabs(a - b) <= tolerance_of(dtype) * fmax(scale, fmax(fabs(a), fabs(b)));
}

/* --- every case of every op --- */

static double case_leaf(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)dtype;
  const op_test_case *c = user;
  return strncmp(name, "in", 2) == 0 ? c->in[atoi(name + 2)].data[i] : 0;
}

static double largest_input(const op_test_case *c) {
  double largest = 1;
  for (int i = 0; i < c->n_in; i++)
    for (int64_t k = 0; k < c->in[i].count; k++)
      if (isfinite(c->in[i].data[k]))
        largest = fmax(largest, fabs(c->in[i].data[k]));
  return largest;
}

static void compare_case(op_test_case *c, const char *line, sn_graph *lowered, bool inlined,
                         const case_tensor *expected, arena *memory) {
  ref_tensor out[MAX_RESULTS];
  int64_t none[1] = {0};
  double scale = largest_input(c);
  if (element_graph(lowered, none, inlined, case_leaf, c, memory, out) != SN_OK) {
    FAIL("%s: %s: %s", line, inlined ? "built in" : "whole", sn_ctx_message(c->ctx));
    return;
  }
  for (int k = 0; k < c->op->n_results; k++)
    for (int64_t i = 0; i < expected[k].count; i++)
      if (!close(expected[k].data[i], out[k].data[i], out[k].dtype, scale)) {
        FAIL("%s: %s: result %d element %lld: the definition says %.9g, elements %.9g", line,
             inlined ? "built in" : "whole", k, (long long)i, expected[k].data[i], out[k].data[i]);
        return;
      }
}

static void check_lowered(op_test_case *c, const char *line) {
  sn_graph *g, *lowered;
  sn_value first;
  arena memory;
  case_tensor expected[MAX_RESULTS] = {0};
  if (!CHECK(case_graph(c, &g, &first) == SN_OK))
    return;
  arena_init(&memory, c->ctx);
  if (plan_lower(g, &lowered) != SN_OK) {
    FAIL("%s: %s", line, sn_ctx_message(c->ctx));
  } else {
    if (CHECK(case_run(c, g, REF_F32, &memory, expected) == SN_OK)) {
      compare_case(c, line, lowered, false, expected, &memory);
      compare_case(c, line, lowered, true, expected, &memory);
    }
    sn_graph_destroy(lowered);
  }
  arena_clear(&memory);
  sn_graph_destroy(g);
}

static void check_case(const char *line) {
  sn_ctx *ctx;
  op_test_case c;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK)) {
    check_lowered(&c, line);
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}

TEST_WALK(every_op) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!impl->ref || plan_is_core(i) || !test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases; k++)
      if (!impl->cases[k].error)
        check_case(impl->cases[k].text);
    test_end();
  }
}

/* --- symbolic sizes --- */

static double drawn(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user;
  (void)dtype;
  return case_weight(name, i);
}

typedef void (*sized_builder)(sn_graph *g, sn_value x, sn_dim n, sn_dim m);

/* x is f32 [n, m], n up to 6, m up to 5. */
static void slices(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_output(g, "from 2", sn_slice(g, x, 0, 2, SN_END, 1));
  sn_output(g, "back", sn_slice(g, x, 0, SN_END, SN_END, -1));
  sn_output(g, "to m", sn_slice(g, x, 0, 0, m, 1));
  sn_output(g, "all but the last", sn_slice(g, x, 1, 0, sn_dim_sub(g, m, 1), 2));
  sn_output(g, "of a number", sn_slice(g, sn_arange(g, SN_F32, 6, 0, 1), 0, n, 6, 1));
}

static void last_rows(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  (void)n;
  (void)m;
  sn_output(g, "last", sn_slice(g, x, 0, -3, SN_END, 1));
  sn_output(g, "last, back", sn_slice(g, x, 0, SN_END, -3, -1));
}

static void shapes(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_value t = sn_transpose(g, x, SN_INTS(1, 0)), flat = sn_reshape(g, t, SN_SHAPE(-1));
  sn_value both[] = {x, sn_neg(g, x), sn_flip(g, x, SN_INTS(0))};
  sn_output(g, "turned", sn_flip(g, sn_reshape(g, flat, SN_SHAPE(n, m)), SN_INTS(1)));
  sn_output(g, "side by side", sn_reshape(g, sn_concat(g, both, 3, 1), SN_SHAPE(-1)));
  sn_output(g, "stacked", sn_reshape(g, sn_stack(g, both, 3, -1), SN_SHAPE(m, n, 3)));
  sn_output(g, "tiled", sn_tile(g, sn_concat(g, both, 2, 0), SN_INTS(2, 3)));
  sn_value padded = sn_pad(g, sn_exp(g, x), SN_INTS(1, 2), SN_INTS(0, 1), SN_PAD_CONSTANT, 5);
  sn_output(g, "padded", sn_reshape(g, sn_sqr(g, padded), SN_SHAPE(-1)));
  sn_output(g, "by rows", sn_expand(g, sn_arange(g, SN_I32, m, 3, -2), SN_SHAPE(n, m)));
}

/* More checks on the way than a read has room for. */
static void deep(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_ints one = SN_INTS(1, 2, 1), other = SN_INTS(2, 0, 1);
  sn_value v = sn_reshape(g, x, SN_SHAPE(n, 1, m));
  for (int i = 0; i < 4; i++) {
    v = sn_pad(g, sn_affine(g, v, 0.5, 1), one, other, SN_PAD_CONSTANT, i);
    v = sn_concat(g, (sn_value[]){sn_neg(g, v), v}, 2, 1);
    v = sn_slice(g, v, 1, 1, SN_END, 2);
  }
  sn_output(g, "deep", v);
}

static void edges(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  (void)n;
  (void)m;
  sn_output(g, "edge", sn_pad(g, x, SN_INTS(1, 2), SN_INTS(0, 7), SN_PAD_EDGE, 0));
  sn_output(g, "mirrored", sn_pad(g, x, SN_INTS(1, 0), SN_INTS(2, 0), SN_PAD_REFLECT, 0));
}

static void reductions(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  (void)n;
  sn_output(g, "sum", sn_sum(g, x, SN_INTS(0), false));
  sn_output(g, "mean", sn_mean(g, x, SN_ALL_AXES, false));
  sn_output(g, "var", sn_var(g, x, SN_INTS(1), 1, true));
  sn_output(g, "softmax", sn_softmax(g, x, 0));
  sn_output(g, "product", sn_matmul(g, x, x, true, false));
  sn_output(g, "to m", sn_matmul(g, x, sn_full(g, SN_F32, SN_SHAPE(m, 2), 1), false, false));
}

static void extremes(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  (void)n;
  (void)m;
  sn_output(g, "max", sn_max(g, x, SN_INTS(1), false));
  sn_output(g, "argmin", sn_argmin(g, x, 0, true));
}

static void runs(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_value start = sn_scalar(g, SN_I32, 2), eight = sn_arange(g, SN_F32, 8, 0, 1);
  sn_output(g, "read", sn_slice_at(g, eight, start, 0, n));
  sn_output(g, "written", sn_update_slice(g, eight, sn_sum(g, x, SN_INTS(1), false), start, 0));
  sn_output(g, "rows", sn_gather(g, eight, sn_arange(g, SN_I32, m, 0, 1)));
}

static void windows(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_value images = sn_reshape(g, x, SN_SHAPE(n, 1, m)),
           w = sn_full(g, SN_F32, SN_SHAPE(2, 1, 3), 2);
  sn_ints one = SN_INTS(1), two = SN_INTS(2);
  sn_value y = sn_conv(g, images, w, SN_NONE, two, one, one, one, 1);
  sn_output(g, "conv", y);
  sn_output(g, "dx", sn_conv_grad_input(g, y, w, SN_SHAPE(m), two, one, one, one, 1));
  sn_output(g, "dw",
            sn_conv_grad_weight(g, sn_neg(g, images), y, SN_INTS(3), two, one, one, one, 1));
  sn_value p = sn_pool(g, images, SN_POOL_AVG, SN_INTS(3), two, one, one, one, true, false);
  sn_output(g, "pool", p);
  sn_output(
      g, "pool_grad",
      sn_pool_grad(g, images, p, p, SN_POOL_AVG, SN_INTS(3), two, one, one, one, true, false));
}

/* 4 … m+3 of 8 rows */
static void rows(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_value eight = sn_arange(g, SN_F32, 8, 0, 1), from_4 = sn_arange(g, SN_I32, m, 4, 1);
  sn_output(g, "rows", sn_add(g, x, sn_gather(g, eight, from_4)));
  sn_output(g, "hot", sn_one_hot(g, sn_arange(g, SN_I32, n, 0, 1), 5, SN_F32));
}

static void bare_windows(sn_graph *g, sn_value x, sn_dim n, sn_dim m) {
  sn_value images = sn_reshape(g, x, SN_SHAPE(n, 1, m));
  sn_value w = sn_full(g, SN_F32, SN_SHAPE(2, 1, 3), 2);
  sn_ints one = SN_INTS(1), none = SN_INTS(0);
  sn_output(g, "conv", sn_conv(g, images, w, SN_NONE, one, none, none, one, 1));
}

static const struct {
  const char *name;
  sized_builder build;
} sized[] = {{"deep", deep},         {"last_rows", last_rows},
             {"rows", rows},         {"bare_windows", bare_windows},
             {"slices", slices},     {"shapes", shapes},
             {"edges", edges},       {"reductions", reductions},
             {"extremes", extremes}, {"runs", runs},
             {"windows", windows}};

static void compare_sized(graph_run *r, sn_graph *lowered, const int64_t *bindings, bool inlined) {
  ref_tensor out[GRAPH_RUN_OUTPUTS];
  arena memory;
  arena_init(&memory, r->ctx);
  sn_status defined = graph_run_status(r, bindings);
  sn_status status = element_graph(lowered, bindings, inlined, drawn, NULL, &memory, out);
  const int n = (int)bindings[0], m = (int)bindings[1];
  if ((defined == SN_OK) != (status == SN_OK) || (defined != SN_OK && status != SN_ERR_NUMERIC))
    FAIL("n %d, m %d: the definition %s, elements %s: %s", n, m, defined ? "fails" : "does not",
         status ? "fail" : "do not", sn_ctx_message(r->ctx));
  for (int k = 0; defined == SN_OK && status == SN_OK && k < r->g->n_outputs; k++)
    for (int64_t i = 0; i < r->out[k].count; i++)
      if (!close(r->out[k].data[i], out[k].data[i], out[k].dtype, 1)) {
        FAIL("n %d, m %d: \"%s\" element %lld: the definition says %.9g, elements %.9g", n, m,
             r->g->outputs[k].name, (long long)i, r->out[k].data[i], out[k].data[i]);
        break;
      }
  arena_clear(&memory);
}

/* At all sizes, those at which the definition fails too. */
static void check_sized(sized_builder build) {
  graph_run r;
  sn_graph *lowered;
  if (graph_run_start(&r)) {
    sn_dim n = sn_symbol(r.g, "n", 6), m = sn_symbol(r.g, "m", 5);
    build(r.g, sn_input(r.g, "x", SN_F32, SN_SHAPE(n, m)), n, m);
    if (plan_lower(r.g, &lowered) != SN_OK) {
      FAIL("%s", sn_ctx_message(r.ctx));
    } else {
      for (int64_t i = 0; i <= 6; i++)
        for (int64_t k = 0; k <= 5; k++)
          for (int inlined = 0; inlined < 2; inlined++)
            compare_sized(&r, lowered, (int64_t[]){i, k}, inlined);
      sn_graph_destroy(lowered);
    }
  }
  graph_run_end(&r);
}

TEST_WALK(symbolic) {
  for (size_t i = 0; i < COUNT_OF(sized); i++)
    if (test_begin("%s", sized[i].name)) {
      check_sized(sized[i].build);
      test_end();
    }
}

/* --- random graphs: what is built in rounds as what is stored, so not a bit may differ --- */

enum { GRAPHS = 150 };

static bool same_tensor(const ref_tensor *a, const ref_tensor *b) {
  for (int64_t i = 0; i < a->count; i++)
    if (a->data[i] != b->data[i] && !(isnan(a->data[i]) && isnan(b->data[i])))
      return false;
  return true;
}

/* Whether building in changes an output; the graph needs not run. */
static bool differs(void *user, const random_graph *r) {
  static const int64_t bindings[] = {5};
  char *why = user;
  sn_graph *lowered = NULL;
  arena memory;
  arena_init(&memory, r->ctx);
  ref_tensor *out = arena_array(&memory, 2 * (size_t)r->g->n_outputs + 1, sizeof *out);
  bool bad = !out || plan_lower(r->g, &lowered) != SN_OK;
  void *leaves = (void *)(uintptr_t)r;
  if (!bad) {
    ref_tensor *built = out + r->g->n_outputs;
    sn_status whole =
        element_graph(lowered, bindings, false, random_graph_fill, leaves, &memory, out);
    bad = whole == SN_ERR_INTERNAL;
    if (whole == SN_OK)
      bad = element_graph(lowered, bindings, true, random_graph_fill, leaves, &memory, built) !=
            SN_OK;
    for (int k = 0; whole == SN_OK && !bad && k < r->g->n_outputs; k++)
      bad = !same_tensor(&out[k], &built[k]);
  }
  if (bad)
    snprintf(why, 200, "%s", sn_ctx_message(r->ctx));
  sn_graph_destroy(lowered);
  arena_clear(&memory);
  return bad;
}

TEST(random_graphs) {
  for (uint64_t seed = 1; seed <= GRAPHS && !test_failed(); seed++) {
    sn_ctx *ctx;
    random_graph r;
    char why[200] = "", *printed = NULL;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    if (!CHECK(random_graph_make(&r, ctx, seed, 6 + (int)(seed % 10)) == SN_OK)) {
    } else if (differs(why, &r)) {
      random_graph_shrink(&r, differs, why);
      (void)!sn_graph_print(r.g, &printed);
      FAIL("seed %llu: %s\n%s", (unsigned long long)seed, why, printed ? printed : "");
      sn_text_free(ctx, printed);
    }
    random_graph_end(&r);
    sn_ctx_destroy(ctx);
  }
}
