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
  int64_t n = a->dims / 2;
  float *turns = mem_array(g->ctx, (size_t)n, sizeof *turns);
  if (!turns)
    return graph_fail(g, SN_ERR_NO_MEMORY, "rope: out of memory");
  for (int64_t i = 0; i < n; i++)
    turns[i] = (float)rope_frequency(a, i, 0);
  sn_value list = sn_constant_bytes(g, SN_F32, SN_SHAPE(n), turns);
  mem_free(g->ctx, turns, (size_t)n * sizeof *turns);
  return list;
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

/* v made `width` long along its last axis, filled up with a number. */
static sn_value widened(sn_graph *g, sn_value v, int64_t width, double fill) {
  sn_shape shape = sn_value_type(g, v).shape;
  sn_ints before = {.n = shape.rank}, after = {.n = shape.rank};
  if (!shape.rank) /* invalid */
    return v;
  after.v[shape.rank - 1] = width - shape.dim[shape.rank - 1];
  return after.v[shape.rank - 1] ? sn_pad(g, v, before, after, SN_PAD_CONSTANT, fill) : v;
}

/* The shape with its last axis, of which `dims` are turned, taken apart into the two of each pair and the pairs. With
 * no axis to spare the first two become one. */
static sn_shape apart(sn_graph *g, const attrs_rope *a, sn_shape x) {
  bool half = a->layout == SN_ROPE_HALF;
  if (x.rank == SN_MAX_RANK) {
    x.dim[1] = sn_dim_mul(g, x.dim[0], x.dim[1]);
    memmove(x.dim, x.dim + 1, (size_t)--x.rank * sizeof x.dim[0]);
  }
  x.dim[x.rank - 1] = half ? 2 : a->dims / 2;
  x.dim[x.rank++] = half ? a->dims / 2 : 2;
  return x;
}

/* One number a pair and position, [.., dims/2], times -1 and 1 for the pair's two (or 1 and 1): [.., width]. */
static sn_value build_table(build_ctx *c, sn_value of_pairs, bool signs, int64_t width) {
  const attrs_rope *a = ATTRS(rope);
  sn_graph *g = c->graph;
  sn_shape flat = build_shape(c, of_pairs), two = SN_SHAPE(1, 2);
  if (!flat.rank) /* invalid */
    return of_pairs;
  flat.dim[flat.rank - 1] = a->dims;
  sn_shape pairs = apart(g, a, flat), once = pairs;
  int of_two = a->layout == SN_ROPE_HALF ? pairs.rank - 2 : pairs.rank - 1;
  once.dim[of_two] = 1;
  if (a->layout == SN_ROPE_HALF)
    two = SN_SHAPE(2, 1);
  sn_value table = sn_reshape(g, of_pairs, once);
  if (signs)
    table = sn_mul(g, table, sn_reshape(g, sn_arange(g, SN_F32, 2, -1, 2), two));
  else
    table = sn_expand(g, table, pairs);
  return widened(g, sn_reshape(g, table, flat), width, signs ? 0 : 1);
}

/* [S, dims/2] or [B, S, dims/2] */
static sn_value build_angles(build_ctx *c) {
  const attrs_rope *a = ATTRS(rope);
  sn_graph *g = c->graph;
  sn_shape column = build_shape(c, c->in[1]);
  column.dim[column.rank++] = 1;
  sn_value p = sn_reshape(g, sn_cast(g, c->in[1], SN_F32), column);
  p = a->inverse ? sn_neg(g, p) : p;
  return sn_mul(g, p, build_frequencies(g, a, c->in[1]));
}

/* A table as it stands beside x: with 1 in the place of the axes that positions do not run along. */
static sn_value beside(build_ctx *c, sn_value table, sn_shape x) {
  int axis = resolve_axis(ATTRS(rope)->seq_axis, x.rank);
  for (int d = 0; d < x.rank - 1; d++)
    if (d != axis && !(d == 0 && build_shape(c, c->in[1]).rank == 2))
      x.dim[d] = 1;
  return sn_reshape(c->graph, table, x);
}

/* Each element's other of its pair: [.., width], 0 behind dims. */
static sn_value build_partners(build_ctx *c, sn_value x) {
  const attrs_rope *a = ATTRS(rope);
  sn_graph *g = c->graph;
  sn_shape shape = build_shape(c, x);
  if (!shape.rank) /* invalid */
    return x;
  int64_t width = shape.dim[shape.rank - 1];
  shape.dim[shape.rank - 1] = a->dims;
  if (a->dims < width)
    x = sn_slice(g, x, -1, 0, a->dims, 1);
  x = sn_flip(g, sn_reshape(g, x, apart(g, a, shape)),
              SN_INTS(a->layout == SN_ROPE_HALF ? -2 : -1));
  return widened(g, sn_reshape(g, x, shape), width, 0);
}

/* y = x * cosines + partners * sines. The tables depend on the positions only, so that all that turn by the same
 * positions share them; behind dims they are 1 and 0. */
void rope_decompose(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_type type = sn_value_type(g, c->in[0]);
  int64_t width = type.shape.dim[type.shape.rank - 1];
  double m = rope_magnitude(ATTRS(rope));
  sn_value x = build_wide(c, c->in[0]), angles = build_angles(c);
  sn_value cosine = sn_cos(g, angles), sine = sn_sin(g, angles);
  if (m != 1) {
    cosine = build_scale(c, cosine, m);
    sine = build_scale(c, sine, m);
  }
  sn_value cosines = beside(c, build_table(c, cosine, false, width), type.shape);
  sn_value sines = beside(c, build_table(c, sine, true, width), type.shape);
  sn_value turned = sn_mul(g, build_partners(c, x), sines);
  c->out[0] = build_narrow(c, sn_add(g, sn_mul(g, x, cosines), turned), type.dtype);
}
