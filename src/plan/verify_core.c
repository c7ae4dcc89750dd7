/* See verify.h: steps with an algorithm of their own. Operands must be, element by element, the arguments of the op that the results
 * belong to, seen through views; results stand where they should; numbers are the op's attributes.
 */
#include "plan/verify.h"

typedef struct core_check {
  verifier *v;
  int step;
  const core_part *c;
  const node *n;
  bool attention;
  sn_layout layout;
} core_check;

/* How an operand is seen: its dims, and which coordinates of the argument a point is. */
typedef struct core_view {
  int rank;
  int64_t dim[SN_MAX_RANK];
  enum { VIEW_LINEAR, VIEW_PLAIN, VIEW_HEADS, VIEW_SCORES } kind; /* LINEAR: as if reshaped */
} core_view;

static int64_t product(const sn_shape *s, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++)
    n *= s->dim[d];
  return n;
}

static core_view view2(int64_t a, int64_t b) {
  return (core_view){.rank = 2, .dim = {a, b}, .kind = VIEW_LINEAR};
}

static core_view flat_view(const sn_shape *s) {
  return (core_view){.rank = 1, .dim = {product(s, 0, s->rank)}, .kind = VIEW_LINEAR};
}

static core_view axis_view_of(const sn_shape *s, int64_t axis) {
  int a = (int)(axis < 0 ? axis + s->rank : axis);
  return (core_view){.rank = 3,
                     .dim = {product(s, 0, a), s->dim[a], product(s, a + 1, s->rank)},
                     .kind = VIEW_LINEAR};
}

static const sn_shape *shape_of(const core_check *k, uint32_t value) {
  return &k->v->types[value].shape;
}

/* --- attention --- */

static core_view heads_view(const core_check *k, const sn_shape *s) {
  int h = k->layout == SN_LAYOUT_BHSD ? 1 : 2;
  return (core_view){
      .rank = 4, .dim = {s->dim[0], s->dim[h], s->dim[3 - h], s->dim[3]}, .kind = VIEW_HEADS};
}

static core_view plain_view(const sn_shape *s) {
  core_view w = {.rank = s->rank, .kind = VIEW_PLAIN};
  memcpy(w.dim, s->dim, sizeof w.dim);
  return w;
}

static core_view scores_view(const core_check *k) {
  core_view q = heads_view(k, shape_of(k, k->n->in[0].id));
  core_view key = heads_view(k, shape_of(k, k->n->in[1].id));
  return (core_view){
      .rank = 4, .dim = {q.dim[0], q.dim[1], q.dim[2], key.dim[2]}, .kind = VIEW_SCORES};
}

static core_view attention_view(const core_check *k, int i, bool out, const sn_shape *s) {
  bool grad = k->n->op == OP_attention_grad;
  bool heads = out ? grad ? i < 3 : i == 0 : i < 3 || i == 8 || i == 9;
  bool scores = out ? grad && i == 3 && k->n->in[4].id : i == 3 || i == 4;
  return heads ? heads_view(k, s) : scores ? scores_view(k) : plain_view(s);
}

/* --- the others --- */

static core_view scatter_view(int i, bool out, const sn_shape *s, int index_rank) {
  if (out || i == 0)
    return view2(s->dim[0], product(s, 1, s->rank));
  return i == 1 ? flat_view(s) : view2(product(s, 0, index_rank), product(s, index_rank, s->rank));
}

static core_view view_of(const core_check *k, int i, bool out, uint32_t value) {
  const sn_shape *s = shape_of(k, value);
  const void *a = k->n->attrs;
  switch (k->n->op) {
  case OP_attention:
  case OP_attention_grad: return attention_view(k, i, out, s);
  case OP_scatter_set:
  case OP_scatter_add: return scatter_view(i, out, s, shape_of(k, k->n->in[1].id)->rank);
  case OP_scatter_along_set: return axis_view_of(s, ((const attrs_scatter_along_set *)a)->axis);
  case OP_scatter_along_add: return axis_view_of(s, ((const attrs_scatter_along_add *)a)->axis);
  case OP_cumsum: return axis_view_of(s, ((const attrs_cumsum *)a)->axis);
  case OP_cumprod: return axis_view_of(s, ((const attrs_cumprod *)a)->axis);
  case OP_sort: return axis_view_of(s, ((const attrs_sort *)a)->axis);
  case OP_topk: return axis_view_of(s, ((const attrs_topk *)a)->axis);
  case OP_sample:
    return out || i == 1 ? flat_view(s) : view2(product(s, 0, s->rank - 1), s->dim[s->rank - 1]);
  default: return flat_view(s);
  }
}

/* --- numbers --- */

