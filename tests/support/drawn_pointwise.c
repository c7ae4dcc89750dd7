/* How drawn graphs make leaves, pointwise ops and reductions: see drawn_graph.h. */
#include "support/drawn_graph.h"

#include "ir/dtype.h"

static double real(drawn_graph *d) {
  static const double reals[] = {1, 2, -1, 0.5, 0, 3, -2, 0.25, -0.5, 4};
  return DRAWN_OF(d, reals);
}

static double whole(drawn_graph *d) { return (double)drawn(d, 5) - 1; }

sn_value draw_leaf(drawn_graph *d, int op) {
  sn_type type = {drawn_dtype(d, 'a'), drawn_shape(d, 0, 4)};
  d->leaf_op = op;
  sn_value v = drawn_leaf_of(d, type, 0, 0);
  d->leaf_op = 0;
  return v;
}

sn_value draw_made(drawn_graph *d, int op) {
  sn_dtype dtype = drawn_dtype(d, op == OP_arange ? 'n' : 'a');
  sn_dim n = drawn_dim(d);
  bool floats = dtype_is_float(dtype);
  if (op == OP_eye)
    return drawn_add(d, op, NULL, 0,
                     &(attrs_eye){.dtype = dtype, .n = n, .m = drawn(d, 2) ? n : drawn_dim(d)});
  if (op == OP_full) {
    double value = dtype == SN_BOOL ? drawn(d, 2) : floats ? real(d) : drawn(d, 4);
    return drawn_add(d, op, NULL, 0,
                     &(attrs_full){.dtype = dtype, .shape = drawn_shape(d, 0, 4), .value = value});
  }
  bool negative = dtype != SN_U8 && drawn(d, 2);
  return drawn_add(d, op, NULL, 0,
                   &(attrs_arange){.dtype = dtype,
                                   .n = n,
                                   .start = negative ? -2 : 1,
                                   .step = floats && drawn(d, 2) ? 0.5
                                           : dtype == SN_U8      ? 0
                                                                 : whole(d)});
}

/* The attributes of an op of one argument, in memory for any of them. */
typedef union unary_attrs {
  attrs_affine affine;
  attrs_powf powf;
  attrs_clamp clamp;
  attrs_elu elu;
  attrs_leaky_relu leaky_relu;
  attrs_softcap softcap;
  attrs_cast cast;
} unary_attrs;

static double power(drawn_graph *d) {
  static const double powers[] = {2, 3, 0.5, -1, 1, 0, -0.5, 2.5};
  return DRAWN_OF(d, powers);
}

static void draw_unary_attrs(drawn_graph *d, int op, sn_dtype dtype, unary_attrs *a) {
  static const double lows[] = {-2, 0, -INFINITY, 1}, highs[] = {2, 1, INFINITY, 3};
  static const double unsigned_lows[] = {0, 1, 0}, unsigned_highs[] = {2, 1, 200};
  bool floats = dtype_is_float(dtype), u8 = dtype == SN_U8;
  switch (op) {
  case OP_affine:
    a->affine.mul = floats ? real(d) : whole(d);
    a->affine.add = floats ? real(d) : whole(d);
    break;
  case OP_powf: a->powf.exponent = power(d); break;
  case OP_clamp:
    a->clamp.lo = u8 ? DRAWN_OF(d, unsigned_lows) : DRAWN_OF(d, lows);
    a->clamp.hi = u8 ? DRAWN_OF(d, unsigned_highs) : DRAWN_OF(d, highs);
    break;
  case OP_elu: a->elu.alpha = real(d); break;
  case OP_leaky_relu: a->leaky_relu.slope = real(d); break;
  case OP_softcap: a->softcap.cap = 1 + drawn(d, 4); break;
  case OP_cast: a->cast.dtype = drawn_dtype(d, "afib"[drawn(d, 4)]); break;
  default: break;
  }
}

/* Arguments where a function has values: not below 0 for roots and logarithms, more often than not. */
static sn_value inside(drawn_graph *d, int op, sn_value x) {
  bool positive = op == OP_sqrt || op == OP_rsqrt || op == OP_log || op == OP_log2 ||
                  op == OP_log1p || op == OP_powf || op == OP_recip;
  if (!positive || !x.id || drawn(d, 3) == 0)
    return x;
  sn_value y = drawn_add(d, OP_abs, &x, 1, &(attrs_abs){0});
  return drawn_add(d, OP_affine, &y, 1, &(attrs_affine){.mul = 1, .add = 1});
}

