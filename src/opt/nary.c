/* See nary.h. A maximal tree of add, sub, neg, affine and products with numbers is a list of terms, each a
 * class and a coefficient, and a number; one of mul, div, recip and sqr is a list of factors and divisors and
 * a coefficient. Values that something else reads too are leaves of such a tree, so that sharing is kept.
 *
 * The list is sorted: small tensors first, so that what can be done on scalars and rows is done there, then by
 * class. Written back as binary ops from the left it is a canonical form: equal lists become equal nodes,
 * whatever tree they came from. The tree itself stays in the e-graph, and the cost decides.
 *
 * Nothing cancels here without fast_math: x and -x stay two terms, x and 1 / x two factors, and constants
 * whose sum is much smaller than they are leave the tree as it is.
 */
#include "opt/nary.h"

#include "ir/dtype.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_TERMS = 24, DEEPEST = 200 };

typedef struct term {
  class_id c;
  double coef; /* of a product: 1 a factor, -1 a divisor */
  double size; /* elements */
} term;

typedef struct list {
  egraph *e;
  const sn_graph *g;
  const class_id *of;
  const uint32_t *reads;
  bool product, fast_math, given_up;
  sn_dtype dtype;
  int n, depth;
  term terms[MOST_TERMS];
  double number, most; /* a sum's constant and the largest part of it; a product's coefficient */
} list;

static const eclass *class_of(const list *l, sn_value v) { return egraph_class(l->e, l->of[v.id]); }

static bool finite_uniform(const list *l, sn_value v) {
  const eclass *c = class_of(l, v);
  return c->uniform && isfinite(c->value);
}

static bool is_sum(int op) {
  return op == OP_add || op == OP_sub || op == OP_neg || op == OP_affine;
}
static bool is_product(int op) {
  return op == OP_mul || op == OP_div || op == OP_recip || op == OP_sqr;
}

/* A product with one number is part of a sum. */
static bool scales(const list *l, const node *n) {
  return n->op == OP_mul && (finite_uniform(l, n->in[0]) || finite_uniform(l, n->in[1]));
}

static void add_number(list *l, double x) {
  l->number += x;
  l->most = fmax(l->most, fabs(x));
}

static void add_term(list *l, sn_value v, double coef) {
  class_id c = egraph_find(l->e, l->of[v.id]);
  for (int i = 0; i < l->n; i++)
    if (!l->product && l->terms[i].c == c &&
        (l->fast_math || (l->terms[i].coef > 0) == (coef > 0))) {
      l->terms[i].coef += coef;
      return;
    }
  if (l->n == MOST_TERMS || !isfinite(coef)) {
    l->given_up = true;
    return;
  }
  l->terms[l->n++] = (term){c, coef, type_elements(l->e->dims, &l->e->classes[c]->type)};
}

static void gather_sum(list *l, sn_value v, double coef, bool top);
static void gather_product(list *l, sn_value v, double power, bool top);

static void gather_sum_node(list *l, const node *n, double coef) {
  const attrs_affine *a = n->attrs;
  switch (n->op) {
  case OP_add:
  case OP_sub:
    gather_sum(l, n->in[0], coef, false);
    gather_sum(l, n->in[1], n->op == OP_add ? coef : -coef, false);
    return;
  case OP_neg: gather_sum(l, n->in[0], -coef, false); return;
  case OP_affine:
    add_number(l, coef * a->add);
    gather_sum(l, n->in[0], coef * a->mul, false);
    return;
  default: break;
  }
  int number = finite_uniform(l, n->in[0]) ? 0 : 1;
  gather_sum(l, n->in[1 - number], coef * class_of(l, n->in[number])->value, false);
}

/* Whether the walk goes on below v: nothing else reads it, and it is of the same float dtype. */
static bool inside(const list *l, sn_value v, bool top) {
  return top || (l->reads[v.id] == 1 && l->g->values[v.id].type.dtype == l->dtype);
}

static void gather_sum(list *l, sn_value v, double coef, bool top) {
  const node *n = graph_node(l->g, v);
  l->given_up = l->given_up || l->depth > DEEPEST;
  if (l->given_up)
    return;
  l->depth++;
  if (!top && finite_uniform(l, v))
    add_number(l, coef * class_of(l, v)->value);
  else if (inside(l, v, top) && (is_sum(n->op) || scales(l, n)))
    gather_sum_node(l, n, coef);
  else
    add_term(l, v, coef);
  l->depth--;
}

