/* Side conditions of rules, by the names that rules.def gives them: letters are those of the rule. Those of composites are
 * in composites.c and attention.c. */
#include "opt/conditions.h"

bool when_always(const rule_match *m) {
  (void)m;
  return true;
}

/* --- uniform values --- */
static bool z_is(const rule_match *m, double value) {
  const eclass *z = match_class(m, 'z');
  return z->uniform && z->value == value;
}
bool when_z_is_zero(const rule_match *m) { return z_is(m, 0); }
bool when_z_is_one(const rule_match *m) { return z_is(m, 1); }
bool when_z_is_finite(const rule_match *m) {
  const eclass *z = match_class(m, 'z');
  return z->uniform && isfinite(z->value) && dtype_is_float(z->type.dtype);
}
/* 1 / z neither overflows nor loses bits. */
bool when_z_has_inverse(const rule_match *m) {
  const eclass *z = match_class(m, 'z');
  return when_z_is_finite(m) && fabs(z->value) > 1e-30 && fabs(z->value) < 1e30 &&
         z->type.dtype == SN_F32;
}

/* --- dtypes --- */
bool when_x_is_float(const rule_match *m) { return dtype_is_float(match_type(m, 'x')->dtype); }
bool when_x_is_f32(const rule_match *m) { return match_type(m, 'x')->dtype == SN_F32; }
bool when_x_is_int(const rule_match *m) { return dtype_is_int(match_type(m, 'x')->dtype); }

/* Every value of `from` is one of `to`. */
static bool widens(sn_dtype from, sn_dtype to) {
  if (from == to || from == SN_BOOL)
    return true;
  if (to == SN_F32)
    return from == SN_F16 || from == SN_BF16 || from == SN_U8;
  return to == SN_I32 && from == SN_U8;
}
/* And the outer cast means the same from both: truncation and saturation look at the value alone. */
bool when_b_loses_nothing(const rule_match *m) {
  return widens(match_type(m, 'x')->dtype, MATCH_ATTRS(m, 'b', cast)->dtype);
}

/* --- affine --- */
bool when_a_is_identity(const rule_match *m) {
  const attrs_affine *a = MATCH_ATTRS(m, 'a', affine);
  return a->mul == 1 && a->add == 0;
}
bool when_a_is_minus_one(const rule_match *m) {
  const attrs_affine *a = MATCH_ATTRS(m, 'a', affine);
  return a->mul == -1 && a->add == 0;
}
bool when_p_is_two(const rule_match *m) { return MATCH_ATTRS(m, 'p', powf)->exponent == 2; }
/* The constants must not cancel: (x + 1e8) - 1e8 has lost bits that x has not. */
bool when_a_after_b_keeps_bits(const rule_match *m) {
  const attrs_affine *a = MATCH_ATTRS(m, 'a', affine), *b = MATCH_ATTRS(m, 'b', affine);
  if (!dtype_is_float(match_type(m, 'x')->dtype))
    return false;
  double moved = a->mul * b->add, sum = moved + a->add, mul = a->mul * b->mul;
  double most = fmax(fabs(moved), fabs(a->add));
  return isfinite(mul) && isfinite(sum) && (most == 0 || fabs(sum) >= most / 4) &&
         (mul == 0 ? a->mul == 0 || b->mul == 0 : fabs(mul) > 1e-30 && fabs(mul) < 1e30);
}

/* --- views --- */
bool when_a_keeps_axes(const rule_match *m) {
  const sn_ints *perm = &MATCH_ATTRS(m, 'a', transpose)->perm;
  for (int d = 0; d < perm->n; d++)
    if (perm->v[d] != d)
      return false;
  return true;
}
/* The axes that are not of size 1 stay in their order. */
bool when_a_moves_ones_only(const rule_match *m) {
  const sn_ints *perm = &MATCH_ATTRS(m, 'a', transpose)->perm;
  const sn_shape *x = &match_type(m, 'x')->shape;
  int64_t last = -1;
  for (int d = 0; d < perm->n; d++) {
    if (x->dim[perm->v[d]] == 1)
      continue;
    if (perm->v[d] < last)
      return false;
    last = perm->v[d];
  }
  return true;
}
/* Of the same type with step 1: all of it, when it begins at 0. */
bool when_a_takes_all(const rule_match *m) {
  const attrs_slice *a = MATCH_ATTRS(m, 'a', slice);
  return a->step == 1 && a->start == 0;
}

