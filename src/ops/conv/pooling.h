/* What pool and its gradient share: which elements a window holds, how they are folded, and the
 * windows as a graph of simpler ops.
 *
 * ceil_mode allows windows that run past the padded input, as long as they begin inside the input
 * or the padding before it, and of those only what a step more reaches. That is the same as padding
 * after by min(reach - 1, after + stride - 1), so `win.after` holds that and the rest of the code
 * knows no modes; only the divisor of avg asks where the padding of the attributes ends. */
#ifndef SINEW_OPS_CONV_POOLING_H
#define SINEW_OPS_CONV_POOLING_H

#include "ops/conv/window.h"

typedef struct pool_rule {
  window win;
  sn_ints padding_after; /* as the attribute says */
  sn_pool_kind kind;
  bool count_include_pad;
} pool_rule;

pool_rule pool_rule_of(window win, sn_pool_kind kind, bool ceil_mode, bool count_include_pad);
/* Of the attributes of pool or pool_grad. */
#define POOL_RULE(a) \
  pool_rule_of(WINDOW((a)->kernel, a), (a)->kind, (a)->ceil_mode, (a)->count_include_pad)

/* The type of pool's result for input 0. */
sn_status infer_pool(infer_ctx *c, window win, bool ceil_mode, sn_type *out) SN_MUST_USE;

/* --- ref: one result element after the other --- */
typedef struct pool_walk {
  const pool_rule *rule;
  const ref_tensor *x, *y;
  int64_t i;              /* the result element */
  int64_t o[MAX_SPATIAL]; /* its position */
  int64_t n, *at;         /* the input elements in its window */
  int64_t padded;         /* elements of the window in the padded input */
} pool_walk;
sn_status pool_walk_start(pool_walk *w, const ref_ctx *c, const pool_rule *rule,
                          const ref_tensor *y) SN_MUST_USE;
/* Gathers the next result element's window; false after the last. */
bool pool_walk_next(pool_walk *w);
/* The window's max, sum, min or product (for avg: the sum), but for element `skip` (-1: none). */
double pool_fold(const pool_walk *w, int64_t skip);
/* What avg divides by; 1 for the others. */
double pool_divisor(const pool_walk *w);

/* --- element --- */
/* Windows fit, and none sees nothing but padding of an empty axis. */
void elem_require_pool(elem_ctx *c, const pool_rule *rule, const sn_shape *x, const sn_shape *y);
/* What avg divides by at a place of the result, f32. */
reg elem_pool_divisor(elem_ctx *c, const pool_rule *rule, const place *at);

/* --- graph --- */
/* Elements a window has. */
int64_t pool_elements(const pool_rule *rule);
/* v [N, C, spatial…] as [N, C, elements, windows…], with `fill` outside of v. */
sn_value build_windows(build_ctx *c, const pool_rule *rule, sn_value v, double fill);
/* 1 where an element of a window lies in x, else 0: f32 [1, 1, elements, windows…]. */
sn_value build_inside(build_ctx *c, const pool_rule *rule, sn_value x);
/* avg's divisors, f32 [1, 1, windows…]. */
sn_value build_divisors(build_ctx *c, const pool_rule *rule, sn_value x);
/* What padding holds so that it changes nothing: -inf, 0, inf or 1. */
double pool_neutral(sn_pool_kind kind);

#endif
