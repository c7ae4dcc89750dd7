/* gather: rows of a table by an index of any shape. gather_along: one entry of an axis for each position.
 * index_select: entries of one axis by a list. Indices are i32 and must lie in the axis. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

/* --- gather --- */
static sn_status infer_gather(infer_ctx *c) {
  SN_TRY(infer_dtype(c, 1, SN_I32));
  c->out[0].dtype = c->in[0].dtype;
  return infer_rows(c, c->in[0].shape, c->in[1].shape, &c->out[0].shape);
}

static sn_status ref_gather(ref_ctx *c) {
  axis_view table = ref_axis(&c->in[0], 0);
  for (int64_t k = 0; k < c->in[1].count && c->out[0].count > 0; k++) {
    int64_t row;
    SN_TRY(ref_index(c, 1, k, table.n, &row));
    for (int64_t j = 0; j < table.inner; j++)
      c->out[0].data[k * table.inner + j] = c->in[0].data[row * table.inner + j];
  }
  return SN_OK;
}

static void grad_gather(build_ctx *c) {
  sn_value zeros = build_full_like(c, c->in[0], 0);
  build_din(c, 0, sn_scatter_add(c->graph, zeros, c->in[1], c->dout[0]));
}

static uint16_t element_gather(elem_ctx *c, const place *at) {
  sn_shape table = c->in[0].shape;
  place index = locate_start(at, c->in[1].shape.rank), row = locate_start(at, table.rank);
  memcpy(index.c, at->c, (size_t)index.rank * sizeof index.c[0]);
  memcpy(row.c + 1, at->c + index.rank, (size_t)(table.rank - 1) * sizeof row.c[0]);
  reg chosen = elem_input(c, 1, &index);
  locate_require_index(c, chosen, table.dim[0]);
  row.c[0] = elem_at(chosen, table.dim[0]);
  return elem_input(c, 0, &row);
}

static const op_case gather_cases[] = {
    {"gather(f32[7, 3], i32[2, 5](0, 7))", NULL},
    {"gather(f32[5], i32[3]{4, 0, 4})", NULL},
    {"gather(f32[3, 2, 2], i32[]{2})", NULL},
    {"gather(f32[3, 2], i32[0])", NULL},
    {"gather(f32[0, 2], i32[0])", NULL},
    {"gather(f32[3, 0], i32[2]{2, 0})", NULL},
    /* Of no elements: nothing is wrong with an index. */
    {"gather(f32[3, 0], i32[2]{-1, 9})", NULL},
    {"gather(bf16[1, 3], i32[2]{0, 0})", NULL},
    {"gather(i32[3, 2]{1, 2, 3, 4, 5, 6}, i32[]{1}) => i32[2]{3, 4}", NULL},
    {"gather(i32[3, 2]{1, 2, 3, 4, 5, 6}, i32[3]{2, 0, 2}) => i32[3, 2]{5, 6, 1, 2, 5, 6}", NULL},
    {"gather(u8[3]{7, 8, 9}, i32[2, 2]{0, 2, 1, 1}) => u8[2, 2]{7, 9, 8, 8}", NULL},
    {"gather(bool[2]{0, 1}, i32[3]{1, 1, 0}) => bool[3]{1, 1, 0}", NULL},
    {"gather(f16[2]{nan, 2}, i32[2]{1, 0}) => f16[2]{2, nan}", NULL},
    {"gather(f32[1, 1, 1, 1, 3], i32[1, 1, 1, 1]{0})", NULL},
    {"gather(f32[2], f32[2])", "index must be i32"},
    {"gather(f32[], i32[2])", "needs rows to index"},
    {"gather(f32[1, 1, 1, 1, 1], i32[1, 1, 1, 1, 1])", "more than 8 axes"},
};

const op_impl op_impl_gather = {.infer = infer_gather,
                                .ref = ref_gather,
                                .grad = grad_gather,
                                .element = element_gather,
                                CASES(gather_cases)};

