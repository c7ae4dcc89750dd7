/* scatter_add, scatter_set: rows of a base, written by an index of any shape. Writes happen in index
 * order: duplicates add in that order, or the last of them stays. Indices are i32 and must lie in the
 * base. */
#include "ops/shape/shape.h"

static sn_status infer_scatter(infer_ctx *c) {
  sn_shape rows;
  SN_TRY(infer_dtype(c, 1, SN_I32));
  SN_TRY(infer_same_dtype(c, 0, 2));
  SN_TRY(infer_rows(c, c->in[0].shape, c->in[1].shape, &rows));
  SN_TRY(infer_shape(c, 2, rows, "the index's sizes, then a row's"));
  c->out[0] = c->in[0];
  return SN_OK;
}

static sn_status ref_scatter(ref_ctx *c, bool add) {
  ref_tensor *y = &c->out[0];
  axis_view base = ref_axis(y, 0);
  memcpy(y->data, c->in[0].data, (size_t)y->count * sizeof(double));
  for (int64_t k = 0; k < c->in[1].count && y->count > 0; k++) {
    int64_t row;
    SN_TRY(ref_index(c, 1, k, base.n, &row));
    for (int64_t j = 0; j < base.inner; j++) {
      double *to = &y->data[row * base.inner + j], value = c->in[2].data[k * base.inner + j];
      *to = add ? ref_sum_of(y->dtype, *to, value) : value;
    }
  }
  return SN_OK;
}

/* --- scatter_add --- */
static sn_status infer_scatter_add(infer_ctx *c) {
  SN_TRY(infer_number(c, 0));
  return infer_scatter(c);
}

static sn_status ref_scatter_add(ref_ctx *c) { return ref_scatter(c, true); }

static void grad_scatter_add(build_ctx *c) {
  build_din(c, 0, c->dout[0]);
  if (c->need[2])
    build_din(c, 2, sn_gather(c->graph, c->dout[0], c->in[1]));
}

static const op_case scatter_add_cases[] = {
    {"scatter_add(f32[5, 3], i32[2, 2]{4, 0, 4, 1}, f32[2, 2, 3])", NULL},
    {"scatter_add(f32[5], i32[3]{1, 1, 1}, f32[3])", NULL},
    {"scatter_add(f32[3, 2], i32[]{2}, f32[2])", NULL},
    {"scatter_add(f32[3, 2], i32[0], f32[0, 2])", NULL},
    {"scatter_add(f32[0, 2], i32[0], f32[0, 2])", NULL},
    {"scatter_add(f32[3, 0], i32[2]{-1, 9}, f32[2, 0])", NULL},
    {"scatter_add(f16[1, 3], i32[1]{0}, f16[1, 3])", NULL},
    {"scatter_add(f32[2]{0, 0}, i32[3]{1, 1, 1}, f32[3]{1e30, 1, -1e30}) => f32[2]{0, 0} @kink",
     NULL},
    {"scatter_add(bf16[1]{256}, i32[2]{0, 0}, bf16[2]{1, 1}) => bf16[1]{258}", NULL},
    {"scatter_add(i32[3, 2]{1, 2, 3, 4, 5, 6}, i32[3]{2, 0, 2}, i32[3, 2]{10, 20, 30, 40, 50, 60}) "
     "=> "
     "i32[3, 2]{31, 42, 3, 4, 65, 86}",
     NULL},
    {"scatter_add(i32[1]{2147483647}, i32[1]{0}, i32[1]{2}) => i32[1]{-2147483647}", NULL},
    {"scatter_add(u8[2]{250, 1}, i32[2]{0, 0}, u8[2]{5, 5}) => u8[2]{4, 1}", NULL},
    {"scatter_add(f32[5, 3], i32[2], f32[3, 3])", "value must be [2, 3]"},
    {"scatter_add(f32[5, 3], f32[2], f32[2, 3])", "index must be i32"},
    {"scatter_add(f32[5, 3], i32[2], f16[2, 3])", "dtypes differ"},
    {"scatter_add(f32[], i32[2], f32[2])", "needs rows"},
    {"scatter_add(bool[2], i32[1], bool[1])", "must be a number"},
};

