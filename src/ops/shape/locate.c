/* See locate.h. */
#include "ops/shape/locate.h"

#include <stdio.h>

/* Registers that stand for coordinates are clamped to 0 … size-1, so those that may be negative are moved up. */
enum { MOVED = 1 << 30 };

coord locate_register(elem_ctx *c, reg at) {
  reg moved = elem_int2(c, ALU_add, at, elem_number_as(c, SN_I32, MOVED));
  coord there = elem_at(moved, INT32_MAX);
  return coord_shift(c->graph, &there, -MOVED);
}

coord locate_sum(elem_ctx *c, const coord *a, const coord *b) {
  coord sum;
  if (coord_add(c->graph, a, b, &sum))
    return sum;
  return locate_register(c, elem_int2(c, ALU_add, elem_coord(c, a), elem_coord(c, b)));
}

void locate_divide(elem_ctx *c, const coord *a, sn_dim by, sn_dim extent, coord *out_quotient,
                   coord *out_remainder) {
  if (by == 0) { /* nothing is there; but the place must still hang on the empty axis (place.c) */
    *out_quotient = coord_number(0);
    *out_remainder = *a;
    return;
  }
  if (coord_divide(c->graph, c->axis_extents, a, by, extent, out_quotient, out_remainder))
    return;
  reg at = elem_coord(c, a), divisor = elem_size(c, SN_I32, by);
  *out_quotient = elem_at(elem_int2(c, ALU_floor_div, at, divisor), INT32_MAX);
  *out_remainder = elem_at(elem_int2(c, ALU_rem, at, divisor), by);
}

place locate_start(const place *at, int rank) {
  place made = {.rank = rank, .n_checks = at->n_checks};
  memcpy(made.checks, at->checks, sizeof made.checks);
  return made;
}

void locate_check(elem_ctx *c, place *at, const coord *of, sn_dim size, sn_dim divisor) {
  if (at->n_checks ==
      ACCESS_CHECKS) { /* all of them as one: a register that is 1 outside must be below 1 */
    reg outside = elem_alu_as(c, ALU_not, SN_BOOL, elem_inside(c, at), 0, 0, 0, 0);
    outside = elem_alu_as(c, ALU_cast, SN_I32, outside, 0, 0, 0, 0);
    at->checks[0] = (struct place_check){elem_at(outside, 2), 1, 1};
    at->n_checks = 1;
  }
  at->checks[at->n_checks++] = (struct place_check){*of, size, divisor};
}

void guard_axis(elem_ctx *c, guard *g, int axis, const coord *is, const coord *of, sn_dim size,
                sn_dim divisor) {
  g->own[g->n++] = (struct place_check){*of, size, divisor};
  g->at.c[axis] = *is;
  locate_check(c, &g->at, of, size, divisor);
}

reg guard_inside(elem_ctx *c, const guard *g) {
  reg inside = 0;
  for (int first = 0; first < g->n || first == 0; first += ACCESS_CHECKS) {
    place some = {.n_checks = (int)min_i64(g->n - first, ACCESS_CHECKS)};
    memcpy(some.checks, g->own + first, (size_t)some.n_checks * sizeof some.checks[0]);
    reg these = elem_inside(c, &some);
    inside = first == 0 ? these : elem_bool2(c, ALU_and, inside, these);
  }
  return inside;
}

reg guard_read(elem_ctx *c, const guard *g, int i, double outside) {
  sn_dtype dtype = c->in[i].dtype;
  reg read = elem_input(c, i, &g->at);
  if (g->n == 0)
    return read;
  return elem_alu_as(c, ALU_select, dtype, guard_inside(c, g), read,
                     elem_number_as(c, dtype, outside), 0, 0);
}

void locate_require(elem_ctx *c, sn_dim least, sn_dim times, const char *what) {
  int64_t lo, hi, most, product;
  dim_range(c->graph, least, &lo, &hi);
  if (lo >= 0)
    return;
  /* Where the product could not be written down, the stricter demand stands for it. */
  most = max_i64(lo > -DIM_LIMIT ? -lo : DIM_LIMIT, hi);
  if (times != 1 && mul_fits(most, sn_dim_max(c->graph, times), &product) && product < DIM_LIMIT)
    least = sn_dim_mul(c->graph, least, times);
  c->services->require_size(c, least, what);
}

void locate_require_index(elem_ctx *c, reg index, sn_dim n) {
  char line[96];
  const char *message = NULL;
  if (dim_is_number(n)) {
    snprintf(line, sizeof line, "index %%d is outside of 0 … %lld", (long long)n - 1);
    message = graph_intern(c->graph, line);
  }
  reg first = elem_number_as(c, SN_I32, 0);
  reg holds = elem_bool2(c, ALU_and, elem_bool2(c, ALU_ge, index, first),
                         elem_bool2(c, ALU_lt, index, elem_size(c, SN_I32, n)));
  c->services->require(c, holds, index, message ? message : "index %d is outside of its axis");
}
