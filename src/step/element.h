/* How an op says what an element of its result is: an expression over elements of its arguments, built through the calls below.
 * Written once an op, it serves whoever implements the calls: the planner builds regions with coordinates that are
 * expressions over axes, the verifier executes it at single elements, tests compute numbers with it.
 *
 *   static reg element_relu(elem_ctx *c, const place *at) {
 *     reg x = elem_input(c, 0, at);
 *     return elem_alu2(c, ALU_max, x, elem_number(c, 0));
 *   }
 *
 * At most one argument of a call is a call itself: compilers differ in the order, and so would plans.
 *
 * Registers here are whatever the implementation makes of them; 0 is a register as any other.
 */
#ifndef SINEW_STEP_ELEMENT_H
#define SINEW_STEP_ELEMENT_H

#include "step/region.h"

enum { COORD_TERMS = 8 };

/* One coordinate: offset + terms. */
typedef struct coord {
  int n;
  term terms[COORD_TERMS];
  sn_dim offset;
} coord;

/* Where in a value: a coordinate for each of its axes; and the checks that loads on the way must pass. */
typedef struct place {
  int rank, n_checks;
  coord c[SN_MAX_RANK];
  struct place_check {
    coord of;
    sn_dim size, divisor;
  } checks[ACCESS_CHECKS];
} place;

typedef struct elem_ctx elem_ctx;
/* What an implementation provides. */
typedef struct elem_services {
  /* Element `at` of input i. */
  reg (*input)(elem_ctx *c, int i, const place *at);
  /* Any instruction but loads, stores, reductions and accumulators; its access holds no value. Terms and checks are the
     caller's: copy what is kept. */
  reg (*add)(elem_ctx *c, const instr *i);
  /* n new coordinates that run over extents, for one reduction; it is closed by `reduce` */
  void (*axes)(elem_ctx *c, int n, const sn_dim *extents, coord *out);
  reg (*reduce)(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body);
  /* `size` must not be negative under the run's symbols. what: "max over nothing". */
  void (*require_size)(elem_ctx *c, sn_dim size, const char *what);
  /* the bool `holds` must be true at every element of the result; `shown` is an i32 that goes into the message's %d. Elements that a
     consumer does not need are required too: it is checked whole, once, before anything is committed. */
  void (*require)(elem_ctx *c, reg holds, reg shown, const char *message);
} elem_services;

struct elem_ctx {
  const elem_services *services;
  sn_graph *graph; /* for arithmetic on dims */
  int op;
  const char *name;
  const void *attrs;
  int n_in;
  const sn_type *in, *out;    /* types of arguments (SN_NO_DTYPE: left out) and results */
  const sn_dim *axis_extents; /* of the axes that terms of coordinates name; grows with `axes` */
};

/* --- calls for ops --- */
static inline reg elem_input(elem_ctx *c, int i, const place *at) {
  return c->services->input(c, i, at);
}
/* Input i broadcast to the result's shape. */
reg elem_broadcast(elem_ctx *c, int i, const place *at);
/* An instruction whose result has the dtype of result 0 of the op (alu) or a dtype of one's own (alu_as). */
reg elem_alu1(elem_ctx *c, alu code, reg a);
reg elem_alu2(elem_ctx *c, alu code, reg a, reg b);
reg elem_alu3(elem_ctx *c, alu code, reg a, reg b, reg d);
reg elem_alu_as(elem_ctx *c, alu code, sn_dtype dtype, reg a, reg b, reg d, double x, double y);
/* A number of the dtype of result 0; of another dtype; a size as f32 or i32. */
reg elem_number(elem_ctx *c, double x);
reg elem_number_as(elem_ctx *c, sn_dtype dtype, double x);
reg elem_size(elem_ctx *c, sn_dtype dtype, sn_dim size);
/* A coordinate as an i32 register; a register (i32) as the coordinate of an axis of that size. */
reg elem_coord(elem_ctx *c, const coord *of);
coord elem_at(reg index, sn_dim size);
/* bool: all checks of a place pass. */
reg elem_inside(elem_ctx *c, const place *at);
reg elem_word(elem_ctx *c, reg key[3], int64_t stream, const coord *index);
void elem_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out);
reg elem_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body);

/* --- coordinates (coord.c) --- */
static inline coord coord_number(sn_dim n) { return (coord){.offset = n}; }
coord coord_axis(int axis);
/* a + b, a * by, a + by; false (with *out untouched) when it needs more than COORD_TERMS. */
bool coord_add(sn_graph *g, const coord *a, const coord *b, coord *out) SN_MUST_USE;
coord coord_scale(sn_graph *g, const coord *a, sn_dim by);
coord coord_shift(sn_graph *g, const coord *a, sn_dim by);
/* floor(a / by) and a mod by as coordinates, where that can be said, 0 <= a < extent: by terms whose factors `by` divides, or by
 * dividing a single axis. `axis_extents` give the range of each axis. false when it cannot. */
bool coord_divide(sn_graph *g, const sn_dim *axis_extents, const coord *a, sn_dim by, sn_dim extent,
                  coord *out_quotient, coord *out_remainder) SN_MUST_USE;
bool coord_equal(const coord *a, const coord *b);
bool place_equal(const place *a, const place *b);
/* The place in a value of shape `from` of the element that stands at `at` in its reshaped form of shape `to`. Where plain terms
 * cannot say it, through registers made by `c`; with c NULL it then gives up and returns false. */
bool place_reshape(elem_ctx *c, sn_graph *g, const sn_dim *axis_extents, sn_shape to,
                   const place *at, sn_shape from, place *out);
/* Whether a place runs through all elements of a value of that shape, each once, while the axes run through their extents. Where
 * that cannot be seen: false. */
bool place_covers(sn_graph *g, const sn_dim *axis_extents, int n_axes, sn_shape shape,
                  const place *at);
/* The row-major number of a place. false when it needs too many terms. */
bool place_linear(sn_graph *g, const place *at, sn_shape shape, coord *out) SN_MUST_USE;
/* The same, through a register (so below 2^31) where terms do not suffice. */
coord elem_linear(elem_ctx *c, const place *at, sn_shape shape);

#endif
