/* Where the elements of arguments stand, for ops that say what an element of their result is (step/element.h):
 * coordinates that may need a register, reads that may lie outside, and what a run must hold to.
 *
 * A place that is made for an argument keeps the checks of the place it is made from: whoever reads under a check may
 * stand anywhere.
 */
#ifndef SINEW_OPS_SHAPE_LOCATE_H
#define SINEW_OPS_SHAPE_LOCATE_H

#include "step/element.h"

/* --- coordinates: plain terms where these can say it, else through a register --- */
/* A register of any i32 above -2^30 as a coordinate. */
coord locate_register(elem_ctx *c, reg at);
coord locate_sum(elem_ctx *c, const coord *a, const coord *b);
/* floor(a / by) and a mod by, 0 <= a < extent. */
void locate_divide(elem_ctx *c, const coord *a, sn_dim by, sn_dim extent, coord *out_quotient,
                   coord *out_remainder);

/* --- places --- */
/* A place of that rank, all coordinates 0, with the checks of `at`. */
place locate_start(const place *at, int rank);
/* One check more, whatever the number of those that there are. */
void locate_check(elem_ctx *c, place *at, const coord *of, sn_dim size, sn_dim divisor);
/* A read that may lie outside: the place, and the checks of its own. */
typedef struct guard {
  place at;
  int n;
  struct place_check own[SN_MAX_RANK];
} guard;
static inline guard guard_start(const place *at, int rank) {
  return (guard){.at = locate_start(at, rank)};
}
/* Coordinate `axis` is `is`, to be read only where `divisor` divides `of` and 0 <= of / divisor < size. */
void guard_axis(elem_ctx *c, guard *g, int axis, const coord *is, const coord *of, sn_dim size,
                sn_dim divisor);
/* Input i there, and `outside` (of the input's dtype) where a check of its own fails. */
reg guard_read(elem_ctx *c, const guard *g, int i, double outside);
/* bool: its own checks pass. */
reg guard_inside(elem_ctx *c, const guard *g);

/* --- dtypes: sums and products of halves are taken in f32 --- */
static inline bool elem_is_half(sn_dtype dtype) { return dtype == SN_F16 || dtype == SN_BF16; }
static inline reg elem_wide(elem_ctx *c, reg a, sn_dtype from) {
  return elem_is_half(from) ? elem_alu_as(c, ALU_cast, SN_F32, a, 0, 0, 0, 0) : a;
}
/* An f32 in the dtype of result 0, a float. */
static inline reg elem_narrow(elem_ctx *c, reg a) {
  return elem_is_half(c->out[0].dtype) ? elem_alu1(c, ALU_cast, a) : a;
}
static inline reg elem_int2(elem_ctx *c, alu code, reg a, reg b) {
  return elem_alu_as(c, code, SN_I32, a, b, 0, 0, 0);
}
static inline reg elem_bool2(elem_ctx *c, alu code, reg a, reg b) {
  return elem_alu_as(c, code, SN_BOOL, a, b, 0, 0, 0);
}

/* --- what a run must hold to --- */
/* `least` must not be negative unless `times`, which never is, is 0. */
void locate_require(elem_ctx *c, sn_dim least, sn_dim times, const char *what);
/* The i32 index lies in 0 … n-1. */
void locate_require_index(elem_ctx *c, reg index, sn_dim n);

#endif