static bool numbers_are(const core_part *c, const int64_t *ints, int n_ints, const double *reals,
                        int n_reals) {
  for (int k = 0; k < n_ints; k++)
    if (c->ints[k] != ints[k])
      return false;
  for (int k = 0; k < n_reals; k++)
    if (c->reals[k] != reals[k])
      return false;
  return true;
}

/* The archetype and the numbers of step.h for the op; false when they are others. */
static bool numbers_agree(const core_check *k, archetype *kind) {
  const core_part *c = k->c;
  const void *at = k->n->attrs;
  switch (k->n->op) {
  case OP_attention: {
    const attrs_attention *a = at;
    *kind = STEP_ATTENTION;
    return numbers_are(c, (int64_t[]){a->causal, a->window}, 2, (double[]){a->scale, a->softcap},
                       2);
  }
  case OP_attention_grad: {
    const attrs_attention_grad *a = at;
    *kind = STEP_ATTENTION_GRAD;
    return numbers_are(c, (int64_t[]){a->causal, a->window}, 2, (double[]){a->scale, a->softcap},
                       2);
  }
  case OP_scatter_set: *kind = STEP_SCATTER; return numbers_are(c, (int64_t[]){0, -1}, 2, NULL, 0);
  case OP_scatter_add: *kind = STEP_SCATTER; return numbers_are(c, (int64_t[]){1, -1}, 2, NULL, 0);
  case OP_scatter_along_set:
    *kind = STEP_SCATTER;
    return numbers_are(c, (int64_t[]){0, 1}, 2, NULL, 0);
  case OP_scatter_along_add:
    *kind = STEP_SCATTER;
    return numbers_are(c, (int64_t[]){1, 1}, 2, NULL, 0);
  case OP_cumsum: {
    const attrs_cumsum *a = at;
    *kind = STEP_SCAN;
    return numbers_are(c, (int64_t[]){0, a->exclusive, a->reverse}, 3, NULL, 0);
  }
  case OP_cumprod: {
    const attrs_cumprod *a = at;
    *kind = STEP_SCAN;
    return numbers_are(c, (int64_t[]){1, a->exclusive, a->reverse}, 3, NULL, 0);
  }
  case OP_sort:
    *kind = STEP_SORT;
    return numbers_are(c, (int64_t[]){((const attrs_sort *)at)->descending}, 1, NULL, 0);
  case OP_topk:
    *kind = STEP_SORT;
    return numbers_are(c, (int64_t[]){((const attrs_topk *)at)->largest}, 1, NULL, 0);
  case OP_sample: {
    const attrs_sample *a = at;
    *kind = STEP_SAMPLE;
    return numbers_are(c, (int64_t[]){a->top_k, a->stream}, 2,
                       (double[]){a->temperature, a->top_p, a->min_p, a->repetition_penalty}, 4);
  }
  case OP_permutation:
    *kind = STEP_PERMUTE;
    return numbers_are(c, (int64_t[]){((const attrs_permutation *)at)->stream}, 1, NULL, 0);
  default: *kind = STEP_ARCHETYPES; return true;
  }
}

/* --- operands --- */

static void coordinates_of(const core_check *k, const core_view *w, const int64_t *point,
                           uint32_t value, int64_t *out) {
  const sn_type *type = &k->v->types[value];
  int64_t number = 0;
  memset(out, 0, SN_MAX_RANK * sizeof *out);
  switch (w->kind) {
  case VIEW_LINEAR:
    for (int d = 0; d < w->rank; d++)
      number = number * w->dim[d] + point[d];
    expect_coordinates(type, number, out);
    return;
  case VIEW_HEADS:
    memcpy(out, point, 4 * sizeof *out);
    if (k->layout == SN_LAYOUT_BSHD) {
      out[1] = point[2];
      out[2] = point[1];
    }
    return;
  case VIEW_SCORES:
    for (int d = 0; d < type->shape.rank; d++)
      out[d] = type->shape.dim[d] == 1 ? 0 : point[4 - type->shape.rank + d];
    return;
  case VIEW_PLAIN: memcpy(out, point, (size_t)w->rank * sizeof *out); return;
  }
}

static int64_t number_of(const sn_shape *s, const int64_t *at) {
  int64_t number = 0;
  for (int d = 0; d < s->rank; d++)
    number = number * s->dim[d] + at[d];
  return number;
}

