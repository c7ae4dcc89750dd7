/* Groups: how they come about, who joins them, which of them are one. */
#include "ops/table.h"
#include "plan/fuse.h"

int fuse_add_group(fuse *f, group_kind kind, const node *anchor) {
  fuse_group *g = arena_alloc(&f->memory, sizeof *g);
  if (!g ||
      !fuse_room(&f->memory, (void **)&f->groups, f->n_groups, &f->cap_groups, sizeof *f->groups)) {
    f->status = SN_ERR_NO_MEMORY;
    return -1;
  }
  *g = (fuse_group){.kind = kind, .merged = -1, .anchor = (uint32_t)(anchor - f->g->nodes)};
  /* What is large and made from nothing at no cost is made where it is used. */
  const fuse_value *v = &f->values[anchor->first];
  g->prepared =
      v->prepared && (v->leafy || v->flops >= 8 || v->elements <= 65536 || v->state != VALUE_FLOAT);
  g->stage = g->prepared ? STAGE_PREPARED : 0;
  dag_init(&g->d, &f->memory, 0);
  f->groups[f->n_groups] = g;
  return f->n_groups++;
}

static void add_shape(fuse_group *g, sn_shape shape, const place *at) {
  for (int k = 0; k < g->n_shapes; k++)
    if (shape_equal(g->shape[k], shape))
      return;
  if (g->n_shapes == FUSE_SHAPES || !at)
    return;
  g->shape[g->n_shapes] = shape;
  g->full[g->n_shapes++] = at;
}

/* In the order in which it is to stand: stores have no registers. */
static bool can_store(fuse *f, const fuse_group *g, uint32_t value, const place *at) {
  access_room room;
  access store;
  return at && fuse_access(f, NULL, g->extent, value, fuse_shape(f, value), at, &room, &store);
}

bool fuse_add_member(fuse *f, int group, uint32_t value, reg r, const place *at) {
  fuse_group *g = f->groups[group];
  if (!fuse_room(&f->memory, (void **)&g->members, g->n_members, &g->cap_members,
                 sizeof *g->members)) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  g->members[g->n_members++] = value;
  fuse_value *v = &f->values[value];
  if (v->state != VALUE_MEMBER && v->channels && !can_store(f, g, value, at))
    v->channels = 0; /* nobody reads it yet */
  v->state = VALUE_MEMBER;
  v->group = group;
  v->r = r;
  v->at = at;
  add_shape(g, fuse_shape(f, value), at);
  return true;
}

/* --- two groups into one --- */

static bool same_space(const fuse_group *a, const fuse_group *b) {
  if (a->kind != b->kind || a->kind == GROUP_CORE || a->updates || b->updates ||
      a->n_axes != b->n_axes || a->n_outer != b->n_outer || a->n_batch != b->n_batch ||
      a->n_m != b->n_m || a->n_n != b->n_n || a->n_accs + b->n_accs > FUSE_ACCS)
    return false;
  return memcmp(a->extent, b->extent, (size_t)a->n_axes * sizeof a->extent[0]) == 0;
}

/* Whether a dag loads what the group computes for itself. */
static bool loads_computed(const dag *d, const fuse_group *g) {
  for (int k = 0; k < d->n; k++)
    if (d->nodes[k].i.op == REGION_LOAD && fuse_computes(g, d->nodes[k].i.at.value))
      return true;
  return false;
}

/* What one loads the other must not compute: fuse_computes. */
static bool loads_of_each(const fuse_group *a, const fuse_group *b) {
  bool found = loads_computed(&a->d, b);
  for (int k = 0; k < a->n_accs; k++)
    for (const fuse_product *p = a->acc[k].products; p && !found; p = p->next)
      found = loads_computed(&p->a, b) || loads_computed(&p->b, b);
  return found;
}

static bool keep_memos(fuse *f, fuse_group *a, const fuse_group *b, const reg *where) {
  for (int k = 0; k < b->n_memo; k++)
    if (!fuse_remember(f, a, b->memo[k].value, b->memo[k].at, where[b->memo[k].r]))
      return false;
  return true;
}

