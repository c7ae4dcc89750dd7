/* Side conditions of the rules that find composites: activations, softmax, norms, losses. Letters are those of the rule. */
#include "opt/conditions.h"

/* --- softmax and losses --- */
/* The attributes of sum, mean, max, logsumexp are laid out alike: axes, keepdims. */
static bool reduces_one(const rule_match *m, char letter, unsigned *mask) {
  const attrs_sum *a = MATCH_ATTRS(m, letter, sum);
  *mask = reduced_axes(&a->axes, match_type(m, 'x')->shape.rank);
  return a->keepdims && a->axes.n == 1;
}
bool when_a_reduces_one_axis(const rule_match *m) {
  unsigned mask;
  return reduces_one(m, 'a', &mask);
}
bool when_a_b_c_reduce_one_axis(const rule_match *m) {
  unsigned a, b, c;
  return reduces_one(m, 'a', &a) && reduces_one(m, 'b', &b) && reduces_one(m, 'c', &c) && a == b &&
         a == c;
}
bool when_rows_of_s_are_averaged(const rule_match *m) {
  const sn_shape *x = &match_type(m, 'x')->shape;
  const attrs_sum *b = MATCH_ATTRS(m, 'b', sum);
  const attrs_mean *a = MATCH_ATTRS(m, 'a', mean);
  int rows = x->rank - 1;
  return shape_equal(*x, match_type(m, 'y')->shape) && !b->keepdims && !a->keepdims && rows > 0 &&
         reduced_axes(&b->axes, x->rank) == 1u << rows &&
         reduced_axes(&a->axes, rows) == (1u << rows) - 1 &&
         resolve_axis(MATCH_ATTRS(m, 's', log_softmax)->axis, x->rank) == rows;
}

/* sum / n is mean; n must be a number. */
bool when_a_divides_by_count(const rule_match *m) {
  const attrs_affine *a = MATCH_ATTRS(m, 'a', affine);
  const sn_type *x = match_type(m, 'x');
  unsigned mask = reduced_axes(&MATCH_ATTRS(m, 'b', sum)->axes, x->shape.rank);
  double n = 1;
  for (int d = 0; d < x->shape.rank; d++)
    if (mask >> d & 1) {
      if (!dim_is_number(x->shape.dim[d]))
        return false;
      n *= (double)x->shape.dim[d];
    }
  return x->dtype == SN_F32 && a->add == 0 && fabs(a->mul * n - 1) <= 1e-7;
}

/* All of `mean` over one number a row: its argument is [..] or [.., 1]. */
static bool averages_rows(const rule_match *m, char letter, const sn_shape *x) {
  const attrs_mean *a = MATCH_ATTRS(m, letter, mean);
  const sn_shape *each = &match_argument(m, letter, 0)->shape;
  sn_dim rows = 1, got = 1;
  for (int d = 0; d < x->rank - 1; d++)
    rows = sn_dim_mul(m->e->dims, rows, x->dim[d]);
  for (int d = 0; d < each->rank; d++)
    got = sn_dim_mul(m->e->dims, got, each->dim[d]);
  if (m->e->dims->status != SN_OK)
    return egraph_forgive(m->e);
  return !a->keepdims && rows == got && x->rank >= 1 &&
         reduced_axes(&a->axes, each->rank) == (1u << each->rank) - 1;
}
/* One entry of the last axis of x for each row. */
static bool gathers_labels(const rule_match *m, const sn_shape *x) {
  const sn_shape *i = &match_type(m, 'i')->shape;
  return x->rank >= 1 && i->dim[x->rank - 1] == 1 &&
         resolve_axis(MATCH_ATTRS(m, 'g', gather_along)->axis, x->rank) == x->rank - 1;
}
bool when_rows_of_g_are_averaged(const rule_match *m) {
  const sn_shape *x = &match_type(m, 'x')->shape;
  return gathers_labels(m, x) && averages_rows(m, 'a', x) &&
         resolve_axis(MATCH_ATTRS(m, 's', log_softmax)->axis, x->rank) == x->rank - 1;
}
bool when_rows_of_l_are_averaged(const rule_match *m) {
  const sn_shape *x = &match_type(m, 'x')->shape;
  return gathers_labels(m, x) && averages_rows(m, 'a', x) &&
         reduced_axes(&MATCH_ATTRS(m, 'l', logsumexp)->axes, x->rank) == 1u << (x->rank - 1);
}

