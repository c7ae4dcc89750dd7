/* conv_grad_input and conv_grad_weight: the gradients of conv for x and for w. All three are linear
 * in each argument and come from the same sum of products x * w * dy, so each one's gradients are
 * the other two: the family is closed under differentiation. dy must have exactly the shape that
 * conv gives. */
#include "ops/conv/walk.h"

static sn_status infer_dy(infer_ctx *c, int dy, sn_shape x, sn_shape w, const window *win,
                          int64_t groups) {
  sn_shape y;
  SN_TRY(infer_conv(c, x, w, win, groups, &y));
  return infer_shape(c, dy, y, "what conv gives");
}

/* --- conv_grad_input --- */

static sn_status infer_conv_grad_input(infer_ctx *c) {
  const attrs_conv_grad_input *a = ATTRS(conv_grad_input);
  sn_shape dy = c->in[0].shape, w = c->in[1].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_spatial(c, 0));
  SN_TRY(infer_conv_weight(c, 1, dy.rank - 2));
  if (a->size.rank != dy.rank - 2)
    return infer_fail(c, "size must have %d dims, one a spatial axis, got %s", dy.rank - 2,
                      graph_shape_text(c->graph, a->size));
  sn_shape x = {dy.rank, {dy.dim[0], sn_dim_mul(c->graph, w.dim[1], max_i64(a->groups, 1))}};
  for (int d = 0; d < a->size.rank; d++) {
    x.dim[2 + d] = a->size.dim[d];
    if (dim_is_number(a->size.dim[d]) && a->size.dim[d] < 0)
      return infer_fail(c, "dim %d of size %s is negative", d, graph_shape_text(c->graph, a->size));
  }
  window win = WINDOW(conv_kernel(&w), a);
  c->out[0] = (sn_type){c->in[0].dtype, x};
  return infer_dy(c, 0, x, w, &win, a->groups);
}

static sn_status ref_conv_grad_input(ref_ctx *c) {
  const attrs_conv_grad_input *a = ATTRS(conv_grad_input);
  window win = WINDOW(ref_conv_kernel(&c->in[1]), a);
  return ref_conv_walk(c, (conv_tensors){&c->out[0], &c->in[1], &c->in[0]}, &win, a->groups,
                       conv_add_to_x);
}

static void grad_conv_grad_input(build_ctx *c) {
  const attrs_conv_grad_input *a = ATTRS(conv_grad_input);
  sn_graph *g = c->graph;
  sn_shape w = build_shape(c, c->in[1]);
  sn_value ddx = c->dout[0];
  if (c->need[0])
    build_din(c, 0,
              sn_conv(g, ddx, c->in[1], SN_NONE, a->stride, a->pad_before, a->pad_after,
                      a->dilation, a->groups));
  if (c->need[1])
    build_din(c, 1,
              sn_conv_grad_weight(g, ddx, c->in[0], conv_kernel(&w), a->stride, a->pad_before,
                                  a->pad_after, a->dilation, a->groups));
}

/* --- conv_grad_weight --- */

static sn_status infer_conv_grad_weight(infer_ctx *c) {
  const attrs_conv_grad_weight *a = ATTRS(conv_grad_weight);
  sn_shape x = c->in[0].shape, dy = c->in[1].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_spatial(c, 0));
  SN_TRY(infer_rank(c, 1, x.rank));
  window win = WINDOW(a->kernel, a);
  SN_TRY(infer_window(c, &win, x.rank - 2));
  if (!dim_is_number(x.dim[1]) || a->groups < 1 || x.dim[1] % a->groups != 0)
    return infer_fail(c, "%lld groups do not divide the channels of x %s", (long long)a->groups,
                      graph_shape_text(c->graph, x));
  sn_shape w = {x.rank, {dy.dim[1], x.dim[1] / a->groups}};
  for (int d = 0; d < a->kernel.n; d++)
    w.dim[2 + d] = a->kernel.v[d];
  c->out[0] = (sn_type){c->in[0].dtype, w};
  return infer_dy(c, 1, x, w, &win, a->groups);
}

static sn_status ref_conv_grad_weight(ref_ctx *c) {
  const attrs_conv_grad_weight *a = ATTRS(conv_grad_weight);
  window win = WINDOW(a->kernel, a);
  return ref_conv_walk(c, (conv_tensors){&c->in[0], &c->out[0], &c->in[1]}, &win, a->groups,
                       conv_add_to_w);
}

