/* After all nodes have been visited: parts that check what ops require, then, from the last stage back, which members are
 * stored and what of each group serves a store. What serves nothing goes. */
#include "ops/table.h"
#include "plan/fuse.h"

#include <stdlib.h>

/* --- requirements --- */

static void mark_terms(const term *t, int n, bool *used) {
  for (int k = 0; k < n; k++)
    if (t[k].axis != TERM_REG)
      used[t[k].axis] = true;
}

static void mark_sinks(fuse_group *g, region_op op) {
  for (int k = 0; k < g->d.n; k++)
    g->sink[k] = g->sink[k] || g->d.nodes[k].i.op == op;
}

static bool make_sinks(fuse *f, fuse_group *g) {
  enum { STORES_ROOM = 1 };
  g->sink = arena_array(&f->memory, (size_t)(g->d.n + g->n_members + STORES_ROOM), sizeof *g->sink);
  if (!g->sink)
    f->status = SN_ERR_NO_MEMORY;
  return g->sink;
}

/* What cores require of integers: lo <= element of input < hi. They have no element that could say it. */
typedef struct core_check {
  int input; /* -1: nothing */
  bool from_zero;
  sn_dim size;
  const char *message;
  sn_shape unless; /* one of these is 0: then the result has no elements, and nothing is checked */
} core_check;

static sn_dim dim_at(const fuse *f, uint32_t value, int64_t axis) {
  sn_shape shape = fuse_shape(f, value);
  return shape.dim[axis < 0 ? axis + shape.rank : axis];
}

static core_check scatter_check(const fuse *f, const node *n, int64_t axis) {
  sn_shape result = fuse_shape(f, n->first);
  core_check c = {1, true, dim_at(f, n->in[0].id, axis), "index %d is outside of its base", {0}};
  for (int d = 0; d < result.rank; d++)
    if (result.dim[d] == 0)
      c.input = -1;
    else if (!dim_is_number(result.dim[d]))
      c.unless.dim[c.unless.rank++] = result.dim[d];
  return c;
}

static core_check check_of(const fuse *f, const node *n) {
  switch (n->op) {
  case OP_scatter_set:
  case OP_scatter_add: return scatter_check(f, n, 0);
  case OP_scatter_along_set:
    return scatter_check(f, n, ((const attrs_scatter_along_set *)n->attrs)->axis);
  case OP_scatter_along_add:
    return scatter_check(f, n, ((const attrs_scatter_along_add *)n->attrs)->axis);
  case OP_attention:
  case OP_attention_grad: {
    sn_layout layout = n->op == OP_attention ? ((const attrs_attention *)n->attrs)->layout
                                             : ((const attrs_attention_grad *)n->attrs)->layout;
    sn_dim keys = dim_at(f, n->in[1].id, layout == SN_LAYOUT_BHSD ? 2 : 1);
    return (core_check){n->in[5].id ? 5 : -1,
                        true,
                        sn_dim_add(f->g, keys, 1),
                        "kv_length is %d, which is not within the keys",
                        {0}};
  }
  case OP_sample:
    return (core_check){n->in[2].id ? 2 : -1,
                        false,
                        dim_at(f, n->in[0].id, -1),
                        "the history has id %d, which there is not",
                        {0}};
  default: return (core_check){.input = -1};
  }
}

bool core_requires(const fuse *f, const node *n) { return check_of(f, n).input >= 0; }

/* Over what a node's checks run: the integers of a core, the result of other ops. */
static sn_shape checked_shape(const fuse *f, const node *n) {
  core_check c = check_of(f, n);
  return fuse_shape(f, c.input >= 0 ? n->in[c.input].id : n->first);
}

