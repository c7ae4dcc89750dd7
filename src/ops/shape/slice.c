/* slice: every step-th element from start up to, not including, stop.
 *
 * Where axis, start and stop are numbers they are clamped as Python does; where one is symbolic every
 * element asked for must exist when the graph runs. In both a negative number counts from the end, and
 * SN_END as stop runs through the last element, or with a negative step through element 0 (Python's
 * None). A symbolic start or stop is a position and never counts from the end.
 *
 * A span keeps start and stop as positions: 0 … n for a positive step, -1 … n-1 for a negative one. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

typedef struct span {
  int64_t start, stop, count;
} span;

static int64_t position_of(int64_t at, int64_t n, bool from_end) {
  return from_end && at < 0 ? at + n : at;
}

static int64_t clamped(int64_t at, int64_t n, int64_t step) {
  int64_t first = step > 0 ? 0 : -1;
  return at < first ? first : min_i64(at, n + first);
}

/* The elements that there are, on numbers. */
static span span_of(const attrs_slice *a, int64_t n, int64_t start, int64_t stop) {
  span s = {0};
  s.start = clamped(position_of(start, n, dim_is_number(a->start)), n, a->step);
  s.stop = clamped(position_of(stop, n, dim_is_number(a->stop)), n, a->step);
  if (a->stop == SN_END && a->step < 0)
    s.stop = -1;
  int64_t way = a->step > 0 ? s.stop - s.start : s.start - s.stop;
  int64_t stride = a->step > 0 ? a->step : -a->step;
  s.count = way > 0 ? (way - 1) / stride + 1 : 0;
  return s;
}

/* A start or stop as a position when something is symbolic. */
static sn_dim position(sn_graph *g, sn_dim at, sn_dim n, sn_dim end) {
  if (at == SN_END)
    return end;
  return dim_is_number(at) && at < 0 ? sn_dim_add(g, n, at) : at;
}

static sn_dim symbolic_start(sn_graph *g, const attrs_slice *a, sn_dim n) {
  return position(g, a->start, n, a->step > 0 ? n : sn_dim_sub(g, n, 1));
}

static sn_dim symbolic_stop(sn_graph *g, const attrs_slice *a, sn_dim n) {
  return position(g, a->stop, n, a->step > 0 ? n : -1);
}

static sn_dim symbolic_count(sn_graph *g, const attrs_slice *a, sn_dim n) {
  sn_dim start = symbolic_start(g, a, n), stop = symbolic_stop(g, a, n);
  sn_dim way = a->step > 0 ? sn_dim_sub(g, stop, start) : sn_dim_sub(g, start, stop);
  int64_t stride = a->step > 0 ? a->step : -a->step;
  return sn_dim_div(g, sn_dim_add(g, way, stride - 1), stride);
}

static bool all_numbers(const attrs_slice *a, sn_dim n) {
  return dim_is_number(n) && dim_is_number(a->start) && dim_is_number(a->stop);
}

static sn_status infer_slice(infer_ctx *c) {
  const attrs_slice *a = ATTRS(slice);
  int axis;
  SN_TRY(infer_axis(c, a->axis, c->in[0].shape.rank, &axis));
  if (a->step == 0 || a->step <= -DIM_LIMIT || a->step >= DIM_LIMIT)
    return infer_fail(c, "step must not be 0 nor beyond 2^56, got %lld", (long long)a->step);
  sn_dim n = c->in[0].shape.dim[axis];
  c->out[0] = c->in[0];
  c->out[0].shape.dim[axis] =
      all_numbers(a, n) ? span_of(a, n, a->start, a->stop).count : symbolic_count(c->graph, a, n);
  return c->graph->status;
}

static sn_status ref_slice(ref_ctx *c) {
  const attrs_slice *a = ATTRS(slice);
  axis_view x = ref_axis(&c->in[0], a->axis), y = ref_axis(&c->out[0], a->axis);
  span s = span_of(a, x.n, ref_dim(c, a->start), ref_dim(c, a->stop));
  if (s.count != y.n)
    return ref_fail(
        c, SN_ERR_INVALID,
        "%lld elements from %lld on do not lie in an axis of %lld (stop %lld, step %lld)",
        (long long)y.n, (long long)ref_dim(c, a->start), (long long)x.n,
        (long long)ref_dim(c, a->stop), (long long)a->step);
  for (int64_t o = 0; o < y.outer; o++)
    for (int64_t i = 0; i < y.n; i++)
      for (int64_t j = 0; j < y.inner; j++)
        c->out[0].data[axis_at(y, o, i, j)] =
            c->in[0].data[axis_at(x, o, s.start + i * a->step, j)];
  return SN_OK;
}

/* dy of every stride-th element from start on, put into zeros of the size n: each element is followed by
 * stride-1 zeros, zeros stand before start, and what exceeds n is cut. */
