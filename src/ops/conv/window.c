/* See window.h. */
#include "ops/conv/window.h"

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
