/* conv_transpose: what conv_grad_input does to dy, as an op of its own with a bias: x [N, Cin,
 * spatial…], w [Cin, Cout/groups, kernel…], result [N, Cout, size…],
 *   size = (L - 1) * stride - pads + dilation * (kernel - 1) + 1 + output_padding.
 * output_padding chooses among the sizes that conv maps to L; it must lie below the stride or the
 * dilation, as PyTorch demands. */
#include "ops/conv/walk.h"

/* The size along axis d for an input of `length`. */
static sn_dim grown(sn_graph *g, const attrs_conv_transpose *a, const window *win, int d,
                    sn_dim length) {
  sn_dim steps = sn_dim_mul(g, sn_dim_sub(g, length, 1), win->stride.v[d]);
  int64_t pads = win->before.v[d] + win->after.v[d];
  return sn_dim_add(g, steps, window_reach(win, d) + a->output_padding.v[d] - pads);
}

static sn_status infer_output_padding(infer_ctx *c, const window *win) {
  const sn_ints *p = &ATTRS(conv_transpose)->output_padding;
  if (p->n != win->kernel.n)
    return infer_fail(c, "output_padding must have a number for each of %d spatial axes, got %d",
                      win->kernel.n, p->n);
  for (int d = 0; d < p->n; d++)
    if (p->v[d] < 0 || p->v[d] >= max_i64(win->stride.v[d], win->dilation.v[d]))
      return infer_fail(c,
                        "output_padding must be below stride or dilation: %lld, stride %lld, "
                        "dilation %lld",
                        (long long)p->v[d], (long long)win->stride.v[d],
                        (long long)win->dilation.v[d]);
  return SN_OK;
}

/* An input without positions gives a result without any, or is an error (window.h). */
static sn_status infer_size(infer_ctx *c, const window *win, int d, sn_dim length, sn_dim *out) {
  *out = grown(c->graph, ATTRS(conv_transpose), win, d, length);
  SN_TRY(c->graph->status);
  if (sn_dim_max(c->graph, *out) < 0)
    return infer_fail(c, "spatial axis %d: a size of %s would become %s", d,
                      graph_shape_text(c->graph, (sn_shape){1, {length}}),
                      graph_shape_text(c->graph, (sn_shape){1, {*out}}));
  return infer_fits(c, win, d, *out, length);
}

static sn_status infer_channels(infer_ctx *c, sn_dim *out) {
  sn_shape x = c->in[0].shape, w = c->in[1].shape;
  int64_t groups = ATTRS(conv_transpose)->groups;
  if (groups < 1 || w.dim[0] % groups != 0 || x.dim[1] != w.dim[0])
    return infer_fail(c,
                      "x %s in %lld groups: w must be [Cin, Cout/groups, kernel…], Cin a "
                      "multiple of the groups, got %s",
                      graph_shape_text(c->graph, x), (long long)groups,
                      graph_shape_text(c->graph, w));
  *out = sn_dim_mul(c->graph, w.dim[1], groups);
  return c->graph->status;
}

static sn_status infer_conv_transpose(infer_ctx *c) {
  sn_shape x = c->in[0].shape, w = c->in[1].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_spatial(c, 0));
  SN_TRY(infer_conv_weight(c, 1, x.rank - 2));
  window win = WINDOW(conv_kernel(&w), ATTRS(conv_transpose));
  SN_TRY(infer_window(c, &win, x.rank - 2));
  SN_TRY(infer_output_padding(c, &win));
  c->out[0] = (sn_type){c->in[0].dtype, {x.rank, {x.dim[0]}}};
  sn_shape *y = &c->out[0].shape;
  SN_TRY(infer_channels(c, &y->dim[1]));
  for (int d = 0; d < x.rank - 2; d++)
    SN_TRY(infer_size(c, &win, d, x.dim[2 + d], &y->dim[2 + d]));
  if (!infer_has(c, 2))
    return SN_OK;
  SN_TRY(infer_same_dtype(c, 0, 2));
  return infer_shape(c, 2, SN_SHAPE(y->dim[1]), "one bias an output channel");
}

