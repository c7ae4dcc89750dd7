/* Runs on the reference interpreter: the graph as it is, op by op, nothing compiled. Called by session.c with the stores
 * locked. */
#include "run/session.h"

#include "ir/dtype.h"
#include "ops/table.h"
#include "ref/ref.h"

static sn_status create(sn_session *s, const sn_session_options *options) {
  (void)options;
  s->stats.threads = 1;
  return sn_graph_verify(s->graph);
}

static void destroy(sn_session *s) { (void)s; }

static void load_tensor(ref_tensor *t, const void *bytes) {
  for (int64_t i = 0; i < t->count; i++)
    t->data[i] = dtype_load(t->dtype, bytes, i);
}

static void store_tensor(const ref_tensor *t, void *bytes) {
  for (int64_t i = 0; i < t->count; i++)
    dtype_store(t->dtype, bytes, i, t->data[i]);
}

static sn_status bind_leaves(sn_session *s, ref_machine *m) {
  const sn_graph *g = s->graph;
  for (int i = 0; i < s->n_inputs; i++)
    if (m->tensors[s->inputs[i].leaf.id].data) /* something needs it */
      load_tensor(&m->tensors[s->inputs[i].leaf.id], s->inputs[i].buffer.data);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    store_entry *e;
    ref_tensor *t = &m->tensors[n->first];
    if (!m->live[i])
      continue;
    if (n->op == OP_constant)
      load_tensor(t, ((const attrs_constant *)n->attrs)->data.data);
    if (n->op != OP_state)
      continue;
    SN_TRY(store_entry_of(session_home(s, graph_leaf_name(g, n)), s->ctx, g, n, &e));
    SN_TRY(store_pull(e, s->ctx));
    load_tensor(t, e->data);
  }
  return SN_OK;
}

/* Cannot fail. */
static void commit(sn_session *s, const ref_machine *m) {
  const sn_graph *g = s->graph;
  for (int i = 0; i < g->n_assigns; i++) {
    const char *name = graph_leaf_name(g, graph_node(g, g->assigns[i].state));
    store_entry *e = store_find(session_home(s, name), name);
    store_tensor(&m->tensors[g->assigns[i].value.id], e->data);
    store_changed(e, NULL);
  }
}

static sn_status execute(sn_session *s, ref_machine *m) {
  SN_TRY(bind_leaves(s, m));
  SN_TRY(ref_execute(m, &s->progress));
  SN_TRY(session_reserve_outputs(s, false));
  for (int i = 0; i < s->n_outputs; i++)
    store_tensor(&m->tensors[s->graph->outputs[i].value.id], s->next[i].buffer.data);
  SN_TRY(session_check_finite(s));
  commit(s, m);
  return SN_OK;
}

static sn_status run(sn_session *s) {
  ref_machine m;
  SN_TRY(ref_start(&m, s->graph, s->bindings, REF_F32));
  sn_status status = execute(s, &m);
  ref_end(&m);
  return status;
}

const session_engine session_by_ref = {create, run, destroy, NULL, NULL};