static void grad_conv_grad_weight(build_ctx *c) {
  const attrs_conv_grad_weight *a = ATTRS(conv_grad_weight);
  sn_graph *g = c->graph;
  sn_value ddw = c->dout[0];
  if (c->need[0])
    build_din(c, 0,
              sn_conv_grad_input(g, c->in[1], ddw, conv_spatial(build_shape(c, c->in[0])),
                                 a->stride, a->pad_before, a->pad_after, a->dilation, a->groups));
  if (c->need[1])
    build_din(c, 1,
              sn_conv(g, c->in[0], ddw, SN_NONE, a->stride, a->pad_before, a->pad_after,
                      a->dilation, a->groups));
}

/* --- cases --- */

/* --- elements --- */

/* dx[n, ci, p] sums over the output channels of ci's group, then the kernel. */
static uint16_t element_conv_grad_input(elem_ctx *c, const place *at) {
  const attrs_conv_grad_input *a = ATTRS(conv_grad_input);
  sn_shape dy = c->in[0].shape, w = c->in[1].shape;
  window win = WINDOW(conv_kernel(&w), a);
  coord k[1 + MAX_SPATIAL], group, within;
  sn_dim extents[1 + MAX_SPATIAL] = {w.dim[0] / a->groups};
  memcpy(extents + 1, w.dim + 2, (size_t)win.kernel.n * sizeof extents[0]);
  elem_require_fits(c, &win, &c->out[0].shape, &dy);
  elem_axes(c, w.rank - 1, extents, k);
  elem_group(c, &at->c[1], a->groups, w.dim[1], &group, &within);
  guard read = guard_start(at, dy.rank);
  place weight = locate_start(at, w.rank);
  read.at.c[0] = at->c[0];
  read.at.c[1] = weight.c[0] = elem_channel(c, &group, extents[0], &k[0]);
  weight.c[1] = within;
  memcpy(weight.c + 2, k + 1, (size_t)win.kernel.n * sizeof k[0]);
  for (int d = 0; d < win.kernel.n; d++)
    window_read_back(c, &win, &read, 0, d, &at->c[2 + d], &k[1 + d]);
  return elem_narrow(c, elem_sum_products(c, &read.at, &weight));
}

/* dw[co, ci, k] sums over the batch, then the windows. */
static uint16_t element_conv_grad_weight(elem_ctx *c, const place *at) {
  const attrs_conv_grad_weight *a = ATTRS(conv_grad_weight);
  sn_shape x = c->in[0].shape, dy = c->in[1].shape;
  window win = WINDOW(a->kernel, a);
  coord k[1 + MAX_SPATIAL], group, within;
  sn_dim extents[1 + MAX_SPATIAL] = {x.dim[0]};
  memcpy(extents + 1, dy.dim + 2, (size_t)win.kernel.n * sizeof extents[0]);
  elem_require_fits(c, &win, &x, &dy);
  elem_axes(c, x.rank - 1, extents, k);
  elem_group(c, &at->c[0], a->groups, dy.dim[1] / a->groups, &group, &within);
  guard read = guard_start(at, x.rank);
  place slope = locate_start(at, dy.rank);
  read.at.c[0] = slope.c[0] = k[0];
  read.at.c[1] = elem_channel(c, &group, x.dim[1] / a->groups, &at->c[1]);
  slope.c[1] = at->c[0];
  memcpy(slope.c + 2, k + 1, (size_t)win.kernel.n * sizeof k[0]);
  for (int d = 0; d < win.kernel.n; d++)
    window_read(c, &win, &read, 0, d, &k[1 + d], &at->c[2 + d]);
  return elem_narrow(c, elem_sum_products(c, &read.at, &slope));
}

#define PLAIN " stride=[1] pad_before=[0] pad_after=[0] dilation=[1] groups=1"
#define STEPS " stride=[2] pad_before=[1] pad_after=[1] dilation=[2] groups=2"
#define PLANE " stride=[2, 1] pad_before=[1, 0] pad_after=[0, 1] dilation=[1, 2] groups=1"
#define SPACE \
  " stride=[1, 2, 1] pad_before=[0, 1, 0] pad_after=[1, 0, 0] dilation=[1, 1, 1] groups=1"
#define DEPTHWISE " stride=[1] pad_before=[1] pad_after=[1] dilation=[1] groups=3"