static sn_status ref_conv_transpose(ref_ctx *c) {
  const attrs_conv_transpose *a = ATTRS(conv_transpose);
  window win = WINDOW(ref_conv_kernel(&c->in[1]), a);
  ref_conv_bias(&c->out[0], &c->in[2]);
  return ref_conv_walk(c, (conv_tensors){&c->out[0], &c->in[1], &c->in[0]}, &win, a->groups,
                       conv_add_to_x);
}

/* An output_padding of a whole stride or more (dilation allows it) makes room for more windows than
 * x has positions: zeros behind x fill them. */
static sn_value with_all_windows(build_ctx *c, const window *win) {
  const attrs_conv_transpose *a = ATTRS(conv_transpose);
  int rank = build_shape(c, c->in[0]).rank;
  sn_ints none = {.n = rank}, after = {.n = rank};
  bool any = false;
  for (int d = 0; d < rank - 2; d++) {
    after.v[2 + d] = a->output_padding.v[d] / win->stride.v[d];
    any = any || after.v[2 + d] > 0;
  }
  return any ? sn_pad(c->graph, c->in[0], none, after, SN_PAD_CONSTANT, 0) : c->in[0];
}

static void decompose_conv_transpose(build_ctx *c) {
  const attrs_conv_transpose *a = ATTRS(conv_transpose);
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]), w = build_shape(c, c->in[1]);
  window win = WINDOW(conv_kernel(&w), a);
  sn_shape size = conv_spatial(x), channel = {.rank = x.rank - 1};
  for (int d = 0; d < size.rank; d++) {
    size.dim[d] = grown(g, a, &win, d, size.dim[d]);
    channel.dim[1 + d] = 1;
  }
  sn_value y = sn_conv_grad_input(g, with_all_windows(c, &win), c->in[1], size, a->stride,
                                  a->pad_before, a->pad_after, a->dilation, a->groups);
  channel.dim[0] = w.dim[1] * a->groups;
  c->out[0] = build_has(c, 2) ? sn_add(g, y, sn_reshape(g, c->in[2], channel)) : y;
}

#define PLAIN   " stride=[1] pad_before=[0] pad_after=[0] dilation=[1] output_padding=[0] groups=1"
#define STRIDE2 " stride=[2] pad_before=[0] pad_after=[0] dilation=[1] groups=1 output_padding="

