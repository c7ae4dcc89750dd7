/* Accesses of regions: where in memory the lanes of a load or store are, as
 * numbers for one run's sizes.
 *
 * Along the lane axis most accesses are linear: a start and a stride for each
 * segment, and a check is then an interval of lanes. What is not (divided
 * coordinates, registers as indices, checks with a divisor) is computed lane by
 * lane into st->numbers and st->inside first.
 *
 * Invariants: a stride of an axis with at most one point is 0; odd terms have
 * div >= 1, and a mod of 0 or above 1. */
#include "device/cpu/machine.h"

#include <assert.h>

/* --- resolving --- */
static size_t sum_bytes(int n_terms) { return cpu_take_bytes((size_t)n_terms * sizeof(odd_term)); }

size_t access_bytes(const access *a) {
  size_t bytes = cpu_take_bytes(sizeof(index_access)) + sum_bytes(a->n_terms) +
                 cpu_take_bytes((size_t)a->n_checks * sizeof(index_check));
  for (int i = 0; i < a->n_checks; i++)
    bytes += sum_bytes(a->checks[i].n_terms);
  return bytes;
}

static void add_odd(index_sum *s, odd_term t) {
  s->odd[s->n_odd++] = t;
  if (t.axis == TERM_REG)
    s->by_register = true;
  else
    s->odd_axes |= UINT32_C(1) << t.axis;
}

static void add_term(cpu_run *r, index_sum *s, const term *t, const int64_t *extents) {
  odd_term odd = {t->axis, t->from, cpu_size(r, t->stride), cpu_size(r, t->div),
                  cpu_size(r, t->mod)};
  if (odd.stride == 0)
    return;
  if (odd.axis == TERM_REG) {
    add_odd(s, odd);
    return;
  }
  int64_t extent = extents[odd.axis];
  odd.div = odd.div < 1 ? 1 : odd.div;
  if (odd.mod == 1 || odd.div >= extent || extent <= 1)
    return; /* always 0 */
  if (odd.mod > (extent - 1) / odd.div)
    odd.mod = 0;
  if (odd.div == 1 && odd.mod == 0)
    s->stride[odd.axis] += odd.stride;
  else
    add_odd(s, odd);
}

static bool sum_resolve(cpu_run *r, sn_dim base, int n_terms, const term *terms,
                        const int64_t *extents, index_sum *out) {
  *out = (index_sum){.base = cpu_size(r, base)};
  out->odd = cpu_take(r, (size_t)n_terms * sizeof(odd_term));
  if (!out->odd)
    return false;
  for (int i = 0; i < n_terms; i++)
    add_term(r, out, &terms[i], extents);
  return true;
}

static bool picks_from_nothing(const index_sum *s) {
  for (int i = 0; i < s->n_odd; i++)
    if (s->odd[i].axis == TERM_REG && s->odd[i].mod <= 0)
      return true;
  return false;
}

sn_status access_resolve(cpu_run *r, const access *a, int n_axes, const int64_t *extents,
                         index_access **out) {
  index_access *x = cpu_take(r, sizeof *x);
  index_check *checks = cpu_take(r, (size_t)a->n_checks * sizeof *checks);
  if (!x || !checks)
    return SN_ERR_INTERNAL;
  *x = (index_access){.n_checks = a->n_checks, .checks = checks, .before = INT32_MIN};
  if (a->value) {
    x->data = cpu_address(r, a->value);
    x->dtype = r->program->values[a->value].type.dtype;
    x->size = (int)sn_dtype_size(x->dtype);
    x->count = cpu_size(r, r->program->values[a->value].count);
  }
  bool ok = sum_resolve(r, a->base, a->n_terms, a->terms, extents, &x->at);
  for (int i = 0; ok && i < a->n_checks; i++) {
    const check *c = &a->checks[i];
    checks[i].size = cpu_size(r, c->size);
    checks[i].divisor = max_i64(cpu_size(r, c->divisor), 1);
    ok = sum_resolve(r, c->offset, c->n_terms, c->terms, extents, &checks[i].v);
  }
  x->nothing = ok && a->value && picks_from_nothing(&x->at);
  x->simple = a->value && x->at.n_odd == 0 && a->n_checks == 0;
  bool reaches = x->at.n_odd == 0 && a->n_checks == 0; /* under a check it may lie outside */
  x->reach = reaches ? x->at.base + 1 : 0;
  for (int i = 0; i < n_axes && reaches; i++)
    x->reach += max_i64(x->at.stride[i], 0) * (extents[i] - 1);
  *out = x;
  return ok ? SN_OK : SN_ERR_INTERNAL;
}

static uint32_t sum_moves(const region_state *st, index_sum *s) {
  uint32_t moves = s->odd_axes;
  for (int axis = 0; axis < st->n_axes; axis++)
    moves |= (uint32_t)(s->stride[axis] != 0) << axis;
  s->register_moves = 0;
  for (int i = 0; i < s->n_odd; i++)
    if (s->odd[i].axis == TERM_REG)
      s->register_moves |= st->ops[s->odd[i].from].moves;
  return moves | s->register_moves;
}

uint32_t access_moves(const region_state *st, index_access *a) {
  uint32_t moves = sum_moves(st, &a->at) | (a->aliased ? MOVES_ALWAYS : 0);
  for (int i = 0; i < a->n_checks; i++)
    moves |= sum_moves(st, &a->checks[i].v);
  return moves;
}

/* --- numbers --- */
/* Whether registers that serve as indices are the same all along a segment.
 * (MOVES_ALWAYS says nothing about axes.) */
static bool registers_stand(const index_sum *s, int axis) {
  return !(s->register_moves & (MOVES_ALWAYS | UINT32_C(1) << axis));
}

bool sum_is_linear(const index_sum *s, int axis) {
  return registers_stand(s, axis) && !(s->odd_axes >> axis & 1);
}

static int64_t clamped(const odd_term *t, int64_t index) {
  if (t->mod <= 0)
    return index;
  return index < 0 ? 0 : index >= t->mod ? t->mod - 1 : index;
}

/* At the first point of a segment, without what is not linear along its axis.
 */
int64_t sum_start(const region_state *st, const index_sum *s, const segment *g, int axis) {
  int64_t v = s->base;
  for (int i = 0; i < st->n_axes; i++)
    v += s->stride[i] * g->at[i];
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == TERM_REG) {
      if (registers_stand(s, axis))
        v += t->stride * clamped(t, ((const int32_t *)st->ops[t->from].lanes)[g->lane]);
      continue;
    }
    if (t->axis == axis)
      continue;
    int64_t q = g->at[t->axis] / t->div;
    v += t->stride * (t->mod ? q % t->mod : q);
  }
  return v;
}

void sum_numbers(const region_state *st, const index_sum *s, const segment *g, int axis,
                 int64_t *v) {
  int64_t start = sum_start(st, s, g, axis), by = s->stride[axis];
  st->kernels->begin_numbers(v, start, by, g->n);
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == TERM_REG && !registers_stand(s, axis))
      st->kernels->add_index(v, (const int32_t *)st->ops[t->from].lanes + g->lane, t->stride,
                             t->mod, g->n);
    else if (t->axis == axis)
      st->kernels->add_divided(v, t->stride, g->at[axis], t->div, t->mod, g->n);
  }
}

void access_numbers(region_state *st, const index_access *a, const tile *t) {
  for (int i = 0; i < t->n_segments; i++) {
    const segment *g = &t->segments[i];
    sum_numbers(st, &a->at, g, t->axis, st->numbers + g->lane);
  }
}