static const op_case input_cases[] = {
    {"conv_grad_input(f32[1, 1, 3]{1, 2, 3}, f32[1, 1, 2]{1, 10}) size=[4]" PLAIN
     " => f32[1, 1, 4]{1, 12, 23, 30}",
     NULL},
    {"conv_grad_input(f32[1, 4, 3]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1}, "
     "f32[4, 1, 3]{-1, -3, 2, 0, -2, 3, 1, -1, -3, 2, 0, -2}) size=[7]" STEPS
     " => f32[1, 2, 7]{0, 1, 0, -38, 0, 19, 0, 0, 13, 0, 11, 0, -18, 0}",
     NULL},
    {"conv_grad_input(f32[1, 2, 2, 2]{-1, 6, 2, -2, 5, 1, -3, 4}, "
     "f32[2, 2, 2, 2]{-1, -3, 2, 0, -2, 3, 1, -1, -3, 2, 0, -2, 3, 1, -1, -3}) size=[4, 3]" PLANE
     " => f32[1, 2, 4, 3]{-2, 12, -10, 7, -10, -12, 4, -4, 6, 0, 0, 0, -6, 5, -14, -13, 16, 3, 5, "
     "-6, 7, 0, 0, 0}",
     NULL},
    {"conv_grad_input(f32[1, 2, 2, 2, 2]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, 6, 2, -2, 5}, "
     "f32[2, 1, 2, 2, 1]{-1, -3, 2, 0, -2, 3, 1, -1}) size=[2, 3, 2]" SPACE
     " => f32[1, 1, 2, 3, 2]{3, -30, -8, 4, 3, 3, 3, 7, 14, -19, 0, 4}",
     NULL},
    {"conv_grad_input(f32[2, 3, 3]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, 6, 2, -2, 5, 1, -3}, "
     "f32[3, 1, 2]{-1, -3, 2, 0, -2, 3}) size=[2]" DEPTHWISE
     " => f32[2, 3, 2]{-3, -20, 10, 2, -17, 12, 9, -8, 4, -4, 13, 9}",
     NULL},
    {"conv_grad_input(f32[2, 2, 3], f32[2, 2, 2]) size=[5] stride=[2] pad_before=[2] pad_after=[0] "
     "dilation=[1] groups=1",
     NULL}, /* the last element of size lies in no window */
    {"conv_grad_input(f32[1, 4, 1, 2], f32[4, 1, 1, 1]) size=[3, 5] stride=[3, 3] pad_before=[0, "
     "0] "
     "pad_after=[0, 0] dilation=[1, 1] groups=2",
     NULL},
    {"conv_grad_input(f32[0, 2, 3], f32[2, 1, 2]) size=[4]" PLAIN, NULL},
    {"conv_grad_input(f32[1, 0, 3], f32[0, 1, 2]) size=[4]" PLAIN " => f32[1, 1, 4]{0}", NULL},
    {"conv_grad_input(f32[1, 1, 1], f32[1, 1, 1]) size=[1]" PLAIN, NULL},
    {"conv_grad_input(bf16[1, 2, 3], bf16[2, 1, 2]) size=[4]" PLAIN, NULL},
    {"conv_grad_input(f32[1, 2, 3], f32[2, 1, 2]) size=[5]" PLAIN, "dy must be [1, 2, 4]"},
    {"conv_grad_input(f32[1, 3, 3], f32[2, 1, 2]) size=[4]" PLAIN, "dy must be [1, 2, 3]"},
    {"conv_grad_input(f32[1, 2, 3], f32[2, 1, 2]) size=[4, 4]" PLAIN, "size must have 1 dims"},
    {"conv_grad_input(f32[1, 2, 3], f32[2, 1, 2]) size=[-4]" PLAIN, "is negative"},
    {"conv_grad_input(f32[1, 2, 3], f32[2, 1, 4]) size=[3]" PLAIN, "does not fit"},
    {"conv_grad_input(f32[1, 3, 3], f32[3, 1, 2]) size=[4] stride=[1] pad_before=[0] pad_after=[0] "
     "dilation=[1] groups=2",
     "2 groups do not divide"},
    {"conv_grad_input(f32[1, 2], f32[2, 1]) size=[]" PLAIN, "1 to 3 spatial axes"},
    {"conv_grad_input(f32[1, 2, 3], f16[2, 1, 2]) size=[4]" PLAIN, "dtypes differ"},
    {"conv_grad_input(i32[1, 2, 3], i32[2, 1, 2]) size=[4]" PLAIN, "must be f32"},
};

const op_impl op_impl_conv_grad_input = {.infer = infer_conv_grad_input,
                                         .ref = ref_conv_grad_input,
                                         .grad = grad_conv_grad_input,
                                         .element = element_conv_grad_input,
                                         CASES(input_cases)};

