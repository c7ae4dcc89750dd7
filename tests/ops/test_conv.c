/* Convolution and its gradients: what must hold between them, on random shapes; second-order
 * gradients. The walk (test_table.c) checks numbers and first-order gradients. */
#include "support/graph_run.h"
#include "support/test.h"

/* --- random convolutions --- */

typedef struct geometry {
  sn_shape x, w;
  sn_ints stride, before, after, dilation;
  int64_t groups;
} geometry;

static uint64_t state;

static int64_t draw(int64_t lo, int64_t hi) { /* lo … hi */
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return lo + (int64_t)((state >> 33) % (uint64_t)(hi - lo + 1));
}

/* Channels for 1, 2 or 3 groups; sizes such that at least one window fits. Every third axis is plain (a window
 * of 1, without steps and padding), since the walk takes plain neighbours together. */
static geometry draw_geometry(int spatial) {
  geometry v = {.groups = draw(1, 3)};
  int64_t in = draw(1, 2), out = draw(1, 2);
  v.x = (sn_shape){2 + spatial, {draw(1, 2), in * v.groups}};
  v.w = (sn_shape){2 + spatial, {out * v.groups, in}};
  v.stride.n = v.before.n = v.after.n = v.dilation.n = spatial;
  for (int d = 0; d < spatial; d++) {
    bool plain = draw(0, 2) == 0;
    int64_t kernel = plain ? 1 : draw(1, 3), dilation = draw(1, 2);
    int64_t reach = dilation * (kernel - 1) + 1;
    v.w.dim[2 + d] = kernel;
    v.stride.v[d] = plain ? 1 : draw(1, 4);
    v.dilation.v[d] = dilation;
    v.before.v[d] = plain ? 0 : draw(0, 3);
    v.after.v[d] = plain ? 0 : draw(0, 2);
    int64_t least = max_i64(1, reach - v.before.v[d] - v.after.v[d]);
    v.x.dim[2 + d] = least + draw(0, 4);
  }
  return v;
}

static sn_value build_conv(sn_graph *g, const geometry *v, sn_value x, sn_value w) {
  return sn_conv(g, x, w, SN_NONE, v->stride, v->before, v->after, v->dilation, v->groups);
}

static sn_ints spatial_of(sn_shape s) {
  sn_ints list = {.n = s.rank - 2};
  for (int d = 0; d < list.n; d++)
    list.v[d] = s.dim[2 + d];
  return list;
}

/* The same by patches: [N, G, Cin/G * K, O] under [G, Cout/G, Cin/G * K], group by group. */
static sn_value build_by_patches(sn_graph *g, const geometry *v, sn_value x, sn_value w,
                                 sn_shape y) {
  sn_value p = sn_im2col(g, x, spatial_of(v->w), v->stride, v->before, v->after, v->dilation);
  sn_dim rows = sn_value_type(g, p).shape.dim[1], windows = sn_value_type(g, p).shape.dim[2];
  p = sn_reshape(g, p, SN_SHAPE(v->x.dim[0], v->groups, rows / v->groups, windows));
  w = sn_reshape(g, w, SN_SHAPE(v->groups, v->w.dim[0] / v->groups, rows / v->groups));
  return sn_reshape(g, sn_matmul(g, w, p, false, false), y);
}

TEST(conv_is_a_matmul_with_patches) {
  state = 1;
  for (int i = 0; i < 60 && !test_failed(); i++) {
    geometry v = draw_geometry(1 + i % 3);
    graph_run r;
    if (!graph_run_start(&r))
      return;
    sn_value x = sn_input(r.g, "x", SN_F32, v.x), w = sn_input(r.g, "w", SN_F32, v.w);
    sn_value y = build_conv(r.g, &v, x, w);
    sn_output(r.g, "y", y);
    sn_output(r.g, "by patches", build_by_patches(r.g, &v, x, w, sn_value_type(r.g, y).shape));
    if (graph_run_execute(&r, NULL))
      ref_tensor_near("conv and im2col", &r.out[0], &r.out[1], 1e-12);
    graph_run_end(&r);
  }
}