static const op_case cases[] = {
    {"conv_transpose(f32[1, 1, 3]{1, 2, 3}, f32[1, 1, 2]{1, 10}, f32[1]{100})" PLAIN
     " => f32[1, 1, 4]{101, 112, 123, 130}",
     NULL},
    {"conv_transpose(f32[1, 2, 3]{-2, 5, 1, -3, 4, 0}, f32[2, 1, 3]{-1, -3, 2, 0, -2, 3}, "
     "f32[1]{10}) stride=[2] pad_before=[1] pad_after=[1] dilation=[1] output_padding=[1] groups=1 "
     "=> f32[1, 1, 6]{22, -8, -13, 31, 7, 12}",
     NULL},
    /* An output_padding of more than the stride: up to what the padding cut off, then the bias. */
    {"conv_transpose(f32[1, 2, 3]{-2, 5, 1, -3, 4, 0}, f32[2, 1, 2]{-1, -3, 2, 0}, f32[2]{10, 20}) "
     "stride=[1] pad_before=[1] pad_after=[1] dilation=[3] output_padding=[2] groups=2 "
     "=> f32[1, 2, 6]{5, 9, 16, -5, 7, 10, 28, 20, 20, 20, 20, 20}",
     NULL},
    {"conv_transpose(f32[1, 1, 2]{-2, 5}, f32[1, 2, 2]{-1, -3, 2, 0}, none) stride=[2] "
     "pad_before=[0] pad_after=[0] dilation=[4] output_padding=[3] groups=1 "
     "=> f32[1, 2, 10]{2, 0, -5, 0, 6, 0, -15, 0, 0, 0, -4, 0, 10, 0, 0, 0, 0, 0, 0, 0}",
     NULL},
    {"conv_transpose(f32[1, 2, 2, 2]{-2, 5, 1, -3, 4, 0, -4, 3}, f32[2, 1, 2, 1]{-1, -3, 2, 0}, "
     "f32[2]{10, 20}) stride=[2, 1] pad_before=[1, 0] pad_after=[1, 0] dilation=[1, 2] "
     "output_padding=[0, 1] groups=2 "
     "=> f32[1, 2, 2, 3]{16, -5, 10, 9, 13, 10, 20, 20, 20, 12, 26, 20}",
     NULL},
    {"conv_transpose(f32[1, 1, 2, 1, 2]{-2, 5, 1, -3}, f32[1, 1, 1, 2, 2]{-1, -3, 2, 0}, none) "
     "stride=[1, 2, 1] pad_before=[0, 0, 1] pad_after=[0, 0, 1] dilation=[1, 1, 1] "
     "output_padding=[0, 1, 0] groups=1 => f32[1, 1, 2, 3, 1]{1, 10, 0, 0, -6, 0}",
     NULL},
    {"conv_transpose(f32[2, 3, 3], f32[3, 2, 2], f32[2]) stride=[2] pad_before=[1] pad_after=[2] "
     "dilation=[2] output_padding=[1] groups=1",
     NULL},
    {"conv_transpose(f32[2, 3, 2], f32[3, 1, 3], f32[3]) stride=[3] pad_before=[0] pad_after=[1] "
     "dilation=[1] output_padding=[2] groups=3",
     NULL},
    {"conv_transpose(f32[1, 1, 1], f32[1, 1, 1], none)" PLAIN, NULL},
    {"conv_transpose(f32[0, 1, 3], f32[1, 2, 2], none)" PLAIN, NULL},
    {"conv_transpose(f32[1, 0, 2], f32[0, 1, 2], f32[1]{7})" PLAIN " => f32[1, 1, 3]{7}", NULL},
    {"conv_transpose(f32[1, 1, 0], f32[1, 1, 2], f32[1])" STRIDE2 "[0] => f32[1, 1, 0]{}", NULL},
    {"conv_transpose(bf16[1, 2, 3], bf16[2, 1, 2], bf16[1])" PLAIN, NULL},
    {"conv_transpose(f32[1, 1, 0], f32[1, 1, 3], none)" STRIDE2 "[0]", "does not fit"},
    {"conv_transpose(f32[1, 1, 1], f32[1, 1, 2], none) stride=[1] pad_before=[2] pad_after=[1] "
     "dilation=[1] output_padding=[0] groups=1",
     "a size of [1] would become [-1]"},
    {"conv_transpose(f32[1, 1, 3], f32[1, 1, 2], none)" STRIDE2 "[2]",
     "output_padding must be below stride or dilation"},
    {"conv_transpose(f32[1, 1, 3], f32[1, 1, 2], none)" STRIDE2 "[-1]", "output_padding must be"},
    {"conv_transpose(f32[1, 1, 3], f32[1, 1, 2], none)" STRIDE2 "[]",
     "output_padding must have a number"},
    {"conv_transpose(f32[1, 2, 3], f32[1, 1, 2], none)" PLAIN, "w must be [Cin, Cout/groups"},
    {"conv_transpose(f32[1, 3, 3], f32[3, 1, 2], none) stride=[1] pad_before=[0] pad_after=[0] "
     "dilation=[1] output_padding=[0] groups=2",
     "Cin a multiple of the groups"},
    {"conv_transpose(f32[1, 2, 3], f32[2, 2, 2], f32[2]) stride=[1] pad_before=[0] pad_after=[0] "
     "dilation=[1] output_padding=[0] groups=2",
     "bias must be [4]"},
    {"conv_transpose(f32[1, 3], f32[3, 1], none)" PLAIN, "1 to 3 spatial axes"},
    {"conv_transpose(f32[1, 1, 3], bf16[1, 1, 2], none)" PLAIN, "dtypes differ"},
    {"conv_transpose(i32[1, 1, 3], i32[1, 1, 2], none)" PLAIN, "must be f32"},
};

const op_impl op_impl_conv_transpose = {.infer = infer_conv_transpose,
                                        .ref = ref_conv_transpose,
                                        .grad_by_decompose = true,
                                        .decompose = decompose_conv_transpose,
                                        CASES(cases)};