static bool plain(const rule_match *m, char letter) {
  const attrs_slice *a = MATCH_ATTRS(m, letter, slice);
  const sn_type *x = match_argument(m, letter, 0);
  sn_dim n = x->shape.dim[resolve_axis(a->axis, x->shape.rank)];
  return a->step == 1 && dim_is_number(n) && dim_is_number(a->start) && dim_is_number(a->stop) &&
         a->start >= 0 && a->start <= a->stop && a->stop <= n;
}
bool when_a_and_b_are_plain(const rule_match *m) {
  int rank = match_type(m, 'x')->shape.rank;
  return plain(m, 'a') && plain(m, 'b') &&
         resolve_axis(MATCH_ATTRS(m, 'a', slice)->axis, rank) ==
             resolve_axis(MATCH_ATTRS(m, 'b', slice)->axis, rank);
}

static bool same_attrs(const rule_match *m, char a, char b) {
  const enode *x = match_node(m, a), *y = match_node(m, b);
  return x->op == y->op && memcmp(x->attrs, y->attrs, egraph_attrs_size(m->e, x->op)) == 0;
}
bool when_a_is_b(const rule_match *m) { return same_attrs(m, 'a', 'b'); }
bool when_a_is_b_on_one_shape(const rule_match *m) {
  return same_attrs(m, 'a', 'b') &&
         shape_equal(match_type(m, 'x')->shape, match_type(m, 'y')->shape);
}

/* --- reductions --- */
bool when_a_reduces_ones(const rule_match *m) {
  const attrs_sum *a = MATCH_ATTRS(m, 'a', sum);
  const sn_shape *x = &match_type(m, 'x')->shape;
  unsigned mask = reduced_axes(&a->axes, x->rank);
  for (int d = 0; d < x->rank; d++)
    if ((mask >> d & 1) && x->dim[d] != 1)
      return false;
  return true;
}
/* --- slices --- */
typedef struct cut {
  int axis, rank; /* of what is sliced */
  sn_dim size;
} cut;
static cut cut_of_a(const rule_match *m) {
  const sn_shape *whole = &match_argument(m, 'a', 0)->shape;
  int axis = resolve_axis(MATCH_ATTRS(m, 'a', slice)->axis, whole->rank);
  return (cut){axis, whole->rank, whole->dim[axis]};
}
bool when_a_cuts_rows(const rule_match *m) {
  cut c = cut_of_a(m);
  return c.axis == c.rank - 2 && match_type(m, 'x')->shape.rank >= 2;
}
/* The columns of a product that nothing else reads: parts of one product stay one product. */
bool when_a_cuts_columns(const rule_match *m) {
  cut c = cut_of_a(m);
  int readers = 0;
  const eclass *product = egraph_class(m->e, match_node(m, 'a')->in[0]);
  for (const parent_link *p = product->parents; p; p = p->next)
    readers += !p->node->dead && p->node->op == OP_slice;
  return c.axis == c.rank - 1 && match_type(m, 'y')->shape.rank >= 2 && readers == 1;
}
/* Whether an argument of a broadcast op has the axis in full, or not at all. */
static bool has_axis(const rule_match *m, char letter, cut c) {
  const sn_shape *x = &match_type(m, letter)->shape;
  int axis = c.axis - (c.rank - x->rank);
  return axis >= 0 && x->dim[axis] == c.size;
}
static bool lacks_axis(const rule_match *m, char letter, cut c) {
  const sn_shape *x = &match_type(m, letter)->shape;
  int axis = c.axis - (c.rank - x->rank);
  return axis < 0 || (x->dim[axis] == 1 && c.size != 1);
}
bool when_a_cuts_both(const rule_match *m) {
  cut c = cut_of_a(m);
  return has_axis(m, 'x', c) && has_axis(m, 'y', c);
}
bool when_a_cuts_x(const rule_match *m) {
  cut c = cut_of_a(m);
  return has_axis(m, 'x', c) && lacks_axis(m, 'y', c);
}
bool when_a_cuts_y(const rule_match *m) {
  cut c = cut_of_a(m);
  return lacks_axis(m, 'x', c) && has_axis(m, 'y', c);
}
_Static_assert(offsetof(attrs_rms_norm, axes) == offsetof(attrs_layer_norm, axes), "read alike");
bool when_a_cuts_before_norm(const rule_match *m) {
  cut c = cut_of_a(m);
  return c.axis < c.rank - (int)MATCH_ATTRS(m, 'n', rms_norm)->axes;
}

