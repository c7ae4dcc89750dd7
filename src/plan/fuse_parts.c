/* Groups into parts of steps. Regions are laid out, accesses move into the program's memory and name its values. Parts of one
 * stage that can be one launch become one step: they cannot depend on each other. */
#include "ops/cost.h"
#include "ops/table.h"
#include "plan/fuse_steps.h"

draft *steps_add(assembly *a, archetype kind, section where) {
  draft *d = arena_alloc(&a->f->memory, sizeof *d);
  if (!d || !fuse_room(&a->f->memory, (void **)&a->drafts, a->n_drafts, &a->cap_drafts,
                       sizeof *a->drafts))
    return NULL;
  *d = (draft){.kind = kind, .where = where, .anchor = UINT32_MAX, .launches = 1, .name = ""};
  a->drafts[a->n_drafts++] = d;
  return d;
}

sn_status steps_add_part(assembly *a, draft *d, const part *p) {
  if (!fuse_room(&a->p->memory, (void **)&d->parts, d->n_parts, &d->cap_parts, sizeof *d->parts))
    return SN_ERR_NO_MEMORY;
  d->parts[d->n_parts++] = *p;
  return SN_OK;
}

bool steps_keep_access(assembly *a, access *at) {
  arena *memory = &a->p->memory;
  if (at->n_terms &&
      !(at->terms = arena_copy(memory, at->terms, (size_t)at->n_terms * sizeof(term))))
    return false;
  check *checks =
      at->n_checks ? arena_copy(memory, at->checks, (size_t)at->n_checks * sizeof *checks) : NULL;
  if (at->n_checks && !checks)
    return false;
  for (int k = 0; k < at->n_checks; k++)
    if (checks[k].n_terms &&
        !(checks[k].terms =
              arena_copy(memory, checks[k].terms, (size_t)checks[k].n_terms * sizeof(term))))
      return false;
  at->checks = checks;
  return true;
}

/* Accesses of laid out code, which is the program's: kept, and naming the program's values. */
static bool settle(assembly *a, draft *d, region *r) {
  for (int k = 0; k < r->n; k++) {
    instr *i = (instr *)(uintptr_t)&r->code[k];
    if (!steps_keep_access(a, &i->at))
      return false;
    if (!i->at.value)
      continue;
    i->at.value = a->f->values[i->at.value].id;
    d->bytes += (double)a->p->values[i->at.value].bytes;
  }
  return true;
}

static bool has_reduce(const region *r) {
  for (int k = 0; k < r->n; k++)
    if (r->code[k].op == REGION_REDUCE)
      return true;
  return false;
}

/* Rows that store images do so at the end: a device may then share a row among several of its units. */
static bool stores_late(const fuse *f, const fuse_group *g) {
  for (int k = 0; k < g->n_members; k++)
    if (f->values[g->members[k]].channels)
      return true;
  return false;
}

static sn_status loop_from(assembly *a, const fuse_group *g, draft *d, part *out) {
  loop_part *l = &out->u.loop;
  *out = (part){.u.loop = {.n_axes = g->n_axes, .n_outer = g->n_outer}};
  memcpy(l->extent, g->extent, sizeof l->extent);
  bool late = stores_late(a->f, g);
  SN_TRY(dag_layout(&g->d, g->sink, late, &a->p->memory, &l->code, &l->n_phases));
  d->kind = has_reduce(&l->code) ? STEP_ROW : STEP_POINTWISE;
  return settle(a, d, &l->code) ? SN_OK : SN_ERR_NO_MEMORY;
}

/* --- matmul --- */