bool fuse_merge(fuse *f, int into, int from) {
  fuse_group *a = f->groups[into], *b = f->groups[from];
  if (into == from || a->stage != b->stage || a->prepared != b->prepared ||
      a->commits != b->commits || !same_space(a, b) || loads_of_each(a, b) || loads_of_each(b, a))
    return false;
  reg *where = arena_array(&f->memory, (size_t)b->d.n + 1, sizeof *where);
  int mark = a->d.n;
  if (!where || !dag_append(&a->d, &b->d, a->n_accs, where)) {
    if (!where || a->d.no_memory)
      f->status = SN_ERR_NO_MEMORY;
    dag_truncate(&a->d, mark);
    return false;
  }
  if (!keep_memos(f, a, b, where))
    return false;
  for (int k = 0; k < b->n_accs; k++)
    a->acc[a->n_accs++] = b->acc[k];
  for (int k = 0; k < b->n_members; k++) {
    uint32_t v = b->members[k];
    if (!fuse_add_member(f, into, v, where[f->values[v].r], f->values[v].at))
      return false;
  }
  for (int k = 0; k < b->n_shapes; k++)
    add_shape(a, b->shape[k], b->full[k]);
  for (int k = 0; k < b->n_after; k++) {
    if (!fuse_room(&f->memory, (void **)&a->after, a->n_after, &a->cap_after, sizeof *a->after)) {
      f->status = SN_ERR_NO_MEMORY;
      return false;
    }
    a->after[a->n_after++] = b->after[k];
  }
  b->merged = into;
  a->read = a->read || b->read;
  return true;
}

static bool share_a_load(const fuse_group *a, const fuse_group *b) {
  for (int i = 0; i < a->d.n; i++)
    for (int j = 0; a->d.nodes[i].i.op == REGION_LOAD && j < b->d.n; j++)
      if (b->d.nodes[j].i.op == REGION_LOAD && b->d.nodes[j].i.at.value == a->d.nodes[i].i.at.value)
        return true;
  return false;
}

/* Whether a group may be of a later stage: rows of which nobody has read. */
static bool may_rise(const fuse_group *of, const fuse_group *to) {
  return of->stage < to->stage && of->n_outer > 0 && of->prepared == to->prepared &&
         of->commits == to->commits && !of->read;
}

/* Groups made shortly before, over the same space and with a load in common, take the new one in. */
static void merge_with_recent(fuse *f, int group) {
  enum { RECENT = 12 };
  fuse_group *g = f->groups[group];
  for (int k = group - 1; k >= 0 && k >= group - RECENT; k--) {
    fuse_group *of = f->groups[k];
    if (of->merged >= 0 || !same_space(of, g) || !share_a_load(of, g))
      continue;
    const int stages[] = {of->stage, g->stage};
    if (may_rise(of, g))
      of->stage = g->stage;
    else if (may_rise(g, of))
      g->stage = of->stage;
    if (of->stage == g->stage && fuse_merge(f, k, group))
      return;
    of->stage = stages[0], g->stage = stages[1];
  }
}

/* --- joining --- */

/* Members that a value's floating expression reads: groups of the stage of `into` are merged into it; false when one
 * cannot be. */
static bool gather_groups(fuse *f, uint32_t value, int into) {
  fuse_value *v = &f->values[value];
  if (v->stamp == f->stamp || v->state == VALUE_LEAF)
    return true;
  v->stamp = f->stamp;
  int home = fuse_root(f, v->group);
  if (v->state == VALUE_MEMBER)
    return home == into || f->groups[home]->stage < f->groups[into]->stage ||
           fuse_merge(f, into, home);
  const node *n = fuse_node(f, value);
  for (int k = 0; k < n->n_in; k++)
    if (fuse_reads(n, k) && !gather_groups(f, n->in[k].id, into))
      return false;
  return true;
}

static bool gather_arguments(fuse *f, const node *n, int into) {
  f->stamp++;
  for (int k = 0; k < n->n_in; k++)
    if (fuse_reads(n, k) && !gather_groups(f, n->in[k].id, into))
      return false;
  return true;
}

