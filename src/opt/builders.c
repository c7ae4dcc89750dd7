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

_Static_assert(sizeof(attrs_rms_norm) == sizeof(attrs_layer_norm), "one builder for both");
static bool rows_of_b(const rule_match *m, void *attrs) {
  const sn_ints *axes = &MATCH_ATTRS(m, 'b', mean)->axes;
  attrs_rms_norm *a = attrs;
  a->axes = axes->n ? axes->n : match_type(m, 'x')->shape.rank;
  a->eps = MATCH_ATTRS(m, 'a', affine)->add;
  return true;
}

/* clang-format off */
#define ROW(name) {#name, name}
static const struct {
  const char *name;
  rule_builder build;
} builders[] = {
    ROW(times_z), ROW(over_z), ROW(plus_z), ROW(minus_z), ROW(z_minus), ROW(minus_one), ROW(twice),
    ROW(composed), ROW(zeros), ROW(ones), ROW(like_start), ROW(perm_a_after_b), ROW(a_within_b),
    ROW(flip_a), ROW(flip_b), ROW(swapped), ROW(axis_of_a), ROW(mean_of_rows), ROW(rows_of_b),
    ROW(rows_of_x), ROW(rows_of_y), ROW(other_keepdims),
};
/* clang-format on */

rule_builder rule_find_builder(const char *name, size_t n) {
  for (size_t i = 0; i < COUNT_OF(builders); i++)
    if (strncmp(builders[i].name, name, n) == 0 && builders[i].name[n] == '\0')
      return builders[i].build;
  return NULL;
}
