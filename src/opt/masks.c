/* See masks.h. A class is asked through its nodes: constants by their elements, triangles and comparisons of positions
 * by what they say. */
#include "opt/masks.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"

enum { DEEPEST = 6 };

static bool is_scores(const mask_scores *s, const sn_shape *shape) {
  int rank = shape->rank;
  for (int d = 0; d < rank - 2; d++)
    if (shape->dim[d] != 1)
      return false;
  return rank >= 2 && shape->dim[rank - 2] == s->sq && shape->dim[rank - 1] == s->skv;
}

/* What a constant shows at one element: 1 seen, 0 hidden, -1 neither. */
static int seen_in_mask(double x, bool negated) { return (x != 0) != negated; }
static int seen_in_bias(double x, bool negated) {
  (void)negated;
  return x == 0 ? 1 : x <= MASK_LOW ? 0 : -1;
}

static const attrs_constant *constant_of(const eclass *c) {
  return c->constant && c->constant->op == OP_constant ? c->constant->attrs : NULL;
}

static bool offset_of_constant(const mask_scores *s, const eclass *c, int (*seen)(double, bool),
                               bool negated, int64_t *out) {
  const attrs_constant *a = constant_of(c);
  if (!a || !dim_is_number(s->sq) || !dim_is_number(s->skv) || s->sq < 1 || s->skv < 1)
    return false;
  /* The first row tells the offset; the last one where the first sees nothing. */
  int64_t row = seen(dtype_load(a->dtype, a->data.data, 0), negated) == 1 ? 0 : s->sq - 1, n = 0;
  while (n < s->skv && seen(dtype_load(a->dtype, a->data.data, row * s->skv + n), negated) == 1)
    n++;
  *out = n - 1 - row;
  for (int64_t i = 0; i < s->sq; i++)
    for (int64_t j = 0; j < s->skv; j++)
      if (seen(dtype_load(a->dtype, a->data.data, i * s->skv + j), negated) != (j <= i + *out))
        return false;
  return true;
}

/* Whether a class counts 0, 1, 2, … + *start along the rows or the columns of the scores. */
static bool counts(const mask_scores *s, class_id id, bool rows, int depth, int64_t *start) {
  const eclass *c = egraph_class(s->e, id);
  const sn_shape *shape = &c->type.shape;
  int at = shape->rank - (rows ? 2 : 1);
  if (depth > DEEPEST || c->type.dtype != SN_I32 || at < 0)
    return false;
  for (const enode *n = c->first; n; n = n->next) {
    const attrs_arange *a = n->attrs;
    const eclass *x = n->n_in ? egraph_class(s->e, n->in[0]) : NULL;
    bool found = false;
    if (n->dead)
      continue;
    if (n->op == OP_arange && !rows && a->step == 1 && a->n == s->skv) {
      *start = (int64_t)a->start;
      return true;
    }
    if (n->op == OP_expand)
      found = counts(s, n->in[0], rows, depth + 1, start);
    else if (n->op == OP_reshape && x->type.shape.rank == 1 &&
             shape->dim[at] == x->type.shape.dim[0] &&
             x->type.shape.dim[0] == (rows ? s->sq : s->skv)) {
      /* A column of the scores is a row of numbers stood up. */
      mask_scores line = {s->e, s->sq, rows ? s->sq : s->skv};
      found = counts(&line, n->in[0], false, depth + 1, start);
    } else if (n->op == OP_add && egraph_class(s->e, n->in[1])->uniform) {
      found = counts(s, n->in[0], rows, depth + 1, start);
      *start += found ? (int64_t)egraph_class(s->e, n->in[1])->value : 0;
    } else if (n->op == OP_add && x->uniform) {
      found = counts(s, n->in[1], rows, depth + 1, start);
      *start += found ? (int64_t)x->value : 0;
    }
    if (found)
      return true;
  }
  return false;
}