/* --- activations: the constants as anyone writes them --- */
bool when_a_is_one_and_one(const rule_match *m) { return affine_is(m, 'a', 1, 1); }
bool when_b_and_c_are_softcap(const rule_match *m) {
  const attrs_affine *b = MATCH_ATTRS(m, 'b', affine), *c = MATCH_ATTRS(m, 'c', affine);
  return b->add == 0 && c->add == 0 && c->mul > 0 && b->mul != 0 &&
         match_type(m, 'x')->dtype == SN_F32;
}
#define ROOT_HALF    0.70710678118654757
#define ROOT_2_BY_PI 0.79788456080286541
bool when_a_and_b_are_gelu(const rule_match *m) {
  return affine_is(m, 'a', 0.5, 0.5) && affine_is(m, 'b', ROOT_HALF, 0);
}
bool when_half_c_and_b_are_gelu(const rule_match *m) {
  return affine_is(m, 'c', 0.5, 0) && affine_is(m, 'a', 1, 1) && affine_is(m, 'b', ROOT_HALF, 0);
}
static bool tanh_inside(const rule_match *m) {
  return affine_is(m, 'b', ROOT_2_BY_PI, 0) && affine_is(m, 'd', 0.044715, 0);
}
bool when_c_b_d_are_gelu_tanh(const rule_match *m) {
  return affine_is(m, 'c', 0.5, 0) && affine_is(m, 'a', 1, 1) && tanh_inside(m);
}
bool when_a_b_d_are_gelu_tanh(const rule_match *m) {
  return affine_is(m, 'a', 0.5, 0.5) && tanh_inside(m);
}
bool when_c_b_d_p_are_gelu_tanh(const rule_match *m) {
  return when_c_b_d_are_gelu_tanh(m) && MATCH_ATTRS(m, 'p', powf)->exponent == 3;
}

/* x * (sqrt(2/pi) * 0.044715 * x^2 + sqrt(2/pi)) inside. */
bool when_a_and_b_are_gelu_tanh(const rule_match *m) {
  return affine_is(m, 'a', 0.5, 0.5) && affine_is(m, 'b', ROOT_2_BY_PI * 0.044715, ROOT_2_BY_PI);
}
bool when_half_c_and_b_are_gelu_tanh(const rule_match *m) {
  return affine_is(m, 'c', 0.5, 0) && affine_is(m, 'a', 1, 1) &&
         affine_is(m, 'b', ROOT_2_BY_PI * 0.044715, ROOT_2_BY_PI);
}

/* --- norms: the mean is over the last axes, eps is not negative --- */
static bool last_axes(const rule_match *m, char letter) {
  const attrs_mean *a = MATCH_ATTRS(m, letter, mean);
  int rank = match_type(m, 'x')->shape.rank;
  unsigned mask = reduced_axes(&a->axes, rank), n = (unsigned)(a->axes.n ? a->axes.n : rank);
  return a->keepdims && n > 0 && mask == ((1u << n) - 1) << ((unsigned)rank - n);
}
/* Without an affine eps is 0. */
static bool is_eps(const rule_match *m, char letter) {
  const enode *n = match_node(m, letter);
  const attrs_affine *a = n ? n->attrs : NULL;
  return !a || (a->mul == 1 && a->add >= 0 && isfinite(a->add));
}
bool when_a_and_b_are_norm(const rule_match *m) { return is_eps(m, 'a') && last_axes(m, 'b'); }
bool when_a_and_b_c_d_are_norm(const rule_match *m) {
  const sn_ints *b = &MATCH_ATTRS(m, 'b', mean)->axes, *c = &MATCH_ATTRS(m, 'c', mean)->axes,
                *d = &MATCH_ATTRS(m, 'd', mean)->axes;
  int rank = match_type(m, 'x')->shape.rank;
  return when_a_and_b_are_norm(m) && last_axes(m, 'c') && last_axes(m, 'd') &&
         reduced_axes(b, rank) == reduced_axes(c, rank) &&
         reduced_axes(b, rank) == reduced_axes(d, rank);
}
bool when_a_b_c_are_var_norm(const rule_match *m) {
  const attrs_var *b = MATCH_ATTRS(m, 'b', var);
  int rank = match_type(m, 'x')->shape.rank;
  return is_eps(m, 'a') && b->correction == 0 && b->keepdims && last_axes(m, 'c') &&
         reduced_axes(&b->axes, rank) == reduced_axes(&MATCH_ATTRS(m, 'c', mean)->axes, rank);
}
