/* The checks of an op, each a function of one case; and the demands on its list of cases. */
#include "support/op_walk.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

/* Step of the central differences: twice this stays clear of the lattice's kinks (case.h). */
static const double STEP = 4e-4;
static const double GRADIENT_TOLERANCE = 1e-6;
static const double DECOMPOSE_TOLERANCE = 1e-9;

static const struct {
  const char *op;
  op_demand demand;
  const char *why;
} exemptions[] = {
    {"constant", DEMAND_PRIME, "a leaf: nothing is computed from its size"},
};

static const char *const demand_names[] = {"a size of 0", "a prime size", "a size of 1",
                                           "a case that must fail"};

const char *op_walk_exempt(const char *op, op_demand demand) {
  for (size_t i = 0; i < COUNT_OF(exemptions); i++)
    if (strcmp(exemptions[i].op, op) == 0 && exemptions[i].demand == demand)
      return exemptions[i].why;
  return NULL;
}

void op_walk_print_exemptions(const op_table *table) {
  for (size_t i = 0; i < COUNT_OF(exemptions); i++)
    printf("exempt: %s needs not have %s: %s\n", exemptions[i].op,
           demand_names[exemptions[i].demand], exemptions[i].why);
  for (int i = 1; i < table->n; i++)
    if (table->ops[i].impl && table->ops[i].impl->no_grad)
      printf("exempt: %s has no gradient: %s\n", table->ops[i].name, table->ops[i].impl->no_grad);
}

/* --- one case --- */

typedef struct walk {
  const op_case *row;
  op_test_case c;
  sn_graph *g;
  sn_value first;
  op_walk_counts *counts;
} walk;

static void check_error_case(sn_ctx *ctx, const op_table *table, const op_case *row) {
  op_test_case c;
  sn_graph *g = NULL;
  sn_value first;
  if (case_load(ctx, table, row->text, &c) != SN_OK) {
    FAIL("%s: %s", row->text, sn_ctx_message(ctx));
    return;
  }
  sn_status status = case_graph(&c, &g, &first);
  if (!CHECK(status == SN_ERR_INVALID || status == SN_ERR_FORMAT))
    FAIL("%s: expected an error with '%s'", row->text, row->error);
  else
    CHECK_STR_HAS(sn_ctx_message(ctx), row->error);
  sn_graph_destroy(g);
  case_free(&c);
}

static void check_round_trip(walk *w) {
  char *once = NULL, *twice = NULL;
  sn_graph *again = NULL;
  if (CHECK(sn_graph_print(w->g, &once) == SN_OK)) {
    if (graph_parse(w->c.ctx, w->c.table, once, &again) != SN_OK)
      FAIL("%s: does not parse back: %s", w->row->text, sn_ctx_message(w->c.ctx));
    else if (CHECK(sn_graph_print(again, &twice) == SN_OK))
      CHECK_EQ_STR(once, twice);
  }
  sn_text_free(w->c.ctx, once);
  sn_text_free(w->c.ctx, twice);
  sn_graph_destroy(again);
  w->counts->checks++;
}

static bool same(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b))
    return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b))
    return a == b;
  return fabs(a - b) <= tolerance * fmax(1, fmax(fabs(a), fabs(b)));
}

static void check_runs(walk *w) {
  arena memory;
  arena_init(&memory, w->c.ctx);
  case_tensor results[MAX_RESULTS] = {0};
  if (case_run(&w->c, w->g, REF_F32, &memory, results) != SN_OK)
    FAIL("%s: %s", w->row->text, sn_ctx_message(w->c.ctx));
  for (int k = 0; k < w->c.n_expected; k++) {
    const case_tensor *e = &w->c.expected[k];
    if (!CHECK(type_equal(e->type, results[k].type)))
      continue;
    double tolerance = dtype_is_float(e->type.dtype) ? 1e-6 : 0;
    for (int64_t i = 0; i < e->count; i++)
      if (!same(e->data[i], results[k].data[i], tolerance))
        FAIL("%s: result %d element %lld: expected %.9g, got %.9g", w->row->text, k, (long long)i,
             e->data[i], results[k].data[i]);
  }
  w->counts->checks++;
  arena_clear(&memory);
}

