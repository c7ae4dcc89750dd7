/* Quotient and remainder of a coordinate (element.h): the step by which reshapes stay plain terms.
 *
 * a = by * q + r is kept exactly, whatever is split; what decides is the proof that r lies in 0 … by-1. All proofs may take
 * every axis to have a point, since otherwise nobody asks.
 */
#include "step/coord_sum.h"

/* How many values (i / div) % mod takes at most. */
static bool term_size(sn_graph *g, const sn_dim *axis_extents, const term *t, sn_dim *out) {
  if (t->mod != 0) {
    *out = t->mod;
    return true;
  }
  sn_dim extent = axis_extents[t->axis], up;
  if (t->div == 1) {
    *out = extent;
    return true;
  }
  if (dim_divide(g, extent, t->div, out))
    return true;
  if (!dim_is_number(t->div) || t->div < 1 || !dim_try_add(g, extent, t->div - 1, &up))
    return false;
  *out = sn_dim_div(g, up, t->div);
  return g->status == SN_OK;
}

/* 1 and -1: the sign of a dim under all bindings; 0: it has none. */
static int sign_of(const sn_graph *g, sn_dim d) {
  int64_t lo, hi;
  dim_range(g, d, &lo, &hi);
  return lo >= 0 ? 1 : hi <= 0 ? -1 : 0;
}

/* Smallest and largest value of a sum, as expressions. */
static bool bounds(sn_graph *g, const sn_dim *axis_extents, const coord_sum *s, sn_dim *out_lo,
                   sn_dim *out_hi) {
  *out_lo = *out_hi = s->offset;
  for (int k = 0; k < s->n; k++) {
    sn_dim size, far;
    int sign = sign_of(g, s->terms[k].stride);
    sn_dim *end = sign > 0 ? out_hi : out_lo;
    if (sign == 0 || !term_size(g, axis_extents, &s->terms[k], &size) ||
        !dim_try_sub(g, size, 1, &far) || !dim_try_mul(g, far, s->terms[k].stride, &far) ||
        !dim_try_add(g, *end, far, end))
      return false;
  }
  return true;
}

static bool lies_below(sn_graph *g, const sn_dim *axis_extents, const coord_sum *s, sn_dim by) {
  sn_dim lo, hi, past;
  return bounds(g, axis_extents, s, &lo, &hi) && dim_try_add(g, hi, 1, &past) &&
         dim_at_least(g, lo, 0) && dim_at_least(g, by, past);
}

static bool magnitude(sn_graph *g, sn_dim stride, int *out_sign, sn_dim *out) {
  *out_sign = sign_of(g, stride);
  return *out_sign != 0 && dim_try_mul(g, stride, *out_sign, out);
}

/* stride * v, v being (i / div) % mod, with by = |stride| * k: high takes sign * (v / k), low stride * (v % k). */
static bool split(sn_graph *g, const term *t, sn_dim by, term *high, term *low) {
  sn_dim size, k, mod = 0, div;
  int sign;
  if (t->axis == TERM_REG || !magnitude(g, t->stride, &sign, &size) ||
      !dim_divide(g, by, size, &k) || (t->mod != 0 && !dim_divide(g, t->mod, k, &mod)) ||
      !dim_try_mul(g, t->div, k, &div))
    return false;
  *high = (term){.axis = t->axis, .stride = sign, .div = div, .mod = mod};
  *low = (term){.axis = t->axis, .stride = t->stride, .div = t->div, .mod = k};
  return true;
}

/* Whether a term alone stays within a period of `by`. */
static bool fits(sn_graph *g, const sn_dim *axis_extents, const term *t, sn_dim by) {
  sn_dim stride, size;
  int sign;
  return magnitude(g, t->stride, &sign, &stride) && term_size(g, axis_extents, t, &size) &&
         dim_try_mul(g, size, stride, &size) && dim_at_least(g, by, size);
}

