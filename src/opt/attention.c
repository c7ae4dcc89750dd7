/* Attention from its parts: conditions and builders of the rules that find it, by the letters of rules.def.
 *
 * A mask hides what it replaces by -inf, or by a number so low that nothing is left of it behind softmax. With -inf a row
 * that sees nothing is NaN as it is written and 0 as attention; with a low number it is the mean of all values, so
 * that there a mask counts only when it is known to leave something in every row. */
#include "ir/dim.h"
#include "ops/common.h"
#include "opt/masks.h"
#include "opt/rule.h"

/* --- conditions on masks --- */

static bool is_low(const eclass *z) { return z->uniform && z->value <= MASK_LOW; }
bool when_z_is_low(const rule_match *m) { return is_low(match_class(m, 'z')); }

/* Whether `where(c, scores, z)` is what attention does with the mask c. */
static bool hides(const rule_match *m, sn_dim sq, sn_dim skv) {
  const eclass *z = match_class(m, 'z');
  mask_scores s = {m->e, sq, skv};
  return is_low(z) && (isinf(z->value) || mask_leaves_rows(&s, m->value['c' - 'a']));
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

static mask_scores scores_of(const rule_match *m) {
  bool heads_first = MATCH_ATTRS(m, 'a', attention)->layout == SN_LAYOUT_BHSD;
  const sn_shape *q = &match_type(m, 'q')->shape, *k = &match_type(m, 'k')->shape;
  return (mask_scores){m->e, q->dim[heads_first ? 2 : 1], k->dim[heads_first ? 2 : 1]};
}

static sn_causal causal_of(const mask_scores *s, int64_t offset) {
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
  mask_scores s = scores_of(m);
  int64_t offset;
  bool known = sees_all(m) && mask_offset(&s, m->value['c' - 'a'], &offset);
  return known ? causal_of(&s, offset) : SN_CAUSAL_NONE;
}
static sn_causal bias_kind(const rule_match *m) {
  mask_scores s = scores_of(m);
  int64_t offset;
  bool known = sees_all(m) && mask_bias_offset(&s, m->value['b' - 'a'], &offset) && offset >= 0;
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
  mask_scores s = scores_of(m);
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
