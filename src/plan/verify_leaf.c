/* See verify.h: values of the program are values of the graph, of the same types, and stand in homes that have their size; inputs,
 * outputs and states are those of the graph. What the caller hands in is as large as the graph says, so nothing else may
 * decide how much of it is touched.
 */
#include "plan/verify.h"

static bool same_type(const sn_type *a, const sn_type *b) {
  return a->dtype == b->dtype && a->shape.rank == b->shape.rank &&
         memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof a->shape.dim[0]) == 0;
}

static const program_leaf *leaf_of(const program *p, const program_value *x) {
  const program_leaf *list = x->home == HOME_INPUT    ? p->inputs
                             : x->home == HOME_OUTPUT ? p->outputs
                                                      : p->states;
  int n = x->home == HOME_INPUT ? p->n_inputs : x->home == HOME_OUTPUT ? p->n_outputs : p->n_states;
  return x->index < (uint32_t)n ? &list[x->index] : NULL;
}

static bool constant_is(const verifier *v, const program_value *x, const node *n) {
  const attrs_constant *a = n->attrs;
  if (n->op != OP_constant || x->index >= (uint32_t)v->p->n_constants)
    return false;
  const program_constant *c = &v->p->constants[x->index];
  return c->size == a->data.size &&
         (c->data == a->data.data || memcmp(c->data, a->data.data, c->size) == 0);
}

/* A value's home must be that of what it is. */
static sn_status check_home(const verifier *v, uint32_t id) {
  const program_value *x = &v->p->values[id];
  const node *n = graph_node(v->g, (sn_value){x->source});
  bool ok = true;
  if (x->home == HOME_CONSTANT)
    ok = constant_is(v, x, n);
  else if (x->home == HOME_INPUT || x->home == HOME_STATE || x->home == HOME_OUTPUT) {
    const program_leaf *leaf = leaf_of(v->p, x);
    const char *name = n->op == OP_input || n->op == OP_state ? graph_leaf_name(v->g, n) : NULL;
    if (!leaf)
      ok = false;
    else if (x->home == HOME_OUTPUT) /* what stands there in the end */
      ok = id != leaf->value || x->source == v->g->outputs[x->index].value.id;
    else if (x->home == HOME_INPUT || !v->store_head[id])
      ok = name && n->op == (x->home == HOME_INPUT ? OP_input : OP_state) &&
           strcmp(name, leaf->name) == 0;
    else
      ok = x->source == v->assigned[x->index] ||
           (name && n->op == OP_state && strcmp(name, leaf->name) == 0);
  }
  return ok ? SN_OK : verify_fail(v, -1, id, "is not what stands in its home");
}

/* What a home is made for, as large as the values in it. */
static sn_status check_room(const verifier *v, uint32_t id) {
  const program_value *x = &v->p->values[id];
  const sn_type *type = x->home == HOME_OUTPUT
                            ? &v->g->values[v->g->outputs[x->index].value.id].type
                        : x->home == HOME_STATE ? &v->p->states[x->index].type
                                                : &x->type;
  if (sn_dtype_size(type->dtype) != sn_dtype_size(x->type.dtype) ||
      dim_count(v->g, type->shape) != x->count)
    return verify_fail(v, -1, id, "is not as large as its home");
  return SN_OK;
}

static sn_status check_list(const verifier *v, const program_leaf *list, int n, int op,
                            value_home home) {
  const char *kind = op == OP_input ? "input" : "state";
  for (int i = 0; i < n; i++) {
    const program_leaf *x = &list[i];
    sn_value in_graph = graph_find_named(v->g, op, x->name);
    if (!in_graph.id || !same_type(&x->type, &v->g->values[in_graph.id].type))
      return verify_fail(v, -1, 0, "%s \"%s\" is not one of the graph", kind, x->name);
    if (x->value && (x->value >= v->p->n_values || v->p->values[x->value].home != home ||
                     v->p->values[x->value].index != (uint32_t)i))
      return verify_fail(v, -1, 0, "%s \"%s\" is in another value", kind, x->name);
  }
  return SN_OK;
}

static sn_status check_outputs(const verifier *v) {
  const program *p = v->p;
  const sn_graph *g = v->g;
  if (p->n_outputs != g->n_outputs)
    return verify_fail(v, -1, 0, "the program has %d outputs, the graph %d", p->n_outputs,
                       g->n_outputs);
  for (int i = 0; i < p->n_outputs; i++)
    if (strcmp(p->outputs[i].name, g->outputs[i].name) != 0 || !p->outputs[i].value ||
        p->outputs[i].value >= p->n_values || p->values[p->outputs[i].value].home != HOME_OUTPUT ||
        p->values[p->outputs[i].value].index != (uint32_t)i ||
        !same_type(&p->outputs[i].type, &g->values[g->outputs[i].value.id].type))
      return verify_fail(v, -1, 0, "output %d, \"%s\", is not output \"%s\" of the graph", i,
                         p->outputs[i].name, g->outputs[i].name);
  return SN_OK;
}

sn_status verify_assigned(verifier *v) {
  const sn_graph *g = v->g;
  v->assigned = arena_array(&v->memory, (size_t)v->p->n_states + 1, sizeof *v->assigned);
  if (!v->assigned)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < g->n_assigns; k++) {
    const char *name = graph_leaf_name(g, graph_node(g, g->assigns[k].state));
    int i = 0;
    while (i < v->p->n_states && strcmp(v->p->states[i].name, name) != 0)
      i++;
    if (i == v->p->n_states)
      return verify_fail(v, -1, 0, "state \"%s\" is assigned, but the program does not have it",
                         name);
    v->assigned[i] = g->assigns[k].value.id;
  }
  return SN_OK;
}

/* Row-major, or channels last: a permutation of its elements. */
static bool is_order(const program_value *x) {
  int64_t image;
  return !x->channels || (x->home == HOME_ARENA && x->channels > 0 && x->pixels > 0 &&
                          mul_fits(x->channels, x->pixels, &image) && dim_is_number(x->count) &&
                          x->count % image == 0);
}

static sn_status check_values(const verifier *v) {
  const program *p = v->p;
  for (uint32_t id = 1; id < p->n_values; id++) {
    const program_value *x = &p->values[id];
    if (!x->source || x->source >= v->g->n_values)
      return verify_fail(v, -1, id, "is no value of the graph");
    if ((unsigned)x->home > HOME_CONSTANT || x->bytes < 0 || x->in_place_of >= p->n_values)
      return verify_fail(v, -1, id, "has no home");
    if (x->bytes > DIM_LIMIT || x->offset < 0 || x->offset > DIM_LIMIT)
      return verify_fail(v, -1, id, "has no place");
    if (!is_order(x))
      return verify_fail(v, -1, id, "stands in an order that is none");
    if (!same_type(&x->type, &v->g->values[x->source].type) ||
        x->count != dim_count(v->g, x->type.shape))
      return verify_fail(v, -1, id, "has another type than in the graph");
    SN_TRY(check_home(v, id));
    SN_TRY(check_room(v, id));
  }
  return SN_OK;
}

sn_status verify_leaves(const verifier *v) {
  const program *p = v->p;
  SN_TRY(check_list(v, p->inputs, p->n_inputs, OP_input, HOME_INPUT));
  SN_TRY(check_list(v, p->states, p->n_states, OP_state, HOME_STATE));
  SN_TRY(check_outputs(v));
  return check_values(v);
}
