/* Reverse mode: builds the gradients of values into the same graph, through each op's vjp. Knows ops only
 * through the table, add and constants aside.
 *
 * sweep_between is the whole of it: from seeds at some values back to others. sn_grad seeds a scalar with 1;
 * an op whose gradient is "by decomposition" is swept through its decomposed form between its own
 * results and arguments.
 */
#include "grad/sweep.h"
#include "ir/dtype.h"

#include <stdio.h>

static bool differentiable(sn_type t) { return dtype_is_float(t.dtype); }

static sn_status start(sweep *s, sn_graph *g) {
  *s = (sweep){.g = g, .n_nodes = g->n_nodes, .n_values = g->n_values};
  arena_init(&s->memory, g->ctx);
  s->reached = arena_array(&s->memory, s->n_nodes, sizeof *s->reached);
  s->segment = arena_array(&s->memory, s->n_nodes, sizeof *s->segment);
  s->kept = arena_array(&s->memory, s->n_nodes, sizeof *s->kept);
  s->cloned = arena_array(&s->memory, s->n_nodes, sizeof *s->cloned);
  s->active = arena_array(&s->memory, s->n_values, sizeof *s->active);
  s->target = arena_array(&s->memory, s->n_values, sizeof *s->target);
  s->grad = arena_array(&s->memory, s->n_values, sizeof *s->grad);
  s->via = arena_array(&s->memory, s->n_values, sizeof *s->via);
  s->clone = arena_array(&s->memory, s->n_values, sizeof *s->clone);
  s->held = arena_array(&s->memory, s->n_values, sizeof *s->held);
  s->held_in = arena_array(&s->memory, s->n_values, sizeof *s->held_in);
  bool ok = s->reached && s->segment && s->kept && s->cloned && s->active && s->target && s->grad &&
            s->via && s->clone && s->held && s->held_in;
  return ok ? SN_OK : SN_ERR_NO_MEMORY;
}

/* The first node that the sweep must look at: sweeps of decompositions stay near the end. */
static uint32_t mark_reached(sweep *s) {
  const sn_graph *g = s->g;
  uint32_t first = s->n_nodes;
  for (uint32_t i = s->n_nodes; i-- > 0;) {
    if (!s->reached[i])
      continue;
    first = i;
    for (int k = 0; k < g->nodes[i].n_in; k++) {
      uint32_t v = g->nodes[i].in[k].id;
      if (v && !(s->cut_at_targets && s->target[v]))
        s->reached[g->values[v].node] = true;
    }
  }
  return first;
}

static void mark_active(sweep *s, uint32_t first) {
  const sn_graph *g = s->g;
  for (uint32_t i = first; i < s->n_nodes; i++) {
    const node *n = &g->nodes[i];
    bool depends = false;
    for (int k = 0; s->reached[i] && k < n->n_in; k++)
      depends = depends || s->active[n->in[k].id];
    for (int k = 0; depends && k < n->n_out; k++)
      if (differentiable(g->values[n->first + (uint32_t)k].type))
        s->active[n->first + (uint32_t)k] = true;
  }
}

static const char *value_name(const sn_graph *g, uint32_t v) {
  return g->values[v].label ? g->values[v].label : graph_op(g, graph_node(g, (sn_value){v}))->name;
}

/* The node through which the gradient of node i arrived; 0: none. */
static uint32_t came_via(const sweep *s, uint32_t i) {
  const node *n = &s->g->nodes[i];
  uint32_t via = 0;
  for (int k = 0; k < n->n_out && !via; k++)
    via = s->via[n->first + (uint32_t)k];
  return via;
}

