/* topk and sort: values in order along an axis, and the indices where they stood. Numbers of
 * every dtype; stable (lowest index first at ties) in both directions; NaN counts as the
 * largest: first in descending order, last in ascending. The gradient goes back to where the
 * values stood. */
#include "ops/choose/choose.h"

/* out[0] and out[1]: x with k entries along the axis. */
static sn_status infer_chosen(infer_ctx *c, int axis, sn_dim k) {
  if (sn_dim_max(c->graph, c->in[0].shape.dim[axis]) > INT32_MAX)
    return infer_fail(c, "axis %d of %s is too long for i32 indices", axis, infer_text(c, 0));
  c->out[0] = c->in[0];
  c->out[0].shape.dim[axis] = k;
  c->out[1] = (sn_type){SN_I32, c->out[0].shape};
  return SN_OK;
}

/* Writes the first items of slice (o, i), by value or by index, as far as the result goes. */
static void store_slice(ref_tensor *y, axis_view v, int64_t o, int64_t i, int axis,
                        const sort_item *items, bool index) {
  int64_t k = y->dim[axis];
  for (int64_t n = 0; n < k; n++)
    y->data[(o * k + n) * v.inner + i] = index ? (double)items[n].at : items[n].x;
}

static sn_status ref_chosen(ref_ctx *c, int64_t given_axis, bool descending) {
  const ref_tensor *x = &c->in[0];
  axis_view v = ref_axis(x, given_axis);
  int axis = resolve_axis(given_axis, x->rank);
  int64_t k = max_i64(c->out[0].dim[axis], c->out[1].dim[axis]);
  if (k > v.n)
    return ref_fail(c, SN_ERR_INVALID, "k is %lld, but the axis has only %lld entries",
                    (long long)k, (long long)v.n);
  sort_item *items = arena_array(c->scratch, (size_t)v.n, 2 * sizeof *items);
  if (!items)
    return SN_ERR_NO_MEMORY;
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t i = 0; i < v.inner; i++) {
      for (int64_t n = 0; n < v.n; n++)
        items[n] = (sort_item){x->data[(o * v.n + n) * v.inner + i], n};
      sort_items(items, items + v.n, v.n, descending);
      store_slice(&c->out[0], v, o, i, axis, items, false);
      store_slice(&c->out[1], v, o, i, axis, items, true);
    }
  return SN_OK;
}

static void grad_chosen(build_ctx *c, int64_t axis) {
  if (c->dout[0].id)
    build_din(c, 0,
              sn_scatter_along_add(c->graph, build_full_like(c, c->in[0], 0), c->out[1], c->dout[0],
                                   axis));
}

/* --- topk --- */
static sn_status infer_topk(infer_ctx *c) {
  int axis;
  SN_TRY(infer_number(c, 0));
  SN_TRY(infer_axis(c, ATTRS(topk)->axis, c->in[0].shape.rank, &axis));
  int64_t k = ATTRS(topk)->k, most = sn_dim_max(c->graph, c->in[0].shape.dim[axis]);
  if (k < 0 || k > most)
    return infer_fail(c, "k must lie in 0 … %lld (axis %d of %s), got %lld", (long long)most, axis,
                      infer_text(c, 0), (long long)k);
  return infer_chosen(c, axis, k);
}

static sn_status ref_topk(ref_ctx *c) {
  return ref_chosen(c, ATTRS(topk)->axis, ATTRS(topk)->largest);
}
static void grad_topk(build_ctx *c) { grad_chosen(c, ATTRS(topk)->axis); }

static const op_case topk_cases[] = {
    {"topk(f32[7]) k=3 axis=0 largest=true", NULL},
    {"topk(f32[2, 5, 3]) k=2 axis=1 largest=false", NULL},
    {"topk(f32[3, 5]) k=5 axis=-1 largest=true", NULL},
    {"topk(f32[3]) k=0 axis=0 largest=true", NULL},
    {"topk(f32[0, 3]) k=1 axis=1 largest=true", NULL},
    {"topk(f32[6]{2, 5, 2, 5, 1, 5}) k=4 axis=0 largest=true => f32[4]{5, 5, 5, 2}, i32[4]{1, 3, "
     "5, "
     "0} @kink",
     NULL},
    {"topk(f32[6]{2, 5, 2, 5, 1, 5}) k=4 axis=0 largest=false => f32[4]{1, 2, 2, 5}, i32[4]{4, 0, "
     "2, 1} @kink",
     NULL},
    {"topk(f32[5]{1, nan, inf, nan, -inf}) k=3 axis=0 largest=true => f32[3]{nan, nan, inf}, "
     "i32[3]{1, 3, 2}",
     NULL},
    {"topk(f32[5]{1, nan, inf, nan, -inf}) k=4 axis=0 largest=false => f32[4]{-inf, 1, inf, nan}, "
     "i32[4]{4, 0, 2, 1}",
     NULL},
    {"topk(f32[2, 3]{1, 6, 3, 4, 5, 2}) k=1 axis=0 largest=true => f32[1, 3]{4, 6, 3}, i32[1, "
     "3]{1, 0, 0}",
     NULL},
    {"topk(f16[1, 3]{1, 3, 2}) k=2 axis=1 largest=true => f16[1, 2]{3, 2}, i32[1, 2]{1, 2}", NULL},
    {"topk(bf16[3]{1, 3, 2}) k=2 axis=0 largest=false => bf16[2]{1, 2}, i32[2]{0, 2}", NULL},
    {"topk(i32[4]{-2147483648, 7, 2147483647, 7}) k=3 axis=0 largest=true => "
     "i32[3]{2147483647, 7, 7}, i32[3]{2, 1, 3}",
     NULL},
    {"topk(u8[3]{200, 7, 255}) k=1 axis=0 largest=true => u8[1]{255}, i32[1]{2}", NULL},
    {"topk(f32[3]) k=4 axis=0 largest=true", "k must lie in 0 … 3"},
    {"topk(f32[2147483648, 0]) k=1 axis=0 largest=true", "too long for i32 indices"},
    {"topk(f32[3]) k=-1 axis=0 largest=true", "k must lie in 0 … 3"},
    {"topk(f32[3]) k=1 axis=1 largest=true", "outside of rank"},
    {"topk(f32[]) k=1 axis=0 largest=true", "outside of rank"},
    {"topk(bool[3]) k=1 axis=0 largest=true", "must be a number"},
};