static void compare_decomposed(walk *w, sn_graph *d, arena *memory) {
  case_tensor results[2 * MAX_RESULTS] = {0};
  if (case_run(&w->c, d, REF_F64, memory, results) != SN_OK) {
    FAIL("%s: decomposed: %s", w->row->text, sn_ctx_message(w->c.ctx));
    return;
  }
  int n = w->c.op->n_results;
  for (int k = 0; k < n; k++) {
    if (!CHECK(type_equal(results[k].type, results[n + k].type)))
      continue;
    for (int64_t i = 0; i < results[k].count; i++)
      if (!same(results[k].data[i], results[n + k].data[i], DECOMPOSE_TOLERANCE)) {
        FAIL("%s: decomposed: result %d element %lld: ref %.17g, decomposed %.17g", w->row->text, k,
             (long long)i, results[k].data[i], results[n + k].data[i]);
        break;
      }
  }
}

static void check_decompose(walk *w) {
  if (!w->c.op->impl->decompose)
    return;
  sn_graph *d;
  sn_value first, out[MAX_RESULTS] = {0};
  if (!CHECK(case_graph(&w->c, &d, &first) == SN_OK))
    return;
  const node *n = graph_node(d, first);
  build_ctx c = {
      .graph = d, .attrs = n->attrs, .n_in = n->n_in, .n_out = n->n_out, .in = n->in, .out = out};
  w->c.op->impl->decompose(&c);
  for (int k = 0; k < w->c.op->n_results; k++) {
    char name[32];
    snprintf(name, sizeof name, "decomposed%d", k);
    sn_output(d, name, out[k]);
  }
  arena memory;
  arena_init(&memory, w->c.ctx);
  if (d->status != SN_OK)
    FAIL("%s: decompose: %s", w->row->text, sn_graph_message(d));
  else
    compare_decomposed(w, d, &memory);
  w->counts->checks++;
  w->counts->decompositions++;
  arena_clear(&memory);
  sn_graph_destroy(d);
}

/* --- gradients --- */

static bool finite_inputs(const op_test_case *c) {
  for (int i = 0; i < c->n_in; i++)
    for (int64_t k = 0; k < c->in[i].count; k++)
      if (!isfinite(c->in[i].data[k]))
        return false;
  return true;
}

/* sum(y * w). The walk of sum itself takes a matrix product instead: a vjp of the wrong sign that is passed
 * twice would not be seen. */
static sn_value weighted_sum(sn_graph *g, const op_desc *op, sn_value y, sn_value w) {
  if (strcmp(op->name, "sum") != 0)
    return sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false);
  sn_value row = sn_reshape(g, y, SN_SHAPE(1, -1)), column = sn_reshape(g, w, SN_SHAPE(-1, 1));
  return sn_reshape(g, sn_matmul(g, row, column, false, false), SN_SCALAR);
}

/* loss = sum over the float results of sum(result * w), in a graph of its own. */
static sn_value build_loss(sn_graph *g, sn_value first, const op_desc *op) {
  sn_value loss = SN_NONE;
  for (int k = 0; k < op->n_results; k++) {
    sn_value y = sn_value_result(g, first, k);
    sn_type t = sn_value_type(g, y);
    if (!dtype_is_float(t.dtype))
      continue;
    char name[32];
    snprintf(name, sizeof name, "w%d", k);
    sn_value w = sn_input(g, name, t.dtype, t.shape);
    sn_value part = weighted_sum(g, op, y, w);
    loss = loss.id ? sn_add(g, loss, sn_cast(g, part, sn_value_type(g, loss).dtype)) : part;
  }
  return loss;
}

static double loss_at(walk *w, const sn_graph *g, double *x, double value) {
  arena memory;
  arena_init(&memory, w->c.ctx);
  case_tensor result = {0};
  double kept = *x, loss = NAN;
  *x = value;
  if (case_run(&w->c, g, REF_F64, &memory, &result) == SN_OK && result.count == 1)
    loss = result.data[0];
  *x = kept;
  arena_clear(&memory);
  return loss;
}

static double difference(walk *w, const sn_graph *g, double *x) {
  double h = STEP, at = *x;
  double near = loss_at(w, g, x, at + h) - loss_at(w, g, x, at - h);
  double far = loss_at(w, g, x, at + 2 * h) - loss_at(w, g, x, at - 2 * h);
  return (8 * near - far) / (12 * h);
}