/* --- gather_along --- */
static sn_status infer_gather_along(infer_ctx *c) {
  int axis;
  SN_TRY(infer_dtype(c, 1, SN_I32));
  SN_TRY(infer_axis(c, ATTRS(gather_along)->axis, c->in[0].shape.rank, &axis));
  SN_TRY(infer_agree(c, 0, 1, axis));
  c->out[0] = (sn_type){c->in[0].dtype, c->in[1].shape};
  return SN_OK;
}

static sn_status ref_gather_along(ref_ctx *c) {
  axis_view x = ref_axis(&c->in[0], ATTRS(gather_along)->axis);
  axis_view y = ref_axis(&c->out[0], ATTRS(gather_along)->axis);
  for (int64_t o = 0; o < y.outer; o++)
    for (int64_t i = 0; i < y.n; i++)
      for (int64_t j = 0; j < y.inner; j++) {
        int64_t at, k = axis_at(y, o, i, j);
        SN_TRY(ref_index(c, 1, k, x.n, &at));
        c->out[0].data[k] = c->in[0].data[axis_at(x, o, at, j)];
      }
  return SN_OK;
}

static void grad_gather_along(build_ctx *c) {
  sn_value zeros = build_full_like(c, c->in[0], 0);
  build_din(c, 0,
            sn_scatter_along_add(c->graph, zeros, c->in[1], c->dout[0], ATTRS(gather_along)->axis));
}

/* x at the place, but along the axis at what the index says. */
static reg read_chosen(elem_ctx *c, const place *at, const place *index, int axis) {
  place x = *at;
  reg chosen = elem_input(c, 1, index);
  locate_require_index(c, chosen, c->in[0].shape.dim[axis]);
  x.c[axis] = elem_at(chosen, c->in[0].shape.dim[axis]);
  return elem_input(c, 0, &x);
}

static uint16_t element_gather_along(elem_ctx *c, const place *at) {
  return read_chosen(c, at, at, resolve_axis(ATTRS(gather_along)->axis, at->rank));
}

static const op_case gather_along_cases[] = {
    {"gather_along(f32[2, 5], i32[2, 3](0, 5)) axis=1", NULL},
    {"gather_along(f32[3, 2], i32[7, 2](0, 3)) axis=0", NULL},
    {"gather_along(f32[2, 3, 2], i32[2, 1, 2](0, 3)) axis=-2", NULL},
    {"gather_along(f32[2, 3], i32[2, 0]) axis=1", NULL},
    {"gather_along(f32[0, 3], i32[0, 2]) axis=1", NULL},
    {"gather_along(bf16[5], i32[2]{4, 4}) axis=0", NULL},
    {"gather_along(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[2, 2]{2, 0, 1, 1}) axis=1 => i32[2, 2]{3, 1, "
     "5, 5}",
     NULL},
    {"gather_along(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[1, 3]{1, 0, 1}) axis=0 => i32[1, 3]{4, 2, 6}",
     NULL},
    {"gather_along(u8[3]{7, 8, 9}, i32[1]{2}) axis=-1 => u8[1]{9}", NULL},
    {"gather_along(bool[2]{0, 1}, i32[3]{1, 0, 1}) axis=0 => bool[3]{1, 0, 1}", NULL},
    {"gather_along(f32[2, 3], i32[3, 3]) axis=1", "sizes must agree but for axis 1"},
    {"gather_along(f32[2, 3], i32[2]) axis=1", "sizes must agree"},
    {"gather_along(f32[2, 3], f32[2, 3]) axis=1", "index must be i32"},
    {"gather_along(f32[2, 3], i32[2, 3]) axis=2", "outside of rank"},
};

const op_impl op_impl_gather_along = {.infer = infer_gather_along,
                                      .ref = ref_gather_along,
                                      .grad = grad_gather_along,
                                      .element = element_gather_along,
                                      CASES(gather_along_cases)};

