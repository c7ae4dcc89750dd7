/* See oracle.h. */
#include "support/oracle.h"

#include "ir/dtype.h"
#include "ops/table.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Both sides compute in double and round once, to nine digits or to the dtype. Below FLOOR times its
 * tolerance a difference is absolute: sums that cancel leave noise. */
static const double RESULT_TOLERANCE = 3e-7, GRADIENT_TOLERANCE = 1e-7, FLOOR = 1e-2;

/* --- reading --- */

/* A list of tensors, read as the arguments of a case; nothing is built from it. */
static sn_status read_list(oracle_line *l, const char *text, case_tensor *out, int max,
                           int *out_n) {
  op_test_case list;
  sn_ctx *ctx = l->c.ctx;
  size_t size = strlen(text) + sizeof "concat()";
  char *source = arena_alloc(&l->c.memory, size);
  if (!source)
    return SN_ERR_NO_MEMORY;
  snprintf(source, size, "concat(%s)", text);
  SN_TRY(case_load(ctx, l->c.table, source, &list));
  sn_status status = list.n_in <= max ? SN_OK : diag_fail(ctx, SN_ERR_FORMAT, "too many tensors");
  for (int i = 0; status == SN_OK && i < list.n_in; i++) {
    out[i] = list.in[i];
    if (out[i].type.dtype == SN_NO_DTYPE)
      continue;
    out[i].data = arena_copy(&l->c.memory, list.in[i].data, (size_t)out[i].count * sizeof(double));
    status = out[i].data ? SN_OK : SN_ERR_NO_MEMORY;
  }
  *out_n = list.n_in;
  case_free(&list);
  return status;
}

static sn_status read_section(oracle_line *l, const char *text) {
  if (strncmp(text, "w ", 2) == 0)
    return read_list(l, text + 2, l->weights, MAX_RESULTS, &l->n_weights);
  if (strncmp(text, "grad ", 5) == 0)
    return read_list(l, text + 5, l->grads, CASE_MAX_INPUTS, &l->n_grads);
  if (strncmp(text, "tol=", 4) == 0) {
    l->tolerance = strtod(text + 4, NULL);
    return l->tolerance > 0 ? SN_OK : diag_fail(l->c.ctx, SN_ERR_FORMAT, "bad tolerance");
  }
  return diag_fail(l->c.ctx, SN_ERR_FORMAT, "expected w, grad or tol= at '%.30s'", text);
}

/* Nine digits name an f32, but are not it: gradients are run in double. */
static void round_inputs(op_test_case *c) {
  for (int i = 0; i < c->n_in; i++)
    for (int64_t k = 0; k < c->in[i].count; k++)
      c->in[i].data[k] = dtype_round(c->in[i].type.dtype, c->in[i].data[k]);
}

/* The parts of `text`, which is cut at its semicolons. */
static sn_status read_sections(oracle_line *l, char *text) {
  sn_status status = SN_OK;
  for (char *next; status == SN_OK && text; text = next) {
    next = strchr(text, ';');
    if (next)
      *next++ = '\0';
    while (*text == ' ')
      text++;
    status = read_section(l, text);
  }
  if (status == SN_OK && (l->n_weights > 0) != (l->n_grads > 0))
    status = diag_fail(l->c.ctx, SN_ERR_FORMAT, "w and grad stand together");
  if (status == SN_OK && l->n_grads > 0 && l->n_grads != l->c.n_in)
    status = diag_fail(l->c.ctx, SN_ERR_FORMAT, "one gradient or none for each input");
  return status;
}

sn_status oracle_load(sn_ctx *ctx, const op_table *table, const char *source, oracle_line *out) {
  *out = (oracle_line){0};
  size_t n = strcspn(source, "#\n");
  char *text = malloc(n + 1);
  if (!text)
    return SN_ERR_NO_MEMORY;
  memcpy(text, source, n);
  text[n] = '\0';
  char *rest = strchr(text, ';');
  if (rest)
    *rest++ = '\0';
  sn_status status = case_load(ctx, table, text, &out->c);
  if (status == SN_OK) {
    round_inputs(&out->c);
    if (out->c.n_expected == 0)
      status = diag_fail(ctx, SN_ERR_FORMAT, "no results are given");
    if (status == SN_OK && rest)
      status = read_sections(out, rest);
    if (status != SN_OK)
      case_free(&out->c);
  }
  free(text);
  return status;
}

void oracle_free(oracle_line *l) { case_free(&l->c); }

/* --- comparing --- */

/* One unit of an f16 or bf16 of this size. */
static double unit_of(sn_dtype dtype, double x) {
  int digits = dtype == SN_F16 ? 11 : 8, smallest = dtype == SN_F16 ? -24 : -133, exponent;
  frexp(x, &exponent);
  return ldexp(1, exponent - digits > smallest ? exponent - digits : smallest);
}

static bool near(double expected, double got, double slack) {
  if (isnan(expected) || isnan(got))
    return isnan(expected) && isnan(got);
  if (isinf(expected) || isinf(got))
    return expected == got;
  return fabs(expected - got) <= slack;
}

