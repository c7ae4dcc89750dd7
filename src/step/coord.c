/* Coordinates as sums of terms over axes: adding, scaling, comparing (element.h). Ops and the planner call it. Division stands in
 * coord_divide.c, reshaping in place.c. */
#include "step/coord_sum.h"

/* --- dims --- */

static bool within_limits(sn_dim d) { return d > -DIM_LIMIT && d < DIM_LIMIT; }

/* Runs one operation of the graph's dims. Exceeding their limits is an answer here, not an error of the graph. */
static bool attempt(sn_graph *g, sn_dim (*op)(sn_graph *, sn_dim, sn_dim), sn_dim a, sn_dim b,
                    sn_dim *out) {
  if (g->status != SN_OK || a == SN_END || b == SN_END)
    return false;
  sn_dim made = op(g, a, b);
  if (g->status == SN_OK) {
    *out = made;
    return true;
  }
  if (g->status != SN_ERR_NO_MEMORY) {
    g->status = SN_OK;
    g->message = NULL;
  }
  return false;
}

bool dim_try_add(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) {
  int64_t sum;
  if (dim_is_number(a) && dim_is_number(b) && add_fits(a, b, &sum) && within_limits(sum)) {
    *out = sum;
    return true;
  }
  return attempt(g, sn_dim_add, a, b, out);
}

bool dim_try_mul(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) {
  int64_t product;
  if (dim_is_number(a) && dim_is_number(b) && mul_fits(a, b, &product) && within_limits(product)) {
    *out = product;
    return true;
  }
  return attempt(g, sn_dim_mul, a, b, out);
}

bool dim_try_sub(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) {
  sn_dim minus;
  return dim_try_mul(g, b, -1, &minus) && dim_try_add(g, a, minus, out);
}

bool dim_at_least(sn_graph *g, sn_dim a, sn_dim b) {
  sn_dim difference;
  int64_t lo, hi;
  if (!dim_try_sub(g, a, b, &difference))
    return false;
  dim_range(g, difference, &lo, &hi);
  return lo >= 0;
}

/* --- sums --- */

static bool same_factor(const term *a, const term *b) {
  return a->axis == b->axis && a->from == b->from && a->div == b->div && a->mod == b->mod;
}

/* s * k * ((i / (d * k)) % m) + s * ((i / d) % k)  =  s * ((i / d) % (m * k)) */
static bool recombine(sn_graph *g, const term *high, const term *low, term *out) {
  sn_dim div, stride, mod = 0;
  if (high->axis != low->axis || high->axis == TERM_REG || low->mod == 0 ||
      !dim_try_mul(g, low->div, low->mod, &div) || div != high->div ||
      !dim_try_mul(g, low->stride, low->mod, &stride) || stride != high->stride ||
      (high->mod != 0 && !dim_try_mul(g, high->mod, low->mod, &mod)))
    return false;
  *out = *low;
  out->mod = mod;
  return true;
}

static void remove_term(coord_sum *s, int k) { s->terms[k] = s->terms[--s->n]; }

bool sum_add_term(sn_graph *g, coord_sum *s, term t) {
  if (t.stride == 0)
    return true;
  for (int k = 0; k < s->n; k++)
    if (same_factor(&s->terms[k], &t)) {
      if (!dim_try_add(g, s->terms[k].stride, t.stride, &t.stride))
        return false;
      remove_term(s, k);
      return sum_add_term(g, s, t); /* with its new stride it may recombine */
    }
  for (int k = 0; k < s->n; k++) {
    term joined;
    if (recombine(g, &t, &s->terms[k], &joined) || recombine(g, &s->terms[k], &t, &joined)) {
      remove_term(s, k);
      return sum_add_term(g, s, joined);
    }
  }
  if (s->n == SUM_TERMS)
    return false;
  s->terms[s->n++] = t;
  return true;
}