static int highest_group(fuse *f, const node *n) {
  int best = -1;
  for (int k = 0; k < n->n_in; k++) {
    int g = fuse_reads(n, k) ? fuse_root(f, f->values[n->in[k].id].group) : -1;
    if (g >= 0 && (best < 0 || f->groups[g]->stage > f->groups[best]->stage))
      best = g;
  }
  return best;
}

/* Whether a member of the group that n reads, through views, has no other reader: then n is stored in its stead. */
static bool sole_reader(const fuse *f, const node *n, int group) {
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = fuse_reads(n, k) ? n->in[k].id : 0;
    while (v && f->values[v].uses == 1 && f->values[v].state == VALUE_FLOAT &&
           fuse_facts(f, v)->view)
      v = fuse_node(f, v)->in[0].id;
    if (v && f->values[v].uses == 1 && !f->values[v].pinned && f->values[v].state == VALUE_MEMBER &&
        fuse_root(f, f->values[v].group) == group)
      return true;
  }
  return false;
}

typedef struct trial {
  int nodes, memos, after;
} trial;

static trial begin(const fuse_group *g) { return (trial){g->d.n, g->n_memo, g->n_after}; }

static void take_back(fuse_group *g, trial t) {
  dag_truncate(&g->d, t.nodes);
  while (g->n_memo > t.memos) {
    const memo *m = &g->memo[--g->n_memo];
    g->memo_head[m->value % COUNT_OF(g->memo_head)] = m->next;
  }
  g->n_after = t.after;
}

static bool try_at(fuse *f, const node *n, int group, const place *at) {
  fuse_group *g = f->groups[group];
  trial t = begin(g);
  place *kept = fuse_keep_place(f, at);
  emission e = {.f = f, .group = group, .into = &g->d};
  if (!kept)
    return false;
  f->failed = false;
  f->values[n->first].state = VALUE_FLOAT;
  reg r = emit_value(&e, n->first, kept, 0);
  if (!f->failed && f->status == SN_OK)
    return fuse_add_member(f, group, n->first, r, kept);
  take_back(g, t);
  return false;
}

bool fuse_adopt(fuse *f, int group, uint32_t value, uint32_t seen) {
  const fuse_group *g = f->groups[group];
  sn_shape shape = fuse_shape(f, seen);
  place at;
  for (int k = 0; k < g->n_shapes; k++)
    if (shape_equal(g->shape[k], shape))
      return place_reshape(NULL, f->g, g->extent, shape, g->full[k], fuse_shape(f, value), &at) &&
             try_at(f, fuse_node(f, value), group, &at);
  return false;
}

static bool may_join(const fuse *f, const node *n, int group) {
  const fuse_group *g = f->groups[group];
  const fuse_value *v = &f->values[n->first];
  if (g->kind == GROUP_CORE || g->updates || g->prepared != v->prepared ||
      g->commits != v->assigned)
    return false;
  return v->wanted || v->pinned || sole_reader(f, n, group);
}

bool fuse_join(fuse *f, const node *n) {
  int group = highest_group(f, n);
  place at;
  if (f->options->no_fusion || group < 0 || !may_join(f, n, group) ||
      !gather_arguments(f, n, group))
    return false;
  sn_shape shape = fuse_shape(f, n->first);
  f->values[n->first].state = VALUE_FLOAT;
  if (fuse_find_place(f, group, n->first, &at) && try_at(f, n, group, &at))
    return true;
  const fuse_group *g = f->groups[group];
  for (int k = 0; k < g->n_shapes && f->status == SN_OK; k++)
    if (shape_equal(g->shape[k], shape))
      return try_at(f, n, group, g->full[k]);
  return false;
}

/* --- groups of one's own --- */

/* Arguments that float, other than views, each into a group: when an expression is too long. */
static sn_status settle_arguments(fuse *f, const node *n, bool *out_any) {
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    if (!v || f->values[v].state != VALUE_FLOAT)
      continue;
    *out_any = true;
    SN_TRY(fuse_alone(f, v));
  }
  return SN_OK;
}

static sn_status cannot(fuse *f, const node *n) {
  if (f->status != SN_OK)
    return f->status;
  if (f->g->status != SN_OK)
    return graph_check(f->g, f->g->ctx);
  return diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: %s does not fit into a region",
                   graph_op(f->g, n)->name);
}

