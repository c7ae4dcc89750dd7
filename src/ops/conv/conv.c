/* conv: cross-correlation of x [N, Cin, spatial…] with w [Cout, Cin/groups, kernel…], plus a bias a
 * channel:
 *   y[n, co, o] = bias[co] + sum over ci, k of x[n, ci, o * stride - pad_before + k * dilation] *
 *   w[co, ci, k],  ci over the channels of co's group, x being 0 outside.
 * Batch and spatial sizes may be symbolic; a window larger than the padded input is an error, at
 * build time where sizes are known, else at run time (window.h). Without input channels y is the
 * bias. */
#include "ops/conv/walk.h"

static sn_status infer_conv_op(infer_ctx *c) {
  const attrs_conv *a = ATTRS(conv);
  sn_shape x = c->in[0].shape, w = c->in[1].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_spatial(c, 0));
  SN_TRY(infer_conv_weight(c, 1, x.rank - 2));
  window win = WINDOW(conv_kernel(&w), a);
  c->out[0].dtype = c->in[0].dtype;
  SN_TRY(infer_conv(c, x, w, &win, a->groups, &c->out[0].shape));
  if (!infer_has(c, 2))
    return SN_OK;
  SN_TRY(infer_same_dtype(c, 0, 2));
  return infer_shape(c, 2, SN_SHAPE(w.dim[0]), "one bias an output channel");
}

static sn_status ref_conv(ref_ctx *c) {
  const attrs_conv *a = ATTRS(conv);
  window win = WINDOW(ref_conv_kernel(&c->in[1]), a);
  ref_conv_bias(&c->out[0], &c->in[2]);
  return ref_conv_walk(c, (conv_tensors){&c->in[0], &c->in[1], &c->out[0]}, &win, a->groups,
                       conv_add_to_y);
}

/* The bias reaches every element of its channel. */
static sn_value sum_channels(build_ctx *c, sn_value dy) {
  sn_ints axes = {1, {0}};
  for (int d = 2; d < build_shape(c, dy).rank; d++)
    axes.v[axes.n++] = d;
  return sn_sum(c->graph, dy, axes, false);
}

static void grad_conv(build_ctx *c) {
  const attrs_conv *a = ATTRS(conv);
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]), w = build_shape(c, c->in[1]);
  sn_value dy = c->dout[0];
  if (c->need[0])
    build_din(c, 0,
              sn_conv_grad_input(g, dy, c->in[1], conv_spatial(x), a->stride, a->pad_before,
                                 a->pad_after, a->dilation, a->groups));
  if (c->need[1])
    build_din(c, 1,
              sn_conv_grad_weight(g, c->in[0], dy, conv_kernel(&w), a->stride, a->pad_before,
                                  a->pad_after, a->dilation, a->groups));
  if (c->need[2])
    build_din(c, 2, sum_channels(c, dy));
}

/* The sum runs over the channels of the group, then the kernel. */
static uint16_t element_conv(elem_ctx *c, const place *at) {
  const attrs_conv *a = ATTRS(conv);
  sn_shape x = c->in[0].shape, w = c->in[1].shape;
  window win = WINDOW(conv_kernel(&w), a);
  coord k[1 + MAX_SPATIAL], group, within;
  elem_require_fits(c, &win, &x, &c->out[0].shape);
  elem_axes(c, w.rank - 1, &w.dim[1], k);
  elem_group(c, &at->c[1], a->groups, w.dim[0] / a->groups, &group, &within);
  guard read = guard_start(at, x.rank);
  place weight = locate_start(at, w.rank), channel = locate_start(at, 1);
  read.at.c[0] = at->c[0];
  read.at.c[1] = elem_channel(c, &group, w.dim[1], &k[0]);
  weight.c[0] = channel.c[0] = at->c[1];
  memcpy(weight.c + 1, k, (size_t)(w.rank - 1) * sizeof k[0]);
  for (int d = 0; d < win.kernel.n; d++)
    window_read(c, &win, &read, 0, d, &at->c[2 + d], &k[1 + d]);
  reg sum = elem_sum_products(c, &read.at, &weight);
  if (c->n_in > 2 && c->in[2].dtype != SN_NO_DTYPE) {
    reg bias = elem_wide(c, elem_input(c, 2, &channel), c->in[2].dtype);
    sum = elem_alu_as(c, ALU_add, SN_F32, sum, bias, 0, 0, 0);
  }
  return elem_narrow(c, sum);
}

