/* See verify.h: region programs executed to hashes of expressions, and each store compared with what the graph says of that
 * element. Called by verify_part.c, which chooses the points.
 */
#include "plan/verify_region.h"

#include "plan/verify_graph.h"

static spot spot_of(const frame *f, sn_dim base, const term *terms, int n, int lane) {
  const verifier *v = f->v;
  spot s = {.number = verify_size(v, base)};
  for (int k = 0; k < n; k++) {
    const term *t = &terms[k];
    int64_t stride = verify_size(v, t->stride), mod = verify_size(v, t->mod);
    if (t->axis == TERM_REG) {
      spot_add(&s, frame_register(f, t->from, lane), stride, mod);
      continue;
    }
    int64_t i = f->at[lane][t->axis], div = verify_size(v, t->div);
    if (div > 1)
      i /= div;
    if (mod > 0)
      i %= mod;
    s.number += stride * i;
  }
  return s;
}

static outcome checks_of(const frame *f, const access *at, int lane) {
  outcome o = {0};
  for (int k = 0; k < at->n_checks; k++) {
    const check *c = &at->checks[k];
    outcome_add(&o, spot_of(f, c->offset, c->terms, c->n_terms, lane), verify_size(f->v, c->size),
                verify_size(f->v, c->divisor));
  }
  return o;
}

/* The factor of what leads in a sum that is 0. */
static int64_t factor_of(const frame *f, uint64_t lead, const access *at, int lane) {
  int64_t times = 0;
  for (int k = 0; lead && k < at->n_terms; k++) {
    const term *t = &at->terms[k];
    if (t->axis == TERM_REG)
      times += spot_factor(lead, frame_register(f, t->from, lane), verify_size(f->v, t->stride),
                           verify_size(f->v, t->mod));
  }
  return times;
}

static bool is_ready(const access *at, int before) {
  for (int k = 0; k < at->n_checks; k++)
    for (int t = 0; t < at->checks[k].n_terms; t++)
      if (at->checks[k].terms[t].axis == TERM_REG && at->checks[k].terms[t].from >= before)
        return false;
  return true;
}

/* A number that a masked expression computes from coordinates: what it is where the mask's checks pass too. */
static sym masked(const frame *f, const instr *i, int lane, const sym *in) {
  spot s = spot_of(f, i->at.base, i->at.terms, i->at.n_terms, lane);
  bool word = i->op == REGION_WORD;
  sym is = word ? sym_word(i->x, in, s) : sym_index((sn_dtype)i->dtype, s);
  for (int k = 0; s.regs && k < f->code->n; k++) {
    const access *at = &f->code->code[k].at;
    if (!at->n_checks || !is_ready(at, (int)(i - f->code->code)))
      continue;
    outcome o = checks_of(f, at, lane);
    int64_t times = factor_of(f, o.zero.lead, &i->at, lane);
    if (o.fails || !times)
      continue;
    s = outcome_spot(o, s, times);
    return outcome_either(o, word ? sym_word(i->x, in, s) : sym_index((sn_dtype)i->dtype, s), is);
  }
  return is;
}

static sn_status bad_element(const frame *f, const instr *i, int64_t element) {
  return verify_fail(f->v, f->step, i->at.value, "%s element %lld, but it has %lld",
                     i->op == REGION_LOAD ? "reads" : "writes", (long long)element,
                     (long long)verify_size(f->v, f->v->p->values[i->at.value].count));
}

static bool in_value(const frame *f, const instr *i, spot s) {
  return s.number >= 0 &&
         (s.regs || s.number < verify_size(f->v, f->v->p->values[i->at.value].count));
}

