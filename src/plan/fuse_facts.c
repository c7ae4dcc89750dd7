/* What fusion knows before it starts: for each node whether its element is a view, reduces or requires, and what an element
 * costs, found by running `element` with services that only count; for each value who reads it and whether it is wanted in
 * memory. */
#include "ops/cost.h"
#include "ops/table.h"
#include "plan/fuse.h"

typedef struct probe {
  elem_ctx c;
  fuse *f;
  const node *n;
  node_facts *facts;
  sn_dim extents[REGION_AXES + SN_MAX_RANK];
  int n_axes, n_inputs, n_added;
} probe;

/* Registers are 1 where they depend on elements of inputs, 0 otherwise. */
static bool terms_depend(const term *t, int n) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG && t[k].from)
      return true;
  return false;
}

static reg probe_input(elem_ctx *c, int i, const place *at) {
  probe *p = (probe *)c;
  (void)i;
  for (int d = 0; d < at->rank; d++)
    p->facts->by_data |= terms_depend(at->c[d].terms, at->c[d].n);
  p->n_inputs++;
  return 1;
}

/* In units of one multiplication. */
static double weight(const instr *i) {
  if (i->op == REGION_WORD)
    return 16;
  if (i->op == REGION_NUMBER || i->op == REGION_SIZE)
    return 0;
  if (i->op != REGION_ALU)
    return 1;
  switch ((alu)i->code) {
  case ALU_exp:
  case ALU_exp2:
  case ALU_expm1:
  case ALU_log:
  case ALU_log2:
  case ALU_log1p:
  case ALU_sigmoid: return 8;
  case ALU_sin:
  case ALU_cos:
  case ALU_tan:
  case ALU_atan:
  case ALU_atan2:
  case ALU_tanh:
  case ALU_softplus:
  case ALU_erf:
  case ALU_pow:
  case ALU_gauss: return 14;
  case ALU_div:
  case ALU_recip:
  case ALU_sqrt:
  case ALU_rsqrt:
  case ALU_floor_div:
  case ALU_rem:
  case ALU_fmod: return 4;
  default: return 1;
  }
}

static reg probe_add(elem_ctx *c, const instr *i) {
  probe *p = (probe *)c;
  p->facts->flops += weight(i);
  p->n_added++;
  const reg read[] = {i->a, i->b, i->c};
  reg depends = terms_depend(i->at.terms, i->at.n_terms);
  for (int k = 0; k < i->at.n_checks; k++)
    depends |= terms_depend(i->at.checks[k].terms, i->at.checks[k].n_terms);
  for (int k = 0; k < instr_arguments(i); k++)
    depends |= read[k];
  return depends;
}

static void probe_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  probe *p = (probe *)c;
  for (int k = 0; k < n; k++) {
    p->extents[p->n_axes] = extents[k];
    out[k] = coord_axis(p->n_axes++);
  }
}

static reg probe_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  (void)kind;
  (void)dtype;
  ((probe *)c)->facts->reduces = true;
  return body;
}

/* Here and not where elements are computed: sizes must fit also where nothing reads the value but what waits for it. */
static void probe_require_size(elem_ctx *c, sn_dim size, const char *what) {
  const probe *p = (const probe *)c;
  fuse_require_size(p->f, p->n, size, what);
}

static void probe_require(elem_ctx *c, reg holds, reg shown, const char *message) {
  (void)holds;
  (void)shown;
  (void)message;
  ((probe *)c)->facts->requires = true;
}

static const elem_services probing = {probe_input,  probe_add,          probe_axes,
                                      probe_reduce, probe_require_size, probe_require};

int place_of_axes(sn_shape shape, int axis, place *out, sn_dim *extents) {
  *out = (place){.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++)
    if (shape.dim[d] != 1) {
      extents[axis] = shape.dim[d];
      out->c[d] = coord_axis(axis++);
    }
  return axis;
}

static void probe_node(fuse *f, const node *n, node_facts *facts) {
  const op_desc *op = graph_op(f->g, n);
  sn_type in[MAX_INPUTS] = {{0}}, *types = in;
  place at;
  facts->requires = core_requires(f, n);
  if (!op->impl->element)
    return;
  if (n->n_in > MAX_INPUTS)
    types = arena_array(&f->memory, (size_t)n->n_in, sizeof *types);
  if (!types) {
    f->status = SN_ERR_NO_MEMORY;
    return;
  }
  for (int k = 0; k < n->n_in; k++)
    types[k] = n->in[k].id ? f->g->values[n->in[k].id].type : (sn_type){0};
  probe p = {.f = f, .n = n, .facts = facts};
  p.n_axes = place_of_axes(fuse_shape(f, n->first), 0, &at, p.extents);
  p.c = (elem_ctx){.services = &probing,
                   .graph = f->g,
                   .op = n->op,
                   .name = op->name,
                   .attrs = n->attrs,
                   .n_in = n->n_in,
                   .in = types,
                   .out = &f->g->values[n->first].type,
                   .axis_extents = p.extents};
  (void)op->impl->element(&p.c, &at);
  facts->view = p.n_inputs == 1 && !p.n_added && !facts->reduces && !facts->requires;
}

