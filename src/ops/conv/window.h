/* Windows that slide along the spatial axes of [N, C, spatial…]: convolution's and pooling's
 * geometry.
 *
 * Along one axis, window o has its element k at input position o * stride - before + k * dilation.
 * The input is thought to be grown by `before` and `after` positions; what these hold is the op's
 * matter.
 *
 * An axis fits when it has at least one window. An input of size 0 may also have none (so a symbol
 * may be bound to 0), as long as the formula gives exactly 0 windows. */
#ifndef SINEW_OPS_CONV_WINDOW_H
#define SINEW_OPS_CONV_WINDOW_H

#include "ops/common.h"
#include "ops/shape/locate.h"

enum { MAX_SPATIAL = 3 };

typedef struct window {
  sn_ints kernel, stride, before, after, dilation; /* one number a spatial axis */
} window;

/* The window of an op's attributes; kernel_ is an sn_ints. */
#define WINDOW(kernel_, attrs)             \
  ((window){.kernel = (kernel_),           \
            .stride = (attrs)->stride,     \
            .before = (attrs)->pad_before, \
            .after = (attrs)->pad_after,   \
            .dilation = (attrs)->dilation})

/* Input positions from a window's first element to its last, both included. */
static inline int64_t window_reach(const window *w, int d) {
  return w->dilation.v[d] * (w->kernel.v[d] - 1) + 1;
}
static inline int64_t window_position(const window *w, int d, int64_t o, int64_t k) {
  return o * w->stride.v[d] - w->before.v[d] + k * w->dilation.v[d];
}
static inline bool window_fits(int64_t size, int64_t windows) {
  return windows > 0 || (size == 0 && windows == 0);
}

/* 1 to 3 spatial axes: input i has rank 3 to 5. */
sn_status infer_spatial(infer_ctx *c, int i) SN_MUST_USE;
/* Every list has n numbers; sizes and steps are positive, paddings not negative. */
sn_status infer_window(infer_ctx *c, const window *w, int n) SN_MUST_USE;
/* Windows along axis d of an input of `size`: those that lie wholly in the grown input. */
sn_dim window_count(sn_graph *g, const window *w, int d, sn_dim size);
/* Refuses an axis that does not fit, or has no window whatever its symbols are bound to. */
sn_status infer_fits(infer_ctx *c, const window *w, int d, sn_dim size, sn_dim windows) SN_MUST_USE;
/* The same at run time: x and y are [N, C, spatial…] before and behind the windows. */
sn_status ref_fits(const ref_ctx *c, const window *w, const ref_tensor *x,
                   const ref_tensor *y) SN_MUST_USE;

/* --- element --- */
/* The same as a demand on the run's symbols, for all axes. x and y are [.., .., spatial…]. */
void elem_require_fits(elem_ctx *c, const window *w, const sn_shape *x, const sn_shape *y);
/* Spatial axis d of a read of x: that of element k of window o, checked where there is padding. */
void window_read(elem_ctx *c, const window *w, guard *x, int input, int d, const coord *o,
                 const coord *k);
/* The other way round, a read of y: the window that has element k at position p of x, if there is one. */
void window_read_back(elem_ctx *c, const window *w, guard *y, int input, int d, const coord *p,
                      const coord *k);

#endif
