/* See verify.h: one element of one op, executed through the op table's `element`. Coordinates are numbers, and so
 * are sizes, under the bindings. A reduction's body is executed once, on as many lanes as reductions have
 * samples. Called by verify_graph.c, and calls it for arguments.
 *
 * Invariant: registers are a stack; those of an element go when it is done.
 */
#include "plan/verify_graph.h"

typedef struct element_run {
  elem_ctx c; /* first: the ops' handle */
  verifier *v;
  uint32_t node;
  bool demanding;
  int n_inputs, n_others; /* calls of services */
  uint32_t shown;         /* the input that was read last */
  int n_axes;             /* of the open reduction; 0: none is open */
  sn_dim extents[SN_MAX_RANK];
  int64_t count;
  int n_lanes;
  int64_t lane[VERIFY_SAMPLES][SN_MAX_RANK];
} element_run;

/* --- registers --- */

static reg push(verifier *v, const wide *w) {
  if (v->n_regs >= ELEMENT_REGS) {
    expect_give_up(v,
                   diag_fail(v->ctx, SN_ERR_INTERNAL, "plan: an element needs too many registers"));
    return 0;
  }
  v->regs[v->n_regs] = *w;
  return (reg)v->n_regs++;
}

static reg push_one(verifier *v, sym s) {
  wide w = {.n = 1, .s = {s}};
  return push(v, &w);
}

static sym lane_of(const verifier *v, reg r, int lane) {
  const wide *w = &v->regs[r];
  return w->s[w->n > 1 ? lane : 0];
}

/* --- coordinates of one lane --- */

static int64_t axis_term(const element_run *r, const term *t, int lane) {
  int64_t i = r->lane[lane][t->axis], div = expect_size(r->v, t->div),
          mod = expect_size(r->v, t->mod);
  if (div > 1)
    i /= div;
  if (mod > 0)
    i %= mod;
  return i * expect_size(r->v, t->stride);
}

static int64_t terms_at(const element_run *r, sn_dim offset, const term *terms, int n, int lane) {
  int64_t at = expect_size(r->v, offset);
  for (int k = 0; k < n; k++)
    at += terms[k].axis == TERM_REG
              ? expect_size(r->v, terms[k].stride) * cases_index(&r->v->cases,
                                                                 lane_of(r->v, terms[k].from, lane),
                                                                 expect_size(r->v, terms[k].mod))
              : axis_term(r, &terms[k], lane);
  return at;
}

/* Whether a coordinate is picked along an axis without elements, or by what comes from there. */
static bool is_nowhere(const element_run *r, const term *terms, int n, int lane) {
  for (int k = 0; k < n; k++)
    if (terms[k].axis == TERM_REG &&
        (expect_size(r->v, terms[k].mod) == 0 || lane_of(r->v, terms[k].from, lane).nothing))
      return true;
  return false;
}

static bool place_is_nowhere(const element_run *r, const place *at, int lane) {
  for (int k = 0; k < at->n_checks; k++)
    if (is_nowhere(r, at->checks[k].of.terms, at->checks[k].of.n, lane))
      return true;
  for (int d = 0; d < at->rank; d++)
    if (is_nowhere(r, at->c[d].terms, at->c[d].n, lane))
      return true;
  return false;
}

/* False where a check fails. */
static bool position_of(const element_run *r, const place *at, int lane, int64_t *out) {
  for (int k = 0; k < at->n_checks; k++) {
    const struct place_check *c = &at->checks[k];
    if (!check_passes(terms_at(r, c->of.offset, c->of.terms, c->of.n, lane),
                      expect_size(r->v, c->size), expect_size(r->v, c->divisor)))
      return false;
  }
  memset(out, 0, SN_MAX_RANK * sizeof *out);
  for (int d = 0; d < at->rank; d++)
    out[d] = terms_at(r, at->c[d].offset, at->c[d].terms, at->c[d].n, lane);
  return true;
}

/* --- the services --- */

static bool terms_vary(const element_run *r, const term *terms, int n) {
  for (int k = 0; k < n; k++)
    if (terms[k].axis != TERM_REG || r->v->regs[terms[k].from].n > 1)
      return true;
  return false;
}

static bool place_varies(const element_run *r, const place *at) {
  if (!r->n_axes)
    return false;
  for (int d = 0; d < at->rank; d++)
    if (terms_vary(r, at->c[d].terms, at->c[d].n))
      return true;
  for (int k = 0; k < at->n_checks; k++)
    if (terms_vary(r, at->checks[k].of.terms, at->checks[k].of.n))
      return true;
  return false;
}

