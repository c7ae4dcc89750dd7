/* See ref.h. Values are freed after their last use, so that memory follows the live set. */
#include "ref/ref.h"

#include "ir/dim.h"
#include "ir/dtype.h"

static size_t bytes_of(const ref_tensor *t) { return (size_t)t->count * sizeof(double); }

static bool is_leaf(const sn_graph *g, const node *n) { return !graph_op(g, n)->impl->ref; }

static sn_status check_bindings(const ref_machine *m) {
  const sn_graph *g = m->graph;
  for (int s = 0; s < dim_symbol_count(g); s++)
    if (m->bindings[s] < 0 || m->bindings[s] > dim_symbol_max(g, s))
      return diag_fail(g->ctx, SN_ERR_INVALID, "symbol %s: expected 0 … %lld, got %lld",
                       dim_symbol_name(g, s), (long long)dim_symbol_max(g, s),
                       (long long)m->bindings[s]);
  return SN_OK;
}

static sn_status size_value(ref_machine *m, uint32_t id) {
  const sn_graph *g = m->graph;
  const sn_type *type = &g->values[id].type;
  ref_tensor *t = &m->tensors[id];
  *t = (ref_tensor){.dtype = type->dtype, .rank = type->shape.rank, .count = 1};
  for (int d = 0; d < t->rank; d++) {
    if (!dim_eval(g, type->shape.dim[d], m->bindings, &t->dim[d]) || t->dim[d] < 0)
      return diag_fail(g->ctx, SN_ERR_INVALID,
                       "%s: dim %d of its result is %lld under these symbol values",
                       graph_op(g, &g->nodes[g->values[id].node])->name, d, (long long)t->dim[d]);
    if (!mul_fits(t->count, t->dim[d], &t->count) || t->count > INT64_MAX / 16)
      return diag_fail(g->ctx, SN_ERR_NO_MEMORY, "a value is too large");
  }
  return SN_OK;
}

static sn_status make_room(ref_machine *m, uint32_t id) {
  ref_tensor *t = &m->tensors[id];
  t->data = mem_array(m->graph->ctx, (size_t)t->count, sizeof(double));
  return t->data ? SN_OK : SN_ERR_NO_MEMORY;
}

static void drop(ref_machine *m, uint32_t id) {
  ref_tensor *t = &m->tensors[id];
  mem_free(m->graph->ctx, t->data, bytes_of(t));
  t->data = NULL;
}

static void find_last_uses(ref_machine *m) {
  const sn_graph *g = m->graph;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (int k = 0; m->live[i] && k < g->nodes[i].n_in; k++)
      m->last_use[g->nodes[i].in[k].id] = i;
  for (int i = 0; i < g->n_outputs; i++)
    m->last_use[g->outputs[i].value.id] = UINT32_MAX;
  for (int i = 0; i < g->n_assigns; i++)
    m->last_use[g->assigns[i].value.id] = UINT32_MAX;
}

static sn_status prepare(ref_machine *m) {
  const sn_graph *g = m->graph;
  SN_TRY(check_bindings(m));
  graph_mark_live(g, m->live);
  find_last_uses(m);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    bool leaf = is_leaf(g, &g->nodes[i]);
    for (int k = 0; (m->live[i] || leaf) && k < g->nodes[i].n_out; k++)
      SN_TRY(size_value(m, g->nodes[i].first + (uint32_t)k));
    if (m->live[i] && leaf)
      SN_TRY(make_room(m, g->nodes[i].first));
  }
  return SN_OK;
}

sn_status ref_start(ref_machine *m, const sn_graph *g, const int64_t *bindings, ref_mode mode) {
  *m = (ref_machine){.graph = g, .bindings = bindings, .mode = mode};
  SN_TRY(graph_check(g, g->ctx));
  m->tensors = mem_array(g->ctx, g->n_values, sizeof *m->tensors);
  m->live = mem_array(g->ctx, g->n_nodes, sizeof *m->live);
  m->last_use = mem_array(g->ctx, g->n_values, sizeof *m->last_use);
  sn_status status = m->tensors && m->live && m->last_use ? prepare(m) : SN_ERR_NO_MEMORY;
  if (status != SN_OK)
    ref_end(m);
  return status;
}