/* One operand or result against argument or result i of the node. */
static sn_status check_operand(const core_check *k, int i, bool out, const strided *s,
                               uint32_t value) {
  verifier *v = k->v;
  core_view w = view_of(k, i, out, value);
  int64_t points[VERIFY_LANES][VERIFY_AXES], at[SN_MAX_RANK];
  bool same = s->rank == w.rank && s->dtype == v->types[value].dtype;
  for (int d = 0; d < w.rank && same; d++)
    same = verify_size(v, s->dim[d]) == w.dim[d];
  if (!same)
    return verify_fail(v, k->step, s->value, "is %s %d of %s with other sizes than the graph's",
                       out ? "result" : "operand", i, graph_op(v->g, k->n)->name);
  int n = pick_points(v, w.dim, w.rank, NULL, 0, points);
  for (int p = 0; p < n; p++) {
    int64_t found = verify_size(v, s->base);
    for (int d = 0; d < w.rank; d++)
      found += points[p][d] * verify_size(v, s->stride[d]);
    coordinates_of(k, &w, points[p], value, at);
    found = expect_number(&v->p->values[s->value], found);
    bool fits = out ? found == number_of(shape_of(k, value), at)
                    : expect_load(v, v->p->values[s->value].source, found).hash ==
                          expect_element(v, value, at, false).hash;
    SN_TRY(v->status);
    if (!fits)
      return verify_fail(v, k->step, s->value,
                         "element %lld is not where %s %d of %s has it in the graph's value %u",
                         (long long)found, out ? "result" : "operand", i,
                         graph_op(v->g, k->n)->name, value);
  }
  return SN_OK;
}

/* A scatter writes into its base where the two share memory; element by element they must be the same then. */
static sn_status check_scatter(const core_check *k) {
  const strided *base = &k->c->in[0], *out = &k->c->out[0];
  const program_value *from = &k->v->p->values[base->value], *to = &k->v->p->values[out->value];
  if (!bytes_overlap(value_bytes(from), value_bytes(to)))
    return SN_OK;
  bool same = base->base == out->base;
  for (int d = 0; d < out->rank; d++)
    same = same && (base->stride[d] == out->stride[d] || verify_size(k->v, out->dim[d]) <= 1);
  return same ? SN_OK
              : verify_fail(k->v, k->step, out->value,
                            "is a scatter's result over its base, but "
                            "through other strides");
}

static sn_status check_numbers(const core_check *k) {
  archetype kind;
  bool agree = numbers_agree(k, &kind);
  const char *name = graph_op(k->v->g, k->n)->name;
  if (kind != k->v->p->steps[k->step].kind)
    return verify_fail(k->v, k->step, 0, "is %s, but makes results of %s",
                       archetype_name(k->v->p->steps[k->step].kind), name);
  return agree ? SN_OK
               : verify_fail(k->v, k->step, 0, "has other numbers than the attributes of %s", name);
}

sn_status verify_core(verifier *v, int at_step, const core_part *c) {
  core_check k = {.v = v, .step = at_step, .c = c};
  for (int i = 0; i < c->n_out && !k.n; i++)
    if (c->out[i].value)
      k.n = graph_node(v->g, (sn_value){verify_target(v, &v->p->values[c->out[i].value])});
  if (!k.n)
    return verify_fail(v, at_step, 0, "makes nothing");
  SN_TRY(check_numbers(&k));
  k.layout = k.n->op == OP_attention        ? ((const attrs_attention *)k.n->attrs)->layout
             : k.n->op == OP_attention_grad ? ((const attrs_attention_grad *)k.n->attrs)->layout
                                            : SN_LAYOUT_BHSD;
  expect_open_part(v);
  for (int i = 0; i < c->n_in; i++)
    if (c->in[i].value)
      expect_loads(v, v->p->values[c->in[i].value].source);
  for (int i = 0; i < k.n->n_in || i < c->n_in; i++) {
    uint32_t value = i < k.n->n_in ? k.n->in[i].id : 0;
    uint32_t operand = i < c->n_in ? c->in[i].value : 0;
    if (!value != !operand)
      return verify_fail(
          v, at_step, operand, "operand %d of %s is %s", i, graph_op(v->g, k.n)->name,
          operand ? "there, but left out in the graph" : "left out, but there in the graph");
    if (value)
      SN_TRY(check_operand(&k, i, false, &c->in[i], value));
  }
  for (int i = 0; i < c->n_out; i++) {
    if (!c->out[i].value)
      continue;
    uint32_t value = verify_target(v, &v->p->values[c->out[i].value]);
    if (i >= k.n->n_out || value != k.n->first + (uint32_t)i)
      return verify_fail(v, at_step, c->out[i].value, "is not result %d of %s", i,
                         graph_op(v->g, k.n)->name);
    SN_TRY(check_operand(&k, i, true, &c->out[i], value));
  }
  return v->p->steps[at_step].kind == STEP_SCATTER ? check_scatter(&k) : SN_OK;
}
