/* scatter_along_add, scatter_along_set: entries of an axis of a base, one index for each written value.
 * Writes happen in row-major order of the index: duplicates add in that order, or the last of them stays.
 * Indices are i32 and must lie in the axis. */
#include "ops/shape/shape.h"

static sn_status infer_along(infer_ctx *c, int64_t its_axis) {
  int axis;
  SN_TRY(infer_dtype(c, 1, SN_I32));
  SN_TRY(infer_same_dtype(c, 0, 2));
  SN_TRY(infer_axis(c, its_axis, c->in[0].shape.rank, &axis));
  SN_TRY(infer_agree(c, 0, 1, axis));
  SN_TRY(infer_shape(c, 2, c->in[1].shape, "as the index"));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_along(ref_ctx *c, int64_t axis, bool add) {
  ref_tensor *y = &c->out[0];
  axis_view base = ref_axis(y, axis), value = ref_axis(&c->in[2], axis);
  memcpy(y->data, c->in[0].data, (size_t)y->count * sizeof(double));
  for (int64_t o = 0; o < value.outer && y->count > 0; o++)
    for (int64_t i = 0; i < value.n; i++)
      for (int64_t j = 0; j < value.inner; j++) {
        int64_t at, k = axis_at(value, o, i, j);
        SN_TRY(ref_index(c, 1, k, base.n, &at));
        double *to = &y->data[axis_at(base, o, at, j)];
        *to = add ? ref_sum_of(y->dtype, *to, c->in[2].data[k]) : c->in[2].data[k];
      }
  return SN_OK;
}

/* --- scatter_along_add --- */
static sn_status infer_scatter_along_add(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  return infer_along(c, ATTRS(scatter_along_add)->axis);
}

static sn_status ref_scatter_along_add(ref_ctx *c) {
  return ref_along(c, ATTRS(scatter_along_add)->axis, true);
}

static void grad_scatter_along_add(build_ctx *c) {
  build_din(c, 0, c->dout[0]);
  if (c->need[2])
    build_din(c, 2,
              sn_gather_along(c->graph, c->dout[0], c->in[1], ATTRS(scatter_along_add)->axis));
}

static const op_case add_cases[] = {
    {"scatter_along_add(f32[2, 5], i32[2, 3]{4, 0, 4, 1, 1, 1}, f32[2, 3]) axis=1", NULL},
    {"scatter_along_add(f32[3, 2], i32[5, 2](0, 3), f32[5, 2]) axis=0", NULL},
    {"scatter_along_add(f32[2, 3, 2], i32[2, 1, 2](0, 3), f32[2, 1, 2]) axis=-2", NULL},
    {"scatter_along_add(f32[2, 3], i32[2, 0], f32[2, 0]) axis=1", NULL},
    {"scatter_along_add(f32[0, 3], i32[0, 2], f32[0, 2]) axis=1", NULL},
    {"scatter_along_add(bf16[5], i32[2]{4, 4}, bf16[2]) axis=0", NULL},
    {"scatter_along_add(f16[1]{2048}, i32[2]{0, 0}, f16[2]{1, 1}) axis=0 => f16[1]{2050}", NULL},
    {"scatter_along_add(i32[2, 2]{1, 2, 3, 4}, i32[2, 2]{1, 1, 0, 1}, i32[2, 2]{10, 20, 30, 40}) "
     "axis=1 "
     "=> i32[2, 2]{1, 32, 33, 44}",
     NULL},
    {"scatter_along_add(i32[2, 2]{1, 2, 3, 4}, i32[1, 2]{1, 0}, i32[1, 2]{10, 20}) axis=0 => "
     "i32[2, 2]{1, 22, 13, 4}",
     NULL},
    {"scatter_along_add(i32[1]{-2147483648}, i32[1]{0}, i32[1]{-1}) axis=0 => i32[1]{2147483647}",
     NULL},
    {"scatter_along_add(u8[1]{255}, i32[1]{0}, u8[1]{3}) axis=0 => u8[1]{2}", NULL},
    {"scatter_along_add(f32[2, 3], i32[3, 3], f32[3, 3]) axis=1",
     "sizes must agree but for axis 1"},
    {"scatter_along_add(f32[2, 3], i32[2, 2], f32[2, 3]) axis=1", "value must be [2, 2]"},
    {"scatter_along_add(f32[2], f32[2], f32[2]) axis=0", "index must be i32"},
    {"scatter_along_add(f32[2], i32[2], f16[2]) axis=0", "dtypes differ"},
    {"scatter_along_add(f32[2], i32[2], f32[2]) axis=1", "outside of rank"},
    {"scatter_along_add(bool[2], i32[2], bool[2]) axis=0", "must be a number"},
};

const op_impl op_impl_scatter_along_add = {.infer = infer_scatter_along_add,
                                           .ref = ref_scatter_along_add,
                                           .grad = grad_scatter_along_add,
                                           CASES(add_cases)};

/* --- scatter_along_set --- */
static sn_status infer_scatter_along_set(infer_ctx *c) {
  return infer_along(c, ATTRS(scatter_along_set)->axis);
}

static sn_status ref_scatter_along_set(ref_ctx *c) {
  return ref_along(c, ATTRS(scatter_along_set)->axis, false);
}

/* bool: the write that stays. Each write leaves its position; those that find their own there won. */
static sn_value winners(build_ctx *c, int axis) {
  sn_graph *g = c->graph;
  sn_value position = build_positions(c, axis, build_shape(c, c->in[1]));
  sn_value none = sn_full(g, SN_I32, build_shape(c, c->in[0]), -1);
  sn_value left = sn_scatter_along_set(g, none, c->in[1], position, axis);
  return sn_eq(g, sn_gather_along(g, left, c->in[1], axis), position);
}

static void grad_scatter_along_set(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value zeros = build_full_like(c, c->in[2], 0);
  int axis = resolve_axis(ATTRS(scatter_along_set)->axis, build_shape(c, c->in[0]).rank);
  if (c->need[0])
    build_din(c, 0, sn_scatter_along_set(g, c->dout[0], c->in[1], zeros, axis));
  if (c->need[2])
    build_din(c, 2,
              sn_where(g, winners(c, axis), sn_gather_along(g, c->dout[0], c->in[1], axis), zeros));
}

static const op_case set_cases[] = {
    {"scatter_along_set(f32[2, 5], i32[2, 3]{4, 0, 4, 1, 1, 1}, f32[2, 3]) axis=1", NULL},
    {"scatter_along_set(f32[3, 2], i32[5, 2](0, 3), f32[5, 2]) axis=0", NULL},
    {"scatter_along_set(f32[2, 3, 2], i32[2, 1, 2](0, 3), f32[2, 1, 2]) axis=-2", NULL},
    {"scatter_along_set(f32[2, 3], i32[2, 0], f32[2, 0]) axis=1", NULL},
    {"scatter_along_set(f32[0, 3], i32[0, 2], f32[0, 2]) axis=1", NULL},
    {"scatter_along_set(bf16[5], i32[2]{4, 4}, bf16[2]) axis=0", NULL},
    {"scatter_along_set(i32[2, 2]{1, 2, 3, 4}, i32[2, 3]{1, 1, 1, 0, 1, 0}, "
     "i32[2, 3]{10, 20, 30, 40, 50, 60}) axis=-1 => i32[2, 2]{1, 30, 60, 50}",
     NULL},
    {"scatter_along_set(i32[2, 2]{1, 2, 3, 4}, i32[1, 2]{1, 0}, i32[1, 2]{10, 20}) axis=0 => "
     "i32[2, 2]{1, 20, 10, 4}",
     NULL},
    {"scatter_along_set(u8[1]{255}, i32[1]{0}, u8[1]{3}) axis=0 => u8[1]{3}", NULL},
    {"scatter_along_set(bool[2]{1, 0}, i32[1]{1}, bool[1]{1}) axis=0 => bool[2]{1, 1}", NULL},
    {"scatter_along_set(f16[1]{nan}, i32[1]{0}, f16[1]{1}) axis=0 => f16[1]{1}", NULL},
    {"scatter_along_set(f32[2, 3], i32[3, 3], f32[3, 3]) axis=1",
     "sizes must agree but for axis 1"},
    {"scatter_along_set(f32[2, 3], i32[2, 2], f32[2, 3]) axis=1", "value must be [2, 2]"},
    {"scatter_along_set(f32[2], f32[2], f32[2]) axis=0", "index must be i32"},
    {"scatter_along_set(f32[2], i32[2], f16[2]) axis=0", "dtypes differ"},
    {"scatter_along_set(f32[2], i32[2], f32[2]) axis=1", "outside of rank"},
};

const op_impl op_impl_scatter_along_set = {.infer = infer_scatter_along_set,
                                           .ref = ref_scatter_along_set,
                                           .grad = grad_scatter_along_set,
                                           CASES(set_cases)};