void ref_end(ref_machine *m) {
  const sn_graph *g = m->graph;
  if (!g)
    return;
  for (uint32_t v = 1; m->tensors && v < g->n_values; v++)
    drop(m, v);
  mem_free(g->ctx, m->tensors, g->n_values * sizeof *m->tensors);
  mem_free(g->ctx, m->live, g->n_nodes * sizeof *m->live);
  mem_free(g->ctx, m->last_use, g->n_values * sizeof *m->last_use);
  *m = (ref_machine){0};
}

static void round_result(ref_tensor *t, ref_mode mode) {
  if (mode == REF_F64 && dtype_is_float(t->dtype))
    return;
  if (t->dtype == SN_F32)
    for (int64_t i = 0; i < t->count; i++)
      t->data[i] = (float)t->data[i];
  else
    for (int64_t i = 0; i < t->count; i++)
      t->data[i] = dtype_round(t->dtype, t->data[i]);
}

sn_status ref_node(const sn_graph *g, const int64_t *bindings, ref_mode mode, const node *n,
                   const ref_tensor *in, ref_tensor *out) {
  arena scratch;
  arena_init(&scratch, g->ctx);
  ref_ctx c = {.ctx = g->ctx,
               .scratch = &scratch,
               .graph = g,
               .bindings = bindings,
               .op = graph_op(g, n),
               .attrs = n->attrs,
               .n_in = n->n_in,
               .n_out = n->n_out,
               .in = in,
               .out = out};
  sn_status status = c.op->impl->ref(&c);
  arena_clear(&scratch);
  for (int k = 0; status == SN_OK && k < n->n_out; k++)
    round_result(&out[k], mode);
  if (status != SN_OK && *n->scope)
    return diag_within(g->ctx, status, "%s", n->scope);
  return status;
}

static sn_status execute_node(ref_machine *m, uint32_t i) {
  const sn_graph *g = m->graph;
  const node *n = &g->nodes[i];
  ref_tensor few[MAX_INPUTS] = {0}, *in = few;
  size_t size = (size_t)n->n_in * sizeof *in;
  if (n->n_in > MAX_INPUTS)
    in = mem_alloc(g->ctx, size);
  if (!in)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_in; k++)
    in[k] = m->tensors[n->in[k].id];
  sn_status status = SN_OK;
  for (int k = 0; k < n->n_out && status == SN_OK; k++)
    status = make_room(m, n->first + (uint32_t)k);
  if (status == SN_OK)
    status = ref_node(g, m->bindings, m->mode, n, in, &m->tensors[n->first]);
  if (in != few)
    mem_free(g->ctx, in, size);
  return status;
}

static void drop_dead(ref_machine *m, uint32_t i) {
  const node *n = &m->graph->nodes[i];
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k].id && m->last_use[n->in[k].id] == i)
      drop(m, n->in[k].id);
  for (int k = 0; k < n->n_out; k++)
    if (m->last_use[n->first + (uint32_t)k] == 0)
      drop(m, n->first + (uint32_t)k);
}

sn_status ref_execute(ref_machine *m, const sn_progress *progress) {
  const sn_graph *g = m->graph;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (!m->live[i] || is_leaf(g, &g->nodes[i]))
      continue;
    if (progress && progress->report &&
        !progress->report(progress->user, i, g->n_nodes, graph_op(g, &g->nodes[i])->name))
      return diag_fail(g->ctx, SN_ERR_CANCELLED, "the run was cancelled");
    SN_TRY(execute_node(m, i));
    drop_dead(m, i);
  }
  return SN_OK;
}
