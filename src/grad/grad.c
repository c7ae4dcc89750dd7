/* Reverse mode: builds the gradients of values into the same graph, through each op's vjp. Knows ops only
 * through the table, add and constants aside.
 *
 * run is the whole of it: from seeds at some values back to others. sn_grad seeds a scalar with 1; an op
 * whose gradient is "by decomposition" is swept through its decomposed form between its own results and
 * arguments.
 */
#include "base/null.h"

#include "grad/sweep.h"
#include "ir/dtype.h"

#include <stdio.h>

static bool differentiable(sn_type t) { return dtype_is_float(t.dtype); }

/* Arrays for the graph as it is; with room, since it grows between the sweeps that share them. */
static sn_status start(sweep *s) {
  s->n_nodes = s->g->n_nodes;
  s->n_values = s->g->n_values;
  s->n_order = 0;
  if (s->n_nodes <= s->cap_nodes && s->n_values <= s->cap_values)
    return SN_OK;
  size_t nodes = 2 * (size_t)s->n_nodes, values = 2 * (size_t)s->n_values;
  s->reached = arena_array(s->memory, nodes, sizeof *s->reached);
  s->order = arena_array(s->memory, nodes, sizeof *s->order);
  s->heap = arena_array(s->memory, nodes, sizeof *s->heap);
  s->active = arena_array(s->memory, values, sizeof *s->active);
  s->target = arena_array(s->memory, values, sizeof *s->target);
  s->end = arena_array(s->memory, values, sizeof *s->end);
  s->grad = arena_array(s->memory, values, sizeof *s->grad);
  s->via = arena_array(s->memory, values, sizeof *s->via);
  if (!s->reached || !s->order || !s->heap || !s->active || !s->target || !s->end || !s->grad ||
      !s->via)
    return SN_ERR_NO_MEMORY;
  s->cap_nodes = (uint32_t)nodes;
  s->cap_values = (uint32_t)values;
  return SN_OK;
}

/* Zeroes what the sweep has touched. */
static void finish(sweep *s, const sn_value *to, int n_to) {
  for (uint32_t i = 0; i < s->n_order; i++) {
    const node *n = &s->g->nodes[s->order[i]];
    s->reached[s->order[i]] = false;
    memset(&s->active[n->first], 0, (size_t)n->n_out * sizeof *s->active);
    memset(&s->grad[n->first], 0, (size_t)n->n_out * sizeof *s->grad);
    memset(&s->via[n->first], 0, (size_t)n->n_out * sizeof *s->via);
  }
  for (int k = 0; k < n_to; k++) {
    uint32_t v = to[k].id;
    s->active[v] = s->target[v] = s->end[v] = false;
    s->grad[v] = SN_NONE;
    s->via[v] = 0;
  }
}

static void reach(sweep *s, uint32_t i) {
  if (s->reached[i])
    return;
  s->reached[i] = true;
  uint32_t at = s->n_heap++;
  for (; at && s->heap[(at - 1) / 2] < i; at = (at - 1) / 2)
    s->heap[at] = s->heap[(at - 1) / 2];
  s->heap[at] = i;
}

/* The last of the nodes in the heap, which stands on top. */
static uint32_t take_last(sweep *s) {
  uint32_t top = s->heap[0], moved = s->heap[--s->n_heap], at = 0;
  for (uint32_t child; (child = 2 * at + 1) < s->n_heap; at = child) {
    if (child + 1 < s->n_heap && s->heap[child + 1] > s->heap[child])
      child++;
    if (s->heap[child] <= moved)
      break;
    s->heap[at] = s->heap[child];
  }
  s->heap[at] = moved;
  return top;
}

/* All that the seeds depend on, in order: a decomposition may use nodes from anywhere in the graph. */
static void mark_reached(sweep *s) {
  const sn_graph *g = s->g;
  while (s->n_heap) {
    uint32_t i = take_last(s);
    s->order[s->n_order++] = i;
    for (int k = 0; k < g->nodes[i].n_in; k++) {
      uint32_t v = g->nodes[i].in[k].id;
      if (v && !s->end[v])
        reach(s, g->values[v].node);
    }
  }
}

static void mark_active(sweep *s) {
  const sn_graph *g = s->g;
  for (uint32_t i = s->n_order; i-- > 0;) {
    const node *n = &g->nodes[s->order[i]];
    bool depends = false;
    for (int k = 0; k < n->n_in; k++)
      depends = depends || s->active[n->in[k].id];
    for (int k = 0; depends && k < n->n_out; k++)
      if (differentiable(g->values[n->first + (uint32_t)k].type))
        s->active[n->first + (uint32_t)k] = true;
  }
}

const char *grad_value_name(const sn_graph *g, uint32_t v) {
  const node *n = graph_node(g, (sn_value){v});
  if (g->values[v].label)
    return g->values[v].label;
  return op_has_name(graph_op(g, n)) ? graph_leaf_name(g, n) : graph_op(g, n)->name;
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
                             grad_value_name(g, g->nodes[at].first));
    at = came_via(s, at);
  }
  (void)graph_fail(s->g, SN_ERR_UNSUPPORTED, "grad: %s is not differentiable (%s); on the way %s",
                   graph_op(g, &g->nodes[i])->name, why, path);
  return SN_ERR_UNSUPPORTED;
}

static sn_status sweep_decomposed(sweep *outer, const sn_value *from, const sn_value *seeds,
                                  int n_from, const sn_value *to, const bool *need, int n_to,
                                  sn_value *out);