sn_status fuse_alone(fuse *f, uint32_t value) {
  const node *n = fuse_node(f, value);
  for (bool again = true; again;) {
    int group = fuse_add_group(f, GROUP_LOOP, n);
    place at;
    if (group < 0)
      return f->status;
    fuse_group *g = f->groups[group];
    g->commits = f->values[value].assigned;
    g->n_axes = place_of_axes(fuse_shape(f, value), 0, &at, g->extent);
    const place *kept = fuse_keep_place(f, &at);
    emission e = {.f = f, .group = group, .into = &g->d, .fresh = true};
    f->failed = false;
    f->values[value].state = VALUE_FLOAT;
    reg r = kept ? emit_value(&e, value, kept, 0) : (reg)0;
    if (!f->failed && f->status == SN_OK) {
      if (!fuse_add_member(f, group, value, r, kept))
        return f->status;
      if (!f->options->no_fusion)
        merge_with_recent(f, group);
      return f->status;
    }
    g->merged = group; /* nobody's */
    g->dead = true;
    f->n_groups--;
    again = false;
    if (f->status == SN_OK)
      SN_TRY(settle_arguments(f, n, &again));
  }
  return cannot(f, n);
}

/* --- reductions --- */

static bool reduce_in(fuse *f, const node *n, int group, bool fresh) {
  fuse_group *g = f->groups[group];
  place at;
  sn_dim extent[REGION_AXES + SN_MAX_RANK];
  int n_outer = place_of_axes(fuse_shape(f, n->first), 0, &at, extent);
  if (!fresh && (n_outer != g->n_outer || g->n_axes == g->n_outer ||
                 memcmp(extent, g->extent, (size_t)n_outer * sizeof extent[0]) != 0))
    return false;
  if (fresh) {
    g->n_axes = g->n_outer = g->d.n_outer = n_outer;
    g->d.limit = DAG_ROW_LIMIT;
    memcpy(g->extent, extent, sizeof extent);
  }
  trial t = begin(g);
  const place *kept = fuse_keep_place(f, &at);
  emission e = {.f = f, .group = group, .into = &g->d, .fresh = fresh, .root_axes = true};
  f->failed = false;
  reg r = kept ? emit_node(&e, n, kept, 0) : (reg)0;
  if (f->failed || f->status != SN_OK) {
    take_back(g, t);
    return false;
  }
  if (!fuse_add_member(f, group, n->first, r, kept))
    return false;
  /* a window does not: its axes may run through part of the argument, or meet elements twice */
  if (e.root_place && place_covers(f->g, g->extent, g->n_axes, e.root_shape, e.root_place))
    add_shape(g, e.root_shape, e.root_place);
  return true;
}

static int count_reductions(const dag *d) {
  int n = 0;
  for (int k = 0; k < d->n; k++)
    n += d->nodes[k].i.op == REGION_REDUCE;
  return n;
}

static bool join_reduce(fuse *f, const node *n) {
  int group = highest_group(f, n);
  if (f->options->no_fusion || group < 0)
    return false;
  const fuse_group *g = f->groups[group];
  if (g->kind != GROUP_LOOP || g->updates || !g->n_outer || g->commits ||
      g->prepared != f->values[n->first].prepared)
    return false;
  return count_reductions(&g->d) < DAG_REDUCTIONS && gather_arguments(f, n, group) &&
         reduce_in(f, n, group, false);
}

sn_status fuse_reduce(fuse *f, const node *n) {
  if (join_reduce(f, n))
    return SN_OK;
  for (bool again = true; again && f->status == SN_OK;) {
    int group = fuse_add_group(f, GROUP_LOOP, n);
    if (group < 0)
      return f->status;
    if (reduce_in(f, n, group, true)) {
      if (!f->options->no_fusion)
        merge_with_recent(f, group);
      return f->status;
    }
    f->n_groups--;
    again = false;
    if (f->status == SN_OK)
      SN_TRY(settle_arguments(f, n, &again));
  }
  return cannot(f, n);
}
