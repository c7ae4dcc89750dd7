/* argmax and argmin along an axis: the i32 index of the first element that no other beats. NaN
 * beats every number. Over nothing there is no index: an error, when building where sizes are
 * known, else at run. */
#include "ops/reduce/reduce.h"

static sn_status infer_index(infer_ctx *c, int64_t axis, bool keepdims) {
  int resolved;
  SN_TRY(infer_number(c, 0));
  SN_TRY(infer_axis(c, axis, c->in[0].shape.rank, &resolved));
  if (sn_dim_max(c->graph, c->in[0].shape.dim[resolved]) > INT32_MAX)
    return infer_fail(c, "indices along axis %lld of %s do not fit in i32", (long long)axis,
                      infer_text(c, 0));
  return infer_reduced_nonempty(c, &SN_INTS(axis), keepdims, SN_I32);
}

static sn_status ref_index(ref_ctx *c, int64_t axis, bool (*beats)(double x, double best)) {
  SN_TRY(ref_nonempty(c, &SN_INTS(axis)));
  axis_view v = ref_axis(&c->in[0], axis);
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    const double *x = c->in[0].data + row / v.inner * v.n * v.inner + row % v.inner;
    int64_t best = 0;
    for (int64_t k = 1; k < v.n; k++)
      if (!isnan(x[best * v.inner]) &&
          (isnan(x[k * v.inner]) || beats(x[k * v.inner], x[best * v.inner])))
        best = k;
    c->out[0].data[row] = (double)best;
  }
  return SN_OK;
}

/* The lowest of the positions that hold the extremum, or a NaN where there is one. */
static void decompose_index(build_ctx *c, int64_t axis, bool keepdims, sn_value extremum) {
  sn_graph *g = c->graph;
  sn_value x = c->in[0], hit = sn_eq(g, x, extremum);
  sn_shape shape = build_shape(c, x), thin = shape;
  int a = resolve_axis(axis, shape.rank);
  for (int d = 0; d < shape.rank; d++)
    thin.dim[d] = d == a ? shape.dim[d] : 1;
  if (dtype_is_float(build_dtype(c, x)))
    hit = sn_logical_or(g, hit, sn_isnan(g, x));
  sn_value positions = sn_reshape(g, sn_arange(g, SN_I32, shape.dim[a], 0, 1), thin);
  sn_value beyond = sn_scalar(g, SN_I32, INT32_MAX);
  c->out[0] = sn_min(g, sn_where(g, hit, positions, beyond), SN_INTS(axis), keepdims);
}

/* --- argmax --- */
static bool above(double x, double best) { return x > best; }

static sn_status infer_argmax(infer_ctx *c) {
  return infer_index(c, ATTRS(argmax)->axis, ATTRS(argmax)->keepdims);
}

static sn_status ref_argmax(ref_ctx *c) { return ref_index(c, ATTRS(argmax)->axis, above); }

static void decompose_argmax(build_ctx *c) {
  const attrs_argmax *a = ATTRS(argmax);
  decompose_index(c, a->axis, a->keepdims, sn_max(c->graph, c->in[0], SN_INTS(a->axis), true));
}

static const op_case argmax_cases[] = {
    {"argmax(f32[2, 3]{1, 5, -2, -7, -9, -3}) axis=1 => i32[2]{1, 2}", NULL},
    {"argmax(f32[2, 3]{1, 5, -2, -7, -9, -1}) axis=0 keepdims=true => i32[1, 3]{0, 0, 1}", NULL},
    {"argmax(f32[2, 2, 2]{1, 2, 3, 0, 9, 8, 7, 8}) axis=-2 => i32[2, 2]{1, 0, 0, 0}", NULL},
    {"argmax(f32[5]{1, 3, 2, 3, 3}) axis=-1 => i32[]{1}", NULL},
    {"argmax(f32[4]{1, nan, inf, nan}) axis=0 => i32[]{1}", NULL},
    {"argmax(f32[3]{-inf, -inf, -inf}) axis=0 => i32[]{0}", NULL},
    {"argmax(bf16[3, 1]) axis=1 => i32[3]{0}", NULL},
    {"argmax(f16[3]{1, 3, 2}) axis=0 => i32[]{1}", NULL},
    {"argmax(i32[3]{-5, -2147483648, 7}) axis=0 => i32[]{2}", NULL},
    {"argmax(u8[3]{3, 255, 7}) axis=0 => i32[]{1}", NULL},
    {"argmax(f32[0, 3]) axis=1 => i32[0]{}", NULL},
    {"argmax(f32[0, 0]) axis=1 => i32[0]{}", NULL},
    {"argmax(f32[0, 3]) axis=0", "no value over nothing"},
    {"argmax(f32[2, 3]) axis=2", "outside of rank"},
    {"argmax(f32[]) axis=0", "outside of rank"},
    {"argmax(bool[2]) axis=0", "must be a number"},
};

const op_impl op_impl_argmax = {.infer = infer_argmax,
                                .ref = ref_argmax,
                                .no_grad = "its result is an integer",
                                .decompose = decompose_argmax,
                                CASES(argmax_cases)};

/* --- argmin --- */
static bool below(double x, double best) { return x < best; }

static sn_status infer_argmin(infer_ctx *c) {
  return infer_index(c, ATTRS(argmin)->axis, ATTRS(argmin)->keepdims);
}

static sn_status ref_argmin(ref_ctx *c) { return ref_index(c, ATTRS(argmin)->axis, below); }

static void decompose_argmin(build_ctx *c) {
  const attrs_argmin *a = ATTRS(argmin);
  decompose_index(c, a->axis, a->keepdims, sn_min(c->graph, c->in[0], SN_INTS(a->axis), true));
}

static const op_case argmin_cases[] = {
    {"argmin(f32[2, 3]{1, 5, -2, -7, -9, -3}) axis=1 => i32[2]{2, 1}", NULL},
    {"argmin(f32[2, 3]{1, 5, -2, -7, 9, -1}) axis=0 keepdims=true => i32[1, 3]{1, 0, 0}", NULL},
    {"argmin(f32[2, 2, 2]{1, 2, 3, 0, 9, 8, 7, 8}) axis=-2 => i32[2, 2]{0, 1, 1, 0}", NULL},
    {"argmin(f32[5]{3, 1, 2, 1, 1}) axis=-1 => i32[]{1}", NULL},
    {"argmin(f32[4]{1, nan, -inf, nan}) axis=0 => i32[]{1}", NULL},
    {"argmin(f32[3]{inf, inf, inf}) axis=0 => i32[]{0}", NULL},
    {"argmin(bf16[3, 1]) axis=1 => i32[3]{0}", NULL},
    {"argmin(i32[3]{-5, -2147483648, 7}) axis=0 => i32[]{1}", NULL},
    {"argmin(u8[3]{3, 255, 0}) axis=0 => i32[]{2}", NULL},
    {"argmin(f32[0, 3]) axis=1 => i32[0]{}", NULL},
    {"argmin(f32[2, 0]) axis=1", "no value over nothing"},
    {"argmin(f32[2, 3]) axis=-3", "outside of rank"},
    {"argmin(bool[2]) axis=0", "must be a number"},
};

const op_impl op_impl_argmin = {.infer = infer_argmin,
                                .ref = ref_argmin,
                                .no_grad = "its result is an integer",
                                .decompose = decompose_argmin,
                                CASES(argmin_cases)};
