/* Chains of ops that write parts of values: see random_graph.h. What they write over is a leaf, a view, or what another of them
 * made; what they write is often made of it; and it is read again afterwards. */
#include "support/random_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"

#include <stdio.h>

static sn_dim n_of(random_graph *r) { return sn_symbol(r->g, "n", RANDOM_GRAPH_SYMBOL); }
static sn_dim m_of(random_graph *r) { return sn_symbol(r->g, "m", RANDOM_GRAPH_SYMBOL_M); }

static sn_type type_of(const random_graph *r, sn_value v) { return r->g->values[v.id].type; }
static bool one_in(random_graph *r, uint32_t n) { return random_draw(r, n) == 0; }

static sn_type chain_type(random_graph *r) {
  sn_dim n = n_of(r), m = m_of(r);
  const sn_shape shapes[] = {
      SN_SHAPE(8, 4), SN_SHAPE(n, 4),    SN_SHAPE(4, n), SN_SHAPE(sn_dim_add(r->g, n, m), 4),
      SN_SHAPE(6),    SN_SHAPE(2, n, 3), SN_SHAPE(n, m), SN_SHAPE(5, 1, 4),
      SN_SHAPE(1, 4), SN_SHAPE(2, 4, 8), SN_SHAPE(0, 4), SN_SHAPE(16, 6),
      SN_SHAPE(8, 4), SN_SHAPE(1, 2, 7)};
  return (sn_type){SN_F32, shapes[random_draw(r, COUNT_OF(shapes))]};
}

/* A float with axes: often the newest. */
static sn_value chain_any(random_graph *r) {
  sn_value v = {r->g->n_values ? r->g->n_values - 1 : 0};
  while (v.id && (type_of(r, v).dtype != SN_F32 || !type_of(r, v).shape.rank))
    v.id--;
  if (v.id && one_in(r, 2))
    return v;
  sn_type t = chain_type(r);
  v = one_in(r, 3) ? random_leaf(r, t, NULL, 0) : random_any(r, one_in(r, 2) ? NULL : &t);
  return type_of(r, v).shape.rank ? v : random_any(r, &t);
}

static int axis_of(random_graph *r, sn_value x) {
  return (int)random_draw(r, (uint32_t)type_of(r, x).shape.rank);
}

/* The same elements seen otherwise, or fewer of them, or more. */
static sn_value view_of(random_graph *r, sn_value x) {
  sn_graph *g = r->g;
  sn_shape s = type_of(r, x).shape, back = s, more = {.rank = s.rank + 1, .dim = {2}};
  int axis = axis_of(r, x);
  sn_ints perm = {.n = s.rank}, one = {.n = s.rank}, none = {.n = s.rank};
  for (int d = 0; d < s.rank; d++) {
    perm.v[d] = s.rank - 1 - d;
    one.v[d] = d == axis;
    back.dim[d] = s.dim[s.rank - 1 - d];
    more.dim[d + 1] = s.dim[d];
  }
  bool some = dim_is_number(s.dim[axis]) && s.dim[axis] > 1;
  switch (random_draw(r, 10)) {
  case 0: return some ? sn_slice(g, x, axis, 1, SN_END, 1) : x;
  case 1: return some ? sn_slice(g, x, axis, 0, s.dim[axis] - 1, 1) : x;
  case 2: return some ? sn_slice(g, x, axis, 0, SN_END, 2) : sn_reshape(g, x, back);
  case 3: return sn_transpose(g, x, perm);
  case 4: return sn_reshape(g, x, back);
  case 5: return sn_flip(g, x, SN_INTS(axis));
  case 6: return s.rank < 3 ? sn_expand(g, x, more) : x;
  case 7: return sn_pad(g, x, one, one_in(r, 2) ? one : none, SN_PAD_CONSTANT, one_in(r, 2));
  case 8: return sn_concat(g, (sn_value[]){x, x}, 2, axis);
  default: return sn_expand(g, sn_logsumexp(g, x, SN_INTS(axis), true), s);
  }
}

static sn_value unary_of(random_graph *r, sn_value x) {
  switch (random_draw(r, 5)) {
  case 0: return sn_relu(r->g, x);
  case 1: return sn_affine(r->g, x, 0.5, 1);
  case 2: return sn_tanh(r->g, x);
  case 3: return sn_neg(r->g, x);
  default: return x;
  }
}

/* What is written over. */
static sn_value base_of(random_graph *r) {
  sn_value x = chain_any(r);
  return one_in(r, 3) ? view_of(r, x) : one_in(r, 4) ? unary_of(r, x) : x;
}

/* A number of entries along an axis that every binding has, or all of them. */
static sn_dim part_of(random_graph *r, sn_dim d) {
  if (!dim_is_number(d))
    return one_in(r, 8) ? 1 : one_in(r, 4) ? 0 : d;
  return d == 0 ? 0 : one_in(r, 12) ? 0 : one_in(r, 5) ? d : 1 + random_draw(r, (uint32_t)d);
}

