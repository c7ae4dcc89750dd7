/* See window.h. */
#include "ops/conv/window.h"

#include <stdio.h>

sn_status infer_spatial(infer_ctx *c, int i) {
  int rank = c->in[i].shape.rank;
  if (rank >= 3 && rank <= 2 + MAX_SPATIAL)
    return SN_OK;
  return infer_fail(c, "%s must be [N, C, spatial…] with 1 to 3 spatial axes, got %s",
                    c->op->inputs[i].name, infer_text(c, i));
}

static sn_status infer_list(infer_ctx *c, const char *name, const sn_ints *list, int n,
                            int64_t least) {
  if (list->n != n)
    return infer_fail(c, "%s must have a number for each of %d spatial axes, got %d", name, n,
                      list->n);
  for (int d = 0; d < n; d++)
    if (list->v[d] < least || list->v[d] > INT32_MAX)
      return infer_fail(c, "%s must be %lld or more (below 2^31), got %lld", name, (long long)least,
                        (long long)list->v[d]);
  return SN_OK;
}

sn_status infer_window(infer_ctx *c, const window *w, int n) {
  SN_TRY(infer_list(c, "kernel", &w->kernel, n, 1));
  SN_TRY(infer_list(c, "stride", &w->stride, n, 1));
  SN_TRY(infer_list(c, "pad_before", &w->before, n, 0));
  SN_TRY(infer_list(c, "pad_after", &w->after, n, 0));
  return infer_list(c, "dilation", &w->dilation, n, 1);
}

/* floor((size + before + after - reach) / stride) + 1 */
sn_dim window_count(sn_graph *g, const window *w, int d, sn_dim size) {
  sn_dim room = sn_dim_add(g, size, w->before.v[d] + w->after.v[d]);
  room = sn_dim_sub(g, room, window_reach(w, d));
  return sn_dim_add(g, sn_dim_div(g, room, w->stride.v[d]), 1);
}

sn_status infer_fits(infer_ctx *c, const window *w, int d, sn_dim size, sn_dim windows) {
  SN_TRY(c->graph->status);
  if (dim_is_number(size) ? window_fits(size, windows) : sn_dim_max(c->graph, windows) > 0)
    return SN_OK;
  return infer_fail(
      c, "spatial axis %d: a window of %lld does not fit into %s padded by %lld and %lld", d,
      (long long)window_reach(w, d), graph_shape_text(c->graph, (sn_shape){1, {size}}),
      (long long)w->before.v[d], (long long)w->after.v[d]);
}

sn_status ref_fits(const ref_ctx *c, const window *w, const ref_tensor *x, const ref_tensor *y) {
  for (int d = 0; d < w->kernel.n; d++)
    if (!window_fits(x->dim[2 + d], y->dim[2 + d]))
      return ref_fail(
          c, SN_ERR_INVALID,
          "spatial axis %d: a window of %lld does not fit into %lld padded by %lld and %lld", d,
          (long long)window_reach(w, d), (long long)x->dim[2 + d], (long long)w->before.v[d],
          (long long)w->after.v[d]);
  return SN_OK;
}

/* --- element --- */

void elem_require_fits(elem_ctx *c, const window *w, const sn_shape *x, const sn_shape *y) {
  for (int d = 0; d < w->kernel.n; d++) {
    char line[80];
    sn_dim windows = y->dim[2 + d], size = x->dim[2 + d];
    if (dim_is_number(size))
      continue;
    snprintf(line, sizeof line, "spatial axis %d: a window of %lld does not fit", d,
             (long long)window_reach(w, d));
    const char *what = graph_intern(c->graph, line);
    what = what ? what : "a window does not fit";
    locate_require(c, windows, 1, what);
    locate_require(c, sn_dim_sub(c->graph, windows, 1), size, what);
  }
}

/* a * by + b */
static coord combined(elem_ctx *c, const coord *a, int64_t by, const coord *b) {
  coord scaled = coord_scale(c->graph, a, by);
  return locate_sum(c, &scaled, b);
}

void window_read(elem_ctx *c, const window *w, guard *x, int input, int d, const coord *o,
                 const coord *k) {
  coord offset = coord_number(-w->before.v[d]);
  coord inner = combined(c, k, w->dilation.v[d], &offset);
  coord at = combined(c, o, w->stride.v[d], &inner);
  if (w->before.v[d] == 0 && w->after.v[d] == 0)
    x->at.c[2 + d] = at;
  else
    guard_axis(c, x, 2 + d, &at, &at, c->in[input].shape.dim[2 + d], 1);
}

void window_read_back(elem_ctx *c, const window *w, guard *y, int input, int d, const coord *p,
                      const coord *k) {
  coord start = coord_shift(c->graph, p, w->before.v[d]);
  coord of = combined(c, k, -w->dilation.v[d], &start), at = of;
  int64_t stride = w->stride.v[d];
  sn_dim windows = c->in[input].shape.dim[2 + d];
  if (stride > 1) {
    reg by = elem_number_as(c, SN_I32, (double)stride);
    at = elem_at(elem_int2(c, ALU_floor_div, elem_coord(c, &of), by), windows);
  }
  guard_axis(c, y, 2 + d, &at, &of, windows, stride);
}