/* What a value passes on: its gradient, but for the end of a decomposition. */
static sn_value passed_on(const sweep *s, uint32_t v) {
  return s->active[v] && !s->end[v] ? s->grad[v] : SN_NONE;
}

/* The vjp of node i: fills din. */
static sn_status vjp(sweep *s, uint32_t i, const node *n, sn_value *din) {
  sn_graph *g = s->g;
  const op_impl *impl = graph_op(g, n)->impl;
  size_t n_in = (size_t)n->n_in;
  sn_value *in = arena_array(s->memory, n_in, sizeof *in);
  bool *need = arena_array(s->memory, n_in, sizeof *need);
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
  /* What is built for a node stands in its scope, so that reports name the layer. */
  const char *outer = g->scope;
  g->scope = n->scope;
  if (impl->grad_by_decompose)
    impl->decompose(&c);
  else
    impl->grad(&c);
  g->scope = outer;
  SN_TRY(g->status);
  if (!impl->grad_by_decompose)
    return SN_OK;
  return sweep_decomposed(s, out, dout, n->n_out, in, need, n->n_in, din);
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
  if (s->segment && s->segment[i] && !s->cloned[s->segment[i] - 1])
    SN_TRY(recompute_segment(s, s->segment[i] - 1, after));
  sn_value *din = arena_array(s->memory, (size_t)n.n_in, sizeof *din);
  if (!din)
    return SN_ERR_NO_MEMORY;
  SN_TRY(vjp(s, i, &n, din));
  return accumulate(s, i, &n, din);
}

/* From the seeds back to the targets. out[k]: gradient for to[k], SN_NONE when none arrives. */
static sn_status run(sweep *s, const sn_value *from, const sn_value *seeds, int n_from,
                     const sn_value *to, const bool *need, int n_to, bool outermost,
                     sn_value *out) {
  sn_graph *g = s->g;
  for (int k = 0; k < n_to; k++) {
    if (to[k].id && (!need || need[k]))
      s->target[to[k].id] = s->active[to[k].id] = true;
    s->end[to[k].id] = !outermost;
  }
  for (int k = 0; k < n_from; k++) {
    if (!seeds[k].id)
      continue;
    uint32_t v = from[k].id;
    s->grad[v] = s->grad[v].id ? sn_add(g, s->grad[v], seeds[k]) : seeds[k];
    reach(s, g->values[v].node);
  }
  SN_TRY(g->status);
  mark_reached(s);
  mark_active(s);
  if (outermost)
    SN_TRY(recompute_mark(s));
  for (uint32_t i = 0; i < s->n_order; i++)
    SN_TRY(step_back(s, s->order[i]));
  for (int k = 0; k < n_to; k++)
    if (to[k].id && (!need || need[k]))
      out[k] = s->grad[to[k].id];
  return SN_OK;
}

/* The gradients of an op's arguments through its decomposed form. An argument that stands twice in `to`
 * gets the whole gradient in each place, so only its first place counts. */
static sn_status sweep_decomposed(sweep *outer, const sn_value *from, const sn_value *seeds,
                                  int n_from, const sn_value *to, const bool *need, int n_to,
                                  sn_value *out) {
  if (!outer->inner && !(outer->inner = arena_alloc(outer->memory, sizeof *outer)))
    return SN_ERR_NO_MEMORY;
  sweep *s = outer->inner;
  s->g = outer->g;
  s->memory = outer->memory;
  SN_TRY(start(s));
  SN_TRY(run(s, from, seeds, n_from, to, need, n_to, false, out));
  finish(s, to, n_to);
  for (int k = 0; k < n_to; k++)
    for (int j = 0; j < k; j++)
      if (to[j].id == to[k].id)
        out[k] = SN_NONE;
  return SN_OK;
}

/* All memory of the sweeps goes together. */
static sn_status sweep_all(sn_graph *g, sn_value loss, sn_value seed, const sn_value *wrt, int n,
                           sn_value *out) {
  arena memory;
  arena_init(&memory, g->ctx);
  sweep s = {.g = g, .memory = &memory};
  sn_status status = start(&s);
  if (status == SN_OK)
    status = run(&s, &loss, &seed, 1, wrt, NULL, n, true, out);
  arena_clear(&memory);
  return status;
}

static sn_status check(sn_graph *g, sn_value loss, const sn_value *wrt, int n) {
  SN_TRY(graph_check(g, g->ctx));
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
  NEEDS(g);
  NEEDS_ARGUMENT_IF(g->ctx, n > 0, wrt);
  NEEDS_ARGUMENT_IF(g->ctx, n > 0, out_grads);
  for (int i = 0; i < n; i++)
    out_grads[i] = graph_invalid();
  SN_TRY(check(g, loss, wrt, n));
  SN_TRY(grad_check_paths(g, loss, wrt, n));
  sn_value *found = mem_array(g->ctx, (size_t)n, sizeof *found);
  if (!found)
    return SN_ERR_NO_MEMORY;
  sn_value one = sn_scalar(g, sn_value_type(g, loss).dtype, 1);
  sn_status status = sweep_all(g, loss, one, wrt, n, found);
  for (int i = 0; i < n && status == SN_OK; i++) {
    sn_type t = sn_value_type(g, wrt[i]);
    out_grads[i] = found[i].id ? found[i] : sn_full(g, t.dtype, t.shape, 0);
  }
  mem_free(g->ctx, found, (size_t)n * sizeof *found);
  return status == SN_OK ? g->status : status;
}
