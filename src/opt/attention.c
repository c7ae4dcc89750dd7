/* Attention from its parts: conditions and builders of the rules that find it, by the letters of rules.def.
 *
 * A mask hides what it replaces by -inf, or by a number so low that nothing is left of it behind softmax. With -inf a row
 * that sees nothing is NaN as it is written and 0 as attention; with a low number it is the mean of all values, so
 * that there a mask counts only when it is known to leave something in every row. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/common.h"
#include "opt/rule.h"

/* No score that softmax can tell from its neighbours is as low. */
#define LOW (-1e9)
enum { DEEPEST = 6 };

/* --- masks that are known --- */

/* The sizes of the scores, and where they are hidden: key j of row i is seen where j <= i + offset. */
typedef struct causal_search {
  egraph *e;
  sn_dim sq, skv;
} causal_search;

static bool is_scores(const causal_search *s, const sn_shape *shape) {
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
  return x == 0 ? 1 : x <= LOW ? 0 : -1;
}

static const attrs_constant *constant_of(const eclass *c) {
  return c->constant && c->constant->op == OP_constant ? c->constant->attrs : NULL;
}

static bool offset_of_constant(const causal_search *s, const eclass *c, int (*seen)(double, bool),
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
static bool counts(const causal_search *s, class_id id, bool rows, int depth, int64_t *start) {
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
      causal_search line = {s->e, s->sq, rows ? s->sq : s->skv};
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
static bool offset_of_comparison(const causal_search *s, const enode *n, bool negated,
                                 int64_t *out) {
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

static bool mask_offset(const causal_search *s, class_id id, bool negated, int depth, int64_t *out);

/* Where a value is not 0 (negated: where it is), by one of its nodes. */
static bool offset_of_node(const causal_search *s, const enode *n, bool negated, int depth,
                           int64_t *out) {
  switch (n->op) {
  case OP_tril:
    *out = ((const attrs_tril *)n->attrs)->diagonal;
    return !negated && nonzero(s->e, n->in[0]);
  case OP_triu:
    *out = ((const attrs_triu *)n->attrs)->diagonal - 1;
    return negated && nonzero(s->e, n->in[0]);
  case OP_logical_not: return mask_offset(s, n->in[0], !negated, depth, out);
  case OP_cast: return mask_offset(s, n->in[0], negated, depth, out);
  case OP_reshape:
  case OP_expand: return mask_offset(s, n->in[0], negated, depth, out);
  case OP_eq:
  case OP_ne: {
    int against = zero(s->e, n->in[0]) ? 0 : 1;
    return zero(s->e, n->in[against]) &&
           mask_offset(s, n->in[1 - against], (n->op == OP_eq) != negated, depth, out);
  }
  default: return offset_of_comparison(s, n, negated, out);
  }
}

static bool mask_offset(const causal_search *s, class_id id, bool negated, int depth,
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

/* 0 where a key is seen and a low number elsewhere. */
static bool bias_offset(const causal_search *s, class_id id, int64_t *out) {
  const eclass *c = egraph_class(s->e, id);
  if (!is_scores(s, &c->type.shape))
    return false;
  if (offset_of_constant(s, c, seen_in_bias, false, out))
    return true;
  for (const enode *n = c->first; n; n = n->next) {
    const eclass *low = n->op == OP_triu ? egraph_class(s->e, n->in[0]) : NULL;
    if (!n->dead && low && low->uniform && low->value <= LOW) {
      *out = ((const attrs_triu *)n->attrs)->diagonal - 1;
      return true;
    }
  }
  return false;
}

/* --- conditions on masks --- */

static bool is_low(const eclass *z) { return z->uniform && z->value <= LOW; }
bool when_z_is_low(const rule_match *m) { return is_low(match_class(m, 'z')); }

/* A constant that has something true in each row. */
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

/* Whether `where(c, scores, z)` is what attention does with the mask c. */
static bool hides(const rule_match *m, sn_dim sq, sn_dim skv) {
  const eclass *z = match_class(m, 'z');
  causal_search s = {m->e, sq, skv};
  int64_t offset;
  if (!is_low(z))
    return false;
  if (isinf(z->value) || constant_leaves_rows(match_class(m, 'c')))
    return true;
  return mask_offset(&s, m->value['c' - 'a'], false, 0, &offset) && offset >= 0;
}

/* --- the parts --- */

static bool scale_of(const rule_match *m, char letter, double *scale) {
  const enode *n = match_node(m, letter);
  const attrs_affine *a = n ? n->attrs : NULL;
  *scale *= a ? a->mul : 1;
  return !a || a->add == 0;
}

static bool product_is(const rule_match *m, char letter, bool trans_b) {
  const attrs_matmul *a = MATCH_ATTRS(m, letter, matmul);
  return !a->trans_a && a->trans_b == trans_b;
}

/* softmax over the keys of q·k^T, times v, in whatever rank. */
static bool parts_fit(const rule_match *m, int rank) {
  const sn_shape *q = &match_type(m, 'q')->shape, *k = &match_type(m, 'k')->shape;
  double scale = 1;
  return q->rank == rank && k->rank == rank && match_type(m, 'v')->shape.rank == rank &&
         product_is(m, 'm', false) && product_is(m, 'n', true) &&
         resolve_axis(MATCH_ATTRS(m, 's', softmax)->axis, rank) == rank - 1 &&
         scale_of(m, 'a', &scale) && scale_of(m, 'e', &scale) && scale_of(m, 'f', &scale) &&
         isfinite(scale) && (!match_has(m, 'c') || hides(m, q->dim[rank - 2], k->dim[rank - 2]));
}
bool when_parts_are_attention(const rule_match *m) { return parts_fit(m, 4); }
/* Without an axis of heads: [B, S, D] or [S, D]. */
bool when_parts_are_one_head(const rule_match *m) { return parts_fit(m, 3) || parts_fit(m, 2); }

bool build_of_parts(const rule_match *m, void *attrs) {
  const enode *p = match_node(m, 'p');
  attrs_attention *a = attrs;
  a->scale = 1;
  a->softcap = p ? ((const attrs_softcap *)p->attrs)->cap : 0;
  a->causal = SN_CAUSAL_NONE;
  a->layout = SN_LAYOUT_BHSD;
  return scale_of(m, 'a', &a->scale) && scale_of(m, 'e', &a->scale) && scale_of(m, 'f', &a->scale);
}

/* [.., S, D] as [.., 1, S, D] with one batch axis in front. */
static bool one_head(const rule_match *m, char letter, void *attrs) {
  const sn_shape *x = &match_type(m, letter)->shape;
  attrs_reshape *a = attrs;
  if (x->rank != 2 && x->rank != 3)
    return false;
  a->shape.rank = 4;
  a->shape.dim[0] = x->rank == 3 ? x->dim[0] : 1;
  a->shape.dim[1] = 1;
  a->shape.dim[2] = x->dim[x->rank - 2];
  a->shape.dim[3] = x->dim[x->rank - 1];
  return true;
}
bool build_one_head_q(const rule_match *m, void *attrs) { return one_head(m, 'q', attrs); }
bool build_one_head_k(const rule_match *m, void *attrs) { return one_head(m, 'k', attrs); }
bool build_one_head_v(const rule_match *m, void *attrs) { return one_head(m, 'v', attrs); }
bool build_one_head_c(const rule_match *m, void *attrs) { return one_head(m, 'c', attrs); }
bool build_one_head_b(const rule_match *m, void *attrs) { return one_head(m, 'b', attrs); }

/* --- attention, simpler --- */

static causal_search scores_of(const rule_match *m) {
  bool heads_first = MATCH_ATTRS(m, 'a', attention)->layout == SN_LAYOUT_BHSD;
  const sn_shape *q = &match_type(m, 'q')->shape, *k = &match_type(m, 'k')->shape;
  return (causal_search){m->e, q->dim[heads_first ? 2 : 1], k->dim[heads_first ? 2 : 1]};
}

static sn_causal causal_of(const causal_search *s, int64_t offset) {
  if (s->sq == s->skv)
    return offset == 0 ? SN_CAUSAL_END : SN_CAUSAL_NONE;
  if (offset == 0)
    return SN_CAUSAL_START;
  bool numbers = dim_is_number(s->sq) && dim_is_number(s->skv);
  return numbers && offset == s->skv - s->sq ? SN_CAUSAL_END : SN_CAUSAL_NONE;
}

static bool sees_all(const rule_match *m) {
  const attrs_attention *a = MATCH_ATTRS(m, 'a', attention);
  return a->causal == SN_CAUSAL_NONE && a->window == 0;
}
static sn_causal mask_kind(const rule_match *m) {
  causal_search s = scores_of(m);
  int64_t offset;
  bool known = sees_all(m) && mask_offset(&s, m->value['c' - 'a'], false, 0, &offset);
  return known ? causal_of(&s, offset) : SN_CAUSAL_NONE;
}
static sn_causal bias_kind(const rule_match *m) {
  causal_search s = scores_of(m);
  int64_t offset;
  bool known = sees_all(m) && bias_offset(&s, m->value['b' - 'a'], &offset) && offset >= 0;
  return known ? causal_of(&s, offset) : SN_CAUSAL_NONE;
}
bool when_c_is_causal(const rule_match *m) { return mask_kind(m) != SN_CAUSAL_NONE; }
bool when_b_is_causal(const rule_match *m) { return bias_kind(m) != SN_CAUSAL_NONE; }

static bool causal(const rule_match *m, void *attrs, sn_causal kind) {
  attrs_attention *a = attrs;
  const attrs_attention *from = MATCH_ATTRS(m, 'a', attention);
  a->scale = from->scale;
  a->softcap = from->softcap;
  a->causal = kind;
  a->window = from->window;
  a->layout = from->layout;
  return true;
}
bool build_causal_by_c(const rule_match *m, void *attrs) { return causal(m, attrs, mask_kind(m)); }
bool build_causal_by_b(const rule_match *m, void *attrs) { return causal(m, attrs, bias_kind(m)); }

bool when_c_hides_nothing(const rule_match *m) {
  const eclass *c = match_class(m, 'c');
  return c->uniform && c->value != 0;
}

/* A bias of 0 where c is true and of z elsewhere. */
bool when_c_is_the_bias(const rule_match *m) {
  const eclass *x = match_class(m, 'x');
  causal_search s = scores_of(m);
  return x->uniform && x->value == 0 && hides(m, s.sq, s.skv);
}

/* Heads repeated one by one: [B, Hk, S, D] as [B, Hk, 1, S, D], then [B, Hk, G, S, D], then [B, Hk * G, S, D]. */
static bool repeats_heads(const rule_match *m, char value, char inner, char middle, char outer,
                          int axis) {
  const sn_shape *x = &match_type(m, value)->shape;
  const sn_shape *thin = &MATCH_ATTRS(m, inner, reshape)->shape,
                 *wide = &MATCH_ATTRS(m, middle, expand)->shape,
                 *joined = &MATCH_ATTRS(m, outer, reshape)->shape;
  if (x->rank != 4 || thin->rank != 5 || wide->rank != 5 || joined->rank != 4 ||
      thin->dim[axis + 1] != 1)
    return false;
  for (int d = 0; d < 4; d++) {
    int to = d <= axis ? d : d + 1;
    if (thin->dim[to] != x->dim[d] || wide->dim[to] != x->dim[d] ||
        (d != axis && joined->dim[d] != x->dim[d]))
      return false;
  }
  return true;
}
bool when_k_and_v_repeat_heads(const rule_match *m) {
  int axis = MATCH_ATTRS(m, 'a', attention)->layout == SN_LAYOUT_BHSD ? 1 : 2;
  return repeats_heads(m, 'k', 'g', 'f', 'e', axis) && repeats_heads(m, 'v', 'j', 'i', 'h', axis);
}