static void emit_core_check(emission *e, const node *n, const core_check *c, const place *at) {
  reg index = emit_value(e, n->in[c->input].id, at, 1);
  bool plain = dim_is_number(c->size);
  instr low = {.op = REGION_NUMBER, .dtype = SN_I32};
  instr high = {.op = plain ? REGION_NUMBER : REGION_SIZE,
                .dtype = SN_I32,
                .size = plain ? 0 : c->size,
                .x = plain ? (double)c->size : 0};
  instr above = {.op = REGION_ALU, .code = ALU_ge, .dtype = SN_BOOL, .a = index};
  instr below = {.op = REGION_ALU, .code = ALU_lt, .dtype = SN_BOOL, .a = index};
  instr both = {.op = REGION_ALU, .code = ALU_and, .dtype = SN_BOOL};
  below.b = dag_add(e->into, &high);
  reg holds = dag_add(e->into, &below);
  if (c->from_zero) {
    above.b = dag_add(e->into, &low);
    both.a = dag_add(e->into, &above);
    both.b = holds;
    holds = dag_add(e->into, &both);
  }
  for (int d = 0; d < c->unless.rank; d++) {
    instr size = {.op = REGION_SIZE, .dtype = SN_I32, .size = c->unless.dim[d]};
    instr none = {.op = REGION_ALU, .code = ALU_eq, .dtype = SN_BOOL};
    instr either = {.op = REGION_ALU, .code = ALU_or, .dtype = SN_BOOL, .a = holds};
    none.a = dag_add(e->into, &size);
    none.b = dag_add(e->into, &low);
    either.b = dag_add(e->into, &none);
    holds = dag_add(e->into, &either);
  }
  e->f->failed = e->f->failed || e->into->full;
  emit_require(e, n, holds, index, c->message);
}

static sn_status emit_checks(fuse *f, const node *n, int group, const place *at) {
  fuse_group *g = f->groups[group];
  emission e = {.f = f,
                .group = group,
                .into = &g->d,
                .fresh = true,
                .checking = (uint32_t)(n - f->g->nodes) + 1};
  f->failed = false;
  core_check own = check_of(f, n);
  if (own.input >= 0)
    emit_core_check(&e, n, &own, at);
  else
    (void)emit_node(&e, n, at, 0);
  if (f->status != SN_OK)
    return f->status;
  return f->failed
             ? diag_fail(f->g->ctx, SN_ERR_INTERNAL,
                         "fuse: the checks of %s do not fit into a region", graph_op(f->g, n)->name)
             : SN_OK;
}

/* Axes of the result that a check does not depend on are left out, but for those that may be empty. */
static sn_status find_check_axes(fuse *f, const node *n, int group, bool *used) {
  fuse_group *g = f->groups[group];
  place at;
  g->n_axes = place_of_axes(checked_shape(f, n), 0, &at, g->extent);
  SN_TRY(emit_checks(f, n, group, &at));
  bool *needed = arena_array(&f->memory, (size_t)g->d.n + 1, sizeof *needed);
  if (!needed || !make_sinks(f, g))
    return SN_ERR_NO_MEMORY;
  mark_sinks(g, REGION_REQUIRE);
  dag_mark(&g->d, g->sink, needed);
  for (int k = 0; k < g->d.n; k++) {
    const access *a = &g->d.nodes[k].i.at;
    if (!needed[k])
      continue;
    mark_terms(a->terms, a->n_terms, used);
    for (int c = 0; c < a->n_checks; c++)
      mark_terms(a->checks[c].terms, a->checks[c].n_terms, used);
  }
  return SN_OK;
}

static bool same_region(const region *a, const region *b) {
  if (a->n != b->n)
    return false;
  for (int k = 0; k < a->n; k++) {
    const instr *i = &a->code[k], *j = &b->code[k];
    if (i->op != j->op || i->code != j->code || i->a != j->a || i->b != j->b || i->c != j->c ||
        i->index != j->index || i->size != j->size || i->x != j->x || i->at.value != j->at.value ||
        i->at.base != j->at.base || i->at.n_terms != j->at.n_terms || i->at.n_checks ||
        j->at.n_checks)
      return false;
    for (int t = 0; t < i->at.n_terms; t++)
      if (i->at.terms[t].axis != j->at.terms[t].axis ||
          i->at.terms[t].from != j->at.terms[t].from ||
          i->at.terms[t].stride != j->at.terms[t].stride ||
          i->at.terms[t].div != j->at.terms[t].div || i->at.terms[t].mod != j->at.terms[t].mod)
        return false;
  }
  return true;
}

/* A check that is made, and over what. */
typedef struct made_check {
  region code;
  const fuse_group *group;
} made_check;

/* The same code over fewer points, or none, checks less. */
static bool same_check(const made_check *a, const made_check *b) {
  const fuse_group *x = a->group, *y = b->group;
  return x->n_axes == y->n_axes &&
         memcmp(x->extent, y->extent, (size_t)x->n_axes * sizeof *x->extent) == 0 &&
         same_region(&a->code, &b->code);
}

