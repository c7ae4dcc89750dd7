/* See egraph.h: union-find, hash-consing, deferred rebuild. */
#include "opt/egraph.h"

enum { FIRST_NODES = 256 };

static bool no_memory(egraph *e) {
  if (e->status == SN_OK)
    e->status = diag_fail(e->dims->ctx, SN_ERR_NO_MEMORY, "out of memory while optimising a graph");
  return false;
}

static bool reserve(egraph *e, void **array, uint32_t n, uint32_t *cap, size_t each) {
  if (n < *cap)
    return true;
  uint32_t wider = *cap ? *cap * 2 : FIRST_NODES;
  void *grown = arena_array(&e->memory, wider, each);
  if (!grown)
    return no_memory(e);
  if (n)
    memcpy(grown, *array, n * each);
  *array = grown;
  *cap = wider;
  return true;
}

sn_status egraph_init(egraph *e, sn_graph *dims, const op_table *table) {
  *e = (egraph){.dims = dims, .table = table};
  arena_init(&e->memory, dims->ctx);
  e->n_buckets = 2 * FIRST_NODES;
  e->buckets = arena_array(&e->memory, e->n_buckets, sizeof *e->buckets);
  uint32_t cap = 0;
  if (!e->buckets || !reserve(e, (void **)&e->classes, 0, &e->cap_classes, sizeof(eclass *)) ||
      !reserve(e, (void **)&e->leader, 0, &cap, sizeof(class_id)))
    return SN_ERR_NO_MEMORY;
  e->n_classes = 1; /* class 0: no value */
  return SN_OK;
}

void egraph_end(egraph *e) { arena_clear(&e->memory); }

class_id egraph_find(egraph *e, class_id c) {
  while (e->leader[c] != c) {
    e->leader[c] = e->leader[e->leader[c]];
    c = e->leader[c];
  }
  return c;
}

size_t egraph_attrs_size(const egraph *e, int op) {
  return op == OP_PROJECT ? sizeof(int64_t) : e->table->ops[op].attrs_size;
}

/* Constants are compared by content, as in graphs. */
static uint64_t hash_attrs(const egraph *e, uint64_t h, int op, const void *attrs) {
  if (op != OP_constant)
    return hash_long(h, attrs, egraph_attrs_size(e, op));
  const attrs_constant *a = attrs;
  h = hash_long(h, attrs, offsetof(attrs_constant, data));
  return hash_long(h, a->data.data, a->data.size);
}

static bool same_attrs(const egraph *e, int op, const void *x, const void *y) {
  if (x == y)
    return true;
  if (op != OP_constant)
    return memcmp(x, y, egraph_attrs_size(e, op)) == 0;
  const attrs_constant *a = x, *b = y;
  return memcmp(a, b, offsetof(attrs_constant, data)) == 0 && a->data.size == b->data.size &&
         memcmp(a->data.data, b->data.data, a->data.size) == 0;
}

static uint64_t hash_node(const egraph *e, int op, const class_id *in, int n_in,
                          const void *attrs) {
  uint64_t h = hash_long(HASH_SEED, &op, sizeof op);
  h = hash_long(h, in, (size_t)n_in * sizeof *in);
  return hash_attrs(e, h, op, attrs);
}

/* Arguments in the order of their classes where their order means nothing. */
static void sort_arguments(int op, class_id *in, int n_in) {
  if (n_in != 2 || !op_commutes(op) || in[0] <= in[1])
    return;
  class_id first = in[0];
  in[0] = in[1];
  in[1] = first;
}

static enode *lookup(const egraph *e, uint64_t hash, int op, const class_id *in, int n_in,
                     const void *attrs) {
  uint32_t i = e->buckets[hash & (e->n_buckets - 1)];
  for (; i; i = e->nodes[i - 1]->next_hashed) {
    enode *n = e->nodes[i - 1];
    if (n->hash == hash && n->op == op && n->n_in == n_in &&
        (n_in == 0 || memcmp(n->in, in, (size_t)n_in * sizeof *in) == 0) &&
        same_attrs(e, op, n->attrs, attrs))
      return n;
  }
  return NULL;
}

static void link_node(egraph *e, enode *n) {
  uint32_t *bucket = &e->buckets[n->hash & (e->n_buckets - 1)];
  n->next_hashed = *bucket;
  *bucket = n->id + 1;
}

static void unlink_node(egraph *e, const enode *n) {
  uint32_t *at = &e->buckets[n->hash & (e->n_buckets - 1)];
  while (*at && *at != n->id + 1)
    at = &e->nodes[*at - 1]->next_hashed;
  if (*at)
    *at = n->next_hashed;
}

/* Staying small is only slower. */
static void grow_buckets(egraph *e) {
  if (e->n_nodes < e->n_buckets)
    return;
  uint32_t *wider = arena_array(&e->memory, (size_t)e->n_buckets * 4, sizeof *wider);
  if (!wider)
    return;
  e->buckets = wider;
  e->n_buckets *= 4;
  for (uint32_t i = 0; i < e->n_nodes; i++)
    if (!e->nodes[i]->dead)
      link_node(e, e->nodes[i]);
}

