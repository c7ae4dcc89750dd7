/* rope in simpler ops, computed in f32. Sizes but the last may be symbolic. */
#include "ops/attention/rope.h"

/* ln of what dynamic scaling multiplies the base with. The original length stands beside the
 * positions, so that the maximum is never over nothing. */
static sn_value build_log_growth(sn_graph *g, const attrs_rope *a, sn_value positions) {
  if (a->scaling != SN_ROPE_DYNAMIC)
    return sn_scalar(g, SN_F32, 0);
  double dims = (double)a->dims;
  sn_value original = sn_full(g, SN_I32, SN_SHAPE(1), (double)(a->original_length - 1));
  sn_value all[] = {sn_reshape(g, positions, SN_SHAPE(-1)), original};
  sn_value last = sn_max(g, sn_concat(g, all, 2, 0), SN_ALL_AXES, false);
  double mul = a->factor / (double)a->original_length;
  sn_value grown = sn_affine(g, sn_cast(g, last, SN_F32), mul, mul - (a->factor - 1));
  return sn_affine(g, sn_log(g, grown), dims / (dims - 2), 0);
}

/* Rounded frequencies are numbers, exact in f32. */
static sn_value build_rounded(sn_graph *g, const attrs_rope *a) {
  sn_value turns[1024];
  int n = (int)min_i64(a->dims / 2, (int64_t)COUNT_OF(turns));
  for (int i = 0; i < n; i++)
    turns[i] = sn_scalar(g, SN_F32, rope_frequency(a, i, 0));
  return sn_stack(g, turns, n, 0);
}

static sn_value build_frequencies(sn_graph *g, const attrs_rope *a, sn_value positions) {
  if (a->rounding != SN_F32)
    return build_rounded(g, a);
  sn_value i = sn_arange(g, SN_F32, a->dims / 2, 0, 1);
  sn_value log_base = sn_affine(g, build_log_growth(g, a, positions), 1, log(a->base));
  sn_value theta = sn_exp(g, sn_mul(g, sn_affine(g, i, -2 / (double)a->dims, 0), log_base));
  rope_ramp r = rope_keep(a);
  if (r.mul == 0 && r.add == 1)
    return theta;
  sn_value keep = sn_clamp(g, sn_affine(g, r.of_index ? i : theta, r.mul, r.add), 0, 1);
  return sn_mul(g, theta, sn_affine(g, keep, 1 - 1 / a->factor, 1 / a->factor));
}

/* Angles with 1 in the place of the axes that positions do not run along: [.., S, .., dims/2]. */
static sn_value build_angles(build_ctx *c, sn_shape x) {
  const attrs_rope *a = ATTRS(rope);
  int axis = resolve_axis(a->seq_axis, x.rank);
  sn_shape column = x;
  for (int d = 0; d < x.rank; d++)
    if (d != axis && !(d == 0 && build_shape(c, c->in[1]).rank == 2))
      column.dim[d] = 1;
  sn_value p = sn_reshape(c->graph, sn_cast(c->graph, c->in[1], SN_F32), column);
  p = sn_affine(c->graph, p, a->inverse ? -1 : 1, 0);
  return sn_mul(c->graph, p, build_frequencies(c->graph, a, c->in[1]));
}

/* The first halves of all pairs before the second halves, to pairs side by side. */
static sn_value interleave(sn_graph *g, sn_value x, int64_t dims) {
  sn_value i = sn_arange(g, SN_I32, dims, 0, 1), two = sn_scalar(g, SN_I32, 2);
  sn_value half = sn_scalar(g, SN_I32, (double)(dims / 2));
  sn_value from = sn_add(g, sn_mul(g, sn_rem(g, i, two), half), sn_floor_div(g, i, two));
  return sn_index_select(g, x, from, -1);
}

void rope_decompose(build_ctx *c) {
  const attrs_rope *a = ATTRS(rope);
  sn_graph *g = c->graph;
  sn_type type = sn_value_type(g, c->in[0]);
  int64_t h = a->dims / 2, width = type.shape.dim[type.shape.rank - 1];
  bool half = a->layout == SN_ROPE_HALF;
  sn_value x = type.dtype == SN_F32 ? c->in[0] : sn_cast(g, c->in[0], SN_F32);
  sn_value p = sn_slice(g, x, -1, 0, half ? h : a->dims, half ? 1 : 2);
  sn_value q = sn_slice(g, x, -1, half ? h : 1, a->dims, half ? 1 : 2);
  sn_value angles = build_angles(c, type.shape);
  sn_value cosine = sn_affine(g, sn_cos(g, angles), rope_magnitude(a), 0);
  sn_value sine = sn_affine(g, sn_sin(g, angles), rope_magnitude(a), 0);
  sn_value turned[] = {sn_sub(g, sn_mul(g, p, cosine), sn_mul(g, q, sine)),
                       sn_add(g, sn_mul(g, q, cosine), sn_mul(g, p, sine))};
  sn_value y = sn_concat(g, turned, 2, -1);
  if (!half)
    y = interleave(g, y, a->dims);
  if (a->dims < width) {
    sn_value rest = sn_slice(g, x, -1, a->dims, width, 1);
    y = sn_concat(g, (sn_value[]){y, rest}, 2, -1);
  }
  c->out[0] = type.dtype == SN_F32 ? y : sn_cast(g, y, type.dtype);
}