static sn_status check_node(fuse *f, const node *n, made_check *seen, int *n_seen) {
  bool used[256] = {false};
  int group = fuse_add_group(f, GROUP_LOOP, n), phases;
  if (group < 0)
    return f->status;
  SN_TRY(find_check_axes(f, n, group, used));
  f->n_groups--;
  group = fuse_add_group(f, GROUP_LOOP, n);
  if (group < 0)
    return f->status;
  fuse_group *g = f->groups[group];
  g->prepared = false;
  g->stage = 0;
  sn_shape shape = checked_shape(f, n);
  place at = {.rank = shape.rank};
  int axis = 0;
  for (int d = 0; d < shape.rank; d++) {
    if (shape.dim[d] == 1)
      continue;
    bool always = dim_is_number(shape.dim[d]) && shape.dim[d] > 0;
    if (used[axis++] || !always) {
      g->extent[g->n_axes] = shape.dim[d];
      at.c[d] = coord_axis(g->n_axes++);
    }
  }
  SN_TRY(emit_checks(f, n, group, &at));
  if (!make_sinks(f, g))
    return f->status;
  mark_sinks(g, REGION_REQUIRE);
  made_check *own = &seen[*n_seen];
  own->group = g;
  SN_TRY(dag_layout(&g->d, g->sink, false, &f->memory, &own->code, &phases));
  for (int k = 0; k < *n_seen; k++)
    g->dead = g->dead || same_check(&seen[k], own);
  g->sink = NULL;
  *n_seen += !g->dead;
  return SN_OK;
}

static sn_status add_checks(fuse *f) {
  int n_checks = 0, n_seen = 0;
  for (uint32_t i = 0; i < f->g->n_nodes; i++)
  n_checks += f->nodes[i].live && f->nodes[i].requires;
  made_check *seen = arena_array(&f->memory, (size_t)n_checks + 1, sizeof *seen);
  if (!seen)
    return SN_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < f->g->n_nodes; i++)
    if (f->nodes[i].live && f->nodes[i].requires)
      SN_TRY(check_node(f, &f->g->nodes[i], seen, &n_seen));
  return SN_OK;
}

/* --- stores --- */

static bool add_read(fuse *f, fuse_group *g, uint32_t value) {
  fuse_value *v = &f->values[value];
  if (v->state != VALUE_MEMBER)
    return true;
  int home = fuse_root(f, v->group);
  v->stored = true;
  v->readers_of_store++; /* at least the number of groups: a bound is enough */
  for (int k = 0; k < g->n_reads; k++)
    if (g->reads[k] == home)
      return true;
  if (!fuse_room(&f->memory, (void **)&g->reads, g->n_reads, &g->cap_reads, sizeof *g->reads)) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  g->reads[g->n_reads++] = home;
  return true;
}

static bool read_dag(fuse *f, fuse_group *g, const dag *d, const bool *needed) {
  for (int k = 0; k < d->n; k++)
    if (needed[k] && d->nodes[k].i.op == REGION_LOAD && !add_read(f, g, d->nodes[k].i.at.value))
      return false;
  return true;
}

static bool read_operand(fuse *f, fuse_group *g, const dag *d, reg root) {
  bool *needed = arena_array(&f->memory, (size_t)d->n + 1, sizeof *needed);
  bool *sink = arena_array(&f->memory, (size_t)d->n + 1, sizeof *sink);
  if (!needed || !sink) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  sink[root] = true;
  dag_mark(d, sink, needed);
  return read_dag(f, g, d, needed);
}

/* add(acc i, acc j), each read by nothing else, is one accumulator with the products of both. */
static void sum_products(fuse_group *g, const bool *needed) {
  int uses[REGION_MAX] = {0};
  for (int k = 0; k < g->d.n; k++) {
    const instr *i = &g->d.nodes[k].i;
    const reg args[] = {i->a, i->b, i->c};
    for (int a = 0; needed[k] && a < instr_arguments(i); a++)
      uses[args[a]]++;
  }
  for (int k = 0; k < g->d.n; k++) {
    instr *i = &g->d.nodes[k].i;
    if (!needed[k] || i->op != REGION_ALU || i->code != ALU_add || i->dtype != SN_F32 ||
        i->a == i->b)
      continue;
    const instr *a = &g->d.nodes[i->a].i, *b = &g->d.nodes[i->b].i;
    if (a->op != REGION_ACC || b->op != REGION_ACC || uses[i->a] != 1 || uses[i->b] != 1 ||
        g->acc[b->index].products->next)
      continue;
    fuse_product *last = g->acc[a->index].products;
    while (last->next)
      last = last->next;
    last->next = g->acc[b->index].products;
    g->acc[b->index].products = NULL;
    *i = *a;
  }
}