static bool distribute(sn_graph *g, const sn_dim *axis_extents, const term *t, sn_dim by,
                       coord_sum *q, coord_sum *r) {
  sn_dim stride;
  term high, low;
  if (dim_divide(g, t->stride, by, &stride)) {
    high = *t;
    high.stride = stride;
    return sum_add_term(g, q, high);
  }
  if (!fits(g, axis_extents, t, by) && split(g, t, by, &high, &low))
    return sum_add_term(g, q, high) && sum_add_term(g, r, low);
  return sum_add_term(g, r, *t);
}

/* by * q + r = offset. By a symbolic size, n * by - 1 (a flipped axis) is (n - 1) * by + (by - 1). */
static bool divide_offset(sn_graph *g, sn_dim offset, sn_dim by, sn_dim *q, sn_dim *r) {
  sn_dim next, product;
  *q = 0;
  if (dim_is_number(by) && by > 0) {
    *q = sn_dim_div(g, offset, by);
    if (g->status != SN_OK)
      return false;
  } else if (dim_divide(g, offset, by, &next)) {
    *q = next;
  } else if (dim_try_add(g, offset, 1, &next) && dim_divide(g, next, by, &next) &&
             !dim_try_sub(g, next, 1, q)) {
    return false;
  }
  return dim_try_mul(g, *q, by, &product) && dim_try_sub(g, offset, product, r);
}

/* An axis that may be empty. */
static bool may_be_empty(sn_graph *g, const sn_dim *axis_extents, const term *t) {
  return t->axis != TERM_REG && !dim_at_least(g, axis_extents[t->axis], 1);
}

/* A quotient that is always 0 still hangs on an empty axis, by a term that is always 0 too: see vanishes in coord.c. */
static bool hang(sn_graph *g, const sn_dim *axis_extents, const coord_sum *of, coord_sum *q) {
  for (int k = 0; k < q->n; k++)
    if (may_be_empty(g, axis_extents, &q->terms[k]))
      return true;
  for (int k = 0; k < of->n; k++) {
    const term *t = &of->terms[k];
    if (may_be_empty(g, axis_extents, t))
      return sum_add_term(g, q,
                          (term){.axis = t->axis,
                                 .stride = 1,
                                 .div = max_i64(1, sn_dim_max(g, axis_extents[t->axis]))});
  }
  return true;
}

static bool divide(sn_graph *g, const sn_dim *axis_extents, const coord_sum *a, sn_dim by,
                   sn_dim extent, coord_sum *out_quotient, coord_sum *out_remainder) {
  coord_sum simple = *a, q = {0}, r = {0};
  sum_simplify(g, axis_extents, &simple);
  if (by == 1) {
    *out_quotient = simple;
    *out_remainder = (coord_sum){0};
    return true;
  }
  if (dim_at_least(g, by, extent)) {
    *out_quotient = (coord_sum){0};
    *out_remainder = simple;
    return true;
  }
  if (!divide_offset(g, simple.offset, by, &q.offset, &r.offset))
    return false;
  for (int k = 0; k < simple.n; k++)
    if (!distribute(g, axis_extents, &simple.terms[k], by, &q, &r))
      return false;
  if (!lies_below(g, axis_extents, &r, by))
    return false;
  sum_simplify(g, axis_extents, &q);
  sum_simplify(g, axis_extents, &r);
  *out_quotient = q;
  *out_remainder = r;
  return true;
}

bool sum_divide(sn_graph *g, const sn_dim *axis_extents, const coord_sum *a, sn_dim by,
                sn_dim extent, coord_sum *out_quotient, coord_sum *out_remainder) {
  return divide(g, axis_extents, a, by, extent, out_quotient, out_remainder) &&
         (dim_at_least(g, extent, 1) || hang(g, axis_extents, a, out_quotient));
}

bool coord_divide(sn_graph *g, const sn_dim *axis_extents, const coord *a, sn_dim by, sn_dim extent,
                  coord *out_quotient, coord *out_remainder) {
  coord_sum s = {0}, q, r;
  coord quotient, remainder;
  if (!sum_add(g, &s, a, 1) || !sum_divide(g, axis_extents, &s, by, extent, &q, &r) ||
      !sum_coord(&q, &quotient) || !sum_coord(&r, &remainder))
    return false;
  *out_quotient = quotient;
  *out_remainder = remainder;
  return true;
}
