/* Attributes of goals, by the names that rules.def gives after `=`: letters are those of the rule. */
#include "ops/common.h"
#include "opt/rule.h"

static bool affine(void *attrs, double mul, double add) {
  attrs_affine *a = attrs;
  a->mul = mul;
  a->add = add;
  return isfinite(mul) && isfinite(add);
}
static double z(const rule_match *m) { return match_class(m, 'z')->value; }

static bool times_z(const rule_match *m, void *a) { return affine(a, z(m), 0); }
static bool over_z(const rule_match *m, void *a) { return affine(a, 1 / z(m), 0); }
static bool plus_z(const rule_match *m, void *a) { return affine(a, 1, z(m)); }
static bool minus_z(const rule_match *m, void *a) { return affine(a, 1, -z(m)); }
static bool z_minus(const rule_match *m, void *a) { return affine(a, -1, z(m)); }
static bool minus_one(const rule_match *m, void *a) {
  (void)m;
  return affine(a, -1, 0);
}
static bool twice(const rule_match *m, void *a) {
  (void)m;
  return affine(a, 2, 0);
}
static bool composed(const rule_match *m, void *attrs) {
  const attrs_affine *a = MATCH_ATTRS(m, 'a', affine), *b = MATCH_ATTRS(m, 'b', affine);
  return affine(attrs, a->mul * b->mul, a->mul * b->add + a->add);
}

static bool fill(const rule_match *m, void *attrs, double value) {
  const sn_type *t = &egraph_class(m->e, m->root)->type;
  attrs_full *a = attrs;
  a->dtype = t->dtype;
  a->shape.rank = t->shape.rank;
  memcpy(a->shape.dim, t->shape.dim, (size_t)t->shape.rank * sizeof a->shape.dim[0]);
  a->value = value;
  return true;
}
static bool zeros(const rule_match *m, void *a) { return fill(m, a, 0); }
static bool ones(const rule_match *m, void *a) { return fill(m, a, 1); }

/* The shape of what the start computes. */
static bool like_start(const rule_match *m, void *attrs) {
  const sn_shape *s = &egraph_class(m->e, m->root)->type.shape;
  attrs_reshape *a = attrs;
  a->shape.rank = s->rank;
  memcpy(a->shape.dim, s->dim, (size_t)s->rank * sizeof s->dim[0]);
  return true;
}

/* [.., k, n] as [.. * k, n]. */
static bool rows_of(const rule_match *m, char letter, void *attrs) {
  const sn_shape *x = &match_type(m, letter)->shape;
  attrs_reshape *a = attrs;
  a->shape.rank = 2;
  a->shape.dim[0] = 1;
  for (int d = 0; d < x->rank - 1; d++)
    a->shape.dim[0] = sn_dim_mul(m->e->dims, a->shape.dim[0], x->dim[d]);
  a->shape.dim[1] = x->dim[x->rank - 1];
  return m->e->dims->status == SN_OK;
}
static bool rows_of_x(const rule_match *m, void *attrs) { return rows_of(m, 'x', attrs); }
static bool rows_of_y(const rule_match *m, void *attrs) { return rows_of(m, 'y', attrs); }

/* Of sum and mean, which are laid out alike. */
_Static_assert(sizeof(attrs_sum) == sizeof(attrs_mean), "one builder for both");
static bool other_keepdims(const rule_match *m, void *attrs) {
  const attrs_sum *from = MATCH_ATTRS(m, 'a', sum);
  attrs_sum *a = attrs;
  a->axes.n = from->axes.n;
  for (int i = 0; i < from->axes.n; i++)
    a->axes.v[i] = from->axes.v[i];
  a->keepdims = !from->keepdims;
  return true;
}

static bool perm_a_after_b(const rule_match *m, void *attrs) {
  const sn_ints *a = &MATCH_ATTRS(m, 'a', transpose)->perm,
                *b = &MATCH_ATTRS(m, 'b', transpose)->perm;
  sn_ints *perm = &((attrs_transpose *)attrs)->perm;
  perm->n = a->n;
  for (int d = 0; d < a->n; d++)
    perm->v[d] = b->v[a->v[d]];
  return true;
}

