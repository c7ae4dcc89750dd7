/* Contractions: a group whose accumulator sums products of two operands, each loaded through a region of its own.
 *
 * The op's element is reduce(a * b) with casts, maybe a bias behind it. Running it with the services below takes it
 * apart: what it reads of its first two arguments goes into the operands' regions, the sum becomes an accumulator, the rest goes
 * into the epilogue. It is run twice: once to see which axes of the result each operand moves along (both: batch;
 * the first: m; the second: n), then with the axes in that order. */
#include "ops/table.h"
#include "plan/fuse.h"

enum { REG_A = 0xfff0, REG_B, REG_PRODUCT };

typedef struct contraction {
  elem_ctx c;
  emission *e; /* into the epilogue */
  const node *n;
  fuse_product *p;
} contraction;

static emission operand_emission(const contraction *k, dag *into) {
  emission e = *k->e;
  e.into = into;
  e.root_place = NULL;
  return e;
}

static void move_coord(coord *c, const reg *where) {
  for (int k = 0; k < c->n; k++)
    if (c->terms[k].axis == TERM_REG)
      c->terms[k].from = where[c->terms[k].from];
}

/* Registers that the place names were made in the epilogue: they move into the operand. */
static bool move_place(const contraction *k, dag *into, place *at) {
  const dag *from = k->e->into;
  reg *where = arena_array(&k->e->f->memory, (size_t)from->n + 1, sizeof *where);
  if (!where || !dag_append(into, from, 0, where)) {
    if (!where || into->no_memory)
      k->e->f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  for (int d = 0; d < at->rank; d++)
    move_coord(&at->c[d], where);
  for (int c = 0; c < at->n_checks; c++)
    move_coord(&at->checks[c].of, where);
  return true;
}

static reg contract_input(elem_ctx *c, int i, const place *at) {
  contraction *k = (contraction *)c;
  if (i > 1)
    return emit_value(k->e, k->n->in[i].id, at, 1);
  emission e = operand_emission(k, i ? &k->p->b : &k->p->a);
  place own = *at;
  if (!move_place(k, e.into, &own)) {
    k->e->f->failed = true;
    return 0;
  }
  *(i ? &k->p->root_b : &k->p->root_a) = emit_value(&e, k->n->in[i].id, &own, 1);
  return i ? REG_B : REG_A;
}

static reg contract_add(elem_ctx *c, const instr *i) {
  contraction *k = (contraction *)c;
  fuse *f = k->e->f;
  bool operand = i->op == REGION_ALU && (i->a == REG_A || i->a == REG_B);
  if (operand && i->code == ALU_cast && i->dtype == SN_F32)
    return i->a; /* lanes of halves are f32 */
  if (operand && i->code == ALU_mul && (i->b == REG_A || i->b == REG_B) && i->a != i->b)
    return REG_PRODUCT;
  f->failed = f->failed || i->a >= REG_A || i->b >= REG_A || i->c >= REG_A;
  return emit_add(k->e, i);
}

static void contract_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  contraction *k = (contraction *)c;
  fuse_group *g = k->e->f->groups[k->e->group];
  k->p->n_k = n;
  for (int i = 0; i < n; i++) {
    k->p->k[i] = extents[i];
    g->extent[g->n_axes + i] = extents[i];
    out[i] = coord_axis(g->n_axes + i);
  }
}

static reg contract_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  contraction *k = (contraction *)c;
  fuse *f = k->e->f;
  f->failed = f->failed || kind != REDUCE_SUM || body != REG_PRODUCT || dtype != SN_F32;
  instr acc = {.op = REGION_ACC, .dtype = SN_F32, .index = 0};
  return emit_add(k->e, &acc);
}

static void contract_require_size(elem_ctx *c, sn_dim size, const char *what) {
  (void)c;
  (void)size;
  (void)what;
}

static void contract_require(elem_ctx *c, reg holds, reg shown, const char *message) {
  (void)holds;
  (void)shown;
  (void)message;
  ((contraction *)c)->e->f->failed = true;
}

static const elem_services services = {contract_input,  contract_add,          contract_axes,
                                       contract_reduce, contract_require_size, contract_require};