static reg serve_input(elem_ctx *c, int i, const place *at) {
  element_run *r = (element_run *)c;
  verifier *v = r->v;
  uint32_t value = v->g->nodes[r->node].in[i].id;
  sn_dtype dtype = v->types[value].dtype;
  r->n_inputs++;
  r->shown = value;
  if (r->demanding && i < 64 && !(v->demanded >> i & 1))
    return push_one(v, sym_load(&v->cases, value, dtype, i + 1 == v->perturbed));
  wide w = {.n = place_varies(r, at) ? VERIFY_SAMPLES : 1};
  int lanes = w.n > 1 ? r->n_lanes : 1;
  for (int lane = 0; lane < w.n; lane++)
    w.s[lane] = sym_number(dtype, 0);
  for (int lane = 0; lane < lanes && v->status == SN_OK; lane++) {
    int64_t where[SN_MAX_RANK];
    if (!position_of(r, at, lane, where))
      continue;
    w.s[lane] =
        place_is_nowhere(r, at, lane) ? sym_nothing(dtype) : expect_at(v, value, where, false);
  }
  return push(v, &w);
}

static bool access_is_nowhere(const element_run *r, const access *at, int lane) {
  for (int k = 0; k < at->n_checks; k++)
    if (is_nowhere(r, at->checks[k].terms, at->checks[k].n_terms, lane))
      return true;
  return is_nowhere(r, at->terms, at->n_terms, lane);
}

static sym add_lane(const element_run *r, const instr *i, int lane) {
  const verifier *v = r->v;
  int n = instr_arguments(i);
  sym in[3] = {{0}};
  const reg from[3] = {i->a, i->b, i->c};
  for (int k = 0; k < n; k++)
    in[k] = lane_of(v, from[k], lane);
  sn_dtype dtype = (sn_dtype)i->dtype;
  if (access_is_nowhere(r, &i->at, lane))
    return sym_nothing(dtype);
  switch ((region_op)i->op) {
  case REGION_NUMBER: return sym_number(dtype, i->x);
  case REGION_SIZE: return sym_number(dtype, (double)expect_size(v, i->size));
  case REGION_INDEX:
    return sym_number(dtype, (double)terms_at(r, i->at.base, i->at.terms, i->at.n_terms, lane));
  case REGION_WORD:
    return sym_word(i->x, in, terms_at(r, i->at.base, i->at.terms, i->at.n_terms, lane));
  case REGION_INSIDE: {
    bool passes = true;
    for (int k = 0; k < i->at.n_checks && passes; k++) {
      const check *q = &i->at.checks[k];
      passes = check_passes(terms_at(r, q->offset, q->terms, q->n_terms, lane),
                            expect_size(v, q->size), expect_size(v, q->divisor));
    }
    return sym_number(SN_BOOL, passes);
  }
  default: return sym_alu((alu)i->code, dtype, in, i->x, i->y);
  }
}

static bool instr_varies(const element_run *r, const instr *i) {
  const reg from[3] = {i->a, i->b, i->c};
  if (!r->n_axes)
    return false;
  for (int k = 0; k < instr_arguments(i); k++)
    if (r->v->regs[from[k]].n > 1)
      return true;
  if (i->op != REGION_INDEX && i->op != REGION_WORD && i->op != REGION_INSIDE)
    return false;
  for (int k = 0; k < i->at.n_checks; k++)
    if (terms_vary(r, i->at.checks[k].terms, i->at.checks[k].n_terms))
      return true;
  return terms_vary(r, i->at.terms, i->at.n_terms);
}

static reg serve_add(elem_ctx *c, const instr *i) {
  element_run *r = (element_run *)c;
  r->n_others++;
  wide w = {.n = instr_varies(r, i) ? VERIFY_SAMPLES : 1};
  for (int lane = 0; lane < w.n; lane++)
    w.s[lane] = lane == 0 || lane < r->n_lanes ? add_lane(r, i, lane) : w.s[0];
  return push(r->v, &w);
}

static void serve_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  element_run *r = (element_run *)c;
  int64_t samples[VERIFY_SAMPLES];
  if (r->n_axes)
    expect_give_up(r->v, diag_fail(r->v->ctx, SN_ERR_INTERNAL,
                                   "plan: %s opens a reduction in another", c->name));
  r->n_axes = n;
  r->count = 1;
  for (int k = 0; k < n; k++) {
    r->extents[k] = expect_size(r->v, extents[k]);
    r->count *= r->extents[k];
    out[k] = coord_axis(k);
  }
  r->n_lanes = reduce_samples(r->count, samples);
  memset(r->lane, 0, sizeof r->lane);
  for (int lane = 0; lane < r->n_lanes; lane++)
    for (int k = n - 1; k >= 0; k--) {
      r->lane[lane][k] = samples[lane] % r->extents[k];
      samples[lane] /= r->extents[k];
    }
}