static bool a_within_b(const rule_match *m, void *attrs) {
  const attrs_slice *a = MATCH_ATTRS(m, 'a', slice), *b = MATCH_ATTRS(m, 'b', slice);
  attrs_slice *s = attrs;
  s->axis = resolve_axis(a->axis, match_type(m, 'x')->shape.rank);
  s->start = b->start + a->start;
  s->stop = b->start + a->stop;
  s->step = 1;
  return true;
}

/* The slice a of a result, of a value that the result broadcasts or multiplies: `axis` is that value's. */
static bool cut(const rule_match *m, void *attrs, int axis) {
  const attrs_slice *a = MATCH_ATTRS(m, 'a', slice);
  attrs_slice *s = attrs;
  s->axis = axis;
  s->start = a->start;
  s->stop = a->stop;
  s->step = a->step;
  return axis >= 0;
}
static bool a_on(const rule_match *m, char letter, void *attrs) {
  int rank = match_argument(m, 'a', 0)->shape.rank;
  int axis = resolve_axis(MATCH_ATTRS(m, 'a', slice)->axis, rank);
  return cut(m, attrs, axis - (rank - match_type(m, letter)->shape.rank));
}
static bool a_on_x(const rule_match *m, void *attrs) { return a_on(m, 'x', attrs); }
static bool a_on_y(const rule_match *m, void *attrs) { return a_on(m, 'y', attrs); }
static bool a_on_rows(const rule_match *m, void *attrs) {
  return cut(m, attrs,
             match_type(m, 'x')->shape.rank - (MATCH_ATTRS(m, 'm', matmul)->trans_a ? 1 : 2));
}
static bool a_on_columns(const rule_match *m, void *attrs) {
  return cut(m, attrs,
             match_type(m, 'y')->shape.rank - (MATCH_ATTRS(m, 'm', matmul)->trans_b ? 2 : 1));
}

static bool a_before_r(const rule_match *m, void *attrs) {
  return cut(m, attrs, rule_axis_before_reshape(m));
}
static bool a_under_r(const rule_match *m, void *attrs) {
  const sn_ints *perm = &MATCH_ATTRS(m, 'r', transpose)->perm;
  return cut(m, attrs, (int)perm->v[resolve_axis(MATCH_ATTRS(m, 'a', slice)->axis, perm->n)]);
}

/* a but for the last two axes, which it leaves in the other order. */
static bool a_unswapped(const rule_match *m, void *attrs) {
  const sn_ints *a = &MATCH_ATTRS(m, 'a', transpose)->perm;
  sn_ints *perm = &((attrs_transpose *)attrs)->perm;
  perm->n = a->n;
  for (int d = 0; d < a->n; d++)
    perm->v[d] = a->v[d];
  perm->v[a->n - 1] = a->v[a->n - 2];
  perm->v[a->n - 2] = a->v[a->n - 1];
  return true;
}

static bool flags(void *attrs, bool trans_a, bool trans_b) {
  attrs_matmul *a = attrs;
  a->trans_a = trans_a;
  a->trans_b = trans_b;
  return true;
}
static bool flip_a(const rule_match *m, void *attrs) {
  const attrs_matmul *a = MATCH_ATTRS(m, 'm', matmul);
  return flags(attrs, !a->trans_a, a->trans_b);
}
static bool flip_b(const rule_match *m, void *attrs) {
  const attrs_matmul *a = MATCH_ATTRS(m, 'm', matmul);
  return flags(attrs, a->trans_a, !a->trans_b);
}
/* (xy)^T = y^T x^T */
static bool swapped(const rule_match *m, void *attrs) {
  const attrs_matmul *a = MATCH_ATTRS(m, 'm', matmul);
  return flags(attrs, !a->trans_b, !a->trans_a);
}

_Static_assert(sizeof(attrs_softmax) == sizeof(attrs_log_softmax), "one builder for both");
static bool axis_of_a(const rule_match *m, void *attrs) {
  const sn_ints *axes = &MATCH_ATTRS(m, 'a', sum)->axes;
  ((attrs_softmax *)attrs)->axis = resolve_axis(axes->v[0], match_type(m, 'x')->shape.rank);
  return true;
}

static bool mean_of_rows(const rule_match *m, void *attrs) {
  (void)m;
  ((attrs_cross_entropy_dist *)attrs)->reduction = SN_REDUCTION_MEAN;
  return true;
}