/* Elements before and behind an axis. */
static bool around(sn_graph *g, const sn_shape *s, int axis, sn_dim *before, sn_dim *behind) {
  *before = *behind = 1;
  for (int d = 0; d < s->rank; d++)
    if (d != axis)
      *(d < axis ? before : behind) = sn_dim_mul(g, *(d < axis ? before : behind), s->dim[d]);
  return g->status == SN_OK;
}
int rule_axis_before_reshape(const rule_match *m) {
  const sn_shape *x = &match_type(m, 'x')->shape, *y = &match_argument(m, 'a', 0)->shape;
  sn_graph *g = m->e->dims;
  cut c = cut_of_a(m);
  sn_dim before, behind, other, another;
  bool known = around(g, y, c.axis, &before, &behind);
  for (int d = 0; d < x->rank && known; d++) {
    known = around(g, x, d, &other, &another);
    if (known && x->dim[d] == c.size && before == other && behind == another)
      return d;
  }
  if (!known) /* a size too complicated */
    (void)egraph_forgive(m->e);
  return -1;
}
bool when_a_cuts_what_r_keeps(const rule_match *m) { return rule_axis_before_reshape(m) >= 0; }

/* --- matmul --- */
/* The last axis of y becomes the last but one, and more moves than these two. */
bool when_a_brings_last_before(const rule_match *m) {
  const sn_ints *perm = &MATCH_ATTRS(m, 'a', transpose)->perm;
  return perm->n >= 3 && perm->v[perm->n - 2] == perm->n - 1 && !when_a_swaps_last(m);
}
bool when_a_swaps_last(const rule_match *m) {
  const sn_ints *perm = &MATCH_ATTRS(m, 'a', transpose)->perm;
  for (int d = 0; d < perm->n - 2; d++)
    if (perm->v[d] != d)
      return false;
  return perm->n >= 2 && perm->v[perm->n - 1] == perm->n - 2 && perm->v[perm->n - 2] == perm->n - 1;
}
bool when_a_scales_prepared_y(const rule_match *m) {
  return MATCH_ATTRS(m, 'a', affine)->add == 0 && match_class(m, 'y')->prepared &&
         !match_class(m, 'x')->prepared;
}
/* x is [batches, k, m], y [batches, k, n], and all batches are summed up. */
bool when_a_sums_batches_of_m(const rule_match *m) {
  const attrs_matmul *p = MATCH_ATTRS(m, 'm', matmul);
  const sn_shape *x = &match_type(m, 'x')->shape, *y = &match_type(m, 'y')->shape;
  const sn_ints *axes = &MATCH_ATTRS(m, 'a', sum)->axes;
  if (!p->trans_a || p->trans_b || x->rank != y->rank || x->rank < 3 || axes->n == 0)
    return false;
  for (int d = 0; d < x->rank - 2; d++)
    if (x->dim[d] != y->dim[d])
      return false;
  return reduced_axes(axes, x->rank) == (1u << (x->rank - 2)) - 1;
}
bool when_m_is_n_on_one_shape_yz(const rule_match *m) {
  return same_attrs(m, 'm', 'n') && type_equal(*match_type(m, 'y'), *match_type(m, 'z'));
}

/* --- convolution --- */
/* A factor of each channel goes into w rather than onto the result, which must have at least as many elements: beyond
 * that a product of weights costs more than it saves. In 16 bits such a product would be rounded once more. */
bool when_w_takes_a_factor(const rule_match *m) {
  const sn_graph *g = m->e->dims;
  double result = type_elements(g, &egraph_class(m->e, m->root)->type);
  return when_x_is_f32(m) && type_elements(g, match_type(m, 'w')) <= result;
}
bool when_w_takes_a_factor_and_z_is_zero(const rule_match *m) {
  return when_w_takes_a_factor(m) && when_z_is_zero(m);
}
