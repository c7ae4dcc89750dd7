/* See walk.h. */
#include "ops/conv/walk.h"

sn_shape conv_spatial(sn_shape x) {
  sn_shape s = {.rank = x.rank - 2};
  for (int d = 0; d < s.rank; d++)
    s.dim[d] = x.dim[2 + d];
  return s;
}

sn_ints conv_kernel(const sn_shape *w) {
  sn_ints k = {.n = w->rank - 2};
  for (int d = 0; d < k.n; d++)
    k.v[d] = w->dim[2 + d];
  return k;
}

sn_ints ref_conv_kernel(const ref_tensor *w) {
  sn_ints k = {.n = w->rank - 2};
  for (int d = 0; d < k.n; d++)
    k.v[d] = w->dim[2 + d];
  return k;
}

sn_status infer_conv_weight(infer_ctx *c, int i, int n) {
  SN_TRY(infer_rank(c, i, 2 + n));
  for (int d = 0; d < 2 + n; d++)
    if (!dim_is_number(c->in[i].shape.dim[d]))
      return infer_fail(c, "the weight's sizes must be numbers, got %s", infer_text(c, i));
  return SN_OK;
}

static sn_status infer_groups(infer_ctx *c, sn_shape x, sn_shape w, int64_t groups) {
  sn_dim cin = x.dim[1], cout = w.dim[0];
  if (!dim_is_number(cin) || !dim_is_number(cout))
    return infer_fail(c, "the numbers of channels must be known, got x %s and w %s",
                      graph_shape_text(c->graph, x), graph_shape_text(c->graph, w));
  if (groups < 1 || cin % groups != 0 || cout % groups != 0)
    return infer_fail(c, "%lld groups do not divide %lld input and %lld output channels",
                      (long long)groups, (long long)cin, (long long)cout);
  if (w.dim[1] != cin / groups)
    return infer_fail(c, "x %s in %lld groups: w must be [Cout, %lld, kernel…], got %s",
                      graph_shape_text(c->graph, x), (long long)groups, (long long)(cin / groups),
                      graph_shape_text(c->graph, w));
  return SN_OK;
}

sn_status infer_conv(infer_ctx *c, sn_shape x, sn_shape w, const window *win, int64_t groups,
                     sn_shape *out_y) {
  SN_TRY(infer_window(c, win, x.rank - 2));
  SN_TRY(infer_groups(c, x, w, groups));
  *out_y = (sn_shape){.rank = x.rank, .dim = {x.dim[0], w.dim[0]}};
  for (int d = 0; d < x.rank - 2; d++) {
    out_y->dim[2 + d] = window_count(c->graph, win, d, x.dim[2 + d]);
    SN_TRY(infer_fits(c, win, d, x.dim[2 + d], out_y->dim[2 + d]));
  }
  return SN_OK;
}

/* One product: image, group, channels within the group, positions. Rows of `index` and `dim` are in
 * this order, so that the walk is one count. */
enum { AT_N, AT_GROUP, AT_OUT_CHANNEL, AT_IN_CHANNEL, AT_OUT };

static double *element(const ref_tensor *t, int64_t a, int64_t b, const int64_t *spatial) {
  int64_t at = a * t->dim[1] + b;
  for (int d = 0; d < t->rank - 2; d++)
    at = at * t->dim[2 + d] + spatial[d];
  return &t->data[at];
}

/* Whether kernel position k of output position o lies in the input; and where. */
static bool locate(const window *win, const int64_t *o, const int64_t *k, const int64_t *size,
                   int64_t *position) {
  for (int d = 0; d < win->kernel.n; d++) {
    position[d] = window_position(win, d, o[d], k[d]);
    if (position[d] < 0 || position[d] >= size[d])
      return false;
  }
  return true;
}

sn_status ref_conv_walk(ref_ctx *c, conv_tensors t, const window *win, int64_t groups,
                        conv_visit visit) {
  SN_TRY(ref_fits(c, win, t.x, t.y));
  int n = win->kernel.n, rank = AT_OUT + 2 * n;
  int64_t in_channels = t.w->dim[1], out_channels = t.w->dim[0] / groups;
  int64_t index[AT_OUT + 2 * MAX_SPATIAL] = {0}, position[MAX_SPATIAL];
  int64_t dim[AT_OUT + 2 * MAX_SPATIAL] = {t.x->dim[0], groups, out_channels, in_channels};
  const int64_t *o = &index[AT_OUT], *k = &index[AT_OUT + n];
  for (int d = 0; d < n; d++) {
    dim[AT_OUT + d] = t.y->dim[2 + d];
    dim[AT_OUT + n + d] = win->kernel.v[d];
  }
  for (int d = 0; d < rank; d++)
    if (dim[d] == 0)
      return SN_OK;
  do {
    if (!locate(win, o, k, &t.x->dim[2], position))
      continue;
    int64_t in = index[AT_GROUP] * in_channels + index[AT_IN_CHANNEL];
    int64_t out = index[AT_GROUP] * out_channels + index[AT_OUT_CHANNEL];
    visit(element(t.x, index[AT_N], in, position), element(t.w, out, index[AT_IN_CHANNEL], k),
          element(t.y, index[AT_N], out, o));
  } while (ref_next(index, dim, rank));
  return SN_OK;
}

void ref_conv_bias(ref_tensor *y, const ref_tensor *bias) {
  axis_view v = ref_axis(y, 1);
  for (int64_t i = 0; bias->data && i < y->count; i++)
    y->data[i] = bias->data[i / v.inner % v.n];
}
