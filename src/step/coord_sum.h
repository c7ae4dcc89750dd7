/* Inside the coordinate algebra: a coordinate with room for the terms of a whole place, as linear numbers of places need it, and
 * dim arithmetic that says no instead of failing the graph. For coord*.c and place.c alone.
 *
 * A sum keeps this form: no two terms have the same factor, none has stride 0, and no two recombine
 * ((i / 4) * 4 + i % 4 is i).
 */
#ifndef SINEW_STEP_COORD_SUM_H
#define SINEW_STEP_COORD_SUM_H

#include "step/element.h"

enum { SUM_TERMS = COORD_TERMS * SN_MAX_RANK + 2 };

typedef struct coord_sum {
  int n;
  term terms[SUM_TERMS];
  sn_dim offset;
} coord_sum;

/* Dim arithmetic; false where the expression exceeds the limits of dims (the graph stays as it was) or the graph
 * has failed already. */
bool dim_try_add(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) SN_MUST_USE;
bool dim_try_sub(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) SN_MUST_USE;
bool dim_try_mul(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) SN_MUST_USE;
/* a >= b under every binding; false also where it cannot be proved. */
bool dim_at_least(sn_graph *g, sn_dim a, sn_dim b);

/* s += t, s += a * by; false when it cannot be said. */
bool sum_add_term(sn_graph *g, coord_sum *s, term t) SN_MUST_USE;
bool sum_add(sn_graph *g, coord_sum *s, const coord *a, sn_dim by) SN_MUST_USE;
/* s = the row-major number of coordinates c within dims. */
bool sum_linear(sn_graph *g, const coord *c, const sn_dim *dims, int n, coord_sum *out) SN_MUST_USE;
/* Takes out what the axes' extents make superfluous. */
void sum_simplify(sn_graph *g, const sn_dim *axis_extents, coord_sum *s);
/* In canonical order; false when there are more than COORD_TERMS. */
bool sum_coord(const coord_sum *s, coord *out) SN_MUST_USE;
/* coord_divide for sums. */
bool sum_divide(sn_graph *g, const sn_dim *axis_extents, const coord_sum *a, sn_dim by,
                sn_dim extent, coord_sum *out_quotient, coord_sum *out_remainder) SN_MUST_USE;

#endif