static reg serve_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  element_run *r = (element_run *)c;
  sym bodies[VERIFY_SAMPLES];
  for (int lane = 0; lane < VERIFY_SAMPLES; lane++)
    bodies[lane] = lane_of(r->v, body, lane);
  r->n_axes = 0;
  r->n_others++;
  return push_one(r->v, sym_reduce(kind, dtype, r->count, bodies));
}

static void serve_require_size(elem_ctx *c, sn_dim size, const char *what) {
  element_run *r = (element_run *)c;
  if (r->demanding)
    requires_demand_size(r->v, r->node, size, what);
}

static void serve_require(elem_ctx *c, reg holds, reg shown, const char *message) {
  element_run *r = (element_run *)c;
  r->n_others++;
  if (r->demanding)
    requires_demand(r->v, r->node, lane_of(r->v, holds, 0), lane_of(r->v, shown, 0), message);
}

static const elem_services services = {
    .input = serve_input,
    .add = serve_add,
    .axes = serve_axes,
    .reduce = serve_reduce,
    .require_size = serve_require_size,
    .require = serve_require,
};

/* --- elements --- */

static void place_at(int rank, const int64_t *at, place *out) {
  out->rank = rank;
  out->n_checks = 0;
  for (int d = 0; d < rank; d++) {
    out->c[d].n = 0;
    out->c[d].offset = at[d];
  }
}

/* Attributes with their sizes in numbers. */
static const void *attrs_numbers(verifier *v, const node *n) {
  const op_desc *op = graph_op(v->g, n);
  void *copy = NULL;
  for (int k = 0; k < op->n_attrs; k++) {
    const attr_desc *a = &op->attrs[k];
    if (a->kind != ATTR_DIM && a->kind != ATTR_SHAPE)
      continue;
    if (!copy && !(copy = arena_copy(&v->bound, n->attrs, op->attrs_size)))
      return NULL;
    sn_dim *d = a->kind == ATTR_DIM ? attr_at(copy, a) : ((sn_shape *)attr_at(copy, a))->dim;
    int count = a->kind == ATTR_DIM ? 1 : ((sn_shape *)attr_at(copy, a))->rank;
    for (int i = 0; i < count; i++)
      d[i] = expect_size(v, d[i]);
  }
  return copy ? copy : n->attrs;
}

static bool node_numbers(verifier *v, uint32_t index) {
  struct node_numbers *of = &v->nodes[index];
  const node *n = &v->g->nodes[index];
  if (of->in)
    return true;
  sn_type *in = arena_array(&v->bound, (size_t)n->n_in + 1, sizeof *in);
  of->attrs = v->numbers ? attrs_numbers(v, n) : n->attrs;
  if (!in || (!of->attrs && n->attrs))
    return false;
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].id)
      in[i] = v->types[n->in[i].id];
  of->in = in;
  return true;
}

sym element_run_at(verifier *v, uint32_t value, const int64_t *at) {
  const value_info *info = &v->g->values[value];
  const node *n = &v->g->nodes[info->node];
  const op_desc *op = graph_op(v->g, n);
  int mark = v->n_regs;
  place where;
  element_run r = {.v = v, .node = info->node, .demanding = v->demanding};
  v->demanding = false;
  if (!node_numbers(v, info->node)) {
    expect_give_up(v, SN_ERR_NO_MEMORY);
    return (sym){0};
  }
  v->depth++;
  place_at(v->types[value].shape.rank, at, &where);
  r.c = (elem_ctx){.services = &services,
                   .graph = v->g,
                   .op = n->op,
                   .name = op->name,
                   .attrs = v->nodes[info->node].attrs,
                   .n_in = n->n_in,
                   .in = v->nodes[info->node].in,
                   .out = &v->types[n->first],
                   .axis_extents = r.extents};
  sym is = lane_of(v, op->impl->element(&r.c, &where), 0);
  v->depth--;
  v->n_regs = mark;
  if (!v->numbers) /* once for each node, before any bindings */
    v->shows[value] = r.n_inputs == 1 && !r.n_others ? r.shown : 0;
  return sym_cast(v->types[value].dtype, is);
}