/* Of that type; often made of x, which is as large but for one axis. */
static sn_value written(random_graph *r, sn_value x, int axis, const sn_type *t) {
  sn_graph *g = r->g;
  sn_dim size = t->shape.dim[axis];
  sn_value part = sn_slice(g, x, axis, 0, size, 1);
  switch (random_draw(r, 7)) {
  case 0: return part;
  case 1: return unary_of(r, part);
  case 2: return sn_flip(g, part, SN_INTS(axis_of(r, part)));
  case 3: return sn_expand(g, sn_sum(g, part, SN_INTS(axis), true), t->shape);
  case 4: return sn_expand(g, sn_logsumexp(g, part, SN_ALL_AXES, true), t->shape);
  default: return random_any(r, t);
  }
}

/* Where a run of `size` entries may begin. */
static sn_value start_of(random_graph *r, sn_dim d, sn_dim size) {
  sn_graph *g = r->g;
  sn_type scalar = {SN_I32, SN_SCALAR};
  bool room = dim_is_number(d) && dim_is_number(size) && d - size >= 3; /* leaves are below 4 */
  if (room && one_in(r, 2))
    return one_in(r, 2) ? random_any(r, &scalar) : random_leaf(r, scalar, NULL, 0);
  if (one_in(r, 2))
    return sn_scalar(g, SN_I32, 0);
  sn_value zero = sn_scalar(g, SN_I32, 0);
  return sn_mul(g, random_leaf(r, scalar, NULL, 0), zero);
}

/* What becomes of a result and of what it was written over. */
static void follow(random_graph *r, sn_value base, sn_value y) {
  sn_graph *g = r->g;
  char name[24];
  snprintf(name, sizeof name, "y%d", g->n_outputs);
  sn_type t = type_of(r, y), b = type_of(r, base);
  if (!type_equal(t, b)) /* the first of several */
    base = y;
  switch (random_draw(r, 8)) {
  case 0: (void)sn_add(g, base, y); break;
  case 1: sn_output(g, name, one_in(r, 3) ? base : y); break;
  case 2: (void)sn_relu(g, y); break;
  case 3: (void)unary_of(r, view_of(r, y)); break;
  case 4: (void)sn_sum(g, y, SN_INTS(axis_of(r, y)), one_in(r, 2)); break;
  case 5: (void)sn_gt(g, y, base); break;
  default: break;
  }
  const node *n = graph_node(g, base);
  if (n->op == OP_state && !n->assigned && one_in(r, 2))
    sn_assign(g, base, y);
}

static void add_update(random_graph *r) {
  sn_graph *g = r->g;
  sn_value base = base_of(r);
  int axis = axis_of(r, base);
  sn_type t = type_of(r, base);
  sn_dim d = t.shape.dim[axis];
  t.shape.dim[axis] = part_of(r, d);
  sn_value start = start_of(r, d, t.shape.dim[axis]);
  sn_value y = sn_update_slice(g, base, written(r, base, axis, &t), start, axis);
  if (one_in(r, 3))
    (void)sn_slice_at(g, one_in(r, 2) ? y : base, start, axis, t.shape.dim[axis]);
  follow(r, base, y);
}

/* Indices into an axis of d: of that shape, whatever d is bound to, if there are none where there are no rows. */
static sn_value indices(random_graph *r, sn_dim d, sn_shape shape) {
  sn_graph *g = r->g;
  sn_value zeros = sn_full(g, SN_I32, shape, 0);
  if (!dim_is_number(d) || d < 1)
    return zeros;
  sn_value drawn = random_leaf(r, (sn_type){SN_I32, shape}, NULL, 0);
  return d >= 4 ? drawn : sn_minimum(g, drawn, sn_full(g, SN_I32, shape, (double)(d - 1)));
}

static void add_scatter(random_graph *r) {
  sn_graph *g = r->g;
  sn_value base = base_of(r);
  sn_type t = type_of(r, base);
  sn_dim d = t.shape.dim[0];
  sn_value index;
  if (one_in(r, 3)) {
    index = sn_arange(g, SN_I32, d, 0, 1);
    t.shape.dim[0] = d;
  } else {
    t.shape.dim[0] = dim_is_number(d) ? d ? 1 + random_draw(r, 5) : 0 : part_of(r, d);
    index = indices(r, d, SN_SHAPE(t.shape.dim[0]));
  }
  bool fits = t.shape.dim[0] == d || (dim_is_number(d) && t.shape.dim[0] <= d);
  sn_value value = fits ? written(r, base, 0, &t) : random_any(r, &t);
  sn_value y =
      one_in(r, 2) ? sn_scatter_add(g, base, index, value) : sn_scatter_set(g, base, index, value);
  follow(r, base, y);
}

static void add_along(random_graph *r) {
  sn_graph *g = r->g;
  sn_value base = base_of(r);
  int axis = axis_of(r, base);
  sn_type t = type_of(r, base);
  sn_dim d = t.shape.dim[axis];
  t.shape.dim[axis] = part_of(r, d);
  sn_value index = indices(r, d, t.shape), value = written(r, base, axis, &t);
  sn_value y = one_in(r, 2) ? sn_scatter_along_add(g, base, index, value, axis)
                            : sn_scatter_along_set(g, base, index, value, axis);
  follow(r, base, y);
}

