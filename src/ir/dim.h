/* Sizes as canonical integer expressions over symbols: polynomials whose atoms are symbols and
 * floor-divisions. A dim is a plain number or the handle of an interned expression; equal expressions
 * have equal handles, and an expression that is a number is always that number.
 *
 * A symbol takes values 0 … max. All arithmetic is checked; overflow is a graph error.
 */
#ifndef SINEW_IR_DIM_H
#define SINEW_IR_DIM_H

#include "base/text.h"
#include "ir/graph.h"

/* Handles count down from here; plain numbers lie above. */
#define DIM_HANDLES (INT64_MIN / 2)
/* Sizes and constants in expressions stay below this. */
#define DIM_LIMIT (INT64_C(1) << 56)
/* Divisions within each other. */
enum { DIM_MAX_DEPTH = 12 };

static inline bool dim_is_number(sn_dim d) { return d > DIM_HANDLES; }
bool dim_valid(const sn_graph *g, sn_dim d); /* a number within limits or a handle of this graph */

/* Expressions so far; their handles are DIM_HANDLES - 0, - 1, … */
int dim_handle_count(const sn_graph *g);

int dim_symbol_count(const sn_graph *g);
const char *dim_symbol_name(const sn_graph *g, int symbol);
int64_t dim_symbol_max(const sn_graph *g, int symbol);
int dim_find_symbol(const sn_graph *g, const char *name); /* -1: none */
/* Smallest and largest value over all bindings. */
void dim_range(const sn_graph *g, sn_dim d, int64_t *out_lo, int64_t *out_hi);
/* Value under bindings (by symbol); false on overflow. */
bool dim_eval(const sn_graph *g, sn_dim d, const int64_t *bindings, int64_t *out);
/* a / b when b divides a as an expression (x·b = a for some expression x); false otherwise. */
bool dim_divide(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out);
/* Product of a shape's dims. */
sn_dim dim_count(sn_graph *g, sn_shape shape);
/* Gives an empty graph the symbols and expressions of another: every dim of `from` is then the same dim in
 * `to`. false without memory. */
bool dim_copy_all(sn_graph *to, const sn_graph *from) SN_MUST_USE;
void dim_print(const sn_graph *g, sn_dim d, text *out);

#endif