/* "softmax -> layers.0.q -> …": how the gradient came to node i. */
static sn_status not_differentiable(sweep *s, uint32_t i, const char *why) {
  const sn_graph *g = s->g;
  char path[400] = "";
  size_t used = 0;
  for (uint32_t at = i, hop = 0; (at || !hop) && hop < 8 && used < sizeof path; hop++) {
    used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", hop ? " -> " : "",
                             value_name(g, g->nodes[at].first));
    at = came_via(s, at);
  }
  (void)graph_fail(s->g, SN_ERR_UNSUPPORTED, "grad: %s is not differentiable (%s); on the way %s",
                   graph_op(g, &g->nodes[i])->name, why, path);
  return SN_ERR_UNSUPPORTED;
}

static sn_status sweep_between(sn_graph *g, const sn_value *from, const sn_value *seeds, int n_from,
                               const sn_value *to, const bool *need, int n_to, bool cut,
                               sn_value *out);

/* What a value passes on: its gradient, but for the end of a decomposition. */
static sn_value passed_on(const sweep *s, uint32_t v) {
  return s->active[v] && !(s->cut_at_targets && s->target[v]) ? s->grad[v] : SN_NONE;
}

/* The vjp of node i: fills din. */
static sn_status vjp(sweep *s, uint32_t i, const node *n, sn_value *din) {
  sn_graph *g = s->g;
  const op_impl *impl = graph_op(g, n)->impl;
  size_t n_in = (size_t)n->n_in;
  sn_value *in = arena_array(&s->memory, n_in, sizeof *in);
  bool *need = arena_array(&s->memory, n_in, sizeof *need);
  sn_value out[MAX_RESULTS], dout[MAX_RESULTS];
  if (!in || !need)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_in; k++) {
    in[k] = recompute_seen(s, n->in[k]);
    need[k] = s->active[n->in[k].id];
  }
  for (int k = 0; k < n->n_out; k++) {
    out[k] = recompute_seen(s, node_result(n, k));
    dout[k] = passed_on(s, n->first + (uint32_t)k);
  }
  if (impl->no_grad)
    return not_differentiable(s, i, impl->no_grad);
  build_ctx c = {.graph = g,
                 .attrs = n->attrs,
                 .n_in = n->n_in,
                 .n_out = n->n_out,
                 .in = in,
                 .out = out,
                 .dout = dout,
                 .need = need,
                 .din = din};
  if (!impl->grad_by_decompose) {
    impl->grad(&c);
    return g->status;
  }
  impl->decompose(&c);
  SN_TRY(g->status);
  return sweep_between(g, out, dout, n->n_out, in, need, n->n_in, true, din);
}

static sn_status accumulate(sweep *s, uint32_t i, const node *n, const sn_value *din) {
  sn_graph *g = s->g;
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    if (!v || !din[k].id || !s->active[v])
      continue;
    if (!type_equal(sn_value_type(g, din[k]), g->values[v].type)) {
      (void)graph_fail(g, SN_ERR_INTERNAL, "grad: the gradient of %s for argument %d is %s, not %s",
                       graph_op(g, n)->name, k, graph_type_text(g, sn_value_type(g, din[k])),
                       graph_type_text(g, g->values[v].type));
      return g->status;
    }
    s->grad[v] = s->grad[v].id ? sn_add(g, s->grad[v], din[k]) : din[k];
    s->via[v] = i;
  }
  return g->status;
}

static sn_status step_back(sweep *s, uint32_t i) {
  sn_graph *g = s->g;
  node n = g->nodes[i]; /* a copy: the array may move while building */
  bool passes = false;
  sn_value after = SN_NONE;
  for (int k = 0; k < n.n_out; k++)
    if (passed_on(s, n.first + (uint32_t)k).id)
      after = passed_on(s, n.first + (uint32_t)k);
  for (int k = 0; k < n.n_in; k++)
    passes = passes || s->active[n.in[k].id];
  if (!after.id || !passes)
    return SN_OK;
  if (s->segment[i] && !s->cloned[s->segment[i] - 1])
    SN_TRY(recompute_segment(s, s->segment[i] - 1, after));
  sn_value *din = arena_array(&s->memory, (size_t)n.n_in, sizeof *din);
  if (!din)
    return SN_ERR_NO_MEMORY;
  SN_TRY(vjp(s, i, &n, din));
  return accumulate(s, i, &n, din);
}