static double slack_of(const oracle_line *l, sn_dtype dtype, double x) {
  if (!dtype_is_float(dtype))
    return 0;
  double usual = dtype == SN_F32 ? RESULT_TOLERANCE * fmax(fabs(x), FLOOR) : unit_of(dtype, x);
  return l->tolerance > 0 ? fmax(usual, l->tolerance * fmax(1, fabs(x))) : usual;
}

static void check_results(oracle_line *l, const sn_graph *g, const char *place,
                          oracle_counts *counts) {
  arena memory;
  arena_init(&memory, l->c.ctx);
  case_tensor results[MAX_RESULTS] = {0};
  sn_status status = case_run(&l->c, g, REF_F32, &memory, results);
  if (status != SN_OK)
    FAIL("%s: %s: %s", place, sn_status_name(status), sn_ctx_message(l->c.ctx));
  for (int k = 0; status == SN_OK && k < l->c.n_expected; k++) {
    const case_tensor *e = &l->c.expected[k];
    if (!type_equal(e->type, results[k].type)) {
      FAIL("%s: the type of result %d differs", place, k);
      continue;
    }
    for (int64_t i = 0; i < e->count; i++, counts->values++)
      if (!near(e->data[i], results[k].data[i], slack_of(l, e->type.dtype, e->data[i])))
        FAIL("%s: result %d element %lld: expected %.9g, got %.9g", place, k, (long long)i,
             e->data[i], results[k].data[i]);
  }
  arena_clear(&memory);
}

/* loss = sum over the weighted results of sum(result * w). The weights become inputs of the case. */
static sn_value build_loss(oracle_line *l, sn_graph *g, sn_value first) {
  sn_value loss = SN_NONE;
  op_test_case *c = &l->c;
  for (int k = 0; k < l->n_weights && c->n_in < CASE_MAX_INPUTS; k++) {
    if (l->weights[k].type.dtype == SN_NO_DTYPE)
      continue;
    char name[16];
    snprintf(name, sizeof name, "in%d", c->n_in);
    sn_value y = sn_value_result(g, first, k);
    sn_value w = sn_input(g, name, l->weights[k].type.dtype, l->weights[k].type.shape);
    sn_value part = sn_sum(g, sn_mul(g, y, w), SN_ALL_AXES, false);
    loss = loss.id ? sn_add(g, loss, part) : part;
    c->in[c->n_in++] = l->weights[k];
  }
  return loss;
}

static void compare_gradients(oracle_line *l, const char *place, const int *at, int n,
                              const case_tensor *got, oracle_counts *counts) {
  double tolerance = l->tolerance > 0 ? l->tolerance : GRADIENT_TOLERANCE;
  for (int k = 0; k < n; k++) {
    const case_tensor *e = &l->grads[at[k]];
    if (!type_equal(e->type, got[k].type)) {
      FAIL("%s: the type of the gradient of input %d differs", place, at[k]);
      continue;
    }
    for (int64_t i = 0; i < e->count; i++, counts->gradients++)
      if (!near(e->data[i], got[k].data[i], tolerance * fmax(1, fabs(e->data[i]))))
        FAIL("%s: gradient of input %d element %lld: expected %.9g, got %.9g", place, at[k],
             (long long)i, e->data[i], got[k].data[i]);
  }
}

static void check_gradients(oracle_line *l, sn_graph *g, sn_value first, const char *place,
                            oracle_counts *counts) {
  sn_value wrt[CASE_MAX_INPUTS], grads[CASE_MAX_INPUTS];
  int at[CASE_MAX_INPUTS], n = 0;
  for (int i = 0; i < l->n_grads; i++)
    if (l->grads[i].type.dtype != SN_NO_DTYPE) {
      at[n] = i;
      wrt[n++] = case_input(&l->c, g, i);
    }
  g->n_outputs = 0;
  sn_value loss = build_loss(l, g, first);
  if (sn_grad(g, loss, wrt, n, grads) != SN_OK) {
    FAIL("%s: gradient: %s", place, sn_graph_message(g));
    return;
  }
  for (int k = 0; k < n; k++) {
    char name[16];
    snprintf(name, sizeof name, "d%d", k);
    sn_output(g, name, grads[k]);
  }
  arena memory;
  arena_init(&memory, l->c.ctx);
  case_tensor results[CASE_MAX_INPUTS] = {0};
  if (case_run(&l->c, g, REF_F64, &memory, results) != SN_OK)
    FAIL("%s: gradient: %s", place, sn_ctx_message(l->c.ctx));
  else
    compare_gradients(l, place, at, n, results, counts);
  arena_clear(&memory);
  counts->gradient_lines++;
}

void oracle_check(oracle_line *l, const char *place, oracle_counts *counts) {
  sn_graph *g = NULL;
  sn_value first;
  counts->lines++;
  if (case_graph(&l->c, &g, &first) != SN_OK) {
    FAIL("%s: %s", place, sn_ctx_message(l->c.ctx));
  } else {
    check_results(l, g, place, counts);
    if (l->n_grads > 0)
      check_gradients(l, g, first, place, counts);
  }
  sn_graph_destroy(g);
}