static const op_case weight_cases[] = {
    {"conv_grad_weight(f32[1, 1, 4]{1, 2, 3, 4}, f32[1, 1, 3]{1, 10, 100}) kernel=[2]" PLAIN
     " => f32[1, 1, 2]{321, 432}",
     NULL},
    {"conv_grad_weight(f32[1, 2, 7]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1}, "
     "f32[1, 4, 3]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1}) kernel=[3]" STEPS
     " => f32[4, 1, 3]{24, -23, 3, 22, -25, 6, -4, 11, 14, -5, 5, 7}",
     NULL},
    {"conv_grad_weight(f32[1, 2, 4, 3]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, "
     "-4, 3, -1, -5, 2, -2, 5}, f32[1, 2, 2, 2]{-1, 6, 2, -2, 5, 1, -3, 4}) kernel=[2, 2]" PLANE
     " => f32[2, 2, 2, 2]{-14, 0, 18, -3, 8, -8, 9, -7, 25, 0, 19, 8, -12, 12, 13, 0}",
     NULL},
    {"conv_grad_weight(f32[1, 1, 2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}, "
     "f32[1, 2, 2, 2, 2]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, 6, 2, -2, 5}) "
     "kernel=[2, 2, 1]" SPACE " => f32[2, 1, 2, 2, 1]{-9, 9, 8, 30, -17, -40, 2, -4}",
     NULL},
    {"conv_grad_weight(f32[2, 3, 2]{-2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2}, "
     "f32[2, 3, 3]{-1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, 6, 2, -2, 5, 1, -3}) "
     "kernel=[2]" DEPTHWISE " => f32[3, 1, 2]{-17, 57, 10, -33, 24, -4}",
     NULL},
    {"conv_grad_weight(f32[2, 2, 5], f32[2, 2, 3]) kernel=[2] stride=[2] pad_before=[2] "
     "pad_after=[0] dilation=[1] groups=1",
     NULL},
    {"conv_grad_weight(f32[1, 2, 3, 5], f32[1, 4, 1, 2]) kernel=[1, 1] stride=[3, 3] "
     "pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1] groups=2",
     NULL},
    {"conv_grad_weight(f32[0, 2, 4], f32[0, 1, 3]) kernel=[2]" PLAIN " => f32[1, 2, 2]{0}", NULL},
    {"conv_grad_weight(f32[1, 0, 4], f32[1, 2, 3]) kernel=[2]" PLAIN, NULL},
    {"conv_grad_weight(f32[1, 1, 1], f32[1, 1, 1]) kernel=[1]" PLAIN, NULL},
    {"conv_grad_weight(bf16[1, 1, 4], bf16[1, 2, 3]) kernel=[2]" PLAIN, NULL},
    {"conv_grad_weight(f32[1, 1, 4], f32[1, 2, 4]) kernel=[2]" PLAIN, "dy must be [1, 2, 3]"},
    {"conv_grad_weight(f32[2, 1, 4], f32[1, 2, 3]) kernel=[2]" PLAIN, "dy must be [2, 2, 3]"},
    {"conv_grad_weight(f32[1, 1, 4], f32[1, 2, 3, 1]) kernel=[2]" PLAIN, "dy must have rank 3"},
    {"conv_grad_weight(f32[1, 1, 4], f32[1, 2, 3]) kernel=[]" PLAIN, "kernel must have a number"},
    {"conv_grad_weight(f32[1, 1, 4], f32[1, 2, 5]) kernel=[0]" PLAIN, "kernel must be 1 or more"},
    {"conv_grad_weight(f32[1, 1, 4], f32[1, 2, 0]) kernel=[5]" PLAIN, "does not fit"},
    {"conv_grad_weight(f32[1, 3, 4], f32[1, 2, 3]) kernel=[2] stride=[1] pad_before=[0] "
     "pad_after=[0] dilation=[1] groups=2",
     "2 groups do not divide"},
    {"conv_grad_weight(f32[1, 2, 4], f32[1, 3, 3]) kernel=[2] stride=[1] pad_before=[0] "
     "pad_after=[0] dilation=[1] groups=2",
     "2 groups do not divide"},
    {"conv_grad_weight(f32[1, 1], f32[1, 2]) kernel=[]" PLAIN, "1 to 3 spatial axes"},
    {"conv_grad_weight(f32[1, 1, 4], f16[1, 2, 3]) kernel=[2]" PLAIN, "dtypes differ"},
    {"conv_grad_weight(i32[1, 1, 4], i32[1, 2, 3]) kernel=[2]" PLAIN, "must be f32"},
};

const op_impl op_impl_conv_grad_weight = {.infer = infer_conv_grad_weight,
                                          .ref = ref_conv_grad_weight,
                                          .grad = grad_conv_grad_weight,
                                          .element = element_conv_grad_weight,
                                          CASES(weight_cases)};