static bool finish_matmul(fuse *f, fuse_group *g, bool *needed) {
  sum_products(g, needed);
  memset(needed, 0, (size_t)g->d.n * sizeof *needed);
  dag_mark(&g->d, g->sink, needed);
  for (int k = 0; k < g->d.n; k++)
    if (needed[k] && g->d.nodes[k].i.op == REGION_ACC)
      g->acc[g->d.nodes[k].i.index].used = true;
  for (int k = 0; k < g->n_accs; k++)
    for (fuse_product *p = g->acc[k].products; p && g->acc[k].used; p = p->next)
      if (!read_operand(f, g, &p->a, p->root_a) || !read_operand(f, g, &p->b, p->root_b))
        return false;
  return true;
}

static bool add_stores(fuse *f, fuse_group *g) {
  bool any = false;
  g->d.limit = REGION_MAX;
  for (int k = 0; k < g->n_members; k++) {
    uint32_t value = g->members[k];
    const fuse_value *v = &f->values[value];
    access_room room;
    instr i = {.op = REGION_STORE, .dtype = (uint8_t)f->g->values[value].type.dtype, .a = v->r};
    if (!v->stored && !v->pinned)
      continue;
    if (g->updates) {
      g->sink[g->update_store] = true;
      continue;
    }
    if (!fuse_access(f, NULL, g->extent, value, fuse_shape(f, value), v->at, &room, &i.at)) {
      f->status = diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: a store has too many terms");
      return false;
    }
    g->sink[dag_add(&g->d, &i)] = true;
    any = true;
  }
  if (g->d.full)
    f->status = g->d.no_memory
                    ? SN_ERR_NO_MEMORY
                    : diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: a region is too long");
  mark_sinks(g, REGION_REQUIRE);
  for (int k = 0; k < g->d.n; k++)
    any = any || g->sink[k];
  if (any && g->updates && !add_read(f, g, g->updates))
    return false;
  g->dead = !any;
  return f->status == SN_OK;
}

static bool finish_core(fuse *f, fuse_group *g) {
  const node *n = &f->g->nodes[g->anchor];
  bool any = false;
  for (int k = 0; k < g->n_members; k++)
    any = any || f->values[g->members[k]].stored || f->values[g->members[k]].pinned;
  g->dead = !any;
  for (int k = 0; any && k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    while (v && f->values[v].state == VALUE_FLOAT)
      v = fuse_node(f, v)->in[0].id;
    if (v && !add_read(f, g, v))
      return false;
  }
  return true;
}

static bool finish_group(fuse *f, fuse_group *g) {
  if (g->kind == GROUP_CORE)
    return finish_core(f, g);
  if (!make_sinks(f, g) || !add_stores(f, g))
    return false;
  bool *needed = arena_array(&f->memory, (size_t)g->d.n + 1, sizeof *needed);
  if (!needed) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  if (g->dead)
    return true;
  dag_mark(&g->d, g->sink, needed);
  if (g->kind == GROUP_MATMUL && !finish_matmul(f, g, needed))
    return false;
  return read_dag(f, g, &g->d, needed);
}

static int by_stage(const void *a, const void *b) {
  const fuse_group *x = *(fuse_group *const *)a, *y = *(fuse_group *const *)b;
  if (x->stage != y->stage)
    return x->stage < y->stage ? -1 : 1;
  return x->anchor < y->anchor ? -1 : x->anchor > y->anchor;
}

sn_status fuse_sort_groups(fuse *f, fuse_group ***out_order, int *out_n) {
  fuse_group **order = arena_array(&f->memory, (size_t)f->n_groups + 1, sizeof(fuse_group *));
  int n = 0;
  *out_order = order;
  if (!order)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < f->n_groups; k++)
    if (f->groups[k]->merged < 0 && !f->groups[k]->dead)
      order[n++] = f->groups[k];
  qsort(order, (size_t)n, sizeof(fuse_group *), by_stage);
  *out_n = n;
  return SN_OK;
}

sn_status fuse_finish(fuse *f) {
  fuse_group **order;
  int n;
  SN_TRY(add_checks(f));
  SN_TRY(fuse_sort_groups(f, &order, &n));
  while (n-- > 0)
    if (!finish_group(f, order[n]))
      return f->status;
  return f->g->status == SN_OK ? SN_OK : graph_check(f->g, f->g->ctx);
}