static void gather_product_node(list *l, const node *n, double power) {
  switch (n->op) {
  case OP_mul:
  case OP_div:
    gather_product(l, n->in[0], power, false);
    gather_product(l, n->in[1], n->op == OP_mul ? power : -power, false);
    break;
  case OP_recip: gather_product(l, n->in[0], -power, false); break;
  default: /* sqr */
    gather_product(l, n->in[0], power, false);
    gather_product(l, n->in[0], power, false);
  }
}

static void gather_product(list *l, sn_value v, double power, bool top) {
  const node *n = graph_node(l->g, v);
  const attrs_affine *a = n->attrs;
  l->given_up = l->given_up || l->depth > DEEPEST;
  if (l->given_up)
    return;
  l->depth++;
  if (!top && finite_uniform(l, v))
    l->number *= pow(class_of(l, v)->value, power);
  else if (inside(l, v, top) && is_product(n->op))
    gather_product_node(l, n, power);
  else if (inside(l, v, top) && n->op == OP_affine && a->add == 0) {
    l->number *= pow(a->mul, power);
    gather_product(l, n->in[0], power, false);
  } else
    add_term(l, v, power);
  l->depth--;
}

/* --- the form --- */

static int by_size(const void *x, const void *y) {
  const term *a = x, *b = y;
  if (a->size != b->size)
    return a->size < b->size ? -1 : 1;
  if ((a->coef < 0) != (b->coef < 0))
    return a->coef < 0 ? 1 : -1;
  return a->c < b->c ? -1 : a->c > b->c;
}

static class_id apply(list *l, int op, class_id x, class_id y) {
  static const _Alignas(16) char none[16] = {0};
  class_id in[2] = {x, y};
  return x && y ? egraph_add(l->e, op, in, 2, none, NULL, true) : 0;
}

static class_id scaled(list *l, class_id x, double mul, double add) {
  attrs_affine a;
  memset(&a, 0, sizeof a);
  a.mul = mul;
  a.add = add;
  if (!x || (mul == 1 && add == 0))
    return x;
  return egraph_add(l->e, OP_affine, &x, 1, &a, NULL, true);
}

/* A term without a scale to begin with, where there is one. */
static void pull_plain_first(list *l) {
  for (int i = 0; i < l->n; i++)
    if (l->product ? l->terms[i].coef > 0 : l->terms[i].coef == 1) {
      term first = l->terms[i];
      memmove(&l->terms[1], &l->terms[0], (size_t)i * sizeof(term));
      l->terms[0] = first;
      return;
    }
}

static class_id write_sum(list *l) {
  double common = l->terms[0].coef;
  for (int i = 1; i < l->n; i++)
    common = l->terms[i].coef == common ? common : 1;
  for (int i = 0; i < l->n; i++)
    l->terms[i].coef /= common;
  pull_plain_first(l);
  class_id sum = scaled(l, l->terms[0].c, l->terms[0].coef, 0);
  for (int i = 1; i < l->n; i++) {
    double coef = l->terms[i].coef;
    bool minus = coef == -1;
    sum = apply(l, minus ? OP_sub : OP_add, sum, scaled(l, l->terms[i].c, minus ? 1 : coef, 0));
  }
  return scaled(l, sum, common, l->number);
}

static class_id write_product(list *l) {
  static const _Alignas(16) char none[16] = {0};
  pull_plain_first(l);
  class_id first = l->terms[0].c;
  if (l->terms[0].coef < 0)
    first = egraph_add(l->e, OP_recip, &first, 1, none, NULL, true);
  bool early = l->terms[0].size < l->terms[l->n - 1].size;
  class_id product = early ? scaled(l, first, l->number, 0) : first;
  for (int i = 1; i < l->n; i++)
    product = apply(l, l->terms[i].coef > 0 ? OP_mul : OP_div, product, l->terms[i].c);
  return early ? product : scaled(l, product, l->number, 0);
}

