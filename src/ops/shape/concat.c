/* concat: values one behind the other along an axis. stack: the same along a new axis. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

/* --- concat --- */
static sn_status infer_concat(infer_ctx *c) {
  int axis;
  SN_TRY(infer_axis(c, ATTRS(concat)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  for (int i = 1; i < c->n_in; i++) {
    SN_TRY(infer_same_dtype(c, 0, i));
    SN_TRY(infer_agree(c, 0, i, axis));
    sn_dim *sum = &c->out[0].shape.dim[axis];
    *sum = sn_dim_add(c->graph, *sum, c->in[i].shape.dim[axis]);
  }
  return c->graph->status;
}

static sn_status ref_concat(ref_ctx *c) {
  axis_view y = ref_axis(&c->out[0], ATTRS(concat)->axis);
  int64_t start = 0;
  for (int k = 0; k < c->n_in; k++) {
    axis_view x = ref_axis(&c->in[k], ATTRS(concat)->axis);
    for (int64_t o = 0; o < x.outer; o++)
      for (int64_t i = 0; i < x.n; i++)
        for (int64_t j = 0; j < x.inner; j++)
          c->out[0].data[axis_at(y, o, start + i, j)] = c->in[k].data[axis_at(x, o, i, j)];
    start += x.n;
  }
  return SN_OK;
}

static void grad_concat(build_ctx *c) {
  int axis = resolve_axis(ATTRS(concat)->axis, build_shape(c, c->in[0]).rank);
  sn_dim start = 0;
  for (int k = 0; k < c->n_in; k++) {
    sn_dim stop = sn_dim_add(c->graph, start, build_shape(c, c->in[k]).dim[axis]);
    if (c->need[k])
      build_din(c, k, sn_slice(c->graph, c->dout[0], axis, start, stop, 1));
    start = stop;
  }
}

/* A chain of choices: piece k where the position lies before its end, from the last piece to the first. */
static uint16_t element_concat(elem_ctx *c, const place *at) {
  int axis = resolve_axis(ATTRS(concat)->axis, at->rank);
  sn_dim end = c->out[0].shape.dim[axis];
  reg made = 0, position = elem_coord(c, &at->c[axis]);
  for (int k = c->n_in - 1; k >= 0; k--) {
    sn_dim size = c->in[k].shape.dim[axis], start = sn_dim_sub(c->graph, end, size);
    coord from = coord_shift(c->graph, &at->c[axis], sn_dim_sub(c->graph, 0, start));
    guard piece = guard_start(at, at->rank);
    memcpy(piece.at.c, at->c, sizeof piece.at.c);
    if (c->n_in > 1)
      guard_axis(c, &piece, axis, &from, &from, size, 1);
    reg read = elem_input(c, k, &piece.at);
    made = k == c->n_in - 1
               ? read
               : elem_alu3(c, ALU_select,
                           elem_bool2(c, ALU_lt, position, elem_size(c, SN_I32, end)), read, made);
    end = start;
  }
  return made;
}

static const op_case concat_cases[] = {
    {"concat(f32[2, 3], f32[2, 5]) axis=1", NULL},
    {"concat(f32[2, 1, 3], f32[2, 3, 3], f32[2, 2, 3]) axis=-2", NULL},
    {"concat(f32[2, 3]) axis=0", NULL},
    {"concat(f32[0, 3], f32[2, 3], f32[0, 3]) axis=0", NULL},
    {"concat(f32[3, 0], f32[2, 0]) axis=0", NULL},
    {"concat(bf16[1], bf16[3]) axis=0", NULL},
    {"concat(f16[2]{1, nan}, f16[1]{inf}) axis=0 => f16[3]{1, nan, inf}", NULL},
    {"concat(i32[2, 1]{1, 2}, i32[2, 2]{3, 4, 5, 6}) axis=1 => i32[2, 3]{1, 3, 4, 2, 5, 6}", NULL},
    {"concat(i32[1, 2]{1, 2}, i32[2, 2]{3, 4, 5, 6}) axis=-2 => i32[3, 2]{1, 2, 3, 4, 5, 6}", NULL},
    {"concat(u8[1]{255}, u8[1]{0}) axis=0 => u8[2]{255, 0}", NULL},
    {"concat(bool[1]{1}, bool[1]{0}) axis=0 => bool[2]{1, 0}", NULL},
    {"concat(f32[2, 3], f32[3, 3]) axis=1", "sizes must agree but for axis 1"},
    {"concat(f32[2, 3], f32[2]) axis=0", "sizes must agree"},
    {"concat(f32[2], f16[2]) axis=0", "dtypes differ"},
    {"concat(f32[2, 3], f32[2, 3]) axis=2", "outside of rank"},
    {"concat(f32[], f32[]) axis=0", "outside of rank"},
};

const op_impl op_impl_concat = {.infer = infer_concat,
                                .ref = ref_concat,
                                .grad = grad_concat,
                                .element = element_concat,
                                CASES(concat_cases)};

/* --- stack: concat of values with a new axis of size 1 --- */
static sn_shape with_axis(sn_shape x, int axis) {
  sn_shape y = {.rank = x.rank + 1};
  for (int d = 0; d < y.rank; d++)
    y.dim[d] = d == axis ? 1 : x.dim[d - (d > axis)];
  return y;
}

static sn_status infer_stack(infer_ctx *c) {
  int axis, rank = c->in[0].shape.rank + 1;
  if (rank > SN_MAX_RANK)
    return infer_fail(c, "its result would have more than %d axes: %s", SN_MAX_RANK,
                      infer_text(c, 0));
  SN_TRY(infer_axis(c, ATTRS(stack)->axis, rank, &axis));
  for (int i = 1; i < c->n_in; i++) {
    SN_TRY(infer_same_dtype(c, 0, i));
    SN_TRY(infer_shape(c, i, c->in[0].shape, "as the first"));
  }
  c->out[0] = (sn_type){c->in[0].dtype, with_axis(c->in[0].shape, axis)};
  c->out[0].shape.dim[axis] = c->n_in;
  return SN_OK;
}

static sn_status ref_stack(ref_ctx *c) {
  axis_view y = ref_axis(&c->out[0], ATTRS(stack)->axis);
  for (int k = 0; k < c->n_in; k++)
    for (int64_t o = 0; o < y.outer; o++)
      for (int64_t j = 0; j < y.inner; j++)
        c->out[0].data[axis_at(y, o, k, j)] = c->in[k].data[o * y.inner + j];
  return SN_OK;
}

static void grad_stack(build_ctx *c) {
  sn_shape x = build_shape(c, c->in[0]);
  int axis = resolve_axis(ATTRS(stack)->axis, x.rank + 1);
  for (int k = 0; k < c->n_in; k++)
    if (c->need[k])
      build_din(c, k, sn_reshape(c->graph, sn_slice(c->graph, c->dout[0], axis, k, k + 1, 1), x));
}

static uint16_t element_stack(elem_ctx *c, const place *at) {
  int axis = resolve_axis(ATTRS(stack)->axis, at->rank);
  reg made = 0, position = elem_coord(c, &at->c[axis]);
  for (int k = c->n_in - 1; k >= 0; k--) {
    place piece = locate_start(at, at->rank - 1);
    for (int d = 0; d < piece.rank; d++)
      piece.c[d] = at->c[d + (d >= axis)];
    coord from = coord_shift(c->graph, &at->c[axis], -k);
    if (c->n_in > 1)
      locate_check(c, &piece, &from, 1, 1);
    reg read = elem_input(c, k, &piece);
    made =
        k == c->n_in - 1
            ? read
            : elem_alu3(c, ALU_select,
                        elem_bool2(c, ALU_eq, position, elem_number_as(c, SN_I32, k)), read, made);
  }
  return made;
}

static const op_case stack_cases[] = {
    {"stack(f32[2, 3], f32[2, 3]) axis=0", NULL},
    {"stack(f32[2, 3], f32[2, 3], f32[2, 3]) axis=-1", NULL},
    {"stack(f32[3, 1], f32[3, 1]) axis=1", NULL},
    {"stack(f32[], f32[]) axis=0", NULL},
    {"stack(f32[0, 3], f32[0, 3]) axis=1", NULL},
    {"stack(bf16[5]) axis=0", NULL},
    {"stack(i32[2]{1, 2}, i32[2]{3, 4}) axis=0 => i32[2, 2]{1, 2, 3, 4}", NULL},
    {"stack(i32[2]{1, 2}, i32[2]{3, 4}) axis=1 => i32[2, 2]{1, 3, 2, 4}", NULL},
    {"stack(u8[2]{1, 2}, u8[2]{3, 4}) axis=-2 => u8[2, 2]{1, 2, 3, 4}", NULL},
    {"stack(bool[1]{1}, bool[1]{0}) axis=-1 => bool[1, 2]{1, 0}", NULL},
    {"stack(f32[1, 1, 1, 1, 1, 1, 3]) axis=7", NULL},
    {"stack(f32[2], f32[3]) axis=0", "must be [2] (as the first)"},
    {"stack(f32[2], f16[2]) axis=0", "dtypes differ"},
    {"stack(f32[2], f32[2]) axis=2", "outside of rank"},
    {"stack(f32[1, 1, 1, 1, 1, 1, 1, 1]) axis=0", "more than 8 axes"},
};

const op_impl op_impl_stack = {.infer = infer_stack,
                               .ref = ref_stack,
                               .grad = grad_stack,
                               .element = element_stack,
                               CASES(stack_cases)};
