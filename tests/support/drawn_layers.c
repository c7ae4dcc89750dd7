/* How drawn graphs make products, norms, losses, attention and convolutions: see drawn_graph.h. */
#include "support/drawn_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"

static const double eps_of[] = {0.25, 1e-5, 1, 1e-3};

/* Sizes of products: small, and around those that kernels are made of. */
static sn_dim side(drawn_graph *d) {
  static const int64_t sides[] = {4, 1, 3, 8, 16, 33, 5, 32, 40, 17, 2, 65};
  return drawn(d, 4) ? DRAWN_OF(d, sides) : drawn_dim(d);
}

sn_value draw_matmul(drawn_graph *d, int op) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16};
  sn_dim m = side(d), n = side(d), k = side(d);
  sn_dtype dtype = DRAWN_OF(d, dtypes);
  attrs_matmul a = {.trans_a = drawn(d, 2), .trans_b = drawn(d, 2)};
  if (drawn(d, 3) == 0) { /* of a value that is there */
    sn_value x = drawn_any(d, 'f', 2, 2);
    sn_shape s = drawn_shape_of(d, x);
    dtype = drawn_type(d, x).dtype;
    m = s.dim[a.trans_a];
    k = s.dim[1 - a.trans_a];
  }
  int lead = (int)drawn(d, 8) - 5; /* batches */
  sn_shape left = a.trans_a ? SN_SHAPE(k, m) : SN_SHAPE(m, k);
  sn_shape right = a.trans_b ? SN_SHAPE(n, k) : SN_SHAPE(k, n);
  for (int i = 0; i < lead && drawn_at(d, m) * drawn_at(d, k) < 600; i++) {
    sn_shape *s = drawn(d, 3) == 0 ? &left : drawn(d, 2) ? &right : NULL;
    int64_t size = 1 + drawn(d, 3);
    for (int each = 0; each < 2; each++) {
      sn_shape *to = each ? &right : &left;
      if (s && s != to)
        continue;
      for (int q = to->rank++; q > 0; q--)
        to->dim[q] = to->dim[q - 1];
      to->dim[0] = size;
    }
    if (s)
      break;
  }
  if (drawn_at(d, m) * drawn_at(d, k) * drawn_at(d, n) > 1 << 17)
    return SN_NONE;
  sn_value in[2] = {drawn_like(d, dtype, left), drawn_like(d, dtype, right)};
  return drawn_add(d, op, in, 2, &a);
}

/* The last `axes` axes. */
static sn_shape last_axes(sn_shape s, int axes) {
  sn_shape row = {.rank = axes};
  for (int k = 0; k < axes && axes <= s.rank; k++)
    row.dim[k] = s.dim[s.rank - axes + k];
  return row;
}

sn_value draw_norm(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'f', 1, 4);
  sn_type t = drawn_type(d, x);
  double eps = DRAWN_OF(d, eps_of);
  if (t.shape.rank == 0)
    return SN_NONE;
  if (op == OP_softmax || op == OP_log_softmax)
    return drawn_add(d, op, &x, 1, &(attrs_softmax){.axis = drawn_axis(d, t.shape)});
  if (op == OP_l2_normalize)
    return drawn_add(d, op, &x, 1,
                     &(attrs_l2_normalize){.axis = drawn_axis(d, t.shape), .eps = eps});
  int axes = 1 + (int)drawn(d, (uint32_t)t.shape.rank);
  if (op == OP_gated_rms_norm) {
    sn_value in[3] = {x, drawn_like(d, t.dtype, t.shape),
                      drawn_maybe(d, t.dtype, last_axes(t.shape, 1))};
    return drawn_add(d, op, in, 3, &(attrs_gated_rms_norm){.eps = eps});
  }
  sn_shape row = last_axes(t.shape, axes);
  sn_value in[3] = {x, drawn_maybe(d, t.dtype, row), drawn_maybe(d, t.dtype, row)};
  return drawn_add(d, op, in, 3, &(attrs_layer_norm){.axes = axes, .eps = eps});
}