static sn_value spread(build_ctx *c, sn_value dy, int axis, sn_dim n, sn_dim start, sn_dim stop,
                       int64_t stride) {
  sn_graph *g = c->graph;
  sn_shape wide = build_shape(c, dy), pairs = {.rank = 3, .dim = {1, 1, 1}};
  if (stride == 1)
    return build_zeros_around(c, dy, axis, start, sn_dim_sub(g, n, stop));
  for (int d = 0; d < wide.rank; d++)
    pairs.dim[d > axis ? 2 : 0] = sn_dim_mul(g, pairs.dim[d > axis ? 2 : 0], wide.dim[d]);
  wide.dim[axis] = sn_dim_mul(g, wide.dim[axis], stride);
  sn_value spaced = build_zeros_around(c, sn_reshape(g, dy, pairs), 1, 0, stride - 1);
  spaced = sn_reshape(g, spaced, wide);
  return sn_slice(g, build_zeros_around(c, spaced, axis, start, sn_dim_sub(g, n, stop)), axis, 0, n,
                  1);
}

/* A negative step is a positive one on the flipped axis. */
static void grad_slice(build_ctx *c) {
  const attrs_slice *a = ATTRS(slice);
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]);
  int axis = resolve_axis(a->axis, x.rank);
  sn_dim n = x.dim[axis], start, stop;
  if (all_numbers(a, n)) {
    span s = span_of(a, n, a->start, a->stop);
    if (s.count == 0)
      return;
    start = s.start;
    stop = s.stop;
  } else {
    start = symbolic_start(g, a, n);
    stop = symbolic_stop(g, a, n);
  }
  if (a->step > 0) {
    build_din(c, 0, spread(c, c->dout[0], axis, n, start, stop, a->step));
    return;
  }
  sn_dim last = sn_dim_sub(g, n, 1);
  sn_value dx = spread(c, c->dout[0], axis, n, sn_dim_sub(g, last, start),
                       sn_dim_sub(g, last, stop), -a->step);
  build_din(c, 0, sn_flip(g, dx, SN_INTS(axis)));
}

/* Element `i` of `count` must lie in 0 … n-1, for the first and the last, where there are any. */
static void require_ends(elem_ctx *c, sn_dim n, sn_dim start, sn_dim count) {
  static const char what[] = "elements of a slice do not lie in its axis";
  sn_graph *g = c->graph;
  sn_dim way = sn_dim_mul(g, sn_dim_sub(g, count, 1), ATTRS(slice)->step);
  sn_dim last = sn_dim_add(g, start, way), top = sn_dim_sub(g, n, 1);
  bool up = ATTRS(slice)->step > 0;
  locate_require(c, count, 1, what);
  locate_require(c, up ? start : last, count, what);
  locate_require(c, sn_dim_sub(g, top, up ? last : start), count, what);
}

static uint16_t element_slice(elem_ctx *c, const place *at) {
  const attrs_slice *a = ATTRS(slice);
  int axis = resolve_axis(a->axis, at->rank);
  sn_dim n = c->in[0].shape.dim[axis], start;
  if (all_numbers(a, n)) {
    start = span_of(a, n, a->start, a->stop).start;
  } else {
    start = symbolic_start(c->graph, a, n);
    require_ends(c, n, start, c->out[0].shape.dim[axis]);
  }
  place x = *at;
  coord steps = coord_scale(c->graph, &at->c[axis], a->step);
  x.c[axis] = coord_shift(c->graph, &steps, start);
  return elem_input(c, 0, &x);
}

#define TO_7 "i32[7]{0, 1, 2, 3, 4, 5, 6}"
#define END  "4611686018427387903"