/* The place of an access in a value of that shape, where it is plain: registers move along one axis each and stay in it. */
static bool plain_position(const frame *f, const access *a, int lane, spot s, const sn_type *type,
                           position *out) {
  int64_t strides[SN_MAX_RANK], top[SN_MAX_RANK], stride = 1;
  int rank = type->shape.rank;
  out->n_regs = out->n_checks = 0;
  out->checked = (outcome){0};
  for (int d = rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= type->shape.dim[d];
  }
  if (s.number < 0 || s.number >= stride)
    return false;
  expect_coordinates(type, s.number, out->at);
  memcpy(top, out->at, sizeof top);
  for (int k = 0; k < a->n_terms; k++) {
    const term *t = &a->terms[k];
    int64_t by = verify_size(f->v, t->stride), size = verify_size(f->v, t->mod);
    if (t->axis != TERM_REG || frame_register(f, t->from, lane).known || size == 1 || by == 0)
      continue;
    int d = 0;
    while (d < rank && (strides[d] > by || by % strides[d]))
      d++;
    if (d == rank || out->n_regs == PLACE_REGS ||
        (top[d] += by / strides[d] * (size - 1)) >= type->shape.dim[d])
      return false;
    out->regs[out->n_regs++] =
        (struct position_term){d, by / strides[d], size, frame_register(f, t->from, lane)};
  }
  return true;
}

static sn_status load(const frame *f, const instr *i, int lane, sym *out) {
  const program_value *value = &f->v->p->values[i->at.value];
  outcome o = checks_of(f, &i->at, lane);
  *out = sym_number(value->type.dtype, 0);
  if (o.fails || (f->empty && !i->row))
    return SN_OK;
  spot s = spot_of(f, i->at.base, i->at.terms, i->at.n_terms, lane);
  if ((!o.unknown || value->channels) && !in_value(f, i, s))
    return bad_element(f, i, s.number);
  if (value->channels && s.regs)
    return verify_fail(f->v, f->step, i->at.value,
                       "has its channels last, but is read at a register");
  s.number = expect_number(value, s.number);
  position where;
  if (f->v->seen_through[value->source] == f->v->serial && !o.unknown &&
      plain_position(f, &i->at, lane, s, &f->v->types[value->source], &where)) {
    *out = expect_shown(f->v, value->source, &where);
    return f->v->status;
  }
  s = outcome_spot(o, s, factor_of(f, o.zero.lead, &i->at, lane));
  *out = outcome_guard(o, expect_load(f->v, value->source, s));
  return SN_OK;
}

/* An update: points are the slice's elements, in order; each goes where the graph's op puts it. */
static sn_status compare_update(const frame *f, const instr *i, int lane) {
  verifier *v = f->v;
  const node *n = graph_node(v->g, (sn_value){verify_target(v, &v->p->values[i->at.value])});
  const sn_shape *shape = &v->types[n->first].shape;
  int64_t axis = ((const attrs_update_slice *)n->attrs)->axis;
  int64_t at[SN_MAX_RANK], number = 0, stride = 1, start[SN_MAX_RANK] = {0};
  spot found = spot_of(f, i->at.base, i->at.terms, i->at.n_terms, lane), expected = {0};
  for (int d = 0; d < (i->row ? f->n_outer : f->n_axes); d++)
    number = number * f->extents[d] + f->at[lane][d];
  expect_coordinates(&v->types[n->in[1].id], number, at);
  sym rows[3] = {expect_element(v, n->in[2].id, start, false)};
  axis = axis < 0 ? axis + shape->rank : axis;
  for (int d = shape->rank - 1; d >= 0; d--) {
    rows[1] = sym_number(SN_I32, (double)at[d]);
    if (d == axis)
      spot_add(&expected, sym_alu(ALU_add, SN_I32, rows, 0, 0), stride, shape->dim[d]);
    else
      expected.number += at[d] * stride;
    stride *= shape->dim[d];
  }
  sym value = expect_element(v, n->in[1].id, at, false);
  SN_TRY(v->status);
  sym stored = sym_cast(v->p->values[i->at.value].type.dtype, frame_register(f, i->a, lane));
  if (found.number == expected.number && found.regs == expected.regs && stored.hash == value.hash)
    return SN_OK;
  return verify_fail(v, f->step, i->at.value,
                     "instruction %d stores to element %lld of a slice what "
                     "the graph's update_slice does not put there",
                     (int)(i - f->code->code), (long long)number);
}