#define PLAIN  " stride=[1] pad_before=[0] pad_after=[0] dilation=[1] groups=1"
#define PLAIN2 " stride=[1, 1] pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1] groups=1"

static const op_case cases[] = {
    {"conv(f32[2, 2, 5], f32[3, 2, 3], f32[3])" PLAIN, NULL},
    {"conv(f32[1, 1, 4]{1, 2, 3, 4}, f32[1, 1, 2]{1, 10}, f32[1]{100})" PLAIN
     " => f32[1, 1, 3]{121, 132, 143}",
     NULL},
    {"conv(f32[1, 2, 7]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1}, "
     "f32[4, 1, 3]{-1, -3, 2, 0, -2, 3, 1, -1, -3, 2, 0, -2}, f32[4]{10, 20, 30, 40}) "
     "stride=[2] pad_before=[1] pad_after=[1] dilation=[2] groups=2 "
     "=> f32[1, 4, 3]{-11, 14, 13, 1, 26, 20, 25, 12, 27, 36, 28, 44}",
     NULL},
    {"conv(f32[1, 2, 4, 3]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, "
     "-5, "
     "2, -2, 5}, f32[2, 2, 2, 2]{-1, -3, 2, 0, -2, 3, 1, -1, -3, 2, 0, -2, 3, 1, -1, -3}, "
     "f32[2]{10, 20}) stride=[2, 1] pad_before=[1, 0] pad_after=[0, 1] dilation=[1, 2] groups=1 "
     "=> f32[1, 2, 2, 2]{14, 21, -7, 11, 22, 19, 51, 9}",
     NULL},
    {"conv(f32[1, 1, 2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}, "
     "f32[2, 1, 2, 2, 1]{-1, -3, 2, 0, -2, 3, 1, -1}, none) stride=[1, 2, 1] "
     "pad_before=[0, 1, 0] pad_after=[1, 0, 0] dilation=[1, 1, 1] groups=1 "
     "=> f32[1, 2, 2, 2, 2]{6, -15, -15, -7, 12, -9, -5, 11, -2, 12, 7, 3, -12, 9, 8, 4}",
     NULL},
    {"conv(f32[2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}, "
     "f32[3, 1, 2]{-1, -3, 2, 0, -2, 3}, none) stride=[1] pad_before=[1] pad_after=[1] "
     "dilation=[1] groups=3 "
     "=> f32[2, 3, 3]{6, -13, -5, 0, 2, -6, 12, -8, 0, 12, -5, -3, 0, -2, -10, 6, -10, 4}",
     NULL},
    {"conv(f32[2, 3, 4, 2], f32[2, 3, 1, 1], f32[2])" PLAIN2, NULL},
    {"conv(f32[1, 4, 3, 3], f32[2, 2, 2, 3], none) stride=[1, 1] pad_before=[2, 1] pad_after=[0, "
     "3] "
     "dilation=[1, 1] groups=2",
     NULL},
    {"conv(f32[1, 2, 5, 4], f32[4, 1, 2, 2], f32[4]) stride=[3, 4] pad_before=[0, 0] "
     "pad_after=[0, 0] dilation=[2, 1] groups=2", /* stride larger than the kernel */
     NULL},
    {"conv(f32[1, 2, 3, 2, 3], f32[2, 1, 2, 1, 2], f32[2]) stride=[2, 1, 1] pad_before=[1, 0, 0] "
     "pad_after=[0, 0, 1] dilation=[1, 1, 2] groups=2",
     NULL},
    {"conv(f32[1, 1, 1], f32[1, 1, 1], none)" PLAIN, NULL},
    {"conv(f32[0, 2, 3], f32[1, 2, 2], f32[1])" PLAIN, NULL},
    {"conv(f32[1, 0, 3], f32[2, 0, 2], f32[2]{5, 7})" PLAIN " => f32[1, 2, 2]{5, 5, 7, 7}", NULL},
    {"conv(f32[1, 2, 3], f32[0, 2, 2], none)" PLAIN, NULL},
    {"conv(f32[1, 2, 0], f32[1, 2, 3], f32[1]) stride=[1] pad_before=[2] pad_after=[0] "
     "dilation=[1] groups=1 => f32[1, 1, 0]{}",
     NULL},
    {"conv(f32[1, 1, 0], f32[1, 1, 2], f32[1]{3}) stride=[1] pad_before=[2] pad_after=[1] "
     "dilation=[1] groups=1 => f32[1, 1, 2]{3, 3}", /* windows of nothing but padding */
     NULL},
    {"conv(bf16[1, 2, 4], bf16[2, 2, 2], bf16[2])" PLAIN, NULL},
    {"conv(f16[1, 1, 3, 3], f16[1, 1, 2, 2], none)" PLAIN2, NULL},
    {"conv(f32[1, 1, 2]{1, nan}, f32[1, 1, 1]{0}, none)" PLAIN " => f32[1, 1, 2]{0, nan}", NULL},
    {"conv(f32[1, 2, 2], f32[1, 2, 3], none)" PLAIN, "a window of 3 does not fit into [2]"},
    {"conv(f32[1, 2, 4], f32[1, 2, 3], none) stride=[1] pad_before=[0] pad_after=[0] dilation=[2] "
     "groups=1",
     "a window of 5 does not fit into [4]"},
    {"conv(f32[1, 2, 0], f32[1, 2, 3], none)" PLAIN, "does not fit into [0]"},
    {"conv(f32[1, 3, 4], f32[1, 2, 3], none)" PLAIN, "w must be [Cout, 3, kernel…]"},
    {"conv(f32[1, 4, 4], f32[3, 2, 3], none) stride=[1] pad_before=[0] pad_after=[0] dilation=[1] "
     "groups=2",
     "2 groups do not divide 4 input and 3 output channels"},
    {"conv(f32[1, 4, 4], f32[4, 4, 3], none) stride=[1] pad_before=[0] pad_after=[0] dilation=[1] "
     "groups=0",
     "0 groups do not divide"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], f32[2])" PLAIN, "one bias an output channel"},
    {"conv(f32[1, 2, 4], f32[3, 2, 0], none)" PLAIN, "kernel must be 1 or more"},
    {"conv(f32[1, 2, 4, 4], f32[3, 2, 3, 3], none)" PLAIN, "each of 2 spatial axes, got 1"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], none) stride=[0] pad_before=[0] pad_after=[0] dilation=[1] "
     "groups=1",
     "stride must be 1 or more"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], none) stride=[1] pad_before=[-1] pad_after=[0] dilation=[1] "
     "groups=1",
     "pad_before must be 0 or more"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], none) stride=[1] pad_before=[0] pad_after=[-2] dilation=[1] "
     "groups=1",
     "pad_after must be 0 or more"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], none) stride=[1] pad_before=[0] pad_after=[0] dilation=[0] "
     "groups=1",
     "dilation must be 1 or more"},
    {"conv(f32[2, 4], f32[3, 2, 3], none)" PLAIN, "1 to 3 spatial axes"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3, 1], none)" PLAIN, "w must have rank 3"},
    {"conv(f32[1, 2, 4], f16[3, 2, 3], none)" PLAIN, "dtypes differ"},
    {"conv(f32[1, 2, 4], f32[3, 2, 3], bf16[3])" PLAIN, "dtypes differ"},
    {"conv(i32[1, 2, 4], i32[3, 2, 3], none)" PLAIN, "must be f32"},
};

const op_impl op_impl_conv = {.infer = infer_conv_op,
                              .ref = ref_conv,
                              .grad = grad_conv,
                              .element = element_conv,
                              CASES(cases)};