/* What is never a label: nobody marks padding with it, so that such a mark stays the error that it was. */
enum { NO_LABEL = INT32_MIN };
static bool labels(void *attrs, double smoothing, sn_reduction reduction) {
  attrs_cross_entropy *a = attrs;
  a->ignore_index = NO_LABEL;
  a->smoothing = smoothing;
  a->reduction = reduction;
  return true;
}
static bool mean_of_labels(const rule_match *m, void *attrs) {
  (void)m;
  return labels(attrs, 0, SN_REDUCTION_MEAN);
}
static bool labels_of_d(const rule_match *m, void *attrs) {
  const attrs_cross_entropy_dist *d = MATCH_ATTRS(m, 'd', cross_entropy_dist);
  return labels(attrs, d->smoothing, d->reduction);
}
/* The shape of x without its last axis. */
static bool rows_alone(const rule_match *m, void *attrs) {
  const sn_shape *x = &match_type(m, 'x')->shape;
  attrs_reshape *a = attrs;
  a->shape.rank = x->rank - 1;
  memcpy(a->shape.dim, x->dim, (size_t)a->shape.rank * sizeof x->dim[0]);
  return true;
}

/* c tanh(b x) = cap tanh(b c x / cap) */
static bool cap_of_c(const rule_match *m, void *attrs) {
  ((attrs_softcap *)attrs)->cap = MATCH_ATTRS(m, 'c', affine)->mul;
  return true;
}
static bool slope_at_zero(const rule_match *m, void *attrs) {
  return affine(attrs, MATCH_ATTRS(m, 'b', affine)->mul * MATCH_ATTRS(m, 'c', affine)->mul, 0);
}

_Static_assert(sizeof(attrs_rms_norm) == sizeof(attrs_layer_norm), "one builder for both");
static bool rows_of_b(const rule_match *m, void *attrs) {
  const sn_ints *axes = &MATCH_ATTRS(m, 'b', mean)->axes; /* var has them first too */
  const enode *eps = match_node(m, 'a');
  attrs_rms_norm *a = attrs;
  a->axes = axes->n ? axes->n : match_type(m, 'x')->shape.rank;
  a->eps = eps ? ((const attrs_affine *)eps->attrs)->add : 0;
  return true;
}

static bool plus_eps(const rule_match *m, void *attrs) {
  return affine(attrs, 1, MATCH_ATTRS(m, 'n', batch_norm)->eps);
}
/* A number an output channel, as it stands beside w. */
static bool beside_w(const rule_match *m, void *attrs) {
  const sn_shape *w = &match_type(m, 'w')->shape;
  attrs_reshape *a = attrs;
  a->shape.rank = w->rank;
  for (int d = 0; d < w->rank; d++)
    a->shape.dim[d] = d == 0 ? w->dim[0] : 1;
  return true;
}

/* clang-format off */
#define ROW(name) {#name, name}
#define FROM(name) {#name, build_##name} /* attention.c */
static const struct {
  const char *name;
  rule_builder build;
} builders[] = {
    ROW(times_z), ROW(over_z), ROW(plus_z), ROW(minus_z), ROW(z_minus), ROW(minus_one), ROW(twice),
    ROW(composed), ROW(zeros), ROW(ones), ROW(like_start), ROW(perm_a_after_b), ROW(a_within_b),
    ROW(flip_a), ROW(flip_b), ROW(swapped), ROW(axis_of_a), ROW(mean_of_rows), ROW(rows_of_b),
    ROW(rows_of_x), ROW(rows_of_y), ROW(other_keepdims), ROW(a_on_x), ROW(a_on_y), ROW(a_on_rows),
    ROW(a_on_columns), ROW(a_before_r), ROW(a_under_r), ROW(a_unswapped), ROW(mean_of_labels), ROW(labels_of_d), ROW(rows_alone),
    ROW(cap_of_c), ROW(slope_at_zero), ROW(plus_eps), ROW(beside_w), FROM(of_parts), FROM(one_head_q), FROM(one_head_k),
    FROM(one_head_v), FROM(one_head_c), FROM(one_head_b), FROM(causal_by_c), FROM(causal_by_b),
};
/* clang-format on */

rule_builder rule_find_builder(const char *name, size_t n) {
  for (size_t i = 0; i < COUNT_OF(builders); i++)
    if (strncmp(builders[i].name, name, n) == 0 && builders[i].name[n] == '\0')
      return builders[i].build;
  return NULL;
}