static sn_status operand_from(assembly *a, draft *d, const dag *from, reg root, region *out) {
  bool *sink = arena_array(&a->f->memory, (size_t)from->n + 1, sizeof *sink);
  if (!sink)
    return SN_ERR_NO_MEMORY;
  sink[root] = true;
  SN_TRY(dag_flatten(from, sink, &a->p->memory, out));
  return settle(a, d, out) ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status acc_from(assembly *a, draft *d, const fuse_acc *acc, matmul_acc *out) {
  int n = 0;
  for (const fuse_product *p = acc->products; p; p = p->next)
    n++;
  matmul_product *products = arena_array(&a->p->memory, (size_t)n, sizeof *products);
  *out = (matmul_acc){n, products};
  if (!products)
    return SN_ERR_NO_MEMORY;
  n = 0;
  for (const fuse_product *p = acc->products; p; p = p->next, n++) {
    products[n].n_k = p->n_k;
    memcpy(products[n].k, p->k, sizeof p->k);
    SN_TRY(operand_from(a, d, &p->a, p->root_a, &products[n].a));
    SN_TRY(operand_from(a, d, &p->b, p->root_b, &products[n].b));
  }
  return SN_OK;
}

static sn_status matmul_from(assembly *a, const fuse_group *g, draft *d, part *out) {
  matmul_part *m = &out->u.matmul;
  int index[FUSE_ACCS] = {0};
  int op = a->f->g->nodes[g->anchor].op;
  *out = (part){.u.matmul = {.n_batch = g->n_batch, .n_m = g->n_m, .n_n = g->n_n}};
  m->gradient = op == OP_conv_grad_input || op == OP_conv_grad_weight;
  memcpy(m->extent, g->extent, sizeof m->extent);
  matmul_acc *accs = arena_array(&a->p->memory, FUSE_ACCS, sizeof *accs);
  m->accs = accs;
  d->kind = STEP_MATMUL;
  if (!accs)
    return SN_ERR_NO_MEMORY;
  SN_TRY(dag_flatten(&g->d, g->sink, &a->p->memory, &m->epilogue));
  if (!settle(a, d, &m->epilogue))
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < g->n_accs; k++) {
    if (!g->acc[k].used || !g->acc[k].products)
      continue;
    index[k] = m->n_accs;
    SN_TRY(acc_from(a, d, &g->acc[k], &accs[m->n_accs++]));
  }
  for (int k = 0; k < m->epilogue.n; k++) {
    instr *i = (instr *)(uintptr_t)&m->epilogue.code[k];
    if (i->op == REGION_ACC)
      i->index = (uint32_t)index[i->index];
  }
  return SN_OK;
}

/* --- cores --- */

static strided dense(assembly *a, uint32_t value) {
  const sn_type *type = &a->f->g->values[value].type;
  strided s = {
      .value = a->f->values[value].id, .dtype = (uint8_t)type->dtype, .rank = type->shape.rank};
  sn_dim stride = 1;
  for (int d = s.rank - 1; d >= 0; d--) {
    s.dim[d] = type->shape.dim[d];
    s.stride[d] = stride;
    stride = sn_dim_mul(a->f->g, stride, s.dim[d]);
  }
  return s;
}

static sn_status core_from(assembly *a, int group, draft *d, part *out) {
  fuse *f = a->f;
  const fuse_group *g = f->groups[group];
  const node *n = &f->g->nodes[g->anchor];
  core_part *c = &out->u.core;
  *out = (part){.u.core = {.n_in = n->n_in, .n_out = n->n_out}};
  for (int k = 0; k < n->n_in; k++) {
    SN_TRY(core_operand(f, group, n->in[k].id, &c->in[k]));
    c->in[k].value = f->values[c->in[k].value].id;
    d->bytes += c->in[k].value ? (double)a->p->values[c->in[k].value].bytes : 0;
  }
  for (int k = 0; k < n->n_out; k++) {
    c->out[k] = dense(a, n->first + (uint32_t)k);
    d->bytes += c->out[k].value ? (double)a->p->values[c->out[k].value].bytes : 0;
  }
  if (!core_shape(f->g, n, c, &d->kind))
    return diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: operands of %s do not fold",
                     graph_op(f->g, n)->name);
  if (d->kind == STEP_ATTENTION_GRAD)
    d->launches = 3;
  if (d->kind != STEP_SCATTER)
    return SN_OK;
  return steps_take_base(a, g, c->out[0].value, &c->in[0].value);
}

/* --- steps --- */

static double flops_of(const fuse *f, const fuse_group *g) {
  double total = 0;
  for (int k = 0; k < g->n_members; k++) {
    const node *n = fuse_node(f, g->members[k]);
    sn_type in[MAX_INPUTS] = {{0}}, out[MAX_RESULTS];
    double flops, bytes;
    if (n->first != g->members[k])
      continue;
    for (int i = 0; i < n->n_in && i < MAX_INPUTS; i++)
      in[i] = n->in[i].id ? f->g->values[n->in[i].id].type : (sn_type){0};
    for (int i = 0; i < n->n_out; i++)
      out[i] = f->g->values[n->first + (uint32_t)i].type;
    op_cost(f->g, n->op, n->attrs, n->n_in < MAX_INPUTS ? n->n_in : MAX_INPUTS, in, n->n_out, out,
            &flops, &bytes);
    total += flops;
  }
  return total;
}

/* "layers.0: matmul+add": where it stands in the model, and the first of its ops. */
static const char *name_of(assembly *a, const fuse_group *g) {
  enum { MOST = 5 };
  const fuse *f = a->f;
  const char *scope = f->g->nodes[g->anchor].scope;
  int n = 0, length = (int)strlen(scope);
  text t;
  while (length && scope[length - 1] == '.')
    length--;
  text_init(&t, f->g->ctx);
  text_printf(&t, "%.*s%s", length, scope, length ? ": " : "");
  for (int k = 0; k < g->n_members && n < MOST; k++) {
    const node *made = fuse_node(f, g->members[k]);
    if (made->first == g->members[k])
      text_printf(&t, "%s%s", n++ ? "+" : "", graph_op(f->g, made)->name);
  }
  if (!g->n_members)
    text_printf(&t, "%s check", graph_op(f->g, &f->g->nodes[g->anchor])->name);
  const char *name = text_done(&t) == SN_OK ? arena_strdup(&a->p->memory, t.data) : NULL;
  text_free(&t);
  return name;
}