bool sum_add(sn_graph *g, coord_sum *s, const coord *a, sn_dim by) {
  sn_dim offset;
  if (!dim_try_mul(g, a->offset, by, &offset) || !dim_try_add(g, s->offset, offset, &s->offset))
    return false;
  for (int k = 0; k < a->n; k++) {
    term t = a->terms[k];
    if (!dim_try_mul(g, t.stride, by, &t.stride) || !sum_add_term(g, s, t))
      return false;
  }
  return true;
}

bool sum_linear(sn_graph *g, const coord *c, const sn_dim *dims, int n, coord_sum *out) {
  sn_dim stride = 1;
  *out = (coord_sum){0};
  for (int d = n - 1; d >= 0; d--) {
    if (!sum_add(g, out, &c[d], stride))
      return false;
    if (d > 0 && !dim_try_mul(g, stride, dims[d], &stride))
      return false;
  }
  return true;
}

/* Whether (i / div) % mod is always 0; else mod goes where it does nothing. A term of an axis that may be empty stays:
 * a place that no longer hung on it would be read once a row, before the row is known to have no points. */
static bool vanishes(sn_graph *g, const sn_dim *axis_extents, term *t) {
  sn_dim period;
  if (t->mod == 1)
    return true;
  if (t->axis == TERM_REG)
    return false;
  sn_dim extent = axis_extents[t->axis];
  if (dim_at_least(g, t->div, extent))
    return dim_at_least(g, extent, 1);
  if (t->mod != 0 && dim_try_mul(g, t->div, t->mod, &period) && dim_at_least(g, period, extent))
    t->mod = 0;
  return false;
}

void sum_simplify(sn_graph *g, const sn_dim *axis_extents, coord_sum *s) {
  coord_sum simple = {.offset = s->offset};
  for (int k = 0; k < s->n; k++) {
    term t = s->terms[k];
    if (!vanishes(g, axis_extents, &t) && !sum_add_term(g, &simple, t))
      return;
  }
  *s = simple;
}

static int compare_terms(const term *a, const term *b) {
  const int64_t x[] = {a->axis, a->from, a->div, a->mod, a->stride};
  const int64_t y[] = {b->axis, b->from, b->div, b->mod, b->stride};
  for (size_t k = 0; k < COUNT_OF(x); k++)
    if (x[k] != y[k])
      return x[k] < y[k] ? -1 : 1;
  return 0;
}

bool sum_coord(const coord_sum *s, coord *out) {
  if (s->n > COORD_TERMS)
    return false;
  coord made = {.offset = s->offset};
  for (int k = 0; k < s->n; k++) {
    int at = made.n++;
    for (; at > 0 && compare_terms(&s->terms[k], &made.terms[at - 1]) < 0; at--)
      made.terms[at] = made.terms[at - 1];
    made.terms[at] = s->terms[k];
  }
  *out = made;
  return true;
}

/* --- coordinates --- */

coord coord_axis(int axis) {
  return (coord){.n = 1, .terms = {{.axis = (uint8_t)axis, .stride = 1, .div = 1}}};
}

bool coord_add(sn_graph *g, const coord *a, const coord *b, coord *out) {
  coord_sum s = {0};
  return sum_add(g, &s, a, 1) && sum_add(g, &s, b, 1) && sum_coord(&s, out);
}

coord coord_scale(sn_graph *g, const coord *a, sn_dim by) {
  coord scaled = *a;
  if (by == 0)
    return coord_number(0);
  scaled.offset = sn_dim_mul(g, a->offset, by);
  for (int k = 0; k < a->n; k++)
    scaled.terms[k].stride = sn_dim_mul(g, a->terms[k].stride, by);
  return scaled;
}

coord coord_shift(sn_graph *g, const coord *a, sn_dim by) {
  coord shifted = *a;
  shifted.offset = sn_dim_add(g, a->offset, by);
  return shifted;
}

bool coord_equal(const coord *a, const coord *b) {
  if (a->n != b->n || a->offset != b->offset)
    return false;
  for (int k = 0; k < a->n; k++)
    if (compare_terms(&a->terms[k], &b->terms[k]) != 0)
      return false;
  return true;
}