/* --- index_select: gather_along with the same list everywhere --- */
static sn_status infer_index_select(infer_ctx *c) {
  int axis;
  SN_TRY(infer_dtype(c, 1, SN_I32));
  SN_TRY(infer_rank(c, 1, 1));
  SN_TRY(infer_axis(c, ATTRS(index_select)->axis, c->in[0].shape.rank, &axis));
  c->out[0] = c->in[0];
  c->out[0].shape.dim[axis] = c->in[1].shape.dim[0];
  return SN_OK;
}

static sn_status ref_index_select(ref_ctx *c) {
  axis_view x = ref_axis(&c->in[0], ATTRS(index_select)->axis);
  for (int64_t i = 0; i < c->in[1].count && c->out[0].count > 0; i++) {
    int64_t at;
    SN_TRY(ref_index(c, 1, i, x.n, &at));
    axis_view y = {x.outer, c->in[1].count, x.inner};
    for (int64_t o = 0; o < x.outer; o++)
      for (int64_t j = 0; j < x.inner; j++)
        c->out[0].data[axis_at(y, o, i, j)] = c->in[0].data[axis_at(x, o, at, j)];
  }
  return SN_OK;
}

static sn_value index_everywhere(build_ctx *c, int axis) {
  sn_shape y = build_shape(c, c->in[0]);
  y.dim[axis] = build_shape(c, c->in[1]).dim[0];
  return build_along(c, c->in[1], axis, y);
}

static void grad_index_select(build_ctx *c) {
  int axis = resolve_axis(ATTRS(index_select)->axis, build_shape(c, c->in[0]).rank);
  sn_value zeros = build_full_like(c, c->in[0], 0), dy = c->dout[0];
  build_din(c, 0,
            axis == 0 ? sn_scatter_add(c->graph, zeros, c->in[1], dy)
                      : sn_scatter_along_add(c->graph, zeros, index_everywhere(c, axis), dy, axis));
}

static void decompose_index_select(build_ctx *c) {
  int axis = resolve_axis(ATTRS(index_select)->axis, build_shape(c, c->in[0]).rank);
  c->out[0] = sn_gather_along(c->graph, c->in[0], index_everywhere(c, axis), axis);
}

static uint16_t element_index_select(elem_ctx *c, const place *at) {
  int axis = resolve_axis(ATTRS(index_select)->axis, at->rank);
  place index = locate_start(at, 1);
  index.c[0] = at->c[axis];
  return read_chosen(c, at, &index, axis);
}

static const op_case index_select_cases[] = {
    {"index_select(f32[2, 5], i32[3]{4, 0, 4}) axis=1", NULL},
    {"index_select(f32[3, 2], i32[7](0, 3)) axis=0", NULL},
    {"index_select(f32[2, 3, 2], i32[1]{2}) axis=-2", NULL},
    {"index_select(f32[2, 3], i32[0]) axis=1", NULL},
    {"index_select(f32[0, 3], i32[2]{-1, 9}) axis=1", NULL},
    {"index_select(f16[5], i32[2]{4, 4}) axis=0", NULL},
    {"index_select(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[2]{2, 0}) axis=1 => i32[2, 2]{3, 1, 6, 4}",
     NULL},
    {"index_select(i32[2, 3]{1, 2, 3, 4, 5, 6}, i32[3]{1, 1, 0}) axis=-2 => "
     "i32[3, 3]{4, 5, 6, 4, 5, 6, 1, 2, 3}",
     NULL},
    {"index_select(u8[3]{7, 8, 9}, i32[1]{2}) axis=-1 => u8[1]{9}", NULL},
    {"index_select(bool[2]{0, 1}, i32[1]{1}) axis=0 => bool[1]{1}", NULL},
    {"index_select(f32[2, 3], i32[1, 2]) axis=1", "index must have rank 1"},
    {"index_select(f32[2, 3], f32[2]) axis=1", "index must be i32"},
    {"index_select(f32[2, 3], i32[2]) axis=-3", "outside of rank"},
};

const op_impl op_impl_index_select = {.infer = infer_index_select,
                                      .ref = ref_index_select,
                                      .grad = grad_index_select,
                                      .decompose = decompose_index_select,
                                      .element = element_index_select,
                                      CASES(index_select_cases)};