static sn_status compare(const frame *f, const instr *i, int lane) {
  verifier *v = f->v;
  const program_value *value = &v->p->values[i->at.value];
  uint32_t base = update_base(v, i);
  if (base && (value->channels || v->p->values[base].channels))
    return verify_fail(v, f->step, i->at.value, "has its channels last, but is an update");
  if (base)
    return compare_update(f, i, lane);
  spot s = spot_of(f, i->at.base, i->at.terms, i->at.n_terms, lane);
  uint32_t target = verify_target(v, value);
  int64_t at[SN_MAX_RANK];
  if (s.regs || !in_value(f, i, s))
    return bad_element(f, i, s.number);
  s.number = expect_number(value, s.number);
  sym found = sym_cast(value->type.dtype, frame_register(f, i->a, lane));
  expect_coordinates(&v->types[target], s.number, at);
  sym expected = expect_element(v, target, at, false);
  SN_TRY(v->status);
  if (found.hash != expected.hash && v->loaded[target] == v->serial)
    expected = expect_element(v, target, at, true);
  SN_TRY(v->status);
  if (found.hash == expected.hash)
    return SN_OK;
  return verify_fail(
      v, f->step, i->at.value,
      "instruction %d stores to element %lld what is not %s of the graph's value %u there",
      (int)(i - f->code->code), (long long)s.number,
      graph_op(v->g, graph_node(v->g, (sn_value){target}))->name, target);
}

static sym reduce(const frame *f, const instr *i) {
  sym bodies[VERIFY_SAMPLES] = {{0}};
  int64_t unused[VERIFY_SAMPLES];
  int n = reduce_samples(f->inner, unused);
  for (int k = 0; k < n; k++)
    bodies[k] = frame_register(f, i->a, f->sample_lane[k]);
  return sym_reduce((reduce_kind)i->code, (sn_dtype)i->dtype, f->inner, bodies);
}

static sn_status execute_one(const frame *f, const instr *i, int lane, sym *out) {
  sn_dtype dtype = (sn_dtype)i->dtype;
  const reg from[3] = {i->a, i->b, i->c};
  sym in[3] = {{0}};
  for (int k = 0; k < instr_arguments(i); k++)
    in[k] = frame_register(f, from[k], lane);
  switch ((region_op)i->op) {
  case REGION_LOAD: return load(f, i, lane, out);
  case REGION_STORE: *out = in[0]; return f->empty && !i->row ? SN_OK : compare(f, i, lane);
  case REGION_INDEX:
  case REGION_WORD: *out = masked(f, i, lane, in); return SN_OK;
  case REGION_INSIDE: *out = outcome_sym(checks_of(f, &i->at, lane)); return SN_OK;
  case REGION_NUMBER: *out = sym_number(dtype, i->x); return SN_OK;
  case REGION_SIZE: *out = sym_number(dtype, (double)verify_size(f->v, i->size)); return SN_OK;
  case REGION_ALU: *out = sym_alu((alu)i->code, dtype, in, i->x, i->y); return SN_OK;
  case REGION_REDUCE: *out = reduce(f, i); return SN_OK;
  case REGION_ACC:
    *out = f->accs[(size_t)i->index * (size_t)f->n_lanes + (size_t)lane];
    return SN_OK;
  case REGION_REQUIRE:
    *out = in[0];
    if (!f->empty || i->row)
      requires_offer(f->v, (int)i->index, in[0], in[1]);
    return SN_OK;
  }
  return SN_OK;
}

sn_status frame_execute(const frame *f) {
  for (int k = 0; k < f->code->n; k++) {
    const instr *i = &f->code->code[k];
    sym *out = &f->regs[(size_t)k * (size_t)f->n_lanes];
    bool once = i->row || i->op == REGION_REDUCE;
    for (int lane = 0; lane < (once ? 1 : f->n_lanes); lane++)
      SN_TRY(execute_one(f, i, lane, &out[lane]));
    for (int lane = 1; once && lane < f->n_lanes; lane++)
      out[lane] = out[0];
  }
  return SN_OK;
}
