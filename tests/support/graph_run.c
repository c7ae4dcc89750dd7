/* See graph_run.h. */
#include "support/graph_run.h"

#include "ir/dtype.h"
#include "ops/table.h"
#include "support/test.h"

#include <math.h>

bool graph_run_start(graph_run *r) {
  *r = (graph_run){0};
  if (!CHECK(sn_ctx_create(NULL, &r->ctx) == SN_OK))
    return false;
  arena_init(&r->memory, r->ctx);
  return CHECK(graph_create(r->ctx, op_table_get(), &r->g) == SN_OK);
}

void graph_run_end(graph_run *r) {
  if (r->ctx)
    arena_clear(&r->memory);
  sn_graph_destroy(r->g);
  sn_ctx_destroy(r->ctx);
  *r = (graph_run){0};
}

static void fill(const graph_run *r, const node *n, ref_tensor *t) {
  const char *name = n->op == OP_constant ? NULL : graph_leaf_name(r->g, n);
  for (int64_t i = 0; i < t->count; i++)
    t->data[i] = name ? case_weight(name, i)
                      : dtype_load(t->dtype, ((const attrs_constant *)n->attrs)->data.data, i);
  if (name && r->moved && strcmp(name, r->moved) == 0)
    t->data[r->moved_index] += r->moved_by;
}

static sn_status keep_outputs(graph_run *r, const ref_machine *m) {
  for (int k = 0; k < r->g->n_outputs && k < GRAPH_RUN_OUTPUTS; k++) {
    r->out[k] = m->tensors[r->g->outputs[k].value.id];
    r->out[k].data =
        arena_copy(&r->memory, r->out[k].data, (size_t)r->out[k].count * sizeof(double));
    if (!r->out[k].data)
      return SN_ERR_NO_MEMORY;
  }
  return SN_OK;
}

sn_status graph_run_status(graph_run *r, const int64_t *bindings) {
  int64_t none[1] = {0};
  ref_machine m;
  SN_TRY(sn_graph_status(r->g));
  SN_TRY(sn_graph_verify(r->g));
  SN_TRY(ref_start(&m, r->g, bindings ? bindings : none, REF_F64));
  for (uint32_t i = 0; i < r->g->n_nodes; i++)
    if (m.live[i] && m.tensors[r->g->nodes[i].first].data)
      fill(r, &r->g->nodes[i], &m.tensors[r->g->nodes[i].first]);
  sn_status status = ref_execute(&m, NULL);
  if (status == SN_OK)
    status = keep_outputs(r, &m);
  ref_end(&m);
  return status;
}

bool graph_run_execute(graph_run *r, const int64_t *bindings) {
  return graph_run_status(r, bindings) == SN_OK || FAIL("%s", sn_ctx_message(r->ctx));
}

static double moved(graph_run *r, double by) {
  r->moved_by = by;
  bool ok = graph_run_execute(r, NULL);
  r->moved_by = 0;
  return ok ? r->out[0].data[0] : NAN;
}

double graph_run_difference(graph_run *r, const char *input, int64_t i) {
  const double h = 1e-3;
  r->moved = input;
  r->moved_index = i;
  double near = moved(r, h) - moved(r, -h), far = moved(r, 2 * h) - moved(r, -2 * h);
  r->moved = NULL;
  return (8 * near - far) / (12 * h);
}

double ref_tensor_dot(const ref_tensor *a, const ref_tensor *b) {
  double sum = 0;
  CHECK_EQ_INT(a->count, b->count);
  for (int64_t i = 0; i < a->count && i < b->count; i++)
    sum += a->data[i] * b->data[i];
  return sum;
}

bool ref_tensor_near(const char *what, const ref_tensor *a, const ref_tensor *b, double tolerance) {
  if (a->rank != b->rank || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) != 0)
    return FAIL("%s: shapes differ", what);
  for (int64_t i = 0; i < a->count; i++)
    if (!(fabs(a->data[i] - b->data[i]) <= tolerance * fmax(1, fabs(a->data[i]))))
      return FAIL("%s: element %lld: %.12g and %.12g", what, (long long)i, a->data[i], b->data[i]);
  return true;
}
