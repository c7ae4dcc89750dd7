/* im2col: [N, C, spatial…] to [N, C * window, windows]: column o holds the patch under window o, channel
 * by channel, zero where it lies in the padding. Convolution is a matmul with it. */
#include "ops/conv/window.h"
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

#define PATCH(a) WINDOW((a)->kernel, a)

static sn_status infer_im2col(infer_ctx *c) {
  window w = PATCH(ATTRS(im2col));
  const sn_shape *x = &c->in[0].shape;
  SN_TRY(infer_spatial(c, 0));
  SN_TRY(infer_window(c, &w, x->rank - 2));
  sn_dim rows = x->dim[1], columns = 1;
  for (int d = 0; d < w.kernel.n; d++) {
    sn_dim windows = window_count(c->graph, &w, d, x->dim[2 + d]);
    SN_TRY(infer_fits(c, &w, d, x->dim[2 + d], windows));
    rows = sn_dim_mul(c->graph, rows, w.kernel.v[d]);
    columns = sn_dim_mul(c->graph, columns, windows);
  }
  c->out[0] = (sn_type){c->in[0].dtype, SN_SHAPE(x->dim[0], rows, columns)};
  return c->graph->status;
}

/* The windows along each spatial axis, as numbers. */
static sn_status count_windows(const ref_ctx *c, const window *w, int64_t *windows) {
  for (int d = 0; d < w->kernel.n; d++) {
    int64_t size = c->in[0].dim[2 + d];
    int64_t room = size + w->before.v[d] + w->after.v[d] - window_reach(w, d);
    windows[d] = room >= 0 ? room / w->stride.v[d] + 1 : 0;
    if (room < 0 && (size > 0 || room < -w->stride.v[d]))
      return ref_fail(c, SN_ERR_INVALID, "spatial axis %d: a window of %lld does not fit into %lld",
                      d, (long long)window_reach(w, d), (long long)size);
  }
  return SN_OK;
}

/* Where element k of window o lies in the spatial part of x; -1: in the padding. */
static int64_t patch_at(const ref_ctx *c, const window *w, const int64_t *o, const int64_t *k) {
  int64_t at = 0;
  for (int d = 0; d < w->kernel.n; d++) {
    int64_t i = window_position(w, d, o[d], k[d]), size = c->in[0].dim[2 + d];
    if (i < 0 || i >= size)
      return -1;
    at = at * size + i;
  }
  return at;
}

static sn_status ref_im2col(ref_ctx *c) {
  window w = PATCH(ATTRS(im2col));
  const ref_tensor *x = &c->in[0];
  int n = w.kernel.n;
  int64_t windows[MAX_SPATIAL], o[MAX_SPATIAL] = {0}, k[MAX_SPATIAL] = {0}, plane = 1, row = 0;
  SN_TRY(count_windows(c, &w, windows));
  for (int d = 0; d < n; d++)
    plane *= x->dim[2 + d];
  int64_t columns = c->out[0].dim[2];
  for (int64_t channel = 0; columns > 0 && channel < x->dim[0] * x->dim[1]; channel++)
    do {
      double *to = c->out[0].data + row++ * columns;
      do {
        int64_t at = patch_at(c, &w, o, k);
        *to++ = at >= 0 ? x->data[channel * plane + at] : 0;
      } while (ref_next(o, windows, n));
    } while (ref_next(k, w.kernel.v, n));
  return SN_OK;
}

/* Element k of every window: the padded input, sliced with the stride from k * dilation on. */
static sn_value patch_slice(build_ctx *c, const window *w, sn_value padded, const int64_t *k) {
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]), flat = {4, {x.dim[0], x.dim[1], 1, 1}};
  for (int d = 0; d < w->kernel.n; d++) {
    sn_dim windows = window_count(g, w, d, x.dim[2 + d]);
    int64_t start = k[d] * w->dilation.v[d], stride = w->stride.v[d];
    sn_dim reach = sn_dim_add(g, sn_dim_mul(g, sn_dim_sub(g, windows, 1), stride), start + 1);
    if (windows == 0) /* a negative stop would count from the end */
      reach = start;
    padded = sn_slice(g, padded, 2 + d, start, reach, stride);
    flat.dim[3] = sn_dim_mul(g, flat.dim[3], windows);
  }
  return sn_reshape(g, padded, flat);
}

static void decompose_im2col(build_ctx *c) {
  sn_graph *g = c->graph;
  window w = PATCH(ATTRS(im2col));
  sn_ints before = {.n = 2 + w.kernel.n}, after = before;
  int64_t k[MAX_SPATIAL] = {0}, patch = 1;
  for (int d = 0; d < w.kernel.n; d++) {
    before.v[2 + d] = w.before.v[d];
    after.v[2 + d] = w.after.v[d];
    if (!mul_fits(patch, w.kernel.v[d], &patch))
      patch = INT64_MAX;
  }
  sn_value *rows = mem_array(g->ctx, (size_t)patch, sizeof *rows);
  if (!rows) {
    c->out[0] = graph_fail(g, SN_ERR_NO_MEMORY, "im2col: out of memory");
    return;
  }
  sn_value padded = sn_pad(g, c->in[0], before, after, SN_PAD_CONSTANT, 0);
  for (int64_t i = 0; i < patch; i++) {
    rows[i] = patch_slice(c, &w, padded, k);
    ref_next(k, w.kernel.v, w.kernel.n);
  }
  sn_shape y = build_shape(c, rows[0]);
  sn_dim channels = sn_dim_mul(g, y.dim[1], patch);
  c->out[0] =
      sn_reshape(g, sn_concat(g, rows, (int)patch, 2), SN_SHAPE(y.dim[0], channels, y.dim[3]));
  mem_free(g->ctx, rows, (size_t)patch * sizeof *rows);
}

