/* Elements under symbolic sizes: whole graphs, node by node; the definition's results are the arguments of the next node, and what
 * `element` says of a node must be what its definition says, under several bindings. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "ref/ref.h"
#include "support/case.h"
#include "support/element_machine.h"
#include "support/test.h"

#include <math.h>

#define SYMBOLS "symbol S 9\nsymbol T 6\n"
#define X       "%1 = input() name=\"x\" shape=[S, 12]\n"
#define Y       "%2 = input() name=\"y\" shape=[T, 1, 12]\n"
#define KEY     "%1 = input() name=\"key\" dtype=i32 shape=[3]\n"

static const struct {
  const char *name, *source;
} rows[] = {
    {"broadcast", X Y "%3 = add(%1, %2) : f32[T, S, 12]\n%4 = silu(%3)\n%5 = gt(%4, %1)\n"
                      "%6 = where(%5, %4, %2)\noutput \"a\" %6\n"},
    {"draws", KEY "%2 = normal(%1) dtype=f32 shape=[S, T] mean=0 std=1 stream=1\n"
                  "%3 = uniform(%1) dtype=f16 shape=[T, 3, S] lo=-1 hi=2 stream=2\n"
                  "%4 = randint(%1) shape=[S+T, 5] lo=3 hi=90 stream=3\n"
                  "%5 = normal(%1) dtype=f32 shape=[S, 4] mean=2 std=0.5 stream=5\n"
                  "%6 = dropout(%5, %1) p=0.5 stream=6\n"
                  "output \"a\" %2\noutput \"b\" %3\noutput \"c\" %4\noutput \"d\" %6\n"},
    {"views", X Y "%3 = reshape(%1) shape=[S, 3, 4]\n%4 = transpose(%3) perm=[1, 0, 2]\n"
                  "%5 = reshape(%4) shape=[3*S, 4]\n%6 = flip(%5) axes=[0]\n"
                  "%7 = reshape(%6) shape=[3, -1]\n%8 = expand(%2) shape=[T, S, 12]\n"
                  "%9 = slice(%8) axis=2 start=2 stop=10 step=2\n"
                  "%10 = concat(%9, %9) axis=0\noutput \"a\" %7\noutput \"b\" %10\n"},
    {"reductions", X Y "%3 = add(%1, %2)\n%4 = sum(%3) axes=[1]\n%5 = max(%3) axes=[-1]\n"
                       "%6 = matmul(%1, %1) trans_b=true : f32[S, S]\n"
                       "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\n"},
};

static const int64_t bindings[][2] = {{1, 1}, {3, 2}, {4, 5}, {7, 3}};

typedef struct walk {
  sn_graph *g;
  const int64_t *symbols;
  arena memory;
  ref_tensor *tensors; /* by value */
} walk;

static bool allocate(walk *w, ref_tensor *t, sn_type type) {
  *t = (ref_tensor){.dtype = type.dtype, .rank = type.shape.rank, .count = 1};
  for (int d = 0; d < t->rank; d++) {
    if (!CHECK(dim_eval(w->g, type.shape.dim[d], w->symbols, &t->dim[d])))
      return false;
    t->count *= t->dim[d];
  }
  t->data = arena_array(&w->memory, (size_t)t->count, sizeof *t->data);
  return CHECK(t->data != NULL);
}

static void fill(const sn_graph *g, const node *n, ref_tensor *t) {
  for (int64_t k = 0; k < t->count; k++)
    t->data[k] = dtype_round(t->dtype, 3 * case_weight(graph_leaf_name(g, n), k));
}

/* Errors of a few roundings of numbers of this size. */
static bool same(double a, double b, sn_dtype dtype) {
  double unit = dtype == SN_F16 ? 0x1p-10 : 0x1p-20;
  if (!dtype_is_float(dtype) || isnan(a) || isinf(a))
    return a == b || (isnan(a) && isnan(b));
  return fabs(a - b) <= unit * fmax(1, fabs(a));
}

static void check_node(walk *w, const node *n) {
  ref_tensor in[MAX_INPUTS] = {0}, *out = &w->tensors[n->first], got;
  const op_desc *op = graph_op(w->g, n);
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].id)
      in[i] = w->tensors[n->in[i].id];
  if (!op->impl->ref) {
    fill(w->g, n, out);
    return;
  }
  if (!CHECK(ref_node(w->g, w->symbols, REF_F32, n, in, out) == SN_OK) || !op->impl->element ||
      !allocate(w, &got, w->g->values[n->first].type))
    return;
  if (element_node(w->g, w->symbols, n, in, &got) != SN_OK)
    FAIL("%s: %s", op->name, sn_ctx_message(w->g->ctx));
  for (int64_t k = 0; k < got.count; k++)
    if (!same(out->data[k], got.data[k], got.dtype)) {
      FAIL("%s: element %lld: the definition says %.9g, element %.9g", op->name, (long long)k,
           out->data[k], got.data[k]);
      return;
    }
}

static void walk_graph(sn_graph *g, const int64_t *symbols) {
  walk w = {.g = g, .symbols = symbols};
  arena_init(&w.memory, g->ctx);
  w.tensors = arena_array(&w.memory, g->n_values + 1, sizeof *w.tensors);
  bool ready = CHECK(w.tensors != NULL);
  for (uint32_t v = 1; ready && v < g->n_values; v++)
    ready = allocate(&w, &w.tensors[v], g->values[v].type);
  for (uint32_t k = 0; ready && k < g->n_nodes; k++)
    check_node(&w, &g->nodes[k]);
  arena_clear(&w.memory);
}

TEST_WALK(symbolic) {
  for (size_t r = 0; r < COUNT_OF(rows); r++) {
    sn_ctx *ctx;
    sn_graph *g = NULL;
    char source[2048] = SYMBOLS;
    if (!test_begin("%s", rows[r].name))
      continue;
    strncat(source, rows[r].source, sizeof source - sizeof SYMBOLS);
    if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
      if (graph_parse(ctx, op_table_get(), source, &g) != SN_OK)
        FAIL("%s", sn_ctx_message(ctx));
      for (size_t b = 0; g && b < COUNT_OF(bindings); b++)
        walk_graph(g, bindings[b]);
      sn_graph_destroy(g);
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}