/* Runs the element of n at a place of the group's axes; the register of the result in the epilogue. */
static reg take_apart(fuse *f, const node *n, int group, const place *at, fuse_product *p) {
  fuse_group *g = f->groups[group];
  sn_type in[3] = {{0}};
  emission e = {.f = f, .group = group, .into = &g->d, .fresh = true};
  for (int k = 0; k < n->n_in && k < 3; k++)
    in[k] = n->in[k].id ? f->g->values[n->in[k].id].type : (sn_type){0};
  *p = (fuse_product){0};
  dag_init(&p->a, &f->memory, 0);
  dag_init(&p->b, &f->memory, 0);
  contraction own = {.e = &e, .n = n, .p = p};
  own.c = (elem_ctx){.services = &services,
                     .graph = f->g,
                     .op = n->op,
                     .name = graph_op(f->g, n)->name,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .in = in,
                     .out = &f->g->values[n->first].type,
                     .axis_extents = g->extent};
  f->failed = false;
  return graph_op(f->g, n)->impl->element(&own.c, at);
}

static void mark_axes(const term *t, int n, bool *moves) {
  for (int k = 0; k < n; k++)
    if (t[k].axis != TERM_REG)
      moves[t[k].axis] = true;
}

/* Of what the operand needs: registers that were moved in for a place may serve the other operand only. */
static void find_axes(const dag *d, reg root, bool *moves) {
  bool sink[REGION_MAX] = {false}, needed[REGION_MAX] = {false};
  sink[root] = true;
  dag_mark(d, sink, needed);
  for (int k = 0; k < d->n; k++) {
    const access *a = &d->nodes[k].i.at;
    if (!needed[k])
      continue;
    mark_axes(a->terms, a->n_terms, moves);
    for (int c = 0; c < a->n_checks; c++)
      mark_axes(a->checks[c].terms, a->checks[c].n_terms, moves);
  }
}

/* The order batch, m, n of the axes, which were in the result's order. */
static void order_axes(fuse_group *g, const fuse_product *p, place *at) {
  bool in_a[256] = {false}, in_b[256] = {false};
  int order[REGION_AXES], n = 0;
  find_axes(&p->a, p->root_a, in_a);
  find_axes(&p->b, p->root_b, in_b);
  for (int role = 0; role < 3; role++)
    for (int axis = 0; axis < g->n_axes; axis++) {
      int has = in_a[axis] && in_b[axis] ? 0 : in_b[axis] ? 2 : 1;
      if (has != role)
        continue;
      order[n++] = axis;
      *(role == 0 ? &g->n_batch : role == 1 ? &g->n_m : &g->n_n) += 1;
    }
  sn_dim old[REGION_AXES];
  memcpy(old, g->extent, sizeof old);
  for (int k = 0; k < n; k++)
    g->extent[k] = old[order[k]];
  for (int d = 0; d < at->rank; d++)
    for (int k = 0; k < n && at->c[d].n; k++)
      if (at->c[d].terms[0].axis == order[k]) {
        at->c[d].terms[0].axis = (uint8_t)k;
        break;
      }
}

/* In a group of its own; false when an operand cannot be loaded as it is. */
static bool contract_alone(fuse *f, const node *n) {
  int group = fuse_add_group(f, GROUP_MATMUL, n);
  place at;
  fuse_product probe, *p = arena_alloc(&f->memory, sizeof *p);
  if (group < 0 || !p) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  fuse_group *g = f->groups[group];
  g->n_axes = place_of_axes(fuse_shape(f, n->first), 0, &at, g->extent);
  (void)take_apart(f, n, group, &at, &probe);
  if (!f->failed) {
    dag_truncate(&g->d, 0);
    g->n_memo = 0;
    memset(g->memo_head, 0, sizeof g->memo_head);
    order_axes(g, &probe, &at);
    const place *kept = fuse_keep_place(f, &at);
    reg r = kept ? take_apart(f, n, group, kept, p) : (reg)0;
    g->acc[0] = (fuse_acc){.products = p};
    g->n_accs = 1;
    if (!f->failed && f->status == SN_OK)
      return fuse_add_member(f, group, n->first, r, kept);
  }
  f->n_groups--;
  return false;
}

sn_status fuse_contraction(fuse *f, const node *n) {
  if (contract_alone(f, n))
    return SN_OK;
  for (int k = 0; k < n->n_in && f->status == SN_OK; k++)
    if (n->in[k].id && f->values[n->in[k].id].state == VALUE_FLOAT)
      SN_TRY(fuse_alone(f, n->in[k].id));
  if (f->status == SN_OK && contract_alone(f, n))
    return SN_OK;
  if (f->status != SN_OK)
    return f->status;
  return diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: %s cannot be taken apart",
                   graph_op(f->g, n)->name);
}
