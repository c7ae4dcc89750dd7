/* See verify.h: region programs executed to hashes of expressions, and each store compared with what the graph says of that
 * element. Called by verify_part.c, which chooses the points.
 */
#include "plan/verify_region.h"

#include "plan/verify_graph.h"

static int64_t place_of(const frame *f, sn_dim base, const term *terms, int n, int lane) {
  verifier *v = f->v;
  int64_t at = verify_size(v, base);
  for (int k = 0; k < n; k++) {
    const term *t = &terms[k];
    int64_t stride = verify_size(v, t->stride), mod = verify_size(v, t->mod);
    if (t->axis == TERM_REG) {
      at += stride * cases_index(&v->cases, frame_register(f, t->from, lane), mod);
      continue;
    }
    int64_t i = f->at[lane][t->axis], div = verify_size(v, t->div);
    if (div > 1)
      i /= div;
    if (mod > 0)
      i %= mod;
    at += stride * i;
  }
  return at;
}

static bool is_inside(const frame *f, const access *at, int lane) {
  for (int k = 0; k < at->n_checks; k++) {
    const check *c = &at->checks[k];
    if (!check_passes(place_of(f, c->offset, c->terms, c->n_terms, lane),
                      verify_size(f->v, c->size), verify_size(f->v, c->divisor)))
      return false;
  }
  return true;
}

static sn_status bad_element(const frame *f, const instr *i, int64_t element) {
  return verify_fail(f->v, f->step, i->at.value, "%s element %lld, but it has %lld",
                     i->op == REGION_LOAD ? "reads" : "writes", (long long)element,
                     (long long)verify_size(f->v, f->v->p->values[i->at.value].count));
}

static bool in_value(const frame *f, const instr *i, int64_t at) {
  return at >= 0 && at < verify_size(f->v, f->v->p->values[i->at.value].count);
}

/* Whether a register picks along an axis without elements: from there a load gives 0 and touches nothing. */
static bool picks_from_nothing(const frame *f, const access *at) {
  for (int k = 0; k < at->n_terms; k++)
    if (at->terms[k].axis == TERM_REG && verify_size(f->v, at->terms[k].mod) == 0)
      return true;
  return false;
}

static sn_status load(const frame *f, const instr *i, int lane, sym *out) {
  const program_value *value = &f->v->p->values[i->at.value];
  int64_t coordinates[SN_MAX_RANK];
  *out = sym_number(value->type.dtype, 0);
  if (!is_inside(f, &i->at, lane) || (f->empty && !i->row) || picks_from_nothing(f, &i->at))
    return SN_OK;
  int64_t at = place_of(f, i->at.base, i->at.terms, i->at.n_terms, lane);
  if (!in_value(f, i, at))
    return bad_element(f, i, at);
  at = expect_number(value, at);
  if (f->v->seen_through[value->source] != f->v->serial) {
    *out = expect_load(f->v, value->source, at);
    return SN_OK;
  }
  expect_coordinates(&f->v->types[value->source], at, coordinates);
  *out = expect_shown(f->v, value->source, coordinates);
  return f->v->status;
}

/* An update: points are the slice's elements, in order; each goes where the graph's op puts it. */
static sn_status compare_update(const frame *f, const instr *i, int lane) {
  verifier *v = f->v;
  const node *n = graph_node(v->g, (sn_value){verify_target(v, &v->p->values[i->at.value])});
  const sn_shape *shape = &v->types[n->first].shape;
  int64_t axis = ((const attrs_update_slice *)n->attrs)->axis;
  int64_t at[SN_MAX_RANK], number = 0, stride = 1, start[SN_MAX_RANK] = {0};
  int64_t found = place_of(f, i->at.base, i->at.terms, i->at.n_terms, lane), expected = 0;
  for (int d = 0; d < (i->row ? f->n_outer : f->n_axes); d++)
    number = number * f->extents[d] + f->at[lane][d];
  expect_coordinates(&v->types[n->in[1].id], number, at);
  sym rows[3] = {expect_element(v, n->in[2].id, start, false)};
  axis = axis < 0 ? axis + shape->rank : axis;
  for (int d = shape->rank - 1; d >= 0; d--) {
    rows[1] = sym_number(SN_I32, (double)at[d]);
    if (d == axis)
      expected +=
          stride * cases_index(&v->cases, sym_alu(ALU_add, SN_I32, rows, 0, 0), shape->dim[d]);
    else
      expected += at[d] * stride;
    stride *= shape->dim[d];
  }
  sym value = expect_element(v, n->in[1].id, at, false);
  SN_TRY(v->status);
  sym stored = sym_cast(v->p->values[i->at.value].type.dtype, frame_register(f, i->a, lane));
  if (value.nothing || rows[0].nothing || (found == expected && stored.hash == value.hash))
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
  int64_t number = place_of(f, i->at.base, i->at.terms, i->at.n_terms, lane);
  uint32_t target = verify_target(v, value);
  int64_t at[SN_MAX_RANK];
  if (!in_value(f, i, number))
    return bad_element(f, i, number);
  number = expect_number(value, number);
  sym found = sym_cast(value->type.dtype, frame_register(f, i->a, lane));
  expect_coordinates(&v->types[target], number, at);
  sym expected = expect_element(v, target, at, false);
  SN_TRY(v->status);
  if (found.hash != expected.hash && v->loaded[target] == v->serial)
    expected = expect_element(v, target, at, true);
  SN_TRY(v->status);
  if (expected.nothing || found.hash == expected.hash)
    return SN_OK;
  return verify_fail(
      v, f->step, i->at.value,
      "instruction %d stores to element %lld what is not %s of the graph's value %u there",
      (int)(i - f->code->code), (long long)number,
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
    *out = sym_number(dtype, (double)place_of(f, i->at.base, i->at.terms, i->at.n_terms, lane));
    return SN_OK;
  case REGION_WORD:
    *out = sym_word(i->x, in, place_of(f, i->at.base, i->at.terms, i->at.n_terms, lane));
    return SN_OK;
  case REGION_INSIDE: *out = sym_number(SN_BOOL, is_inside(f, &i->at, lane)); return SN_OK;
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