const op_impl op_impl_topk = {
    .infer = infer_topk, .ref = ref_topk, .grad = grad_topk, CASES(topk_cases)};

/* --- sort --- */
static sn_status infer_sort(infer_ctx *c) {
  int axis;
  SN_TRY(infer_number(c, 0));
  SN_TRY(infer_axis(c, ATTRS(sort)->axis, c->in[0].shape.rank, &axis));
  return infer_chosen(c, axis, c->in[0].shape.dim[axis]);
}

static sn_status ref_sort(ref_ctx *c) {
  return ref_chosen(c, ATTRS(sort)->axis, ATTRS(sort)->descending);
}
static void grad_sort(build_ctx *c) { grad_chosen(c, ATTRS(sort)->axis); }

static const op_case sort_cases[] = {
    {"sort(f32[7]) axis=0 descending=true", NULL},
    {"sort(f32[2, 5, 3]) axis=1 descending=false", NULL},
    {"sort(f32[3, 5]) axis=-1 descending=false", NULL},
    {"sort(f32[0, 2147483648]) axis=1 descending=false", "too long for i32 indices"},
    {"sort(f32[0, 3]) axis=0 descending=false", NULL},
    {"sort(f32[3, 0]) axis=0 descending=true", NULL},
    {"sort(f32[1]) axis=0 descending=true", NULL},
    {"sort(f32[6]{2, 5, 2, 5, 1, 5}) axis=0 descending=false => f32[6]{1, 2, 2, 5, 5, 5}, "
     "i32[6]{4, 0, 2, 1, 3, 5} @kink",
     NULL},
    {"sort(f32[6]{2, 5, 2, 5, 1, 5}) axis=0 descending=true => f32[6]{5, 5, 5, 2, 2, 1}, "
     "i32[6]{1, 3, 5, 0, 2, 4} @kink",
     NULL},
    {"sort(f32[6]{1, nan, inf, nan, -inf, 0}) axis=0 descending=false => "
     "f32[6]{-inf, 0, 1, inf, nan, nan}, i32[6]{4, 5, 0, 2, 1, 3}",
     NULL},
    {"sort(f32[6]{1, nan, inf, nan, -inf, 0}) axis=0 descending=true => "
     "f32[6]{nan, nan, inf, 1, 0, -inf}, i32[6]{1, 3, 2, 0, 5, 4}",
     NULL},
    {"sort(f32[2]{0, -0.0}) axis=0 descending=false => f32[2]{0, 0}, i32[2]{0, 1} @kink", NULL},
    {"sort(f32[2, 3]{1, 6, 3, 4, 5, 2}) axis=0 descending=true => f32[2, 3]{4, 6, 3, 1, 5, 2}, "
     "i32[2, 3]{1, 0, 0, 0, 1, 1}",
     NULL},
    {"sort(f16[3]{1, 3, 2}) axis=0 descending=false => f16[3]{1, 2, 3}, i32[3]{0, 2, 1}", NULL},
    {"sort(bf16[3]{1, 3, 2}) axis=0 descending=true => bf16[3]{3, 2, 1}, i32[3]{1, 2, 0}", NULL},
    {"sort(i32[4]{7, -2147483648, 2147483647, 7}) axis=0 descending=false => "
     "i32[4]{-2147483648, 7, 7, 2147483647}, i32[4]{1, 0, 3, 2}",
     NULL},
    {"sort(f32[3]) axis=-2 descending=false", "outside of rank"},
    {"sort(bool[3]) axis=0 descending=false", "must be a number"},
};

const op_impl op_impl_sort = {
    .infer = infer_sort, .ref = ref_sort, .grad = grad_sort, CASES(sort_cases)};