static sn_status run(sweep *s, const sn_value *from, const sn_value *seeds, int n_from,
                     const sn_value *to, const bool *need, int n_to, sn_value *out) {
  sn_graph *g = s->g;
  for (int k = 0; k < n_to; k++)
    if (to[k].id && (!need || need[k]))
      s->target[to[k].id] = s->active[to[k].id] = true;
  for (int k = 0; k < n_from; k++) {
    if (!seeds[k].id)
      continue;
    uint32_t v = from[k].id;
    s->grad[v] = s->grad[v].id ? sn_add(g, s->grad[v], seeds[k]) : seeds[k];
    s->reached[g->values[v].node] = true;
  }
  SN_TRY(g->status);
  uint32_t first = mark_reached(s);
  mark_active(s, first);
  if (!s->cut_at_targets)
    recompute_mark(s);
  for (uint32_t i = s->n_nodes; i-- > first;)
    if (s->reached[i])
      SN_TRY(step_back(s, i));
  for (int k = 0; k < n_to; k++)
    if (to[k].id && (!need || need[k]))
      out[k] = s->grad[to[k].id];
  return SN_OK;
}

/* out[k]: gradient for to[k], SN_NONE when none arrives. An argument that stands twice in `to` gets the
 * whole gradient in each place, so only its first place counts. */
static sn_status sweep_between(sn_graph *g, const sn_value *from, const sn_value *seeds, int n_from,
                               const sn_value *to, const bool *need, int n_to, bool cut,
                               sn_value *out) {
  sweep s;
  sn_status status = start(&s, g);
  s.cut_at_targets = cut;
  if (status == SN_OK)
    status = run(&s, from, seeds, n_from, to, need, n_to, out);
  for (int k = 0; cut && k < n_to; k++)
    for (int j = 0; j < k; j++)
      if (to[j].id == to[k].id)
        out[k] = SN_NONE;
  arena_clear(&s.memory);
  return status;
}

static sn_status check(sn_graph *g, sn_value loss, const sn_value *wrt, int n) {
  SN_TRY(g->status);
  sn_type t = sn_value_type(g, loss);
  if (!differentiable(t) || t.shape.rank != 0) {
    (void)graph_fail(g, SN_ERR_INVALID, "grad: the loss must be a float scalar, got %s",
                     graph_type_text(g, t));
    return g->status;
  }
  for (int i = 0; i < n; i++)
    if (!differentiable(sn_value_type(g, wrt[i]))) {
      (void)graph_fail(g, SN_ERR_INVALID,
                       "grad: value %d to differentiate for must be a float, got %s", i,
                       graph_type_text(g, sn_value_type(g, wrt[i])));
      return g->status;
    }
  return SN_OK;
}

sn_status sn_grad(sn_graph *g, sn_value loss, const sn_value *wrt, int n, sn_value *out_grads) {
  for (int i = 0; i < n; i++)
    out_grads[i] = graph_invalid();
  SN_TRY(check(g, loss, wrt, n));
  sn_value *found = mem_array(g->ctx, (size_t)n, sizeof *found);
  if (!found)
    return SN_ERR_NO_MEMORY;
  sn_value one = sn_scalar(g, sn_value_type(g, loss).dtype, 1);
  sn_status status = sweep_between(g, &loss, &one, 1, wrt, NULL, n, false, found);
  for (int i = 0; i < n && status == SN_OK; i++) {
    sn_type t = sn_value_type(g, wrt[i]);
    out_grads[i] = found[i].id ? found[i] : sn_full(g, t.dtype, t.shape, 0);
  }
  mem_free(g->ctx, found, (size_t)n * sizeof *found);
  return status == SN_OK ? g->status : status;
}