static bool listed_before(const node *n, int k) {
  for (int j = 0; j < k; j++)
    if (n->in[j].id == n->in[k].id)
      return true;
  return false;
}

/* From the last node back: a reader of a view reads what the view shows. */
static void count_uses(fuse *f) {
  const sn_graph *g = f->g;
  for (uint32_t i = g->n_nodes; i-- > 0;) {
    const node *n = &g->nodes[i];
    if (!f->nodes[i].live)
      continue;
    const fuse_value *own = &f->values[n->first];
    for (int k = 0; k < n->n_in; k++) {
      fuse_value *v = &f->values[n->in[k].id];
      if (!n->in[k].id || listed_before(n, k))
        continue;
      if (f->nodes[i].view && n->in[k].id == n->in[0].id) {
        v->uses += own->uses;
        v->readers += own->readers;
        continue;
      }
      v->uses++;
      v->readers += own->elements > v->elements ? own->elements : v->elements;
    }
  }
}

static void pin(fuse *f, uint32_t value) {
  fuse_value *v = &f->values[value];
  v->pinned = true;
  v->uses++;
  v->readers += v->elements;
}

/* What a contraction or core reads lies in memory: views of something that is. */
static void want_operands(fuse *f, const node *n) {
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    while (v && fuse_facts(f, v)->view)
      v = fuse_node(f, v)->in[0].id;
    if (!v)
      continue;
    const node *made = fuse_node(f, v);
    bool widened = made->op == OP_cast && !fuse_node(f, made->in[0].id)->n_in;
    if (!widened)
      f->values[v].wanted = true;
  }
}

static bool stays(const sn_graph *g, uint32_t state) {
  for (int i = 0; i < g->n_assigns; i++)
    if (g->assigns[i].state.id == state)
      return false;
  return true;
}

static bool is_static(const sn_shape *s) {
  for (int d = 0; d < s->rank; d++)
    if (!dim_is_number(s->dim[d]))
      return false;
  return true;
}

/* Whether a node's work or meaning changes with the symbols. */
static bool has_symbols(const sn_graph *g, const node *n) {
  const op_desc *op = graph_op(g, n);
  for (int k = 0; k < n->n_out; k++)
    if (!is_static(&g->values[n->first + (uint32_t)k].type.shape))
      return true;
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k].id && !is_static(&g->values[n->in[k].id].type.shape))
      return true;
  for (int k = 0; k < op->n_attrs; k++) {
    const void *at = attr_at(n->attrs, &op->attrs[k]);
    if ((op->attrs[k].kind == ATTR_DIM && !dim_is_number(*(const sn_dim *)at)) ||
        (op->attrs[k].kind == ATTR_SHAPE && !is_static(at)))
      return true;
  }
  return false;
}

static void find_prepared(fuse *f, const node *n) {
  bool ready = n->op == OP_state ? !n->assigned && stays(f->g, n->first) : n->op != OP_input;
  ready = ready && !has_symbols(f->g, n);
  for (int k = 0; k < n->n_in; k++)
    ready = ready && (!n->in[k].id || f->values[n->in[k].id].prepared);
  for (int k = 0; k < n->n_out; k++)
    f->values[n->first + (uint32_t)k].prepared = ready;
}

/* Prepared values that the rest of the program reads, through views. */
static void find_boundary(fuse *f, const node *n) {
  for (int k = 0; k < n->n_in && !f->values[n->first].prepared; k++) {
    uint32_t v = n->in[k].id;
    while (v && fuse_facts(f, v)->view)
      v = fuse_node(f, v)->in[0].id;
    if (v && f->values[v].prepared)
      f->values[v].boundary = true;
  }
}

sn_status fuse_find_facts(fuse *f) {
  const sn_graph *g = f->g;
  bool *live = arena_array(&f->memory, g->n_nodes, sizeof *live);
  if (!live)
    return SN_ERR_NO_MEMORY;
  graph_mark_live(g, live);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    f->nodes[i].live = live[i];
    if (!live[i])
      continue;
    for (int k = 0; k < n->n_out; k++) {
      const sn_type *type = &g->values[n->first + (uint32_t)k].type;
      f->values[n->first + (uint32_t)k].elements = type_elements(g, type);
      for (int d = 0; d < type->shape.rank; d++)
        fuse_require_size(f, n, type->shape.dim[d], "a size of its result is negative");
    }
    sn_dim least;
    const char *what;
    if (plan_size_required(f->g, n, &least, &what))
      fuse_require_size(f, n, least, what);
    probe_node(f, n, &f->nodes[i]);
    find_prepared(f, n);
    find_boundary(f, n);
    if (plan_is_contraction(n->op) || plan_is_core(n->op))
      want_operands(f, n);
  }
  for (int i = 0; i < g->n_outputs; i++)
    pin(f, g->outputs[i].value.id);
  for (int i = 0; i < g->n_assigns; i++) {
    pin(f, g->assigns[i].value.id);
    f->values[g->assigns[i].value.id].assigned = true;
  }
  count_uses(f);
  return f->status != SN_OK ? f->status : f->g->status;
}