/* Both load the same value as an operand: one pass over it can serve both. */
static bool share_operand(const draft *d, const part *p) {
  const matmul_product *x = &p->u.matmul.accs[0].products[0];
  for (int k = 0; k < d->n_parts; k++) {
    const matmul_product *y = &d->parts[k].u.matmul.accs[0].products[0];
    uint32_t xa = x->a.code[0].at.value, xb = x->b.code[0].at.value;
    uint32_t ya = y->a.code[0].at.value, yb = y->b.code[0].at.value;
    if (xa == ya || xb == yb || xa == yb || xb == ya)
      return true;
  }
  return false;
}

static draft *find_draft(assembly *a, const draft *made, const part *p, int *first) {
  for (int k = a->n_drafts - 1; k >= 0 && k >= *first; k--) {
    draft *d = a->drafts[k];
    if (d->kind != made->kind || d->where != made->where || d->kind > STEP_MATMUL || !d->n_parts)
      continue;
    if (d->stage != made->stage)
      continue;
    if (d->kind != STEP_MATMUL || share_operand(d, p))
      return d;
  }
  return NULL;
}

draft *steps_find_final(assembly *a) {
  for (int k = 0; k < a->n_drafts; k++)
    if (a->drafts[k]->where == SECTION_COMMIT && a->drafts[k]->stage == STAGE_FINAL &&
        a->drafts[k]->kind == STEP_POINTWISE)
      return a->drafts[k];
  return NULL;
}

/* An update reads nothing of its base, but the base must be there. */
static sn_status take_base(assembly *a, draft *d, const fuse_group *g) {
  if (!g->updates)
    return SN_OK;
  uint32_t base = a->f->values[g->updates].id;
  SN_TRY(steps_take_base(a, g, a->f->values[g->members[0]].id, &base));
  if (!fuse_room(&a->f->memory, (void **)&d->after_values, d->n_after_values, &d->cap_after_values,
                 sizeof *d->after_values))
    return SN_ERR_NO_MEMORY;
  d->after_values[d->n_after_values++] = base;
  return SN_OK;
}

static sn_status add_after(assembly *a, draft *d, const fuse_group *g) {
  for (int k = 0; k < g->n_after; k++) {
    if (!fuse_room(&a->f->memory, (void **)&d->after, d->n_after, &d->cap_after, sizeof *d->after))
      return SN_ERR_NO_MEMORY;
    d->after[d->n_after++] = fuse_root(a->f, g->after[k]);
  }
  return SN_OK;
}

/* Steps that a group may become part of: those of its stage; updates: of their bundle, or the one that ends the run. */
static int stage_of(const assembly *a, const fuse_group *g) {
  if (!g->final)
    return g->stage;
  return a->lean ? STAGE_BUNDLES + g->bundle : STAGE_FINAL;
}

static sn_status step_from(assembly *a, int group) {
  fuse_group *g = a->f->groups[group];
  draft made = {.where = (section)g->section, .launches = 1, .stage = stage_of(a, g)};
  part p;
  if (g->kind == GROUP_LOOP)
    SN_TRY(loop_from(a, g, &made, &p));
  else if (g->kind == GROUP_MATMUL)
    SN_TRY(matmul_from(a, g, &made, &p));
  else
    SN_TRY(core_from(a, group, &made, &p));
  int first = 0;
  draft *d = a->f->options->no_fusion ? NULL : find_draft(a, &made, &p, &first);
  if (!d) {
    d = steps_add(a, made.kind, made.where);
    if (!d)
      return SN_ERR_NO_MEMORY;
    d->stage = made.stage;
    d->launches = made.launches;
    d->name = name_of(a, g);
    if (!d->name)
      return SN_ERR_NO_MEMORY;
  }
  uint32_t anchor = g->final && a->lean ? 0 : g->anchor; /* updates: as soon as they can be made */
  d->anchor = anchor < d->anchor ? anchor : d->anchor;
  d->bytes += made.bytes;
  d->flops += flops_of(a->f, g);
  SN_TRY(add_after(a, d, g));
  SN_TRY(take_base(a, d, g));
  return steps_add_part(a, d, &p);
}

sn_status steps_from_groups(assembly *a) {
  for (int k = 0; k < a->f->n_groups; k++)
    if (a->f->groups[k]->merged < 0 && !a->f->groups[k]->dead)
      SN_TRY(step_from(a, k));
  return SN_OK;
}