sn_value draw_unary(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, drawn_op_row(op)->takes[0], 0, 5);
  unary_attrs a = {0};
  x = inside(d, op, x);
  draw_unary_attrs(d, op, drawn_type(d, x).dtype, &a);
  return drawn_add(d, op, &x, 1, &a);
}

sn_value draw_barrier(drawn_graph *d, int op) {
  sn_value in[2] = {drawn_any(d, 'a', 0, 4), SN_NONE};
  if (drawn(d, 2))
    in[1] = drawn_any(d, 'a', 0, 4);
  return drawn_add(d, op, in, 2, &(attrs_barrier){.id = -1});
}

static void swap(sn_value *a, sn_value *b) {
  sn_value x = *a;
  *a = *b;
  *b = x;
}

/* What a value was made of, where that can stand beside it; or the value itself. */
static sn_value origin(drawn_graph *d, sn_value v) {
  const node *n = sn_value_valid(d->g, v) ? graph_node(d->g, v) : NULL;
  sn_value from = n && n->n_in ? n->in[drawn(d, (uint32_t)n->n_in)] : v;
  sn_type a = drawn_type(d, v), b = drawn_type(d, from);
  bool fits = a.dtype == b.dtype && a.shape.rank == b.shape.rank && from.id;
  for (int k = 0; fits && k < a.shape.rank; k++)
    fits = a.shape.dim[k] == b.shape.dim[k] || a.shape.dim[k] == 1 || b.shape.dim[k] == 1;
  return fits ? from : v;
}

sn_value draw_binary(drawn_graph *d, int op) {
  sn_value in[2] = {drawn_any(d, drawn_op_row(op)->takes[0], 0, 5), SN_NONE};
  sn_type t = drawn_type(d, in[0]);
  in[1] = drawn_one_in(d, 8) ? origin(d, in[0]) : drawn_beside(d, t.dtype, t.shape);
  if (drawn(d, 2))
    swap(&in[0], &in[1]);
  return drawn_add(d, op, in, 2, &(attrs_add){0});
}

sn_value draw_where(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 0, 5);
  sn_type t = drawn_type(d, x);
  sn_value in[3] = {drawn_beside(d, SN_BOOL, t.shape), x, drawn_beside(d, t.dtype, t.shape)};
  if (drawn(d, 2))
    swap(&in[1], &in[2]);
  return drawn_add(d, op, in, 3, &(attrs_where){0});
}

/* None, one or several axes. */
static sn_ints axes_of(drawn_graph *d, sn_shape s) {
  sn_ints axes = {0};
  uint32_t how = drawn(d, 4);
  if (s.rank == 0 || how == 0)
    return axes;
  if (how < 3) {
    axes.n = 1;
    axes.v[0] = drawn_axis(d, s);
    return axes;
  }
  for (int k = s.rank - 1; k >= 0; k--)
    if (drawn(d, 2))
      axes.v[axes.n++] = k;
  return axes;
}

sn_value draw_reduction(drawn_graph *d, int op) {
  bool index = op == OP_argmax || op == OP_argmin;
  sn_value x = drawn_any(d, drawn_op_row(op)->takes[0], index ? 1 : 0, 4);
  sn_shape s = drawn_shape_of(d, x);
  if (index)
    return drawn_add(d, op, &x, 1,
                     &(attrs_argmax){.axis = drawn_axis(d, s), .keepdims = drawn(d, 2)});
  if (op == OP_var)
    return drawn_add(
        d, op, &x, 1,
        &(attrs_var){.axes = axes_of(d, s), .correction = drawn(d, 2), .keepdims = drawn(d, 2)});
  return drawn_add(d, op, &x, 1, &(attrs_sum){.axes = axes_of(d, s), .keepdims = drawn(d, 2)});
}

sn_value draw_scan(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'n', 1, 4);
  attrs_cumsum a = {.axis = drawn_axis(d, drawn_shape_of(d, x)),
                    .exclusive = drawn(d, 2),
                    .reverse = drawn(d, 2)};
  return drawn_add(d, op, &x, 1, &a);
}