sn_value draw_channel_norm(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'f', 2, 4);
  sn_type t = drawn_type(d, x);
  if (t.shape.rank < 2)
    return SN_NONE;
  sn_dim channels = t.shape.dim[1];
  sn_shape each = SN_SHAPE(channels);
  double eps = DRAWN_OF(d, eps_of);
  sn_value in[5] = {x, drawn_maybe(d, t.dtype, each), drawn_maybe(d, t.dtype, each)};
  if (op == OP_group_norm) {
    int64_t groups = dim_is_number(channels) && channels % 2 == 0 && drawn(d, 2) ? 2 : 1;
    return drawn_add(d, op, in, 3, &(attrs_group_norm){.groups = groups, .eps = eps});
  }
  in[3] = drawn_like(d, t.dtype, each);
  in[4] = drawn_like(d, t.dtype, each);
  in[4] = drawn_add(d, OP_abs, &in[4], 1, &(attrs_abs){0});
  if (op == OP_batch_norm)
    return drawn_add(d, op, in, 5, &(attrs_batch_norm){.eps = eps});
  return drawn_add(d, op, in, 5,
                   &(attrs_batch_norm_train){.momentum = drawn(d, 3) / 2.0, .eps = eps});
}

/* --- losses --- */

sn_value draw_cross_entropy(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'f', 1, 3);
  sn_shape s = drawn_shape_of(d, x);
  if (s.rank == 0)
    return SN_NONE;
  int64_t classes = drawn_at(d, s.dim[s.rank - 1]);
  s.rank--;
  s.dim[s.rank] = 0;
  sn_value in[2] = {x, drawn_index(d, s, classes)};
  return drawn_add(d, op, in, 2,
                   &(attrs_cross_entropy){.ignore_index = drawn(d, 2) ? -100 : 1,
                                          .smoothing = drawn(d, 2) ? 0 : 0.25,
                                          .reduction = (sn_reduction)drawn(d, 3)});
}

sn_value draw_loss(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'f', op == OP_cross_entropy_dist, 3);
  sn_type t = drawn_type(d, x);
  if (op == OP_bce) /* a probability */
    x = drawn_add(d, OP_clamp, &x, 1, &(attrs_clamp){.lo = 0, .hi = 1});
  sn_value in[2] = {x, drawn_like(d, t.dtype, t.shape)};
  sn_reduction reduction = (sn_reduction)drawn(d, 3);
  double number = drawn(d, 3) / 2.0;
  if (op == OP_cross_entropy_dist)
    return drawn_add(d, op, in, 2,
                     &(attrs_cross_entropy_dist){.smoothing = number / 4, .reduction = reduction});
  if (op == OP_huber)
    return drawn_add(d, op, in, 2, &(attrs_huber){.delta = number + 0.5, .reduction = reduction});
  if (op == OP_smooth_l1)
    return drawn_add(d, op, in, 2, &(attrs_smooth_l1){.beta = number, .reduction = reduction});
  return drawn_add(d, op, in, 2, &(attrs_mse){.reduction = reduction});
}

/* --- attention --- */

static sn_shape heads(sn_layout layout, sn_dim b, sn_dim h, sn_dim s, sn_dim width) {
  return layout == SN_LAYOUT_BHSD ? SN_SHAPE(b, h, s, width) : SN_SHAPE(b, s, h, width);
}

static sn_value attention_grad(drawn_graph *d, sn_value forward, sn_value *in,
                               const attrs_attention *a) {
  sn_value out = forward, lse = {forward.id + 1};
  sn_type t = drawn_type(d, out);
  if (!drawn_usable(d, forward) || !drawn_usable(d, lse))
    return SN_NONE;
  in[7] = lse;
  in[8] = out;
  in[9] = drawn_like(d, t.dtype, t.shape);
  in[10] = drawn_maybe(d, SN_F32, drawn_shape_of(d, lse));
  attrs_attention_grad grad = {.scale = a->scale,
                               .softcap = a->softcap,
                               .causal = a->causal,
                               .window = a->window,
                               .layout = a->layout};
  return drawn_add(d, OP_attention_grad, in, 11, &grad);
}

