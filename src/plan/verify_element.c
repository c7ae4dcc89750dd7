/* See verify.h: one element of one op, executed through the op table's `element`. Coordinates are numbers (or registers that are
 * not known), sizes are numbers under the bindings. A reduction's body is executed once, on as many lanes as reductions have
 * samples. Called by verify_graph.c, and calls it for arguments.
 *
 * Invariant: registers are a stack; those of an element go when it is done, those that its coordinates name lie below.
 */
#include "plan/verify_graph.h"

typedef struct element_run {
  elem_ctx c; /* first: the ops' handle */
  verifier *v;
  uint32_t node;
  outcome checked; /* of the place at which it runs */
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

static spot terms_spot(const element_run *r, sn_dim offset, const term *terms, int n, int lane) {
  spot s = {.number = expect_size(r->v, offset)};
  for (int k = 0; k < n; k++)
    if (terms[k].axis == TERM_REG)
      spot_add(&s, lane_of(r->v, terms[k].from, lane), expect_size(r->v, terms[k].stride),
               expect_size(r->v, terms[k].mod));
    else
      s.number += axis_term(r, &terms[k], lane);
  return s;
}

/* Adds a register that is not known; strides of the same one add up, and may cancel. */
static void position_add(const element_run *r, struct position_term t, position *out) {
  for (int k = 0; k < out->n_regs; k++) {
    struct position_term *same = &out->regs[k];
    if (same->of != t.of || same->size != t.size || same->index.hash != t.index.hash)
      continue;
    same->stride += t.stride;
    if (same->stride == 0)
      *same = out->regs[--out->n_regs];
    return;
  }
  if (t.stride == 0)
    return;
  if (out->n_regs == PLACE_REGS)
    expect_give_up(r->v,
                   diag_fail(r->v->ctx, SN_ERR_INTERNAL, "plan: a place has too many registers"));
  else
    out->regs[out->n_regs++] = t;
}

/* A coordinate's number; its registers that are not known go to `out`. */
static int64_t coord_position(const element_run *r, const coord *c, int lane, int of,
                              position *out) {
  spot s = {.number = expect_size(r->v, c->offset)};
  for (int k = 0; k < c->n; k++) {
    const term *t = &c->terms[k];
    if (t->axis != TERM_REG) {
      s.number += axis_term(r, t, lane);
      continue;
    }
    sym index = lane_of(r->v, t->from, lane);
    int64_t stride = expect_size(r->v, t->stride), size = expect_size(r->v, t->mod);
    if (index.known)
      spot_add(&s, index, stride, size);
    else
      position_add(r, (struct position_term){of, stride, size, index}, out);
  }
  return s.number;
}

/* False where a check is known to fail. */
static bool position_checks(const element_run *r, const place *at, int lane, position *out) {
  outcome o = {0};
  for (int k = 0; k < at->n_checks; k++) {
    const struct place_check *c = &at->checks[k];
    int64_t size = expect_size(r->v, c->size), divisor = expect_size(r->v, c->divisor);
    spot s = terms_spot(r, c->of.offset, c->of.terms, c->of.n, lane);
    outcome_add(&o, s, size, divisor);
    if (o.fails)
      return false;
    if (!s.regs)
      continue;
    if (out->n_checks == PLACE_CHECKS) {
      expect_give_up(r->v,
                     diag_fail(r->v->ctx, SN_ERR_INTERNAL, "plan: a place has too many checks"));
      return false;
    }
    int of = out->n_checks++;
    int64_t offset = coord_position(r, &c->of, lane, -1 - of, out);
    out->checks[of].offset = offset;
    out->checks[of].size = size;
    out->checks[of].divisor = divisor;
  }
  out->checked = o;
  return true;
}

static bool position_of(const element_run *r, const place *at, int lane, position *out) {
  out->n_regs = out->n_checks = 0;
  if (!position_checks(r, at, lane, out))
    return false;
  for (int d = 0; d < at->rank; d++)
    out->at[d] = coord_position(r, &at->c[d], lane, d, out);
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
    return push_one(v, sym_load(value, dtype, (spot){.number = i + 1 == v->perturbed}));
  wide w = {.n = place_varies(r, at) ? VERIFY_SAMPLES : 1};
  int lanes = w.n > 1 ? r->n_lanes : 1;
  for (int lane = 0; lane < w.n; lane++)
    w.s[lane] = sym_number(dtype, 0);
  for (int lane = 0; lane < lanes && v->status == SN_OK; lane++) {
    position where;
    if (position_of(r, at, lane, &where))
      w.s[lane] = outcome_guard(where.checked, expect_at(v, value, &where, false));
  }
  return push(v, &w);
}

/* A number from coordinates: anywhere, and where the checks of the place pass. */
static sym add_number(const element_run *r, const instr *i, int lane, const sym *in) {
  spot s = terms_spot(r, i->at.base, i->at.terms, i->at.n_terms, lane);
  bool word = i->op == REGION_WORD;
  int64_t times = 0;
  sym is = word ? sym_word(i->x, in, s) : sym_index((sn_dtype)i->dtype, s);
  for (int k = 0; s.regs && r->checked.zero.lead && k < i->at.n_terms; k++) {
    const term *t = &i->at.terms[k];
    if (t->axis == TERM_REG)
      times += spot_factor(r->checked.zero.lead, lane_of(r->v, t->from, lane),
                           expect_size(r->v, t->stride), expect_size(r->v, t->mod));
  }
  if (!times)
    return is;
  s = outcome_spot(r->checked, s, times);
  return outcome_either(r->checked, word ? sym_word(i->x, in, s) : sym_index((sn_dtype)i->dtype, s),
                        is);
}

static sym add_lane(const element_run *r, const instr *i, int lane) {
  const verifier *v = r->v;
  int n = instr_arguments(i);
  sym in[3] = {{0}};
  const reg from[3] = {i->a, i->b, i->c};
  for (int k = 0; k < n; k++)
    in[k] = lane_of(v, from[k], lane);
  sn_dtype dtype = (sn_dtype)i->dtype;
  switch ((region_op)i->op) {
  case REGION_NUMBER: return sym_number(dtype, i->x);
  case REGION_SIZE: return sym_number(dtype, (double)expect_size(v, i->size));
  case REGION_INDEX:
  case REGION_WORD: return add_number(r, i, lane, in);
  case REGION_INSIDE: {
    outcome o = {0};
    for (int k = 0; k < i->at.n_checks; k++) {
      const check *q = &i->at.checks[k];
      outcome_add(&o, terms_spot(r, q->offset, q->terms, q->n_terms, lane), expect_size(v, q->size),
                  expect_size(v, q->divisor));
    }
    return outcome_sym(o);
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

static void place_of(verifier *v, int rank, const position *at, place *out) {
  out->rank = rank;
  out->n_checks = at->n_checks;
  for (int d = 0; d < rank; d++) {
    out->c[d].n = 0;
    out->c[d].offset = at->at[d];
  }
  for (int k = 0; k < at->n_checks; k++) {
    out->checks[k].of.n = 0;
    out->checks[k].of.offset = at->checks[k].offset;
    out->checks[k].size = at->checks[k].size;
    out->checks[k].divisor = at->checks[k].divisor;
  }
  for (int k = 0; k < at->n_regs; k++) {
    const struct position_term *t = &at->regs[k];
    coord *c = t->of < 0 ? &out->checks[-1 - t->of].of : &out->c[t->of];
    if (c->n < COORD_TERMS)
      c->terms[c->n++] = (term){.axis = TERM_REG,
                                .from = push_one(v, t->index),
                                .stride = t->stride,
                                .div = 1,
                                .mod = t->size};
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

sym element_run_at(verifier *v, uint32_t value, const position *at) {
  const value_info *info = &v->g->values[value];
  const node *n = &v->g->nodes[info->node];
  const op_desc *op = graph_op(v->g, n);
  int mark = v->n_regs;
  place where;
  element_run r = {.v = v, .node = info->node, .demanding = v->demanding, .checked = at->checked};
  v->demanding = false;
  if (!node_numbers(v, info->node)) {
    expect_give_up(v, SN_ERR_NO_MEMORY);
    return (sym){0};
  }
  v->depth++;
  place_of(v, v->types[value].shape.rank, at, &where);
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