static void compare_gradient(walk *w, const sn_graph *forward, int i, const case_tensor *analytic) {
  case_tensor *x = &w->c.in[i];
  double scale = 0;
  for (int64_t k = 0; k < x->count; k++)
    scale = fmax(scale, fabs(analytic->data[k]));
  for (int64_t k = 0; k < x->count; k++) {
    double expected = difference(w, forward, &x->data[k]), got = analytic->data[k];
    double size = fmax(fmax(fabs(expected), fabs(got)), fmax(0.01 * scale, 1e-3));
    w->counts->gradients++;
    if (!(fabs(expected - got) <= GRADIENT_TOLERANCE * size)) {
      FAIL("%s: gradient of %s[%lld]: differences give %.12g, the vjp gives %.12g", w->row->text,
           w->c.op->on_list ? "an input" : w->c.op->inputs[i].name, (long long)k, expected, got);
      return;
    }
  }
}

static void check_gradients(walk *w) {
  sn_graph *g, *forward;
  sn_value first, wrt[CASE_MAX_INPUTS], grads[CASE_MAX_INPUTS];
  int at[CASE_MAX_INPUTS], n = 0;
  if (!CHECK(case_graph(&w->c, &g, &first) == SN_OK))
    return;
  if (!CHECK(case_graph(&w->c, &forward, &first) == SN_OK)) {
    sn_graph_destroy(g);
    return;
  }
  g->n_outputs = forward->n_outputs = 0;
  sn_value loss = build_loss(g, first, w->c.op);
  for (int i = 0; i < w->c.n_in; i++)
    if (dtype_is_float(w->c.in[i].type.dtype)) {
      at[n] = i;
      wrt[n++] = case_input(&w->c, g, i);
    }
  arena memory;
  arena_init(&memory, w->c.ctx);
  case_tensor results[CASE_MAX_INPUTS] = {0};
  if (n > 0 && loss.id) {
    sn_output(forward, "loss", build_loss(forward, first, w->c.op));
    sn_status status = sn_grad(g, loss, wrt, n, grads);
    if (w->c.op->impl->no_grad) {
      CHECK(status != SN_OK);
      CHECK_STR_HAS(sn_ctx_message(w->c.ctx), w->c.op->impl->no_grad);
    } else if (status != SN_OK) {
      FAIL("%s: grad: %s", w->row->text, sn_graph_message(g));
    } else {
      for (int k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "d%d", k);
        sn_output(g, name, grads[k]);
      }
      CHECK(sn_graph_verify(g) == SN_OK);
      if (case_run(&w->c, g, REF_F64, &memory, results) != SN_OK)
        FAIL("%s: gradient graph: %s", w->row->text, sn_ctx_message(w->c.ctx));
      else
        for (int k = 0; k < n && !w->c.kink && finite_inputs(&w->c); k++)
          compare_gradient(w, forward, at[k], &results[k]);
    }
    w->counts->checks++;
  }
  arena_clear(&memory);
  sn_graph_destroy(g);
  sn_graph_destroy(forward);
}

/* A leaf is what its attributes say. */
static void check_leaf(walk *w) {
  const node *n = graph_node(w->g, w->first);
  sn_type is = sn_value_type(w->g, w->first);
  CHECK(is.dtype == *(const sn_dtype *)attr_at(n->attrs, attr_find(w->c.op, "dtype")));
  CHECK(shape_equal(is.shape, *(const sn_shape *)attr_at(n->attrs, attr_find(w->c.op, "shape"))));
}

static void check_case(walk *w) {
  CHECK(sn_graph_verify(w->g) == SN_OK);
  check_round_trip(w);
  if (!w->c.op->impl->ref) {
    check_leaf(w);
    return;
  }
  check_runs(w);
  check_decompose(w);
  check_gradients(w);
}

/* --- the list of cases --- */

typedef struct coverage {
  bool zero, one, prime, error;
  uint64_t first_attr[16]; /* hash of the first value seen */
  bool varied[16], negative[16];
} coverage;

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0)
      return false;
  return n > 2;
}

static void see_shape(coverage *v, const sn_shape *s) {
  for (int d = 0; d < s->rank; d++) {
    v->zero = v->zero || s->dim[d] == 0;
    v->one = v->one || s->dim[d] == 1;
    v->prime = v->prime || is_prime(s->dim[d]);
  }
}

static size_t attr_size(const attr_desc *a) {
  static const size_t sizes[] = {[ATTR_INT] = sizeof(int64_t),
                                 [ATTR_DIM] = sizeof(sn_dim),
                                 [ATTR_REAL] = sizeof(double),
                                 [ATTR_FLAG] = sizeof(bool),
                                 [ATTR_DTYPE] = sizeof(sn_dtype),
                                 [ATTR_INTS] = sizeof(sn_ints),
                                 [ATTR_SHAPE] = sizeof(sn_shape),
                                 [ATTR_STR] = sizeof(char *),
                                 [ATTR_BYTES] = 0,
                                 [ATTR_ENUM] = sizeof(int),
                                 [ATTR_STREAM] = sizeof(int64_t)};
  return sizes[a->kind];
}