sn_value draw_attention(drawn_graph *d, int op) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F16, SN_BF16};
  sn_dtype dtype = DRAWN_OF(d, dtypes);
  attrs_attention a = {.scale = drawn(d, 2) ? 0.5 : 0.25,
                       .softcap = drawn(d, 3) ? 0 : 2,
                       .causal = (sn_causal)drawn(d, 3),
                       .window = drawn(d, 3) ? 0 : 2,
                       .layout = (sn_layout)drawn(d, 2)};
  int64_t groups = 1 + (int64_t)drawn(d, 2), kv = 1 + (int64_t)drawn(d, 2);
  sn_dim b = 1 + drawn(d, 2), q = 1 + drawn(d, 6),
         k = drawn(d, 3) ? 1 + drawn(d, 9) : d->symbols[0];
  sn_dim width = 1 + drawn(d, 8), v = drawn(d, 2) ? width : 4;
  if (drawn(d, 4) == 0)
    q = k;
  sn_value in[11] = {drawn_like(d, dtype, heads(a.layout, b, kv * groups, q, width)),
                     drawn_like(d, dtype, heads(a.layout, b, kv, k, width)),
                     drawn_like(d, dtype, heads(a.layout, b, kv, k, v))};
  sn_shape mask = drawn(d, 2) ? SN_SHAPE(q, k) : SN_SHAPE(b, 1, q, k);
  in[3] = drawn(d, 3) ? SN_NONE : drawn_like(d, SN_BOOL, mask);
  in[4] = drawn(d, 3) ? SN_NONE : drawn_like(d, dtype, SN_SHAPE(kv * groups, q, k));
  in[5] = drawn(d, 3) ? SN_NONE : drawn_index(d, SN_SHAPE(b), drawn_at(d, k) + 1);
  in[6] = drawn(d, 3) ? SN_NONE : drawn_like(d, dtype, SN_SHAPE(kv * groups));
  sn_value y = drawn_add(d, OP_attention, in, 7, &a);
  return op == OP_attention ? y : attention_grad(d, y, in, &a);
}

sn_value draw_rope(drawn_graph *d, int op) {
  sn_dim s = drawn_dim(d);
  int64_t width = 2 * (1 + (int64_t)drawn(d, 4)),
          dims = 2 * (1 + (int64_t)drawn(d, (uint32_t)width / 2));
  bool batch = drawn(d, 2);
  sn_shape shape = batch ? SN_SHAPE(2, s, width) : SN_SHAPE(s, width);
  sn_dtype dtype = drawn_dtype(d, 'f');
  sn_shape positions = batch && drawn(d, 2) ? SN_SHAPE(2, s) : SN_SHAPE(s);
  attrs_rope a = {.seq_axis = batch ? 1 : 0,
                  .dims = dims,
                  .base = drawn(d, 2) ? 10000 : 100,
                  .layout = (sn_rope_layout)drawn(d, 2),
                  .scaling = (sn_rope_scaling)drawn(d, 5),
                  .factor = 2,
                  .low = 1,
                  .high = 4,
                  .original_length = 8,
                  .attention_factor = drawn(d, 2),
                  .inverse = drawn(d, 2),
                  .rounding = SN_F32};
  if (a.scaling != SN_ROPE_DYNAMIC && drawn(d, 3) == 0)
    a.rounding = drawn(d, 2) ? SN_F16 : SN_BF16;
  sn_value in[2] = {drawn_like(d, dtype, shape), drawn_index(d, positions, 16)};
  return drawn_add(d, op, in, 2, &a);
}

/* --- convolution and pooling --- */

typedef struct windows {
  int spatial;
  sn_ints kernel, stride, before, after, dilation;
  sn_shape x, y; /* spatial sizes */
} windows;

static windows draw_windows(drawn_graph *d, bool pooling) {
  windows w = {.spatial = 1 + (int)drawn(d, 3) % (int)(1 + drawn(d, 3))};
  w.kernel.n = w.stride.n = w.before.n = w.after.n = w.dilation.n = w.spatial;
  w.x.rank = w.y.rank = w.spatial;
  for (int k = 0; k < w.spatial; k++) {
    w.kernel.v[k] = 1 + drawn(d, 3);
    w.stride.v[k] = 1 + drawn(d, 3);
    w.dilation.v[k] = drawn(d, 3) ? 1 : 2;
    uint32_t most = pooling ? (uint32_t)w.kernel.v[k] : 3;
    w.before.v[k] = drawn(d, most);
    w.after.v[k] = drawn(d, most);
    int64_t reach = w.dilation.v[k] * (w.kernel.v[k] - 1) + 1;
    w.x.dim[k] = reach + drawn(d, 6);
    w.y.dim[k] = (w.x.dim[k] + w.before.v[k] + w.after.v[k] - reach) / w.stride.v[k] + 1;
  }
  return w;
}

static sn_shape with_channels(sn_dim n, sn_dim c, sn_shape spatial) {
  sn_shape s = SN_SHAPE(n, c);
  for (int k = 0; k < spatial.rank; k++)
    s.dim[s.rank++] = spatial.dim[k];
  return s;
}

static sn_shape kernel_shape(const windows *w) {
  sn_shape s = {.rank = w->spatial};
  for (int k = 0; k < w->spatial; k++)
    s.dim[k] = w->kernel.v[k];
  return s;
}

