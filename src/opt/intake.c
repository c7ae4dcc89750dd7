/* A graph into an e-graph: one class a live value, attributes in one spelling (shapes resolved, axes counted
 * from 0) so that equal nodes are found equal. */
#include "opt/intake.h"

#include "ops/common.h"

static const int64_t result_number[MAX_RESULTS] = {0, 1, 2, 3, 4};

/* The one spelling of an op's attributes; NULL without memory. */
static const void *spelled(egraph *e, const node *n, const sn_type *type) {
  if (n->op == OP_reshape || n->op == OP_expand) {
    _Static_assert(sizeof(attrs_reshape) == sizeof(attrs_expand), "one struct for both");
    attrs_reshape *a = arena_alloc(&e->memory, sizeof *a);
    if (!a)
      return NULL;
    a->shape.rank = type->shape.rank;
    for (int d = 0; d < type->shape.rank; d++)
      a->shape.dim[d] = type->shape.dim[d];
    return a;
  }
  if (n->op == OP_transpose) {
    const attrs_transpose *from = n->attrs;
    attrs_transpose *a = arena_copy(&e->memory, from, sizeof *from);
    for (int d = 0; a && d < from->perm.n; d++)
      a->perm.v[d] = resolve_axis(from->perm.v[d], from->perm.n);
    return a;
  }
  return n->attrs;
}

static class_id take_node(egraph *e, const node *n, uint32_t index, const class_id *of) {
  const sn_graph *g = e->input;
  class_id few[MAX_INPUTS], *in = few;
  if (n->n_in > MAX_INPUTS)
    in = arena_array(&e->memory, (size_t)n->n_in, sizeof *in);
  const sn_type *type = &g->values[n->first].type;
  const void *attrs = spelled(e, n, type);
  if (!in || !attrs) {
    e->status = SN_ERR_NO_MEMORY;
    return 0;
  }
  for (int i = 0; i < n->n_in; i++)
    in[i] = of[n->in[i].id];
  static const sn_type several = {0};
  uint32_t before = e->n_nodes;
  class_id c = egraph_add(e, n->op, in, n->n_in, attrs, n->n_out > 1 ? &several : type, false);
  if (c && e->n_nodes > before)
    e->nodes[before]->origin = index + 1;
  if (c && n->op == OP_state)
    e->classes[c]->prepared = !e->assigned[n->first];
  return c;
}

static bool take_results(egraph *e, const node *n, class_id c, class_id *of) {
  const sn_graph *g = e->input;
  for (int k = 0; k < n->n_out; k++) {
    uint32_t id = n->first + (uint32_t)k;
    of[id] = c;
    if (n->n_out > 1)
      of[id] = egraph_add(e, OP_PROJECT, &c, 1, &result_number[k], &g->values[id].type, false);
    if (!of[id])
      return false;
    eclass *cls = egraph_class(e, of[id]);
    if (!cls->origin)
      cls->origin = id;
    if (n->n_out > 1) {
      cls->first->origin = g->values[id].node + 1;
      egraph_class(e, c)->bytes += cls->bytes;
    }
  }
  return true;
}

sn_status opt_intake(egraph *e, const sn_graph *g, const bool *live, class_id *of) {
  e->input = g;
  e->assigned = arena_array(&e->memory, g->n_values, sizeof *e->assigned);
  if (!e->assigned)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < g->n_assigns; i++)
    e->assigned[g->assigns[i].state.id] = true;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (!live[i])
      continue;
    class_id c = take_node(e, &g->nodes[i], i, of);
    if (c && g->nodes[i].n_out > 1)
      egraph_class(e, c)->origin = g->nodes[i].first;
    if (!c || !take_results(e, &g->nodes[i], c, of))
      return e->status == SN_OK ? SN_ERR_INTERNAL : e->status;
  }
  return SN_OK;
}
