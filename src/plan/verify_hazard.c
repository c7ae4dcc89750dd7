/* See verify.h: what may happen at the same time. Steps between two barriers run in any order or at once, and so do the parts of a
 * step and the points of a part. So no two steps of such a group may touch the same bytes when one of them writes, nor two
 * parts of a step; within a part a point may overwrite what it alone has read before: the load's map is the store's.
 *
 * Uses of a group are sorted by bytes, so that only those that overlap meet.
 */
#include "plan/verify.h"

#include <stdlib.h>

typedef struct touched {
  bytes_of at;
  int step;
  const use *use;
} touched;

static int compare_touched(const void *a, const void *b) {
  const touched *x = a, *y = b;
  if (x->at.memory != y->at.memory)
    return x->at.memory < y->at.memory ? -1 : 1;
  if (x->at.low != y->at.low)
    return x->at.low < y->at.low ? -1 : 1;
  if (x->step != y->step)
    return x->step < y->step ? -1 : 1;
  return x->use < y->use ? -1 : x->use > y->use;
}

/* --- maps --- */

int use_axes(const verifier *v, int at_step, const use *u, sn_dim *extents) {
  const part *of = &v->p->steps[at_step].parts[u->part];
  if (u->place == USE_LOOP) {
    memcpy(extents, of->u.loop.extent, sizeof of->u.loop.extent);
    return u->code->row ? of->u.loop.n_outer : of->u.loop.n_axes;
  }
  const matmul_part *m = &of->u.matmul;
  int n = m->n_batch + m->n_m + m->n_n;
  memcpy(extents, m->extent, sizeof m->extent);
  if (u->place != USE_OPERAND)
    return n;
  for (int k = 0; k < u->product->n_k; k++)
    extents[n++] = u->product->k[k];
  return n;
}

static bool term_before(const term *a, const term *b) {
  return a->axis != b->axis ? a->axis < b->axis : a->div < b->div;
}

/* Terms that count, ordered by axis and divisor; registers are not compared: false. */
static bool plain_terms(const access *a, const sn_dim *extents, term *out, int *n) {
  *n = 0;
  for (int k = 0; k < a->n_terms; k++) {
    term t = a->terms[k];
    if (t.axis == TERM_REG)
      return false;
    if (t.stride == 0 || extents[t.axis] == 1 || t.mod == 1)
      continue;
    t.from = 0;
    if (t.div == 0)
      t.div = 1;
    if (t.div == 1 && t.mod == extents[t.axis])
      t.mod = 0;
    int at = (*n)++;
    for (; at > 0 && term_before(&t, &out[at - 1]); at--)
      out[at] = out[at - 1];
    out[at] = t;
  }
  return true;
}

/* Whether two accesses are the same map, whatever the symbols are bound to. */
static bool same_map(const access *a, const access *b, const sn_dim *extents) {
  term x[ACCESS_TERMS], y[ACCESS_TERMS];
  int n, m;
  if (a->base != b->base || !plain_terms(a, extents, x, &n) || !plain_terms(b, extents, y, &m) ||
      n != m)
    return false;
  for (int k = 0; k < n; k++)
    if (x[k].axis != y[k].axis || x[k].stride != y[k].stride || x[k].div != y[k].div ||
        x[k].mod != y[k].mod)
      return false;
  return true;
}

/* --- pairs that overlap --- */

/* A read and a write of one part; NULL when the write may overwrite what is read, else why not. */
static const char *why_not_in_place(const verifier *v, int s, const use *r, const use *w) {
  const program_value *from = &v->p->values[r->value], *to = &v->p->values[w->value];
  sn_dim extents[VERIFY_AXES];
  if (value_bytes(from).low != value_bytes(to).low ||
      sn_dtype_size(from->type.dtype) != sn_dtype_size(to->type.dtype))
    return "elements of the two do not stand in the same places";
  if (r->place == USE_CORE_BASE && w->place == USE_CORE)
    return NULL;
  if (r->place == USE_OPERAND)
    return "an operand of a matmul is read again for other results";
  if (r->place != w->place || (r->place != USE_LOOP && r->place != USE_EPILOGUE))
    return "this step reads all of it in its own order";
  if (r->at > w->at)
    return "it is read after the store";
  (void)use_axes(v, s, r, extents);
  if (!same_map(&r->code->at, &w->code->at, extents))
    return "the load's map is not the store's";
  return NULL;
}

static sn_status check_pair(const verifier *v, const touched *a, const touched *b) {
  const use *x = a->use, *y = b->use;
  if (!x->store && !y->store)
    return SN_OK;
  if (x->store && y->store) {
    if (x->value == y->value) /* pieces */
      return SN_OK;
    return verify_fail(v, a->step > b->step ? a->step : b->step, x->value,
                       "and value %u are written to the same bytes by steps %d and %d without a "
                       "barrier between",
                       y->value, a->step, b->step);
  }
  const use *r = x->store ? y : x, *w = x->store ? x : y;
  if (a->step != b->step)
    return verify_fail(v, a->step > b->step ? a->step : b->step, r->value,
                       "is read by step %d and value %u is written over it by step %d without a "
                       "barrier between",
                       x->store ? b->step : a->step, w->value, x->store ? a->step : b->step);
  if (r->part != w->part)
    return verify_fail(v, a->step, r->value,
                       "is read by part %d, and part %d writes value %u over it", r->part, w->part,
                       w->value);
  const char *why = why_not_in_place(v, a->step, r, w);
  if (why)
    return verify_fail(v, a->step, w->value, "is written in place of value %u, but %s", r->value,
                       why);
  return SN_OK;
}

/* Steps from … to-1, between two barriers. */
static sn_status check_group(const verifier *v, int from, int to, touched *list) {
  int n = 0;
  for (int s = from; s < to; s++)
    for (int k = v->uses_from[s]; k < v->uses_from[s + 1]; k++) {
      touched t = {value_bytes(&v->p->values[v->uses[k].value]), s, &v->uses[k]};
      if (t.at.low < t.at.high)
        list[n++] = t;
    }
  qsort(list, (size_t)n, sizeof *list, compare_touched);
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n && bytes_overlap(list[i].at, list[j].at); j++)
      SN_TRY(check_pair(v, &list[i], &list[j]));
  return SN_OK;
}

sn_status verify_hazards(verifier *v) {
  int n = program_steps(v->p), from = 0;
  touched *list = arena_array(&v->memory, (size_t)v->n_uses + 1, sizeof *list);
  if (!list)
    return SN_ERR_NO_MEMORY;
  for (int s = 1; s <= n; s++) {
    bool section = s == v->p->n_prepare || s == v->p->n_prepare + v->p->n_main;
    if (s < n && section && !v->p->steps[s].barrier)
      return verify_fail(v, s, 0, "begins a section without a barrier");
    if (s < n && !v->p->steps[s].barrier)
      continue;
    SN_TRY(check_group(v, from, s, list));
    from = s;
  }
  return SN_OK;
}
