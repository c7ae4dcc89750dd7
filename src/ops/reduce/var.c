/* var over axes: the sum of squared distances from the mean over n - correction; NaN where that is
 * not above 0. */
#include "ops/reduce/reduce.h"

static sn_status infer_var(infer_ctx *c) {
  const attrs_var *a = ATTRS(var);
  SN_TRY(infer_float(c, 0));
  if (a->correction != 0 && a->correction != 1)
    return infer_fail(c, "correction must be 0 or 1, got %lld", (long long)a->correction);
  return infer_reduced(c, &a->axes, a->keepdims, c->in[0].dtype);
}

static sn_status ref_var(ref_ctx *c) {
  const attrs_var *a = ATTRS(var);
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  double *mean = arena_array(c->scratch, (size_t)y->count, sizeof *mean);
  if (!mean)
    return SN_ERR_NO_MEMORY;
  reduce_walk first, second;
  reduce_walk_start(&first, x, &a->axes);
  reduce_walk_start(&second, x, &a->axes);
  for (int64_t i = 0; i < x->count; i++)
    mean[reduce_walk_next(&first)] += x->data[i] / (double)first.count;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t at = reduce_walk_next(&second);
    y->data[at] += (x->data[i] - mean[at]) * (x->data[i] - mean[at]);
  }
  for (int64_t i = 0; i < y->count; i++)
    y->data[i] /= fmax((double)(first.count - a->correction), 0);
  return SN_OK;
}

/* v / max(n - correction, 0) in f32 */
static sn_value over_freedom(build_ctx *c, sn_value v, sn_dim n) {
  int64_t correction = ATTRS(var)->correction;
  if (dim_is_number(n) || correction == 0)
    return build_over_count(c, v, dim_is_number(n) ? max_i64(n - correction, 0) : n);
  sn_value freedom = sn_affine(c->graph, build_count(c, n), 1, -(double)correction);
  return sn_div(c->graph, v, sn_relu(c->graph, freedom));
}

static sn_value centred(build_ctx *c, sn_value x) {
  return sn_sub(c->graph, x, sn_mean(c->graph, x, ATTRS(var)->axes, true));
}

/* dx = 2 (x - mean) dy / (n - correction) */
static void grad_var(build_ctx *c) {
  const attrs_var *a = ATTRS(var);
  sn_value x = c->in[0];
  sn_shape shape = build_shape(c, x);
  sn_value dy = build_keepdims(c, build_wide(c, c->dout[0]), shape, a->axes, a->keepdims);
  sn_value share = over_freedom(c, build_scale(c, dy, 2), build_reduced_count(c, shape, a->axes));
  sn_value dx = sn_mul(c->graph, centred(c, build_wide(c, x)), share);
  build_din(c, 0, build_narrow(c, dx, build_dtype(c, x)));
}

static void decompose_var(build_ctx *c) {
  const attrs_var *a = ATTRS(var);
  sn_value x = c->in[0], square = sn_sqr(c->graph, centred(c, build_wide(c, x)));
  sn_value total = sn_sum(c->graph, square, a->axes, a->keepdims);
  sn_dim n = build_reduced_count(c, build_shape(c, x), a->axes);
  c->out[0] = build_narrow(c, over_freedom(c, total, n), build_dtype(c, x));
}

static const op_case cases[] = {
    {"var(f32[2, 3])", NULL},
    {"var(f32[2, 3, 5]) axes=[1] correction=1 keepdims=true", NULL},
    {"var(f32[2, 3, 5]) axes=[-1, 0] correction=1", NULL},
    {"var(f32[2, 7]) axes=[1] correction=0", NULL},
    {"var(f32[3, 1]) axes=[1] correction=0 => f32[3]{0}", NULL},
    {"var(bf16[7])", NULL},
    {"var(f16[2, 5]) axes=[0] correction=1", NULL},
    {"var(f32[4]{1, 2, 3, 6}) => f32[]{3.5}", NULL},
    {"var(f32[4]{1, 2, 3, 6}) correction=1 keepdims=true => f32[1]{4.66666666666667}", NULL},
    {"var(f32[3]{10000, 10001, 10002}) => f32[]{0.66666666666667}", NULL},
    {"var(f16[2]{-60000, 60000}) => f16[]{inf}", NULL},
    {"var(f32[2, 2]{1, nan, inf, 1}) axes=[1] => f32[2]{nan, nan}", NULL},
    {"var(f32[2, 1]) axes=[1] correction=1 => f32[2]{nan} @kink", NULL},
    {"var(f32[]) correction=1 => f32[]{nan} @kink", NULL},
    {"var(f32[0, 3]) axes=[0] => f32[3]{nan}", NULL},
    {"var(f32[0, 3]) axes=[0] correction=1 => f32[3]{nan}", NULL},
    {"var(f32[0, 3]) axes=[1] => f32[0]{}", NULL},
    {"var(f32[3]) correction=2", "correction must be 0 or 1, got 2"},
    {"var(f32[3]) correction=-1", "correction must be 0 or 1"},
    {"var(f32[2, 3]) axes=[2]", "outside of rank"},
    {"var(i32[3])", "must be f32"},
};

const op_impl op_impl_var = {
    .infer = infer_var, .ref = ref_var, .grad = grad_var, .decompose = decompose_var, CASES(cases)};
