/* slice_at reads, update_slice writes, a run of entries along an axis from a position that is known only
 * when the graph runs: an i32 scalar, which must leave room for all of them. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

/* `start` (input i) and an axis; a run of `size` out of n must be possible. */
static sn_status infer_run(infer_ctx *c, int i, sn_dim n, sn_dim size) {
  SN_TRY(infer_dtype(c, i, SN_I32));
  SN_TRY(infer_rank(c, i, 0));
  if (dim_is_number(size) && size < 0)
    return infer_fail(c, "size %lld is negative", (long long)size);
  if (dim_is_number(size) && size > sn_dim_max(c->graph, n))
    return infer_fail(c, "%lld entries do not fit into the axis of %s", (long long)size,
                      infer_text(c, 0));
  return SN_OK;
}

static sn_status ref_start_of(const ref_ctx *c, int input, int64_t n, int64_t size, int64_t *out) {
  double start = c->in[input].data[0];
  *out = 0;
  if (size > n)
    return ref_fail(c, SN_ERR_INVALID, "%lld entries do not fit into an axis of %lld",
                    (long long)size, (long long)n);
  if (c->out[0].count > 0 && !(start >= 0 && start <= (double)(n - size)))
    return ref_fail(c, SN_ERR_INVALID, "%lld entries from %.0f on do not lie in an axis of %lld",
                    (long long)size, start, (long long)n);
  *out = c->out[0].count > 0 ? (int64_t)start : 0;
  return SN_OK;
}