static sn_value transposed(drawn_graph *d, const windows *w, sn_dtype dtype, sn_dim n,
                           int64_t groups) {
  int64_t in_each = 1 + drawn(d, 2), out_each = 1 + drawn(d, 3);
  attrs_conv_transpose a = {.stride = w->stride,
                            .pad_before = w->before,
                            .pad_after = w->after,
                            .dilation = w->dilation,
                            .output_padding = {.n = w->spatial},
                            .groups = groups};
  for (int k = 0; k < w->spatial; k++)
    a.output_padding.v[k] = w->stride.v[k] > 1 ? drawn(d, 2) : 0;
  sn_value in[3] = {
      drawn_like(d, dtype, with_channels(n, groups * in_each, w->x)),
      drawn_like(d, dtype, with_channels(groups * in_each, out_each, kernel_shape(w))),
      drawn_maybe(d, dtype, SN_SHAPE(groups * out_each))};
  return drawn_add(d, OP_conv_transpose, in, 3, &a);
}

sn_value draw_conv(drawn_graph *d, int op) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F16, SN_BF16};
  windows w = draw_windows(d, false);
  sn_dtype dtype = DRAWN_OF(d, dtypes);
  int64_t groups = drawn(d, 3) ? 1 : 2, in_each = 1 + drawn(d, 3), out_each = 1 + drawn(d, 4);
  sn_dim n = drawn(d, 3) ? 1 + drawn(d, 2) : d->symbols[0];
  if (op == OP_conv_transpose)
    return transposed(d, &w, dtype, n, groups);
  sn_shape x = with_channels(n, groups * in_each, w.x),
           y = with_channels(n, groups * out_each, w.y);
  sn_shape weight = with_channels(groups * out_each, in_each, kernel_shape(&w));
  if (op == OP_conv_grad_input) {
    sn_value in[2] = {drawn_like(d, dtype, y), drawn_like(d, dtype, weight)};
    return drawn_add(d, op, in, 2,
                     &(attrs_conv_grad_input){.size = w.x,
                                              .stride = w.stride,
                                              .pad_before = w.before,
                                              .pad_after = w.after,
                                              .dilation = w.dilation,
                                              .groups = groups});
  }
  if (op == OP_conv_grad_weight) {
    sn_value in[2] = {drawn_like(d, dtype, x), drawn_like(d, dtype, y)};
    return drawn_add(d, op, in, 2,
                     &(attrs_conv_grad_weight){.kernel = w.kernel,
                                               .stride = w.stride,
                                               .pad_before = w.before,
                                               .pad_after = w.after,
                                               .dilation = w.dilation,
                                               .groups = groups});
  }
  sn_value in[3] = {drawn_like(d, dtype, x), drawn_like(d, dtype, weight),
                    drawn_maybe(d, dtype, SN_SHAPE(groups * out_each))};
  return drawn_add(d, op, in, 3,
                   &(attrs_conv){.stride = w.stride,
                                 .pad_before = w.before,
                                 .pad_after = w.after,
                                 .dilation = w.dilation,
                                 .groups = groups});
}

sn_value draw_pool(drawn_graph *d, int op) {
  windows w = draw_windows(d, true);
  sn_dim n = drawn(d, 3) ? 1 + drawn(d, 2) : d->symbols[1];
  sn_dtype dtype = drawn_dtype(d, 'f');
  sn_value x = drawn_like(d, dtype, with_channels(n, 1 + drawn(d, 3), w.x));
  if (op == OP_adaptive_avg_pool) {
    sn_shape size = {.rank = w.spatial};
    for (int k = 0; k < w.spatial; k++)
      size.dim[k] = 1 + drawn(d, 4);
    return drawn_add(d, op, &x, 1, &(attrs_adaptive_avg_pool){.size = size});
  }
  attrs_pool a = {.kind = (sn_pool_kind)drawn(d, 5),
                  .kernel = w.kernel,
                  .stride = w.stride,
                  .pad_before = w.before,
                  .pad_after = w.after,
                  .dilation = w.dilation,
                  .ceil_mode = drawn(d, 2),
                  .count_include_pad = drawn(d, 2)};
  sn_value y = drawn_add(d, OP_pool, &x, 1, &a);
  if (op == OP_pool || !y.id)
    return y;
  sn_value in[3] = {x, y, drawn_like(d, dtype, drawn_shape_of(d, y))};
  return drawn_add(d, op, in, 3, &a); /* the attributes of both are the same */
}