/* Ops that read all of a value in an order of their own, and may be written over. */
static void add_core(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = base_of(r), y;
  int axis = axis_of(r, x);
  sn_dim d = type_of(r, x).shape.dim[axis];
  bool some = dim_is_number(d) && d > 1;
  switch (random_draw(r, 3)) {
  case 0: y = sn_cumsum(g, x, axis, one_in(r, 2), one_in(r, 2)); break;
  case 1: y = sn_sort(g, x, axis, one_in(r, 2)); break;
  default: y = some ? sn_topk(g, x, 1 + random_draw(r, (uint32_t)d), axis, one_in(r, 2)) : x;
  }
  if (y.id != x.id &&
      graph_node(g, y)->n_out == 2) /* read back: of nearly equal ones either may come first */
    (void)sn_gather_along(g, x, sn_value_result(g, y, 1), axis);
  follow(r, x, y);
}

/* A pool beside what it pools. */
static void add_pool(random_graph *r) {
  sn_graph *g = r->g;
  sn_value x = base_of(r);
  sn_shape s = type_of(r, x).shape;
  while (s.rank < 3) {
    x = sn_expand(g, x, s.rank == 1 ? SN_SHAPE(2, s.dim[0]) : SN_SHAPE(1, s.dim[0], s.dim[1]));
    s = type_of(r, x).shape;
  }
  sn_dim wide = s.dim[2];
  if (s.rank != 3 || !dim_is_number(wide) || wide < 1)
    return;
  int64_t kernel = 1 + random_draw(r, (uint32_t)wide), stride = 1 + random_draw(r, (uint32_t)wide);
  int64_t pad = one_in(r, 3) ? kernel / 2 : 0;
  sn_pool_kind kind = one_in(r, 2) ? SN_POOL_AVG : one_in(r, 2) ? SN_POOL_MAX : SN_POOL_MIN;
  sn_value y = sn_pool(g, x, kind, SN_INTS(kernel), SN_INTS(stride), SN_INTS(pad), SN_INTS(pad),
                       SN_INTS(1), one_in(r, 3), one_in(r, 2));
  sn_dim made = type_of(r, y).shape.dim[2];
  if (made == 1 || made == wide)
    (void)(one_in(r, 2) && kind != SN_POOL_AVG ? sn_gt(g, y, x) : sn_sub(g, x, y));
  else if (one_in(r, 2))
    (void)sn_update_slice(g, x, sn_slice(g, y, 2, 0, made < wide ? made : wide, 1),
                          sn_scalar(g, SN_I32, 0), 2);
}

/* Keys and values that grow, read by attention. */
static void add_growing(random_graph *r) {
  sn_graph *g = r->g;
  sn_dim n = n_of(r);
  sn_type cache = {SN_F32, SN_SHAPE(1, 2, 16, 4)}, rows = {SN_F32, SN_SHAPE(1, 2, n, 4)};
  sn_value q = random_any(r, &rows), start = start_of(r, 16, 8), kv[2];
  for (int k = 0; k < 2; k++) {
    sn_value base = random_any(r, &cache);
    kv[k] = sn_update_slice(g, base, random_any(r, &rows), start, 2);
    follow(r, base, kv[k]);
  }
  sn_value y = sn_attention(g, q, kv[0], kv[one_in(r, 4) ? 0 : 1], SN_NONE, SN_NONE, SN_NONE,
                            SN_NONE, 0.5, 0, SN_CAUSAL_NONE, 0, SN_LAYOUT_BHSD);
  if (one_in(r, 2))
    (void)sn_update_slice(g, kv[0], y, sn_scalar(g, SN_I32, 0), 2);
}

static void add_image(random_graph *r) {
  sn_graph *g = r->g;
  sn_type image = {SN_F32, SN_SHAPE(2, 4, 8)}, weight = {SN_F32, SN_SHAPE(4, 4, 3)};
  sn_value x = random_any(r, &image);
  sn_value y = sn_conv(g, x, random_any(r, &weight), SN_NONE, SN_INTS(1), SN_INTS(1), SN_INTS(1),
                       SN_INTS(1), 1);
  follow(r, x, y);
}

static void add_step(random_graph *r) { (void)unary_of(r, view_of(r, base_of(r))); }

static void add_sum(random_graph *r) {
  sn_value x = chain_any(r);
  sn_type t = type_of(r, x);
  (void)sn_add(r->g, x, random_any(r, &t));
}

void random_chain_op(random_graph *r) {
  static void (*const adders[])(random_graph *) = {add_update,  add_update, add_update, add_scatter,
                                                   add_scatter, add_along,  add_core,   add_pool,
                                                   add_growing, add_image,  add_step,   add_sum};
  if (one_in(r, 8))
    random_wide_op(r);
  else
    adders[random_draw(r, COUNT_OF(adders))](r);
}