/* j + a <= i + b, or <: keys on the left, rows on the right. */
static bool offset_of_comparison(const mask_scores *s, const enode *n, bool negated, int64_t *out) {
  bool strict = n->op == OP_lt || n->op == OP_gt, turned = n->op == OP_ge || n->op == OP_gt;
  if (n->op != OP_le && n->op != OP_ge && !strict)
    return false;
  if (negated) {
    strict = !strict;
    turned = !turned;
  }
  int64_t key, row;
  if (!counts(s, n->in[turned ? 1 : 0], false, 0, &key) ||
      !counts(s, n->in[turned ? 0 : 1], true, 0, &row))
    return false;
  *out = row - key - (strict ? 1 : 0);
  return true;
}

static bool nonzero(egraph *e, class_id c) {
  const eclass *x = egraph_class(e, c);
  return x->uniform && x->value != 0;
}
static bool zero(egraph *e, class_id c) {
  const eclass *x = egraph_class(e, c);
  return x->uniform && x->value == 0;
}

static bool offset_within(const mask_scores *s, class_id id, bool negated, int depth, int64_t *out);

/* Where a value is not 0 (negated: where it is), by one of its nodes. */
static bool offset_of_node(const mask_scores *s, const enode *n, bool negated, int depth,
                           int64_t *out) {
  switch (n->op) {
  case OP_tril:
    *out = ((const attrs_tril *)n->attrs)->diagonal;
    return !negated && nonzero(s->e, n->in[0]);
  case OP_triu:
    *out = ((const attrs_triu *)n->attrs)->diagonal - 1;
    return negated && nonzero(s->e, n->in[0]);
  case OP_logical_not: return offset_within(s, n->in[0], !negated, depth, out);
  case OP_cast: return offset_within(s, n->in[0], negated, depth, out);
  case OP_reshape:
  case OP_expand: return offset_within(s, n->in[0], negated, depth, out);
  case OP_eq:
  case OP_ne: {
    int against = zero(s->e, n->in[0]) ? 0 : 1;
    return zero(s->e, n->in[against]) &&
           offset_within(s, n->in[1 - against], (n->op == OP_eq) != negated, depth, out);
  }
  default: return offset_of_comparison(s, n, negated, out);
  }
}

static bool offset_within(const mask_scores *s, class_id id, bool negated, int depth,
                          int64_t *out) {
  const eclass *c = egraph_class(s->e, id);
  if (depth > DEEPEST || !is_scores(s, &c->type.shape))
    return false;
  if (offset_of_constant(s, c, seen_in_mask, negated, out))
    return true;
  for (const enode *n = c->first; n; n = n->next)
    if (!n->dead && offset_of_node(s, n, negated, depth + 1, out))
      return true;
  return false;
}

bool mask_offset(const mask_scores *s, class_id mask, int64_t *out) {
  return offset_within(s, mask, false, 0, out);
}

bool mask_bias_offset(const mask_scores *s, class_id id, int64_t *out) {
  const eclass *c = egraph_class(s->e, id);
  if (!is_scores(s, &c->type.shape))
    return false;
  if (offset_of_constant(s, c, seen_in_bias, false, out))
    return true;
  for (const enode *n = c->first; n; n = n->next) {
    const eclass *low = n->op == OP_triu ? egraph_class(s->e, n->in[0]) : NULL;
    if (!n->dead && low && low->uniform && low->value <= MASK_LOW) {
      *out = ((const attrs_triu *)n->attrs)->diagonal - 1;
      return true;
    }
  }
  return false;
}

static bool constant_leaves_rows(const eclass *c) {
  const attrs_constant *a = constant_of(c);
  int rank = c->type.shape.rank;
  if (!a || rank < 1 || !dim_is_number(c->type.shape.dim[rank - 1]) || a->data.size == 0)
    return false;
  int64_t columns = c->type.shape.dim[rank - 1], rows = (int64_t)a->data.size / columns;
  for (int64_t i = 0; i < rows; i++) {
    bool some = false;
    for (int64_t j = 0; j < columns; j++)
      some = some || dtype_load(a->dtype, a->data.data, i * columns + j) != 0;
    if (!some)
      return false;
  }
  return true;
}

bool mask_leaves_rows(const mask_scores *s, class_id mask) {
  int64_t offset;
  return constant_leaves_rows(egraph_class(s->e, mask)) ||
         (mask_offset(s, mask, &offset) && offset >= 0);
}