static const op_case cases[] = {
    /* step 1: inside, from the end, clamped, crossed */
    {"slice(" TO_7 ") axis=0 start=2 stop=5 step=1 => i32[3]{2, 3, 4}", NULL},
    {"slice(" TO_7 ") axis=0 start=0 stop=7 step=1 => i32[7]{0, 1, 2, 3, 4, 5, 6}", NULL},
    {"slice(" TO_7 ") axis=0 start=-3 stop=" END " step=1 => i32[3]{4, 5, 6}", NULL},
    {"slice(" TO_7 ") axis=0 start=0 stop=-5 step=1 => i32[2]{0, 1}", NULL},
    {"slice(" TO_7 ") axis=0 start=-100 stop=2 step=1 => i32[2]{0, 1}", NULL},
    {"slice(" TO_7 ") axis=0 start=5 stop=100 step=1 => i32[2]{5, 6}", NULL},
    {"slice(" TO_7 ") axis=0 start=100 stop=200 step=1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=5 stop=2 step=1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=3 stop=3 step=1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=0 stop=-8 step=1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=" END " stop=" END " step=1 => i32[0]{}", NULL},
    /* larger steps */
    {"slice(" TO_7 ") axis=0 start=0 stop=" END " step=2 => i32[4]{0, 2, 4, 6}", NULL},
    {"slice(" TO_7 ") axis=0 start=1 stop=6 step=2 => i32[3]{1, 3, 5}", NULL},
    {"slice(" TO_7 ") axis=0 start=1 stop=5 step=3 => i32[2]{1, 4}", NULL},
    {"slice(" TO_7 ") axis=0 start=1 stop=4 step=3 => i32[1]{1}", NULL},
    {"slice(" TO_7 ") axis=0 start=-6 stop=-1 step=2 => i32[3]{1, 3, 5}", NULL},
    {"slice(" TO_7 ") axis=0 start=2 stop=" END " step=1000 => i32[1]{2}", NULL},
    /* backwards */
    {"slice(" TO_7 ") axis=0 start=" END " stop=" END " step=-1 => i32[7]{6, 5, 4, 3, 2, 1, 0}",
     NULL},
    {"slice(" TO_7 ") axis=0 start=-1 stop=" END " step=-2 => i32[4]{6, 4, 2, 0}", NULL},
    {"slice(" TO_7 ") axis=0 start=5 stop=1 step=-1 => i32[4]{5, 4, 3, 2}", NULL},
    {"slice(" TO_7 ") axis=0 start=5 stop=0 step=-2 => i32[3]{5, 3, 1}", NULL},
    {"slice(" TO_7 ") axis=0 start=5 stop=-1 step=-1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=100 stop=4 step=-1 => i32[2]{6, 5}", NULL},
    {"slice(" TO_7 ") axis=0 start=2 stop=-100 step=-1 => i32[3]{2, 1, 0}", NULL},
    {"slice(" TO_7 ") axis=0 start=-100 stop=-200 step=-1 => i32[0]{}", NULL},
    {"slice(" TO_7 ") axis=0 start=-3 stop=-6 step=-2 => i32[2]{4, 2}", NULL},
    {"slice(" TO_7 ") axis=0 start=1 stop=5 step=-1 => i32[0]{}", NULL},
    /* axes and dtypes */
    {"slice(i32[2, 3]{0, 1, 2, 3, 4, 5}) axis=-1 start=1 stop=3 step=1 => i32[2, 2]{1, 2, 4, 5}",
     NULL},
    {"slice(u8[3, 2]{0, 1, 2, 3, 4, 5}) axis=0 start=2 stop=" END
     " step=-2 => u8[2, 2]{4, 5, 0, 1}",
     NULL},
    {"slice(bool[3]{1, 0, 1}) axis=0 start=1 stop=3 step=1 => bool[2]{0, 1}", NULL},
    {"slice(f16[3]{nan, inf, -0.5}) axis=0 start=0 stop=2 step=1 => f16[2]{nan, inf}", NULL},
    {"slice(bf16[3, 0]) axis=0 start=1 stop=2 step=1", NULL},
    {"slice(f32[0]) axis=0 start=0 stop=5 step=1 => f32[0]{}", NULL},
    {"slice(f32[0]) axis=0 start=" END " stop=" END " step=-1 => f32[0]{}", NULL},
    /* gradients */
    {"slice(f32[2, 7, 3]) axis=1 start=2 stop=5 step=1", NULL},
    {"slice(f32[2, 7, 3]) axis=-2 start=1 stop=7 step=2", NULL},
    {"slice(f32[5, 2]) axis=0 start=1 stop=5 step=3", NULL},
    {"slice(f32[2, 7]) axis=1 start=-2 stop=0 step=-2", NULL},
    {"slice(f32[7, 1]) axis=0 start=5 stop=" END " step=-3", NULL},
    {"slice(f32[5]) axis=0 start=4 stop=2 step=1", NULL},
    {"slice(f16[7]) axis=0 start=1 stop=5 step=1", NULL},
    {"slice(f32[2, 3]) axis=2 start=0 stop=1 step=1", "outside of rank"},
    {"slice(f32[]) axis=0 start=0 stop=1 step=1", "outside of rank"},
    {"slice(f32[2, 3]) axis=0 start=0 stop=1 step=0", "step must not be 0"},
    {"slice(f32[2, 3]) axis=0 start=0 stop=1 step=72057594037927936", "nor beyond 2^56"},
    {"slice(f32[2, 3]) axis=0 start=0 stop=1 step=-9223372036854775808", "nor beyond 2^56"},
};

const op_impl op_impl_slice = {.infer = infer_slice,
                               .ref = ref_slice,
                               .grad = grad_slice,
                               .element = element_slice,
                               CASES(cases)};