const op_impl op_impl_scatter_add = {.infer = infer_scatter_add,
                                     .ref = ref_scatter_add,
                                     .grad = grad_scatter_add,
                                     CASES(scatter_add_cases)};

/* --- scatter_set --- */
static sn_status ref_scatter_set(ref_ctx *c) { return ref_scatter(c, false); }

/* bool, broadcasting against value: the write that stays. Each write leaves its number in its row; those
 * that find their own number there won. */
static sn_value winners(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_shape index = build_shape(c, c->in[1]), value = build_shape(c, c->in[2]);
  sn_dim rows = build_shape(c, c->in[0]).dim[0], n = dim_count(g, index);
  sn_value number = sn_reshape(g, sn_arange(g, SN_I32, n, 0, 1), index);
  sn_value left = sn_scatter_set(g, sn_full(g, SN_I32, SN_SHAPE(rows), -1), c->in[1], number);
  sn_value won = sn_eq(g, sn_gather(g, left, c->in[1]), number);
  for (int d = index.rank; d < value.rank; d++)
    value.dim[d] = 1;
  return sn_reshape(g, won, value);
}

static void grad_scatter_set(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_value zeros = build_full_like(c, c->in[2], 0);
  if (c->need[0])
    build_din(c, 0, sn_scatter_set(g, c->dout[0], c->in[1], zeros));
  if (c->need[2])
    build_din(c, 2, sn_where(g, winners(c), sn_gather(g, c->dout[0], c->in[1]), zeros));
}

static const op_case scatter_set_cases[] = {
    {"scatter_set(f32[5, 3], i32[2, 2]{4, 0, 4, 1}, f32[2, 2, 3])", NULL},
    {"scatter_set(f32[5], i32[3]{1, 1, 1}, f32[3])", NULL},
    {"scatter_set(f32[5, 2], i32[7]{0, 3, 0, 3, 1, 0, 4}, f32[7, 2])", NULL},
    {"scatter_set(f32[3, 2], i32[]{2}, f32[2])", NULL},
    {"scatter_set(f32[3, 2], i32[0], f32[0, 2])", NULL},
    {"scatter_set(f32[0, 2], i32[0], f32[0, 2])", NULL},
    {"scatter_set(bf16[1, 3], i32[1]{0}, bf16[1, 3])", NULL},
    {"scatter_set(i32[3, 2]{1, 2, 3, 4, 5, 6}, i32[3]{2, 0, 2}, i32[3, 2]{10, 20, 30, 40, 50, 60}) "
     "=> "
     "i32[3, 2]{30, 40, 3, 4, 50, 60}",
     NULL},
    {"scatter_set(i32[2]{1, 2}, i32[2, 2]{1, 0, 0, 1}, i32[2, 2]{5, 6, 7, 8}) => i32[2]{7, 8}",
     NULL},
    {"scatter_set(u8[2]{1, 2}, i32[]{1}, u8[]{9}) => u8[2]{1, 9}", NULL},
    {"scatter_set(bool[2]{1, 0}, i32[1]{0}, bool[1]{0}) => bool[2]{0, 0}", NULL},
    {"scatter_set(f16[2]{nan, 2}, i32[1]{0}, f16[1]{1}) => f16[2]{1, 2}", NULL},
    {"scatter_set(f32[5, 3], i32[2], f32[2])", "value must be [2, 3]"},
    {"scatter_set(f32[5, 3], f32[2], f32[2, 3])", "index must be i32"},
    {"scatter_set(f32[5, 3], i32[2], f16[2, 3])", "dtypes differ"},
    {"scatter_set(f32[], i32[], f32[])", "needs rows"},
};

const op_impl op_impl_scatter_set = {.infer = infer_scatter,
                                     .ref = ref_scatter_set,
                                     .grad = grad_scatter_set,
                                     CASES(scatter_set_cases)};