/* A number of the full shape may have been dropped. */
static class_id expanded(list *l, class_id c, const sn_type *type) {
  attrs_expand a;
  if (!c || type_equal(egraph_class(l->e, c)->type, *type))
    return c;
  memset(&a, 0, sizeof a);
  a.shape.rank = type->shape.rank;
  memcpy(a.shape.dim, type->shape.dim, (size_t)type->shape.rank * sizeof a.shape.dim[0]);
  return egraph_add(l->e, OP_expand, &c, 1, &a, NULL, true);
}

/* With fast_math terms may have cancelled. */
static void drop_cancelled(list *l) {
  int kept = 0;
  for (int i = 0; i < l->n; i++)
    if (l->terms[i].coef != 0 || !l->fast_math)
      l->terms[kept++] = l->terms[i];
  l->n = kept;
}

static bool usable(const list *l) {
  if (l->given_up || (l->n == 0 && (l->product || !l->fast_math)) || !isfinite(l->number))
    return false;
  if (l->product)
    return l->number != 0 && fabs(l->number) > 1e-30 && fabs(l->number) < 1e30;
  for (int i = 0; i < l->n; i++)
    if (l->terms[i].coef == 0 || fabs(l->terms[i].coef) < 1e-30 || fabs(l->terms[i].coef) > 1e30)
      return false;
  return l->most == 0 || l->fast_math || fabs(l->number) >= l->most / 4;
}

static void normalise(list *l, sn_value v) {
  class_id root = l->of[v.id];
  sn_type type = l->g->values[v.id].type;
  l->n = l->depth = 0;
  l->given_up = false;
  l->dtype = type.dtype;
  l->number = l->product ? 1 : 0;
  l->most = 0;
  if (l->product)
    gather_product(l, v, 1, true);
  else
    gather_sum(l, v, 1, true);
  drop_cancelled(l);
  if (!usable(l))
    return;
  qsort(l->terms, (size_t)l->n, sizeof(term), by_size);
  class_id form = l->n == 0 ? egraph_uniform(l->e, &type, l->number)
                            : expanded(l, l->product ? write_product(l) : write_sum(l), &type);
  if (form)
    (void)egraph_merge(l->e, root, form);
}

/* Whether v is the top of its tree: read by more than one, or by something else. */
static void mark_inner(const list *l, const bool *live, bool *inner_sum, bool *inner_product) {
  const sn_graph *g = l->g;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    for (int k = 0; live[i] && k < n->n_in; k++)
      if (n->in[k].id && l->reads[n->in[k].id] == 1) {
        inner_sum[n->in[k].id] = is_sum(n->op) || scales(l, n);
        inner_product[n->in[k].id] = is_product(n->op) && !scales(l, n);
      }
  }
}

static void count_reads(const sn_graph *g, const bool *live, uint32_t *reads) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (int k = 0; live[i] && k < g->nodes[i].n_in; k++)
      reads[g->nodes[i].in[k].id]++;
  for (int i = 0; i < g->n_outputs; i++)
    reads[g->outputs[i].value.id] += 2; /* never inside of a tree */
  for (int i = 0; i < g->n_assigns; i++)
    reads[g->assigns[i].value.id] += 2;
}

sn_status opt_normalise(egraph *e, const bool *live, const class_id *of, bool fast_math) {
  const sn_graph *g = e->input;
  uint32_t *reads = arena_array(&e->memory, g->n_values, sizeof *reads);
  bool *inner_sum = arena_array(&e->memory, g->n_values, sizeof *inner_sum);
  bool *inner_product = arena_array(&e->memory, g->n_values, sizeof *inner_product);
  if (!reads || !inner_sum || !inner_product)
    return SN_ERR_NO_MEMORY;
  count_reads(g, live, reads);
  list l = {.e = e, .g = g, .of = of, .reads = reads, .fast_math = fast_math};
  mark_inner(&l, live, inner_sum, inner_product);
  for (uint32_t i = 0; i < g->n_nodes && e->status == SN_OK; i++) {
    const node *n = &g->nodes[i];
    if (!live[i] || !dtype_is_float(g->values[n->first].type.dtype) ||
        class_of(&l, node_result(n, 0))->uniform)
      continue;
    bool sum = is_sum(n->op) || scales(&l, n), product = is_product(n->op) && !scales(&l, n);
    l.product = product;
    if (sum ? !inner_sum[n->first] : product && !inner_product[n->first])
      normalise(&l, node_result(n, 0));
  }
  egraph_rebuild(e);
  return e->status;
}