/* The row is a channel and a place in the patch, the column a window. */
static uint16_t element_im2col(elem_ctx *c, const place *at) {
  window w = PATCH(ATTRS(im2col));
  sn_shape x = c->in[0].shape, parts = {2 + 2 * w.kernel.n, {x.dim[0], x.dim[1]}};
  int n = w.kernel.n;
  place part;
  for (int d = 0; d < n; d++) {
    parts.dim[2 + d] = w.kernel.v[d];
    parts.dim[2 + n + d] = window_count(c->graph, &w, d, x.dim[2 + d]);
  }
  if (!place_reshape(c, c->graph, c->axis_extents, c->out[0].shape, at, parts, &part))
    return elem_number(c, 0); /* never: with registers every place can be said */
  sn_shape windows = {.rank = x.rank};
  memcpy(windows.dim + 2, parts.dim + 2 + n, (size_t)n * sizeof windows.dim[0]);
  elem_require_fits(c, &w, &x, &windows);
  guard read = guard_start(at, x.rank);
  memcpy(read.at.c, part.c, 2 * sizeof part.c[0]);
  for (int d = 0; d < n; d++)
    window_read(c, &w, &read, 0, d, &part.c[2 + n + d], &part.c[2 + d]);
  return guard_read(c, &read, 0, 0);
}

#define PLAIN_2D "stride=[1, 1] pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1]"

static const op_case cases[] = {
    {"im2col(f32[1, 2, 3, 4]) kernel=[2, 2] " PLAIN_2D, NULL},
    {"im2col(f32[2, 1, 5]) kernel=[3] stride=[2] pad_before=[1] pad_after=[0] dilation=[1]", NULL},
    {"im2col(f32[1, 1, 4, 5]) kernel=[2, 3] stride=[2, 1] pad_before=[1, 0] pad_after=[0, 2] "
     "dilation=[2, 1]",
     NULL},
    {"im2col(f32[1, 1, 2, 3, 2]) kernel=[2, 1, 2] stride=[1, 2, 1] pad_before=[0, 0, 1] "
     "pad_after=[0, 0, 0] dilation=[1, 1, 1]",
     NULL},
    {"im2col(f32[0, 3, 2, 2]) kernel=[1, 2] " PLAIN_2D, NULL},
    {"im2col(f32[1, 0, 2]) kernel=[1] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]", NULL},
    {"im2col(bf16[1, 1, 3]) kernel=[2] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]", NULL},
    {"im2col(i32[1, 1, 3, 3]{1, 2, 3, 4, 5, 6, 7, 8, 9}) kernel=[2, 2] " PLAIN_2D " => "
     "i32[1, 4, 4]{1, 2, 4, 5, 2, 3, 5, 6, 4, 5, 7, 8, 5, 6, 8, 9}",
     NULL},
    {"im2col(u8[1, 2, 2]{1, 2, 3, 4}) kernel=[2] stride=[1] pad_before=[1] pad_after=[1] "
     "dilation=[1] "
     "=> u8[1, 4, 3]{0, 1, 2, 1, 2, 0, 0, 3, 4, 3, 4, 0}",
     NULL},
    {"im2col(i32[1, 1, 5]{1, 2, 3, 4, 5}) kernel=[2] stride=[2] pad_before=[0] pad_after=[1] "
     "dilation=[3] => i32[1, 2, 2]{1, 3, 4, 0}",
     NULL},
    {"im2col(bool[1, 1, 2]{1, 1}) kernel=[1] stride=[1] pad_before=[0] pad_after=[1] dilation=[1] "
     "=> "
     "bool[1, 1, 3]{1, 1, 0}",
     NULL},
    {"im2col(f16[1, 1, 1]{nan}) kernel=[2] stride=[1] pad_before=[1] pad_after=[0] dilation=[1] => "
     "f16[1, 2, 1]{0, nan}",
     NULL},
    {"im2col(f32[1, 1, 3]) kernel=[4] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
     "does not fit"},
    {"im2col(f32[1, 3]) kernel=[] stride=[] pad_before=[] pad_after=[] dilation=[]",
     "1 to 3 spatial axes"},
    {"im2col(f32[1, 1, 3]) kernel=[1, 1] " PLAIN_2D, "kernel must have a number for each of 1"},
    {"im2col(f32[1, 1, 3]) kernel=[0] stride=[1] pad_before=[0] pad_after=[0] dilation=[1]",
     "kernel must be 1 or more"},
    {"im2col(f32[1, 1, 3]) kernel=[1] stride=[1] pad_before=[-1] pad_after=[0] dilation=[1]",
     "pad_before must be 0 or more"},
};

const op_impl op_impl_im2col = {.infer = infer_im2col,
                                .ref = ref_im2col,
                                .grad_by_decompose = true,
                                .decompose = decompose_im2col,
                                .element = element_im2col,
                                CASES(cases)};