bool egraph_infer_all(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                      sn_type *out) {
  sn_type types[MAX_INPUTS] = {0};
  const op_desc *d = &e->table->ops[op];
  if (n_in > MAX_INPUTS)
    return false;
  for (int i = 0; i < n_in; i++)
    types[i] = in[i] ? egraph_class(e, in[i])->type : (sn_type){0};
  infer_ctx c = {e->dims, d, attrs, n_in, types, out};
  bool ok = d->impl->infer(&c) == SN_OK && e->dims->status == SN_OK;
  return ok || egraph_forgive(e);
}

/* The result's type from the op; false when the arguments do not fit, which is no error here. */
bool egraph_infer(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                  sn_type *out) {
  sn_type results[MAX_RESULTS] = {0};
  if (e->table->ops[op].n_results != 1 || !egraph_infer_all(e, op, in, n_in, attrs, results))
    return false;
  *out = results[0];
  return true;
}

bool egraph_forgive(egraph *e) {
  if (e->dims->status == SN_ERR_NO_MEMORY)
    return no_memory(e);
  e->dims->status = SN_OK;
  e->dims->message = "";
  return false;
}

static class_id add_class(egraph *e, const sn_type *type) {
  uint32_t cap = e->cap_classes;
  eclass *c = arena_alloc(&e->memory, sizeof *c);
  if (!c)
    return (class_id)no_memory(e);
  if (!reserve(e, (void **)&e->leader, e->n_classes, &cap, sizeof(class_id)) ||
      !reserve(e, (void **)&e->classes, e->n_classes, &e->cap_classes, sizeof(eclass *)))
    return 0;
  c->type = *type;
  c->bytes = type_bytes(e->dims, type);
  e->classes[e->n_classes] = c;
  e->leader[e->n_classes] = e->n_classes;
  return e->n_classes++;
}

static bool add_parent(egraph *e, eclass *c, enode *n) {
  parent_link *link = arena_alloc(&e->memory, sizeof *link);
  if (!link)
    return no_memory(e);
  *link = (parent_link){n, NULL};
  if (c->last_parent)
    c->last_parent->next = link;
  else
    c->parents = link;
  c->last_parent = link;
  return true;
}

static enode *new_node(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                       bool copy) {
  enode *n = arena_alloc(&e->memory, sizeof *n);
  class_id *kept = arena_copy(&e->memory, in, (size_t)n_in * sizeof *in);
  if (n && copy)
    attrs = arena_copy(&e->memory, attrs, egraph_attrs_size(e, op));
  if (!n || !kept || !attrs ||
      !reserve(e, (void **)&e->nodes, e->n_nodes, &e->cap_nodes, sizeof(enode *))) {
    (void)no_memory(e);
    return NULL;
  }
  *n = (enode){.op = (uint16_t)op,
               .rule = e->adding_rule,
               .n_in = n_in,
               .in = kept,
               .attrs = attrs,
               .id = e->n_nodes};
  e->nodes[e->n_nodes++] = n;
  return n;
}

static class_id insert(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                       const sn_type *type, bool copy, uint64_t hash) {
  class_id c = add_class(e, type);
  enode *n = c ? new_node(e, op, in, n_in, attrs, copy) : NULL;
  if (!n)
    return 0;
  n->cls = c;
  n->hash = hash;
  e->classes[c]->first = e->classes[c]->last = n;
  link_node(e, n);
  grow_buckets(e);
  for (int i = 0; i < n_in; i++)
    if (in[i] && (i == 0 || in[i] != in[i - 1]) && !add_parent(e, e->classes[in[i]], n))
      return 0;
  egraph_note(e, e->classes[c], n);
  egraph_touch(e, c);
  return e->status == SN_OK ? c : 0;
}

class_id egraph_add(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                    const sn_type *type, bool copy) {
  class_id few[MAX_INPUTS], *canonical = few;
  if (e->status != SN_OK)
    return 0;
  if (n_in > MAX_INPUTS)
    canonical = arena_array(&e->memory, (size_t)n_in, sizeof *canonical);
  if (!canonical)
    return (class_id)no_memory(e);
  for (int i = 0; i < n_in; i++)
    canonical[i] = egraph_find(e, in[i]);
  sort_arguments(op, canonical, n_in);
  uint64_t hash = hash_node(e, op, canonical, n_in, attrs);
  const enode *same = lookup(e, hash, op, canonical, n_in, attrs);
  if (same)
    return egraph_find(e, same->cls);
  if (e->max_nodes && e->n_nodes >= e->max_nodes) {
    e->full = true;
    return 0;
  }
  sn_type inferred;
  if (!type && !egraph_infer(e, op, canonical, n_in, attrs, &inferred))
    return 0;
  return insert(e, op, canonical, n_in, attrs, type ? type : &inferred, copy, hash);
}

