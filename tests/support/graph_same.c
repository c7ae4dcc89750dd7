/* See graph_same.h. */
#include "support/graph_same.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/case.h"

#include <math.h>
#include <stdio.h>

static double drawn(const graph_same *s, const char *name, sn_dtype dtype, int64_t i) {
  if (s->fill)
    return s->fill(s->user, name, dtype, i);
  if (dtype_is_float(dtype))
    return case_weight(name, i);
  int64_t whole = (int64_t)floor(fabs(case_weight(name, i)) * 4);
  return (double)(dtype == SN_BOOL ? whole & 1 : whole);
}

static sn_status run(const graph_same *s, const sn_graph *g, ref_machine *m) {
  static const int64_t none[1] = {0};
  SN_TRY(ref_start(m, g, s->bindings ? s->bindings : none, s->mode));
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    ref_tensor *t = &m->tensors[n->first];
    for (int64_t k = 0; m->live[i] && t->data && k < t->count; k++)
      if (n->op == OP_constant)
        t->data[k] = dtype_load(t->dtype, ((const attrs_constant *)n->attrs)->data.data, k);
      else
        t->data[k] = dtype_round(t->dtype, drawn(s, graph_leaf_name(g, n), t->dtype, k));
  }
  sn_status status = ref_execute(m, NULL);
  if (status != SN_OK)
    ref_end(m);
  return status;
}

static bool near(const graph_same *s, const char *what, const ref_tensor *a, const ref_tensor *b,
                 char *why, size_t size) {
  double most = 0;
  if (a->count != b->count || a->dtype != b->dtype) {
    snprintf(why, size, "%s: types differ", what);
    return false;
  }
  for (int64_t i = 0; i < a->count; i++)
    if (isfinite(a->data[i]) && fabs(a->data[i]) > most)
      most = fabs(a->data[i]);
  for (int64_t i = 0; i < a->count; i++) {
    double x = a->data[i], y = b->data[i];
    bool equal = x == y || isnan(x) || (isinf(x) && !isfinite(y)) ||
                 fabs(x - y) <= s->tolerance * fmax(most, 1e-6);
    if (!equal) {
      snprintf(why, size, "%s: element %lld of %lld: %.9g and %.9g", what, (long long)i,
               (long long)a->count, x, y);
      return false;
    }
  }
  return true;
}

static sn_value find_assigned(const sn_graph *g, const char *name) {
  for (int i = 0; i < g->n_assigns; i++)
    if (strcmp(graph_leaf_name(g, graph_node(g, g->assigns[i].state)), name) == 0)
      return g->assigns[i].value;
  return SN_NONE;
}

static bool compare(const graph_same *s, const ref_machine *x, const ref_machine *y, char *why,
                    size_t size) {
  const sn_graph *a = x->graph, *b = y->graph;
  if (a->n_outputs != b->n_outputs || a->n_assigns != b->n_assigns) {
    snprintf(why, size, "outputs or assigns are missing");
    return false;
  }
  for (int i = 0; i < a->n_outputs; i++)
    if (strcmp(a->outputs[i].name, b->outputs[i].name) != 0 ||
        !near(s, a->outputs[i].name, &x->tensors[a->outputs[i].value.id],
              &y->tensors[b->outputs[i].value.id], why, size))
      return false;
  for (int i = 0; i < a->n_assigns; i++) {
    const char *name = graph_leaf_name(a, graph_node(a, a->assigns[i].state));
    sn_value v = find_assigned(b, name);
    if (!v.id || !near(s, name, &x->tensors[a->assigns[i].value.id], &y->tensors[v.id], why, size))
      return false;
  }
  return true;
}

graph_verdict graph_compare(const graph_same *s, const sn_graph *a, const sn_graph *b, char *why,
                            size_t size) {
  ref_machine x, y;
  snprintf(why, size, "?");
  if (run(s, a, &x) != SN_OK) {
    snprintf(why, size, "%s", sn_ctx_message(a->ctx));
    return GRAPHS_FAIL;
  }
  if (run(s, b, &y) != SN_OK) {
    snprintf(why, size, "the second fails: %s", sn_ctx_message(a->ctx));
    ref_end(&x);
    return GRAPHS_DIFFER;
  }
  bool same = compare(s, &x, &y, why, size);
  ref_end(&x);
  ref_end(&y);
  return same ? GRAPHS_AGREE : GRAPHS_DIFFER;
}