/* <conv(x, w), dy> = <x, conv_grad_input(dy, w)> = <w, conv_grad_weight(x, dy)> */
TEST(the_gradients_are_adjoint) {
  state = 2;
  for (int i = 0; i < 60 && !test_failed(); i++) {
    geometry v = draw_geometry(1 + i % 3);
    graph_run r;
    if (!graph_run_start(&r))
      return;
    sn_graph *g = r.g;
    sn_value x = sn_input(g, "x", SN_F32, v.x), w = sn_input(g, "w", SN_F32, v.w);
    sn_value y = build_conv(g, &v, x, w);
    sn_value dy = sn_input(g, "dy", SN_F32, sn_value_type(g, y).shape);
    sn_shape size = {.rank = v.x.rank - 2};
    memcpy(size.dim, &v.x.dim[2], (size_t)size.rank * sizeof size.dim[0]);
    sn_value dx =
        sn_conv_grad_input(g, dy, w, size, v.stride, v.before, v.after, v.dilation, v.groups);
    sn_value dw = sn_conv_grad_weight(g, x, dy, spatial_of(v.w), v.stride, v.before, v.after,
                                      v.dilation, v.groups);
    const sn_value outputs[] = {y, dy, x, dx, w, dw};
    for (int k = 0; k < 6; k++) {
      char name[2] = {(char)('a' + k), '\0'};
      sn_output(g, name, outputs[k]);
    }
    if (graph_run_execute(&r, NULL)) {
      double whole = ref_tensor_dot(&r.out[0], &r.out[1]);
      CHECK_NEAR(ref_tensor_dot(&r.out[2], &r.out[3]), whole, 1e-10);
      CHECK_NEAR(ref_tensor_dot(&r.out[4], &r.out[5]), whole, 1e-10);
    }
    graph_run_end(&r);
  }
}

/* --- second order --- */

typedef sn_value (*builder)(sn_graph *g, sn_value x, sn_value w);

static sn_value some_conv(sn_graph *g, sn_value x, sn_value w) {
  return sn_conv(g, x, w, SN_NONE, SN_INTS(2, 1), SN_INTS(1, 0), SN_INTS(0, 1), SN_INTS(1, 2), 2);
}

static sn_value some_transpose(sn_graph *g, sn_value x, sn_value w) {
  return sn_conv_transpose(g, x, w, SN_NONE, SN_INTS(2, 1), SN_INTS(1, 0), SN_INTS(0, 1),
                           SN_INTS(1, 2), SN_INTS(1, 1), 2);
}

/* out[0] = sum(dx * u) + sum(dw * v) with the gradients of sum(y^2 * q): what a second gradient
 * sees. */
static sn_value build_first_order(sn_graph *g, sn_value y, sn_value x, sn_value w) {
  sn_value q = sn_input(g, "q", SN_F32, sn_value_type(g, y).shape), wrt[] = {x, w}, grads[2];
  sn_value loss = sn_sum(g, sn_mul(g, sn_sqr(g, y), q), SN_ALL_AXES, false), total = SN_NONE;
  if (sn_grad(g, loss, wrt, 2, grads) != SN_OK)
    return loss;
  for (int k = 0; k < 2; k++) {
    sn_value u = sn_input(g, k ? "v" : "u", SN_F32, sn_value_type(g, grads[k]).shape);
    sn_value part = sn_sum(g, sn_mul(g, grads[k], u), SN_ALL_AXES, false);
    total = k ? sn_add(g, total, part) : part;
  }
  return total;
}

static void check_second_order(const char *what, builder build) {
  graph_run r;
  if (!graph_run_start(&r))
    return;
  sn_graph *g = r.g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(1, 2, 3, 3));
  sn_value w = sn_input(g, "w", SN_F32, SN_SHAPE(2, 1, 2, 2)), wrt[] = {x, w}, second[2];
  sn_value first = build_first_order(g, build(g, x, w), x, w);
  sn_output(g, "first", first);
  if (CHECK(sn_grad(g, first, wrt, 2, second) == SN_OK)) {
    sn_output(g, "d x", second[0]);
    sn_output(g, "d w", second[1]);
    if (graph_run_execute(&r, NULL)) {
      const ref_tensor analytic[] = {r.out[1], r.out[2]};
      for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < analytic[k].count; i++) {
          double expected = graph_run_difference(&r, k ? "w" : "x", i), got = analytic[k].data[i];
          CHECK(got != 0);
          if (!CHECK_NEAR(got, expected, 1e-7))
            FAIL("%s: second gradient for %s[%lld]", what, k ? "w" : "x", (long long)i);
        }
    }
  } else {
    FAIL("%s: %s", what, sn_graph_message(g));
  }
  graph_run_end(&r);
}

TEST(second_gradients_of_conv) { check_second_order("conv", some_conv); }
TEST(second_gradients_of_conv_transpose) { check_second_order("conv_transpose", some_transpose); }