static uint64_t attr_hash(const attr_desc *a, const void *at) {
  if (a->kind == ATTR_STR)
    return hash_string(HASH_SEED, *(const char *const *)at);
  if (a->kind == ATTR_BYTES)
    return hash_bytes(HASH_SEED, ((const sn_bytes *)at)->data, ((const sn_bytes *)at)->size);
  return hash_bytes(HASH_SEED, at, attr_size(a));
}

static void see_case(coverage *v, const walk *w, bool first_case) {
  const node *n = graph_node(w->g, w->first);
  for (int i = 0; i < w->c.n_in; i++)
    see_shape(v, &w->c.in[i].type.shape);
  for (int k = 0; k < n->n_out; k++)
    see_shape(v, &w->g->values[n->first + (uint32_t)k].type.shape);
  for (int i = 0; i < w->c.op->n_attrs && i < 16; i++) {
    const attr_desc *a = &w->c.op->attrs[i];
    const void *at = attr_at(n->attrs, a);
    uint64_t h = attr_hash(a, at);
    if (first_case)
      v->first_attr[i] = h;
    v->varied[i] = v->varied[i] || h != v->first_attr[i];
    if (a->kind == ATTR_INT && *(const int64_t *)at < 0)
      v->negative[i] = true;
    for (int k = 0; a->kind == ATTR_INTS && k < ((const sn_ints *)at)->n; k++)
      v->negative[i] = v->negative[i] || ((const sn_ints *)at)->v[k] < 0;
  }
}

static void demand(const op_desc *op, bool met, op_demand d) {
  if (!met && !op_walk_exempt(op->name, d))
    FAIL("%s: no case has %s", op->name, demand_names[d]);
}

static void check_coverage(const op_desc *op, const coverage *v) {
  demand(op, v->zero, DEMAND_ZERO_SIZE);
  demand(op, v->one, DEMAND_ONE);
  demand(op, v->prime, DEMAND_PRIME);
  demand(op, v->error, DEMAND_ERROR_CASE);
  for (int i = 0; i < op->n_attrs && i < 16; i++) {
    const char *name = op->attrs[i].name;
    if (!v->varied[i])
      FAIL("%s: attribute %s is the same in all cases", op->name, name);
    bool axis =
        strcmp(name, "axis") == 0 || (op->attrs[i].kind == ATTR_INTS && strcmp(name, "axes") == 0);
    if (axis && !v->negative[i])
      FAIL("%s: no case has a negative %s", op->name, name);
  }
}

static void check_row(const op_desc *op) {
  const op_impl *m = op->impl;
  CHECK_EQ_INT((m->grad != NULL) + m->grad_by_decompose + (m->no_grad != NULL), 1);
  CHECK(!m->grad_by_decompose || m->decompose);
  CHECK(m->infer && m->cases && m->n_cases > 0);
  CHECK(strlen(op->meaning) > 3);
}

void op_walk(const op_table *table, int op, op_walk_counts *counts) {
  const op_desc *d = &table->ops[op];
  coverage v = {0};
  bool first_case = true;
  if (!CHECK(d->impl != NULL))
    return;
  counts->ops++;
  check_row(d);
  for (int i = 0; i < d->impl->n_cases; i++) {
    sn_ctx *ctx;
    if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
      return;
    walk w = {.row = &d->impl->cases[i], .counts = counts};
    if (w.row->error) {
      check_error_case(ctx, table, w.row);
      v.error = true;
      counts->error_cases++;
    } else if (case_load(ctx, table, w.row->text, &w.c) != SN_OK) {
      FAIL("%s: %s", w.row->text, sn_ctx_message(ctx));
    } else {
      if (!CHECK(w.c.op == d) || case_graph(&w.c, &w.g, &w.first) != SN_OK) {
        FAIL("%s: %s", w.row->text, sn_ctx_message(ctx));
      } else {
        see_case(&v, &w, first_case);
        first_case = false;
        check_case(&w);
      }
      counts->cases++;
      sn_graph_destroy(w.g);
      case_free(&w.c);
    }
    sn_ctx_destroy(ctx);
  }
  check_coverage(d, &v);
}