/* --- slice_at --- */
static sn_status infer_slice_at(infer_ctx *c) {
  int axis;
  SN_TRY(infer_axis(c, ATTRS(slice_at)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  c->out[0].shape.dim[axis] = ATTRS(slice_at)->size;
  return infer_run(c, 1, c->in[0].shape.dim[axis], ATTRS(slice_at)->size);
}

static sn_status ref_slice_at(ref_ctx *c) {
  axis_view x = ref_axis(&c->in[0], ATTRS(slice_at)->axis);
  axis_view y = ref_axis(&c->out[0], ATTRS(slice_at)->axis);
  int64_t start;
  SN_TRY(ref_start_of(c, 1, x.n, y.n, &start));
  for (int64_t o = 0; o < y.outer; o++)
    for (int64_t i = 0; i < y.n; i++)
      for (int64_t j = 0; j < y.inner; j++)
        c->out[0].data[axis_at(y, o, i, j)] = c->in[0].data[axis_at(x, o, start + i, j)];
  return SN_OK;
}

static void grad_slice_at(build_ctx *c) {
  sn_value zeros = build_full_like(c, c->in[0], 0);
  build_din(c, 0, sn_update_slice(c->graph, zeros, c->dout[0], c->in[1], ATTRS(slice_at)->axis));
}

/* `start`, which must leave room for `size` of n, as a coordinate. */
static coord run_start(elem_ctx *c, const place *at, int input, sn_dim n, sn_dim size) {
  place scalar = locate_start(at, 0);
  sn_dim room = sn_dim_sub(c->graph, n, size);
  reg start = elem_input(c, input, &scalar);
  reg low = elem_bool2(c, ALU_ge, start, elem_number_as(c, SN_I32, 0));
  reg high = elem_bool2(c, ALU_le, start, elem_size(c, SN_I32, room));
  locate_require(c, room, 1, "more entries than the axis has");
  c->services->require(c, elem_bool2(c, ALU_and, low, high), start,
                       "the entries from %d on do not lie in the axis");
  return elem_at(start, sn_dim_add(c->graph, room, 1));
}

static uint16_t element_slice_at(elem_ctx *c, const place *at) {
  int axis = resolve_axis(ATTRS(slice_at)->axis, at->rank);
  place x = *at;
  coord start = run_start(c, at, 1, c->in[0].shape.dim[axis], c->out[0].shape.dim[axis]);
  x.c[axis] = locate_sum(c, &at->c[axis], &start);
  return elem_input(c, 0, &x);
}

static const op_case slice_at_cases[] = {
    {"slice_at(f32[2, 5], i32[]{2}) axis=1 size=3", NULL},
    {"slice_at(f32[7, 2], i32[]{4}) axis=0 size=1", NULL},
    {"slice_at(f32[2, 3, 2], i32[]{0}) axis=-2 size=3", NULL},
    {"slice_at(f32[2, 3], i32[]{3}) axis=1 size=0", NULL},
    {"slice_at(f32[0, 3], i32[]{1}) axis=1 size=2", NULL},
    {"slice_at(f32[0, 3], i32[]{9}) axis=1 size=2", NULL},
    {"slice_at(bf16[5], i32[]{1}) axis=0 size=2", NULL},
    {"slice_at(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[]{1}) axis=1 size=2 => i32[2, 2]{2, 3, 5, 6}",
     NULL},
    {"slice_at(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[]{1}) axis=0 size=1 => i32[1, 3]{4, 5, 6}", NULL},
    {"slice_at(u8[3]{7, 8, 9}, i32[]{2}) axis=-1 size=1 => u8[1]{9}", NULL},
    {"slice_at(bool[2]{0, 1}, i32[]{1}) axis=0 size=1 => bool[1]{1}", NULL},
    {"slice_at(f16[3]{nan, 2, 3}, i32[]{0}) axis=0 size=2 => f16[2]{nan, 2}", NULL},
    {"slice_at(f32[2, 3], i32[]{0}) axis=1 size=4", "4 entries do not fit"},
    {"slice_at(f32[2, 3], i32[]{0}) axis=1 size=-1", "size -1 is negative"},
    {"slice_at(f32[2, 3], i32[1]{0}) axis=1 size=1", "start must have rank 0"},
    {"slice_at(f32[2, 3], f32[]{0}) axis=1 size=1", "start must be i32"},
    {"slice_at(f32[2, 3], i32[]{0}) axis=2 size=1", "outside of rank"},
};

const op_impl op_impl_slice_at = {.infer = infer_slice_at,
                                  .ref = ref_slice_at,
                                  .grad = grad_slice_at,
                                  .element = element_slice_at,
                                  CASES(slice_at_cases)};

/* --- update_slice --- */
static sn_status infer_update_slice(infer_ctx *c) {
  int axis;
  SN_TRY(infer_same_dtype(c, 0, 1));
  SN_TRY(infer_axis(c, ATTRS(update_slice)->axis, c->in[0].shape.rank, &axis));
  SN_TRY(infer_agree(c, 0, 1, axis));
  c->out[0] = c->in[0];
  return infer_run(c, 2, c->in[0].shape.dim[axis], c->in[1].shape.dim[axis]);
}

static sn_status ref_update_slice(ref_ctx *c) {
  ref_tensor *y = &c->out[0];
  axis_view base = ref_axis(y, ATTRS(update_slice)->axis);
  axis_view value = ref_axis(&c->in[1], ATTRS(update_slice)->axis);
  int64_t start;
  SN_TRY(ref_start_of(c, 2, base.n, value.n, &start));
  memcpy(y->data, c->in[0].data, (size_t)y->count * sizeof(double));
  for (int64_t o = 0; o < value.outer; o++)
    for (int64_t i = 0; i < value.n; i++)
      for (int64_t j = 0; j < value.inner; j++)
        y->data[axis_at(base, o, start + i, j)] = c->in[1].data[axis_at(value, o, i, j)];
  return SN_OK;
}

static void grad_update_slice(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_shape value = build_shape(c, c->in[1]);
  int axis = resolve_axis(ATTRS(update_slice)->axis, value.rank);
  sn_value zeros = build_full_like(c, c->in[1], 0), start = c->in[2];
  if (c->need[0])
    build_din(c, 0, sn_update_slice(g, c->dout[0], zeros, start, axis));
  if (c->need[1])
    build_din(c, 1, sn_slice_at(g, c->dout[0], start, axis, value.dim[axis]));
}

static uint16_t element_update_slice(elem_ctx *c, const place *at) {
  int axis = resolve_axis(ATTRS(update_slice)->axis, at->rank);
  sn_dim size = c->in[1].shape.dim[axis];
  coord start = run_start(c, at, 2, c->in[0].shape.dim[axis], size);
  coord back = coord_scale(c->graph, &start, -1), from = locate_sum(c, &at->c[axis], &back);
  guard value = guard_start(at, at->rank);
  memcpy(value.at.c, at->c, sizeof value.at.c);
  guard_axis(c, &value, axis, &from, &from, size, 1);
  return elem_alu3(c, ALU_select, guard_inside(c, &value), elem_input(c, 1, &value.at),
                   elem_input(c, 0, at));
}

static const op_case update_slice_cases[] = {
    {"update_slice(f32[2, 5], f32[2, 3], i32[]{2}) axis=1", NULL},
    {"update_slice(f32[7, 2], f32[1, 2], i32[]{4}) axis=0", NULL},
    {"update_slice(f32[2, 3, 2], f32[2, 3, 2], i32[]{0}) axis=-2", NULL},
    {"update_slice(f32[2, 3], f32[2, 0], i32[]{3}) axis=1", NULL},
    {"update_slice(f32[0, 3], f32[0, 2], i32[]{1}) axis=1", NULL},
    {"update_slice(f32[0, 3], f32[0, 2], i32[]{9}) axis=1", NULL},
    {"update_slice(bf16[5], bf16[2], i32[]{1}) axis=0", NULL},
    {"update_slice(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[2, 2]{10, 20, 30, 40}, i32[]{1}) axis=1 => "
     "i32[2, 3]{1, 10, 20, 4, 30, 40}",
     NULL},
    {"update_slice(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[1, 3]{7, 8, 9}, i32[]{0}) axis=0 => "
     "i32[2, 3]{7, 8, 9, 4, 5, 6}",
     NULL},
    {"update_slice(u8[3]{7, 8, 9}, u8[1]{1}, i32[]{2}) axis=-1 => u8[3]{7, 8, 1}", NULL},
    {"update_slice(bool[2]{0, 1}, bool[1]{1}, i32[]{0}) axis=0 => bool[2]{1, 1}", NULL},
    {"update_slice(f16[2]{nan, 1}, f16[1]{2}, i32[]{0}) axis=0 => f16[2]{2, 1}", NULL},
    {"update_slice(f32[2, 3], f32[2, 4], i32[]{0}) axis=1", "4 entries do not fit"},
    {"update_slice(f32[2, 3], f32[1, 2], i32[]{0}) axis=1", "sizes must agree but for axis 1"},
    {"update_slice(f32[2, 3], f16[2, 2], i32[]{0}) axis=1", "dtypes differ"},
    {"update_slice(f32[2, 3], f32[2, 2], i32[1]{0}) axis=1", "start must have rank 0"},
    {"update_slice(f32[2, 3], f32[2, 2], f32[]{0}) axis=1", "start must be i32"},
    {"update_slice(f32[2, 3], f32[2, 2], i32[]{0}) axis=2", "outside of rank"},
};

const op_impl op_impl_update_slice = {.infer = infer_update_slice,
                                      .ref = ref_update_slice,
                                      .grad = grad_update_slice,
                                      .element = element_update_slice,
                                      CASES(update_slice_cases)};