class_id egraph_add_tuple(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                          const sn_type *results) {
  static const sn_type several = {0};
  uint32_t before = e->n_nodes;
  class_id c = egraph_add(e, op, in, n_in, attrs, &several, true);
  if (c && e->n_nodes > before)
    for (int i = 0; i < e->table->ops[op].n_results; i++)
      e->classes[c]->bytes += type_bytes(e->dims, &results[i]);
  return c;
}

class_id egraph_add_first(egraph *e, int op, const class_id *in, int n_in, const void *attrs,
                          const sn_type *results) {
  static const int64_t first = 0;
  class_id c = egraph_add_tuple(e, op, in, n_in, attrs, results);
  return c ? egraph_add(e, OP_PROJECT, &c, 1, &first, &results[0], true) : 0;
}

class_id egraph_uniform(egraph *e, const sn_type *type, double value) {
  attrs_full a;
  memset(&a, 0, sizeof a);
  a.dtype = type->dtype;
  a.shape.rank = type->shape.rank;
  for (int d = 0; d < type->shape.rank; d++)
    a.shape.dim[d] = type->shape.dim[d];
  a.value = value;
  return egraph_add(e, OP_full, NULL, 0, &a, type, true);
}

static void join_facts(eclass *to, const eclass *from) {
  to->prepared = to->prepared || from->prepared;
  if (!to->constant)
    to->constant = from->constant;
  if (from->uniform && !to->uniform) {
    to->uniform = true;
    to->value = from->value;
  }
  if (from->origin && (!to->origin || from->origin < to->origin))
    to->origin = from->origin;
}

bool egraph_merge(egraph *e, class_id a, class_id b) {
  a = egraph_find(e, a);
  b = egraph_find(e, b);
  if (a == b || !a || !b)
    return a == b && a;
  if (b < a) {
    class_id swap = a;
    a = b;
    b = swap;
  }
  eclass *to = e->classes[a], *from = e->classes[b];
  if (!type_equal(to->type, from->type))
    return false;
  if (!reserve(e, (void **)&e->pending, e->n_pending, &e->cap_pending, sizeof(class_id)))
    return false;
  e->leader[b] = a;
  to->last->next = from->first;
  to->last = from->last;
  if (to->last_parent)
    to->last_parent->next = from->parents;
  else
    to->parents = from->parents;
  if (from->last_parent)
    to->last_parent = from->last_parent;
  join_facts(to, from);
  e->merges++;
  e->pending[e->n_pending++] = a;
  return true;
}

/* A parent of a merged class: its arguments are made canonical, and it may turn out to be another's equal. */
static void repair(egraph *e, enode *n) {
  bool changed = false;
  for (int i = 0; i < n->n_in; i++)
    changed = changed || egraph_find(e, n->in[i]) != n->in[i];
  if (!changed)
    return;
  unlink_node(e, n);
  for (int i = 0; i < n->n_in; i++)
    n->in[i] = egraph_find(e, n->in[i]);
  sort_arguments(n->op, n->in, n->n_in);
  n->hash = hash_node(e, n->op, n->in, n->n_in, n->attrs);
  enode *same = lookup(e, n->hash, n->op, n->in, n->n_in, n->attrs);
  if (!same) {
    link_node(e, n);
    egraph_note(e, egraph_class(e, n->cls), n);
    return;
  }
  n->dead = true;
  if (n->origin && (!same->origin || n->origin < same->origin))
    same->origin = n->origin;
  egraph_merge(e, n->cls, same->cls);
}

void egraph_rebuild(egraph *e) {
  while (e->n_pending && e->status == SN_OK) {
    class_id c = egraph_find(e, e->pending[--e->n_pending]);
    egraph_touch(e, c);
    for (parent_link *p = e->classes[c]->parents; p; p = p->next)
      if (!p->node->dead)
        repair(e, p->node);
  }
}

static void touch(egraph *e, class_id c, unsigned levels) {
  eclass *k = e->classes[c];
  if ((levels & 1) && !k->dirty) {
    if (!reserve(e, (void **)&e->dirty, e->n_dirty, &e->cap_dirty, sizeof(class_id)))
      return;
    e->dirty[e->n_dirty++] = c;
    k->dirty = true;
  }
  if (k->felt_in != e->round)
    k->felt = 0;
  k->felt_in = e->round;
  if (!e->levels || (levels & ~1u & ~(unsigned)k->felt) == 0)
    return;
  k->felt = (uint16_t)(k->felt | levels);
  for (parent_link *p = k->parents; p; p = p->next) {
    unsigned up = p->node->dead ? 0 : (levels >> 1) & e->levels[p->node->op];
    if (up)
      touch(e, egraph_find(e, p->node->cls), up);
  }
}

void egraph_touch(egraph *e, class_id c) { touch(e, egraph_find(e, c), UINT16_MAX); }
